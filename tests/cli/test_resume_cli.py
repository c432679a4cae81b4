"""A run that was cut off is gone on with, as a user calls it; the result is that of a run that was not."""

import lzma
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.commands import invoke
from tests.support.tiny import sample
from treefine.parsing.results import trees
from treefine.treebank.conllu import write_treebank

WORDS = "".join(f"Dogs {'really ' * (number % 7)}bark {number}\n" for number in range(12))
SMALL = ("--batch-pieces", 40, "--steps", 2)  # many small chunks


@pytest.fixture
def run(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text(WORDS)
    Path("short.txt").write_text("The old man the boats. Nobody came.\n\nReally? Yes")

    def run_with(*arguments, command="parse", **options):
        return invoke("--model", text_model, *arguments, *SMALL, command=command, **options)

    return run_with


KINDS = {
    "conllu": ("in.txt", "--from", "words", "-o", "out.conllu"),
    "conll09": ("in.txt", "--from", "words", "-o", "out.conll09"),
    "confidence": ("in.txt", "--from", "words", "-o", "out.conllu", "--confidence"),
    "json": ("in.txt", "--from", "words", "-o", "out.json"),
    "text": ("short.txt", "-o", "out.json"),
    "packed": ("in.txt", "--from", "words", "-o", "out.json.xz"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_cut_off_anywhere_ends_with_the_same_bytes(run, kind):
    *_, name = (each for each in KINDS[kind] if each.startswith("out."))
    run(*KINDS[kind])
    whole = Path(name).read_bytes()
    plain = lzma.decompress(whole) if kind == "packed" else whole

    for cut in (1, len(plain) // 2, len(plain)):
        Path(name).unlink()
        Path(f"{name}.part").write_bytes(plain[:cut])
        run(*KINDS[kind], "--resume")
        assert Path(name).read_bytes() == whole
        assert not Path(f"{name}.part").exists()


@pytest.mark.parametrize(
    ("command", "options"), [("refine", ["-o", "out.json"]), ("parse", ["--initial", "in.conllu", "-o", "out.conllu"])]
)
def test_a_run_with_initial_trees_is_gone_on_with_too(run, command, options):
    write_treebank(sample(12), "in.conllu")
    run("in.conllu", *options, command=command)
    output = Path(options[-1])
    whole = output.read_bytes()
    output.unlink()
    Path(f"{output}.part").write_bytes(whole[: len(whole) // 2])

    run("in.conllu", *options, "--resume", command=command)

    assert output.read_bytes() == whole


def test_skipped_sentences_are_not_parsed(run, monkeypatch):
    run(*KINDS["conllu"])
    Path("out.conllu").rename("out.conllu.part")
    parsed = []

    def heard(plan, items):
        parsed.extend(item.sentence for item in items)
        return trees(plan, items)

    monkeypatch.setattr("treefine.parsing.batches.MOST_SENTENCES", 1)  # in a chunk, which is skipped whole
    monkeypatch.setattr("treefine.parsing.parser.trees", heard)

    run(*KINDS["conllu"], "--resume")

    assert [sentence.forms[-1] for sentence in parsed] == ["11"]


def test_a_bad_sentence_is_mended_and_the_run_goes_on(run):
    write_treebank(sample(12), "good.conllu")
    good = Path("good.conllu").read_text()
    Path("bad.conllu").write_text(good[: good.rindex("PUNCT")])

    result = run("bad.conllu", "-o", "out.conllu", code=1)
    run("good.conllu", "-o", "out.conllu", "--resume")
    run("good.conllu", "-o", "once.conllu")

    assert "columns, not 10." in result.stderr
    assert result.stderr.endswith("What is done is in out.conllu.part: run again with --resume to go on.\n")
    assert Path("out.conllu").read_bytes() == Path("once.conllu").read_bytes()


def test_finished_files_of_a_folder_are_left_alone(run):
    Path("a.txt").write_text("Dogs bark\nYes\n")
    Path("b.txt").write_text("It sleeps\n")
    run("a.txt", "b.txt", "--from", "words", "-o", "all/")
    whole = Path("all/b.conllu").read_bytes()
    Path("all/a.conllu").write_text("mine")
    Path("all/b.conllu").rename("all/b.conllu.part")

    result = run("a.txt", "b.txt", "--from", "words", "-o", "all/", "--resume")
    again = run("a.txt", "b.txt", "--from", "words", "-o", "all/", "--resume")

    assert result.stderr == "1 of 2 outputs finished before\n"
    assert again.stderr == "2 of 2 outputs finished before\n"
    assert (Path("all/a.conllu").read_text(), Path("all/b.conllu").read_bytes()) == ("mine", whole)


@pytest.mark.parametrize("ending", ["parquet", "html"])
def test_in_a_folder_every_format_resumes_with_the_first_unfinished_file(run, ending):
    Path("a.txt").write_text("Dogs bark\nYes\n")
    Path("b.txt").write_text("It sleeps\n")
    run("a.txt", "b.txt", "--from", "words", "--format", ending, "-o", "whole/")
    run("a.txt", "--from", "words", "--format", ending, "-o", "all/")

    result = run("a.txt", "b.txt", "--from", "words", "--format", ending, "-o", "all/", "--resume")

    assert result.stderr == "1 of 2 outputs finished before\n"
    for name in ("a", "b"):
        assert Path(f"all/{name}.{ending}").read_bytes() == Path(f"whole/{name}.{ending}").read_bytes()


@pytest.mark.parametrize("output", ["-", "x.svg", "x.html", "x.txt", "/dev/null"])
def test_what_cannot_be_gone_on_with_is_refused(run, output):
    assert run("in.txt", "-o", output, "--resume", code=1).stderr == (
        "treefine: Only a file of sentences can be gone on with. "
        "Name a file of CoNLL-U, CoNLL-X, CoNLL-2009 or JSON with -o, or leave out --resume.\n"
    )


def test_an_output_that_is_the_input_is_refused(run):
    write_treebank(sample(2), "in.conllu")

    assert "The output is the input" in run("in.conllu", "-o", "in.conllu", "--resume", code=1).stderr


def begin(model, *arguments):
    command = [sys.executable, "-m", "treefine", "parse", "in.txt", "--from", "words", "--model", model]
    options = ["--device", "cpu", *map(str, SMALL), *arguments]

    def hear_ctrl_c():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell makes its background jobs ignore it

    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c)


def wait_for(path, size):
    for _ in range(6000):
        if path.exists() and path.stat().st_size > size:
            return
        time.sleep(0.01)
    raise TimeoutError


def test_a_killed_run_is_gone_on_with_and_a_stopped_one_says_how(run, text_model):
    """Killed at a random moment, then stopped by Ctrl-C at another; the last run ends it."""
    lines = "".join(f"Dogs bark {number} times a day\n" for number in range(150))
    Path("in.txt").write_text(lines)
    rng, part = random.Random(1), Path("out.json.part")

    for ending, at_least in ((signal.SIGKILL, 0), (signal.SIGINT, 100_000)):
        process = begin(text_model, "-o", "out.json", "--resume")
        wait_for(part, at_least + rng.randrange(50_000))
        process.send_signal(ending)
        message = process.communicate()[1]
        assert process.returncode == (130 if ending == signal.SIGINT else -signal.SIGKILL)
        assert not Path("out.json").exists()
    run("in.txt", "--from", "words", "--device", "cpu", "-o", "out.json", "--resume")
    run("in.txt", "--from", "words", "--device", "cpu", "-o", "whole.json")

    stopped = "treefine: Stopped. What is done is in out.json.part: run again with --resume to go on.\n"
    assert message == stopped
    assert Path("out.json").read_bytes() == Path("whole.json").read_bytes()
