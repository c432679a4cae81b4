"""The refine command: its output, its summary, and input with different labels and words."""

import re
from pathlib import Path

import pytest

from tests.support.commands import damaged, failed, summary
from tests.support.tiny import sample
from treefine import read_treebank
from treefine.jobs.changes import Changes
from treefine.treebank.conllu import write_treebank


def test_the_summary_has_the_changes_the_most_frequent_labels_and_the_steps(run_refine, refiner):
    printed = summary(run_refine("in.conllu", "-o", "out.conllu"))

    before, after = list(read_treebank("in.conllu")), list(read_treebank("out.conllu"))
    words = [(a, b) for old, new in zip(before, after, strict=True) for a, b in zip(old.words, new.words, strict=True)]
    changes = Changes(refiner.model.vocabulary.labels)
    for sentence, parse in zip(before, refiner.stream(before), strict=True):
        changes.add(parse, sentence.arcs)
    assert printed == dict(changes.rows())
    assert printed["words"] == str(len(words))
    first = printed["old and new label"].split(", ")[0]
    old, new, number = re.fullmatch(r"(\S+) → (\S+) (\d+)", first).groups()
    assert sum((a.label, b.label) == (old, new) for a, b in words) == int(number)
    assert re.search(r", and \d+ more$", printed["old and new label"])
    n_open = sum(not each.converged for each in refiner.stream(damaged(sample(10))))
    assert re.search(rf"{10 * n_open}\.0% not within \d+ steps", printed["converged"])
    assert sum(float(percent) for percent in re.findall(r"([\d.]+)%", printed["converged"])) == pytest.approx(100)


@pytest.mark.parametrize("shape", ["tree", "svg", "html"])
def test_drawn_trees_mark_the_changes(run_refine, shape):
    mark = {"tree": "* was: ", "svg": 'class="old"', "html": 'class="old"'}[shape]

    assert mark in run_refine("in.conllu", "--format", shape).stdout
    assert mark not in run_refine("in.conllu", "--format", shape, command="parse").stdout


def test_the_trees_do_not_depend_on_changes_or_the_output_file(run_refine, refiner):
    expected = "".join(each.to_conllu() for each in refiner.stream_trees(read_treebank("in.conllu")))

    plain = run_refine("in.conllu").stdout
    run_refine("in.conllu", "-o", "out.conllu", "--changes", "changes.tsv")
    run_refine("in.conllu", "-o", "in.conllu", "--force")

    assert plain == Path("out.conllu").read_text() == Path("in.conllu").read_text() == expected


def test_a_label_map_overrides_the_built_in_names(run_refine):
    Path("other.conllu").write_text(re.sub(r"(?<=[\t:])case\t", "prep\t", Path("in.conllu").read_text()))
    Path("labels.tsv").write_text("prep\tcase\n")

    mapped = run_refine("other.conllu", "--steps", 1, "--label-map", "labels.tsv")

    assert mapped.stdout == run_refine("in.conllu", "--steps", 1).stdout
    assert summary(mapped)["labels renamed"].startswith("prep → case ")


def test_trust_is_fitted_to_correct_trees_of_some_sentences(run_refine):
    write_treebank(sample(10)[4:8], "gold.conllu")

    first, *rest = run_refine("in.conllu", "-o", "out.conllu", "--trust-from", "gold.conllu").stderr.splitlines()

    weight = re.fullmatch(r"treefine: trust (\d\.\d\d), fitted to gold.conllu", first).group(1)
    assert f"trust {weight}" in {re.sub(" +", " ", line) for line in rest}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trust", "much"], "--trust must be auto or a number, not 'much'."),
        (["--trust", "1,2"], "trust has 2 values, but the number of initial parses is 1."),
        (["--trust", "nan"], "The option trust must be"),
        (["--trust", "1", "--trust-from", "in.conllu"], "--trust and --trust-from cannot be combined."),
        (["--trust-from", "other.conllu"], "other.conllu: None of the 1 sentences with correct trees occurs"),
    ],
)
def test_wrong_trust_is_reported(run_refine, options, message):
    write_treebank(sample(20)[15:16], "other.conllu")

    assert message in failed(run_refine, "in.conllu", "-o", "out.conllu", *options)
    assert "--trust needs initial trees." in failed(run_refine, "in.conllu", "--trust", "2", command="parse")
