"""What docs/speed.md tells, from rows."""

import json
from pathlib import Path

import pytest

from benchmarks.pages.speed import (
    BARS,
    SPEED_PAGE,
    Bar,
    Figure,
    around_model,
    bars,
    graph_attention,
    precisions,
    training,
)
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
    """A row of `speed`; the keywords are systems, of which both ways run at this speed."""
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
    """Writes rows to a file, and gives its path."""
    path = tmp_path / "rows.jsonl"

    def write(*each):
        path.write_text("".join(f"{json.dumps(row)}\n" for row in each))
        return path

    return write


def line_of(text, *parts):
    found = [line for line in text.splitlines() if all(part in line for part in parts)]
    assert len(found) == 1, text
    return found[0]


def test_of_several_rows_the_newest_of_a_device_is_taken(rows):
    path = rows(speed_row(treefine=1), speed_row(treefine=2), speed_row("cuda", treefine=3))

    assert newest("speed", "cpu", path=path)["result"][f"treefine: {FILE}"]["words_per_second"] == 2
    assert newest("speed", "cuda", path=path)["result"][f"treefine: {FILE}"]["words_per_second"] == 3
    assert newest("speed", "cpu", path=path, rounds=9) is None


def test_a_machine_is_told_by_its_card_and_processor():
    named = row_of("training_speed", {"device": "NVIDIA H200"}, {})

    assert machine_of(speed_row("cuda")) == "NVIDIA H200, A fine one, 16 cores"
    assert machine_of(named) == "NVIDIA H200, A fine one, 16 cores"
    assert machine_of(speed_row()) == "A fine one, 16 cores"


def test_each_bar_stands_with_its_figure_machine_and_verdict(rows):
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

    text = bars(path)

    assert "| 1.4 | CPU, treefine | A fine one, 16 cores | met |" in text
    assert "| 2 | CPU, treefine beside encoder alone" in line_of(text, "| **missed** |", "encoder alone")
    assert "| 2 | CPU, Stanza fast, b beside treefine |" in line_of(text, "beside treefine |", "Stanza")
    assert "| 25 % | GPU, share" in line_of(text, "idle |")
    assert "**missed**" in line_of(
        text, "| 10,000 | GPU, to convergence, 14 workers | NVIDIA H200, A fine one, 16 cores |"
    )
    assert "**missed**" in line_of(text, "| 3 | CPU | ")
    assert "**missed**" in line_of(text, "| 4.88 GiB |")
    assert "not measured yet" in line_of(text, "times the speed of a straightforward version")


@pytest.mark.parametrize(("value", "is_least", "is_met"), [(2.0, True, True), (1.9, True, False), (2.1, False, False)])
def test_a_missed_bar_is_told_with_its_reason(value, is_least, is_met):
    def figures(_):
        yield Figure("CPU, some way", value, speed_row())

    known, unknown = (
        Bar("Some cost", 2, is_least, "", figures, "run it", reasons) for reasons in ({"CPU": "it copies"}, {})
    )

    assert ("it copies." in bars(Path(), [known])) == (not is_met)
    assert ("the reason is not found yet" in bars(Path(), [unknown])) == (not is_met)


def test_without_any_row_every_table_says_how_to_measure(rows):
    path = rows()

    texts = [parsers("cpu", path), parsers("cuda", path), time_spent(path), around_model(path), training(path)]
    texts += [precisions(path), graph_attention(path)]
    texts += [shown_figures("python -m benchmarks speed_curves", path), bars(path)]

    assert all("python -m benchmarks" in text and "ot measured yet" in text for text in texts)
    assert len(texts) == len(SPEED_PAGE) - 1  # `stopping` has a test of its own
    assert bars(path).count("not measured yet") == len(BARS)


def test_parsers_stand_beside_each_other_with_what_was_checked(rows):
    row = speed_row("cuda", treefine=500, Stanza=50)
    row["result"][f"Stanza: {FILE}"]["network alone_seconds"] = 100  # of 200
    text = parsers("cuda", rows(row))

    assert f"| Stanza | {FILE} | 1,000 | 50 | 1.00 | 1,000 MiB | 10 MiB |" in text
    assert f"| Stanza | {FILE}, network alone | 2,000 | 100 | 0.50 |  |  |" in text
    assert "4 times over" in text
    assert "0.7 % other trees, LAS 90.05 where the plain path has 90.10" in text
    assert "python -m benchmarks speed --device cuda" in text


def test_where_the_time_goes_is_told_of_each_device(rows):
    text = time_spent(rows(speed_row("cuda", treefine=500)))

    assert "| the GPU is busy | 3.00 | 75% |" in text
    assert "| … `a/kernel` | 2.00 | 50% |" in text  # a bar would end the cell
    assert "| reading, measured alone in one process | 1.00 | 25% |" in text
    assert "5 at t = 1, 2 at t = 2" in text
    assert "Not measured yet: a profile on cpu" in text


def test_training_stands_beside_the_straightforward_version(rows):
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

    assert "| 32 | 900 sentences/s | 100 sentences/s | 9.0 | 1,000 MB beside 5,000 MB | 1.10 | 1.20 |" in training(path)
    assert "| 9 | GPU, batches of 32 | NVIDIA H200" in bars(path)
    assert "| 0.2 | GPU, batches of 32, peak, beside straightforward | NVIDIA H200" in bars(path)


def test_what_a_graph_adds_is_told_by_device_size_and_length(rows):
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
    assert len([line for line in bars(path).splitlines() if line.endswith("| met |")]) == 2
    assert bars(path).count("GPU, 12 × 768, 40 pieces, float32 | NVIDIA H200, A fine one, 16 cores | **missed**") == 2


def test_what_a_precision_loses_is_held_against_its_bar(rows):
    found = {"LAS": 0.9, "sentences_that_differ": 0.004, "sentences_per_second": 200.0, "times_as_fast": 2.5}
    given = {"float32": found | {"LAS_lost": 0.0}, "int8": found | {"LAS_lost": 0.0012}}
    path = rows(row_of("precision", {"device": "cpu", "sentences": 500}, {"gold words": given}))

    assert "| gold words | int8 | 90.00 | +0.120 | 0.4 % | 200 | 2.50 |" in precisions(path)
    assert "**missed**" in line_of(bars(path), "| 0.12 | CPU, int8, gold words |")
    assert "Not measured yet: precisions on cuda" in precisions(path)


def test_work_around_the_model_is_told_by_the_number_of_workers(rows):
    result = {
        "workers": {"2": {"sentences_per_second": 5000, "words_per_second": 60_000, "microseconds_per_word_here": 1.5}},
        "microseconds_per_word": {"read": 2.0},
    }

    text = around_model(rows(row_of("around", {"copies": 5}, result)))

    assert "| 2 | 5,000 | 60,000 | 1.5 |" in text
    assert "read 2.0 µs" in text


@pytest.mark.parametrize("name", TITLES)
def test_a_curve_is_drawn_for_each_device_that_was_measured(rows, name):
    assert draw_curve(name, rows()) is None

    drawn = draw_curve(name, rows(curves_row(), curves_row("cuda")))

    assert "CPU" in drawn
    assert "GPU" in drawn
    assert drawn.startswith("<svg")


def test_costs_are_drawn_beside_the_one_that_counts_as_one(rows):
    drawn = draw_curve("length", rows(curves_row(cost=(4.0, 2.0, 5.0))))

    assert "CPU, words in a sentence 400: 2.50" in drawn
    assert "CPU, words in a sentence 40: 1.00" in drawn
