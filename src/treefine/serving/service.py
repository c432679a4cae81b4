"""One model behind a server: a single thread uses the model and parses the requests of all clients together.

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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import StringIO
from itertools import islice
from threading import Condition, Event, Thread, current_thread
from time import monotonic
from typing import Any, Literal, TypeVar

from torch.nn import Module

from treefine.errors import TreefineError
from treefine.evaluation.tables import count
from treefine.parsing.options import ParserOptions
from treefine.parsing.parser import Parser
from treefine.parsing.plan import STEPS
from treefine.segmenter.cut import Segmented
from treefine.segmenter.segmenter import STRIDE
from treefine.serving.limits import BusyError, ServerLimits, TooLargeError, TooLateError, UnknownModelError, work_of
from treefine.serving.metrics import ServerMetrics
from treefine.treebank.constraints import CONSTRAIN, Constraints
from treefine.treebank.raw_text import own_text, spans_in
from treefine.treebank.sentence import Sentence

# A round parses sentences of all waiting requests. The share limits what one request adds, so that a long request
# does not block short ones. A full round takes two cores some seconds; see `work_of`.
ROUND, ROUND_WORK = 256, 24_000
SHARE, SHARE_WORK = 64, 6_000
MOST_FAILURES = 3  # the model counts as failed after this many unexpected failures in a row
LARGE_REQUEST = 20_000  # characters; longer requests are read and written in another thread
_MOST_LARGE = 2  # such requests per model at once; the rest wait
_MOST_GATHERS = 10  # a round waits at most this many gathering times while more requests keep coming
_N_VARIANTS = 8  # parsers with different options kept in memory; on a GPU each has its own buffers
_WARM_UP_WORDS = 60  # length of the sentence that warms up a model
_SENTENCE_SIZE = 20  # characters added per sentence, because a sentence takes memory too
_MOST_DRAWN = 100  # sentences whose graphs are drawn for one request
_MOST_FORBIDDEN = 1_000  # heads and labels per sentence; finding contradictions among more takes too long

AnswerKind = Literal["cut", "trees", "parses", "steps"]
_Value = TypeVar("_Value")
_logger = logging.getLogger("treefine.serving")


class _AbandonedError(Exception):
    """No client waits for the current work any more."""


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


@dataclass(eq=False)
class PendingJob:
    """A job that waits for its answer."""

    job: ParseJob
    kind: AnswerKind
    answer: Future[list[Any]] = field(default_factory=Future)  # also done if its time is up
    segmented: Iterator[Segmented] | None = None  # the sentences still to come; None before the first is segmented
    taken: list[tuple[Segmented, Constraints]] = field(default_factory=list)  # the sentences of this round
    n_taken: int = 0  # sentences of all rounds
    results: list[Any] = field(default_factory=list)
    is_all_taken: bool = False

    @property
    def k(self) -> int:
        """The number of trees to find per sentence; an answer with trees only has one."""
        return (self.job.options.k or 1) if self.kind in ("parses", "steps") else 1

    def take(self, parser: Parser, most: int, limits: ServerLimits) -> int:
        """Take sentences until there are `most` or too much work, but at least one; return the work."""
        if self.segmented is None:
            self._check_text(limits.max_chars)
            self.segmented = self.job.segment(parser)
        self.taken, work = [], 0
        while len(self.taken) < most and work < SHARE_WORK and not self.answer.done():
            found = next(self.segmented, None)
            if found is None:
                self._end()
                break
            self.n_taken += 1
            self.taken.append((found, self._checked_constraints(found.sentence, limits)))
            work += self._work_of(len(found.sentence))
        return work

    def _work_of(self, n_words: int) -> int:
        is_projective = bool(self.job.options.is_projective)
        return work_of(n_words, steps=self.job.steps, k=self.k, is_projective=is_projective)

    def _check_text(self, max_chars: int) -> None:
        """Raise an error for an ASCII text with a very long word, before it is segmented, which takes seconds.

        Other scripts may have no spaces; their words are checked afterwards.
        """
        long = re.search(f"[!-~]{{{max_chars + 1},}}", self.job.text or "")
        if long:
            hint = f"The limit is {max_chars:,} characters per word."
            raise TooLargeError(f"The text has {len(long[0]):,} characters without a space.", hint=hint)

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

    def finish(self) -> None:
        """Answer with the results, if the client is still waiting."""
        with suppress(InvalidStateError):  # it may time out at this moment
            self.answer.set_result(self.results)


def _columns(constraints: Constraints) -> tuple[Mapping[int, Any], ...]:
    return constraints.heads, constraints.labels, constraints.not_heads, constraints.not_labels


class Service:
    """A model that many clients use at once."""

    def __init__(self, name: str, parser: Parser, limits: ServerLimits, metrics: ServerMetrics) -> None:
        self.name, self.parser, self.limits, self._metrics = name, parser, limits, metrics
        self._condition = Condition()  # guards the next four
        self._queue: deque[PendingJob] = deque()  # arrived since the last round started
        self._n_open = 0  # requests that wait or are being parsed
        self._open_size = 0  # their characters
        self._is_stopping = False
        self._speed = 10_000.0  # characters per second, a moving average
        self._thread: Thread | None = None
        self._is_ready = Event()
        self._taken: list[PendingJob] = []  # the requests of this round; only the thread uses it
        self._current: Sequence[PendingJob] = ()  # the requests that are being segmented or parsed
        self._readers = ThreadPoolExecutor(_MOST_LARGE)  # read and write large requests
        self._n_failures = 0
        self._n_expected = 0  # requests that a round waits for
        self._variant = lru_cache(maxsize=_N_VARIANTS)(
            lambda options: parser.using(**options.given) if options.given else parser
        )

    def start(self) -> None:
        """Start the thread that parses, and wait until it has parsed a first sentence, which is slow."""
        self._is_stopping = False
        self._thread = Thread(target=self._run, name=f"treefine {self.name}", daemon=True)
        self._thread.start()
        self._is_ready.wait()

    def stop(self) -> None:
        """Answer the open requests, then stop the thread. Give up after the time limit of a request."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(self.limits.seconds)
            self._thread = None

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs and the last rounds did not all fail."""
        return self._thread is not None and self._thread.is_alive() and self._n_failures < MOST_FAILURES

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

    async def read_or_write(self, size: int, work: Callable[[], _Value]) -> _Value:
        """Return the result of work on a request with this many characters, without blocking smaller requests."""
        if size <= LARGE_REQUEST:
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

    def _too_late(self) -> TooLateError:
        message = f"The request took longer than the limit of {self.limits.seconds:g} s."
        return TooLateError(message, hint="Send less text, or retry later.")

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
        with self._stopping_early():
            self._run_rounds()

    @contextmanager
    def _stopping_early(self) -> Iterator[None]:
        """Check before each step of the model and each block of the segmenter whether a client still waits for it.

        On a GPU only the segmenter is checked: a step takes milliseconds, and its kernels may be recorded.
        """

        def check(*_: object) -> None:
            is_ours = current_thread() is self._thread  # other threads may use the same parser
            if is_ours and all(each.answer.done() for each in self._current):
                raise _AbandonedError

        networks: list[Module] = [self.parser.running] if self.parser.device.type == "cpu" else []
        if self.parser.segmenter is not None:
            networks.append(self.parser.segmenter.network)
        hooks = [each.register_forward_pre_hook(check) for each in networks]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _run_rounds(self) -> None:
        active: deque[PendingJob] = deque()
        while self._gather(active):
            try:
                self._round(active)
            except Exception as error:  # unexpected, but it must not end the thread
                _logger.exception("%s: a round failed", self.name)
                self._n_failures += 1
                for request in [*active, *self._taken]:
                    request.fail(error)
                active.clear()

    def _gather(self, active: deque[PendingJob]) -> bool:
        """Add new requests to the active ones; return False if no request is left and the service stops."""
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
        """Parse some sentences of each request; unfinished requests go to the end of the queue."""
        started = monotonic()
        self._segment_together(
            [each for each in islice(active, ROUND) if each.segmented is None and not each.answer.done()]
        )
        self._take(active)
        by_options: dict[tuple[AnswerKind, ParserOptions], list[PendingJob]] = defaultdict(list)
        for request in self._taken:
            by_options[request.kind, request.job.options].append(request)
        for together in by_options.values():
            self._parse_together(together)
        n_answered = sum(request.is_all_taken for request in self._taken)
        self._n_expected = n_answered // 2  # many clients send the next request as soon as they have an answer
        self._note_round(monotonic() - started)

    def _take(self, active: deque[PendingJob]) -> None:
        """Take the sentences of this round from the active requests."""
        self._taken = []
        n_sentences = n_work = 0
        for _ in range(len(active)):
            if n_sentences >= ROUND or n_work >= ROUND_WORK:
                break
            request = active.popleft()
            if request.answer.done():
                continue
            self._current = [request]
            try:
                n_work += request.take(self.parser, min(SHARE, ROUND - n_sentences), self.limits)
            except _AbandonedError:
                continue
            except Exception as error:
                self._fail(request, error)
                continue
            n_sentences += len(request.taken)
            self._taken.append(request)
            if not request.is_all_taken:
                active.append(request)

    def _segment_together(self, requests: Sequence[PendingJob]) -> None:
        """Segment the short texts of several requests at once, which is faster; long ones are segmented piecemeal."""
        texts = [(each, each.job.text) for each in requests if each.job.text is not None and not each.job.lines]
        short = [(each, text) for each, text in texts if len(text) <= STRIDE]
        if len(short) > 1 and self.parser.segmenter is not None:
            self._current = [each for each, _ in short]
            with suppress(Exception):  # then each text is segmented separately, and only the faulty one fails
                segmented = self.parser.segmenter.segment_all([text for _, text in short])
                for (request, _), found in zip(short, segmented, strict=True):
                    request.segmented = iter(found)

    def _parse_together(self, together: Sequence[PendingJob]) -> None:
        """Parse the sentences of requests with the same options; if one of them fails, the others do not."""
        together = self._current = [each for each in together if not each.answer.done()]
        if not together:
            return
        try:
            results = iter(self._parse(together))
        except _AbandonedError:
            return
        except Exception as error:
            if len(together) == 1:
                self._fail(together[0], error)
                return
            middle = len(together) // 2
            for half in (together[:middle], together[middle:]):
                self._parse_together(half)
            return
        self._n_failures = 0
        for request in together:
            request.results += islice(results, len(request.taken))
            if request.is_all_taken:
                request.finish()

    def _parse(self, together: Sequence[PendingJob]) -> list[Any]:
        kind, parser = together[0].kind, self._variant(together[0].job.options)
        segmented = [found for request in together for found, _ in request.taken]
        constraints = [each for request in together for _, each in request.taken]
        sentences = [each.sentence for each in segmented]
        if kind == "cut":
            return sentences
        if kind == "trees":
            return list(parser.stream(sentences, constraints=constraints))
        return list(parser.stream_segmented(segmented, constraints=constraints, each_step=kind == "steps"))

    def _fail(self, request: PendingJob, error: Exception) -> None:
        if not isinstance(error, TreefineError):
            _logger.error("%s: a request failed", self.name, exc_info=error)
            self._n_failures += 1
        request.fail(error)

    def _note_round(self, seconds: float) -> None:
        requests = [each for each in self._taken if not each.answer.cancelled()]
        parsed = [each.sentence for request in requests for each, _ in request.taken]
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

    def __init__(self, parsers: Mapping[str, Parser], limits: ServerLimits, metrics: ServerMetrics) -> None:
        if not parsers:
            raise TreefineError("A server needs at least one parser.")
        if len({id(each.model) for each in parsers.values()}) < len(parsers):
            raise TreefineError(
                "Two names refer to the same model.", hint="Load it once per name: each name needs its own copy."
            )
        self._services = {name: Service(name, parser, limits, metrics) for name, parser in parsers.items()}

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
