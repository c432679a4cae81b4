import json
from dataclasses import asdict, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine.config import (
    ConfidenceSettings,
    DecodeSettings,
    ModelSettings,
    RelationSettings,
    ScorerSettings,
    TagSettings,
    TransformerSettings,
    read_settings,
)
from treefine.errors import ConfigError

SHAPE = TransformerSettings("bert", 100, 64, 2, 16, 4, 24, 16)
SHAPES = asdict(SHAPE)
ENCODER = {"encoder": SHAPES}
FAMILIES = 'choose "bert" or "roberta" or "electra" or "mpnet"'


PARTS = [TransformerSettings, RelationSettings, TagSettings, ScorerSettings, DecodeSettings]
OTHER = ModelSettings(
    SHAPE,
    RelationSettings("none", key_norm=False),
    TagSettings("predicted", ("upos", "feats"), given=("feats",), unread=("upos",)),
    ScorerSettings(arc_width=7, slope=0.0),
    DecodeSettings("ROOT", first_graph="tree"),
    sentence_layers=1,
    languages=("en",),
    calibration={"en_ewt": ConfidenceSettings(arc_temperature=2.0), "": ConfidenceSettings()},
)


@pytest.mark.parametrize("settings", [ModelSettings(SHAPE), OTHER])
def test_the_settings_of_a_model_as_json_are_read_back(settings):
    read = read_settings(ModelSettings, json.loads(json.dumps(asdict(settings))))

    assert read == settings
    assert read.reads_graph == (settings.relations.graph != "none")


def test_omitted_settings_have_the_values_of_the_paper():
    read = read_settings(ModelSettings, ENCODER)

    assert read == ModelSettings(SHAPE)
    assert (read.scorer.arc_width, read.scorer.label_width, read.scorer.dropout) == (500, 100, 0.33)  # Appendix A
    dropout = read_settings(ScorerSettings, {"dropout": 0}).dropout  # a whole number is read as a float
    assert (dropout, type(dropout)) == (0.0, float)


# Faults


def fault_of(kind, values, **place):
    with pytest.raises(ConfigError) as caught:
        read_settings(kind, values, **place)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "values", "fault"),
    [
        (ScorerSettings, {"two\nlines": 5}, '"two\\nlines" is unknown'),
        (ScorerSettings, {"arc_width": 5.0}, "arc_width = 5.0; it must be a whole number"),
        (ScorerSettings, {"arc_width": True}, "arc_width = true; it must be a whole number"),
        (ScorerSettings, {"arc_width": 0}, "arc_width = 0; it must be at least 1"),
        (ScorerSettings, {"slope": "steep\nslope"}, 'slope = "steep\\nslope"; it must be a number'),
        (ScorerSettings, {"slope": float("nan")}, "slope = NaN; it must be a number"),
        (ScorerSettings, {"dropout": 1}, "dropout = 1.0; it must be below 1"),
        (RelationSettings, {"graph": "labeled"}, 'graph = "labeled"; choose "labelled" or "unlabelled" or "none"'),
        (DecodeSettings, {"root_label": 0}, "root_label = 0; it must be a string"),
        (TagSettings, {"columns": 5}, "columns = 5; it must be a string or a list of strings"),
        (TagSettings, {"columns": []}, 'columns is empty; source = "given" needs upos, xpos, feats or lemma'),
        (ScorerSettings, ["arc_width"], '["arc_width"] is not a section of settings'),
        (ModelSettings, {}, "encoder is missing"),
        (ModelSettings, ENCODER | {"scorer": 5}, "[scorer] 5 is not a section of settings"),
        (ModelSettings, ENCODER | {"calibration": 5}, "calibration = 5; it must be a table"),
        (TransformerSettings, SHAPES | {"family": "gpt"}, f'family = "gpt"; {FAMILIES}'),
        (TransformerSettings, SHAPES | {"width": 15}, "width = 15; it must be a multiple of n_attention_heads = 4"),
        (TransformerSettings, SHAPES | {"n_layers": 1001}, "n_layers = 1001; it must be at most 1000"),
        (TransformerSettings, SHAPES | {"n_buckets": 3}, "n_buckets = 3; it must be 0 or between 4 and 511"),
        (
            ModelSettings,
            ENCODER | {"stages": [1, 3], "relations": {"first_layer": 1}},
            "stages = [1, 3]; they must increase and end at the last layer, 2",
        ),
        (
            ModelSettings,
            ENCODER | {"stages": [2, 1], "relations": {"first_layer": 1}},
            "stages = [2, 1]; they must increase and end at the last layer, 2",
        ),
        (
            ModelSettings,
            ENCODER | {"stages": [1, 2], "relations": {"first_layer": 2}},
            "relations.first_layer = 2; it must be at most 1, the first stage",
        ),
        (
            ModelSettings,
            ENCODER | {"stages": [1, 2]},
            "relations.first_layer = 0; a model with stages needs layers that read no graph: set it to 1 or more",
        ),
        (
            TransformerSettings,
            SHAPES | {"n_positions": 3},
            "n_positions = 3; it must be at least 4, for CLS, ROOT, one word and SEP",
        ),
    ],
)
def test_a_fault_is_named_with_its_section(kind, values, fault):
    assert fault_of(kind, values) == f"The settings have 1 fault: {fault}"


def test_all_faults_come_in_one_report_with_its_place():
    values = {
        "encoder": asdict(SHAPE) | {"width": -1, "widht": 2},
        "relations": {"scaled": "yes"},
        "tags": {"columns": ["deps", "misc"]},
        "decoder": {},
    }

    report = fault_of(ModelSettings, values, path="model/config.json")

    assert report == (
        "model/config.json: The settings have 6 faults: decoder is unknown; did you mean decode?; "
        "[encoder] widht is unknown; did you mean width?; [encoder] width = -1; it must not be negative; "
        '[relations] scaled = "yes"; it must be true or false; '
        '[tags] columns = "deps"; choose "upos" or "xpos" or "feats" or "lemma"; '
        '[tags] columns = "misc"; choose "upos" or "xpos" or "feats" or "lemma"'
    )


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)


@given(data=st.data())
def test_any_json_gives_settings_or_a_report_on_one_line(data):
    kind = data.draw(st.sampled_from([*PARTS, ModelSettings]))
    known = st.sampled_from([each.name for each in fields(kind)])
    keys = st.one_of(known, st.text("abc_", max_size=5))
    values = data.draw(st.one_of(json_values, st.dictionaries(keys, json_values, max_size=4)))

    try:
        outcome = read_settings(kind, values)
    except ConfigError as error:
        outcome = error

    assert isinstance(outcome, (kind, ConfigError))
    assert "\n" not in str(outcome)
