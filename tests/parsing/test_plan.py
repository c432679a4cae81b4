"""The precision that a parser runs in."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from tests.support.tiny import sample, tiny_biaffine, tiny_model, tiny_parser
from treefine import Parser, TreefineError, fast
from treefine.cli.app import app
from treefine.config import BiLSTMSettings, ModelSettings, PrecisionSettings, RelationSettings
from treefine.fast.cpu_encoder import FlatRows, Int8Linear
from treefine.model.parser_model import ParserModel


@pytest.fixture(autouse=True)
def _on_a_cpu_with_int8_instructions(monkeypatch):
    monkeypatch.setattr(fast, "is_int8_quick", lambda: True)


def in_int8(parser):
    return any(isinstance(each, Int8Linear) for each in parser.plan().model.modules())


def model_for(**precision):
    model = tiny_model()
    model.settings = replace(model.settings, precision=PrecisionSettings(**precision))
    return model


def test_a_model_without_a_precision_runs_in_float32():
    parser = tiny_parser()

    assert parser.plan().precision == parser.precision == "float32"
    assert parser.plan().model.encoder.layers is parser.model.encoder.layers


def test_a_parser_uses_the_precision_of_its_model_by_default():
    model = model_for(cpu="int8")

    assert in_int8(Parser(model, device="cpu"))
    assert not in_int8(Parser(model, device="cpu", precision="float32"))
    assert not in_int8(Parser(model, device="cpu").using(precision="float32"))
    assert in_int8(tiny_parser(precision="int8"))


def test_int8_is_not_the_default_on_a_cpu_without_int8_instructions(monkeypatch):
    model = model_for(cpu="int8")
    monkeypatch.setattr(fast, "is_int8_quick", lambda: False)

    assert Parser(model, device="cpu").precision == "float32"
    assert Parser(model, device="cpu", precision="int8").precision == "int8"


def test_other_options_keep_the_precision_and_share_the_running_model():
    parser = tiny_parser(precision="int8")

    other = parser.using(max_steps=2)

    assert other.precision == "int8"
    assert other.plan().model is parser.plan().model


def test_saved_files_do_not_depend_on_the_precision(tmp_path):
    parser = Parser(model_for(cpu="int8"), device="cpu")
    before = {name: weight.clone() for name, weight in parser.model.state_dict().items()}

    parser.parse(["A", "dog"])
    parser.save(tmp_path / "model")

    after = load_file(tmp_path / "model" / "model.safetensors")
    assert after.keys() == before.keys()
    assert all(torch.equal(weight, before[name]) for name, weight in after.items())
    assert Parser.from_pretrained(tmp_path / "model", device="cpu").precision == "int8"


def test_a_folder_without_a_precision_can_be_loaded(tmp_path):
    tiny_parser().save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    del config["precision"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))

    assert Parser.from_pretrained(tmp_path / "model", device="cpu").precision == "float32"


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_an_unsupported_precision_is_an_error_that_lists_the_supported_ones(name):
    with pytest.raises(TreefineError, match=f"Precision '{name}' is not supported on cpu. Use float32 or int8."):
        tiny_parser(precision=name)


def test_a_bilstm_supports_only_float32():
    with pytest.raises(TreefineError, match="Precision 'int8' is not supported by a BiLSTM. Use float32."):
        Parser(tiny_biaffine(), device="cpu", precision="int8")
    with pytest.raises(ValueError, match="a BiLSTM runs only in float32"):
        ModelSettings(BiLSTMSettings(), RelationSettings("none"), precision=PrecisionSettings(cpu="int8"))


def test_calibration_affects_a_parser_that_has_already_run():
    parser = tiny_parser(precision="int8")
    parser.parse(["A", "dog"])
    calibrated = replace(parser.model.settings.confidence, arc_temperature=7.0)

    parser.model.settings = replace(parser.model.settings, confidence=calibrated)

    assert parser.plan().confidence is calibrated


def test_the_command_line_has_the_option(tmp_path):
    tiny_parser().save(tmp_path / "model")
    arguments = ["parse", "--model", str(tmp_path / "model"), "--device", "cpu", "--from", "words", "--text", "A dog ."]

    right = CliRunner().invoke(app, [*arguments, "--precision", "int8"])
    wrong = CliRunner().invoke(app, [*arguments, "--precision", "float16"])

    assert right.exit_code == 0
    assert wrong.exit_code == 1
    assert wrong.stderr == "treefine: Precision 'float16' is not supported on cpu. Use float32 or int8.\n"


def test_most_trees_in_int8_equal_those_in_float32():
    sentences = sample(20)
    exact, rounded = (tiny_parser(precision=name).parse(sentences) for name in ("float32", "int8"))

    pairs = [
        (a, b) for one, other in zip(exact, rounded, strict=True) for a, b in zip(one.heads, other.heads, strict=True)
    ]
    assert sum(a == b for a, b in pairs) > 0.5 * len(pairs)  # the weights are random, so many decisions are close


@pytest.mark.parametrize("batch_pieces", [60, 4000])
def test_a_sentence_in_int8_has_the_same_tree_in_every_batch(batch_pieces):
    sentences = sample(14)
    parser = Parser(tiny_model(), device="cpu", precision="int8", batch_pieces=batch_pieces)

    backwards = parser.parse(sentences[::-1])[::-1]

    assert [each.tree.arcs for each in backwards] == [parser.parse(each).tree.arcs for each in sentences]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_row_length_of_a_sentence_does_not_depend_on_its_batch(precision, monkeypatch):
    parser, seen = tiny_parser(max_steps=2, precision=precision), []
    sentences = [each for each in sample(40) if parser.plan().size(each) <= 60]
    real = FlatRows.of.__func__

    def recorded(cls, inputs, chosen):
        rows = real(cls, inputs, chosen)
        seen.append([(block.length, [inputs.row_lengths[row] for row in block.rows]) for block in rows.blocks])
        return rows

    monkeypatch.setattr(FlatRows, "of", classmethod(recorded))
    parser.parse(sentences)

    assert {length for blocks in seen for length, _ in blocks} == {parser.plan().size(each) for each in sentences}
    for blocks in seen:
        assert len({length for length, _ in blocks}) == len(blocks)  # one block per length
        for length, rows in blocks:
            assert {-(-row // 4) * 4 for row in rows} == {length}


def test_a_few_dozen_sentences_of_mixed_lengths_are_one_batch(monkeypatch):
    parser, sizes = tiny_parser(max_steps=1, precision="int8"), []
    sentences = sorted(sample(60), key=len)[:30]
    lengths = [parser.plan().size(each) for each in sentences]
    real = ParserModel.forward

    def recorded(model, batch, *arguments, **named):
        sizes.append(len(batch))
        return real(model, batch, *arguments, **named)

    monkeypatch.setattr(ParserModel, "forward", recorded)
    monkeypatch.setattr("treefine.parsing.plan.stable_scores", lambda score, _, *rest, **__: score(*rest))
    parser.parse(sentences)

    assert sum(lengths) <= parser.plan().shape.most_pieces < len(lengths) * max(lengths)
    assert sizes == [len(sentences)]
