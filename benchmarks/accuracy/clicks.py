"""Count the clicks that a person needs to correct a model's trees, if each click parses the sentence again."""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.accuracy.model_rows import gold_fields, treebank_path, without_tags
from benchmarks.options import OF_ONE_MODEL, SPLIT, command, count, dev_only
from benchmarks.rows import model_fields, save_row
from treefine import Constraints, Graph, Parse, Parser, Sentence, read_treebank
from treefine.treebank.constraints import FREE

SEED = 1
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
K = 3


def left_to_right(parse: Parse) -> list[int]:
    """Return the words in the order of the sentence."""
    return list(range(1, len(parse.tree) + 1))


def least_sure_first(parse: Parse) -> list[int]:
    """Return the words by confidence in head and label, the lowest first."""
    return sorted(left_to_right(parse), key=lambda word: parse.word_confidences[word - 1].both)


def unsure_heads_first(parse: Parse) -> list[int]:
    """Return the words by doubt (1 - confidence) times the square root of the number of words in their subtree.

    A correction may change the words below it, so the head of a long phrase comes before a leaf that is as doubtful.
    """
    size = [1] * (len(parse.tree) + 1)  # [0] is ROOT
    for word in left_to_right(parse):
        above = word
        while above:
            above = parse.tree.heads[above]
            size[above] += 1
    doubt = {word: 1 - parse.word_confidences[word - 1].both for word in left_to_right(parse)}
    return sorted(doubt, key=lambda word: -doubt[word] * math.sqrt(size[word]))


@dataclass(frozen=True)
class Setting:
    """A way to work: the order of the words, what is decided, and what the parser starts from."""

    order: Callable[[Parse], list[int]]  # returns the words in the order of looking at them
    confirms: bool = True  # a word that was right when the annotator looked at it is decided, like a corrected word
    from_tree: bool = False  # parse again from the tree that was shown; otherwise from nothing
    k: int = 1  # one click can take any of the k best trees

    def parser(self, parser: Parser) -> Parser:
        """Return the parser with the options for parsing again."""
        if self.from_tree:
            return parser.using(
                k=self.k, initial="given", trust=0, max_steps=parser.max_steps
            )  # its own trees prove nothing
        return parser.using(k=self.k)


ONE_ARC, CONFIRMED, LEAST_SURE = "one arc at a time", "left to right", "least sure first"
UNSURE_HEADS = "unsure heads first"
FROM_TREE, WHOLE_TREES = "left to right, from the shown tree", "whole trees"
ORDERS = {
    ONE_ARC: Setting(left_to_right, confirms=False),
    CONFIRMED: Setting(left_to_right),
    LEAST_SURE: Setting(least_sure_first),
    UNSURE_HEADS: Setting(unsure_heads_first),
}


@dataclass(frozen=True)
class Annotation:
    """The state of one sentence: the words that were looked at, the decisions, and their cost so far."""

    gold: Graph
    looked: frozenset[int] = frozenset()  # the words that were looked at
    decided: Constraints = FREE  # the arcs that the next parse must keep
    clicks: int = 0
    looks: int = 0
    parses: int = 0
    is_done: bool = False


@command(
    *OF_ONE_MODEL[:2],
    SPLIT.but(type=dev_only, choices=None, help="only dev is allowed"),
    *OF_ONE_MODEL[3:],
    count("--sentences", None, "number of sentences, from the first (default: all)"),
)
def measure_clicks(options: argparse.Namespace) -> None:
    """Count the clicks that correct all trees of dev, and measure how decided arcs improve the other words.

    python -m benchmarks clicks --model en
    python -m benchmarks clicks --model scratch/models/en_ewt-gte-decided-0.75-seed1 --device cuda
    """
    gold = list(read_treebank(treebank_path(options)))[: options.sentences]
    parser = Parser.from_pretrained(options.model, device=options.device)
    config = model_fields(options.model) | gold_fields(options, gold)
    config |= {"seed": SEED, "T": parser.max_steps, "tags": parser.tags}
    words = [without_tags(sentence) for sentence in gold]
    first = list(parser.using(k=K).stream(words))
    kept = measured_kept(parser, words, gold, [parse.tree for parse in first], SHARES)
    save_row("clicks", config, {"kept": kept} | measured_clicks(parser, words, gold, first), path=options.rows)


def measured_clicks(
    parser: Parser, words: Sequence[Sentence], gold: Sequence[Sentence], first: Sequence[Parse]
) -> dict[str, Any]:
    """Return the costs of each setting, with whole trees in the order that needed the fewest clicks."""

    def cost(setting: Setting) -> dict[str, Any]:
        start = time.perf_counter()
        done = corrected(parser, words, gold, first, setting)
        return costs(done, wrong) | {"seconds": round(time.perf_counter() - start, 1)}

    wrong = sum(len(wrong_words(parse.tree, sentence.graph)) for parse, sentence in zip(first, gold, strict=True))
    found = {name: cost(setting) for name, setting in ORDERS.items()}
    best = min(found, key=lambda name: found[name]["clicks"])
    if parser.model.settings.reads_graph:
        found[FROM_TREE] = cost(Setting(left_to_right, from_tree=True))
    found[WHOLE_TREES] = {"order": best} | cost(replace(ORDERS[best], k=K))
    return {"settings": found}


def costs(done: Sequence[Annotation], wrong: int) -> dict[str, Any]:
    """Return the sums over all sentences; `wrong` is the number of wrong arcs before the first click."""
    sums = {name: sum(getattr(each, name) for each in done) for name in ("clicks", "looks", "parses")}
    return {"wrong": wrong, "clicks/wrong": round(sums["clicks"] / wrong, 4) if wrong else None} | sums


def corrected(
    parser: Parser, words: Sequence[Sentence], gold: Sequence[Sentence], first: Sequence[Parse], setting: Setting
) -> list[Annotation]:
    """Correct all sentences, one click per sentence and round, so that each round is parsed in large batches.

    `first` holds the parses before the first click.
    """
    parses, again = list(first), setting.parser(parser)
    states = [until_click(Annotation(each.graph), parse, setting) for each, parse in zip(gold, first, strict=True)]
    while waiting := [number for number, state in enumerate(states) if not state.is_done]:
        given = [words[each].with_graph(parses[each].tree) if setting.from_tree else words[each] for each in waiting]
        found = again.stream(given, constraints=[states[each].decided for each in waiting])
        for number, parse in zip(waiting, found, strict=True):
            parses[number], states[number] = parse, until_click(states[number], parse, setting)
    return states


def until_click(state: Annotation, parse: Parse, setting: Setting) -> Annotation:
    """Look at the words of a new parse in order, up to the first click; without a click, the sentence is done.

    A word is looked at once, and again if it was right and a later parse changed it.
    """
    decided, state = state.decided, replace(state, parses=state.parses + 1)
    wrong = wrong_words(parse.tree, state.gold) - decided.heads.keys()
    waiting = [word for word in setting.order(parse) if word not in state.looked or word in wrong]
    if len(wrong) > 1 and any(not wrong_words(each.tree, state.gold) for each in parse.trees[1 : setting.k]):
        return replace(state, clicks=state.clicks + 1, looks=state.looks + len(waiting), is_done=True)
    n_right = next((place for place, word in enumerate(waiting) if word in wrong), len(waiting))
    right, fixed = waiting[:n_right], waiting[n_right : n_right + 1]
    confirmed = right if setting.confirms else []
    decided = with_arcs(with_arcs(decided, parse.tree, confirmed), state.gold, fixed)
    return replace(
        state,
        looked=state.looked | {*right, *fixed},
        decided=decided,
        clicks=state.clicks + len(fixed),
        looks=state.looks + len(right) + len(fixed),
        is_done=not fixed or len(decided.heads) == len(state.gold),
    )


def with_arcs(decided: Constraints, graph: Graph, words: Sequence[int]) -> Constraints:
    """Return the decisions and the arcs of these words in a graph."""
    heads = {word: graph.heads[word] for word in words}
    return Constraints({**decided.heads, **heads}, {**decided.labels, **{word: graph.labels[word] for word in words}})


def measured_kept(
    parser: Parser,
    words: Sequence[Sentence],
    gold: Sequence[Sentence],
    free: Sequence[Graph],
    shares: Sequence[float],
) -> list[dict[str, Any]]:
    """Return the LAS of the words without a decision, when some words have their gold arcs fixed.

    `free` holds the trees without decisions.
    """
    draw, found = random.Random(SEED), []
    for share in shares:
        decided = [decisions_of(sentence, share, draw) for sentence in gold]
        kept = [each.graph for each in parser.stream_trees(words, constraints=decided)] if share else free
        n_words = sum(len(sentence) - len(each.heads) for sentence, each in zip(gold, decided, strict=True))
        found.append(
            {
                "share": share,
                "words": n_words,
                "LAS_without": round(right_others(free, gold, decided) / n_words, 6),
                "LAS": round(right_others(kept, gold, decided) / n_words, 6),
            }
        )
    return found


def decisions_of(sentence: Sentence, share: float, draw: random.Random) -> Constraints:
    """Return the gold arcs of about this share of the words. A share of 0 leaves `draw` as it is."""
    words = [word for word in range(1, len(sentence) + 1) if share and draw.random() < share]
    heads = {word: sentence.graph.heads[word] for word in words}
    return Constraints(heads, {word: sentence.labels[word - 1] for word in words})


def right_others(trees: Sequence[Graph], gold: Sequence[Sentence], decided: Sequence[Constraints]) -> int:
    """Count the words without a decision that have their gold head and main type."""
    return sum(
        len(sentence) - len(wrong_words(tree, sentence.graph) | each.heads.keys())
        for tree, sentence, each in zip(trees, gold, decided, strict=True)
    )


def wrong_words(tree: Graph, gold: Graph) -> set[int]:
    """Return the words that do not have their gold head and main type."""
    return {
        word
        for word in range(1, len(gold) + 1)
        if (tree.heads[word], _main(tree.labels[word])) != (gold.heads[word], _main(gold.labels[word]))
    }


def _main(label: str) -> str:
    return label.partition(":")[0]
