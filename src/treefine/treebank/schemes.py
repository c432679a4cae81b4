"""Labels of other annotation schemes in the names of the model, and labels that contradict a tag by the rules of UD.

The rules are those of the UD guidelines (https://universaldependencies.org/u/dep/ and /u/pos/) that UD checks in every
language, at level 3 of its validation (https://universaldependencies.org/contributing/validation.html).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from treefine.errors import TreebankError, shortened
from treefine.treebank.files import Source, name_of, open_input, utf8_lines
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

# From names in Stanford Dependencies (SD), UD version 1 and spaCy's English models (CLEAR) to names in UD version 2.
# Only relations that connect the same two words in the same direction. Missing: prep, pobj, pcomp and agent (UD
# attaches the preposition to its noun), attr (UD attaches the copula to its predicate), dative (a noun or a
# preposition), remnant (UD 1 attached it to another word), and meta, ref, rel and xsubj (no counterpart).
# "neg" is right for "not"; "no" is det in UD 2.
_OLDER_NAMES = """
    ROOT=root abbrev=appos acomp=xcomp auxpass=aux:pass complm=mark csubjpass=csubj:pass dobj=obj foreign=flat:foreign
    infmod=acl intj=discourse mwe=fixed name=flat neg=advmod nn=compound npadvmod=obl:npmod nsubjpass=nsubj:pass
    num=nummod number=compound oprd=xcomp partmod=acl poss=nmod:poss possessive=case preconj=cc:preconj
    predet=det:predet prt=compound:prt purpcl=advcl quantmod=advmod rcmod=acl:relcl relcl=acl:relcl tmod=obl:tmod
    vmod=acl
"""
OLDER_NAMES = dict(pair.split("=") for pair in _OLDER_NAMES.split())

UPOS = frozenset("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
_CONTENT = frozenset("NOUN PROPN ADJ PRON DET NUM VERB AUX INTJ".split())  # never conjunctions

# The tags that each main type of label allows. Other types allow all tags except PUNCT.
ALLOWED: Mapping[str, frozenset[str]] = {
    "advmod": frozenset(("ADV", "ADJ", "CCONJ", "DET", "PART", "SYM")),
    "aux": frozenset(("AUX",)),
    "case": UPOS - {"PROPN", "ADJ", "PRON", "DET", "NUM", "AUX", "PUNCT"},
    "cc": UPOS - _CONTENT - {"PUNCT"},
    "cop": frozenset(("AUX", "PRON", "DET", "SYM")),
    "det": frozenset(("DET", "PRON")),
    "expl": frozenset(("PRON", "DET", "PART")),
    "mark": UPOS - _CONTENT - {"PUNCT"},
    "nummod": frozenset(("NUM", "NOUN", "SYM")),
    "punct": frozenset(("PUNCT",)),
    "root": UPOS,
}
_ELSEWHERE = UPOS - {"PUNCT"}
_HEADS_OF = ("fixed", "goeswith")  # the first word of such an expression has the label of the whole expression


def read_as(label: str, known: Collection[str], names: Mapping[str, str] | None = None) -> str:
    """Return the known label with the same meaning as `label`, or `label` itself if no known label matches.

    `names` is applied first. Then a known label is kept, an unknown subtype becomes its main type, and an unknown main
    type becomes the newer name of the same relation (or the main type of that name).

    >>> known = ("acl:relcl", "dep", "nsubj", "obj", "obl")
    >>> [read_as(each, known) for each in ("obj", "nsubj:outer", "dobj", "relcl", "tmod", "prep")]
    ['obj', 'nsubj', 'obj', 'acl:relcl', 'obl', 'prep']
    """
    label = (names or {}).get(label, label)
    main = label.partition(":")[0]
    newer = OLDER_NAMES.get(label, OLDER_NAMES.get(main, label))
    return next((each for each in (label, main, newer, newer.partition(":")[0]) if each in known), label)


def label_map_of(given: Mapping[str, str] | Source, known: Collection[str]) -> Mapping[str, str]:
    """Return a user's label map, a dictionary or a file, after a check of its labels.

    Each line of a file has a label, a tab, and the known label to read it as, or _ to ignore the label. Blank lines and
    lines that start with # are skipped.
    """
    names: dict[str, str] = {}
    if isinstance(given, Mapping):
        for new in given.values():
            _check_known(str(new), known)
        return given
    path = name_of(given)
    with open_input(given) as stream:
        for number, line in enumerate(utf8_lines(stream, path), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            old, *cells = [cell.strip() for cell in line.split("\t")]
            if len(cells) != 1 or not old or not cells[0]:
                message = f"The line must have two labels with a tab between them, not {shortened(line.strip())!r}."
                hint = "Write a label, a tab, and the model's label or _."
                raise TreebankError(message, hint=hint, path=path, line=number)
            if old in names:
                message = f"The label {shortened(old)!r} has a line above."
                raise TreebankError(message, hint="Remove one of the lines.", path=path, line=number)
            _check_known(cells[0], known, path, number)
            names[old] = cells[0]
    return names


def _check_known(label: str, known: Collection[str], path: str = "", line: int | None = None) -> None:
    if label != BLANK and read_as(label, known) not in known:
        nearest = get_close_matches(label, known, n=1)
        hint = f"Did you mean {nearest[0]}?" if nearest else "Write _ to ignore a label."
        raise TreebankError(f"The model has no label {shortened(label)!r}.", hint=hint, path=path, line=line)


def follows_ud(labels: Collection[str], upos: Collection[str]) -> bool:
    """Return whether these labels and tags are those of UD, so that its rules apply."""
    known = {each.partition(":")[0] for each in labels} & ALLOWED.keys()
    return 2 * len(known) > len(ALLOWED) and bool(upos) and UPOS.issuperset(upos)


def allows(label: str, upos: str) -> bool:
    """Return whether a word with this label may have this tag; blanks and tags of another tagset are allowed."""
    return label == BLANK or upos not in UPOS or upos in ALLOWED.get(label.partition(":")[0], _ELSEWHERE)


def contradictions(arcs: Arcs, upos: Sequence[str]) -> list[int]:
    """Return the words whose tag their label does not allow; a word written as several may have any tag."""
    words = list(enumerate(zip(*arcs, upos, strict=True), start=1))
    exempt = {each for word, (head, label, _) in words if label.partition(":")[0] in _HEADS_OF for each in (word, head)}
    return [
        word for word, (head, label, tag) in words if head is not None and word not in exempt and not allows(label, tag)
    ]
