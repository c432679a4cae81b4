"""The treebanks of a recipe are checked before training starts."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample
from treefine.errors import ConfigError
from treefine.training.data import fold_ranges, load_data
from treefine.training.recipe import TreebankSettings
from treefine.treebank.conllu import write_treebank

ROW = "{}\t{}\t_\tNOUN\t_\t_\t{}\t{}\t_\t_\n"
TREE = ROW.format(1, "a", 2, "det") + ROW.format(2, "b", 0, "root") + "\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write two treebanks into the working folder."""
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(12), "train.conllu")
    write_treebank(sample(20)[12:], "dev.conllu")
    return TreebankSettings(("train.conllu",), ("dev.conllu",))


def faults_of(settings):
    with pytest.raises(ConfigError) as caught:
        load_data(settings)
    return str(caught.value).splitlines()


def test_sentences_are_read_from_all_files_in_order(files):
    Path("more.conllu").write_text(TREE)

    data = load_data(TreebankSettings(("train.conllu", "more.conllu"), ("dev.conllu",)))

    assert [each.forms for each in data.train] == [*(each.forms for each in sample(12)), ("a", "b")]
    assert [each.forms for each in data.dev] == [each.forms for each in sample(20)[12:]]


def test_a_sample_of_the_training_set_is_evenly_spaced_over_all_files(files):
    Path("more.conllu").write_text(TREE * 12)

    data = load_data(TreebankSettings(("train.conllu", "more.conllu"), ("dev.conllu",), sentences=12))

    assert [each.forms for each in data.train] == [*(each.forms for each in sample(12)[::2]), *[("a", "b")] * 6]
    assert len(data.dev) == 8


def test_checksums_are_keyed_by_the_path_in_the_recipe(files, monkeypatch, tmp_path):
    monkeypatch.setenv("BANKS", str(tmp_path))

    data = load_data(TreebankSettings(("$BANKS/train.conllu",), ("dev.conllu",)))

    assert data.checksums == {
        name: hashlib.sha256(Path(name.removeprefix("$BANKS/")).read_bytes()).hexdigest()
        for name in ("$BANKS/train.conllu", "dev.conllu")
    }


def test_every_faulty_file_is_reported(files):
    Path("cycle.conllu").write_text(TREE.replace("0\troot", "1\troot") * 2)
    Path("cut.conllu").write_text(TREE.replace("\t_\n\n", "\n\n"))

    assert faults_of(TreebankSettings(("nowhere.conllu", "cycle.conllu", "$NO_SUCH/x"), ("cut.conllu",))) == [
        "nowhere.conllu: There is no such file.",
        "cycle.conllu:1: (sentence 1, word 1) The heads form a cycle: 1 -> 2 -> 1. Change one of these heads. "
        "3 more errors: list them with treefine validate.",
        "$NO_SUCH/x needs the environment variable NO_SUCH. Set it to a folder: NO_SUCH=FOLDER treefine train …",
        "cut.conllu:2: (sentence 1) The line must have 10 columns, not 9.",
    ]


def test_several_roots_are_a_fault_only_in_ud(files):
    Path("dev.conllu").write_text(TREE.replace("2\tdet", "0\troot"))

    assert faults_of(files) == [
        "dev.conllu:2: (sentence 1, word 2) The sentence has 2 roots: words 1, 2. Only one word may have HEAD 0."
    ]
    assert load_data(TreebankSettings(files.train, files.dev, rule="conllx")).dev


@pytest.mark.parametrize(("count", "shown"), [(1, "1 sentence"), (3, "3 sentences"), (9, "9 sentences")])
def test_too_few_sentences_are_reported_and_ten_are_enough(files, count, shown):
    write_treebank(sample(count), "train.conllu")
    assert faults_of(files) == [f"train.conllu: {shown} to train on, but at least 10 are needed."]

    write_treebank(sample(10), "train.conllu")
    assert len(load_data(files).train) == 10


@pytest.mark.parametrize(
    ("rule", "train", "dev", "named"),
    [
        ("conll18", ["det"], ["vocative", "vocative"], "vocative (2)"),
        ("conll18", ["det"], ["det:x", "vocative:y"], "vocative (1)"),  # UD compares labels without subtypes
        ("conllx", ["det"], ["det:x", "vocative:y"], "det:x (1), vocative:y (1)"),
        ("conll18", ["det:poss"], ["det"], None),
        ("conll18", ["det"], [f"x{n}" for n in range(7)], "x0 (1), x1 (1), x2 (1), x3 (1), x4 (1) and 2 more"),
    ],
)
def test_labels_that_occur_only_in_dev_are_a_warning(files, rule, train, dev, named):
    Path("train.conllu").write_text("".join(TREE.replace("det", label) for label in train * 10))
    Path("dev.conllu").write_text("".join(TREE.replace("det", label) for label in dev))

    warnings = load_data(TreebankSettings(files.train, files.dev, rule=rule)).warnings

    begin = "dev.conllu: These labels are not in the training set, so they cannot be predicted: "
    assert warnings == (() if named is None else (f"{begin}{named}.",))


@given(n_sentences=st.integers(0, 500), folds=st.integers(1, 60))
def test_folds_are_a_partition_into_ranges_of_nearly_equal_length(n_sentences, folds):
    found = fold_ranges(n_sentences, folds)

    assert len(found) == folds
    assert [number for block in found for number in block] == list(range(n_sentences))
    assert max(map(len, found)) - min(map(len, found)) <= 1
