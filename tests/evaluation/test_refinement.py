"""Refinement analysis: counts on trees small enough to check by eye, and output as tables, a page, JSON and CSV."""

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import LABELS, random_heads
from treefine import Graph, Sentence, TreebankError, evaluate
from treefine.evaluation.analysis.export import (
    by_label,
    by_projectivity,
    by_step,
    costs_table,
    refinement_csv,
    refinement_json,
    summary_of,
)
from treefine.evaluation.analysis.pages import example_pictures, labels_chart, refinement_page, steps_chart
from treefine.evaluation.analysis.refinement import Costs, StepCounts, mean, ranked_labels, refinement_of, together
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


@pytest.fixture
def counted():
    return refinement_of(GOLD, STEPS, first=0, name="tiny")


def test_each_step_has_scores_and_the_share_of_errors_it_removes(counted):
    las, uas = counted.attachment["LAS"], counted.attachment["UAS"]

    assert las == StepCounts(8, (8, 8, 8), (4, 6, 7))
    assert las.f1 == (0.5, 0.75, 0.875)
    assert las.reductions == (0.5, 0.5)  # first 2 of 4 errors removed, then 1 of 2
    assert las.total == 0.75
    assert uas == StepCounts(8, (8, 8, 8), (6, 6, 7))
    assert counted.steps == range(3)


def test_labels_are_counted_in_gold_and_in_the_trees_of_each_step(counted):
    assert counted.labels["obj"] == StepCounts(2, (3, 2, 2), (1, 1, 1))
    assert counted.labels["nsubj"] == StepCounts(1, (0, 1, 1), (0, 1, 1))
    assert counted.labels["dep"] == StepCounts(0, (1, 0, 0), (0, 0, 0))
    assert counted.labels["obj"].reductions == pytest.approx((1 / 6, 0))  # F1 from 2/5 to 1/2: errors 3/5 to 1/2


def test_words_are_grouped_by_the_projectivity_of_the_gold_tree(counted):
    assert counted.projectivity == {
        "non-projective": StepCounts(4, (4, 4, 4), (2, 3, 3)),
        "projective": StepCounts(4, (4, 4, 4), (2, 3, 4)),
    }


def test_by_default_a_sentence_whose_tree_stays_has_converged(counted):
    explicit = refinement_of(GOLD, STEPS, first=0, converged=[0, 2])

    assert counted.converged == (0, 1)
    assert explicit.converged == (0, 2)


def test_corrected_sentences_end_right_and_spoiled_sentences_start_right(counted):
    backwards = refinement_of(GOLD, STEPS[::-1], first=0)

    (corrected,), (spoiled,) = counted.corrected, backwards.spoiled
    assert (corrected.gold, corrected.first, corrected.last, corrected.n_wrong) == (GOLD[0], STEPS[0][0], EVEN, 2)
    assert (spoiled.gold, spoiled.first, spoiled.last, spoiled.n_wrong) == (GOLD[0], EVEN, STEPS[0][0], 2)
    assert counted.spoiled == backwards.corrected == ()


def test_examples_are_sorted_by_length_and_then_by_place():
    short, long = arcs("0 root"), arcs("2 det", "0 root")
    gold = [sentence(long, "a"), sentence(short, "b"), sentence(long, "c"), sentence(short, "d")]
    wrong = [arcs("2 obj", "0 root"), arcs("0 dep"), arcs("0 det", "0 root"), arcs("0 dep")]

    found = refinement_of(gold, [wrong, [each.graph.arcs for each in gold]], first=1)

    assert [example.gold.sent_id for example in found.corrected] == ["b", "d", "a", "c"]
    assert found.steps == range(1, 3)


def test_a_word_without_a_head_is_wrong_whatever_its_label():
    blank = arcs("- _", "- nsubj", "- root", "- _")

    found = refinement_of(GOLD[:1], [[blank], [EVEN]], first=0)

    assert found.attachment["UAS"].correct == (0, 4)
    assert found.attachment["LAS"].total == 1


def test_a_step_after_trees_without_errors_has_no_reduction():
    found = refinement_of(GOLD[:1], [[EVEN], [EVEN], [STEPS[0][0]]], first=0)

    assert found.attachment["LAS"].reductions == (None, None)
    assert found.attachment["LAS"].total is None


def test_only_ud_ignores_label_subtypes():
    gold, parsed = [sentence(arcs("2 nmod:poss", "0 root"))], [arcs("2 nmod", "0 root")]

    ud, other = (refinement_of(gold, [parsed, parsed], first=0, rule=rule) for rule in ("conll18", "conll09"))

    assert ud.attachment["LAS"].correct == (2, 2)
    assert other.attachment["LAS"].correct == (1, 1)
    assert (ud.labels.keys(), other.labels.keys()) == ({"nmod", "root"}, {"nmod", "nmod:poss", "root"})


def test_punctuation_that_the_rule_ignores_is_not_counted():
    words = Sentence.of_words(["Go", "!"], xpos=["VB", "."])
    gold = [words.with_graph(Graph.of_words([0, 1], ["root", "punct"]))]
    wrong = arcs("0 root", "0 punct")

    found = refinement_of(gold, [[wrong], [wrong]], first=0, rule="ptb")

    assert found.attachment["UAS"] == StepCounts(1, (1, 1), (1, 1))
    assert found.projectivity["projective"].gold == 1
    assert found.labels.keys() == {"root"}


def test_a_gold_graph_that_is_not_a_tree_is_an_error_with_its_place():
    gold = [sentence(arcs("2 det", "1 obj"), "loop")]

    with pytest.raises(TreebankError, match="loop.*cycle"):
        refinement_of(gold, [[EVEN]], first=0)


@pytest.mark.parametrize("trees", [[STEPS[0][:1]], [[EVEN, arcs("0 root")]]])
def test_trees_of_other_sentences_are_an_error(trees):
    with pytest.raises(ValueError, match="zip|a tree of 1 words for a sentence of 4"):
        refinement_of(GOLD, trees, first=0)


@st.composite
def trees(draw, n_words):
    heads = draw(random_heads(n_words))
    labels = [draw(st.sampled_from(LABELS)) if head else "root" for head in heads]
    return Arcs(tuple(heads), tuple(labels))


@st.composite
def treebanks(draw):
    """Draw gold trees and the trees of two to four steps."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    gold, *steps = ([draw(trees(length)) for length in lengths] for _ in range(draw(st.integers(3, 5))))
    return gold, steps


@given(treebanks())
def test_all_counts_equal_those_of_the_scorer_and_of_slow_loops(treebank):
    gold_trees, steps = treebank
    gold = [sentence(tree) for tree in gold_trees]

    found = refinement_of(gold, steps, first=0)

    scores = [
        evaluate(gold, [each.with_graph(Graph.of_words(*tree)) for each, tree in zip(gold, step, strict=True)])
        for step in steps
    ]
    for metric in ("UAS", "LAS"):
        f1 = [score[metric].f1 for score in scores]
        assert found.attachment[metric].f1 == pytest.approx(f1)
        rel = [relative_error_reduction(*two) for two in pairwise(f1)]
        assert found.attachment[metric].reductions == tuple(rel)
    for t, step in enumerate(steps):
        words = [word for tree, own in zip(gold_trees, step, strict=True) for word in slow_words(tree, own)]
        assert labels_at(found, t) == slow_labels(words)
        for kind in ("projective", "non-projective"):
            ours = found.projectivity[kind]
            chosen = [word for word in words if word[-1] == kind]
            assert (ours.gold, ours.system[t], ours.correct[t]) == (len(chosen), len(chosen), sum(w[2] for w in chosen))
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
    counts = {label: (each.gold, each.system[t], each.correct[t]) for label, each in found.labels.items()}
    return {label: count for label, count in counts.items() if any(count)}


@given(treebanks(), treebanks())
def test_several_treebanks_together_count_as_one_treebank(one, other):
    n_steps = min(len(one[1]), len(other[1]))
    parts = [refinement_of([sentence(tree) for tree in gold], steps[:n_steps], first=0) for gold, steps in (one, other)]
    joined = [a + b for a, b in zip(one[1][:n_steps], other[1][:n_steps], strict=True)]

    whole = refinement_of([sentence(tree) for tree in one[0] + other[0]], joined, first=0, name="both")

    assert together(parts, name="both") == whole


def test_the_mean_of_seeds_averages_scores_and_keeps_the_examples_of_the_first(counted):
    other = refinement_of(GOLD, [STEPS[0], STEPS[0], STEPS[0]], first=0)

    both = mean([counted, other], name="both")

    assert both.attachment["LAS"] == StepCounts(8, (8, 8, 8), (4, 5, 5.5))
    assert both.labels["nsubj"] == StepCounts(1, (0, 0.5, 0.5), (0, 0.5, 0.5))
    assert both.converged == (1, 1.5)
    assert both.n_sentences == 2
    assert both.corrected == counted.corrected


def test_a_model_with_fewer_steps_keeps_its_last_trees(counted):
    shorter = refinement_of(GOLD, STEPS[:2], first=0)

    both = together([counted, shorter], name="both")

    assert both.attachment["LAS"].correct == (8, 12, 13)
    assert both.converged == (
        0,
        3,
    )  # in the step that the shorter model does not make, all its sentences have converged


def test_models_with_and_without_initial_parses_cannot_be_counted_together(counted):
    with pytest.raises(ValueError, match="initial parse"):
        together([counted, refinement_of(GOLD, STEPS, first=1)], name="both")


def test_labels_are_ranked_by_total_reduction_without_rare_labels(counted):
    labels = {
        "better": StepCounts(10, (10, 10), (5, 8)),
        "best": StepCounts(10, (10, 10), (5, 9)),
        "worse": StepCounts(10, (10, 10), (5, 4)),
        "rare": StepCounts(9, (9, 9), (0, 9)),
        "perfect": StepCounts(10, (10, 10), (10, 10)),
    }
    made = replace(counted, labels=labels)

    assert ranked_labels(made, least=10) == ["best", "better", "worse"]
    assert ranked_labels(made, least=9, most=2) == ["rare", "best"]


# Tables, page, JSON and CSV


COSTS = Costs("cpu", 34_600_000, 28_000_000, 1.5, (4.0, 1.0), (2, 1))


def test_the_tables_have_the_layout_of_the_paper(counted):
    steps, labels, projectivity = by_step(counted), by_label(counted, least=1, most=2), by_projectivity(counted)
    costs = costs_table(COSTS)

    assert steps.header == ("", "t = 0", "t = 1", "t = 2", "all steps")
    assert steps.rows == (
        ("UAS", "75.00", "75.00", "87.50", "–"),
        ("LAS", "50.00", "75.00", "87.50", "–"),
        ("REL", "–", "+50.00%", "+50.00%", "+75.00%"),
        ("REL of UAS", "–", "+0.00%", "+50.00%", "+50.00%"),
        ("converged", "–", "0.0%", "50.0%", "–"),
    )
    assert labels.rows == (
        ("det", "2", "+0.00%", "+100.00%", "+100.00%"),
        ("nsubj", "1", "+100.00%", "–", "+100.00%"),
    )
    assert "The first 2 labels with at least 1 gold words" in labels.note
    assert ". All labels with at least 1 gold words" in by_label(counted, least=1).note
    assert projectivity.rows == (
        ("non-projective", "4", "+50.00%", "+0.00%", "+50.00%"),
        ("projective", "4", "+50.00%", "+100.00%", "+100.00%"),
    )
    assert costs.rows == (
        ("sentences refined", "–", "2", "1", "3"),
        ("seconds", "1.50", "4.00", "1.00", "6.50"),
        ("milliseconds per sentence", "–", "2000.00", "1000.00", "–"),
    )
    assert "34.6 million parameters and 28.0 million in its initial parser" in costs.note


def test_without_initial_parses_steps_start_at_1_and_a_note_says_so(counted):
    later = replace(counted, first=1)

    assert by_step(later).header == ("", "t = 1", "t = 2", "t = 3", "all steps")
    assert by_projectivity(later).header == ("", "gold words", "t = 2", "t = 3", "all steps")
    assert "there is no t = 0" in summary_of(later)
    assert summary_of(counted) == "2 sentences, 8 words, t = 0 to 2."


def test_a_note_says_that_predicted_tags_delay_convergence(counted):
    rule = "A sentence with predicted tags cannot converge before t = 2"

    assert rule in by_step(replace(counted, predicts_tags=True)).note
    assert rule not in by_step(counted).note
    assert rule not in by_step(replace(counted, predicts_tags=True, first=1)).note  # without a note about t = 1
    several = together([counted, replace(counted, predicts_tags=True)], name="both")
    assert several.predicts_tags


def test_a_kind_without_gold_words_has_no_errors_to_reduce(counted):
    none = StepCounts(0, (0, 0, 0), (0, 0, 0))

    table = by_projectivity(replace(counted, projectivity={**counted.projectivity, "non-projective": none}))

    assert table.rows[0] == ("non-projective", "0", "–", "–", "–")


def test_a_step_that_no_sentence_reached_has_no_time_per_sentence():
    table = costs_table(replace(COSTS, initial_seconds=None, sentences=(2, 0)))

    assert table.rows[1][1] == "–"
    assert table.rows[2][-2] == "–"


def test_json_has_all_counts(counted):
    (values,) = json.loads(refinement_json([(counted, COSTS)], "Tiny"))["treebanks"]

    assert values["t"] == [0, 1, 2]
    assert values["attachment"]["LAS"]["correct"] == [4, 6, 7]
    assert values["labels"]["nsubj"]["error_reduction"] == [1.0, None]
    assert values["projectivity"]["projective"]["total_error_reduction"] == 1.0
    assert (values["converged"], values["corrected"], values["spoiled"]) == ([0, 1], ["even"], [])
    assert values["costs"]["seconds"] == [4.0, 1.0]


def test_csv_has_one_row_per_count_and_step(counted):
    read = list(csv.DictReader(io.StringIO(refinement_csv([(counted, COSTS)]))))

    (las,) = [row for row in read if (row["table"], row["kind"], row["t"]) == ("attachment", "LAS", "2")]
    assert (las["treebank"], las["gold"], las["correct"]) == ("tiny", "8", "7")
    assert (float(las["f1"]), float(las["error_reduction"])) == (0.875, 0.5)
    (stopped,) = [row for row in read if (row["table"], row["t"]) == ("converged", "2")]
    assert (stopped["gold"], stopped["correct"], stopped["f1"]) == ("2", "1", "0.5")
    kinds = 2 + len(counted.labels) + 2
    assert len(read) == kinds * 3 + 2


def parsed(page):
    """Return the page as XML, without its first line (the doctype)."""
    return ElementTree.fromstring(page.partition("\n")[2])


def test_the_page_shows_all_numbers_and_draws_the_examples(counted):
    page = "".join(refinement_page([(counted, COSTS)], "Refinement of a <b>"))

    shown = {cell.text for cell in parsed(page).iter() if cell.tag in ("td", "th")}
    for table in (by_step(counted), by_label(counted), by_projectivity(counted), costs_table(COSTS)):
        assert {cell for row in table.rows for cell in row} <= shown
    assert "1 of 2 sentences are wrong in the first tree and completely right in the last." in page
    assert "0 of 2 sentences are completely right in the first tree and wrong in the last." in page
    assert "initial parse: 2 of 4 words wrong" in page
    assert "step 2: all words right" in page


def test_several_treebanks_have_a_table_of_contents(counted):
    other = replace(counted, name="x & y")

    page = parsed("".join(refinement_page([(counted, COSTS), (other, COSTS)], "Two")))

    links = {link.attrib["href"]: link.text for link in page.iter("a")}
    assert links == {"#t1": "tiny", "#t2": "x & y"}
    assert {section.attrib.get("id") for section in page.iter("section")} >= {"t1", "t2"}


def test_a_spoiled_sentence_says_how_many_words_are_wrong_at_the_end():
    found = refinement_of(GOLD, STEPS[::-1], first=0)

    before, after = example_pictures(found.spoiled[0], found.steps, is_corrected=False)

    assert (before.title, after.title) == ("initial parse: all words right", "step 2: 2 of 4 words wrong")
    assert before.graph == after.before == GOLD[0].graph
    assert after.changed == {1, 2}


def test_a_long_example_has_one_word_per_line_and_its_name_below():
    n_words = 201
    first, last = (arcs("0 root", *[f"1 {label}"] * (n_words - 1)) for label in ("obj", "obl"))
    found = refinement_of([sentence(last, "long & wide")], [[first], [last]], first=0)

    page = parsed("".join(refinement_page([(found, COSTS)], "Long")))

    (figure,) = [each for each in page.iter("figure") if each.get("class") != "chart"]
    assert [each.tag for each in figure] == ["p", "pre", "pre", "figcaption"]
    assert "* was: 1 obj" in figure[2].text
    assert (figure.get("aria-label"), figure[3].text) == ("long & wide", "long & wide")


def test_score_axes_stay_within_0_and_100():
    gold, wrong = (arcs("0 root", *[f"1 {label}"] * 40) for label in ("obj", "obl"))
    perfect, hopeless = (refinement_of([sentence(gold)], [[tree], [tree]], first=0) for tree in (gold, wrong))

    best, worst = steps_chart(perfect), labels_chart(hopeless)

    assert ">100<" in best
    assert ">110<" not in best
    assert ">0.0<" in worst
    assert ">-1.0<" not in worst


def test_an_initial_parse_with_missing_heads_can_be_drawn():
    gold = [sentence(arcs("2 det", "0 root"))]
    found = refinement_of(gold, [[arcs("- _", "0 root")], [gold[0].graph.arcs]], first=0)

    page = "".join(refinement_page([(found, COSTS)], "blank"))

    assert "initial parse: 1 of 2 words wrong" in page


@given(
    name=st.text(),
    label=st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=8),
    counts=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=4),
    first=st.integers(0, 1),
)
def test_any_names_and_counts_make_a_valid_page(name, label, counts, first):
    gold = max(correct for correct, _ in counts) + 25
    made = StepCounts(gold, tuple(gold + more for _, more in counts), tuple(correct for correct, _ in counts))
    base = refinement_of(GOLD, STEPS[: len(counts)] + STEPS[:1] * (len(counts) - 3), first=first, name=name)
    found = replace(base, labels={label: made}, attachment={"UAS": made, "LAS": made})
    costs = replace(COSTS, seconds=(1.0,) * len(counts), sentences=(0,) * len(counts))

    page = parsed("".join(refinement_page([(found, costs)], name)))

    assert page.tag == "html"
