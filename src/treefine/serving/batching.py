"""The models of a server: each parses the requests of many clients in batches, here or in worker processes.

A request waits as a `Job` in one queue. A batch has sentences of the first jobs with the same options; a job with more
sentences goes back to the end of the queue.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import chain
from operator import attrgetter
from threading import Condition, Thread
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeVar

import torch
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from treefine.cores import give_back_memory
from treefine.errors import TreefineError, count
from treefine.parsing.options import ParserOptions
from treefine.parsing.parser import Parser
from treefine.parsing.plan import LanguageChoice
from treefine.segmenter.cut import Segmented
from treefine.segmenter.segmenter import STRIDE
from treefine.serving.limits import ServerLimits, ServingError
from treefine.serving.requests import ParseRequest
from treefine.treebank.constraints import Constraints
from treefine.treebank.sentence import Sentence
from treefine.worker_process import WorkerDiedError, WorkerProcess

BATCH_WORK = 12_000  # some seconds; see `limits.work_of`
JOB_WORK = 3_000  # of one request in a batch, so that a long request does not block short ones
LARGE_REQUEST = 20_000  # characters; longer requests are read and written in another thread
MOST_FAILURES = 3  # the model counts as failed after this many unexpected failures in a row
_MOST_GATHERS = 10  # a batch waits at most this many gathering times while more requests keep coming
_MOST_LARGE = 2  # large requests per model that are read or written at once; the rest wait
_N_VARIANTS = 8  # parsers with different options kept in memory; on a GPU each has its own buffers
_GIVE_BACK_SECONDS = 5  # between two times at which free memory is given back, which takes some 20 ms

_Value = TypeVar("_Value")
_logger = logging.getLogger("treefine.serving")
_options_of = attrgetter("request.result", "request.options", "request.language")  # jobs of one batch agree in these


class ServerMetrics:
    """The Prometheus metrics of one app; two apps in a process do not share them."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter, histogram = partial(Counter, registry=self._registry), partial(Histogram, registry=self._registry)
        seconds = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
        sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256)
        route, model = ["route"], ["model"]
        self.answers = counter("treefine_answers", "Responses by route and HTTP status.", ["route", "status"])
        self.seconds = histogram("treefine_answer_seconds", "Time from request to response.", route, buckets=seconds)
        self.sentences = counter("treefine_sentences", "Sentences parsed.", model)
        self.words = counter("treefine_words", "Words parsed.", model)
        waiting = "Requests that wait or are being parsed."
        self.queue = Gauge("treefine_open_requests", waiting, model, registry=self._registry)
        self.refused = counter("treefine_refused", "Requests rejected because the queue was full.", model)
        self.batch_sentences = histogram("treefine_batch_sentences", "Sentences per batch.", model, buckets=sizes)
        self.batch_seconds = histogram("treefine_batch_seconds", "Seconds per batch.", model, buckets=seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class Taken(NamedTuple):
    """A sentence in a batch."""

    job: Job
    number: int  # in the request, from 1
    segmented: Segmented
    constraints: Constraints


@dataclass(eq=False)
class Job:
    """A request in the queue, and the results of those of its sentences that are parsed."""

    request: ParseRequest
    answer: Future[list[Any]] = field(default_factory=Future)  # also done if the client has gone
    segmented: Iterator[Segmented] | None = None  # the sentences still to come; None before the first is segmented
    n_taken: int = 0
    is_all_taken: bool = False
    results: dict[int, Any] = field(default_factory=dict)  # by the number of the sentence

    def take(self, parser: Parser, most_work: int, limits: ServerLimits) -> tuple[list[Taken], int]:
        """Return sentences until there is enough work, but at least one, and their work."""
        request, work, taken = self.request, 0, []
        if self.segmented is None:
            self.segmented = request.segment(parser)
        while work < most_work and not self.answer.done():
            segmented = next(self.segmented, None)
            if segmented is None:
                if beyond := [number for number in request.constraints if not 1 <= number <= self.n_taken]:
                    only = count(self.n_taken, "sentence")
                    message = f"There are constraints for sentence {beyond[0]:,}, but only {only}."
                    raise TreefineError(message, hint="Sentences are counted from 1.")
                self.is_all_taken = True
                break
            self.n_taken += 1
            constraints = request.constraints_of(self.n_taken, segmented.sentence)
            request.check(self.n_taken, segmented.sentence, constraints, limits)
            taken.append(Taken(self, self.n_taken, segmented, constraints))
            work += request.work_of(len(segmented.sentence))
        return taken, work

    def finish(self) -> None:
        """Answer if all sentences are parsed and the client is still waiting."""
        if self.is_all_taken and len(self.results) == self.n_taken:
            with suppress(InvalidStateError):  # the client may leave at this moment
                self.answer.set_result([self.results[number] for number in sorted(self.results)])


class BatchParser:
    """A parser and its variants with other options."""

    def __init__(self, parser: Parser) -> None:
        self._give_back_after = 0.0
        self._variant = lru_cache(maxsize=_N_VARIANTS)(
            lambda options: parser.using(**options.set_options) if options.set_options else parser
        )

    def close(self) -> None:
        """Do nothing: the parser belongs to the server."""

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


class RemoteBatchParser:
    """A BatchParser in another process, which is started again if it dies."""

    def __init__(self, parser: Parser, threads: int) -> None:
        hint = "Use 0 workers; a parser with workers must be picklable."
        self._start = partial(WorkerProcess, BatchParser, parser, threads=threads, hint=hint)
        self._process, self._is_closed = self._start(), False

    def parse(self, *arguments: Any) -> list[Any]:
        """Return what `BatchParser.parse` returns."""
        try:
            return self._process.run(BatchParser.parse, arguments)
        except WorkerDiedError:
            self._process.close()
            if not self._is_closed:
                _logger.warning("a worker process has died; a new one starts")
                self._process = self._start()
            raise

    def close(self) -> None:
        """End the process."""
        self._is_closed = True
        self._process.close()


class ModelServer:
    """A model that many clients use at once."""

    def __init__(
        self, name: str, parser: Parser, limits: ServerLimits, metrics: ServerMetrics, *, workers: int = 0
    ) -> None:
        self.name, self.limits, self._metrics = name, limits, metrics
        default = parser.plan().language.named  # the language of requests that name none
        self.parser = shared = parser.using(language="") if default else parser
        self._parser_for = cache(  # by the treebank of a request; only for segmenting
            lambda treebank: shared.using(language=treebank or default) if treebank or default else shared
        )
        self._condition = Condition()  # guards the next four
        self._queue: deque[Job] = deque()  # requests with sentences that no worker has taken
        self._n_open = 0  # requests that wait or are being parsed
        self._open_size = 0  # their characters
        self._is_stopping = False
        self._speed = 10_000.0  # characters per second of one worker, a moving average
        self._readers = ThreadPoolExecutor(_MOST_LARGE)  # read and write large requests
        self._n_failures = 0
        self._has_processes, self._n_workers = workers > 0, max(1, workers)  # without processes, one thread parses
        self._workers: list[Thread] = []
        self.parsers: list[BatchParser | RemoteBatchParser] = []  # one per worker

    def start(self) -> None:
        """Start the workers, after each has parsed a first sentence, which is slow."""
        self._is_stopping = False
        threads = max(1, torch.get_num_threads() // self._n_workers)
        for _ in range(self._n_workers):
            has_process = self._has_processes
            self.parsers.append(RemoteBatchParser(self.parser, threads) if has_process else BatchParser(self.parser))
        first = list(ParseRequest(sentences=(Sentence.of_words(["."] * 60),)).segment(self.parser))
        try:
            with ThreadPoolExecutor(self._n_workers) as pool:
                list(pool.map(lambda each: each.parse("parses", ParserOptions(), first, [Constraints()]), self.parsers))
        except Exception:
            self.stop()
            raise
        for parser in self.parsers:
            self._workers.append(Thread(target=self._work, args=[parser], name=f"treefine {self.name}", daemon=True))
            self._workers[-1].start()

    def stop(self) -> None:
        """Answer the open requests, then stop the workers. Give up after the time limit of a request."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        until = monotonic() + self.limits.seconds
        for worker in self._workers:
            worker.join(max(0, until - monotonic()))
        for parser in self.parsers:
            parser.close()
        self.parsers, self._workers = [], []

    @property
    def is_alive(self) -> bool:
        """Whether the workers run and the last batches did not all fail."""
        are_running = bool(self._workers) and all(each.is_alive() for each in self._workers)
        return are_running and self._n_failures < MOST_FAILURES

    def languages(self, name: str | None = None) -> LanguageChoice:
        """Return the treebanks of the model and the one that a client names; raise an error if it is unknown."""
        return LanguageChoice.of(self.parser.model.vocabulary, self.parser.model.settings, name)

    # In the event loop

    def check_room(self, size: int) -> None:
        """Raise an error if the queue has no room for this many characters."""
        is_full = self._n_open >= self.limits.queue or self._open_size + size > self.limits.queue_size
        if is_full or self._is_stopping:
            self._metrics.refused.labels(self.name).inc()
            seconds = max(1, min(60, math.ceil(self._open_size / (self._speed * self._n_workers))))
            raise ServingError("The queue is full.", hint=f"Retry in {seconds} s.", status=503, retry_after=seconds)

    async def answer(self, size: int, read: Callable[[], ParseRequest], write: Callable[[list[Any]], _Value]) -> _Value:
        """Read a request of this many characters, parse it, and write its results, within the time limit.

        Large requests, and drawings, are read and written in other threads, where they do not block small ones.
        """
        self.check_room(size)  # before the input is read

        async def answering() -> _Value:
            request = await self._run(size, read) if size > LARGE_REQUEST else read()
            results = await self.parse(request)
            is_slow = request.result == "steps" or request.size > LARGE_REQUEST
            return await self._run(request.size, lambda: write(results)) if is_slow else write(results)

        try:
            return await asyncio.wait_for(answering(), self.limits.seconds)
        except asyncio.TimeoutError:
            message = f"The request took longer than the limit of {self.limits.seconds:g} s."
            raise ServingError(message, hint="Send less text, or retry later.", status=504) from None

    async def _run(self, size: int, work: Callable[[], _Value]) -> _Value:
        self._note_open(1, size)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, work)
        finally:
            self._note_open(-1, -size)

    async def parse(self, request: ParseRequest) -> list[Any]:
        """Return the results for all sentences of a request; `request.result` says what they are."""
        job = Job(request)
        self.check_room(request.size)
        self._note_open(1, request.size)
        with self._condition:
            self._queue.append(job)
            self._condition.notify_all()
        try:
            return await asyncio.wrap_future(job.answer)
        finally:
            self._note_open(-1, -request.size)
            with self._condition, suppress(ValueError):  # the client has gone; a worker may have the request
                self._queue.remove(job)

    def _note_open(self, n_requests: int, size: int) -> None:
        with self._condition:
            self._n_open += n_requests
            self._open_size += size
            self._metrics.queue.labels(self.name).set(self._n_open)

    # In the threads of the workers

    def _work(self, parser: BatchParser | RemoteBatchParser) -> None:
        while jobs := self._next_jobs():
            try:
                self._parse_batch(jobs, parser)
            except Exception as error:  # unexpected, but it must not end the thread
                for job in jobs:
                    self._fail(job, error)

    def _next_jobs(self) -> list[Job]:
        """Wait for requests, and for more that can join them; return none if the server stops and none is left.

        The requests have the same options. A worker leaves the other workers their part.
        """
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._queue or self._is_stopping)
                if not self._queue:
                    return []
                is_new = self._queue[0].segmented is None
            n_before, until = 0, monotonic() + _MOST_GATHERS * self.limits.gather
            while is_new and not self._is_stopping and n_before < len(self._queue) and monotonic() < until:
                n_before = len(self._queue)
                sleep(self.limits.gather)  # and again if more requests have come
            with self._condition:
                if self._queue:  # otherwise another worker has taken all
                    same = [each for each in self._queue if _options_of(each) == _options_of(self._queue[0])]
                    jobs = same[: -(-self._n_open // self._n_workers)]
                    self._queue = deque(each for each in self._queue if each not in jobs)
                    return jobs

    def _parse_batch(self, jobs: Sequence[Job], parser: BatchParser | RemoteBatchParser) -> None:
        started = monotonic()
        if self.parser.segmenter is not None:
            self._segment_together(jobs)
        parsed = self._parse(self._take(jobs), parser)
        sentences = [each.segmented.sentence for each, _ in parsed]
        if sentences:  # counted before the answers, so that a client that asks for the metrics finds its request there
            seconds = monotonic() - started
            n_characters = sum(len(form) + 1 for sentence in sentences for form in sentence.forms)
            self._speed += 0.2 * (n_characters / max(seconds, 1e-6) - self._speed)
            self._metrics.batch_sentences.labels(self.name).observe(len(sentences))
            self._metrics.batch_seconds.labels(self.name).observe(seconds)
            self._metrics.sentences.labels(self.name).inc(len(sentences))
            self._metrics.words.labels(self.name).inc(sum(map(len, sentences)))
        for each, result in parsed:
            each.job.results[each.number] = result
        for job in jobs:
            job.finish()

    def _segment_together(self, jobs: Sequence[Job]) -> None:
        """Segment the short texts of several requests at once, which is faster; long ones are segmented piecemeal."""
        texts = {
            job: job.request.text
            for job in jobs
            if job.segmented is None and job.request.text is not None
            if len(job.request.text) <= STRIDE and not job.request.has_lines
        }
        if len(texts) > 1:
            with suppress(Exception):  # then each text is segmented separately, and only the faulty one fails
                segmented = self._parser_for(jobs[0].request.language).segment_all(list(texts.values()))
                for job, sentences in zip(texts, segmented, strict=True):
                    job.segmented = iter(sentences)

    def _take(self, jobs: Sequence[Job]) -> list[Taken]:
        """Take sentences from the requests until there is enough work for a batch; the rest stays in the queue."""
        batch: list[Taken] = []
        unfinished: list[Job] = []
        waiting, work = deque(jobs), 0
        while waiting and work < BATCH_WORK:
            job = waiting.popleft()
            most_work = JOB_WORK
            if self._n_open < self._n_workers:  # the idle workers take the rest; 20 words have about 100 characters
                all_work = 1 + job.request.work_of(20) * job.request.size // 100
                most_work = min(JOB_WORK, -(-all_work // self._n_workers))
            try:
                taken, taken_work = job.take(self._parser_for(job.request.language), most_work, self.limits)
            except Exception as error:
                self._fail(job, error)
                continue
            batch += taken
            work += taken_work
            if not job.is_all_taken and not job.answer.done():
                unfinished.append(job)
        with self._condition:
            self._queue = deque([*waiting, *self._queue, *unfinished])
            self._condition.notify_all()
        return batch

    def _parse(
        self, batch: Sequence[Taken], parser: BatchParser | RemoteBatchParser, *, is_repeated: bool = False
    ) -> list[tuple[Taken, Any]]:
        """Return the sentences of a batch and their results; a request that fails does not affect the others."""
        batch = [each for each in batch if not each.job.answer.done()]
        jobs = list(dict.fromkeys(each.job for each in batch))
        if not jobs:
            return []
        request, segmented = jobs[0].request, [each.segmented for each in batch]
        try:
            if request.result == "sentences":
                results = [each.sentence for each in segmented]
            else:
                constraints = [each.constraints for each in batch]
                results = parser.parse(request.result, request.options, segmented, constraints)
        except Exception as error:
            has_died = isinstance(error, WorkerDiedError)
            if len(jobs) == 1 and (is_repeated or not has_died):  # starting a new process is slow: retry only once
                # The death of a worker is an error of the server, not of its client.
                self._fail(jobs[0], RuntimeError(str(error)) if has_died else error)
                return []
            parts = [[each for each in batch if each.job is job] for job in jobs]
            alone = [self._parse(part, parser, is_repeated=is_repeated or has_died) for part in parts]
            return list(chain.from_iterable(alone))
        self._n_failures = 0
        return list(zip(batch, results, strict=True))

    def _fail(self, job: Job, error: Exception) -> None:
        if not isinstance(error, TreefineError):
            _logger.error("%s: a request failed", self.name, exc_info=error)
            self._n_failures += 1
        with suppress(InvalidStateError):
            job.answer.set_exception(error)


class Models(dict[str, ModelServer]):
    """The models of a server by name, the default one first. Requests cannot load other models."""

    def __init__(
        self, parsers: Mapping[str, Parser], limits: ServerLimits, metrics: ServerMetrics, *, workers: int = 0
    ) -> None:
        if not parsers:
            raise TreefineError("A server needs at least one parser.")
        if workers and (os.name == "nt" or any(each.device.type != "cpu" for each in parsers.values())):
            raise TreefineError("Worker processes need a CPU and a Unix system.", hint="Use 0 workers.")
        if len({id(each.model) for each in parsers.values()}) < len(parsers):
            hint = "Load it once per name: each name needs its own copy."
            raise TreefineError("Two names refer to the same model.", hint=hint)
        super().__init__(
            (name, ModelServer(name, parser, limits, metrics, workers=workers)) for name, parser in parsers.items()
        )

    def find(self, name: str = "", *, language: str | None = None) -> ModelServer:
        """Return the model of this name, else the first one that knows the language, else the default one.

        If no model knows the language, return the one with the most languages, whose error lists them.
        """
        if name:
            if name not in self:
                message = f"Unknown model {name[:80]!r}."
                raise ServingError(message, hint=f"Choose {' or '.join(self)}.", status=404, models=[*self])
            return self[name]
        if language is None:
            return next(iter(self.values()))
        for each in self.values():
            with suppress(TreefineError):
                each.languages(language)
                return each
        return max(self.values(), key=lambda each: len(each.languages().main))
