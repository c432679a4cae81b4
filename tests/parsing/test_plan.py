"""The precision that a parser runs in."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Parser, TreefineError, fast
from treefine.config import PrecisionSettings
from treefine.fast.cpu_encoder import Int8Linear


@pytest.fixture(autouse=True)
def _on_a_cpu_with_int8_instructions(monkeypatch):
    monkeypatch.setattr(fast, "is_int8_quick", lambda: True)


def in_int8(parser):
    return any(isinstance(each, Int8Linear) for each in parser.plan().model.modules())


def model_for(**precision):
    model = tiny_model()
    model.settings = replace(model.settings, precision=PrecisionSettings(**precision))
    return model


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


def test_saved_files_do_not_depend_on_the_precision(tmp_path):
    parser = Parser(model_for(cpu="int8"), device="cpu")
    before = {name: weight.clone() for name, weight in parser.model.state_dict().items()}

    parser.parse(["A", "dog"])
    parser.save(tmp_path / "model")

    after = load_file(tmp_path / "model" / "model.safetensors")
    assert after.keys() == before.keys()
    assert all(torch.equal(weight, before[name]) for name, weight in after.items())
    assert Parser.from_pretrained(tmp_path / "model", device="cpu").precision == "int8"


def test_an_unsupported_precision_is_an_error_that_lists_the_supported_ones():
    with pytest.raises(TreefineError, match="Precision 'float16' is not supported on cpu. Use float32 or int8."):
        tiny_parser(precision="float16")


@pytest.mark.parametrize("batch_pieces", [60, 4000])
def test_a_sentence_in_int8_has_the_same_tree_in_every_batch(batch_pieces):
    sentences = sample(14)
    parser = Parser(tiny_model(), device="cpu", precision="int8", batch_pieces=batch_pieces)

    backwards = parser.parse(sentences[::-1])[::-1]

    assert [each.tree.arcs for each in backwards] == [parser.parse(each).tree.arcs for each in sentences]
