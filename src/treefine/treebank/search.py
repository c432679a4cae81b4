r"""Search trees: find the words of a sentence that match a text or a pattern.

`read_query` reads a text, or a pattern of nodes and arcs:

    dog, "big dog"                              a text
    VERB -nsubj-> [upos=NOUN, Number=Plur]      a chain of nodes; NOUN, /lemma/, form=went, [conditions], * or ROOT
    pattern { V [upos=VERB]; V -[obj]-> N; N << V } without { V -[nsubj]-> S }

In braces, as in Grew (https://grew.fr/doc/request), a word such as V is the name of a node, and semicolons separate
clauses. An arrow points from the head to the dependent: `VERB -nsubj-> NOUN` finds nouns that are subjects of verbs.
Different nodes are different words, also in `without`. A label matches only itself; `-[1=nsubj]->` also matches its
subtypes. `Number<>Plur` matches words that have another value of Number, not words without Number.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import eq, ne
from typing import NamedTuple, TypeAlias

from treefine.errors import TreefineError, described, shortened
from treefine.treebank.schemes import UPOS
from treefine.treebank.sentence import BLANK, Sentence

_MOST_CHARACTERS = 2_000  # of a query
_MOST_NODES = 8  # of a query
_MOST_CHOICES = 1_000_000  # words tried for nodes in one sentence, about 0.4 seconds
_ROOT_FORM = "__0__"  # as in Grew
_COLUMNS = {"form": "forms", "lemma": "lemma", "upos": "upos", "xpos": "xpos", "label": "labels"}

_SPACE = re.compile(r"(?:\s|%.*(?:\n|\Z))*")  # with the comments of Grew
_BLOCK = re.compile(r"(?:\w+\s*)?\{")
_QUOTED_TEXT = re.compile(r'"([^"]*)"')
_PATTERN = re.compile(r'->|=|<|^[\[/]|^re"|^(?:\*|ROOT)$')  # anything else is a text, or only a tag
_NAME = re.compile(r"[^\W\d]\w*")
_ARC_NAME = re.compile(r"[^\W\d]\w*\s*:")
_TAG = re.compile(r"[^\W\d]\w*(?:\|[A-Z]+)*(?![\w\[]|\s*(?:=|<>))")
_LEMMA = re.compile(r"/([^/\s]+)/")
_KEY = re.compile(r"[^\W\d]\w*(?:\[\w+\])?|[12](?!\w)")
_FEATURE = re.compile(r"[A-Z]\w*(?:\[\w+\])?")
_OPERATOR = re.compile(r"=|<>")
_ORDER = re.compile(r"<<|<(?![->])")
_ANY_ARROW = re.compile(r"--?>")
_REGEX = re.compile(r're"((?:[^"\\]|\\.)*)"')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_VALUE = re.compile(r'(?!/)(?:(?!->|-\[|-[^\s\]]*->)[^\s,;|\[\]{}"=<>])+')  # ends before an arrow
_LABEL = re.compile(r'(?:(?!->)[^\s,;|\[\]{}"=<>^])+')
_LABEL_PART = re.compile(r"(?=!|[12](?!\w))")
_VALUE_OF_NODE = re.compile(r"([^\W\d]\w*)\.(?=[^\W\d])")

_QUERY_HINT = "Write a word, or a pattern such as VERB -nsubj-> NOUN."
_NODE_HINT = 'Write NOUN, /lemma/, form=went, [upos=NOUN, Number=Plur], * or ROOT; put a text in quotes, as in "a = b".'
_ARROW_HINT = "Write HEAD -label-> DEPENDENT: the arrow points from the head to the dependent."
_KEY_HINT = "Use form, lemma, upos, xpos, label, or a feature such as Number."
_VALUE_HINT = 'Write go, "go", go|come or re"go.*".'
_BLOCK_HINT = "Write pattern { … }, and without { … } as often as needed."
_CLAUSE_HINT = (
    'Write clauses such as N [upos=VERB], N -[obj]-> M, N < M, N << M, N.lemma = M.lemma or N.lemma <> "go", '
    "with semicolons between them."
)


@dataclass(frozen=True, slots=True)
class Match:
    """The words that a query found in a sentence."""

    nodes: tuple[tuple[str, int], ...]  # name and word number of each node of the query; unnamed nodes are "1", "2", …

    @property
    def words(self) -> tuple[int, ...]:
        """The numbers of the words, in the order of the sentence; ROOT is not one."""
        return tuple(sorted({word for _, word in self.nodes if word}))


@dataclass(frozen=True, slots=True)
class Query:
    """A query that has been read; `matches` yields what it finds in a sentence."""

    matches: Callable[[Sentence], Iterator[Match]]  # raises TreefineError if there are too many words to try


def read_query(query: str) -> Query:
    """Read a query (see the module). Raises TreefineError if it is not valid.

    A query is a text unless it has braces, an arrow, `=` or `<`, or is only a universal tag, `/lemma/`, `[…]`, ROOT or
    `*`. A text in quotes is always a text.

    >>> sentence = Sentence.of_words(["Big", "dogs", "bark"], upos=["ADJ", "NOUN", "VERB"])
    >>> list(read_query("pattern { A [upos=ADJ]; V [upos=VERB]; A << V }").matches(sentence))
    [Match(nodes=(('A', 1), ('V', 3)))]
    """
    if not isinstance(query, str):
        raise TreefineError(f"A query must be a string, not {described(query)}.")
    if len(query) > _MOST_CHARACTERS:
        raise TreefineError(f"The query has {len(query):,} characters; at most {_MOST_CHARACTERS:,} are possible.")
    stripped = query.strip()
    quoted = _QUOTED_TEXT.fullmatch(stripped)
    text = " ".join((quoted[1] if quoted else stripped).split()).casefold()
    if not text:
        raise TreefineError("The query is empty.", hint=_QUERY_HINT)
    reader = _Reader(query)
    has_blocks = _BLOCK.match(query, reader.position) is not None
    if quoted or not (has_blocks or _PATTERN.search(stripped) or UPOS.issuperset(stripped.split("|"))):
        return Query(partial(_text_matches, text))
    pattern, without = _Clauses(in_block=has_blocks), list[_Clauses]()
    if not has_blocks:
        _clause(reader, pattern)
    while reader.position < len(query):
        at = reader.position
        keyword = reader.take(_NAME) or "{"
        if keyword not in ("pattern", "match", "request", "without"):
            raise reader.fault(f"{shortened(keyword)!r} cannot start a block.", _BLOCK_HINT, at)
        if keyword == "without":
            without.append(_Clauses(in_block=True, nodes={name: [] for name in pattern.nodes}))
        reader.expect("{", "{", _BLOCK_HINT)
        while reader.take("}") is None:
            _clause(reader, without[-1] if keyword == "without" else pattern)
            if reader.take(";") is None:
                reader.expect("}", "; or }", _CLAUSE_HINT)
                break
    if max(len({**pattern.nodes, **each.nodes}) for each in (pattern, *without)) > _MOST_NODES:
        raise TreefineError(f"The query has more than {_MOST_NODES} nodes.", hint="Split it into several queries.")
    return Query(partial(_tree_matches, pattern, without))


def _text_matches(text: str, sentence: Sentence) -> Iterator[Match]:
    """Yield the words of each occurrence in the running text, then other words with the text in form or lemma."""
    running, owners = "", []  # owners[i] has the words of character i
    for token in sentence.tokens():
        piece = token.form.casefold() + ("" if "SpaceAfter=No" in token.misc else " ")
        running += piece
        owners += [token.words] * len(piece)
    seen: set[int] = set()
    start = running.find(text)
    while start >= 0:
        end = start + len(text)
        words = sorted({word for owner in owners[start:end] for word in owner})
        seen.update(words)
        yield Match(tuple([(str(rank), word) for rank, word in enumerate(words, start=1)]))
        start = running.find(text, end)
    for word, cells in enumerate(zip(sentence.forms, sentence.lemma, strict=True), start=1):
        if word not in seen and any(text in cell.casefold() for cell in cells):
            yield Match((("1", word),))


class WordCondition(NamedTuple):
    """A condition on a column, a feature, or a part of the label (1 is the main type, 2 the subtype) of a word."""

    key: str
    holds: Callable[[str | None], bool]  # None is a blank


class PairCondition(NamedTuple):
    """A condition on two words, such as an arc, an order, or equal lemmas."""

    left: str
    right: str
    holds: Callable[[_Tree, int, int], bool]


_IS_ROOT = WordCondition("form", lambda form: form == _ROOT_FORM)
_RELATIONS: dict[str, Callable[[_Tree, int, int], bool]] = {
    "->": lambda tree, left, right: tree.heads[right] == left,
    "<": lambda _, left, right: left + 1 == right,
    "<<": lambda _, left, right: left < right,
}


@dataclass
class _Clauses:
    """The clauses of a pattern or of without { … }, as far as they have been read."""

    in_block: bool  # a word such as V is the name of a node; otherwise it is a tag
    nodes: dict[str, list[WordCondition]] = field(default_factory=dict)  # in without, those of the pattern come first
    pairs: list[PairCondition] = field(default_factory=list)

    def add(self, name: str, *conditions: WordCondition) -> str:
        """Declare a node if it is new, and add conditions to it."""
        self.nodes.setdefault(name, [_IS_ROOT] if name == "ROOT" else []).extend(conditions)
        return name


class _Tree:
    """The values of one sentence, read when a condition needs them; index 0 is ROOT, and blanks are None."""

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.heads: tuple[int | None, ...] = (None, *sentence.heads)
        self.choices_left = _MOST_CHOICES
        self._values: dict[str, Sequence[str | None]] = {}

    def values(self, key: str) -> Sequence[str | None]:
        if key not in self._values:
            sentence, find = self.sentence, re.compile(rf"(?:^|\|){re.escape(key)}=([^|]*)").search
            if key in ("1", "2"):
                part = 0 if key == "1" else 2
                cells = ["" if label == BLANK else label.partition(":")[part] for label in sentence.labels]
            elif key in _COLUMNS:
                cells = ["" if cell == BLANK and key != "form" else cell for cell in getattr(sentence, _COLUMNS[key])]
            else:
                cells = [match[1] if (match := find(feats)) else "" for feats in sentence.feats]
            self._values[key] = (_ROOT_FORM if key == "form" else None, *[cell or None for cell in cells])
        return self._values[key]

    def fitting(self, conditions: Sequence[WordCondition], words: Sequence[int] | None = None) -> Sequence[int]:
        """Return the words, or those of these words, that fulfil the conditions of a node."""
        if words is None:
            words = range(1) if _IS_ROOT in conditions else range(1, len(self.heads))
        for key, holds in conditions:
            values = self.values(key)
            words = [word for word in words if holds(values[word])]
        return words


_Candidates: TypeAlias = "dict[str, Sequence[int]]"  # the words that each node can still be


def _tree_matches(pattern: _Clauses, without: Sequence[_Clauses], sentence: Sentence) -> Iterator[Match]:
    """Yield each choice of words for the nodes of the pattern for which no block `without` has a choice."""
    tree = _Tree(sentence)
    found, *absent = (
        {
            name: tree.fitting(conditions)
            for name, conditions in each.nodes.items()
            if each is pattern or name not in pattern.nodes
        }
        for each in (pattern, *without)
    )
    for chosen in _choices(tree, pattern.pairs, found, {}):
        for clauses, candidates in zip(without, absent, strict=True):
            same = {name: tree.fitting(clauses.nodes.get(name, ()), [word]) for name, word in chosen.items()}
            if any(True for _ in _choices(tree, clauses.pairs, candidates | same, {})):
                break
        else:
            yield Match(tuple([(name, chosen[name]) for name in pattern.nodes]))


def _choices(
    tree: _Tree, pairs: Sequence[PairCondition], candidates: _Candidates, chosen: dict[str, int]
) -> Iterator[dict[str, int]]:
    """Yield the chosen words with a word for each further node, starting with the node that has the fewest candidates.

    Each choice leaves the other nodes only those candidates that fulfil the conditions on pairs.
    """
    if not candidates:
        yield chosen
        return
    name = min(candidates, key=lambda each: len(candidates[each]))
    for word in candidates[name]:
        left = {each: words for each, words in candidates.items() if each != name}
        is_possible = word not in chosen.values()
        tree.choices_left -= 1
        for pair in pairs:
            if pair.left == name == pair.right:
                is_possible = is_possible and pair.holds(tree, word, word)
            elif pair.left == name and pair.right in left:
                tree.choices_left -= len(left[pair.right])
                left[pair.right] = [each for each in left[pair.right] if pair.holds(tree, word, each)]
            elif pair.right == name and pair.left in left:
                tree.choices_left -= len(left[pair.left])
                left[pair.left] = [each for each in left[pair.left] if pair.holds(tree, each, word)]
        if tree.choices_left < 0:
            message = f"The query has more than {_MOST_CHOICES:,} combinations to try in one sentence."
            raise TreefineError(message, hint="Connect its nodes by arcs, or use fewer nodes.")
        if is_possible:
            yield from _choices(tree, pairs, left, {**chosen, name: word})


class _Reader:
    """A query and the position of the next character to read."""

    def __init__(self, source: str) -> None:
        self.source, self.position = source, 0
        self.take("")

    def take(self, wanted: re.Pattern[str] | str) -> str | None:
        """Read a string, or the group of a pattern, and the space after it; return None if something else is next."""
        pattern = re.compile(re.escape(wanted)) if isinstance(wanted, str) else wanted
        match = pattern.match(self.source, self.position)
        if match is None:
            return None
        space = _SPACE.match(self.source, match.end())
        self.position = space.end() if space else match.end()
        return match[match.lastindex or 0]

    def expect(self, wanted: re.Pattern[str] | str, what: str, hint: str) -> str:
        """Read as `take` does, or raise an error."""
        text = self.take(wanted)
        if text is None:
            following = re.compile(r"\w+|\S").match(self.source, self.position)
            shown = repr(shortened(following[0])) if following else "the end"
            raise self.fault(f"expected {what}, not {shown}.", hint)
        return text

    def fault(self, message: str, hint: str, at: int | None = None) -> TreefineError:
        """Return an error at the next character, or at another position."""
        place = self.position if at is None else at
        return TreefineError(f"Character {place + 1} of the query: {message}", hint=hint)


def _clause(reader: _Reader, clauses: _Clauses) -> None:
    """Read a chain of nodes, or in a block the comparison N.lemma = M.lemma or N.lemma = "go"."""
    at = reader.position
    if clauses.in_block and (name := reader.take(_VALUE_OF_NODE)) is not None:
        key, operator = _key(reader), reader.expect(_OPERATOR, "= or <>", _CLAUSE_HINT)
        other = reader.take(_VALUE_OF_NODE)
        for each in filter(None, (name, other)):
            if each not in clauses.nodes:
                hint = f"Add a clause such as {each} [upos=VERB] or M -> {each} before it."
                raise reader.fault(f"{shortened(each)!r} is not a node.", hint, at)
        if other is None:
            clauses.add(name, _alternatives(reader, key, operator == "=", _VALUE))
        else:
            compared = partial(_compared, key, _key(reader), eq if operator == "=" else ne)
            clauses.pairs.append(PairCondition(name, other, compared))
        return
    if clauses.in_block:
        reader.take(_ARC_NAME)  # the name of an arc, as in e: V -> N
    left = _node(reader, clauses)
    while (following := reader.source[reader.position :][:1]) and not (clauses.in_block and following in ";}"):
        kind = reader.take(_ORDER)
        conditions = _arrow(reader) if kind is None else ()
        right = _node(reader, clauses, conditions)
        clauses.pairs.append(PairCondition(left, right, _RELATIONS[kind or "->"]))
        left = right


def _compared(
    key: str, other: str, compare: Callable[[object, object], bool], tree: _Tree, left: int, right: int
) -> bool:
    ours, theirs = tree.values(key)[left], tree.values(other)[right]
    return ours is not None and theirs is not None and compare(ours, theirs)


def _node(reader: _Reader, clauses: _Clauses, conditions: Sequence[WordCondition] = ()) -> str:
    """Read a node, add these conditions to it, and return its name."""
    at, name = reader.position, str(len(clauses.nodes) + 1)
    if reader.take("*") is not None:
        return clauses.add(name, *conditions)
    if reader.take("[") is not None:
        return clauses.add(name, *conditions, *_conditions(reader, "]"))
    if lemma := reader.take(_LEMMA):
        return clauses.add(name, *conditions, WordCondition("lemma", lemma.__eq__))
    if clauses.in_block:
        name = reader.expect(_NAME, "a node", _CLAUSE_HINT)
        more = _conditions(reader, "]") if reader.take("[") is not None else ()
        return clauses.add(name, *conditions, *more)
    if (tag := reader.take(_TAG)) is None:
        if not _KEY.match(reader.source, at):
            reader.expect(_KEY, "a node", _NODE_HINT)
        return clauses.add(name, *conditions, _condition(reader))
    if tag != "ROOT" and not UPOS.issuperset(tag.split("|")):
        hint = f"Write form={tag}, xpos={tag} or /{tag}/ (a lemma), or a universal tag such as NOUN."
        raise reader.fault(f"{shortened(tag)!r} is not a node.", hint, at)
    is_tag = _IS_ROOT if tag == "ROOT" else WordCondition("upos", frozenset(tag.split("|")).__contains__)
    return clauses.add(name, *conditions, is_tag)


def _arrow(reader: _Reader) -> Sequence[WordCondition]:
    """Read an arrow and return the conditions on the label of its dependent."""
    if reader.take(_ANY_ARROW) is not None:
        return ()
    reader.expect("-", "an arrow", _ARROW_HINT)
    end = "->" if reader.take("[") is None else "]->"
    if reader.take(_LABEL_PART) is None:
        condition = _alternatives(reader, "label", reader.take("^") is None, _LABEL)
        reader.expect(end, end, _ARROW_HINT)
        return (condition,)
    at = reader.position
    conditions = _conditions(reader, end, _LABEL)
    if not {each.key for each in conditions} <= {"1", "2"}:
        raise reader.fault("an arc has only the parts 1 and 2.", "Write -[1=nsubj]-> or -[1=nsubj, !2]->.", at)
    return conditions


def _conditions(reader: _Reader, end: str, bare: re.Pattern[str] = _VALUE) -> tuple[WordCondition, ...]:
    """Read conditions with commas between them, up to the closing bracket or arrow."""
    if reader.take(end) is not None:
        return ()
    conditions = [_condition(reader, bare)]
    while reader.take(",") is not None:
        conditions.append(_condition(reader, bare))
    reader.expect(end, f", or {end}", "Write conditions as in [upos=NOUN, Number=Plur, !Case].")
    return tuple(conditions)


def _condition(reader: _Reader, bare: re.Pattern[str] = _VALUE) -> WordCondition:
    if reader.take("!") is not None:
        return WordCondition(_key(reader), lambda value: value is None)
    key, operator = _key(reader), reader.take(_OPERATOR)
    if operator is None:
        return WordCondition(key, lambda value: value is not None)
    return _alternatives(reader, key, operator == "=", bare)


def _key(reader: _Reader) -> str:
    at = reader.position
    written = reader.expect(_KEY, "a column or a feature", _KEY_HINT)
    key = written.lower() if written.isupper() else written  # CoNLL-U writes the names of columns in capitals
    if key in _COLUMNS or key in ("1", "2", "deprel"):
        return "label" if key == "deprel" else key
    if not _FEATURE.fullmatch(written):
        raise reader.fault(f"{shortened(written)!r} is not a column or a feature.", _KEY_HINT, at)
    return written


def _alternatives(reader: _Reader, key: str, is_positive: bool, bare: re.Pattern[str]) -> WordCondition:
    """Read values with bars between them, each as go, "go" or re"go.*"."""
    values, patterns = set[str](), list[re.Pattern[str]]()
    while True:
        at = reader.position
        if (regex := reader.take(_REGEX)) is not None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    patterns.append(re.compile(regex))
            except (re.error, OverflowError, RecursionError, Warning) as error:
                message = f"the regular expression is not valid: {' '.join(str(error).split())}."
                raise reader.fault(message, "Use the syntax of Python's re module.", at) from error
        elif (quoted := reader.take(_STRING)) is not None:
            values.add(re.sub(r"\\(.)", r"\1", quoted))
        else:
            values.add(reader.expect(bare, "a value", _VALUE_HINT))
        if reader.take("|") is None:
            break

    def holds(value: str | None) -> bool:
        is_listed = value in values or any(pattern.fullmatch(value or "") for pattern in patterns)
        return value is not None and is_listed == is_positive

    return _IS_ROOT if (key, is_positive, values) == ("form", True, {_ROOT_FORM}) else WordCondition(key, holds)
