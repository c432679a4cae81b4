"""`treefine parse --workers` and `treefine refine --workers`: they write the same as without workers."""

from pathlib import Path

import pytest

from tests.cli.test_bad_input import GOOD
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


@pytest.mark.parametrize(
    "arguments",
    [
        ("in.conllu", "-o", "out.conllu"),
        ("in.conllu", "empty.conllu", "other.conllu", "-o", "out/"),
    ],
    ids=["file", "empty"],
)
def test_the_output_and_the_messages_are_those_without_workers(run, arguments):
    Path("other.conllu").write_bytes(GOOD.encode().rstrip())
    Path("empty.conllu").touch()
    code = 1 if "empty.conllu" in arguments else 0

    def output_with(workers):
        result = run(*arguments, "--force", workers=workers, code=code)
        written = {path: path.read_bytes() for path in (*Path().glob("out.conllu"), *Path().glob("out/*"))}
        return result.stderr, result.stdout, written

    assert output_with(workers=1) == output_with(workers=0)


@pytest.mark.parametrize("run", ["engine", "no engine"], indirect=True)
@pytest.mark.parametrize("arguments", [("-o", "out.conllx"), ("-o", "out.json")], ids=str)
def test_workers_without_effect_are_reported(run, arguments):
    messages = run("in.conllu", *arguments, workers=0).stderr
    expected = Path(arguments[1]).read_bytes()

    warning = (
        "treefine: warning: --workers has no effect: it needs a GPU and one output file per treebank, in the same "
        "format, without --confidence, --k, --review, --changes and --trust.\n"
    )
    assert run("in.conllu", *arguments, "--force").stderr == warning + messages
    assert Path(arguments[1]).read_bytes() == expected


def test_refine_with_workers_writes_the_same_trees_and_counts_changes_only_without_them(run):
    counted = run("in.conllu", "-o", "expected.conllu", "--trust", 0, workers=0, command="refine").stderr

    messages = run("in.conllu", "-o", "out.conllu", "--trust", 0, command="refine").stderr

    assert Path("out.conllu").read_bytes() == Path("expected.conllu").read_bytes()
    assert counted.startswith("sentences")
    assert messages == "Changes are not counted with --workers.\n"


def test_an_interrupted_run_is_resumed(run):
    run("in.conllu", "-o", "out.conllu")
    whole = Path("out.conllu").read_bytes()
    Path("out.conllu").unlink()
    Path("out.conllu.part").write_bytes(whole[: len(whole) // 2])

    run("in.conllu", "-o", "out.conllu", "--resume")

    assert Path("out.conllu").read_bytes() == whole
    assert not Path("out.conllu.part").exists()
