"""The summary of docs/results.md shows what handmade rows say; the page's statements are true of the real rows."""

import pytest

from benchmarks.accuracy.model_rows import grouped
from benchmarks.pages.summary import FLOORS, before_and_after, floors, summary
from benchmarks.rows import read_rows
from tests.benchmarks.test_results import cells, row
from treefine_paper import paper


def sentences(rows, significance=()):
    return "\n".join(line for line in summary(grouped(rows), significance).splitlines() if line.startswith("- "))


def both(kind, *, dev, test, **changed):
    """Return the rows of a model that was measured on dev and on test."""
    return [row(kind, las=dev, **changed), row(kind, las=test, split="test", **changed)]


def test_the_difference_to_the_paper_is_that_of_the_best_model_on_dev():
    rows = [*both("SynTr", dev=0.70, test=0.75), *both("Empty+RNGTr", dev=0.71, test=0.72)]

    line = cells(summary(grouped(rows), []), "tr_imst", "e5-small")

    assert line == ("22M", "75.00", "–", "**72.00**", "73.08", "-1.08")
    assert "- Below the paper's best test LAS: tr_imst with e5-small (-1.08)." in sentences(rows)
    assert "Above the paper's" not in sentences(rows)


def test_averaged_weights_are_not_in_the_summary():
    rows = [
        *both("Empty+RNGTr", dev=0.7, test=0.72),
        *both("Empty+RNGTr", dev=0.71, test=0.74, changes=["training.weight_averaging=3"]),
    ]

    assert cells(summary(grouped(rows), []), "tr_imst", "e5-small") == ("22M", "–", "–", "**72.00**", "73.08", "-1.08")
    assert "74.00" not in summary(grouped(rows), []) + before_and_after(grouped(rows))


def test_floors_show_which_models_reach_them():
    rows = [*both("SynTr", dev=0.7, test=0.69996), *both("Empty+RNGTr", dev=0.7, test=0.6999)]

    line = cells(floors(grouped(rows)), "tr_imst", "e5-small")

    assert line == ("70.00", "SynTr 70.00", "Empty+RNGTr 69.99")


def test_refinement_is_compared_with_syntr_if_both_have_the_same_three_seeds():
    rows = [row("SynTr", seed=seed, las=0.70) for seed in (1, 2, 3)]
    rows += [row("Empty+RNGTr", seed=seed, las=0.69) for seed in (1, 2, 3)]
    rows += [row("SynTr+RNGTr", seed=seed, las=las) for seed, las in ((1, 0.70), (2, 0.71), (3, 0.72))]
    fewer = [each for each in rows if each["config"]["kind"] == "SynTr" or each["config"]["seed"] < 3]
    few = [each for each in rows if each["config"]["seed"] < 3]

    assert "better than SynTr in 1 of 2 cases (-1.00 to +1.00 LAS, mean of the same seeds). " in sentences(rows)
    assert "had up to 3 (T=3) and 4 (T=4) times as many updates" in sentences(rows)
    assert "mean of the same seeds" not in sentences(fewer) + sentences(few)


@pytest.mark.parametrize(("p", "named"), [(0.009, "tr_imst with e5-small, SynTr+RNGTr (T=3) (+2.00)"), (0.01, "none")])
def test_significant_differences_on_test_are_named(p, named):
    rows = [*both("SynTr", dev=0.7, test=0.70), *both("SynTr+RNGTr", dev=0.7, test=0.72)]
    difference = {"first": "syntr", "second": "syntr+rngtr", "difference": 0.02, "randomisation": p, "bootstrap": p}
    result = {"systems": {"syntr": "SynTr-1", "syntr+rngtr": "SynTr+RNGTr-1"}, "best": [], "differences": [difference]}
    config = {"treebank": "tr_imst", "encoder": "e5-small"}
    tests = [{"config": config | {"metric": metric}, "result": result} for metric in ("LAS", "UAS")]

    text = sentences(rows, tests)

    assert "they are better than SynTr in 1 of 1 cases. Significant differences, at α = 0.01 per pair" in text
    assert f"without correction for multiple comparisons: {named}." in text


@pytest.mark.parametrize(
    ("by_step", "below", "falls"), [([0.6, 0.63, 0.65, 0.62], 0, 1), ([0.6, 0.55, 0.5, 0.59], 1, 0)]
)
def test_tested_models_are_compared_with_their_initial_parses_and_first_step(by_step, below, falls):
    rows = both("SynTr+RNGTr", dev=0.7, test=0.7)
    rows[1]["result"]["LAS_by_step"] = by_step

    text = sentences(rows)

    difference = f"{100 * (by_step[-1] - by_step[0]):+.2f}"
    assert f"with the initial parses: SynTr+RNGTr {difference} (tr_imst); {below} of 1 are worse. " in text
    assert f"Steps after the first lower test LAS in {falls} of 1 cases." in text


def test_the_gain_of_the_first_step_is_shown():
    rows = []
    for seed in (1, 2, 3):
        refined, empty = row("SynTr+RNGTr", seed=seed, las=0.64), row("Empty+RNGTr", seed=seed, las=0.62)
        refined["result"]["LAS_by_step"] = [0.60, 0.63, 0.65, 0.64]
        empty["result"]["LAS_by_step"] = [None, 0.61, 0.63, 0.65, 0.62]
        rows += [refined, empty, row("SynTr", seed=seed, las=0.60)]

    text = sentences(rows)

    assert "- On dev, the first step brings 75% to 75% of the gain" in text
    assert "over SynTr on dev: 50% (tr_imst with e5-small)." in text


def test_scores_before_and_after_are_shown_next_to_the_papers():
    rows = [*both("SynTr+RNGTr", dev=0.7, test=0.72), *both("Biaffine+RNGTr", dev=0.7, test=0.71)]
    rows += [*both("Empty+RNGTr", dev=0.69, test=0.7), *both("SynTr", dev=0.6, test=0.6)]

    text = before_and_after(grouped(rows))

    place = ("tr_imst", "e5-small")
    assert cells(text, *place, "SynTr") == ("60.00 → 70.00", "60.00 → 72.00", "72.52 → 73.08")
    assert cells(text, *place, "none") == ("69.00", "70.00", "71.99")
    assert cells(text, *place, "Biaffine")[-1] == "–"
    assert len(text.splitlines()) == 5


def test_the_statements_of_the_page_are_true_of_the_rows():
    groups = grouped(read_rows("accuracy"))
    named = {group.name: group for group in groups}
    las = {group.name: group.mean("LAS") for group in groups if group.dev}
    plain = [group for group in groups if group.is_plain]

    # Number of steps: T=1 is worse than SynTr, with fewer updates; stopping helps only in the paper
    one, syntr = named["tr_imst-rngtr --set refine.max_steps=1"], named["tr_imst-syntr"]
    assert las[one.name] < las[syntr.name]
    assert one.config["epochs"] < syntr.config["epochs"]
    for name in ("tr_imst-rngtr", "tr_imst-biaffine-rngtr"):
        assert las[name] - las[f"{name} --set refine.stop=false"] < 0.0005
    theirs = {each[:3]: each[-1] for each in paper.GRID}
    assert theirs["SynTr+RNGTr", 1, True] > theirs["SynTr", 1, True]
    assert all(theirs[kind, 3, True] - theirs[kind, 3, False] > 0.2 for kind in ("SynTr+RNGTr", "UDify+RNGTr"))
    # Tags: Empty+RNGTr is the best on en_ewt and ko_gsd, but not on tr_imst; only dev and one seed
    for treebank in ("en_ewt", "ko_gsd"):
        ours = [group.name for group in plain if group.name.startswith(treebank)]
        assert max(ours, key=las.get).endswith("-empty")
    assert las["tr_imst-empty"] < min(las["tr_imst-rngtr"], las["tr_imst-biaffine-rngtr"])
    tagged = [group for group in groups if "tags.source" in group.changes]
    assert all(group.config["kind"] == "Empty+RNGTr" and not group.test and len(group.dev) == 1 for group in tagged)
    # Weight averaging: no training; no average of SynTr; one member of each was tested before
    means = [group for group in groups if group.is_mean]
    assert {group.config["kind"] for group in means} == {"Empty+RNGTr"}
    for group in means:
        assert all(each["result"]["training_seconds"] is None for each in (*group.dev.values(), *group.test.values()))
        assert named[group.config["recipe"]].tested["when"] < group.tested["when"]
    # Limits and targets
    assert {group.config["encoder"] for group in plain if group.config["kind"] == "SynTr+RNGTr"} == {
        "mpnet",
        "e5-small, ud8-syntr",
    }
    assert len(named["en_ewt-gte-empty"].dev) == 1
    assert cells(floors(groups), "en_ewt", "mpnet")[-1].startswith("Empty+RNGTr")
    text = summary(groups, [])
    assert all(
        cells(text, *place)[-1].startswith("-") for place in (("en_ewt", "gte-small"), ("ko_gsd",), ("tr_imst",))
    )
    assert len(floors(groups).splitlines()) == 2 + len(FLOORS)
