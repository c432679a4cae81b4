"""One contract for every initial parser."""

import pytest

from tests.support.tiny import sample, tiny_model
from treefine.config import RelationSettings
from treefine.errors import AlignmentError
from treefine.parsing.initial import empty, from_file, from_parser, given, renamed
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
        return {"empty": empty, "given": given, "renamed": renamed(given, ("dep",), {"obj": "dep"})}[request.param]
    model = {
        "syntr": lambda: tiny_model(relations=RelationSettings(graph="none")),
        "rngtr": tiny_model,
    }[request.param]()
    return from_parser(Parser(model, device="cpu", batch_pieces=200).stream_trees)


def test_there_is_one_parse_per_sentence_with_one_head_and_label_per_word(initial):
    sentences = sample(N_SENTENCES)

    parses = list(initial(sentences))

    assert [len(parse.heads) for parse in parses] == [len(sentence) for sentence in sentences]
    assert [len(parse.labels) for parse in parses] == [len(sentence) for sentence in sentences]


def test_a_head_is_missing_or_another_word_or_root(initial):
    for parse in initial(sample(N_SENTENCES)):
        for word, head in enumerate(parse.heads, start=1):
            assert head is None or (0 <= head <= len(parse.heads) and head != word)


def test_parses_are_deterministic(initial):
    assert list(initial(sample(N_SENTENCES))) == list(initial(sample(N_SENTENCES)))


def test_no_sentences_give_no_parses(initial, request):
    if request.node.callspec.params["initial"] == "file":  # the file has sentences, which are too many
        with pytest.raises(AlignmentError):
            list(initial([]))
    else:
        assert list(initial([])) == []


def test_a_stream_is_parsed_in_order(initial):
    parses = initial(sentence for sentence in sample(N_SENTENCES))

    assert list(parses) == list(initial(sample(N_SENTENCES)))


def test_the_input_sentences_stay_unchanged(initial):
    sentences = sample(N_SENTENCES)

    list(initial(sentences))

    assert sentences == sample(N_SENTENCES)


def test_a_parser_can_start_from_it(initial):
    parser = Parser(tiny_model(), initial=initial, device="cpu")

    parsed = parser.parse(sample(N_SENTENCES))

    assert [each.forms for each in parsed] == [each.forms for each in sample(N_SENTENCES)]
    assert all(each.tree.is_tree for each in parsed)
