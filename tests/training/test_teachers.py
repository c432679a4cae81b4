"""Teachers: models whose probabilities a smaller model learns, on labelled and unlabelled sentences."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from treefine.training.teachers import Ensemble, Lesson, most_likely, unlabelled

from tests.support.tiny import sample, short, tiny_biaffine, tiny_model
from tests.support.tiny_learner import learner_of, recipe_for
from tests.support.tiny_segmenter import tiny_segmenter
from tests.support.tiny_tokenizers import byte_bpe
from tests.support.trainings import CPU, metrics, run, weights, write_recipe
from treefine.config import RelationSettings, TagSettings
from treefine.errors import ConfigError, TreefineError
from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.parsing.parser import Parser
from treefine.training.data import Data, load_texts
from treefine.training.learner import GoldBatch, step_loss
from treefine.training.prepare import Prepared, prepare
from treefine.training.processes import Processes
from treefine.training.recipe import InitialSettings, TeacherSettings
from treefine.training.targets import FIRST_TAGS, HEADS, LABELS, N_KEPT, TeacherTargets
from treefine.training.train import train
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.sentence import Sentence

SENTENCES = short(14, longest=12)
N_ALL = len(SENTENCES)
TAGS = TagSettings("predicted", ("upos", "xpos"))


def ensemble(*models: ParserModel) -> Ensemble:
    return Ensemble(models, CPU)


def targets_of(found: Ensemble, labelled, others=(), *, weight=0.5, max_steps=3):
    """Return the targets of all sentences, and the parsed unlabelled ones."""
    model = found.models[0]
    recipe = replace(recipe_for(model), teacher=TeacherSettings(models=("x",), weight=weight))
    recipe = replace(recipe, refine=replace(recipe.refine, max_steps=max_steps))
    lesson = Lesson(Prepared(recipe, Data(tuple(labelled), (), {})), tuple(others))
    steps = lesson.targets(found, Processes(CPU))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def words_only(sentences):
    return [Sentence.of_words(each.forms) for each in sentences]


# Teachers that parse together


def test_two_identical_teachers_say_what_one_says():
    model = tiny_model(tags=TAGS)

    one, two = (ensemble(*[model] * n).steps(SENTENCES, 3) for n in (1, 2))

    assert len(one) == len(two) > 1
    for ours, theirs in zip(one, two, strict=True):
        assert ours.sentences == theirs.sentences
        assert ours.graphs.same_words(theirs.graphs).all()
        torch.testing.assert_close(ours.scores.arcs, theirs.scores.arcs)


def test_one_teacher_finds_the_trees_of_its_parser():
    model = tiny_model(tags=TAGS)
    found = ensemble(model)

    trees = found.trees(found.steps(SENTENCES, 3))

    parser = Parser(model, device="cpu", max_steps=3)
    parsed = Graphs.of([each.arcs for each in parser.stream_trees(words_only(SENTENCES))], model.vocabulary)
    assert torch.equal(trees.heads, parsed.heads)
    assert torch.equal(trees.labels, parsed.labels)


def test_the_probabilities_of_all_teachers_are_averaged_and_decoded_into_the_graph_that_all_of_them_read():
    """Compare with each sentence alone. The teachers have different encoders and pieces."""
    models = tiny_model(tags=TAGS), tiny_model(tags=TAGS, tokenizer=byte_bpe, family="roberta", seed=2)
    heads = torch.tensor([[each % 3 for each in range(20)]])

    steps = ensemble(*models).steps(SENTENCES, 3)

    assert len(steps) == 3
    assert len(steps[2].sentences) <= len(steps[1].sentences) <= len(SENTENCES)
    before, tags = None, None
    for step in steps:
        for row, number in enumerate(step.sentences):
            sentence = SENTENCES[number]
            n_words = len(sentence) + 1
            alone, read = Graphs.of([sentence.arcs], models[0].vocabulary), None
            alone = Graphs(torch.full_like(alone.heads, -1), torch.full_like(alone.labels, -1))
            if before is not None:
                place = before.sentences.index(number)
                alone = before.graphs.select(torch.tensor([place]), n_words)
                read = tags[number : number + 1, :n_words]
            with torch.no_grad():
                scores = [model(model.batch_of([sentence]), alone, read) for model in models]
            mean = sum(each.arcs.softmax(-1) for each in scores) / 2
            torch.testing.assert_close(step.scores.arcs[row, :n_words, :n_words].exp(), mean[0], atol=1e-4, rtol=1e-3)
            chosen = heads[:, :n_words] % n_words
            mean = sum(each.labels(chosen).softmax(-1) for each in scores)[0, 1:] / 2
            ours = step.scores.only(row, n_words).labels(chosen).exp()[0, 1:]
            torch.testing.assert_close(ours, mean, atol=1e-4, rtol=1e-3)
        before, tags = step, step.tags if step.t == 1 else tags


# Targets


def dense(ids, probabilities, n_choices):
    """Return the probabilities of all choices."""
    found = np.zeros((len(ids), n_choices))
    for row, choices in enumerate(zip(ids, probabilities, strict=True)):
        for choice, probability in zip(*choices, strict=True):
            found[row, choice] += probability
    return found


def test_impossible_heads_are_not_kept():
    ids, probabilities = most_likely(torch.tensor([[-torch.inf, 0.0, -torch.inf]]))

    assert (ids[0, 0], probabilities[0, 0], ids.sum(), probabilities.sum()) == (1, 1, 1, 1)


def test_the_most_likely_choices_sum_to_one_and_keep_their_order():
    ids, probabilities = most_likely(torch.tensor([[0.5, 0.1, 0.4]]).log())

    assert ids.tolist() == [[0, 2, 1, 0, 0, 0, 0, 0]]
    torch.testing.assert_close(probabilities, torch.tensor([[0.5, 0.4, 0.1, 0, 0, 0, 0, 0]]))
    assert most_likely(torch.zeros(2, 20).log_softmax(-1))[1].sum(-1).tolist() == [1, 1]


@pytest.mark.parametrize("n_labelled", [N_ALL, 5])
@torch.no_grad()
def test_targets_are_those_of_each_step_and_repeat_those_of_the_last(n_labelled):
    found = ensemble(tiny_model(tags=TAGS), tiny_biaffine(tags=TAGS))
    texts = words_only(SENTENCES[n_labelled:])

    targets, parsed = targets_of(found, SENTENCES[:n_labelled], texts, max_steps=4)

    steps = found.steps(SENTENCES, 4)
    trees = found.trees(steps)
    assert [each.forms for each in parsed] == [each.forms for each in texts]
    for number, sentence in enumerate(SENTENCES):
        own = [step for step in steps if number in step.sentences]
        heads = list(sentence.heads) if number < n_labelled else trees.heads[number, 1 : len(sentence) + 1].tolist()
        if number >= n_labelled:
            assert list(parsed[number - n_labelled].heads) == heads
            assert "_" not in (*parsed[number - n_labelled].labels, *parsed[number - n_labelled].upos)
        for t in range(4):
            step = own[min(t, len(own) - 1)]
            part = step.scores.only(step.sentences.index(number), len(sentence) + 1)
            kinds = {HEADS: part.arcs, LABELS: part.labels(torch.tensor([[0, *heads]])), FIRST_TAGS + 1: part.tags[1]}
            for kind, scores in kinds.items():
                words = slice(targets.starts[number], targets.starts[number] + len(sentence))
                ours = dense(targets.ids[words, t, kind], targets.probabilities[words, t, kind], scores.shape[-1])
                theirs = dense(*(each.numpy() for each in most_likely(scores[0, 1:])), scores.shape[-1])
                np.testing.assert_allclose(ours, theirs, atol=2e-3)


def test_targets_are_the_same_after_saving_and_loading(tmp_path):
    targets, _ = targets_of(ensemble(tiny_model()), SENTENCES)

    targets.save(tmp_path / "targets.safetensors")
    loaded = TeacherTargets.load(tmp_path / "targets.safetensors", SENTENCES)

    for name in ("lengths", "ids", "probabilities", "shares"):
        assert np.array_equal(getattr(loaded, name), getattr(targets, name))
        assert getattr(loaded, name).dtype == getattr(targets, name).dtype
    assert (loaded.ids.dtype, loaded.probabilities.dtype) == (np.int16, np.float16)
    with pytest.raises(TreefineError, match="targets of other sentences"):
        TeacherTargets.load(tmp_path / "targets.safetensors", SENTENCES[1:])


def test_a_damaged_file_of_targets_is_reported(tmp_path):
    (tmp_path / "targets.safetensors").write_bytes(b"no")

    with pytest.raises(TreefineError, match="The file is damaged"):
        TeacherTargets.load(tmp_path / "targets.safetensors", SENTENCES)


# The loss


def gold_of(model, sentences):
    graphs = Graphs.of([each.arcs for each in sentences], model.vocabulary)
    return GoldBatch(graphs, None if model.tagger is None else model.given_tags(sentences))


def with_targets(gold, targets):
    return replace(gold, taught=targets.of_batch(range(N_ALL), CPU))


@torch.no_grad()
def losses(model, weight, n_labelled=N_ALL):
    """Return the loss of each step without teachers, and with them."""
    targets, _ = targets_of(
        ensemble(tiny_model(tags=TAGS, seed=2)), SENTENCES[:n_labelled], SENTENCES[n_labelled:], weight=weight
    )
    gold = gold_of(model, SENTENCES)
    steps = ensemble(model).steps(SENTENCES, 3)
    return [(step, step_loss(step, gold), step_loss(step, with_targets(gold, targets)), targets) for step in steps]


def test_with_weight_0_the_loss_is_that_without_teachers():
    for _, without, taught, _ in losses(tiny_model(tags=TAGS), 0.0):
        torch.testing.assert_close(taught, without, rtol=1e-6, atol=0)


@pytest.mark.parametrize("n_labelled", [N_ALL, 5])
def test_the_loss_is_the_cross_entropy_with_a_mixture(n_labelled):
    model = tiny_model(tags=TAGS)
    for step, _, taught, targets in losses(model, 0.25, n_labelled):
        gold, total = gold_of(model, SENTENCES), 0.0
        for row, number in enumerate(step.sentences):
            share = 0.25 if number < n_labelled else 1.0
            heads = gold.graphs.heads[number : number + 1, : step.batch.n_words]
            part = step.scores.only(row, step.batch.n_words)
            kinds = [(part.arcs, gold.graphs.heads), (part.labels(heads), gold.graphs.labels)]
            if step.t == 1:
                kinds += [(scores, gold.tags[..., column] - 1) for column, scores in enumerate(part.tags)]
            for kind, (scores, right) in enumerate(kinds):
                for word in range(1, len(SENTENCES[number]) + 1):
                    if right[number, word] < 0:
                        continue
                    place = targets.starts[number] + word - 1
                    logs = scores[0, word].log_softmax(-1).tolist()
                    soft = zip(
                        targets.ids[place, step.t - 1, kind],
                        targets.probabilities[place, step.t - 1, kind],
                        strict=True,
                    )
                    total -= (1 - share) * logs[right[number, word]]
                    total -= share * sum(float(p) * logs[each] for each, p in soft if p)
        assert float(taught) == pytest.approx(total, rel=1e-4)


def test_sentences_with_decided_arcs_learn_only_their_trees_and_all_gradients_are_finite():
    model = tiny_model(relations=RelationSettings(decided=True))
    targets, _ = targets_of(ensemble(tiny_model(seed=2)), SENTENCES[:7], SENTENCES[7:])
    learner = learner_of(model, SENTENCES, initial=InitialSettings(decided_share=0.5, corrected_share=0.4))
    gold = gold_of(model, SENTENCES)
    taught, n_decided = with_targets(gold, targets), 0
    torch.manual_seed(3)

    for step in learner.steps(
        learner.model.batch_of(SENTENCES), [each.arcs for each in SENTENCES], None, stops=False, gold=gold.graphs
    ):
        loss = step_loss(step, taught)
        loss.backward()

        assert loss.isfinite()
        shares = taught.taught.select(torch.tensor(step.sentences), step.batch.n_words).at(step.t, step.graphs).share
        is_decided = step.graphs.decided.any(1)
        n_decided += int(is_decided.sum())
        assert torch.equal(shares[:, 0] == 0, is_decided)
    assert 0 < n_decided < 3 * len(SENTENCES)
    assert all(each.grad.isfinite().all() for each in model.parameters() if each.grad is not None)


def test_given_tags_are_not_learned_from_teachers():
    model = tiny_model(tags=TAGS)
    step, without, _, targets = losses(model, 1.0)[0]
    gold = gold_of(model, SENTENCES)

    untagged = replace(with_targets(gold, targets), tags=torch.zeros_like(gold.tags))

    torch.testing.assert_close(step_loss(step, untagged), step_loss(step, replace(untagged, tags=None)))


# Texts


def test_texts_are_lines_and_the_words_of_treebanks(tmp_path):
    (tmp_path / "a.txt").write_text("ab a.\n\nb 1\nba\n")
    write_treebank(SENTENCES[:2], tmp_path / "b.conllu.xz")

    found = load_texts(TeacherSettings(models="x", texts=(f"{tmp_path}/a.txt", f"{tmp_path}/b.conllu.xz")))

    assert found[:3] == ("ab a.\n", "b 1\n", "ba\n")
    assert found[3:] == tuple(words_only(SENTENCES[:2]))
    sampled = load_texts(TeacherSettings(models="x", texts=f"{tmp_path}/a.txt", sentences=2))
    assert sampled == ("ab a.\n", "b 1\n")


def test_lines_are_divided_by_the_segmenter_and_very_long_ones_are_left_out():
    segmenter = tiny_segmenter()
    lines = ["ab a.\n", "b 1\n"]
    one = Sentence.of_words(["a"] * 201)

    found = list(unlabelled([*lines, one, SENTENCES[0]], segmenter))

    expected = [each.sentence.forms for each in segmenter.stream_lines(lines)]
    assert [each.forms for each in found] == [SENTENCES[0].forms, *expected]


# Whole trainings

SECTIONS = '[tags]\ncolumns = ["upos"]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("teachers")


def write_student(folder, name="student", teacher='recipes = "teacher.toml"\nmembers = 2\n', **options):
    """Write a recipe whose two teachers are trained first, and an unlabelled treebank and text."""
    write_recipe(folder, "teacher", sections=SECTIONS, epochs=1)
    write_treebank(words_only(sample()[50:56]), folder / "texts.conllu")
    sections = f'{SECTIONS}[teacher]\n{teacher}texts = ["{folder}/texts.conllu"]\nsentences = 5\n'
    return write_recipe(folder, name, sections=sections, epochs=2, **options)


@pytest.fixture(scope="module")
def student(folder):
    return write_student(folder)


@pytest.fixture(scope="module")
def whole(folder, student):
    """Return the folder of an uninterrupted training, and its progress reports."""
    return folder / "whole", run(student, folder / "whole")


def test_a_model_learns_from_two_teachers_that_are_trained_first(folder, whole):
    output, steps = whole

    assert list(dict.fromkeys(step.stage for step in steps)) == ["teacher 1 of 2", "teacher 2 of 2", "targets", ""]
    first, second = (weights(output / "teachers" / "teacher" / number) for number in "12")
    assert first != second
    parsed = list(read_treebank(output / "teachers" / "unlabelled.conllu.gz"))
    assert len(parsed) == 5
    targets = TeacherTargets.load(
        output / "teachers" / "targets.safetensors", [*read_treebank(folder / "train.conllu"), *parsed]
    )
    assert targets.shares.tolist() == [0.5] * 20 + [1.0] * 5
    assert targets.ids.shape[1:] == (4, 3, N_KEPT)
    card = (output / "model" / "README.md").read_text()
    assert "It learned from the probabilities of 2 teachers (teacher)." in card
    assert f"5 sentences of {folder}/texts.conllu had no trees; the teachers parsed them." in card
    assert "The recipe of the teacher teacher:" in card
    assert f"  {folder}/texts.conllu" in card


@pytest.mark.parametrize("stage", ["teacher 2 of 2", "targets", ""])
def test_a_training_stopped_in_any_stage_resumes_to_the_same_result(folder, student, whole, tmp_path, stage):
    output, steps = whole
    stopped = [step.stage for step in steps].index(stage) + 1

    list(islice(train(prepare(student), tmp_path / "out", device=CPU), stopped))
    resumed = run(student, tmp_path / "out")

    assert len(resumed) < len(steps)
    assert weights(tmp_path / "out") == weights(output)
    assert metrics(tmp_path / "out") == metrics(output)
    assert run(student, tmp_path / "out") == []


def test_trained_models_are_teachers_too_and_members_of_weight_averaging_share_the_targets(folder, whole):
    models = [str(whole[0] / "teachers" / "teacher" / number / "model") for number in "12"]
    recipe = write_student(
        folder, "averaged", f"models = {models}\n".replace("'", '"'), training="weight_averaging = 2"
    )

    stages = dict.fromkeys(step.stage for step in run(recipe, folder / "averaged"))

    assert list(stages) == ["targets", "member 1 of 2", "member 2 of 2"]
    files = [folder / each / "teachers" / "targets.safetensors" for each in ("whole", "averaged")]
    assert files[0].read_bytes() == files[1].read_bytes()


# Settings


NO_TAGS = "The teacher has other tags. Use the same source and columns in [tags] for both."


def faults(path: Path):
    with pytest.raises(ConfigError) as caught:
        prepare(path)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("teacher", "fault"),
    [
        ('recipes = "x.toml"\nmodels = "x"', "{path}: [teacher] set either recipes or models."),
        ('texts = "x.txt"', "{path}: [teacher] texts need teachers: set recipes or models."),
        ('recipes = "teacher.toml"\nmembers = 0', "{path}: [teacher] members = 0; it must be at least 1."),
        ('recipes = "teacher.toml"\nweight = 1.5', "{path}: [teacher] weight = 1.5; it must be at most 1."),
        ('models = "./nowhere"', "./nowhere: There is no such model folder."),
        ('recipes = "none.toml"', "none.toml: There is no such file."),
        ('recipes = "untagged.toml"', "[teacher] {folder}/untagged.toml: " + NO_TAGS),
        ('models = "encoder"', "[teacher] encoder: " + NO_TAGS),
        (
            'recipes = "few.toml"',
            "[teacher] {folder}/few.toml: The teacher and the training set have different labels, such as ",
        ),
        ('recipes = "pupil.toml"', "{folder}/pupil.toml: A teacher recipe must not have teachers. Train it separately"),
        ('recipes = "teacher.toml"\ntexts = "no.conllu"', "no.conllu: There is no such file."),
        (
            'recipes = "teacher.toml"\ntexts = "a.txt"',
            "[teacher] a.txt: Text needs the segmenter of this training, but segmenter.train is never. "
            "Name a treebank file, whose words are used.",
        ),
        (
            'recipes = "teacher.toml"\n[initial]\nparser = "encoder"',
            "{path}: teachers start from an empty graph: remove parser and mix from [initial], or remove [teacher].",
        ),
    ],
)
def test_wrong_settings_are_reported_on_one_line_before_training(folder, student, monkeypatch, teacher, fault):
    monkeypatch.chdir(folder)
    write_recipe(folder, "untagged", sections='[tags]\nsource = "none"\n')
    few = write_recipe(folder, "few", sections=SECTIONS)
    few.write_text(few.read_text().replace("train.conllu", "few.conllu"))
    write_treebank(SENTENCES[:10], "few.conllu")
    write_recipe(folder, "pupil", sections=SECTIONS + '[teacher]\nrecipes = "teacher.toml"\n')
    Path("a.txt").write_text("ab\n")
    path = write_recipe(folder, "wrong", sections=f"{SECTIONS}[teacher]\n{teacher}\n")

    (line,) = faults(path)

    assert line.startswith(fault.format(path=path, folder=folder))


def test_two_recipes_of_teachers_need_different_names(folder, student):
    other = folder / "other"
    other.mkdir(exist_ok=True)
    (other / "teacher.toml").write_text((folder / "teacher.toml").read_text())
    names = f'recipes = ["teacher.toml", "{other}/teacher.toml"]'
    path = write_recipe(folder, "twins", sections=f"{SECTIONS}[teacher]\n{names}\n")

    assert faults(path) == [f"[teacher] {other}/teacher.toml: Two recipes of teachers need different file names."]
