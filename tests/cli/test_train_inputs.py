"""The train command with every treebank format, with and without tags, and with files of initial parses."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.support.tiny import read_config, sample
from tests.support.train_commands import (
    BIAFFINE,
    RNGTR,
    changes,
    epoch_lines,
    run,
    training_errors,
    try_hint,
    write_files,
)
from treefine.config import COLUMNS
from treefine.treebank.conllu import convert_treebank, write_treebank
from treefine.treebank.formats import CONLL09, CONLLX

TRAIN, DEV = sample(20), sample(26)[20:]
QUICK = changes("training.epochs=1", "refine.max_steps=1")
FILES = changes("initial.parser=files", "initial.train=parses.conllu", "initial.dev=dev-parses.conllu")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(has_encoder=True)


def blank(*columns, sentences=TRAIN):
    """Return the sentences with these columns blank."""
    return [each.with_tags(**{column: ["_"] * len(each) for column in columns}) for each in sentences]


def write_conll09(suffix="conll09"):
    """Write both treebanks as CoNLL-2009; return the settings that name them."""
    for name, sentences in (("train", TRAIN), ("dev", DEV)):
        convert_treebank(sentences, f"{name}.{suffix}", CONLL09)
    return changes(f'treebank.train=["train.{suffix}"]', f"treebank.dev=dev.{suffix}", "treebank.rule=conll09")


def write_parses():
    """Write parses of both treebanks, here with the gold trees."""
    for name, sentences in (("parses.conllu", TRAIN), ("dev-parses.conllu", DEV)):
        write_treebank(sentences, name)


# Tags


NO_TAGS = "[tags] No training word has a value in {}. Set tags.source=none"
NO_UPOS = NO_TAGS.format("UPOS")


@pytest.mark.parametrize("recipe", ["rngtr.toml", "biaffine.toml"])
@pytest.mark.parametrize("source", ["given", "predicted"])
def test_missing_tags_are_reported(recipe, source):
    write_treebank(blank(*COLUMNS), "train.conllu")

    assert training_errors(recipe, *changes(f"tags.source={source}")) == [f"{NO_UPOS}."]
    run(recipe, "--output", "out", *QUICK, *changes("tags.source=none"))


@pytest.mark.parametrize(
    ("without", "columns", "other"),
    [("upos", ["upos"], "xpos"), ("xpos", ["upos", "xpos"], "upos"), ("lemma", ["lemma"], "feats")],
    ids=["the only column", "one of two", "lemmas"],
)
def test_the_column_that_has_tags_is_named(without, columns, other):
    write_treebank(blank(*(each for each in COLUMNS if each != other)), "train.conllu")

    assert training_errors("rngtr.toml", *changes(f"tags.columns={json.dumps(columns)}")) == [
        f'{NO_TAGS.format(without.upper())}, or tags.columns=["{other}"].'
    ]
    run("rngtr.toml", "--output", "out", *QUICK, *changes(f'tags.columns=["{other}"]'))


def test_a_single_tag_is_enough():
    write_treebank([*TRAIN[:1], *blank("upos", sentences=TRAIN[1:])], "train.conllu")

    run("rngtr.toml", "--output", "out", *QUICK)

    assert Path("out/model").is_dir()


def test_conll_2009_has_no_upos():
    settings = write_conll09()

    assert training_errors("rngtr.toml", *settings, "--set", "tags.source=given") == [
        f'{NO_UPOS}, or tags.columns=["xpos", "feats", "lemma"].'
    ]
    result = run("rngtr.toml", "--output", "out", *QUICK, *settings)
    assert "It will predict XPOS tags, features and lemmas; its input needs none.\n" in result.stderr
    assert "It will not predict UPOS tags: the treebank has none.\n" in result.stderr


def test_a_treebank_without_features_and_lemmas_gives_a_parser_without_them():
    write_treebank(blank("feats", "lemma"), "train.conllu")

    result = run("rngtr.toml", "--output", "out", *QUICK)

    assert "It will predict UPOS and XPOS tags; its input needs none.\n" in result.stderr
    assert "It will not predict features and lemmas: the treebank has none.\n" in result.stderr
    assert read_config(Path("out/model"))["tags"]["columns"] == ["upos", "xpos"]


def test_missing_tags_of_all_recipes_are_reported_with_the_other_errors():
    write_treebank(blank(*COLUMNS), "train.conllu")
    given = '[tags]\nsource = "given"\n'
    Path("base.toml").write_text(RNGTR + given)
    Path("biaffine.toml").write_text(BIAFFINE + given)
    Path("next.toml").write_text(
        RNGTR.replace('pretrained = "./encoder"', 'fine_tune_from = "base.toml"')
        + '[initial]\nparser = "biaffine.toml"\n'
        + given
    )

    assert training_errors("next.toml", *changes("training.epohcs=1")) == [
        "next.toml: [training] epohcs is unknown; did you mean epochs?",
        f"{NO_UPOS}.",
        f"base.toml: {NO_UPOS}.",
        f"biaffine.toml: {NO_UPOS}.",
    ]


# Formats


def test_folds_of_conll_2009_are_parsed_and_read_back():
    settings = write_conll09()
    xpos = '[tags]\ncolumns = ["xpos"]\n'
    Path("biaffine.toml").write_text(BIAFFINE.replace("epochs = 2", "epochs = 1") + xpos)
    Path("rngtr.toml").write_text(RNGTR + xpos + '[initial]\nparser = "biaffine.toml"\nfolds = 2\n')

    result = run("rngtr.toml", "--output", "out", *settings, *QUICK)

    assert [line.partition(", ")[0] for line in epoch_lines(result)] == [
        *("initial parser", "fold 1 of 2", "fold 2 of 2", "epoch 1 of 1")
    ]


WITH_FORMAT = changes("treebank.format=conll09", "tags.source=none")


@pytest.mark.parametrize(
    ("suffix", "others"), [("tab", WITH_FORMAT), ("conll09", [])], ids=["format of the treebank", "format of the name"]
)
def test_initial_parses_have_the_given_format_or_the_format_of_their_name(suffix, others):
    settings = write_conll09(suffix)
    initial = changes("initial.parser=files", f"initial.train=train.{suffix}", f"initial.dev=dev.{suffix}")

    run("rngtr.toml", "--output", "out", *QUICK, *(settings if others else ()), *initial, *others)

    assert Path("out/model").is_dir()


def test_a_fold_can_have_sentences_of_several_formats():
    convert_treebank(TRAIN[:5], "some.conllx", CONLLX)
    Path("biaffine.toml").write_text(BIAFFINE.replace("epochs = 2", "epochs = 1"))
    settings = changes('treebank.train=["some.conllx", "train.conllu"]', "initial.parser=biaffine.toml")

    run("rngtr.toml", "--output", "out", *settings, *QUICK, *changes("initial.folds=2"))

    assert Path("out/model").is_dir()


# Files of initial parses


@pytest.mark.parametrize("changed", ["parses.conllu", "dev-parses.conllu"])
def test_resume_needs_the_same_initial_parses(changed):
    write_parses()
    run("rngtr.toml", "--output", "out", *QUICK, *FILES)
    Path(changed).write_text(Path(changed).read_text() + "\n")

    (line,) = training_errors("rngtr.toml", "--resume", *QUICK, *FILES)

    assert f"a different recipe: the content of {changed} has changed. Use" in line


def test_the_card_of_a_model_trained_on_files_has_their_checksums_and_says_how_to_parse():
    write_parses()

    result = run("rngtr.toml", "--output", "out", *QUICK, *FILES, *changes("treebank.test=dev.conllu"))

    arguments, _ = try_hint(result)
    assert arguments == ["refine", "--model", "out/model", "dev-parses.conllu", "-o", "refined.conllu"]
    card = Path("out/model/README.md").read_text()
    for name in ("train.conllu", "dev.conllu", "parses.conllu", "dev-parses.conllu"):
        assert f"{hashlib.sha256(Path(name).read_bytes()).hexdigest()}  {name}\n" in card
    assert "treefine parse --model THIS_FOLDER --initial PARSES.conllu in.conllu -o out.conllu\n" in card
    assert "\n- test: not measured\n" in card  # the dev scores start from the files
    assert list(json.loads(Path("out/recipe.json").read_text())["checksums"]) == [
        *("train.conllu", "dev.conllu", "parses.conllu", "dev-parses.conllu")
    ]


def test_the_card_of_a_model_without_initial_parses_does_not_mention_files():
    run("rngtr.toml", "--output", "out", *QUICK)

    assert "--initial" not in Path("out/model/README.md").read_text()


def test_missing_initial_parses_are_reported_once():
    assert training_errors("rngtr.toml", *FILES) == [
        "parses.conllu: There is no such file.",
        "dev-parses.conllu: There is no such file.",
    ]


# Empty names


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            "encoder.pretrained=",
            "[encoder] pretrained is empty; name the folder of an encoder, or its name on the hub.",
        ),
        ("treebank.dev=", "[treebank] dev must name at least one file, without empty names."),
        ('treebank.train=["train.conllu", ""]', "[treebank] train must name at least one file, without empty names."),
        ("initial.parser=", '[initial] parser is empty; choose "empty", "files", a recipe or a model folder.'),
    ],
)
def test_an_empty_name_is_reported_with_its_key(change, fault):
    assert training_errors("rngtr.toml", *changes(change)) == [f"rngtr.toml: {fault}"]


def test_an_empty_variable_is_reported_like_a_missing_one(monkeypatch):
    monkeypatch.setenv("FOLDER", "")

    (line,) = training_errors("rngtr.toml", *changes("encoder.pretrained=$FOLDER"))

    assert line.startswith("$FOLDER needs the environment variable FOLDER.")
