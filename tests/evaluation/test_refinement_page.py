"""The tables, the page, JSON and CSV of a refinement analysis."""

import csv
import io
import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.test_refinement import GOLD, STEPS, arcs, sentence
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
from treefine.evaluation.analysis.refinement import Costs, StepCounts, refinement_of, together

COSTS = Costs("cpu", 34_600_000, 28_000_000, 1.5, (4.0, 1.0), (2, 1))


@pytest.fixture
def counted():
    return refinement_of(GOLD, STEPS, first=0, name="tiny")


def test_the_tables_have_the_papers_layout(counted):
    steps, labels, projectivity = by_step(counted), by_label(counted, least=1, most=2), by_projectivity(counted)
    costs = costs_table(COSTS)

    assert steps.header == ("", "t = 0", "t = 1", "t = 2", "all steps")
    assert steps.rows == (
        ("UAS", "75.00", "75.00", "87.50", "–"),
        ("LAS", "50.00", "75.00", "87.50", "–"),
        ("REL", "–", "+50.00 %", "+50.00 %", "+75.00 %"),
        ("REL of UAS", "–", "+0.00 %", "+50.00 %", "+50.00 %"),
        ("converged", "–", "0.0 %", "50.0 %", "–"),
    )
    assert labels.rows == (
        ("det", "2", "+0.00 %", "+100.00 %", "+100.00 %"),
        ("nsubj", "1", "+100.00 %", "–", "+100.00 %"),
    )
    assert "The first 2 of the types with at least 1 gold words" in labels.note
    assert ". Types with at least 1 gold words" in by_label(counted, least=1).note
    assert projectivity.rows == (
        ("non-projective", "4", "+50.00 %", "+0.00 %", "+50.00 %"),
        ("projective", "4", "+50.00 %", "+100.00 %", "+100.00 %"),
    )
    assert costs.rows == (
        ("sentences refined", "–", "2", "1", "3"),
        ("seconds", "1.50", "4.00", "1.00", "6.50"),
        ("milliseconds a sentence", "–", "2000.00", "1000.00", "–"),
    )
    assert "34.6 million parameters and 28.0 million in its initial parser, here on cpu" in costs.note


def test_without_initial_parses_the_steps_begin_at_1_and_that_is_said(counted):
    later = replace(counted, first=1)

    assert by_step(later).header == ("", "t = 1", "t = 2", "t = 3", "all steps")
    assert by_projectivity(later).header == ("", "gold words", "t = 2", "t = 3", "all steps")
    assert "there is no t = 0" in summary_of(later)
    assert summary_of(counted) == "2 sentences, 8 words, t = 0 to 2."


def test_that_new_tags_keep_the_first_step_from_converging_is_said_where_they_do(counted):
    rule = "a sentence that lacked some does not converge before t = 2"

    assert rule in by_step(replace(counted, predicts_tags=True)).note
    assert rule not in by_step(counted).note
    assert rule not in by_step(replace(counted, predicts_tags=True, first=1)).note  # which tells nothing of t = 1
    several = together([counted, replace(counted, predicts_tags=True)], name="both")
    assert several.predicts_tags


def test_a_kind_without_gold_words_has_no_errors_to_reduce(counted):
    none = StepCounts(0, (0, 0, 0), (0, 0, 0))

    table = by_projectivity(replace(counted, projectivity={**counted.projectivity, "non-projective": none}))

    assert table.rows[0] == ("non-projective", "0", "–", "–", "–")


def test_a_step_that_no_sentence_reached_has_no_time_a_sentence():
    table = costs_table(replace(COSTS, initial_seconds=None, sentences=(2, 0)))

    assert table.rows[1][1] == "–"
    assert table.rows[2][-2] == "–"


def test_json_holds_all_counts(counted):
    (values,) = json.loads(refinement_json([(counted, COSTS)], "Tiny"))["treebanks"]

    assert values["t"] == [0, 1, 2]
    assert values["attachment"]["LAS"]["correct"] == [4, 6, 7]
    assert values["labels"]["nsubj"]["error_reduction"] == [1.0, None]
    assert values["projectivity"]["projective"]["total_error_reduction"] == 1.0
    assert (values["converged"], values["corrected"], values["spoiled"]) == ([0, 1], ["even"], [])
    assert values["costs"]["seconds"] == [4.0, 1.0]


def test_csv_has_a_row_for_each_number_of_words_and_each_step(counted):
    read = list(csv.DictReader(io.StringIO(refinement_csv([(counted, COSTS)]))))

    (las,) = [row for row in read if (row["table"], row["kind"], row["t"]) == ("attachment", "LAS", "2")]
    assert (las["treebank"], las["gold"], las["correct"]) == ("tiny", "8", "7")
    assert (float(las["f1"]), float(las["error_reduction"])) == (0.875, 0.5)
    (stopped,) = [row for row in read if (row["table"], row["t"]) == ("converged", "2")]
    assert (stopped["gold"], stopped["correct"], stopped["f1"]) == ("2", "1", "0.5")
    kinds = 2 + len(counted.labels) + 2
    assert len(read) == kinds * 3 + 2


def parsed(page):
    """The page as XML; its first line names HTML."""
    return ElementTree.fromstring(page.partition("\n")[2])


def test_the_page_shows_every_number_of_the_tables_and_draws_the_examples(counted):
    page = "".join(refinement_page([(counted, COSTS)], "Refinement of a <b>"))

    shown = {cell.text for cell in parsed(page).iter() if cell.tag in ("td", "th")}
    for table in (by_step(counted), by_label(counted), by_projectivity(counted), costs_table(COSTS)):
        assert {cell for row in table.rows for cell in row} <= shown
    assert "1 of 2 are wrong in the first tree and all right in the last." in page
    assert "0 of 2 are all right in the first tree and wrong in the last." in page
    assert "initial parse: 2 of 4 words wrong" in page
    assert "step 2: right, as gold" in page


def test_several_treebanks_have_a_table_of_contents(counted):
    other = replace(counted, name="x & y")

    page = parsed("".join(refinement_page([(counted, COSTS), (other, COSTS)], "Two")))

    links = {link.attrib["href"]: link.text for link in page.iter("a")}
    assert links == {"#t1": "tiny", "#t2": "x & y"}
    assert {section.attrib.get("id") for section in page.iter("section")} >= {"t1", "t2"}


def test_a_spoiled_sentence_is_right_first_and_says_how_much_of_it_is_wrong():
    found = refinement_of(GOLD, STEPS[::-1], first=0)

    before, after = example_pictures(found.spoiled[0], found.steps, is_corrected=False)

    assert (before.title, after.title) == ("initial parse: right, as gold", "step 2: 2 of 4 words wrong")
    assert before.graph == after.before == GOLD[0].graph
    assert after.changed == {1, 2}


def test_a_long_example_has_one_word_a_line_and_its_name_below():
    n_words = 201
    first, last = (arcs("0 root", *[f"1 {label}"] * (n_words - 1)) for label in ("obj", "obl"))
    found = refinement_of([sentence(last, "long & wide")], [[first], [last]], first=0)

    page = parsed("".join(refinement_page([(found, COSTS)], "Long")))

    (figure,) = [each for each in page.iter("figure") if each.get("class") != "chart"]
    assert [each.tag for each in figure] == ["p", "pre", "pre", "figcaption"]
    assert "* was: 1 obj" in figure[2].text
    assert (figure.get("aria-label"), figure[3].text) == ("long & wide", "long & wide")


def test_the_axes_of_scores_end_at_0_and_100():
    gold, wrong = (arcs("0 root", *[f"1 {label}"] * 40) for label in ("obj", "obl"))
    perfect, hopeless = (refinement_of([sentence(gold)], [[tree], [tree]], first=0) for tree in (gold, wrong))

    best, worst = steps_chart(perfect), labels_chart(hopeless)

    assert ">100<" in best
    assert ">110<" not in best
    assert ">0.0<" in worst
    assert ">-1.0<" not in worst


def test_an_initial_parse_without_some_heads_can_be_drawn():
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
def test_any_names_and_counts_make_a_page(name, label, counts, first):
    gold = max(correct for correct, _ in counts) + 25
    made = StepCounts(gold, tuple(gold + more for _, more in counts), tuple(correct for correct, _ in counts))
    base = refinement_of(GOLD, STEPS[: len(counts)] + STEPS[:1] * (len(counts) - 3), first=first, name=name)
    found = replace(base, labels={label: made}, attachment={"UAS": made, "LAS": made})
    costs = replace(COSTS, seconds=(1.0,) * len(counts), sentences=(0,) * len(counts))

    page = parsed("".join(refinement_page([(found, costs)], name)))

    assert page.tag == "html"
