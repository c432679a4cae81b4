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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from treefine.errors import TreefineError, described, shortened
from treefine.treebank.schemes import UPOS
from treefine.treebank.sentence import BLANK, Sentence

_MOST_CHARACTERS = 2_000  # of a query
_MOST_NODES = 8  # of a query
_MOST_CHOICES = 200_000  # words tried for nodes in one sentence, about 0.2 seconds
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


def read_query(query: str) -> TextQuery | TreeQuery:
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
        return TextQuery(text)
    pattern, without = _Clauses(in_block=has_blocks), list[_Clauses]()
    if not has_blocks:
        _clause(reader, pattern)
    while not reader.is_at_end:
        at = reader.position
        keyword = reader.take(_NAME) or "{"
        if keyword not in ("pattern", "match", "request", "without"):
            raise reader.fault(f"{shortened(keyword)!r} cannot start a block.", _BLOCK_HINT, at)
        if keyword == "without":
            without.append(_Clauses(in_block=True))
        reader.expect("{", "{", _BLOCK_HINT)
        while reader.take("}") is None:
            _clause(reader, without[-1] if keyword == "without" else pattern)
            if reader.take(";") is None:
                reader.expect("}", "; or }", _CLAUSE_HINT)
                break
    return _tree_query(reader, pattern, without)


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A text in the tokens, forms or lemmas of a sentence, in upper or lower case."""

    text: str  # case-folded

    def matches(self, sentence: Sentence) -> Iterator[Match]:
        """Yield the words of each occurrence in the running text, then other words with the text in form or lemma."""
        running, owners = "", []  # owners[i] has the words of character i
        for token in sentence.tokens():
            piece = token.form.casefold() + ("" if "SpaceAfter=No" in token.misc else " ")
            running += piece
            owners += [token.words] * len(piece)
        seen: set[int] = set()
        start = running.find(self.text)
        while start >= 0:
            end = start + len(self.text)
            words = sorted({word for owner in owners[start:end] for word in owner})
            seen.update(words)
            yield Match(tuple([(str(rank), word) for rank, word in enumerate(words, start=1)]))
            start = running.find(self.text, end)
        for word, cells in enumerate(zip(sentence.forms, sentence.lemma, strict=True), start=1):
            if word not in seen and any(self.text in cell.casefold() for cell in cells):
                yield Match((("1", word),))


@dataclass(frozen=True, slots=True)
class WordCondition:
    """A condition on a column, a feature, or a part of the label (1 is the main type, 2 the subtype) of a word."""

    key: str
    kind: Literal["is", "is not", "is absent"]  # "is not" without values: the word has any value
    values: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()

    def holds(self, value: str | None) -> bool:
        """Return whether the condition holds for this value; None is a blank."""
        if value is None or self.kind == "is absent":
            return value is None and self.kind == "is absent"
        is_listed = value in self.values or any(pattern.fullmatch(value) for pattern in self.patterns)
        return is_listed == (self.kind == "is")


_IS_ROOT = WordCondition("form", "is", frozenset((_ROOT_FORM,)))


class PairCondition(NamedTuple):
    """A condition on two nodes: an arc ->, the order < (next to) or << (before), or values that are = or <>."""

    left: str
    kind: str
    right: str
    left_key: str = ""
    right_key: str = ""

    def holds(self, tree: _Tree, left: int, right: int) -> bool:
        """Return whether the condition holds for these two words."""
        if self.kind == "->":
            return tree.heads[right] == left
        if self.kind in ("<", "<<"):
            return left < right if self.kind == "<<" else left + 1 == right
        ours, theirs = tree.values(self.left_key)[left], tree.values(self.right_key)[right]
        return ours is not None and theirs is not None and (ours == theirs) == (self.kind == "=")


class PatternNode(NamedTuple):
    """A node of a pattern, and its conditions that can be checked when the earlier nodes have words."""

    name: str
    conditions: tuple[WordCondition, ...]
    pairs: tuple[PairCondition, ...]  # with itself and with earlier nodes
    dependent: str | None  # an earlier node whose head this node must be


@dataclass(frozen=True, slots=True)
class TreeQuery:
    """A pattern that must match, and patterns that must not match in addition. Nodes are in the order of the search."""

    names: tuple[str, ...]  # of the nodes, in the order of the query
    nodes: tuple[PatternNode, ...]
    without: tuple[tuple[PatternNode, ...], ...] = ()

    def matches(self, sentence: Sentence) -> Iterator[Match]:
        """Yield each choice of words for the nodes. Raises TreefineError if there are too many to try."""
        tree = _Tree(sentence)
        pattern, *without = ([(node, tree.candidates(node)) for node in nodes] for nodes in (self.nodes, *self.without))
        absent = [nodes for nodes in without if all(words for _, words in nodes)]
        for chosen in _choices(tree, pattern, {}) if all(words for _, words in pattern) else ():
            if not any(True for nodes in absent for _ in _choices(tree, nodes, dict(chosen))):
                yield Match(tuple([(name, chosen[name]) for name in self.names]))


class _Tree:
    """The values of one sentence, read when a condition needs them; index 0 is ROOT, and blanks are None."""

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.choices_left = _MOST_CHOICES
        self._values: dict[str, Sequence[str | None]] = {}

    @cached_property
    def heads(self) -> tuple[int | None, ...]:
        return (None, *self.sentence.heads)

    def values(self, key: str) -> Sequence[str | None]:
        if key not in self._values:
            self._values[key] = (_ROOT_FORM if key == "form" else None, *_column(self.sentence, key))
        return self._values[key]

    def candidates(self, node: PatternNode) -> Sequence[int]:
        """Return the words that fulfil the conditions of a node."""
        words: Sequence[int] = range(1) if _IS_ROOT in node.conditions else range(1, len(self.sentence) + 1)
        for condition in node.conditions:
            values = self.values(condition.key)
            words = [word for word in words if condition.holds(values[word])]
        return words


def _column(sentence: Sentence, key: str) -> Iterable[str | None]:
    if key == "form":
        return sentence.forms
    if key in _COLUMNS:
        return [None if cell == BLANK else cell for cell in getattr(sentence, _COLUMNS[key])]
    if key in ("1", "2"):
        part = 0 if key == "1" else 2
        return [None if label == BLANK else label.partition(":")[part] or None for label in sentence.labels]
    find = re.compile(rf"(?:^|\|){re.escape(key)}=([^|]*)").search
    return [match[1] if (match := find(feats)) else None for feats in sentence.feats]


def _choices(
    tree: _Tree, nodes: Sequence[tuple[PatternNode, Sequence[int]]], chosen: dict[str, int]
) -> Iterator[dict[str, int]]:
    """Yield the chosen words with a word for each further node; the dictionary changes after each yield."""
    if not nodes:
        yield chosen
        return
    node, words = nodes[0]
    known = chosen.get(node.name)
    if known is not None:  # a node of the pattern, used in `without`
        words = [known] if known in words else []
    elif node.dependent is not None:
        head = tree.heads[chosen[node.dependent]]
        words = [head] if head is not None and head in words else []
    for word in words:
        tree.choices_left -= 1
        if tree.choices_left < 0:
            message = f"The query has more than {_MOST_CHOICES:,} combinations to try in one sentence."
            raise TreefineError(message, hint="Connect its nodes by arcs, or use fewer nodes.")
        if known is None and word in chosen.values():
            continue
        chosen[node.name] = word
        if all([each.holds(tree, chosen[each.left], chosen[each.right]) for each in node.pairs]):
            yield from _choices(tree, nodes[1:], chosen)
        if known is None:
            del chosen[node.name]


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

    @property
    def is_at_end(self) -> bool:
        return self.position == len(self.source)


@dataclass
class _Clauses:
    """The clauses of a pattern or of without { … }, as far as they have been read."""

    in_block: bool  # a word such as V is the name of a node; otherwise it is a tag
    nodes: dict[str, tuple[WordCondition, ...]] = field(default_factory=dict)
    pairs: list[PairCondition] = field(default_factory=list)
    compared: list[tuple[str, int, tuple[WordCondition, ...]]] = field(default_factory=list)  # the int is a position

    def add(self, name: str, conditions: Iterable[WordCondition] = ()) -> str:
        """Declare a node if it is new, and add conditions to it."""
        start = (_IS_ROOT,) if name == "ROOT" else ()
        self.nodes[name] = (*self.nodes.get(name, start), *conditions)
        return name

    def in_search_order(self, declared: Iterable[str]) -> tuple[PatternNode, ...]:
        """Order the nodes so that most have one candidate: dependents before heads, unconnected nodes last."""
        earlier, left, ordered = set(declared), list(self.nodes), []

        def ready_pairs(name: str) -> list[PairCondition]:
            return [each for each in self.pairs if name in each[:3:2] and {*each[:3:2]} <= {*earlier, name}]

        def priority(name: str) -> tuple[int, ...]:
            ready, pairs = ready_pairs(name), [each for each in self.pairs if name in each[:3:2]]
            is_head = any(each.kind == "->" and each.left == name for each in ready)
            is_leaf = not any(each.kind == "->" and each.left == name for each in pairs)
            return (name in earlier, is_head, len(ready), bool(pairs), is_leaf, len(self.nodes[name]))

        while left:
            name = max(left, key=priority)
            left.remove(name)
            ready = ready_pairs(name)
            earlier.add(name)
            below = [each.right for each in ready if each.kind == "->" and each.left == name != each.right]
            ordered.append(PatternNode(name, self.nodes[name], tuple(ready), below[0] if below else None))
        return tuple(ordered)


def _tree_query(reader: _Reader, pattern: _Clauses, without: Sequence[_Clauses]) -> TreeQuery:
    """Return the query after a check that all nodes are declared and that they are few."""
    for clauses in (pattern, *without):
        for name, position, conditions in clauses.compared:
            if name not in clauses.nodes and name not in pattern.nodes:
                hint = f"Add a clause such as {name} [upos=VERB] or M -> {name}."
                raise reader.fault(f"{shortened(name)!r} is not a node.", hint, position)
            clauses.add(name, conditions)
        if len({**pattern.nodes, **clauses.nodes}) > _MOST_NODES:
            raise TreefineError(f"The query has more than {_MOST_NODES} nodes.", hint="Split it into several queries.")
    absent = tuple([clauses.in_search_order(pattern.nodes) for clauses in without])
    return TreeQuery(tuple(pattern.nodes), pattern.in_search_order(()), absent)


def _clause(reader: _Reader, clauses: _Clauses) -> None:
    """Read a chain of nodes, or in a block the comparison N.lemma = M.lemma or N.lemma = "go"."""
    at = reader.position
    if clauses.in_block and (name := reader.take(_VALUE_OF_NODE)) is not None:
        key = _key(reader)
        operator = reader.expect(_OPERATOR, "= or <>", _CLAUSE_HINT)
        there = reader.position
        other = reader.take(_VALUE_OF_NODE)
        if other is None:
            clauses.compared.append((name, at, (_alternatives(reader, key, operator == "=", _VALUE),)))
        else:
            clauses.compared += [(name, at, ()), (other, there, ())]
            clauses.pairs.append(PairCondition(name, operator, other, key, _key(reader)))
        return
    if clauses.in_block:
        reader.take(_ARC_NAME)  # the name of an arc, as in e: V -> N
    left = _node(reader, clauses)
    while not reader.is_at_end and not (clauses.in_block and reader.source[reader.position] in ";}"):
        kind = reader.take(_ORDER)
        conditions = _arrow(reader) if kind is None else ()
        right = _node(reader, clauses, conditions)
        clauses.pairs.append(PairCondition(left, kind or "->", right))
        left = right


def _node(reader: _Reader, clauses: _Clauses, conditions: tuple[WordCondition, ...] = ()) -> str:
    """Read a node, add these conditions to it, and return its name."""
    at, name = reader.position, str(len(clauses.nodes) + 1)
    if reader.take("*") is not None:
        return clauses.add(name, conditions)
    if reader.take("[") is not None:
        return clauses.add(name, (*conditions, *_conditions(reader, "]")))
    if lemma := reader.take(_LEMMA):
        return clauses.add(name, (*conditions, WordCondition("lemma", "is", frozenset((lemma,)))))
    if clauses.in_block:
        name = reader.expect(_NAME, "a node", _CLAUSE_HINT)
        more = _conditions(reader, "]") if reader.take("[") is not None else ()
        return clauses.add(name, (*conditions, *more))
    if (tag := reader.take(_TAG)) is None:
        if not _KEY.match(reader.source, at):
            reader.expect(_KEY, "a node", _NODE_HINT)
        return clauses.add(name, (*conditions, _condition(reader)))
    if tag != "ROOT" and not UPOS.issuperset(tag.split("|")):
        hint = f"Write form={tag}, xpos={tag} or /{tag}/ (a lemma), or a universal tag such as NOUN."
        raise reader.fault(f"{shortened(tag)!r} is not a node.", hint, at)
    is_tag = _IS_ROOT if tag == "ROOT" else WordCondition("upos", "is", frozenset(tag.split("|")))
    return clauses.add(name, (*conditions, is_tag))


def _arrow(reader: _Reader) -> tuple[WordCondition, ...]:
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
        return WordCondition(_key(reader), "is absent")
    key = _key(reader)
    operator = reader.take(_OPERATOR)
    return WordCondition(key, "is not") if operator is None else _alternatives(reader, key, operator == "=", bare)


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
    values, patterns = set(), []
    while True:
        at = reader.position
        if (regex := reader.take(_REGEX)) is not None:
            patterns.append(_compiled(reader, regex, at))
        elif (quoted := reader.take(_STRING)) is not None:
            values.add(re.sub(r"\\(.)", r"\1", quoted))
        else:
            values.add(reader.expect(bare, "a value", _VALUE_HINT))
        if reader.take("|") is None:
            return WordCondition(key, "is" if is_positive else "is not", frozenset(values), tuple(patterns))


def _compiled(reader: _Reader, regex: str, at: int) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(regex)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        message = f"the regular expression is not valid: {' '.join(str(error).split())}."
        raise reader.fault(message, "Use the syntax of Python's re module.", at) from error
