"""Parse a corpus of many files on the machines of a Ray cluster, or on all GPUs or cores of this one.

Each actor holds one parser and writes one output file at a time. A file appears whole or not at all, so the same call
resumes a run that was killed. If an actor dies, Ray starts a new one, which continues the file from its part file.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from treefine.cli.options import argument, option, with_options
from treefine.errors import TreefineError, count, import_optional
from treefine.jobs.inputs import find_inputs
from treefine.jobs.outputs import OutputFile, OutputOptions, Shape, plan_outputs
from treefine.parsing.options import ParserOptions
from treefine.version import __version__

_AGAIN = "Run the same command again to resume."


def parse_corpus(
    sources: Sequence[str],
    output: str,
    *,
    model: str = "en",
    options: ParserOptions | None = None,
    shape: Shape | None = None,
    confidence: bool = False,
    actors: int | None = None,
) -> bool:
    """Parse files, folders or patterns into a folder; return whether every file was parsed and has a sentence.

    All machines must share the folder and the files. `RAY_ADDRESS` names a cluster; without it, Ray runs on this
    machine. There is one actor per GPU, or per core without a GPU, unless `actors` says otherwise. Finished files are
    skipped. Problems are reported on standard error.
    """
    ray = _import_ray()
    options, output = options or ParserOptions(), str(Path(output)) + os.sep
    wanted = OutputOptions(model, output, shape, confidence=confidence, resume=True, k=options.k or 1)
    inputs = find_inputs(sources, output=output)
    if any(not source.is_file for source in inputs):
        raise TreefineError("A corpus cannot come from standard input or from a text.", hint="Give files.")
    files = plan_outputs(inputs, wanted)
    left = [file for file in files if not file.is_finished]
    left.sort(key=lambda file: Path(file.inputs[0].name).stat().st_size, reverse=True)
    if len(left) < len(files):
        _say(f"treefine: {len(files) - len(left):,} of {count(len(files), 'file')} already finished")
    if not left:
        return True
    outcomes = dict[str, tuple[list[str], list[str], int]]()  # by path: messages, faults, number of sentences
    with _connected(ray):
        n_gpus = int(ray.cluster_resources().get("GPU", 0)) if options.device != "cpu" else 0
        n_actors = min(actors or n_gpus or int(ray.cluster_resources().get("CPU", 1)), len(left))
        rows = [{"file": pickle.dumps(file)} for file in left]
        results = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            _CorpusActor,
            batch_size=1,
            fn_constructor_args=(model, options, wanted, str(Path.cwd()), __version__),
            concurrency=n_actors,
            num_cpus=1,
            num_gpus=1 if n_gpus else 0,
        )
        try:
            for row in results.iter_rows():
                path, *outcome = json.loads(row["outcome"])
                outcomes[path] = tuple(outcome)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(_AGAIN) from stop
        except Exception as error:  # Ray has many kinds
            reason = str(error).strip().splitlines()[-1]
            raise TreefineError(f"Ray stopped: {reason}", hint=_AGAIN) from error
    shown, n_faults, n_sentences = dict[str, None](), 0, 0
    for file in left:
        lost = [f"{file.inputs[0].name}: The file was not parsed: its workers died. {_AGAIN}"]
        messages, faults, written = outcomes.get(file.path, ([], lost, 0))
        shown |= dict.fromkeys([*messages, *(f"treefine: {fault}" for fault in faults)])
        n_faults, n_sentences = n_faults + bool(faults), n_sentences + written
    for message in shown:
        _say(message)
    failed = f"; {n_faults:,} failed or empty" if n_faults else ""
    _say(f"{count(len(left) - n_faults, 'file')} parsed, {count(n_sentences, 'sentence')}{failed}")
    return not n_faults


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class _CorpusActor:
    def __init__(self, model: str, options: ParserOptions, wanted: OutputOptions, folder: str, version: str) -> None:
        import torch

        from treefine.jobs.run import load_parser

        if version != __version__:
            message = f"A worker has treefine {__version__}, but the command runs treefine {version}."
            raise TreefineError(message, hint="Install the same version on all machines.")
        os.chdir(folder)  # the names of files are relative to it
        torch.set_num_threads(1)
        self._parser, self._wanted = load_parser(model, options), wanted

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Write one file, and return what is to be reported."""
        from treefine.jobs.run import Listener, write_outputs

        (data,) = batch["file"]
        file: OutputFile = pickle.loads(data)
        messages, faults, n_sentences = list[str](), list[str](), 0

        def advance(amount: int = 0, *, sentences: int = 0) -> None:
            nonlocal n_sentences
            n_sentences += sentences

        def warn(text: str) -> None:
            messages.append(f"treefine: warning: {text}")

        listener = Listener(messages.append, warn, faults.append, advance)
        try:
            if not file.is_finished:  # a worker that died may have written it
                write_outputs(self._parser, [file], self._wanted, listener)
        except TreefineError as error:
            faults.append(str(error))
        return {"outcome": [json.dumps([file.path, messages, faults, n_sentences])]}


def _import_ray() -> Any:
    """Import Ray, which reads its settings from the environment when it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray sends usage data
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if not os.environ.get("RAY_ADDRESS"):
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # despite its name: listen only on this machine
    import_optional("ray.data", "Ray is not installed.", "'treefine[ray]'")
    import ray

    return ray


@contextmanager
def _connected(ray: Any) -> Iterator[None]:
    address = os.environ.get("RAY_ADDRESS")
    try:
        local = {} if address else {"include_dashboard": False}
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        hint = f"Check that a cluster is running at {address} (from RAY_ADDRESS)." if address else ""
        raise TreefineError(f"Ray cannot be started: {str(error).strip().splitlines()[0]}", hint=hint) from error
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = -1  # a file may take hours
    context.max_errored_blocks = -1  # the other files are parsed; the run names those that are missing
    try:
        yield
    finally:
        ray.shutdown()


@with_options(without=["initial", "trust"])
def corpus_command(
    sources: list[str] = argument(..., "INPUT", "Files, folders or quoted patterns."),
    output: str = option(..., "-o --output DIR", "Folder for one output per input."),
    model: str = option("en", "--model NAME|DIR", "Bundled model or model folder."),
    shape: Shape | None = option(None, "--format", "Output format.", shown="conllu"),
    confidence: bool = option(False, "--confidence", "Write the confidence of each word."),
    actors: int | None = option(None, "--actors N", "Number of parsers.", min=1),
    *,
    options: ParserOptions,
) -> None:
    """Parse a corpus of many files with Ray; the same command resumes an interrupted run."""
    try:
        is_complete = parse_corpus(
            sources, output, model=model, options=options, shape=shape, confidence=confidence, actors=actors
        )
    except TreefineError as error:
        _say(f"treefine: {error}")
        raise typer.Exit(1) from None
    raise typer.Exit(0 if is_complete else 1)


if __name__ == "__main__":
    from treefine.integrations.ray import corpus_command as command  # so that actors find the class by its module

    typer.run(command)
