"""Everything that a recipe names is checked before training: its base model, initial parsers, and folds."""

from pathlib import Path

import pytest

from tests.support.tiny import sample, tiny_syntr, write_encoder
from tests.support.trainings import SYNTR
from treefine.errors import ConfigError
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
    with pytest.raises(ConfigError) as caught:
        prepare(name)
    return str(caught.value).splitlines()


# Base models


def test_the_base_of_an_initial_parser_is_read_with_its_own_sentences():
    recipe("base.toml", encoder="./encoder", treebank="other", sections=SYNTR)
    recipe("syntr.toml", encoder="base.toml", sections=SYNTR)
    recipe("rngtr.toml", encoder="./encoder", sections='[initial]\nparser = "syntr.toml"\nfolds = 2\n')

    prepared = prepare("rngtr.toml")

    assert (base_of(prepared.recipe), base_of(prepared.initial[""])) == ("", "base.toml")
    assert list(prepared.bases) == ["base.toml"]
    base = prepared.bases["base.toml"]
    assert [each.forms for each in base.data.train] == [each.forms for each in sample()[30:50]]
    assert prepared.initial[""].treebank == prepared.recipe.treebank != base.recipe.treebank


def test_faults_of_all_files_and_recipes_are_reported_together():
    recipe("base.toml", encoder="./none", treebank="nowhere")
    recipe("syntr.toml", encoder="base.toml", sections=SYNTR)
    recipe("other.toml", encoder="./encoder", sections=SYNTR + "[tags]\nsorce = 1\n")
    sections = '[initial]\nparser = "syntr.toml"\n' + mix(other='parser = "other.toml"')

    assert faults(recipe("rngtr.toml", encoder="$NO/base.toml", treebank="missing", sections=sections)) == [
        "missing.conllu: There is no such file.",
        "missing-dev.conllu: There is no such file.",
        "$NO/base.toml needs the environment variable NO. Set it to a folder: NO=FOLDER treefine train …",
        "./none: There is no such model folder.",
        "nowhere.conllu: There is no such file.",
        "nowhere-dev.conllu: There is no such file.",
        "other.toml: [tags] sorce is unknown; did you mean source?",
    ]


APART = "Train it separately, and name its model folder."
CHAIN = f"A base recipe must start from an encoder or a model, not from another recipe. {APART}"
NO_INITIAL = f"A base recipe must not have an initial parser. {APART}"
NO_MODEL = "This is an encoder, not a treefine model. Set pretrained, not fine_tune_from, in [encoder]."
OTHER = {"encoder": "./encoder", "treebank": "other"}
OVER_SYNTR = '[initial]\nparser = "syntr.toml"\n'
OVER_MIX = '[initial.mix.more]\nparser = "empty"\nshare = 0.1\n'


@pytest.mark.parametrize(
    ("recipes", "fault"),
    [
        ({"a.toml": OTHER, "b.toml": {"encoder": "a.toml"}, "c.toml": {"encoder": "b.toml"}}, f"b.toml: {CHAIN}"),
        ({"self.toml": {"encoder": "self.toml"}}, "self.toml: The recipe fine-tunes itself."),
        ({"rngtr.toml": {"encoder": '[encoder]\nfine_tune_from = "./encoder"\n'}}, f"encoder: {NO_MODEL}"),
        (
            {"base.toml": {**OTHER, "sections": OVER_MIX}, "rngtr.toml": {"encoder": "base.toml"}},
            f"base.toml: {NO_INITIAL}",
        ),
        (
            {
                "base.toml": OTHER,
                "x/base.toml": {**OTHER, "sections": SYNTR},
                "syntr.toml": {"encoder": "x/base.toml", "sections": SYNTR},
                "rngtr.toml": {"encoder": "base.toml", "sections": OVER_SYNTR},
            },
            "x/base.toml and base.toml: Two base recipes need different file names.",
        ),
    ],
    ids=["chain", "itself", "encoder", "mix", "one name"],
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
        "[initial] folds: the parsers fine-tune base.toml, which is trained on own.conllu, so they would parse "
        "sentences that they have seen. Remove that treebank from the base recipe, or set folds = 0."
    ]


# A mix


def mix(**sources):
    """Return the sections of a mix; each source has a share of 0.1."""
    return "[initial.mix]\n" + "".join(f"{name} = {{share = 0.1, {each}}}\n" for name, each in sources.items())


def test_recipes_in_a_mix_use_the_sentences_and_the_seed_of_the_main_recipe():
    recipe("syntr.toml", encoder="./encoder", treebank="other", sections=SYNTR)
    Path("third.conllu").write_bytes(Path("own.conllu").read_bytes())
    Path("third-dev.conllu").write_bytes(Path("own-dev.conllu").read_bytes())
    third = 'parser = "files", train = "third.conllu", dev = "third-dev.conllu"'
    sections = mix(syntr='parser = "syntr.toml", folds = 2', third=third) + "[training]\nseed = 7\n"

    prepared = prepare(recipe("mixed.toml", encoder="./encoder", sections=sections))

    assert list(prepared.initial) == ["syntr"]
    assert prepared.initial["syntr"].treebank == prepared.recipe.treebank
    assert prepared.initial["syntr"].training.seed == 7
    assert list(prepared.data.checksums) == ["own.conllu", "own-dev.conllu", "third.conllu", "third-dev.conllu"]


def test_faults_of_all_sources_of_a_mix_come_in_one_report():
    recipe("inner.toml", encoder="./none", sections=SYNTR + "[training]\nepohcs = 1\n")
    recipe("nested.toml", encoder="./encoder", sections=mix(more='parser = "empty"'))
    Parser(tiny_syntr(), device="cpu").save("model")
    sections = mix(
        inner='parser = "inner.toml", folds = 50',
        nested='parser = "nested.toml"',
        folded='parser = "./model", folds = 2',
        absent='parser = "nowhere/model"',
        files='parser = "files", train = "other.conllu", dev = "gone.conllu"',
    )

    *found, absent, other, gone = faults(recipe("mixed.toml", encoder="./encoder", sections=sections))

    assert [*found, gone] == [
        "inner.toml: [training] epohcs is unknown; did you mean epochs?",
        "[initial.mix.inner] folds = 50 is too many for 20 sentences.",
        "nested.toml: The recipe of an initial parser must not have an initial parser. "
        "Train it separately, and name its model folder.",
        "[initial.mix.folded] folds = 2 needs a recipe as parser, not the model ./model.",
        "gone.conllu: There is no such file.",
    ]
    assert "nowhere/model" in absent
    assert other.startswith("other.conllu:")
    assert "The text differs from" in other
