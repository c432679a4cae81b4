"""The options of a parser."""

import pickle
import threading
from dataclasses import fields, replace

import pytest
import torch

from tests.support.tiny import tiny_parser
from treefine.errors import TreefineError
from treefine.parsing.options import OptionValues, ParserOptions


def test_keyword_arguments_are_the_fields_of_the_options():
    names = [each.name for each in fields(ParserOptions)]

    assert list(OptionValues.__annotations__) == names
    assert [OptionValues.__annotations__[each.name].__forward_arg__ for each in fields(ParserOptions)] == [
        each.type for each in fields(ParserOptions)
    ]


def test_only_options_that_are_not_none_are_given():
    assert ParserOptions().given == {}
    assert ParserOptions(k=2, is_projective=False).given == {"k": 2, "is_projective": False}


def test_a_new_initial_parser_resets_steps_and_stop_above_unless_given():
    options = ParserOptions(max_steps=2, stop_above=0.9, k=3)

    assert options.updated({"tags": "none"}) == ParserOptions(max_steps=2, stop_above=0.9, k=3, tags="none")
    assert options.updated({"initial": "empty"}) == ParserOptions(initial="empty", k=3)
    assert options.updated({"initial": "empty", "max_steps": 1}) == ParserOptions(initial="empty", max_steps=1, k=3)
    assert options.updated({"initial": None}) == options


def test_unknown_options_and_another_device_are_errors():
    with pytest.raises(TreefineError, match=r"A parser has no option 'max_step'\. Did you mean max_steps\?"):
        tiny_parser(max_step=2)
    parser = tiny_parser().using(device="cpu:0")
    assert parser.using(device="cpu").device.type == "cpu"
    parser._plan = replace(parser._plan, device=torch.device("cuda"))
    with pytest.raises(TreefineError, match=r"The model is on cuda, not on cpu\. Load it on that device\."):
        parser.using(device="cpu")


def test_a_parser_with_an_initial_parser_can_be_pickled(tmp_path):
    tiny_parser().save(tmp_path / "model")
    parser = tiny_parser(initial=tmp_path / "model")

    copied = pickle.loads(pickle.dumps(parser))

    assert copied.parse(["A", "dog"]) == parser.parse(["A", "dog"])


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
