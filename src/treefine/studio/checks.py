"""Check one sentence while a person edits it: our own checks and, if udtools is installed, the UD validator.

udtools is the official validator of Universal Dependencies. Its licence is GPL-2.0-or-later, so treefine does not
contain it or require it: it is used only if the user has installed it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from treefine.treebank.conllu import cell_faults, text_faults, tree_faults
from treefine.treebank.constraints import FREE
from treefine.treebank.sentence import BLANK, Sentence

_CODES = {"nb": "no", "nn": "no"}  # udtools has one list for Norwegian
_LONGEST_HINT = 200  # characters; longer explanations of udtools are lists of all labels or features
# Findings about a whole treebank or file, which have no meaning for one sentence in an editor.
_ABOUT_FILES = frozenset(["missing-text", "missing-empty-line", "empty-node-after-eorphan", "eorphan-after-empty-node"])
_WITHOUT_PLACE = frozenset(  # udtools reports these at the first word
    ["text-extra-chars", "text-trailing-whitespace", "empty-text", "multiple-text", "nospaceafter-yes"]
)
_OUR_TEXT_TESTS = frozenset(["text-form-mismatch", "missing-spaceafter", "text-extra-chars"])  # we test the same
_LOCK = threading.Lock()  # udtools keeps state in its classes, so two checks must not overlap


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding about a sentence, with its place."""

    word: int | None  # its number, from 1; None: the whole sentence
    message: str
    hint: str = ""
    is_error: bool = True  # False: a warning
    source: Literal["treefine", "udtools"] = "treefine"
    name: str = ""  # the test of udtools, such as leaf-punct


def check(sentence: Sentence, language: str = "") -> list[Fault]:
    """Return all faults of a sentence of CoNLL-U: those of the whole sentence first, then by word.

    udtools checks a sentence whose tree is valid: up to level 5, language-specific content, if UD knows its
    language, such as "en" or "sv_talbanken"; others up to level 3. Its findings about a file, such as a missing
    sent_id, are left out, and those about UPOS if it is blank in the whole sentence.

    >>> from treefine import Graph
    >>> sentence = Sentence.of_words(["Dogs", "bark"], upos=["NOUN", "VERB"])
    >>> [fault] = check(sentence.with_graph(Graph.of_words([0, 0], ["root", "root"])))
    >>> fault.word, fault.message
    (2, 'The sentence has 2 roots: words 1, 2.')
    """
    trees, texts = list(tree_faults(sentence, needs_one_root=True)), list(text_faults(sentence))
    ours = (*cell_faults(sentence), *trees, *texts)
    faults = [Fault(_word_of(error.word), error.message, error.hint) for error in ours]
    if not trees:
        with _LOCK, suppress(Exception):  # without udtools, or after an error inside it, our own checks remain
            theirs = _ud_faults(sentence, validator_of(language))
            faults += [fault for fault in theirs if not (texts and fault.name in _OUR_TEXT_TESTS)]
    return sorted(dict.fromkeys(faults), key=lambda fault: fault.word or 0)


@cache
def validator_of(language: str) -> Any:
    """Return the validator of udtools for a language; None if udtools cannot be used."""
    try:
        from udtools import Validator

        code = language.lower().replace("-", "_").partition("_")[0]
        code = _CODES.get(code, code)
        validator = Validator(lang="ud", level=3, output=None)
        if validator.data.get_deprel_for_language(code) and code != "ud":
            # Without a list of auxiliaries, level 5 would report every AUX.
            validator.lang, validator.level = code, 5 if validator.data.get_aux_for_language(code) else 4
    except Exception:
        return None
    return validator


def _ud_faults(sentence: Sentence, validator: Any) -> Iterator[Fault]:
    """Yield the findings of udtools, which gets the cells of each line without our marks."""
    from udtools.state import State

    # Of all comments, only the text can be checked within one sentence.
    texts = [comment for comment in sentence.comments if comment[1:].partition("=")[0].strip() == "text"]
    rows = [[cell or BLANK for cell in row] for row in zip(*FREE.mark(sentence).columns, strict=True)]
    lines = ["# sent_id = 1", *texts, *map("\t".join, rows), ""]
    state = State()
    state.current_line = len(lines)
    validator.data.get_deprel_for_language("ud").discard("ref")  # udtools adds it if a sentence has DEPS
    with suppress(Exception):  # what it found before an internal error is still right
        validator.validate_sentence(lines, state)
    has_upos = set(sentence.upos) != {BLANK}
    for incident in state.error_tracker:
        if incident.testid not in _ABOUT_FILES and (has_upos or "upos" not in incident.testid):
            yield _ud_fault(incident, [row[0] for row in rows], 1 + len(texts))


def _ud_fault(incident: Any, ids: Sequence[str], n_comments: int) -> Fault:
    line = incident.lineno - 1 - n_comments
    identifier = ids[line] if 0 <= line < len(ids) else ""  # empty: the finding is about the whole sentence
    if str(incident.nodeid) in ids:  # for some tests, the line is that of another word
        identifier = str(incident.nodeid)
    if incident.testid in _WITHOUT_PLACE:
        identifier = ""
    name, message = str(incident.testid), " ".join(str(incident.message).split())
    message = message if message.endswith((".", "?", "!")) else f"{message}."
    explanation = str(incident.explanation).strip()
    hint = explanation if len(explanation) <= _LONGEST_HINT and "\n" not in explanation else ""
    if name.startswith("leaf-") and (child := re.search(r"--> (\d+):", message)):
        hint = f"Attach word {child[1]} to another word, or change the label of word {identifier}."
    if "." in identifier:
        message = f"Empty node {identifier}: {message}"
    return Fault(_word_of(identifier), message, hint, bool(incident.is_error()), "udtools", name)


def _word_of(identifier: str) -> int | None:
    """Return the number of a word such as "3", or of the first word of "3-4"; None for an empty node such as "3.1"."""
    first = identifier.partition("-")[0]
    return int(first) if first.isdecimal() and first.isascii() else None
