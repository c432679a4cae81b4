"""One model behind a server: it parses the requests of many clients together, in this process or in worker processes.

The file has two parts: the requests, and the model.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from itertools import islice
from threading import Condition, Semaphore, Thread
from time import monotonic
from typing import Any, TypeVar

import torch
from torch.utils.hooks import RemovableHandle

from treefine.errors import TreefineError
from treefine.evaluation.tables import count
from treefine.parsing.options import ParserOptions
from treefine.parsing.parser import Parser
from treefine.parsing.plan import STEPS
from treefine.segmenter.cut import Segmented
from treefine.segmenter.segmenter import STRIDE
from treefine.serving.hosts import AnswerKind, ParserHost, RemoteHost
from treefine.serving.limits import BusyError, ServerLimits, TooLargeError, TooLateError, UnknownModelError, work_of
from treefine.serving.metrics import ServerMetrics
from treefine.treebank.constraints import CONSTRAIN, Constraints
from treefine.treebank.raw_text import own_text, spans_in
from treefine.treebank.sentence import Sentence
from treefine.worker_process import UnwantedError

# A round parses sentences of waiting requests in one thread. The share limits what one request adds, so that a long
# request does not block short ones. A full round takes some seconds. Little work always fits into a round: it does not
# wait for one sentence that takes long.
ROUND, ROUND_WORK = 256, 24_000
SHARE, SHARE_WORK = 64, 6_000
LITTLE_WORK = 600
MOST_FAILURES = 3  # the model counts as failed after this many unexpected failures in a row
LARGE_REQUEST = 20_000  # characters; longer requests are read and written in another thread
_MOST_LARGE = 2  # such requests per model at once; the rest wait
_SMALLEST_PART = 8  # sentences; if there are fewer, dividing a request among idle workers is not faster
_TAKE_SECONDS = 1  # for segmenting the texts of a round; the other requests wait for the next round
_MOST_GATHERS = 10  # a round waits at most this many gathering times while more requests keep coming
_SENTENCE_SIZE = 20  # characters added per sentence, because a sentence takes memory too
_TEXT_PER_SENTENCE = 80  # characters
_MOST_DRAWN = 100  # sentences whose graphs are drawn for one request
_MOST_FORBIDDEN = 1_000  # heads and labels per sentence; finding contradictions among more takes too long

_Value = TypeVar("_Value")
_logger = logging.getLogger("treefine.serving")


@dataclass(frozen=True)
class ParseJob:
    """A text to segment and parse, or sentences divided into words, with options and constraints."""

    text: str | None = None
    sentences: tuple[Sentence, ...] | None = None
    options: ParserOptions = ParserOptions()  # jobs with equal options are parsed together
    constraints: Mapping[int, Constraints] = field(default_factory=dict)  # by the number of the sentence, from 1
    lines: bool = False  # the text has one sentence per line

    @cached_property
    def size(self) -> int:
        """The approximate amount of input, in characters."""
        if self.text is not None:
            return len(self.text)
        return sum(_SENTENCE_SIZE + sum(map(len, each.forms)) for each in self.sentences or ())

    @property
    def n_sentences(self) -> int:
        """The number of sentences; in a text, about as many as there are."""
        return len(self.sentences or ()) if self.text is None else 1 + len(self.text) // _TEXT_PER_SENTENCE

    @property
    def steps(self) -> int:
        """The maximum number of refinement steps."""
        return self.options.max_steps or STEPS

    def constraints_of(self, number: int, sentence: Sentence) -> Constraints:
        """Return the constraints of a sentence; those of the request replace the marks of the same words."""
        own = next(CONSTRAIN[self.options.keep or "marked"]([sentence]))
        asked = self.constraints.get(number)
        if asked is None or not own:
            return asked or own
        words = {word for column in _columns(asked) for word in column}
        kept = ({word: value for word, value in column.items() if word not in words} for column in _columns(own))
        return Constraints(*({**ours, **theirs} for ours, theirs in zip(kept, _columns(asked), strict=True)))

    def segment(self, parser: Parser) -> Iterator[Segmented]:
        """Yield the sentences; a text is segmented on the way."""
        if self.text is None:
            return (Segmented(each, spans_in(own_text(each), each)) for each in self.sentences or ())
        if self.lines:
            return parser.segment_lines(StringIO(self.text, newline="\n"))
        return parser.segment([self.text])


def _columns(constraints: Constraints) -> tuple[Mapping[int, Any], ...]:
    return constraints.heads, constraints.labels, constraints.not_heads, constraints.not_labels


@dataclass(eq=False)
class PendingJob:
    """A job that waits for its answer."""

    job: ParseJob
    kind: AnswerKind
    answer: Future[list[Any]] = field(default_factory=Future)  # also done if its time is up
    segmented: Iterator[Segmented] | None = None  # the sentences still to come; None before the first is segmented
    n_taken: int = 0  # sentences of all parts
    n_parts: int = 0
    postponed: JobPart | None = None  # it did not fit into a round
    results: dict[int, list[Any]] = field(default_factory=dict)  # by part
    is_all_taken: bool = False

    @property
    def k(self) -> int:
        """The number of trees to find per sentence; an answer with trees only has one."""
        return (self.job.options.k or 1) if self.kind in ("parses", "steps") else 1

    def take(self, parser: Parser, most: int, limits: ServerLimits) -> JobPart:
        """Take sentences until there are `most` or too much work, but at least one."""
        if self.postponed is not None:
            part, self.postponed = self.postponed, None
            return part
        part = JobPart(self, self.n_parts)
        self.n_parts += 1  # before `is_all_taken` is set: another thread may have parsed all earlier parts
        if self.segmented is None:
            self._check_text(limits.max_chars)
            self.segmented = self.job.segment(parser)
        while len(part.taken) < most and part.work < SHARE_WORK and not self.answer.done():
            found = next(self.segmented, None)
            if found is None:
                self._end()
                break
            self.n_taken += 1
            part.taken.append((found, self._checked_constraints(found.sentence, limits)))
            part.work += self._work_of(len(found.sentence))
        return part

    def _work_of(self, n_words: int) -> int:
        is_projective = bool(self.job.options.is_projective)
        return work_of(n_words, steps=self.job.steps, k=self.k, is_projective=is_projective)

    def _check_text(self, max_chars: int) -> None:
        """Raise an error for a text with a very long word, before it is segmented, which takes seconds.

        A script without spaces has punctuation in between; the words themselves are checked afterwards.
        """
        long = [each for each in (self.job.text or "").split() if len(each) > max_chars]
        letters = (run for each in long for run in ([each] if each.isascii() else re.findall(r"\w+", each)))
        longest = max(map(len, letters), default=0)
        if longest > max_chars:
            hint = f"The limit is {max_chars:,} characters per word."
            raise TooLargeError(f"The text has {longest:,} characters without a space.", hint=hint)

    def _checked_constraints(self, sentence: Sentence, limits: ServerLimits) -> Constraints:
        """Return the constraints of the last sentence taken, or raise an error if it exceeds a limit."""
        is_projective = bool(self.job.options.is_projective)
        most = limits.words_with(steps=self.job.steps, k=self.k, is_projective=is_projective)
        if len(sentence) > most:
            hint = f"The limit is {most:,} words. Split it, or parse it with `treefine parse`."
            if most < limits.max_words:
                asked = f"{self.job.steps} steps and k = {self.k}{', projective' if is_projective else ''}"
                hint = f"With {asked}, the limit is {most:,} words. Use fewer steps or trees."
            raise TooLargeError(f"Sentence {self.n_taken:,} has {len(sentence):,} words.", hint=hint)
        longest = max(map(len, sentence.forms), default=0)
        if longest > limits.max_chars:
            hint = f"The limit is {limits.max_chars:,} characters."
            raise TooLargeError(f"Sentence {self.n_taken:,} has a word of {longest:,} characters.", hint=hint)
        if self.kind == "steps" and self.n_taken > _MOST_DRAWN:
            hint = "Send fewer, or use /v1/parse."
            raise TooLargeError(f"The request has more than {_MOST_DRAWN} sentences to draw.", hint=hint)
        constraints = self.job.constraints_of(self.n_taken, sentence)
        if constraints.n_forbidden > _MOST_FORBIDDEN:
            message = f"Sentence {self.n_taken:,} has more than {_MOST_FORBIDDEN:,} forbidden heads and labels."
            raise TooLargeError(message)
        return constraints

    def _end(self) -> None:
        self.is_all_taken = True
        beyond = [number for number in self.job.constraints if not 1 <= number <= self.n_taken]
        if beyond:
            message = f"There are constraints for sentence {beyond[0]:,}, but only {count(self.n_taken, 'sentence')}."
            raise TreefineError(message, hint="Sentences are counted from 1.")

    def fail(self, error: Exception) -> None:
        """Answer with an error, if the client is still waiting."""
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def add(self, part: JobPart, results: list[Any]) -> None:
        """Add the results of a part, and answer if all parts are parsed and the client is still waiting."""
        self.results[part.number] = results
        if self.is_all_taken and len(self.results) == self.n_parts:
            in_order = [result for number in range(self.n_parts) for result in self.results[number]]
            with suppress(InvalidStateError):  # it may time out at this moment
                self.answer.set_result(in_order)


@dataclass(eq=False)
class JobPart:
    """The sentences of a request that one round parses."""

    request: PendingJob
    number: int  # among the parts of the request, from 0
    taken: list[tuple[Segmented, Constraints]] = field(default_factory=list)
    work: int = 0


# The requests that the current thread, or the thread that started it, is segmenting or parsing.
_CURRENT: ContextVar[Sequence[PendingJob]] = ContextVar("current", default=())


def _is_anybody_waiting() -> bool:
    current = _CURRENT.get()
    return not current or not all(each.answer.done() for each in current)


def _check_waiting(*_: object) -> None:
    """Raise an error if all clients have gone for which this thread works."""
    if not _is_anybody_waiting():
        raise UnwantedError


class Service:
    """A model that many clients use at once."""

    def __init__(
        self, name: str, parser: Parser, limits: ServerLimits, metrics: ServerMetrics, *, workers: int = 0
    ) -> None:
        self.name, self.parser, self.limits, self._metrics = name, parser, limits, metrics
        self._condition = Condition()  # guards the next five
        self._queue: deque[PendingJob] = deque()  # requests with sentences that no worker has taken
        self._n_open = 0  # requests that wait or are being parsed
        self._open_size = 0  # their characters
        self._n_busy = 0  # workers
        self._is_stopping = False
        self._speed = 10_000.0  # characters per second, a moving average
        self._readers = ThreadPoolExecutor(_MOST_LARGE)  # read and write large requests
        self._n_failures = 0
        self._n_processes, self._n_workers = workers, max(1, workers)  # without processes, one thread parses
        self._workers: list[Thread] = []
        self.hosts: list[ParserHost | RemoteHost] = []  # one per worker
        self._hooks: list[RemovableHandle] = []

    def start(self) -> None:
        """Start the threads that parse, and wait until each has parsed a first sentence, which is slow."""
        self._is_stopping = False
        if self.parser.segmenter is not None:
            self._hooks = [self.parser.segmenter.network.register_forward_pre_hook(_check_waiting)]
        ready = Semaphore(0)
        self.hosts = [self._new_host() for _ in range(self._n_workers)]
        self._workers = [
            Thread(target=self._run, args=(host, ready), name=f"treefine {self.name}", daemon=True)
            for host in self.hosts
        ]
        for each in self._workers:
            each.start()
        for _ in self._workers:
            ready.acquire()

    def stop(self) -> None:
        """Answer the open requests, then stop the threads. Give up after the time limit of a request."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        until = monotonic() + self.limits.seconds
        for each in self._workers:
            each.join(max(0, until - monotonic()))
        for host in self.hosts:
            host.close()
        for hook in self._hooks:
            hook.remove()
        self.hosts, self._workers, self._hooks = [], [], []

    @property
    def is_alive(self) -> bool:
        """Whether the threads run and the last rounds did not all fail."""
        are_running = bool(self._workers) and all(each.is_alive() for each in self._workers)
        return are_running and self._n_failures < MOST_FAILURES

    def check_room(self, size: int = 0) -> None:
        """Raise a BusyError if the queue has no room for this many characters."""
        is_full = self._n_open >= self.limits.queue or self._open_size + size > self.limits.queue_size
        if is_full or self._is_stopping:
            self._metrics.refused.labels(self.name).inc()
            raise BusyError(max(1, min(60, math.ceil(self._open_size / self._speed))))

    async def within_time(self, answering: Coroutine[Any, Any, _Value]) -> _Value:
        """Return the value, or raise a TooLateError after the time limit of a request."""
        try:
            return await asyncio.wait_for(answering, self.limits.seconds)
        except asyncio.TimeoutError:
            raise self._too_late() from None

    async def read_or_write(self, size: int, work: Callable[[], _Value], *, is_slow: bool = False) -> _Value:
        """Return the result of work on a request with this many characters, without blocking smaller requests.

        `is_slow` is for work that takes long even if the request is small.
        """
        if size <= LARGE_REQUEST and not is_slow:
            return work()
        with self._condition:
            self._note_open(1, size)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, work)
        finally:
            with self._condition:
                self._note_open(-1, -size)

    async def ask(self, job: ParseJob, kind: AnswerKind) -> list[Any]:
        """Return segmented sentences, sentences with trees, or parses with the confidences of each step."""
        request = PendingJob(job, kind)
        with self._condition:
            self.check_room(job.size)
            self._note_open(1, job.size)
            self._queue.append(request)
            self._condition.notify_all()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(request.answer), self.limits.seconds)
        except asyncio.TimeoutError:
            raise self._too_late() from None
        finally:
            with self._condition:
                self._note_open(-1, -job.size)
                with suppress(ValueError):  # the client has gone; a worker may have the request, or not yet
                    self._queue.remove(request)

    def _too_late(self) -> TooLateError:
        message = f"The request took longer than the limit of {self.limits.seconds:g} s."
        return TooLateError(message, hint="Send less text, or retry later.")

    def _note_open(self, n_requests: int, size: int) -> None:
        self._n_open += n_requests
        self._open_size += size
        self._metrics.queue.labels(self.name).set(self._n_open)

    def _new_host(self) -> ParserHost | RemoteHost:
        if not self._n_processes:
            return ParserHost(self.parser, _check_waiting)
        return RemoteHost(self.parser, max(1, torch.get_num_threads() // self._n_processes), _is_anybody_waiting)

    def _run(self, host: ParserHost | RemoteHost, ready: Semaphore) -> None:
        """Parse round after round until the service stops and nothing waits."""
        try:
            host.warm_up()
        except Exception:  # other requests may still succeed
            _logger.exception("%s: the first sentence failed", self.name)
        ready.release()
        n_expected = 0
        while requests := self._gather(n_expected):
            try:
                n_expected = self._round(requests, host)
            except Exception as error:  # unexpected, but it must not end the thread
                _logger.exception("%s: a round failed", self.name)
                self._n_failures += 1
                for request in requests:
                    request.fail(error)
            finally:
                with self._condition:
                    self._n_busy -= 1

    def _gather(self, n_expected: int) -> list[PendingJob]:
        """Wait for requests, and for more that can join them; return none if the service stops and none is left.

        `n_expected` clients are likely to send another request at once. A worker leaves the other workers their share.
        """
        with self._condition:
            while self._condition.wait_for(lambda: self._queue or self._is_stopping) and self._queue:
                until = monotonic() + _MOST_GATHERS * self.limits.gather
                while self._queue and not self._is_enough() and monotonic() < until:
                    n_before = len(self._queue)
                    self._condition.wait(self.limits.gather)
                    if len(self._queue) == n_before >= n_expected:
                        break
                if self._queue:  # otherwise another worker has taken all
                    self._n_busy += 1
                    return [self._queue.popleft() for _ in range(min(len(self._queue), self._share))]
        return []

    @property
    def _share(self) -> int:
        """The maximum number of requests in a round, so that all workers have work."""
        return max(1, min(ROUND, -(-self._n_open // self._n_workers)))

    def _is_enough(self) -> bool:
        """Return whether a round can start with the requests in the queue, without waiting for others."""
        is_share = self._n_busy > 0 and len(self._queue) >= self._share
        return self._is_stopping or is_share or len(self._queue) >= ROUND or self._queue[0].n_parts > 0

    def _round(self, requests: Sequence[PendingJob], host: ParserHost | RemoteHost) -> int:
        """Parse some sentences of each request; return how many clients are likely to send another one at once."""
        started = monotonic()
        self._segment_together([each for each in requests if each.segmented is None and not each.answer.done()])
        parts = self._take(requests)
        by_options: dict[tuple[AnswerKind, ParserOptions], list[JobPart]] = defaultdict(list)
        for part in parts:
            by_options[part.request.kind, part.request.job.options].append(part)
        for together in by_options.values():
            self._parse_together(together, host)
        self._note_round(parts, monotonic() - started)
        return sum(part.request.answer.done() for part in parts) // 2

    def _take(self, requests: Sequence[PendingJob]) -> list[JobPart]:
        """Take the sentences of this round from the requests; other workers can take the rest of them."""
        parts: list[JobPart] = []
        first: list[PendingJob] = []  # requests for the next round
        last: list[PendingJob] = []  # requests that have more sentences
        n_sentences = n_work = 0
        until = monotonic() + _TAKE_SECONDS
        for place, request in enumerate(requests):
            if request.answer.done():
                continue
            if n_sentences >= ROUND or (place and monotonic() > until):
                first.append(request)
                continue
            _CURRENT.set([request])
            try:
                part = request.take(self.parser, min(self._most_of(request), ROUND - n_sentences), self.limits)
            except UnwantedError:
                continue
            except Exception as error:
                self._fail(request, error)
                continue
            if parts and part.work > LITTLE_WORK and n_work + part.work > ROUND_WORK:
                request.postponed = part
                first.append(request)
                continue
            n_sentences += len(part.taken)
            n_work += part.work
            parts.append(part)
            if not request.is_all_taken:
                last.append(request)
        with self._condition:
            self._queue.extendleft(reversed(first))
            self._queue.extend(last)
            self._condition.notify_all()
        return parts

    def _most_of(self, request: PendingJob) -> int:
        """Return how many sentences of a request to take: fewer if other workers are idle and can take the rest."""
        if self._n_open >= self._n_workers:
            return SHARE
        return min(SHARE, max(_SMALLEST_PART, -(-request.job.n_sentences // self._n_workers)))

    def _segment_together(self, requests: Sequence[PendingJob]) -> None:
        """Segment the short texts of several requests at once, which is faster; long ones are segmented piecemeal."""
        texts = [(each, each.job.text) for each in requests if each.job.text is not None and not each.job.lines]
        short = [(each, text) for each, text in texts if len(text) <= STRIDE]
        if len(short) > 1 and self.parser.segmenter is not None:
            _CURRENT.set([each for each, _ in short])
            with suppress(Exception):  # then each text is segmented separately, and only the faulty one fails
                segmented = self.parser.segmenter.segment_all([text for _, text in short])
                for (request, _), found in zip(short, segmented, strict=True):
                    request.segmented = iter(found)

    def _parse_together(self, together: Sequence[JobPart], host: ParserHost | RemoteHost) -> None:
        """Parse the sentences of requests with the same options; if one of them fails, the others do not."""
        together = [each for each in together if not each.request.answer.done()]
        if not together:
            return
        _CURRENT.set([each.request for each in together])
        try:
            results = iter(self._parse(together, host))
        except UnwantedError:
            return
        except Exception as error:
            if len(together) == 1:
                self._fail(together[0].request, error)
                return
            middle = len(together) // 2
            for half in (together[:middle], together[middle:]):
                self._parse_together(half, host)
            return
        self._n_failures = 0
        for part in together:
            part.request.add(part, list(islice(results, len(part.taken))))

    def _parse(self, together: Sequence[JobPart], host: ParserHost | RemoteHost) -> list[Any]:
        request = together[0].request
        segmented = [found for part in together for found, _ in part.taken]
        if request.kind == "cut":
            return [each.sentence for each in segmented]
        constraints = [each for part in together for _, each in part.taken]
        return host.parse(request.kind, request.job.options, segmented, constraints)

    def _fail(self, request: PendingJob, error: Exception) -> None:
        if not isinstance(error, TreefineError):
            _logger.error("%s: a request failed", self.name, exc_info=error)
            self._n_failures += 1
        request.fail(error)

    def _note_round(self, parts: Sequence[JobPart], seconds: float) -> None:
        parsed = [each.sentence for part in parts if not part.request.answer.cancelled() for each, _ in part.taken]
        if not parsed:
            return
        n_characters = sum(len(form) + 1 for sentence in parsed for form in sentence.forms)
        self._speed += 0.2 * (n_characters / max(seconds, 1e-6) - self._speed)
        self._metrics.round_sentences.labels(self.name).observe(len(parsed))
        self._metrics.round_seconds.labels(self.name).observe(seconds)
        self._metrics.sentences.labels(self.name).inc(len(parsed))
        self._metrics.words.labels(self.name).inc(sum(map(len, parsed)))


class Served:
    """The models of a server by name. Requests cannot load other models."""

    def __init__(
        self, parsers: Mapping[str, Parser], limits: ServerLimits, metrics: ServerMetrics, *, workers: int = 0
    ) -> None:
        if not parsers:
            raise TreefineError("A server needs at least one parser.")
        if len({id(each.model) for each in parsers.values()}) < len(parsers):
            raise TreefineError(
                "Two names refer to the same model.", hint="Load it once per name: each name needs its own copy."
            )
        self._services = {
            name: Service(name, parser, limits, metrics, workers=workers) for name, parser in parsers.items()
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the models, the default first."""
        return tuple(self._services)

    @property
    def default(self) -> str:
        """The name of the model for requests without a model."""
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
