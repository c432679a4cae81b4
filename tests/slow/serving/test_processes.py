"""Worker processes."""

import os
import subprocess
import sys

import pytest

from tests.serving.test_batching import CYCLE, SENTENCES, ask_all, n_batches, request, trees
from tests.support.tiny import tiny_parser
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.errors import TreefineError
from treefine.serving.batching import ModelServer, ServerMetrics
from treefine.serving.limits import ServerLimits
from treefine.serving.requests import ParseRequest


@pytest.fixture(scope="module")
def server():
    """Yield a server with two worker processes, which take a while to start."""
    parser = tiny_parser(segmenter=tiny_segmenter())
    server = ModelServer("tiny", parser, ServerLimits(), ServerMetrics(), workers=2)
    server.start()
    yield server
    server.stop()


def test_worker_processes_return_the_same_trees_parses_and_errors(server):
    requests = [request(*SENTENCES[first : first + 3], max_steps=1 + first % 2) for first in range(0, 30, 3)]
    *answers, error = ask_all(server, [*requests, request(SENTENCES[1], constraints={1: CYCLE})])
    (parses,) = ask_all(server, [ParseRequest("ab 12 a. b' del.", result="parses")])
    parser = tiny_parser(segmenter=tiny_segmenter())

    assert answers == [list(parser.using(**each.options.set_options).stream_trees(each.sentences)) for each in requests]
    assert isinstance(error, TreefineError)
    assert [each.to_json() for each in parses] == [each.to_json() for each in parser("ab 12 a. b' del.")]


def test_a_request_alone_is_divided_among_the_workers_and_keeps_its_order(server):
    before = n_batches(server)
    (answer,) = ask_all(server, [request(*SENTENCES[:20])])

    assert answer == list(tiny_parser().stream_trees(SENTENCES[:20]))
    assert n_batches(server) >= before + 2


def test_killed_worker_processes_are_replaced_without_an_error(server):
    for host in server.parsers:
        host._process.kill()
    answers = ask_all(server, [request(each) for each in SENTENCES[:4]])

    assert answers == trees(0, 4)


class Deadly:
    """An initial parser that ends its process."""

    def __call__(self, sentences):
        os._exit(1)


def test_a_request_that_kills_its_worker_process_gets_an_error_and_others_do_not(server, caplog):
    deadly = request(SENTENCES[0], initial=Deadly())
    error, *answers = ask_all(server, [deadly, *map(request, SENTENCES[:4])])

    assert isinstance(error, RuntimeError)
    assert "ended unexpectedly" in str(error)
    assert answers == trees(0, 4)
    assert server.is_alive
    assert "a request failed" in caplog.text


def test_a_server_whose_parser_cannot_be_sent_to_workers_does_not_start():
    parser = tiny_parser(initial=lambda sentences: 1 / 0)
    server = ModelServer("tiny", parser, ServerLimits(), ServerMetrics(), workers=1)

    with pytest.raises(TreefineError, match=r"ended unexpectedly \(.*pickle.*0 workers"):
        server.start()
    assert not server.is_alive


def test_the_gate_does_not_import_torch():
    code = "import sys, treefine.serving.gate, treefine.serving.limits; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
