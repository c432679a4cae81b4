"""What a refinement changed: the counts, and the file of --changes."""

import gc
import gzip
import html
import json
import tracemalloc
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import failed
from tests.support.generated import random_heads
from tests.support.refine_commands import damaged, renamed_labels, rows_of, summary
from tests.support.tiny import sample
from treefine import Graph, Sentence, read_treebank
from treefine.cli.changes import Changes, open_changes
from treefine.parsing.confidence import Confidence
from treefine.parsing.initial import renamed
from treefine.parsing.parse import Parse
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs

# The file of --changes: each word whose arc changed, as a page, as JSON or between tabs


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
            "no/a.tsv: The output could not be written: No such file or directory. Create the folder no first.",
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


# The counts: what is told as old is what the file has


KNOWN = ("nsubj", "obj", "root")
SURE = Confidence(0.5, 0.5)


def parse(tree, read):
    n_words = len(read.heads)
    sentence = Sentence.of_words(["x"] * n_words).with_graph(tree)
    before = tuple(SURE if head is not None and label in KNOWN else None for head, label in zip(*read, strict=True))
    return Parse(sentence, ((0, 1),) * n_words, (SURE,) * n_words, 0.5, (tree,), read, before, True)


def added(given, tree, names=None):
    """The counts, and the parse as it is told."""
    (read,) = renamed(lambda sentences: (given for _ in sentences), KNOWN, names)([None])
    changes = Changes(KNOWN)
    return changes, changes.add(parse(tree, read), given)


@pytest.mark.parametrize(
    ("given", "labels", "names", "told", "read_as"),
    [
        (["nsubj", "root"], ["nsubj", "root"], {"nsubj": "_"}, [], {("nsubj", "_"): 1}),
        (["nsubj", "root"], ["obj", "root"], {"nsubj": "_"}, [(1, "nsubj", "obj", None)], {("nsubj", "_"): 1}),
        (["nsubj", "root"], ["nsubj", "root"], {"nsubj": "obj"}, [], {("nsubj", "obj"): 1}),
        (
            ["dobj", "ROOT", "dobj"],
            ["obj", "root", "nsubj"],
            None,
            [(3, "obj", "nsubj", 0.25)],
            {("dobj", "obj"): 2, ("ROOT", "root"): 1},
        ),
        (["prep", "root"], ["prep", "root"], None, [], {}),
    ],
    ids=["not read, came back", "not read, changed", "read as another, came back", "newer name", "a person's own"],
)
def test_a_label_that_came_back_is_no_change_and_another_is_told_from_what_was_read(
    given, labels, names, told, read_as
):
    heads = (2, 0, 2)[: len(given)]

    changes, parse = added(Arcs(heads, tuple(given)), Graph.of_words(heads, labels), names)

    assert [(each.word, each.old_label, each.label, each.before) for each in parse.changes] == told
    assert all(each.old_head == 2 for each in parse.changes)
    assert changes.relabelled == Counter(each[1:3] for each in told)
    assert changes.n_changed == bool(told)
    assert changes.read_as == read_as


def test_a_blank_label_that_got_one_is_counted_apart_from_changes():
    given = Arcs((2, 0, 1), ("_", "root", "_"))

    changes, told = added(given, Graph.of_words([2, 0, 2], ["nsubj", "root", "obj"]))

    assert [(each.old_label, each.before) for each in told.changes] == [("_", None), ("_", None)]
    assert (changes.n_named, changes.n_heads, changes.n_added) == (2, 1, 0)
    assert (changes.relabelled, changes.replaced, changes.moved, changes.read_as) == ({}, {}, {}, {})
    assert ("new labels", "2, of words that had a head alone") in changes.rows()
    assert changes.values()["new_labels"] == 2
    assert told.changed_picture().changed == {3}  # its head: a label is drawn as if the new one had been there


LABELS = st.sampled_from(["nsubj", "obj", "root", "dobj", "prep", "_"])


@given(st.data())
def test_what_is_told_leads_from_the_file_to_the_output_and_each_word_is_counted_once(data):
    n_words = data.draw(st.integers(1, 6))

    def labels(of=LABELS):
        return data.draw(st.lists(of, min_size=n_words, max_size=n_words))

    heads = data.draw(st.lists(st.none() | st.integers(0, n_words), min_size=n_words, max_size=n_words))
    start = Arcs(tuple(heads), tuple("_" if head is None else each for head, each in zip(heads, labels(), strict=True)))
    tree = Graph.of_words(data.draw(random_heads(n_words)), labels(st.sampled_from(KNOWN)))
    names = data.draw(st.dictionaries(st.sampled_from(["nsubj", "obj", "prep"]), st.sampled_from([*KNOWN, "_"])))

    changes, told = added(start, tree, names)

    changed = {each.word: each for each in told.changes}
    file = zip(*start, strict=True)
    for word, (old, new) in enumerate(zip(file, zip(*tree.arcs, strict=True), strict=True), start=1):
        if old == new:
            assert word not in changed
        if word in changed:
            change = changed[word]
            assert (change.old_head, change.head, change.label) == (old[0], *new)
            assert change.old_label in KNOWN or change.old_label == old[1]
            assert (change.before is None) == (change.old_head is None or told.initial_confidences[word - 1] is None)
    counted = changes.moved.total() + changes.relabelled.total() + changes.replaced.total()
    assert counted + changes.n_added + changes.n_named == len(changed)
    assert changes.n_heads == sum(None is not each.old_head != each.head for each in changed.values())
