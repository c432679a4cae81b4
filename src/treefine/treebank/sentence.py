"""One sentence of a treebank, stored as the columns of its file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from treefine.errors import TreebankError
from treefine.treebank.graph import Arcs, Graph

BLANK = "_"
_BREAK = re.compile("[\t\n\r\0]")  # characters that no cell can hold


@dataclass(frozen=True, slots=True)
class Format:
    """The columns of a file format, counted from 0. None: the format lacks the column. ID is always column 0."""

    name: str
    title: str
    suffixes: tuple[str, ...]
    width: int  # columns per line; CoNLL-2009 adds one for each predicate of the sentence
    has_more_columns: bool = False
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


CONLLU = Format("conllu", "CoNLL-U", (".conllu",), 10, is_ud=True, deps=8, misc=9)


class Word(NamedTuple):
    """One syntactic word. `head` is None if it is blank in the file."""

    number: int  # 1..n; 0 is ROOT
    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str
    head: int | None
    label: str
    deps: str
    misc: str


class Token(NamedTuple):
    """A token of the text: a single word, or a multiword token of several words."""

    form: str
    words: range  # word numbers, from 1
    misc: str


class Layout(NamedTuple):
    """The whitespace around a sentence in its file, so that it can be written back byte for byte."""

    start: str = ""  # before the first line: a byte order mark, blank lines
    newlines: str | tuple[str, ...] = "\n"  # between its lines; a tuple if they are mixed
    end: str = "\n\n"  # after the last line


PLAIN = Layout()


@dataclass(frozen=True, slots=True)
class Sentence:
    r"""One sentence with every line of its file; changing one column leaves the other columns as they are.

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

    @classmethod
    def of_words(
        cls, forms: Sequence[str], *, upos: Sequence[str] | None = None, xpos: Sequence[str] | None = None
    ) -> Sentence:
        """Return a CoNLL-U sentence of these words whose other columns are blank."""
        if not forms:
            raise TreebankError("A sentence must have at least one word.")
        _check_cells(forms)
        numbers = tuple(map(str, range(1, len(forms) + 1)))
        blank = (BLANK,) * len(forms)
        bare = cls((), (numbers, tuple(forms), *[blank] * 8), range(len(forms)))
        return bare.with_tags(upos=upos, xpos=xpos)

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.word_lines)

    def column(self, index: int | None) -> tuple[str, ...]:
        """Return one column of the words; blanks if the format does not have the column."""
        if index is None:
            return (BLANK,) * len(self)
        cells = self.columns[index]
        return cells if len(self) == len(cells) else tuple([cells[line] for line in self.word_lines])

    @property
    def forms(self) -> tuple[str, ...]:
        """The words as written."""
        return self.column(self.format.form)

    @property
    def upos(self) -> tuple[str, ...]:
        """The universal (or coarse) tags."""
        return self.column(self.format.upos)

    @property
    def xpos(self) -> tuple[str, ...]:
        """The tags of the treebank's own tag set."""
        return self.column(self.format.xpos)

    @property
    def heads(self) -> tuple[int | None, ...]:
        """The head of each word, starting with word 1: 0 is ROOT, None is blank."""
        return tuple([None if head == BLANK else int(head) for head in self.column(self.format.head)])

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each word, starting with word 1."""
        return self.column(self.format.deprel)

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
        form = self.format
        columns = [self.column(each) for each in (form.form, form.lemma, form.upos, form.xpos, form.feats)]
        rest = [self.column(each) for each in (form.deprel, form.deps, form.misc)]
        return tuple(map(Word, range(1, len(self) + 1), *columns, self.heads, *rest))

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
        return self.with_arcs(graph.arcs)

    def with_arcs(self, arcs: Arcs) -> Sentence:
        """Return the sentence with these arcs, as `with_graph` does; some words may have no head."""
        columns = self.format
        heads, labels = tuple([BLANK if head is None else str(head) for head in arcs.heads]), arcs.labels
        changed = {columns.head: heads, columns.deprel: labels}
        if columns.deps is not None:
            before = (self.column(columns.deps), self.column(columns.head), self.labels)
            changed[columns.deps] = tuple(map(follow_tree, *before, heads, labels))
        return self._with_columns(changed)

    def with_tags(self, *, upos: Sequence[str] | None = None, xpos: Sequence[str] | None = None) -> Sentence:
        """Return the sentence with these tags; None leaves a column as it is."""
        if upos is not None and self.format.upos is None:
            raise self.error(f"{self.format.title} has no column for UPOS.")
        wanted = ((self.format.upos, upos), (self.format.xpos, xpos))
        return self._with_columns(
            {index: tuple(tags) for index, tags in wanted if index is not None and tags is not None}
        )

    def with_misc(self, notes: Sequence[str]) -> Sentence:
        """Return the sentence with these MISC values, one per word; other lines keep theirs."""
        if self.format.misc is None:
            raise self.error(f"{self.format.title} has no column for MISC.")
        return self._with_columns({self.format.misc: tuple(notes)})

    def _with_columns(self, changed: dict[int, tuple[str, ...]]) -> Sentence:
        columns = list(self.columns)
        for index, cells in changed.items():
            if len(cells) != len(self):
                raise ValueError(f"{len(cells)} values for {len(self)} words")
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


def _check_cells(cells: Sequence[str]) -> None:
    together = "".join(cells)
    if not all(cells) or _BREAK.search(together):
        cell = next(cell for cell in cells if not cell or _BREAK.search(cell))
        raise TreebankError(
            f"{cell!r} cannot be a cell of a treebank: it is empty or contains a line break, tab or null."
        )
    try:
        together.encode()
    except UnicodeEncodeError as error:
        cell = next(cell for cell in cells if any("\ud800" <= each <= "\udfff" for each in cell))
        raise TreebankError(f"{cell!r} cannot be a cell of a treebank: it contains half a surrogate pair.") from error


def follow_tree(deps: str, old_head: str, old_label: str, head: str, label: str) -> str:
    """Return DEPS of a word whose basic arc has changed: the entry that repeated the old arc repeats the new one.

    An entry repeats the basic arc if it has the same head and the same label, with or without an enhanced subtype.
    Other enhanced arcs stay, because a basic tree does not say how to change them.

    >>> follow_tree("4:obl:in|7:nsubj", "4", "obl", "2", "nmod")
    '2:nmod|7:nsubj'
    """
    if (old_head, old_label) == (head, label) or deps == BLANK:
        return deps
    if deps == f"{old_head}:{old_label}":  # the usual case
        return f"{head}:{label}"
    entries = deps.split("|")
    for exact in (f"{old_head}:{old_label}", *entries):
        if exact in entries and (exact + ":").startswith(f"{old_head}:{old_label}:"):
            rest = [entry for entry in entries if entry not in (exact, f"{head}:{label}")]
            return "|".join(sorted([*rest, f"{head}:{label}"], key=_deps_order))
    return deps


def _deps_order(entry: str) -> tuple[int, int, str]:
    """Sort DEPS by head, with empty nodes such as 5.1 after the word they follow."""
    head, _, label = entry.partition(":")
    word, _, empty = head.partition(".")
    return (int(word) if word.isdecimal() else 0, int(empty) if empty.isdecimal() else 0, label)
