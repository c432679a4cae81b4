"""The runner turns a recipe into rows, here with a random encoder."""

import hashlib
import json
import shutil

import pytest

from benchmarks.accuracy.recipes import kind_of, measure_accuracy, read_run
from benchmarks.rows import read_rows
from tests.support.tiny import short, tiny_parser, write_encoder
from treefine import Parser, TreefineError, evaluate, write_treebank
from treefine_paper.predictions import load_predictions, treebank_of
from treefine_paper.results import parsed_steps

RECIPE = """
segmenter.train = "never"
tags.source = "given"
[treebank]
train = ["$TREEBANKS/tiny/train.conllu"]
dev = "$TREEBANKS/tiny/dev.conllu"
[encoder]
{encoder}
[relations]
graph = "{graph}"
[scorer]
arc_width = 12
label_width = 8
[optimiser]
encoder_learning_rate = 1e-3
[training]
epochs = 2
[refine]
max_steps = {steps}
[initial]
{initial}
"""
SHORT = short(60, longest=25)
TRAIN, DEV, TEST = SHORT[::3] + SHORT[1::3], SHORT[2::6], SHORT[5::6]
ENCODER = 'pretrained = "$ENCODERS/bert"'
BILSTM = 'family = "bilstm"\nn_layers = 2\nwidth = 200'  # smaller than usual, but slow enough to be timed


def write_recipes(folder):
    fields = {
        "syntr": {"graph": "none", "steps": 1, "encoder": ENCODER, "initial": ""},
        "empty": {"graph": "labelled", "steps": 4, "encoder": ENCODER, "initial": ""},
        "rngtr": {
            "graph": "labelled",
            "steps": 3,
            "encoder": ENCODER,
            "initial": 'parser = "$ENCODERS/syntr.toml"\nfolds = 2',
        },
        "biaffine": {"graph": "none", "steps": 1, "encoder": BILSTM, "initial": ""},
        "biaffine-rngtr": {
            "graph": "labelled",
            "steps": 3,
            "encoder": ENCODER,
            "initial": 'parser = "$ENCODERS/biaffine.toml"',
        },
        "mixed": {
            "graph": "labelled",
            "steps": 2,
            "encoder": ENCODER,
            "initial": '[initial.mix.syntr]\nparser = "$ENCODERS/syntr.toml"\nfolds = 2\nshare = 0.3\n'
            '[initial.mix.files]\nparser = "files"\nshare = 0.3\n'
            'train = "$TREEBANKS/tiny/train.conllu"\ndev = "$TREEBANKS/tiny/dev.conllu"',
        },
    }
    for name, values in fields.items():
        (folder / f"{name}.toml").write_text(RECIPE.format(**values))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a treebank, an encoder, recipes, and the results of measuring SynTr+RNGTr once."""
    folder = tmp_path_factory.mktemp("accuracy")
    write_encoder(folder / "bert", "bert")
    for name, sentences in {"train": TRAIN, "dev": DEV, "test": TEST}.items():
        (folder / "tiny").mkdir(exist_ok=True)
        write_treebank(sentences, folder / "tiny" / f"{name}.conllu")
    write_recipes(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREEBANKS", str(folder))
        patch.setenv("ENCODERS", str(folder))
        measure(folder, "rngtr")
        yield folder


def measure(place, recipe, *options):
    paths = ["--output", place / "runs", "--rows", place / "rows.jsonl", "--predictions", place / "predictions"]
    measure_accuracy([str(place / f"{recipe}.toml"), *map(str, paths), "--device", "cpu", *options])


def rows(place, *changes):
    """Return the newest row of each recipe and split, with these changes."""
    found = read_rows("accuracy", path=place / "rows.jsonl")
    ours = [row for row in found if row["config"]["changes"] == list(changes)]
    return {(row["config"]["recipe"], row["config"]["split"]): row for row in ours}


def test_a_row_has_the_recipe_and_the_scores_of_each_step(place):
    row = rows(place)["rngtr", "dev"]

    config, result = row["config"], row["result"]
    assert (config["kind"], config["treebank"], config["encoder"]) == ("SynTr+RNGTr", "tiny", "bert")
    assert (config["T"], config["stop"], config["tags"], config["seed"]) == (3, True, "given", 1)
    assert (config["changes"], config["initial"]["folds"], config["epochs"]) == ([], 2, 2)
    assert len(result["LAS_by_step"]) == len(result["UAS_by_step"]) == 4
    assert result["LAS_by_step"][-1] == result["LAS"]
    assert len(result["changed_by_step"]) == 3
    assert result["sentences_parsed_otherwise"] == 0
    assert result["parameters"] > result["initial_parameters"] > 1000


def test_a_row_tells_whether_the_last_step_is_better_than_the_first_and_counts_the_updates(place):
    result = rows(place)["rngtr", "dev"]["result"]
    first, last = result["LAS_by_step"][1], result["LAS_by_step"][3]

    over_first = result["last_step_over_first"]
    assert over_first["difference"] == pytest.approx(last - first, abs=2e-6)
    assert 0 < over_first["randomisation"] <= 1
    assert 0 < over_first["bootstrap"] <= 1
    assert 2 < result["updates"] <= 2 * 3 * len(TRAIN)  # epochs, steps and at most one batch per sentence
    assert "last_step_over_first" not in rows(place)["syntr", "dev"]["result"]


def test_a_model_can_be_measured_on_other_treebanks_as_well(place):
    measure(place, "syntr", "--also", "$TREEBANKS/tiny/train.conllu", "--rows", str(place / "also.jsonl"))

    (row,) = read_rows("accuracy", path=place / "also.jsonl")
    parsed = Parser.from_pretrained(place / "runs/syntr-seed1/model", device="cpu").stream_trees(TRAIN)
    las = evaluate(TRAIN, list(parsed))["LAS"].f1
    assert row["result"]["also"]["tiny"]["LAS"] == pytest.approx(las, abs=1e-6)


def test_the_initial_parser_has_its_own_row_with_the_scores_of_the_initial_parses(place):
    found = rows(place)

    assert found["syntr", "dev"]["config"]["kind"] == "SynTr"
    assert found["syntr", "dev"]["result"]["LAS"] == found["rngtr", "dev"]["result"]["LAS_by_step"][0]
    assert found["syntr", "dev"]["result"]["LAS_by_step"][0] is None


def test_training_time_and_best_epoch_come_from_the_metrics(place):
    result = rows(place)["rngtr", "dev"]["result"]
    lines = (place / "runs" / "rngtr-seed1" / "metrics.jsonl").read_text().splitlines()
    epochs = [json.loads(line) for line in lines]

    assert result["training_seconds"] == round(epochs[-1]["seconds"], 1)
    assert result["LAS_in_training"] == max(epoch["LAS"] for epoch in epochs) == epochs[result["best_epoch"] - 1]["LAS"]
    assert result["initial_seconds"] == rows(place)["syntr", "dev"]["result"]["training_seconds"]
    assert result["folds_seconds"] > 0


def test_the_time_of_averaged_weights_is_that_of_all_members(place):
    changes = ("training.weight_averaging=2", "training.epochs=1")

    measure(place, "biaffine", *(option for change in changes for option in ("--set", change)))

    result = rows(place, *changes)["biaffine", "dev"]["result"]
    members = place / "runs" / "biaffine-training.weight_averaging-2-training.epochs-1-seed1" / "members"
    lines = [(members / number / "metrics.jsonl").read_text().splitlines()[-1] for number in "12"]
    seconds = [round(json.loads(line)["seconds"], 1) for line in lines]
    assert result["training_seconds"] == pytest.approx(sum(seconds))
    assert min(seconds) > 0
    assert result["best_epoch"] is None


def test_the_scores_can_be_recomputed_from_the_predictions(place):
    result = rows(place)["rngtr", "dev"]["result"]
    path, gold = place / "predictions" / result["predictions"], DEV

    predictions = load_predictions(path)

    assert hashlib.sha256(path.read_bytes()).hexdigest() == result["sha256"]
    for t in range(4):
        las = evaluate(gold, treebank_of(predictions, gold, t=t))["LAS"].f1
        assert las == pytest.approx(result["LAS_by_step"][t], abs=1e-6)
    changed = [a != b for a, b in zip(predictions.graphs(1), predictions.graphs(2), strict=True)]
    assert sum(changed) / len(gold) == pytest.approx(result["changed_by_step"][1], abs=1e-6)


def test_an_existing_model_is_measured_but_not_trained_again(place):
    weights = place / "runs" / "rngtr-seed1" / "model" / "model.safetensors"
    before, n_rows = weights.stat().st_mtime_ns, len(read_rows("accuracy", path=place / "rows.jsonl"))

    measure(place, "rngtr")

    assert weights.stat().st_mtime_ns == before
    assert len(read_rows("accuracy", path=place / "rows.jsonl")) == n_rows + 1


def test_a_model_folder_can_be_measured_without_its_training(place):
    model = place / "runs" / "syntr-seed1" / "model"
    copy = place / "copy" / "syntr-seed1" / "model"
    shutil.copytree(model, copy)

    measure(place, "syntr", "--output", str(place / "copy"), "--rows", str(place / "copied.jsonl"))

    (row,) = read_rows("accuracy", path=place / "copied.jsonl")
    assert row["result"]["LAS"] == rows(place)["syntr", "dev"]["result"]["LAS"]
    assert row["result"]["training_seconds"] is None
    assert [path.name for path in copy.parent.iterdir()] == ["model"]


def test_the_base_of_a_fine_tuned_model_is_trained_once_and_named_in_its_row(place):
    weights = place / "runs" / "syntr-seed1" / "model" / "model.safetensors"
    before = weights.stat().st_mtime_ns

    measure(place, "empty", "--set", "encoder.fine_tune_from=$ENCODERS/syntr.toml", "--set", "training.epochs=1")

    (row,) = [each for each in read_rows("accuracy", path=place / "rows.jsonl") if each["config"]["recipe"] == "empty"]
    assert row["config"]["encoder"] == "bert, syntr"
    assert row["result"]["start_seconds"] == rows(place)["syntr", "dev"]["result"]["training_seconds"]
    assert weights.stat().st_mtime_ns == before


def test_trainings_share_their_initial_parser_and_folds(place):
    weights = place / "runs" / "syntr-seed1" / "model" / "model.safetensors"
    before = weights.stat().st_mtime_ns

    measure(place, "rngtr", "--set", "refine.max_steps=1", "--set", "training.epochs=1")

    row = rows(place, "refine.max_steps=1", "training.epochs=1")["rngtr", "dev"]
    assert len(row["result"]["LAS_by_step"]) == 2
    assert weights.stat().st_mtime_ns == before
    runs = place / "runs"
    assert (runs / "rngtr-refine.max_steps-1-training.epochs-1-seed1" / "folds").samefile(runs / "syntr-seed1-2folds")
    assert (runs / "rngtr-seed1" / "folds").samefile(runs / "syntr-seed1-2folds")


def test_a_mixed_recipe_reuses_parsers_and_its_row_has_scores_from_each_source(place):
    weights = place / "runs" / "syntr-seed1" / "model" / "model.safetensors"
    before = weights.stat().st_mtime_ns

    measure(place, "mixed")

    config, result = rows(place)["mixed", "dev"]["config"], rows(place)["mixed", "dev"]["result"]
    assert (config["kind"], config["initial"]["mix"]) == ("Mixed+RNGTr", {"syntr": 0.3, "files": 0.3})
    assert result["LAS_by_step"][0] is None  # the empty graph, which is the model's default
    by_source = {name: each["LAS_by_step"][0] for name, each in result["from"].items()}
    assert by_source == {"syntr": rows(place)["syntr", "dev"]["result"]["LAS"], "files": 1.0}  # gold trees
    means = [result["LAS"], *(each["LAS"] for each in result["from"].values())]
    assert result["LAS_in_training"] == pytest.approx(sum(means) / 3, abs=1e-5)
    assert weights.stat().st_mtime_ns == before
    assert (place / "runs/mixed-seed1/mix/syntr/folds").samefile(place / "runs/syntr-seed1-2folds")
    assert result["initial_seconds"] == rows(place)["syntr", "dev"]["result"]["training_seconds"]


def test_the_test_set_is_measured_once_with_the_best_seed_on_dev(place):
    measure(place, "rngtr", "--split", "test")

    result = rows(place)["rngtr", "test"]["result"]
    gold = TEST
    parsed = treebank_of(load_predictions(place / "predictions" / "rngtr-seed1-test.trees.xz"), gold)
    assert evaluate(gold, parsed)["LAS"].f1 == pytest.approx(result["LAS"], abs=1e-6)
    with pytest.raises(TreefineError, match="rngtr-seed1 was already tested on"):
        measure(place, "rngtr", "--split", "test")


def test_an_untrained_model_cannot_be_tested(place):
    with pytest.raises(TreefineError, match="empty has no dev row to choose a seed from"):
        measure(place, "empty", "--split", "test")
    with pytest.raises(TreefineError, match="No model to measure"):
        measure(place, "empty", "--split", "test", "--seeds", "1")


def test_an_initial_parser_with_different_tags_is_rejected(place):
    with pytest.raises(TreefineError, match="rngtr has tags none, but its initial parser syntr has given"):
        measure(place, "rngtr", "--set", "tags.source=none")


@pytest.mark.parametrize(
    ("recipe", "kind"),
    [
        ("syntr", "SynTr"),
        ("empty", "Empty+RNGTr"),
        ("rngtr", "SynTr+RNGTr"),
        ("biaffine", "Biaffine"),
        ("biaffine-rngtr", "Biaffine+RNGTr"),
        ("mixed", "Mixed+RNGTr"),
    ],
)
def test_models_have_the_papers_names(recipe, kind, place):
    assert kind_of(read_run(str(place / f"{recipe}.toml"), (), 1)) == kind


def test_an_initial_parser_that_is_a_model_folder_is_named_by_its_kind(place):
    change = f"initial.parser={place / 'runs' / 'syntr-seed1' / 'model'}"

    assert kind_of(read_run(str(place / "rngtr.toml"), [change, "initial.folds=0"], 1)) == "SynTr+RNGTr"


@pytest.mark.parametrize("initial", ["empty", "parser"])
def test_the_trees_of_each_step_are_the_parsers_and_a_stopped_sentence_keeps_its_last(initial):
    parser = tiny_parser(max_steps=4)
    first = tiny_parser(max_steps=1)
    if initial == "parser":
        parser = tiny_parser(max_steps=4, initial=first)
    gold = short(20)

    predictions = parsed_steps(parser, gold)

    assert predictions.steps == range(0 if initial == "parser" else 1, 5)
    if initial == "parser":
        assert predictions.graphs(0) == [each.graph for each in first.stream_trees(gold)]
    found = [list(parser.steps(sentence)) for sentence in gold]
    assert {len(steps) for steps in found} > {4}  # some stop early, some do not
    for t in range(1, 5):
        assert predictions.graphs(t) == [steps[min(t, len(steps)) - 1].tree for steps in found]
