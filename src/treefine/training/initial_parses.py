"""Make the initial parses G⁰ that a model learns to refine, and train the parsers for them (Sec. 4)."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from treefine.parsing.initial import InitialParser, empty, from_file
from treefine.parsing.parser import Parser
from treefine.training.checkpoint import FolderNames, remove_unfinished
from treefine.training.data import Data, fold_ranges, parses_in_files
from treefine.training.epochs import InitialGraphs, Progress, TrainingRun, learn
from treefine.training.new_model import TrainedBase
from treefine.training.processes import Processes
from treefine.training.recipe import EMPTY, FILES, InitialSettings, MixedSettings, Recipe, expand
from treefine.treebank.conllu import convert, write_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import CONLLU, Sentence


@dataclass(frozen=True)
class SourceParses:
    """The parses of a source, and the parser that made them."""

    train: Sequence[Arcs]
    dev: Sequence[Arcs]
    parser: Parser | InitialParser = empty


@dataclass(frozen=True)
class ParseSource:
    """A source of initial parses, and where its parsers are trained."""

    name: str  # "" for the main initial parser, otherwise its name in the mix
    settings: InitialSettings | MixedSettings
    recipe: Recipe | None  # of the parser to train first
    base: TrainedBase | None  # the model that this recipe fine-tunes, if it was trained here
    folder: Path
    data: Data
    processes: Processes
    form: str | None  # the format of files with parses

    def parses(self) -> Generator[Progress, None, SourceParses]:
        """Return the parses of the training set and of dev."""
        settings, data = self.settings, self.data
        if settings.parser == EMPTY:
            return SourceParses(list(empty(data.train)), list(empty(data.dev)))
        if settings.parser == FILES:
            train = parses_in_files(settings.train, data.train, self.form)
            return SourceParses(train, parses_in_files(settings.dev, data.dev, self.form))
        trained: str | Path = expand(settings.parser)
        if self.recipe is not None:
            folder = self.folder / FolderNames.initial
            yield from self._learn(self.recipe, data, folder, "")
            trained = folder / FolderNames.model
        parser = Parser.from_pretrained(trained, device=self.processes.device)
        if self.recipe is not None and settings.folds:
            parses = yield from self._jackknifed(self.recipe)
        else:
            parses = _parsed(parser, data.train)
        return SourceParses(parses, _parsed(parser, data.dev), parser)

    def kept_parses(self) -> Generator[Progress, None, SourceParses]:
        """Return the parses without the parser. They are kept in files, so resuming does not load the parser again."""
        if self.settings.parser in (EMPTY, FILES):
            return (yield from self.parses())
        names = (FolderNames.train_parses, FolderNames.dev_parses)
        train, dev = (self.folder / name for name in names)
        if self.processes.is_first:
            remove_unfinished(self.folder, *names)
        if not self.processes.same(train.exists() and dev.exists()):
            parses = yield from self.parses()
            if self.processes.is_first:
                self.folder.mkdir(parents=True, exist_ok=True)
                _write(self.data.train, parses.train, train)
                _write(self.data.dev, parses.dev, dev)
            self.processes.wait()
        return SourceParses(list(from_file(str(train))(self.data.train)), list(from_file(str(dev))(self.data.dev)))

    def _learn(self, recipe: Recipe, data: Data, folder: Path, part: str) -> Generator[Progress, None, None]:
        """Train a parser of this source; `part` names the fold, if there are folds."""
        stage = ", ".join(filter(None, [self.name, part])) or "initial parser"
        initial = InitialGraphs.without_parser(recipe, data)
        yield from learn(TrainingRun(recipe, data, folder, self.processes, initial, stage=stage, base=self.base))

    def _jackknifed(self, recipe: Recipe) -> Generator[Progress, None, list[Arcs]]:
        """Return parses of the training set: each fold is parsed by a parser trained on the other folds."""
        parses: list[Arcs] = []
        data, processes, folds = self.data, self.processes, self.settings.folds
        for number, fold in enumerate(fold_ranges(len(data.train), folds), start=1):
            folder, held_out = self.folder / FolderNames.folds / str(number), data.train[fold.start : fold.stop]
            path = folder / FolderNames.fold_parses
            if not processes.same(path.exists()):
                rest = replace(data, train=data.train[: fold.start] + data.train[fold.stop :])
                yield from self._learn(recipe, rest, folder, f"fold {number} of {folds}")
                if processes.is_first:
                    parser = Parser.from_pretrained(folder / FolderNames.model, device=processes.device)
                    write_treebank((convert(each, CONLLU) for each in parser.stream_trees(held_out)), path)
                processes.wait()
            if processes.is_first:
                members = folder.glob(f"{FolderNames.members}/*/{FolderNames.model}")
                for model in (folder / FolderNames.model, *members):
                    shutil.rmtree(model, ignore_errors=True)  # only the parses are needed
            parses += from_file(str(path))(held_out)
        return parses


def _parsed(parser: Parser, sentences: Sequence[Sentence]) -> list[Arcs]:
    # The parser must not keep gold arcs that are marked in the treebank.
    return [each.arcs for each in parser.using(keep="nothing").stream_trees(sentences)]


def _write(sentences: Sequence[Sentence], parses: Sequence[Arcs], path: Path) -> None:
    parsed = map(Sentence.with_arcs, sentences, parses)
    write_treebank((convert(each, CONLLU) for each in parsed), path)
