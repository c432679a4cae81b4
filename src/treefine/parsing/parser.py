"""Parser: the object a user holds."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import overload

import torch

from treefine.config import BATCH_PIECES, Precision, TagSource
from treefine.errors import ModelError, TreefineError
from treefine.fast.engine import Engine, can_run, stream_in_blocks
from treefine.fast.file_workers import parse_file
from treefine.fast.int8_encoder import with_eight_bits
from treefine.model.bundled import find_model
from treefine.model.folder import load_model, new_folder, push_folder, write_model
from treefine.model.parser_model import ParserModel
from treefine.model.weight_files import LAYOUT
from treefine.parsing.annotate import with_parse
from treefine.parsing.batches import Plan, run
from treefine.parsing.confidence import sentence_confidence
from treefine.parsing.decode import Decoder
from treefine.parsing.initial import InitialParser, empty, from_file, from_parser
from treefine.parsing.options import (
    checked_k,
    checked_keep,
    checked_precision,
    checked_steps,
    checked_stop,
    checked_tags,
    find_device,
    listed_words,
    sentence_of,
)
from treefine.parsing.parse import Parse, Parses
from treefine.parsing.results import Parsed, Step, details, steps, trees
from treefine.segmenter.cut import Segmented
from treefine.segmenter.segmenter import Segmenter
from treefine.treebank.constraints import CONSTRAIN, Constraints, Keep, listed
from treefine.treebank.files import Source
from treefine.treebank.raw_text import Span, own_text, spans_in
from treefine.treebank.sentence import Sentence


def write_parser(parser: Parser, folder: Path, dtype: torch.dtype, notes: str) -> None:
    """Write all of it into a folder that is there."""
    write_model(parser.model, folder, dtype=dtype, notes=notes)
    initial: Parser | InitialParser = parser.initial
    if isinstance(initial, type(parser)):
        (folder / LAYOUT.initial).mkdir()
        write_parser(initial, folder / LAYOUT.initial, dtype, "")
    if parser.segmenter is not None:
        (folder / LAYOUT.segmenter).mkdir()
        parser.segmenter.write(folder / LAYOUT.segmenter)


class Parser:
    """A loaded model, ready to parse: words in, trees out.

    `initial` is what to start from: "empty", the folder of a SynTr or biaffine model, a file of the same text, a
    Parser, or a function of `treefine.parsing.initial`; without it the initial parser saved with the model, or nothing.
    `max_steps` is T; without it that of the training (if that is not told 3, or 4 from an empty graph). A sentence of
    which a step is surer than `stop_above` takes no further one; without it as the model was measured from an empty
    graph, and else only where nothing changes. `tags` tells the model to read the tags that the sentences have
    ("given"), to predict them, or to do without ("none"); without it, it does as it was trained. `keep` says what a
    person decided: what marks in MISC say ("marked"), every head and label that is filled in ("given"), or "nothing".
    With `k` above 1 a Parse has the k best trees. `precision` is that of the numbers it runs with: on a CPU float32 or
    int8, on a GPU float32, float16 or bfloat16; without it the model's own, for which its loss was measured.
    """

    def __init__(
        self,
        model: ParserModel,
        *,
        initial: str | os.PathLike[str] | Parser | InitialParser | None = None,
        max_steps: int | None = None,
        stop_above: float | None = None,
        tags: TagSource | None = None,
        is_projective: bool = False,
        keep: Keep = "marked",
        k: int = 1,
        device: str | torch.device | None = None,
        precision: Precision | None = None,
        batch_pieces: int = BATCH_PIECES,
        segmenter: Segmenter | None = None,
    ) -> None:
        if batch_pieces < 1:
            raise TreefineError(f"batch_pieces is {batch_pieces}.", hint="A batch needs at least one piece.")
        self.device = find_device(device)
        self.model = model.eval().to(self.device)
        self.batch_pieces = batch_pieces
        self.initial = self._initial_parser(initial)
        self.max_steps = checked_steps(max_steps, model, starts_empty=self.initial is empty)
        self.stop_above = checked_stop(stop_above, model, starts_empty=self.initial is empty)
        self.tags = checked_tags(tags, model)
        self.precision = checked_precision(precision, model, self.device)
        self.is_projective = is_projective
        self.keep, self.k = checked_keep(keep), checked_k(k)
        self.segmenter = segmenter

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        initial: str | os.PathLike[str] | Parser | InitialParser | None = None,
        max_steps: int | None = None,
        stop_above: float | None = None,
        tags: TagSource | None = None,
        is_projective: bool = False,
        keep: Keep = "marked",
        k: int = 1,
        device: str | torch.device | None = None,
        precision: Precision | None = None,
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
            stop_above=stop_above,
            tags=tags,
            is_projective=is_projective,
            keep=keep,
            k=k,
            device=device,
            precision=precision,
            batch_pieces=batch_pieces,
            segmenter=Segmenter.from_folder(folder / LAYOUT.segmenter) if has_segmenter else None,
        )

    def using(
        self,
        *,
        initial: str | os.PathLike[str] | Parser | InitialParser | None = None,
        max_steps: int | None = None,
        stop_above: float | None = None,
        tags: TagSource | None = None,
        is_projective: bool | None = None,
        keep: Keep | None = None,
        k: int | None = None,
        precision: Precision | None = None,
    ) -> Parser:
        """The same model with other options; those left out stay, but T and `stop_above` follow a new `initial`."""
        other = Parser(
            self.model,
            initial=self.initial if initial is None else initial,
            max_steps=self.max_steps if max_steps is None and initial is None else max_steps,
            stop_above=self.stop_above if stop_above is None and initial is None else stop_above,
            tags=tags or self.tags,
            is_projective=self.is_projective if is_projective is None else is_projective,
            keep=keep or self.keep,
            k=self.k if k is None else k,
            device=self.device,
            precision=precision or self.precision,
            batch_pieces=self.batch_pieces,
            segmenter=self.segmenter,
        )
        if other.precision == self.precision:
            other.running = self.running
        return other

    @cached_property
    def running(self) -> ParserModel:
        """The model as it runs on a CPU, which may be in eight bits; `model` has the weights as they are saved."""
        return with_eight_bits(self.model) if self.precision == "int8" else self.model

    @cached_property
    def _free_initial(self) -> Parser | None:
        """An initial parser that heeds no marks: what was decided is put into its graph afterwards."""
        return self.initial.using(keep="nothing") if isinstance(self.initial, Parser) else None

    @cached_property
    def engine(self) -> Engine | None:
        """What finds trees on a GPU; None where that is not for it."""
        plan = self.plan()
        return Engine(plan) if self.device.type == "cuda" and can_run(plan) else None

    @overload
    def parse(  # type: ignore[overload-overlap]
        self, sentences: Sentence | Sequence[str], *, constraints: Constraints | None = None
    ) -> Sentence: ...
    @overload
    def parse(
        self, sentences: Iterable[Sentence | Sequence[str]], *, constraints: Iterable[Constraints] | None = None
    ) -> list[Sentence]: ...
    def parse(
        self,
        sentences: Sentence | Sequence[str] | Iterable[Sentence | Sequence[str]],
        *,
        constraints: Constraints | Iterable[Constraints] | None = None,
    ) -> Sentence | list[Sentence]:
        """One sentence (a list of words, or a Sentence of a treebank) with its tree; or a list of them with theirs.

        `constraints` are arcs and labels to keep or to avoid in it, or for a list those of each; with them nothing else
        is kept.
        """
        decided = [constraints] if isinstance(constraints, Constraints) else constraints
        if isinstance(sentences, Sentence):
            return next(self.stream([sentences], constraints=decided))
        several = listed_words(sentences)
        words = [each for each in several if isinstance(each, str)]
        if several and len(words) == len(several):
            return next(self.stream([words], constraints=decided))
        if isinstance(constraints, Constraints):
            raise TreefineError("One Constraints is for one sentence.", hint="Give a list with one for each.")
        return list(self.stream(several, constraints=decided))

    def stream(
        self,
        sentences: Iterable[Sentence | Sequence[str]],
        *,
        constraints: Iterable[Constraints] | None = None,
        skip: int = 0,
    ) -> Iterator[Sentence]:
        """The sentences with their trees, in the order they came, some thousands held at a time.

        All that a sentence holds stays, but for heads, labels, the enhanced arcs that restate them, and tags that were
        blank and have been predicted. The first `skip` sentences are left out.
        """
        plan, told = self.plan(constraints), map(sentence_of, sentences)
        if self.engine is not None:
            yield from stream_in_blocks(plan, self.engine.stream, told, skip=skip)
            return
        for sentence, parsed in run(plan, told, trees, skip=skip):
            yield self._filled(sentence, parsed)

    def parse_file(
        self,
        source: Source,
        target: str | os.PathLike[str],
        *,
        format: str | None = None,
        workers: int | None = None,
    ) -> int:
        """Write a treebank with its trees to `target`, which appears once it is whole; return the number of sentences.

        `source` and `format` are those of `read_treebank`. On a GPU, `workers` processes read and write beside the
        model; by default about as many as there are cores, once a file is long enough. On a CPU there are none.
        """
        return parse_file(self, source, target, format=format, workers=workers)

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

    def stream_parses(
        self, sentences: Iterable[Sentence | Sequence[str]], *, constraints: Iterable[Constraints] | None = None
    ) -> Iterator[Parse]:
        """The sentences with all that the parser says of them; places are those in the sentence's own text."""
        found = (Segmented(each, spans_in(own_text(each), each)) for each in map(sentence_of, sentences))
        return self.stream_segmented(found, constraints=constraints)

    def segment(self, chunks: Iterable[str]) -> Iterator[Segmented]:
        """The sentences of a text that comes in chunks, cut into words and not yet parsed."""
        return self._segmenter().stream(chunks)

    def segment_lines(self, lines: Iterable[str]) -> Iterator[Segmented]:
        """The same for a text that has one sentence a line."""
        return self._segmenter().stream_lines(lines)

    def stream_segmented(
        self,
        found: Iterable[Segmented],
        *,
        constraints: Iterable[Constraints] | None = None,
        skip: int = 0,
        each_step: bool = False,
    ) -> Iterator[Parse]:
        """Sentences that a segmenter found with all that the parser says of them, but for the first `skip`.

        With `each_step` also how sure each step was of its own graph.
        """
        places: deque[tuple[Span, ...]] = deque()  # of sentences that are being parsed

        def told() -> Iterator[Sentence]:
            for number, each in enumerate(found):
                if number >= skip:
                    places.append(each.spans)
                yield each.sentence

        for sentence, parsed in run(self.plan(constraints), told(), partial(details, each_step=each_step), skip=skip):
            sure = sentence_confidence(parsed.confidence, self.model.settings.confidence)
            filled = self._filled(sentence, parsed.parsed)
            yield Parse(
                filled,
                places.popleft(),
                parsed.confidence,
                sure,
                parsed.steps,
                parsed.initial,
                parsed.initial_confidence,
                parsed.converged,
                parsed.trees,
                parsed.was_sure,
                parsed.step_confidence,
            )

    def _segmenter(self) -> Segmenter:
        if self.segmenter is None:
            hint = "Give it words: a list of them, or a file that is cut into words (--from words)."
            raise ModelError("This model has no segmenter, so it cannot read text.", hint=hint)
        return self.segmenter

    def refine(self, sentence: Sentence | Sequence[str], *, constraints: Constraints | None = None) -> Iterator[Step]:
        """The steps G¹ … Gᵀ of one sentence, each with its graph, tree, scores and probabilities."""
        for _, found in self.stream_steps([sentence], constraints=None if constraints is None else [constraints]):
            yield from found

    def stream_steps(
        self, sentences: Iterable[Sentence | Sequence[str]], *, constraints: Iterable[Constraints] | None = None
    ) -> Iterator[tuple[Sentence, list[Step]]]:
        """Each sentence with all its steps, in the order they came."""
        return run(self.plan(constraints), map(sentence_of, sentences), steps)

    def save(self, folder: str | os.PathLike[str], *, dtype: torch.dtype = torch.float32, notes: str = "") -> None:
        """Write a model folder that can be moved; it appears once it is whole, in place of an older model.

        `dtype` is float32, float16 for half the size, or int8 for a quarter. `notes` go into the model card. The model
        of an initial parser is saved with it. Options, and initial parses from a file or a function, are the caller's
        and not saved.
        """
        with new_folder(Path(folder)) as new:
            write_parser(self, new, dtype, notes)

    def push_to_hub(
        self, name: str, *, private: bool = False, dtype: torch.dtype = torch.float32, notes: str = ""
    ) -> str:
        """Upload the model to the hub as OWNER/NAME, and return the address it has there."""
        with tempfile.TemporaryDirectory() as folder:
            write_parser(self, Path(folder), dtype, notes)
            return push_folder(Path(folder), name, is_private=private)

    def plan(self, constraints: Iterable[Constraints] | None = None) -> Plan:
        """How sentences are parsed, for what runs them another way."""
        initial = self.initial
        if isinstance(initial, Parser):
            assert self._free_initial is not None
            initial = from_parser(self._free_initial.stream)
        self.running.settings = self.model.settings  # calibration changes those of a model that has run
        return Plan(
            self.running,
            self.device,
            self.batch_pieces,
            initial,
            self.max_steps,
            self.tags,
            Decoder.of(self.model, is_projective=self.is_projective),
            CONSTRAIN[self.keep] if constraints is None else listed(constraints),
            self.k,
            self.precision,
            self.stop_above,
        )

    def _filled(self, sentence: Sentence, parsed: Parsed) -> Sentence:
        """The sentence with its tree, and with the predicted tags where it had none."""
        return with_parse(sentence, parsed.tree.arcs, self.model.settings.tags.columns, parsed.tags)

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
            hint = "Choose empty, the folder of a SynTr or biaffine model, or a file of the same text."
            raise TreefineError(f"There is no initial parser {os.fspath(initial)!r}.", hint=hint)
        return from_file(os.fspath(initial))


def load(
    name: str | os.PathLike[str] = "en",
    *,
    initial: str | os.PathLike[str] | Parser | InitialParser | None = None,
    max_steps: int | None = None,
    stop_above: float | None = None,
    tags: TagSource | None = None,
    device: str | torch.device | None = None,
    precision: Precision | None = None,
) -> Parser:
    """The bundled parser of this name, or that of a folder or a hub's model: text in, trees out."""
    return Parser.from_pretrained(
        name,
        initial=initial,
        max_steps=max_steps,
        stop_above=stop_above,
        tags=tags,
        device=device,
        precision=precision,
    )
