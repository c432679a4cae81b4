"""Write a parser's results into a sentence: arcs and tags into columns, confidences into MISC and comments.

Also mark where the files of an output start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from treefine.config import Column
from treefine.errors import visible
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Layout, Sentence

_STARTS = re.compile(r"#\s*(generator\s*=|new(doc|par)\b)")
_CONFIDENCE, _AGREEMENT = "Conf", "Agree"  # keys in MISC


def with_confidence(sentence: Sentence, words: Sequence[float], whole: float) -> Sentence:
    """Return the sentence with each word's confidence in MISC and the confidence of the whole in a comment."""
    sentence = _with_marks(sentence, _CONFIDENCE, words, what="the confidence")
    return _with_comments(sentence, {"confidence": f"{whole:.2f}"})


def with_rank(sentence: Sentence, rank: int, n_trees: int, probability: float, agreement: Sequence[float]) -> Sentence:
    """Return one of the k best trees with its own sent_id, and with its rank and probability in comments.

    MISC gets the share of the steps that agreed with each arc.
    """
    sentence = _with_marks(sentence, _AGREEMENT, agreement, what="the agreement of the steps")
    if rank > 1:  # the first tree has the start of the document
        named = f"# sent_id = {sentence.sent_id}-tree{rank}"
        kept = [comment for comment in sentence.comments if not _STARTS.match(comment)]
        comments = [named if _key(comment) == "sent_id" else comment for comment in kept]
        sentence = replace(sentence, comments=tuple(comments))
    return _with_comments(sentence, {"tree": f"{rank} of {n_trees}", "probability": f"{probability:.4g}"})


def _with_marks(sentence: Sentence, name: str, numbers: Sequence[float], *, what: str) -> Sentence:
    if sentence.format.misc is None:
        raise sentence.error(f"{sentence.format.title} has no column for {what}.", hint="Write CoNLL-U.")
    marks = [f"{name}={number:.2f}" for number in numbers]
    return sentence.with_misc(list(map(noted, sentence.column(sentence.format.misc), marks)))


def _with_comments(sentence: Sentence, values: dict[str, str]) -> Sentence:
    """Return the sentence with these comments at the end; they replace older ones with the same keys."""
    kept = [comment for comment in sentence.comments if _key(comment) not in values]
    return replace(sentence, comments=(*kept, *(f"# {key} = {value}" for key, value in values.items())))


def _key(comment: str) -> str:
    return comment.partition("=")[0].strip("# ") if "=" in comment else ""


def noted(note: str, mark: str) -> str:
    """Return MISC with one more mark, which replaces an older one with the same key.

    >>> noted("_", "Conf=0.97"), noted("Conf=0.10|SpaceAfter=No", "Conf=0.97")
    ('Conf=0.97', 'SpaceAfter=No|Conf=0.97')
    """
    name = mark.partition("=")[0]
    kept = [each for each in note.split("|") if each != BLANK and each.partition("=")[0] != name]
    return "|".join([*kept, mark])


def with_parse(
    sentence: Sentence,
    arcs: Arcs,
    columns: Sequence[Column],
    tags: Sequence[Sequence[str]],
    *,
    replaces_tags: bool = False,
    kept: Sequence[Column] = (),
) -> Sentence:
    """Return the sentence with these arcs, and with these tags, if any, for words that had none.

    A sentence in which some word has features keeps its FEATS: "_" then means a word without features.

    With `replaces_tags`, other words get the new tags too, except in the columns `kept`.
    """
    sentence = sentence.with_arcs(arcs)
    for column, new in zip(columns, tags, strict=False):
        if column == "upos" and sentence.format.upos is None:
            continue
        old: tuple[str, ...] = getattr(sentence, column)
        has_blanks = column != "feats" or set(old) == {BLANK}  # otherwise a word with "_" has no features
        values = tuple(
            best if (replaces_tags and column not in kept) or (has_blanks and tag == BLANK) else tag
            for tag, best in zip(old, new, strict=True)
        )
        if values != old:
            sentence = sentence.with_tags(**{column: values})
    return sentence


def newdoc(path: str) -> str:
    """Return the comment that starts a document; `path` is empty if it is not a file.

    >>> newdoc("notes.txt"), newdoc("")
    ('# newdoc id = notes.txt', '# newdoc')
    """
    return f"# newdoc id = {visible(path)}" if path else "# newdoc"


def with_newdoc(sentence: Sentence) -> Sentence:
    """Return the first sentence of a file with a comment that names the file; other sentences stay as they are.

    A comment `# newdoc` that is already there stays, and only CoNLL-U has comments.
    """
    is_named = any(each.removeprefix("#").split()[:1] == ["newdoc"] for each in sentence.comments)
    if sentence.number != 1 or is_named or not sentence.format.is_ud:
        return sentence
    start, newlines, end = sentence.layout
    if not isinstance(newlines, str):
        newlines = (newlines[0], *newlines)
    path = "" if sentence.path.startswith("<") else sentence.path
    return replace(sentence, comments=(newdoc(path), *sentence.comments), layout=Layout(start, newlines, end))
