"""One sentence of a treebank, stored as the columns of its file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from treefine.errors import TreebankError, described, shorten
from treefine.treebank.graph import Arcs, Graph

if TYPE_CHECKING:
    from typing_extensions import TypeIs

BLANK = "_"
_NOT_IN_CELLS = re.compile("[\t\n\r\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Format:
    """The columns of a file format, counted from 0. None: the format lacks the column. ID is always column 0."""

    name: str
    title: str
    suffixes: tuple[str, ...]
    names: tuple[str, ...]  # of the columns
    more_columns: str = ""  # the name of further columns: CoNLL-2009 has one for each predicate of the sentence
    is_ud: bool = False  # comments, multiword tokens, empty nodes, and exactly one root
    form: int = 1
    lemma: int = 2
    upos: int | None = 3
    xpos: int = 4
    feats: int = 5
    head: int = 6
    deprel: int = 7
    deps: int | None = None
    misc: int | None = None


_NAMES = tuple("ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC".split())
CONLLU = Format("conllu", "CoNLL-U", (".conllu",), _NAMES, is_ud=True, deps=8, misc=9)


@dataclass(frozen=True, slots=True)
class Word:
    """One syntactic word of a sentence. A column that is blank in the file is "_", and a blank head is None."""

    number: int  # the number of the word, from 1
    form: str  # the word as written
    lemma: str  # its dictionary form
    upos: str  # the universal tag
    xpos: str  # the treebank-specific tag
    feats: str  # the features, such as Number=Sing|Person=3
    head: int | None  # the number of the head; 0 is ROOT
    label: str  # the label of the arc from the head
    deps: str  # the enhanced arcs
    misc: str  # anything else


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text: a single word, or a multiword token of several words."""

    form: str  # the token as written
    words: range  # the numbers of its words, from 1
    misc: str  # MISC of the token

    @property
    def id(self) -> str:
        """The ID of a multiword token."""
        return f"{self.words[0]}-{self.words[-1]}"


class Layout(NamedTuple):
    """The whitespace around a sentence in its file, so that it can be written back byte for byte."""

    start: str = ""  # before the first line: a byte order mark, blank lines
    newlines: str | tuple[str, ...] = "\n"  # between its lines; a tuple if they are mixed
    end: str = "\n\n"  # after the last line

    @property
    def newline(self) -> str:
        """The line end for new lines."""
        return "\r\n" if "\r\n" in (self.end or self.newlines) else "\n"


PLAIN = Layout()
SHOWN = 60  # columns of the text in the repr of a sentence


def _column(name: str, doc: str) -> Any:
    """Return a property of a Sentence: the words' cells in the column that has this name in its format."""
    return property(lambda sentence: sentence.column(getattr(sentence.format, name)), doc=doc)


@dataclass(frozen=True, slots=True, repr=False)
class Sentence:
    r"""One sentence of a treebank, with every line of its file. Changing one column leaves the others as they are.

    `len(sentence)`, `for word in sentence` and `sentence[0]` (word 1) are about its words. Create sentences with
    `read_treebank` or `of_words`.

    >>> sentence = Sentence.of_words(["Dogs", "bark"], upos=["NOUN", "VERB"])
    >>> parsed = sentence.with_graph(Graph.of_words([2, 0], ["nsubj", "root"]))
    >>> print(parsed.to_conllu().replace("\t", " "), end="")
    1 Dogs _ NOUN _ _ 2 nsubj _ _
    2 bark _ VERB _ _ 0 root _ _
    <BLANKLINE>
    """

    comments: tuple[str, ...]  # as written, "#" included
    columns: tuple[tuple[str, ...], ...]  # columns[c][i] is cell c of line i; multiword tokens and empty nodes included
    word_lines: Sequence[int]  # the lines that are words
    format: Format = CONLLU
    layout: Layout = field(default=PLAIN, repr=False)
    path: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)  # line number of its first comment or word; 0 if not read from a file
    number: int = field(default=1, compare=False)  # 1 for the file's first sentence; skipped sentences count too
    treebank: str = field(default="", compare=False)  # code such as sv_talbanken; empty: unknown

    @classmethod
    def of_words(
        cls,
        forms: Sequence[str],
        *,
        upos: Sequence[str] | None = None,
        xpos: Sequence[str] | None = None,
        feats: Sequence[str] | None = None,
        lemma: Sequence[str] | None = None,
    ) -> Sentence:
        """Return a CoNLL-U sentence of these words, with their tags, features and lemmas if they are known."""
        forms = _strings(forms, "words")
        if not forms:
            raise TreebankError("A sentence must have at least one word.")
        _check_cells(forms)
        numbers = tuple(map(str, range(1, len(forms) + 1)))
        blank = (BLANK,) * len(forms)
        bare = cls((), (numbers, tuple(forms), *[blank] * 8), range(len(forms)))
        return bare.with_tags(upos=upos, xpos=xpos, feats=feats, lemma=lemma)

    def __len__(self) -> int:
        return len(self.word_lines)

    def __iter__(self) -> Iterator[Word]:
        return iter(self.words)

    def __getitem__(self, index: int) -> Word:
        return self.words[index]

    def __repr__(self) -> str:
        """Return the beginning of the text and the number of words, so that a list of sentences is easy to scan."""
        return f"<Sentence {shorten(own_text(self), SHOWN)!r}, {len(self)} word{'s' * (len(self) != 1)}>"

    def column(self, index: int | None) -> tuple[str, ...]:
        """Return one column of the words; blanks if the format does not have the column."""
        if index is None:
            return (BLANK,) * len(self)
        cells = self.columns[index]
        return cells if len(self) == len(cells) else tuple([cells[line] for line in self.word_lines])

    forms: ClassVar[tuple[str, ...]] = _column("form", "The words as written.")
    upos: ClassVar[tuple[str, ...]] = _column("upos", "The universal (or coarse) tags.")
    xpos: ClassVar[tuple[str, ...]] = _column("xpos", "The tags of the treebank's own tag set.")
    feats: ClassVar[tuple[str, ...]] = _column("feats", "The features, such as Number=Sing.")
    lemma: ClassVar[tuple[str, ...]] = _column("lemma", "The lemmas.")
    labels: ClassVar[tuple[str, ...]] = _column("deprel", "The label of each word, starting with word 1.")

    @property
    def heads(self) -> tuple[int | None, ...]:
        """The head of each word, starting with word 1: 0 is ROOT, None is blank."""
        return tuple([None if head == BLANK else int(head) for head in self.column(self.format.head)])

    @property
    def arcs(self) -> Arcs:
        """The heads and labels as they are in the file."""
        return Arcs(self.heads, self.labels)

    @property
    def graph(self) -> Graph:
        """The heads and labels as a graph. Raises an error if a word has no head."""
        heads = self.heads
        for number, head in enumerate(heads, start=1):
            if head is None:
                raise self.error("HEAD is blank.", word=number, hint="Parse the file first, or fill in the column.")
        return Graph.of_words([head for head in heads if head is not None], self.labels)

    @property
    def words(self) -> tuple[Word, ...]:
        """The words with all their columns."""
        cells = (self.forms, self.lemma, self.upos, self.xpos, self.feats, self.heads, self.labels)
        rest = map(self.column, (self.format.deps, self.format.misc))
        return tuple(map(Word, range(1, len(self) + 1), *cells, *rest))

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens of the text: a multiword token in place of its words, and no empty nodes."""
        misc = self.columns[self.format.misc] if self.format.misc is not None else (BLANK,) * len(self.columns[0])
        covered = 0
        for identifier, form, note in zip(self.columns[0], self.columns[self.format.form], misc, strict=True):
            first, _, last = identifier.partition("-")
            if "." in identifier or (not last and int(first) <= covered):
                continue
            covered = int(last or first)
            yield Token(form, range(int(first), covered + 1), note)

    @property
    def sent_id(self) -> str:
        """The value of the comment `# sent_id = …`; empty without one."""
        return self.comment("sent_id") or ""

    @property
    def text(self) -> str | None:
        """The value of the comment `# text = …`; None without one."""
        return self.comment("text")

    def comment(self, key: str) -> str | None:
        """Return the value of the first comment `# key = value`."""
        for comment in self.comments:
            name, equals, value = comment[1:].partition("=")
            if equals and name.strip() == key:
                return value.strip()
        return None

    def error(self, message: str, *, word: int | None = None, line: int | None = None, hint: str = "") -> TreebankError:
        """Return an error at this sentence, one of its words, or one of its lines (0 is the first after comments)."""
        if word is not None:
            line = self.word_lines[word - 1]
        in_file = self.line if line is None else self.line + len(self.comments) + line
        return TreebankError(
            message,
            hint=hint,
            path=self.path,
            line=in_file if self.line else None,
            sent_id=self.sent_id,
            sentence=self.number,
            word="" if line is None else self.columns[0][line],
        )

    def with_graph(self, graph: Graph) -> Sentence:
        """Return the sentence with these heads and labels, and DEPS changed accordingly (see `follow_tree`)."""
        if not isinstance(graph, Graph):
            raise self.error(f"The heads and labels must be a Graph, not {described(graph)}.")
        return self.with_arcs(graph.arcs)

    def with_arcs(self, arcs: Arcs) -> Sentence:
        """Return the sentence with these arcs, as `with_graph` does; some words may have no head."""
        heads, labels = [BLANK if head is None else str(head) for head in arcs.heads], arcs.labels
        deps = self.column(self.format.deps)
        if {*deps} == {BLANK}:
            return self._with_columns(head=heads, deprel=labels)
        deps = tuple(map(follow_tree, deps, self.column(self.format.head), self.labels, heads, labels))
        return self._with_columns(head=heads, deprel=labels, deps=deps)

    def with_tags(
        self,
        *,
        upos: Sequence[str] | None = None,
        xpos: Sequence[str] | None = None,
        feats: Sequence[str] | None = None,
        lemma: Sequence[str] | None = None,
    ) -> Sentence:
        """Return the sentence with these tags, features and lemmas; None leaves a column as it is."""
        return self._with_columns(upos=upos, xpos=xpos, feats=feats, lemma=lemma)

    def with_parse(
        self,
        arcs: Arcs,
        columns: Sequence[str],
        tags: Sequence[Sequence[str]],
        *,
        replaces_tags: bool = False,
        kept: Sequence[str] = (),
    ) -> Sentence:
        """Return the sentence with these arcs, and with these tags for words that had none.

        If some word has features, FEATS stays: "_" then means a word without features. With `replaces_tags`, other
        words get the new tags too, except in the columns `kept`.
        """
        changed: dict[str, Sequence[str]] = {}
        for column, new in zip(columns, tags, strict=False):
            if column == "upos" and self.format.upos is None:
                continue
            old: tuple[str, ...] = getattr(self, column)
            has_blanks = column != "feats" or set(old) == {BLANK}  # otherwise a word with "_" has no features
            values = tuple(
                best if (replaces_tags and column not in kept) or (has_blanks and tag == BLANK) else tag
                for tag, best in zip(old, new, strict=True)
            )
            if values != old:
                changed[column] = values
        return self.with_arcs(arcs).with_tags(**changed)

    def with_misc(self, notes: Sequence[str]) -> Sentence:
        """Return the sentence with these MISC values, one per word; other lines keep theirs."""
        return self._with_columns(misc=notes)

    def _with_columns(self, **changed: Sequence[str] | None) -> Sentence:
        """Return the sentence with these cells for its words; None leaves a column as it is."""
        columns = list(self.columns)
        for name, values in changed.items():
            if values is None:
                continue
            index = getattr(self.format, name)
            if index is None:
                raise self.error(f"{self.format.title} has no column for {name.upper()}.")
            cells = _strings(values, name)
            if len(cells) != len(self):
                raise self.error(f"There are {len(cells)} values for {len(self)} words.", hint="Give one per word.")
            _check_cells([cell for old, cell in zip(self.column(index), cells, strict=True) if cell != old])
            if len(cells) < len(columns[index]):  # multiword tokens and empty nodes keep their cells
                whole = list(columns[index])
                for line, cell in zip(self.word_lines, cells, strict=True):
                    whole[line] = cell
                cells = tuple(whole)
            columns[index] = cells
        return replace(self, columns=tuple(columns))

    def to_conllu(self) -> str:
        """Return the sentence in CoNLL-U, or in the format that it was read in, with the whitespace around it."""
        start, newlines, end = self.layout
        lines = [*self.comments, *map("\t".join, zip(*self.columns, strict=True))]
        if isinstance(newlines, str):
            return start + newlines.join(lines) + end
        return start + "".join(map(str.__add__, lines, (*newlines, ""))) + end

    def to_text(self, *, color: bool = False, ascii_only: bool = False) -> str:
        """Draw the tree as text for a terminal, one word per line, with ANSI colours if `color` is True."""
        from treefine.drawing.picture import picture_of
        from treefine.drawing.text import draw_text

        return draw_text(picture_of(self), color=color, ascii_only=ascii_only)

    def to_svg(self) -> str:
        """Return a complete SVG file that shows the text and the tree."""
        from treefine.drawing.svg import to_svg

        return to_svg(self)

    def to_html(self) -> str:
        """Return a complete HTML page with a picture of the tree and a table of the words."""
        from treefine.drawing.html import to_html

        return to_html(self)

    def _repr_html_(self) -> str:
        """Return the picture for a notebook; a long one can be scrolled."""
        return f'<div style="overflow-x:auto">{self.to_svg()}</div>'


def own_text(sentence: Sentence) -> str:
    """Return the text of a sentence: the comment `# text` if it has one, or its tokens joined by spaces."""
    return sentence.text if sentence.text is not None else " ".join(token.form for token in sentence.tokens())


class HasSentence(Protocol):
    """A result that contains a sentence, such as a Parse."""

    @property
    def sentence(self) -> Sentence:
        """The sentence."""


def sentence_in(given: object) -> Sentence | None:
    """Return a Sentence itself, or the sentence of a Parse; return None for anything else."""
    if isinstance(given, Sentence):
        return given
    inner = getattr(given, "sentence", None)
    return inner if isinstance(inner, Sentence) else None


def sentences_in(given: object, what: str) -> Iterator[Sentence]:
    """Yield the sentences of an iterable of Sentences or Parses, which is called `what` in the error for others."""
    hint = "Pass a list of Sentences or Parses."
    if not is_list_like(given) or sentence_in(given) is not None:
        raise TreebankError(f"{what} must be several sentences, not {described(given)}.", hint=hint)
    for number, each in enumerate(given, start=1):
        sentence = sentence_in(each)
        if sentence is None:
            raise TreebankError(f"Item {number} of {what} is not a sentence but {described(each)}.", hint=hint)
        yield sentence


def is_list_like(value: object) -> TypeIs[Iterable[Any]]:
    """Return whether a value can be a list of words, texts or sentences: an iterable, but not a string or a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _strings(values: object, what: str) -> tuple[str, ...]:
    """Return a list as a tuple; raise an error for anything else."""
    if not is_list_like(values):
        hint = 'Pass a list of strings, as in ["A", "dog"].'
        raise TreebankError(f"The {what} of a sentence must be a list, not {described(values)}.", hint=hint)
    return tuple(values)


def _check_cells(cells: Sequence[str]) -> None:
    if all(cells) and {*map(type, cells)} <= {str} and not _NOT_IN_CELLS.search("".join(cells)):
        return
    for cell in cells:
        if not isinstance(cell, str) or not cell or _NOT_IN_CELLS.search(cell):
            reason = "it is not a string, is empty, or contains a line break, a tab, a null or half a surrogate pair"
            raise TreebankError(f"{cell!r} cannot be a cell of a treebank: {reason}.")


def follow_tree(deps: str, old_head: str, old_label: str, head: str, label: str) -> str:
    """Return DEPS of a word whose basic arc has changed: the entry that repeated the old arc repeats the new one.

    An entry repeats the basic arc if it has the same head and the same label, with or without an enhanced subtype.
    Other enhanced arcs stay, because a basic tree does not say how to change them.

    >>> follow_tree("4:obl:in|7:nsubj", "4", "obl", "2", "nmod")
    '2:nmod|7:nsubj'
    """
    if (old_head, old_label) == (head, label) or deps == BLANK:
        return deps
    entries = deps.split("|")
    for exact in (f"{old_head}:{old_label}", *entries):
        if exact in entries and (exact + ":").startswith(f"{old_head}:{old_label}:"):
            rest = [entry for entry in entries if entry not in (exact, f"{head}:{label}")]
            return "|".join(sorted([*rest, f"{head}:{label}"], key=deps_order))
    return deps


def deps_order(entry: str) -> tuple[str, str]:
    """Sort DEPS by head, with empty nodes such as 5.1 after the word they follow."""
    return re.sub("[0-9]+", lambda number: number[0].zfill(9), entry.partition(":")[0]), entry
