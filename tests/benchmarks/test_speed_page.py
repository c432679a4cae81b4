"""docs/speed.md and docs/targets.md show what the rows say."""

import json
from pathlib import Path

import pytest

from benchmarks.pages.speed import (
    SPEED_PAGE,
    around_model,
    draw_speeds,
    faster,
    gist,
    graph_attention,
    precisions,
    training,
)
from benchmarks.pages.targets import PARSING, TRAINED, Figure, Target, targets
from benchmarks.peers.answers import ALL_PASSES, FILE, WORDS
from benchmarks.rows import machine_of, newest
from benchmarks.speed.curves import TITLES, draw_curve, shown_figures
from benchmarks.speed.parsers import parsers, time_spent

MACHINE = {"processor": "A fine one", "cores": 16, "python": "3.12"}
PROFILE = {
    "profiled_seconds": 4.0,
    "busy_seconds": 3.0,
    "busy_share": 0.75,
    "top_seconds": {"a|kernel": 2.0},
    "reading, alone_seconds": 1.0,
}


def speed_row(device="cpu", **words_per_second):
    """Return a row of `speed`; the keywords are systems, which run at this speed in all ways."""
    result = {}
    for name, speed in words_per_second.items():
        for way in (WORDS, FILE, ALL_PASSES):
            result[f"{name}: {way}"] = {
                "seconds": 10_000 / speed,
                "sentences_per_second": speed * 20,
                "words_per_second": speed,
                "times_ours": 1.0,
                "peak_mib": 1000,
                "above_start_mib": 10,
            }
    config = {
        "device": device,
        "device_name": "NVIDIA H200" if device == "cuda" else None,
        "profile": PROFILE,
        "settings": {
            name: {"precision": "float32", "T": 3, "tags": "predicted"} for name in ("treefine", "treefine, float32")
        },
        "trees": {"treefine": {"sentences": 300, "LAS, plain": 90.1, "LAS": 90.05, "other trees, percent": 0.7}},
        "sentences by step": [5, 2],
        "sentences": 2000,
        "words": 30_000,
        "file": "en_ewt test",
        "copies": 4,
        "threads": 2,
        "rounds": 3,
        "model": "en",
        "packages": {"torch": "2"},
    }
    return row_of("speed", config, result)


def row_of(benchmark, config, result):
    when = {"when": "2026-11-15T20:00:00+00:00", "commit": "abc"}
    return {"benchmark": benchmark, "machine": MACHINE, "config": config, "result": result, **when}


def curves_row(device="cpu", cost=(2.0, 1.0, 3.0)):
    curve = {"x": [10, 40, 400], "microseconds_a_word": list(cost)}
    others = {name: {"x": [1, 2], "microseconds_a_word": [1.0, 2.0]} for name in ("batch", "T", "labels")}
    config = {"device": device, "precision": "int8", "device_name": None}
    return row_of("speed_curves", config, {"length": curve, "longest_peak_mib": 5000, **others})


@pytest.fixture
def rows(tmp_path):
    """Return a function that writes rows to a file and returns its path."""
    path = tmp_path / "rows.jsonl"

    def write(*each):
        path.write_text("".join(f"{json.dumps(row)}\n" for row in each))
        return path

    return write


def line_of(text, *parts):
    found = [line for line in text.splitlines() if all(part in line for part in parts)]
    assert len(found) == 1, text
    return found[0]


def test_the_newest_row_of_a_device_counts(rows):
    path = rows(speed_row(treefine=1), speed_row(treefine=2), speed_row("cuda", treefine=3))

    assert newest("speed", "cpu", path=path)["result"][f"treefine: {FILE}"]["words_per_second"] == 2
    assert newest("speed", "cuda", path=path)["result"][f"treefine: {FILE}"]["words_per_second"] == 3
    assert newest("speed", "cpu", path=path, rounds=9) is None


def test_a_machine_is_named_by_its_gpu_and_processor():
    named = row_of("training_speed", {"device": "NVIDIA H200"}, {})

    assert machine_of(speed_row("cuda")) == "NVIDIA H200, A fine one, 16 cores"
    assert machine_of(named) == "NVIDIA H200, A fine one, 16 cores"
    assert machine_of(speed_row()) == "A fine one, 16 cores"


def all_targets(path):
    return targets([*PARSING, *TRAINED], path)


def test_each_target_has_its_figures_machines_and_verdicts(rows):
    systems = {
        "treefine": 100,
        "treefine, one pass": 140,
        "encoder alone, 12 × 384, float32": 200,
        "Stanza fast, a": 40,
    }
    systems["Stanza fast, b"] = 50
    config = {"device": "NVIDIA H200", "workers": 14}
    files = row_of("files", config, {"to convergence": {"passes_a_sentence": 2.2, "sentences_per_second": 10_000}})
    path = rows(speed_row(**systems), speed_row("cuda", treefine=500), curves_row(), files)

    text = all_targets(path)

    assert "| 1.4 | CPU, treefine | A fine one, 16 cores | met |" in text
    assert "| 2 | CPU, treefine compared with bare encoder" in line_of(text, "| **missed** |", "bare encoder")
    assert "| 2 | CPU, Stanza fast, b compared with treefine |" in line_of(text, "compared with treefine |", "Stanza")
    assert "| 25% | GPU, share" in line_of(text, "idle |")
    assert "**missed**" in line_of(
        text, "| 10,000 | GPU, to convergence, 14 workers | NVIDIA H200, A fine one, 16 cores |"
    )
    assert "**missed**" in line_of(text, "| 3 | CPU | ")
    assert "**missed**" in line_of(text, "| 4.88 GiB | CPU")
    assert "not measured yet" in line_of(text, "| Training speed (straightforward version = 1) |")


def test_a_target_has_one_line_with_its_worst_and_best_figure():
    def figures(_):
        for value in (3.0, 1.0, 2.5):
            yield Figure("CPU", value, speed_row())

    least, most = (Target("Some cost", 2, is_least, " s", figures, "run it") for is_least in (True, False))

    assert "| Some cost | at least 2 s | 1 s | 3 s | **2 of 3** |" in targets([least], Path())
    assert "| Some cost | at most 2 s | 3 s | 1 s | **1 of 3** |" in targets([most], Path())


@pytest.mark.parametrize(("value", "is_least", "is_met"), [(2.0, True, True), (1.9, True, False), (2.1, False, False)])
def test_a_missed_target_has_its_reason(value, is_least, is_met):
    def figures(_):
        yield Figure("CPU, some way", value, speed_row())

    known, unknown = (
        Target("Some cost", 2, is_least, "", figures, "run it", "", reasons) for reasons in ({"CPU": "it copies"}, {})
    )

    assert ("it copies." in targets([known], Path())) == (not is_met)
    assert ("the reason is unknown" in targets([unknown], Path())) == (not is_met)


def test_the_page_opens_with_sentences_per_second_by_machine_and_setting(rows):
    settings = {"to convergence": ["float16", 1.0]}
    config = {"device": "NVIDIA H200", "workers": 14, "settings": settings}
    files = row_of("files", config, {"to convergence": {"sentences_per_second": 10_000}})
    path = rows(speed_row(treefine=100, spaCy=300), files)

    text, drawn = gist(path), draw_speeds(path)

    assert "| setting | A fine one, 16 cores, float32 | NVIDIA H200, A fine one, 16 cores, float16 |" in text
    assert "| default: refine until nothing changes | 2,000 | 10,000 |" in text
    assert "![Sentences per second on a CPU](speed-parsers.svg)" in text
    assert ">6,000</text>" in drawn
    assert ">spaCy</text>" in drawn
    assert draw_speeds(rows()) is None


def test_the_sentences_of_the_page_that_compare_parsers_are_true_of_the_rows():
    found = newest("speed", "cpu")["result"]
    speed = {name.removesuffix(f": {WORDS}"): each["sentences_per_second"] for name, each in found.items()}
    slower = [name for name in speed if name.startswith(("Stanza", "supar BERT")) and "network" not in name]
    quicker = ["supar BiLSTM, untrained, best heads", "spaCy", "UDPipe 1, beam 5"]

    assert all(speed[name] < speed["treefine"] for name in slower)
    assert all(speed[name] > speed["treefine"] for name in quicker)


def test_without_rows_every_table_names_the_command_that_measures_it(rows):
    path = rows()

    texts = [parsers("cpu", path), parsers("cuda", path), time_spent(path), around_model(path), training(path)]
    texts += [precisions(path), graph_attention(path)]
    texts += [shown_figures("python -m benchmarks speed_curves", path), gist(path), faster(path)]

    assert all("python -m benchmarks" in text and "ot measured yet" in text for text in texts)
    assert len(texts) == len(SPEED_PAGE) - 1  # `stopping` has its own test
    assert all_targets(path).count("not measured yet") == len(PARSING) + len(TRAINED)


def test_parsers_are_shown_with_the_check_of_their_trees(rows):
    row = speed_row("cuda", treefine=500, Stanza=50)
    row["result"][f"Stanza: {FILE}"]["network alone_seconds"] = 100  # half of the total
    text = parsers("cuda", rows(row))

    assert f"| Stanza | {FILE} | 1,000 | 50 | 1.00 | 1,000 MiB | 10 MiB |" in text
    assert f"| Stanza | {FILE}, network only | 2,000 | 100 | 0.50 |  |  |" in text
    assert "repeated 4 times" in text
    assert "0.7% of the trees differ, LAS 90.05 instead of 90.10" in text
    assert "python -m benchmarks speed --device cuda" in text


def test_the_profile_of_each_device_is_shown(rows):
    text = time_spent(rows(speed_row("cuda", treefine=500)))

    assert "| GPU is busy | 3.00 | 75% |" in text
    assert "| … `a/kernel` | 2.00 | 50% |" in text  # a | would end the cell
    assert "| reading, measured separately | 1.00 | 25% |" in text
    assert "5 at t = 1, 2 at t = 2" in text
    assert "Not measured yet: a profile on cpu" in text


def test_training_is_compared_with_the_straightforward_version(rows):
    result = {
        "treefine_sentences_per_second": 900.0,
        "straightforward_sentences_per_second": 100.0,
        "straightforward/treefine, time": 9.0,
        "treefine_peak_megabytes": 1000.0,
        "straightforward_peak_megabytes": 5000.0,
        "straightforward/treefine, peak memory": 5.0,
        "one step/one step without a graph, time": 1.1,
        "one step/one step without a graph, kept memory": 1.2,
    }
    config = {"device": "NVIDIA H200", "size": "base", "words": 60, "sentences": 32}
    path = rows(row_of("training_speed", config, result))

    assert "| 32 | 900 sentences/s | 100 sentences/s | 9.0 | 1,000 MB instead of 5,000 MB |" in training(path)
    assert "| 32 | 1.10 | 1.20 |" in training(path)
    assert "| 9 | GPU, batches of 32 | NVIDIA H200" in all_targets(path)
    assert "| 0.2 | GPU, batches of 32, peak, compared with straightforward | NVIDIA H200" in all_targets(path)


def test_the_cost_of_a_graph_is_shown_by_device_size_and_length(rows):
    def row(device, size, ratio):
        config = {"device": device, "size": size, "pieces_in_row": 40, "precision": "float32"}
        names = ("forward, median ratio", "forward and backward, median ratio", "kept for backward, ratio")
        return row_of("encoder", config, dict.fromkeys(names, ratio))

    path = rows(
        row("NVIDIA H200", "base", 1.4), row("cpu", "small", 9), row("cpu", "small", 1.1), row("cpu", "tiny", 5)
    )

    text = graph_attention(path)
    assert text.index("| A fine one, 16 cores | small | 40 | float32 | 1.10 |  | 1.10 | 1.10 |") < text.index(
        "| base |"
    )
    assert "tiny" not in text
    assert "9.00" not in text  # an older row
    assert len([line for line in all_targets(path).splitlines() if line.endswith("cores | met |")]) == 2
    assert (
        all_targets(path).count("GPU, 12 × 768, 40 pieces, float32 | NVIDIA H200, A fine one, 16 cores | **missed**")
        == 2
    )


def test_the_loss_of_a_precision_is_compared_with_its_target(rows):
    found = {"LAS": 0.9, "sentences_that_differ": 0.004, "sentences_per_second": 200.0, "times_as_fast": 2.5}
    given = {"float32": found | {"LAS_lost": 0.0}, "int8": found | {"LAS_lost": 0.0012}}
    path = rows(row_of("precision", {"device": "cpu", "sentences": 500}, {"gold words": given}))

    assert "| A fine one, 16 cores | int8 | 200 | 2.50 | 90.00 | -0.120 | 0.4% |" in precisions(path)
    assert "**missed**" in line_of(all_targets(path), "| 0.12 | CPU, int8, gold words |")
    assert "Not measured yet: precisions on cuda" in precisions(path)


def test_work_outside_the_model_is_shown_by_the_number_of_workers(rows):
    result = {
        "workers": {"2": {"sentences_per_second": 5000, "words_per_second": 60_000, "microseconds_per_word_here": 1.5}},
        "microseconds_per_word": {"read": 2.0},
    }

    text = around_model(rows(row_of("around", {"copies": 5}, result)))

    assert "| 2 | 5,000 | 60,000 | 1.5 |" in text
    assert "read 2.0 µs" in text


@pytest.mark.parametrize("name", TITLES)
def test_a_curve_has_a_line_for_each_device_that_was_measured(rows, name):
    assert draw_curve(name, rows()) is None

    drawn = draw_curve(name, rows(curves_row(), curves_row("cuda")))

    assert "CPU" in drawn
    assert "GPU" in drawn
    assert drawn.startswith("<svg")


def test_costs_are_drawn_relative_to_one_point(rows):
    drawn = draw_curve("length", rows(curves_row(cost=(4.0, 2.0, 5.0))))

    assert "CPU, words per sentence 400: 2.50" in drawn
    assert "CPU, words per sentence 40: 1.00" in drawn
