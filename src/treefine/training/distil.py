"""Knowledge distillation: the targets that teachers set for each word, and the loss of a model that learns them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine import fast
from treefine.config import BATCH_PIECES, Precision
from treefine.errors import TreefineError
from treefine.model.batch import Graphs, to_device
from treefine.model.folder import fetch, load_model
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import best_tag
from treefine.model.vocabulary import tag_names
from treefine.parsing.batches import batches, retry_in_halves
from treefine.parsing.decode import Decoder
from treefine.parsing.initial import empty
from treefine.parsing.refine import BatchStep
from treefine.segmenter.segmenter import Segmenter
from treefine.training.recipe import Recipe, RefineSettings
from treefine.training.steps import input_tags, refined
from treefine.treebank.files import open_output
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

N_KEPT = 8  # choices per word; the others have hardly any probability
HEADS, LABELS, FIRST_TAGS = 0, 1, 2  # the kinds of choices; each column of tags is one more
LONGEST_UNLABELLED = 200  # a longer line of a text is hardly a sentence, and is left out


@dataclass(frozen=True)
class TargetBatch:
    """The targets of the sentences of one batch, at all steps or at one: the teachers' most likely choices."""

    ids: Int[Tensor, "batch word *step kind kept"]
    probabilities: Float[Tensor, "batch word *step kind kept"]  # at one step: 0 in sentences whose share is 0
    share: Float[Tensor, "batch 1"]  # of the teachers; the rest of the target is the tree of the sentence

    def select(self, rows: Int[Tensor, " row"], n_words: int) -> TargetBatch:
        """Return the targets of some sentences, cut to `n_words`, ROOT included."""
        return TargetBatch(self.ids[rows, :n_words], self.probabilities[rows, :n_words], self.share[rows])

    def at(self, t: int, graphs: Graphs) -> TargetBatch:
        """Return the targets of step t. Sentences with decided arcs, unknown to the teachers, have share 0."""
        share = self.share
        if graphs.decided is not None:
            share = share * (graphs.decided == 0).all(1, keepdim=True)
        step = min(t, self.ids.shape[2]) - 1
        probabilities = self.probabilities[:, :, step] * (share > 0)[..., None, None]
        return TargetBatch(self.ids[:, :, step], probabilities, share)

    def cross_entropy(self, kind: int, scores: Float[Tensor, "batch word choice"]) -> Float[Tensor, "batch word"]:
        """Return the cross-entropy between the teachers' probabilities of one kind at one step and the scores."""
        probabilities = self.probabilities[:, :, kind]
        logs = scores.log_softmax(-1).gather(-1, self.ids[:, :, kind])
        logs = logs.masked_fill(probabilities == 0, 0)  # it may be -inf, and 0 * -inf is not 0
        return -(probabilities * logs).sum(-1)


@dataclass(frozen=True)
class Targets:
    """The teachers' most likely choices for all words of all training sentences, laid end to end."""

    lengths: Int[np.ndarray, " sentence"]  # in words
    ids: Int[np.ndarray, "word step kind kept"]  # int16
    probabilities: Float[np.ndarray, "word step kind kept"]  # float16; they sum to 1
    shares: Float[np.ndarray, " sentence"]  # of the teachers in the target of each sentence

    def save(self, path: Path) -> None:
        """Write the targets to a file, which replaces an older one when it is complete."""
        with open_output(path, is_synced=True) as file:
            file.write(save({item.name: getattr(self, item.name) for item in fields(self)}))

    @classmethod
    def load(cls, path: Path, sentences: Sequence[Sentence]) -> Targets:
        """Read the targets of these sentences."""
        hint = "Delete it, and resume: it is computed again."
        try:
            targets = cls(**load_file(path))
        except (OSError, SafetensorError, TypeError) as error:
            raise TreefineError(f"The file is damaged ({error}).", hint=hint, path=str(path)) from error
        if targets.lengths.tolist() != list(map(len, sentences)):
            raise TreefineError("The file has targets of other sentences.", hint=hint, path=str(path))
        return targets

    @cached_property
    def starts(self) -> Int[np.ndarray, " sentence"]:
        """The place of the first word of each sentence."""
        starts: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return starts

    def of_batch(self, numbers: Sequence[int], device: torch.device) -> TargetBatch:
        """Return the targets of the sentences with these numbers. ROOT and padding have no targets."""
        lengths = self.lengths[numbers][:, None]
        place = np.arange(lengths.max() + 1)
        is_word = (place > 0) & (place <= lengths)  # [batch, word]
        words = np.where(is_word, self.starts[numbers][:, None] + place - 1, 0)
        wide = is_word[..., None, None, None]
        ids, probabilities = (torch.from_numpy(table[words] * wide) for table in (self.ids, self.probabilities))
        share = torch.from_numpy(self.shares[numbers])[:, None]
        return TargetBatch(
            to_device(ids, device).long(), to_device(probabilities, device).float(), to_device(share, device)
        )


@dataclass(frozen=True)
class DistillationData:
    """What a model learns from its teachers: more sentences, and targets for all sentences."""

    sentences: tuple[Sentence, ...]  # unlabelled sentences, with the teachers' trees and tags
    targets: Targets  # of the labelled sentences, then of these
    recipes: Mapping[str, Recipe] = field(default_factory=dict)  # of the teachers that were trained for this model


def unlabelled_sentences(texts: Sequence[str | Sentence], segmenter: Segmenter | None) -> list[Sentence]:
    """Return the sentences of texts, without very long ones; the segmenter divides lines into sentences and words."""
    sentences = [text for text in texts if isinstance(text, Sentence)]
    if lines := [text for text in texts if isinstance(text, str)]:
        assert segmenter is not None, "the recipe is not checked"
        found = chain.from_iterable(segmenter.segment_all(lines))
        sentences += [Sentence.of_words(each.sentence.forms) for each in found]
    return [sentence for sentence in sentences if len(sentence) <= LONGEST_UNLABELLED]


def load_teachers(folders: Sequence[str], recipe: Recipe, device: torch.device) -> list[ParserModel]:
    """Load the teachers as they run fastest on a device."""
    is_short = device.type == "cuda" and recipe.training.precision != "float32"
    precision: Precision = "bfloat16" if is_short else "float32"
    models = (load_model(fetch(folder)).to(device).eval() for folder in folders)
    return [fast.parsing_model(model, device, precision) for model in models]


def compute_targets(
    recipe: Recipe,
    labelled: Sequence[Sentence],
    unlabelled: Sequence[Sentence],
    teachers: Sequence[ParserModel],
    device: torch.device,
) -> tuple[Targets, list[Sentence], Iterator[float]]:
    """Return all targets, the unlabelled sentences with the teachers' trees and tags, and an iterator.

    The iterator fills in the others, and yields the completed share.
    """
    first, max_steps, sentences = teachers[0], recipe.refine.max_steps, [*labelled, *unlabelled]
    lengths = np.array(list(map(len, sentences)), np.int64)
    shares = np.array([recipe.teacher.weight] * len(labelled) + [1.0] * len(unlabelled), np.float32)
    n_kinds = FIRST_TAGS + (len(first.tagger.n_tags) if first.tagger is not None else 0)
    shape = (lengths.sum(), max_steps, n_kinds, N_KEPT)
    targets = Targets(lengths, np.zeros(shape, np.int16), np.zeros(shape, np.float16), shares)
    parsed = list(unlabelled)

    def parse(numbers: Sequence[int]) -> list[None]:
        chosen, is_labelled = [sentences[number] for number in numbers], [number < len(labelled) for number in numbers]
        ids, probabilities, trees = mean_parses(teachers, chosen, is_labelled, max_steps, device)
        for row, number in enumerate(numbers):
            first, length = targets.starts[number], len(sentences[number])
            targets.ids[first : first + length] = ids[row, 1 : length + 1]
            targets.probabilities[first : first + length] = probabilities[row, 1 : length + 1]
            if number >= len(labelled):
                parsed[number - len(labelled)] = trees[row]
        return [None] * len(numbers)

    def steps() -> Iterator[float]:
        batch, longest, done = fast.batch_shape(first, device, BATCH_PIECES), first.settings.encoder.n_positions, 0
        sizes = [first.n_pieces(sentence) for sentence in sentences]
        for numbers in batches(sizes, batch.most_pieces, longest, with_padding=batch.with_padding):
            retry_in_halves(numbers, parse, sentences)
            done += len(numbers)
            yield done / len(sentences)

    return targets, parsed, steps()


_Table: TypeAlias = Float[Tensor, "step batch word choice"]


@torch.no_grad()
def mean_parses(
    teachers: Sequence[ParserModel],
    sentences: Sequence[Sentence],
    is_labelled: Sequence[bool],
    max_steps: int,
    device: torch.device,
) -> tuple[np.ndarray, np.ndarray, list[Sentence]]:
    """Let each teacher refine one batch from an empty graph, independently of the others.

    Return the most likely heads, labels and tags by their mean probabilities, these probabilities, and the sentences;
    unlabelled ones have their mean trees and tags. Labels are those of the tree of a labelled sentence, and of the
    mean tree of others.
    After the last step of a sentence by a teacher, its probabilities are those of that step.
    """
    runs, model = [], teachers[0]
    for teacher in teachers:
        padded_to = fast.batch_shape(teacher, device, BATCH_PIECES).padded_to
        batch = teacher.batch_of(sentences, padded_to=padded_to).to(device)
        tags = input_tags(teacher, sentences, device)
        runs.append(list(refined(teacher, batch, list(empty(sentences)), tags, RefineSettings(max_steps))))
    arcs = _mean(runs, max_steps, lambda step: step.scores.arcs)
    of_tags = [
        _mean(runs, max_steps, lambda step, column=column: step.scores.tags[column])  # type: ignore[misc]
        for column in range(len(runs[0][0].scores.tags))
    ]
    decoder, tree_heads = Decoder.of(model), torch.zeros(arcs.shape[1:3], dtype=torch.long, device=device)
    for row, sentence in enumerate(sentences):
        n_words = len(sentence) + 1
        best = decoder.best_heads(arcs[-1, row, :n_words, :n_words].log())
        tree_heads[row, :n_words] = torch.from_numpy(best).to(device).clamp(min=0)
    label_scores = _mean(runs, max_steps, lambda step: _labels(step, tree_heads))[-1].log()
    tree_labels = decoder.obeying(label_scores, tree_heads).argmax(-1)
    gold = Graphs.of([sentence.arcs for sentence in sentences], model.vocabulary).to(device)
    heads = torch.where(torch.tensor(is_labelled, device=device)[:, None], gold.heads, tree_heads)
    labels = _mean(runs, max_steps, lambda step: _labels(step, heads))
    kinds = [most_likely(table) for table in (arcs, labels, *of_tags)]  # in the order of HEADS, LABELS, …
    ids, probabilities = (torch.stack(some, dim=3).movedim(0, 2).cpu() for some in zip(*kinds, strict=True))
    settings, trees = model.settings.tags, list(sentences)
    columns = settings.columns if of_tags else ()
    for row in (row for row, is_known in enumerate(is_labelled) if not is_known):
        sentence, places = sentences[row], slice(1, len(sentences[row]) + 1)
        names = tuple(model.vocabulary.labels[label] for label in tree_labels[row, places].tolist())
        # later steps may correct tags
        best_tags = [best_tag(table[-1 if settings.refined else 0, row, places]).tolist() for table in of_tags]
        tagged = tag_names(model.vocabulary, columns, best_tags, sentence)
        trees[row] = sentence.with_parse(Arcs(tuple(tree_heads[row, places].tolist()), names), columns, tagged)
    return ids.numpy().astype(np.int16), probabilities.numpy().astype(np.float16), trees  # [batch, word, step, kind, …]


def _labels(step: BatchStep, heads: Int[Tensor, "batch word"]) -> Float[Tensor, "batch word label"]:
    """Return the label scores of a step for these heads of the whole batch."""
    return step.scores.labels(heads[to_device(step.sentences, heads.device), : step.batch.n_words])


def _mean(runs: Sequence[Sequence[BatchStep]], max_steps: int, scores_of: Callable[[BatchStep], Tensor]) -> _Table:
    """Return the mean over teachers of the probabilities of each choice, for every step up to the last."""
    whole = scores_of(runs[0][0])  # of the first step, which has all sentences
    total = torch.zeros((max_steps, *whole.shape), device=whole.device)
    for steps in runs:
        table = torch.zeros_like(total)
        for step in steps:
            probabilities = scores_of(step).float().softmax(-1)
            rows, (_, n_words, n_choices) = to_device(step.sentences, whole.device), probabilities.shape
            table[step.t - 1 :, rows, :n_words, :n_choices] = probabilities
        total += table
    return total / len(runs)


def most_likely(
    probabilities: Float[Tensor, "*place choice"],
) -> tuple[Int[Tensor, "*place kept"], Float[Tensor, "*place kept"]]:
    """Return the most likely choices of each word, and their probabilities, which sum to 1.

    Impossible choices become 0: a head may be padding, which another batch does not have.
    """
    n_kept = min(N_KEPT, probabilities.shape[-1])
    likely, ids = probabilities.topk(n_kept, dim=-1)
    missing = (0, N_KEPT - n_kept)
    return F.pad(ids * (likely > 0), missing), F.pad(likely / likely.sum(-1, keepdim=True), missing)
