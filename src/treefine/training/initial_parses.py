"""The initial parses G⁰ that a model learns to refine: by source, jackknifed, mixed, or gold with errors (Sec. 4)."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from treefine.parsing.initial import InitialParser, empty, from_file
from treefine.parsing.parser import Parser
from treefine.training.checkpoint import remove_leftovers
from treefine.training.data import Data
from treefine.training.epochs import LAYOUT, Progress, Start, learn
from treefine.training.graphs import TrainingGraphs
from treefine.training.logs import Origin
from treefine.training.processes import Processes
from treefine.training.recipe import EMPTY, FILES, InitialSettings, MixedSettings, Recipe, expand
from treefine.treebank.conllu import write_treebank
from treefine.treebank.formats import convert
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import CONLLU, Sentence


def blocks(n_sentences: int, folds: int) -> list[range]:
    """The training set cut into stretches of nearly the same length; neighbours, of one document often, stay together.

    >>> blocks(7, 3)
    [range(0, 2), range(2, 4), range(4, 7)]
    """
    ends = [n_sentences * fold // folds for fold in range(folds + 1)]
    return [range(start, end) for start, end in zip(ends, ends[1:], strict=False)]


@dataclass(frozen=True)
class Source:
    """What makes initial parses, and where it is trained if it has to be."""

    name: str  # "" for the initial parser itself, else that of a parser that is mixed in
    settings: InitialSettings | MixedSettings
    recipe: Recipe | None  # to train first
    origin: Origin | None  # what that goes on from, where it was trained for this
    folder: Path

    def stage(self, part: str = "") -> str:
        """What its training, or a part of it, is called in progress."""
        return ", ".join(filter(None, [self.name, part])) or "initial parser"


@dataclass(frozen=True)
class Parses:
    """The parses of a source, and the parser that makes such of any sentence."""

    train: Sequence[Arcs]
    dev: Sequence[Arcs]
    parser: Parser | InitialParser = empty


def empty_start(recipe: Recipe, data: Data, origin: Origin | None = None) -> Start:
    """The start of a model that has no initial parser."""
    return Start(TrainingGraphs(data.train, None, recipe.initial), {EMPTY: list(empty(data.dev))}, origin=origin)


def parses_of(
    source: Source, data: Data, processes: Processes, *, form: str | None
) -> Generator[Progress, None, Parses]:
    """The parses of a source, whose parsers are trained first where they have to be; files have the format `form`."""
    settings, recipe = source.settings, source.recipe
    if settings.parser == EMPTY:
        return Parses(list(empty(data.train)), list(empty(data.dev)))
    if settings.parser == FILES:
        train, dev = (from_file(expand(path), format=form) for path in (settings.train, settings.dev))
        return Parses(list(train(data.train)), list(dev(data.dev)))
    trained = expand(settings.parser)
    if recipe is not None:
        place, start = source.folder / LAYOUT.initial, empty_start(recipe, data, source.origin)
        yield from learn(recipe, data, place, processes, start, stage=source.stage())
        trained = str(place / LAYOUT.model)
    parser = Parser.from_pretrained(trained, device=processes.device)
    if recipe is not None and settings.folds:
        parses = yield from _jackknifed(source, recipe, data, processes)
    else:
        parses = _parsed(parser, data.train)
    return Parses(parses, _parsed(parser, data.dev), parser)


def kept_parses(
    source: Source, data: Data, processes: Processes, *, form: str | None
) -> Generator[Progress, None, Parses]:
    """The same, but what a parser makes is kept in files, so that it is made once and its model need not be loaded."""
    if source.settings.parser in (EMPTY, FILES):
        return (yield from parses_of(source, data, processes, form=form))
    names = (LAYOUT.train_parses, LAYOUT.dev_parses)
    train, dev = (source.folder / name for name in names)
    if processes.is_first:
        remove_leftovers(source.folder, *names)
    if not processes.same(train.exists() and dev.exists()):
        parses = yield from parses_of(source, data, processes, form=form)
        if processes.is_first:
            source.folder.mkdir(parents=True, exist_ok=True)
            _write(data.train, parses.train, train)
            _write(data.dev, parses.dev, dev)
        processes.wait()
    return Parses(list(from_file(str(train))(data.train)), list(from_file(str(dev))(data.dev)))


def _parsed(parser: Parser, sentences: Sequence[Sentence]) -> list[Arcs]:
    # Notes of the treebank must not give its own arcs away.
    return [each.arcs for each in parser.using(keep="nothing").stream(sentences)]


def _write(sentences: Sequence[Sentence], parses: Sequence[Arcs], path: Path) -> None:
    """Keep the parses of a parser, which are trees."""
    pairs = zip(sentences, parses, strict=True)
    trees = (each.with_graph(Graph.of_words([head or 0 for head in arcs.heads], arcs.labels)) for each, arcs in pairs)
    write_treebank((convert(each, CONLLU) for each in trees), path)


def _jackknifed(
    source: Source, recipe: Recipe, data: Data, processes: Processes
) -> Generator[Progress, None, list[Arcs]]:
    """The parses of the training set, each made by a parser that was trained on the other blocks."""
    parses: list[Arcs] = []
    folds = source.settings.folds
    for number, block in enumerate(blocks(len(data.train), folds), start=1):
        inner, held_out = source.folder / LAYOUT.folds / str(number), data.train[block.start : block.stop]
        if not processes.same((inner / LAYOUT.parses).exists()):
            rest = replace(data, train=data.train[: block.start] + data.train[block.stop :])
            start = empty_start(recipe, rest, source.origin)
            yield from learn(recipe, rest, inner, processes, start, stage=source.stage(f"fold {number} of {folds}"))
            if processes.is_first:
                parser = Parser.from_pretrained(inner / LAYOUT.model, device=processes.device)
                parsed = (convert(each, CONLLU) for each in parser.stream(held_out))
                write_treebank(parsed, inner / LAYOUT.parses)
            processes.wait()
        if processes.is_first:
            for model in (inner / LAYOUT.model, *inner.glob(f"{LAYOUT.members}/*/{LAYOUT.model}")):
                shutil.rmtree(model, ignore_errors=True)  # nothing but its parses is needed
        parses += from_file(str(inner / LAYOUT.parses))(held_out)
    return parses
