"""spaCy's Doc and our Sentence: the words of one as the other's, trees written back, and CoNLL-U.

White space is a token for spaCy and no word for us. Such a token is a leaf below the word before it (at the start of a
sentence, below the word after it), so no tree depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from spacy.attrs import DEP, HEAD, POS, SENT_START, TAG
from spacy.parts_of_speech import IDS as POS_IDS
from spacy.tokens import Doc, Span, Token

from treefine.errors import ConfigError, TreefineError
from treefine.treebank.graph import ROOT, Arcs
from treefine.treebank.raw_text import misc_of
from treefine.treebank.sentence import BLANK, Sentence

ROOT_LABEL, SPACY_ROOT_LABEL = "root", "ROOT"  # spaCy's own reader of CoNLL-U renames it too
SPACE_LABEL, SPACE_POS, SPACE_TAG = "dep", "SPACE", "_SP"  # as spaCy's own pipelines have them
_BREAK = re.compile("[\t\n\r]")


class Stretch(NamedTuple):
    """A sentence of a Doc: its tokens, and which of them are words."""

    start: int
    stop: int
    words: tuple[int, ...]


def spacy_label(label: str) -> str:
    """A label as spaCy's users know it: the root's is ROOT, all others are the treebank's."""
    return SPACY_ROOT_LABEL if label == ROOT_LABEL else label


def word_places(doc: Doc) -> list[int]:
    """The tokens that are words."""
    return [place for place, token in enumerate(doc) if token.text.strip()]


def stretches(doc: Doc, segment: Callable[[str], Iterable[tuple[int, int]]] | None) -> list[Stretch]:
    """The sentences of a Doc: they start where it says so, and where it says nothing, as `segment` finds them.

    `segment` gives the places of a text's sentences; None where nothing can find them.
    """
    words = np.array(word_places(doc), dtype=np.int64)
    starts = doc.to_array([SENT_START]).astype(np.int64).reshape(-1)  # 1: yes, -1: no, 0: nobody said
    if not len(starts):
        return []
    starts[0] = 1
    is_open = starts == 0
    if is_open[words].any():
        if segment is not None:
            _open_at(starts, words, _firsts(doc, words, segment(doc.text)))
        elif is_open[1:].all():
            hint = 'Add another before it, such as nlp.add_pipe("sentencizer", before="treefine").'
            raise TreefineError("No component has found sentences, and this model has no segmenter.", hint=hint)
    marks = [*np.flatnonzero(starts == 1).tolist(), len(starts)]
    bounds = np.searchsorted(words, marks).tolist()
    listed = words.tolist()
    return [Stretch(marks[i], marks[i + 1], tuple(listed[bounds[i] : bounds[i + 1]])) for i in range(len(marks) - 1)]


def _open_at(starts: np.ndarray, words: np.ndarray, firsts: Iterable[int]) -> None:
    for first in firsts:
        if first < len(words) and starts[words[first]] == 0:
            starts[words[first]] = 1


def _firsts(doc: Doc, words: np.ndarray, found: Iterable[tuple[int, int]]) -> list[int]:
    """Which words are the first that begin after the end of a sentence; a token across it belongs to the earlier."""
    characters = [doc[place].idx for place in words.tolist()]
    firsts: list[int] = np.searchsorted(characters, [end for _, end in found]).tolist()
    return firsts


def sentence_in(doc: Doc, stretch: Stretch, *, with_tags: bool = False, with_arcs: bool = False) -> Sentence:
    """The words of a sentence for a parser, with the tags and arcs that the Doc has if asked for."""
    tokens = [doc[place] for place in stretch.words]
    sentence = Sentence.of_words([_cell(token.text) for token in tokens])
    if with_tags:
        tags = ([_cell(token.pos_) for token in tokens], [_cell(token.tag_) for token in tokens])
        sentence = sentence.with_tags(upos=tags[0], xpos=tags[1])
    return sentence.with_arcs(_arcs(doc, stretch)) if with_arcs else sentence


def _arcs(doc: Doc, stretch: Stretch) -> Arcs:
    """Heads and labels as the Doc has them; a head that is white space, or another sentence's, is passed over."""
    number = {place: each for each, place in enumerate(stretch.words, start=1)}

    def head_of(place: int) -> int | None:
        token, seen = doc[place], {place}
        if not token.dep:
            return None
        while token.head.i != token.i:
            token = token.head
            if token.i in seen:
                return None
            if token.i in number:
                return number[token.i]
            seen.add(token.i)
        return ROOT

    heads = tuple([head_of(place) for place in stretch.words])
    labels = [doc[place].dep_ for place in stretch.words]
    return Arcs(heads, tuple([_cell(ROOT_LABEL if each == SPACY_ROOT_LABEL else each) for each in labels]))


def _cell(text: str) -> str:
    """A text as a cell can hold it: line breaks and tabs as spaces, NUL as the sign for what is no character."""
    return _BREAK.sub(" ", text).replace("\0", "\ufffd") or BLANK


def write_trees(doc: Doc, found: Sequence[Stretch], parsed: Sequence[Sentence | None]) -> None:
    """Set heads, labels, sentence starts, and the tags that the sentences have; None stands for one without words."""
    add = doc.vocab.strings.add
    heads = np.arange(len(doc))
    labels = np.full(len(doc), add(SPACE_LABEL), np.uint64)
    starts = np.full(len(doc), -1)
    tags = doc.to_array([POS, TAG])
    for stretch, sentence in zip(found, parsed, strict=True):
        starts[stretch.start] = 1
        words = stretch.words
        if sentence is None:
            heads[stretch.start : stretch.stop] = stretch.start
            labels[stretch.start] = add(SPACY_ROOT_LABEL)
            continue
        has_tags = _set_tags(tags, words, sentence, add)
        before = words[0]
        is_word = set(words)
        for place in range(stretch.start, stretch.stop):
            if place in is_word:
                before = place
                continue
            heads[place] = before
            if has_tags and not tags[place].any():
                tags[place] = POS_IDS[SPACE_POS], add(SPACE_TAG)
        for place, head, label in zip(words, sentence.heads, sentence.labels, strict=True):
            heads[place] = words[head - 1] if head else place
            labels[place] = add(spacy_label(label))
    offsets = (heads - np.arange(len(doc))).astype(np.uint64)
    doc.from_array([HEAD, DEP, POS, TAG], np.column_stack([offsets, labels, tags]))
    # From heads alone spaCy may miss the start of a sentence whose arcs cross in many places.
    doc.from_array([SENT_START], starts.astype(np.uint64).reshape(-1, 1))


def _set_tags(tags: np.ndarray, words: Sequence[int], sentence: Sentence, add: Callable[[str], int]) -> bool:
    """Put the tags of a sentence into the rows of its words, and say whether it has any; spaCy knows UPOS alone."""
    for place, upos, xpos in zip(words, sentence.upos, sentence.xpos, strict=True):
        if upos in POS_IDS:
            tags[place, 0] = POS_IDS[upos]
        if xpos != BLANK:
            tags[place, 1] = add(xpos)
    return {*sentence.upos, *sentence.xpos} != {BLANK}


def write_confidence(doc: Doc, stretch: Stretch, words: Iterable[tuple[float, float]], whole: float) -> None:
    """Set how sure the parser is of a sentence: of each word's head and label, and of all of them together."""
    for place, sure in zip(stretch.words, words, strict=True):
        extensions = doc[place]._
        extensions.arc_confidence, extensions.label_confidence = sure
    doc[stretch.start : stretch.stop]._.confidence = whole


def to_conllu(part: Doc | Span, *, confidence: bool = False) -> str:
    """The sentences of a Doc, or those that a Span lies in, as CoNLL-U, whichever component parsed them.

    White space is in MISC, so that `treefine.treebank.raw_text.text_of` gives the text back. With `confidence` MISC
    tells how sure treefine is of each word.
    """
    return "".join([sentence.to_text() for sentence in conllu_sentences(part, confidence=confidence)])


def conllu_sentences(part: Doc | Span, *, confidence: bool = False) -> Iterator[Sentence]:
    """The same as sentences; those without a word are none, and a word without a label has no head."""
    doc = part.doc if isinstance(part, Span) else part
    start, stop = (part.start, part.end) if isinstance(part, Span) else (0, len(doc))
    text, every = doc.text, word_places(doc)
    following = dict(zip(every, [doc[place].idx for place in every[1:]], strict=False))  # where the next word begins
    found = [stretch for stretch in stretches(doc, lambda _: ()) if stretch.words]
    for number, stretch in enumerate(found, start=1):
        if stretch.stop <= start or stretch.start >= stop:
            continue
        tokens = [doc[place] for place in stretch.words]
        gaps = [text[token.idx + len(token.text) : following.get(token.i, len(text))] for token in tokens]
        before = [text[: token.idx] if token.i == every[0] else "" for token in tokens]
        misc = [
            misc_of(gap, before=first, is_last=token.i == every[-1])
            for gap, first, token in zip(gaps, before, tokens, strict=True)
        ]
        forms = [_cell(token.text) for token in tokens]
        shown = "".join([form + " " * bool(gap) for form, gap in zip(forms, gaps, strict=True)]).rstrip(" ")
        rows = [
            [str(each), form, _cell(token.lemma_), _cell(token.pos_), _cell(token.tag_), _cell(str(token.morph))]
            for each, (form, token) in enumerate(zip(forms, tokens, strict=True), start=1)
        ]
        blank = (BLANK,) * len(tokens)
        columns: tuple[Any, ...] = (*zip(*rows, strict=True), blank, blank, blank, tuple(misc))
        comments = (f"# sent_id = {number}", f"# text = {shown}")
        sentence = Sentence(comments, columns, range(len(tokens)), number=number).with_arcs(_arcs(doc, stretch))
        yield _with_confidence(doc, stretch, sentence) if confidence else sentence


def _with_confidence(doc: Doc, stretch: Stretch, sentence: Sentence) -> Sentence:
    from treefine.parsing.annotate import with_confidence

    words = [doc[place]._.confidence for place in stretch.words]
    whole = doc[stretch.start : stretch.stop]._.confidence
    if whole is None or None in words:
        raise TreefineError("This Doc has no confidences.", hint="Parse it with treefine, `confidence` switched on.")
    return with_confidence(sentence, words, whole)


def _token_confidence(token: Token) -> float | None:
    arc, label = token._.arc_confidence, token._.label_confidence
    return None if arc is None or label is None else float(arc * label)


def register_extensions(*, confidence: bool) -> None:
    """Make `doc._.conllu` and its like known to spaCy; those of another component are never replaced."""
    wanted: list[tuple[Any, str, dict[str, Any]]] = [(each, "conllu", {"getter": to_conllu}) for each in (Doc, Span)]
    if confidence:
        wanted += [(Token, name, {"default": None}) for name in ("arc_confidence", "label_confidence")]
        wanted += [(Token, "confidence", {"getter": _token_confidence}), (Span, "confidence", {"default": None})]
    for owner, name, how in wanted:
        if not owner.has_extension(name):
            owner.set_extension(name, **how)
        elif owner.get_extension(name) != (None, None, how.get("getter"), None):
            extension = f"{owner.__name__}._.{name}"
            hint = f"Remove it: {owner.__name__}.remove_extension({name!r})."
            if name != "conllu":
                hint += " Or set `confidence` to false."
            raise ConfigError(f"Another component has an extension {extension}.", hint=hint)
