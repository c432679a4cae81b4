"""What the alignment of two files says when there is little or nothing to align."""

import pytest

from treefine import AlignmentError, Graph, Sentence, evaluate
from treefine.evaluation.alignment import align, pair_by_text
from treefine.evaluation.conll18 import Score, load_pair
from treefine.evaluation.words import load_words

ONE = Sentence.of_words(["a"]).with_graph(Graph.of_words([0], ["root"]))
TWO = Sentence.of_words(["a", "b"]).with_graph(Graph.of_words([2, 0], ["x", "root"]))


def test_the_quick_way_for_equal_segmentation_gives_what_the_slow_one_does(data):
    for name in ("constructs.conllu", "en_ewt-sample.conllu"):
        words = load_words(data / name)

        assert pair_by_text(words, words) == align(words, words)


def test_nothing_against_nothing_scores_nothing():
    assert set(evaluate([], []).values()) == {Score(0, 0, 0, 0), Score(0, 0, 0)}
    assert evaluate([], [])["LAS"].f1 == evaluate([], [])["LAS"].aligned_accuracy == 0


@pytest.mark.parametrize(("gold", "system"), [([ONE], []), ([], [ONE]), ([ONE], [TWO]), ([TWO], [ONE])])
def test_more_text_on_one_side_is_an_error(gold, system):
    with pytest.raises(
        AlignmentError, match="The text differs from the gold treebank: '.?' stands here, '.?' there. Both"
    ):
        load_pair(gold, system)
