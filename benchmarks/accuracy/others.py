"""Refine the trees of other parsers: train UDPipe and spaCy, then refine their parses of dev.

The parses of the training set have the errors that a parser makes on new text, because each fold is parsed by a parser
trained on the others. treefine needs neither package: run `pip install ufal.udpipe spacy` where you train them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.markdown import folded, percent, table
from benchmarks.options import (
    DEVICE,
    MODEL,
    PREDICTIONS_FOLDER,
    ROWS_FILE,
    TREEBANK,
    TREEBANKS_ENV,
    add_options,
    count,
    new_parser,
    option,
)
from benchmarks.peers.answers import needed
from benchmarks.peers.spacy_parser import SPACY, spacy_trees
from benchmarks.peers.udpipe_parser import UDPIPE, udpipe_trees
from benchmarks.rows import Row, read_rows, save_row, weights_checksum
from treefine import Graph, Sentence, TreefineError, evaluate, read_treebank, write_treebank
from treefine.evaluation.scores import all_marks, load_pairs
from treefine.evaluation.significance import ALPHA, SAMPLES, SEED, compare, difference_fields
from treefine.model.bundled import find_model
from treefine_paper.predictions import Predictions, checksum, save_predictions, treebank_of

Trees = Callable[[Sequence[Sentence], Sequence[Sentence]], list[Graph]]


@dataclass(frozen=True)
class Other:
    """Another parser: how it is trained, from which package and with which settings."""

    trees: Trees
    package: str
    settings: dict[str, Any]

    def check(self) -> None:
        """Raise an error if its package is not installed."""
        needed(self.package)


OTHERS = {"udpipe": Other(udpipe_trees, "ufal.udpipe", UDPIPE), "spacy": Other(spacy_trees, "spacy", SPACY)}


def measure_others(arguments: Sequence[str]) -> None:
    """Train other parsers on a treebank, or refine their parses of dev. Only `refine` needs torch.

    python -m benchmarks others make --parser udpipe spacy --output parses --jobs 6
    python -m benchmarks others refine --model en --parses udpipe=parses/udpipe-dev.conllu spacy=parses/spacy-dev.conllu
    """
    parser = new_parser("others", measure_others.__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    shared = (
        TREEBANK,
        TREEBANKS_ENV,
        count("--sentences", None, "use only the first sentences of each file"),
        ROWS_FILE,
    )
    make = commands.add_parser("make", help="train other parsers and write their parses of train and dev")
    add_options(make, (*MAKE, *shared))
    refine = commands.add_parser("refine", help="refine parses of dev with a model; write a row and the trees for each")
    add_options(refine, (*REFINE, *shared))
    options = parser.parse_args(arguments)
    if options.what == "make":
        for name in options.parser:
            OTHERS[name].check()  # before minutes of work
        make_parses({name: OTHERS[name] for name in options.parser}, options)
    else:
        refine_parses(options)


def named(text: str) -> tuple[str, str]:
    """Return the name and the path of NAME=PATH."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=PATH, such as udpipe=parses/udpipe-dev.conllu")
    return name, path


MAKE = (
    option("--parser", nargs="+", choices=sorted(OTHERS), default=sorted(OTHERS)),
    count("--folds", 2, "folds of train, each parsed by a parser trained on the others"),
    option("--output", type=Path, required=True, help="folder for the parses"),
    count("--jobs", 1, "number of trainings at the same time, each on one core"),
)
REFINE = (
    MODEL,
    option("--parses", nargs="+", required=True, metavar="NAME=PATH", type=named),
    option(
        "--tags", choices=["given", "predicted", "none"], help="which tags to use (default: as the model was trained)"
    ),
    PREDICTIONS_FOLDER,
    DEVICE,
)
WHOLE = -1  # the training on all of train, which parses dev


@dataclass(frozen=True)
class Part:
    """One training and the sentences it parses: a fold of train, after training on the others; or dev."""

    name: str
    other: Other
    folder: Path  # of the treebank
    sentences: int | None  # the number to use of each file; None means all
    folds: int
    fold: int

    def parsed(self) -> tuple[list[Graph], float]:
        """Train and parse in this process; return the trees and the seconds."""
        start = time.perf_counter()
        train = treebank(self.folder, "train", self.sentences)
        if self.fold == WHOLE:
            graphs = self.other.trees(train, treebank(self.folder, "dev", self.sentences))
        else:
            first, last = (len(train) * fold // self.folds for fold in (self.fold, self.fold + 1))
            graphs = self.other.trees([*train[:first], *train[last:]], train[first:last])
        seconds = time.perf_counter() - start
        what = "dev" if self.fold == WHOLE else f"fold {self.fold + 1} of {self.folds}"
        print(f"{self.name}: {what} parsed, {len(graphs)} sentences, {seconds:.0f} s", file=sys.stderr, flush=True)
        return graphs, seconds


def treebank(folder: Path, split: str, sentences: int | None) -> list[Sentence]:
    """Return the first sentences of a split, or all."""
    return list(islice(read_treebank(folder / f"{split}.conllu.xz"), sentences))


def make_parses(others: Mapping[str, Other], options: argparse.Namespace) -> None:
    """Write NAME-train.conllu and NAME-dev.conllu for each parser, and a row with their scores."""
    folder = options.treebanks / options.treebank
    train, dev = (treebank(folder, split, options.sentences) for split in ("train", "dev"))
    folds = [WHOLE, *range(options.folds)]  # the longest training first
    parts = [
        Part(name, other, folder, options.sentences, options.folds, fold)
        for fold in folds
        for name, other in others.items()
    ]
    found = dict(zip(((part.name, part.fold) for part in parts), _all_parsed(parts, options.jobs), strict=True))
    options.output.mkdir(parents=True, exist_ok=True)
    for name, other in others.items():
        jackknifed = [graph for fold in range(options.folds) for graph in found[name, fold][0]]
        result: dict[str, float] = {}
        for split, gold, graphs in (("train", train, jackknifed), ("dev", dev, found[name, WHOLE][0])):
            parses = [sentence.with_graph(graph) for sentence, graph in zip(gold, graphs, strict=True)]
            write_treebank(parses, options.output / f"{name}-{split}.conllu")
            result[f"not trees, {split}"] = sum(not graph.is_tree for graph in graphs)
            if not result[f"not trees, {split}"]:  # the scorer rejects other graphs
                scores = evaluate(gold, parses)
                result |= {f"{metric}, {split}": round(scores[metric].f1, 6) for metric in ("UAS", "LAS")}
        result |= {"seconds": round(sum(found[name, fold][1] for fold in folds), 1)}
        config = {
            "parser": name,
            "package": f"{other.package} {metadata.version(other.package)}",
            "settings": other.settings,
            "folds": options.folds,
            "treebank": options.treebank,
            "gold": checksum(dev),
            "sentences": len(train),
        }
        save_row("others_made", config, result, path=options.rows)


def _all_parsed(parts: Sequence[Part], jobs: int) -> list[tuple[list[Graph], float]]:
    if jobs == 1:
        return [part.parsed() for part in parts]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(Part.parsed, parts))


RULE = "conll18"
BEFORE, AFTER, NOTHING = "before", "after", "nothing"


def refine_parses(options: argparse.Namespace) -> None:
    """Refine each parse with the model; write a row, and the trees of each step to a file."""
    from treefine import Parser
    from treefine.parsing.initial import empty
    from treefine.training.train import FolderNames
    from treefine_paper.results import parsed_steps, scores

    folder = find_model(options.model)
    if (folder / FolderNames.model).is_dir():
        folder = folder / FolderNames.model  # the folder is that of a training
    title = folder.parent.name if folder.name == FolderNames.model else folder.name
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
        predictions = parsed_steps(parser.using(initial=initial, max_steps=parser.max_steps, trust=0), gold)
        if predictions.first:
            hint = "Refine it with `treefine refine`: a graph that is not a tree has no score to compare with."
            raise TreefineError(f"Not all of {name}'s parses are trees.", hint=hint, path=initial)
        result = saved(name, predictions) | compared(predictions, alone, gold)
        save_row("others", {"parser": name} | config, result | {NOTHING: from_nothing}, path=options.rows)


def compared(predictions: Predictions, alone: Predictions, gold: Sequence[Sentence]) -> dict[str, Any]:
    """Count the words that the steps changed, corrected and spoiled by LAS, and run paired tests over sentences.

    The refined trees are tested against the initial ones, and against the model's trees from an empty graph.
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
        result[f"{AFTER} minus {other}"] = difference_fields(found.differences[other, AFTER])
    return result


HEAD = (
    "initial parser",
    "refined by",
    "LAS before",
    "after each step",
    "difference",
    "p",
    "heads, labels changed",
    "words corrected, spoiled",
    "LAS from an empty graph",
    "gain from the initial tree",
    "p",
)
GIST = ("initial parser", "refined by", "LAS before", "LAS after", *HEAD[-3:-1])
BUNDLED = "en"  # the first table shows only this model


def others() -> str:
    """Return what refinement gains for each parser and model, and how the parsers were trained."""
    return others_of(read_rows("others"), read_rows("others_made"))


def others_of(refined: Sequence[Row], made: Sequence[Row]) -> str:
    """Return the newest row of each parser and source of tags for the bundled model; all models are folded."""
    if not refined:
        return "Not measured yet."
    newest = {tuple(row["config"][name] for name in ("model", "tags", "parser")): row for row in refined}
    rows = [newest[key] for key in sorted(newest)]
    makers = {row["config"]["parser"]: row for row in made}
    lines = [_made(makers[name]) for name in sorted({row["config"]["parser"] for row in rows}) if name in makers]
    last = rows[-1]
    origin = (
        f"LAS on {last['config']['treebank']} dev, {last['config']['sentences']:,} sentences; p: approximate "
        f"randomisation over sentences. `python -m benchmarks others refine`, {last['when'][:10]}, "
        f"commit {last['commit']}."
    )
    details = [table(HEAD, *map(_cells, rows)), *(["\n".join(lines)] if lines else []), origin]
    first = [_gist(row) for row in rows if row["config"]["model"] == BUNDLED]
    return "\n\n".join([table(GIST, *first), folded("All models, changes and p-values", "\n\n".join(details))])


def _gist(row: Row) -> tuple[str, ...]:
    config, result = row["config"], row["result"]
    before, *_, after = result["LAS_by_step"]
    over = f"{100 * result['after minus nothing']['difference']:+.2f}"
    scores = (percent(before), percent(after), percent(result["nothing"]["LAS"]), over)
    return (config["parser"], f"{config['model']}, tags {config['tags']}", *scores)


def _cells(row: Row) -> tuple[str, ...]:
    config, result = row["config"], row["result"]
    before, *after = result["LAS_by_step"]
    gain, over = result["after minus before"], result["after minus nothing"]
    return (
        config["parser"],
        f"{config['model']}, tags {config['tags']}",
        percent(before),
        ", ".join(map(percent, after)),
        *_tested(gain),
        f"{result['heads_changed']:,}, {result['labels_changed']:,}",
        f"{result['corrected']:,}, {result['spoiled']:,}",
        percent(result["nothing"]["LAS"]),
        *_tested(over),
    )


def _tested(found: Mapping[str, float]) -> tuple[str, str]:
    return f"{100 * found['difference']:+.2f}", f"{found['randomisation']:.4f}"


def _made(row: Row) -> str:
    config, result = row["config"], row["result"]
    places = {"dev": "on dev", "train": f"on train in {config['folds']} folds"}
    scores = [f"LAS {percent(result[f'LAS, {split}'])} {place}" for split, place in places.items()]
    return (
        f"- {config['parser']}: {config['package']}, a small model trained on {config['sentences']:,} sentences "
        f"of {config['treebank']} with gold tags, not a published one; {', '.join(scores)}."
    )


OTHER_PARSERS: dict[str, Callable[[], str]] = {"others": others}
