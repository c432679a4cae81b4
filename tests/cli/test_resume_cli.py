"""A resumed run has the same result as an uninterrupted one."""

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
    "several files": ("short.txt", "in.txt", "-o", "out.conllu"),
    "compressed": ("in.txt", "--from", "words", "-o", "out.json.xz"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_writes_the_same_bytes(run, kind):
    *_, name = (each for each in KINDS[kind] if each.startswith("out."))
    run(*KINDS[kind])
    whole = Path(name).read_bytes()
    plain = lzma.decompress(whole) if kind == "compressed" else whole

    for cut in (1, len(plain) // 2, len(plain)):
        Path(name).unlink()
        Path(f"{name}.part").write_bytes(plain[:cut])
        run(*KINDS[kind], "--resume")
        assert Path(name).read_bytes() == whole
        assert not Path(f"{name}.part").exists()


def test_skipped_sentences_are_not_parsed(run, monkeypatch):
    run(*KINDS["conllu"])
    Path("out.conllu").rename("out.conllu.part")
    parsed = []

    def record(plan, items):
        parsed.extend(item.sentence for item in items)
        return trees(plan, items)

    monkeypatch.setattr("treefine.parsing.batches.MOST_SENTENCES", 1)  # per chunk, because whole chunks are skipped
    monkeypatch.setattr("treefine.parsing.parser.trees", record)

    run(*KINDS["conllu"], "--resume")

    assert [sentence.forms[-1] for sentence in parsed] == ["11"]


def test_finished_files_in_a_folder_are_skipped(run):
    Path("a.txt").write_text("Dogs bark\nYes\n")
    Path("b.txt").write_text("It sleeps\n")
    run("a.txt", "b.txt", "--from", "words", "-o", "all/")
    whole = Path("all/b.conllu").read_bytes()
    Path("all/a.conllu").write_text("mine")
    Path("all/b.conllu").rename("all/b.conllu.part")

    result = run("a.txt", "b.txt", "--from", "words", "-o", "all/", "--resume")
    again = run("a.txt", "b.txt", "--from", "words", "-o", "all/", "--resume")

    assert result.stderr == "treefine: 1 of 2 outputs already finished\n"
    assert again.stderr == "treefine: 2 of 2 outputs already finished\n"
    assert (Path("all/a.conllu").read_text(), Path("all/b.conllu").read_bytes()) == ("mine", whole)


def test_resume_rejects_an_output_that_is_the_input(run):
    write_treebank(sample(2), "in.conllu")

    assert "The output would overwrite an input." in run("in.conllu", "-o", "in.conllu", "--resume", code=1).stderr


def start(model, *arguments):
    command = [sys.executable, "-m", "treefine", "parse", "in.txt", "--from", "words", "--model", model]
    options = ["--device", "cpu", *map(str, SMALL), *arguments]

    def accept_ctrl_c():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell makes its background jobs ignore it

    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, preexec_fn=accept_ctrl_c)


def wait_for(path, size):
    for _ in range(6000):
        if path.exists() and path.stat().st_size > size:
            return
        time.sleep(0.01)
    raise TimeoutError


def test_a_killed_run_can_be_resumed_and_an_interrupted_one_says_how(run, text_model):
    """Kill a run at a random moment, interrupt the next with Ctrl-C, and let the third finish."""
    lines = "".join(f"Dogs bark {number} times a day\n" for number in range(150))
    Path("in.txt").write_text(lines)
    rng, part = random.Random(1), Path("out.json.part")

    for ending, at_least in ((signal.SIGKILL, 0), (signal.SIGINT, 100_000)):
        process = start(text_model, "-o", "out.json", "--resume")
        wait_for(part, at_least + rng.randrange(50_000))
        process.send_signal(ending)
        message = process.communicate()[1]
        assert process.returncode == (130 if ending == signal.SIGINT else -signal.SIGKILL)
        assert not Path("out.json").exists()
    run("in.txt", "--from", "words", "--device", "cpu", "-o", "out.json", "--resume")
    run("in.txt", "--from", "words", "--device", "cpu", "-o", "whole.json")

    stopped = "treefine: Stopped. The finished sentences are in out.json.part. To continue, run again with --resume.\n"
    assert message == stopped
    assert Path("out.json").read_bytes() == Path("whole.json").read_bytes()
