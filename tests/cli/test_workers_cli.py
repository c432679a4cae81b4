"""`treefine parse --workers` and `treefine refine --workers`: they write the same as without workers."""

from pathlib import Path

import pytest

from tests.cli.test_bad_input import BAD, GOOD
from tests.fast.test_engine import ROOMS, packed_plan
from tests.support.commands import invoke
from tests.support.tiny import sample
from treefine.fast.engine import Engine
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank


@pytest.fixture
def run(text_model, tmp_path, monkeypatch, request):
    """Run the command with an engine, as on a GPU; without one, --workers has no effect."""
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(12), "in.conllu")
    if getattr(request, "param", "engine") == "engine":
        monkeypatch.setattr(Parser, "engine", property(lambda parser: Engine(packed_plan(parser), ROOMS)))

    def run_with(*arguments, code=0, workers=1, command="parse"):
        options = ("--model", text_model, "--device", "cpu", "--workers", workers)
        return invoke(command, *options, *arguments, code=code)

    return run_with


@pytest.mark.parametrize("run", ["engine", "no engine"], indirect=True)
@pytest.mark.parametrize(
    "arguments",
    [
        ("in.conllu", "-o", "out.conllu"),
        ("in.conllu", "other.conllu", "-o", "out.conllx.xz"),
        ("in.conllu", "empty.conllu", "other.conllu", "-o", "out.conllu"),
        ("in.conllu", "-o", "-"),
    ],
    ids=["file", "converted", "empty", "stdout"],
)
def test_the_output_and_the_messages_are_those_without_workers(run, arguments):
    Path("other.conllu").write_bytes(GOOD.encode().rstrip())
    Path("empty.conllu").touch()
    code = 1 if "empty.conllu" in arguments else 0

    def output_with(workers):
        result = run(*arguments, "--force", workers=workers, code=code)
        target = Path(arguments[-1])
        return result.stderr, result.stdout, target.read_bytes() if target.exists() else b""

    assert output_with(workers=1) == output_with(workers=0)


@pytest.mark.parametrize("arguments", [("-o", "out.conllu", "--confidence"), ("-o", "out.json")], ids=str)
def test_workers_without_effect_are_reported(run, arguments):
    messages = run("in.conllu", *arguments, workers=0).stderr
    expected = Path(arguments[1]).read_bytes()

    warning = (
        "treefine: warning: --workers has no effect: it needs treebank input and output, without --confidence, --k, "
        "--review and --changes.\n"
    )
    assert run("in.conllu", *arguments, "--force").stderr == warning + messages
    assert Path(arguments[1]).read_bytes() == expected


@pytest.mark.parametrize("run", ["engine", "no engine"], indirect=True)
def test_refine_with_workers_writes_the_same_trees_and_counts_changes_only_without_them(run, request):
    counted = run("in.conllu", "-o", "expected.conllu", "--trust", 0, workers=0, command="refine").stderr

    messages = run("in.conllu", "-o", "out.conllu", "--trust", 0, command="refine").stderr

    assert Path("out.conllu").read_bytes() == Path("expected.conllu").read_bytes()
    assert counted.startswith("sentences")
    has_engine = request.node.callspec.params["run"] == "engine"
    assert messages == ("Changes are not counted with --workers.\n" if has_engine else counted)


def test_refine_lists_changes_without_the_workers(run):
    run("in.conllu", "-o", "out.conllu", "--changes", "expected.tsv", workers=0, command="refine")

    messages = run("in.conllu", "-o", "again.conllu", "--changes", "changes.tsv", command="refine").stderr

    assert "--workers has no effect" in messages
    assert Path("changes.tsv").read_bytes() == Path("expected.tsv").read_bytes()


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_an_interrupted_run_is_resumed(run, share):
    run("in.conllu", "-o", "out.conllu")
    whole = Path("out.conllu").read_bytes()
    Path("out.conllu").unlink()
    Path("out.conllu.part").write_bytes(whole[: int(share * len(whole))])

    run("in.conllu", "-o", "out.conllu", "--resume")

    assert Path("out.conllu").read_bytes() == whole
    assert not Path("out.conllu.part").exists()


def test_a_part_file_of_a_different_input_is_rejected(run):
    run("in.conllu", "-o", "out.conllu")
    Path("out.conllu").rename("out.conllu.part")
    write_treebank(sample(13)[1:], "in.conllu")

    assert "differs from the input" in run("in.conllu", "-o", "out.conllu", "--resume", code=1).stderr


def test_after_an_error_the_finished_sentences_are_kept_and_the_run_can_be_resumed(run):
    Path("in.conllu").write_bytes(GOOD.encode() * 3 + BAD["nine.conllu"][0])

    result = run("in.conllu", "-o", "out.conllu", code=1)

    assert result.stderr == (
        "treefine: in.conllu:15: (s1) The line must have 10 columns, not 9. The finished sentences are in "
        "out.conllu.part. To continue, run again with --resume.\n"
    )
    Path("in.conllu").write_bytes(GOOD.encode() * 4)
    run("in.conllu", "-o", "whole.conllu", workers=0)
    run("in.conllu", "-o", "out.conllu", "--resume")
    assert Path("out.conllu").read_bytes() == Path("whole.conllu").read_bytes()
