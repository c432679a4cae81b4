"""Our CoNLL 2018 scores equal those of the official script, udtools and udapi on real and corrupted files."""

import random

import pytest
from hypothesis import given, settings

from tests.evaluation.test_official import sample, text_of
from tests.support.data import DATA, ud_files
from tests.support.generated import file_pairs
from tests.support.oracles import (
    change_cells,
    change_labels,
    corrupt,
    move_heads,
    official,
    ours,
    render,
    udapi,
    udtools,
    unpack,
)

VARIANTS_OF_A_FILE = 10  # for each of 17 treebanks: 170 in all


@pytest.mark.parametrize("path", ud_files("*/test.conllu.xz"))
def test_corrupted_treebanks_score_as_in_the_official_scripts(path):
    sentences = sample(path, 100)
    gold = text_of(sentences)

    for seed in range(VARIANTS_OF_A_FILE):
        system = corrupt(sentences, seed)
        expected = official(gold, system)
        assert ours(gold, system) == expected, f"seed {seed}"
        assert ours(system, gold) == official(system, gold), f"seed {seed}, reversed"
        assert udtools(gold, system) == expected, f"seed {seed}"


@settings(max_examples=50)
@given(file_pairs())
def test_generated_pairs_score_as_in_the_official_scripts(files):
    expected = official(*files)

    assert ours(*files) == expected
    assert udtools(*files) == expected


@pytest.mark.parametrize("seed", range(3))
def test_an_independent_implementation_counts_the_same(seed):
    sentences = sample(DATA / "en_ewt-sample.conllu")
    changed = unpack(sentences)
    for change in (move_heads, change_labels, change_cells):
        change(random.Random(seed), changed)
    gold, system = render(unpack(sentences)), render(changed)

    found = {name: counts[:3] for name, counts in ours(gold, system).items() if name not in ("Tokens", "Sentences")}
    assert found == udapi(gold, system)
