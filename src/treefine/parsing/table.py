"""Sentences as a table with one row a word, for pandas, Polars and Parquet. It knows nothing of files.

Arrow holds the table, column by column; pyarrow is loaded when one is asked for, and torch never.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from treefine.errors import TreefineError
from treefine.treebank.raw_text import Span, own_text, spans_in
from treefine.treebank.sentence import Sentence

if TYPE_CHECKING:
    from treefine.parsing.confidence import RankedTree
    from treefine.parsing.parse import Parse

ROWS = 50_000  # rows that are put together at a time: a row group of Parquet
CHARACTERS = 1 << 26  # of their strings, after which there are no more: Arrow counts the bytes of a column in 31 bits

CellValue = str | int | float | None


class TableColumn(NamedTuple):
    """One column of a table."""

    name: str
    type: Literal["string", "dictionary", "int32", "int64", "float32"]  # a dictionary has each string once
    says: str


WORDS = (
    TableColumn("file", "dictionary", "the file of the sentence; empty for a text that came from none"),
    TableColumn("sentence", "int32", "the number of the sentence in the table, from 1"),
    TableColumn("sent_id", "dictionary", "its `# sent_id`; empty without one"),
    TableColumn("text", "dictionary", "its text"),
    TableColumn("word", "int32", "the number of the word in the sentence, from 1"),
    TableColumn("form", "string", "the word as written"),
    TableColumn("lemma", "string", "its lemma, as far as the input has one"),
    TableColumn("upos", "string", "its universal tag"),
    TableColumn("xpos", "string", "its tag in the treebank's own scheme"),
    TableColumn("feats", "string", "its features, as far as the input has any"),
    TableColumn("head", "int32", "the number of its head, 0 for the root; null where the input leaves it blank"),
    TableColumn("head_form", "dictionary", "the form of its head; null for the root"),
    TableColumn("label", "string", "the label of its arc"),
    TableColumn("token", "dictionary", "the multiword token that it is part of; null for all other words"),
    TableColumn(
        "start", "int64", "its first character in the text that was parsed, or of a treebank in `text`, from 0"
    ),
    TableColumn("end", "int64", "the character after its last one; the words of a multiword token share both"),
)
CONFIDENCE = (
    TableColumn("arc_confidence", "float32", "the probability that the head is right"),
    TableColumn("label_confidence", "float32", "the probability that the label is right, if the head is"),
    TableColumn("confidence", "float32", "the probability that both are right"),
    TableColumn(
        "sentence_confidence", "float32", "the probability that all heads and labels of the sentence are right"
    ),
)
TREES = (
    TableColumn("tree", "int32", "the rank of the tree among the best of its sentence, from 1"),
    TableColumn("probability", "float32", "the probability of the tree's heads among all trees"),
    TableColumn("label_probability", "float32", "the probability that all its labels are right, if all its heads are"),
)
INITIAL = (
    TableColumn("initial_head", "int32", "the head that refinement started from; null where there was none"),
    TableColumn("initial_label", "string", "the label that it started from"),
)


class Placed(Protocol):
    """A sentence and where its words stand: a Parse, or what a segmenter found."""

    @property
    def sentence(self) -> Sentence:
        """The sentence."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """The characters of each word."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a table says beside the words and their trees; for all of it the sentences have to be Parses."""

    confidence: bool = False
    trees: bool = False  # the k best of each sentence, one after another
    initial: bool = False

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The columns of such a table."""
        groups = (CONFIDENCE, self.confidence), (TREES, self.trees), (INITIAL, self.initial)
        return WORDS + tuple(column for group, is_there in groups if is_there for column in group)


class _Bare(NamedTuple):
    """A sentence of a treebank, and the places of its words in its own text."""

    sentence: Sentence
    spans: tuple[Span, ...]


def to_table(sentences: Iterable[Parse | Sentence], *, initial: bool = False) -> Any:
    """A pyarrow.Table with one row a word, of Parses or of the Sentences of a treebank.

    Parses have columns for the confidence as well, and where the k best trees were asked for the rows of each. With
    `initial` they also have the heads and labels that refinement started from.
    """
    found = iter(sentences)
    first = next(found, None)
    is_parsed = first is not None and not isinstance(first, Sentence)
    content = Content(is_parsed, is_parsed and bool(getattr(first, "trees", ())), initial)
    if initial and not is_parsed and first is not None:
        raise TreefineError("A Sentence has no initial tree.", hint="Give the Parses of `stream_parses`.")
    return table_of(found if first is None else chain([first], found), content)


def table_of(sentences: Iterable[Placed | Sentence], content: Content) -> Any:
    """The same with this content."""
    blocks = list(record_batches(sentences, content))
    return import_package("pyarrow").Table.from_batches(blocks, schema_of(content)).unify_dictionaries()


def schema_of(content: Content, about: Mapping[str, object] | None = None) -> Any:
    """The pyarrow.Schema of a table; what it is `about` is kept in its metadata, as JSON under `treefine`."""
    arrow = import_package("pyarrow")
    types = {"dictionary": arrow.dictionary(arrow.int32(), arrow.string())}
    fields = [
        arrow.field(each.name, types.get(each.type) or getattr(arrow, each.type)(), metadata={"description": each.says})
        for each in content.columns
    ]
    return arrow.schema(fields, metadata={"treefine": json.dumps(about, ensure_ascii=False)} if about else None)


def record_batches(sentences: Iterable[Placed | Sentence], content: Content, *, size: int = ROWS) -> Iterator[Any]:
    """The rows as pyarrow.RecordBatches of about `size`, whole sentences each; so much is in memory at a time."""
    cells: dict[str, list[CellValue]] = {column.name: [] for column in content.columns}
    n_characters = 0
    for number, each in enumerate(sentences, start=1):
        for block in _blocks(_placed(each, content), number, content):
            for name, values in block.items():
                cells[name] += values
        n_characters += _characters(each.sentence if not isinstance(each, Sentence) else each)
        if len(cells["word"]) >= size or n_characters >= CHARACTERS:
            yield _batch(cells, content)
            cells, n_characters = {name: [] for name in cells}, 0
    if cells["word"]:
        yield _batch(cells, content)


def import_package(package: Literal["pyarrow", "pyarrow.parquet", "pandas", "polars"]) -> Any:
    """The package, which need not be installed."""
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        command = "pip install 'treefine[tables]'" if name == "pyarrow" else f"pip install {name}"
        raise TreefineError(f"The package {name} is not installed.", hint=f"Install it: {command}") from error


def _placed(each: Placed | Sentence, content: Content) -> Placed:
    if isinstance(each, Sentence) and not (content.confidence or content.trees or content.initial):
        return _Bare(each, spans_in(own_text(each), each))
    if isinstance(each, Sentence) or not hasattr(each, "spans"):
        what = "a Parse" if isinstance(each, Sentence) else "a Parse or a Sentence"
        raise TreefineError(f"This is not {what}: {each!r:.60}.", hint="Give Parses alone, or Sentences alone.")
    return each


def _blocks(each: Placed, number: int, content: Content) -> Iterator[dict[str, Sequence[CellValue]]]:
    """The rows of one sentence, column by column; then those of its other trees, where these are asked for."""
    cells = _of_words(each, number)
    parse = cast("Parse", each)
    if content.confidence:
        cells |= _of_confidence(parse)
    if content.initial:
        cells |= {"initial_head": parse.initial.heads, "initial_label": parse.initial.labels}
    if not content.trees:
        yield cells
        return
    for rank, tree in enumerate(parse.trees, start=1):
        if rank == 2 and content.confidence:  # that of the words is in the best tree alone
            cells |= {column.name: [None] * len(parse) for column in CONFIDENCE}
        yield cells | _of_tree(tree, rank, parse.forms)


def _of_words(each: Placed, number: int) -> dict[str, Sequence[CellValue]]:
    sentence = each.sentence
    n_words, form = len(sentence), sentence.format
    forms, heads = sentence.forms, sentence.heads
    return {
        "file": [_readable(sentence.path)] * n_words,
        "sentence": [number] * n_words,
        "sent_id": [sentence.sent_id] * n_words,
        "text": [own_text(sentence)] * n_words,
        "word": range(1, n_words + 1),
        "form": forms,
        "lemma": sentence.column(form.lemma),
        "upos": sentence.upos,
        "xpos": sentence.xpos,
        "feats": sentence.column(form.feats),
        "head": heads,
        "head_form": _forms_of(heads, forms),
        "label": sentence.labels,
        "token": _tokens(sentence),
        "start": [start for start, _ in each.spans],
        "end": [end for _, end in each.spans],
    }


def _of_confidence(parse: Parse) -> dict[str, Sequence[CellValue]]:
    return {
        "arc_confidence": [each.arc for each in parse.word_confidences],
        "label_confidence": [each.label for each in parse.word_confidences],
        "confidence": [each.both for each in parse.word_confidences],
        "sentence_confidence": [parse.confidence] * len(parse),
    }


def _of_tree(ranked: RankedTree, rank: int, forms: Sequence[str]) -> dict[str, Sequence[CellValue]]:
    heads, labels = ranked.tree.arcs
    return {
        "head": heads,
        "head_form": _forms_of(heads, forms),
        "label": labels,
        "tree": [rank] * len(forms),
        "probability": [ranked.probability] * len(forms),
        "label_probability": [ranked.label_probability] * len(forms),
    }


def _readable(path: str) -> str:
    """The name of a file with the bytes that are no UTF-8 spelled out, for Arrow has no others."""
    return path.encode(errors="backslashreplace").decode()


def _forms_of(heads: Sequence[int | None], forms: Sequence[str]) -> list[CellValue]:
    return [forms[head - 1] if head else None for head in heads]


def _tokens(sentence: Sentence) -> list[CellValue]:
    """The multiword token of each word, if it is part of one."""
    if len(sentence.columns[0]) == len(sentence):  # as most: all lines are words
        return [None] * len(sentence)
    tokens = ((token.form if len(token.words) > 1 else None, len(token.words)) for token in sentence.tokens())
    return [form for form, n_words in tokens for _ in range(n_words)]


def _characters(sentence: Sentence) -> int:
    """How long its strings are together, about."""
    return sum(sum(map(len, column)) for column in sentence.columns) + sum(map(len, sentence.comments))


def _batch(cells: Mapping[str, Sequence[CellValue]], content: Content) -> Any:
    arrow, schema = import_package("pyarrow"), schema_of(content)
    arrays = [
        _encoded(cells[column.name]) if column.type == "dictionary" else arrow.array(cells[column.name], field.type)
        for column, field in zip(content.columns, schema, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _encoded(values: Sequence[CellValue]) -> Any:
    """A dictionary: what stands in many rows is held once, however long it is."""
    arrow = import_package("pyarrow")
    numbers: dict[CellValue, int] = {}
    places = [None if value is None else numbers.setdefault(value, len(numbers)) for value in values]
    return arrow.DictionaryArray.from_arrays(
        arrow.array(places, arrow.int32()), arrow.array([*numbers], arrow.string())
    )
