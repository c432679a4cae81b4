"""An existing file is replaced only if it is an earlier output, and an interrupted run is not discarded."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.commands import failed, invoke
from treefine.cli.replacing import check_replaced
from treefine.errors import TreefineError
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

NOT_OURS = (
    "This file exists, and it is not an earlier output of this command. Choose a different output file, or replace "
    "this one with --force."
)
NOT_MARKED = (
    "This file exists, and it has no comment '# generator = treefine …'. Choose a different output file, or repeat the "
    "command with --force."
)
TEXT = "Dogs bark. Cats purr.\n"
DOGS = Sentence.of_words(["Dogs", "bark"]).with_arcs(Arcs((2, 0), ("nsubj", "root")))
OTHER = Sentence.of_words(["Yes"]).with_arcs(Arcs((0,), ("root",)))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT)
    write_treebank([DOGS], "in.conllu")
    write_treebank([OTHER], "other.conllu")


@pytest.fixture
def run(place, text_model):
    def run_with(*arguments, command="parse", **options):
        return invoke(*arguments, "--model", text_model, command=command, **options)

    return run_with


@pytest.mark.parametrize("name", ["x.conllu", "x.json", "x.csv", "x.svg", "x.html", "x.txt", "x.conllu.gz", "x"])
@pytest.mark.parametrize("content", [TEXT, OTHER.to_conllu()], ids=["text", "treebank"])
def test_a_file_that_is_not_an_earlier_output_is_not_replaced(place, name, content):
    Path(name).write_text(content)

    message = NOT_MARKED if name.startswith("x.conllu") or name == "x" else NOT_OURS
    assert failed(invoke, "parse", "a.txt", "-o", name, "--model", "missing") == f"{name}: {message}"
    assert Path(name).read_text() == content


@pytest.mark.parametrize("name", ["x.conllu", "x.json", "x.csv.gz", "x.svg", "x.html", "x.txt", "x.parquet"])
def test_an_earlier_output_may_be_replaced(run, name):
    run("a.txt", "-o", name)

    assert "model" in failed(invoke, "parse", "a.txt", "-o", name, "--model", "missing")  # it passes the check


def test_force_replaces_any_file_but_never_a_text_that_is_read(run):
    Path("x.conllu").write_text("precious")

    run("a.txt", "-o", "x.conllu", "--force")

    assert Path("x.conllu").read_text().startswith("# generator = treefine ")
    assert failed(run, "a.txt", "-o", "a.txt", "--force") == (
        "a.txt: The output would overwrite the input. Choose a different output file."
    )
    assert Path("a.txt").read_text() == TEXT


def test_an_empty_file_and_a_device_are_written(run):
    Path("x.json").touch()

    run("a.txt", "-o", "x.json")
    run("a.txt", "-o", "/dev/null")

    assert Path("x.json").stat().st_size


@pytest.mark.parametrize("arguments", [["parse", "-"], ["parse", "in.conllu"], ["refine", "in.conllu"]])
@pytest.mark.parametrize("name", ["gold.conllu", "gold.conllx"])
def test_a_treebank_without_the_comment_of_treefine_is_not_replaced(place, arguments, name):
    Path(name).write_text(DOGS.to_conllu())  # the same words as the input

    message = failed(invoke, *arguments, "-o", name, "--model", "missing", input=TEXT)

    assert message == f"{name}: {NOT_MARKED}"
    assert Path(name).read_text() == DOGS.to_conllu()


def test_no_output_overwrites_the_input_of_another(place):
    Path("texts/sub").mkdir(parents=True)
    Path("texts/sub/x.txt").write_text(TEXT)
    Path("out/sub").mkdir(parents=True)
    before = "# generator = treefine 1\n" + DOGS.to_conllu()
    Path("out/sub/x.conllu").write_text(before)

    for more in ([], ["--force"], ["--resume"]):
        message = failed(invoke, "parse", "texts", "out/sub/x.conllu", "-o", "out", "--model", "missing", *more)
        assert message == "out/sub/x.conllu: The output would overwrite an input. Choose a different folder."
    assert Path("out/sub/x.conllu").read_text() == before


@pytest.mark.parametrize(("name", "message"), [("x.conllu", NOT_MARKED), ("x.json", NOT_OURS)])
def test_an_unrelated_file_is_not_taken_for_a_finished_output(place, name, message):
    Path(name).write_text(OTHER.to_conllu())

    found = failed(invoke, "parse", "a.txt", "-o", name, "--resume", "--model", "missing")

    assert (
        found
        == f"{name}: {message.partition(' Choose')[0]} Choose a different output file, or replace --resume by --force."
    )


def test_a_finished_treebank_of_a_treebank_is_skipped(run):
    run("in.conllu", "-o", "out.conllu", "--resume")

    assert run("in.conllu", "-o", "out.conllu", "--resume").stderr == "treefine: 1 of 1 output already finished\n"


@pytest.mark.parametrize("command", ["refine", "parse"])
def test_a_treebank_is_replaced_by_its_own_trees_only_with_force(run, command):
    before = Path("in.conllu").read_text()

    message = failed(run, "in.conllu", "-o", "in.conllu", command=command)

    hint = "Choose a different output file, or replace the treebank with --force."
    assert message == f"in.conllu: The output would overwrite the input. {hint}"
    assert Path("in.conllu").read_text() == before
    run("in.conllu", "-o", "in.conllu", "--force", command=command)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["convert", "in.conllu", "x.json"], "x.json"),
        (["convert", "in.conllu", "other.conllu"], "other.conllu"),
        (["convert", "in.conllu", "x.parquet"], "x.parquet"),
        (["draw", "in.conllu", "-o", "x.txt"], "x.txt"),
        (["analyse", "in.conllu", "in.conllu", "-o", "x.csv"], "x.csv"),
        (["analyse", "in.conllu", "in.conllu", "-o", "x.json"], "x.json"),
        (["refine", "in.conllu", "-o", "out.conllu", "--changes", "x.tsv", "--model", "missing"], "x.tsv"),
    ],
)
def test_no_command_replaces_other_files(place, arguments, name):
    if name != "other.conllu":
        Path(name).write_text(TEXT)
    before = Path(name).read_text()

    assert failed(invoke, *arguments) == f"{name}: {NOT_MARKED if name == 'other.conllu' else NOT_OURS}"
    assert Path(name).read_text() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "in.conllu", "x.json"],
        ["convert", "in.conllu", "x.conllx", "--force"],
        ["draw", "in.conllu", "-o", "x.txt"],
        ["analyse", "in.conllu", "in.conllu", "-o", "x.csv", "-o", "x.json", "-o", "x.html"],
    ],
)
def test_every_command_can_be_repeated(place, arguments):
    invoke(*arguments)
    before = {path: path.read_bytes() for path in Path().glob("x.*")}
    for path in before:
        path.write_bytes(before[path] + b"\n")

    invoke(*arguments)

    assert {path: path.read_bytes() for path in Path().glob("x.*")} == before != {}


def test_an_earlier_file_of_changes_may_be_replaced(run):
    for name, kind in (("x.tsv", "changes.tsv"), ("x.json", "changes.json"), ("x.html", "html")):
        run("in.conllu", "--changes", name, command="refine")

        check_replaced(name, kind)


@settings(max_examples=50)
@given(text=st.text(min_size=1))
def test_any_text_is_kept(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("kept") / "x"
    path.write_text(text, errors="replace")

    for kind in (
        "conllu",
        "html",
        "svg",
        "json",
        "csv",
        "tsv",
        "tree",
        "changes.json",
        "changes.tsv",
        "report.json",
        "report.csv",
    ):
        with pytest.raises(TreefineError):
            check_replaced(str(path), kind)


@pytest.mark.parametrize("name", ["x.conllu", "x.json"])
def test_the_part_of_an_interrupted_run_is_mentioned_and_kept(run, name):
    run("a.txt", "-o", name)
    whole = Path(name).read_bytes()
    part = Path(f"{name}.part")
    Path(name).rename(part)
    n_sentences = whole.count(b"\n" if name == "x.json" else b"\n\n")

    message = failed(run, "a.txt", "-o", name)

    found = f"{n_sentences} sentence{'s' * (n_sentences > 1)}"
    hint = "Add --resume to continue it, or --force to start over."
    assert message == f"{name}: {name}.part has {found} of an interrupted run. {hint}"
    assert part.read_bytes() == whole
    run("a.txt", "-o", name, "--force")
    assert Path(name).read_bytes() == whole
    assert not part.exists()


def test_a_part_without_a_whole_sentence_is_discarded(run):
    Path("x.json.part").write_text('{"sent_id"')

    run("a.txt", "-o", "x.json")

    lines = Path("x.json").read_text().splitlines()
    assert "".join(word["form"] for line in lines for word in json.loads(line)["words"]) == "Dogsbark.Catspurr."


def test_a_part_that_cannot_be_continued_is_mentioned_too(run):
    Path("x.conllu.part").write_text(DOGS.to_conllu())

    assert failed(run, "a.txt", "-o", "x.conllu", "--k", 2) == (
        "x.conllu: x.conllu.part has 1 sentence of an interrupted run. Add --force to start over."
    )
