"""`treefine parse --workers`: what it writes and tells is what it does without."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.test_bad_input import BAD, GOOD
from tests.support.tiny import sample
from treefine.cli.app import app
from treefine.treebank.conllu import write_treebank


@pytest.fixture
def run(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(12), "in.conllu")

    def run_with(*arguments, code=0, workers=1):
        words = ["parse", "--model", text_model, "--device", "cpu", "--workers", workers, *arguments]
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == code, result.stderr
        return result

    return run_with


@pytest.mark.parametrize(
    "arguments",
    [
        ("in.conllu", "-o", "out.conllu"),
        ("in.conllu", "other.conllu", "-o", "out.conllx.xz"),
        ("in.conllu", "empty.conllu", "other.conllu", "-o", "out.conllu"),
    ],
    ids=["file", "converted", "empty"],
)
def test_the_output_and_the_messages_are_those_without_workers(run, arguments):
    Path("other.conllu").write_bytes(GOOD.encode().rstrip())
    Path("empty.conllu").touch()
    *_, target = (each for each in arguments if each.startswith("out."))
    code = 1 if "empty.conllu" in arguments else 0
    told = run(*arguments, workers=0, code=code).stderr
    expected = Path(target).read_bytes()
    Path(target).unlink()

    assert run(*arguments, code=code).stderr == told
    assert Path(target).read_bytes() == expected


@pytest.mark.parametrize("arguments", [("-o", "out.conllu", "--confidence"), ("-o", "out.json")], ids=str)
def test_workers_for_whom_there_is_no_work_are_told(run, arguments):
    told = run("in.conllu", *arguments, workers=0).stderr
    expected = Path(arguments[1]).read_bytes()

    warning = "treefine: warning: --workers is not used: it is for trees alone, from treebank to treebank.\n"
    assert run("in.conllu", *arguments).stderr == warning + told
    assert Path(arguments[1]).read_bytes() == expected


def test_standard_output_gets_the_same(run):
    assert run("in.conllu").stdout == run("in.conllu", workers=0).stdout


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_a_run_that_was_cut_off_is_gone_on_with(run, share):
    run("in.conllu", "-o", "out.conllu")
    whole = Path("out.conllu").read_bytes()
    Path("out.conllu").unlink()
    Path("out.conllu.part").write_bytes(whole[: int(share * len(whole))])

    run("in.conllu", "-o", "out.conllu", "--resume")

    assert Path("out.conllu").read_bytes() == whole
    assert not Path("out.conllu.part").exists()


def test_a_part_of_another_input_is_refused(run):
    run("in.conllu", "-o", "out.conllu")
    Path("out.conllu").rename("out.conllu.part")
    write_treebank(sample(13)[1:], "in.conllu")

    assert "is not that of the input" in run("in.conllu", "-o", "out.conllu", "--resume", code=1).stderr


def test_after_a_fault_all_before_it_is_kept_and_can_be_gone_on_with(run):
    Path("in.conllu").write_bytes(GOOD.encode() * 3 + BAD["nine.conllu"][0])

    result = run("in.conllu", "-o", "out.conllu", code=1)

    assert result.stderr == (
        "treefine: in.conllu:15: (s1) The line has 9 columns, not 10. What is done is in out.conllu.part: run again "
        "with --resume to go on.\n"
    )
    Path("in.conllu").write_bytes(GOOD.encode() * 4)
    run("in.conllu", "-o", "whole.conllu", workers=0)
    run("in.conllu", "-o", "out.conllu", "--resume")
    assert Path("out.conllu").read_bytes() == Path("whole.conllu").read_bytes()
