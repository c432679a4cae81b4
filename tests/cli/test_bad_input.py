"""Bad input causes one clear line and exit code 1 in every command."""

import lzma
from pathlib import Path

import pytest
from typer.testing import CliRunner

from treefine.cli.app import app

ROW = "{}\t{}\t_\t_\t_\t_\t{}\t{}\t_\t_\n"
GOOD = "# sent_id = s1\n" + ROW.format(1, "a", 2, "x") + ROW.format(2, "b", 0, "root") + "\n"

BAD = {
    "empty.conllu": (b"", "empty.conllu: The file contains no sentences. Is it the right file?"),
    "cut.conllu.xz": (
        lzma.compress("".join(GOOD.replace("s1", f"s{n}") for n in range(2000)).encode())[:-40],
        "cut.conllu.xz: The compressed file ends too early. Download or compress it again.",
    ),
    "missing.conllu": (None, "missing.conllu: There is no such file."),
    "cycle.conllu": (
        GOOD.replace("\t0\troot", "\t1\troot").encode(),
        "cycle.conllu:2: (s1, word 1) The heads form a cycle: 1 -> 2 -> 1. Change one of these heads.",
    ),
}
NO_SCORE = {
    "text.conllu": (
        GOOD.replace("\tb\t", "\tc\t").encode(),
        "text.conllu:3: (s1, word 2) The text differs from good.conllu:3: it is 'c' here and 'b' there. Both files "
        "must have the same characters; spaces and segmentation may differ.",
    ),
    "short.conllu": (
        (ROW.format(1, "a", 0, "root") + "\n").encode(),
        "short.conllu: The file ends before 'b' in good.conllu:3. Both files must have the same characters; spaces and "
        "segmentation may differ.",
    ),
}
SCORER = {  # what the official scorer rejects or reads in another way
    "bom": ("\ufeff" + GOOD, 1, "starts with a byte order mark or a blank line"),
    "start": ("\n" + GOOD, 2, "starts with a byte order mark or a blank line"),
    "gap": (GOOD + "\n", 1, "not exactly one blank line after the sentence"),
    "return": (GOOD.replace("\tb\t", "\tb\r\t"), 1, "a carriage return within a line"),
    "open": (GOOD[:-1], 1, "not exactly one blank line after the sentence"),
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run treefine in a folder that has good.conllu and the file under test."""
    monkeypatch.chdir(tmp_path)
    Path("good.conllu").write_text(GOOD)
    Path("folder").mkdir()

    def run_with(name, content, *arguments):
        if content is not None:
            Path(name).write_bytes(content)
        return CliRunner().invoke(app, [name if argument is ... else argument for argument in arguments])

    return run_with


@pytest.mark.parametrize("name", ["cycle.conllu", *NO_SCORE])
def test_evaluate_rejects_it_with_one_line(run, name):
    content, message = (BAD | NO_SCORE)[name]

    result = run(name, content, "evaluate", "good.conllu", ...)

    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"treefine: {message}\n")


@pytest.mark.parametrize("name", SCORER)
def test_evaluate_rejects_what_the_official_scorer_reads_in_another_way(run, name):
    content, line, message = SCORER[name]

    result = run("x.conllu", content.encode(), "evaluate", "good.conllu", ...)

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith(f"treefine: x.conllu:{line}: (s1) T")
    assert message in result.stderr
    assert "official scorer" in result.stderr


@pytest.mark.parametrize("name", BAD)
def test_validate_lists_it_and_continues_with_the_next_file(run, name):
    content, message = BAD[name]

    result = run(name, content, "validate", ..., "good.conllu")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == message
    assert result.stderr.startswith("2 files, ")


def test_convert_with_skip_keeps_the_valid_sentences(run):
    bad = GOOD.replace("\t2\tx", "\t3\tx") + GOOD.replace("s1", "s2")

    result = run("mixed.conllu", bad.encode(), "convert", ..., "out.conllx", "--skip")

    assert result.exit_code == 0
    assert Path("out.conllx").read_text() == GOOD.split("\n", 1)[1]
    assert result.stderr.splitlines() == [
        "skipped: mixed.conllu:2: (s1, word 1) HEAD is 3 but the sentence has 2 words. Write a number from 0 to 2, or "
        "_ for no head.",
        "dropped, because CoNLL-X cannot store them: 1 comment",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", ..., ..., "--rule", "ud"], "There is no scoring rule 'ud'. Choose one of conll18, conllx, ptb,"),
        (["evaluate", "-", "-"], "Standard input can be used only once. Use a file for GOLD or SYSTEM."),
        (["evaluate", ..., ..., "--format", "x"], "There is no format 'x'. Choose one of conllu, conllx, conll09,"),
        (["compare", ..., ..., "other.conllu", "--metric", "F"], "The rule conll18 has no metric 'F'. Choose one of"),
        (["compare", ..., ...], "There is only one system to compare. Name two or more files after GOLD."),
        (["compare", ..., ..., ...], "good.conllu: The same file is given twice. Name each system once."),
        (["evaluate", ..., "x" * 300], f"{'x' * 300}: File name too long."),
        (["convert", ..., "folder"], "folder: This is a directory. Name a file to write."),
    ],
)
def test_an_error_about_a_wrong_option_lists_the_right_ones(run, arguments, message):
    Path("other.conllu").write_text(GOOD)

    result = run("good.conllu", GOOD.encode(), *arguments)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"treefine: {message}")


def test_debug_raises_the_original_error(run):
    result = run("missing.conllu", None, "--debug", "evaluate", ..., ...)

    assert type(result.exception).__name__ == "TreebankError"
