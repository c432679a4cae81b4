"""One model that many ask at once: everybody gets their own answer, and nobody's fault is another's."""

import asyncio
import os
import re
import threading
from contextlib import contextmanager

import pytest

from tests.support.tiny import sample, tiny_parser
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.errors import TreefineError
from treefine.parsing.options import ParserOptions
from treefine.segmenter import segmenter as segmenter_module
from treefine.serving import jobs as jobs_module
from treefine.serving import service as module
from treefine.serving.jobs import ParseJob, PendingJob
from treefine.serving.limits import BusyError, ServerLimits, TooLargeError, TooLateError, work_of
from treefine.serving.metrics import ServerMetrics
from treefine.serving.service import Served, Service
from treefine.treebank.constraints import Constraints
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

SENTENCES = [each for each in sample(40) if len(each) < 25]
CYCLE = Constraints(heads={1: 2, 2: 1})  # no tree satisfies it


@contextmanager
def service_of(*, parser=None, **limits):
    """Yield a service that starts with the first requests."""
    service = Service("tiny", parser or tiny_parser(), ServerLimits(**limits), ServerMetrics())
    try:
        yield service
    finally:
        service.stop()


def ask_all(service, jobs, kind="trees"):
    """Return the answers, or errors, to requests that come at the same time.

    The first requests wait in the queue before the service starts, so that they share a round on any machine.
    """

    async def ask():
        asking = asyncio.gather(*(service.ask(each, kind) for each in jobs), return_exceptions=True)
        if not service._workers:
            await asyncio.sleep(0)  # lets each request enter the queue
            await asyncio.to_thread(service.start)
        return await asking

    return asyncio.run(ask())


def ask_together(jobs, kind="trees", **options):
    with service_of(**options) as service:
        return ask_all(service, jobs, kind)


def job(*sentences, constraints=None, **options):
    return ParseJob(sentences=sentences, options=ParserOptions(**options), constraints=constraints or {})


def alone(first, last):
    """Return the answers to one request per sentence, as the parser gives them."""
    return [[each] for each in tiny_parser().stream_trees(SENTENCES[first:last])]


def as_json(parses):
    return [each.to_json() for each in parses]


def test_requests_parsed_in_one_batch_get_the_same_trees_as_separately():
    jobs = [job(*SENTENCES[first : first + 1 + first % 3]) for first in range(0, 30, 3)]

    assert ask_together(jobs) == [list(tiny_parser().stream_trees(each.sentences)) for each in jobs]


def test_requests_with_different_options_are_parsed_separately():
    options = [{}, {"max_steps": 1}, {"initial": "empty"}, {"is_projective": True}, {"initial": "given"}]
    jobs = [job(*SENTENCES[:4], **each) for each in options]

    parser = tiny_parser()
    assert ask_together(jobs) == [
        list(parser.using(**each.options.set_options).stream_trees(each.sentences)) for each in jobs
    ]


def test_a_round_waits_for_requests_that_keep_coming(monkeypatch):
    monkeypatch.setattr(module, "ROUND", 20)  # a full round starts at once
    with service_of(gather=20) as service:
        service.start()
        ask_all(service, [job(each) for each in SENTENCES[:20]])

    assert b'treefine_round_sentences_count{model="tiny"} 1.0' in service._metrics.text()
    assert b'treefine_sentences_total{model="tiny"} 20.0' in service._metrics.text()


def test_a_failing_request_does_not_affect_others():
    *answers, error = ask_together([*map(job, SENTENCES[:6]), job(SENTENCES[1], constraints={1: CYCLE})])

    assert isinstance(error, TreefineError)
    assert "cycle" in str(error) or "tree" in str(error)
    assert answers == alone(0, 6)


def test_an_unexpected_failure_affects_only_its_own_request(monkeypatch, caplog):
    parser = tiny_parser()
    whole = parser.stream_trees

    def stream(sentences, **options):
        if any("boom" in each.forms for each in sentences):
            raise ZeroDivisionError
        return whole(sentences, **options)

    monkeypatch.setattr(parser, "stream_trees", stream)
    with service_of(parser=parser) as service:
        first, error, second = ask_all(
            service, [job(SENTENCES[0]), job(Sentence.of_words(["boom"])), job(SENTENCES[1])]
        )
        again = ask_all(service, [job(SENTENCES[2])])

    assert isinstance(error, ZeroDivisionError)
    assert [first, second, *again] == alone(0, 3)
    assert "a request failed" in caplog.text


def test_only_one_thread_uses_the_parser(monkeypatch):
    parser = tiny_parser()
    seen = set()
    for name in ("stream_trees", "stream_segmented", "segment"):
        whole = getattr(parser, name)

        def noted(*arguments, _whole=whole, **options):
            seen.add(threading.current_thread().name)
            return _whole(*arguments, **options)

        monkeypatch.setattr(parser, name, noted)
    with service_of(parser=parser) as service:
        for kind in ("trees", "parses"):
            ask_all(service, [job(each) for each in SENTENCES[:10]], kind)

    assert seen == {"treefine tiny"}


def test_a_long_request_does_not_block_a_short_one(monkeypatch):
    monkeypatch.setattr(module, "SHARE", 2)
    order = []

    async def ask(service):
        async def one(name, asked):
            answer = await service.ask(asked, "trees")
            order.append(name)
            return answer

        asking = asyncio.gather(one("long", job(*SENTENCES[:12])), one("short", job(SENTENCES[0])))
        await asyncio.sleep(0)
        await asyncio.to_thread(service.start)
        return await asking

    with service_of() as service:
        long, short = asyncio.run(ask(service))

    assert order == ["short", "long"]
    assert long == list(tiny_parser().stream_trees(SENTENCES[:12]))
    assert short == long[:1]


def test_the_work_of_one_request_per_round_is_limited(monkeypatch):
    monkeypatch.setattr(jobs_module, "SHARE_WORK", 60)
    long = [each for each in SENTENCES if len(each) > 15][:3]
    with service_of() as service:
        answers = ask_all(service, [job(*long, max_steps=4), job(SENTENCES[0])])

    assert answers[0] == list(tiny_parser(max_steps=4).stream_trees(long))
    assert b'treefine_round_sentences_count{model="tiny"} 3.0' in service._metrics.text()


def test_a_sentence_that_takes_long_does_not_keep_short_ones_waiting(monkeypatch):
    monkeypatch.setattr(module, "ROUND_WORK", 30)
    monkeypatch.setattr(module, "LITTLE_WORK", 20)
    long, short = sorted(SENTENCES, key=len)[-3:], [each for each in SENTENCES if len(each) <= 5][:2]
    order = []

    async def ask(service):
        async def one(sentence):
            answer = await service.ask(job(sentence, max_steps=2), "trees")
            order.append(len(sentence))
            return answer

        asking = asyncio.gather(*map(one, [*long, *short]))
        await asyncio.sleep(0)
        await asyncio.to_thread(service.start)
        return await asking

    with service_of() as service:
        answers = asyncio.run(ask(service))

    assert answers == [[each] for each in tiny_parser(max_steps=2).stream_trees([*long, *short])]
    assert order == [len(each) for each in [long[0], *short, *long[1:]]]
    assert b'treefine_round_sentences_count{model="tiny"} 3.0' in service._metrics.text()


def test_texts_that_take_long_to_segment_are_left_for_the_next_round(monkeypatch):
    monkeypatch.setattr(module, "_TAKE_SECONDS", -1)
    parser = tiny_parser(segmenter=tiny_segmenter())
    with service_of(parser=parser, gather=0) as service:
        answers = ask_all(service, [ParseJob(text=f"ab {number}.") for number in range(3)])

    assert [[each.forms for each in answer] for answer in answers] == [
        [each.sentence.forms for each in parser.segmenter.segment(f"ab {number}.")] for number in range(3)
    ]
    assert n_rounds(service._metrics.text()) == 3


def test_a_request_whose_client_has_gone_leaves_the_queue():
    async def ask(service):
        waiting = [asyncio.ensure_future(service.ask(job(each), "trees")) for each in SENTENCES[:3]]
        await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        return await asyncio.gather(*waiting, return_exceptions=True)

    with service_of() as service:
        gone = asyncio.run(ask(service))

        assert [type(each) for each in gone] == [asyncio.CancelledError] * 3
        assert (len(service._queue), service._n_open, service._open_size) == (0, 0, 0)


@pytest.fixture(scope="module")
def service_with_workers():
    """Yield a service with two worker processes, which take a while to start."""
    parser = tiny_parser(segmenter=tiny_segmenter())
    service = Service("tiny", parser, ServerLimits(), ServerMetrics(), workers=2)
    service.start()
    yield service
    service.stop()


def test_worker_processes_return_the_same_trees_parses_and_errors(service_with_workers):
    jobs = [job(*SENTENCES[first : first + 3], max_steps=1 + first % 2) for first in range(0, 30, 3)]
    *answers, error = ask_all(service_with_workers, [*jobs, job(SENTENCES[1], constraints={1: CYCLE})])
    (parses,) = ask_all(service_with_workers, [ParseJob(text="ab 12 a. b' del.")], "parses")
    parser = tiny_parser(segmenter=tiny_segmenter())

    assert answers == [list(parser.using(**each.options.set_options).stream_trees(each.sentences)) for each in jobs]
    assert isinstance(error, TreefineError)
    assert as_json(parses) == as_json(parser("ab 12 a. b' del."))


def test_a_request_alone_is_divided_among_the_workers_and_keeps_its_order(service_with_workers, monkeypatch):
    monkeypatch.setattr(module, "_SMALLEST_PART", 2)
    before = service_with_workers._metrics.text()
    (answer,) = ask_all(service_with_workers, [job(*SENTENCES[:20])])

    assert answer == list(tiny_parser().stream_trees(SENTENCES[:20]))
    assert n_rounds(service_with_workers._metrics.text()) == n_rounds(before) + 2


def n_rounds(metrics):
    return float(re.search(rb"treefine_round_sentences_count\S* (\S+)", metrics)[1])


def test_killed_worker_processes_are_replaced_without_an_error(service_with_workers):
    for host in service_with_workers.hosts:
        host._process.kill()
    answers = ask_all(service_with_workers, [job(each) for each in SENTENCES[:4]])

    assert answers == alone(0, 4)


def test_a_request_that_kills_its_worker_process_gets_an_error_and_others_do_not(service_with_workers, caplog):
    deadly = job(SENTENCES[0], initial=Deadly())
    error, *answers = ask_all(service_with_workers, [deadly, *(job(each) for each in SENTENCES[:4])])

    assert isinstance(error, RuntimeError)
    assert "ended unexpectedly" in str(error)
    assert answers == alone(0, 4)
    assert service_with_workers.is_alive
    assert "a request failed" in caplog.text


def test_a_service_whose_parser_cannot_be_sent_to_workers_does_not_start():
    parser = tiny_parser(initial=lambda sentences: 1 / 0)
    service = Service("tiny", parser, ServerLimits(), ServerMetrics(), workers=1)

    with pytest.raises(TreefineError, match=r"^The worker processes of tiny cannot parse \(.*pickle.*0 workers"):
        service.start()
    assert not service.is_alive


class Deadly:
    """An initial parser that ends its process."""

    def __call__(self, sentences):
        os._exit(1)


def test_a_full_queue_is_reported_with_the_time_to_retry():
    with service_of(queue=3) as service:
        *_, first, second = ask_all(service, [job(each) for each in SENTENCES[:5]])
        after = ask_all(service, [job(SENTENCES[0])])

    assert [type(first), type(second)] == [BusyError, BusyError]
    assert all(each.status == 503 and 1 <= each.retry_after <= 60 for each in (first, second))
    assert after == alone(0, 1)


def test_a_few_large_requests_fill_the_queue_too():
    answers = ask_together([job(Sentence.of_words(["a" * 150])) for _ in range(4)], queue_size=400)

    assert [isinstance(each, BusyError) for each in answers] == [False, False, True, True]


def test_all_requests_are_answered_when_a_whole_round_fails(monkeypatch):
    with service_of() as service:
        monkeypatch.setattr(service, "_parse_together", lambda *_: 1 / 0)
        (error,) = ask_all(service, [job(SENTENCES[0])])

    assert isinstance(error, ZeroDivisionError)


def test_a_model_is_unhealthy_while_all_its_rounds_fail(monkeypatch):
    parser = tiny_parser()
    with service_of(parser=parser) as service:
        service.start()
        with monkeypatch.context() as patch:
            patch.setattr(parser, "stream_trees", lambda *_, **__: 1 / 0)
            for _ in range(module.MOST_FAILURES):
                assert service.is_alive
                ask_all(service, [job(SENTENCES[0])])
            assert not service.is_alive
        ask_all(service, [job(SENTENCES[0])])
        assert service.is_alive


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        (job(*[SENTENCES[0]] * 101), "steps", "The request has more than 100 sentences to draw."),
        (
            job(SENTENCES[0], constraints={1: Constraints(not_labels={1: [str(number) for number in range(1001)]})}),
            "trees",
            "Sentence 1 has more than 1,000 forbidden heads and labels.",
        ),
        (
            job(SENTENCES[0], Sentence.of_words(["a"] * 81)),
            "trees",
            "Sentence 2 has 81 words. The limit is 80 words. Split it, or parse it with `treefine parse`.",
        ),
        (
            job(Sentence.of_words(["a"] * 70), max_steps=20, k=20),
            "parses",
            "Sentence 1 has 70 words. With 20 steps and k = 20, the limit is 46 words. Use fewer steps or trees.",
        ),
        (
            job(Sentence.of_words(["a"] * 70), k=20, is_projective=True),
            "parses",
            "Sentence 1 has 70 words. With 3 steps and k = 20, projective, the limit is 38 words.",
        ),
        (
            job(Sentence.of_words(["a", "b" * 101])),
            "trees",
            "Sentence 1 has a word of 101 characters. The limit is 100 characters.",
        ),
        (
            ParseJob(text="a b " + "." * 101),
            "trees",
            "The text has 101 characters without a space. The limit is 100 characters per word.",
        ),
    ],
    ids=["drawings", "constraints", "words", "work", "projective", "characters", "text"],
)
def test_a_request_above_a_limit_is_rejected(asked, kind, said):
    (error,) = ask_together([asked], kind, max_words=80, max_chars=100)

    assert isinstance(error, TooLargeError)
    assert str(error).startswith(said)


def test_a_short_sentence_may_take_more_steps_and_trees_than_a_long_one():
    limits = ServerLimits(max_words=1_000)

    assert [limits.words_with(steps=steps) for steps in (1, 8, 9, 20)] == [1_000, 1_000, 936, 593]
    assert [limits.words_with(steps=3, k=k) for k in (1, 2, 5, 20)] == [1_000, 576, 439, 226]
    assert [limits.words_with(steps=3, k=k, is_projective=True) for k in (1, 2, 20)] == [1_000, 167, 92]
    short = job(Sentence.of_words(["a"] * 8), max_steps=20, k=20)
    assert len(ask_together([short], "parses", max_words=8)[0]) == 1


def test_long_sentences_and_several_trees_count_as_more_work():
    def work(*lengths, **options):
        return [work_of(n_words, **options) for n_words in lengths]

    assert work(10, 250, 1_000, steps=2) == [20, 1_000, 10_000]
    assert work(250, steps=2, k=2) == [1_000 + 500 * (10 + 4 * 2)]
    assert work(100, 200, steps=1, is_projective=True) == work(100, 200, steps=1)
    # On one core, 100 words take about 0.8 s, and 200 words 9 s.
    assert work(100, 200, steps=1, k=2, is_projective=True) == [9_860, 64_440]


def test_only_answers_with_several_trees_count_the_work_of_finding_them():
    asked = job(Sentence.of_words(["a"] * 20), max_steps=2, k=3)
    parts = [PendingJob(asked, kind).take(tiny_parser(), 1, ServerLimits()) for kind in ("trees", "parses", "steps")]

    assert [part.work for part in parts] == [work_of(20, steps=2, k=k) for k in (1, 3, 3)]


def test_a_sentence_at_its_limit_is_as_much_work_as_the_longest_sentence():
    limits = ServerLimits()
    for options in ({"steps": 20}, {"steps": 3, "k": 2}, {"steps": 3, "k": 20, "is_projective": True}):
        most = limits.words_with(**options)

        assert work_of(most, **options) <= work_of(limits.max_words, steps=8) < work_of(most + 1, **options)


def test_a_request_that_takes_too_long_gets_an_error_and_the_rest_of_it_is_dropped(monkeypatch):
    parser = tiny_parser()
    entered, released, whole = threading.Event(), threading.Event(), parser.stream_trees
    parsed = []

    def stream(sentences, **options):
        entered.set()
        released.wait(60)
        parsed.extend(sentences)
        return whole(sentences, **options)

    monkeypatch.setattr(parser, "stream_trees", stream)
    with service_of(parser=parser, seconds=0.2, gather=0) as service:
        while not entered.is_set():  # on a busy machine the request may time out before the thread sees it
            (under_way,) = ask_all(service, [job(SENTENCES[0])])
        (waiting,) = ask_all(service, [job(SENTENCES[1])])
        released.set()
        service.limits = ServerLimits()
        after = ask_all(service, [job(SENTENCES[2])])

    assert [type(under_way), type(waiting)] == [TooLateError, TooLateError]
    assert under_way.status == 504
    assert after == alone(2, 3)
    assert SENTENCES[0] in parsed
    assert SENTENCES[1] not in parsed


@pytest.mark.parametrize("where", ["steps", "blocks"])
def test_a_request_that_nobody_waits_for_stops_before_the_next_step_or_block(monkeypatch, where):
    monkeypatch.setattr(segmenter_module, "STRIDE", 64)
    monkeypatch.setattr(segmenter_module, "BLOCK_WINDOWS", 1)
    parser = tiny_parser(segmenter=tiny_segmenter())
    calls = []

    with service_of(parser=parser) as service:

        def hang_up(*_):
            for request in module._CURRENT.get():  # none during the warm-up
                calls.append(where)
                request.answer.cancel()

        network = parser.running if where == "steps" else parser.segmenter.network
        hook = network.register_forward_pre_hook(hang_up)
        asked = job(SENTENCES[0], max_steps=4) if where == "steps" else ParseJob(text="a" * 640)
        (gone,) = ask_all(service, [asked])
        hook.remove()
        after = ask_all(service, [job(SENTENCES[2])])

        assert isinstance(gone, asyncio.CancelledError)
        assert calls == [where]
        assert after == alone(2, 3)
        assert service.is_alive
    assert b'treefine_sentences_total{model="tiny"} 1.0' in service._metrics.text()
    assert len(list(parser.segment(["a" * 640]))) == 1  # outside the server nothing is checked


def test_stopping_answers_open_requests_and_rejects_new_ones():
    async def ask(service):
        waiting = [asyncio.ensure_future(service.ask(job(each), "trees")) for each in SENTENCES[:8]]
        await asyncio.sleep(0)
        await asyncio.to_thread(service.stop)
        with pytest.raises(BusyError):
            await service.ask(job(SENTENCES[0]), "trees")
        return await asyncio.gather(*waiting)

    with service_of() as service:
        service.start()
        answers = asyncio.run(ask(service))
        assert not service.is_alive
        service.start()
        again = ask_all(service, [job(SENTENCES[0])])

    assert answers == alone(0, 8)
    assert again == alone(0, 1)


def test_a_text_is_segmented_as_by_the_parser():
    text = "ab 12 a. b' del 1\n\nab baki é. " * 20
    parser = tiny_parser(segmenter=tiny_segmenter())
    whole, lines, nothing = ask_together(
        [ParseJob(text=text), ParseJob(text=text, lines=True), ParseJob(text="")], "parses", parser=parser
    )

    by_line = parser.stream_lines(text.splitlines(keepends=True))
    assert (as_json(whole), as_json(lines), nothing) == (as_json(parser(text)), as_json(by_line), [])


def test_texts_segmented_together_get_the_same_sentences_as_separately(monkeypatch):
    parser = tiny_parser(segmenter=tiny_segmenter())
    texts = ["ab 12 a. b'", "del 1\n\nab baki é.", "b. b. b.", "", "ab 12. " * 200]
    together, whole = [], parser.segmenter.segment_all
    monkeypatch.setattr(parser.segmenter, "segment_all", lambda some: together.append(some) or whole(some))
    answers = ask_together([ParseJob(text=text) for text in texts], "parses", parser=parser)

    assert together == [texts[:4]]
    other = tiny_parser(segmenter=tiny_segmenter())
    assert [as_json(answer) for answer in answers] == [as_json(other(text)) for text in texts]


def test_constraints_apply_to_their_sentence_and_override_its_marks():
    sentence = Sentence.of_words(["a", "b", "c"]).with_arcs(Arcs((2, 0, 2), ("det", "root", "obj")))
    marked = sentence.with_misc(["Keep=Arc", "_", "Keep=Arc"])
    asked = job(sentence, marked, constraints={2: Constraints(heads={3: 1})})

    assert asked.constraints_of(1, sentence) == Constraints()
    both = asked.constraints_of(2, marked)
    assert (both.heads, both.labels) == ({1: 2, 3: 1}, {1: "det"})
    (_, second), beyond = ask_together([asked, job(sentence, constraints={2: Constraints(heads={1: 0})})])
    assert (second.heads[0], second.heads[2], second.labels[0]) == (2, 1, "det")
    assert str(beyond) == "There are constraints for sentence 2, but only 1 sentence. Sentences are counted from 1."


def test_a_server_needs_a_model_and_rejects_two_names_for_one_model():
    parser = tiny_parser()

    with pytest.raises(TreefineError, match="at least one parser"):
        Served({}, ServerLimits(), ServerMetrics())
    with pytest.raises(TreefineError, match="Two names refer to the same model"):
        Served({"a": parser, "b": parser.using(k=2)}, ServerLimits(), ServerMetrics())


def test_options_missing_in_a_request_are_those_of_the_parser():
    applied = tiny_parser(is_projective=True, k=2).using(**ParserOptions(max_steps=1).set_options)

    assert (applied.plan().decoder.is_projective, applied.k, applied.max_steps) == (True, 2, 1)


@pytest.mark.parametrize(
    "name", ["max_bytes", "max_words", "max_chars", "queue", "queue_size", "seconds", "receive", "connections"]
)
def test_limits_must_be_above_zero(name):
    with pytest.raises(TreefineError, match=f"{name} is 0"):
        ServerLimits(**{name: 0})
