"""`tags.given`: columns that a model always reads from its input, while it predicts the others."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from treefine.training.abilities import abilities, command_for

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import blank, learn, learner_of, recipe_for, weights_of
from tests.support.trainings import CPU, run, write_recipe
from treefine.config import COLUMNS, RelationSettings, TagSettings
from treefine.errors import ConfigError
from treefine.fast.file_workers import WorkerSettings
from treefine.fast.packed import pack
from treefine.model.folder import load_model
from treefine.model.vocabulary import Vocabulary, flat_tags
from treefine.parsing.parser import Parser
from treefine.training.calibrate import calibrated
from treefine.training.data import Data, completed
from treefine.training.epochs import DevScorer, accuracy_of
from treefine.training.learner import step_loss
from treefine.training.new_model import new_model
from treefine.training.prepare import prepare
from treefine.training.recipe import PretrainedSettings, TagTraining, TeacherSettings, TrainingSettings
from treefine.training.train import begin_folder, check_folder
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.sentence import BLANK, Sentence

SHORT = [each for each in sample() if len(each) < 12][:12]
READS_UPOS = TagSettings("predicted", COLUMNS, given=("upos",))
PREDICTED = ("xpos", "feats", "lemma")
UPOS_GIVEN = '[tags]\nsource = "predicted"\ncolumns = ["upos", "xpos", "feats", "lemma"]\ngiven = ["upos"]\n'
UPOS_ONLY = '[tags]\nsource = "given"\ncolumns = ["upos"]\n'


def without(sentences, *columns):
    return [each.with_tags(**{name: [BLANK] * len(each) for name in columns}) for each in sentences]


def watch_first_steps(learner, monkeypatch):
    """Return a list that collects the tags that each first step reads, and the tags that it learns."""
    seen, read, scoring = [], [], learner.scoring_model
    forward = scoring.forward

    def watched(step, gold, **options):
        if step.t == 1:
            seen.append((read[-1], gold.tags))
        return step_loss(step, gold, **options)

    monkeypatch.setattr(scoring, "forward", lambda *args, **rest: (read.append(args[2]), forward(*args, **rest))[1])
    monkeypatch.setattr("treefine.training.learner.step_loss", watched)
    return seen


# Training


def test_every_batch_reads_the_given_column_and_learns_only_the_others(monkeypatch):
    learner = learner_of(tiny_model(tags=READS_UPOS), SHORT, training=TrainingSettings(epochs=10, batch_pieces=60))
    seen = watch_first_steps(learner, monkeypatch)

    learn(learner, epochs=2)

    assert len(seen) > 4
    for read, learned in seen:
        is_word = learned[..., 1] > 0  # each word has an XPOS tag
        assert torch.equal(read[..., 0] > 0, is_word)
        assert not read[..., 1:].any()
        assert not learned[..., 0].any()
        assert (learned > 0).any(1)[:, [1, 3]].all()  # some sentences have no features


def test_given_columns_add_no_loss():
    model = tiny_model(tags=READS_UPOS)
    before = weights_of(model.tagger)

    learn(learner_of(model, SHORT), epochs=1)

    for place, column in enumerate(COLUMNS):
        name = f"columns.{place}.bias"  # biases have no weight decay
        assert torch.equal(weights_of(model.tagger)[name], before[name]) == (column == "upos")


def test_given_tags_in_training_shows_the_other_columns_of_some_sentences():
    learner = learner_of(tiny_model(tags=READS_UPOS), 5 * SHORT, training=TrainingSettings(given_tags=0.5))

    learner.model.train()
    is_given = (learner.tags_of(5 * SHORT) > 0).any(1)

    assert is_given[:, 0].all()
    assert 0.1 < is_given[:, 1].float().mean() < 0.9


def test_without_given_columns_training_is_as_before():
    model = tiny_model(tags=TagSettings("predicted", COLUMNS))
    learner = learner_of(model, SHORT, training=TrainingSettings(given_tags=0.5))

    model.train()
    torch.manual_seed(1)
    found, next_draw = learner.tags_of(SHORT), torch.rand(1)

    torch.manual_seed(1)
    assert torch.equal(found, model.given_tags(SHORT) * learner._is_given(len(SHORT), len(COLUMNS), 0.5))
    assert torch.equal(next_draw, torch.rand(1))
    model.eval()
    assert learner.tags_of(SHORT) is None


# Scores and calibration


@pytest.fixture(scope="module")
def trained():
    """Return a learner whose model reads UPOS."""
    learner = learner_of(tiny_model(tags=READS_UPOS), SHORT)
    learn(learner, epochs=2)
    learner.model.eval()
    return learner


def test_dev_is_scored_with_the_given_column_only(trained):
    model = trained.model
    scorer = DevScorer(SHORT, model.vocabulary.labels, rule="conll18")

    read = trained.tags_of(SHORT)
    accuracy = scorer.accuracy(trained, blank(SHORT))

    assert torch.equal(read[..., :1], model.given_tags(SHORT)[..., :1])
    assert not read[..., 1:].any()
    assert list(accuracy.tags) == ["XPOS", "FEATS", "LEMMA"]
    parsed = accuracy_of(Parser(model, max_steps=3, keep="nothing", device="cpu"), SHORT, rule="conll18")
    assert (parsed.uas, parsed.las) == pytest.approx((accuracy.uas, accuracy.las))
    assert parsed.tags == pytest.approx(accuracy.tags)


def test_the_accuracy_depends_on_given_values_and_not_on_predicted_ones(trained):
    parser = Parser(trained.model, device="cpu")

    ours, bare, unread = (
        [steps[0].arc_scores for _, steps in parser.stream_steps(each)]
        for each in (SHORT, without(SHORT, *PREDICTED), without(SHORT, "upos"))
    )

    assert all(map(np.array_equal, ours, bare))
    assert not any(map(np.array_equal, ours, unread))


def test_given_columns_are_not_calibrated(trained):
    settings = calibrated(Parser(trained.model, device="cpu"), SHORT)

    assert {column for column in COLUMNS if settings.tag_temperature(column) != 1} == set(PREDICTED)


# Parsing


def test_the_parser_reads_given_columns_keeps_all_values_and_predicts_blank_ones(trained):
    parser = Parser(trained.model, device="cpu")
    asked = without(SHORT, *PREDICTED)

    parses, of_gold = parser.parse(asked), parser.parse(SHORT)

    assert parser.tags == "predicted"
    for parse, other, gold in zip(parses, of_gold, SHORT, strict=True):
        assert parse.tree == other.tree  # the other columns are not read
        assert parse.upos == other.upos == gold.upos
        assert BLANK not in parse.xpos
        assert other.xpos == gold.xpos


@pytest.mark.parametrize(
    ("tags", "columns"), [(None, ("upos",)), ("predicted", ("upos",)), ("given", COLUMNS), ("none", ())]
)
def test_the_option_tags_says_which_columns_are_read(trained, tags, columns):
    plan = Parser(trained.model, tags=tags, device="cpu").plan()

    assert plan.read_columns == columns
    assert plan.needed_columns == (() if tags == "none" else ("upos",))


def test_worker_processes_read_the_same_columns(trained):
    model = trained.model
    settings = WorkerSettings.of(Parser(model, device="cpu"))

    packed = pack(SHORT, model.subwords, model.vocabulary, model.settings.tags, read=settings.read_columns)

    assert settings.needed_columns == ("upos",)  # a sentence without them causes a warning
    assert np.array_equal(packed.tags[:, :1], flat_tags(SHORT, model.vocabulary, ["upos"]))
    assert not packed.tags[:, 1:].any()


def test_a_sentence_without_the_given_column_is_parsed(trained):
    words = Sentence.of_words(["A", "dog", "barks"], upos=["DET", "_", "_"])

    parse = Parser(trained.model, device="cpu").parse(words)

    assert parse.tree.is_tree
    assert parse.upos[0] == "DET"
    assert set(parse.upos[1:]) <= set(trained.model.vocabulary.upos)


@pytest.mark.parametrize("tags", [None, "predicted"])
def test_refine_does_not_replace_given_columns(trained, tags):
    refined = Parser(trained.model, device="cpu").refine(SHORT, tags=tags)

    assert [each.upos for each in refined] == [each.upos for each in SHORT]
    is_same = [each.xpos == gold.xpos for each, gold in zip(refined, SHORT, strict=True)]
    assert all(is_same) == (tags is None)


def test_lemma_rules_do_not_depend_on_given_tags():
    columns = ("upos", "feats", "lemma")

    assert Vocabulary.of_treebank(SHORT, columns=columns).lemma_rules
    assert not Vocabulary.of_treebank(SHORT, columns=columns, given=("upos",)).lemma_rules
    assert Vocabulary.of_treebank(SHORT, given=("upos",)).lemma_rules == Vocabulary.of_treebank(SHORT).lemma_rules


# Recipes


@pytest.mark.parametrize(
    ("tags", "faults"),
    [
        ({"source": "given", "given": ("upos",)}, ['given needs predicted tags: set source = "predicted", or …']),
        ({"source": "none", "given": "upos"}, ['given needs predicted tags: set source = "predicted", or …']),
        (
            {"columns": ("upos", "xpos"), "given": ("upos", "feats", "lemma")},
            ["given has feats, lemma, which columns lacks; add it there, …"],
        ),
        ({"given": ("upos", "upos")}, ["given lists a column twice"]),
        (
            {"source": "none", "columns": ("xpos", "xpos"), "given": ("upos",)},
            ["columns lists a column twice", "given needs predicted …", "given has upos, which columns lacks; …"],
        ),
    ],
    ids=["given", "none", "not a subset", "twice", "all at once"],
)
def test_faults_are_refused(tags, faults):
    with pytest.raises(ValueError, match="given") as caught:
        TagTraining(**tags)

    assert len(caught.value.args) == len(faults)
    for found, fault in zip(caught.value.args, faults, strict=True):
        assert found.startswith(fault.removesuffix("…"))


def test_a_model_refuses_the_same_faults():
    with pytest.raises(ValueError, match="given has lemma, which columns lacks"):
        TagSettings("predicted", ("upos",), given=("lemma",))
    with pytest.raises(ValueError, match="given needs predicted tags"):
        TagSettings("given", ("upos",), given=("upos",))


def test_texts_of_teachers_have_no_given_columns():
    recipe = recipe_for(tiny_model(tags=READS_UPOS))

    with pytest.raises(ValueError, match="have no tags to read: .* and remove given"):
        replace(recipe, teacher=TeacherSettings(models="teacher", texts="texts.txt"))


def test_columns_that_the_treebank_decides_include_the_given_ones():
    recipe = replace(recipe_for(tiny_model()), tags=TagTraining(given=("upos",)))
    no_features = tuple(without(SHORT, "feats"))

    found = completed(recipe, Data(no_features, no_features, {})).tags

    assert (found.source, found.columns, found.given) == ("predicted", ("upos", "xpos", "lemma"), ("upos",))


def test_a_given_column_without_values_is_reported(tmp_path):
    path = write_recipe(tmp_path, "recipe", sections='[tags]\ngiven = ["upos", "xpos"]\n')
    write_treebank(without(read_treebank(tmp_path / "train.conllu"), "upos"), tmp_path / "train2.conllu")
    path.write_text(path.read_text().replace("train.conllu", "train2.conllu"))

    with pytest.raises(ConfigError) as caught:
        prepare(path)

    assert str(caught.value) == '[tags] given: No training word has a value in UPOS. Set tags.given=["xpos"].'


def test_the_abilities_name_what_is_read_and_predicted(tmp_path):
    prepared = prepare(write_recipe(tmp_path, "recipe", sections=UPOS_GIVEN))

    assert "It will predict XPOS tags, features and lemmas; its input needs UPOS tags." in abilities(prepared)
    assert command_for(prepared, Path("m")).endswith("dev.conllu -o parsed.conllu")


def test_a_training_of_an_earlier_version_is_resumed(tmp_path):
    folder, changed = tmp_path / "run", tmp_path / "changed"
    prepared = prepare(write_recipe(tmp_path, "recipe"))
    begin_folder(folder, prepared)
    begin_folder(changed, prepare(write_recipe(tmp_path, "other", sections=UPOS_GIVEN)))

    check_folder(folder, prepared, is_resumed=True)

    assert "given" not in json.loads((folder / "recipe.json").read_text())["recipe"]["tags"]
    assert json.loads((changed / "recipe.json").read_text())["recipe"]["tags"]["given"] == ["upos"]


# Whole trainings


def test_weights_of_a_base_with_other_columns_are_matched_by_name(tmp_path):
    base = tiny_model(tags=TagSettings("predicted", ("xpos", "upos")))
    Parser(base, device="cpu").save(tmp_path / "base")
    recipe = recipe_for(tiny_model(tags=READS_UPOS))
    encoder = PretrainedSettings(fine_tune_from=str(tmp_path / "base"))

    model = new_model(replace(recipe, encoder=encoder), SHORT)

    assert model.settings.tags.given == ("upos",)
    for column, ours, theirs in (("upos", 0, 1), ("xpos", 1, 0)):
        names = list(base.vocabulary.tags(column))
        rows = [names.index(name) for name in model.vocabulary.tags(column)]
        assert torch.equal(model.tagger.columns[ours].weight, base.tagger.columns[theirs].weight[rows])


def test_a_model_with_an_initial_parser_of_given_tags_is_trained_and_saved(tmp_path):
    initial = tiny_model(tags=TagSettings("given"), relations=RelationSettings("none"))
    Parser(initial, device="cpu").save(tmp_path / "initial")
    sections = f'{UPOS_GIVEN}[initial]\nparser = "{tmp_path}/initial"\n'
    path = write_recipe(tmp_path, "recipe", sections=sections, epochs=2)
    path.write_text(path.read_text().replace("dev = ", f'test = "{tmp_path}/dev.conllu"\ndev = '))

    *_, last = run(path, tmp_path / "run")

    folder = tmp_path / "run" / "model"
    assert list(last.standing.best_tags) == ["XPOS", "FEATS", "LEMMA"]
    assert load_model(folder).settings.tags == READS_UPOS
    card = " ".join((folder / "README.md").read_text().split())
    assert "reads UPOS tags, and predicts XPOS tags, features and lemmas in its first step" in card
    parser, dev = Parser.from_pretrained(folder, device=CPU), list(read_treebank(tmp_path / "dev.conllu"))
    assert accuracy_of(parser.using(keep="nothing"), dev, rule="conll18").las == pytest.approx(last.standing.best_las)


def test_the_ids_that_are_read_are_those_of_the_treebank(trained):
    ids = flat_tags(SHORT[:1], trained.model.vocabulary, ["upos"])[:, 0].tolist()

    assert trained.tags_of(SHORT[:1])[0, 1:, 0].tolist() == ids
