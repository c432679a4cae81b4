"""Detect whether an argument is a text or a file, and the format of files and streams."""

import io
import itertools
import os
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine.cli import inputs as reading
from treefine.cli.inputs import Input, bytes_in, find_inputs
from treefine.errors import TreefineError
from treefine.treebank.files import Rejoined

ROW = "1\tDogs" + "\t_" * 8 + "\n"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("here.txt", Input("here.txt", kind="text")),
        ("here.conllx", Input("here.conllx", kind="conllx")),
        ("here", Input("here")),
        ("-", Input("-")),
        ("Hello.", Input("", "Hello.", "text")),
        ("and/or", Input("", "and/or", "text")),
        ("see notes.txt", Input("", "see notes.txt", "text")),
        ("3.14", Input("", "3.14", "text")),
        ("…", Input("", "…", "text")),
        ("x" * 5000, Input("", "x" * 5000, "text")),
    ],
)
def test_an_argument_is_a_file_if_it_exists_and_otherwise_a_text(tmp_path, monkeypatch, argument, expected):
    monkeypatch.chdir(tmp_path)
    for name in ("here.txt", "here.conllx", "here"):
        Path(name).touch()

    assert find_inputs([argument]) == [expected]


@pytest.mark.parametrize("argument", ["notes.txt", "dir/x.conllu", "a.b.gz"])
def test_a_missing_file_is_not_read_as_text_unless_the_user_says_so(argument):
    with pytest.raises(TreefineError, match=f"{argument}: There is no such file. To parse this as text, add --text."):
        find_inputs([argument])

    assert find_inputs([argument], is_text=True) == [Input("", argument, "text")]


def test_an_argument_with_a_treebank_format_is_never_a_text():
    with pytest.raises(TreefineError, match="no such thing: There is no such file.$"):
        find_inputs(["no such thing"], kind="conllu")


def test_standard_input_can_be_used_only_once():
    with pytest.raises(TreefineError, match="^Standard input can be used only once. Write - once.$"):
        find_inputs(["-", "-"])

    assert find_inputs(["-", "-"], is_text=True) == [Input("", "-", "text")] * 2


def test_an_error_is_one_line_even_if_the_file_name_is_not():
    with pytest.raises(TreefineError) as error:
        find_inputs(["two\nlines"], kind="conllu")

    assert str(error.value) == "two\\nlines: There is no such file."


def test_without_arguments_standard_input_is_read():
    assert find_inputs([]) == [Input("-")]


def test_a_file_without_read_permission_is_reported(tmp_path, monkeypatch):
    (tmp_path / "secret").touch()
    monkeypatch.setattr("os.access", lambda path, mode: False)

    with pytest.raises(TreefineError, match="secret: Permission denied."):
        find_inputs([str(tmp_path / "secret")])


def test_the_size_is_unknown_if_an_input_is_a_stream(tmp_path):
    (tmp_path / "a").write_bytes(b"123")

    assert bytes_in([Input(str(tmp_path / "a")), Input("", "text")]) == 3
    assert bytes_in([Input(str(tmp_path / "a")), Input("-")]) is None


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (ROW, "conllu"),
        ("\n# text = Dogs\n" + ROW, "conllu"),
        ("\ufeff" + ROW, "conllu"),
        ("1-2" + ROW[1:], "conllu"),
        ("0.1" + ROW[1:], "conllu"),
        (ROW[:-1] + "\t_" * 4 + "\n", "conll09"),
        (ROW[:-1] + "\t_" * 7 + "\n", "conll09"),
        (ROW.replace("\t", " "), "text"),
        (ROW[:-3] + "\n", "text"),
        ("2" + ROW[1:], "text"),
        ("# A heading\n\nSome text", "text"),
        ("", "text"),
        ("# " + "x" * 200_000 + "\n" + ROW, "text"),
    ],
)
def test_a_treebank_is_detected_by_its_first_line_after_comments(content, kind):
    assert reading._look(io.BytesIO(content.encode()))[0] == kind


@given(st.binary(max_size=40), st.integers(1, 9))
def test_the_lines_read_for_detection_are_read_again_with_the_rest(content, size):
    stream = io.BytesIO(content)
    _, head = reading._look(stream)

    rejoined = Rejoined(head, stream, "in")

    assert b"".join(iter(lambda: rejoined.read(size), b"")) == content
    assert io.BufferedReader(rejoined).name == "in"


@given(st.text(), st.integers(1, 5))
def test_decoding_does_not_depend_on_the_chunk_size(text, size):
    text = text.removeprefix("\ufeff")
    before, reading.TEXT_CHUNK = reading.TEXT_CHUNK, size
    try:
        chunks = list(reading._decoded(io.BytesIO(text.encode()), "in"))
    finally:
        reading.TEXT_CHUNK = before

    assert "".join(chunks) == text


def test_a_named_pipe_is_read_once(tmp_path):
    """Process substitution, as in `treefine parse <(unpack corpus)`, passes a named pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=["# sent_id = s\n" + ROW + "\n" + ROW + "\n"])
    writer.start()

    found = list(reading.read_input(*find_inputs([str(pipe)]), None, lambda amount: None, itertools.count(1)))
    writer.join()

    assert [each.sentence.forms for each in found] == [("Dogs",), ("Dogs",)]
    assert (found[0].sentence.sent_id, found[0].sentence.path) == ("s", str(pipe))


def test_a_similar_file_name_is_suggested(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/theirs.conllu").touch()

    with pytest.raises(TreefineError) as error:
        find_inputs(["sub/thiers.conllu"], may_be_text=False)

    assert str(error.value) == "sub/thiers.conllu: There is no such file. Did you mean sub/theirs.conllu?"


def test_a_name_that_no_file_can_have_is_an_error():
    with pytest.raises(TreefineError, match="There is no such file"):
        find_inputs(["\ud800/a.conllu"], may_be_text=False)  # half a surrogate pair
