"""Agreement of two annotators: values counted by hand, kappa compared with NLTK, and properties of any two files."""

import io
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import treebanks
from treefine import AlignmentError, Graph, Sentence, evaluate, read_treebank
from treefine.evaluation.agreement import agreement_of_pairs, cohen_kappa, differences, sentence_pairs, tag_differences

FIRST = """\
1\tShe\tshe\tPRON\tPRP\tPerson=3\t2\tnsubj\t_\t_
2\tsaw\tsee\tVERB\tVBD\t_\t0\troot\t_\t_
3\tstars\tstar\tNOUN\tNNS\tNumber=Plur\t2\tobj\t_\t_
4\tthere\tthere\tADV\tRB\t_\t2\tadvmod\t_\t_

1\tThey\tthey\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tshone\tshine\tVERB\tVBD\t_\t0\troot\t_\t_

"""
# Word 3 has another label, word 4 another head and another tag; the second sentence is the same.
SECOND = FIRST.replace("2\tobj", "2\tobl").replace("ADV\tRB\t_\t2", "PRON\tEX\t_\t3")


def sentences_of(text):
    return list(read_treebank(io.BytesIO(text.encode())))


def test_the_values_are_those_counted_by_hand():
    found = agreement_of_pairs(sentence_pairs(sentences_of(FIRST), sentences_of(SECOND)))

    assert (found.sentences, found.words, found.other_words, found.unfinished) == (2, 6, 0, 0)
    assert found.uas == 5 / 6
    assert found.las == 4 / 6
    assert found.label == 5 / 6
    assert (found.upos, found.xpos, found.feats, found.lemma) == (5 / 6, 5 / 6, 1, 1)
    assert found.identical_trees == 1 / 2
    # labels: nsubj 2 and 2, root 2 and 2, advmod 1 and 1, obj 1 and 0, obl 0 and 1: expected (4 + 4 + 1) / 36
    assert found.label_kappa == pytest.approx((5 / 6 - 9 / 36) / (1 - 9 / 36))
    # words with the same head: nsubj 2 and 2, root 2 and 2, obj 1 and 0, obl 0 and 1: expected (4 + 4) / 25
    assert found.same_head_label_kappa == pytest.approx((4 / 5 - 8 / 25) / (1 - 8 / 25))
    # UPOS: PRON 2 and 3, VERB 2 and 2, NOUN 1 and 1, ADV 1 and 0: expected (6 + 4 + 1) / 36
    assert found.upos_kappa == pytest.approx((5 / 6 - 11 / 36) / (1 - 11 / 36))
    assert found.label_confusions == Counter({("obj", "obl"): 1})


def test_differing_words_are_listed_by_number():
    (a, same), (b, _) = sentences_of(FIRST), sentences_of(SECOND)

    assert differences(a, b) == (3, 4)
    assert tag_differences(a, b) == ((4, "upos", "PRON"), (4, "xpos", "EX"))
    assert differences(same, same) == tag_differences(same, same) == ()
    assert differences(a, same) is None
    assert tag_differences(a, same) is None


def test_pairs_with_other_words_or_blank_heads_are_counted_and_left_out():
    a, b = sentences_of(FIRST)
    other = Sentence.of_words(["They", "shone", "."]).with_graph(Graph.of_words([2, 0, 2], ["nsubj", "root", "punct"]))
    blank = sentences_of(FIRST.replace("2\tobj", "_\tobj"))[0]

    found = agreement_of_pairs(sentence_pairs([a, b, a], [a, other, blank]))

    assert (found.sentences, found.words, found.other_words, found.unfinished) == (1, 4, 1, 1)
    assert found.las == 1
    assert found.note == (
        "4 words in 1 sentence. Left out because their words differ: 1 pair of sentences. "
        "Left out because a head is blank: 1 pair of sentences."
    )


def test_another_number_of_sentences_is_an_error():
    sentences = sentences_of(FIRST)

    with pytest.raises(AlignmentError) as error:
        agreement_of_pairs(sentence_pairs(sentences, sentences[:1]))

    message = "The first treebank has 2 sentences, but the second has 1. Sentences are compared in order."
    assert str(error.value) == f"<stream>: {message}"


def test_without_sentences_there_is_no_agreement():
    found = agreement_of_pairs(sentence_pairs([], []))

    assert found.las is found.label_kappa is found.identical_trees is found.upos is None
    assert found.to_text() == "0 words in 0 sentences."


def test_a_column_that_both_leave_blank_is_not_compared():
    blank = [each.with_tags(xpos=["_"] * len(each)) for each in sentences_of(FIRST)]

    assert agreement_of_pairs(sentence_pairs(blank, blank)).xpos is None
    assert agreement_of_pairs(sentence_pairs(blank, sentences_of(FIRST))).xpos == 0
    assert "XPOS" not in agreement_of_pairs(sentence_pairs(blank, blank)).to_text()


# Properties of any two annotations

CHOICES = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=40)


@given(CHOICES)
def test_kappa_is_that_of_nltk(choices):
    from nltk.metrics.agreement import AnnotationTask

    ours = cohen_kappa(Counter(choices))

    task = AnnotationTask(
        [(who, str(item), pair[who == "second"]) for item, pair in enumerate(choices) for who in ("first", "second")]
    )
    if len({value for pair in choices for value in pair}) == 1:
        assert ours == 1  # NLTK divides by zero here
    else:
        assert ours == pytest.approx(task.kappa_pairwise("first", "second"))


@given(treebanks())
def test_attachment_scores_are_those_of_evaluate(pair):
    found = agreement_of_pairs(sentence_pairs(*pair))

    scores = evaluate(*pair, rule="conll09")  # like us, it compares all words, and labels with subtypes
    assert (found.uas, found.las, found.label) == tuple(scores[name].f1 for name in ("UAS", "LAS", "LA"))
    assert found.identical_trees == scores["LEM"].f1
    universal = evaluate(*pair)
    assert found.uas == universal["UAS"].f1
    assert found.las <= universal["LAS"].f1
    assert found.words == universal["LAS"].gold
