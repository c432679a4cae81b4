"""Refinement analysis: counts on trees small enough to check by eye, and compared with slow loops."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given

from tests.support.generated import treebanks
from treefine import Graph, Score, Sentence, evaluate
from treefine.evaluation.analysis.refinement import ranked_labels, reductions, refinement_of, together, total_reduction
from treefine.evaluation.scores import relative_error_reduction
from treefine.treebank.graph import Arcs


def arcs(*words):
    """Return arcs from pairs such as "2 nsubj"; a dash is a missing head."""
    cells = [word.split() for word in words]
    return Arcs(tuple(None if head == "-" else int(head) for head, _ in cells), tuple(label for _, label in cells))


def sentence(tree, name="s"):
    made = Sentence.of_words([f"w{number}" for number in range(len(tree.heads))])
    return replace(made.with_graph(Graph.of_words(tree.heads, tree.labels)), comments=(f"# sent_id = {name}",))


# A projective and a non-projective tree of four words; in the second, arc 3 -> 1 crosses the arc from ROOT to 2.
EVEN = arcs("2 det", "3 nsubj", "0 root", "3 obj")
CROSSED = arcs("3 det", "0 root", "2 obj", "2 punct")
GOLD = [sentence(EVEN, "even"), sentence(CROSSED, "crossed")]
# t = 0: four of eight words are right; t = 1: six; t = 2: seven
STEPS = [
    [arcs("3 det", "3 obj", "0 root", "3 obj"), arcs("3 det", "0 root", "1 obj", "2 dep")],
    [arcs("3 det", "3 nsubj", "0 root", "3 obj"), arcs("3 det", "0 root", "1 obj", "2 punct")],
    [EVEN, arcs("3 det", "0 root", "1 obj", "2 punct")],
]


def steps_of(gold, system, correct):
    return tuple(Score(gold, *counts) for counts in zip(system, correct, strict=True))


def correct_at(steps):
    return [each.correct for each in steps]


@pytest.fixture
def counted():
    return refinement_of(GOLD, STEPS, first=0, name="tiny")


def test_each_step_has_scores_and_the_share_of_errors_it_removes(counted):
    las, uas = counted.attachment["LAS"], counted.attachment["UAS"]

    assert las == steps_of(8, (8, 8, 8), (4, 6, 7))
    assert reductions(las) == (0.5, 0.5)  # first 2 of 4 errors removed, then 1 of 2
    assert total_reduction(las) == 0.75
    assert uas == steps_of(8, (8, 8, 8), (6, 6, 7))
    assert counted.steps == range(3)
    assert counted.converged == (0, 1)  # sentences whose tree stays


def test_corrected_sentences_end_right_and_spoiled_sentences_start_right(counted):
    backwards = refinement_of(GOLD, STEPS[::-1], first=0)

    (corrected,), (spoiled,) = counted.corrected, backwards.spoiled
    assert (corrected.gold, corrected.first, corrected.last, corrected.n_wrong) == (GOLD[0], STEPS[0][0], EVEN, 2)
    assert (spoiled.gold, spoiled.first, spoiled.last, spoiled.n_wrong) == (GOLD[0], EVEN, STEPS[0][0], 2)
    assert counted.spoiled == backwards.corrected == ()


def test_a_word_without_a_head_is_wrong_whatever_its_label():
    blank = arcs("- _", "- nsubj", "- root", "- _")

    found = refinement_of(GOLD[:1], [[blank], [EVEN]], first=0)

    assert correct_at(found.attachment["UAS"]) == [0, 4]
    assert total_reduction(found.attachment["LAS"]) == 1


def test_only_ud_ignores_label_subtypes():
    gold, parsed = [sentence(arcs("2 nmod:poss", "0 root"))], [arcs("2 nmod", "0 root")]

    ud, other = (refinement_of(gold, [parsed, parsed], first=0, rule=rule) for rule in ("conll18", "conll09"))

    assert correct_at(ud.attachment["LAS"]) == [2, 2]
    assert correct_at(other.attachment["LAS"]) == [1, 1]
    assert (ud.labels.keys(), other.labels.keys()) == ({"nmod", "root"}, {"nmod", "nmod:poss", "root"})


@given(treebanks(4))
def test_all_counts_equal_those_of_the_scorer_and_of_slow_loops(versions):
    gold, *parses = versions
    steps = [[each.arcs for each in step] for step in parses]

    found = refinement_of(gold, steps, first=0)

    scores = [evaluate(gold, step) for step in parses]
    for metric in ("UAS", "LAS"):
        f1 = [score[metric].f1 for score in scores]
        assert [each.f1 for each in found.attachment[metric]] == pytest.approx(f1)
        rel = [relative_error_reduction(*two) for two in pairwise(f1)]
        assert reductions(found.attachment[metric]) == tuple(rel)
    for t, step in enumerate(steps):
        words = [word for each, own in zip(gold, step, strict=True) for word in slow_words(each.arcs, own)]
        assert labels_at(found, t) == slow_labels(words)
        for kind in ("projective", "non-projective"):
            chosen = [word for word in words if word[-1] == kind]
            assert found.projectivity[kind][t] == Score(len(chosen), len(chosen), sum(w[2] for w in chosen))
    for t, (before, after) in enumerate(pairwise(steps)):
        assert found.converged[t] == sum(a == b for a, b in zip(before, after, strict=True))


def slow_words(gold, system):
    """Return, for each word: gold label, system label, whether head and label are right, and the kind of gold tree."""
    kind = "projective" if is_drawn_without_crossings(gold.heads) else "non-projective"
    for head, label, other_head, other in zip(*gold, *system, strict=True):
        label, other = label.split(":")[0], other.split(":")[0]
        yield label, other, (head, label) == (other_head, other), kind


def is_drawn_without_crossings(heads):
    """Return whether no two arcs cross when drawn above the words, with ROOT on the left."""
    spans = [tuple(sorted((word, head))) for word, head in enumerate(heads, start=1)]
    return not any(a < c < b < d for a, b in spans for c, d in spans)


def slow_labels(words):
    gold, system = Counter(word[0] for word in words), Counter(word[1] for word in words)
    right = Counter(word[0] for word in words if word[2])
    return {label: (gold[label], system[label], right[label]) for label in gold | system}


def labels_at(found, t):
    counts = {label: (each[t].gold, each[t].system, each[t].correct) for label, each in found.labels.items()}
    return {label: count for label, count in counts.items() if any(count)}


@given(treebanks(4), treebanks(4))
def test_several_treebanks_together_count_as_one_treebank(one, other):
    def counted(gold, *parses):
        return refinement_of(gold, [[each.arcs for each in step] for step in parses], first=0, name="both")

    whole = counted(*(a + b for a, b in zip(one, other, strict=True)))

    assert together([counted(*one), counted(*other)], name="both") == whole


@pytest.mark.parametrize(("steps", "first"), [(STEPS, 1), (STEPS[:2], 0)])
def test_models_with_other_steps_cannot_be_counted_together(counted, steps, first):
    with pytest.raises(ValueError, match="other steps"):
        together([counted, refinement_of(GOLD, steps, first=first)], name="both")


def test_labels_are_ranked_by_total_reduction_without_rare_labels(counted):
    labels = {
        "better": steps_of(10, (10, 10), (5, 8)),
        "best": steps_of(10, (10, 10), (5, 9)),
        "worse": steps_of(10, (10, 10), (5, 4)),
        "rare": steps_of(9, (9, 9), (0, 9)),
        "perfect": steps_of(10, (10, 10), (10, 10)),
    }
    made = replace(counted, labels=labels)

    assert ranked_labels(made, least=10) == ["best", "better", "worse"]
    assert ranked_labels(made, least=9, most=2) == ["rare", "best"]
