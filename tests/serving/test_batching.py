"""One model that many ask at once: everybody gets their own answer, and nobody's fault is another's."""

import asyncio
import re
import threading
from contextlib import contextmanager

import pytest

from tests.support.tiny import sample, tiny_parser
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.errors import TreefineError
from treefine.parsing.options import ParserOptions
from treefine.serving import batching
from treefine.serving.batching import Models, ModelServer, ServerMetrics
from treefine.serving.limits import ServerLimits, ServingError
from treefine.serving.requests import ParseRequest
from treefine.treebank.constraints import Constraints
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

SENTENCES = [each for each in sample(40) if len(each) < 25]
CYCLE = Constraints(heads={1: 2, 2: 1})  # no tree satisfies it


@contextmanager
def model_server(*, parser=None, **limits):
    """Yield a server that starts with the first requests."""
    server = ModelServer("tiny", parser or tiny_parser(), ServerLimits(**limits), ServerMetrics())
    try:
        yield server
    finally:
        server.stop()


def ask_all(server, requests, order=None):
    """Return the answers, or errors, to requests that come at the same time; note the order of the answers.

    The first requests wait in the queue before the server starts, so that they share a batch on any machine.
    """

    async def ask_one(number, request):
        answer = await server.answer(0, lambda: request, lambda results: results)
        if order is not None:
            order.append(number)
        return answer

    async def ask():
        asking = asyncio.gather(*(ask_one(*each) for each in enumerate(requests)), return_exceptions=True)
        if not server._workers:
            await asyncio.sleep(0.001)  # lets each request enter the queue
            await asyncio.to_thread(server.start)
        return await asking

    return asyncio.run(ask())


def request(*sentences, constraints=None, result="trees", **options):
    return ParseRequest(None, sentences, ParserOptions(**options), constraints or {}, result)


def trees(first, last):
    """Return the answers to one request per sentence, as the parser gives them."""
    return [[each] for each in tiny_parser().stream_trees(SENTENCES[first:last])]


def as_json(parses):
    return [each.to_json() for each in parses]


def n_batches(server):
    return float(re.search(rb"treefine_batch_sentences_count\S* (\S+)", server._metrics.text())[1])


def test_a_batch_has_requests_with_the_same_options_wherever_they_wait_and_they_get_the_trees_of_the_parser():
    options = [{}, {"max_steps": 1}, {"is_projective": True}, {"initial": "given"}, {"max_steps": 1}, {}]
    requests = [request(*SENTENCES[first : first + 1 + first % 3], **options[first % 6]) for first in range(12)]
    with model_server() as server:
        answers = ask_all(server, requests)

        assert n_batches(server) == 4
    expected = [tiny_parser(**each.options.set_options).stream_trees(each.sentences) for each in requests]
    assert answers == [list(trees) for trees in expected]


def test_a_failing_request_does_not_affect_others(monkeypatch, caplog):
    parser = tiny_parser()
    stream_trees = parser.stream_trees

    def stream(sentences, **options):
        if any("boom" in each.forms for each in sentences):
            raise ZeroDivisionError
        return stream_trees(sentences, **options)

    monkeypatch.setattr(parser, "stream_trees", stream)
    with model_server(parser=parser) as server:
        bad = [request(Sentence.of_words(["boom"])), request(SENTENCES[1], constraints={1: CYCLE})]
        unexpected, impossible, *answers = ask_all(server, [*bad, *map(request, SENTENCES[:6])])
        again = ask_all(server, [request(SENTENCES[2])])

    assert isinstance(unexpected, ZeroDivisionError)
    assert isinstance(impossible, TreefineError)
    assert answers == trees(0, 6)
    assert again == trees(2, 3)
    assert "a request failed" in caplog.text


def test_a_long_request_is_cut_into_slices_and_does_not_block_a_short_one(monkeypatch):
    monkeypatch.setattr(batching, "JOB_WORK", 60)
    monkeypatch.setattr(batching, "BATCH_WORK", 1)
    order = []
    with model_server() as server:
        long, *short = ask_all(server, [request(*SENTENCES[:12]), *[request(SENTENCES[0])] * 3], order)

        assert n_batches(server) > 3
    assert order == [1, 2, 3, 0]
    assert long == list(tiny_parser().stream_trees(SENTENCES[:12]))
    assert short == trees(0, 1) * 3


def test_a_request_whose_client_has_gone_leaves_the_queue():
    async def ask(server):
        waiting = [asyncio.ensure_future(server.parse(request(each))) for each in SENTENCES[:3]]
        await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        return await asyncio.gather(*waiting, return_exceptions=True)

    with model_server() as server:
        gone = asyncio.run(ask(server))

        assert [type(each) for each in gone] == [asyncio.CancelledError] * 3
        assert (len(server._queue), server._n_open, server._open_size) == (0, 0, 0)


@pytest.mark.parametrize("limits", [{"queue": 3}, {"queue_size": 3 * 170}], ids=["requests", "characters"])
def test_a_full_queue_is_reported_with_the_time_to_retry(limits):
    words = Sentence.of_words(["a" * 150])
    with model_server(**limits) as server:
        *answers, first, second = ask_all(server, [request(words)] * 5)
        (after,) = ask_all(server, [request(SENTENCES[0])])

    assert all(each.status == 503 and 1 <= each.retry_after <= 60 for each in (first, second))
    assert [len(each) for each in (*answers, after)] == [1] * 4


def test_a_model_is_unhealthy_while_all_its_batches_fail(monkeypatch):
    parser = tiny_parser()
    with model_server(parser=parser) as server:
        server.start()
        with monkeypatch.context() as patch:
            patch.setattr(parser, "stream_trees", lambda *_, **__: 1 / 0)
            for _ in range(batching.MOST_FAILURES):
                assert server.is_alive
                ask_all(server, [request(SENTENCES[0])])
            assert not server.is_alive
        ask_all(server, [request(SENTENCES[0])])
        assert server.is_alive


LONG = Sentence.of_words(["a"] * 70)
MANY_LABELS = Constraints(not_labels={1: [str(number) for number in range(1001)]})
FEWER = "Split it, or use fewer steps or trees."


@pytest.mark.parametrize(
    ("rejected", "message"),
    [
        (request(*[SENTENCES[0]] * 101, result="steps"), "The request has more than 100 sentences to draw."),
        (request(LONG, constraints={1: MANY_LABELS}), "Sentence 1 has more than 1,000 forbidden heads and labels."),
        (request(SENTENCES[0], Sentence.of_words(["a"] * 81)), "Sentence 2 has 81 words. The limit is 80 words. Split"),
        (
            request(LONG, max_steps=20, k=20, result="parses"),
            f"Sentence 1 has 70 words. The limit is 46 words. {FEWER}",
        ),
        (
            request(LONG, k=20, is_projective=True, result="parses"),
            f"Sentence 1 has 70 words. The limit is 38 words. {FEWER}",
        ),
        (request(Sentence.of_words(["b" * 101])), "Sentence 1 has a word of 101 characters. The limit is 100"),
    ],
    ids=["drawings", "constraints", "words", "work", "projective", "characters"],
)
def test_a_request_above_a_limit_is_rejected(rejected, message):
    with model_server(max_words=80, max_chars=100) as server:
        (error,) = ask_all(server, [rejected])

    assert error.status == 413
    assert str(error).startswith(message)


def test_a_request_that_takes_too_long_gets_an_error_and_the_rest_of_it_is_dropped(monkeypatch):
    parser = tiny_parser()
    entered, released, stream_trees = threading.Event(), threading.Event(), parser.stream_trees
    parsed = []

    def stream(sentences, **options):
        entered.set()
        released.wait(60)
        parsed.extend(sentences)
        return stream_trees(sentences, **options)

    monkeypatch.setattr(parser, "stream_trees", stream)
    with model_server(parser=parser, seconds=0.05, gather=0) as server:
        while not entered.is_set():  # on a busy machine the request may time out before the thread sees it
            (under_way,) = ask_all(server, [request(SENTENCES[0])])
        (waiting,) = ask_all(server, [request(SENTENCES[1])])
        released.set()
        server.limits = ServerLimits()
        after = ask_all(server, [request(SENTENCES[2])])

    assert [under_way.status, waiting.status] == [504, 504]
    assert after == trees(2, 3)
    assert SENTENCES[0] in parsed
    assert SENTENCES[1] not in parsed


def test_stopping_answers_open_requests_and_rejects_new_ones():
    async def ask(server):
        waiting = [asyncio.ensure_future(server.parse(request(each))) for each in SENTENCES[:8]]
        await asyncio.sleep(0)
        await asyncio.to_thread(server.stop)
        with pytest.raises(ServingError, match="full"):
            await server.parse(request(SENTENCES[0]))
        return await asyncio.gather(*waiting)

    with model_server() as server:
        server.start()
        answers = asyncio.run(ask(server))

        assert answers == trees(0, 8)
        assert not server.is_alive


def trees_of(parses):
    """Return the trees and their places in the text; the last digit of a confidence may depend on the batch."""
    return [(parse.sentence, parse.spans) for parse in parses]


def test_texts_of_one_batch_get_the_same_parses_as_from_the_parser(monkeypatch):
    monkeypatch.setattr("treefine.segmenter.segmenter._HAS_BFLOAT16", lambda: False)  # random weights are rarely sure
    texts = ["ab 12 a. b'", "del 1\n\nab baki é.", "b. b. b.", "", "ab 12. " * 200]
    requests = [ParseRequest(text, result="parses") for text in texts]
    lines = ParseRequest(texts[1], result="parses", has_lines=True)
    with model_server(parser=tiny_parser(segmenter=tiny_segmenter())) as server:
        *answers, by_line = ask_all(server, [*requests, lines])

    parser = tiny_parser(segmenter=tiny_segmenter())
    assert [trees_of(answer) for answer in answers] == [trees_of(parser(text)) for text in texts]
    assert trees_of(by_line) == trees_of(parser.stream_lines(texts[1].splitlines(keepends=True)))


def test_constraints_apply_to_their_sentence_and_override_its_marks():
    sentence = Sentence.of_words(["a", "b", "c"]).with_arcs(Arcs((2, 0, 2), ("det", "root", "obj")))
    marked = sentence.with_misc(["Keep=Arc", "_", "Keep=Arc"])
    constrained = request(sentence, marked, constraints={2: Constraints(not_heads={3: [2]})})
    beyond = request(sentence, constraints={2: Constraints(heads={1: 0})})
    with model_server() as server:
        (_, second), error = ask_all(server, [constrained, beyond])

    assert (second.heads[0], second.labels[0]) == (2, "det")
    assert second.heads[2] != 2
    assert str(error) == "There are constraints for sentence 2, but only 1 sentence. Sentences are counted from 1."


def test_a_server_needs_a_model_and_no_two_names_for_it():
    parser = tiny_parser()

    for parsers, message in [({}, "at least one parser"), ({"a": parser, "b": parser.using(k=2)}, "the same model")]:
        with pytest.raises(TreefineError, match=message):
            Models(parsers, ServerLimits(), ServerMetrics())
