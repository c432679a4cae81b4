"""The points of a curve and their bands, compared with slow loops and udapi."""

import io
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import LABELS, file_pairs, random_heads
from treefine import Graph, Sentence, read_treebank
from treefine.evaluation.analysis import curves
from treefine.evaluation.analysis.curves import LOWEST, draw_curves, f1_bands, f1_of_kinds, join, point_of, tally
from treefine.evaluation.breakdown import PROPERTIES
from treefine.evaluation.scores import all_marks, load_pair
from treefine.evaluation.significance import draw_weights


def tally_of(pair, by, *, rule="conll18", metric="LAS"):
    values = [PROPERTIES[by](words, rule) for words in (pair.gold, pair.system)]
    return tally(by, pair, all_marks(pair, rule=rule)[metric], *values)


def points_of(pair, by, *, samples=20, **options):
    return draw_curves({by: {"s": tally_of(pair, by, **options)}}, samples=samples, seed=1)[by]["s"]


def sentence(heads, labels="", upos=None):
    words = Sentence.of_words([f"w{n}" for n in range(len(heads))], upos=upos)
    return words.with_graph(Graph.of_words(heads, list(labels) or ["x"] * len(heads)))


@given(by=st.sampled_from([*LOWEST]), number=st.integers(1, 200))
def test_each_number_belongs_to_the_point_whose_range_contains_it(by, number):
    name = point_of(by, number)

    low, high = re.fullmatch(r"(\d+)(?:-(\d+)|\+)?", str(name)).groups()
    end = 10**9 if str(name).endswith("+") else int(high or low)
    assert int(low) <= number <= end
    assert isinstance(name, int) == (int(low) == end)


def test_short_lengths_have_separate_points_and_long_lengths_share_them():
    # Word 1 is the root and the head of all others, so word n has an arc of length n - 1.
    chain = sentence([0, *[1] * 40])

    points = points_of(load_pair([chain], [chain]), "dependency length")

    assert [(point.value, point.gold) for point in points] == [
        ("ROOT", 1),
        *[(length, 1) for length in range(1, 11)],
        ("11-15", 5),
        ("16-20", 5),
        ("21-30", 10),
        ("31+", 10),
    ]


def test_deep_words_share_a_point_and_words_in_cycles_have_another():
    deep = sentence(range(12))  # each word is attached to the previous one
    cycle = sentence([0, 1, 4, 3, *range(4, 12)])  # words 3 and 4 form a cycle, and the rest is below them

    points = points_of(load_pair([deep], [cycle], rule="conll09"), "distance to root", rule="conll09")

    assert [(point.value, point.gold, point.system) for point in points] == [
        (1, 1, 1),
        (2, 1, 1),
        *[(depth, 1, 0) for depth in range(3, 9)],
        ("9+", 4, 0),
        ("cycle", 0, 10),
    ]


def test_sentences_are_grouped_by_tens_up_to_fifty():
    treebank = [sentence([0, *[1] * (n - 1)]) for n in (1, 10, 11, 50, 51, 90)]

    points = points_of(load_pair(treebank, treebank), "sentence length")

    assert [(point.value, point.gold) for point in points] == [("1-10", 11), ("11-20", 11), ("41-50", 50), ("51+", 141)]


def test_recall_uses_the_gold_tree_and_precision_uses_the_system_tree():
    # Gold: b and c attach to the root a. System: c attaches to b, so a and b are right; only the system has depth 3.
    gold, system = sentence([0, 1, 1]), sentence([0, 1, 2])

    one, two, three = points_of(load_pair([gold], [system]), "distance to root")

    assert (one.precision, one.recall, one.f1) == (1, 1, 1)
    assert (two.gold, two.system, two.gold_correct, two.system_correct) == (2, 1, 1, 1)
    assert (two.precision, two.recall, two.f1) == (1, 0.5, pytest.approx(2 / 3))
    assert (three.gold, three.system, three.precision, three.recall, three.f1) == (0, 1, 0, 0, 0)


def test_labels_are_sorted_by_frequency_in_gold():
    gold, system = sentence([0, 1, 1, 1], "rbba"), sentence([0, 1, 1, 1], "rbzb")

    points = points_of(load_pair([gold], [system]), "label")

    assert [(point.value, point.gold, point.system) for point in points] == [
        ("b", 2, 2),
        ("a", 1, 0),
        ("r", 1, 1),
        ("z", 0, 1),
    ]


def slow_value(by, heads, labels, tags, word):
    """Return the value of one word, computed step by step from the definitions."""
    head = heads[word - 1]
    path = [word]
    while path[-1] and heads[path[-1] - 1] not in path:
        path.append(heads[path[-1] - 1])
    if by == "dependency length":
        return "ROOT" if head == 0 else abs(word - head)
    if by == "arc direction":
        return "ROOT" if head == 0 else "left" if head < word else "right"
    if by == "distance to root":
        return len(path) - 1
    if by == "sentence length":
        return len(heads)
    if by in ("label", "tag"):
        return (labels[word - 1].partition(":")[0], tags[word - 1])[by == "tag"]

    def is_projective(word):
        def is_below(other):
            while other not in (0, heads[word - 1]):
                other = heads[other - 1]
            return other == heads[word - 1]

        low, high = sorted([word, heads[word - 1]])
        return all(is_below(other) for other in range(low + 1, high))

    words = range(1, len(heads) + 1) if by == "tree projectivity" else [word]
    return "projective" if all(map(is_projective, words)) else "non-projective"


@st.composite
def treebank_pairs(draw):
    """Draw heads, labels and tags of a few sentences, for gold and for a system."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        n_words = draw(st.integers(1, 7))
        tags = draw(st.lists(st.sampled_from("NV"), min_size=n_words, max_size=n_words))
        trees = [
            (draw(random_heads(n_words)), draw(st.lists(st.sampled_from(LABELS), min_size=n_words, max_size=n_words)))
            for _ in range(2)
        ]
        found.append((tags, *trees))
    return found


@settings(max_examples=30)
@given(treebank_pairs(), st.sampled_from([*PROPERTIES]), st.sampled_from(["UAS", "LAS"]))
def test_points_and_bands_equal_those_of_a_slow_loop(treebank, by, metric):
    def slow_counts(drawn):
        counts = {}
        for tags, (heads, labels), (other_heads, other_labels) in (treebank[number] for number in drawn):
            for word in range(1, len(heads) + 1):
                right = heads[word - 1] == other_heads[word - 1]
                if metric == "LAS":
                    bare = [each[word - 1].partition(":")[0] for each in (labels, other_labels)]
                    right = right and bare[0] == bare[1]
                ours = point_of(by, slow_value(by, heads, labels, tags, word))
                theirs = point_of(by, slow_value(by, other_heads, other_labels, tags, word))
                for kind, column in ((ours, 0), (theirs, 1), *(((ours, 2), (theirs, 3)) if right else ())):
                    counts.setdefault(kind, Counter())[column] += 1
        return counts

    def slow_f1(count, unknown):
        gold, system, gold_correct, system_correct = (count[column] for column in range(4))
        if not gold and not system or not gold and system_correct or not system and gold_correct:
            return unknown
        if not gold_correct or not system_correct:
            return 0
        precision, recall = system_correct / system, gold_correct / gold
        return 2 * precision * recall / (precision + recall)

    files = [[sentence(each[side][0], each[side][1], upos=each[0]) for each in treebank] for side in (1, 2)]
    pair = load_pair(*files, rule="conll18")

    points = points_of(pair, by, samples=12, metric=metric)

    expected = slow_counts(range(len(treebank)))
    assert {point.value: point for point in points}.keys() == expected.keys()
    weights = draw_weights(np.random.default_rng(1), 12, len(treebank)).astype(int)
    samples = [slow_counts(np.repeat(np.arange(len(treebank)), row)) for row in weights]
    for point in points:
        count = expected[point.value]
        assert (point.gold, point.system, point.gold_correct, point.system_correct) == tuple(count[c] for c in range(4))
        assert point.f1 == pytest.approx(slow_f1(count, unknown=0))
        found = [slow_f1(sample.get(point.value, Counter()), unknown=None) for sample in samples]
        drawn = [f1 for f1 in found if f1 is not None] or [0]
        assert (point.low, point.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))


def test_udapi_finds_the_same_lengths_depths_and_non_projective_arcs(data):
    from udapi.block.read.conllu import Conllu
    from udapi.core.document import Document

    path = data / "en_ewt-sample.conllu"
    document = Document()
    with path.open(encoding="utf-8") as file:
        Conllu(filehandle=file, fix_cycles=False).process_document(document)
    expected = {by: Counter() for by in ("dependency length", "distance to root", "arc projectivity")}
    for node in document.nodes:
        length = abs(node.ord - node.parent.ord) if node.parent.ord else 0
        depth, above = 1, node.parent
        while above.ord:
            depth, above = depth + 1, above.parent
        expected["dependency length"][point_of("dependency length", length)] += 1
        expected["distance to root"][point_of("distance to root", depth)] += 1
        expected["arc projectivity"]["non-projective" if node.is_nonprojective() else "projective"] += 1

    pair = load_pair(path, path)

    for by, counts in expected.items():
        assert {point.value: point.gold for point in points_of(pair, by)} == counts


@settings(max_examples=30)
@given(file_pairs(), st.sampled_from([*PROPERTIES]))
def test_points_add_up_to_the_score_for_any_segmentation(files, by):
    pair = load_pair(*(read_treebank(io.BytesIO(text.encode())) for text in files))
    found = all_marks(pair)["LAS"]

    points = points_of(pair, by)

    columns = zip(*[(p.gold, p.system, p.gold_correct, p.system_correct) for p in points], strict=True)
    correct = sum(found.correct)
    assert tuple(map(sum, columns)) == (len(pair.gold), len(pair.system), correct, correct)
    assert all(0 <= point.low <= point.high <= 1 for point in points)


def test_words_that_the_rule_ignores_are_in_no_point(data):
    gold = [next(read_treebank(data / "penn.conllx"))]

    pair = load_pair(gold, gold, rule="ptb")

    assert [(each.value, each.gold, each.system) for each in points_of(pair, "sentence length", rule="ptb")] == [
        ("1-10", 5, 5)  # of nine words
    ]
    assert "punct" not in [each.value for each in points_of(pair, "label", rule="ptb")]


def test_a_treebank_of_only_punctuation_has_no_points_if_the_rule_ignores_it():
    dots = Sentence.of_words([".", "!"]).with_graph(Graph.of_words([0, 1], ["root", "punct"]))

    assert points_of(load_pair([dots], [dots], rule="conllx"), "label", rule="conllx") == ()


@pytest.mark.parametrize(
    ("totals", "f1"),
    [
        ((2, 1, 1, 1), 2 / 3),
        ((3, 2, 0, 0), 0),
        ((0, 0, 0, 0), None),
        ((0, 3, 0, 0), 0),  # precision is 0, so F1 is 0 for any recall
        ((0, 3, 0, 2), None),  # right words that are at another depth in gold, so recall has no words
        ((3, 0, 0, 0), 0),
        ((3, 0, 2, 0), None),
    ],
)
def test_f1_is_undefined_if_precision_or_recall_has_no_words(totals, f1):
    found = f1_of_kinds(np.array(totals, dtype=float))

    assert found == pytest.approx(np.nan if f1 is None else f1, nan_ok=True)


def test_the_band_of_a_large_sample_matches_the_normal_distribution():
    right, wrong = sentence([0, 1]), sentence([2, 0])
    gold, system = [right] * 400, [right] * 300 + [wrong] * 100  # F1 is 0.75, its deviation sqrt(0.75 * 0.25 / 400)

    (point,) = points_of(load_pair(gold, system), "sentence length", samples=2000)

    assert point.f1 == 0.75
    assert (point.low, point.high) == pytest.approx((0.75 - 1.96 * 0.02165, 0.75 + 1.96 * 0.02165), abs=0.005)


def test_one_sentence_has_a_band_of_zero_width():
    (point,) = points_of(load_pair([sentence([0, 1, 1])], [sentence([0, 1, 2])]), "sentence length")

    assert point.low == point.high == pytest.approx(2 / 3)


def test_bands_do_not_depend_on_how_many_kinds_are_counted_at_once(data, monkeypatch):
    path = data / "en_ewt-sample.conllu"
    counted = tally_of(load_pair(path, path), "label")
    at_once = f1_bands([counted], samples=10, seed=1)

    monkeypatch.setattr(curves, "_KINDS_AT_ONCE", 3)

    assert len(counted.kinds) > 6
    assert np.array_equal(f1_bands([counted], samples=10, seed=1), at_once)


@settings(max_examples=20)
@given(treebank_pairs(), treebank_pairs(), st.sampled_from([*PROPERTIES]))
def test_joined_tallies_equal_the_tallies_of_joined_files(one, two, by):
    def pair_of(treebank):
        return load_pair(*([sentence(each[s][0], each[s][1], upos=each[0]) for each in treebank] for s in (1, 2)))

    joined = join([tally_of(pair_of(one), by), tally_of(pair_of(two), by)])

    whole = tally_of(pair_of([*one, *two]), by)
    curve = [draw_curves({by: {"s": each}}, samples=20, seed=1) for each in (joined, whole)]
    assert curve[0] == curve[1]
