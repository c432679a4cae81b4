"""The counts of changes made by refinement, and the file of --changes."""

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import damaged, rows_of, summary
from tests.support.generated import random_heads
from tests.support.tiny import sample
from treefine import Graph, Sentence, read_treebank
from treefine.jobs.changes import Changes
from treefine.parsing.confidence import Confidence
from treefine.parsing.initial import renamed
from treefine.parsing.parse import Parse
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs

# The file of --changes: each word whose arc changed, as HTML, JSON or TSV


def test_tsv_has_a_row_per_change(run_refine, refiner):
    run_refine("in.conllu", "-o", "out.conllu", "--changes", "changes.tsv")

    sentences = list(read_treebank("in.conllu"))
    parses = zip(sentences, refiner.stream(sentences), strict=True)
    expected = [(sentence, change) for sentence, parse in parses for change in parse.changes]
    for row, (sentence, change) in zip(rows_of("changes.tsv"), expected, strict=True):
        numbers = {name: float(row.pop(name)) for name in ("before", "after")}
        values = asdict(change)
        assert numbers == pytest.approx({name: values.pop(name) for name in numbers}, abs=2e-4)
        place = {"file": "in.conllu", "line": sentence.line, "sentence": sentence.number, "sent_id": sentence.sent_id}
        assert row == {name: "_" if value is None else str(value) for name, value in (place | values).items()}


def test_json_has_the_counts_and_all_changes(run_refine):
    run_refine("in.conllu", "-o", "out.conllu", "--changes", "changes.tsv")
    printed = summary(run_refine("in.conllu", "-o", "again.conllu", "--changes", "changes.json"))

    document = json.loads(Path("changes.json").read_text())

    rows = [(str(change["word"]), change["old_label"]) for change in document["changes"]]
    assert rows == [(row["word"], row["old_label"]) for row in rows_of("changes.tsv")]
    counts = document["summary"]
    assert f"10, {counts['changed sentences']} of them changed" == printed["sentences"]
    assert str(counts["heads changed"]) == printed["heads changed"]
    assert counts["heads changed"] + counts["labels changed"] == len(rows)
    assert sum(counts["same label, new head"].values()) + sum(counts["old and new label"].values()) == len(rows)
    assert sum(counts["converged"].values()) == counts["sentences"] == 10


def test_the_page_draws_only_the_changed_sentences(run_refine, refiner):
    parses = list(refiner.stream(damaged(sample(10))))
    fixed = [each.sentence for each in parses if each.converged and each.steps[-1] == each.tree][:2]
    write_treebank([*damaged(sample(3)), *fixed], "some.conllu")

    printed = summary(run_refine("some.conllu", "-o", "out.conllu", "--changes", "changes.html"))

    page = Path("changes.html").read_text()
    body = ElementTree.fromstring(page.partition("<body>")[2].join(["<body>", ""]).partition("</html>")[0])
    sections = body.findall(".//section")
    assert printed["sentences"] == f"{3 + len(fixed)}, {len(sections)} of them changed"
    assert [each.find("h2").text for each in sections] == [each.text for each in sample(3)]
    assert len(body.findall(".//figure/{http://www.w3.org/2000/svg}svg")) == len(sections) == 3
    summary_table = body.find(".//table[@id='summary']")
    table = {row.find("th").text: row.find("td").text for row in summary_table.findall("tr")}
    assert table["heads changed"] == printed["heads changed"]


# The counts: old arcs and labels are reported as in the file


KNOWN = ("nsubj", "obj", "root")
SURE = Confidence(0.5, 0.5)


def parse(tree, read):
    n_words = len(read.heads)
    sentence = Sentence.of_words(["x"] * n_words).with_graph(tree)
    before = tuple(SURE if head is not None and label in KNOWN else None for head, label in zip(*read, strict=True))
    return Parse(sentence, ((0, 1),) * n_words, (SURE,) * n_words, 0.5, (tree,), read, before, True)


def added(given, tree, names=None):
    """Return the counts, and the parse with its changes."""
    (read,) = renamed(lambda sentences: (given for _ in sentences), KNOWN, names)([None])
    changes = Changes(KNOWN)
    return changes, changes.add(parse(tree, read), given)


@pytest.mark.parametrize(
    ("given", "labels", "names", "expected", "renamed"),
    [
        (["nsubj", "root"], ["obj", "root"], {"nsubj": "_"}, [(1, "nsubj", "obj", None)], {}),
        (
            ["dobj", "ROOT", "dobj"],
            ["obj", "root", "nsubj"],
            None,
            [(3, "obj", "nsubj", 0.25)],
            {"dobj → obj": 2, "ROOT → root": 1},
        ),
        (["prep", "root"], ["prep", "root"], None, [], {}),
    ],
    ids=["ignored", "newer name", "chosen by a user"],
)
def test_a_label_in_the_output_is_compared_with_the_file_or_the_label_that_was_read(
    given, labels, names, expected, renamed
):
    heads = (2, 0, 2)[: len(given)]

    changes, parse = added(Arcs(heads, tuple(given)), Graph.of_words(heads, labels), names)

    assert [(each.word, each.old_label, each.label, each.before) for each in parse.changes] == expected
    assert all(each.old_head == 2 for each in parse.changes)
    assert changes.listed["old and new label"] == Counter(f"{old} → {new}" for _, old, new, _ in expected)
    assert changes.n["labels changed"] == changes.n["changed sentences"] == len(expected)
    assert changes.listed["labels renamed"] == renamed
    assert changes.listed["labels ignored"] == Counter(list(names or ()))


@pytest.mark.parametrize(
    ("heads", "row"),
    [
        ((None, None), ("new arcs", "2 on words that had no arc")),
        ((0, 0), ("new labels", "2 on arcs that had no label")),
    ],
)
def test_new_arcs_and_labels_are_not_counted_as_changes(heads, row):
    changes, _ = added(Arcs(heads, ("_", "_")), Graph.of_words([2, 0], ["nsubj", "root"]))

    n_moved = "0" if heads[0] is None else "1"
    assert row in changes.rows()
    assert [("heads changed", n_moved), ("labels changed", "0 on words that kept their head")] == changes.rows()[2:4]


BLANKS = ["_", "_"]
UD = ("root", "det", "case", "cc", "mark", "aux", "punct", "nsubj")


def test_replaced_tags_and_contradictions_are_counted():
    """The first word becomes a determiner, with new tags and features."""
    given = Arcs((3, 3, 0), ("case", "nsubj", "root"))
    words = ["The", "dog", "barks"]
    tags = {"upos": ["ADV", "NOUN", "VERB"], "xpos": ["RB", "NN", "VBZ"]}
    old = Sentence.of_words(words, **tags, feats=["Degree=Pos", *BLANKS], lemma=["the", *BLANKS])
    tags = {"upos": ["DET", "NOUN", "VERB"], "xpos": ["DT", "NN", "VBZ"]}
    new = Sentence.of_words(words, **tags, feats=["Definite=Def", *BLANKS], lemma=["the", "dog", "bark"])
    tree = Graph.of_words([2, 3, 0], ["det", "nsubj", "root"])
    places, sure = ((0, 3), (4, 7), (8, 13)), (SURE,) * 3
    parse = Parse(new.with_graph(tree), places, sure, 0.5, (tree,), given, sure, True, given_tags=old.words)

    changes = Changes(UD)
    changes.add(parse, given)

    rows = changes.rows()
    assert ("tags replaced", "UPOS 1, XPOS 1, FEATS 1") in rows
    assert ("old and new tag", "ADV → DET 1") in rows
    assert "label against tag" not in dict(rows)  # ADV is allowed for case, and DET for det


def test_labels_that_no_longer_contradict_tags_are_counted_before_and_after():
    tags = {"upos": ["DET", "VERB"]}
    sentence = Sentence.of_words(["The", "barks"], **tags)
    given = Arcs((2, 0), ("aux", "root"))
    tree = Graph.of_words([2, 0], ["det", "root"])
    places, sure = ((0, 3), (4, 9)), (SURE,) * 2
    parse = Parse(sentence.with_graph(tree), places, sure, 0.5, (tree,), given, sure, True, given_tags=sentence.words)

    changes = Changes(UD)
    changes.add(parse, given)

    assert dict(changes.rows())["label against tag"] == "before 1, after 0"


LABELS = st.sampled_from(["nsubj", "obj", "root", "dobj", "prep", "_"])


@given(st.data())
def test_the_reported_changes_turn_the_input_into_the_output_and_each_is_counted_once(data):
    n_words = data.draw(st.integers(1, 6))

    def labels(of=LABELS):
        return data.draw(st.lists(of, min_size=n_words, max_size=n_words))

    heads = data.draw(st.lists(st.none() | st.integers(0, n_words), min_size=n_words, max_size=n_words))
    start = Arcs(tuple(heads), tuple("_" if head is None else each for head, each in zip(heads, labels(), strict=True)))
    tree = Graph.of_words(data.draw(random_heads(n_words)), labels(st.sampled_from(KNOWN)))
    names = data.draw(st.dictionaries(st.sampled_from(["nsubj", "obj", "prep"]), st.sampled_from([*KNOWN, "_"])))

    changes, parse = added(start, tree, names)

    changed = {each.word: each for each in parse.changes}
    file = zip(*start, strict=True)
    for word, (old, new) in enumerate(zip(file, zip(*tree.arcs, strict=True), strict=True), start=1):
        if old == new:
            assert word not in changed
        if word in changed:
            change = changed[word]
            assert (change.old_head, change.head, change.label) == (old[0], *new)
            assert change.old_label in KNOWN or change.old_label == old[1]
            assert (change.before is None) == (change.old_head is None or parse.initial_confidences[word - 1] is None)
    counted = changes.listed["same label, new head"].total() + changes.listed["old and new label"].total()
    assert counted + changes.n["new arcs"] + changes.n["new labels"] == len(changed)
    assert changes.n["heads changed"] == sum(None is not each.old_head != each.head for each in changed.values())
