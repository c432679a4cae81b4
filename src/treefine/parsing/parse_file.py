"""What a parser does from file to file, side by side with those who read and write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from treefine.parsing.file_to_file import Engine, Told, parsed_texts
from treefine.parsing.initial import Renamed, empty, given
from treefine.parsing.options import checked_workers
from treefine.parsing.pool import SHORT, Pool, default_workers
from treefine.parsing.scribe import Orders, Place
from treefine.parsing.spelled import engine_of_plan
from treefine.treebank.conllu import cut_treebank, read_treebank, write_treebank
from treefine.treebank.files import Source, name_of, open_input, open_output
from treefine.treebank.formats import format_of

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser


class FileParser:
    """A parser, what runs its model, and its workers, while entered.

    Without a number of workers there are as many as `default_workers` says, once a file is long enough.
    """

    def __init__(self, parser: Parser, orders: Orders, workers: int | None = None) -> None:
        self._parser = parser
        self._pool = Pool(
            orders, default_workers() if workers is None else workers, short=SHORT if workers is None else 0
        )
        self._engine: Engine | None = None

    @classmethod
    def of(cls, parser: Parser, workers: int | None = None) -> FileParser | None:
        """The one for this parser; None where it has to parse sentences as they come, or on a CPU had better do so."""
        orders = orders_of(parser) if parser.device.type == "cuda" or workers else None
        return None if orders is None else cls(parser, orders, workers)

    def __enter__(self) -> FileParser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def texts(self, places: Iterable[Place], told: Told, *, skip: int = 0) -> Iterator[str]:
        """What `parsed_texts` gives."""
        if self._engine is None:
            self._engine = _engine_of(self._parser)
        return parsed_texts(places, self._pool, self._engine, self._parser.stream, told, skip=skip)


def parse_file(
    parser: Parser,
    source: Source,
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    workers: int | None = None,
) -> int:
    """Do what `Parser.parse_file` does."""
    files = FileParser.of(parser, checked_workers(workers))
    if files is None:
        return write_treebank(parser.stream(read_treebank(source, format=format)), target)
    count = 0

    def counted(more: int) -> None:
        nonlocal count
        count += more

    path = name_of(source)
    with files, open_output(target) as output, open_input(source) as stream:
        places = (Place(each, path, format_of(path, format).name) for each in cut_treebank(stream, path))
        for text in files.texts(places, Told(on_sentences=counted)):
            output.write(text.encode())
    return count


def orders_of(parser: Parser) -> Orders | None:
    """What those who read and write for a parser have to know; None where an engine cannot do as it is told."""
    model, initial = parser.model, parser.initial
    names = None
    if isinstance(initial, Renamed):
        names = initial.names
        initial = initial.initial
    if model.subwords is None or initial not in (empty, given) or parser.keep == "given":
        return None
    return Orders(
        model.subwords.tokenizer.to_str(),
        model.subwords.settings,
        model.vocabulary.labels,
        model.vocabulary.upos,
        model.vocabulary.xpos,
        model.settings.tags.columns,
        reads_tags=parser.tags == "given",
        needs_tags=parser.tags == "given" and model.settings.tags.source != "predicted",
        reads_arcs=initial is given,
        names=names,
        heeds_marks=parser.keep == "marked",
    )


def _engine_of(parser: Parser) -> Engine:
    return engine_of_plan(parser.plan()) if parser.engine is None else parser.engine.stream
