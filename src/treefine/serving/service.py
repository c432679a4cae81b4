"""One model behind a server: requests in from any task, parsed together by the one thread that touches the model."""

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
from treefine.parsing.parse import Parse
from treefine.parsing.parser import Parser
from treefine.segmenter.segmenter import STRIDE
from treefine.serving.metrics import Metrics
from treefine.serving.middleware import BusyError, Limits, TooLateError, UnknownModelError
from treefine.serving.requests import Asked, Cut, Kind, Options, Waiting
from treefine.treebank.sentence import Sentence

ROUND = 256  # sentences that are parsed together, from all requests …
SHARE = 64  # … and of one of them, so that a long request does not hold up short ones
ROUND_WORK, SHARE_WORK = 24_000, 6_000  # the same in words times steps times trees: some seconds of two cores
LONGEST = 10  # times the gathering time that a model waits at most, while more requests keep coming
MOST_FAILURES = 3  # rounds in a row that fail for a reason of ours, until the model is said to have failed
VARIANTS = 8  # parsers with other options that are kept; on a GPU each has buffers of its own
_WARM = 60  # words of the sentence that a model parses before it is ready

logger = logging.getLogger("treefine.serving")


class Service:
    """A model that many may ask at once."""

    def __init__(self, name: str, parser: Parser, limits: Limits, metrics: Metrics) -> None:
        self.name, self.parser, self.limits, self._metrics = name, parser, limits, metrics
        self._condition = Condition()
        self._queue: deque[Waiting] = deque()  # that have come; `_condition` guards it and what follows
        self._n_open = 0  # that wait or are being parsed
        self._open_size = 0  # their characters
        self._is_stopping = False
        self._speed = 10_000.0  # characters a second, as seen of late
        self._thread: Thread | None = None
        self._is_ready = Event()
        self._under_way: list[tuple[Waiting, list[Cut]]] = []  # of this round; only the thread looks at it
        self._n_failures = 0
        self._n_expected = 0  # requests that a round waits for a little longer
        self._variant = lru_cache(maxsize=VARIANTS)(lambda options: options.apply(parser))

    def start(self) -> None:
        """Start the thread that parses, and wait until it has parsed a first sentence: that one takes longer."""
        self._is_stopping = False
        self._thread = Thread(target=self._run, name=f"treefine {self.name}", daemon=True)
        self._thread.start()
        self._is_ready.wait()

    def stop(self) -> None:
        """Parse what has come, then end the thread; one that does not end in a request's time is left behind."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(self.limits.seconds)
            self._thread = None

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs, and does not fail at everything."""
        return self._thread is not None and self._thread.is_alive() and self._n_failures < MOST_FAILURES

    def check_room(self, size: int = 0) -> None:
        """Refuse what finds no place in the queue."""
        is_full = self._n_open >= self.limits.queue or self._open_size + size > self.limits.queue_size
        if is_full or self._is_stopping:
            self._metrics.refused.labels(self.name).inc()
            raise BusyError(max(1, min(60, math.ceil(self._open_size / self._speed))))

    async def cut(self, asked: Asked) -> list[Sentence]:
        """The sentences of a text, cut into words and not parsed."""
        return cast(list[Sentence], await self._ask(asked, "cut"))

    async def trees(self, asked: Asked) -> list[Sentence]:
        """The sentences with their trees."""
        return cast(list[Sentence], await self._ask(asked, "trees"))

    async def parses(self, asked: Asked) -> list[Parse]:
        """The sentences with all that the parser says of them."""
        return cast(list[Parse], await self._ask(asked, "parses"))

    async def steps(self, asked: Asked) -> list[Parse]:
        """The same, with the confidence in the arcs of each step."""
        return cast(list[Parse], await self._ask(asked, "steps"))

    async def _ask(self, asked: Asked, kind: Kind) -> list[Any]:
        request = Waiting(asked, kind, Future(), asked.size)
        with self._condition:
            self.check_room(request.size)
            self._n_open += 1
            self._open_size += request.size
            self._queue.append(request)
            self._metrics.queue.labels(self.name).set(self._n_open)
            self._condition.notify_all()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(request.answer), self.limits.seconds)
        except asyncio.TimeoutError:
            seconds = f"{self.limits.seconds:g}"
            hint = "Ask for less at once, or later."
            raise TooLateError(
                f"This took longer than {seconds} s, which is all that a request gets.", hint=hint
            ) from None
        finally:
            with self._condition:
                self._n_open -= 1
                self._open_size -= request.size
                self._metrics.queue.labels(self.name).set(self._n_open)

    def _run(self) -> None:
        """The thread: round after round, until it is to stop and nothing waits."""
        try:
            for _ in self.parser.stream_parses([["."] * _WARM]):
                pass
        except Exception:  # it may yet do what it is asked for
            logger.exception("%s: the first sentence failed", self.name)
        self._is_ready.set()
        active: deque[Waiting] = deque()
        while self._gather(active):
            try:
                self._round(active)
            except Exception as error:  # none is expected here, and none may end the thread
                logger.exception("%s: a round failed", self.name)
                self._n_failures += 1
                for request in [*active, *(each for each, _ in self._under_way)]:
                    request.fail(error)
                active.clear()

    def _gather(self, active: deque[Waiting]) -> bool:
        """Add what has come to the requests that are under way; whether there is any, or may be."""
        with self._condition:
            if not active:
                self._condition.wait_for(lambda: self._queue or self._is_stopping)
                until = monotonic() + LONGEST * self.limits.gather
                while not self._is_stopping and len(self._queue) < ROUND and monotonic() < until:
                    n_before = len(self._queue)
                    self._condition.wait(self.limits.gather)
                    if len(self._queue) == n_before >= self._n_expected:
                        break
            active.extend(self._queue)
            self._queue.clear()
            return bool(active) or not self._is_stopping

    def _round(self, active: deque[Waiting]) -> None:
        """Parse some sentences of each request; those that are not whole have their next turn after all others."""
        self._under_way = taken = []
        n_sentences = n_work = 0
        started = monotonic()
        self._cut_together([each for each in islice(active, ROUND) if each.cut is None and not each.is_over])
        for _ in range(len(active)):
            if n_sentences >= ROUND or n_work >= ROUND_WORK:
                break
            request = active.popleft()
            if request.is_over:
                continue
            try:
                cut = request.take(self.parser, min(SHARE, ROUND - n_sentences), SHARE_WORK, self.limits.max_words)
            except Exception as error:
                self._failed(request, error)
                continue
            n_sentences += len(cut)
            n_work += request.asked.options.work * sum(len(each.found.sentence) for each in cut)
            taken.append((request, cut))
            if not request.is_cut:
                active.append(request)
        by_options: dict[tuple[Kind, Options], list[tuple[Waiting, list[Cut]]]] = defaultdict(list)
        for request, cut in taken:
            by_options[request.kind, request.asked.options].append((request, cut))
        for (kind, options), together in by_options.items():
            self._parse_together(kind, options, together)
        self._n_expected = sum(request.is_cut for request, _ in taken) // 2  # many a client has just begun to ask again
        if n_sentences:
            self._note(taken, n_sentences, monotonic() - started)

    def _cut_together(self, requests: Sequence[Waiting]) -> None:
        """Cut the texts of several requests at once, which is faster; long ones are cut as they are parsed."""
        texts = [(each, each.asked.text) for each in requests if each.asked.text is not None and not each.asked.lines]
        short = [(each, text) for each, text in texts if len(text) <= STRIDE]
        if len(short) > 1 and self.parser.segmenter is not None:
            with suppress(Exception):  # each is then cut by itself, so that the one at fault is told
                cut = self.parser.segmenter.segment_all([text for _, text in short])
                for (request, _), found in zip(short, cut, strict=True):
                    request.cut = iter(found)

    def _parse_together(self, kind: Kind, options: Options, together: Sequence[tuple[Waiting, list[Cut]]]) -> None:
        """Parse the sentences of several requests; where one of them fails, the others do not."""
        try:
            results = iter(self._parse(kind, options, [each for _, cut in together for each in cut]))
        except Exception as error:
            if len(together) == 1:
                self._failed(together[0][0], error)
                return
            middle = len(together) // 2
            for half in (together[:middle], together[middle:]):
                self._parse_together(kind, options, half)
            return
        self._n_failures = 0
        for request, cut in together:
            request.results += [next(results) for _ in cut]
            if request.is_cut:
                request.finish()

    def _parse(self, kind: Kind, options: Options, cut: Sequence[Cut]) -> list[Any]:
        if kind == "cut":
            return [each.found.sentence for each in cut]
        parser = self._variant(options)
        decided = [each.constraints for each in cut]
        if kind == "trees":
            return list(parser.stream([each.found.sentence for each in cut], constraints=decided))
        found = [each.found for each in cut]
        return list(parser.stream_segmented(found, constraints=decided, each_step=kind == "steps"))

    def _failed(self, request: Waiting, error: Exception) -> None:
        if not isinstance(error, TreefineError):
            logger.error("%s: a request failed", self.name, exc_info=error)
            self._n_failures += 1
        request.fail(error)

    def _note(self, taken: Sequence[tuple[Waiting, list[Cut]]], n_sentences: int, seconds: float) -> None:
        n_letters = sum(len(form) + 1 for _, cut in taken for each in cut for form in each.found.sentence.forms)
        self._speed += 0.2 * (n_letters / max(seconds, 1e-6) - self._speed)
        self._metrics.round_sentences.labels(self.name).observe(n_sentences)
        self._metrics.round_seconds.labels(self.name).observe(seconds)
        self._metrics.sentences.labels(self.name).inc(n_sentences)
        self._metrics.words.labels(self.name).inc(sum(len(each.found.sentence) for _, cut in taken for each in cut))


class Served:
    """The models of a server, by name; nothing that a request says leads anywhere else."""

    def __init__(self, parsers: Mapping[str, Parser], limits: Limits, metrics: Metrics) -> None:
        if not parsers:
            raise TreefineError("A server needs at least one parser.")
        if len({id(each.model) for each in parsers.values()}) < len(parsers):
            raise TreefineError("One model has two names.", hint="Each is run by a thread of its own: load it twice.")
        self._services = {name: Service(name, parser, limits, metrics) for name, parser in parsers.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names, that of the default model first."""
        return tuple(self._services)

    @property
    def default(self) -> str:
        """The model of a request that names none."""
        return self.names[0]

    def find(self, name: str = "") -> Service:
        """The model of this name, or the default one."""
        service = self._services.get(name or self.default)
        if service is None:
            raise UnknownModelError(name, self.names)
        return service

    def __iter__(self) -> Iterator[Service]:
        """Return the models, the default one first."""
        return iter(self._services.values())
