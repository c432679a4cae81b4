"""Parser: the object a user holds."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, overload

import torch

from treefine import fast
from treefine.config import Precision, TagSource
from treefine.errors import ModelError, TreefineError
from treefine.model.bundled import find_model
from treefine.model.folder import load_model, new_folder, push_folder, write_model
from treefine.model.parser_model import ParserModel
from treefine.model.weight_files import LAYOUT
from treefine.parsing.batches import run
from treefine.parsing.initial import InitialParser, empty, from_file, from_parser, given, renamed
from treefine.parsing.options import OptionValues, ParserOptions, listed_words, sentence_of
from treefine.parsing.parse import Parse, Parses
from treefine.parsing.plan import Plan, find_device
from treefine.parsing.results import Step, parses, steps, trees
from treefine.segmenter.cut import Segmented
from treefine.segmenter.segmenter import Segmenter
from treefine.treebank.constraints import Constraints, Keep, listed
from treefine.treebank.files import Source
from treefine.treebank.raw_text import Span, own_text, spans_in
from treefine.treebank.sentence import Sentence

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from treefine.fast.engine import Engine


class Parser:
    """A loaded model, ready to parse: words in, trees out. `ParserOptions` says what the options are."""

    def __init__(
        self, model: ParserModel, *, segmenter: Segmenter | None = None, **options: Unpack[OptionValues]
    ) -> None:
        self.options = ParserOptions(**options)
        self.segmenter = segmenter
        self.model = model.eval().to(find_device(self.options.device))
        self.initial = self._initial_parser(self.options.initial)
        start = self.initial
        if isinstance(start, Parser):  # it respects no marks: what was decided is put into its graph afterwards
            start = from_parser(start.using(keep="nothing").stream)
        self._plan = Plan.of(self.model, self.options, start)
        self._twin: Parser | None = None  # a parser that runs the same model in the same precision

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str], **options: Unpack[OptionValues]) -> Parser:
        """Return the parser of a bundled model, a model folder, or a hub's OWNER/NAME; only a hub needs a network."""
        folder = find_model(name)
        options["device"] = find_device(options.get("device"))  # a wrong one is reported before anything is read
        if options.get("initial") is None and (folder / LAYOUT.initial).is_dir():
            options["initial"] = folder / LAYOUT.initial
        has_segmenter = (folder / LAYOUT.segmenter).is_dir()
        segmenter = Segmenter.from_folder(folder / LAYOUT.segmenter) if has_segmenter else None
        return cls(load_model(folder), segmenter=segmenter, **options)

    def using(self, **options: Unpack[OptionValues]) -> Parser:
        """Return a parser of the same model with other options, on the same device.

        Options that are left out stay, but T and `stop_above` follow a new `initial`.
        """
        if find_device(options.get("device") or self.device) != self.device:
            raise TreefineError("The model is on another device.", hint="Load it on that device.")
        own = replace(self.options, initial=self.initial, device=self.device)
        other = Parser(self.model, segmenter=self.segmenter, **own.updated(options).given)
        if other.precision == self.precision:
            other._twin = self
        return other

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
            yield from self.engine.stream_sentences(plan, told, skip=skip)
            return
        for _, parsed in run(plan, told, trees, skip=skip):
            yield parsed

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
        return fast.parse_file(self, source, target, format=format, workers=workers)

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

        for _, parse in run(self.plan(constraints), told(), partial(parses, each_step=each_step), skip=skip):
            yield replace(parse, spans=places.popleft())

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
        of an initial parser is saved with it. Options, and initial parses from a file or a function, are not saved.
        """
        with new_folder(Path(folder)) as new:
            self._write(new, dtype, notes)

    def push_to_hub(
        self, name: str, *, private: bool = False, dtype: torch.dtype = torch.float32, notes: str = ""
    ) -> str:
        """Upload the model to the hub as OWNER/NAME, and return its address there."""
        with tempfile.TemporaryDirectory() as folder:
            self._write(Path(folder), dtype, notes)
            return push_folder(Path(folder), name, is_private=private)

    def _write(self, folder: Path, dtype: torch.dtype, notes: str) -> None:
        """Write the model, its segmenter and its initial parser into a folder that exists."""
        write_model(self.model, folder, dtype=dtype, notes=notes)
        if isinstance(self.initial, Parser):
            (folder / LAYOUT.initial).mkdir()
            self.initial._write(folder / LAYOUT.initial, dtype, "")
        if self.segmenter is not None:
            (folder / LAYOUT.segmenter).mkdir()
            self.segmenter.write(folder / LAYOUT.segmenter)

    def plan(self, constraints: Iterable[Constraints] | None = None) -> Plan:
        """Return how sentences are parsed, for what runs them another way."""
        self.running.settings = self.model.settings  # calibration changes those of a model that has run
        constrain = self._plan.constrain if constraints is None else listed(constraints)
        return replace(self._plan, model=self.running, constrain=constrain)

    @cached_property
    def running(self) -> ParserModel:
        """The model as it runs on this device in this precision; `model` has the weights as they are saved."""
        if self._twin is not None:
            return self._twin.running
        return fast.parsing_model(self.model, self.device, self.precision)

    @cached_property
    def engine(self) -> Engine | None:
        """What finds trees on a GPU; None where sentences are parsed batch by batch."""
        return fast.engine_of(self.plan())

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._plan.device

    @property
    def max_steps(self) -> int:
        """T."""
        return self._plan.max_steps

    @property
    def stop_above(self) -> float:
        """How sure a sentence must be to take no further step."""
        return self._plan.stop_above

    @property
    def tags(self) -> TagSource:
        """Where tags come from."""
        return self._plan.tags

    @property
    def precision(self) -> Precision:
        """The numbers that the encoder runs with."""
        return self._plan.precision

    @property
    def keep(self) -> Keep:
        """What a person decided and must stay."""
        return self._plan.keep

    @property
    def k(self) -> int:
        """How many of the best trees a Parse has."""
        return self._plan.k

    def _initial_parser(
        self, initial: str | os.PathLike[str] | Parser | InitialParser | None
    ) -> Parser | InitialParser:
        if initial is None or initial == "empty":
            return empty
        if not self.model.settings.reads_graph and initial is not empty:
            raise ModelError("This model reads no graph, so it cannot refine an initial parse.")
        if isinstance(initial, Parser) or callable(initial):
            return initial
        if initial == "given":
            return renamed(given, self.model.vocabulary.labels)
        path = Path(initial)
        if path.is_dir() and os.fspath(initial):
            return Parser.from_pretrained(path, device=self.options.device, batch_pieces=self.options.batch_pieces)
        if not path.is_file():
            hint = "Choose empty, given, the folder of a SynTr or biaffine model, or a file of the same text."
            raise TreefineError(f"There is no initial parser {os.fspath(initial)!r}.", hint=hint)
        return from_file(os.fspath(initial))


def load(name: str | os.PathLike[str] = "en", **options: Unpack[OptionValues]) -> Parser:
    """Return the bundled parser of this name, or that of a folder or a hub's model: text in, trees out.

    `ParserOptions` says what the options are.
    """
    return Parser.from_pretrained(name, **options)
