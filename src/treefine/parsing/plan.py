"""Resolve the options for one model into a plan, and refine one batch by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, cast, get_args, get_type_hints

import torch
from torch import Tensor

from treefine import fast
from treefine.config import (
    BATCH_PIECES,
    MOST_WORDS,
    STEPS,
    STEPS_FROM_EMPTY,
    Column,
    ConfidenceSettings,
    Precision,
    PrecisionSettings,
    TagChoice,
    TransformerSettings,
)
from treefine.errors import ModelError, TreefineError
from treefine.model.batch import Batch, Evidence, Graphs, padded_length
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import Scores
from treefine.model.vocabulary import Vocabulary
from treefine.parsing.constrained import allowed_of, with_decisions
from treefine.parsing.decode import Decoder, dependents, made_trees
from treefine.parsing.initial import InitialParser, empty, is_given, is_of_others, parsers_in
from treefine.parsing.invariance import stable_scores
from treefine.parsing.languages import LanguageChoice
from treefine.parsing.options import ParserOptions, Trust
from treefine.parsing.refine import BatchStep, Tags, refine, sureness
from treefine.treebank.constraints import CONSTRAIN, Constrain, Constraints, Keep
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

AUTO: Literal["auto"] = "auto"
DEVICES = ("cpu", "cuda", "mps", "xpu")


@dataclass(frozen=True)
class Plan:
    """The options of one parser, fully resolved: `ParserOptions` with every default filled in."""

    model: ParserModel
    device: torch.device
    initial: InitialParser
    trust: tuple[Trust, ...]  # of each source of `initial`; empty if none of them is evidence
    max_steps: int  # T
    stop_above: float
    tags: TagChoice  # those that the model reads
    replaces_tags: bool  # whether predicted tags replace those of the input; else they fill in blank ones
    decoder: Decoder
    keep: Keep
    constrain: Constrain
    k: int
    precision: Precision
    confidence: ConfidenceSettings
    shape: fast.BatchShape
    most_words: int  # a longer sentence is parsed in parts
    choice: LanguageChoice

    @classmethod
    def of(
        cls, model: ParserModel, options: ParserOptions, initial: InitialParser, *, languages: Sequence[str] = ()
    ) -> Plan:
        """Resolve options for a model; raise an error for options that it does not support.

        `languages` are those of the model, if its settings do not state them.
        """
        device = find_device(options.device)
        starts_empty = initial is empty
        keep: Keep = options.keep or "marked"
        return cls(
            model=model,
            device=device,
            initial=initial,
            trust=resolved_trust(options.trust, parsers_in(initial)),
            max_steps=resolved_steps(options.max_steps, model, starts_empty=starts_empty),
            stop_above=resolved_stop(options.stop_above, model, starts_empty=starts_empty),
            tags=resolved_tags(options.tags, model),
            replaces_tags=options.tags == "predicted" and is_given(initial),
            decoder=Decoder.of(model, is_projective=bool(options.is_projective)),
            keep=keep,
            constrain=CONSTRAIN[keep],
            k=options.k or 1,
            precision=resolved_precision(options.precision, model, device),
            confidence=model.settings.confidence,
            shape=fast.batch_shape(model, device, options.batch_pieces or BATCH_PIECES),
            most_words=MOST_WORDS,
            choice=LanguageChoice.of(model.settings, model.vocabulary, options.language, languages=languages),
        )

    def for_treebank(self, treebank: str) -> Plan:
        """Return the plan with the calibration of a treebank, if the model has one."""
        found = self.model.settings.calibration.get(treebank)
        return self if found is None else replace(self, confidence=found)

    @property
    def predicts_tags(self) -> bool:
        """Whether the model's tagger predicts the tags that the sentences lack."""
        return self.tags != "none" and self.model.settings.tags.source == "predicted"

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """The columns of tags that the model reads from the input."""
        settings = self.model.settings.tags
        if self.tags == "given":
            return settings.columns
        return settings.given if self.tags != "none" else ()

    @property
    def reads_inputs(self) -> bool:
        """Whether the encoder reads anything of the words besides their pieces."""
        return bool(self.read_columns or self.model.settings.tags.case or self.model.vocabulary.treebanks)

    @property
    def needed_columns(self) -> tuple[Column, ...]:
        """The columns of tags that the model reads from the input and has not learned to predict."""
        predicted = self.model.settings.tags.predicted
        return tuple(column for column in self.read_columns if column not in predicted)

    def size(self, sentence: Sentence, pieces: Sequence[Sequence[int]] | None = None) -> int:
        """Return the number of pieces of a sentence in a batch, padding included; for a BiLSTM, of words and ROOT."""
        n_pieces, encoder = self.model.n_pieces(sentence, pieces), self.model.settings.encoder
        if not isinstance(encoder, TransformerSettings):
            return n_pieces
        return max(n_pieces, padded_length(n_pieces, self.shape.padded_to, encoder.n_positions))


def find_device(name: str | torch.device | None) -> torch.device:
    """Return the device of this name, or by default a GPU if there is one."""
    if name is None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        check_fork(device)
        return device
    try:
        if str(name).partition(":")[0] not in DEVICES:  # torch would list devices that treefine does not support
            raise RuntimeError(f"it is not one of {', '.join(DEVICES)}")
        device = torch.device(name)
        check_fork(device)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise TreefineError(f"Device {str(name)!r} cannot be used ({reason}).", hint="Use cpu.") from error
    return device


def check_fork(device: torch.device) -> None:
    """Raise an error if this process was forked from one that had used a GPU, and would use it too."""
    if device.type == "cuda" and torch.cuda._is_in_bad_fork():
        hint = 'Start processes with multiprocessing.get_context("spawn"), or load the parser with device="cpu".'
        raise TreefineError("A forked process cannot use the GPU of its parent process.", hint=hint)


def resolved_steps(max_steps: int | None, model: ParserModel, *, starts_empty: bool) -> int:
    """Return T: the requested value, or by default that of the model's training."""
    reads_graph, trained = model.settings.reads_graph, model.settings.max_steps
    if max_steps is None:
        return 1 if not reads_graph else trained or (STEPS_FROM_EMPTY if starts_empty else STEPS)
    if max_steps > 1 and not reads_graph:
        raise ModelError("This model reads no graph, so it cannot take more than one step.")
    return max_steps


def resolved_trust(trust: Trust | Sequence[Trust] | None, sources: Sequence[InitialParser]) -> tuple[Trust, ...]:
    """Return the trust in each source: the requested one, or by default "auto" in trees that the user supplied.

    The result is empty if no source counts, so that the scores stay as they are.
    """
    found: list[Trust]
    if trust is None:
        found = [AUTO if is_of_others(each) else 0.0 for each in sources]
    elif isinstance(trust, (list, tuple)):
        found = list(trust)
        if sources and len(found) != len(sources):
            message = f"trust has {len(found)} values, but the number of initial parses is {len(sources)}."
            raise TreefineError(message, hint="Give one value for all of them, or one for each.")
    else:
        found = [cast("Trust", trust)] * len(sources)
    return tuple(each if each == AUTO else float(each) for each in found) if any(found) and sources else ()


def resolved_stop(stop_above: float | None, model: ParserModel, *, starts_empty: bool) -> float:
    """Return the limit above which a sentence stops: the requested one, or by default the one measured for the model.

    The default was measured from an empty graph. Other parsers' trees are refined until nothing changes.
    """
    if stop_above is None:
        return model.settings.stop_above if starts_empty else 1.0
    return float(stop_above)


def resolved_tags(tags: TagChoice | None, model: ParserModel) -> TagChoice:
    """Return the choice of tags: the requested one, or by default that of the model's training."""
    source = model.settings.tags.source
    if (tags == "given" and source == "none") or (tags == "predicted" and source != "predicted"):
        what = "reads no tags" if tags == "given" else "has no tagger"
        raise ModelError(f"tags cannot be {tags!r}: this model {what}.")
    return tags or source


def resolved_precision(precision: Precision | None, model: ParserModel, device: torch.device) -> Precision:
    """Return the precision on this device: the requested one, or by default the one that the model was measured with.

    A CPU without int8 instructions uses int8 only on request, because it is no faster there.
    """
    known = precisions_of(model, device)
    if precision is None:
        own: Precision = getattr(model.settings.precision, device.type, "float32")
        is_quick = own in known and (own != "int8" or fast.is_int8_quick())
        return own if is_quick else "float32"
    if precision not in known:
        where = f"on {device.type}" if isinstance(model.settings.encoder, TransformerSettings) else "by a BiLSTM"
        raise TreefineError(f"Precision {precision!r} is not supported {where}.", hint=f"Use {' or '.join(known)}.")
    return precision


def precisions_of(model: ParserModel, device: torch.device) -> tuple[Precision, ...]:
    """Return the precisions that the model supports on this device."""
    by_device = get_type_hints(PrecisionSettings) if isinstance(model.settings.encoder, TransformerSettings) else {}
    if device.type not in by_device or (device.type == "cuda" and not fast.has_kernels(device)):
        return ("float32",)
    return get_args(by_device[device.type])


class WeightedArcs(NamedTuple):
    """The arcs that another parser found for a sentence, and how much they count."""

    arcs: Arcs
    weight: float  # added to the score of each arc, and of its label


class Item(NamedTuple):
    """A sentence to parse, with its initial arcs and the user's constraints."""

    sentence: Sentence
    initial: Arcs
    constraints: Constraints
    pieces: Sequence[Sequence[int]] | None = None  # of each word, once known
    evidence: tuple[WeightedArcs, ...] = ()  # the arcs that add to the scores


def refine_items(plan: Plan, items: Sequence[Item], *, wants_trees: bool) -> Iterator[BatchStep]:
    """Yield the refinement steps of one batch of sentences.

    With `wants_trees`, the caller reads the trees of every step, not only of the last. Sentences then stop only when
    they have converged.
    """
    model, decoder = plan.model, plan.decoder
    sentences, constraints = [item.sentence for item in items], [item.constraints for item in items]
    initial = Graphs.of([item.constraints.put_into(item.initial) for item in items], model.vocabulary)
    if model.settings.relations.decided:
        initial = with_decisions(initial, constraints, model.vocabulary)
    allowed = allowed_of(constraints, list(map(len, sentences)), decoder, model.vocabulary)
    pieces = [item.pieces for item in items]
    batch = model.batch_of(sentences, pieces, padded_to=plan.shape.padded_to)
    batch = replace(batch, allowed=allowed, evidence=evidence_of(items, model.vocabulary))
    tags = model.tag_inputs(sentences, read=plan.read_columns)
    return refine_batch(plan, batch, initial, tags, wants_trees=wants_trees)


def evidence_of(items: Sequence[Item], vocabulary: Vocabulary) -> Evidence | None:
    """Return what other parsers found for each sentence of a batch, or None if their arcs have no weight.

    All sentences of a stream have the same sources with the same weights.
    """
    weights = tuple(each.weight for each in items[0].evidence) if items else ()
    if not any(weights):
        return None
    graphs = [Graphs.of([item.evidence[number].arcs for item in items], vocabulary) for number in range(len(weights))]
    heads, labels = (torch.stack([getattr(each, name) for each in graphs]) for name in ("heads", "labels"))
    return Evidence(heads, labels, weights)


def refine_batch(
    plan: Plan, batch: Batch, initial: Graphs, tags: Tags | None, *, wants_trees: bool
) -> Iterator[BatchStep]:
    """Yield the refinement steps of sentences that are already a batch."""
    decoder, first_trees = plan.decoder, made_trees(plan.model, initial)
    stop_above = 1.0 if wants_trees else plan.stop_above

    def score(batch: Batch, graphs: Graphs, tags: Tags | None, t: int) -> Scores:
        needs_trees = wants_trees or t == plan.max_steps or (t == 1 and bool(first_trees))
        return stable_scores(
            partial(_score, plan),
            decoder,
            batch,
            graphs,
            tags,
            needs_trees=needs_trees,
            stop_above=stop_above,
        )

    def decode(scores: Scores, batch: Batch, t: int) -> Graphs:
        return decoder.graphs(scores, batch.is_word, as_trees=first_trees if t == 1 else ())

    def sure(scores: Scores, batch: Batch, is_same: Tensor) -> Tensor:
        return sureness(scores.arcs, decoder.best_labels(scores), dependents(batch.is_word), is_same)

    return refine(
        score,
        batch.to(plan.device),
        initial.to(plan.device),
        max_steps=plan.max_steps,
        decode=decode,
        tags=None if tags is None else tags.to(plan.device),
        predict_tags=plan.predicts_tags,
        sure=sure if stop_above < 1 else None,
        stop_above=stop_above,
    )


def _score(plan: Plan, batch: Batch, graphs: Graphs, tags: Tags | None) -> Scores:
    """Score a batch. If memory runs out, encode the windows of a single long sentence in smaller parts."""
    rows_at_once = min(batch.inputs.n_rows, plan.shape.windows_at_once) if len(batch) == 1 else None
    # tf32 would round an LSTM to 10 bits. A CPU has no such setting, and its threads must not change a global one.
    is_cpu = plan.device.type == "cpu"
    while True:
        try:
            with nullcontext() if is_cpu else torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                scores: Scores = plan.model(batch, graphs, tags, rows_at_once=rows_at_once)
            if batch.evidence is not None:
                scores = scores.supported_by(batch.evidence)
            return scores if batch.allowed is None else scores.within(batch.allowed)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or rows_at_once in (None, 1):
                raise
            rows_at_once = (rows_at_once or 2) // 2


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error means that memory ran out, on the GPU or on the host."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    signs = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
