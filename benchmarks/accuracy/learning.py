"""Measure what the studio learns from a few corrected sentences, on held-back and on other sentences."""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.accuracy.model_rows import gold_fields, treebank_path, without_tags
from benchmarks.markdown import Lines, table
from benchmarks.options import MODEL, ROWS_FILE, SPLIT, TREEBANK, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import Row, missing, model_fields, read_rows, save_row
from treefine import Parser, Sentence, TreefineError, read_treebank
from treefine.studio.learn import CorrectionLearner, HeldBackComparison, LearningSettings, LearningState


@command(
    MODEL,
    TREEBANK,
    SPLIT.but(choices=["train", "dev"], help="test is not allowed (default: dev)"),
    TREEBANKS_FOLDER,
    ROWS_FILE,
    option("--language", default="", help="language or treebank of a model of several (default: identified)"),
    count("--sentences", 50, "number of corrected sentences, from the first after --skip"),
    count("--skip", 0, "number of sentences to leave out at the start"),
    count("--others", 300, "number of other sentences to score, from the end"),
)
def measure_learning(options: argparse.Namespace) -> None:
    """Correct the first sentences of a treebank, let the studio learn from them, and score other sentences.

    python -m benchmarks learning --model multi --language sv --treebank sv_lines --sentences 50
    """
    gold = list(read_treebank(treebank_path(options)))
    corrected = gold[options.skip : options.skip + options.sentences]
    rest = gold[options.skip + options.sentences :]
    parts = {"next": rest[: options.sentences], "others": rest[options.sentences :][-options.others :]}
    if not parts["others"]:
        raise TreefineError(f"{options.treebank} has only {len(gold):,} sentences.", hint="Lower --sentences.")
    settings = LearningSettings(least_sentences=min(LearningSettings.least_sentences, options.sentences))
    config = model_fields(options.model) | gold_fields(options, corrected)
    config |= {"language": options.language, "skip": options.skip} | asdict(settings)
    with tempfile.TemporaryDirectory() as folder:
        learner = KeepingLearner(options.model, folder, language=options.language, settings=settings)
        if not learner.consider(corrected):
            raise TreefineError(f"Nothing was learned. {learner.state.message}")
        state = learner.wait()
        print(state.message)
        if state.kind == "failed":
            raise TreefineError(state.message)
        result: dict[str, Any] = {"state": state.kind, "seconds": state.seconds, "trained": state.sentences}
        result["cpu_seconds"] = round(cpu_seconds(), 1)  # other processes of the machine do not change them much
        result["held back"] = scores_of(state)
        models = [
            _loaded(each, options.language) for each in (options.model, state.model or learner.folder / "trained")
        ]
        result |= {name: compared(models[0], models[1], some) for name, some in parts.items()}
    save_row("learning", config, result, path=options.rows)


def cpu_seconds() -> float:
    """Return the CPU time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class KeepingLearner(CorrectionLearner):
    """A learner that keeps a new model that is not better, so that it can be scored."""

    def discard(self, model: Path) -> None:
        """Keep the model."""


def _loaded(model: str | Path, language: str) -> Parser:
    return Parser.from_pretrained(model, device="cpu", keep="nothing", language=language or None)


def compared(present: Parser, new: Parser, gold: Sequence[Sentence]) -> dict[str, Any]:
    """Parse the words of some sentences with both models, and compare the trees."""
    words = [without_tags(sentence) for sentence in gold]
    found = HeldBackComparison.of(gold, present.stream_trees(words), new.stream_trees(words))
    return scores_of(LearningState.of(found))


def scores_of(state: LearningState) -> dict[str, Any]:
    """Return the comparison of two models, as a row keeps it."""
    names = ("words", "uas", "new_uas", "las", "new_las", "became_right", "became_wrong", "p")
    return {"sentences": state.held_back} | {name: round(getattr(state, name), 4) for name in names}


def learning() -> str:
    """Return a table with one line per model, treebank and number of corrected sentences."""
    rows = read_rows("learning")
    if not rows:
        return missing("learning", "python -m benchmarks learning --model multi")
    newest: dict[tuple[object, ...], Row] = {}
    for row in rows:
        newest[tuple(row["config"][name] for name in ("model", "treebank", "split", "skip", "sentences"))] = row
    lines: Lines = [
        ("model", "treebank", "corrected sentences", "LAS, held back", "LAS, next", "LAS, others", "offered", "seconds")
    ]
    for row in newest.values():
        config, result = row["config"], row["result"]
        scores = [_scores(result[name]) for name in ("held back", "next", "others")]
        place = (f"`{config['model']}`", config["treebank"], f"{config['sentences']:,}")
        offered = "yes" if result["state"] == "better" else "no"
        lines.append((*place, *scores, offered, f"{result['seconds']:.0f}"))
    commits = ", ".join(dict.fromkeys(row["commit"] for row in newest.values()))
    return f"{table(*lines)}\n\n`python -m benchmarks learning --model MODEL --treebank TREEBANK`, commit {commits}."


def _scores(found: dict[str, Any]) -> str:
    return f"{found['las']:.1f} → {found['new_las']:.1f}"
