"""Each benchmark runs on a tiny model and a small treebank, and writes a row with its main results."""

import pytest

from benchmarks.__main__ import WITH_OPTIONS, measure
from benchmarks.rows import read_rows
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine import Parser, TreefineError, write_treebank
from treefine.config import COLUMNS, TagSettings


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a treebank and a model that tags and reads text."""
    folder = tmp_path_factory.mktemp("benchmarks")
    (folder / "en_ewt").mkdir()
    for split, sentences in (("train", sample(20)), ("dev", sample(10)), ("test", sample(16)[10:])):
        write_treebank(sentences, folder / "en_ewt" / f"{split}.conllu.xz")
    model = tiny_model(tags=TagSettings("predicted", COLUMNS))
    Parser(model, device="cpu", max_steps=3, segmenter=tiny_segmenter()).save(folder / "tiny")
    return folder


def run(place, name, *options, model=True, treebanks=True):
    rows = place / f"{name}.jsonl"
    arguments = ["--model", str(place / "tiny")] if model else []
    arguments += ["--treebanks", str(place)] if treebanks else []
    measure(name, WITH_OPTIONS[name])([*options, *arguments, "--rows", str(rows)])
    return read_rows(name, path=rows)[-1]


def test_pipeline_measures_all_inputs_and_saves_trees_and_the_test_set_only_once(place):
    predictions = ("--predictions", str(place / "predictions"))

    row = run(place, "pipeline", "--split", "test", *predictions)

    assert {"raw text", "gold words", "gold words and tags", "gold words and UPOS"} == row["result"].keys()
    assert len(list((place / "predictions").glob("*-test.trees.xz"))) == 3
    assert all(each["sentences_parsed_otherwise"] == 0 for each in row["result"].values())
    with pytest.raises(TreefineError, match="A model is tested only once"):
        run(place, "pipeline", "--split", "test", *predictions)


def test_calibration_and_clicks(place):
    calibration, clicks = run(place, "calibration")["result"], run(place, "clicks", "--sentences", "3")["result"]

    assert {"arc", "label", "both", "sentence", "review", *COLUMNS} == calibration.keys()
    assert all(each["clicks"] > 0 for each in clicks["settings"].values())
    assert clicks["kept"][0]["LAS"] == clicks["kept"][0]["LAS_without"]  # nothing is decided


def test_running_text_measures_each_path_and_the_passes_of_one_setting(place):
    dev = str(place / "en_ewt" / "dev.conllu.xz")
    few = ("--base", "", "--sentences", "6", "--rounds", "1", "--text", dev, "--dev", dev)

    run(place, "running_text", *few)

    rows = {
        row["config"]["path"]: row["result"]["now"]
        for row in read_rows("running_text", path=place / "running_text.jsonl")
    }
    assert rows.keys() >= {"running text", "documents of five sentences", "words to trees", "command", "memory"}
    assert rows["running text"]["sentences_per_second"] > 0
    assert rows["accuracy"]["passes"] >= 1


def test_running_text_reports_an_unknown_commit(place):
    with pytest.raises(TreefineError, match="000000 cannot be checked out"):
        run(place, "running_text", "--base", "000000")


def test_files_has_the_trees_of_the_reference(place):
    files = run(place, "files", "--rounds", "1", "--workers", "0")

    assert files["result"]["to convergence"]["trees"]["other trees, percent"] == 0


def test_the_speed_of_training_with_and_without_a_graph(place):
    tiny = ("--size", "tiny", "--sentences", "4", "--words", "8", "--rounds", "1")

    row = run(place, "training_speed", *tiny, model=False, treebanks=False)

    assert row["result"]["one step/one step without a graph, time"] > 0


def test_a_killed_command_resumes_and_gives_the_same_file(place):
    row = run(place, "kills", "--only", "refine", "--moments", "1", "--workers", "1", treebanks=False)

    result = row["result"]["refine"]
    assert result["kills"] >= 1
    assert (result["different"], result["left_over"]) == ([], [])


def test_a_server_under_load_answers_with_the_trees_of_the_parser(place):
    row = run(place, "load", "--seconds", "0", "--clients", "2", "--sentences", "10")

    for kind in ("a sentence", "a sentence, /process", "ten sentences", "ten sentences of text"):
        assert row["result"][kind]["other_trees"] == 0
        assert row["result"][kind]["answers_by_status"].keys() == {"200"}


def test_significance_reproduces_a_row_and_notices_other_trees(place, tmp_path):
    with pytest.raises(TreefineError, match="The predictions of .* are missing or have changed"):
        measure("significance", WITH_OPTIONS["significance"])(["--predictions", str(tmp_path)])
