"""Refine other systems' tags and trees with each choice of tags: given, predicted, and the best of both."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.accuracy.others import named
from benchmarks.markdown import folded, percent, table
from benchmarks.options import DEVICE, MODEL, ROWS_FILE, TREEBANK, TREEBANKS_ENV, command, count, option
from benchmarks.peers.answers import needed
from benchmarks.peers.udpipe_parser import udpipe_tagged
from benchmarks.rows import Row, model_fields, read_rows, save_row
from treefine import Sentence, TreefineError, evaluate, read_treebank, write_treebank
from treefine.config import SURE_TAG, WrittenTags
from treefine.treebank.tag_rules import contradictions
from treefine_paper.predictions import checksum

if TYPE_CHECKING:
    from treefine import Parser

CHOICES: tuple[WrittenTags, ...] = ("given", "predicted", "best")  # of the option `tags`
BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)  # limits of the probabilities of predicted tags


@command(
    MODEL,
    option("--parses", nargs="+", default=[], metavar="NAME=PATH", type=named, help="parses of dev by other systems"),
    option("--make", type=Path, metavar="FILE", help="only train UDPipe with its tagger and write its parses of dev"),
    count("--train-sentences", None, "with --make: the number of training sentences (default: all)"),
    count("--sentences", None, "use only the first sentences of dev"),
    TREEBANK,
    TREEBANKS_ENV,
    ROWS_FILE,
    DEVICE,
)
def measure_tags(options: argparse.Namespace) -> None:
    """Refine other systems' parses of dev with given, predicted and best tags; score trees and tags.

    python -m benchmarks tags --make parses/udpipe-tagged-dev.conllu --train-sentences 2000
    python -m benchmarks tags --model en --parses udpipe=parses/udpipe-tagged-dev.conllu
    """
    folder = options.treebanks / options.treebank
    gold = list(islice(read_treebank(folder / "dev.conllu.xz"), options.sentences))
    if options.make is not None:
        needed("ufal.udpipe")
        train = list(islice(read_treebank(folder / "train.conllu.xz"), options.train_sentences))
        options.make.parent.mkdir(parents=True, exist_ok=True)
        write_treebank(udpipe_tagged(train, gold), options.make)
        return
    from treefine import Parser  # loads torch

    parser = Parser.from_pretrained(options.model, device=options.device)
    for name, path in options.parses:
        system = list(islice(read_treebank(path), len(gold)))
        if [each.forms for each in system] != [each.forms for each in gold]:
            raise TreefineError("The words differ from those of dev.", hint="Parse dev with gold words.", path=path)
        config = {"parser": name, "treebank": options.treebank, "split": "dev", "gold": checksum(gold)}
        config |= {"parses": checksum(system), "sentences": len(gold), "words": sum(map(len, gold))}
        config |= model_fields(options.model) | {"precision": parser.precision, "sure_above": SURE_TAG}
        result: dict[str, Any] = {"before": scores(system, gold)}
        for choice in CHOICES:
            refined = [parse.sentence for parse in parser.refine(system, tags=choice)]
            result[choice] = scores(refined, gold) | replaced(system, refined, gold)
        result["by_probability"] = by_probability(parser, system, gold)
        save_row("tags", config, result, path=options.rows)


def scores(sentences: Sequence[Sentence], gold: Sequence[Sentence]) -> dict[str, Any]:
    """Return the accuracy of tags and trees, and the number of words whose label does not allow their UPOS."""
    found = evaluate(gold, sentences)
    values: dict[str, Any] = {name: round(found[name].f1, 6) for name in ("UPOS", "XPOS", "LAS")}
    return values | {"contradictions": sum(len(contradictions(each.arcs, each.upos)) for each in sentences)}


def replaced(old: Sequence[Sentence], new: Sequence[Sentence], gold: Sequence[Sentence]) -> dict[str, int]:
    """Count the replaced UPOS tags, and how many of them are right now and how many were right before."""
    counted: Counter[str] = Counter(replaced=0, corrected=0, spoiled=0)
    for before, after, right in zip(old, new, gold, strict=True):
        for was, is_now, best in zip(before.upos, after.upos, right.upos, strict=True):
            counted["replaced"] += was != is_now
            counted["corrected"] += was != is_now == best
            counted["spoiled"] += best == was != is_now
    return dict(counted)


def by_probability(parser: Parser, system: Sequence[Sentence], gold: Sequence[Sentence]) -> list[dict[str, float]]:
    """Return the accuracy of predicted UPOS tags by their probability."""
    import torch

    from treefine.parsing.batches import run
    from treefine.parsing.plan import Item, Plan, refine_items
    from treefine.parsing.results import predicted_tags

    @torch.no_grad()
    def work(plan: Plan, items: Sequence[Item]) -> list[list[tuple[str, float]]]:
        step = next(iter(refine_items(plan, items, wants_trees=False)))
        column = plan.model.settings.tags.columns.index("upos")
        sure = step.scores.tags[column].softmax(-1).amax(-1).tolist()
        names = predicted_tags(step, plan.model, [items[each].sentence for each in step.sentences])
        return [list(zip(each[column], row[1:], strict=False)) for each, row in zip(names, sure, strict=True)]

    counted = [{"words": 0, "right": 0, "expected": 0.0} for _ in BINS[1:]]
    found = run(parser.using(initial="given", tags="best").plan(), system, work)
    for (_, tags), right in zip(found, gold, strict=True):
        for (tag, sure), best in zip(tags, right.upos, strict=True):
            place = max(place for place, limit in enumerate(BINS[:-1]) if sure >= limit)
            for name, value in (("words", 1), ("right", tag == best), ("expected", sure)):
                counted[place][name] += value
    return [
        {
            "from": low,
            "to": high,
            "words": each["words"],
            "right": each["right"],
            "expected": round(each["expected"], 1),
        }
        for low, high, each in zip(BINS, BINS[1:], counted, strict=False)
    ]


HEAD = ("system", "tags", "UPOS", "XPOS", "LAS", "label against tag", "tags replaced", "corrected", "spoiled")


def refined_tags() -> str:
    """Return the table of tags and trees for each system and choice."""
    return refined_tags_of(read_rows("tags"))


def refined_tags_of(rows: Sequence[Row]) -> str:
    """Return the newest row of each system and model as a table; the accuracy by probability is folded."""
    if not rows:
        return "Not measured yet."
    newest = {(row["config"]["model"], row["config"]["parser"]): row for row in rows}
    lines, folds = [], []
    for key in sorted(newest):
        config, result = newest[key]["config"], newest[key]["result"]
        system = f"{config['parser']}, refined by {config['model']}"
        lines.append((config["parser"], "not refined", *_scores(result["before"]), "", "", ""))
        for choice in CHOICES:
            each = result[choice]
            counts = (f"{each[name]:,}" for name in ("replaced", "corrected", "spoiled"))
            lines.append((system, choice, *_scores(each), *counts))
        folds.append(f"{system}:\n\n{_bins(result['by_probability'])}")
    last = newest[max(newest, key=lambda key: newest[key]["when"])]
    origin = (
        f"{last['config']['treebank']} dev, {last['config']['sentences']:,} sentences with gold words; the model "
        f"is sure above {last['config']['sure_above']:g}. `python -m benchmarks tags`, {last['when'][:10]}, "
        f"commit {last['commit']}."
    )
    details = folded("Accuracy of predicted tags by their probability", "\n\n".join(folds))
    return "\n\n".join([table(HEAD, *lines), origin, details])


def _scores(result: dict[str, Any]) -> tuple[str, ...]:
    return (*(percent(result[name]) for name in ("UPOS", "XPOS", "LAS")), f"{result['contradictions']:,}")


def _bins(bins: Sequence[dict[str, float]]) -> str:
    rows = [
        (
            f"{each['from']:g} to {each['to']:g}",
            f"{each['words']:,}",
            percent(each["right"] / each["words"]),
            percent(each["expected"] / each["words"]),
        )
        for each in bins
        if each["words"]
    ]
    return table(("probability", "words", "right", "mean probability"), *rows)


REFINED_TAGS: dict[str, Callable[[], str]] = {"refined_tags": refined_tags}
