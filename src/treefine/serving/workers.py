"""A parser for the batches of a server, in this process or in another one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from time import monotonic
from typing import Any

from treefine.cores import give_back_memory
from treefine.parsing.options import ParserOptions
from treefine.parsing.parser import Parser
from treefine.segmenter.cut import Segmented
from treefine.treebank.constraints import Constraints
from treefine.worker_process import WorkerDiedError, WorkerProcess, check_wanted

_N_VARIANTS = 8  # parsers with different options kept in memory; on a GPU each has its own buffers
_GIVE_BACK_SECONDS = 5  # between two times at which free memory is given back, which takes some 20 ms

_logger = logging.getLogger("treefine.serving")


class BatchParser:
    """A parser and its variants with other options. `check` is called before each step of the model on a CPU."""

    def __init__(self, parser: Parser, check: Callable[..., None] = check_wanted) -> None:
        self._parser = parser
        self._give_back_after = 0.0
        self._variant = lru_cache(maxsize=_N_VARIANTS)(
            lambda options: parser.using(**options.set_options) if options.set_options else parser
        )
        # On a GPU a step takes milliseconds, and its kernels may be recorded.
        networks = [parser.running] if parser.device.type == "cpu" else []
        self._hooks = [each.register_forward_pre_hook(check) for each in networks]

    def warm_up(self) -> None:
        """Parse a first sentence, which is slow."""
        for _ in self._parser.stream([["."] * 60]):
            pass

    def parse(
        self, kind: str, options: ParserOptions, segmented: Sequence[Segmented], constraints: Sequence[Constraints]
    ) -> list[Any]:
        """Return the trees of these sentences, or with the kinds "parses" and "steps" their parses."""
        parser = self._variant(options)
        if monotonic() > self._give_back_after:
            give_back_memory()
            self._give_back_after = monotonic() + _GIVE_BACK_SECONDS
        if kind == "trees":
            return list(parser.stream_trees([each.sentence for each in segmented], constraints=constraints))
        return list(parser.stream_segmented(segmented, constraints=constraints, each_step=kind == "steps"))

    def close(self) -> None:
        """Remove the checks from the model."""
        for hook in self._hooks:
            hook.remove()


class RemoteBatchParser:
    """A BatchParser in another process, which is started again if it dies."""

    def __init__(self, parser: Parser, threads: int, is_wanted: Callable[[], bool]) -> None:
        self._parser, self._threads, self._is_wanted = parser, threads, is_wanted
        self._is_closed = False
        self._process = self._start()

    def _start(self) -> WorkerProcess:
        hint = "Use 0 workers; a parser with workers must be picklable."
        return WorkerProcess(BatchParser, self._parser, threads=self._threads, hint=hint)

    def _run(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._process.run(method, arguments, is_wanted=self._is_wanted)
        except WorkerDiedError:
            self._process.close()
            if not self._is_closed:
                _logger.warning("a worker process has died; a new one starts")
                self._process = self._start()
            raise

    def warm_up(self) -> None:
        """Wait until the process has parsed a first sentence."""
        self._run(BatchParser.warm_up)

    def parse(self, *arguments: Any) -> list[Any]:
        """Return what `BatchParser.parse` returns."""
        results: list[Any] = self._run(BatchParser.parse, *arguments)
        return results

    def close(self) -> None:
        """End the process."""
        self._is_closed = True
        self._process.close()
