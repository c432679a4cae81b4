"""A plan lists all trainings with the settings of the paper, in an order in which they can be run."""

from dataclasses import replace

import pytest

from tests.support.toy_treebanks import toy_treebanks
from treefine.errors import ConfigError
from treefine_paper.plan import ReproductionPlan, ReproductionRequest, TrainingRun
from treefine_paper.systems import SYSTEMS
from treefine_paper.treebanks import CHINESE, JAPANESE, MULTILINGUAL, TREEBANKS

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
    assert (found.refine.max_steps, found.refine.stop) == (3, True)
    assert (found.tags.source, found.tags.columns) == ("given", ("upos",))


def test_steps_of_each_system(request_all):
    plan = ReproductionPlan(request_all)

    refine = {name: plan.recipe(TrainingRun("tr_imst", name, 1)).refine for name in SYSTEMS}
    reading = {name: each.max_steps for name, each in refine.items() if name.endswith("rngtr")}
    assert reading == {"empty-rngtr": 4, "syntr-rngtr": 3, "biaffine-rngtr": 3, "files-rngtr": 3}
    assert all(each.max_steps == 1 for name, each in refine.items() if "rngtr" not in name or name.endswith("-t1"))
    assert all(each.stop != name.endswith("-no-stop") for name, each in refine.items())


def test_the_encoders_are_those_of_the_paper(request_all):
    plan = ReproductionPlan(request_all)

    found = {code: plan.encoder(TrainingRun(code, "syntr", 1)) for code in TREEBANKS}
    others = {"zh_gsd": CHINESE, "ctb": CHINESE, "ja_gsd": JAPANESE}
    others |= {"ptb": "bert-base-uncased", "de_conll09": "bert-base-german-cased"}
    assert found == dict.fromkeys(UD, MULTILINGUAL) | others


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
