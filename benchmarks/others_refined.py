"""Another parser's trees of dev before and after refinement, and what the model gives from nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from typing import Any

from benchmarks.accuracy import parsed_steps, scores
from benchmarks.model_rows import weights_checksum
from benchmarks.predictions import Predictions, checksum, save_predictions, treebank_of
from benchmarks.rows import save_row
from benchmarks.significance import ALPHA, SAMPLES, SEED
from treefine import Parser, Sentence, TreefineError, read_treebank
from treefine.evaluation.scores import all_marks, load_pairs
from treefine.evaluation.significance import compare
from treefine.model.bundled import find_model
from treefine.parsing.initial import empty
from treefine.training.train import LAYOUT

RULE = "conll18"
BEFORE, AFTER, NOTHING = "before", "after", "nothing"


def refine_parses(options: argparse.Namespace) -> None:
    """Refine each parse with the model: a row, and the trees of each step in a file."""
    folder = find_model(options.model)
    if (folder / LAYOUT.model).is_dir():
        folder = folder / LAYOUT.model  # of the folder of a training
    title = folder.parent.name if folder.name == LAYOUT.model else folder.name
    weights = weights_checksum(folder)
    path = options.treebanks / options.treebank / "dev.conllu.xz"
    gold = list(islice(read_treebank(path), options.sentences))
    parser = Parser.from_pretrained(folder, initial=empty, tags=options.tags, device=options.device)
    config = {
        "model": title,
        "weights": weights,
        "treebank": options.treebank,
        "split": "dev",
        "gold": checksum(gold),
        "sentences": len(gold),
        "words": sum(map(len, gold)),
        "T": parser.max_steps,
        "tags": parser.tags,
        "device": parser.device.type,
    }

    def saved(name: str, predictions: Predictions) -> dict[str, Any]:
        file = f"{title}-{weights[:8]}-tags-{parser.tags}-from-{name}-dev.trees.xz"
        digest = save_predictions(predictions, options.predictions / file)
        return scores(predictions, gold, rule=RULE) | {"predictions": file, "sha256": digest}

    alone = parsed_steps(parser, gold)
    from_nothing = saved(NOTHING, alone)
    for name, initial in options.parses:
        predictions = parsed_steps(parser.using(initial=initial, max_steps=parser.max_steps), gold)
        if predictions.first:
            hint = "Refine it with `treefine refine`; what is no tree has no score before."
            raise TreefineError(f"Not all of {name}'s parses are trees.", hint=hint, path=initial)
        result = saved(name, predictions) | compared(predictions, alone, gold)
        save_row("others", {"parser": name} | config, result | {NOTHING: from_nothing}, path=options.rows)


def compared(predictions: Predictions, alone: Predictions, gold: Sequence[Sentence]) -> dict[str, Any]:
    """How many words the steps changed, corrected and spoiled as LAS counts them, and paired tests over sentences.

    What comes after is tested against what was before, and against the model's own parse from nothing.
    """
    systems = {
        BEFORE: treebank_of(predictions, gold, t=0),
        NOTHING: treebank_of(alone, gold),
        AFTER: treebank_of(predictions, gold),
    }
    pairs = load_pairs(gold, systems, rule=RULE)
    was, is_now = (all_marks(pairs[name], rule=RULE, metrics=["LAS"])["LAS"].correct for name in (BEFORE, AFTER))
    has_new_head = predictions.heads[0] != predictions.heads[-1]
    has_new_label = predictions.label_ids[0] != predictions.label_ids[-1]
    result: dict[str, Any] = {
        "heads_changed": int(has_new_head.sum()),
        "labels_changed": int((has_new_label & ~has_new_head).sum()),  # with the same head
        "corrected": sum(new and not old for old, new in zip(was, is_now, strict=True)),
        "spoiled": sum(old and not new for old, new in zip(was, is_now, strict=True)),
    }
    found = compare(pairs, metric="LAS", rule=RULE, alpha=ALPHA, samples=SAMPLES, seed=SEED)
    for other in (BEFORE, NOTHING):
        each = found.differences[other, AFTER]
        numbers = {"difference": each.difference, "randomisation": each.randomisation, "bootstrap": each.bootstrap}
        result[f"{AFTER} minus {other}"] = {name: round(value, 6) for name, value in numbers.items()}
    return result
