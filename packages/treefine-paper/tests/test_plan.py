"""A plan lists all trainings with the settings of the paper, in an order in which they can be run."""

from dataclasses import replace

import pytest

from tests.support.toy_treebanks import toy_treebanks
from treefine.errors import ConfigError
from treefine_paper.plan import ReproductionPlan, ReproductionRequest, TrainingRun
from treefine_paper.systems import SYSTEMS
from treefine_paper.treebanks import CHINESE, JAPANESE, MULTILINGUAL, TREEBANKS

PAPER = ("biaffine", "syntr", "empty-rngtr", "syntr-rngtr", "biaffine-rngtr", "files-rngtr")
UD = [code for code, each in TREEBANKS.items() if each.is_ud]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with all toy treebanks."""
    folder = tmp_path_factory.mktemp("plan")
    toy_treebanks(folder / "data", n_train=12, n_dev=2, n_test=2)
    return folder


@pytest.fixture
def request_all(data):
    return ReproductionRequest((str(data / "data"),), data / "out", {}, files=str(data / "data"))


def recipe(request, treebank, system, **changes):
    return ReproductionPlan(replace(request, **changes)).recipe(TrainingRun(treebank, system, 1))


def test_all_systems_of_the_paper_are_run_on_all_its_treebanks(request_all):
    jobs = {(job.treebank, job.system) for job in ReproductionPlan(request_all).runs}

    assert {(code, system) for code in TREEBANKS for system in PAPER} <= jobs


def test_a_job_comes_after_those_it_needs(request_all):
    plan = ReproductionPlan(replace(request_all, seeds=(1, 2)))

    place = {job: number for number, job in enumerate(plan.runs)}
    assert len(place) == len(plan.runs)
    assert all(place[needed] < place[job] for job in plan.runs for needed in plan.needs(job))
    assert all(needed.seed == job.seed for job in plan.runs for needed in plan.needs(job))


def test_the_settings_are_those_of_appendix_a(request_all):
    found = recipe(request_all, "tr_imst", "syntr-rngtr")

    optimiser, training = found.optimiser, found.training
    assert (optimiser.learning_rate, optimiser.encoder_learning_rate) == (2e-3, 1e-5)
    assert (optimiser.betas, optimiser.eps, optimiser.weight_decay) == ((0.9, 0.999), 1e-5, 0.01)
    assert (optimiser.clip_gradient_norm, optimiser.warmup) == (1.0, 0.01)
    assert (training.epochs, training.patience) == (200, 100)
    assert (found.scorer.arc_width, found.scorer.label_width, found.scorer.dropout) == (500, 100, 0.33)
    assert (found.refine.max_steps, found.refine.stop, found.refine.update) == (3, True, "each")
    assert (found.tags.source, found.tags.columns) == ("given", ("upos",))
    assert found.initial.folds == 0


def test_steps_of_each_system(request_all):
    plan = ReproductionPlan(request_all)

    steps = {name: plan.recipe(TrainingRun("tr_imst", name, 1)).refine for name in SYSTEMS}
    assert {name: each.max_steps for name, each in steps.items() if each.max_steps != 3} == {
        "biaffine": 1,
        "syntr": 1,
        "syntr-long": 1,
        "empty-rngtr": 4,
        "syntr-rngtr-t1": 1,
        "files-rngtr-t1": 1,
    }
    assert [name for name, each in steps.items() if not each.stop] == [
        "syntr-rngtr-no-stop",
        "files-rngtr-no-stop",
    ]


def test_the_encoders_are_those_of_the_paper(request_all):
    plan = ReproductionPlan(request_all)

    found = {code: plan.encoder(TrainingRun(code, "syntr", 1)) for code in TREEBANKS}
    others = {"zh_gsd": CHINESE, "ctb": CHINESE, "ja_gsd": JAPANESE}
    others |= {"ptb": "bert-base-uncased", "de_conll09": "bert-base-german-cased"}
    assert found == dict.fromkeys(UD, MULTILINGUAL) | others


def test_rules_and_formats(request_all):
    found = {code: recipe(request_all, code, "syntr").treebank for code in ("tr_imst", "ptb", "de_conll09")}

    assert {code: (each.rule, each.format) for code, each in found.items()} == {
        "tr_imst": ("conll18", ""),
        "ptb": ("ptb", "conllx"),
        "de_conll09": ("conll09", "conll09-predicted"),
    }
    assert recipe(request_all, "de_conll09", "syntr").tags.columns == ("xpos",)


def test_what_each_system_refines(request_all):
    plan = ReproductionPlan(request_all)

    def initial(system):
        return plan.recipe(TrainingRun("tr_imst", system, 1)).initial

    out = request_all.output / "runs"
    assert initial("empty-rngtr").parser == "empty"
    assert initial("syntr-rngtr").parser == str(out / "tr_imst" / "syntr" / "seed1" / "model")
    assert initial("biaffine-rngtr").parser == "files"
    assert initial("biaffine-rngtr").dev == (str(out / "tr_imst" / "biaffine" / "seed1" / "model" / "dev.trees"),)
    assert initial("files-rngtr").parser == "files"
    assert initial("files-rngtr").train[0].endswith("tr_imst-ud-train.conllu")


def test_the_longer_syntr_follows_changes_of_all_systems_but_not_its_own(request_all):
    changes = ("training.epochs=4", "training.patience=2")

    longer = recipe(request_all, "tr_imst", "syntr-long", changes=changes).training
    own = recipe(request_all, "tr_imst", "syntr-long", changes=(*changes, "syntr-long:training.epochs=5")).training

    assert (longer.epochs, longer.patience) == (12, 6)
    assert own.epochs == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("training.seed=5",), "The seeds are those of --seeds."),
        (("training.epoch=7",), "[training] epoch is unknown; did you mean epochs?"),
        (("synt:training.epochs=7",), "There is no system 'synt'. Did you mean syntr?"),
        (("training.epochs",), "is not a change"),
    ],
)
def test_wrong_changes(request_all, changes, message):
    with pytest.raises(ConfigError) as error:
        recipe(request_all, "tr_imst", "syntr", changes=changes)

    assert message in str(error.value)


def test_only_a_treebank_and_a_system_with_what_it_needs(request_all):
    plan = ReproductionPlan(replace(request_all, only=("tr_imst", "sv_talbanken", "syntr-rngtr")))

    assert [job.name for job in plan.runs] == [
        "sv_talbanken-syntr-seed1",
        "sv_talbanken-syntr-rngtr-seed1",
        "tr_imst-syntr-seed1",
        "tr_imst-syntr-rngtr-seed1",
    ]
