"""Recipes as people write them: any file gives a recipe or a clear report."""

import json
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine.config import read_settings
from treefine.errors import ConfigError
from treefine.training.prepare import SIZES, fine_tuning_recipe
from treefine.training.recipe import (
    BUNDLED_RECIPES,
    TEMPLATES,
    InitialSettings,
    PretrainedSettings,
    Recipe,
    TreebankSettings,
    _toml_lines,
    find_recipe,
    read_recipe,
    recipe_of,
    recipe_toml,
    values_of,
    write_template,
)

SYNTR = {
    "treebank": {"train": ["train.conllu"], "dev": "dev.conllu"},
    "encoder": {"family": "pretrained", "pretrained": "encoder"},
    "relations": {"graph": "none"},
    "refine": {"max_steps": 1},
}
RNGTR = {name: SYNTR[name] for name in ("treebank", "encoder")}
FILES = {"parser": "files", "train": "a.conllu", "dev": "b.conllu"}
OVER_X = {"parser": "x.toml", "folds": 2}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a recipe into the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(values, name="run.toml"):
        Path(name).write_text("\n".join(_toml_lines(values)), encoding="utf-8")
        return name

    return write


def faults_of(name, changes=()):
    with pytest.raises(ConfigError) as caught:
        read_recipe(name, changes)
    return str(caught.value).splitlines()


# Reading


def test_omitted_settings_have_the_values_of_the_paper(written):
    recipe = read_recipe(written(RNGTR))

    optimiser = recipe.optimiser
    assert (optimiser.learning_rate, optimiser.encoder_learning_rate, optimiser.eps) == (2e-3, 1e-5, 1e-5)
    assert (optimiser.betas, optimiser.weight_decay, optimiser.clip_gradient_norm) == ((0.9, 0.999), 0.01, 1.0)
    assert (recipe.refine.max_steps, recipe.refine.stop) == (4, True)
    assert (recipe.initial.parser, recipe.initial.folds) == ("empty", 0)


def test_the_number_of_steps_depends_on_the_initial_graph(written):
    refining = read_recipe(written(RNGTR | {"initial": {"parser": "x.toml"}}))
    without_graph = read_recipe(written(SYNTR | {"refine": {}}))
    chosen = read_recipe(written(RNGTR | {"refine": {"max_steps": 2}}))

    assert [each.refine.max_steps for each in (refining, without_graph, chosen)] == [3, 1, 2]


@pytest.mark.parametrize("files", ["a.conllu", ["a.conllu", "b.conllu"]])
def test_files_are_one_name_or_a_list(written, files):
    expected = (files,) if isinstance(files, str) else tuple(files)

    treebank = read_recipe(written(RNGTR | {"treebank": dict.fromkeys(("train", "dev", "test"), files)})).treebank
    changed = read_recipe(written(RNGTR), [f"treebank.train={json.dumps(files)}"]).treebank

    assert treebank.train == treebank.dev == treebank.test == changed.train == expected


def test_a_recipe_as_json_and_as_toml_is_read_back(written):
    recipe = read_recipe(written(RNGTR | {"title": 'a "b"', "initial": OVER_X | {"decided_share": 0.2}}))

    assert read_settings(Recipe, json.loads(json.dumps(asdict(recipe)))) == recipe
    odd = replace(recipe, title="DEL \x7f, a line\nbreak")
    Path("again.toml").write_text(recipe_toml(odd), encoding="utf-8")
    assert read_recipe("again.toml") == odd


@pytest.mark.parametrize("path", sorted(BUNDLED_RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_bundled_recipe_and_its_initial_parsers_can_be_read(path):
    recipe = read_recipe(path.stem)

    assert recipe.title
    if recipe.initial.parser != "empty":
        assert read_recipe(recipe.initial.parser).initial == InitialSettings()


def test_a_recipe_in_the_working_folder_takes_precedence_over_a_bundled_one(written):
    bundled = min(BUNDLED_RECIPES.glob("*.toml"))

    assert find_recipe(written(SYNTR, bundled.name)) == Path(bundled.name)


def test_an_unknown_recipe_is_an_error_that_lists_the_bundled_ones(written):
    names = ", ".join(sorted(path.stem for path in BUNDLED_RECIPES.glob("*.toml")))

    assert faults_of("nowhere") == [f"There is no recipe 'nowhere'. Name a TOML file, or one of {names}."]


def test_other_recipes_are_found_in_the_same_folder_and_shown_without_it(written, monkeypatch):
    monkeypatch.setenv("ELSE", "else")
    Path("recipes").mkdir()
    for name in ("x", "base", "teacher"):
        written(SYNTR, f"recipes/{name}.toml")
    values = {"encoder": {"fine_tune_from": "base.toml"}, "initial": OVER_X}
    written(RNGTR | values, "recipes/rngtr.toml")
    written(RNGTR | {"teacher": {"recipes": ["teacher.toml", "$ELSE/where.toml"]}}, "recipes/student.toml")

    recipe, student = read_recipe("recipes/rngtr.toml"), read_recipe("recipes/student.toml")

    assert recipe.encoder.fine_tune_from == "recipes/base.toml"
    assert recipe.initial == InitialSettings("recipes/x.toml", folds=2)
    assert student.teacher.recipes == ("recipes/teacher.toml", "else/where.toml")
    assert values_of(recipe)["initial"]["parser"] == "x.toml"


# Changes


toml_values = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\x7f")),  # JSON keeps DEL unchanged, TOML rejects it
)


def test_a_change_may_be_a_section_or_a_setting_and_the_last_one_wins(written):
    name = written(RNGTR | {"training": {"seed": 7}, "initial": OVER_X})

    folds = ["initial.folds=3", "initial.folds=4"]
    changed = read_recipe(name, ["training={epochs = 5}", "segmenter.network.run_layers=1", *folds])

    assert (changed.training.epochs, changed.training.seed) == (5, 1)
    assert (changed.segmenter.network.run_layers, changed.initial.folds) == (1, 4)
    assert read_recipe(name, ["initial={}"]).initial == InitialSettings()


def test_a_change_replaces_the_encoder_by_a_model_to_fine_tune(written):
    name = written(RNGTR)

    assert read_recipe(name, ["encoder.fine_tune_from=base.toml"]).encoder.start == "base.toml"
    assert read_recipe(name, ["encoder.fine_tune_from=a", "encoder.pretrained=b"]).encoder.start == "b"


# Faults


NO_GRAPH = {"relations": {"graph": "none"}}


@pytest.mark.parametrize(
    ("section", "faults"),
    [
        (
            {"treebank": {"train": [], "dev": "-", "format": "csv"}},
            [
                "[treebank] train must name at least one file, without empty names.",
                "[treebank] standard input cannot be read more than once; name a file.",
                '[treebank] format = "csv"; choose one of conllu, conllx, conll09, conll09-predicted, or leave it out.',
            ],
        ),
        (
            NO_GRAPH | {"initial": {"parser": "x.toml"}, "refine": {"max_steps": 2}},
            [
                "a model that reads no graph takes only one step: set max_steps = 1 in [refine].",
                "a model that reads no graph has no initial parse: remove [initial].",
            ],
        ),
        (
            {"relations": {"decided": True}, "initial": {"decided_share": 0.6, "corrected_share": 0.5}},
            ["[initial] decided_share and corrected_share must not sum to more than 1."],
        ),
        (
            {"initial": {"folds": 1, "parser": "x.toml", "train": "x"}},
            [
                "[initial] folds = 1 leaves nothing to train on; choose 0, or at least 2.",
                '[initial] train and dev must be set if parser = "files", and only then.',
            ],
        ),
        (
            {"treebank": SYNTR["treebank"] | {"sentences": 20}, "initial": FILES},
            ['sentences must be 0 if the initial parser is "files", which parse all sentences.'],
        ),
        (
            {"initial": {"parsr": "x.toml"}, "segmenter": {"network": 5}},
            [
                "[initial] parsr is unknown; did you mean parser?",
                "[segmenter.network] 5 is not a section of settings.",
            ],
        ),
        (
            {"encoder": {"pretrained": "a", "fine_tune_from": "b"}},
            ["[encoder] set either pretrained (an encoder) or fine_tune_from (a treefine model or a recipe)."],
        ),
        ({"decode": {"root_label": "root"}}, ["[decode] root_label is read from the treebank; remove it."]),
        (
            {"tags": {"columns": ["upos", "xpos", "xpos"], "given": ["upos", "lemma"]}},
            [
                "[tags] columns lists a column twice.",
                "[tags] given has lemma, which columns lacks; add it there, or remove it from given.",
            ],
        ),
        (
            {"teacher": {"recipes": "x.toml", "models": "x", "weight": 1.5}},
            ["[teacher] set either recipes or models.", "[teacher] weight = 1.5; it must be at most 1."],
        ),
        (
            {"teacher": {"models": "x"}, "initial": {"parser": "y.toml"}},
            ["teachers start from an empty graph: remove parser from [initial], or remove [teacher]."],
        ),
        ({"segmenter": {"wrapped": 0.6, "lines": 0.6}}, ["[segmenter] wrapped and lines must not sum to more than 1."]),
    ],
)
def test_faults_are_reported_with_their_section(written, section, faults):
    assert faults_of(written(RNGTR | section)) == [f"run.toml: {fault}" for fault in faults]


def test_faults_of_changes_and_of_the_file_come_in_one_report(written):
    name = written(RNGTR | {"training": {"sed": 1, "epochs": "many"}})

    assert faults_of(name, ["training", "training.epochs.x=1"]) == [
        "--set 'training' is not a change. Write SECTION.KEY=VALUE, such as training.seed=2.",
        "--set 'training.epochs.x=1': epochs is a value, not a section.",
        "run.toml: [training] sed is unknown; did you mean seed?",
        'run.toml: [training] epochs = "many"; it must be a whole number.',
    ]


@pytest.mark.parametrize("content", [b"x", b"\xff", b"x = " + b"[" * 9999])
def test_a_file_that_is_not_toml_is_reported(written, content):
    Path("run.toml").write_bytes(content)

    (fault,) = faults_of("run.toml")

    assert fault.startswith("run.toml: This is not valid TOML: ")


sections = {each.name: get_type_hints(Recipe)[each.name] for each in fields(Recipe)}
keys = sorted({each.name for kind in sections.values() if is_dataclass(kind) for each in fields(kind)})
contents = st.dictionaries(
    st.one_of(st.sampled_from(list(sections)), st.text(max_size=3)),
    st.one_of(
        toml_values,
        st.dictionaries(
            st.one_of(st.sampled_from(keys), st.text(max_size=3)),
            st.one_of(toml_values, st.lists(toml_values, max_size=2)),
        ),
    ),
)


@given(values=contents, is_complete=st.booleans())
def test_any_values_give_a_recipe_or_a_report_of_lines_with_the_name_of_the_file(values, is_complete):
    try:
        found = recipe_of((RNGTR | values) if is_complete else values, path=Path("any.toml"))
    except ConfigError as error:
        found = error

    if isinstance(found, ConfigError):
        assert all(line.startswith("any.toml: ") for line in str(found).split("\n"))
    else:
        assert read_settings(Recipe, asdict(found)) == found


# Templates, and settings by the size of a treebank


@pytest.mark.parametrize("kind", TEMPLATES)
def test_each_template_is_a_valid_recipe_and_its_commented_settings_have_their_defaults(kind, tmp_path):
    path = tmp_path / "my.toml"

    write_template(str(path), kind)

    recipe = read_recipe(path)
    assert recipe.training.epochs == recipe.training.patience
    lines = [
        line[1:] if line.startswith("#") and line[1:2].isalpha() else line for line in path.read_text().split("\n")
    ]
    path.write_text("\n".join(lines))
    assert replace(read_recipe(path), tags=recipe.tags) == recipe  # columns = [] are those of the treebank


def test_a_template_does_not_replace_a_file_without_force(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text("mine")

    with pytest.raises(ConfigError, match=r"my.toml: The file exists. Overwrite it with --force"):
        write_template(str(path), "empty")
    with pytest.raises(ConfigError, match=r"no kind of training 'best'. Choose one of empty, refine"):
        write_template(str(path), "best")

    write_template(str(path), "empty", force=True)
    assert read_recipe(path).initial == InitialSettings()


def test_the_settings_for_fine_tuning_suit_the_treebank_and_the_model(written, monkeypatch):
    monkeypatch.setattr("treefine.training.prepare.load_data", lambda _: SimpleNamespace(train=range(1000)))

    recipe = fine_tuning_recipe("en", ["a.conllx", "b.conllx"], "dev.conllx", ["training.seed=3"])

    assert recipe.treebank == TreebankSettings(("a.conllx", "b.conllx"), ("dev.conllx",), rule="conllx")
    assert recipe.encoder == PretrainedSettings(fine_tune_from="en")
    assert (recipe.training.epochs, recipe.training.batch_pieces, recipe.training.seed) == (10, 2000, 3)
    assert recipe.optimiser.encoder_learning_rate == 1e-4  # the width of en is 384
    assert [epochs for _, epochs, *_ in SIZES] == [3, 6, 10, 30]
