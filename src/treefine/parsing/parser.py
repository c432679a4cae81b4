"""Parser: a loaded model with its options, the main entry point of the library."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice, tee
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import torch

from treefine import fast
from treefine.config import LAYOUT, Precision, TagChoice
from treefine.errors import LanguageWarning, ModelError, TreefineError, UnknownLabelWarning, described, is_whole_number
from treefine.model.bundled import ABOUT, about, bundled_models, find_model, model_for
from treefine.model.folder import load_model, new_folder, push_folder, write_model
from treefine.model.parser_model import ParserModel
from treefine.parsing.batches import fitted_weights, parse_inputs, run
from treefine.parsing.initial import InitialParser, SeveralParsers, empty, from_file, from_parser, input_trees, renamed
from treefine.parsing.options import (
    ConstraintsLike,
    Initial,
    Trust,
    Words,
    checked_sentences,
    checked_strings,
    one_or_several,
    options_of,
    sentence_of,
    text_groups,
)
from treefine.parsing.parse import Parse, Parses
from treefine.parsing.plan import Plan, find_device
from treefine.parsing.results import Step, parses, steps, trees
from treefine.segmenter.cut import Segmented
from treefine.segmenter.language import LanguageCheck, code_of
from treefine.segmenter.segmenter import Segmenter
from treefine.treebank.constraints import Constraints, Keep, unknown_labels
from treefine.treebank.files import Source, path_of
from treefine.treebank.raw_text import spans_in
from treefine.treebank.schemes import label_map_of
from treefine.treebank.sentence import HasSentence, Sentence, own_text, sentence_in

if TYPE_CHECKING:
    from treefine.fast.engine import Engine

Context = TypeVar("Context")  # what belongs to a text in `Parser.pipe`
TEXTS_AT_ONCE = 256  # texts that `pipe` segments together, unless they are long
_resolved: Any = property  # of an option with its default filled in; mypy takes the attribute for its value


class Parser:
    """A loaded model that parses text or words into trees. Create one with `treefine.load` or `from_pretrained`.

    - `parser(text)` parses a text, and `pipe(texts)` many texts.
    - `parse(words)` parses a sentence that is already split into words, and `parse(sentences)` several.
    - `refine(sentences)` corrects the trees of another parser.
    - `stream`, `stream_trees`, `stream_lines` and `stream_chunks` parse input of any length in constant memory.
    - `steps(words)` returns each refinement step with its scores.
    - `using(...)` returns a parser with other options; `ParserOptions` documents the options.

    All methods raise TreefineError, or a subclass of it, if an argument or an input is not valid.
    `languages` are the names or codes of the model's languages, if its settings do not state them. Text in another
    language causes a LanguageWarning.
    """

    def __init__(
        self, model: ParserModel, *, segmenter: Segmenter | None = None, languages: Iterable[str] = (), **options: Any
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TreefineError(f"A Parser needs a model, not {described(model)}.", hint='Use treefine.load("en").')
        self.options = options_of(options)
        self.segmenter = segmenter
        device = find_device(self.options.device)
        self.model = model.eval().to(device)
        self.initial = self._initial_parser(self.options.initial)
        self.languages = tuple(languages) or model.settings.languages
        self._plan = Plan.of(self.model, self.options, _trees_of(self.initial), device, self.languages)
        self._running: list[ParserModel] = []  # filled on first use; shared with `using`
        self._language_check = LanguageCheck(self._plan.language.languages, guesses=self._plan.language.guesses)
        self._name = ""  # of the model, as the user gave it

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, without the engine and the running model, which are created on first use."""
        return {name: value for name, value in vars(self).items() if name != "engine"} | {"_running": []}

    def __repr__(self) -> str:
        """Return the name of the model, its kind and its main options."""
        kind = "RNGTr" if self.model.settings.reads_graph else "SynTr"
        name = f"{self._name!r}, {kind}" if self._name else kind
        return f"<Parser {name}, T={self.max_steps}, tags: {self.tags}, {self.device}, {self.precision}>"

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str], **options: Any) -> Parser:
        """Load a bundled model, a model folder, or OWNER/NAME from the hub. Only the hub needs a network.

        `ParserOptions` documents the options. Raises ModelError if there is no such model or it cannot be used, and
        TreefineError if an option is not valid.
        """
        if not isinstance(name, str | os.PathLike):
            hint = 'Write the name of a bundled model, such as "en", or the path of a model folder.'
            raise ModelError(f"The name of a model must be a string or a path, not {described(name)}.", hint=hint)
        chosen = options_of(options).set_options
        if isinstance(name, str) and name not in bundled_models() and not Path(name).exists():
            model = model_for(name)  # a language, such as "sv"
            if model is not None:
                name, chosen["language"] = model[0], chosen.get("language", model[1])
        folder = find_model(name)
        if "initial" not in chosen and (folder / LAYOUT.initial).is_dir():
            chosen["initial"] = folder / LAYOUT.initial
        has_segmenter = (folder / LAYOUT.segmenter).is_dir()
        segmenter = Segmenter.from_folder(folder / LAYOUT.segmenter) if has_segmenter else None
        source = about(folder) if (folder / ABOUT).is_file() else None
        languages = () if source is None or source.languages else (source.language,)
        parser = cls(load_model(folder), segmenter=segmenter, languages=languages, **chosen)
        parser._name = os.fspath(name)
        return parser

    def using(self, **options: Any) -> Parser:
        """Return a parser with the same model and device but other options.

        Options that are left out stay the same, except that a new `initial` resets `trust`, `max_steps` and
        `stop_above`.
        Raises TreefineError if an option is not valid.
        """
        own = replace(self.options, initial=self.initial, device=self.device).updated(options)
        device = find_device(own.device)
        if (device.type, device.index or 0) != (self.device.type, self.device.index or 0):
            raise TreefineError(f"The model is on {self.device}, not on {device}.", hint="Load it on that device.")
        chosen = own.set_options | {"device": self.device}
        other = Parser(self.model, segmenter=self.segmenter, languages=self.languages, **chosen)
        other._name = self._name
        if other.precision == self.precision:
            other._running = self._running
        return other

    def __call__(self, text: str) -> Parses:
        """Parse a text into sentences with tags, trees, offsets in the text, and confidences.

        Raises ModelError if the model has no segmenter, so that it cannot read text.
        """
        if not isinstance(text, str):
            hint = "Use pipe(texts) for several texts, or parse(words) for a list of words."
            raise TreefineError(f"A text must be a string, not {described(text)}.", hint=hint)
        parsed = self.stream_chunks([text])  # first, because the model may have no segmenter
        self._check_language(text)
        return Parses(parsed)

    @overload
    def pipe(
        self, texts: Iterable[str], *, batch_size: int = TEXTS_AT_ONCE, as_tuples: Literal[False] = False
    ) -> Iterator[Parses]: ...
    @overload
    def pipe(
        self, texts: Iterable[tuple[str, Context]], *, batch_size: int = TEXTS_AT_ONCE, as_tuples: Literal[True]
    ) -> Iterator[tuple[Parses, Context]]: ...
    def pipe(self, texts: Iterable[Any], *, batch_size: int = TEXTS_AT_ONCE, as_tuples: bool = False) -> Iterator[Any]:
        """Parse many texts, and yield the Parses of each text, in order. Their sentences are parsed as one stream.

        Offsets refer to the text of their own document. An empty text has no parses. `texts` may be endless. At most
        `batch_size` of them are segmented at a time, and fewer if they are long. With a `batch_size` below the default,
        their Parses come before more texts are read, which is slower. If reading a text fails, the error is raised
        after the Parses of the texts before it. With `as_tuples`, the items are pairs of a text and anything else, such
        as its file name, and so are the results: `(parses, context)`.
        """
        if not is_whole_number(batch_size) or batch_size < 1:
            raise TreefineError(f"batch_size must be a number of texts, at least 1, not {described(batch_size)}.")
        groups = text_groups(texts, batch_size, as_tuples=as_tuples)
        streams: Iterable[Any] = ([group] for group in groups) if batch_size < TEXTS_AT_ONCE else [groups]
        for result in chain.from_iterable(map(self._piped, streams)):
            yield result if as_tuples else result[0]

    def _piped(self, groups: Iterable[Sequence[tuple[str, Any]]]) -> Iterator[tuple[Parses, Any]]:
        """Yield the Parses of each text, with its context, from one stream of sentences."""
        waiting = deque[tuple[int, Any]]()  # the number of sentences of each text that is being parsed, and its context
        failed = list[Exception]()

        def segmented() -> Iterator[Segmented]:
            try:
                for group in groups:
                    for text, _ in group:
                        self._check_language(text)
                    found = self.segment_all([text for text, _ in group])
                    for sentences, (_, context) in zip(found, group, strict=True):
                        waiting.append((len(sentences), context))
                        yield from sentences
            except Exception as error:  # raised below, after the parses of the texts before it
                failed.append(error)

        parsed = list[Parse]()
        for parse in chain(self.stream_segmented(segmented()), [None]):
            parsed += [] if parse is None else [parse]
            while waiting and len(parsed) >= waiting[0][0]:
                n_sentences, context = waiting.popleft()
                parses, parsed = Parses(parsed[:n_sentences]), parsed[n_sentences:]
                yield parses, context
        if failed:
            raise failed[0]

    @overload
    def parse(self, sentences: Words, *, constraints: ConstraintsLike | None = None) -> Parse: ...  # type: ignore[overload-overlap]
    @overload
    def parse(self, sentences: Iterable[Words], *, constraints: Iterable[ConstraintsLike] | None = None) -> Parses: ...
    def parse(
        self,
        sentences: Words | Iterable[Words],
        *,
        constraints: ConstraintsLike | Iterable[ConstraintsLike] | None = None,
    ) -> Parse | Parses:
        """Parse one sentence into a Parse, or a list of sentences into Parses.

        A sentence is a list of words, a Sentence of a treebank, or an earlier Parse.
        `constraints` holds the heads and labels to keep or avoid: a Constraints, or a dictionary such as
        `{"heads": {4: 0}}`, for one sentence, and a list of them for several sentences. It replaces the option `keep`.
        A label that the model does not know causes an UnknownLabelWarning, unless the constraints come from an
        iterator. Offsets refer to the sentence's own text. Everything in a Sentence stays as it is, except heads,
        labels, the enhanced arcs that repeat them, and blank tags that the model predicts.
        """
        several, is_one = one_or_several(sentences)
        if is_one and isinstance(constraints, Constraints | Mapping):
            constraints = [constraints]
        if isinstance(constraints, Sequence) and not isinstance(constraints, str | bytes):
            listed, known = list(map(Constraints.of, constraints)), self.model.vocabulary.labels
            constraints = listed
            for unknown in chain.from_iterable(islice(unknown_labels(each, known), 1) for each in listed):
                message = f"word {unknown.word}: {unknown.message} {unknown.warning}"
                warnings.warn(message, UnknownLabelWarning, stacklevel=2)
        parsed = Parses(self.stream(several, constraints=constraints))  # type: ignore[arg-type]  # it checks the type
        return parsed[0] if is_one else parsed

    @overload
    def refine(self, sentences: Sentence | HasSentence, **options: Any) -> Parse: ...
    @overload
    def refine(self, sentences: Iterable[Sentence | HasSentence], **options: Any) -> Parses: ...
    def refine(
        self,
        sentences: Sentence | HasSentence | Iterable[Sentence | HasSentence],
        *,
        constraints: ConstraintsLike | Iterable[ConstraintsLike] | None = None,
        label_map: Mapping[str, str] | Source | None = None,
        **options: Any,
    ) -> Parse | Parses:
        """Correct the trees of another parser, as `treefine refine` does: one Sentence, or a list of Sentences.

        The heads and labels in the sentences are the initial parse; a word without a head starts without an arc. A
        label that the model does not know is read as its main type (nsubj:outer as nsubj) or under its newer name (dobj
        as obj). `label_map` maps other labels to those of the model: a dictionary, or a file with two columns.
        `constraints` is as in `parse`. Other arguments are options of a parser, above all `trust`, "auto" by default,
        and `tags`: "predicted" replaces the tags of the sentences; otherwise only blank ones are filled in. Raises
        ModelError if the model reads no graph.
        """
        several, is_one = one_or_several(sentences)
        for each in several:
            if sentence_in(each) is None:
                hint = "Read a treebank with read_treebank, or parse words with parse."
                raise TreefineError(f"There are no heads to refine in {described(each)}.", hint=hint)
        known, own = self.model.vocabulary.labels, self.options
        names = None if label_map is None else label_map_of(label_map, known)
        trust = None if isinstance(own.trust, list | tuple) else own.trust  # a list is for several parsers
        kept = {"max_steps": own.max_steps, "stop_above": own.stop_above, "trust": trust}
        refiner = self.using(**kept | options | {"initial": renamed(input_trees, known, names)})
        return refiner.parse(several[0] if is_one else several, constraints=constraints)  # type: ignore[arg-type]

    def fit_trust(self, sentences: Iterable[Words], gold: Iterable[Sentence | HasSentence]) -> tuple[float, ...]:
        """Return the weight of each initial parse, fitted to some correct trees: a value for the option `trust`.

        The initial parses are those of the parser's option `initial` or, if that is empty, the trees in `sentences`.
        `gold` has correct trees of some of the sentences, with the same words; the more, the better. Raises
        TreefineError if no sentence occurs in both.
        """
        parser = self.using(initial="given") if self.initial is empty else self
        return fitted_weights(parser.using(trust=1.0).plan(), checked_sentences(sentences), checked_sentences(gold))

    def stream(
        self, sentences: Iterable[Words], *, constraints: Iterable[ConstraintsLike] | None = None
    ) -> Iterator[Parse]:
        """Yield the Parse of each sentence, in order, in constant memory. The arguments are as in `parse`."""
        segmented = (Segmented(each, spans_in(own_text(each), each)) for each in checked_sentences(sentences))
        return self.stream_segmented(segmented, constraints=constraints)

    def stream_trees(
        self, sentences: Iterable[Words], *, constraints: Iterable[ConstraintsLike] | None = None, skip: int = 0
    ) -> Iterator[Sentence]:
        """Yield each sentence with its tree, in order, in constant memory, faster than `stream`: without confidences.

        The arguments are as in `parse`. The first `skip` sentences are left out.
        """
        plan, read = self.plan(), checked_sentences(sentences)
        if self.engine is not None:
            return self.engine.stream_sentences(plan, read, constraints=constraints, skip=skip)
        return (parsed for _, parsed in run(plan, parse_inputs(plan, read, constraints), trees, skip=skip))

    def parse_file(
        self, source: Source, target: str | os.PathLike[str], *, format: str | None = None, workers: int | None = None
    ) -> int:
        """Parse a treebank into `target`, which appears once it is complete; return the number of sentences.

        `source` and `format` are as in `read_treebank`. On a GPU, `workers` processes read and write files while the
        model runs. The default is about one per core if the file is long enough. On a CPU there are no workers.
        """
        return fast.parse_file(self, source, target, format, workers)

    def stream_chunks(self, chunks: Iterable[str]) -> Iterator[Parse]:
        """Parse one text that comes in chunks, such as an open file. Chunk borders make no difference."""
        return self.stream_segmented(self.segment(chunks))

    def stream_lines(self, lines: Iterable[str]) -> Iterator[Parse]:
        """Parse a text with one sentence per line. Lines include their line ends, as in an open file."""
        return self.stream_segmented(self.segment_lines(lines))

    def segment(self, chunks: Iterable[str]) -> Iterator[Segmented]:
        """Segment a text that comes in chunks into sentences and words, without parsing it."""
        treebank, chunks = self._plan.language.of_chunks(checked_strings(chunks, "chunks"))
        return self.text_segmenter(treebank).stream(chunks)

    def segment_all(self, texts: Sequence[str]) -> list[list[Segmented]]:
        """Segment several texts, as `segment` does; short texts in the same language share a batch."""
        treebanks = [self._plan.language.of_text(text) for text in texts]
        segmented: dict[int, list[Segmented]] = {}
        for treebank in dict.fromkeys(treebanks):
            numbers = [number for number, each in enumerate(treebanks) if each == treebank]
            results = self.text_segmenter(treebank).segment_all([texts[number] for number in numbers])
            segmented |= dict(zip(numbers, results, strict=True))
        return [segmented[number] for number in range(len(texts))]

    def segment_lines(self, lines: Iterable[str]) -> Iterator[Segmented]:
        """Segment a text with one sentence per line into words, without parsing it."""
        treebank, lines = self._plan.language.of_chunks(checked_strings(lines, "lines"), between="\n")
        return self.text_segmenter(treebank).stream_lines(lines)

    def stream_segmented(
        self,
        segmented: Iterable[Segmented],
        *,
        constraints: Iterable[ConstraintsLike] | None = None,
        skip: int = 0,
        each_step: bool = False,
    ) -> Iterator[Parse]:
        """Parse the sentences of a segmenter into full Parses, except the first `skip`.

        With `each_step`, a Parse also has the confidence of each step in its own graph.
        """
        read, placed = tee(segmented)
        plan, work = self.plan(), partial(parses, each_step=each_step)
        inputs = parse_inputs(plan, (each.sentence for each in read), constraints)
        parsed = run(plan, inputs, work, skip=skip)
        for (_, parse), each in zip(parsed, islice(placed, skip, None), strict=False):
            sure = each.boundary_confidence
            yield replace(parse, spans=each.spans, confidence=sure * parse.confidence, cut_confidence=sure)

    def _check_language(self, text: str) -> None:
        """Issue a LanguageWarning, at most once, if the first texts are not in the model's language."""
        warning = self._language_check.warning(text)
        if warning is not None:
            warnings.warn(warning, LanguageWarning, stacklevel=3)

    def text_segmenter(self, treebank: str = "") -> Segmenter:
        """Return the segmenter, with the encoder of the model if the model finds sentences too.

        A segmenter of several treebanks follows the habits of this one.
        """
        if self.segmenter is None:
            hint = "Pass lists of words, or a file that is already split into words (--from words)."
            raise ModelError("This model has no segmenter, so it cannot read text.", hint=hint)
        segmenter = self.segmenter.for_treebank(treebank)
        if not self.model.finds_sentences:
            return segmenter
        return segmenter.with_encoder(self.running, self.model.settings.sentence_ends)

    def steps(self, sentence: Words, *, constraints: ConstraintsLike | None = None) -> list[Step]:
        """Return the steps G¹ … Gᵀ of one sentence, each with its graph, tree, scores and probabilities.

        `sentence` and `constraints` are as in `parse`.
        """
        decided = None if constraints is None else [constraints]
        ((_, results),) = self.stream_steps([sentence_of(sentence)], constraints=decided)
        return results

    def stream_steps(
        self, sentences: Iterable[Words], *, constraints: Iterable[ConstraintsLike] | None = None
    ) -> Iterator[tuple[Sentence, list[Step]]]:
        """Yield each sentence with all its steps, in order."""
        plan = self.plan()
        return run(plan, parse_inputs(plan, checked_sentences(sentences), constraints), steps)

    def save(self, folder: str | os.PathLike[str], *, dtype: torch.dtype = torch.float32, notes: str = "") -> None:
        """Write a self-contained model folder, which appears once it is complete and replaces an older model.

        `dtype` is float32, float16 for half the size, or int8 for a quarter. `notes` go into the model card. The model
        of an initial parser is saved with it. Options, and initial parses from a file or a function, are not saved.
        """
        with new_folder(Path(path_of(folder))) as new:
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
        model = copy(self.model)  # it shares the weights
        model.settings = replace(model.settings, languages=tuple(code_of(each) or each for each in self.languages))
        write_model(model, folder, dtype=dtype, notes=notes, reads_text=self.segmenter is not None)
        if isinstance(self.initial, Parser):
            (folder / LAYOUT.initial).mkdir()
            self.initial._write(folder / LAYOUT.initial, dtype, "")
        if self.segmenter is not None:
            self.segmenter.save(folder / LAYOUT.segmenter)

    def plan(self) -> Plan:
        """Return the plan by which sentences are parsed, for code that runs them in another way."""
        return replace(self._plan, model=self.running)

    @property
    def running(self) -> ParserModel:
        """The model as it runs on this device in this precision. `model` has the weights as saved.

        In int8, and on a GPU, it has a copy of the weights, made when it first ran.
        """
        if not self._running:
            self._running.append(fast.parsing_model(self.model, self.device, self.precision))
        self._running[0].settings = self.model.settings  # calibration may have changed them since
        return self._running[0]

    @cached_property
    def engine(self) -> Engine | None:
        """The engine that parses on a GPU; None if sentences are parsed batch by batch."""
        return fast.engine_of(self.plan()) if self.device.type == "cuda" else None

    device: torch.device = _resolved(attrgetter("_plan.device"), doc="The device of the model.")
    max_steps: int = _resolved(attrgetter("_plan.max_steps"), doc="T, the maximum number of refinement steps.")
    stop_above: float = _resolved(
        attrgetter("_plan.stop_above"), doc="The mean word confidence above which a sentence is not refined further."
    )
    tags: TagChoice = _resolved(attrgetter("_plan.tags"), doc="The tags that the model reads.")
    precision: Precision = _resolved(attrgetter("_plan.precision"), doc="The precision of the encoder.")
    keep: Keep = _resolved(attrgetter("_plan.keep"), doc="The heads and labels of the input to keep.")
    k: int = _resolved(attrgetter("_plan.k"), doc="The number of best trees in a Parse.")
    trust: tuple[Trust, ...] = _resolved(
        attrgetter("_plan.trust"), doc="The trust in each initial parse; empty if their arcs do not count."
    )
    is_projective: bool = _resolved(attrgetter("_plan.decoder.is_projective"), doc="Whether trees must be projective.")

    def _initial_parser(self, initial: Initial | Sequence[Initial] | None) -> Parser | InitialParser:
        if isinstance(initial, list | tuple) and len(initial) > 1:
            sources = tuple(_trees_of(self._initial_parser(each)) for each in initial)
            if empty in sources:
                raise TreefineError("An empty graph cannot be combined with other initial parses.")
            return SeveralParsers(sources)
        one = cast("Initial | None", initial[0] if isinstance(initial, list | tuple) else initial)
        if one is None or one in ("empty", empty):
            return empty
        if not self.model.settings.reads_graph:
            raise ModelError("This model reads no graph, so it cannot refine an initial parse.")
        if isinstance(one, Parser) or callable(one):
            return one
        if one == "given":
            return renamed(input_trees, self.model.vocabulary.labels)
        if not os.fspath(one) or not Path(one).exists():
            hint = "Choose empty, given, the folder of a model, or a file of the same text."
            raise TreefineError(f"There is no initial parser {os.fspath(one)!r}.", hint=hint)
        if Path(one).is_dir():
            return Parser.from_pretrained(one, device=self.options.device, batch_pieces=self.options.batch_pieces)
        return from_file(os.fspath(one))


def _trees_of(initial: Parser | InitialParser) -> InitialParser:
    """Return an initial parser as a function; a Parser ignores marks: constraints are put into its graph afterwards."""
    return from_parser(initial.using(keep="nothing").stream_trees) if isinstance(initial, Parser) else initial


def load(name: str | os.PathLike[str] = "en", **options: Any) -> Parser:
    """Load a parser: a bundled model, a language such as "sv", a model folder, or OWNER/NAME from the hub.

    Only the hub needs a network. Options are keyword arguments such as `k=3`; `help(treefine.ParserOptions)` explains
    them. Raises ModelError if there is no such model or it cannot be used, and TreefineError if an option is not valid.
    """
    return Parser.from_pretrained(name, **options)
