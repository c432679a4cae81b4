"""The tables on top of docs/results.md and in README, from made-up rows; and what the page says without numbers."""

import pytest

from benchmarks.groups import grouped
from benchmarks.rows import read_rows
from benchmarks.summary import before_and_after, summary
from tests.benchmarks.test_results import cells, row


def sentences(rows, significance=()):
    return "\n".join(line for line in summary(grouped(rows), significance).splitlines() if line.startswith("- "))


def both(kind, *, dev, test, **changed):
    """The rows of a model that was measured on dev and on test."""
    return [row(kind, las=dev, **changed), row(kind, las=test, split="test", **changed)]


def test_the_difference_to_the_paper_is_that_of_the_model_that_dev_chose():
    rows = [*both("SynTr", dev=0.70, test=0.75), *both("Empty+RNGTr", dev=0.71, test=0.72)]

    line = cells(summary(grouped(rows), []), "tr_imst", "e5-small")

    assert line == ("22M", "75.00", "–", "**72.00**", "–", "73.08", "-1.08")
    assert "- Below the paper's best on test: tr_imst with e5-small (-1.08)." in sentences(rows)
    assert "Above the paper's" not in sentences(rows)


def test_a_mean_of_trainings_has_its_own_column():
    rows = [
        *both("Empty+RNGTr", dev=0.7, test=0.72),
        *both("Empty+RNGTr", dev=0.71, test=0.74, changes=["training.members=3"]),
    ]

    line = cells(summary(grouped(rows), []), "tr_imst", "e5-small")

    assert line == ("22M", "–", "–", "72.00", "**74.00**", "73.08", "+0.92")
    assert "- Above the paper's best on test: tr_imst with e5-small (+0.92)." in sentences(rows)


def test_refinement_is_set_against_syntr_where_both_have_the_same_three_seeds():
    rows = [row("SynTr", seed=seed, las=0.70) for seed in (1, 2, 3)]
    rows += [row("Empty+RNGTr", seed=seed, las=0.69) for seed in (1, 2, 3)]
    rows += [row("SynTr+RNGTr", seed=seed, las=las) for seed, las in ((1, 0.70), (2, 0.71), (3, 0.72))]
    fewer = [each for each in rows if each["config"]["kind"] == "SynTr" or each["config"]["seed"] < 3]
    few = [each for each in rows if each["config"]["seed"] < 3]

    assert "in the mean of the same seeds, in 1 of 2 cases: -1.00 to +1.00 LAS." in sentences(rows)
    assert "in the mean of the same seeds" not in sentences(fewer) + sentences(few)


@pytest.mark.parametrize(("p", "told"), [(0.009, "tr_imst with e5-small, SynTr+RNGTr (T=3) (+2.00)"), (0.01, "none")])
def test_what_is_significant_on_test_is_named(p, told):
    rows = [*both("SynTr", dev=0.7, test=0.70), *both("SynTr+RNGTr", dev=0.7, test=0.72)]
    difference = {"first": "syntr", "second": "syntr+rngtr", "difference": 0.02, "randomisation": p, "bootstrap": p}
    result = {"systems": {"syntr": "SynTr-1", "syntr+rngtr": "SynTr+RNGTr-1"}, "best": [], "differences": [difference]}
    config = {"treebank": "tr_imst", "encoder": "e5-small"}
    tests = [{"config": config | {"metric": metric}, "result": result} for metric in ("LAS", "UAS")]

    assert f"it is in 1 of 1 cases. Significant (α = 0.01) are: {told}." in sentences(rows, tests)
    assert "- Against its own initial parses, on test: SynTr+RNGTr +12.00 (tr_imst)." in sentences(rows, tests)


def test_the_first_step_is_told_from_the_others():
    refined, empty = row("SynTr+RNGTr"), row("Empty+RNGTr")
    refined["result"]["LAS_by_step"] = [0.60, 0.63, 0.65, 0.64]
    empty["result"]["LAS_by_step"] = [None, 0.60, 0.63, 0.65, 0.62]

    text = sentences([refined, empty])

    assert "- The first step brings 75% to 75% of the gain" in text
    assert "the steps after the first change dev LAS by +2.00 to +2.00." in text


def test_readme_shows_scores_before_and_after_beside_the_papers():
    rows = [*both("SynTr+RNGTr", dev=0.7, test=0.72), *both("Biaffine+RNGTr", dev=0.7, test=0.71)]
    rows += [*both("Empty+RNGTr", dev=0.69, test=0.7), *both("SynTr", dev=0.6, test=0.6)]

    text = before_and_after(grouped(rows))

    place = ("tr_imst", "e5-small")
    assert cells(text, *place, "SynTr") == ("60.00 → 70.00", "60.00 → 72.00", "72.52 → 73.08")
    assert cells(text, *place, "none") == ("69.00", "70.00", "71.99")
    assert cells(text, *place, "Biaffine")[-1] == "–"
    assert len(text.splitlines()) == 5


def test_what_the_page_says_without_numbers_is_true_of_the_rows():
    groups = grouped(read_rows("accuracy"))
    las = {group.name: group.mean("LAS") for group in groups if group.dev}
    single = {name: score for name, score in las.items() if "--set" not in name}

    for treebank in ("en_ewt", "ko_gsd"):  # "the best single one on the dev sets of en_ewt and ko_gsd"
        ours = [name for name in single if name.startswith(treebank)]
        assert max(ours, key=single.get).endswith("-empty")
    assert las["tr_imst-rngtr --set refine.max_steps=1"] <= las["tr_imst-syntr"]  # "T=1 is no better than SynTr"
    assert all(group.config["tags"] == "given" for group in groups if group.test)  # "test sets were not touched"
    assert not any(group.members > 1 and not group.is_refined for group in groups)  # "no mean of SynTr"
