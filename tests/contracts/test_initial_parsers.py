"""One contract for every initial parser."""

import pytest

from tests.support.tiny import sample, tiny_model
from treefine.config import RelationSettings
from treefine.errors import AlignmentError
from treefine.parsing.initial import empty, from_file, from_parser, input_trees, renamed
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank

N_SENTENCES = 5


@pytest.fixture(scope="module", params=["empty", "given", "renamed", "file", "syntr", "rngtr"])
def initial(request, tmp_path_factory):
    """Return an initial parser for the first sentences of the sample."""
    if request.param == "file":
        path = tmp_path_factory.mktemp("initial") / "parses.conllu"
        write_treebank(sample(N_SENTENCES), path)
        return from_file(str(path))
    if request.param in ("empty", "given", "renamed"):
        return {"empty": empty, "given": input_trees, "renamed": renamed(input_trees, ("dep",), {"obj": "dep"})}[
            request.param
        ]
    model = {"syntr": lambda: tiny_model(relations=RelationSettings(graph="none")), "rngtr": tiny_model}[
        request.param
    ]()
    return from_parser(Parser(model, device="cpu", batch_pieces=200).stream_trees)


def test_each_sentence_gets_a_head_and_a_label_per_word_and_each_run_the_same(initial):
    sentences = sample(N_SENTENCES)

    parses = list(initial(each for each in sentences))

    assert [len(parse.heads) for parse in parses] == [len(parse.labels) for parse in parses] == [*map(len, sentences)]
    for parse in parses:
        for word, head in enumerate(parse.heads, start=1):
            assert head is None or (0 <= head <= len(parse.heads) and head != word)
    assert list(initial(sample(N_SENTENCES))) == parses
    assert sentences == sample(N_SENTENCES)  # the input is unchanged


def test_no_sentences_give_no_parses(initial, request):
    if request.node.callspec.params["initial"] == "file":  # the file has sentences, which are too many
        with pytest.raises(AlignmentError):
            list(initial([]))
    else:
        assert list(initial([])) == []


def test_a_parser_can_start_from_it(initial):
    parser = Parser(tiny_model(), initial=initial, device="cpu")

    parsed = parser.parse(sample(N_SENTENCES))

    assert [each.forms for each in parsed] == [each.forms for each in sample(N_SENTENCES)]
    assert all(each.tree.is_tree for each in parsed)
