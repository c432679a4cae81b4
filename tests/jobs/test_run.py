"""The parse command with text, and its output formats."""

import gzip
import io
import json
import lzma
import re
import shutil
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke, read
from treefine.jobs import outputs
from treefine.model.bundled import ABOUT
from treefine.version import __version__

TEXT = "The old man the boats. Nobody came.\n\nReally? Yes"
OTHER = "Dogs bark."


@pytest.fixture
def run(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT)
    Path("b.txt").write_text(OTHER)
    Path("words.txt").write_text("Dogs bark 0\nDogs bark 1\n")

    return partial(invoke, "--model", text_model, command="parse")


def plain(text):
    """Return a treebank without the comments that mark the start of the output, of files and of paragraphs."""
    return re.sub(r"^# (generator =|newdoc|newpar).*\n", "", text, flags=re.MULTILINE)


def conllu(parses):
    """Return the parses as the command writes them, numbered across all texts, but plain."""
    texts = [parse.to_conllu() for parse in parses]
    numbered = (re.sub(r"# sent_id = \d+", f"# sent_id = {n}", text) for n, text in enumerate(texts, start=1))
    return plain("".join(numbered))


@pytest.mark.parametrize("arguments", [["a.txt"], ["-"], [], [TEXT], ["--text", TEXT]])
def test_a_file_standard_input_and_an_argument_are_parsed_the_same(run, nlp, arguments):
    assert plain(run(*arguments, input=TEXT).stdout) == conllu(nlp(TEXT))


def comments(text):
    """Return the comments before each first word, without sent_id and text."""
    return [
        [line for line in sentence.comments if not line.startswith(("# sent_id", "# text"))] for sentence in read(text)
    ]


def test_comments_mark_the_program_the_files_and_the_paragraphs(run, nlp, text_model):
    generator = f"# generator = treefine {__version__}, model {text_model}"

    out = run("b.txt", "a.txt", OTHER).stdout

    first = [["# newpar"] if "# newpar" in parse.sentence.comments else [] for parse in nlp(TEXT)]
    other = [[] for _ in nlp(OTHER)]
    assert ["# newpar"] in first[1:]
    assert comments(out) == [
        *[[generator, "# newdoc id = b.txt", "# newpar"], *other[1:]],
        *[["# newdoc id = a.txt", "# newpar"], *first[1:]],
        *[["# newdoc", "# newpar"], *other[1:]],
    ]
    assert [sentence.sent_id for sentence in read(out)] == [str(n) for n in range(1, len(read(out)) + 1)]
    assert comments(run("words.txt", "--from", "words").stdout)[:2] == [[generator, "# newdoc id = words.txt"], []]


def test_a_text_in_another_language_is_reported_once_for_all_inputs(text_model, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(text_model, model)
    about = {"language": "English", "treebank": "none", "licence": "none", "encoder": "none"}
    (model / ABOUT).write_text(json.dumps(about))
    (tmp_path / "de.txt").write_text("Der Hund schläft unter dem Tisch.\n" * 3)
    inputs = [tmp_path / "de.txt", "Привет, как дела?", "Хорошо, а у тебя?"]

    for kind in ("text", "lines"):
        arguments = ["parse", "--from", kind, "--model", model]
        warning = "The text looks German, but the model is for English; trees will be poor."
        assert invoke(*arguments, *inputs).stderr == f"treefine: warning: {inputs[0]}: {warning}\n"
        assert invoke(*arguments, *inputs, "--quiet").stderr == ""
    assert invoke("parse", "--model", text_model, inputs[0]).stderr == ""  # its language is not known


@pytest.mark.parametrize(
    ("name", "shape"),
    [("x.json", "json"), ("x.jsonl.gz", "json"), ("x.SVG", "svg"), ("x.html", "html"), ("x.txt", "tree"), ("x", None)],
)
def test_the_extension_of_the_output_selects_its_format(run, nlp, name, shape):
    run("a.txt", "-o", name)
    run("a.txt", "-o", f"{shape}.out", "--format", shape or "conllu")

    written = gzip.decompress(Path(name).read_bytes()) if ".gz" in name else Path(name).read_bytes()
    assert written == Path(f"{shape}.out").read_bytes()


def test_an_unknown_extension_of_the_output_is_an_error_that_lists_the_known_ones(run):
    assert failed(run, "a.txt", "-o", "x.docx") == (
        "x.docx: This command writes no format with the extension .docx. Use .conllu, .conllx, .conll, .conll09, "
        ".conll2009, .txt, .jsonl, .json, .csv, .tsv, .svg, .html, .htm, .parquet (and .gz, .xz, .bz2 or .zst after "
        "it), or choose the format with --format."
    )
    assert not Path("x.docx").exists()


def test_json_has_one_object_per_line(run, nlp):
    lines = run("a.txt", "--format", "json").stdout.splitlines()

    assert [json.loads(line) for line in lines] == [{"file": "a.txt"} | json.loads(p.to_json()) for p in nlp(TEXT)]


def test_trees_have_names_and_texts_and_are_separated_by_blank_lines(run, nlp):
    out = run("a.txt", "--format", "tree").stdout

    drawn = [
        f"{number}, confidence {parse.confidence:.2f}\n{parse.text}\n{parse.to_text()}"
        for number, parse in enumerate(nlp(TEXT), start=1)
    ]
    assert out == "\n".join(drawn)


def test_review_lists_the_sentences_below_the_limit_instead_of_trees(run, nlp):
    result = run("a.txt", "--review", "0.5")

    rows = [line.split("\t") for line in result.stdout.splitlines()]
    doubtful = [parse for parse in nlp(TEXT) if parse.confidence < 0.5]
    assert 0 < len(rows) < len(nlp(TEXT))
    assert [row[1:4] for row in rows] == [
        [parse.sentence.sent_id, f"{parse.confidence:.2f}", parse.text] for parse in doubtful
    ]
    place, *_, doubt = rows[-1]
    word = min(doubtful[-1].words, key=lambda each: each.confidence)
    head = "ROOT" if not word.head else doubtful[-1].forms[word.head - 1]
    assert doubt == f"{word.number} {word.form} <- {word.head} {head}: {word.label} {word.confidence:.2f}"
    assert place == f"a.txt:{TEXT.count(chr(10), 0, doubtful[-1].spans[0][0]) + 1}"
    assert result.stderr == f"{len(rows)} of {len(nlp(TEXT))} sentences have a confidence below 0.5\n"


def test_an_output_folder_keeps_the_subfolders_of_a_folder(run, nlp):
    Path("in/x").mkdir(parents=True)
    Path("in/b.txt").write_text(OTHER)
    Path("in/x/b.txt").write_text(OTHER)

    run("in", "-o", "out/")
    run("in/**/*.txt", "-o", "in/again/")
    joined = run("in").stdout

    for name in ("out/b.conllu", "out/x/b.conllu", "in/again/b.conllu", "in/again/x/b.conllu"):
        assert plain(Path(name).read_text()) == conllu(nlp(OTHER))
    assert joined.count("# text = Dogs bark.\n") == 4


STEPS = "A treebank cannot show refinement steps. Add --format tree, svg, html or json, or leave out --show-steps."
REVIEW = (
    "--review prints a list instead of trees. "
    "Write the trees to a file with -o, or leave out --format, --show-steps, --confidence and --k."
)
FOLDER = "new: An output folder needs input files, not a text or standard input. Name an output file, or leave out -o."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.txt", "--show-steps"], STEPS),
        (["a.txt", "--confidence", "-o", "x.conllx"], "CoNLL-X has no column for confidence and no place for several"),
        (["a.txt", "--review", "0.5", "--format", "json"], REVIEW),
        ([TEXT, "-o", "new/"], FOLDER),
        (["a.txt", "--k", "2", "-o", "x.conllx"], "CoNLL-X has no column for confidence and no place for several"),
        (["a.txt", "--resume"], "--resume cannot continue this output. Write to a file or a folder with -o."),
        (["a.txt", "--k", "2", "--format", "svg", "--show-steps"], "--k and --show-steps cannot be drawn together."),
        (["a.txt", "-o", "a.txt", "--force"], "a.txt: The output would overwrite an input. Choose a different output"),
        (["a.txt", "-o", "b.txt", "--format", "json"], "b.txt: This file exists. Choose a different output file, or"),
        (["a.txt", "-o", "x.json", "--initial", "b.txt", "-o", "b.txt"], "b.txt: The output would overwrite an input."),
        (["a.txt", "--format", "parquet"], "A table cannot be printed. Name a file with -o, such as -o out.parquet."),
        (["a.txt", "-o", "x.parquet", "--show-steps"], "A table cannot show refinement steps."),
        (["a.txt", "-o", "no/x.json"], "no/x.json: The output could not be written: No such file or directory. Create"),
        (["a.txt", "-o", "b.txt/x/"], "b.txt/x/a.conllu: The output could not be written: Not a directory."),
    ],
)
def test_options_and_outputs_that_cannot_be_written_are_reported(run, arguments, message):
    before = {path: path.read_bytes() for path in Path().iterdir()}

    assert failed(run, *arguments).startswith(message)
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_an_empty_file_among_several_is_reported_and_the_others_are_parsed(run, nlp):
    Path("empty.txt").write_text(" \n")
    Path("empty.conllu").write_text("")

    result = run("empty.txt", "a.txt", "empty.conllu", "b.txt", code=1)

    assert plain(result.stdout) == conllu([*nlp(TEXT), *nlp(OTHER)])
    assert result.stderr == (
        "treefine: empty.txt: The text contains no words.\n"
        "treefine: empty.conllu: The file contains no sentences. Is it the right file?\n"
    )


@pytest.mark.parametrize("shape", ["conllu", "parquet"])
def test_in_a_folder_files_that_cannot_be_read_are_reported_and_the_others_are_parsed(run, nlp, shape):
    Path("bad.txt").write_bytes(b"caf\xe9")
    Path("packed.txt.gz").write_text("not compressed")

    result = run("a.txt", "bad.txt", "p*.gz", "b.txt", "-o", "new/", "--format", shape, code=1)

    bad, packed, count = result.stderr.splitlines()
    assert bad == ("treefine: bad.txt:1: Byte 0xe9 is not UTF-8. Convert it to UTF-8: iconv -f latin-1 -t UTF-8.")
    assert packed.startswith("treefine: packed.txt.gz: This is not a .gz file, or it is damaged.")
    assert count == "2 of 4 files not parsed"
    assert sorted(path.name for path in Path("new").iterdir()) == [f"a.{shape}", f"b.{shape}"]


def test_sentences_are_written_before_the_whole_input_is_read(run, monkeypatch):
    words = [f"{number}{'-' * 100}" for number in range(200)]  # long, so that few fit in a buffer
    source = io.BytesIO("\n".join(words).encode())
    lags, plain = [], outputs.texts_of

    def texts_and_counts(*arguments):
        for text in plain(*arguments):
            lags.append(source.getvalue()[: source.tell()].count(b"\n") - len(lags))  # sentences that were read
            yield text

    monkeypatch.setattr(outputs, "texts_of", texts_and_counts)
    monkeypatch.setattr("treefine.jobs.run.open_source", lambda name, on_bytes: nullcontext((source, "words")))

    out = run("-", "--from", "words", "--steps", 1, "--batch-pieces", 20).stdout

    assert len(lags) == 200
    assert max(lags) < 150  # a buffer of bytes plus the sentences of a chunk
    assert [sentence.forms for sentence in read(out)] == [(word,) for word in words]


# Resuming


SMALL = ("--batch-pieces", 40, "--steps", 2)  # many small chunks
KINDS = {
    "conllu": ("in.txt", "--from", "words", "-o", "out.conllu"),
    "text": ("a.txt", "-o", "out.json"),
    "several files": ("a.txt", "in.txt", "-o", "out.conllu"),
    "compressed": ("in.txt", "--from", "words", "-o", "out.json.xz"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_writes_the_same_bytes(run, kind):
    Path("in.txt").write_text("".join(f"Dogs {'really ' * (number % 7)}bark {number}\n" for number in range(12)))
    *_, name = (each for each in KINDS[kind] if each.startswith("out."))
    run(*KINDS[kind], *SMALL)
    whole = Path(name).read_bytes()
    plain = lzma.decompress(whole) if kind == "compressed" else whole

    for cut in (1, len(plain) // 2, len(plain)):
        Path(name).unlink()
        Path(f"{name}.part").write_bytes(plain[:cut])
        run(*KINDS[kind], *SMALL, "--resume")
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
