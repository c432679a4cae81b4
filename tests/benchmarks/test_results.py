"""The tables of docs/results.md show what handmade rows say."""

import re

import pytest

from benchmarks.accuracy.model_rows import grouped
from benchmarks.accuracy.significance import measure_significance
from benchmarks.pages import results
from benchmarks.pages.results import RESULTS
from benchmarks.rows import read_rows, save_row
from tests.support.tiny import sample
from treefine import Graph, TreefineError, write_treebank
from treefine.training.recipe import read_recipe
from treefine_paper.predictions import predictions_of, save_predictions


def row(kind="SynTr+RNGTr", *, seed=1, las=0.7, split="dev", initial_las=0.6, **changed):
    """Return a row of accuracy; UAS is 0.05 above LAS."""
    has_initial = kind in ("SynTr+RNGTr", "Biaffine+RNGTr")
    config = {
        "recipe": kind.lower(),
        "changes": [],
        "treebank": "tr_imst",
        "encoder": "bilstm" if kind == "Biaffine" else "e5-small",
        "kind": kind,
        "T": 3 if has_initial else 4 if kind == "Empty+RNGTr" else 1,
        "stop": True,
        "tags": "given",
        "initial": {"folds": 0, "empty_share": 0.0, "noised_share": 0.0, "noise": 0.15},
        "seed": seed,
        "epochs": 30,
        "split": split,
    } | changed
    result = {
        "UAS": las + 0.05,
        "LAS": las,
        "LAS_by_step": [initial_las if has_initial else None, *[las] * config["T"]],
        "changed_by_step": [0.25] * config["T"],
        "parameters": 21_500_000,
        "initial_parameters": 20_000_000 if has_initial else 0,
        "training_seconds": 3723.0,
        "initial_seconds": 60.0 if has_initial else None,
        "folds_seconds": 240 if has_initial else 0,
        "start_seconds": 60,
        "parsing_seconds": 2.5,
        "words_per_second": 4000,
        "device": "NVIDIA H200",
        "sha256": f"{kind}-{seed}",
        "predictions": f"{kind.lower()}-{seed}.trees.xz",
    }
    return {
        "benchmark": "accuracy",
        "when": f"2026-01-02T03:0{seed}:00+00:00",
        "commit": "abc1234",
        "config": config,
        "result": result,
    }


def cells(text, *wanted):
    """Return the cells of the only line of a table that starts with these."""
    lines = [tuple(line.strip("| ").split(" | ")) for line in text.splitlines() if line.startswith("|")]
    (found,) = [line for line in lines if line[: len(wanted)] == wanted]
    return found[len(wanted) :]


def test_dev_scores_are_mean_and_standard_deviation_next_to_the_papers():
    groups = grouped([row("SynTr", seed=seed, las=las) for seed, las in ((1, 0.70), (2, 0.71), (3, 0.72))])

    line = cells(results.accuracy("tr_imst", groups), "SynTr", "e5-small", "1 2 **3**")

    assert line == ("76.00 ± 1.00", "71.00 ± 1.00", "–", "–", "77.98", "72.52", "`syntr`")


def test_the_test_score_is_that_of_the_best_seed_on_dev():
    rows = [row(seed=1, las=0.70), row(seed=2, las=0.72), row(seed=3, las=0.71)]
    rows += [row(seed=1, las=0.9, split="test"), row(seed=2, las=0.68, split="test")]

    line = cells(results.accuracy("tr_imst", grouped(rows)), "SynTr+RNGTr (T=3)", "e5-small", "1 **2** 3")

    assert line[2:4] == ("73.00", "68.00")


def test_a_fine_tuned_model_has_a_star_and_a_footnote():
    text = results.accuracy("tr_imst", grouped([row(encoder="e5-small, ud8-syntr"), row("SynTr")]))

    assert cells(text, "SynTr+RNGTr (T=3)", "e5-small*")
    assert cells(text, "SynTr", "e5-small")
    assert "\\* fine-tuned from the model of `ud8-syntr`." in text.splitlines()
    assert "fine-tuned" not in results.accuracy("tr_imst", grouped([row()]))


def test_removed_errors_are_relative_to_the_initial_parses_of_the_row():
    rows = [row(seed=1, las=0.70, initial_las=0.60), row(seed=2, las=0.80, initial_las=0.60)]
    rows.append(row(seed=2, las=0.55, initial_las=0.50, split="test"))

    line = cells(results.steps(grouped(rows)), "tr_imst", "SynTr+RNGTr (T=3)", "e5-small")

    assert line[-2:] == ("+37.5%", "+10.0%")


def test_averaged_weights_are_only_in_their_own_table():
    changes = ["training.weight_averaging=3"]
    rows = [row("Empty+RNGTr", las=las, seed=seed) for seed, las in ((1, 0.70), (2, 0.72))]
    rows += [row("Empty+RNGTr", las=0.8, split=split, changes=changes) for split in ("dev", "test")]
    groups = grouped(rows)

    line = cells(results.means(groups, []), "tr_imst", "Empty+RNGTr (T=4)", "e5-small", "mean of 1, 2, 3")

    assert line == ("80.00", "80.00", "+9.00", "–", "–")
    for table in (results.accuracy("tr_imst", groups), results.steps(groups), results.costs(groups)):
        assert "80.00" not in table
        assert table.count("Empty+RNGTr (T=4) |") == 1
    assert cells(results.tests(rows, ()), "2026-01-02 03:01", "tr_imst", "empty+rngtr", "weights averaged")[:1] == (
        "mean of 1, 2, 3",
    )


def test_a_model_without_a_row_has_dashes_and_the_papers_numbers():
    text = results.accuracy("ko_gsd", [])

    assert cells(text, "SynTr+RNGTr") == (*["–"] * 6, "91.49", "89.45", "–")
    assert "treefine train" not in text


def test_each_row_names_its_recipe_and_seed_for_the_command_below():
    text = results.accuracy("tr_imst", grouped([row(seed=1, las=0.7), row(seed=2, las=0.8)]))

    assert cells(text, "SynTr+RNGTr (T=3)", "e5-small", "1 **2**")[-1] == "`syntr+rngtr`"
    assert "`treefine train RECIPE --set training.seed=SEED --output DIR`" in text


@pytest.mark.parametrize("name", [name for name in RESULTS if name.startswith(("accuracy", "grid", "tags"))])
def test_every_recipe_on_the_page_can_be_read_with_its_changes(name):
    recipes = re.findall(r"\| `([^`]+)` \|$", RESULTS[name](), re.MULTILINE)

    assert recipes
    for recipe in recipes:
        recipe_name, *changes = recipe.split(" --set ")
        assert read_recipe(recipe_name, [*changes, "training.seed=2"]).training.seed == 2


def test_a_seed_measured_again_counts_once_with_its_newest_row_but_its_first_test():
    rows = [row(las=0.5), row(las=0.7), row(las=0.6, split="test"), row(las=0.9, split="test")]

    line = cells(results.accuracy("tr_imst", grouped(rows)), "SynTr+RNGTr (T=3)", "e5-small", "**1**")

    assert line[1:4] == ("70.00", "65.00", "60.00")


@pytest.mark.parametrize(
    "changed",
    [
        {"changes": ["optimiser.learning_rate=0.1"]},
        {"tags": "none"},
        {"T": 1},
        {"stop": False},
    ],
)
def test_the_first_tables_show_only_unchanged_recipes(changed):
    other = row(las=0.99, recipe="other", **changed)

    assert "99.00" not in results.accuracy("tr_imst", grouped([row(), other]))


def test_the_grid_shows_steps_and_stopping_next_to_table_1():
    rows = [
        row(las=0.70),
        row(las=0.65, T=1, changes=["refine.max_steps=1"]),
        row(las=0.66, stop=False, changes=["refine.stop=false"]),
        row(las=0.99, changes=["optimiser.learning_rate=0.1"]),
        row("Biaffine", las=0.6),
    ]

    text = results.grid(grouped(rows))

    line = ("75.00", "70.00", "SynTr", "76.29", "70.84", "`syntr+rngtr`")
    assert cells(text, "SynTr+RNGTr (T=3)", "e5-small", "up to 90", "**1**") == line
    line = ("70.00", "65.00", "SynTr", "76.37", "70.67", "`syntr+rngtr --set refine.max_steps=1`")
    assert cells(text, "SynTr+RNGTr (T=1)", "e5-small", "30", "**1**") == line
    line = cells(text, "SynTr+RNGTr (T=3) without stop", "e5-small", "90", "**1**")
    assert (*line[:2], line[-1]) == ("71.00", "66.00", "`syntr+rngtr --set refine.stop=false`")
    assert cells(text, "Biaffine")[3:-1] == ("65.00", "60.00", "UDify", "72.78", "65.48")
    assert cells(text, "Biaffine+RNGTr (T=3)") == (*["–"] * 5, "UDify", "75.91", "70.66", "–")
    assert "99.00" not in text


def test_step_by_step_shows_each_trees_score_and_the_share_changed():
    text = results.steps(grouped([row(), row("Empty+RNGTr", las=0.65)]))

    line = ("60.00", *["70.00 (25%)"] * 3, "–", "+25.0%", "–")
    assert cells(text, "tr_imst", "SynTr+RNGTr (T=3)", "e5-small") == line
    assert cells(text, "tr_imst", "Empty+RNGTr (T=4)", "e5-small")[0] == "–"


def test_tags_show_the_models_measured_with_every_source():
    rows = [row("SynTr", las=0.6), row(las=0.7), row("Empty+RNGTr", las=0.69)]
    rows += [row(las=0.65, tags="none", changes=["tags.source=none"])]
    assert results.tags(grouped(rows)) == "–"
    for source, las in (("predicted", 0.66), ("none", 0.64)):
        rows.append(row("Empty+RNGTr", las=las, tags=source, changes=[f"tags.source={source}"]))
    rows.append(row("Empty+RNGTr", las=0.99, changes=["optimiser.learning_rate=0.1"]))

    text = results.tags(grouped(rows))

    model = ("tr_imst", "Empty+RNGTr (T=4)", "e5-small")
    found = {source: cells(text, *model, source, "**1**") for source in ("given", "predicted", "none")}
    assert {source: line[1] for source, line in found.items()} == {
        "given": "69.00",
        "predicted": "66.00",
        "none": "64.00",
    }
    assert found["none"][-1] == "`empty+rngtr --set tags.source=none`"
    assert "| SynTr" not in text
    assert "99.00" not in text


def test_the_loss_without_tags_uses_the_seeds_measured_both_ways():
    rows = [row("Empty+RNGTr", las=0.69), row("Empty+RNGTr", las=0.99, seed=2)]
    assert results.tags_lost(grouped(rows)) == []
    rows.append(row("Empty+RNGTr", las=0.64, tags="none", changes=["tags.source=none"]))

    (sentence,) = results.tags_lost(grouped(rows))

    assert sentence == "Without tags, Empty+RNGTr (T=4) loses 5.00 (tr_imst) LAS on dev, seed 1."


def test_costs_separate_model_and_initial_parser():
    text = results.costs(grouped([row()]))

    line = cells(text, "tr_imst", "SynTr+RNGTr (T=3)", "e5-small")
    assert line == ("21.5M + 20.0M", "1:02:03", "0:06:00", "2.5 s", "4,000")
    assert "treefine ran on NVIDIA H200, the paper's models on NVIDIA V100." in text
    assert cells(text, "en_ewt", "the paper's RNGTr")[1:3] == ("–", "8:14:26")
    assert "English Penn Treebank: SynTr 206.2M, RNGTr 206.3M and Biaffine 13.5M." in text


def test_every_use_of_a_test_set_is_listed():
    rows = [row(), row(split="test", las=0.6), row(split="test", las=0.61, changes=["optimiser.learning_rate=0.1"])]

    text = results.tests(rows, ())

    assert cells(text, "2026-01-02 03:01", "tr_imst", "syntr+rngtr", "–") == ("1", "65.00", "60.00", "abc1234")
    assert cells(text, "2026-01-02 03:01", "tr_imst", "syntr+rngtr", "optimiser.learning_rate=0.1")[2] == "61.00"
    assert results.tests(rows[:1], ()) == "No test set was used."


def test_initial_parsers_that_were_only_scored_as_g0_are_named_below():
    refined = [row(seed=2, split="test"), row("Empty+RNGTr", seed=2, split="test")]

    assert "Scored only as initial parsers (G⁰): SynTr of tr_imst, seed 2." in results.tests(refined, ())
    assert "Scored only" not in results.tests([*refined, row("SynTr", seed=2, split="test")], ())


@pytest.fixture
def folder(tmp_path):
    """Return a folder with rows of two tested models: SynTr has all labels wrong, SynTr+RNGTr half of them."""
    gold = sample()
    (tmp_path / "tr_imst").mkdir()
    write_treebank(gold, tmp_path / "tr_imst" / "test.conllu")
    for kind, period in (("SynTr", 1), ("SynTr+RNGTr", 2)):
        trees = [
            Graph.of_words(each.graph.heads[1:], ["dep"] * len(each)) if number % period == 0 else each.graph
            for number, each in enumerate(gold)
        ]
        made = row(kind, split="test", las=0.5)
        path = tmp_path / made["result"]["predictions"]
        made["result"]["sha256"] = save_predictions(predictions_of(gold, [trees], first=1), path)
        for each in (row(kind), made):
            save_row("accuracy", each["config"], each["result"], path=tmp_path / "rows.jsonl")
    return tmp_path


def compare(folder):
    paths = ["--rows", folder / "rows.jsonl", "--predictions", folder, "--treebanks", folder]
    measure_significance(list(map(str, paths)))


def shown(folder):
    rows = folder / "rows.jsonl"
    return results.significance(grouped(read_rows("accuracy", path=rows)), read_rows("significance", path=rows))


def test_significance_is_computed_from_the_saved_trees(folder):
    assert cells(shown(folder), "tr_imst", "e5-small") == tuple(["–"] * 6)

    compare(folder)

    line = cells(shown(folder), "tr_imst", "e5-small", "SynTr", "SynTr+RNGTr (T=3)")
    assert float(line[0]) > 40
    assert line[1:] == ("0.0001 / 0.0001", "+0.00", "1.0000 / 1.0000")
    assert "- tr_imst, e5-small: SynTr+RNGTr (T=3)." in shown(folder)


def test_significance_of_outdated_models_is_not_shown(folder):
    compare(folder)
    for split in ("dev", "test"):
        other = row(seed=2, las=0.9, split=split)
        save_row("accuracy", other["config"], other["result"], path=folder / "rows.jsonl")

    assert cells(shown(folder), "tr_imst", "e5-small") == tuple(["–"] * 6)


def test_predictions_that_differ_from_the_row_are_rejected(folder):
    (folder / "syntr-1.trees.xz").write_bytes((folder / "syntr+rngtr-1.trees.xz").read_bytes())

    with pytest.raises(TreefineError, match="are missing or have changed"):
        compare(folder)


def test_averaged_weights_are_compared_separately(folder):
    mean = row("SynTr", las=0.9, changes=["training.weight_averaging=3"])
    trees = [each.graph for each in sample()]
    digest = save_predictions(predictions_of(sample(), [trees], first=1), folder / "mean.trees.xz")
    mean["result"] |= {"predictions": "mean.trees.xz", "sha256": digest}
    for split in ("dev", "test"):
        save_row("accuracy", mean["config"] | {"split": split}, mean["result"], path=folder / "rows.jsonl")

    compare(folder)

    assert "- tr_imst, e5-small: SynTr+RNGTr (T=3)." in shown(folder)
    rows = folder / "rows.jsonl"
    text = results.means(grouped(read_rows("accuracy", path=rows)), read_rows("significance", path=rows))
    seed, syntr = cells(text, "tr_imst", "SynTr", "e5-small", "mean of 1, 2, 3")[-2:]
    assert seed == syntr == "+100.00, 0.0001 / 0.0001"


# Renamed settings


def test_rows_with_old_names_of_settings_are_read_with_the_current_names(tmp_path):
    path = tmp_path / "rows.jsonl"
    difference = {"first": "a --set training.members=3", "second": "b"}
    changes = ["training.members=3", "encoder.folder=e5", "refine.stop=false"]
    save_row("accuracy", {"changes": changes}, {"best": difference}, path=path)
    save_row("segmenter", {"changes": ["hidden=0.1", "network.char_hidden=64"]}, {}, path=path)

    current = ["training.weight_averaging=3", "encoder.pretrained=e5", "refine.stop=false"]
    (accuracy,) = read_rows("accuracy", path=path, changes=current)
    (segmenter,) = read_rows("segmenter", path=path)

    assert accuracy["result"]["best"]["first"] == "a --set training.weight_averaging=3"
    assert segmenter["config"]["changes"] == ["masking=0.1", "network.char_hidden=64"]
