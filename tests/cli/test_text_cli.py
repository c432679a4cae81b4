"""The parse command with text, and its output formats."""

import io
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke, read
from treefine.cli import inputs, outputs
from treefine.drawing import sentences
from treefine.treebank.sentence import Sentence
from treefine.version import __version__

TEXT = "The old man the boats. Nobody came.\n\nReally? Yes"
OTHER = "Dogs bark."


@pytest.fixture
def run(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT)
    Path("b.txt").write_text(OTHER)
    write_words("words.txt", 3)

    return partial(invoke, "--model", text_model, command="parse")


def write_words(path, n_sentences):
    Path(path).write_text("".join(f"Dogs bark {number}\n" for number in range(n_sentences)))


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


def test_files_and_texts_are_parsed_separately_and_in_order(run, nlp):
    assert plain(run("b.txt", "a.txt", OTHER, TEXT).stdout) == conllu(
        [*nlp(OTHER), *nlp(TEXT), *nlp(OTHER), *nlp(TEXT)]
    )


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


def test_several_treebanks_in_one_output_are_named_and_keep_their_own_names(run):
    rows = Sentence.of_words(["Dogs", "bark"]).to_conllu()
    Path("x.conllu").write_text(rows + rows)
    Path("y.conllu").write_text(f"# newdoc id = mine\n{rows}")
    Path("z.conllu").write_text(f"# a\n# b\r\n{rows}")

    out = run("x.conllu", "y.conllu", "z.conllu").stdout

    assert comments(out) == [
        ["# newdoc id = x.conllu"],
        [],
        ["# newdoc id = mine"],
        ["# newdoc id = z.conllu", "# a", "# b"],
    ]
    assert comments(run("x.conllu").stdout) == [[], []]


def test_only_the_first_of_several_trees_starts_a_document(run):
    first, second, *_ = comments(run("words.txt", "--from", "words", "--k", 2).stdout)

    assert "# newdoc id = words.txt" in first
    assert second == ["# tree = 2 of 2", second[-1]]


def test_with_from_lines_each_line_is_one_sentence(run, nlp):
    lines = "The old man. The boats\r\n\nYes\n"

    out = run("-", "--from", "lines", input=lines).stdout

    assert plain(out) == conllu(nlp.stream_lines(lines.splitlines(keepends=True)))
    assert out.count("# text = ") == 2


def test_a_binary_file_is_not_a_text(run):
    Path("picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")

    assert failed(run, "picture").startswith("picture: This is not a text: it contains null bytes.")


def test_a_treebank_called_txt_is_recognised_with_a_note(run):
    Path("tree.txt").write_text(Sentence.of_words(["Dogs", "bark"]).to_conllu())

    result = run("tree.txt", "--from", "text", "-o", "text.conllu")
    assert result.stderr == ""

    result = run("tree.txt", "-o", "tree.conllu")
    assert result.stderr == "treefine: tree.txt: read as a treebank, not as text; to read it as text, add --from text\n"
    (sentence,) = read(Path("tree.conllu").read_text())
    assert sentence.forms == ("Dogs", "bark")


def test_a_treebank_on_standard_input_is_detected(run, nlp):
    treebank = "\n# sent_id = s\n# text = a b\n" + Sentence.of_words(["a", "b"]).to_conllu()

    assert "# sent_id = s" in run(input=treebank).stdout
    assert "# sent_id = 1" in run(input=treebank.replace("\t", " ")).stdout


@pytest.mark.parametrize(
    ("name", "shape"),
    [("x.json", "json"), ("x.jsonl.gz", "json"), ("x.SVG", "svg"), ("x.html", "html"), ("x.txt", "tree"), ("x", None)],
)
def test_the_extension_of_the_output_selects_its_format(run, nlp, name, shape):
    run("a.txt", "-o", name)
    run("a.txt", "-o", f"{shape}.out", "--format", shape or "conllu")

    written = subprocess.run(["gzip", "-dc", name], capture_output=True, check=True).stdout if ".gz" in name else None
    assert (written or Path(name).read_bytes()) == Path(f"{shape}.out").read_bytes()


@pytest.mark.parametrize("name", ["x.docx", "x.XLSX", "x.conllu.zip", "x.pred"])
def test_an_unknown_extension_of_the_output_is_an_error_that_lists_the_known_ones(run, name):
    message = failed(run, "a.txt", "-o", name)

    assert message == (
        f"{name}: This command writes no format with the extension {outputs.suffix_of(name)}. Use .conllu, .conllx, "
        ".conll, .conll09, .conll2009, .txt, .jsonl, .json, .csv, .tsv, .svg, .html, .htm, .parquet (and .gz, .xz, "
        ".bz2 or .zst after it), or choose the format with --format."
    )
    assert not Path(name).exists()


@pytest.mark.parametrize("name", ["x", "x.gz", "wsj.23", "x.conllu.2", "2026-11-16.run-a"])
def test_the_end_of_a_name_that_is_not_an_extension_does_not_matter(run, name):
    run("b.txt", "-o", name)

    assert Path(name).exists()


def test_a_treebank_keeps_its_extension(run):
    run("words.txt", "--from", "words", "-o", "trees.pred", "--format", "conllu")

    run("trees.pred", "-o", "out.pred", command="refine")
    run("trees.pred", "--from", "conllu", "-o", "trees.pred", "--force")

    assert "This command writes no format with the extension .xlsx." in failed(
        run, "trees.pred", "-o", "out.xlsx", command="refine"
    )


def test_json_has_one_object_per_line(run, nlp):
    lines = run("a.txt", "--format", "json").stdout.splitlines()

    assert [json.loads(line) for line in lines] == [{"file": "a.txt"} | json.loads(p.to_json()) for p in nlp(TEXT)]
    assert "".join(word["form"] for line in lines for word in json.loads(line)["words"]) == "".join(TEXT.split())


def test_json_of_standard_input_names_no_file(run):
    assert "file" not in json.loads(run("-", "--format", "json", input="Yes").stdout)


def test_the_comments_that_treefine_adds_to_a_text_are_not_reported_as_lost(run):
    assert run("a.txt", "-o", "x.conllx").stderr == ""
    assert run("-", "-o", "y.conllx", input=TEXT).stderr == ""


def test_trees_have_names_and_texts_and_are_separated_by_blank_lines(run, nlp):
    out = run("a.txt", "--format", "tree").stdout

    drawn = [
        f"{number}, confidence {parse.confidence:.2f}\n{parse.text}\n{parse.to_text()}"
        for number, parse in enumerate(nlp(TEXT), start=1)
    ]
    assert out == "\n".join(drawn)


def test_one_svg_contains_all_sentences_with_their_names(run, nlp):
    run("a.txt", "-o", "all.svg")

    drawn = "".join(ET.parse("all.svg").getroot().itertext())
    assert all(form in drawn for parse in nlp(TEXT) for form in parse.forms)
    captions = re.findall('class="caption"[^>]*>([^<]*)<', Path("all.svg").read_text())
    assert captions == [f"{number}: {parse.text}" for number, parse in enumerate(nlp(TEXT), start=1)]


def test_an_svg_with_too_many_sentences_is_rejected(run, monkeypatch):
    monkeypatch.setattr(sentences, "_MOST_IN_SVG", 2)

    result = run("words.txt", "--from", "words", "-o", "x.svg", code=1)

    assert result.stderr == (
        "treefine: An SVG picture holds at most 2 sentences. Use --format html, which has no limit.\n"
    )
    assert not Path("x.svg").exists()


def test_a_page_has_a_section_per_sentence(run, nlp):
    page = run("a.txt", "--format", "html").stdout

    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<section>") == len(nlp(TEXT))
    assert page.endswith("</html>\n")


@pytest.mark.parametrize("shape", ["tree", "svg", "html"])
def test_show_steps_draws_the_steps(run, shape):
    assert "step 2" not in run("a.txt", "--format", shape).stdout
    assert "step 2" in run("a.txt", "--format", shape, "--show-steps").stdout


def test_confidence_adds_the_confidence_of_each_word(run, nlp):
    out = run("a.txt", "--confidence").stdout

    assert plain(out) == plain("".join(parse.to_conllu(confidence=True) for parse in nlp(TEXT)))
    assert "Conf=0." in out


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


def test_review_prints_its_list_while_trees_go_to_a_file(run, nlp):
    result = run("a.txt", "--review", "0.5", "-o", "out.conllu")

    assert plain(Path("out.conllu").read_text()) == conllu(nlp(TEXT))
    assert result.stdout == run("a.txt", "--review", "0.5").stdout != ""


def test_an_output_folder_gets_one_file_per_input(run, nlp):
    Path("c.conllx").write_text(Sentence.of_words(["a", "b"]).to_conllu())

    run("a.txt", "b.txt", "c.conllx", "-o", "new/")
    run("a.txt", "-o", "new", "--format", "json")

    assert sorted(path.name for path in Path("new").iterdir()) == ["a.conllu", "a.jsonl", "b.conllu", "c.conllx"]
    assert plain(Path("new/a.conllu").read_text()) == conllu(nlp(TEXT))


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


def test_two_inputs_with_the_same_output_are_rejected_before_work_starts(run):
    Path("x").mkdir()
    Path("x/a.txt.gz").write_bytes(b"")

    assert run("a.txt", "x/a.txt.gz", "-o", "new/", code=1).stderr == (
        "treefine: new/a.conllu: 2 inputs have the same output file: a.txt, x/a.txt.gz. "
        "Write them to different folders.\n"
    )
    Path("x/a.txt").write_text(TEXT)
    Path("x/a.conllu").touch()
    assert failed(run, "x", "-o", "new/").endswith("read only files of one kind at a time, such as 'x/*.conllu'.")
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["a.txt", "--show-steps"],
            "A treebank cannot show refinement steps. Add --format tree, svg, html or json, or leave out --show-steps.",
        ),
        (
            ["a.txt", "--confidence", "-o", "x.conllx"],
            "CoNLL-X has no column for confidence. Write CoNLL-U, or leave out --confidence.",
        ),
        (
            ["a.txt", "--review", "0.5", "--format", "json"],
            "--review prints a list instead of trees. "
            "Write the trees to a file with -o, or leave out --format, --show-steps, --confidence and --k.",
        ),
        (
            [TEXT, "-o", "new/"],
            "new: An output folder needs input files, not a text or standard input. Name an output file, or leave out "
            "-o.",
        ),
    ],
)
def test_options_that_the_output_does_not_support_are_reported(run, arguments, message):
    assert failed(run, *arguments) == message


def test_an_empty_file_among_several_is_reported_and_the_others_are_parsed(run, nlp):
    Path("empty.txt").write_text(" \n")
    Path("empty.conllu").write_text("")

    result = run("empty.txt", "a.txt", "empty.conllu", "b.txt", code=1)
    in_folder = run("empty.txt", "b.txt", "-o", "new/", code=1)

    assert plain(result.stdout) == conllu([*nlp(TEXT), *nlp(OTHER)])
    assert result.stderr == (
        "treefine: empty.txt: The text contains no words.\n"
        "treefine: empty.conllu: The file contains no sentences. Is it the right file?\n"
    )
    assert Path("new/empty.conllu").read_text() == ""
    assert plain(Path("new/b.conllu").read_text()) == conllu(nlp(OTHER))
    assert in_folder.stderr.count("\n") == 1


@pytest.mark.parametrize("shape", ["conllu", "parquet"])
def test_in_a_folder_files_that_cannot_be_read_are_reported_and_the_others_are_parsed(run, nlp, shape):
    Path("bad.txt").write_bytes(b"caf\xe9")
    Path("broken.conllu").write_text("1\tDogs\n\n")
    Path("packed.txt.gz").write_text("not compressed")

    result = run("a.txt", "bad.txt", "broken.conllu", "p*.gz", "b.txt", "-o", "new/", "--format", shape, code=1)

    bad, broken, packed, count = result.stderr.splitlines()
    assert bad == ("treefine: bad.txt:1: Byte 0xe9 is not UTF-8. Convert it to UTF-8: iconv -f latin-1 -t UTF-8.")
    assert broken.startswith("treefine: broken.conllu:1: (sentence 1) The line must have 10 columns")
    assert packed.startswith("treefine: packed.txt.gz: This is not a gzip file.")
    assert count == "3 of 5 files not parsed"
    assert sorted(path.name for path in Path("new").iterdir()) == [f"a.{shape}", f"b.{shape}"]


def test_in_one_output_a_file_that_cannot_be_read_is_an_error_that_says_how_to_go_on(run):
    Path("bad.txt").write_bytes(b"caf\xe9")

    assert failed(run, "bad.txt", "b.txt", "-o", "out.parquet") == (
        "bad.txt:1: Byte 0xe9 is not UTF-8. Convert it to UTF-8: iconv -f latin-1 -t UTF-8. "
        "To parse the other files anyway, write to a folder: -o DIR/"
    )
    assert not Path("out.parquet").exists()


def test_an_output_that_cannot_be_written_stops_the_run(run, monkeypatch):
    Path("new/b.conllu").mkdir(parents=True)

    assert failed(run, "a.txt", "b.txt", "-o", "new/").startswith("new/b.conllu: This is a directory.")
    assert not Path("new/a.conllu").exists()


def test_the_output_keeps_the_format_of_the_input_unless_conllu_is_asked_for(run, data):
    assert len(run(data / "penn.conllx").stdout.splitlines()[0].split("\t")) == 10
    assert run(data / "german.conll09").stdout.splitlines()[0].count("\t") > 12
    assert run(data / "german.conll09", "--format", "conllu").stdout.splitlines()[0].count("\t") == 9


def test_refine_has_the_same_output_formats(run):
    run("words.txt", "--from", "words", "-o", "trees.conllu")

    out = run("trees.conllu", "--format", "json", command="refine").stdout

    assert [json.loads(line)["text"] for line in out.splitlines()] == ["Dogs bark 0", "Dogs bark 1", "Dogs bark 2"]
    assert run("no such text", command="refine", code=1).stderr == "treefine: no such text: There is no such file.\n"


class Counted(io.BytesIO):
    """A stream that counts the sentences read from it."""

    @property
    def n_read(self):
        return self.getvalue()[: self.tell()].count(b"\n")


def test_sentences_are_written_before_the_whole_input_is_read(run, monkeypatch):
    words = [f"{number}{'-' * 100}" for number in range(200)]  # long, so that few fit in a buffer
    source = Counted("\n".join(words).encode())
    lags, plain = [], outputs.NewOutput.write

    def write_and_count(self, text):
        lags.append(source.n_read - len(lags))
        plain(self, text)

    monkeypatch.setattr(outputs.NewOutput, "write", write_and_count)
    monkeypatch.setattr(inputs, "open_source", lambda name, on_bytes: nullcontext(source))

    out = run("-", "--from", "words", "--steps", 1, "--batch-pieces", 20).stdout

    assert len(lags) == 200
    assert max(lags) < 150  # a buffer of bytes plus the sentences of a chunk
    assert [sentence.forms for sentence in read(out)] == [(word,) for word in words]


def test_a_sentence_appears_on_standard_output_immediately(tmp_path):
    with (tmp_path / "out").open("wb") as out:
        outputs.NewOutput(out, is_flushed=True).write("Dogs\n")

        assert (tmp_path / "out").read_text() == "Dogs\n"


@pytest.mark.parametrize("arguments", [["a.txt", "-o", ".", "--format", "tree"], ["a.txt", "-o", "a.txt"]])
def test_a_text_file_is_never_overwritten(run, arguments):
    message = run(*arguments, code=1).stderr

    assert "The output would overwrite the input. Choose a different output file." in message
    assert Path("a.txt").read_text() == TEXT


def test_a_treebank_can_be_overwritten_with_its_parses(run):
    run("b.txt", "-o", "b.conllu")
    before = Path("b.conllu").read_text()

    run("b.conllu", "-o", "b.conllu", "--force")

    assert Path("b.conllu").read_text() == before


def test_inputs_of_different_formats_are_written_in_the_same_format(run):
    run("b.txt", "-o", "b.conllu")
    run("b.conllu", "-o", "b.conllx")

    lines = [line for line in run("b.conllu", "b.conllx", "a.txt").stdout.splitlines() if line[:1].isdigit()]

    assert {line.count("\t") for line in lines} == {9}
    assert len(read(run("b.conllx", "b.conllu").stdout)) > 1


def test_a_text_without_a_sentence_boundary_is_one_tree_with_one_warning(run, monkeypatch):
    monkeypatch.setattr("treefine.parsing.plan.MOST_WORDS", 4)
    Path("a.txt").write_text("one two three four five six seven\n")

    ran = run("a.txt", "--from", "lines", "--confidence", "--k", 2)

    first, second = read(ran.stdout)
    assert first.text == second.text == "one two three four five six seven"
    assert first.graph.is_tree
    assert f"treefine: warning: a.txt:1: (1) The sentence has {len(first)} words and is parsed in " in ran.stderr
