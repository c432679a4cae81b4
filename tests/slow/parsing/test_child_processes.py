"""A parser of the parent process in processes that multiprocessing starts."""

import multiprocessing

import pytest
import torch

from treefine.cores import torch_threads
from treefine.parsing.parser import Parser

TEXT = "She saw the old man. He waved at her, and she left. Nobody came."
SECONDS = 60  # a process that hangs fails the test; the limit is long because the machine may be busy
_parser: Parser | None = None  # of a child process


def keep(parser):
    global _parser
    _parser = parser


def parsed(text):
    """Parse in a child process, and also run torch on much data, which makes it use several threads if it may."""
    assert _parser is not None
    torch.ones(300, 300) @ torch.ones(300, 300)
    return [(each.text, each.sentence.heads, each.sentence.labels) for each in _parser(text)], torch.get_num_threads()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of Python 3.12: it has several threads
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_can_use_a_parser_that_has_parsed_in_the_parent(nlp, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("this system cannot fork")
    with torch_threads(2):
        torch.ones(300, 300) @ torch.ones(300, 300)  # starts threads of torch, which a forked process does not have
        expected = [(each.text, each.sentence.heads, each.sentence.labels) for each in nlp(TEXT)]

        with multiprocessing.get_context(method).Pool(1, keep, (nlp,)) as pool:
            found = pool.map_async(parsed, [TEXT, TEXT]).get(timeout=SECONDS)

    assert [trees for trees, _ in found] == [expected] * 2
    if method == "fork":
        assert [threads for _, threads in found] == [1, 1]
