import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import UD
from tests.support.generated import random_heads
from treefine import Graph, TreefineError, read_treebank
from treefine.treebank.graph import changed_words, distances_to_root, find_cycles, non_projective_words

any_heads = st.integers(1, 7).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n))
trees = st.integers(1, 8).flatmap(random_heads)


def graph(heads: list[int]) -> Graph:
    return Graph.of_words(heads, ["x"] * len(heads))


def above(heads: list[int], word: int) -> list[int]:
    """Return the words above the word, nearest first, up to ROOT; they include the word itself if it is in a cycle."""
    path = [heads[word - 1]]
    while path[-1] and heads[path[-1] - 1] not in path:
        path.append(heads[path[-1] - 1])
    return path


@given(any_heads)
def test_a_graph_is_a_tree_if_it_has_one_root_and_all_words_reach_it(heads):
    reaches_root = all(0 in above(heads, word) for word in range(1, len(heads) + 1))

    assert graph(heads).is_tree == (reaches_root and heads.count(0) == 1)


@given(any_heads)
def test_every_cycle_is_found_once(heads):
    cycles = find_cycles((0, *heads))

    in_cycles = {word for word in range(1, len(heads) + 1) if word in above(heads, word)}
    assert sorted(word for cycle in cycles for word in cycle) == sorted(in_cycles)
    for cycle in cycles:
        for word, head in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            assert heads[word - 1] == head


@given(any_heads)
def test_the_distance_to_root_is_the_length_of_the_path_up(heads):
    ways = [above(heads, word) for word in range(1, len(heads) + 1)]

    assert distances_to_root((0, *heads))[1:] == [len(way) if 0 in way else -1 for way in ways]


@given(any_heads)
def test_an_arc_is_projective_if_its_head_is_above_all_words_under_it(heads):
    expected = set()
    for word, head in enumerate(heads, start=1):
        between = range(min(word, head) + 1, max(word, head))
        if any(head not in above(heads, inner) for inner in between):
            expected.add(word)

    assert non_projective_words((0, *heads)) == expected


@given(trees)
def test_a_tree_is_projective_if_and_only_if_no_arcs_cross(heads):
    arcs = [(min(word, head), max(word, head)) for word, head in enumerate(heads, start=1)]

    assert graph(heads).is_projective == (not any(a < c < b < d for a, b in arcs for c, d in arcs))


def test_trees_may_have_thousands_of_words():
    chain = graph(range(5000))
    zigzag = graph([0, *[5000 - word if word % 2 else 5001 - word for word in range(2, 5001)]])

    assert chain.is_tree
    assert chain.is_projective
    assert not zigzag.is_projective


def test_changed_words_have_a_different_head_or_label():
    before = Graph.of_words([2, 0, 2], ["a", "root", "c"])
    after = Graph.of_words([2, 0, 1], ["b", "root", "c"])

    assert changed_words(before, after) == (1, 3)
    assert changed_words(before, before) == ()
    with pytest.raises(ValueError, match="3 and 1 words"):
        changed_words(before, graph([0]))


@pytest.mark.parametrize(
    ("heads", "message"),
    [([3, 0], "Heads must be from 0 to 2"), ([-1, 0], "Heads must be from 0 to 2"), ([0], "2 heads but 3 labels")],
)
def test_heads_must_be_in_range_and_match_the_number_of_labels(heads, message):
    with pytest.raises(TreefineError, match=message):
        Graph.of_words(heads, ["a", "b"])


# From the table in the README of the treebanks: the share of non-projective sentences in all files.
@pytest.mark.skipif(not UD.exists(), reason="no treebanks next to this checkout")
@pytest.mark.parametrize(("treebank", "share"), [("tr_imst", 11.5), ("hu_szeged", 27.1), ("vi_vtb", 2.9)])
def test_the_share_of_non_projective_sentences_is_the_published_share(treebank, share):
    graphs = [sentence.graph for path in sorted((UD / treebank).glob("*.xz")) for sentence in read_treebank(path)]

    assert round(100 * sum(not each.is_projective for each in graphs) / len(graphs), 1) == share
