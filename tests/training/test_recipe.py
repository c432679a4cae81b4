"""Recipes as people write them: any file gives a recipe or a clear report."""

import json
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treefine.config import BiLSTMSettings, SegmenterSettings, old_names, read_settings
from treefine.errors import ConfigError, RenamedSettingWarning
from treefine.training.new_recipe import meanings
from treefine.training.recipe import (
    BUNDLED_RECIPES,
    InitialSettings,
    MixedSettings,
    PretrainedSettings,
    Recipe,
    SegmenterTraining,
    find_recipe,
    read_draft,
    read_recipe,
    values_of,
)

KINDS = (PretrainedSettings, BiLSTMSettings, MixedSettings, SegmenterTraining, SegmenterSettings)
SYNTR = {
    "treebank": {"train": ["train.conllu"], "dev": "dev.conllu"},
    "encoder": {"family": "pretrained", "pretrained": "encoder"},
    "relations": {"graph": "none"},
    "refine": {"max_steps": 1},
}
RNGTR = {name: SYNTR[name] for name in ("treebank", "encoder")}


def shown(value):
    """Return the value as TOML, which is the same as JSON for strings, numbers and lists."""
    return json.dumps(value, ensure_ascii=False)


def toml(values):
    return "\n".join(toml_lines(values)) + "\n"


def toml_lines(values, prefix=""):
    """Return the lines of a section, then those of the sections within it."""
    lines = [f"{shown(key)} = {shown(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for name, section in values.items():
        if isinstance(section, dict):
            lines += [f"[{prefix}{shown(name)}]", *toml_lines(section, f"{prefix}{shown(name)}.")]
    return lines


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a recipe into the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(values, name="run.toml"):
        Path(name).write_text(toml(values), encoding="utf-8")
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
    assert (recipe.refine.max_steps, recipe.refine.stop, recipe.refine.update) == (4, True, "each")
    assert (recipe.initial.parser, recipe.initial.folds) == ("empty", 0)


def test_the_number_of_steps_depends_on_the_initial_graph(written):
    refining = read_recipe(written(RNGTR | {"initial": {"parser": "x.toml"}}))
    without_graph = read_recipe(written(SYNTR | {"refine": {}}))
    chosen = read_recipe(written(RNGTR | {"refine": {"max_steps": 2}}))

    assert [each.refine.max_steps for each in (refining, without_graph, chosen)] == [3, 1, 2]


@pytest.mark.parametrize("files", ["a.conllu", ["a.conllu"], ["a.conllu", "b.conllu"]])
def test_files_are_one_name_or_a_list(written, files):
    expected = (files,) if isinstance(files, str) else tuple(files)

    treebank = read_recipe(written(RNGTR | {"treebank": dict.fromkeys(("train", "dev", "test"), files)})).treebank
    changed = read_recipe(written(RNGTR), [f"treebank.train={shown(files)}", "treebank.dev=c.conllu"]).treebank
    initial = read_recipe(written(RNGTR | {"initial": {"parser": "files", "train": files, "dev": files}})).initial

    assert treebank.train == treebank.dev == treebank.test == initial.train == initial.dev == expected
    assert (changed.train, changed.dev) == (expected, ("c.conllu",))


FILES = {"parser": "files", "train": "a.conllu", "dev": "b.conllu"}
MIX = {"inner": {"parser": "x.toml", "folds": 2, "share": 0.25}, "other": FILES | {"share": 0.5}}


@pytest.mark.parametrize(
    "initial", [{}, {"parser": "x.toml", "folds": 5, "noised_share": 0.5}, {"noised_share": 0.2, "mix": MIX}]
)
def test_a_recipe_as_json_is_read_back(written, initial):
    recipe = read_recipe(written(RNGTR | {"initial": initial}))

    assert read_settings(Recipe, asdict(recipe)) == recipe
    assert read_settings(Recipe, json.loads(json.dumps(asdict(recipe)))) == recipe


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in sorted(BUNDLED_RECIPES.glob("*.toml"))])
def test_every_bundled_recipe_and_its_initial_parsers_can_be_read(path):
    recipe = read_recipe(path.stem)

    assert recipe.title
    for source in (recipe.initial, *recipe.initial.mix.values()):
        if source.parser not in ("empty", "files"):
            assert read_recipe(source.parser).initial == InitialSettings()
    if isinstance(recipe.encoder, PretrainedSettings) and recipe.encoder.fine_tune_from is not None:
        assert read_recipe(recipe.encoder.fine_tune_from).encoder.pretrained.startswith("$ENCODERS/")


def test_a_recipe_in_the_working_folder_takes_precedence_over_a_bundled_one(written):
    bundled = next(iter(sorted(BUNDLED_RECIPES.glob("*.toml"))), BUNDLED_RECIPES / "none.toml")

    assert find_recipe(written(SYNTR, bundled.name)) == Path(bundled.name)


def test_an_unknown_recipe_is_an_error_that_lists_the_bundled_ones(written):
    names = ", ".join(sorted(path.stem for path in BUNDLED_RECIPES.glob("*.toml")))

    assert faults_of("nowhere") == [f"There is no recipe 'nowhere'. Name a TOML file, or one of {names}."]


def test_the_recipe_of_an_initial_parser_is_found_in_the_same_folder(written):
    Path("recipes").mkdir()
    written(SYNTR, "recipes/syntr.toml")
    written(RNGTR | {"initial": {"parser": "syntr.toml"}}, "recipes/rngtr.toml")

    assert read_recipe("recipes/rngtr.toml").initial.parser == "recipes/syntr.toml"
    assert read_recipe("recipes/rngtr.toml", ["initial.parser=syntr.toml"]).initial.parser == "syntr.toml"


def test_the_recipe_of_a_parser_in_the_mix_is_found_in_the_same_folder(written):
    Path("recipes").mkdir()
    written(SYNTR, "recipes/x.toml")
    written(RNGTR | {"initial": {"mix": MIX}}, "recipes/rngtr.toml")

    recipe = read_recipe("recipes/rngtr.toml")

    assert recipe.initial.mix["inner"] == MixedSettings("recipes/x.toml", 0.25, folds=2)
    assert values_of(recipe)["initial"]["mix"]["inner"]["parser"] == "x.toml"


def test_the_recipe_to_fine_tune_from_is_found_in_the_same_folder(written):
    Path("recipes").mkdir()
    written(SYNTR, "recipes/base.toml")
    written(RNGTR | {"encoder": {"fine_tune_from": "base.toml"}}, "recipes/rngtr.toml")

    assert read_recipe("recipes/rngtr.toml").encoder.fine_tune_from == "recipes/base.toml"


def test_the_family_of_a_pretrained_encoder_may_be_omitted(written):
    recipe = read_recipe(written(RNGTR | {"encoder": {"pretrained": "models/en"}}))

    assert recipe.encoder == PretrainedSettings("models/en")
    assert read_recipe(written(RNGTR | {"encoder": {}}), ["encoder.pretrained=models/en"]) == recipe
    assert read_recipe(written(SYNTR | {"encoder": {"family": "bilstm"}})).encoder == BiLSTMSettings()


# Changes


toml_values = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\x7f")),  # JSON keeps DEL unchanged, TOML rejects it
)


@given(
    key=st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8}){0,2}", fullmatch=True),
    value=st.one_of(toml_values, st.lists(toml_values)),
)
def test_a_change_sets_its_key_to_any_toml_value(tmp_path_factory, key, value):
    path = tmp_path_factory.getbasetemp() / "empty.toml"
    path.write_text("")

    found = read_draft(path, [f"{key}={shown(value)}"]).values

    for part in key.split("."):
        found = found[part]
    assert found == value


@given(change=st.text())
def test_any_change_is_applied_or_reported_on_one_line(tmp_path_factory, change):
    path = tmp_path_factory.getbasetemp() / "syntr.toml"
    path.write_text(toml(SYNTR))

    faults = read_draft(path, [change]).faults

    assert not any("\n" in fault for fault in faults)
    assert "=" in change or faults


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        (" 2 ", 2),
        ("", ""),
        ("models/en", "models/en"),
        ('"2"', "2"),
        ("true", True),
        ("a=b", "a=b"),
        ("[1, 2]", [1, 2]),
        ("1\nx = 2", "1\nx = 2"),
        ("1 # one", 1),
        ("[" * 9999, "[" * 9999),
        ("9" * 9999, "9" * 9999),
    ],
)
def test_a_value_that_is_not_toml_is_a_string(written, text, value):
    assert read_draft(written({}), [f"training.x={text}"]).values == {"training": {"x": value}}


def test_the_last_change_of_a_setting_wins(written):
    recipe = read_recipe(written(SYNTR | {"training": {"seed": 1}}), ["training.seed=2", "training.seed=3"])

    assert recipe.training.seed == 3


def test_a_change_may_be_a_whole_section(written):
    recipe = read_recipe(written(SYNTR | {"training": {"seed": 7}}), ["training={epochs = 5}"])

    assert (recipe.training.epochs, recipe.training.seed) == (5, 1)


def test_a_source_in_the_mix_is_changed_added_or_removed_by_its_name(written):
    name = written(RNGTR | {"initial": {"mix": MIX}})

    changed = read_recipe(name, ["initial.mix.inner.share=0.1", "initial.mix.inner.folds=3"])
    added = read_recipe(name, ["initial.mix.none={parser = 'empty', share = 0.1}", "initial.parser=y.toml"])
    removed = read_recipe(name, ["initial.mix={}"])

    assert changed.initial.mix["inner"] == MixedSettings("x.toml", 0.1, folds=3)
    assert added.initial.mix.keys() == {"inner", "other", "none"}
    assert removed.initial == InitialSettings()


# Faults


@pytest.mark.parametrize(
    ("section", "faults"),
    [
        (
            {"treebank": {"train": [], "dev": "x"}},
            ["[treebank] train must name at least one file, without empty names."],
        ),
        (
            {"treebank": {"train": ["x"], "dev": "x", "format": "csv"}},
            ['[treebank] format = "csv"; choose one of conllu, conllx, conll09, conll09-predicted, or leave it out.'],
        ),
        (
            {"treebank": {"train": ["-"], "dev": "x"}},
            ["[treebank] standard input cannot be read more than once; name a file."],
        ),
        (
            {"encoder": {"family": "bilstm"}, "refine": {"max_steps": 2}},
            [
                'a BiLSTM cannot read a graph: set graph = "none" in [relations].',
                "a model that reads no graph takes only one step: set max_steps = 1 in [refine].",
            ],
        ),
        (
            {"relations": {"graph": "none"}, "initial": {"parser": "x.toml"}, "refine": {"max_steps": 2}},
            [
                "a model that reads no graph takes only one step: set max_steps = 1 in [refine].",
                "a model that reads no graph has no initial parse: remove [initial].",
            ],
        ),
        (
            {"relations": {"decided": True}},
            ["decided arcs must be learned: set decided_share or corrected_share in [initial]."],
        ),
        (
            {"initial": {"corrected_share": 0.5}, "refine": {"max_steps": 1}},
            ["corrected_share needs a second step: set max_steps in [refine] to 2 or more."],
        ),
        (
            {"initial": {"decided_share": 0.6, "corrected_share": 0.5}},
            ["[initial] decided_share and corrected_share must not sum to more than 1."],
        ),
        (
            {"initial": {"empty_share": 0.6, "noised_share": 0.5, "noise": 2}},
            [
                "[initial] empty_share and noised_share must not sum to more than 1.",
                "[initial] noise = 2.0; it must be at most 1.",
            ],
        ),
        (
            {"initial": {"folds": 1, "parser": "x.toml"}},
            ["[initial] folds = 1 leaves nothing to train on; choose 0, or at least 2."],
        ),
        ({"initial": {"folds": 2}}, ['[initial] folds = 2 needs a recipe as parser, not "empty".']),
        (
            {"treebank": SYNTR["treebank"] | {"sentences": 20}, "initial": FILES},
            ['sentences must be 0 if an initial parser is "files", which parse all sentences.'],
        ),
        (
            {"treebank": SYNTR["treebank"] | {"sentences": -1}},
            ["[treebank] sentences = -1; it must not be negative."],
        ),
        ({"initial": {"train": "x"}}, ['[initial] train and dev must be set if parser = "files", and only then.']),
        (
            {"initial": {"train": "x", "dev": "x"}},
            ['[initial] train and dev must be set if parser = "files", and only then.'],
        ),
        (
            {"initial": {"parser": "files", "dev": "x"}},
            ['[initial] train and dev must be set if parser = "files", and only then.'],
        ),
        (
            {"initial": {"noised_share": 0.3, "mix": MIX}},
            ["[initial] empty_share, noised_share and the shares in mix must not sum to more than 1."],
        ),
        (
            {"initial": {"mix": {"a": {"parser": "x.toml", "shar": 1}, "b": {"share": 2}, "c": 5}}},
            [
                "[initial.mix.c] 5 is not a section of settings.",
                "[initial.mix.a] shar is unknown; did you mean share?",
                "[initial.mix.a] share is missing.",
                "[initial.mix.b] parser is missing.",
            ],
        ),
        (
            {"initial": {"mix": {"a": {"parser": "empty", "share": 0, "folds": 2}, "b": FILES | {"share": -1}}}},
            [
                '[initial.mix.a] folds = 2 needs a recipe as parser, not "empty".',
                "[initial.mix.a] share = 0; it must be above 0 (or remove this source).",
                "[initial.mix.b] share = -1; it must not be negative.",
            ],
        ),
        (
            {"initial": {"mix": {"a": {"parser": "files", "share": 1, "dev": "x"}}}},
            ['[initial.mix.a] train and dev must be set if parser = "files", and only then.'],
        ),
        ({"initial": {"mix": 5}}, ["initial.mix = 5; it must be a table."]),
        (
            {"initial": {"mix": {"a-b": {"parser": "empty", "share": 1}}}},
            ["[initial] a name in mix must consist of the letters a to z, digits and _."],
        ),
        (
            {"initial": {"mix": {"empty": {"parser": "empty", "share": 1}}}},
            ["[initial] mix.empty has the name of the main parser; choose another name."],
        ),
        (
            {"relations": {"graph": "none"}, "refine": {"max_steps": 1}, "initial": {"mix": MIX}},
            ["a model that reads no graph has no initial parse: remove [initial]."],
        ),
        (
            {"optimiser": {"betas": [0.9], "ema": 1, "warmup": 1.5}},
            [
                "[optimiser] betas must be two numbers below 1.",
                "[optimiser] ema = 1.0; it must be below 1.",
                "[optimiser] warmup = 1.5; it must be at most 1.",
            ],
        ),
        (
            {"training": {"epochs": 0, "batch_pieces": 0, "weight_averaging": 0, "dev_every": 0}},
            [
                f"[training] {name} = 0; it must be at least 1."
                for name in ("epochs", "batch_pieces", "weight_averaging", "dev_every")
            ],
        ),
        ({"training": {"masking": 1}}, ["[training] masking = 1.0; it must be below 1."]),
        ({"encoder": {}}, ["[encoder] family is missing."]),
        ({"training": {"rule": "x"}}, ["[training] rule is unknown."]),
        ({"decode": {"root_label": "ROOT"}}, ["[decode] root_label is read from the treebank; remove it."]),
        ({"trainig": {}}, ["trainig is unknown; did you mean training?"]),
        ({"title": 5}, ["title = 5; it must be a string."]),
    ],
)
def test_a_fault_is_one_line_with_the_file_and_the_section(written, section, faults):
    assert faults_of(written(RNGTR | section)) == [f"run.toml: {fault}" for fault in faults]


def test_faults_of_the_file_and_of_the_changes_come_in_one_report(written):
    name = written(RNGTR | {"training": {"epochs": "many"}})

    assert faults_of(name, ["training.sed=2", "training", "training.epochs.x=1"]) == [
        "--set 'training' is not a change. Write SECTION.KEY=VALUE, such as training.seed=2.",
        "--set 'training.epochs.x=1': epochs is a value, not a section.",
        "run.toml: [training] sed is unknown; did you mean seed?",
        'run.toml: [training] epochs = "many"; it must be a whole number.',
    ]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"x", "This is not valid TOML: Expected '=' after a key in a key/value pair (at end of document)."),
        (b"x = 1\nx = 2", "This is not valid TOML: Cannot overwrite a value (at end of document)."),
        (b"\xff", "This is not valid TOML: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte."),
        (b"x = " + b"[" * 9999, "This is not valid TOML: maximum recursion depth exceeded"),
        (
            b"x = " + b"9" * 9999,
            "This is not valid TOML: Exceeds the limit (4300 digits) for integer string conversion",
        ),
    ],
)
def test_a_file_that_is_not_toml_is_reported(written, content, fault):
    Path("run.toml").write_bytes(content)

    (found,) = faults_of("run.toml")

    assert found.startswith(f"run.toml: {fault}")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("eps = 1" + "0" * 400, "1" + "0" * 400 + "; it must be at most 10,000,000."),
        ("eps = 0x" + "f" * 9999, "a value too large to show; it must be at most 10,000,000."),
        ("eps" + ".x" * 9999 + " = 1", "a value too large to show; it must be a number."),
        ("eps = 1979-05-27", '"1979-05-27"; it must be a number.'),
    ],
)
def test_a_value_of_any_size_and_kind_is_reported(written, line, shown):
    Path("run.toml").write_text(toml(RNGTR) + f"[optimiser]\n{line}\n")

    assert faults_of("run.toml") == [f"run.toml: [optimiser] eps = {shown}"]


def read_draft_or_error(path):
    try:
        return read_draft(path)
    except ConfigError as error:
        return error


@example(shares=[0.2, 0.4, 0.3, 0.1])  # whose sum is 1.0000000000000002
@given(shares=st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, 0.7]), max_size=10))
def test_shares_may_sum_to_one_but_not_more(shares):
    tenths = sum(round(10 * share) for share in shares)
    mix = {f"source{number}": MixedSettings("empty", share) for number, share in enumerate(shares)}

    if tenths > 10:
        with pytest.raises(ValueError, match="must not sum to more than 1"):
            InitialSettings(mix=mix)
    else:
        assert InitialSettings(mix=mix, noised_share=(10 - tenths) / 10).mix == mix


sections = {each.name: get_type_hints(Recipe)[each.name] for each in fields(Recipe)}
keys = sorted(
    {each.name for kind in sections.values() if is_dataclass(kind) for each in fields(kind)}
    | {each.name for each in fields(PretrainedSettings)}
    | {"folder", "rate"}
)
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


@pytest.mark.filterwarnings("ignore::treefine.errors.RenamedSettingWarning")
@given(
    content=st.one_of(
        contents.map(toml).map(str.encode), contents.map(lambda each: toml(RNGTR | each).encode()), st.binary()
    )
)
def test_any_file_gives_a_recipe_or_a_report_of_lines_with_its_name(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)

    draft = read_draft_or_error(path)

    if isinstance(draft, ConfigError):
        assert str(draft).startswith(f"{path}: This is not valid TOML: ")
    elif draft.recipe is None:
        assert draft.faults
        assert all(fault.startswith(f"{path}: ") and "\n" not in fault for fault in draft.faults)
    else:
        assert read_settings(Recipe, asdict(draft.recipe)) == draft.recipe


# Renamed settings


OLD_NAMES = sorted(old_names(Recipe))
VALUES = {"encoder.pretrained": "models/en", "encoder.fine_tune_from": "base.toml", "training.weight_averaging": 2}
EITHER = RNGTR | {"encoder": {"family": "pretrained"}}
renamed_settings = pytest.mark.parametrize(("old", "new"), OLD_NAMES)


def with_setting(values, name, value):
    section, key = name.split(".")
    return values | {section: values.get(section, {}) | {key: value}}


def value_of(recipe, name):
    section, key = name.split(".")
    return getattr(getattr(recipe, section), key)


def recipe_for(name):
    """Return the values of a valid recipe in which this setting can be set."""
    return EITHER if name.startswith("encoder.") else RNGTR


def test_the_settings_of_the_changelog_are_renamed():
    assert {("optimiser.rate", "optimiser.learning_rate"), ("training.members", "training.weight_averaging")} <= set(
        OLD_NAMES
    )
    assert {("training.hidden", "training.masking"), ("optimiser.average", "optimiser.ema")} <= set(OLD_NAMES)


@renamed_settings
def test_an_old_name_in_a_file_works_with_one_warning(written, old, new):
    value = VALUES.get(new, 0.25)
    name = written(with_setting(recipe_for(old), old, value))

    with pytest.warns(RenamedSettingWarning) as caught:
        recipe = read_recipe(name)

    assert value_of(recipe, new) == value
    section, old_key, new_key = old.split(".")[0], old.split(".")[1], new.split(".")[1]
    assert [str(each.message) for each in caught] == [f"run.toml: [{section}] {old_key} is deprecated; use {new_key}."]


@renamed_settings
@pytest.mark.parametrize("is_in_file", [False, True])
def test_an_old_name_in_a_change_works_with_one_warning(written, old, new, is_in_file):
    value = VALUES.get(new, 0.25)
    values = recipe_for(old)
    values = with_setting(values, new, "other.toml" if isinstance(value, str) else 0) if is_in_file else values

    with pytest.warns(RenamedSettingWarning) as caught:
        recipe = read_recipe(written(values), [f"{old}={value}"])

    assert value_of(recipe, new) == value
    section, old_key, new_key = old.split(".")[0], old.split(".")[1], new.split(".")[1]
    warning = f"--set {old}={value}: [{section}] {old_key} is deprecated; use {new_key}."
    assert [str(each.message) for each in caught] == [warning]


@renamed_settings
def test_an_old_and_a_new_name_together_are_a_fault(written, old, new):
    value = VALUES.get(new, 0.25)
    values = with_setting(with_setting(recipe_for(old), old, value), new, value)
    section, old_key, new_key = old.split(".")[0], old.split(".")[1], new.split(".")[1]

    assert faults_of(written(values)) == [
        f"run.toml: [{section}] {old_key} is the old name of {new_key}; remove {old_key}."
    ]


@pytest.mark.filterwarnings("ignore::treefine.errors.RenamedSettingWarning")
@renamed_settings
def test_an_old_and_a_new_name_in_two_changes_are_a_fault(written, old, new):
    value = VALUES.get(new, 0.25)

    assert faults_of(written(recipe_for(old)), [f"{old}={value}", f"{new}={value}"]) == [
        f"--set {new} and --set {old} change the same setting; remove one."
    ]


@renamed_settings
def test_settings_saved_by_an_older_version_are_read(old, new):
    value = VALUES.get(new, 0.25)
    values = with_setting(recipe_for(old), old, value)

    with pytest.warns(RenamedSettingWarning, match=f"^old.json: .* is deprecated; use {new.split('.')[1]}.$"):
        recipe = read_settings(Recipe, values, path="old.json")

    assert value_of(recipe, new) == value


def test_a_misspelt_old_name_is_reported_with_the_new_one(written):
    assert faults_of(written(RNGTR | {"training": {"memebrs": 2}})) == [
        "run.toml: [training] memebrs is unknown; did you mean weight_averaging?"
    ]


def test_the_old_folder_may_be_a_trained_model(written):
    Path("models").mkdir()
    Path("models/config.json").write_text('{"format": 1, "encoder": {}}')

    with pytest.warns(RenamedSettingWarning, match="folder is deprecated; use fine_tune_from"):
        recipe = read_recipe(written(RNGTR | {"encoder": {"folder": "models"}}))

    assert recipe.encoder == PretrainedSettings(fine_tune_from="models")


# Encoder or model


@pytest.mark.parametrize(
    ("encoder", "fault"),
    [
        ({}, "set either pretrained (an encoder) or fine_tune_from (a treefine model or a recipe)"),
        (
            {"pretrained": "a", "fine_tune_from": "b"},
            "set either pretrained (an encoder) or fine_tune_from (a treefine model or a recipe)",
        ),
        ({"pretrained": ""}, "pretrained is empty; name the folder of an encoder, or its name on the hub"),
        ({"fine_tune_from": ""}, "fine_tune_from is empty; name a treefine model or a recipe"),
        ({"pretrained": "base.toml"}, "pretrained names a recipe; set fine_tune_from to it instead"),
    ],
)
def test_a_recipe_names_either_an_encoder_or_a_model(written, encoder, fault):
    name = written(RNGTR | {"encoder": {"family": "pretrained"} | encoder})

    assert faults_of(name) == [f"run.toml: [encoder] {fault}."]


def test_a_change_replaces_the_encoder_by_a_model_to_fine_tune(written):
    name = written(RNGTR)

    assert read_recipe(name, ["encoder.fine_tune_from=base.toml"]).encoder.start == "base.toml"
    assert faults_of(name, ["encoder.fine_tune_from=a", "encoder.pretrained=b"]) == [
        "run.toml: [encoder] set either pretrained (an encoder) or fine_tune_from (a treefine model or a recipe)."
    ]


# Documentation


@pytest.mark.parametrize(
    "kind",
    [*(each for each in sections.values() if is_dataclass(each)), *KINDS],
    ids=lambda kind: kind.__name__,
)
def test_every_setting_has_a_comment_for_the_reference(kind):
    assert set(meanings(kind)) == {each.name for each in fields(kind)}
