import pytest

from treefine import Graph
from treefine.drawing.picture import Picture, step_pictures
from treefine.treebank.sentence import Token

FORMS = ("The", "old", "man")
INITIAL = Graph.of_words([3, 3, 0], ["det", "amod", "root"])
FIRST = Graph.of_words([2, 3, 0], ["det", "nsubj", "root"])
SECOND = Graph.of_words([2, 3, 0], ["det", "obj", "root"])


def test_each_step_is_compared_with_the_one_before():
    initial, first, second, third = step_pictures(FORMS, [], [FIRST, SECOND, SECOND], initial=INITIAL)

    assert (initial.graph, initial.before, initial.changed) == (INITIAL, None, frozenset())
    assert (first.graph, first.before, first.changed) == (FIRST, INITIAL, frozenset({1, 2}))
    assert (second.graph, second.before, second.changed) == (SECOND, FIRST, frozenset({2}))
    assert (third.graph, third.before, third.changed) == (SECOND, SECOND, frozenset())


def test_titles_say_how_much_has_changed():
    pictures = step_pictures(FORMS, [], [FIRST, SECOND, SECOND], initial=INITIAL)

    assert [picture.title for picture in pictures] == [
        "initial graph",
        "step 1: 2 arcs changed",
        "step 2: 1 arc changed",
        "step 3: no arc changed",
    ]


def test_without_an_initial_graph_the_first_step_has_no_changes():
    first, second = step_pictures(FORMS, ["DET", "ADJ", "NOUN"], [FIRST, SECOND])

    assert (first.title, first.changed, first.tags) == ("step 1", frozenset(), ("DET", "ADJ", "NOUN"))
    assert second.changed == {2}


def test_multiword_tokens_stand_in_the_text_for_their_words():
    tokens = (Token("I", range(1, 2), "_"), Token("don't", range(2, 4), "_"), Token("know", range(4, 5), "_"))
    picture = Picture(("I", "do", "n't", "know"), tokens=tokens)

    assert picture.text == "I don't know"
    assert picture.multiword_tokens == (tokens[1],)
    assert Picture(("I", "know")).text == "I know"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tags": ("DET",)}, "tags: 1 given for 3 words"),
        ({"graph": Graph.of_words([0], ["root"])}, "graph: 1 given for 3 words"),
        ({"before": Graph.of_words([0], ["root"])}, "before: 1 given for 3 words"),
        ({"confidence": (0.5, 0.5)}, "confidence: 2 given for 3 words"),
        ({"tokens": (Token("x", range(0, 2), "_"),)}, r"words must lie in 1\.\.3"),
        ({"tokens": (Token("x", range(3, 5), "_"),)}, r"words must lie in 1\.\.3"),
    ],
)
def test_what_does_not_fit_the_words_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Picture(FORMS, **given)
