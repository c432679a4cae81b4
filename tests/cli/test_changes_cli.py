"""The file of --changes: each word whose arc changed, as a page, as JSON or between tabs."""

import gc
import gzip
import html
import json
import tracemalloc
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.commands import failed
from tests.support.refine_commands import damaged, renamed_labels, rows_of, summary
from tests.support.tiny import sample
from treefine import read_treebank
from treefine.cli.changes import Changes, open_changes
from treefine.treebank.conllu import write_treebank


def test_each_change_is_a_row_between_tabs(run_refine, refiner):
    run_refine("in.conllu", "-o", "out.conllu", "--changes", "changes.tsv")

    expected = [
        {
            "file": "in.conllu",
            "line": str(sentence.line),
            "sentence": str(sentence.number),
            "sent_id": sentence.sent_id,
            "word": str(change.word),
            "form": change.form,
            "old_head": str(change.old_head),
            "old_label": change.old_label,
            "head": str(change.head),
            "label": change.label,
            "before": f"{change.before:.4f}",
            "after": f"{change.after:.4f}",
            "step": "_" if change.step is None else str(change.step),
        }
        for sentence in read_treebank("in.conllu")
        for change in next(refiner.stream_parses([sentence])).changes
    ]
    found = rows_of("changes.tsv")
    assert [without_numbers(row) for row in found] == [without_numbers(row) for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert float(row["before"]) == pytest.approx(float(other["before"]), abs=2e-4)
        assert float(row["after"]) == pytest.approx(float(other["after"]), abs=2e-4)


def without_numbers(row):
    return {name: value for name, value in row.items() if name not in ("before", "after")}


def test_json_is_one_document_with_the_counts_and_all_changes(run_refine):
    run_refine("in.conllu", "-o", "out.conllu", "--changes", "changes.tsv")
    told = summary(run_refine("in.conllu", "-o", "out.conllu", "--changes", "changes.json"))

    document = json.loads(Path("changes.json").read_text())

    rows = [{name: str(value) for name, value in change.items()} for change in document["changes"]]
    expected = rows_of("changes.tsv")
    assert [row["word"] for row in rows] == [row["word"] for row in expected]
    assert [row["old_label"] for row in rows] == [row["old_label"] for row in expected]
    counts = document["summary"]
    assert counts["sentences"] == 10
    assert f"10, {counts['changed_sentences']} of them changed" == told["sentences"]
    assert str(counts["heads"]) == told["heads changed"]
    assert counts["heads"] + counts["labels"] == len(rows)
    moved = sum(counts["same_label"].values())
    replaced = sum(each["times"] for each in counts["other_head_and_label"])
    assert counts["heads"] == moved + replaced
    assert sum(counts["converged"].values()) + sum(counts["not_converged"].values()) == 10


def test_the_page_draws_the_changed_sentences_and_leaves_out_the_others(run_refine, refiner):
    parses = list(refiner.stream_parses(damaged(sample(10))))
    fixed = [each.sentence for each in parses if each.converged and each.steps[-1] == each.tree][:2]
    write_treebank([*damaged(sample(3)), *fixed], "some.conllu")

    told = summary(run_refine("some.conllu", "-o", "out.conllu", "--changes", "changes.html"))

    page = Path("changes.html").read_text()
    body = ElementTree.fromstring(page.partition("<body>")[2].join(["<body>", ""]).partition("</html>")[0])
    sections = body.findall(".//section")
    assert told["sentences"] == f"{3 + len(fixed)}, {len(sections)} of them changed"
    assert [each.find("h2").text for each in sections] == [each.text for each in sample(3)]
    assert len(body.findall(".//figure/{http://www.w3.org/2000/svg}svg")) == len(sections) == 3
    assert f"left out: {len(fixed)}." in page
    table = {row.find("th").text: row.find("td").text for row in body.find(".//table").findall("tr")}
    assert table["heads changed"] == told["heads changed"]


def test_a_sentence_of_the_page_has_its_number_its_place_and_its_changes(run_refine, refiner):
    run_refine("in.conllu", "-o", "out.conllu", "--changes", "changes.html")

    page = Path("changes.html").read_text()
    parses = [parse for parse in refiner.stream_parses(read_treebank("in.conllu")) if parse.changes]
    sections = page.split("<section>")[1:]
    for section, parse in zip(sections, parses, strict=True):
        sentence = parse.sentence
        assert f"counter-reset: sentence {sentence.number - 1}" in section
        assert f"<p>in.conllu:{sentence.line} ({sentence.sent_id})</p>" in section
        assert section.count("<tr>") == 1 + len(parse.changes)
        change = parse.changes[0]
        head = parse.forms[change.head - 1] if change.head else "ROOT"
        assert f"{change.head} {html.escape(head)}: {change.label}</td>" in section


def test_a_drawing_too_wide_for_paper_is_there_with_one_word_a_line_too(run_refine, monkeypatch):
    monkeypatch.setattr("treefine.drawing.html.PRINTED", 0)

    run_refine("in.conllu", "-o", "out.conllu", "--changes", "changes.html")

    page = Path("changes.html").read_text()
    assert page.count('<figure class="wide"') == page.count("<pre>") == page.count("<section>") > 0
    assert "  * was: " in page


def test_several_files_and_a_folder_have_one_file_of_changes(run_refine):
    write_treebank(damaged(sample(12)[10:]), "more.conllu")

    told = summary(run_refine("in.conllu", "more.conllu", "-o", "out/", "--changes", "changes.tsv"))

    assert {row["file"] for row in rows_of("changes.tsv")} == {"in.conllu", "more.conllu"}
    assert told["sentences"].startswith("12, ")
    assert sorted(path.name for path in Path("out").iterdir()) == ["in.conllu", "more.conllu"]


def test_every_output_can_have_a_file_of_changes_beside_it_which_may_be_packed(run_refine):
    run_refine("in.conllu", "-o", "out.conllu", "--changes", "expected.tsv")
    run_refine("in.conllu", "-o", "out.conllu", "--changes", "packed.tsv.gz")

    assert gzip.decompress(Path("packed.tsv.gz").read_bytes()) == Path("expected.tsv").read_bytes()

    for number, options in enumerate(
        [("--format", "tree"), ("--format", "json"), ("--review", 0.5), ("-o", "o.conllu", "--confidence")]
    ):
        run_refine("in.conllu", *options, "--changes", f"{number}.tsv")

        assert Path(f"{number}.tsv").read_text() == Path("expected.tsv").read_text()


def test_nothing_that_changed_is_a_file_without_changes(run_refine, refiner):
    found = refiner.stream_parses(damaged(sample(10)))
    fixed = [each.sentence for each in found if each.converged and each.steps[-1] == each.tree]
    write_treebank(fixed, "fixed.conllu")

    told = summary(run_refine("fixed.conllu", "-o", "out.conllu", "--changes", "none.json"))

    assert told["sentences"] == f"{len(fixed)}, 0 of them changed"
    assert told["converged"] == "100.0 % at step 1"
    assert json.loads(Path("none.json").read_text())["changes"] == []
    assert Path("out.conllu").read_bytes() == Path("fixed.conllu").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--changes", "changes.csv"],
            "changes.csv: The ending does not tell how to write the changes. Name a file that ends in .html, .json or "
            ".tsv.",
        ),
        (["--changes", "-"], "-: The ending does not tell how to write the changes. Name a file that ends in .html"),
        (
            ["--changes", "a.tsv", "--resume"],
            "With --resume, --changes would lack the sentences that are done. Leave out one of them.",
        ),
        (
            ["--changes", "no/a.tsv"],
            "no/a.tsv: The output could not be written: No such file or directory. Make the folder no first.",
        ),
        (["--changes", "folder.tsv"], "folder.tsv: This is a directory. Name a file to write."),
        (["--changes", "linked.tsv"], "linked.tsv: The changes would take the place of the input or the output. Name"),
        (["--changes", "./out.json"], "./out.json: The changes would take the place of the input or the output. Name"),
    ],
)
def test_a_file_of_changes_that_cannot_be_is_told_before_any_work(run_refine, arguments, message, monkeypatch):
    monkeypatch.setattr("treefine.cli.parse.load_parser", None)  # it would be called with work
    Path("folder.tsv").mkdir()
    Path("linked.tsv").symlink_to("in.conllu")

    assert failed(run_refine, "in.conllu", "-o", "out.json", *arguments).startswith(message)
    assert not Path("out.json").exists()


def test_a_run_that_fails_leaves_no_file_of_changes(run_refine):
    Path("torn.conllu").write_text(Path("in.conllu").read_text() + "1\ttorn\n")
    Path("changes.html").write_text("precious")

    failed(run_refine, "torn.conllu", "-o", "out.json", "--changes", "changes.html")

    assert Path("changes.html").read_text() == "precious"
    assert {path.name for path in Path().iterdir()} <= {"in.conllu", "torn.conllu", "changes.html", "out.json.part"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is a device of Linux")
def test_a_full_disk_is_told_with_the_name_of_the_file(run_refine, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Path("/dev/full").open("wb", buffering=0))

    message = failed(run_refine, "in.conllu", "-o", "out.svg", "--changes", "changes.tsv")

    assert message == "changes.tsv: The changes could not be written: No space left on device."


def test_nothing_in_a_label_acts_on_the_terminal(run_refine):
    write_treebank(renamed_labels(read_treebank("in.conllu"), {"case": "\x1b[2J"}), "odd.conllu")

    result = run_refine("odd.conllu", "-o", "out.conllu", "--changes", "changes.tsv")
    run_refine("odd.conllu", "-o", "out.conllu", "--changes", "changes.html")

    assert "\x1b" not in result.stderr
    assert "\\x1b[2J" in result.stderr
    assert "\x1b" not in Path("changes.tsv").read_text() + Path("changes.html").read_text()


def test_counting_and_noting_hold_the_same_memory_for_any_number_of_sentences(refiner, tmp_path):
    parses = [each for each in refiner.stream_parses(damaged(sample(3))) if each.changes]

    def held_after(times):
        changes = Changes(refiner.model.vocabulary.labels)
        tracemalloc.start()
        with open_changes(str(tmp_path / "changes.html"), changes) as noted:
            for _ in range(times):
                for parse in parses:
                    noted(changes.add(parse, parse.initial))
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return held

    held_after(1)

    written = (tmp_path / "changes.html").stat().st_size
    assert held_after(20) < held_after(2) + written / 2
