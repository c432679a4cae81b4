"""The options of a parser, and its precision."""

import pickle
import threading
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Parser, TreefineError, fast
from treefine.config import PrecisionSettings
from treefine.fast.cpu_encoder import Int8Linear
from treefine.parsing.options import OPTIONS, ParserOptions


def test_a_new_initial_parser_resets_steps_and_stop_above_unless_they_are_set_too():
    options = ParserOptions(max_steps=2, stop_above=0.9, k=3)

    assert options.updated({"tags": "none"}) == ParserOptions(max_steps=2, stop_above=0.9, k=3, tags="none")
    assert options.updated({"initial": "empty"}) == ParserOptions(initial="empty", k=3)
    assert options.updated({"initial": "empty", "max_steps": 1}) == ParserOptions(initial="empty", max_steps=1, k=3)
    assert options.updated({"initial": None}) == options


@pytest.mark.parametrize(
    ("option", "needed"),
    [
        ({"k": 0}, "a whole number from 1, not the int 0."),
        ({"max_steps": 2.5}, "a whole number from 1, not the float 2.5."),
        ({"max_steps": True}, "a whole number from 1, not the bool True."),
        ({"stop_above": 1.5}, "a number from 0 to 1, not the float 1.5."),
        ({"stop_above": float("nan")}, "a number from 0 to 1, not the float nan."),
        ({"tags": "gold"}, '"given", "predicted" or "none", not the str \'gold\'.'),
        ({"is_projective": "yes"}, "True or False, not the str 'yes'."),
        ({"keep": ["given"]}, '"marked", "given" or "nothing", not the list [\'given\'].'),
        ({"device": 3}, 'a name such as "cpu", or a torch.device, not the int 3.'),
        ({"language": 1}, 'a code or a name, such as "sv" or "Swedish", not the int 1.'),
        ({"trust": -1.0}, '"auto" or a number from 0 to 1,000, or a list of them, not the float -1.0.'),
        ({"trust": "much"}, "\"auto\" or a number from 0 to 1,000, or a list of them, not the str 'much'."),
        ({"trust": True}, '"auto" or a number from 0 to 1,000, or a list of them, not the bool True.'),
        ({"initial": 3}, '"empty", "given", a path, a Parser, a function or a list of these, not the int 3.'),
    ],
)
def test_an_option_with_a_wrong_value_says_what_it_needs(option, needed):
    (name,) = option
    with pytest.raises(TreefineError) as raised:
        ParserOptions(**option)

    assert raised.value.message == f"The option {name} must be {needed}"


def test_unknown_options_and_another_device_are_errors():
    with pytest.raises(TreefineError, match=r"A parser has no option 'max_step'\. Did you mean max_steps\?"):
        tiny_parser(max_step=2)
    parser = tiny_parser().using(device="cpu:0")
    assert parser.using(device="cpu").device.type == "cpu"
    parser._plan = replace(parser._plan, device=torch.device("cuda"))
    with pytest.raises(TreefineError, match=r"The model is on cuda, not on cpu\. Load it on that device\."):
        parser.using(device="cpu")


def test_the_texts_of_the_command_line_become_values():
    assert OPTIONS["initial"].from_text(["a.conllu", "b.conllu"]) == ["a.conllu", "b.conllu"]
    assert OPTIONS["initial"].from_text(["empty"]) == "empty"
    assert (OPTIONS["trust"].from_text("auto,1.5"), OPTIONS["trust"].from_text("3")) == (["auto", 1.5], 3.0)


def test_a_parser_that_has_run_is_pickled_without_its_engine_and_its_running_model(tmp_path):
    tiny_parser().save(tmp_path / "model")
    parser = tiny_parser(initial=tmp_path / "model")
    expected = parser.parse(["A", "dog"])
    for used in (parser, parser.initial):
        used.running.buffer = threading.Lock()
        vars(used)["engine"] = threading.Lock()

    copied = pickle.loads(pickle.dumps(parser))

    assert copied.parse(["A", "dog"]) == expected
    assert copied.engine is None
    assert copied.using(k=2).running is copied.running


# Precision


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
