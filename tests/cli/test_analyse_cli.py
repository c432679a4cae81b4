"""The analyse command with good and bad input."""

import csv
import json
import os
import random
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.commands import invoke
from tests.support.oracles import change_labels, damage, move_heads, render, unpack
from treefine import read_treebank
from treefine.cli.app import app
from treefine.evaluation.analysis import errors as error_analysis
from treefine.evaluation.analysis.errors import analyse, read_parsed

ROW = "{}\t{}\t_\t_\t_\t_\t{}\t{}\t_\t_\n"


def conllu(*sentences):
    """Return sentences of (form, head, label) as CoNLL-U."""
    return "".join(
        "".join(ROW.format(number, *word) for number, word in enumerate(words, start=1)) + "\n" for words in sentences
    )


GOOD = conllu([("a", 2, "x"), ("b", 0, "root"), ("c", 2, "y")])


@pytest.fixture(autouse=True)
def few_samples(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(error_analysis, "TEST_SAMPLES", 100)
    monkeypatch.setattr(error_analysis, "BAND_SAMPLES", 20)


@pytest.fixture
def files(data):
    """Write a gold file and two systems, and folders of them with two treebanks each."""
    sentences = list(read_treebank(data / "en_ewt-sample.conllu"))
    for name, change in (("gold", None), ("moved", move_heads), ("labelled", change_labels)):
        Path(name).mkdir()
        for treebank, part in (("en", sentences), ("tr", sentences[:5])):
            changed = unpack(part)
            if change:
                change(random.Random(name), changed)
            Path(name, f"{treebank}.conllu").write_text(render(changed))
        Path(f"{name}.conllu").write_text(Path(name, "en.conllu").read_text())


run = partial(invoke, command="analyse")


def write(**files):
    for name, text in files.items():
        Path(f"{name}.conllu").write_text(text)


def test_without_an_output_a_summary_is_printed(files):
    sentences = list(read_treebank("gold.conllu"))

    result = run("gold.conllu", "moved.conllu", "labelled.conllu")

    head, scores, comparison, _, *curves = result.stdout.split("\n\n")
    assert result.stderr == ""
    assert head == f"gold: {len(sentences)} sentences, {sum(map(len, sentences)):,} words, rule conll18"
    assert scores.splitlines()[0].split() == "system UAS LAS CLAS MLAS BLEX UEM LEM".split()
    assert [line.split()[0] for line in scores.splitlines()[2:]] == ["moved", "labelled"]
    assert [line.split()[0] for line in comparison.splitlines()[2:4]] == ["moved", "labelled"]
    assert [curve.split("  ")[0] for curve in curves] == [
        "LAS by dependency length",
        "LAS by distance to root",
        "LAS by sentence length",
    ]


def test_all_outputs_contain_the_same_numbers(files):
    run("gold.conllu", "moved.conllu", "labelled.conllu", "-o", "r.json", "-o", "r.csv", "-o", "r.html")

    systems = {name: f"{name}.conllu" for name in ("moved", "labelled")}
    (found,) = analyse([read_parsed("gold", "gold.conllu", systems)])
    (values,) = json.loads(Path("r.json").read_text())["treebanks"]
    with Path("r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for by, curves in found.curves.items():
        for system, points in curves.items():
            shown = values["curves"][by][system]
            assert [(each["value"], each["gold"], each["f1"], each["low"], each["high"]) for each in shown] == [
                (point.value, point.gold, point.f1, point.low, point.high) for point in points
            ]
            listed = [row for row in rows if (row["table"], row["system"]) == (by, system)]
            assert [(row["value"], int(row["gold"]), int(row["predicted"]), float(row["f1"])) for row in listed] == [
                (str(point.value), point.gold, point.system, point.f1) for point in points
            ]
    for system, scores in found.scores.items():
        assert {name: each["f1"] for name, each in values["scores"][system].items()} == {
            name: score.f1 for name, score in scores.items()
        }
        confused = [row for row in rows if (row["table"], row["system"]) == ("confused head", system)]
        assert {(row["value"], row["other"]): int(row["times"]) for row in confused} == found.head_confusions[system]
        assert sum(each["times"] for each in values["confused_labels"][system]) == sum(
            found.label_confusions[system].values()
        )
    assert [each["difference"] for each in values["differences"]] == [each.difference for each in found.differences]
    assert [int(row["difference"]) for row in rows if row["table"] == "sentence"] == [
        each.difference for each in found.differences
    ]
    (significance,) = [row for row in rows if row["table"] == "significance"]
    assert float(significance["difference"]) == values["comparison"]["differences"][0]["difference"]
    most, gold = values["differences"][0], found.differences[0].gold
    assert (most["gold"]["words"], most["gold"]["heads"]) == (list(gold.forms), list(gold.heads))
    assert len(most["trees"]["labelled"][0]["labels"]) == len(gold)
    assert "moved, labelled against gold.conllu" in Path("r.html").read_text()


def test_folders_are_analysed_together_first_and_then_file_by_file(files):
    Path("gold", "README.md").write_text("not a treebank")
    Path("gold", ".en.conllu").write_text("a file that an editor left")

    run("gold", "moved/", "labelled", "-o", "r.json", "--examples", "2")
    summary = run("gold", "moved", "labelled").stdout

    together, english, turkish = json.loads(Path("r.json").read_text())["treebanks"]
    assert [each["name"] for each in (together, english, turkish)] == ["all together", "en", "tr"]
    assert together["systems"] == ["moved", "labelled"]
    assert together["words"] == english["words"] + turkish["words"]
    assert together["scores"]["moved"]["LAS"]["correct"] == sum(
        each["scores"]["moved"]["LAS"]["correct"] for each in (english, turkish)
    )
    assert 0 < len(together["differences"]) <= 4
    assert [line.split(":")[0] for line in summary.splitlines() if "rule conll18" in line] == [
        "all together",
        "en",
        "tr",
    ]
    assert summary.count("LAS by dependency length") == 1


def test_files_that_differ_only_in_their_extension_are_named_with_it():
    for folder in ("gold", "s"):
        Path(folder).mkdir()
        for ending in ("conllu", "conllx"):
            Path(folder, f"en.{ending}").write_text(GOOD)

    summary = run("gold", "s").stdout

    assert [line.split(":")[0] for line in summary.splitlines() if "rule conll18" in line][1:] == [
        "en.conllu",
        "en.conllx",
    ]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("gold", "There is no system to analyse. Name one or more files after GOLD, or add --model."),
        ("gold nowhere", "nowhere: There is no such folder."),
        (
            "gold moved.conllu",
            "moved.conllu: This is a file, but gold is a folder. "
            "Give only files, or only folders with the same file names.",
        ),
        ("gold lacking", "lacking/tr.conllu: There is no such file to match gold/tr.conllu."),
        ("lacking gold", "lacking/tr.conllu: There is no such file to match gold/tr.conllu."),
        *[
            (f"gold.conllu moved.conllu {again}", f"{again}: The same file is given twice. Name each system once.")
            for again in ("moved.conllu", "./moved.conllu", "gold/../moved.conllu")
        ],
        (
            "loop.conllu moved.conllu",
            "loop.conllu:1: (sentence 1, word 1) The heads form a cycle: 1 -> 2 -> 1. Change one of these heads.",
        ),
    ],
)
def test_files_that_do_not_match_are_reported_in_one_line(files, arguments, line):
    write(loop=GOOD.replace("\t0\t", "\t1\t"))
    Path("lacking").mkdir()
    Path("lacking", "en.conllu").write_text(GOOD)

    assert run(*arguments.split(), code=1).stderr == f"treefine: {line}\n"


def test_an_error_about_a_folder_without_treebanks_lists_their_extensions(files):
    Path("other").mkdir()
    Path("other", "notes.txt").write_text(GOOD)

    line = run("gold", "other", code=1).stderr

    assert line.startswith("treefine: other: There is no treebank in this folder. File names must end in")
    Path("same").mkdir()
    Path("same", "notes.txt").write_text(GOOD)
    assert "notes: 1 sentence, 3 words" in run("other", "same", "--format", "conllu").stdout


def test_analyse_names_systems_with_the_same_file_name_by_their_folders(files):
    run("gold.conllu", "moved/en.conllu", "labelled/en.conllu", "-o", "r.json")

    assert json.loads(Path("r.json").read_text())["treebanks"][0]["systems"] == ["moved/en", "labelled/en"]


def test_the_given_names_are_used_in_all_outputs(files):
    outputs = ("report.html", "report.json", "report.csv")
    arguments = ("gold", "moved", "labelled", "--names", "old,new", "--examples", 0)

    text = run(*arguments).stdout
    run(*arguments, *(word for output in outputs for word in ("-o", output)))

    for content in (text, *(Path(output).read_text() for output in outputs)):
        assert "old" in content
        assert "new" in content
        assert "labelled" not in content


def test_one_file_can_come_from_standard_input(files):
    text = Path("moved.conllu").read_text()

    piped = run("gold.conllu", "-", "-o", "piped.json", input=text)
    run("gold.conllu", "moved.conllu", "-o", "named.json")

    assert piped.stderr == ""
    assert Path("piped.json").read_text() == Path("named.json").read_text().replace("moved", "stdin")
    assert run("-", "-", code=1, input=text).stderr == (
        "treefine: Standard input can be used only once. Use a file for GOLD or SYSTEM.\n"
    )


@pytest.mark.parametrize(
    ("system", "options", "line"),
    [
        ("", [], "s.conllu: The file contains no sentences. Is it the right file?"),
        (
            "# a comment\n" + GOOD.replace("c", "d"),
            [],
            "s.conllu:4: (sentence 1, word 3) The text differs from gold.conllu:3: it is 'd' here and 'c' there. "
            "Both files must have the same characters; spaces and segmentation may differ.",
        ),
        (
            conllu([("a", 0, "root")]),
            [],
            "s.conllu: The file ends before 'bc' in gold.conllu:2. "
            "Both files must have the same characters; spaces and segmentation may differ.",
        ),
        (
            GOOD + GOOD,
            [],
            "s.conllu:5: (sentence 2, word 1) The file continues with 'abc' after the end of gold.conllu. "
            "Both files must have the same characters; spaces and segmentation may differ.",
        ),
        (
            GOOD.replace("\tc\t", "\td\t"),
            ["--rule", "conllx"],
            "s.conllu:3: (sentence 1, word 3) The word is 'd' here, but 'c' in gold.conllu:3.",
        ),
        (GOOD + GOOD, ["--rule", "conllx"], "s.conllu: The file has 2 sentences, but gold.conllu has 1."),
        (
            GOOD.replace("\t0\troot", "\t_\troot"),
            [],
            "s.conllu:2: (sentence 1, word 2) HEAD is blank. Parse the file first, or fill in the column.",
        ),
        (GOOD, ["--rule", "x"], "There is no scoring rule 'x'. Choose one of conll18, conllx, ptb, conll09."),
        (
            GOOD,
            ["-o", "r.txt"],
            "r.txt: analyse cannot write this kind of file. Choose a file name that ends in .html, .json, .csv.",
        ),
        (
            GOOD,
            ["-o", "no/r.csv"],
            "no/r.csv: The output could not be written: No such file or directory. Create the folder no first.",
        ),
        (GOOD, ["--steps", "2"], "--steps needs --model. Add --model, or leave out --steps."),
        (GOOD, ["--model", "en"], "--model cannot be combined with SYSTEM files. Leave out one of them."),
    ],
)
def test_analyse_reports_errors_in_one_line(system, options, line):
    write(gold=GOOD, s=system)

    result = run("gold.conllu", "s.conllu", *options, code=1)

    assert result.stderr == f"treefine: {line}\n"
    assert not list(Path().glob("r.*"))


def test_the_help_describes_the_report_and_the_summary():
    printed = " ".join(run("--help").stdout.split())

    assert "The report contains all scores" in printed
    assert "The printed summary has the main scores" in printed
    assert "With --model, the report shows for each refinement step" in printed


def test_an_output_never_overwrites_an_input_or_a_folder():
    Path("in.csv").write_text(GOOD)
    Path("folder.html").mkdir()

    assert run("in.csv", "in.csv", "-o", "in.csv", code=1).stderr == (
        "treefine: in.csv: The output would overwrite the input. Choose a different output file.\n"
    )
    assert run("in.csv", "in.csv", "-o", "folder.html", code=1).stderr == (
        "treefine: folder.html: This is a directory. Name a file to write.\n"
    )
    assert run("gold.conllu", "--model", "m", "--initial", "in.csv", "-o", "in.csv", code=1).stderr == (
        "treefine: in.csv: The output would overwrite the input. Choose a different output file.\n"
    )
    assert Path("in.csv").read_text() == GOOD


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_gets_a_report_or_one_line(data, seed):
    gold = render(unpack(list(read_treebank(data / "en_ewt-sample.conllu"))[:5]))
    write(gold=gold, s=damage(gold, seed))

    result = CliRunner().invoke(app, ["analyse", "gold.conllu", "s.conllu", "-o", "r.html", "-o", "r.csv"])

    assert result.exit_code in (0, 1), result.exception
    assert Path("r.html").exists() == Path("r.csv").exists() == (result.exit_code == 0)
    if result.exit_code:
        assert re.fullmatch(r"treefine: s\.conllu.*\n", result.stderr)


def test_words_with_different_segmentation_are_aligned_by_their_characters():
    write(gold=GOOD, s=conllu([("ab", 0, "root"), ("c", 1, "y")]))

    run("gold.conllu", "s.conllu", "-o", "r.json")

    (values,) = json.loads(Path("r.json").read_text())["treebanks"]
    assert (values["scores"]["s"]["Words"]["system"], values["scores"]["s"]["Words"]["correct"]) == (2, 1)
    assert values["differences"][0]["trees"]["s"][0]["words"] == ["ab", "c"]


def test_without_gold_labels_only_heads_are_scored_with_a_note():
    write(gold=GOOD.replace("\tx\t", "\t_\t").replace("\troot\t", "\t_\t").replace("\ty\t", "\t_\t"), s=GOOD)

    result = run("gold.conllu", "s.conllu")

    assert result.stderr == (
        "gold.conllu: The file has no labels, so only heads are scored (UAS instead of LAS). "
        "Add labels to score them too.\n"
    )
    assert "UAS by dependency length" in result.stdout
    assert "LAS" not in result.stdout


def test_cycles_and_several_roots_are_reported():
    write(
        gold=GOOD + GOOD,
        s=conllu([("a", 2, "x"), ("b", 1, "y"), ("c", 0, "root")], [("a", 0, "x"), ("b", 0, "root"), ("c", 2, "y")]),
    )

    result = run("gold.conllu", "s.conllu")

    assert result.stderr == (
        "s.conllu: 1 sentence with a cycle and 1 sentence with several roots; evaluate may reject this file. "
        'Words in or below a cycle have the distance to root "cycle".\n'
    )
    assert [line.split() for line in result.stdout.splitlines() if line.startswith("cycle")] == [["cycle", "0", "0.00"]]


def test_a_report_can_have_one_sentence_and_an_unknown_label():
    write(gold=GOOD, s=GOOD.replace("\ty\t", "\tnew\t"), t=GOOD)

    run("gold.conllu", "s.conllu", "t.conllu", "-o", "r.json", "-o", "r.html")

    (values,) = json.loads(Path("r.json").read_text())["treebanks"]
    nothing = dict.fromkeys(("gold", "gold_correct", "system_correct", "low", "high", "precision", "recall", "f1"), 0)
    assert values["curves"]["label"]["s"][-1] == {"value": "new", "system": 1, **nothing}
    assert values["confused_labels"]["s"] == [{"gold": "y", "system": "new", "times": 1}]


@pytest.mark.parametrize("name", [b"s\x1b[31m.conllu", b"s\xff.conllu"])
def test_names_that_cannot_be_shown_are_escaped(name):
    write(gold=GOOD)
    path = os.fsdecode(name)
    Path(path).write_text(GOOD)

    result = run("gold.conllu", path)
    run("gold.conllu", path, "-o", "r.html", "-o", "r.json", "-o", "r.csv")

    run(path, "gold.conllu", "-o", "gold.html", "-o", "gold.json")

    shown = {27: r"s\x1b[31m", 255: r"s\udcff"}[name[1]]
    assert shown in result.stdout
    assert json.loads(Path("gold.json").read_text())["treebanks"][0]["name"] == shown
    assert "\x1b" not in result.stdout + result.stderr
    assert json.loads(Path("r.json").read_text())["treebanks"][0]["systems"] == [shown]


def test_torch_is_not_loaded():
    write(gold=GOOD, s=GOOD)
    program = (
        "import sys; from treefine.cli.app import app\n"
        "app(['analyse', 'gold.conllu', 's.conllu', '-o', 'r.html'], standalone_mode=False)\n"
        "assert 'numpy' in sys.modules and 'torch' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True)

    assert Path("r.html").exists()


def test_the_options_of_a_model_are_passed_on(monkeypatch):
    received = {}
    monkeypatch.setattr(
        "treefine.cli.analyse.analyse_model", lambda gold, **options: received.update(options, gold=gold)
    )

    options = ["--initial", "empty", "--steps", "2", "--tags", "none", "--device", "cpu", "--examples", "3"]
    run("dev", "--model", "m", *options, "-o", "r.csv")

    assert received == {
        "gold": "dev",
        "model": "m",
        "outputs": ["r.csv"],
        "initial": "empty",
        "steps": 2,
        "tags": "none",
        "device": "cpu",
        "rule": "conll18",
        "format": None,
        "examples": 3,
    }
