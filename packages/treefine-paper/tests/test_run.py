"""A whole reproduction on toy treebanks, with encoders laid out as on the hub."""

import os
import re
from dataclasses import replace

import pytest
import torch
from filelock import FileLock

from tests.support.commands import invoke
from tests.support.toy_hub import toy_encoder
from tests.support.toy_treebanks import toy_treebanks
from treefine import Parser, evaluate, read_treebank
from treefine.errors import ConfigError
from treefine_paper import run as run_module
from treefine_paper.plan import ReproductionPlan, ReproductionRequest, TrainingRun
from treefine_paper.predictions import load_predictions, treebank_of
from treefine_paper.results import load_results
from treefine_paper.run import RESULTS, Reproduction
from treefine_paper.systems import SYSTEMS
from treefine_paper.treebanks import TREEBANKS

TOYS = {"tr_imst": "UD_Turkish-IMST", "ja_gsd": "UD_Japanese-GSD", "ctb": "ctb5.1", "de_conll09": "conll09-german"}
SMALL = ("training.epochs=1", "training.patience=1")


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """Return a folder with toy treebanks and the toy encoders that the paper has for them."""
    folder = tmp_path_factory.mktemp("toys")
    make_toys(folder)
    return folder


def make_toys(folder):
    toy_treebanks(folder / "data", n_train=12, n_dev=2, n_test=2, names=TOYS.values())
    for code in TOYS:
        toy_encoder(folder / "encoders" / code, TREEBANKS[code].encoder)


def request(toys, output, **changes):
    encoders = {code: str(toys / "encoders" / code) for code in TOYS} | {"": str(toys / "encoders" / "tr_imst")}
    found = ReproductionRequest((str(toys / "data"),), output, encoders, files=str(toys / "data"), changes=SMALL)
    return replace(found, **changes)


def run(toys, output, **changes):
    """Run a reproduction; return its state and what it said."""
    said = []
    plan = ReproductionPlan(request(toys, output, **changes))
    reproduction = Reproduction(plan, torch.device("cpu"), said.append)
    reproduction.run()
    return reproduction, said


def load_trees(result, folder):
    return load_predictions(folder / f"{result.name}.trees.xz")


def seeds_of_test(state, system):
    return sorted((each.treebank, each.seed) for each in of_system(state, system, "test"))


def of_system(state, system, split):
    return [each for each in state.results.values() if (each.system, each.split) == (system, split)]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Return the folder of a reproduction that the command has run, once for all processes of the tests."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "reproduction"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            make_toys(folder)
            options = [each for code in TOYS for each in ("--encoder", f"{code}={folder / 'encoders' / code}")]
            options += [each for change in SMALL for each in ("--set", change)]
            options += ["--encoder", folder / "encoders" / "tr_imst", "--files", folder / "data", "--device", "cpu"]
            result = invoke(folder / "data", "-o", folder / "out", *options, command="reproduce")
            assert f"The report is in {folder / 'out' / 'report' / 'report.md'}." in result.stdout
    return folder / "out"


@pytest.fixture(scope="module")
def results(output):
    return {(each.treebank, each.system, each.split): each for each in load_results(output / RESULTS)}


def test_every_system_is_measured_on_dev_and_test(results):
    expected = {(code, name) for code in TOYS for name, system in SYSTEMS.items() if system.only in ("", code)}

    assert {key[:2] for key in results if key[2] == "dev"} == expected
    assert {key[:2] for key in results if key[2] == "test"} == expected


@pytest.mark.parametrize("code", TOYS)
@pytest.mark.parametrize("system", ["syntr", "empty-rngtr", "syntr-rngtr"])
def test_scores_are_those_of_the_saved_trees_and_of_the_model(output, results, code, system):
    found = results[code, system, "test"]
    form = TREEBANKS[code].format or None
    gold = list(read_treebank(found.gold_file, format=form))

    trees = treebank_of(load_trees(found, output / RESULTS), gold)
    model = Parser.from_pretrained(output / "runs" / code / system / "seed1" / "model", trust=0, device="cpu")

    assert round(evaluate(gold, trees, rule=TREEBANKS[code].rule)["LAS"].f1, 6) == found.LAS
    assert [each.graph for each in model.stream_trees(gold)] == [each.graph for each in trees]


def test_refined_systems_start_from_the_trees_of_their_initial_parser(output, results):
    for system in ("syntr-rngtr", "biaffine-rngtr"):
        refined = results["tr_imst", system, "dev"]
        initial = results["tr_imst", SYSTEMS[system].initial, "dev"]
        trees = [load_trees(each, output / RESULTS) for each in (refined, initial)]
        assert trees[0].graphs(0) == trees[1].graphs()
        assert refined.LAS_by_step[0] == initial.LAS


def test_the_report_has_all_tables(output):
    report = output / "report"

    text = (report / "report.md").read_text()
    for title in [f"## Table {number}:" for number in range(1, 7)] + ["## Appendix B:", "## Appendix C:", "## Dev "]:
        assert title in text
    (turkish, *_) = [line for line in text.splitlines() if line.startswith("| Turkish (tr_imst) | treefine | 12 |")]
    assert len(re.findall(r"\d\d?\.\d\d ?", turkish)) >= 10


def test_a_second_run_trains_nothing(output):
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file() and path.name != ".lock"}

    state, said = run(output.parent, output)

    after = {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file() and path.name != ".lock"}
    assert not state.failures
    assert not said
    assert after == before


def test_other_settings_in_the_same_folder_are_refused(toys, tmp_path):
    run(toys, tmp_path / "out", only=("tr_imst", "syntr"))

    with pytest.raises(ConfigError) as error:
        run(toys, tmp_path / "out", only=("tr_imst", "syntr"), changes=(*SMALL, "training.masking=0.2"))

    assert "tr_imst-syntr-seed1 was trained with other settings: those in " in str(error.value)


def test_of_two_seeds_the_better_one_on_dev_is_tested_and_kept(toys, tmp_path):
    state, said = run(toys, tmp_path / "out", only=("tr_imst", "syntr-rngtr"), seeds=(1, 2))

    dev = of_system(state, "syntr", "dev")
    best = max(dev, key=lambda each: (each.LAS, -each.seed)).seed
    models = sorted(each.parent.name for each in (tmp_path / "out").glob("runs/tr_imst/syntr/*/model"))
    assert seeds_of_test(state, "syntr") == [("tr_imst", best)]
    assert models == [f"seed{best}"]
    assert len(said) == 6  # four trainings and two tests
    better = replace(state.results["tr_imst-syntr-seed2-dev"], LAS=1.0)
    state.results = {each.name: each for each in (*dev, better) if each.split == "dev"}
    assert state._to_test(state.plan.runs[0]).seed == 2


def test_a_system_is_tested_once_also_if_seeds_are_added_later(toys, tmp_path):
    run(toys, tmp_path / "out", only=("tr_imst", "syntr"))
    state, _ = run(toys, tmp_path / "out", only=("tr_imst", "syntr"), seeds=(2,))

    assert seeds_of_test(state, "syntr") == [("tr_imst", 1)]


def test_a_test_that_fails_is_no_failed_training(toys, tmp_path, monkeypatch):
    measure = run_module.measure

    def fail(plan, run, split, device):
        if split == "test" and run.system == "syntr":
            raise MemoryError
        return measure(plan, run, split, device)

    monkeypatch.setattr(run_module, "measure", fail)
    state, said = run(toys, tmp_path / "out", only=("tr_imst", "syntr-rngtr"), seeds=(1, 2))

    assert [(split, reason) for (_, split), reason in state.failures.items()] == [("test", "MemoryError")]
    assert seeds_of_test(state, "syntr") == []
    assert len(seeds_of_test(state, "syntr-rngtr")) == 1
    assert any(", test failed: MemoryError" in line for line in said)


def test_an_interrupted_training_continues(toys, tmp_path, monkeypatch):
    only, changes = ("tr_imst", "syntr"), ("training.epochs=3", "training.checkpoint_minutes=0")
    whole, _ = run(toys, tmp_path / "whole", only=only, changes=changes)
    train = run_module.train

    def interrupted(prepared, folder, *, device):
        for progress in train(prepared, folder, device=device):
            if progress.epoch == 2:
                raise KeyboardInterrupt
            yield progress

    monkeypatch.setattr(run_module, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(toys, tmp_path / "out", only=only, changes=changes)
    monkeypatch.undo()
    state, _ = run(toys, tmp_path / "out", only=only, changes=changes)

    epochs = (tmp_path / "out" / "runs" / "tr_imst" / "syntr" / "seed1" / "metrics.jsonl").read_text().splitlines()
    assert len(epochs) == 3
    assert {name: each.sha256 for name, each in state.results.items()} == {
        name: each.sha256 for name, each in whole.results.items()
    }


def test_a_job_whose_initial_parser_failed_is_reported(toys, tmp_path):
    bad = (*SMALL, "syntr:encoder.pretrained=./nowhere")

    state, _ = run(toys, tmp_path / "out", only=("tr_imst", "syntr-rngtr", "empty-rngtr"), changes=bad)

    reason = state.failures[TrainingRun("tr_imst", "syntr-rngtr", 1), "dev"]
    assert reason == "it needs tr_imst-syntr-seed1, which failed"
    assert state.is_measured(TrainingRun("tr_imst", "empty-rngtr", 1))
