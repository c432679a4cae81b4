"""Parse the blocks of a corpus on Ray Data.

Each actor holds one parser. If an actor dies, Ray starts a new one and gives it the same block.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import platform
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from treefine import wording
from treefine.cli.outputs import Job, OutputOptions
from treefine.cli.parse import ModelChoice, load_parser
from treefine.cli.stream import JobRunner
from treefine.cli.terminal import say
from treefine.errors import TreefineError
from treefine.fast.file_workers import FileParser, default_workers
from treefine.integrations.corpus.blocks import place_in_file
from treefine.parsing.parser import Parser
from treefine.treebank.files import not_written, open_output
from treefine.version import __version__

MOST_ATTEMPTS = 3  # per block; otherwise a block that kills every worker would be retried forever
_MOST_TASKS = 10_000  # of Ray at a time; with more blocks, several share a task
_STORE = 100 << 20  # bytes of Ray's shared memory: it holds names of blocks, no text
_ENDED = (
    "treefine: The run was killed, or Ray ended it because one of Ray's processes died (see the logs of Ray). Run the "
    "same command again to resume."
)
_WATCH = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.exit(None if sys.stdin.read() else sys.argv[1])
"""
_NUMERICS = ".treefine.{device}.{precision}"  # records the device and precision of a folder's trees


@dataclass
class Outcome:
    """The outcome of a block, with errors and warnings as the user reads them."""

    target: str
    n_sentences: int = 0
    empty: list[str] = field(default_factory=list)  # inputs without a sentence
    warnings: dict[str, str] = field(default_factory=dict)  # the first of each kind; those of a kind have the same hint
    lost: dict[str, dict[str, int]] = field(
        default_factory=dict
    )  # items that an output format cannot store, by its title
    fault: str = ""  # why the block was not written
    is_worker_unfit: bool = False  # whether the worker cannot parse any block
    n_dead_workers: int = 0  # workers that died while parsing the block, in this run

    def save(self) -> None:
        """Write the messages to a file next to the output, so that a later run reports them too."""
        if self.empty or self.warnings or self.lost:
            with open_output(report_path(self.target), is_synced=True) as stream:
                stream.write(json.dumps(asdict(self)).encode())
        else:
            report_path(self.target).unlink(missing_ok=True)


def saved_outcome(target: str) -> Outcome:
    """Return the outcome of a finished block, as far as it was saved."""
    path = report_path(target)
    saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    # The earlier run may have used another name for the folder, and has reported its dead workers.
    return Outcome(**saved | {"target": target, "n_dead_workers": 0})


def report_path(target: str) -> Path:
    """Return the file next to an output that stores its messages."""
    return Path(target).with_name(f".{Path(target).name}.report")


def attempts_path(target: str) -> Path:
    """Return the file with one line per attempt at a block. If it remains, the workers died."""
    return Path(target).with_name(f".{Path(target).name}.attempt")


def output_folder(block: Job) -> Path:
    """Return the folder that the user named with -o; a block of an input in a subfolder is written below it."""
    return Path(block.target).parents[len(Path(block.inputs[0].subfolder).parts)]


class UnfitError(TreefineError):
    """A worker cannot parse any block."""


@dataclass
class BlockActor:
    """Parses blocks; it loads the parser with the first one.

    An error in a block is part of its outcome. After any other error the process ends, so that Ray starts a new one
    and repeats the block there: a process whose GPU has failed cannot use it again.
    """

    choice: ModelChoice
    wanted: OutputOptions
    folder: str  # the working directory of the command; file names are relative to it
    threads: int  # of a CPU
    workers: int | None  # processes that read and write files
    version: str  # of treefine, on the machine that runs the command
    _parser: Parser | None = None
    _files: FileParser | None = None

    def __call__(self, row: dict[str, bytes]) -> dict[str, str]:
        """Parse the pickled block of a row, and return a row with the outcome."""
        block: Job = pickle.loads(row["block"])
        outcome = Outcome(block.target)
        try:
            self._enter_folder()
            if Path(block.target).exists():  # the worker that wrote it died before it could report it
                outcome = saved_outcome(block.target)
                outcome.n_dead_workers = len(_attempts(block))
            else:
                outcome.n_dead_workers = len(_attempts(block))
                with _attempt(block):
                    self._parse(self._parser or self._load(output_folder(block)), block, outcome)
        except TreefineError as error:
            outcome.fault, outcome.is_worker_unfit = str(error), isinstance(error, UnfitError)
        return {"outcome": json.dumps(asdict(outcome))}

    def _enter_folder(self) -> None:
        if self.version != __version__:
            message = f"A worker has treefine {__version__}, but the command runs treefine {self.version}."
            raise UnfitError(message, hint="Install the same version on all machines.")
        try:
            os.chdir(self.folder)
        except OSError as error:
            message = f"A worker cannot enter the folder: {error.strerror}."
            hint = "Start from a folder that all machines share under this name."
            raise UnfitError(message, hint=hint, path=self.folder) from error

    def _load(self, folder: Path) -> Parser:
        torch.set_num_threads(self.threads)
        try:
            parser = load_parser(self.choice)
            _agree_on_numerics(folder, parser.device.type, parser.precision)
            self._files = FileParser.of(parser, self.workers)
        except TreefineError as error:
            raise UnfitError(str(error)) from error
        self._parser = parser
        return parser

    def _parse(self, parser: Parser, block: Job, outcome: Outcome) -> None:
        """Write the output of a block, and fill in its outcome."""
        (source,) = block.inputs

        def warn(warning: TreefineError) -> None:
            if warning.hint not in outcome.warnings:
                outcome.warnings[warning.hint] = str(place_in_file(warning, source))

        def advance(amount: int = 0, /, *, sentences: int = 0) -> None:
            outcome.n_sentences += sentences

        def note_empty(error: TreefineError) -> None:
            outcome.empty.append(str(error))

        runner = JobRunner(parser, self.wanted, advance, files=self._files, on_warning=warn, on_empty=note_empty)
        try:
            runner.run(block)
        except TreefineError as error:
            if self._files is not None and not error.path:  # a process that reads and writes files has died
                raise RuntimeError(str(error)) from error
            place_in_file(error, source)
            raise
        outcome.lost = {form.title: dict(lost) for form, lost in runner.lost.items() if lost}
        outcome.save()


def _attempts(block: Job) -> list[str]:
    """Return a line for each worker that died while parsing a block."""
    path = attempts_path(block.target)
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@contextmanager
def _attempt(block: Job) -> Iterator[None]:
    """Keep a line in a file while the block is parsed; the line stays if this process dies."""
    path, attempts = attempts_path(block.target), _attempts(block)
    if len(attempts) >= MOST_ATTEMPTS:
        _, colon, reason = attempts[-1].partition(": ")
        hint = "" if colon else "The usual reason is too little memory; see the logs of Ray."
        message = f"{MOST_ATTEMPTS} workers died while parsing this block{colon or '.'}{reason}"
        raise TreefineError(message, hint=hint, path=block.inputs[0].name)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" * bool(attempts) + f"{os.getpid()} on {platform.node()}")
    except OSError as error:
        raise not_written(error.strerror or str(error), block.target) from error
    try:
        yield
    except TreefineError:
        path.unlink(missing_ok=True)
        raise
    except Exception as error:
        with path.open("a", encoding="utf-8") as file:  # for the worker that gives up on the block
            file.write(f": {type(error).__name__}: {error}".splitlines()[0])
        os._exit(1)  # if the error reached Ray Data, it would end the whole run
    path.unlink(missing_ok=True)


def _agree_on_numerics(folder: Path, device: str, precision: str) -> None:
    """Record the device and precision of a folder's trees; raise an error if they differ from the recorded ones.

    Machines choose device and precision themselves, and a few trees differ between them.
    """
    mark = folder / _NUMERICS.format(device=device, precision=precision)
    is_new = not mark.exists()
    try:
        mark.touch()  # before checking: if two workers start together, at least one sees the other's mark
    except OSError as error:
        raise not_written(error.strerror or str(error), str(folder)) from error
    others = [path for path in folder.glob(_NUMERICS.format(device="*", precision="*")) if path != mark]
    if others:
        if is_new:
            mark.unlink(missing_ok=True)
        theirs = " in ".join(others[0].name.split(".")[2:])
        message = f"The trees in this folder were computed on {theirs}, but this worker uses {device} in {precision}."
        hint = "Choose another folder, or empty this one. Set --device and --precision to use the same on all workers."
        raise TreefineError(message, hint=hint, path=str(folder))


class Share(NamedTuple):
    """The number of actors, and the resources of each."""

    actors: int
    cpus: int
    gpus: int


def parse_on_ray(
    ray: Any,
    blocks: Sequence[Job],
    choice: ModelChoice,
    wanted: OutputOptions,
    *,
    actors: int | None = None,
    workers: int | None = None,
) -> Generator[Outcome, None, None]:
    """Parse blocks on the cluster that RAY_ADDRESS names, or else on this machine; yield outcomes as blocks end."""
    with watched(), _connected(ray):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        device = None if choice.options.device is None else str(choice.options.device)
        share = share_of(nodes, n_blocks=len(blocks), asked=actors, device=device)
        if message := waiting_message(ray.available_resources(), share):
            say(message)
        if workers is None and share.gpus:
            workers = default_workers(share.cpus)
        rows = [{"block": pickle.dumps(block)} for block in blocks]
        found = ray.data.from_items(rows, override_num_blocks=min(len(blocks), _MOST_TASKS)).map(
            BlockActor,
            fn_constructor_args=(choice, wanted, str(Path.cwd()), share.cpus, workers, __version__),
            compute=ray.data.ActorPoolStrategy(size=share.actors, max_tasks_in_flight_per_actor=1),
            num_cpus=share.cpus,
            num_gpus=share.gpus,
        )
        try:
            for row in found.iter_rows():
                yield Outcome(**json.loads(row["outcome"]))
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise TreefineError(f"Ray stopped: {reason}", hint="Run the same command again to resume.") from error


def share_of(nodes: Sequence[Mapping[str, float]], *, n_blocks: int, asked: int | None, device: str | None) -> Share:
    """Return how many actors to start, each with a GPU and its share of the cores, or with cores only.

    >>> share_of([{"CPU": 8, "GPU": 2}, {"CPU": 4}], n_blocks=100, asked=None, device=None)
    Share(actors=2, cpus=4, gpus=1)
    >>> share_of([{"CPU": 3}, {"CPU": 3}], n_blocks=100, asked=3, device=None)
    Share(actors=3, cpus=1, gpus=0)
    """
    cores = [(int(node.get("CPU", 0)), int(node.get("GPU", 0))) for node in nodes]
    n_gpus = sum(gpus for _, gpus in cores)
    gpus = 1 if n_gpus and device != "cpu" else 0
    if device is not None and device.startswith("cuda") and not n_gpus:
        raise TreefineError(f"Ray has no GPU for --device {device}.", hint="Leave out --device.")

    def room(cpus: int) -> int:
        return sum(min(each_cpus // cpus, each_gpus) if gpus else each_cpus // cpus for each_cpus, each_gpus in cores)

    if not room(1):
        raise TreefineError("Ray has no CPU cores.", hint="Start it with: ray start --num-cpus N")
    if asked is not None and asked > room(1):
        things = "GPUs with a core" if gpus else "cores"
        raise TreefineError(f"--actors is {asked}, but Ray has only {room(1)} {things}.", hint="Use a smaller number.")
    actors = min(asked or room(1), n_blocks)
    cpus = max(each_cpus for each_cpus, _ in cores)
    while room(cpus) < actors:
        cpus -= 1
    return Share(actors, cpus, gpus)


def waiting_message(free: Mapping[str, float], share: Share) -> str:
    """Return a message if the cluster has no room for one actor now, otherwise an empty string.

    >>> waiting_message({"CPU": 1.0}, Share(actors=2, cpus=4, gpus=0))
    'Waiting: a worker needs 4 cores, but Ray has 1 free.'
    """
    for name, thing, needed in (("GPU", "GPU", share.gpus), ("CPU", "core", share.cpus)):
        if free.get(name, 0) < needed:
            needs = wording.count(needed, thing)
            return f"Waiting: a worker needs {needs}, but Ray has {int(free.get(name, 0))} free."
    return ""


def import_ray() -> Any:
    """Import Ray, which reads its settings from the environment when it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray sends usage data
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if not os.environ.get("RAY_ADDRESS"):
        # Despite its name, this makes Ray listen only on this machine.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise TreefineError("Ray is not installed.", hint="Install it: pip install 'treefine[ray]'") from error
    return ray


@contextmanager
def watched() -> Iterator[None]:
    """Print a message if this process ends suddenly: Ray ends it without one when its daemon on this machine dies.

    A second process waits for the end of a pipe, and prints the message if nothing was written to it.
    """
    command = [sys.executable, "-I", "-S", "-c", _WATCH, _ENDED]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        watcher.communicate(b"ended")


@contextmanager
def _connected(ray: Any) -> Iterator[None]:
    """Connect to the cluster, or start one for this machine only; silence what Ray prints."""
    address = os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {} if address else {"include_dashboard": False, "object_store_memory": _STORE}
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):  # Ray prints there that a worker died
        try:
            with _silent_stderr():
                ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **options)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            hint = f"Check that a cluster is running at {address} (from RAY_ADDRESS)." if address else ""
            raise TreefineError(f"Ray cannot be started: {reason}", hint=hint) from error
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.execution_no_progress_timeout_s = -1  # a block may take hours
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard standard error, including that of Ray's compiled part, which Python cannot redirect."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
