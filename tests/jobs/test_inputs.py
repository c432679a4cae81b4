"""Detect whether an argument is a text or a file, and the format of files and streams."""

import io
import itertools
import os
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine.errors import TreebankError, TreefineError
from treefine.jobs import inputs as reading
from treefine.jobs.inputs import Input, find_inputs

ROW = "1\tDogs" + "\t_" * 8 + "\n"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("here.txt", Input("here.txt")),
        ("here.conllx", Input("here.conllx", kind="conllx")),
        ("here", Input("here")),
        ("-", Input("-")),
        ("Hello.", Input("", "Hello.", "text")),
        ("and/or", Input("", "and/or", "text")),
        ("3.14", Input("", "3.14", "text")),
        ("x" * 5000, Input("", "x" * 5000, "text")),
    ],
)
def test_an_argument_is_a_file_if_it_exists_and_otherwise_a_text(tmp_path, monkeypatch, argument, expected):
    monkeypatch.chdir(tmp_path)
    for name in ("here.txt", "here.conllx", "here"):
        Path(name).touch()

    assert find_inputs([argument]) == [expected]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (ROW, "conllu"),
        ("\n# text = Dogs\n" + ROW, "conllu"),
        ("\ufeff" + ROW, "conllu"),
        ("0.1" + ROW[1:], "conllu"),
        (ROW[:-1] + "\t_" * 4 + "\n", "conll09"),
        (ROW.replace("\t", " "), "text"),
        ("2" + ROW[1:], "text"),
        ("# A heading\n\nSome text", "text"),
        ("", "text"),
        ("# " + "x" * 200_000 + "\n" + ROW, "text"),
    ],
)
def test_a_treebank_is_detected_by_its_first_line_after_comments(tmp_path, content, kind):
    path = tmp_path / "in"
    path.write_text(content)

    with reading.open_source(Input(str(path))) as (stream, found):
        assert (found, stream.read()) == (kind, content.encode())


@pytest.mark.parametrize("start", [b"%PDF-1.7", b"PK\x03\x04", b"PAR1", b'{"sent_id": "1"', b'{"file": "a"', b"<svg "])
def test_a_file_whose_start_shows_that_it_is_no_text_is_refused(tmp_path, start):
    path = tmp_path / "in"
    path.write_bytes(start + b" and more")

    with pytest.raises(TreebankError, match=r"This is not plain text\. Put its text into a \.txt file"):
        with reading.open_source(Input(str(path))):
            pass
    with reading.open_source(Input(str(path), kind="text")) as (stream, _):
        assert stream.read() == start + b" and more"


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

    (source,) = find_inputs([str(pipe)])
    with reading.open_source(source) as (stream, kind):
        found = list(reading.read_input(stream, kind, source, None, itertools.count(1)))
    writer.join()

    assert [each.sentence.forms for each in found] == [("Dogs",), ("Dogs",)]
    assert (found[0].sentence.sent_id, found[0].sentence.path) == ("s", str(pipe))


FILES = ["a.txt", "a.conllu", "b/c/x.txt.gz", "b/x.conllx", "README.md", "x.txt.part", ".hidden.txt", ".git/y.txt"]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        path = Path("corpus", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names(arguments, **options):
    return [each.name for each in find_inputs(arguments, **options)]


def test_a_folder_stands_for_the_texts_and_treebanks_in_it(corpus):
    assert find_inputs(["corpus"]) == [
        Input("corpus/a.conllu", kind="conllu"),
        Input("corpus/a.txt"),
        Input("corpus/b/c/x.txt.gz", subfolder="b/c"),
        Input("corpus/b/x.conllx", kind="conllx", subfolder="b"),
    ]
    assert names(["corpus/"], may_be_text=False) == ["corpus/a.conllu", "corpus/b/x.conllx"]
    assert names(["corpus"], kind="lines") == ["corpus/a.txt", "corpus/b/c/x.txt.gz"]


def test_the_files_of_a_folder_may_have_any_name_if_the_format_is_given(corpus):
    Path("other").mkdir()
    for name in ("b.en", "a.en", ".c.en", "d.part"):
        Path("other", name).touch()

    assert names(["other"], kind="lines") == names(["other/*"]) == ["other/a.en", "other/b.en"]


def test_the_output_is_not_an_input(corpus):
    assert "corpus/a.conllu" not in names(["corpus"], output="corpus/a.conllu")
    assert names(["corpus"], output="corpus/b/") == ["corpus/a.conllu", "corpus/a.txt"]
    with pytest.raises(TreefineError, match="^corpus: The output folder is the input folder. Choose another one.$"):
        find_inputs(["corpus"], output="./corpus/")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("corpus/a.t*", {"corpus/a.txt": ""}),
        ("corpus/**/*.conll[ux]", {"corpus/a.conllu": "", "corpus/b/x.conllx": "b"}),
        ("*/*/x*", {"corpus/b/x.conllx": "corpus/b"}),
        ("corpus/*", {"corpus/README.md": "", "corpus/a.conllu": "", "corpus/a.txt": ""}),
    ],
)
def test_a_pattern_stands_for_the_files_that_match(corpus, pattern, found):
    for place in ("", f"{Path.cwd()}/"):
        inputs = {each.name: each.subfolder for each in find_inputs([place + pattern])}
        assert inputs == {place + name: subfolder for name, subfolder in found.items()}


@pytest.mark.parametrize("text", ["Why? *really*", "[sic]", "*really*", "/* see corpus/x.txt */", "/**/ int x"])
def test_a_text_with_the_signs_of_a_pattern_is_a_text(corpus, text):
    Path("s").touch()

    assert find_inputs([text]) == [Input("", text, "text")]
