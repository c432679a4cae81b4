"""Turn sentences into a table with one row per word: an Arrow table for pandas, Polars and Parquet, or CSV.

This module reads and writes no files. It imports pyarrow only when a table is built, and never imports torch.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from treefine.config import COLUMNS
from treefine.errors import TreefineError, described, import_optional
from treefine.treebank.raw_text import Span, spans_in
from treefine.treebank.sentence import Sentence, is_list_like, own_text, sentence_in

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse
    from treefine.segmenter.cut import Segmented

ROWS = 50_000  # rows in a batch, which is a row group of Parquet
CHARACTERS = 1 << 26  # the most in a batch: Arrow addresses the bytes of a column with 31 bits

CellValue = str | int | float | None
_Cells = dict[str, Sequence[CellValue]]  # by column
Placed: TypeAlias = "Parse | Segmented"  # a sentence with the offsets of its words


class TableColumn(NamedTuple):
    """One column of a table."""

    name: str
    type: Literal["string", "dictionary", "int32", "int64", "float32"]  # a dictionary holds each string once
    description: str


WORDS = (
    TableColumn("file", "dictionary", "the file of the sentence; empty if the text did not come from a file"),
    TableColumn("sentence", "int32", "the number of the sentence in the table, from 1"),
    TableColumn("sent_id", "dictionary", "its `# sent_id`, or empty"),
    TableColumn("text", "dictionary", "its text"),
    TableColumn("word", "int32", "the number of the word in the sentence, from 1"),
    TableColumn("form", "string", "the word as written"),
    TableColumn("lemma", "string", "its lemma"),
    TableColumn("upos", "string", "its universal tag"),
    TableColumn("xpos", "string", "its tag in the treebank's own scheme"),
    TableColumn("feats", "string", "its features, such as Number=Plur"),
    TableColumn("head", "int32", "the number of its head, 0 for the root; null if the input leaves it blank"),
    TableColumn("head_form", "dictionary", "the form of its head; null for the root"),
    TableColumn("label", "string", "the label of its arc"),
    TableColumn("token", "dictionary", "the multiword token that it is part of, or null"),
    TableColumn("start", "int64", "the offset of its first character in the parsed text (for a treebank, in `text`)"),
    TableColumn("end", "int64", "the offset after its last character; the words of a multiword token share both"),
)
CONFIDENCE = (
    TableColumn("arc_confidence", "float32", "the probability that the head is right"),
    TableColumn("label_confidence", "float32", "the probability that the label is right, if the head is"),
    TableColumn("confidence", "float32", "the probability that both are right"),
    TableColumn(
        "sentence_confidence", "float32", "the probability that the sentence and all its heads and labels are right"
    ),
    TableColumn("upos_confidence", "float32", "the probability that `upos` is right; null if the input gave it"),
    TableColumn("xpos_confidence", "float32", "the same for `xpos`"),
    TableColumn("feats_confidence", "float32", "the same for `feats`"),
    TableColumn("lemma_confidence", "float32", "the same for `lemma`"),
)
TREES = (
    TableColumn("tree", "int32", "the rank of the tree among the best of its sentence, from 1"),
    TableColumn("probability", "float32", "the probability of the tree's heads among all trees"),
    TableColumn("label_probability", "float32", "the probability that all its labels are right, if all its heads are"),
)
INITIAL = (
    TableColumn("initial_head", "int32", "the head in the initial parse, or null"),
    TableColumn("initial_label", "string", "the label in the initial parse"),
)


@dataclass(frozen=True, slots=True)
class Content:
    """The optional columns of a table, in addition to the words and their trees. Each of them needs Parses."""

    confidence: bool = False
    trees: bool = False  # the k best of each sentence
    initial: bool = False

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The columns of the table."""
        groups = (CONFIDENCE, self.confidence), (TREES, self.trees), (INITIAL, self.initial)
        return WORDS + tuple(column for group, is_there in groups if is_there for column in group)


def to_table(sentences: Iterable[Parse | Sentence], *, initial: bool = False) -> Any:
    """Return a pyarrow.Table with one row per word, from Parses or from the Sentences of a treebank.

    Parses also have confidence columns, and rows for each of the k best trees if there are several. With `initial`,
    they also have the heads and labels of the initial parse. Raises TreefineError for anything but Parses or Sentences.
    """
    if not is_list_like(sentences) or sentence_in(sentences):
        hint = "Pass a list of Parses or Sentences."
        raise TreefineError(f"A table cannot be made from {described(sentences)}.", hint=hint)
    rest = iter(sentences)
    start = list(islice(rest, 1))
    is_parsed = not any(isinstance(each, Sentence) for each in start)
    if initial and not is_parsed:
        raise TreefineError("A Sentence has no initial tree.", hint="Pass the Parses of `stream`.")
    has_trees = any(getattr(each, "trees", ()) for each in start)
    return table_of(chain(start, rest), Content(is_parsed and bool(start), has_trees, initial))


def table_of(sentences: Iterable[Placed | Sentence], content: Content) -> Any:
    """Return a pyarrow.Table with these optional columns."""
    blocks = list(record_batches(sentences, content))
    return import_package("pyarrow").Table.from_batches(blocks, schema_of(content)).unify_dictionaries()


def schema_of(content: Content, about: Mapping[str, object] | None = None) -> Any:
    """Return the pyarrow.Schema of a table, with `about` as JSON in its metadata under `treefine`."""
    arrow = import_package("pyarrow")
    types = {"dictionary": arrow.dictionary(arrow.int32(), arrow.string())}
    fields = [
        arrow.field(name, types.get(kind) or getattr(arrow, kind)(), metadata={"description": description})
        for name, kind, description in content.columns
    ]
    return arrow.schema(fields, metadata={"treefine": json.dumps(about, ensure_ascii=False)} if about else None)


def record_batches(sentences: Iterable[Placed | Sentence], content: Content, *, size: int = ROWS) -> Iterator[Any]:
    """Yield pyarrow.RecordBatches of whole sentences and about `size` rows; only one is in memory at a time."""
    record_batch, schema = import_package("pyarrow").record_batch, schema_of(content)
    cells: dict[str, list[CellValue]] = {column.name: [] for column in content.columns}
    n_characters = 0
    for number, each in enumerate(sentences, start=1):
        for block in _blocks(each, number, content):
            for name, values in block.items():
                cells[name] += values
            n_characters += sum(len(str(value)) for name in ("form", "feats", "lemma") for value in block[name])
        if len(cells["word"]) >= size or n_characters >= CHARACTERS:
            yield record_batch(cells, schema=schema)
            cells, n_characters = {name: [] for name in cells}, 0
    if cells["word"]:
        yield record_batch(cells, schema=schema)


def csv_texts(sentences: Iterable[Placed | Sentence], content: Content, *, delimiter: str = ",") -> Iterator[str]:
    """Yield the header, and then the rows of each sentence. Nulls are empty cells."""
    names = [column.name for column in content.columns]
    lines = io.StringIO(newline="")
    writer = csv.writer(lines, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    yield lines.getvalue()
    for number, each in enumerate(sentences, start=1):
        lines.seek(0)
        lines.truncate()
        for block in _blocks(each, number, content):
            writer.writerows(zip(*(map(_csv_cell, block[name]) for name in names), strict=True))
        yield lines.getvalue()


def _csv_cell(value: CellValue) -> CellValue:
    if isinstance(value, str):
        return value.replace("\r", " ")  # csv does not quote a carriage return
    return round(value, 4) if isinstance(value, float) else value


def import_package(package: Literal["pyarrow", "pyarrow.parquet", "pandas", "polars"]) -> Any:
    """Import an optional package, or raise an error that says how to install it."""
    name = package.partition(".")[0]
    what = "'treefine[tables]'" if name == "pyarrow" else name
    return import_optional(package, f"The package {name} is not installed.", what)


def _blocks(each: Placed | Sentence, number: int, content: Content) -> Iterator[_Cells]:
    """Yield the rows of one sentence, column by column; then those of its other trees, if the content has trees."""
    needs_parse = content.confidence or content.trees or content.initial
    if needs_parse if isinstance(each, Sentence) else not hasattr(each, "spans"):
        what = "a Parse" if isinstance(each, Sentence) else "a Parse or a Sentence"
        raise TreefineError(f"This is not {what}: {each!r:.60}.", hint="Pass only Parses or only Sentences.")
    if isinstance(each, Sentence):
        yield _word_cells(each, spans_in(own_text(each), each), number)
        return
    cells, parse = _word_cells(each.sentence, each.spans, number), cast("Parse", each)
    if content.confidence:
        cells |= {
            "arc_confidence": [word.arc for word in parse.word_confidences],
            "label_confidence": [word.label for word in parse.word_confidences],
            "confidence": [word.both for word in parse.word_confidences],
            "sentence_confidence": [parse.confidence] * len(parse),
            **{f"{column}_confidence": parse.confidences_in(column) for column in COLUMNS},
        }
    if content.initial:
        cells |= {"initial_head": parse.initial.heads, "initial_label": parse.initial.labels}
    if not content.trees:
        yield cells
        return
    for rank, tree in enumerate(parse.trees, start=1):
        if rank == 2 and content.confidence:  # only the best tree has word confidences
            cells |= {column.name: [None] * len(parse) for column in CONFIDENCE}
        yield cells | {
            "head": tree.heads,
            "head_form": [parse.forms[head - 1] if head else None for head in tree.heads],
            "label": tree.labels,
            "tree": [rank] * len(parse),
            "probability": [tree.probability] * len(parse),
            "label_probability": [tree.label_probability] * len(parse),
        }


def _word_cells(sentence: Sentence, spans: Sequence[Span], number: int) -> _Cells:
    n_words, forms = len(sentence), sentence.forms
    # The bytes of a file name that are not UTF-8 are spelled out: Arrow cannot hold them.
    path = sentence.path.encode(errors="backslashreplace").decode()
    tokens: list[CellValue] = [None] * n_words
    for token in sentence.tokens() if len(sentence.columns[0]) > n_words else ():  # not all lines are words
        if len(token.words) > 1:
            tokens[token.words[0] - 1 : token.words[-1]] = [token.form] * len(token.words)
    return {
        "file": [path] * n_words,
        "sentence": [number] * n_words,
        "sent_id": [sentence.sent_id] * n_words,
        "text": [own_text(sentence)] * n_words,
        "word": range(1, n_words + 1),
        "form": forms,
        **{column: getattr(sentence, column) for column in COLUMNS},
        "head": sentence.heads,
        "head_form": [forms[head - 1] if head else None for head in sentence.heads],
        "label": sentence.labels,
        "token": tokens,
        "start": [start for start, _ in spans],
        "end": [end for _, end in spans],
    }
