"""Parser: the object a user holds."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import torch

from treefine.config import BATCH_PIECES, TagSource
from treefine.errors import ModelError, TreefineError
from treefine.network.model import ParserModel
from treefine.parsing.confidence import sentence_confidence
from treefine.parsing.cuts import Segmented
from treefine.parsing.decode import Decoder
from treefine.parsing.device import find_device
from treefine.parsing.initial import InitialParser, empty, from_file, from_parser
from treefine.parsing.layout import LAYOUT
from treefine.parsing.models import find_model
from treefine.parsing.parse import Parse, Parses, Span, own_text, spans_in
from treefine.parsing.pretrained import load_model, new_folder, push_folder, write_model
from treefine.parsing.run import Parsed, Plan, details, run, steps, trees
from treefine.parsing.segment import Segmenter
from treefine.parsing.steps import Step
from treefine.treebank.sentence import BLANK, Sentence

STEPS = 3  # T in the paper (Sec. 6.1), for a model that was not told its own …
STEPS_FROM_EMPTY = 4  # … with one more to make the first graph


class Parser:
    """A loaded model, ready to parse: words in, trees out.

    `initial` is what to start from: "empty", the folder of a SynTr or biaffine model, a file of the same sentences, a
    Parser, or a function of `treefine.parsing.initial`; without it the initial parser saved with the model, or nothing.
    `max_steps` is T; without it that of the training (if that is not told 3, or 4 from an empty graph). `tags` tells
    the model to read the tags that the sentences have ("given"), to predict them, or to do without ("none"); without
    it, it does as it was trained.
    """

    def __init__(
        self,
        model: ParserModel,
        *,
        initial: str | os.PathLike[str] | Parser | InitialParser | None = None,
        max_steps: int | None = None,
        tags: TagSource | None = None,
        is_projective: bool = False,
        device: str | torch.device | None = None,
        batch_pieces: int = BATCH_PIECES,
        segmenter: Segmenter | None = None,
    ) -> None:
        if batch_pieces < 1:
            raise TreefineError(f"batch_pieces is {batch_pieces}.", hint="A batch needs at least one piece.")
        self.device = find_device(device)
        self.model = model.eval().to(self.device)
        self.batch_pieces = batch_pieces
        self.initial = self._initial_parser(initial)
        self.max_steps = self._checked_steps(max_steps)
        self.tags = self._checked_tags(tags)
        self.is_projective = is_projective
        self.segmenter = segmenter

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        initial: str | os.PathLike[str] | Parser | InitialParser | None = None,
        max_steps: int | None = None,
        tags: TagSource | None = None,
        is_projective: bool = False,
        device: str | torch.device | None = None,
        batch_pieces: int = BATCH_PIECES,
    ) -> Parser:
        """The parser of a bundled model, of a model folder, or of a hub's OWNER/NAME; only the last needs a network."""
        folder = find_model(name)
        device = find_device(device)  # before anything is read: a wrong one is told at once
        if initial is None and (folder / LAYOUT.initial).is_dir():
            initial = folder / LAYOUT.initial
        has_segmenter = (folder / LAYOUT.segmenter).is_dir()
        return cls(
            load_model(folder),
            initial=initial,
            max_steps=max_steps,
            tags=tags,
            is_projective=is_projective,
            device=device,
            batch_pieces=batch_pieces,
            segmenter=Segmenter.from_folder(folder / LAYOUT.segmenter) if has_segmenter else None,
        )

    def using(
        self,
        *,
        initial: str | os.PathLike[str] | Parser | InitialParser | None = None,
        max_steps: int | None = None,
        tags: TagSource | None = None,
        is_projective: bool | None = None,
    ) -> Parser:
        """The same model with other options; those left out stay as they are, but T follows a new initial parser."""
        return Parser(
            self.model,
            initial=self.initial if initial is None else initial,
            max_steps=self.max_steps if max_steps is None and initial is None else max_steps,
            tags=tags or self.tags,
            is_projective=self.is_projective if is_projective is None else is_projective,
            device=self.device,
            batch_pieces=self.batch_pieces,
            segmenter=self.segmenter,
        )

    @overload
    def parse(self, sentences: Sentence | Sequence[str]) -> Sentence: ...  # type: ignore[overload-overlap]
    @overload
    def parse(self, sentences: Iterable[Sentence | Sequence[str]]) -> list[Sentence]: ...
    def parse(
        self, sentences: Sentence | Sequence[str] | Iterable[Sentence | Sequence[str]]
    ) -> Sentence | list[Sentence]:
        """One sentence (a list of words, or a Sentence of a treebank) with its tree; or a list of them with theirs."""
        if isinstance(sentences, Sentence):
            return next(self.stream([sentences]))
        several = _checked(sentences)
        words = [each for each in several if isinstance(each, str)]
        if several and len(words) == len(several):
            return next(self.stream([words]))
        return list(self.stream(several))

    def stream(self, sentences: Iterable[Sentence | Sequence[str]], *, skip: int = 0) -> Iterator[Sentence]:
        """The sentences with their trees, in the order they came, some thousands held at a time.

        All that a sentence holds stays, but for heads, labels, the enhanced arcs that restate them, and tags that were
        blank and have been predicted. The first `skip` sentences are left out.
        """
        for sentence, parsed in run(self._plan(), map(_sentence, sentences), trees, skip=skip):
            yield self._filled(sentence, parsed)

    def __call__(self, text: str) -> Parses:
        """The sentences of a text with their tags and trees, where they stand in it, and how sure the parser is."""
        if not isinstance(text, str):
            raise TreefineError("A text is a string.", hint="Words that are cut already go to `parse`.")
        return Parses(self.stream_text([text]))

    def stream_text(self, chunks: Iterable[str]) -> Iterator[Parse]:
        """The same for a text that comes in chunks, such as an open file's; where these are cut makes no difference."""
        return self.stream_segmented(self.segment(chunks))

    def stream_lines(self, lines: Iterable[str]) -> Iterator[Parse]:
        """The same for a text that has one sentence a line, as an open file gives them, with their ends."""
        return self.stream_segmented(self.segment_lines(lines))

    def stream_parses(self, sentences: Iterable[Sentence | Sequence[str]]) -> Iterator[Parse]:
        """The sentences with all that the parser says of them; places are those in the sentence's own text."""
        found = map(_sentence, sentences)
        return self.stream_segmented(Segmented(each, spans_in(own_text(each), each)) for each in found)

    def segment(self, chunks: Iterable[str]) -> Iterator[Segmented]:
        """The sentences of a text that comes in chunks, cut into words and not yet parsed."""
        return self._segmenter().stream(chunks)

    def segment_lines(self, lines: Iterable[str]) -> Iterator[Segmented]:
        """The same for a text that has one sentence a line."""
        return self._segmenter().stream_lines(lines)

    def stream_segmented(self, found: Iterable[Segmented], *, skip: int = 0) -> Iterator[Parse]:
        """Sentences that a segmenter found with all that the parser says of them, but for the first `skip`."""
        places: deque[tuple[Span, ...]] = deque()  # of sentences that are being parsed

        def told() -> Iterator[Sentence]:
            for number, each in enumerate(found):
                if number >= skip:
                    places.append(each.spans)
                yield each.sentence

        for sentence, parsed in run(self._plan(), told(), details, skip=skip):
            sure = sentence_confidence(parsed.confidence, self.model.settings.confidence)
            filled = self._filled(sentence, parsed.parsed)
            yield Parse(filled, places.popleft(), parsed.confidence, sure, parsed.steps, parsed.initial)

    def _segmenter(self) -> Segmenter:
        if self.segmenter is None:
            hint = "Give it words: a list of them, or a file that is cut into words (--from words)."
            raise ModelError("This model has no segmenter, so it cannot read text.", hint=hint)
        return self.segmenter

    def refine(self, sentence: Sentence | Sequence[str]) -> Iterator[Step]:
        """The steps G¹ … Gᵀ of one sentence, each with its graph, tree, scores and probabilities."""
        for _, found in self.stream_steps([sentence]):
            yield from found

    def stream_steps(self, sentences: Iterable[Sentence | Sequence[str]]) -> Iterator[tuple[Sentence, list[Step]]]:
        """Each sentence with all its steps, in the order they came."""
        return run(self._plan(), map(_sentence, sentences), steps)

    def save(self, folder: str | os.PathLike[str], *, dtype: torch.dtype = torch.float32, notes: str = "") -> None:
        """Write a model folder that can be moved; it appears once it is whole, in place of an older model.

        `dtype` is float32, float16 for half the size, or int8 for a quarter. `notes` go into the model card. The model
        of an initial parser is saved with it. Options, and initial parses from a file or a function, are the caller's
        and not saved.
        """
        with new_folder(Path(folder)) as new:
            self._write(new, dtype, notes)

    def push_to_hub(
        self, name: str, *, private: bool = False, dtype: torch.dtype = torch.float32, notes: str = ""
    ) -> str:
        """Upload the model to the hub as OWNER/NAME, and return the address it has there."""
        with tempfile.TemporaryDirectory() as folder:
            self._write(Path(folder), dtype, notes)
            return push_folder(Path(folder), name, is_private=private)

    def _write(self, folder: Path, dtype: torch.dtype, notes: str) -> None:
        write_model(self.model, folder, dtype=dtype, notes=notes)
        if isinstance(self.initial, Parser):
            (folder / LAYOUT.initial).mkdir()
            self.initial._write(folder / LAYOUT.initial, dtype, "")
        if self.segmenter is not None:
            (folder / LAYOUT.segmenter).mkdir()
            self.segmenter.write(folder / LAYOUT.segmenter)

    def _plan(self) -> Plan:
        decoder = Decoder.of(self.model, is_projective=self.is_projective)
        initial = from_parser(self.initial.stream) if isinstance(self.initial, Parser) else self.initial
        return Plan(self.model, self.device, self.batch_pieces, initial, self.max_steps, self.tags, decoder)

    def _initial_parser(
        self, initial: str | os.PathLike[str] | Parser | InitialParser | None
    ) -> Parser | InitialParser:
        if initial is None or initial == "empty":
            return empty
        if not self.model.settings.reads_graph and initial is not empty:
            raise ModelError("This model reads no graph, so it cannot refine an initial parse.")
        if isinstance(initial, Parser) or callable(initial):
            return initial
        path = Path(initial)
        if path.is_dir() and os.fspath(initial):
            return Parser.from_pretrained(path, device=self.device, batch_pieces=self.batch_pieces)
        if not path.is_file():
            hint = "Choose empty, the folder of a SynTr or biaffine model, or a file of the same sentences."
            raise TreefineError(f"There is no initial parser {os.fspath(initial)!r}.", hint=hint)
        return from_file(os.fspath(initial))

    def _checked_steps(self, max_steps: int | None) -> int:
        reads_graph, trained = self.model.settings.reads_graph, self.model.settings.max_steps
        if max_steps is None:
            return 1 if not reads_graph else trained or (STEPS_FROM_EMPTY if self.initial is empty else STEPS)
        if max_steps < 1:
            raise TreefineError(f"The number of steps is {max_steps}.", hint="At least one is needed to parse.")
        if max_steps > 1 and not reads_graph:
            raise ModelError("This model reads no graph, so it cannot take more than one step.")
        return max_steps

    def _checked_tags(self, tags: TagSource | None) -> TagSource:
        source = self.model.settings.tags.source
        if tags is None:
            return source
        if tags not in ("given", "predicted", "none"):
            raise TreefineError(f"There is no source of tags {tags!r}.", hint="Choose given, predicted or none.")
        if (tags == "given" and source == "none") or (tags == "predicted" and source != "predicted"):
            what = "reads no tags" if tags == "given" else "has no tagger"
            raise ModelError(f"Tags cannot be {tags}: this model {what}.")
        return tags

    def _filled(self, sentence: Sentence, parsed: Parsed) -> Sentence:
        """The sentence with its tree, and with the predicted tags where it had none."""
        sentence = sentence.with_graph(parsed.tree)
        for column, tags in zip(self.model.settings.tags.columns, parsed.tags, strict=False):
            index = sentence.format.upos if column == "upos" else sentence.format.xpos
            if index is not None:
                old = sentence.column(index)
                filled = [new if tag == BLANK else tag for tag, new in zip(old, tags, strict=True)]
                sentence = sentence.with_tags(**{column: filled})
        return sentence


def _sentence(words: Sentence | Sequence[str]) -> Sentence:
    if isinstance(words, Sentence):
        return words
    listed = _checked(words)
    forms = [each for each in listed if isinstance(each, str)]
    if len(forms) < len(listed):
        raise TreefineError("A sentence is a list of words.", hint=f"This is none: {str(words)[:40]}")
    return Sentence.of_words(forms)


def _checked(words: Iterable[Sentence | Sequence[str]] | Sequence[str]) -> list[Sentence | Sequence[str] | str]:
    """The words, or sentences, as a list; text that is not cut into words is refused."""
    if not isinstance(words, Iterable):
        raise TreefineError("A sentence is a list of words.", hint=f"This is none: {str(words)[:40]}")
    if isinstance(words, str):
        raise TreefineError(
            f"{words[:40]!r} is a string, not a list of words.",
            hint='Cut it into words, ["A", "dog"], or call the parser itself with it.',
        )
    return list(words)


def load(
    name: str | os.PathLike[str] = "en",
    *,
    max_steps: int | None = None,
    tags: TagSource | None = None,
    device: str | torch.device | None = None,
) -> Parser:
    """The bundled parser of this name, or that of a folder or a hub's model: text in, trees out."""
    return Parser.from_pretrained(name, max_steps=max_steps, tags=tags, device=device)
