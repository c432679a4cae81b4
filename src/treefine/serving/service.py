"""One model behind a server: a single thread uses the model and parses the requests of all clients together."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any, cast

from treefine.errors import TreefineError
from treefine.parsing.options import ParserOptions
from treefine.parsing.parse import Parse
from treefine.parsing.parser import Parser
from treefine.segmenter.segmenter import STRIDE
from treefine.serving.middleware import BusyError, ServerLimits, ServerMetrics, TooLateError, UnknownModelError
from treefine.serving.requests import AnswerKind, ParseJob, PendingJob, PendingSentence
from treefine.treebank.sentence import Sentence

# A round parses sentences of all waiting requests. The share bounds what one request adds, so that a long request
# does not hold up short ones. Work is words times steps times trees; a full round takes two cores some seconds.
ROUND, ROUND_WORK = 256, 24_000
SHARE, SHARE_WORK = 64, 6_000
MOST_FAILURES = 3  # rounds in a row that fail unexpectedly before the model counts as failed
_MOST_GATHERS = 10  # times the gathering time that a round is delayed at most while more requests keep coming
_N_VARIANTS = 8  # parsers with other options that are kept; on a GPU each has its own buffers
_WARM_UP_WORDS = 60  # in the sentence that a model parses before it is ready

_Taken = list[tuple[PendingJob, list[PendingSentence]]]
_logger = logging.getLogger("treefine.serving")


class Service:
    """A model that many clients may ask at once."""

    def __init__(self, name: str, parser: Parser, limits: ServerLimits, metrics: ServerMetrics) -> None:
        self.name, self.parser, self.limits, self._metrics = name, parser, limits, metrics
        self._condition = Condition()  # guards the next four
        self._queue: deque[PendingJob] = deque()  # that have come since the last round began
        self._n_open = 0  # requests that wait or are being parsed
        self._open_size = 0  # their characters
        self._is_stopping = False
        self._speed = 10_000.0  # characters per second, a moving average
        self._thread: Thread | None = None
        self._is_ready = Event()
        self._taken: _Taken = []  # what this round parses; only the thread uses it
        self._n_failures = 0
        self._n_expected = 0  # requests that a round waits for a little longer
        self._variant = lru_cache(maxsize=_N_VARIANTS)(
            lambda options: parser.using(**options.given) if options.given else parser
        )

    def start(self) -> None:
        """Start the thread that parses, and wait until it has parsed a first sentence, which takes longer."""
        self._is_stopping = False
        self._thread = Thread(target=self._run, name=f"treefine {self.name}", daemon=True)
        self._thread.start()
        self._is_ready.wait()

    def stop(self) -> None:
        """Parse what has come, then end the thread; leave it behind if that takes longer than a request may."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(self.limits.seconds)
            self._thread = None

    @property
    def is_alive(self) -> bool:
        """Return whether the thread runs and does not fail at everything."""
        return self._thread is not None and self._thread.is_alive() and self._n_failures < MOST_FAILURES

    def check_room(self, size: int = 0) -> None:
        """Raise a BusyError if the queue has no room for so many characters."""
        is_full = self._n_open >= self.limits.queue or self._open_size + size > self.limits.queue_size
        if is_full or self._is_stopping:
            self._metrics.refused.labels(self.name).inc()
            raise BusyError(max(1, min(60, math.ceil(self._open_size / self._speed))))

    async def cut(self, job: ParseJob) -> list[Sentence]:
        """Return the sentences of a text, cut into words and not parsed."""
        return cast(list[Sentence], await self._ask(job, "cut"))

    async def trees(self, job: ParseJob) -> list[Sentence]:
        """Return the sentences with their trees."""
        return cast(list[Sentence], await self._ask(job, "trees"))

    async def parses(self, job: ParseJob) -> list[Parse]:
        """Return the parses with confidence and steps."""
        return cast(list[Parse], await self._ask(job, "parses"))

    async def steps(self, job: ParseJob) -> list[Parse]:
        """Return the parses with the confidence in the arcs of each step too."""
        return cast(list[Parse], await self._ask(job, "steps"))

    async def _ask(self, job: ParseJob, kind: AnswerKind) -> list[Any]:
        request = PendingJob(job, kind, Future(), job.size)
        with self._condition:
            self.check_room(request.size)
            self._note_open(1, request.size)
            self._queue.append(request)
            self._condition.notify_all()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(request.answer), self.limits.seconds)
        except asyncio.TimeoutError:
            message = f"This took longer than {self.limits.seconds:g} s, which is all that a request gets."
            raise TooLateError(message, hint="Ask for less at once, or later.") from None
        finally:
            with self._condition:
                self._note_open(-1, -request.size)

    def _note_open(self, n_requests: int, size: int) -> None:
        self._n_open += n_requests
        self._open_size += size
        self._metrics.queue.labels(self.name).set(self._n_open)

    def _run(self) -> None:
        """Parse round after round until the service stops and nothing waits."""
        try:
            for _ in self.parser.stream_parses([["."] * _WARM_UP_WORDS]):
                pass
        except Exception:  # other requests may still succeed
            _logger.exception("%s: the first sentence failed", self.name)
        self._is_ready.set()
        active: deque[PendingJob] = deque()
        while self._gather(active):
            try:
                self._round(active)
            except Exception as error:  # none is expected here, and none may end the thread
                _logger.exception("%s: a round failed", self.name)
                self._n_failures += 1
                for request in [*active, *(each for each, _ in self._taken)]:
                    request.fail(error)
                active.clear()

    def _gather(self, active: deque[PendingJob]) -> bool:
        """Add the requests that have come to the active ones; return whether there are any, or may be."""
        with self._condition:
            if not active:
                self._condition.wait_for(lambda: self._queue or self._is_stopping)
                until = monotonic() + _MOST_GATHERS * self.limits.gather
                while not self._is_stopping and len(self._queue) < ROUND and monotonic() < until:
                    n_before = len(self._queue)
                    self._condition.wait(self.limits.gather)
                    if len(self._queue) == n_before >= self._n_expected:
                        break
            active.extend(self._queue)
            self._queue.clear()
            return bool(active) or not self._is_stopping

    def _round(self, active: deque[PendingJob]) -> None:
        """Parse some sentences of each request; unfinished requests go to the end of the line."""
        started = monotonic()
        self._segment_together([each for each in islice(active, ROUND) if each.segmented is None and not each.is_over])
        n_sentences = self._take(active)
        by_options: dict[tuple[AnswerKind, ParserOptions], _Taken] = defaultdict(list)
        for request, sentences in self._taken:
            by_options[request.kind, request.job.options].append((request, sentences))
        for (kind, options), together in by_options.items():
            self._parse_together(kind, options, together)
        n_answered = sum(request.is_all_taken for request, _ in self._taken)
        self._n_expected = n_answered // 2  # many clients ask again as soon as they have an answer
        if n_sentences:
            self._note_round(n_sentences, monotonic() - started)

    def _take(self, active: deque[PendingJob]) -> int:
        """Take the sentences of this round from the active requests; return how many."""
        self._taken = []
        n_sentences = n_work = 0
        for _ in range(len(active)):
            if n_sentences >= ROUND or n_work >= ROUND_WORK:
                break
            request = active.popleft()
            if request.is_over:
                continue
            try:
                found = request.take(self.parser, min(SHARE, ROUND - n_sentences), SHARE_WORK, self.limits.max_words)
            except Exception as error:
                self._fail(request, error)
                continue
            n_sentences += len(found)
            n_work += sum(request.work_of(each.segmented) for each in found)
            self._taken.append((request, found))
            if not request.is_all_taken:
                active.append(request)
        return n_sentences

    def _segment_together(self, requests: Sequence[PendingJob]) -> None:
        """Segment the short texts of several requests at once, which is faster; long ones are segmented piecemeal."""
        texts = [(each, each.job.text) for each in requests if each.job.text is not None and not each.job.lines]
        short = [(each, text) for each, text in texts if len(text) <= STRIDE]
        if len(short) > 1 and self.parser.segmenter is not None:
            with suppress(Exception):  # then each is segmented alone, and only the one at fault fails
                segmented = self.parser.segmenter.segment_all([text for _, text in short])
                for (request, _), found in zip(short, segmented, strict=True):
                    request.segmented = iter(found)

    def _parse_together(self, kind: AnswerKind, options: ParserOptions, together: _Taken) -> None:
        """Parse the sentences of several requests; if one of them fails, the others do not."""
        try:
            results = iter(self._parse(kind, options, [each for _, sentences in together for each in sentences]))
        except Exception as error:
            if len(together) == 1:
                self._fail(together[0][0], error)
                return
            middle = len(together) // 2
            for half in (together[:middle], together[middle:]):
                self._parse_together(kind, options, half)
            return
        self._n_failures = 0
        for request, sentences in together:
            request.results += [next(results) for _ in sentences]
            if request.is_all_taken:
                request.finish()

    def _parse(self, kind: AnswerKind, options: ParserOptions, pending: Sequence[PendingSentence]) -> list[Any]:
        segmented = [each.segmented for each in pending]
        if kind == "cut":
            return [each.sentence for each in segmented]
        parser = self._variant(options)
        constraints = [each.constraints for each in pending]
        if kind == "trees":
            return list(parser.stream([each.sentence for each in segmented], constraints=constraints))
        return list(parser.stream_segmented(segmented, constraints=constraints, each_step=kind == "steps"))

    def _fail(self, request: PendingJob, error: Exception) -> None:
        if not isinstance(error, TreefineError):
            _logger.error("%s: a request failed", self.name, exc_info=error)
            self._n_failures += 1
        request.fail(error)

    def _note_round(self, n_sentences: int, seconds: float) -> None:
        parsed = [each.segmented.sentence for _, sentences in self._taken for each in sentences]
        n_characters = sum(len(form) + 1 for sentence in parsed for form in sentence.forms)
        self._speed += 0.2 * (n_characters / max(seconds, 1e-6) - self._speed)
        self._metrics.round_sentences.labels(self.name).observe(n_sentences)
        self._metrics.round_seconds.labels(self.name).observe(seconds)
        self._metrics.sentences.labels(self.name).inc(n_sentences)
        self._metrics.words.labels(self.name).inc(sum(map(len, parsed)))


class Served:
    """The models of a server by name; a request can reach no others."""

    def __init__(self, parsers: Mapping[str, Parser], limits: ServerLimits, metrics: ServerMetrics) -> None:
        if not parsers:
            raise TreefineError("A server needs at least one parser.")
        if len({id(each.model) for each in parsers.values()}) < len(parsers):
            raise TreefineError("One model has two names.", hint="Each is run by a thread of its own: load it twice.")
        self._services = {name: Service(name, parser, limits, metrics) for name, parser in parsers.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, that of the default model first."""
        return tuple(self._services)

    @property
    def default(self) -> str:
        """Return the name of the model for requests that name none."""
        return self.names[0]

    def find(self, name: str = "") -> Service:
        """Return the model of this name, or the default one."""
        service = self._services.get(name or self.default)
        if service is None:
            raise UnknownModelError(name, self.names)
        return service

    def __iter__(self) -> Iterator[Service]:
        """Return the models, the default one first."""
        return iter(self._services.values())
