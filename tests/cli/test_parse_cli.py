"""The commands parse and refine as a user calls them."""

import io
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.data import DATA, ud_files
from tests.support.tiny import sample, tiny_biaffine, tiny_model
from treefine import read_treebank
from treefine.cli.app import app
from treefine.config import RelationSettings, TagSettings
from treefine.parsing.initial import given
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Models of each kind in the working folder."""
    monkeypatch.chdir(tmp_path)
    Parser(tiny_model(), device="cpu").save("rngtr")
    Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu").save("tagger")
    Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu").save("syntr")
    Parser(tiny_biaffine(), device="cpu").save("biaffine")
    write_treebank(sample(8), "in.conllu")


def run(*arguments, code=0, input=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)
    assert result.exit_code == code, result.stderr
    return result


def failed(*arguments, input=None):
    result = run(*arguments, code=1, input=input)
    assert result.stderr.startswith("treefine: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    return result.stderr.removeprefix("treefine: ").rstrip()


def read(text):
    return list(read_treebank(io.BytesIO(text.encode())))


def assert_nothing_but_the_tree_changed(before, after):
    """Comments, order, lines and columns are as they were; DEPS follows the tree as `with_graph` has it."""
    assert after == [old.with_graph(new.graph) for old, new in zip(before, after, strict=True)]
    assert all(new.graph.is_tree for new in after)


@pytest.mark.parametrize("path", ud_files("en_ewt/dev.conllu.xz"))
def test_a_tiny_model_written_moved_and_loaded_parses_a_whole_treebank(path, models):
    shutil.move("rngtr", "moved")
    command = [sys.executable, "-m", "treefine", "parse", "--model", "moved", "--device", "cpu", "--steps", "2"]

    subprocess.run([*command, path, "-o", "out.conllu"], check=True)

    before, after = list(read_treebank(path)), list(read_treebank("out.conllu"))
    assert len(after) == 2002
    assert_nothing_but_the_tree_changed(before, after)


def test_parse_gives_what_the_parser_gives(models):
    out = run("parse", "--model", "rngtr", "in.conllu").stdout

    assert read(out) == Parser.from_pretrained("rngtr", device="cpu").parse(sample(8))


def test_every_construct_of_a_treebank_survives(models):
    before = list(read_treebank(DATA / "constructs.conllu"))

    run("parse", "--model", "rngtr", DATA / "constructs.conllu", "-o", "out.conllu")

    after = list(read_treebank("out.conllu"))
    assert_nothing_but_the_tree_changed(before, after)


@pytest.mark.parametrize("name", ["penn.conllx", "german.conll09"])
def test_older_formats_are_parsed_and_written_as_they_are(models, name):
    before = list(read_treebank(DATA / name))

    run("parse", "--model", "rngtr", DATA / name, "-o", f"out{Path(name).suffix}")

    after = list(read_treebank(f"out{Path(name).suffix}"))
    assert_nothing_but_the_tree_changed(before, after)


def test_the_name_of_the_output_can_tell_another_format(models):
    run("parse", "--model", "rngtr", DATA / "penn.conllx", "-o", "out.conllu.gz")

    assert [s.forms for s in read_treebank("out.conllu.gz")] == [s.forms for s in read_treebank(DATA / "penn.conllx")]


def test_sentences_come_from_standard_input_and_trees_go_to_standard_output(models):
    text = Path("in.conllu").read_text()

    assert (
        run("parse", "--model", "rngtr", "-", input=text).stdout == run("parse", "--model", "rngtr", "in.conllu").stdout
    )


def test_words_one_sentence_a_line_are_parsed(models):
    Path("in.txt").write_text("A dog barks .\n\nIt sleeps\n")

    out = run("parse", "--model", "tagger", "--from", "words", "in.txt").stdout
    from_stdin = run("parse", "--model", "tagger", "--from", "words", "-", input="A dog barks .\n\nIt sleeps\n")

    first, second = read(out)
    assert first.comments == ("# sent_id = 1", "# text = A dog barks .")
    assert (first.forms, second.forms) == (("A", "dog", "barks", "."), ("It", "sleeps"))
    assert "_" not in first.upos + first.xpos
    assert from_stdin.stdout == out


@pytest.mark.parametrize("initial", ["empty", "syntr", "biaffine", "in.conllu", "tagger"])
def test_each_initial_parser_can_be_named(models, initial):
    out = run("parse", "--model", "rngtr", "--initial", initial, "in.conllu").stdout

    assert read(out) == Parser.from_pretrained("rngtr", initial=initial, device="cpu").parse(sample(8))


def test_refine_starts_from_the_trees_of_the_file(models):
    out = run("refine", "in.conllu", "--model", "rngtr", "--steps", "1").stdout

    parser = Parser.from_pretrained("rngtr", initial=given, max_steps=1, device="cpu")
    assert read(out) == parser.parse(sample(8))
    assert read(out) != parser.using(initial="empty", max_steps=1).parse(sample(8))


def test_a_blank_head_is_no_arc_for_refine_and_nothing_to_parse(models):
    lines = [line.split("\t") for line in Path("in.conllu").read_text().splitlines()]
    blank = "\n".join("\t".join([*c[:6], "_", "_", *c[8:]] if len(c) == 10 else c) for c in lines) + "\n"

    parsed = run("parse", "--model", "rngtr", "-", input=blank).stdout
    refined = run("refine", "--model", "rngtr", "-", "--steps", "4", input=blank).stdout

    assert [s.graph for s in read(parsed)] == [
        s.graph for s in read(run("parse", "--model", "rngtr", "in.conllu").stdout)
    ]
    assert refined == parsed  # without any head there is no graph to start from


def test_steps_tags_batches_and_projectivity_are_the_callers(models):
    options = ("--steps", 2, "--tags", "none", "--batch-pieces", 50, "--projective", "--device", "cpu")

    out = run("parse", "--model", "rngtr", "in.conllu", *options).stdout

    parser = Parser.from_pretrained("rngtr", max_steps=2, tags="none", is_projective=True, device="cpu")
    assert read(out) == parser.parse(sample(8))


def test_missing_tags_are_told_once(models):
    result = run("parse", "--model", "rngtr", "--from", "words", "-", input="A dog\nIt sleeps\n")

    assert result.stderr == (
        "treefine: warning: <stdin>:1: (1) There is no UPOS here, which the model was trained to read. "
        "Trees will be worse than they could be.\n"
    )
    assert run("parse", "--model", "tagger", "--from", "words", "-", input="A dog\n").stderr == ""
    assert run("parse", "--model", "rngtr", "in.conllu").stderr == ""


def test_an_empty_file_is_told(models):
    Path("empty.conllu").touch()
    Path("empty.txt").touch()

    assert failed("parse", "--model", "rngtr", "empty.conllu") == (
        "empty.conllu: The file holds no sentence. Is it the right one?"
    )
    assert failed("parse", "--model", "rngtr", "--from", "words", "empty.txt") == (
        "empty.txt: The file holds no sentence. Is it the right one?"
    )


def test_a_file_that_ends_within_a_line_is_told_and_nothing_is_written(models):
    text = Path("in.conllu").read_text()
    Path("cut.conllu").write_text(text[: text.rindex("PUNCT")])
    Path("out.conllu").write_text("precious")

    message = failed("parse", "--model", "rngtr", "cut.conllu", "-o", "out.conllu")

    assert message.startswith("cut.conllu:")
    assert "columns, not 10." in message
    assert Path("out.conllu").read_text() == "precious"
    assert not list(Path().glob("*.tmp"))


def test_a_file_that_ends_after_a_line_but_before_its_heads_is_told(models):
    lines = Path("in.conllu").read_text().splitlines(keepends=True)
    Path("cut.conllu").write_text("".join(lines[:4]))

    assert "word 1) HEAD is 3 but the sentence has 1 word" in failed("parse", "--model", "rngtr", "cut.conllu")


def test_a_file_without_a_last_blank_line_loses_nothing(models):
    Path("cut.conllu").write_text(Path("in.conllu").read_text().rstrip("\n"))

    out = run("parse", "--model", "rngtr", "cut.conllu").stdout

    assert [s.forms for s in read(out)] == [s.forms for s in sample(8)]


def test_an_initial_file_of_other_sentences_is_told_and_nothing_is_written(models):
    write_treebank(sample(7), "short.conllu")

    message = failed("parse", "--model", "rngtr", "--initial", "short.conllu", "in.conllu", "-o", "out.conllu")

    assert message.startswith("short.conllu: The file of initial parses ends before sentence 8 (in.conllu:")
    assert not Path("out.conllu").exists()


def test_a_model_that_cannot_refine_is_told(models):
    assert failed("refine", "in.conllu", "--model", "syntr") == (
        "This model reads no graph, so it cannot refine an initial parse."
    )


def test_a_damaged_model_is_told(models):
    Path("rngtr/model.safetensors").write_bytes(b"torn")

    message = failed("parse", "--model", "rngtr", "in.conllu")

    assert message.startswith("rngtr/model.safetensors: The file is damaged (")
    assert message.endswith("Copy or download it again.")


def test_a_missing_model_is_told(models):
    assert failed("parse", "--model", "./nowhere", "in.conllu") == "./nowhere: There is no such model folder."


def test_a_device_that_is_not_there_is_told(models):
    assert failed("parse", "--model", "rngtr", "--device", "abacus", "in.conllu").startswith(
        "Device 'abacus' cannot be used ("
    )


@pytest.mark.parametrize("command", ["parse", "refine"])
def test_wrong_options_are_told_with_the_right_ones(models, command):
    assert "'gold' is not one of" in run(command, "--model", "rngtr", "--tags", "gold", "in.conllu", code=2).stderr
    assert "Invalid value for '--steps'" in run(command, "--model", "rngtr", "--steps", 0, "in.conllu", code=2).stderr
    assert "'csv' is not one of 'tree', 'conllu'" in run(command, "--format", "csv", "in.conllu", code=2).stderr
    assert "'csv' is not one of" in run(command, "--from", "csv", "in.conllu", code=2).stderr


def test_packed_files_are_parsed_as_they_are(models):
    Path("in.conllu.xz").write_bytes(lzma.compress(Path("in.conllu").read_bytes()))

    run("parse", "--model", "rngtr", "in.conllu.xz", "-o", "out.conllu.xz")

    assert [s.forms for s in read_treebank("out.conllu.xz")] == [s.forms for s in sample(8)]


def test_what_the_format_of_the_output_has_no_place_for_is_told(models):
    result = run("parse", "--model", "rngtr", DATA / "constructs.conllu", "-o", "out.conllx")

    assert result.stderr.startswith("CoNLL-X has no place for: ")
    assert "comments" in result.stderr


def test_predicted_tags_find_their_column_in_the_format_of_the_output(models):
    run("parse", "--model", "tagger", DATA / "german.conll09", "-o", "out.conllu")

    assert all("_" not in sentence.upos for sentence in read_treebank("out.conllu"))


def test_a_closed_output_is_told(models):
    command = f"{sys.executable} -m treefine parse --model rngtr in.conllu >&-"

    done = subprocess.run(command, shell=True, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (1, "treefine: Standard output is closed. Name a file to write.\n")
