"""Everything that a recipe names is checked before training: its base model, initial parser, and folds."""

from pathlib import Path

import pytest

from tests.support.tiny import sample, tiny_syntr, write_encoder
from tests.support.trainings import SYNTR
from treefine.errors import TreefineError
from treefine.parsing.parser import Parser
from treefine.training.prepare import base_of, prepare
from treefine.treebank.conllu import write_treebank


def recipe(name, *, encoder, treebank="own", sections=""):
    """Write a recipe into the working folder; the encoder is a section, a folder or a recipe."""
    if not encoder.startswith("["):
        key = "fine_tune_from" if encoder.endswith((".toml", "model")) else "pretrained"
        encoder = f'[encoder]\n{key} = "{encoder}"\n'
    text = f'[treebank]\ntrain = ["{treebank}.conllu"]\ndev = "{treebank}-dev.conllu"\n{encoder}{sections}'
    Path(name).write_text(text)
    return name


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Write an encoder and two treebanks into the working folder."""
    monkeypatch.chdir(tmp_path)
    sentences = sample()
    for name, first in (("own", 0), ("other", 30)):
        write_treebank(sentences[first : first + 20], f"{name}.conllu")
        write_treebank(sentences[first + 20 : first + 26], f"{name}-dev.conllu")
    write_encoder(Path("encoder"), "bert")


def faults(name):
    with pytest.raises(TreefineError) as caught:
        prepare(name)
    return str(caught.value).splitlines()


# Base models


def test_the_base_of_an_initial_parser_is_read_with_its_own_sentences():
    recipe("base.toml", encoder="./encoder", treebank="other", sections=SYNTR)
    recipe("syntr.toml", encoder="base.toml", sections=SYNTR)
    recipe("rngtr.toml", encoder="./encoder", sections='[initial]\nparser = "syntr.toml"\nfolds = 2\n')

    prepared = prepare("rngtr.toml")

    assert (base_of(prepared.recipe), base_of(prepared.initial)) == ("", "base.toml")
    assert list(prepared.bases) == ["base.toml"]
    base = prepared.bases["base.toml"]
    assert [each.forms for each in base.data.train] == [each.forms for each in sample()[30:50]]
    assert prepared.initial.treebank == prepared.recipe.treebank != base.recipe.treebank


def test_faults_of_treebanks_come_together_and_those_of_other_recipes_after_them():
    recipe("base.toml", encoder="./none", treebank="nowhere")
    recipe("syntr.toml", encoder="base.toml", sections=SYNTR)
    recipe("rngtr.toml", encoder="./encoder", treebank="missing", sections=OVER_SYNTR)

    assert faults("rngtr.toml") == [f"missing{part}.conllu: There is no such file." for part in ("", "-dev")]
    recipe("rngtr.toml", encoder="./encoder", sections=OVER_SYNTR)
    assert faults("rngtr.toml") == [f"nowhere{part}.conllu: There is no such file." for part in ("", "-dev")]
    recipe("base.toml", encoder="./none", treebank="other")
    assert faults("rngtr.toml") == ["./none: There is no such model folder."]


APART = "Train it separately, and name its model folder."
CHAIN = f"This recipe must not fine-tune that of another model. {APART}"
NO_INITIAL = f"This recipe must not have an initial parser. {APART}"
NO_MODEL = "This is an encoder, not a treefine model. Set pretrained, not fine_tune_from, in [encoder]."
OTHER = {"encoder": "./encoder", "treebank": "other"}
OVER_SYNTR = '[initial]\nparser = "syntr.toml"\n'


@pytest.mark.parametrize(
    ("recipes", "fault"),
    [
        ({"a.toml": OTHER, "b.toml": {"encoder": "a.toml"}, "c.toml": {"encoder": "b.toml"}}, f"b.toml: {CHAIN}"),
        ({"self.toml": {"encoder": "self.toml"}}, f"self.toml: {CHAIN}"),
        ({"rngtr.toml": {"encoder": '[encoder]\nfine_tune_from = "./encoder"\n'}}, f"encoder: {NO_MODEL}"),
        (
            {"base.toml": {**OTHER, "sections": OVER_SYNTR}, "rngtr.toml": {"encoder": "base.toml"}},
            f"base.toml: {NO_INITIAL}",
        ),
        (
            {
                "base.toml": OTHER,
                "x/base.toml": {**OTHER, "sections": SYNTR},
                "syntr.toml": {"encoder": "x/base.toml", "sections": SYNTR},
                "rngtr.toml": {"encoder": "base.toml", "sections": OVER_SYNTR},
            },
            "x/base.toml: Another recipe has the same file name. Rename one of them.",
        ),
    ],
    ids=["chain", "itself", "encoder", "initial", "one name"],
)
def test_a_base_that_cannot_be_fine_tuned_is_an_error(recipes, fault):
    Path("x").mkdir()
    for name, options in recipes.items():
        recipe(name, **options)

    assert faults(name) == [fault]  # of the last recipe


# Sentences that the parsers of folds have seen


def test_folds_are_an_error_if_their_base_is_trained_on_the_same_file():
    Path("same.conllu").write_bytes(Path("own.conllu").read_bytes())
    recipe("base.toml", encoder="./encoder", treebank="other", sections=SYNTR)
    recipe("syntr.toml", encoder="base.toml", sections=SYNTR)
    recipe("rngtr.toml", encoder="./encoder", sections=f"{OVER_SYNTR}folds = 2\n")
    Path("base.toml").write_text(Path("base.toml").read_text().replace("other.conllu", "same.conllu"))

    assert faults("rngtr.toml") == [
        "[initial] folds: the base model of the parsers is trained on own.conllu, so they would parse "
        "sentences that they have seen. Remove that treebank from the base recipe, or set folds = 0."
    ]


# Initial parsers


def test_the_initial_parser_uses_the_sentences_and_the_seed_of_the_main_recipe():
    recipe("syntr.toml", encoder="./encoder", treebank="other", sections=SYNTR)

    sections = f"{OVER_SYNTR}folds = 2\n[training]\nseed = 7\n"
    prepared = prepare(recipe("rngtr.toml", encoder="./encoder", sections=sections))

    assert (prepared.initial.treebank, prepared.initial.training.seed) == (prepared.recipe.treebank, 7)


def test_parses_in_files_are_read_with_their_checksums():
    for part in ("", "-dev"):
        Path(f"third{part}.conllu").write_bytes(Path(f"own{part}.conllu").read_bytes())
    sections = '[initial]\nparser = "files"\ntrain = "third.conllu"\ndev = "third-dev.conllu"\n'

    prepared = prepare(recipe("files.toml", encoder="./encoder", sections=sections))

    assert list(prepared.data.checksums) == ["own.conllu", "own-dev.conllu", "third.conllu", "third-dev.conllu"]
    assert [len(parses) for parses in prepared.parses] == [20, 6]


@pytest.mark.parametrize(
    ("initial", "expected"),
    [
        ('parser = "inner.toml"', "inner.toml: [training] epohcs is unknown; did you mean epochs?"),
        ('parser = "syntr.toml"\nfolds = 50', "[initial] folds = 50 is too many for 20 sentences."),
        ('parser = "nested.toml"', f"nested.toml: {NO_INITIAL}"),
        ('parser = "./model"\nfolds = 2', "[initial] folds = 2 needs a recipe as parser, not a model."),
        ('parser = "files"\ntrain = "other.conllu"\ndev = "gone.conllu"', "other.conllu:4: (weblog-juancole.co"),
        ('parser = "files"\ntrain = "own.conllu"\ndev = "gone.conllu"', "gone.conllu: There is no such file."),
    ],
)
def test_faults_of_an_initial_parser_are_reported(initial, expected):
    recipe("inner.toml", encoder="./none", sections=SYNTR + "[training]\nepohcs = 1\n")
    recipe("syntr.toml", encoder="./encoder", sections=SYNTR)
    recipe("nested.toml", encoder="./encoder", sections=OVER_SYNTR)
    Parser(tiny_syntr(), device="cpu").save("model")

    found = faults(recipe("rngtr.toml", encoder="./encoder", sections=f"[initial]\n{initial}\n"))

    assert [fault[: len(expected)] for fault in found] == [expected]
