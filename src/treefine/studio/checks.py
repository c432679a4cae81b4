"""Check one sentence while a person edits it: our own checks and, if udtools is installed, the UD validator.

udtools is the official validator of Universal Dependencies. Its licence is GPL-2.0-or-later, so treefine does not
contain it or require it: it is used only if the user has installed it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, NamedTuple

from treefine.errors import TreebankError
from treefine.treebank.conllu import cell_faults, line_faults, text_faults, tree_faults
from treefine.treebank.sentence import BLANK, Sentence

_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "label", "deps", "misc")  # of CoNLL-U
_FEATS, _HEAD, _LABEL, _MISC = (_COLUMNS.index(name) for name in ("feats", "head", "label", "misc"))
_NAMED = {name.upper(): name for name in _COLUMNS} | {"DEPREL": "label"}  # as udtools writes them in messages
_MARK = re.compile(r"(?:Keep|NotHead|NotLabel)=")  # our marks in MISC
_CODES = {"nb": "no", "nn": "no"}  # udtools has one list for Norwegian
_LONGEST_HINT = 200  # characters; longer explanations of udtools are lists of all labels or features

# The column that each test of udtools is about; the first pattern that matches counts. Tests without a pattern name the
# column in their message, or concern the word as a whole.
_COLUMN_OF_TEST = (
    (re.compile(r"text-.*|empty-text|multiple-text|missing-spaceafter"), "text"),
    (re.compile(r".*misc.*|(no)?spaceafter-.*|unknown-lang"), "misc"),
    (
        re.compile(r"(in|un).*-u?deprel|(0|root)-is-not-.*|obl-should-.*|rel-upos-.*|upos-rel-.*|leaf-.*|cop-.*"),
        "label",
    ),
    (re.compile(r"unknown-upos|goeswith-upos|flat-foreign-.*|aux-lemma"), "upos"),
    (re.compile(r".*feature.*|.*-feats|pron-det-.*|verbform-.*|mood-.*|fixed-without-extpos|.*-typo-?.*"), "feats"),
    (re.compile(r"punct-.*-?nonproj|right-to-left-.*|orphan-parent"), "head"),
    (re.compile(r".*deps.*|.*ehead|.*eu?deprel|.*egraph|enhanced-.*"), "deps"),
)
# Findings about a whole treebank or file, which have no meaning for one sentence in an editor.
_ABOUT_FILES = frozenset(["missing-text", "missing-empty-line", "empty-node-after-eorphan", "eorphan-after-empty-node"])
_WITHOUT_PLACE = frozenset(  # udtools reports these at the first word
    ["text-extra-chars", "text-trailing-whitespace", "empty-text", "multiple-text", "nospaceafter-yes"]
)
_OUR_TESTS = frozenset(["text-form-mismatch", "missing-spaceafter", "text-extra-chars"])  # if we found such a fault
_LABEL_FORM = frozenset(["invalid-deprel", "unknown-udeprel"])  # the same word also has unknown-deprel
_READS_TREE = 3  # the level of udtools whose tests read heads


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding about a sentence, with its place."""

    word: int | None  # its number, from 1; None: the whole sentence
    column: str  # form, lemma, upos, xpos, feats, head, label, deps, misc, text; empty: the whole word
    message: str
    hint: str = ""
    is_error: bool = True  # False: a warning
    source: Literal["treefine", "udtools"] = "treefine"
    name: str = ""  # the test of udtools, such as leaf-punct


class Checker:
    """Checks single sentences of one language, given by its code such as "en"; "" is an unknown language.

    With udtools, sentences of a language that UD knows are checked up to level 5, language-specific content. Others are
    checked up to level 3, the guidelines for all languages. The language of a treebank code such as
    sv_talbanken is sv.

    >>> from treefine import Graph
    >>> sentence = Sentence.of_words(["Dogs", "bark"], upos=["NOUN", "VERB"])
    >>> [fault] = Checker().check(sentence.with_graph(Graph.of_words([0, 0], ["root", "root"])))
    >>> fault.word, fault.column, fault.message
    (2, 'head', 'The sentence has 2 roots: words 1, 2.')
    """

    _lock = threading.Lock()  # udtools keeps state in its classes, so two checks must not overlap

    def __init__(self, language: str = "") -> None:
        self.language = language

    def warm_up(self) -> None:
        """Load udtools and its data now, about 0.2 s, instead of at the first check."""
        with self._lock, suppress(Exception):
            if self._validator is not None:
                self._validator.data.get_edeprel_for_language(self._validator.lang)  # for sentences with DEPS

    def check(self, sentence: Sentence) -> list[Fault]:
        """Return all faults of a sentence of CoNLL-U: those of the whole sentence first, then by word.

        Findings that concern a file and not a sentence, such as a missing sent_id, are left out. So are those about
        UPOS if it is blank in the whole sentence, and those that need a tree if the heads are not a tree.
        """
        ours = list(_our_faults(sentence))
        columns, theirs = {fault.column for fault in ours}, list[Fault]()
        if "id" not in columns:
            with self._lock, suppress(Exception):  # an error inside udtools is not a fault of the sentence
                theirs = self._ud_faults(sentence, has_tree="head" not in columns)
        places = {(fault.word, fault.column) for fault in ours}
        for fault in theirs:
            if (fault.word, fault.column) not in places and not (fault.name in _OUR_TESTS and fault.column in columns):
                ours.append(fault)
        return sorted(dict.fromkeys(ours), key=lambda fault: fault.word or 0)

    @cached_property
    def _validator(self) -> Any:
        """The validator of udtools for this language; None if udtools cannot be used."""
        try:
            from udtools import Validator

            code = self.language.lower().replace("-", "_").partition("_")[0]
            code = _CODES.get(code, code)
            validator = Validator(lang="ud", level=3, output=None)
            if validator.data.get_deprel_for_language(code) and code != "ud":
                validator.lang = code
                # Without a list of auxiliaries, level 5 would report every AUX.
                validator.level = 5 if validator.data.get_aux_for_language(code) else 4
        except Exception:
            return None
        return validator

    def _ud_faults(self, sentence: Sentence, *, has_tree: bool) -> list[Fault]:
        """Return the findings of udtools."""
        if self._validator is None:
            return []
        rows = _rows_for_udtools(sentence, has_tree=has_tree)
        texts = [comment for comment in sentence.comments if comment[1:].partition("=")[0].strip() == "text"]
        findings = self._findings(texts, rows)
        malformed = {
            line for incident, line, _ in findings if incident.testid == "invalid-feature" and line is not None
        }
        if malformed:  # udtools stops here, so check the rest of the sentence without these features
            of_features = [each for each in findings if each.line in malformed and each.column == "feats"]
            for line in malformed:
                rows[line][_FEATS] = BLANK
            again = self._findings(texts, rows)
            findings = of_features + [each for each in again if each.line not in malformed or each.column != "feats"]
        bad_labels = {line for incident, line, _ in findings if incident.testid in _LABEL_FORM}
        bad_tags = {line for incident, line, _ in findings if incident.testid == "unknown-upos"}
        has_upos = set(sentence.upos) != {BLANK}

        def is_shown(found: _Found) -> bool:
            name, line = found.incident.testid, found.line
            follows_label = name == "unknown-deprel" and line in bad_labels
            follows_tag = "upos" in name and (not has_upos or (name != "unknown-upos" and line in bad_tags))
            needs_tree = found.incident.level == _READS_TREE and not has_tree
            return not (follows_label or follows_tag or needs_tree or name in _ABOUT_FILES)

        return [self._fault(found, rows) for found in findings if is_shown(found)]

    def _findings(self, texts: Sequence[str], rows: Sequence[Sequence[str]]) -> list[_Found]:
        """Run udtools on one sentence with a new state, and return what it found, with the line of each finding."""
        from udtools.state import State

        # Of all comments, only the text can be checked within one sentence.
        lines = ["# sent_id = 1", *texts, *map("\t".join, rows), ""]
        n_comments = 1 + len(texts)
        state = State()
        state.current_line = len(lines)
        self._validator.data.get_deprel_for_language("ud").discard("ref")  # udtools adds it if a sentence has DEPS
        with suppress(Exception):  # what it found before an internal error is still right
            self._validator.validate_sentence(lines, state)
        line_of = {row[0]: line for line, row in enumerate(rows)}
        found = []
        for incident in state.error_tracker:
            line: int | None = incident.lineno - 1 - n_comments
            if incident.nodeid is not None:  # for some tests, the line is that of another word
                line = line_of.get(str(incident.nodeid), line)
            if incident.testid in _WITHOUT_PLACE or line is None or not 0 <= line < len(rows):
                line = None
            found.append(_Found(incident, line, _column_of(incident, line)))
        return found

    def _fault(self, found: _Found, rows: Sequence[Sequence[str]]) -> Fault:
        incident, line, column = found
        name, message = str(incident.testid), " ".join(str(incident.message).split())
        message = message if message.endswith((".", "?", "!")) else f"{message}."
        explanation = str(incident.explanation).strip()
        hint = explanation if len(explanation) <= _LONGEST_HINT and "\n" not in explanation else ""
        identifier = "" if line is None else rows[line][0]
        data = self._validator.data
        if line is not None and name in {"invalid-deprel", "unknown-udeprel", "unknown-deprel"}:
            label = rows[line][_LABEL]
            message = "DEPREL is blank." if label == BLANK else message
            hint = _nearest(label.lower(), data.get_deprel_for_language(self._validator.lang))
        elif line is not None and name == "unknown-upos":
            tag = rows[line][_COLUMNS.index("upos")]
            message = "UPOS is blank." if tag == BLANK else message
            hint = _nearest(tag.upper(), data.upos) or f"The tags are {', '.join(sorted(data.upos))}."
        elif name.startswith("leaf-") and (child := re.search(r"--> (\d+):", message)):
            hint = f"Attach word {child[1]} to another word, or change the label of word {identifier}."
        if "." in identifier:
            message = f"Empty node {identifier}: {message}"
        return Fault(_word_of(identifier), column, message, hint, bool(incident.is_error()), "udtools", name)


class _Found(NamedTuple):
    """An incident of udtools and its place."""

    incident: Any
    line: int | None  # of the sentence, from 0, without comments
    column: str


def _our_faults(sentence: Sentence) -> Iterator[Fault]:
    """Yield what `treefine validate` finds within one sentence."""
    lines = ["\t".join(row) for row in zip(*sentence.columns, strict=True)]
    unreadable = list(line_faults(lines, 0, sentence.format, TreebankError))
    for error in unreadable:
        identifier = error.word or (lines[error.line or 0].partition("\t")[0] if lines else "")
        yield Fault(_word_of(identifier), "head" if error.word else "id", error.message, error.hint)
    if any(not error.word for error in unreadable):
        return  # the lines are not a sentence
    kinds = {"cell": cell_faults(sentence), "text": text_faults(sentence)}
    if not unreadable:
        kinds["head"] = tree_faults(sentence, needs_one_root=True)
    for column, errors in kinds.items():
        for error in errors:
            number = re.match(r"Column (\d+) ", error.message) if column == "cell" else None
            named = _COLUMNS[int(number[1]) - 1] if number else "id" if column == "cell" else column
            yield Fault(_word_of(error.word or ""), named, error.message, error.hint)


def _rows_for_udtools(sentence: Sentence, *, has_tree: bool) -> list[list[str]]:
    """Return the cells of each line, without our marks and empty cells.

    If the heads are not a tree, all words are attached to the first one, because udtools checks nothing without a tree.
    """
    rows = [[cell or BLANK for cell in row] for row in zip(*sentence.columns, strict=True)]
    for row in rows:
        if "=" in row[_MISC]:
            row[_MISC] = "|".join(each for each in row[_MISC].split("|") if not _MARK.match(each)) or BLANK
        if not has_tree and row[0].isdecimal():
            row[_HEAD] = "0" if row[0] == "1" else "1"
    return rows


def _word_of(identifier: str) -> int | None:
    """Return the number of a word, or of the first word of a multiword token; None for an empty node.

    >>> _word_of("3"), _word_of("3-4"), _word_of("3.1"), _word_of("")
    (3, 3, None, None)
    """
    first = identifier.partition("-")[0]
    return int(first) if first.isdecimal() and first.isascii() else None


def _column_of(incident: Any, line: int | None) -> str:
    """Return the column that a finding of udtools is about."""
    for tests, column in _COLUMN_OF_TEST:
        if tests.fullmatch(incident.testid):
            return column
    if line is None:
        return "text"  # the only comment that is checked
    named = re.search(rf"\b({'|'.join(_NAMED)})\b", str(incident.message))
    return _NAMED[named[1]] if named else ""


def _nearest(value: str, known: Iterable[str]) -> str:
    close = get_close_matches(value, sorted(known), 1)
    return f"Did you mean {close[0]}?" if close else ""
