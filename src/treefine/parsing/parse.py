"""Parse: a sentence as a parser gives it back, with its place in the text, how sure each arc is, and its steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from treefine.drawing.html import page_part
from treefine.drawing.picture import Picture, step_pictures
from treefine.drawing.svg import draw_svg
from treefine.drawing.text import draw_text
from treefine.parsing.annotate import with_confidence, with_rank
from treefine.parsing.confidence import Confidence, RankedTree, agreement
from treefine.parsing.table import Content, import_package, table_of
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.raw_text import Span, own_text
from treefine.treebank.sentence import BLANK, Sentence


class ParsedWord(NamedTuple):
    """One word of a parsed sentence."""

    number: int  # 1..n; 0 is ROOT
    form: str
    upos: str
    xpos: str
    head: int
    label: str
    start: int  # its characters in the text that was parsed, from here …
    end: int  # … to before this; the words of a multiword token share theirs
    arc_confidence: float  # the probability that the head is right …
    label_confidence: float  # … and that the label is, if the head is

    @property
    def confidence(self) -> float:
        """The probability that head and label are right."""
        return self.arc_confidence * self.label_confidence


class Change(NamedTuple):
    """A word whose head or label is not the one that it started with."""

    word: int  # its number, from 1
    form: str
    old_head: int | None  # in G⁰; None where that had no arc for the word
    old_label: str
    head: int
    label: str
    before: float | None  # how sure the parser is, after its last step, of the old head and label, if it read them …
    after: float  # … and of the new ones
    step: int | None  # the first t whose graph has the new arc; None where only the tree has it


@dataclass(frozen=True, repr=False)
class Parse:
    """One sentence with its tags and its tree."""

    sentence: Sentence
    spans: tuple[Span, ...]  # of each word in the text that was parsed; of words that were cut already, in `text`
    word_confidences: tuple[Confidence, ...]
    confidence: float  # the probability that all heads and labels are right, if its words and its ends are
    steps: tuple[Graph, ...]  # G¹ … Gᵀ; they may have cycles, and the last is mostly the tree
    initial: Arcs  # G⁰, without any head where the parser started from nothing
    initial_confidences: tuple[Confidence | None, ...]  # in its arcs, after the last step; None where none was read
    converged: bool  # whether the last step repeated its input, so that a further one would too
    trees: tuple[RankedTree, ...] = ()  # the k best, the tree itself first; none where one alone was asked for
    was_sure: bool = False  # whether it took no further step because it was sure enough of the last one
    step_confidences: tuple[tuple[Confidence, ...], ...] = ()  # of each step in its own arcs, where it was asked for

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.sentence)

    def __repr__(self) -> str:
        """Return the text and the number of words, which is what a list of sentences is looked through for."""
        return f"<Parse {self.text!r}, {len(self)} words, confidence {self.confidence:.2f}>"

    @property
    def start(self) -> int:
        """Where the first word begins in the text that was parsed."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """Where the last word ends there."""
        return self.spans[-1][1]

    @property
    def text(self) -> str:
        """The sentence as it was written, line breaks as spaces."""
        return own_text(self.sentence)

    @property
    def forms(self) -> tuple[str, ...]:
        """The words as written."""
        return self.sentence.forms

    @property
    def upos(self) -> tuple[str, ...]:
        """Universal tags."""
        return self.sentence.upos

    @property
    def xpos(self) -> tuple[str, ...]:
        """Tags of the treebank's own."""
        return self.sentence.xpos

    @property
    def tree(self) -> Graph:
        """Heads and labels."""
        return self.sentence.graph

    @property
    def heads(self) -> tuple[int, ...]:
        """The head of each word, word 1 first; 0 is ROOT."""
        return self.tree.heads[1:]

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each word, word 1 first."""
        return self.sentence.labels

    @property
    def words(self) -> tuple[ParsedWord, ...]:
        """The words with all that was found out about them."""
        columns = (self.forms, self.upos, self.xpos, self.heads, self.labels)
        places = ([span[side] for span in self.spans] for side in (0, 1))
        sure = ([each[side] for each in self.word_confidences] for side in (0, 1))
        return tuple(map(ParsedWord, range(1, len(self) + 1), *columns, *places, *sure))

    @property
    def agreement(self) -> tuple[float, ...]:
        """For each word, the share of the steps that had its head and label."""
        return agreement(self.tree, self.steps)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The words whose head or label is not that of G⁰; all of them where the parser started from nothing."""
        old = zip(*self.initial, self.initial_confidences, strict=True)
        return tuple(
            Change(
                word.number,
                word.form,
                old_head,
                old_label,
                word.head,
                word.label,
                None if sure is None else sure.both,
                word.confidence,
                next((t for t, graph in enumerate(self.steps, start=1) if _has_arc(graph, word)), None),
            )
            for word, (old_head, old_label, sure) in zip(self.words, old, strict=True)
            if (old_head, old_label) != (word.head, word.label)
        )

    def to_conllu(self, *, confidence: bool = False) -> str:
        """The sentence in CoNLL-U (or the format it came in), with `Conf=0.97` in MISC if asked for."""
        return (self.with_confidence() if confidence else self.sentence).to_text()

    def with_confidence(self) -> Sentence:
        """The sentence with each word's confidence in MISC, and its own in a comment; its format must have MISC."""
        return with_confidence(self.sentence, [each.both for each in self.word_confidences], self.confidence)

    def ranked_sentences(self, *, confidence: bool = False) -> list[Sentence]:
        """The sentence with each of its k best trees: told apart by their sent_id, and in comments.

        In MISC stands the share of the steps that had a word's head and label, as Agree=0.67.
        """
        first = self.with_confidence() if confidence else self.sentence
        sentences = [first, *(self.sentence.with_graph(each.tree) for each in self.trees[1:])]
        return [
            with_rank(sentence, rank, len(self.trees), each.probability, agreement(each.tree, self.steps))
            for rank, (sentence, each) in enumerate(zip(sentences, self.trees, strict=True), start=1)
        ]

    def to_json(self) -> str:
        """All of it as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON knows."""
        words = [
            {name: _rounded(value) for name, value in word._asdict().items()}
            | {"confidence": _rounded(word.confidence)}
            for word in self.words
        ]
        steps = [{"heads": step.heads[1:], "labels": step.labels[1:]} for step in self.steps]
        tokens = [
            {"form": token.form, "words": list(token.words)} for token in self.sentence.tokens() if len(token.words) > 1
        ]
        whole: dict[str, Any] = {"sent_id": self.sentence.sent_id, "text": self.text}
        whole |= {"start": self.start, "end": self.end}
        whole |= {"confidence": _rounded(self.confidence), "words": words, "steps": steps}
        if self.trees:
            whole["agreement"] = list(map(_rounded, self.agreement))
            whole["trees"] = [
                {name: float(f"{getattr(each, name):.4g}") for name in ("probability", "label_probability")}
                | {"heads": each.tree.heads[1:], "labels": each.tree.labels[1:]}
                for each in self.trees
            ]
        return whole | ({"multiword_tokens": tokens} if tokens else {})

    def to_text(self, *, steps: bool = False, color: bool = False, ascii_only: bool = False) -> str:
        """The tree, or each step, drawn for a terminal."""
        drawn = (draw_text(each, color=color, ascii_only=ascii_only) for each in self.pictures(steps=steps))
        return "\n".join(drawn)

    def to_svg(self, *, steps: bool = False) -> str:
        """A picture of the tree, or of each step with what it changed, as a whole SVG file."""
        return draw_svg(self.pictures(steps=steps))

    def pictures(self, *, steps: bool = False) -> list[Picture]:
        """What is drawn of it: the tree, or all graphs from the initial one to the tree.

        Where the k best trees were asked for, these are drawn for the tree, with what differs from the first.
        """
        tokens = tuple(self.sentence.tokens())
        sure = tuple(each.both for each in self.word_confidences)
        if not steps and self.trees:
            titles = [f"tree {rank}: probability {each.probability:.2g}" for rank, each in enumerate(self.trees, 1)]
            first, *others = (
                Picture(self.forms, _shown(self.upos), each.tree, tokens=tokens, title=title)
                for each, title in zip(self.trees, titles, strict=True)
            )
            return [replace(first, confidence=sure), *(replace(each, before=first.graph) for each in others)]
        if not steps:
            return [Picture(self.forms, _shown(self.upos), self.tree, confidence=sure, tokens=tokens)]
        heads = self.initial.heads
        known = [head for head in heads if head is not None]
        initial = Graph.of_words(known, self.initial.labels) if len(known) == len(heads) else None
        graphs = [*self.steps, *([] if self.steps[-1] == self.tree else [self.tree])]
        drawn = step_pictures(self.forms, _shown(self.upos), graphs, initial, tokens=tokens)
        if self.steps[-1] != self.tree:
            drawn[-1] = replace(drawn[-1], title=drawn[-1].title.replace(f"step {len(graphs)}", "best tree"))
        return [*drawn[:-1], replace(drawn[-1], confidence=sure)]

    def changed_picture(self) -> Picture:
        """The tree with what it changed in G⁰. What a word had no arc or no label for is drawn as if it were old."""
        picture = self.pictures()[0]
        pairs = list(zip(*self.initial, self.heads, self.labels, strict=True))
        heads = [head if old is None else old for old, _, head, _ in pairs]
        labels = [label if old is None or old_label == BLANK else old_label for old, old_label, _, label in pairs]
        return replace(picture, before=Graph.of_words(heads, labels))

    def _repr_html_(self) -> str:
        """A notebook shows the picture, and lets the reader move along a long one."""
        return f'<div style="overflow-x:auto">{self.to_svg()}</div>'

    def to_html(self, *, steps: bool = False) -> str:
        """Its part of a page: the picture, and a table of the words."""
        pictures = self.pictures(steps=steps)
        return page_part(pictures[:1], others=pictures[1:]) if self.trees and not steps else page_part(pictures)


class Parses(list[Parse]):
    """The sentences of a text; a notebook shows them one below the other."""

    def to_arrow(self) -> Any:
        """A pyarrow.Table with one row a word (`treefine.parsing.table` has the columns)."""
        return table_of(self, Content(confidence=True, trees=any(parse.trees for parse in self)))

    def to_pandas(self) -> Any:
        """The same as a pandas.DataFrame."""
        import_package("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The same as a polars.DataFrame."""
        return import_package("polars").from_arrow(self.to_arrow())

    def _repr_html_(self) -> str:
        return "\n".join(parse._repr_html_() for parse in self)


def _has_arc(graph: Graph, word: ParsedWord) -> bool:
    return (graph.heads[word.number], graph.labels[word.number]) == (word.head, word.label)


def _shown(tags: Sequence[str]) -> tuple[str, ...]:
    return () if set(tags) <= {BLANK} else tuple(tags)


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
