"""Translate labels of other annotation schemes into the model's names for the same relations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from treefine.errors import TreebankError, described, shortened
from treefine.treebank.files import Source, name_of, open_input, utf8_lines
from treefine.treebank.sentence import BLANK

# From names in Stanford Dependencies (SD), UD version 1 and spaCy's English models (CLEAR) to names in UD version 2.
# Only relations that connect the same two words in the same direction. Missing: prep, pobj, pcomp and agent (UD
# attaches the preposition to its noun), attr (UD attaches the copula to its predicate), dative (a noun or a
# preposition), remnant (UD 1 attached it to another word), and meta, ref, rel and xsubj (no counterpart).
OLDER_NAMES: Mapping[str, str] = {
    "ROOT": "root",
    "abbrev": "appos",
    "acomp": "xcomp",
    "auxpass": "aux:pass",
    "complm": "mark",
    "csubjpass": "csubj:pass",
    "dobj": "obj",
    "foreign": "flat:foreign",
    "infmod": "acl",
    "intj": "discourse",
    "mwe": "fixed",
    "name": "flat",
    "neg": "advmod",  # right for "not"; "no" is det in UD 2
    "nn": "compound",
    "npadvmod": "obl:npmod",
    "nsubjpass": "nsubj:pass",
    "num": "nummod",
    "number": "compound",
    "oprd": "xcomp",
    "partmod": "acl",
    "poss": "nmod:poss",
    "possessive": "case",
    "preconj": "cc:preconj",
    "predet": "det:predet",
    "prt": "compound:prt",
    "purpcl": "advcl",
    "quantmod": "advmod",
    "rcmod": "acl:relcl",
    "relcl": "acl:relcl",
    "tmod": "obl:tmod",
    "vmod": "acl",
}


def read_as(label: str, known: Collection[str], names: Mapping[str, str] | None = None) -> str:
    """Return the known label with the same meaning as `label`, or `label` itself if no known label matches.

    `names` is applied first. Then a known label is kept, an unknown subtype becomes its main type, and an unknown main
    type becomes the newer name of the same relation (or the main type of that name).

    >>> known = ("acl:relcl", "dep", "nsubj", "obj", "obl")
    >>> [read_as(each, known) for each in ("obj", "nsubj:outer", "dobj", "relcl", "tmod", "prep")]
    ['obj', 'nsubj', 'obj', 'acl:relcl', 'obl', 'prep']
    >>> read_as("prep", known, {"prep": "dep"})
    'dep'
    """
    label = (names or {}).get(label, label)
    main = label.partition(":")[0]
    newer = OLDER_NAMES.get(label, OLDER_NAMES.get(main, label))
    return next((each for each in (label, main, newer, newer.partition(":")[0]) if each in known), label)


def read_label_map(source: Source, known: Collection[str]) -> dict[str, str]:
    """Read a user's label map: each line has a label, a tab, and the known label to read it as.

    A label with _ in the second column is ignored. Blank lines and lines that start with # are skipped.
    """
    path = name_of(source)
    names: dict[str, str] = {}
    with open_input(source) as stream:
        for number, line in enumerate(utf8_lines(stream, path), start=1):
            if not line.strip() or line.startswith("#"):
                continue

            def fault(message: str, hint: str, number: int = number) -> TreebankError:
                return TreebankError(message, hint=hint, path=path, line=number)

            cells = [cell.strip() for cell in line.split("\t")]
            if len(cells) != 2 or not all(cells):
                message = f"The line must have two labels with a tab between them, not {shortened(line.strip())!r}."
                raise fault(message, "Write a label, a tab, and the model's label or _.")
            old, new = cells
            if names.get(old, new) != new:
                quoted = [repr(shortened(each)) for each in (old, new, names[old])]
                raise fault("{} is mapped to {} here, but to {} above.".format(*quoted), "Remove one of the lines.")
            if new != BLANK and read_as(new, known) not in known:
                raise fault(*_unknown(new, known))
            names[old] = new
    return names


def label_map_of(given: Mapping[str, str] | Source, known: Collection[str]) -> Mapping[str, str]:
    """Return a label map that is a dictionary or, as for `read_label_map`, a file; check its labels."""
    if not isinstance(given, Mapping):
        return read_label_map(given, known)
    for old, new in given.items():
        for each in (old, new):
            if not isinstance(each, str):
                hint = 'Write {"prep": "case"}, from other labels to those of the model.'
                raise TreebankError(f"The label map contains {described(each)} instead of a label.", hint=hint)
        if new != BLANK and read_as(new, known) not in known:
            message, hint = _unknown(new, known)
            raise TreebankError(message, hint=hint)
    return given


def _unknown(label: str, known: Collection[str]) -> tuple[str, str]:
    """Return the message and the hint for a label that the model does not know."""
    nearest = get_close_matches(label, known, n=1)
    hint = f"Did you mean {nearest[0]}?" if nearest else "Write _ to ignore a label."
    return f"The model has no label {shortened(label)!r}.", hint
