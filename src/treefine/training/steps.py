"""The refinement steps of one batch in training and on dev, and the gold arcs that training shows as decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from treefine.model.batch import ARC, HEAD, LABEL, Allowed, Batch, Encoded, Graphs, to_device
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import Scores
from treefine.model.vocabulary import UNSEEN
from treefine.parsing.decode import Decoder, dependents, made_trees
from treefine.parsing.refine import BatchStep, Tags, refine, with_drafts
from treefine.training.recipe import InitialSettings, RefineSettings
from treefine.treebank.graph import ROOT, Arcs
from treefine.treebank.sentence import Sentence

_HEAD_SHARE, _LABEL_SHARE = 0.1, 0.1  # of the words decided at random: only the head, or only the label


def input_tags(model: ParserModel, sentences: Sequence[Sentence], device: torch.device) -> Tags | None:
    """Return what a model reads of the words besides their pieces when it parses: given columns, case, treebank."""
    settings = model.settings.tags
    tags = model.tag_inputs(sentences, read=settings.columns if settings.source == "given" else settings.given)
    return None if tags is None else to_device(tags, device)


def refined(
    model: ParserModel,
    batch: Batch,
    arcs: Sequence[Arcs],
    tags: Tags | None,
    settings: RefineSettings,
    *,
    dtype: torch.dtype = torch.float32,
    decisions: Decisions | None = None,
) -> Iterator[BatchStep]:
    """Yield the refinement steps of one batch on its device, from these arcs: for training, dev scores and teachers."""
    decoder, device = Decoder.of(model), batch.is_word.device
    initial = Graphs.of(arcs, model.vocabulary)
    drafts = model.settings.drafts and not initial.are_read.any()
    first_trees, initial = made_trees(model, initial), initial.to(device)
    if decisions is not None:
        batch, initial = with_gold(batch, initial, decisions.gold, decisions.first, decisions.n_labels)

    def score(batch: Batch, graphs: Graphs, tags: Tags | None, t: int) -> tuple[Scores, Encoded]:
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            stage = t if model.settings.drafts and not drafts else t - 1
            scores, encoded = model(batch, graphs, tags, stage=stage)
        return (scores if batch.allowed is None else scores.within(batch.allowed)), encoded

    @torch.no_grad()  # graphs are discrete, so no gradient flows through them
    def decode(scores: Scores, batch: Batch, t: int) -> Graphs:
        return decoder.graphs(scores, batch.is_word, as_trees=first_trees if t == 1 else ())

    if model.settings.drafts and not drafts:
        batch, initial = with_drafts(score, decode, batch, initial, tags)
    return refine(
        score,
        batch,
        initial,
        max_steps=settings.max_steps,
        decode=decode,
        tags=tags,
        predict_tags=model.tagger is not None and model.settings.reads_predicted_tags,
        stops=settings.stop,
        correct=None if decisions is None else decisions.correct,
        drafts=drafts,
    )


@dataclass(frozen=True)
class Decisions:
    """The decisions about the sentences of one batch: some before the first step, others after it."""

    gold: Graphs
    n_labels: int
    first: Int[Tensor, "batch word"]  # decided before the first step: NOTHING, ARC, HEAD or LABEL
    is_corrected: Bool[Tensor, "batch 1"]  # sentences whose first wrong arc is decided after the first step
    are_confirmed: Bool[Tensor, "batch 1"]  # whether the words before that arc are decided, too

    @classmethod
    def drawn(cls, batch: Batch, gold: Graphs, n_labels: int, settings: InitialSettings) -> Decisions:
        """Draw decisions for the shares of sentences in the settings.

        Half of the sentences with decisions before the first step have them on random words, as if somebody corrected
        what stands out; the others on all words up to some place, as if somebody read from left to right.
        """
        is_dependent = dependents(batch.is_word)
        n_sentences, n_words = is_dependent.shape
        device = is_dependent.device
        draw, form, share = torch.rand((3, n_sentences, 1), device=device)
        of_words = torch.rand((2, n_sentences, n_words), device=device)
        is_random = form < 0.5
        part = torch.where(of_words[1] < _HEAD_SHARE + _LABEL_SHARE, LABEL, ARC)
        part = torch.where(of_words[1] < _HEAD_SHARE, HEAD, part)
        part = torch.where((part == LABEL) & (gold.heads == ROOT), ARC, part)  # only the root has the label root
        places = torch.arange(n_words, device=device)
        is_read = places <= share * is_dependent.sum(1, keepdim=True)
        is_decided = torch.where(is_random, of_words[0] < share, is_read) & (draw < settings.decided_share)
        first = torch.where(is_random, part, ARC) * (is_decided & is_dependent)
        is_corrected = (draw >= settings.decided_share) & (draw < settings.decided_share + settings.corrected_share)
        return cls(gold, n_labels, first, is_corrected, is_random)

    def correct(self, step: BatchStep) -> tuple[Batch, Graphs]:
        """Return the batch and the graphs that the next step reads: after the first step, with wrong arcs corrected."""
        graphs, n_words = step.graphs, step.batch.n_words
        if step.t > 1 or graphs.decided is None:
            return step.batch, graphs
        rows = to_device(step.sentences, graphs.heads.device)
        gold = self.gold.select(rows, n_words)
        is_wrong = ~graphs.same_words(gold) & dependents(step.batch.is_word)
        place = torch.arange(n_words, device=rows.device)
        wrong = torch.where(is_wrong.any(1), is_wrong.int().argmax(1), -1)[:, None]  # the first one of each sentence
        is_new = (place == wrong) | (self.are_confirmed[rows] & (place < wrong) & (place > ROOT))
        decided = torch.where(is_new & self.is_corrected[rows], ARC, graphs.decided)
        return with_gold(step.batch, graphs, gold, decided, self.n_labels)


def with_gold(
    batch: Batch, graphs: Graphs, gold: Graphs, decided: Int[Tensor, "batch word"], n_labels: int
) -> tuple[Batch, Graphs]:
    """Return the batch and its graphs with the gold heads and labels that are decided.

    As in parsing, the decoder may choose nothing else for these words, so they add nothing to the loss.
    """
    decided = torch.where((decided == ARC) & (gold.labels < 0), HEAD, decided)  # a label that the model does not know
    has_head = ((decided == ARC) | (decided == HEAD)) & (gold.heads >= 0)
    has_label = ((decided == ARC) | (decided == LABEL)) & (gold.labels >= 0)
    is_moved = has_head & (gold.heads != graphs.heads)  # the label was predicted for another head
    heads = torch.where(has_head, gold.heads, graphs.heads)
    labels = torch.where(has_label, gold.labels, torch.where(is_moved, UNSEEN, graphs.labels))
    places = torch.arange(heads.shape[1], device=heads.device)
    numbers = torch.arange(n_labels, device=heads.device)
    may_have = ~has_head[..., None] | (gold.heads[..., None] == places)  # [batch, dep, head]
    may_have = may_have & ((places != ROOT) | (decided != LABEL)[..., None])
    named = ~has_label[..., None] | (gold.labels[..., None] == numbers)  # [batch, dep, label]
    read = replace(graphs, heads=heads, labels=labels, decided=decided)
    return replace(batch, allowed=Allowed(may_have, named)), read
