import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import random_heads
from treefine import Graph, TreefineError
from treefine.treebank.graph import distances_to_root, find_cycles, non_projective_words

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


@pytest.mark.parametrize(
    ("heads", "message"),
    [([3, 0], "Heads must be from 0 to 2"), ([-1, 0], "Heads must be from 0 to 2"), ([0], "2 heads but 3 labels")],
)
def test_heads_must_be_in_range_and_match_the_number_of_labels(heads, message):
    with pytest.raises(TreefineError, match=message):
        Graph.of_words(heads, ["a", "b"])


def test_a_deep_tree_of_many_words_is_checked_in_no_time():
    heads = range(20_000)  # each word is the head of the next one: walking up from each takes minutes

    assert non_projective_words((0, *heads)) == set()
