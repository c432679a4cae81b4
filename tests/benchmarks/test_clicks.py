"""A simulated annotator corrects trees: what counts as a click, and when it ends."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

import benchmarks.accuracy.clicks as module
from benchmarks.accuracy.clicks import (
    CONFIRMED,
    FROM_TREE,
    LEAST_SURE,
    ONE_ARC,
    ORDERS,
    SHARES,
    UNSURE_HEADS,
    WHOLE_TREES,
    Annotation,
    clicks,
    corrected,
    costs,
    least_sure_first,
    left_to_right,
    measure_clicks,
    unsure_heads_first,
    until_click,
)
from benchmarks.rows import read_rows
from tests.support.tiny import short, tiny_model
from treefine import Graph, Parser, Sentence, write_treebank
from treefine.parsing.confidence import Confidence, RankedTree

WORDS = Sentence.of_words(["She", "lost", "the", "key"])
GOLD = Graph.of_words([2, 0, 4, 2], ["nsubj", "root", "det", "obj:x"])
TWO_WRONG = Graph.of_words([2, 0, 2, 3], ["nsubj", "root", "det", "obj:x"])  # words 3 and 4
ALL_WRONG = Graph.of_words([0, 1, 2, 3], ["root", "dep", "dep", "dep"])
SURE = (0.9, 0.8, 0.7, 0.6)


def parse_of(tree, *others, sure=SURE):
    trees = tuple(RankedTree(each, 0.3, 1.0) for each in (tree, *others))
    return SimpleNamespace(tree=tree, trees=trees, word_confidences=[Confidence(each, 1.0) for each in sure])


@dataclass
class Scripted:
    """A parser whose answer is a function of the words that are decided; it records its inputs."""

    answer: object
    max_steps: int = 3

    def __post_init__(self):
        self.options, self.calls = [], []

    def using(self, **options):
        self.options.append(options)
        return self

    def stream(self, sentences, *, constraints=None):
        decided = [{}] * len(sentences) if constraints is None else [each.heads for each in constraints]
        self.calls.append((sentences, decided))
        return map(self.answer, decided)


def correct(answer, setting):
    """Return the annotation of one sentence, and the parser."""
    parser, gold = Scripted(answer), WORDS.with_graph(GOLD)
    (done,) = corrected(parser, [WORDS], [gold], [answer({})], setting)
    return done, parser


@pytest.mark.parametrize("setting", ORDERS.values(), ids=ORDERS)
def test_right_trees_need_no_click_and_one_parse(setting):
    done, _ = correct(lambda decided: parse_of(GOLD), setting)

    assert (done.clicks, done.looks, done.parses) == (0, 4, 1)


@pytest.mark.parametrize("setting", ORDERS.values(), ids=ORDERS)
def test_a_parser_that_ignores_decisions_needs_one_click_per_wrong_arc(setting):
    done, _ = correct(lambda decided: parse_of(TWO_WRONG), setting)

    assert (done.clicks, done.looks) == (2, 4)


@pytest.mark.parametrize("setting", ORDERS.values(), ids=ORDERS)
def test_a_parser_that_one_decision_makes_right_needs_one_click(setting):
    done, _ = correct(lambda decided: parse_of(GOLD if {3, 4} & decided.keys() else TWO_WRONG), setting)

    assert (done.clicks, done.looks, done.parses) == (1, 4, 2)


def test_subtypes_of_labels_need_no_click_but_a_click_sets_the_gold_label():
    without_subtype = Graph.of_words([2, 0, 4, 2], ["nsubj", "root", "det", "obj"])
    other_label = Graph.of_words([2, 0, 4, 2], ["nsubj", "root", "det", "iobj"])

    right = until_click(Annotation(GOLD), parse_of(without_subtype), ORDERS[CONFIRMED])
    fixed = until_click(Annotation(GOLD), parse_of(other_label), ORDERS[CONFIRMED])

    assert (right.clicks, right.decided.labels[4]) == (0, "obj")
    assert (fixed.clicks, fixed.decided.labels[4]) == (1, "obj:x")


def test_read_words_are_decided_only_if_the_annotator_confirms_them():
    parse = parse_of(TWO_WRONG)

    assert until_click(Annotation(GOLD), parse, ORDERS[ONE_ARC]).decided.heads == {3: 4}
    assert until_click(Annotation(GOLD), parse, ORDERS[CONFIRMED]).decided.heads == {1: 2, 2: 0, 3: 4}
    assert until_click(Annotation(GOLD), parse, ORDERS[LEAST_SURE]).decided.heads == {4: 2}


def test_the_orders_contain_every_word_once():
    parse = parse_of(GOLD, sure=(0.9, 0.2, 0.7, 0.2))

    assert left_to_right(parse) == [1, 2, 3, 4]
    assert least_sure_first(parse) == [2, 4, 3, 1]
    assert sorted(unsure_heads_first(parse)) == [1, 2, 3, 4]


def test_of_equally_doubtful_words_the_head_of_more_words_comes_first():
    parse = parse_of(GOLD, sure=(0.5, 0.5, 0.5, 0.5))

    assert unsure_heads_first(parse) == [2, 4, 1, 3]


def test_the_least_sure_word_of_the_newest_parse_is_next():
    def answer(decided):
        return parse_of(ALL_WRONG, sure=(0.1, 0.9, 0.8, 0.7) if decided else (0.9, 0.8, 0.1, 0.7))

    done, parser = correct(answer, ORDERS[LEAST_SURE])

    assert [list(decided) for _, (decided,) in parser.calls] == [[3], [3, 1], [3, 1, 4]]
    assert done.clicks == 4


def breaking(decided):
    """Answer with a tree that breaks a new word with each decision."""
    return parse_of(ALL_WRONG if decided else TWO_WRONG)


@pytest.mark.parametrize("name", [CONFIRMED, LEAST_SURE, UNSURE_HEADS])
def test_confirmed_words_cannot_break(name):
    done, _ = correct(breaking, ORDERS[name])

    assert done.looks == 4
    assert done.clicks <= 4


def test_one_arc_at_a_time_a_right_word_that_breaks_is_looked_at_again_and_fixed_once():
    done, parser = correct(breaking, ORDERS[ONE_ARC])

    assert [list(decided) for _, (decided,) in parser.calls] == [[3], [3, 1], [3, 1, 2]]
    assert (done.clicks, done.looks) == (4, 6)  # words 1 and 2 twice


def test_no_parse_follows_when_all_words_are_decided():
    done, parser = correct(lambda decided: parse_of(ALL_WRONG), ORDERS[CONFIRMED])

    assert (done.clicks, done.parses, len(parser.calls)) == (4, 4, 3)


def test_a_right_tree_among_the_first_k_is_one_click():
    offered = parse_of(ALL_WRONG, TWO_WRONG, GOLD)

    def taken(k):
        return correct(lambda decided: offered, replace(ORDERS[CONFIRMED], k=k))[0].clicks

    assert (taken(1), taken(2), taken(3)) == (4, 4, 1)


def test_a_single_wrong_arc_is_fixed_rather_than_taken_with_a_whole_tree():
    one_wrong = Graph.of_words([2, 0, 4, 3], ["nsubj", "root", "det", "obj:x"])

    state = until_click(Annotation(GOLD), parse_of(one_wrong, GOLD), replace(ORDERS[LEAST_SURE], k=3))

    assert (state.clicks, state.decided.heads) == (1, {4: 2})


def test_a_parse_can_start_from_the_shown_tree():
    _, parser = correct(lambda decided: parse_of(TWO_WRONG), replace(ORDERS[CONFIRMED], from_tree=True))

    assert parser.options == [{"k": 1, "initial": "given", "trust": 0, "max_steps": 3}]
    assert parser.calls[0][0] == [WORDS.with_graph(TWO_WRONG)]


def test_only_unfinished_sentences_are_parsed_again_and_all_of_them_together():
    parser, gold = Scripted(lambda decided: parse_of(GOLD)), WORDS.with_graph(GOLD)
    first = [parse_of(TWO_WRONG), parse_of(GOLD), parse_of(ALL_WRONG)]

    done = corrected(parser, [WORDS] * 3, [gold] * 3, first, ORDERS[CONFIRMED])

    assert parser.calls == [([WORDS, WORDS], [{1: 2, 2: 0, 3: 4}, {1: 2}])]
    assert costs(done, 6) == {"wrong": 6, "clicks/wrong": 0.3333, "clicks": 2, "looks": 12, "parses": 5}


@pytest.fixture(scope="module")
def row(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clicks")
    (folder / "en_ewt").mkdir()
    write_treebank(short(6, longest=8), folder / "en_ewt" / "dev.conllu.xz")
    Parser(tiny_model(), device="cpu", max_steps=2).save(folder / "tiny-seed1")
    paths = ["--model", folder / "tiny-seed1", "--treebanks", folder, "--rows", folder / "rows.jsonl"]
    measure_clicks([*map(str, paths), "--device", "cpu", "--sentences", "4"])
    return read_rows("clicks", path=folder / "rows.jsonl")[0]


def test_a_row_has_the_costs_of_each_setting(row):
    settings, config = row["result"]["settings"], row["config"]

    assert config["sentences"] == 4
    assert config.keys() >= {"model", "weights", "treebank", "split", "seed", "T", "tags"}
    assert [each["share"] for each in row["result"]["kept"]] == list(SHARES)
    assert list(settings) == [*ORDERS, FROM_TREE, WHOLE_TREES]
    assert settings[WHOLE_TREES]["order"] in ORDERS
    assert {settings[name]["looks"] for name in (CONFIRMED, LEAST_SURE, UNSURE_HEADS, FROM_TREE)} == {config["words"]}


def test_only_dev_can_be_measured(capsys):
    with pytest.raises(SystemExit):
        measure_clicks(["--split", "test"])

    assert "only dev is allowed" in capsys.readouterr().err


def like(row, model, las, *, sentences=4):
    kept = [each | {"LAS": las} for each in row["result"]["kept"]]
    config = row["config"] | {"model": model, "sentences": sentences}
    return row | {"config": config, "result": row["result"] | {"kept": kept}}


def shown(rows, monkeypatch):
    """Return the first lines of the models in the table."""
    monkeypatch.setattr(module, "read_rows", lambda name, **wanted: rows)
    return clicks().partition("\n\n")[0].splitlines()[2:]


def test_the_table_has_the_newest_row_of_each_model_and_the_mean_of_its_seeds(row, monkeypatch):
    rows = [like(row, "a-seed1", 0.1), like(row, "a-seed1", 0.5), like(row, "b", 0.3), like(row, "a-seed2", 0.7)]

    assert shown(rows, monkeypatch) == [
        "| `a`, mean of 2 seeds |" + " 60.00 |" * len(SHARES),
        "| `b` |" + " 30.00 |" * len(SHARES),
    ]


def test_the_table_leaves_out_rehearsals_on_fewer_sentences(row, monkeypatch):
    rows = [like(row, "a", 0.5, sentences=9), like(row, "a", 0.1)]

    assert shown(rows, monkeypatch) == ["| `a` |" + " 50.00 |" * len(SHARES)]


def test_without_a_row_the_table_names_the_command(monkeypatch):
    monkeypatch.setattr(module, "read_rows", lambda name, **wanted: [])

    assert clicks() == "Not measured yet: clicks. Run `python -m benchmarks clicks --model en`."
