import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import conllu_lines, random_heads
from tests.treebank.test_conllu import parsed
from treefine import Graph, Sentence, TreebankError, Word, read_treebank
from treefine.treebank.sentence import follow_tree


@pytest.fixture
def sentences(data):
    return list(read_treebank(data / "constructs.conllu"))


def test_words_are_the_syntactic_words(sentences):
    vamos = sentences[0]

    assert len(vamos) == 5
    assert vamos.forms == ("Vamos", "a", "el", "mar", ".")
    assert vamos.words[3] == Word(
        4, "mar", "mar", "NOUN", "_", "Gender=Masc|Number=Sing", 1, "obl", "1:obl:a", "SpaceAfter=No"
    )
    assert vamos.graph == Graph.of_words([0, 4, 4, 1, 1], ["root", "case", "det", "obl", "punct"])


def test_a_sentence_with_blank_heads_has_no_graph():
    sentence = Sentence.of_words(["a", "b"])

    assert sentence.heads == (None, None)
    with pytest.raises(TreebankError, match=r"^\(sentence 1, word 1\) HEAD is blank\. Parse the file first"):
        _ = sentence.graph


@given(conllu_lines(), st.data())
def test_with_graph_changes_only_head_deprel_and_deps_of_words(lines, data):
    sentence = parsed(lines)
    heads = data.draw(random_heads(len(sentence)))
    graph = Graph.of_words(heads, [f"new{head}" for head in heads])

    changed = sentence.with_graph(graph)

    assert changed.graph == graph
    assert changed.comments == sentence.comments
    assert [changed.columns[c] for c in (0, 1, 2, 3, 4, 5, 9)] == [sentence.columns[c] for c in (0, 1, 2, 3, 4, 5, 9)]
    for line in set(range(len(sentence.columns[0]))) - set(sentence.word_lines):
        assert [column[line] for column in changed.columns] == [column[line] for column in sentence.columns]


@pytest.mark.parametrize("cell", ["", "a\tb", "a\rb", "a\ud800"])
def test_a_cell_that_would_break_the_line_is_an_error(cell):
    sentence = Sentence.of_words(["a"])

    for attempt in (
        lambda: Sentence.of_words([cell]),
        lambda: sentence.with_tags(upos=[cell]),
        lambda: sentence.with_graph(Graph.of_words([0], [cell])),
    ):
        with pytest.raises(TreebankError, match="cannot be a cell"):
            attempt()


def test_tokens_are_words_and_multiword_tokens_in_text_order(sentences):
    tokens = [(token.form, list(token.words)) for token in sentences[0].tokens()]

    assert tokens == [("Vamos", [1]), ("al", [2, 3]), ("mar", [4]), (".", [5])]
    assert [token.form for token in sentences[2].tokens()] == ["山田 さん"]


@pytest.mark.parametrize(
    ("deps", "expected"),
    [
        ("_", "_"),  # without an enhanced graph, nothing is added
        ("4:obl:in|7:nsubj", "2:nmod|7:nsubj"),  # so does an enhanced label of the same arc
        ("1:nsubj|4:obl", "1:nsubj|2:nmod"),  # the rest stays, sorted by head
        ("4:obl:in|4:obl", "2:nmod|4:obl:in"),  # the plain label is the one that repeats the tree
        ("2:nmod|4:obl", "2:nmod"),  # no duplicates
        ("4.1:obl|7:nsubj", "4.1:obl|7:nsubj"),  # no entry repeats the old arc: nothing changes
        ("1.2:y|1.10:x|4:obl", "1.2:y|1.10:x|2:nmod"),  # empty nodes by number, not as text
    ],
)
def test_deps_follows_the_tree_where_it_repeats_it(deps, expected):
    assert follow_tree(deps, "4", "obl", "2", "nmod") == expected
    assert follow_tree(deps, "4", "obl", "4", "obl") == deps
