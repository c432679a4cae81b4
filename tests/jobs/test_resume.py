"""A resumed run has the same result as an uninterrupted one."""

import lzma
from pathlib import Path

import pytest

from tests.support.commands import invoke

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
