"""The analyse command: errors of systems and, with --model, the steps of a refinement."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke
from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Graph, evaluate, read_treebank, write_treebank
from treefine.cli.analyse import refined_by_steps
from treefine.config import RelationSettings
from treefine.evaluation.analysis import errors as error_analysis
from treefine.evaluation.analysis.refinement import refinement_of
from treefine.parsing.parser import Parser

run = partial(invoke, command="analyse")


def changed(sentences, label="dep"):
    """Return the sentences with all words attached to the first."""
    return [
        each.with_graph(Graph.of_words([0, *[1] * (len(each) - 1)], ["root", *[label] * (len(each) - 1)]))
        for each in sentences
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a gold file, two systems, folders with two treebanks each, and models."""
    place = tmp_path_factory.mktemp("analyse")
    inner = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")
    inner.save(place / "syntr")
    Parser(tiny_model(), device="cpu").save(place / "rngtr")
    Parser(tiny_model(), device="cpu", initial=inner, max_steps=2).save(place / "refiner")
    for name, sentences in (
        ("gold", sample(10)),
        ("moved", changed(sample(10))),
        ("other", changed(sample(10), "obj")),
    ):
        write_treebank(sentences, place / f"{name}.conllu")
        (place / name).mkdir()
        for part, half in (("a", sentences[:4]), ("b", sentences[4:])):
            write_treebank(half, place / name / f"{part}.conllu")
    (place / "gold" / "README.md").write_text("This is not a treebank.")
    (place / "half").mkdir()
    write_treebank(sample(4), place / "half" / "a.conllu")
    return place


@pytest.fixture(autouse=True)
def few_samples(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(error_analysis, "SAMPLES", 100)
    monkeypatch.setattr(error_analysis, "BAND_SAMPLES", 20)


def report_of(*arguments):
    """Return the JSON report as a list of treebanks."""
    run(*arguments, "--force", "-o", "report.json")
    return json.loads(Path("report.json").read_text())["treebanks"]


def test_without_an_output_a_summary_of_all_treebanks_is_printed():
    result = run("gold", "moved", "other", "--names", "old,new")

    summary, *_ = result.stdout.split("\n\n")
    assert result.stderr == ""
    assert summary == f"all together: 10 sentences, {sum(map(len, sample(10))):,} words, rule conll18"
    headings = [line.partition(":")[0] for line in result.stdout.splitlines() if "rule conll18" in line]
    assert headings == ["all together", "a.conllu", "b.conllu"]
    assert result.stdout.count("LAS by dependency length") == 1
    assert {"old", "new"} <= set(result.stdout.split())


def test_all_outputs_contain_the_same_numbers():
    run("gold.conllu", "moved.conllu", "other.conllu", "--force", "-o", "r.json", "-o", "r.html")

    (values,) = json.loads(Path("r.json").read_text())["treebanks"]
    page = Path("r.html").read_text()
    scores = evaluate("gold.conllu", "moved.conllu")
    assert {name: each["f1"] for name, each in values["scores"]["moved"].items()} == {
        name: score.f1 for name, score in scores.items()
    }
    assert f"{100 * scores['UAS'].f1:.2f}" in page
    assert "moved, other against gold.conllu" in page
    assert values["differences"] == []


ONE_WORD = "1\ta\t_\t_\t_\t_\t{}\t{}\t_\t_\n\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("gold", "There must be either systems or a model to analyse. Name SYSTEM files, or --model."),
        ("gold nowhere", "nowhere: No such file or directory."),
        ("gold moved.conllu", "moved.conllu: This is a file, but gold is a folder. Give only files, or only folders"),
        ("gold half", "half/b.conllu: There is no such file to match gold/b.conllu."),
        ("gold.conllu moved.conllu -o r.csv", "r.csv: analyse cannot write this kind of file. Choose a file name that"),
        ("in.json in.json -o in.json", "in.json: The output would overwrite an input. Choose a different output file."),
        ("gold.conllu moved.conllu --steps 2", "--steps needs --model. Add --model, or leave out --steps."),
        ("gold.conllu moved.conllu --model en", "There must be either systems or a model to analyse."),
        ("gold.conllu --model syntr", "syntr: This model does not refine, so there are no steps to analyse. Parse"),
        ("gold.conllu --model rngtr --steps 1", "There is nothing to compare: one step, and no initial trees."),
        ("gold --model none --initial half/a.conllu", "half/a.conllu: This is a file, but gold is a folder."),
    ],
)
def test_errors_are_reported_in_one_line(arguments, message):
    Path("in.json").write_text(ONE_WORD.format(0, "root"))

    assert failed(run, *arguments.split()).startswith(message)


# The steps of a model


def test_the_report_has_the_scores_of_each_step_the_parameters_and_the_run_time():
    (found,) = report_of("gold.conllu", "--model", "refiner", "--steps", "2")

    gold, parser = sample(10), Parser.from_pretrained("refiner", max_steps=2, device="cpu")
    parsers = parser.initial, parser.using(max_steps=1), parser
    assert found["t"] == [0, 1, 2]
    assert found["attachment"]["LAS"]["f1"] == pytest.approx(
        [evaluate(gold, each.parse(gold))["LAS"].f1 for each in parsers]
    )
    costs = found["costs"]
    assert costs["parameters"] == sum(each.numel() for each in tiny_model().parameters())
    assert costs["initial_parameters"] > 0
    assert (costs["device"], len(costs["seconds"]), costs["sentences"][0]) == ("cpu", 2, 10)


def test_the_initial_trees_can_come_from_a_file_or_a_folder_with_the_same_file_names():
    whole, first, second = report_of("gold", "--model", "rngtr", "--initial", "moved", "--steps", "2")
    (one,) = report_of("gold.conllu", "--model", "rngtr", "--initial", "moved.conllu", "--steps", "2")

    assert [each["t"] for each in (whole, first, second)] == [[0, 1, 2]] * 3
    assert whole["attachment"] == one["attachment"]
    assert whole["costs"]["parameters"] == one["costs"]["parameters"]
    uas = evaluate(sample(10), read_treebank("moved.conllu"))["UAS"].f1
    assert one["attachment"]["UAS"]["f1"][0] == pytest.approx(uas)


def test_the_tables_are_printed_or_written_as_a_page():
    printed = run("-", "--model", "rngtr", "--steps", "3", input=Path("gold.conllu").read_text()).stdout
    run("gold.conllu", "--model", "rngtr", "--steps", "2", "--examples", 0, "--force", "-o", "r.html")

    assert printed.startswith("stdin: 10 sentences, ")
    for title in ("Refinement by step", "Labels", "Projectivity", "Run time and parameters"):
        assert title in printed
    assert "<h1>Refinement of gold.conllu by rngtr</h1>" in Path("r.html").read_text()
    assert "<figcaption" not in Path("r.html").read_text()


INNER = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")


@pytest.mark.parametrize("options", [{}, {"initial": INNER}, {"initial": "given", "trust": 0}])
def test_trees_are_those_of_the_parsers_steps_and_a_stopped_sentence_keeps_its_last(options):
    parser, sentences = tiny_parser(max_steps=3, **options), sample(12)

    refinement, costs = refined_by_steps(parser, sentences, lambda: None, name="", rule="conll18")

    steps, numbers = [parser.steps(each) for each in sentences], range(1, 4)
    initial = {INNER: INNER.parse(sentences), "given": sentences}.get(options.get("initial"), [])
    start = [[each.arcs for each in sentences]] if initial is sentences else [[each.tree.arcs for each in initial]]
    trees = [[found[min(t, len(found)) - 1].tree.arcs for found in steps] for t in numbers]
    stopped_by = [sum(any(step.converged and step.t <= t for step in each) for each in steps) for t in numbers]
    first = 0 if initial else 1
    expected = refinement_of(sentences, (start if initial else []) + trees, first=first)
    assert refinement == replace(expected, converged=tuple(stopped_by[first:]))
    assert costs.sentences == tuple(sum(len(each) >= t for each in steps) for t in numbers)
    assert all(costs.seconds)
