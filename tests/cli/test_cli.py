"""The commands from the outside; parse, refine, analyse and train have separate test files."""

import json
import random
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.commands import failed, invoke
from tests.support.oracles import change_labels, move_heads, render, unpack
from tests.support.tiny import tiny_parser
from treefine import read_treebank
from treefine.cli.app import app


@pytest.fixture
def files(data, tmp_path, monkeypatch):
    """Write a gold file, two good systems and a bad one to the working folder."""
    monkeypatch.chdir(tmp_path)
    sentences = list(read_treebank(data / "en_ewt-sample.conllu"))
    Path("gold.conllu").write_text(render(unpack(sentences)))
    for name, changes in (("good", 1), ("alike", 1), ("bad", 8)):
        changed = unpack(sentences)
        rng = random.Random(name)
        for _ in range(changes):
            (change_labels if changes == 1 else move_heads)(rng, changed)
        Path(f"{name}.conllu").write_text(render(changed))


def test_evaluate_compare_and_validate_read_folders_and_patterns(files):
    for folder, name in (("gold", "gold"), ("parsed", "bad")):
        Path(folder, "sub").mkdir(parents=True)
        for place in ("a.conllu", "sub/b.conllu"):
            shutil.copy(f"{name}.conllu", Path(folder, place))

    scores = [
        json.loads(invoke("evaluate", *paths, "--json").stdout)["scores"]["LAS"]
        for paths in (("gold", "parsed"), ("gold.conllu", "bad.conllu"))
    ]

    assert [each["correct"] for each in scores] == [2 * scores[1]["correct"], scores[1]["correct"]]
    assert scores[0]["f1"] == scores[1]["f1"]
    assert invoke("validate", "gold", "parsed/**/*.conllu").stderr == "4 files, no errors\n"
    shutil.copytree("gold", "perfect")
    compared = json.loads(invoke("compare", "gold", "parsed", "perfect", "--samples", "50", "--json").stdout)
    assert compared["scores"] == {"parsed": scores[0]["f1"], "perfect": 1}


def test_evaluate_prints_the_agreement_of_two_annotators(files):
    arguments = ("evaluate", "gold.conllu", "bad.conllu", "--agreement", "--confusions", "2")

    text = invoke(*arguments).stdout
    values = json.loads(invoke(*arguments, "--json").stdout)

    uas = json.loads(invoke("evaluate", "gold.conllu", "bad.conllu", "--json").stdout)["scores"]["UAS"]
    assert (values["first"], values["second"], values["words"]) == ("gold.conllu", "bad.conllu", uas["gold"])
    assert values["uas"] == uas["f1"]
    assert f"head (UAS)                   {100 * uas['f1']:.2f}\n" in text
    assert values["identical_trees"] < 1
    message = failed(invoke, *arguments, "--labels")
    assert message == "--agreement cannot be combined with --labels. Leave out one of them."


def test_compare_marks_the_best_system_and_those_not_significantly_worse(files):
    systems = ("bad.conllu", "good.conllu", "alike.conllu")
    arguments = ("compare", "gold.conllu", *systems, "--samples", "500")

    out = invoke(*arguments).stdout
    markdown = invoke(*arguments, "--metric", "UAS", "--markdown").stdout.splitlines()
    result = json.loads(invoke(*arguments, "--json", "--names", "old", "--names", " =new,x").stdout)

    bad, good, alike = out.splitlines()[2:5]
    assert re.fullmatch(r"bad +\d\d\.\d\d", bad)
    assert re.fullmatch(r"good +8\d\.\d\d\* +\+\d\d\.\d\d +\+\d\d\.\d\d% +0\.0020 +0\.0020", good)
    assert alike.split()[1].endswith("*")
    assert "500 samples of sentences, seed 1" in out
    assert markdown[0] == "| system | UAS | difference | RER | p (rand.) | p (boot.) |"
    assert "| **100.00** |" in markdown[3]
    assert result["differences"][0]["systems"] == ["old", "=new"]


def test_convert_rejects_an_unknown_extension_unless_the_format_is_given_and_counts_what_is_lost(files, data):
    assert failed(invoke, "convert", "gold.conllu", "x.txt").startswith(
        "x.txt: This command writes no format with the extension .txt. Use .conllu, .conllx, "
    )
    invoke("convert", "gold.conllu", "x.data", "--to", "conllx")
    invoke("convert", "x.data", "y.data", "--from", "conllx", "--to", "conllx")
    assert (
        "'docx' is not one of 'conllu', 'conllx',"
        in invoke("convert", "gold.conllu", "-", "--to", "docx", code=2).stderr
    )

    lost = invoke("convert", data / "constructs.conllu", "x.conllx").stderr
    n_comments = sum(line.startswith("#") for line in (data / "constructs.conllu").read_text().splitlines())
    assert lost.startswith(f"dropped, because CoNLL-X cannot store them: {n_comments} comments, ")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.json", '{"file": "gold.conllu", "sent_id": "'),
        ("x.csv", "file,sentence,sent_id,text,word,form,"),
        ("x.svg", "<svg "),
        ("x.html", "<!DOCTYPE html>"),
    ],
)
def test_the_extension_or_to_selects_the_format_of_convert(files, name, start):
    invoke("convert", "gold.conllu", name)
    printed = invoke("convert", "gold.conllu", "-", "--to", name.partition(".")[2]).stdout

    assert printed.startswith(start)
    assert Path(name).read_text() == printed
    forms = [form for sentence in read_treebank("gold.conllu") for form in sentence.forms]
    assert all(form in printed for form in forms if form.isalnum())


def test_draw_shows_words_without_a_head_and_the_sentences_that_are_chosen(files, data):
    Path("blank.conllu").write_text("1\tDogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    invoke("convert", data / "en_ewt-sample.conllu", "many.conllu")
    names = [sentence.sent_id for sentence in read_treebank("many.conllu")]

    out = invoke("draw", "many.conllu", "--sentence", names[4], "--sentence", "2").stdout

    assert [line for line in out.splitlines() if line in names] == [names[1], names[4]]
    assert invoke("draw", "blank.conllu").stdout == "1\nDogs bark\n1   ╭─> Dogs  2 nsubj\n2   ╰── bark  _ _\n"
    assert failed(invoke, "draw", "blank.conllu", "--sentence", "3", "-o", "x.svg") == (
        "blank.conllu: There is no sentence 3. Give the number or the sent_id of a sentence."
    )
    assert not Path("x.svg").exists()
    invoke("draw", "blank.conllu", "-o", "x.svg")
    assert Path("x.svg").read_text() == invoke("draw", "blank.conllu", "--format", "svg").stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["parse", "-h"], ["models"]])
def test_every_command_ends_with_code_0_if_its_reader_has_stopped(monkeypatch, arguments):
    def stopped(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.write", stopped)

    result = invoke(*arguments)

    assert (result.stdout, result.stderr) == ("", "")


def test_quiet_prints_only_errors_and_verbose_the_time(files, data):
    assert invoke("convert", data / "german.conll09", "x.conllu", "-q").stderr == ""
    assert invoke("validate", "gold.conllu").stderr == "1 file, no errors\n"  # the option was for one command only
    assert "There is no such file." in failed(invoke, "-q", "evaluate", "gold.conllu", "none.conllu")
    timed = invoke("validate", "gold.conllu", "--verbose").stderr
    assert re.fullmatch(r"1 file, no errors\ntreefine: finished in [\d.]+ s\n", timed)


@pytest.mark.parametrize("command", ["parse", "models", "new-recipe", "analyse"])
def test_help_ends_with_two_examples_whose_options_exist_and_has_no_names_of_types(command):
    out = invoke(command, "--help").stdout

    examples = out.partition("Examples:\n")[2].strip().splitlines()
    assert [example.split()[:2] for example in examples] == [["treefine", command]] * 2
    for option in re.findall(r"--[a-z]+", "".join(examples)):
        assert re.search(rf"^  {option}\b", out, re.MULTILINE), option
    assert "<str" not in out
    assert "list[" not in out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ref"], ["refine"]),
        (["parse", "--confi"], ["--confidence"]),
        (["parse", "--precision", "b"], ["bfloat16"]),
        (["parse", "--model", ""], ["en"]),
        (["train", "my-reci"], []),  # a file name is left to the shell
        (["validate", "--format", "conll09"], ["conll09", "conll09-predicted"]),
    ],
)
@pytest.mark.usefixtures("only_own_models")
def test_the_shell_completes_commands_options_choices_and_names(words, offered):
    """The last word may be incomplete."""
    protocol = {"_TREEFINE_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(["treefine", *words])}
    done = CliRunner().invoke(app, env={**protocol, "COMP_CWORD": str(len(words))}, prog_name="treefine")

    assert (done.exit_code, done.stdout.split()) == (0, offered)


# models: the list of bundled models


ABOUT = {"language": "English", "treebank": "UD_English-EWT 2.3", "licence": "CC BY-SA 4.0", "encoder": "small"}
ABOUT = {**ABOUT, "scores": {"UAS": 88.5, "LAS": 86.25}}
DANISH = {"name": "Danish", "language": "da", "treebank": "UD Danish DDT 2.8", "licence": "CC BY-SA 4.0", "note": ""}
DANISH |= {"words": 80378, "is_main": True, "scores": {"LAS from text": 80.5, "LAS from words": 84.25, "UPOS": 96.0}}
OTHER = {"is_main": False, "scores": {"LAS from words": 83.0}, "note": "trained on part of dev"}


def test_models_prints_the_scores_of_each_language_in_a_second_table(tmp_path, monkeypatch):
    languages = {"da_ddt": DANISH, "da_other": DANISH | OTHER}
    for name, about in (("en", ABOUT), ("multi", {**ABOUT, "language": "2 languages", "languages": languages})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "about.json").write_text(json.dumps(about))
    monkeypatch.setattr("treefine.model.bundled.BUNDLED", tmp_path)
    monkeypatch.setattr("treefine.model.bundled.ENTRY_POINTS", "none")

    *_, multi, _, title, header, _, main, other = invoke("models").stdout.splitlines()
    found = json.loads(invoke("models", "--json").stdout)

    assert multi.startswith("multi  2 languages ")
    assert title == "multi:"
    assert header == "code      language  treebank           LAS from text  LAS from words  note"
    assert main == "da        Danish    UD Danish DDT 2.8  80.50          84.25"
    assert other == "da_other  Danish    UD Danish DDT 2.8                 83.00           trained on part of dev"
    size = sum(path.stat().st_size for path in (tmp_path / "en").iterdir())
    assert found[0] == {"name": "en", "bytes": size, **ABOUT}
    assert found[1]["languages"] == languages


# serve, until it listens; tests/serving has the rest


@pytest.fixture
def no_server(monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: pytest.fail("the server started"))


def test_an_error_about_a_missing_package_contains_the_command_to_install_it(monkeypatch, no_server):
    import_module("treefine.serving.app")  # Starlette imports another package if this one is missing
    monkeypatch.setitem(sys.modules, "python_multipart", None)

    assert "pip install 'treefine[serve]'" in failed(invoke, "serve")


@pytest.mark.parametrize(
    ("installed", "loaded"), [(["en"], ["en"]), (["en", "multi", "other"], ["en", "multi"]), (["other"], ["en"])]
)
def test_serve_loads_english_and_the_model_of_many_languages_if_it_is_installed(
    monkeypatch, no_server, installed, loaded
):
    asked = []

    def record(name, **_):
        asked.append(name)
        return tiny_parser()

    monkeypatch.setattr("treefine.cli.serve.bundled_models", lambda: dict.fromkeys(installed, Path()))
    monkeypatch.setattr("treefine.parsing.parser.Parser.from_pretrained", record)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)

    assert invoke("serve", "--port", "0", "--workers", "0").exit_code == 0
    assert asked == loaded


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nope"], "There is no model 'nope'."),
        (["--model", "en", "--model", "old/en"], "Two models have the name 'en'. Give each model a unique name"),
        (["--model", "=en"], "'=en' has no name."),
    ],
)
def test_serve_reports_wrong_options_in_one_line(no_server, arguments, said):
    assert said in failed(invoke, "serve", *arguments)
