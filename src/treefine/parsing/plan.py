"""Resolve the options for one model into a plan, and refine one batch by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

import torch
from jaxtyping import Float
from torch import Tensor

from treefine import fast
from treefine.config import (
    BATCH_PIECES,
    MOST_WORDS,
    STEPS,
    STEPS_FROM_EMPTY,
    Column,
    ConfidenceSettings,
    ModelSettings,
    Precision,
    PrecisionSettings,
    TagChoice,
)
from treefine.errors import ModelError, TreefineError
from treefine.model.batch import Batch, Encoded, Evidence, Graphs, padded_length
from treefine.model.bundled import unknown_language, usual_code
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import Scores
from treefine.model.vocabulary import Vocabulary, language_of
from treefine.parsing.constrained import allowed_of, with_decisions
from treefine.parsing.decode import Decoder, dependents, made_trees
from treefine.parsing.initial import InitialParser, SeveralParsers, empty, is_of_others, reads_input_trees
from treefine.parsing.options import ParserOptions, Trust
from treefine.parsing.refine import BatchStep, Tags, expected_stability, refine, with_drafts
from treefine.segmenter.language import SAMPLE, code_of, identify, table
from treefine.treebank.constraints import Constraints, Keep
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence, own_text

AUTO: Literal["auto"] = "auto"
DEVICES = ("cpu", "cuda", "mps", "xpu")
_SAMPLE_OF_SENTENCES = 1_000  # characters of consecutive sentences that are identified together
Temperatures = Float[Tensor, "batch 1 1"]  # the numbers that divide the scores, so that probabilities are calibrated


@dataclass(frozen=True)
class Plan:
    """The options of a parser, resolved for one model: every default is filled in."""

    model: ParserModel
    device: torch.device
    initial: InitialParser
    trust: tuple[Trust, ...]  # of each source of `initial`; empty if none of them is evidence
    max_steps: int  # T
    stop_above: float
    tags: TagChoice  # those that the model reads
    drafts: bool  # whether the first step only drafts a graph, because there is no initial one
    predicts_tags: bool  # whether the model's tagger predicts the tags that the sentences lack
    read_columns: tuple[Column, ...]  # of tags that the model reads from the input …
    needed_columns: tuple[Column, ...]  # … and, of these, has not learned to predict
    replaces_tags: bool  # whether predicted tags replace those of the input; else they fill in blank ones
    decoder: Decoder
    keep: Keep
    k: int
    precision: Precision
    shape: fast.BatchShape
    most_words: int  # a longer sentence is parsed in parts
    language: LanguageChoice
    is_timed: bool = False  # whether batches are parsed one by one on a CPU too, so that their time can be measured

    @classmethod
    def of(
        cls,
        model: ParserModel,
        options: ParserOptions,
        initial: InitialParser,
        device: torch.device,
        languages: Sequence[str],
    ) -> Plan:
        """Resolve options for a model on its device; raise an error for options that it does not support.

        `languages` are those of the model, by name or code.
        """
        settings, starts_empty = model.settings, initial is empty
        if not settings.reads_graph and (options.max_steps or 1) > 1:
            raise ModelError("This model reads no graph, so it cannot take more than one step.")
        by_default = settings.max_steps or (STEPS_FROM_EMPTY if starts_empty else STEPS)
        by_speed = settings.fast_stop_above if options.speed == "fast" else settings.stop_above
        stop_above = by_speed if starts_empty else 1.0  # which was measured from an empty graph
        tags: TagChoice = options.tags or settings.tags.source
        if (tags == "given" and settings.tags.source == "none") or (
            tags == "predicted" and settings.tags.source != "predicted"
        ):
            what = "reads no tags" if tags == "given" else "has no tagger"
            raise ModelError(f"tags cannot be {tags!r}: this model {what}.")
        read = settings.tags.columns if tags == "given" else settings.tags.given if tags != "none" else ()
        return cls(
            model=model,
            device=device,
            initial=initial,
            trust=_trust(options.trust, initial),
            max_steps=options.max_steps or (by_default if settings.reads_graph else 1),
            stop_above=float(stop_above if options.stop_above is None else options.stop_above),
            tags=tags,
            drafts=settings.drafts and starts_empty,
            predicts_tags=tags != "none" and settings.tags.source == "predicted",
            read_columns=read,
            needed_columns=tuple(column for column in read if column not in settings.tags.predicted),
            replaces_tags=options.tags == "predicted" and reads_input_trees(initial),
            decoder=Decoder.of(model, is_projective=bool(options.is_projective)),
            keep=options.keep or "marked",
            k=options.k or 1,
            precision=resolved_precision(options.precision, model, device),
            shape=fast.batch_shape(model, device, options.batch_pieces or BATCH_PIECES),
            most_words=MOST_WORDS,
            language=LanguageChoice.of(model.vocabulary, model.settings, options.language, languages),
        )

    def confidence_of(self, sentence: Sentence, stage: int) -> ConfidenceSettings:
        """Return the calibration of a stage, for a sentence's treebank if that has one of its own."""
        settings = self.model.settings
        if stage < len(settings.draft_confidence):
            return settings.draft_confidence[stage]
        return settings.calibration.get(sentence.treebank, settings.confidence)

    def temperatures(self, sentences: Sequence[Sentence], stage: int) -> tuple[Temperatures, Temperatures]:
        """Return the temperatures of the arc scores and of the label scores of each sentence in a batch."""
        settings = [self.confidence_of(sentence, stage) for sentence in sentences]
        numbers = [[each.arc_temperature, each.label_temperature] for each in settings]
        arc, label = torch.tensor(numbers, device=self.device).T[:, :, None, None]
        return arc, label

    def size(self, sentence: Sentence, pieces: Sequence[Sequence[int]] | None = None) -> int:
        """Return the number of pieces of a sentence in a batch, padding included."""
        n_pieces = self.model.n_pieces(sentence, pieces)
        return max(n_pieces, padded_length(n_pieces, self.shape.padded_to, self.model.settings.encoder.n_positions))


@dataclass(frozen=True)
class LanguageChoice:
    """The treebanks of a model, and the one that the user named, if any. A model of one treebank lists none."""

    treebanks: tuple[str, ...]  # codes such as sv_talbanken
    main: dict[str, str]  # by language: the treebank that it stands for
    languages: tuple[str, ...]  # that a text may be in, by name or code
    named: str = ""
    guesses: bool = False  # whether the language must be identified from the text

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, settings: ModelSettings, asked: str | None, languages: Iterable[str] = ()
    ) -> LanguageChoice:
        """Return the choice for a model; raise an error if it does not know the language that the user asked for.

        Nothing, or an empty string, asks for identification. `languages` are those of the model, by default those that
        its settings state.
        """
        treebanks, languages = vocabulary.treebanks, tuple(languages) or settings.languages
        by_language = {language_of(each): each for each in (*reversed(treebanks), *settings.main_treebanks)}
        main = dict(sorted(by_language.items()))
        if not asked:
            return cls(treebanks, main, tuple(main) or languages, guesses=bool(treebanks))
        code = code_of(asked) or usual_code(asked)
        named = code if code in treebanks else main.get(code, "")
        if named:
            return cls(treebanks, main, (language_of(named),), named)
        known = [*main] or [code_of(each) or each for each in languages]
        if not treebanks and code in known:
            return cls(treebanks, main, languages)
        names = table().names
        raise unknown_language(asked, {each: names.get(each, each) for each in known})

    def of_text(self, text: str) -> str:
        """Return the code of the treebank whose habits fit a text; empty if no language can be identified."""
        return self.main.get(identify(text, self.main).language, "") if self.guesses else self.named

    def of_chunks(self, chunks: Iterable[str], *, between: str = "") -> tuple[str, Iterable[str]]:
        """Return the treebank of a text that comes in chunks, and the same chunks. Reads only the start of the text.

        `between` is what stands between two chunks.
        """
        if not self.guesses:
            return self.named, chunks
        chunks, first = iter(chunks), list[str]()
        while sum(map(len, first)) < SAMPLE and (chunk := next(chunks, None)) is not None:
            first.append(chunk)
        return self.of_text(between.join(first)), chain(first, chunks)

    def of_sentences(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """Yield the sentences with their treebanks. Consecutive sentences of a file are identified together.

        A sentence that has a treebank of the model keeps it, unless the user named another one. A model of one treebank
        has no codes.
        """
        group, n_chars = list[Sentence](), 0
        for each in sentences:
            if not self.guesses:
                yield each if each.treebank == self.named else replace(each, treebank=self.named)
                continue
            is_known = each.treebank in self.treebanks
            if group and (is_known or n_chars >= _SAMPLE_OF_SENTENCES or each.path != group[0].path):
                yield from self._identified(group)
                group, n_chars = [], 0
            if is_known:
                yield each
            else:
                group.append(each)
                n_chars += len(own_text(each))
        if group:
            yield from self._identified(group)

    def _identified(self, group: Sequence[Sentence]) -> list[Sentence]:
        treebank = self.of_text(" ".join(map(own_text, group)))
        return [replace(each, treebank=treebank) for each in group]


def find_device(name: str | torch.device | None) -> torch.device:
    """Return the device of this name, or by default a GPU if there is one."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        if str(name).partition(":")[0] not in DEVICES:  # torch would list devices that treefine does not support
            raise RuntimeError(f"it is not one of {', '.join(DEVICES)}")
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise TreefineError(f"Device {str(name)!r} cannot be used ({reason}).", hint="Use cpu.") from error
    return device


def _trust(trust: Trust | Sequence[Trust] | None, initial: InitialParser) -> tuple[Trust, ...]:
    """Return the trust in each source: the requested one, or by default "auto" in trees that the user supplied.

    The result is empty if no source counts, so that the scores stay as they are.
    """
    if initial is empty:
        return ()
    sources = initial.sources if isinstance(initial, SeveralParsers) else (initial,)
    asked: list[Any] = list(trust) if isinstance(trust, (list, tuple)) else [trust] * len(sources)
    if len(asked) != len(sources):
        message = f"trust has {len(asked)} values, but the number of initial parses is {len(sources)}."
        raise TreefineError(message, hint="Give one value for all of them, or one for each.")
    if trust is None:
        asked = [AUTO if is_of_others(each) else 0.0 for each in sources]
    return tuple(each if each == AUTO else float(each) for each in asked) if any(asked) else ()


def resolved_precision(precision: Precision | None, model: ParserModel, device: torch.device) -> Precision:
    """Return the precision on this device: the requested one, or by default the one that the model was measured with.

    A CPU without int8 instructions uses int8 only on request, because it is no faster there.
    """
    by_device = get_type_hints(PrecisionSettings)
    has_choice = device.type in by_device and (device.type != "cuda" or fast.has_kernels(device))
    known: tuple[Precision, ...] = get_args(by_device[device.type]) if has_choice else ("float32",)
    if precision is None:
        own: Precision = getattr(model.settings.precision, device.type, "float32")
        is_quick = own in known and (own != "int8" or fast.is_int8_quick())
        return own if is_quick else "float32"
    if precision not in known:
        message = f"Precision {precision!r} is not supported on {device.type}."
        raise TreefineError(message, hint=f"Use {' or '.join(known)}.")
    return precision


class WeightedArcs(NamedTuple):
    """The arcs that another parser found for a sentence, and how much they count."""

    arcs: Arcs
    weight: float  # added to the score of each arc, and of its label


class ParseInput(NamedTuple):
    """A sentence to parse, with its initial arcs and the user's constraints."""

    sentence: Sentence
    initial: Arcs
    constraints: Constraints
    pieces: Sequence[Sequence[int]] | None = None  # of each word, once known
    evidence: tuple[WeightedArcs, ...] = ()  # the arcs that add to the scores


def refine_inputs(plan: Plan, inputs: Sequence[ParseInput]) -> Iterator[BatchStep]:
    """Yield the refinement steps of one batch of sentences."""
    batch, initial, tags = _batch_of(plan, inputs)
    decoder, first_trees, score = plan.decoder, made_trees(plan.model, initial), partial(_score, plan)

    def decode(scores: Scores, batch: Batch, t: int) -> Graphs:
        return decoder.graphs(scores, batch.is_word, as_trees=first_trees if t == 1 else ())

    def stability(scores: Scores, batch: Batch, is_same: Tensor) -> Tensor:
        labels = decoder.obeying(scores.best_labels, scores.best_heads)
        return expected_stability(scores.arcs, labels, dependents(batch.is_word), is_same)

    if plan.model.settings.drafts and not plan.drafts:
        batch, initial = with_drafts(score, decode, batch, initial, tags)
    return refine(
        score,
        batch,
        initial,
        max_steps=plan.max_steps,
        decode=decode,
        tags=tags,
        predict_tags=plan.predicts_tags and plan.model.settings.reads_predicted_tags,
        stability=stability if plan.stop_above < 1 else None,
        stop_above=plan.stop_above,
        drafts=plan.drafts,
    )


def _batch_of(plan: Plan, inputs: Sequence[ParseInput]) -> tuple[Batch, Graphs, Tags | None]:
    """Return the sentences as a batch with their constraints and evidence, and their initial graphs and tags."""
    model, vocabulary = plan.model, plan.model.vocabulary
    sentences, constraints = [each.sentence for each in inputs], [each.constraints for each in inputs]
    initial = Graphs.of(
        [each.constraints.put_into(each.initial) if each.constraints else each.initial for each in inputs], vocabulary
    )
    allowed = evidence = None
    if any(constraints):
        allowed = allowed_of(constraints, list(map(len, sentences)), plan.decoder, vocabulary)
        if model.settings.relations.decided:
            initial = with_decisions(initial, constraints, vocabulary)
    weights = tuple(each.weight for each in inputs[0].evidence)  # all sentences of a stream have the same ones
    if any(weights):
        sources = zip(*([each.arcs for each in one.evidence] for one in inputs), strict=True)
        graphs = [Graphs.of(arcs, vocabulary) for arcs in sources]
        heads, labels = (torch.stack([getattr(each, name) for each in graphs]) for name in ("heads", "labels"))
        evidence = Evidence(heads, labels, weights)
    batch = model.batch_of(sentences, [each.pieces for each in inputs], padded_to=plan.shape.padded_to)
    batch = replace(batch, allowed=allowed, evidence=evidence).to(plan.device)
    tags = model.tag_inputs(sentences, read=plan.read_columns)
    return batch, initial.to(plan.device), None if tags is None else tags.to(plan.device)


def _score(plan: Plan, batch: Batch, graphs: Graphs, tags: Tags | None, t: int) -> tuple[Scores, Encoded]:
    """Score a batch in step t. An initial graph takes the place of the draft, which is then step 0."""
    is_unread = plan.model.settings.drafts and not plan.drafts
    scores, encoded = plan.model(batch, graphs, tags, stage=t if is_unread else t - 1)
    if batch.evidence is not None:
        scores = scores.supported_by(batch.evidence)
    return (scores if batch.allowed is None else scores.within(batch.allowed)), encoded


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error means that memory ran out, on the GPU or on the host."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    signs = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
