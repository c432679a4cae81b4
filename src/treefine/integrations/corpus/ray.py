"""Blocks of a corpus through Ray Data: each actor holds one parser; one that dies is replaced, and its block redone."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import typer

from treefine.cli.outputs import Job, OutputOptions
from treefine.cli.parse import Loading
from treefine.errors import TreefineError
from treefine.evaluation import tables
from treefine.fast.file_workers import default_workers
from treefine.integrations.corpus.blocks import row_of
from treefine.integrations.corpus.worker import BlockParser, BrokenError, Orders, Outcome

MOST_TASKS = 10_000  # of Ray at a time; of more blocks, several are one task
_STORE = 100 << 20  # bytes of memory that machines share: they hold names of blocks, no text
_GO_ON = "Give the same command again to go on."


class Share(NamedTuple):
    """What each actor has."""

    actors: int
    cpus: int
    gpus: int


class Actor(BlockParser):
    """A worker whose process ends with an error that is not of a block: Ray starts another one, and it is tried there.

    A GPU that has failed can no more be used by the same process, and every further block would be a fault.
    """

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        """Parse the block of a row; what came of it as a row."""
        try:
            return super().__call__(row)
        except BrokenError:  # handed on, it would end the whole run; others do, for no attempt was noted to end them
            os._exit(1)


class Ray:
    """Parses blocks on the cluster that RAY_ADDRESS names, or else on this machine."""

    def __init__(
        self, loading: Loading, wanted: OutputOptions, *, actors: int | None = None, workers: int | None = None
    ) -> None:
        self.loading, self.wanted, self.actors, self.workers = loading, wanted, actors, workers
        self.ray = _imported()  # before any work: that it is missing is told at once

    def __call__(self, blocks: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> None:
        """Parse the blocks; tell what came of each in the order in which they end."""
        ray = self.ray
        with _connected(ray):
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            share = share_of(nodes, n_blocks=len(blocks), asked=self.actors, device=self.loading.device)
            if wait := told_to_wait(ray.available_resources(), share):
                typer.echo(wait, err=True)
            workers = self.workers
            if workers is None and share.gpus:
                workers = default_workers(share.cpus)
            orders = Orders(self.loading, self.wanted, str(Path.cwd()), share.cpus, workers)
            rows = ray.data.from_items(list(map(row_of, blocks)), override_num_blocks=min(len(blocks), MOST_TASKS))
            found = rows.map(
                Actor,
                fn_constructor_args=(orders,),
                compute=ray.data.ActorPoolStrategy(size=share.actors, max_tasks_in_flight_per_actor=1),
                num_cpus=share.cpus,
                num_gpus=share.gpus,
            )
            try:
                for row in found.iter_rows():
                    on_outcome(Outcome.from_json(row["outcome"]))
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[-1]
                raise TreefineError(f"Ray stopped: {reason}", hint=_GO_ON) from error


def share_of(nodes: Sequence[Mapping[str, float]], *, n_blocks: int, asked: int | None, device: str | None) -> Share:
    """How many actors there are to be, and what each has: a GPU and its share of the cores, or cores alone.

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
        raise TreefineError("Ray has no core.", hint="Start it with some: ray start --num-cpus …")
    if asked is not None and asked > room(1):
        things = "GPUs with a core" if gpus else "cores"
        raise TreefineError(f"--actors is {asked}, and Ray has {room(1)} {things}.", hint="Ask for fewer.")
    actors = min(asked or room(1), n_blocks)
    cpus = max(each_cpus for each_cpus, _ in cores)
    while room(cpus) < actors:
        cpus -= 1
    return Share(actors, cpus, gpus)


def told_to_wait(free: Mapping[str, float], share: Share) -> str:
    """What to say where others use so much of a cluster that there is no room for one actor; else nothing.

    >>> told_to_wait({"CPU": 1.0}, Share(actors=2, cpus=4, gpus=0))
    'Waiting: a worker needs 4 cores, and Ray has 1 free.'
    """
    for name, thing, needed in (("GPU", "GPU", share.gpus), ("CPU", "core", share.cpus)):
        if free.get(name, 0) < needed:
            needs = tables.count(needed, thing)
            return f"Waiting: a worker needs {needs}, and Ray has {int(free.get(name, 0))} free."
    return ""


def _imported() -> Any:
    """The package, which reads its settings from the environment when it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call home
    if not os.environ.get("RAY_ADDRESS"):
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # so Ray calls it; it then listens to this machine alone
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise TreefineError("Ray is not installed.", hint="Install it: pip install 'treefine[ray]'") from error
    return ray


@contextmanager
def _connected(ray: Any) -> Iterator[None]:
    """Ray with its own noise kept down; a cluster that is started here is this machine's alone."""
    address = os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {} if address else {"include_dashboard": False, "object_store_memory": _STORE}
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):  # on which it tells of workers that died
        try:
            with _quiet_start():
                ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **options)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            hint = f"Is there a cluster at {address}? RAY_ADDRESS names it." if address else ""
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
def _quiet_start() -> Iterator[None]:
    """Standard error goes nowhere: there Ray's compiled part says at which level it is going to say nothing."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
