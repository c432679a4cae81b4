"""One model that many ask at once: everybody gets their own answer, and nobody's fault is another's."""

import asyncio
import threading
from time import monotonic

import pytest

from tests.support.tiny import sample, tiny_parser
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.errors import TreefineError
from treefine.serving import service as module
from treefine.serving.middleware import (
    BusyError,
    ServerLimits,
    ServerMetrics,
    TooLargeError,
    TooLateError,
    UnknownModelError,
)
from treefine.serving.requests import ParseJob, RequestOptions
from treefine.serving.service import Served, Service
from treefine.treebank.constraints import Constraints
from treefine.treebank.sentence import Sentence

SENTENCES = [each for each in sample(40) if len(each) < 25]
CYCLE = Constraints(heads={1: 2, 2: 1})  # which no tree obeys


class Running:
    """A service that runs while a test does."""

    def __init__(self, *, parser=None, **limits):
        self.service = Service("tiny", parser or tiny_parser(), ServerLimits(**limits), ServerMetrics())

    def __enter__(self):
        self.service.start()
        return self.service

    def __exit__(self, *_):
        self.service.stop()


def ask_all(service, asked, kind="trees"):
    """The answers, or errors, to requests that come at the same time."""

    async def ask():
        return await asyncio.gather(*(getattr(service, kind)(each) for each in asked), return_exceptions=True)

    return asyncio.run(ask())


def of(*sentences, **options):
    constraints = options.pop("constraints", {})
    return ParseJob(sentences=tuple(sentences), options=RequestOptions(**options), constraints=constraints)


def test_requests_that_come_together_get_the_trees_that_each_would_get_alone():
    requests = [of(*SENTENCES[first : first + 1 + first % 3]) for first in range(0, 30, 3)]
    with Running() as service:
        answers = ask_all(service, requests)

    parser = tiny_parser()
    assert answers == [list(parser.stream(each.sentences)) for each in requests]


def test_requests_with_other_options_get_their_own():
    options = [{}, {"max_steps": 1}, {"initial": "empty"}, {"is_projective": True}, {"initial": "given"}]
    requests = [of(*SENTENCES[:4], **each) for each in options]
    with Running() as service:
        answers = ask_all(service, requests)

    parser = tiny_parser()
    for each, answer in zip(requests, answers, strict=True):
        assert answer == list(each.options.apply(parser).stream(each.sentences))


def test_parses_have_confidence_and_steps_those_of_each_step_too():
    with Running() as service:
        (parses,) = ask_all(service, [of(*SENTENCES[:5])], "parses")
        (steps,) = ask_all(service, [of(*SENTENCES[:5])], "steps")

    assert [each.to_json() for each in parses] == [
        each.to_json() for each in tiny_parser().stream_parses(SENTENCES[:5])
    ]
    assert all(len(each.step_confidences) == len(each.steps) for each in steps)
    assert [each.to_json() for each in steps] == [each.to_json() for each in parses]


def test_requests_that_come_within_the_gathering_time_are_parsed_in_one_round():
    with Running(gather=0.5) as service:
        ask_all(service, [of(each) for each in SENTENCES[:20]])

    assert b'treefine_round_sentences_count{model="tiny"} 1.0' in service._metrics.text()
    assert b'treefine_sentences_total{model="tiny"} 20.0' in service._metrics.text()


def test_a_request_that_fails_harms_no_other():
    bad = of(SENTENCES[1], constraints={1: CYCLE})
    good = [of(each) for each in SENTENCES[:6]]
    with Running(gather=0.2) as service:
        *answers, error = ask_all(service, [*good, bad])

    assert isinstance(error, TreefineError)
    assert "cycle" in str(error) or "tree" in str(error)
    assert answers == [[each] for each in tiny_parser().stream(SENTENCES[:6])]


def test_a_failure_that_nobody_expected_is_the_one_request_s_own(monkeypatch, caplog):
    parser = tiny_parser()
    whole = parser.stream

    def stream(sentences, **options):
        if any("boom" in each.forms for each in sentences):
            raise ZeroDivisionError
        return whole(sentences, **options)

    monkeypatch.setattr(parser, "stream", stream)
    with Running(parser=parser, gather=0.2) as service:
        answers = ask_all(service, [of(SENTENCES[0]), of(Sentence.of_words(["boom"])), of(SENTENCES[1])])
        again = ask_all(service, [of(SENTENCES[2])])

    assert isinstance(answers[1], ZeroDivisionError)
    assert [answers[0], answers[2], again[0]] == [[each] for each in tiny_parser().stream(SENTENCES[:3])]
    assert "a request failed" in caplog.text


def test_only_one_thread_ever_touches_the_parser(monkeypatch):
    parser = tiny_parser()
    seen = set()
    for name in ("stream", "stream_segmented", "segment"):
        whole = getattr(parser, name)

        def noted(*arguments, _whole=whole, **options):
            seen.add(threading.current_thread().name)
            return _whole(*arguments, **options)

        monkeypatch.setattr(parser, name, noted)
    with Running(parser=parser) as service:
        ask_all(service, [of(each) for each in SENTENCES[:10]])
        ask_all(service, [of(each) for each in SENTENCES[:10]], "parses")

    assert seen == {"treefine tiny"}


def test_a_long_request_does_not_hold_up_a_short_one(monkeypatch):
    monkeypatch.setattr(module, "SHARE", 2)
    order = []

    async def ask(service):
        async def one(name, asked):
            answer = await service.trees(asked)
            order.append(name)
            return answer

        return await asyncio.gather(one("long", of(*SENTENCES[:12])), one("short", of(SENTENCES[0])))

    with Running(gather=0.2) as service:
        long, short = asyncio.run(ask(service))

    assert order == ["short", "long"]
    assert long == list(tiny_parser().stream(SENTENCES[:12]))
    assert short == long[:1]


def test_what_one_request_gives_to_a_round_is_bounded_in_work(monkeypatch):
    monkeypatch.setattr(module, "SHARE_WORK", 60)
    long, short = [each for each in SENTENCES if len(each) > 15][:3], SENTENCES[0]
    with Running(gather=0.3) as service:
        answers = ask_all(service, [of(*long, max_steps=4), of(short)])

    assert answers[0] == list(tiny_parser(max_steps=4).stream(long))
    assert b'treefine_round_sentences_count{model="tiny"} 3.0' in service._metrics.text()


def test_a_queue_of_few_but_large_requests_is_full_too():
    with Running(queue_size=400, gather=0.3) as service:
        answers = ask_all(service, [of(Sentence.of_words(["a" * 150])) for _ in range(4)])

    assert [isinstance(each, BusyError) for each in answers] == [False, False, True, True]


def test_a_round_that_fails_as_a_whole_leaves_nobody_waiting(monkeypatch):
    def note(*_):
        raise ZeroDivisionError

    with Running(gather=0.1) as service:
        monkeypatch.setattr(service, "_parse_together", note)
        (error,) = ask_all(service, [of(SENTENCES[0])])

    assert isinstance(error, ZeroDivisionError)


def test_a_model_that_fails_at_everything_is_not_healthy_until_it_does_not(monkeypatch):
    parser = tiny_parser()
    with Running(parser=parser) as service:
        with monkeypatch.context() as patch:
            patch.setattr(parser, "stream", lambda *_, **__: 1 / 0)
            for _ in range(module.MOST_FAILURES):
                assert service.is_alive
                ask_all(service, [of(SENTENCES[0])])
            assert not service.is_alive
        ask_all(service, [of(SENTENCES[0])])
        assert service.is_alive


def test_a_service_can_be_started_again():
    service = Running().service
    for _ in range(2):
        service.start()
        assert ask_all(service, [of(SENTENCES[0])]) == [[next(tiny_parser().stream(SENTENCES[:1]))]]
        service.stop()


def test_more_than_a_hundred_sentences_are_not_drawn_and_more_than_a_thousand_marks_not_obeyed():
    word = Sentence.of_words(["a", "b"])
    many = Constraints(not_labels={1: [str(number) for number in range(1001)]})
    with Running() as service:
        (drawn,) = ask_all(service, [of(*[word] * 101)], "steps")
        (marked,) = ask_all(service, [of(word, constraints={1: many})])

    assert [type(drawn), type(marked)] == [TooLargeError, TooLargeError]


def test_a_full_queue_is_told_with_the_time_to_come_again():
    with Running(queue=3, gather=0.3) as service:
        answers = ask_all(service, [of(each) for each in SENTENCES[:5]])
        after = ask_all(service, [of(SENTENCES[0])])

    refused = [each for each in answers if isinstance(each, BusyError)]
    assert len(refused) == 2
    assert all(each.status == 503 and 1 <= each.retry_after <= 60 for each in refused)
    assert after == [[next(tiny_parser().stream(SENTENCES[:1]))]]


def test_what_takes_too_long_is_told_and_what_nobody_waits_for_is_not_parsed(monkeypatch):
    parser = tiny_parser()
    entered, released, whole = threading.Event(), threading.Event(), parser.stream
    parsed = []

    def stream(sentences, **options):
        entered.set()
        released.wait(20)
        parsed.extend(sentences)
        return whole(sentences, **options)

    async def ask(service):
        first = asyncio.ensure_future(service.trees(of(SENTENCES[0])))
        await asyncio.to_thread(entered.wait, 20)
        return await asyncio.gather(first, service.trees(of(SENTENCES[1])), return_exceptions=True)

    monkeypatch.setattr(parser, "stream", stream)
    with Running(parser=parser, seconds=0.3, gather=0) as service:
        errors = asyncio.run(ask(service))
        released.set()
        after = asyncio.run(_patient(service, of(SENTENCES[2])))

    assert [type(each) for each in errors] == [TooLateError, TooLateError]
    assert errors[0].status == 504
    assert after == [next(tiny_parser().stream([SENTENCES[2]]))]
    assert SENTENCES[0] in parsed
    assert SENTENCES[1] not in parsed


async def _patient(service, asked):
    """The answer, however busy the machine is: the limit of the test above is short."""
    until = monotonic() + 20
    while True:
        try:
            return await service.trees(asked)
        except TooLateError:
            assert monotonic() < until


def test_stopping_finishes_what_is_under_way_and_takes_no_more():
    async def ask(service):
        waiting = [asyncio.ensure_future(service.trees(of(each))) for each in SENTENCES[:8]]
        await asyncio.sleep(0)
        await asyncio.to_thread(service.stop)
        answers = await asyncio.gather(*waiting)
        with pytest.raises(BusyError):
            await service.trees(of(SENTENCES[0]))
        return answers

    with Running(gather=0.2) as service:
        answers = asyncio.run(ask(service))

    assert answers == [[each] for each in tiny_parser().stream(SENTENCES[:8])]
    assert not service.is_alive


def test_a_sentence_that_is_too_long_is_told_with_its_number():
    with Running(max_words=30) as service:
        (error,) = ask_all(service, [of(SENTENCES[0], Sentence.of_words(["a"] * 31))])

    assert isinstance(error, TooLargeError)
    assert str(error).startswith("Sentence 2 has 31 words. This server takes 30.")


def test_a_text_is_cut_as_the_parser_cuts_it_alone():
    text = "ab 12 a. b' del 1\n\nab baki é. " * 20
    parser = tiny_parser(segmenter=tiny_segmenter())
    with Running(parser=parser) as service:
        whole, lines = ask_all(service, [ParseJob(text=text), ParseJob(text=text, lines=True)], "parses")
        assert ask_all(service, [ParseJob(text="")]) == [[]]

    alone = tiny_parser(segmenter=tiny_segmenter())
    assert [each.to_json() for each in whole] == [each.to_json() for each in alone(text)]
    by_line = alone.stream_lines(text.splitlines(keepends=True))
    assert [each.to_json() for each in lines] == [each.to_json() for each in by_line]


def test_texts_that_come_together_are_cut_together_and_as_each_alone(monkeypatch):
    parser = tiny_parser(segmenter=tiny_segmenter())
    texts = ["ab 12 a. b'", "del 1\n\nab baki é.", "b. b. b.", "", "ab 12. " * 200]
    together, whole = [], parser.segmenter.segment_all
    monkeypatch.setattr(parser.segmenter, "segment_all", lambda some: together.append(some) or whole(some))
    with Running(parser=parser, gather=0.3) as service:
        answers = ask_all(service, [ParseJob(text=text) for text in texts], "parses")

    alone = tiny_parser(segmenter=tiny_segmenter())
    assert together == [texts[:4]]
    for text, answer in zip(texts, answers, strict=True):
        assert [each.to_json() for each in answer] == [each.to_json() for each in alone(text)]


def test_constraints_are_for_the_sentence_of_their_number_and_go_before_its_marks():
    sentence = Sentence.of_words(["a", "b", "c"]).with_arcs(
        SENTENCES[0].arcs.__class__((2, 0, 2), ("det", "root", "obj"))
    )
    marked = sentence.with_misc(["Keep=Arc", "_", "Keep=Arc"])
    asked = of(sentence, marked, constraints={2: Constraints(heads={3: 1})})

    assert asked.constraints_of(1, sentence) == Constraints()
    both = asked.constraints_of(2, marked)
    assert (both.heads, both.labels) == ({1: 2, 3: 1}, {1: "det"})
    with Running() as service:
        (answer,) = ask_all(service, [asked])
        (beyond,) = ask_all(service, [of(sentence, constraints={2: Constraints(heads={1: 0})})])
    assert (answer[1].heads[0], answer[1].heads[2], answer[1].labels[0]) == (2, 1, "det")
    assert str(beyond) == "There are constraints for sentence 2, and 1 sentences. Sentences are counted from 1."


def test_models_are_found_by_their_names_alone():
    served = Served({"en": tiny_parser(), "tr": tiny_parser()}, ServerLimits(), ServerMetrics())

    assert (served.names, served.default, served.find("").name, served.find("tr").name) == (
        ("en", "tr"),
        "en",
        "en",
        "tr",
    )
    with pytest.raises(UnknownModelError, match=r"no model '../en' here. Choose en or tr\."):
        served.find("../en")
    with pytest.raises(TreefineError, match="at least one parser"):
        Served({}, ServerLimits(), ServerMetrics())
    parser = tiny_parser()
    with pytest.raises(TreefineError, match="One model has two names"):
        Served({"a": parser, "b": parser.using(k=2)}, ServerLimits(), ServerMetrics())


def test_what_a_request_leaves_open_is_as_the_parser_was_made():
    own = tiny_parser(is_projective=True, k=2)
    applied = RequestOptions(max_steps=1).apply(own)

    assert (applied.is_projective, applied.k, applied.max_steps) == (True, 2, 1)


@pytest.mark.parametrize("name", ["max_bytes", "max_words", "queue", "queue_size", "seconds"])
def test_limits_are_above_nothing(name):
    with pytest.raises(TreefineError, match=f"{name} is 0"):
        ServerLimits(**{name: 0})
