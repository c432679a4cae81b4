"""The tables of docs/refinement.md show what handmade rows say."""

import json

import pytest

from benchmarks.accuracy.refinement import SIZES, SYNTR, TRIED, Training
from benchmarks.pages.refinement import Curve, cost, genres, gist, recipes, sizes, starts, steps, tried

BY_STEP = {"rngtr": [None, 0.80, 0.805, 0.81], "syntr": [None, 0.79]}


def row(training, *, gain=0.0, p=0.5, **changed):
    """Return the row of a training; `gain` is added to its LAS after the last step."""
    by_step = list(BY_STEP[training.system])
    by_step[-1] += gain
    is_news = training.size.part == "news"
    result = {
        "LAS": by_step[-1],
        "LAS_by_step": by_step,
        "changed_by_step": [1.0, 0.2, 0.1][: len(by_step) - 1],
        "updates": 700 if training.system == "rngtr" else 720,
    }
    if training.system == "rngtr":
        result["last_step_over_first"] = {"difference": by_step[-1] - 0.8, "randomisation": p, "bootstrap": p}
    if is_news:
        lower = [None if las is None else las - 0.1 for las in by_step]
        result["also"] = {"en_ewt-reviews": result | {"LAS": lower[-1], "LAS_by_step": lower}}
    config = {
        "recipe": f"{training.size.treebank}-refinement",
        "changes": list(training.changes),
        "treebank": f"{training.size.treebank}-news" if is_news else training.size.treebank,
        "encoder": "e5-small",
        "kind": "SynTr" if training.system == "syntr" else "Empty+RNGTr",
        "T": 1 if training.system == "syntr" else 3,
        "stop": True,
        "seed": training.seed,
        "split": "dev",
    } | changed
    return {"benchmark": "accuracy", "config": config, "result": result}


def of(treebank, sentences=0, part=""):
    wanted = (treebank, sentences, part)
    return next(size for size in SIZES if (size.treebank, size.sentences, size.part) == wanted)


def pair(size, *, seeds=(1, 2), **result):
    return [
        row(Training(size, system, seed), **(result if system == "rngtr" else {}))
        for system in ("rngtr", "syntr")
        for seed in seeds
    ]


def cells(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_sizes_compare_both_systems_with_their_updates_and_all_sentences_come_last():
    curve = Curve([*pair(of("tr_imst")), *pair(of("tr_imst", 100), gain=0.02)])

    _, _, hundred, whole = cells(sizes(curve))

    assert hundred == [
        *("tr_imst", "100", "79.00 ± 0.00", "80.00 ± 0.00", "83.00 ± 0.00"),
        *("+4.00 ± 0.00", "720 / 700", "2"),
    ]
    assert whole[:2] == ["tr_imst", "all"]


def test_the_gain_is_the_mean_over_the_seeds_that_both_systems_have():
    size = of("tr_imst")
    rows = [row(Training(size, "rngtr", seed), gain=seed / 100) for seed in (1, 2, 3)]

    curve = Curve([*rows, row(Training(size, "syntr", 1)), row(Training(size, "syntr", 3))])

    assert cells(sizes(curve))[2][5:] == ["+4.00 ± 1.41", "720 / 700", "2"]


def test_a_training_set_without_syntr_is_left_out():
    assert sizes(Curve([row(Training(of("tr_imst"), "rngtr", 1))])).startswith("Not measured yet")


def test_steps_count_the_seeds_with_a_significant_difference():
    rows = pair(of("ko_gsd"), seeds=(1,), p=0.001) + pair(of("ko_gsd"), seeds=(2,), p=0.2)

    (line,) = cells(steps(Curve(rows)))[2:]

    assert line == [
        "ko_gsd",
        "all",
        *(f"{las:.2f} ± 0.00" for las in (80, 80.5, 81)),
        "+1.00 ± 0.00",
        "1 of 2",
        "20.0%",
    ]


def test_genres_show_the_same_models_on_both_dev_sets():
    curve = Curve(pair(of("en_ewt", part="news"), seeds=(1,)))

    news, reviews = cells(genres(curve))[2:]

    assert news == ["news", "news", "79.00", "80.00", "81.00", "+2.00", "+1.00", "720 / 700", "1"]
    assert reviews == ["news", "reviews", "69.00", "70.00", "71.00", "+2.00", "+1.00", "720 / 700", "1"]
    assert sizes(curve).startswith("Not measured yet")


@pytest.mark.parametrize("name", TRIED)
def test_a_change_that_was_tried_is_named_and_compared_with_the_model_without_it(name):
    size = of("tr_imst", 1000)
    changed = row(Training(size, "rngtr", 1, name), gain=0.005)

    unchanged, line = cells(tried(Curve([*pair(size, seeds=(1,)), changed])))[2:]

    assert unchanged[2:] == ["none", "80.00", "81.00", "+1.00", "–", "1"]
    setting = TRIED[name][0].partition("=")[0]
    assert f" (`{setting}=" in line[2]
    assert line[3:] == ["80.00", "81.50", "+1.50", "+0.50", "1"]


def test_the_summary_counts_the_cases():
    rows = [*pair(of("tr_imst")), *pair(of("tr_imst", 100), gain=-0.03, p=0.001)]

    assert gist(Curve([*rows, *pair(of("en_ewt", part="news"))])).splitlines() == [
        "- RNGTr is better than SynTr with as many updates in 2 of 3 cases (-1.00 to +2.00 LAS, means of the same "
        "seeds).",
        "- Its last step is better than its first in 2 of 3 cases (-2.00 to +1.00 LAS). Of single models, 2 of 6 "
        "differ significantly between the two (p < 0.01).",
        "- tr_imst, gain over SynTr by number of training sentences: -1.00 (100) and +2.00 (all).",
        "- Trained on news, gain over SynTr: +2.00 on news and +2.00 on reviews.",
    ]


def test_rows_of_other_recipes_are_ignored():
    other = row(Training(of("tr_imst"), "rngtr", 1), recipe="tr_imst-empty")

    assert Curve([other]).pairs == {}
    assert {each.partition("=")[0] for each in SYNTR} == {"relations.graph", "refine.max_steps"}


def test_bundled_recipes_are_shown_after_their_first_and_their_last_step(tmp_path):
    training = Training(of("en_ewt"), "rngtr", 1)
    own = row(training, recipe="en_ewt-gte-decided", changes=["training.dev_every=2"], tags="predicted")
    others = [row(training), row(training, recipe="en_ewt-gte-decided", changes=["relations.decided=false"])]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (own, *others)))

    _, _, *lines = cells(recipes(path))

    assert lines == [["`en_ewt-gte-decided`", "predicted", "3", "80.00", "80.50", "81.00", "+1.00", "1"]]


def test_several_starts_are_compared_with_one(tmp_path):
    better = {"LAS": 0.91, "difference": 0.01, "randomisation": 0.02, "bootstrap": 0.02}
    names = ("fixed point from an empty graph", "most probable", "most agreed", "best by gold")
    result = {"one start": {"LAS": 0.9}, **dict.fromkeys(names, better), "sentences_with_several_trees": 0.25}
    result |= {"passes_per_sentence": 2.0, "passes_per_sentence_of_several": 9.0}
    config = {"model": "en", "treebank": "en_ewt", "split": "dev", "sentences": 2002, "T": 3, "most_steps": 10, "k": 3}
    found = {"benchmark": "starts", "when": "2026-01-02", "commit": "abc", "config": config, "result": result}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(found | {"machine": {"processor": "CPU", "cores": 2}}) + "\n")

    text = starts(path)

    assert cells(text)[2] == ["one start, up to 3 steps", "90.00", "–", "–"]
    assert cells(text)[4] == ["several starts, the most probable tree", "91.00", "+1.00", "0.0200"]
    assert "different trees in 25.0% of the sentences" in text
    assert "9.0 passes per sentence instead of 2.0 (4.5 times as many)" in text


def test_tables_without_rows_name_their_command(tmp_path):
    nothing = Curve([])

    for make in (gist, sizes, steps, genres, tried):
        assert "`python -m benchmarks refinement jobs`" in make(nothing)
    assert "`python -m benchmarks starts`" in starts(tmp_path / "none.jsonl")
    assert cost(tmp_path / "none.jsonl").startswith("Not measured yet")
