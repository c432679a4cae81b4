"""The "treefine" component of a spaCy pipeline: `nlp.add_pipe("treefine", config={"model": "en"})`.

spaCy imports this module whenever any pipeline is created, so it does not import torch until a model is loaded.

White space is a token in spaCy but not a word in a treebank. It attaches to the word before it (at the start of a
sentence, to the first word), so it never changes a tree.
"""

from __future__ import annotations

import os
import re
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from inspect import Parameter, Signature
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile

import numpy as np

from treefine.config import COLUMNS, Column
from treefine.errors import TreefineError
from treefine.model.bundled import bundled_models, find_model
from treefine.parsing.options import CAUTIOUS_TRUST, options_of
from treefine.treebank.graph import ROOT, Arcs
from treefine.treebank.raw_text import misc_of
from treefine.treebank.sentence import BLANK, Sentence

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse
    from treefine.parsing.parser import Parser

try:
    from spacy.attrs import DEP, HEAD, SENT_START
    from spacy.language import Language
    from spacy.parts_of_speech import IDS as POS_IDS
    from spacy.pipeline import Pipe
    from spacy.pipeline.dep_parser import parser_score
    from spacy.scorer import Scorer
    from spacy.tokens import Doc, Span, Token
    from spacy.training import Example
    from spacy.util import minibatch
except ImportError as error:
    raise TreefineError("spaCy is not installed.", hint="Install it: pip install 'treefine[spacy]'") from error

__all__ = ["TreefineComponent", "create", "to_conllu"]

_SPACY_LABELS, _OUR_LABELS = {"root": "ROOT"}, {"ROOT": "root"}  # as spaCy's own reader of CoNLL-U renames it
_SPACE_LABEL, _SPACE_POS, _SPACE_TAG = "dep", "SPACE", "_SP"  # as in spaCy's own pipelines
_ATTRIBUTES: dict[Column, str] = {"lemma": "lemma_", "upos": "pos_", "xpos": "tag_", "feats": "morph"}  # of a token
_LINE_BREAK = re.compile("[\t\n\r]")


# The config of the component; None leaves an option of the parser to the model.
_OPTIONS = ("language", "initial", "max_steps", "stop_above", "tags", "device", "precision")
_CONFIG = {"model": "en", **dict.fromkeys(_OPTIONS), "confidence": True}


def create(nlp: Language, name: str, **config: Any) -> TreefineComponent:
    """Create the component; a model that is on this machine is loaded at once."""
    return TreefineComponent(name, **config)


_ARGUMENTS = ("nlp", "name", *_CONFIG)  # spaCy reads their names from the signature
create.__signature__ = Signature([Parameter(each, Parameter.KEYWORD_ONLY) for each in _ARGUMENTS])  # type: ignore[attr-defined]
Language.factory(
    "treefine",
    func=create,
    default_config=_CONFIG,
    assigns=[f"token.{name}" for name in ("head", "dep", "pos", "tag", "morph", "lemma", "is_sent_start")]
    + ["doc.sents"],
    default_score_weights={"dep_uas": 0.5, "dep_las": 0.5, "dep_las_per_type": None, "sents_f": 0.0},
)


class TreefineComponent(Pipe):  # type: ignore[misc]
    """The component in the pipeline. It parses the Docs of a batch together."""

    def __init__(self, name: str, *, model: str, confidence: bool, **options: Any) -> None:
        _register_extensions(confidence=confidence)
        self.name, self.model, self.has_confidence = name, model, confidence
        self.starts_from_doc = options["initial"] == "doc"
        if self.starts_from_doc:  # the trust is the same for each Doc, alone or in a pipe
            options |= {"initial": "given", "trust": CAUTIOUS_TRUST}
        self.options = options_of(options).set_options
        self._loaded: tuple[Parser, Parser] | None = None  # as the model is saved, and with these options
        # A path may be missing: a saved pipeline may name a folder of another machine, and carries its own copy.
        if not {"/", "\\"} & set(model) or Path(model).is_dir():
            self._load(find_model(model))

    def _load(self, folder: Path) -> tuple[Parser, Parser]:
        from treefine.parsing.parser import Parser

        own = {name: self.options[name] for name in ("device", "precision") if name in self.options}
        saved = Parser.from_pretrained(folder, **own)
        self._loaded = saved, saved.using(**self.options)
        return self._loaded

    def _parsers(self) -> tuple[Parser, Parser]:
        return self._loaded or self._load(find_model(self.model))

    @property
    def parser(self) -> Parser:
        """The parser itself, for features without a spaCy equivalent."""
        return self._parsers()[1]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the model; empty before a model is loaded, because spaCy asks while it loads a pipeline."""
        known = () if self._loaded is None else self.parser.model.vocabulary.labels
        return tuple(sorted(_SPACY_LABELS.get(label, label) for label in known))

    def __call__(self, doc: Doc) -> Doc:
        """Parse one Doc."""
        self._parse([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse Docs in batches. Docs that fail go to the error handler, and the rest are parsed."""
        for batch in minibatch(stream, size=batch_size):
            docs = list(batch)
            try:
                self._parse(docs)
            except Exception:
                yield from super().pipe(docs)  # one by one, to find those that fail
            else:
                yield from docs

    def _parse(self, docs: Sequence[Doc]) -> None:
        """Parse the sentences of all Docs as one stream; no Doc changes before all are parsed."""
        parser = self.parser
        if self.starts_from_doc and not all(doc.has_annotation("DEP") for doc in docs):
            hint = "Put a parser before treefine, or leave `initial` out of its config."
            raise TreefineError('initial is "doc", but this Doc has no heads and labels.', hint=hint)

        def segment(text: str) -> Iterator[int]:
            return (each.spans[-1][1] for each in parser.segment([text]))

        plan = parser.plan()
        columns = COLUMNS if parser.tags == "given" else plan.read_columns
        cut = [split_sentences(doc, None if parser.segmenter is None else segment) for doc in docs]
        read = []
        for doc, sentences in zip(docs, cut, strict=True):
            treebank = plan.language.of_text(doc.text)  # each Doc has its own language, whatever else is in the batch
            words = [each.words for each in sentences if each.words]
            read += [replace(_read(each, columns, arcs=self.starts_from_doc), treebank=treebank) for each in words]
        results: list[Any] = list(parser.stream(read) if self.has_confidence else parser.stream_trees(read))
        remaining = iter(results)
        for doc, sentences in zip(docs, cut, strict=True):
            _write(doc, sentences, remaining)

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Return the scores for `nlp.evaluate`: UAS, LAS, sentences, tags and lemmas, as spaCy computes them."""
        listed = list(examples)
        tags = [Scorer.score_token_attr(listed, name, **kwargs) for name in ("pos", "tag", "lemma")]
        tags.append(Scorer.score_token_attr(listed, "morph", getter=lambda token, _: token.morph.key, **kwargs))
        return {name: value for scores in (parser_score(listed, **kwargs), *tags) for name, value in scores.items()}

    def to_disk(self, path: str | os.PathLike[str], *, exclude: Iterable[str] = ()) -> None:
        """Write the model's folder; for a bundled model write nothing, because the config names it."""
        if self.model not in bundled_models():
            self._parsers()[0].save(path)  # including an initial parser that the options may not use

    def from_disk(self, path: str | os.PathLike[str], *, exclude: Iterable[str] = ()) -> TreefineComponent:
        """Read the model's folder."""
        if self.model not in bundled_models():
            self._load(Path(path).resolve())  # an absolute path is never the name of a bundled model
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the model's folder as a ZIP file, an empty one for a bundled model."""
        target = BytesIO()
        with tempfile.TemporaryDirectory() as scratch, ZipFile(target, "w") as packed:
            folder = Path(scratch, "model")
            self.to_disk(folder)
            for path in sorted(folder.rglob("*")):
                packed.write(path, path.relative_to(folder))
        return target.getvalue()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> TreefineComponent:
        """Read the ZIP file of a model's folder."""
        with tempfile.TemporaryDirectory() as folder, ZipFile(BytesIO(data)) as packed:
            packed.extractall(folder)
            return self.from_disk(folder)


class DocSentence(NamedTuple):
    """A sentence of a Doc, and those of its tokens that are words."""

    span: Span
    words: list[Token]


def split_sentences(doc: Doc, segment: Callable[[str], Iterable[int]] | None) -> list[DocSentence]:
    """Split a Doc at its sentence starts; where it has none, use `segment`.

    `segment` returns the end offsets of the sentences of a text, or is None for a model without a segmenter. A token
    that crosses such an end belongs to the earlier sentence.
    """
    starts: list[bool | None] = [True, *[token.is_sent_start for token in doc][1:]] if len(doc) else []
    words = _words(doc)
    if any(starts[token.i] is None for token in words):
        if segment is not None:
            offsets = [token.idx for token in words]
            for first in [bisect_left(offsets, end) for end in segment(doc.text)]:
                if first < len(words) and starts[words[first].i] is None:
                    starts[words[first].i] = True
        elif all(start is None for start in starts[1:]):
            hint = 'Add a component that finds them, such as nlp.add_pipe("sentencizer", before="treefine").'
            raise TreefineError("This Doc has no sentence boundaries, and this model has no segmenter.", hint=hint)
    bounds = [*[place for place, start in enumerate(starts) if start], len(doc)]
    spans = [doc[start:stop] for start, stop in zip(bounds, bounds[1:], strict=False)]
    return [DocSentence(span, _words(span)) for span in spans]


def _words(tokens: Iterable[Token]) -> list[Token]:
    return [token for token in tokens if token.text.strip()]


def _read(words: Sequence[Token], columns: Collection[Column], *, arcs: bool) -> Sentence:
    cells = {column: [_cell(str(getattr(token, _ATTRIBUTES[column]))) for token in words] for column in columns}
    sentence = Sentence.of_words([_cell(token.text) for token in words]).with_tags(**cells)
    return sentence.with_arcs(_arcs(words)) if arcs else sentence


def _arcs(words: Sequence[Token]) -> Arcs:
    """Return the heads and labels of a sentence; a head outside it is replaced by the next ancestor inside."""
    number = {token.i: each for each, token in enumerate(words, start=1)}

    def head_of(token: Token) -> int | None:
        above = (number[each.i] for each in token.ancestors if each.i in number)
        return next(above, ROOT) if token.dep else None

    return Arcs(tuple(map(head_of, words)), tuple([_cell(_OUR_LABELS.get(each.dep_, each.dep_)) for each in words]))


def _cell(text: str) -> str:
    """Return the text as a cell of CoNLL-U can hold it: without line breaks, tabs and NUL."""
    return _LINE_BREAK.sub(" ", text).replace("\0", "\ufffd") or BLANK


def _write(doc: Doc, sentences: Iterable[DocSentence], results: Iterator[Parse | Sentence]) -> None:
    """Set heads, labels, sentence starts, the tags, features and lemmas that the trees have, and confidences of Parses.

    Take one result per sentence with words.
    """
    add = doc.vocab.strings.add
    heads, starts = np.arange(len(doc)), np.full(len(doc), -1)
    labels = np.full(len(doc), add(_SPACE_LABEL), np.uint64)
    for span, words in sentences:
        starts[span.start] = 1
        first, *others = words or [span[0]]
        heads[span.start : span.end] = first.i
        for token in others:
            heads[token.i : span.end] = token.i  # white space below the word before it
        if not words:
            labels[span.start] = add("ROOT")
            continue
        result = next(results)
        tree = result if isinstance(result, Sentence) else result.sentence
        if not isinstance(result, Sentence):
            span._.confidence = result.confidence
            for token, sure in zip(words, result.word_confidences, strict=True):
                token._.arc_confidence, token._.label_confidence = sure.arc, sure.label
        for token in span if {*tree.upos, *tree.xpos} != {BLANK} else ():
            if token.is_space and not token.pos and not token.tag:
                token.pos_, token.tag_ = _SPACE_POS, _SPACE_TAG
        has_feats = set(tree.feats) != {BLANK}  # if so, a word with "_" has no features
        rows = zip(words, tree.heads, tree.labels, tree.upos, tree.xpos, tree.feats, tree.lemma, strict=True)
        for token, head, label, upos, xpos, feats, lemma in rows:
            heads[token.i] = words[head - 1].i if head else token.i
            labels[token.i] = add(_SPACY_LABELS.get(label, label))
            if upos in POS_IDS:  # spaCy knows the tags of UD only
                token.pos_ = upos
            if xpos != BLANK:
                token.tag_ = xpos
            if has_feats:
                token.set_morph(feats)
            if lemma != BLANK:
                token.lemma_ = lemma
    offsets = (heads - np.arange(len(doc))).astype(np.uint64)
    doc.from_array([HEAD, DEP], np.column_stack([offsets, labels]))
    # From the heads only, spaCy may miss the start of a sentence with many crossing arcs.
    doc.from_array([SENT_START], starts.astype(np.uint64).reshape(-1, 1))


def to_conllu(part: Doc | Span, *, confidence: bool = False) -> str:
    """Return the sentences of a Doc, or those that contain a Span, as CoNLL-U, whichever component parsed them.

    MISC holds the white space, so that `treefine.treebank.raw_text.text_of` restores the text. With `confidence` it
    also holds the confidence in each word. A word without a label gets no head.
    """
    part = part[:]  # a Span, also of a Doc
    doc, text, every = part.doc, part.doc.text, _words(part.doc)
    ends = [*[token.idx for token in every[1:]], len(text)]
    gaps = {token.i: text[token.idx + len(token.text) : end] for token, end in zip(every, ends, strict=False)}
    sentences = [each for each in split_sentences(doc, lambda _: ()) if each.words]
    written = []
    for number, (span, words) in enumerate(sentences, start=1):
        if span.end <= part.start or span.start >= part.end:
            continue
        notes = [
            misc_of(gaps[each.i], before=text[: each.idx] if each == every[0] else "", is_last=each == every[-1])
            for each in words
        ]
        shown = "".join(_cell(each.text) + " " * bool(gaps[each.i]) for each in words)
        comments = (f"# sent_id = {number}", f"# text = {shown.rstrip(' ')}")
        sentence = replace(_read(words, COLUMNS, arcs=True).with_misc(notes), comments=comments)
        if confidence:
            from treefine.parsing.parse import with_confidence  # which loads torch, as setting them did

            of_words, of_sentence = [token._.confidence for token in words], span._.confidence
            if of_sentence is None or None in of_words:
                hint = "Parse it with treefine and set `confidence` to true."
                raise TreefineError("This Doc has no confidences.", hint=hint)
            sentence = with_confidence(sentence, of_words, of_sentence)
        written.append(sentence.to_conllu())
    return "".join(written)


def _token_confidence(token: Token) -> float | None:
    arc, label = token._.arc_confidence, token._.label_confidence
    return None if arc is None or label is None else float(arc * label)


def _register_extensions(*, confidence: bool) -> None:
    """Add `doc._.conllu` and the confidences to spaCy, which raises an error if another component has one of them."""
    extensions: list[tuple[Any, str, Callable[..., Any] | None]] = [
        (Doc, "conllu", to_conllu),
        (Span, "conllu", to_conllu),
    ]
    if confidence:
        extensions += [(Token, "arc_confidence", None), (Token, "label_confidence", None), (Span, "confidence", None)]
        extensions += [(Token, "confidence", _token_confidence)]
    for owner, name, getter in extensions:
        if not owner.has_extension(name) or owner.get_extension(name) != (None, None, getter, None):
            owner.set_extension(name, **({"default": None} if getter is None else {"getter": getter}))
