"""Analyses of whole treebanks agree with the scorer, the significance tests and a loop over sentences."""

import io
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given

from tests.support.generated import file_pairs
from tests.support.oracles import corrupt
from treefine import Graph, Sentence, TreebankError, evaluate, read_treebank, write_treebank
from treefine.evaluation.analysis import errors as error_analysis
from treefine.evaluation.analysis.errors import analyse, read_parsed
from treefine.evaluation.pairing import load_pairs
from treefine.evaluation.properties import PROPERTIES
from treefine.evaluation.scores import all_marks, head_confusions, label_confusions, load_pair
from treefine.evaluation.significance import compare


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(error_analysis, "SAMPLES", 100)
    monkeypatch.setattr(error_analysis, "BAND_SAMPLES", 20)


def sentence(heads, labels=None, name="w"):
    words = Sentence.of_words([f"{name}{n}" for n in range(len(heads))])
    return words.with_graph(Graph.of_words(heads, labels or ["x"] * len(heads)))


@pytest.fixture
def files(data, tmp_path):
    """Return gold and two systems with different segmentation, each in two halves."""
    sentences = list(read_treebank(data / "en_ewt-sample.conllu"))
    paths = {}
    for half, part in (("one", sentences[:12]), ("two", sentences[12:])):
        write_treebank(part, tmp_path / f"{half}-gold.conllu")
        for seed in (1, 2):
            (tmp_path / f"{half}-{seed}.conllu").write_text(corrupt(part, seed))
        paths[half] = (
            tmp_path / f"{half}-gold.conllu",
            {f"s{seed}": tmp_path / f"{half}-{seed}.conllu" for seed in (1, 2)},
        )
    return paths


def test_scores_confusions_and_significance_equal_those_of_the_commands(files):
    gold, systems = files["one"]

    (found,) = analyse([read_parsed("one", gold, systems)])

    assert (found.name, found.systems, found.rule, found.metric) == ("one", ("s1", "s2"), "conll18", "LAS")
    assert found.scores == {name: evaluate(gold, path) for name, path in systems.items()}
    assert found.comparison == compare(load_pairs(gold, systems), samples=100)
    assert list(found.curves) == list(PROPERTIES)
    for name, path in systems.items():
        pair = load_pair(gold, path)
        marks = all_marks(pair)
        assert found.label_confusions[name] == label_confusions(pair, marks["LAS"])
        assert found.head_confusions[name] == head_confusions(pair, marks["UAS"])


def test_several_treebanks_together_count_as_one_treebank(files, tmp_path):
    names = ("gold", "s1", "s2")
    for name in names:
        paths = [each[0] if name == "gold" else each[1][name] for each in files.values()]
        (tmp_path / f"whole-{name}.conllu").write_text("".join(path.read_text() for path in paths))
    whole = {name: tmp_path / f"whole-{name}.conllu" for name in names}

    together, one, two = analyse([read_parsed(name, *paths) for name, paths in files.items()])
    (expected,) = analyse([read_parsed("all together", whole.pop("gold"), whole)])

    assert replace(together, differences=()) == replace(expected, differences=())
    assert [(each.other, each.difference, each.gold, each.trees) for each in together.differences] == [
        (each.other, each.difference, each.gold, each.trees) for each in expected.differences
    ]
    assert (one.name, two.name, together.n_words) == ("one", "two", one.n_words + two.n_words)
    assert {each.treebank for each in together.differences} == {"one", "two"}
    assert one == analyse([read_parsed("one", *files["one"])])[0]


def test_the_largest_gains_come_first_and_then_the_largest_losses():
    gold = [sentence([0, 1, 1, 1], name=f"s{n}-") for n in range(5)]
    heads = {  # and how many more the second has right
        "first": [[0, 1, 1, 2], [0, 1, 1, 1], [0, 1, 1, 1], [0, 3, 1, 2], [0, 1, 1, 1]],
        "second": [[0, 1, 1, 1], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 1, 1], [0, 3, 1, 1]],  # +1, 0, -2, +2, -1
    }
    systems = {name: [sentence(each, name=f"s{n}-") for n, each in enumerate(trees)] for name, trees in heads.items()}

    (found,) = analyse([read_parsed("t", gold, systems)])
    (short,) = analyse([read_parsed("t", gold, systems)], examples=1)

    assert [(each.number, each.difference) for each in found.differences] == [(4, 2), (1, 1), (3, -2), (5, -1)]
    assert [(each.number, each.difference) for each in short.differences] == [(4, 2), (3, -2)]
    most = found.differences[0]
    assert (most.first, most.other, most.n_words, most.correct) == ("first", "second", 4, {"first": 2, "second": 4})
    assert most.gold == gold[3]
    assert most.trees == {name: (trees[3],) for name, trees in systems.items()}


def test_a_single_system_lists_its_worst_sentences():
    gold = [sentence([0, 1, 1]), sentence([0, 1, 1], name="v"), sentence([0, 1], name="u")]
    system = [sentence([0, 1, 2]), sentence([2, 0, 2], name="v"), gold[2]]

    (found,) = analyse([read_parsed("t", gold, {"s": system})])

    assert found.comparison is None
    assert [(each.first, each.number, each.difference) for each in found.differences] == [(None, 2, -3), (None, 1, -1)]


@given(file_pairs())
def test_a_difference_has_all_trees_that_share_text_with_the_gold_sentence(files):
    gold, system = ([*read_treebank(io.BytesIO(text.encode()))] for text in files)

    (found,) = analyse([read_parsed("t", gold, {"s": system})], examples=100)

    def places(sentences):
        """Return the characters that each sentence covers."""
        ends = list(accumulate([len("".join(token.form for token in each.tokens())) for each in sentences], initial=0))
        return [set(range(start, end)) for start, end in zip(ends, ends[1:], strict=False)]

    for each in found.differences:
        text = places(gold)[each.number - 1]
        assert each.gold == gold[each.number - 1]
        assert each.trees == {
            "s": tuple(tree for tree, place in zip(system, places(system), strict=True) if place & text)
        }
        assert 0 <= each.correct["s"] <= each.n_words == len(each.gold)
    assert {each.number for each in found.differences} == {
        number
        for number, words in enumerate(load_pair(gold, system).gold.sentence_words(), start=1)
        if not all(all_marks(load_pair(gold, system))["LAS"].correct[words.start : words.stop])
    }


@pytest.mark.parametrize("blank", ["gold", "system"])
def test_without_labels_only_heads_are_counted(blank):
    labelled = sentence([0, 1, 1], ["root", "a", "b"])
    bare = sentence([0, 1, 1], ["_"] * 3)
    gold, system = ([bare], [labelled]) if blank == "gold" else ([labelled], [bare])

    (found,) = analyse([read_parsed("t", gold, {"s": system, "other": [labelled]})])

    assert found.metric == found.comparison.metric == "UAS"
    assert "label" not in found.curves
    assert found.label_confusions == {}
    assert [point.f1 for point in found.curves["sentence length"]["s"]] == [1]
    assert (found.comparison.scores, found.differences) == ({"s": 1, "other": 1}, ())


def test_cycles_of_a_system_are_accepted_and_counted():
    gold = [sentence([0, 1, 1]), sentence([0, 1], name="v")]
    system = [sentence([0, 3, 2]), sentence([0, 0], name="v")]

    parsed = read_parsed("t", gold, {"s": system})
    (found,) = analyse([parsed])

    assert found.cycles == {"s": 1}
    assert analyse([parsed, parsed])[0].cycles == {"s": 2}
    assert list(parsed.notes()) == [
        ": 1 sentence with a cycle and 1 sentence with several roots; evaluate may reject this file. "
        'Words in or below a cycle have the distance to root "cycle".'
    ]
    assert [(point.value, point.system) for point in found.curves["distance to root"]["s"]] == [
        (1, 3),
        (2, 0),
        ("cycle", 2),
    ]
    assert found.scores["s"]["UAS"].correct == 2


def test_gold_with_cycles_is_rejected_as_by_the_official_scorer():
    with pytest.raises(TreebankError, match="The heads form a cycle: 2 -> 3 -> 2"):
        read_parsed("t", [sentence([0, 3, 2])], {"s": [sentence([0, 1, 1])]})

    assert read_parsed("t", [sentence([0, 3, 2])], {"s": [sentence([0, 1, 1])]}, rule="conll09").name == "t"
