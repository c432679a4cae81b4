"""Parse: a parsed sentence with its place in the text, the confidence in each arc, and its refinement steps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, ClassVar, SupportsIndex, overload

from treefine.config import COLUMNS, Column
from treefine.drawing.html import to_html
from treefine.drawing.picture import Picture, shown_tags, step_pictures
from treefine.drawing.svg import to_svg
from treefine.drawing.text import draw_text
from treefine.errors import TreefineError, shorten
from treefine.model.vocabulary import language_of
from treefine.parsing.confidence import Confidence, RankedTree, agreement
from treefine.parsing.table import Content, import_package, table_of
from treefine.treebank.conllu import texts_in_file
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.raw_text import Span
from treefine.treebank.sentence import BLANK, SHOWN, Sentence, Word, is_list_like, own_text


@dataclass(frozen=True, slots=True)
class ParsedWord(Word):
    """One word of a parsed sentence: a Word with its place in the text and the confidence in its annotation.

    The confidence in a tag, the features or the lemma is None if the input gave it.
    """

    head: int  # the number of the head; 0 is ROOT
    start: int  # the offset of the first character in the parsed text
    end: int  # the offset after the last character; the words of a multiword token share `start` and `end`
    arc_confidence: float  # the probability that the head is right
    label_confidence: float  # the probability that the label is right if the head is
    upos_confidence: float | None = None  # the probability that the universal tag is right
    xpos_confidence: float | None = None  # the same for the treebank-specific tag
    feats_confidence: float | None = None  # the same for the features, all together
    lemma_confidence: float | None = None  # the same for the lemma

    @property
    def confidence(self) -> float:
        """The probability that head and label are right."""
        return self.arc_confidence * self.label_confidence


_property: Any = property  # mypy takes an attribute that it is assigned to for its value
_NEW_DOC = "Whether {} was replaced; a value for a word that had none is not a change."


def _is_new(column: Column, change: Change) -> bool:
    return getattr(change, f"old_{column}") not in (BLANK, getattr(change, column))


@dataclass(frozen=True, slots=True)
class Change:
    """A word whose head or label differs from the initial parse, or whose tag, features or lemma were replaced."""

    word: int  # the number of the word, from 1
    form: str  # the word as written
    old_head: int | None  # the head in the initial parse, or None
    old_label: str  # the label in the initial parse
    head: int  # the new head
    label: str  # the new label
    before: float | None  # the confidence in the old head and label after the last step; None if they were not read
    after: float  # the confidence in the new head and label after the last step
    step: int | None  # the first step whose graph has the new arc; None if only the tree has it
    old_upos: str = BLANK  # the universal tag in the input
    upos: str = BLANK  # the universal tag now
    old_xpos: str = BLANK  # the treebank-specific tag in the input
    xpos: str = BLANK  # the treebank-specific tag now
    old_feats: str = BLANK  # the features in the input
    feats: str = BLANK  # the features now
    old_lemma: str = BLANK  # the lemma in the input
    lemma: str = BLANK  # the lemma now

    @property
    def has_new_arc(self) -> bool:
        """Whether the head or the label is new."""
        return (self.old_head, self.old_label) != (self.head, self.label)

    has_new_upos: ClassVar[bool] = _property(partial(_is_new, "upos"), doc=_NEW_DOC.format("the universal tag"))
    has_new_xpos: ClassVar[bool] = _property(partial(_is_new, "xpos"), doc=_NEW_DOC.format("the treebank-specific tag"))
    has_new_feats: ClassVar[bool] = _property(partial(_is_new, "feats"), doc=_NEW_DOC.format("the features"))
    has_new_lemma: ClassVar[bool] = _property(partial(_is_new, "lemma"), doc=_NEW_DOC.format("the lemma"))

    @property
    def has_new_tag(self) -> bool:
        """Whether a tag, the features or the lemma were replaced."""
        return self.has_new_upos or self.has_new_xpos or self.has_new_feats or self.has_new_lemma


_values_of: Callable[[Word], tuple[Any, ...]] = attrgetter(*(each.name for each in fields(Word)))
_HEAD = attrgetter("head")
_TAG_COLUMNS = ("upos", "xpos", "feats", "lemma")


@dataclass(frozen=True, repr=False)
class Parse:
    """One parsed sentence: its tags, its tree, the confidence in them, and the refinement steps.

    `for word in parse` and `parse[0]` give its words. A notebook shows it as a picture.
    """

    sentence: Sentence  # the sentence with its tree and tags
    spans: tuple[Span, ...]  # the offsets of each word in the parsed text, or in `text` if the input was words
    word_confidences: Sequence[Confidence]  # the confidence in the head and label of each word
    confidence: float  # the probability that all heads and labels are right, and the sentence is cut right
    steps: Sequence[Graph]  # the graphs G¹ … Gᵀ, which may have cycles; empty for more than 2,000 words
    initial: Arcs  # the initial parse G⁰; if it was empty, no word has a head
    initial_confidences: Sequence[Confidence | None]  # the confidence in the arcs of G⁰ after the last step
    converged: bool  # whether the last step repeated its input, so that further steps would change nothing
    trees: tuple[RankedTree, ...] = ()  # the k best trees, starting with the parse; empty if k is 1
    was_sure: bool = False  # whether refinement stopped because of `stop_above`
    step_confidences: Sequence[Sequence[Confidence]] = ()  # the confidence of each step in its own arcs
    given_tags: Sequence[Word] = ()  # the words of the input, with its tags; empty if they are not known
    trust: tuple[float, ...] = ()  # how much the arcs of each initial parse counted; empty if they did not
    tag_confidences: Mapping[str, tuple[float, ...]] = field(
        default_factory=dict
    )  # by column ("upos", "xpos", "feats", "lemma"): the probability that the model's own value is right
    cut_confidence: float = 1.0  # the probability that the sentence is cut right; 1 if it was given or is not known

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.sentence)

    def __iter__(self) -> Iterator[ParsedWord]:
        """Yield the words."""
        return iter(self.words)

    def __getitem__(self, index: int) -> ParsedWord:
        """Return a word; index 0 is word 1."""
        return self.words[index]

    def __repr__(self) -> str:
        """Return the text, the number of words and the confidence, so that a list of parses is easy to scan."""
        size = f"{len(self)} word{'s' * (len(self) != 1)}"
        return f"<Parse {shorten(own_text(self.sentence), SHOWN)!r}, {size}, confidence {self.confidence:.2f}>"

    @property
    def start(self) -> int:
        """The offset of the first word in the parsed text."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """The offset after the last word in the parsed text."""
        return self.spans[-1][1]

    @property
    def text(self) -> str:
        """The sentence as written, with line breaks as spaces."""
        return own_text(self.sentence)

    @property
    def language(self) -> str:
        """The code of the language, such as "sv", if the model knows several; empty if it is not identified."""
        return language_of(self.sentence.treebank)

    @property
    def tree(self) -> Graph:
        """The heads and labels of the parse."""
        return self.sentence.graph

    @property
    def heads(self) -> tuple[int, ...]:
        """The head of each word, word 1 first; 0 is ROOT."""
        return self.tree.heads[1:]

    forms: ClassVar[tuple[str, ...]] = _property(attrgetter("sentence.forms"), doc="The words as written.")
    upos: ClassVar[tuple[str, ...]] = _property(attrgetter("sentence.upos"), doc="The universal tags.")
    xpos: ClassVar[tuple[str, ...]] = _property(attrgetter("sentence.xpos"), doc="The treebank-specific tags.")
    feats: ClassVar[tuple[str, ...]] = _property(attrgetter("sentence.feats"), doc="The features, such as Number=Plur.")
    lemma: ClassVar[tuple[str, ...]] = _property(attrgetter("sentence.lemma"), doc="The lemmas.")
    labels: ClassVar[tuple[str, ...]] = _property(
        attrgetter("sentence.labels"), doc="The label of each word, word 1 first."
    )

    @cached_property
    def words(self) -> tuple[ParsedWord, ...]:
        """The words with their tags, arcs, offsets and confidences."""
        tags = zip(*map(self.confidences_in, COLUMNS), strict=True)
        columns = zip(self.sentence.words, self.spans, self.word_confidences, tags, strict=True)
        values: Iterator[tuple[Any, ...]] = (
            (*_values_of(word), *span, sure.arc, sure.label, *of_tags) for word, span, sure, of_tags in columns
        )
        return tuple(ParsedWord(*each) for each in values)

    def confidences_in(self, column: Column) -> Sequence[float | None]:
        """Return the confidence in each word's value of a column such as "lemma"; None where the input gave the value.

        A value that equals that of the input counts as given.
        """
        confidences = self.tag_confidences.get(column)
        if confidences is None:
            return (None,) * len(self)
        before = [getattr(each, column) for each in self.given_tags] or [BLANK] * len(self)
        is_filled = column != "feats" or set(before) == {BLANK}  # otherwise a word with "_" has no features
        return [
            confidence if new != old or (is_filled and old == BLANK) else None
            for confidence, new, old in zip(confidences, getattr(self, column), before, strict=True)
        ]

    @property
    def root(self) -> ParsedWord:
        """The word whose head is ROOT."""
        return self.words[self.heads.index(0)]

    def head_of(self, word: ParsedWord) -> ParsedWord | None:
        """Return the head of a word of this sentence; None for the root."""
        self._check(word)
        return self.words[word.head - 1] if word.head else None

    def children(self, word: ParsedWord) -> tuple[ParsedWord, ...]:
        """Return the words whose head is this word, in the order of the sentence."""
        self._check(word)
        return self._children.get(word.number, ())

    @cached_property
    def _children(self) -> Mapping[int, tuple[ParsedWord, ...]]:
        """The dependents of each head: walking a tree reads each word once."""
        return {head: tuple(words) for head, words in groupby(sorted(self.words, key=_HEAD), key=_HEAD)}

    def subtree(self, word: ParsedWord) -> tuple[ParsedWord, ...]:
        """Return this word and all words below it, in the order of the sentence."""
        below = [word]
        for each in below:  # it grows
            below += self.children(each)
        return tuple(sorted(below, key=attrgetter("number")))

    def _check(self, word: ParsedWord) -> None:
        """Raise an error for a word of another sentence."""
        if word not in self.words[word.number - 1 : word.number]:
            message = f"{word!r} is not a word of this parse."
            raise TreefineError(message, hint="Pass one of its words, such as parse[0].")

    @property
    def agreement(self) -> tuple[float, ...]:
        """The share of the steps in which each word had its final head and label."""
        return agreement(self.tree, self.steps)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The words whose head or label differs from G⁰, and those whose tags, features or lemmas were replaced.

        They are all words if the parser started from an empty graph.
        """
        tags, steps = self.given_tags or self.sentence.words, [each.arcs for each in self.steps]
        changes = []
        for word, *arc, before, old in zip(self.words, *self.initial, self.initial_confidences, tags, strict=True):
            new, place = (word.head, word.label), word.number - 1
            found_in = (t for t, step in enumerate(steps, start=1) if (step.heads[place], step.labels[place]) == new)
            sure = None if before is None else before.both, word.confidence
            of_tags = chain.from_iterable((getattr(old, column), getattr(word, column)) for column in _TAG_COLUMNS)
            values: tuple[Any, ...] = (word.number, word.form, *arc, *new, *sure, next(found_in, None), *of_tags)
            changes.append(Change(*values))
        return tuple(each for each in changes if each.has_new_arc or each.has_new_tag)

    def to_conllu(self, *, confidence: bool = False) -> str:
        """Return the sentence in CoNLL-U (or its input format), with `Conf=0.97` in MISC if `confidence` is set."""
        return (self.with_confidence() if confidence else self.sentence).to_conllu()

    def with_confidence(self) -> Sentence:
        """Return the sentence with confidences in MISC and in a comment. Its format must have a MISC column."""
        return with_confidence(self.sentence, [each.both for each in self.word_confidences], self.confidence)

    def ranked_sentences(self, *, confidence: bool = False) -> list[Sentence]:
        """Return one copy of the sentence for each of its k best trees, with its own sent_id and comments.

        MISC holds the share of the steps that had the word's head and label, such as Agree=0.67.
        """
        sentences = []
        for rank, each in enumerate(self.trees, start=1):
            if rank == 1:  # the first tree has the start of the document
                sentence = self.with_confidence() if confidence else self.sentence
            else:
                named = f"# sent_id = {self.sentence.sent_id}-tree{rank}"
                kept = [comment for comment in self.sentence.comments if not _STARTS.match(comment)]
                comments = [named if _key(comment) == "sent_id" else comment for comment in kept]
                sentence = replace(self.sentence.with_graph(each.tree), comments=tuple(comments))
            values = {"tree": f"{rank} of {len(self.trees)}", "probability": f"{each.probability:.4g}"}
            sentences.append(_marked(sentence, "Agree", agreement(each.tree, self.steps), values))
        return sentences

    def to_json(self) -> str:
        """Return the parse as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the parse as values that JSON can represent."""
        whole: dict[str, Any] = {
            "sent_id": self.sentence.sent_id,
            "text": self.text,
            "start": self.start,
            "end": self.end,
            "confidence": _rounded(self.confidence),
            "words": [{name: _rounded(getattr(word, name)) for name in _JSON_NAMES} for word in self.words],
            "steps": [each.arcs._asdict() for each in self.steps],
        }
        if self.language:
            whole["language"] = self.language
        if self.cut_confidence < 1:
            whole["cut_confidence"] = _rounded(self.cut_confidence)
        if self.trees:
            whole["agreement"] = list(map(_rounded, self.agreement))
            whole["trees"] = [
                {name: float(f"{getattr(each, name):.4g}") for name in ("probability", "label_probability")}
                | each.tree.arcs._asdict()
                for each in self.trees
            ]
        tokens = (each for each in self.sentence.tokens() if len(each.words) > 1)
        if multiword := [{"form": each.form, "words": list(each.words)} for each in tokens]:
            whole["multiword_tokens"] = multiword
        return whole

    def to_text(self, *, steps: bool = False, color: bool = False, ascii_only: bool = False) -> str:
        """Draw the tree, or each step, as text for a terminal."""
        drawn = (draw_text(each, color=color, ascii_only=ascii_only) for each in self.pictures(steps=steps))
        return "\n".join(drawn)

    def to_svg(self, *, steps: bool = False) -> str:
        """Return a complete SVG file that shows the text and the tree, or each step with its changes."""
        return to_svg(self, steps=steps)

    def pictures(self, *, steps: bool = False) -> list[Picture]:
        """Return the pictures to draw: the tree, or with `steps` all graphs from the initial one to the tree.

        If the parse has k best trees, they are drawn instead of the tree, with their differences from the first.
        """
        tokens = tuple(self.sentence.tokens())
        of_tree: dict[str, Any] = {
            "confidence": tuple(each.both for each in self.word_confidences),
            "lemmas": shown_tags(self.lemma),
            "feats": shown_tags(self.feats),
        }
        draw = partial(Picture, self.forms, shown_tags(self.upos), tokens=tokens)
        if not steps and self.trees:
            titles = [f"tree {rank}: probability {each.probability:.2g}" for rank, each in enumerate(self.trees, 1)]
            first, *others = map(lambda each, title: draw(each.tree, title=title), self.trees, titles)
            return [replace(first, **of_tree), *(replace(each, before=first.graph) for each in others)]
        if not steps:
            return [draw(self.tree, **of_tree)]
        if not self.steps:
            raise self.sentence.error("The steps of so long a sentence cannot be drawn.", hint="Omit --show-steps.")
        heads = self.initial.heads
        known = [head for head in heads if head is not None]
        initial = Graph.of_words(known, self.initial.labels) if len(known) == len(heads) else None
        graphs = [*self.steps, *([] if self.steps[-1] == self.tree else [self.tree])]
        drawn = step_pictures(draw(), graphs, initial)
        if self.steps[-1] != self.tree:
            drawn[-1] = replace(drawn[-1], title=drawn[-1].title.replace(f"step {len(graphs)}", "best tree"))
        return [*drawn[:-1], replace(drawn[-1], **of_tree)]

    def changed_picture(self) -> Picture:
        """Return a picture of the tree that marks the changes from G⁰, except arcs and labels that G⁰ lacks."""
        picture = self.pictures()[0]
        pairs = list(zip(*self.initial, self.heads, self.labels, strict=True))
        heads = [head if old is None else old for old, _, head, _ in pairs]
        labels = [label if old is None or old_label == BLANK else old_label for old, old_label, _, label in pairs]
        return replace(picture, before=Graph.of_words(heads, labels))

    def _repr_html_(self) -> str:
        """Return the picture for a notebook; a long one can be scrolled."""
        return f'<div style="overflow-x:auto">{self.to_svg()}</div>'

    def to_html(self, *, steps: bool = False) -> str:
        """Return a complete HTML page with the picture, or each step, and a table of the words."""
        return to_html(self, steps=steps)


class Parses(list[Parse]):
    """The parsed sentences of a text or a list: a list of Parse that can be written in several formats.

    Slices and sums are Parses too. A notebook shows the trees one below the other.
    """

    @overload
    def __getitem__(self, index: SupportsIndex) -> Parse: ...
    @overload
    def __getitem__(self, index: slice) -> Parses: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Parse | Parses:
        """Return one parse, or the Parses of a slice."""
        return Parses(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def __add__(self, other: Iterable[Parse]) -> Parses:  # type: ignore[override]
        """Return these parses followed by others."""
        return Parses([*self, *other]) if is_list_like(other) else NotImplemented

    def to_conllu(self, *, confidence: bool = False) -> str:
        """Return the sentences in CoNLL-U (or their input format), as in a file.

        With `confidence`, MISC has the confidence in each word, such as `Conf=0.97`. If there are k best trees, each
        sentence is written k times.
        """
        sentences = (
            each.ranked_sentences(confidence=confidence)
            if each.trees
            else [each.with_confidence() if confidence else each.sentence]
            for each in self
        )
        return "".join(texts_in_file(chain.from_iterable(sentences)))

    def to_json(self) -> str:
        """Return JSON lines: one line per sentence, each a JSON object and a line end."""
        return "".join(parse.to_json() + "\n" for parse in self)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a list with the values of each sentence, as `Parse.to_dict` does."""
        return [parse.to_dict() for parse in self]

    def to_text(self, *, steps: bool = False, color: bool = False, ascii_only: bool = False) -> str:
        """Draw each tree, or each step, as text for a terminal, with a blank line between sentences."""
        return "\n".join(parse.to_text(steps=steps, color=color, ascii_only=ascii_only) for parse in self)

    def to_svg(self, *, steps: bool = False) -> str:
        """Return a complete SVG file that shows all trees, or all their steps; at most 200 sentences."""
        return to_svg(self, steps=steps)

    def to_html(self, *, steps: bool = False, title: str = "Trees") -> str:
        """Return a complete HTML page with a section per sentence; `title` is its heading."""
        return to_html(self, steps=steps, title=title)

    def to_arrow(self) -> Any:
        """Return a pyarrow.Table with one row per word (`treefine.parsing.table` lists the columns)."""
        return table_of(self, Content(confidence=True, trees=any(parse.trees for parse in self)))

    def to_pandas(self) -> Any:
        """Return the same table as a pandas.DataFrame."""
        import_package("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the same table as a polars.DataFrame."""
        return import_package("polars").from_arrow(self.to_arrow())

    def _repr_html_(self) -> str:
        return "\n".join(parse._repr_html_() for parse in self)


_JSON_NAMES = (  # of the values of a word
    *("number", "form", "lemma", "upos", "xpos", "feats", "head", "label", "start", "end"),
    *("arc_confidence", "label_confidence", "confidence"),
    *(f"{column}_confidence" for column in _TAG_COLUMNS),
)


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


_STARTS = re.compile(r"#\s*(generator\s*=|new(doc|par)\b)")


def with_confidence(sentence: Sentence, words: Sequence[float], whole: float) -> Sentence:
    """Return the sentence with each word's confidence in MISC and the confidence of the whole in a comment."""
    return _marked(sentence, "Conf", words, {"confidence": f"{whole:.2f}"})


def _marked(sentence: Sentence, name: str, numbers: Sequence[float], values: Mapping[str, str]) -> Sentence:
    """Return the sentence with a number per word in MISC, and with comments; both replace those of the same name."""
    notes = []
    for note, number in zip(sentence.column(sentence.format.misc), numbers, strict=True):
        kept = [each for each in note.split("|") if each != BLANK and each.partition("=")[0] != name]
        notes.append("|".join([*kept, f"{name}={number:.2f}"]))
    comments = [comment for comment in sentence.comments if _key(comment) not in values]
    comments += [f"# {key} = {value}" for key, value in values.items()]
    return replace(sentence.with_misc(notes), comments=tuple(comments))


def _key(comment: str) -> str:
    return comment.partition("=")[0].strip("# ") if "=" in comment else ""
