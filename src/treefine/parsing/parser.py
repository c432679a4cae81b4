"""Parser: a loaded model with its options, the main entry point of the library."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, overload

import torch

from treefine import fast
from treefine.config import BATCH_PIECES, Precision, TagSource
from treefine.errors import LanguageWarning, ModelError, TreefineError, UnknownLabelWarning
from treefine.model.bundled import ABOUT, about, find_model
from treefine.model.folder import load_model, new_folder, push_folder, write_model
from treefine.model.parser_model import ParserModel
from treefine.model.weight_files import LAYOUT
from treefine.parsing.batches import run
from treefine.parsing.initial import InitialParser, empty, from_file, from_parser, given, renamed
from treefine.parsing.options import OptionValues, ParserOptions, listed_words, sentence_of
from treefine.parsing.parse import Parse, Parses
from treefine.parsing.plan import Plan, check_fork, find_device
from treefine.parsing.results import Step, parses, steps, trees
from treefine.segmenter.cut import Segmented
from treefine.segmenter.language import LanguageCheck
from treefine.segmenter.segmenter import Segmenter
from treefine.treebank.constraints import Constraints, Keep, listed, unknown_labels
from treefine.treebank.files import Source
from treefine.treebank.raw_text import Span, own_text, spans_in
from treefine.treebank.sentence import Sentence

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from treefine.fast.engine import Engine


class _Running(list[ParserModel]):
    """The model as it runs, or nothing before it has run. A pickled copy is empty: GPU buffers cannot be pickled."""

    def __reduce__(self) -> tuple[type[_Running], tuple[()]]:
        return type(self), ()


class Parser:
    """A loaded model that parses words or text into trees. `ParserOptions` documents the options.

    `languages` are the names or codes of the model's languages. Text in another language causes a LanguageWarning.
    """

    def __init__(
        self,
        model: ParserModel,
        *,
        segmenter: Segmenter | None = None,
        languages: Iterable[str] = (),
        **options: Unpack[OptionValues],
    ) -> None:
        self.options = ParserOptions(**options)
        self.segmenter = segmenter
        self.model = model.eval().to(find_device(self.options.device))
        self.initial = self._initial_parser(self.options.initial)
        start = self.initial
        if isinstance(start, Parser):  # it ignores marks: constraints are put into its graph afterwards
            start = from_parser(start.using(keep="nothing").stream_trees)
        self._plan = Plan.of(self.model, self.options, start)
        self._running = _Running()  # filled on first use; shared with `using`
        self.languages = tuple(languages)
        self._language_check = LanguageCheck(self.languages)  # shared with `using`

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, without the engine, which is created again on first use."""
        return {name: value for name, value in self.__dict__.items() if name != "engine"}

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str], **options: Unpack[OptionValues]) -> Parser:
        """Load a bundled model, a model folder, or OWNER/NAME from the hub. Only the hub needs a network."""
        folder = find_model(name)
        options["device"] = find_device(options.get("device"))  # report a wrong device before reading any file
        if options.get("initial") is None and (folder / LAYOUT.initial).is_dir():
            options["initial"] = folder / LAYOUT.initial
        has_segmenter = (folder / LAYOUT.segmenter).is_dir()
        segmenter = Segmenter.from_folder(folder / LAYOUT.segmenter) if has_segmenter else None
        languages = (about(folder).language,) if (folder / ABOUT).is_file() else ()
        return cls(load_model(folder), segmenter=segmenter, languages=languages, **options)

    def using(self, **options: Unpack[OptionValues]) -> Parser:
        """Return a parser with the same model and device but other options.

        Options that are left out stay the same, except that a new `initial` resets `max_steps` and `stop_above`.
        """
        device = find_device(options.get("device") or self.device)
        if (device.type, device.index or 0) != (self.device.type, self.device.index or 0):
            raise TreefineError(f"The model is on {self.device}, not on {device}.", hint="Load it on that device.")
        own = replace(self.options, initial=self.initial, device=self.device)
        other = Parser(self.model, segmenter=self.segmenter, languages=self.languages, **own.updated(options).given)
        if other.precision == self.precision:
            other._running = self._running
        other._language_check = self._language_check
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
        """Parse one sentence (a list of words, or a Sentence of a treebank) or a list of sentences.

        `constraints` holds the arcs and labels to keep or avoid: one Constraints for one sentence, or a list with one
        for each sentence. It replaces the option `keep`. A label that the model does not know causes an
        UnknownLabelWarning, unless the constraints come from an iterator.
        """
        decided = [constraints] if isinstance(constraints, Constraints) else constraints
        known = self.model.vocabulary.labels
        for each in decided if isinstance(decided, Sequence) else ():
            for unknown in islice(unknown_labels(each, known), 1):
                message = f"word {unknown.word}: {unknown.message} {unknown.warning(known)}"
                warnings.warn(message, UnknownLabelWarning, stacklevel=2)
        if isinstance(sentences, Sentence):
            return next(self.stream_trees([sentences], constraints=decided))
        several = listed_words(sentences)
        words = [each for each in several if isinstance(each, str)]
        if several and len(words) == len(several):
            return next(self.stream_trees([words], constraints=decided))
        if isinstance(constraints, Constraints):
            hint = "Pass a list with one for each sentence."
            raise TreefineError("There are several sentences but only one Constraints.", hint=hint)
        return list(self.stream_trees(several, constraints=decided))

    def stream_trees(
        self,
        sentences: Iterable[Sentence | Sequence[str]],
        *,
        constraints: Iterable[Constraints] | None = None,
        skip: int = 0,
    ) -> Iterator[Sentence]:
        """Yield the sentences with their trees, in order, with a few thousand in memory at a time.

        Heads and labels change, and so do the enhanced arcs that repeat them and blank tags that the model predicts.
        Everything else stays as it is. The first `skip` sentences are left out.
        """
        plan, given_sentences = self.plan(constraints), map(sentence_of, sentences)
        if self.engine is not None:
            yield from self.engine.stream_sentences(plan, given_sentences, skip=skip)
            return
        for _, parsed in run(plan, given_sentences, trees, skip=skip):
            yield parsed

    def parse_file(
        self,
        source: Source,
        target: str | os.PathLike[str],
        *,
        format: str | None = None,
        workers: int | None = None,
    ) -> int:
        """Parse a treebank into `target`, which appears once it is complete; return the number of sentences.

        `source` and `format` are as in `read_treebank`. On a GPU, `workers` processes read and write files while the
        model runs. The default is about one per core if the file is long enough. On a CPU there are no workers.
        """
        return fast.parse_file(self, source, target, format=format, workers=workers)

    def __call__(self, text: str) -> Parses:
        """Parse a text into sentences with tags, trees, offsets in the text, and confidences."""
        if not isinstance(text, str):
            raise TreefineError("A text must be a string.", hint="Pass lists of words to `parse`.")
        self._check_language(text)
        return Parses(self.stream_chunks([text]))

    def stream_chunks(self, chunks: Iterable[str]) -> Iterator[Parse]:
        """Parse a text that comes in chunks, such as an open file. Chunk borders make no difference."""
        return self.stream_segmented(self.segment(chunks))

    def stream_lines(self, lines: Iterable[str]) -> Iterator[Parse]:
        """Parse a text with one sentence per line. Lines include their line ends, as in an open file."""
        return self.stream_segmented(self.segment_lines(lines))

    def stream(
        self, sentences: Iterable[Sentence | Sequence[str]], *, constraints: Iterable[Constraints] | None = None
    ) -> Iterator[Parse]:
        """Parse sentences into full Parses. Offsets refer to the sentence's own text."""
        found = (Segmented(each, spans_in(own_text(each), each)) for each in map(sentence_of, sentences))
        return self.stream_segmented(found, constraints=constraints)

    def segment(self, chunks: Iterable[str]) -> Iterator[Segmented]:
        """Segment a text that comes in chunks into sentences and words, without parsing it."""
        return self._segmenter().stream(chunks)

    def segment_lines(self, lines: Iterable[str]) -> Iterator[Segmented]:
        """Segment a text with one sentence per line into words, without parsing it."""
        return self._segmenter().stream_lines(lines)

    def stream_segmented(
        self,
        found: Iterable[Segmented],
        *,
        constraints: Iterable[Constraints] | None = None,
        skip: int = 0,
        each_step: bool = False,
    ) -> Iterator[Parse]:
        """Parse the sentences of a segmenter into full Parses, except the first `skip`.

        With `each_step`, a Parse also has the confidence of each step in its own graph.
        """
        places: deque[tuple[Span, ...]] = deque()  # of the sentences being parsed

        def given_sentences() -> Iterator[Sentence]:
            for number, each in enumerate(found):
                if number >= skip:
                    places.append(each.spans)
                yield each.sentence

        work = partial(parses, each_step=each_step)
        for _, parse in run(self.plan(constraints), given_sentences(), work, skip=skip):
            yield replace(parse, spans=places.popleft())

    def _check_language(self, text: str) -> None:
        """Issue a LanguageWarning, at most once, if the first texts are not in the model's language."""
        warning = self._language_check.warning(text)
        if warning is not None:
            warnings.warn(warning, LanguageWarning, stacklevel=3)

    def _segmenter(self) -> Segmenter:
        if self.segmenter is None:
            hint = "Pass lists of words, or a file that is already split into words (--from words)."
            raise ModelError("This model has no segmenter, so it cannot read text.", hint=hint)
        return self.segmenter

    def steps(self, sentence: Sentence | Sequence[str], *, constraints: Constraints | None = None) -> Iterator[Step]:
        """Yield the steps G¹ … Gᵀ of one sentence, each with its graph, tree, scores and probabilities."""
        for _, found in self.stream_steps([sentence], constraints=None if constraints is None else [constraints]):
            yield from found

    def stream_steps(
        self, sentences: Iterable[Sentence | Sequence[str]], *, constraints: Iterable[Constraints] | None = None
    ) -> Iterator[tuple[Sentence, list[Step]]]:
        """Yield each sentence with all its steps, in order."""
        return run(self.plan(constraints), map(sentence_of, sentences), steps)

    def save(self, folder: str | os.PathLike[str], *, dtype: torch.dtype = torch.float32, notes: str = "") -> None:
        """Write a self-contained model folder, which appears once it is complete and replaces an older model.

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
        """Write the model, its segmenter and its initial parser into an existing folder."""
        write_model(self.model, folder, dtype=dtype, notes=notes)
        if isinstance(self.initial, Parser):
            (folder / LAYOUT.initial).mkdir()
            self.initial._write(folder / LAYOUT.initial, dtype, "")
        if self.segmenter is not None:
            (folder / LAYOUT.segmenter).mkdir()
            self.segmenter.write(folder / LAYOUT.segmenter)

    def plan(self, constraints: Iterable[Constraints] | None = None) -> Plan:
        """Return the plan by which sentences are parsed, for code that runs them in another way."""
        check_fork(self.device)
        constrain = self._plan.constrain if constraints is None else listed(constraints)
        confidence = self.model.settings.confidence  # calibration may have changed it since
        return replace(self._plan, model=self.running, constrain=constrain, confidence=confidence)

    @property
    def running(self) -> ParserModel:
        """The model as it runs on this device in this precision. `model` has the weights as saved.

        In int8, and on a GPU, it has a copy of the weights, made when it first ran.
        """
        if not self._running:
            self._running.append(fast.parsing_model(self.model, self.device, self.precision))
        return self._running[0]

    @cached_property
    def engine(self) -> Engine | None:
        """The engine that parses on a GPU; None if sentences are parsed batch by batch."""
        return fast.engine_of(self.plan())

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self._plan.device

    @property
    def max_steps(self) -> int:
        """T, the maximum number of refinement steps."""
        return self._plan.max_steps

    @property
    def stop_above(self) -> float:
        """The mean word confidence above which a sentence is not refined further."""
        return self._plan.stop_above

    @property
    def tags(self) -> TagSource:
        """The source of the tags."""
        return self._plan.tags

    @property
    def precision(self) -> Precision:
        """The precision of the encoder."""
        return self._plan.precision

    @property
    def is_projective(self) -> bool:
        """Whether trees must be projective."""
        return self._plan.decoder.is_projective

    @property
    def batch_pieces(self) -> int:
        """The maximum number of pieces in a batch, padding included; batches are smaller on a CPU."""
        return BATCH_PIECES if self.options.batch_pieces is None else self.options.batch_pieces

    @property
    def keep(self) -> Keep:
        """The heads and labels of the input to keep: "marked", "given" or "nothing"."""
        return self._plan.keep

    @property
    def k(self) -> int:
        """The number of best trees in a Parse."""
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
    """Load a parser: a bundled model, a model folder, or OWNER/NAME from the hub.

    `ParserOptions` documents the options.
    """
    return Parser.from_pretrained(name, **options)
