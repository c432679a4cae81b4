"""One model behind a server: it parses the requests of many clients together, here or in worker processes."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from threading import Condition, Semaphore, Thread
from time import monotonic
from typing import Any, TypeVar

import torch
from torch.utils.hooks import RemovableHandle

from treefine.errors import TreefineError
from treefine.parsing.languages import LanguageChoice
from treefine.parsing.options import ParserOptions
from treefine.parsing.parser import Parser
from treefine.segmenter.segmenter import STRIDE
from treefine.serving.hosts import AnswerKind, ParserHost, RemoteHost
from treefine.serving.jobs import JobPart, ParseJob, PendingJob
from treefine.serving.limits import BusyError, ServerLimits, TooLateError, UnknownModelError
from treefine.serving.metrics import ServerMetrics
from treefine.worker_process import UnwantedError, WorkerDiedError

# A round parses sentences of waiting requests in one thread. The share limits what one request adds, so that a long
# request does not block short ones. A full round takes some seconds. Little work always fits into a round: it does not
# wait for one sentence that takes long.
ROUND, ROUND_WORK = 256, 24_000
SHARE = 64  # sentences of one request; see also `jobs.SHARE_WORK`
LITTLE_WORK = 600
MOST_FAILURES = 3  # the model counts as failed after this many unexpected failures in a row
LARGE_REQUEST = 20_000  # characters; longer requests are read and written in another thread
_MOST_LARGE = 2  # such requests per model at once; the rest wait
_SMALLEST_PART = 8  # sentences; if there are fewer, dividing a request among idle workers is not faster
_TAKE_SECONDS = 1  # for segmenting the texts of a round; the other requests wait for the next round
_N_LANGUAGES = 64  # parsers with different languages kept in memory; they share the model
_MOST_GATHERS = 10  # a round waits at most this many gathering times while more requests keep coming

_Value = TypeVar("_Value")
_logger = logging.getLogger("treefine.serving")


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
        self.name, self.limits, self._metrics = name, limits, metrics
        own = (
            parser.plan().language.named
        )  # the default of requests; the sentences of other requests keep their treebanks
        self.parser = shared = parser.using(language="") if own else parser
        self._parser_for = lru_cache(maxsize=_N_LANGUAGES)(  # only for segmenting
            lambda language: shared.using(language=language or own) if language or own else shared
        )
        self._condition = Condition()  # guards the next five
        self._queue: deque[PendingJob] = deque()  # requests with sentences that no worker has taken
        self._n_open = 0  # requests that wait or are being parsed
        self._open_size = 0  # their characters
        self._n_busy = 0  # workers
        self._is_stopping = False
        self._speed = 10_000.0  # characters per second of one worker, a moving average
        self._readers = ThreadPoolExecutor(_MOST_LARGE)  # read and write large requests
        self._n_failures = 0
        self._start_error: Exception | None = None  # of a worker process
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
        if self._start_error is not None:
            self.stop()
            message = f"The worker processes of {self.name} cannot parse ({self._start_error})."
            raise TreefineError(message, hint="Use 0 workers; a parser with workers must be picklable.")

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

    def languages(self, asked: str | None = None) -> LanguageChoice:
        """Return the treebanks of the model and the one that a client asks for; raise an error if it is unknown."""
        return LanguageChoice.of(self.parser.model.settings, self.parser.model.vocabulary, asked)

    def check_room(self, size: int = 0) -> None:
        """Raise a BusyError if the queue has no room for this many characters."""
        is_full = self._n_open >= self.limits.queue or self._open_size + size > self.limits.queue_size
        if is_full or self._is_stopping:
            self._metrics.refused.labels(self.name).inc()
            raise BusyError(max(1, min(60, math.ceil(self._open_size / (self._speed * self._n_workers)))))

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
        except WorkerDiedError as error:
            self._start_error = error
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
                parser = self._parser_for(request.job.language)
                part = request.take(parser, min(self._most_of(request), ROUND - n_sentences), self.limits)
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
        by_language: dict[str, list[tuple[PendingJob, str]]] = defaultdict(list)
        for each in requests:
            text = each.job.text
            if text is not None and not each.job.lines and len(text) <= STRIDE:
                by_language[each.job.language].append((each, text))
        for language, short in by_language.items():
            if len(short) < 2 or self.parser.segmenter is None:
                continue
            _CURRENT.set([each for each, _ in short])
            with suppress(Exception):  # then each text is segmented separately, and only the faulty one fails
                segmented = self._parser_for(language).segment_all([text for _, text in short])
                for (request, _), found in zip(short, segmented, strict=True):
                    request.segmented = iter(found)

    def _parse_together(
        self, together: Sequence[JobPart], host: ParserHost | RemoteHost, *, is_repeated: bool = False
    ) -> None:
        """Parse the sentences of requests with the same options; if one of them fails, the others do not."""
        together = [each for each in together if not each.request.answer.done()]
        if not together:
            return
        _CURRENT.set([each.request for each in together])
        try:
            results = iter(self._parse(together, host))
        except UnwantedError:
            return
        except WorkerDiedError as error:  # starting a new process takes long: try each request only once more
            if is_repeated:
                self._fail(together[0].request, RuntimeError(str(error)))  # an error of the server, not of its client
                return
            for part in together:
                self._parse_together([part], host, is_repeated=True)
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
        if workers and (os.name == "nt" or any(each.device.type != "cpu" for each in parsers.values())):
            raise TreefineError("Worker processes need a CPU and a Unix system.", hint="Use 0 workers.")
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

    def find(self, name: str = "", *, language: str | None = None) -> Service:
        """Return the model of this name, else the first one that knows the language, else the default one.

        If no model knows the language, return the one with the most languages, whose error lists them.
        """
        service = self._services.get(name or self.default)
        if service is None:
            raise UnknownModelError(name, self.names)
        if not name and language is not None:
            for each in self:
                with suppress(TreefineError):
                    each.languages(language)
                    return each
            return max(self, key=lambda each: len(each.languages().main))
        return service

    def __iter__(self) -> Iterator[Service]:
        """Return the models, the default one first."""
        return iter(self._services.values())
