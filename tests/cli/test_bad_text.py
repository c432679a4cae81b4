"""Bad texts, models and outputs cause one clear line and exit code 1, or get a valid tree."""

from pathlib import Path

import pytest

from tests.support.commands import failed, invoke, read
from treefine.treebank.raw_text import text_of


@pytest.fixture
def run(text_model, tmp_path, monkeypatch):
    """Run treefine parse in a new folder."""
    monkeypatch.chdir(tmp_path)

    def run_with(*arguments, **options):
        model = [] if "--model" in arguments else ["--model", text_model]
        return invoke("parse", *model, "--steps", 1, *arguments, **options)

    return run_with


@pytest.mark.parametrize("text", ["", " \n\t\r\n\u00a0\u3000"])
def test_a_text_without_words_is_reported(run, text):
    assert failed(run, "--text", text) == "The text contains no words."
    assert failed(run, "-", input=text) == "<stdin>: The text contains no words."


TEXTS = {
    "one emoji": "👩‍👩‍👧",
    "a word of 10,000 characters": "'" * 10_000,  # one word for our segmenter with random weights
    "control characters": "a\x07b \x1b[2J\x1b]0;owned\x07 c\x7f\x9b5n",
    "zero bytes": "a\0b \0 c",
    "all kinds of space": "a\u2028b\x85c\x0bd\u3000e\r\nf",
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("source", ["text", "lines"])
def test_strange_text_gets_trees_and_loses_no_character(run, kind, source):
    result = run("-", "--from", source, input=TEXTS[kind])

    sentences = read(result.stdout)
    assert result.stderr == ""
    assert text_of(sentences) == TEXTS[kind]
    assert all(sentence.graph.is_tree for sentence in sentences)


@pytest.mark.parametrize("option", [("--format", "tree"), ("--format", "html"), ("--review", 1)])
def test_drawings_and_reviews_escape_control_characters(run, option):
    out = run("--text", TEXTS["control characters"], *option).stdout

    assert "\\x1b" in out
    assert not set(out) & set("\x07\x1b\x7f\x9b")


@pytest.mark.parametrize(
    ("source", "content", "byte", "hint"),
    [
        ("text", b"one\ntwo caf\xe9 three\n", "e9", "latin-1"),
        ("lines", b"one\n\x93two\x94\n", "93", "cp1252"),
        ("text", b"\xef\xbb\xbfone\ntwo\xe2\x82", "e2", "latin-1"),  # cut off
    ],
)
def test_what_is_not_utf8_is_reported_with_line_and_byte(run, source, content, byte, hint):
    Path("in.txt").write_bytes(content)

    assert failed(run, "in.txt", "--from", source) == (
        f"in.txt:2: Byte 0x{byte} is not UTF-8. Convert it to UTF-8: iconv -f {hint} -t UTF-8."
    )
    assert failed(run, "caf\udce9 open") == "The text is not UTF-8. Set the terminal to UTF-8, or use a file."


def test_a_bad_input_is_reported_before_work_starts(run):
    Path("good.txt").write_text("a")
    Path("folder").mkdir()

    for name, message in {
        "no.txt": "no.txt: There is no such file. To parse this as text, add --text.",
        "folder": "folder: There is no text or treebank in this folder. File names must end in .txt, .conllu, .conllx, "
        ".conll, .conll09, .conll2009; for other names, choose the format.",
    }.items():
        assert failed(run, "good.txt", name, "--model", "./nowhere") == message
