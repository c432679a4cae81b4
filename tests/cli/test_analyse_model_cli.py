"""The analyse command with --model."""

import csv
import json
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke
from tests.support.tiny import sample, tiny_biaffine, tiny_model
from treefine import Graph, evaluate, read_treebank
from treefine.config import RelationSettings, TagSettings
from treefine.evaluation.scores import relative_error_reduction
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a gold file and models of each kind."""
    place = tmp_path_factory.mktemp("analyse")
    biaffine = Parser(tiny_biaffine(), device="cpu")
    biaffine.save(place / "biaffine")
    Parser(tiny_model(), device="cpu").save(place / "rngtr")
    Parser(tiny_model(), device="cpu", initial=biaffine, max_steps=2).save(place / "refiner")
    Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu").save(place / "syntr")
    write_treebank(sample(10), place / "gold.conllu")
    (place / "golds").mkdir()
    write_treebank(sample(4), place / "golds" / "a.conllu")
    write_treebank(sample(10)[4:], place / "golds" / "b.conllu")
    (place / "golds" / "README.md").write_text("This is not a treebank.")
    (place / "parses").mkdir()  # for one of the two treebanks
    write_treebank(sample(4), place / "parses" / "a.conllu")
    tagged = tiny_model(tags=TagSettings(source="predicted"))
    Parser(tagged, device="cpu", initial=biaffine, max_steps=2).save(place / "tagging")
    return place


def wrong_parses(sentences):
    """Return the sentences with all words attached to the first."""
    return [each.with_graph(Graph.of_words([0, *[1] * (len(each) - 1)], ["dep"] * len(each))) for each in sentences]


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def analysed(*arguments):
    """Return the JSON report as a list of treebanks."""
    invoke("analyse", *arguments, "-o", "report.json")
    return json.loads(Path("report.json").read_text())["treebanks"]


def test_the_report_has_the_scores_of_each_step_the_parameters_and_the_run_time():
    (found,) = analysed("gold.conllu", "--model", "refiner", "--steps", "2")

    gold, parser = sample(10), Parser.from_pretrained("refiner", max_steps=2, device="cpu")
    inner = list(parser.initial.stream_trees(gold))
    steps = [[step.tree for step in parser.steps(sentence)] for sentence in gold]
    parses = [inner] + [
        [each.with_graph(trees[min(t, len(trees) - 1)]) for each, trees in zip(gold, steps, strict=True)]
        for t in (0, 1)
    ]
    las = [evaluate(gold, parsed)["LAS"].f1 for parsed in parses]
    assert found["t"] == [0, 1, 2]
    assert found["attachment"]["LAS"]["f1"] == pytest.approx(las)
    rel = [relative_error_reduction(*two) for two in zip(las, las[1:], strict=False)]
    assert found["attachment"]["LAS"]["error_reduction"] == pytest.approx(rel)
    sizes = [sum(each.numel() for each in model.parameters()) for model in (tiny_model(), tiny_biaffine())]
    costs = found["costs"]
    assert [costs["parameters"], costs["initial_parameters"]] == sizes
    assert (costs["device"], len(costs["seconds"]), costs["sentences"][0]) == ("cpu", 2, 10)


def test_a_sentence_has_converged_if_its_graph_not_only_its_tree_stays_the_same():
    (found,) = analysed("gold.conllu", "--model", "refiner", "--steps", "4")

    parser = Parser.from_pretrained("refiner", max_steps=4, device="cpu")
    steps = [list(parser.steps(sentence)) for sentence in sample(10)]
    stopped = [len(each) for each in steps if each[-1].converged]
    trees = [[parsed.graph for parsed in parser.initial.stream_trees(sample(10))]]
    trees += [[each[min(t, len(each) - 1)].tree for each in steps] for t in range(4)]
    same_trees = [sum(map(Graph.__eq__, *two)) for two in zip(trees, trees[1:], strict=False)]
    assert found["converged"] == [sum(last <= t for last in stopped) for t in range(1, 5)]
    assert found["converged"] != same_trees  # or the test would prove nothing


def test_the_initial_trees_can_come_from_a_file():
    wrong = wrong_parses(sample(10))
    write_treebank(wrong, "wrong.conllu")

    (found,) = analysed("gold.conllu", "--model", "rngtr", "--initial", "wrong.conllu", "--steps", "1")

    assert found["t"] == [0, 1]
    assert found["attachment"]["UAS"]["f1"][0] == pytest.approx(evaluate(sample(10), wrong)["UAS"].f1)


def test_the_initial_trees_can_come_from_a_folder_with_the_same_file_names(tmp_path):
    write_treebank(wrong_parses(sample(10)), "wrong.conllu")
    write_treebank(wrong_parses(sample(4)), tmp_path / "a.conllu")
    write_treebank(wrong_parses(sample(10)[4:]), tmp_path / "b.conllu")

    whole, first, second = analysed("golds", "--model", "rngtr", "--initial", tmp_path, "--steps", "2")
    (one,) = analysed("gold.conllu", "--model", "rngtr", "--initial", "wrong.conllu", "--steps", "2")

    assert [each["t"] for each in (whole, first, second)] == [[0, 1, 2]] * 3
    assert whole["attachment"] == one["attachment"]
    assert whole["costs"]["parameters"] == one["costs"]["parameters"]
    whole, *_ = analysed("golds", "--model", "rngtr", "--initial", tmp_path)
    (one,) = analysed("golds/a.conllu", "--model", "rngtr", "--initial", tmp_path / "a.conllu")
    assert whole["t"] == one["t"]  # the number of steps of the model


def test_a_model_folder_is_a_model_even_if_gold_is_a_folder():
    whole, *_ = analysed("golds", "--model", "rngtr", "--initial", "biaffine", "--steps", "1")

    assert whole["costs"]["initial_parameters"] == sum(each.numel() for each in tiny_biaffine().parameters())


def test_a_note_explains_why_a_model_that_predicts_tags_does_not_converge_in_its_first_step():
    for model, is_noted in (("tagging", True), ("refiner", False)):
        (found,) = analysed("gold.conllu", "--model", model, "-o", "noted.html")
        printed = " ".join(invoke("analyse", "gold.conllu", "--model", model).stdout.split())

        assert found["predicts_tags"] == is_noted
        for text in (Path("noted.html").read_text(), printed):
            assert ("cannot converge before t = 2" in text) == is_noted
        assert not is_noted or found["converged"][0] == 0


@pytest.mark.parametrize("examples", [0, 2])
def test_examples_sets_the_number_of_drawn_sentences(examples):
    made = Parser.from_pretrained("rngtr", device="cpu", max_steps=2)
    steps = [[step.tree for step in made.steps(sentence)] for sentence in sample(10)]
    last = [sentence.with_graph(trees[-1]) for sentence, trees in zip(sample(10), steps, strict=True)]
    write_treebank(last, "last.conllu")  # with its own trees as gold, every change of the model is a correction

    (found,) = analysed("last.conllu", "--model", "rngtr", "--steps", "2")
    invoke("analyse", "last.conllu", "--model", "rngtr", "--steps", "2", "--examples", examples, "-o", "drawn.html")

    assert len(found["corrected"]) > 2  # or the test would prove nothing
    assert Path("drawn.html").read_text().count("<figcaption") == examples


def test_treebanks_of_a_folder_are_counted_together_and_separately():
    whole, first, second = analysed("golds", "--model", "rngtr", "--steps", "2")
    (one,) = analysed("gold.conllu", "--model", "rngtr", "--steps", "2")

    assert [whole["name"], first["name"], second["name"]] == ["all together", "a", "b"]
    assert whole["attachment"] == one["attachment"]
    assert whole["labels"] == one["labels"]
    assert isinstance(whole["attachment"]["LAS"]["gold"], int)
    assert whole["costs"]["sentences"] == one["costs"]["sentences"]
    assert first["sentences"] + second["sentences"] == 10


def test_without_an_output_the_tables_are_printed():
    printed = invoke("analyse", "gold.conllu", "--model", "rngtr", "--steps", "3").stdout

    assert printed.startswith("gold: 10 sentences, ")
    assert "there is no t = 0, and corrections are counted from t = 2" in printed
    for title in ("Refinement by step", "Labels", "Projectivity", "Run time and parameters"):
        assert f"\n{title}  " in printed
    n_parameters = sum(each.numel() for each in tiny_model().parameters())
    assert f"The model has {n_parameters / 1e6:.1f} million parameters" in " ".join(printed.split())
    assert max(map(len, printed.splitlines()[1:])) <= 100


def test_the_summary_of_several_treebanks_explains_its_tables_once():
    printed = " ".join(invoke("analyse", "golds", "--model", "rngtr", "--steps", "2").stdout.split())

    assert printed.count("million parameters") == printed.count("A sentence has converged when") == 1
    assert printed.count("Run time and parameters") == 3


def test_one_call_writes_a_page_json_and_csv():
    invoke("analyse", "gold.conllu", "--model", "refiner", "-o", "r.html", "-o", "r.json", "-o", "r.csv")

    assert "<h1>Refinement of gold.conllu by refiner</h1>" in Path("r.html").read_text()
    with Path("r.csv").open() as file:
        rows = {(row["table"], row["kind"], row["t"]): row for row in csv.DictReader(file)}
    (values,) = json.loads(Path("r.json").read_text())["treebanks"]
    las = values["attachment"]["LAS"]["f1"]
    assert [float(rows["attachment", "LAS", str(t)]["f1"]) for t in values["t"]] == las


def test_gold_can_come_from_standard_input():
    printed = invoke("analyse", "-", "--model", "rngtr", "--steps", "2", input=Path("gold.conllu").read_text()).stdout

    assert "10 sentences" in printed


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "The file contains no sentences."),
        ("1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n\n", "The gold file has no labels."),
        ("1\ta\t_\t_\t_\t_\t1\troot\t_\t_\n\n", "cycle"),
        ("1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n", "HEAD is blank."),
    ],
    ids=["empty file", "no labels", "a cycle", "no heads"],
)
def test_a_gold_file_that_cannot_be_scored_is_reported_before_the_model_is_loaded(lines, message):
    Path("bad.conllu").write_text(lines)

    assert message in failed(invoke, "analyse", "bad.conllu", "--model", "no-such-model")


NO_GRAPH = (
    "This model does not refine, so there are no steps to analyse. "
    "Parse with it, and give its parses as SYSTEM instead."
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("gold.conllu --model syntr", f"syntr: {NO_GRAPH}"),
        ("gold.conllu --model biaffine", f"biaffine: {NO_GRAPH}"),
        (
            "gold.conllu --model rngtr --steps 1",
            "There is nothing to compare: one step, and no initial trees. "
            "Increase --steps, or give initial trees with --initial.",
        ),
        (
            "golds --model rngtr --initial parses",
            "parses/b.conllu: There is no such file to match golds/b.conllu.",
        ),
        (
            "golds --model no-such-model --initial parses/a.conllu",
            "parses/a.conllu: This is a single file of initial parses, but golds contains 2 treebanks. "
            "Give a folder of parses with the same file names.",
        ),
    ],
)
def test_a_model_without_steps_and_mismatched_files_are_reported_in_one_line(arguments, message):
    assert failed(invoke, "analyse", *arguments.split()) == message


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("gold.conllu --model no-such-model", "no-such-model"),
        ("gold.conllu --model rngtr --initial parses/a.conllu", "parses/a.conllu"),  # it has different sentences
    ],
)
def test_an_error_names_the_unknown_model_or_the_wrong_parses(arguments, part):
    assert part in failed(invoke, "analyse", *arguments.split())


def test_a_gold_label_unknown_to_the_model_counts_as_wrong():
    strange = [each.with_graph(Graph.of_words(each.graph.heads[1:], ["strange"] * len(each))) for each in sample(1)]
    write_treebank(strange, "strange.conllu")

    (found,) = analysed("strange.conllu", "--model", "rngtr", "--steps", "2")

    assert found["attachment"]["LAS"]["correct"] == [0, 0]
    assert found["labels"]["strange"]["gold"] == sum(map(len, strange))


@pytest.mark.parametrize("gold", ["gold.conllu", "golds"])
def test_analyse_reads_older_labels_of_initial_parses_like_parse(gold, tmp_path):
    """Compare the last step with the trees of parse from the same initial file."""
    older = {"obj": "dobj", "root": "ROOT", "nsubj:pass": "nsubjpass"}
    files = sorted(Path(gold).glob("*.conllu")) if Path(gold).is_dir() else [Path(gold)]
    for path in files:
        sentences = list(read_treebank(path))
        renamed = [Graph.of_words(each.heads, [older.get(label, label) for label in each.labels]) for each in sentences]
        write_treebank(
            [each.with_graph(graph) for each, graph in zip(sentences, renamed, strict=True)], tmp_path / path.name
        )
    initial = tmp_path if Path(gold).is_dir() else tmp_path / "gold.conllu"

    found = analysed(gold, "--model", "rngtr", "--initial", initial, "--steps", "2")[-1]

    last = files[-1]
    initial = tmp_path / last.name
    options = ("--model", "rngtr", "--initial", initial, "--trust", 0, "--steps", 2)
    invoke("parse", last, *options, "-o", tmp_path / "out.conllu")
    assert found["attachment"]["LAS"]["f1"][-1] == pytest.approx(evaluate(last, tmp_path / "out.conllu")["LAS"].f1)
    assert found["attachment"]["LAS"]["f1"][0] == 1  # the renamed labels are those of gold
