"""One refinement step for a buffer of sentences, entirely on the device (Eqs. 1 to 6, Sec. 3.2.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.fast.packed_encoder import PackedEncoder, PackedInputs, Room
from treefine.model.scorer import best_tag, label_scores, with_one
from treefine.model.vocabulary import NO_HEAD, UNSEEN
from treefine.parsing.decode import are_trees, dependents
from treefine.parsing.plan import Plan
from treefine.parsing.refine import expected_stability, stopping

ENDED, IS_TREE, IS_SEARCHED = 1, 2, 4  # bit flags of a sentence's state after a step


@dataclass(frozen=True)
class StepInputs:
    """The inputs of one step: the sentences of a buffer, and what the step has to do for each."""

    packed: PackedInputs
    forced: Int[Tensor, " word"]  # heads found by tree search, for which the step only finds labels; else NO_HEAD
    lacks_tags: Int[Tensor, " sentence"]  # whether this step predicts tags that the next step reads
    is_last: Int[Tensor, " sentence"]  # whether this is step T of the sentence


@dataclass(frozen=True)
class StepOutputs:
    """The outputs of one step."""

    heads: Int[Tensor, " word"]
    labels: Int[Tensor, " word"]
    tags: Int[Tensor, "word column"]
    states: Int[Tensor, " sentence"]
    searched: Int[Tensor, " search"]  # sentences that end without a tree, if their state has IS_SEARCHED
    arcs: Float[Tensor, "search dep head"]  # their arc scores


class PackedStep(nn.Module):
    """One step of a model as a module. The encoder runs in the plan's precision, the scorer always in float32."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        assert isinstance(plan.model.encoder, PackedEncoder)
        self.encoder = plan.model.encoder
        self.scorer, self.tagger = plan.model.scorer, plan.model.tagger if plan.predicts_tags else None
        self.decoder, self.stop_above = plan.decoder, plan.stop_above

    @torch.no_grad()
    def forward(self, inputs: StepInputs, room: Room, n_searched: int) -> StepOutputs:
        """Return the next graph of each sentence, and whether the sentence has ended and the graph is a tree."""
        with torch.autocast(inputs.forced.device.type, enabled=False):  # even if the caller enabled it
            return self._stepped(inputs, room, n_searched)

    def _stepped(self, inputs: StepInputs, room: Room, n_searched: int) -> StepOutputs:
        packed, scorer = inputs.packed, self.scorer
        vectors = self.encoder.of_buffer(packed, room).float()[None]  # [1, word, width]
        in_sentence = torch.arange(room.longest, device=vectors.device)
        is_word: Bool[Tensor, "sentence word"] = in_sentence < packed.n_words[:, None]
        places = torch.where(is_word, packed.word_starts[:, None] + in_sentence, 0)  # [sentence, word]

        dep, head = (with_one(scorer.arc_dep(vectors)) @ scorer.arc_weight)[0], scorer.arc_head(vectors)[0]
        arcs = dep[places] @ head[places].transpose(1, 2)  # [sentence, dep, head]
        is_self = torch.eye(room.longest, dtype=torch.bool, device=arcs.device)
        arcs = arcs.masked_fill(~is_word[:, None] | is_self, -math.inf)
        best = arcs.argmax(-1)[packed.sentences, packed.numbers]  # [word]
        heads = torch.where(inputs.forced >= 0, inputs.forced, best)

        label_head = with_one(scorer.label_head(vectors))[:, packed.in_buffer(heads)]
        labels = label_scores(with_one(scorer.label_dep(vectors)), label_head, scorer.label_weight)[0]
        labels = self.decoder.obeying(labels, heads)
        best_labels = labels.argmax(-1)

        is_dependent = dependents(is_word)
        is_same = (heads == packed.heads) & (best_labels == packed.labels)
        of_sentence = is_same[places] | ~is_dependent  # [sentence, word]
        tags, has_new_tags = packed.tags, None
        if self.tagger is not None:
            of_tags = tuple(each[0] for each in self.tagger(vectors))
            best = torch.stack([best_tag(each) + 1 for each in of_tags], dim=-1)
            tags = F.pad(best, (0, packed.tags.shape[-1] - best.shape[-1]))  # the last columns are not predicted
            has_new_tags = inputs.lacks_tags > 0
        stability = expected_stability(arcs, labels[places], is_dependent, of_sentence)
        ended = stopping(of_sentence, has_new_tags, stability, stop_above=self.stop_above).stops_early | (
            inputs.is_last > 0
        )
        is_tree = are_trees(heads[places], is_word)
        is_searched = ended & ~is_tree & (packed.n_words > 0)
        searched = is_searched.int().argsort(descending=True, stable=True)[:n_searched]
        is_shown = torch.zeros_like(is_searched)
        is_shown[searched] = is_searched[searched]
        flags = ((ended, ENDED), (is_tree, IS_TREE), (is_shown, IS_SEARCHED))
        states = torch.stack([flag.int() * value for flag, value in flags]).sum(0)
        is_root = packed.numbers == 0
        heads, best_labels = heads.masked_fill(is_root, NO_HEAD), best_labels.masked_fill(is_root, UNSEEN)
        return StepOutputs(heads, best_labels, tags, states, searched, arcs[searched])
