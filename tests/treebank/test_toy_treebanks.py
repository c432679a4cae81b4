"""The toy treebanks of `tests.support.toy_treebanks` are treebanks that treefine can read."""

import pytest

from tests.support.toy_treebanks import NAMES, UD, UD_FOLDER, toy_treebanks
from treefine.treebank.conllu import read_treebank, validate

SIZES = {"n_train": 20, "n_dev": 12, "n_test": 12}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebanks")
    toy_treebanks(folder, **SIZES)
    return folder


def files_of(folder, name):
    place = folder / UD_FOLDER / name if name in UD else folder / name
    return {path.stem.split("-")[-1]: path for path in place.glob("*.conll*")}


@pytest.mark.parametrize("name", NAMES)
def test_every_toy_sentence_is_a_tree_with_one_root(name, folder):
    files = files_of(folder, name)
    parts = {part: list(read_treebank(path)) for part, path in files.items()}
    sentences = [each for part in parts.values() for each in part]

    assert [f for path in files.values() for f in validate(path)] == []
    assert {part: len(each) for part, each in parts.items()} == {"train": 20, "dev": 12, "test": 12}
    assert all(each.graph.is_tree and len(each.graph.roots) == 1 for each in sentences)
    assert 0 < sum(not each.graph.is_projective for each in sentences) < len(sentences) / 2
    assert 6 <= len({label for each in sentences for label in each.labels}) <= 10
    assert all(tag != "_" for each in sentences for tag in (each.upos if name != "conll09-german" else each.xpos))


def test_toy_treebanks_have_subtypes_multiword_tokens_and_wrong_predicted_tags(folder):
    english, hebrew = (
        list(read_treebank(files_of(folder, f"UD_{name}")["train"])) for name in ("English-EWT", "Hebrew-HTB")
    )
    german = files_of(folder, "conll09-german")["train"]
    gold, predicted = (list(read_treebank(german, format=name)) for name in ("conll09", "conll09-predicted"))

    assert any("nmod:poss" in each.labels for each in english)
    assert any("-" in identifier for each in hebrew for identifier in each.columns[0])
    assert [each.xpos for each in gold] != [each.xpos for each in predicted]


def test_the_same_call_writes_the_same_toy_treebanks(tmp_path, folder):
    toy_treebanks(tmp_path, **SIZES, names=["ptb", "UD_Korean-GSD"])

    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(paths) == 8
    assert all(path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes() for path in paths)
