"""What the alignment of two files says when there is little or nothing to align."""

import pytest

from treefine import AlignmentError, Graph, Sentence, evaluate, read_treebank
from treefine.evaluation.pairing import align, pair_by_text
from treefine.evaluation.scores import Score, load_pair
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


@pytest.mark.parametrize(
    ("gold", "system", "message"),
    [
        ([ONE], [], "The file ends before 'a' in the gold treebank (sentence 1)."),
        ([TWO], [ONE], "The file ends before 'b' in the gold treebank (sentence 1)."),
        ([], [ONE], "(sentence 1, word 1) The file goes on with 'a' after the end of the gold treebank."),
        ([ONE], [TWO], "(sentence 1, word 2) The file goes on with 'b' after the end of the gold treebank."),
    ],
)
def test_more_text_on_one_side_is_an_error(gold, system, message):
    with pytest.raises(AlignmentError) as error:
        load_pair(gold, system)

    hint = "Both files must hold the same characters; spaces and segmentation may differ."
    assert str(error.value) == f"{message} {hint}"


WORD = "{}\t{}\t_\t_\t_\t_\t{}\t{}\t_\t_\n"
CLITICS = (
    "# sent_id = s1\n# text = ab c\n1-2\tab" + "\t_" * 8 + "\n" + WORD.format(1, "a", 0, "root")
    + WORD.format(2, "b", 1, "x") + "2.1\tnull" + "\t_" * 8 + "\n" + WORD.format(3, "c", 1, "x") + "\n"
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "line", "word"),
    [("\tc\t", "\td\t", 7, 3), ("1-2\tab", "1-2\tax", 4, 1), ("1-2\tab", "1-2\txb", 4, 1)],
)
def test_the_line_of_a_word_counts_comments_multiword_tokens_and_empty_nodes(tmp_path, old, new, line, word):
    paths = [tmp_path / "gold.conllu", tmp_path / "system.conllu"]
    for path, text in zip(paths, (CLITICS, "\n" + CLITICS.replace(old, new)), strict=True):
        path.write_text(text)
    gold, system = (load_words(read_treebank(path)) for path in paths)

    with pytest.raises(AlignmentError, match=rf"gold.conllu:{line}: '") as error:
        pair_by_text(gold, system)

    assert (error.value.line, error.value.word, error.value.sent_id) == (line + 1, str(word), "s1")
