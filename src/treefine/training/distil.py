"""Knowledge distillation: train teachers, average the probabilities of their parses, and keep them as targets."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine import fast
from treefine.config import BATCH_PIECES, Precision
from treefine.errors import TreefineError
from treefine.model.batch import Graphs, sent
from treefine.model.folder import fetch, load_model
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import best_tag
from treefine.model.vocabulary import tag_names
from treefine.parsing.annotate import with_parse
from treefine.parsing.batches import batches, free_memory, retry_in_halves
from treefine.parsing.decode import Decoder
from treefine.parsing.initial import empty
from treefine.parsing.refine import BatchStep
from treefine.segmenter.segmenter import Segmenter
from treefine.training.checkpoint import FolderNames, TrainingState, remove_unfinished
from treefine.training.epochs import InitialGraphs, Progress, TrainingRun, learn
from treefine.training.learner import input_tags, refined
from treefine.training.prepare import Prepared
from treefine.training.processes import Processes
from treefine.training.recipe import expand
from treefine.training.targets import FIRST_TAGS, N_KEPT, DistillationData, Targets
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

LONGEST_UNLABELLED = 200  # a longer line of a text is hardly a sentence, and is left out
_STAGE = "targets"  # as in Progress


def distil(
    prepared: Prepared, folder: Path, processes: Processes, segmenter: Segmenter | None
) -> Generator[Progress, None, DistillationData | None]:
    """Train the teachers and compute the targets, unless they are in the folder; None if there are no teachers."""
    if not prepared.recipe.teacher.names:
        return None
    folder = folder / FolderNames.teachers
    path, texts = folder / FolderNames.targets, folder / FolderNames.unlabelled
    if not processes.same(path.exists()):
        names = yield from _trained(prepared, folder, processes)
        if processes.is_first:
            folder.mkdir(parents=True, exist_ok=True)
            remove_unfinished(folder, FolderNames.targets, FolderNames.unlabelled)
            others = tuple(unlabelled(prepared.texts, segmenter))
            teachers = load_teachers(names, prepared, processes.device)
            targets, parsed = yield from compute_targets(prepared, others, teachers, processes)
            del teachers
            free_memory()
            if parsed:
                write_treebank(parsed, texts)
            targets.save(path)
        while processes.same(False):  # the other processes wait for one batch at a time, so they do not time out
            pass
    sentences = tuple(read_treebank(texts)) if texts.exists() else ()
    targets = Targets.load(path, (*prepared.data.train, *sentences))
    recipes = {Path(name).stem: teacher.recipe for name, teacher in prepared.teachers.items()}
    return DistillationData(sentences, targets, recipes)


def _trained(prepared: Prepared, folder: Path, processes: Processes) -> Generator[Progress, None, list[str]]:
    """Train each recipe of a teacher with several seeds, and return the folders of all teachers."""
    members = prepared.recipe.teacher.members
    total = members * len(prepared.teachers)
    folders = [expand(name) for name in prepared.recipe.teacher.models]
    for name, teacher in prepared.teachers.items():
        for number in range(members):
            training = replace(teacher.recipe.training, seed=teacher.recipe.training.seed + number)
            recipe, of_teacher = replace(teacher.recipe, training=training), folder / Path(name).stem / str(number + 1)
            initial, stage = (
                InitialGraphs.without_parser(recipe, teacher.data),
                f"teacher {len(folders) + 1} of {total}",
            )
            yield from learn(TrainingRun(recipe, teacher.data, of_teacher, processes, initial, stage=stage))
            folders.append(str(of_teacher / FolderNames.model))
    return folders


def unlabelled(texts: Sequence[str | Sentence], segmenter: Segmenter | None) -> Iterator[Sentence]:
    """Yield the sentences of texts, without very long ones; the segmenter divides lines into words."""
    sentences = [text for text in texts if isinstance(text, Sentence)]
    if lines := [text for text in texts if isinstance(text, str)]:
        assert segmenter is not None, "the recipe is not checked"
        sentences += [Sentence.of_words(line.sentence.forms) for line in segmenter.stream_lines(lines)]
    yield from (sentence for sentence in sentences if len(sentence) <= LONGEST_UNLABELLED)


def load_teachers(folders: Sequence[str], prepared: Prepared, device: torch.device) -> list[ParserModel]:
    """Load the teachers as they run fastest on a device."""
    is_short = device.type == "cuda" and prepared.recipe.training.precision != "float32"
    precision: Precision = "bfloat16" if is_short else "float32"
    models = (load_model(fetch(folder)).to(device).eval() for folder in folders)
    return [fast.parsing_model(model, device, precision) for model in models]


def compute_targets(
    prepared: Prepared, unlabelled: Sequence[Sentence], teachers: Sequence[ParserModel], processes: Processes
) -> Generator[Progress, None, tuple[Targets, list[Sentence]]]:
    """Return the targets of all sentences, and the unlabelled sentences with the teachers' trees and tags."""
    recipe, first, device = prepared.recipe, teachers[0], processes.device
    labelled = prepared.data.train
    sentences = (*labelled, *unlabelled)
    targets = Targets.blank(
        list(map(len, sentences)),
        n_labelled=len(labelled),
        weight=recipe.teacher.weight,
        n_steps=recipe.refine.max_steps,
        n_kinds=FIRST_TAGS + (len(first.tagger.n_tags) if first.tagger is not None else 0),
    )
    parsed: dict[int, Sentence] = {}
    began, done = time.monotonic(), 0

    def parse(numbers: Sequence[int]) -> list[None]:
        parses = _MeanParses.of(teachers, [sentences[number] for number in numbers], recipe.refine.max_steps, device)
        ids, probabilities = parses.targets([number < len(labelled) for number in numbers])
        for row, number in enumerate(numbers):
            first, length = targets.starts[number], len(sentences[number])
            targets.ids[first : first + length] = ids[row, 1 : length + 1]
            targets.probabilities[first : first + length] = probabilities[row, 1 : length + 1]
            if number >= len(labelled):
                parsed[number] = parses.sentence(row)
        return [None] * len(numbers)

    def too_long(number: int) -> TreefineError:
        return sentences[number].error("There is not enough memory for this sentence.", hint="Remove it.")

    shape, longest = fast.batch_shape(first, device, BATCH_PIECES), first.settings.encoder.n_positions
    sizes = [first.n_pieces(sentence) for sentence in sentences]
    for numbers in batches(sizes, shape.most_pieces, longest, with_padding=shape.with_padding):
        retry_in_halves(numbers, parse, too_long)
        processes.same(True)
        done += len(numbers)
        share, state = done / len(sentences), TrainingState(epoch=int(done == len(sentences)))
        yield Progress(_STAGE, 1, 1, share, 0.0, None, state, time.monotonic() - began)
    return targets, [parsed[number] for number in range(len(labelled), len(sentences))]


_Table: TypeAlias = Float[Tensor, "step batch word choice"]


@dataclass(frozen=True)
class _MeanParses:
    """The parses of one batch by teachers that refine independently of each other, and the means of their scores.

    After the last step of a sentence by a teacher, its probabilities are those of that step.
    """

    sentences: Sequence[Sentence]
    model: ParserModel  # one of the teachers
    runs: list[list[BatchStep]]  # the steps of each teacher
    arcs: _Table
    tags: list[_Table]
    heads: Int[Tensor, "batch word"]  # of the mean trees
    labels: Int[Tensor, "batch word"]

    @classmethod
    @torch.no_grad()
    def of(
        cls, teachers: Sequence[ParserModel], sentences: Sequence[Sentence], max_steps: int, device: torch.device
    ) -> _MeanParses:
        """Let each teacher parse the sentences from an empty graph."""
        runs = []
        for teacher in teachers:
            padded_to = fast.batch_shape(teacher, device, BATCH_PIECES).padded_to
            batch = teacher.batch_of(sentences, padded_to=padded_to).to(device)
            tags = input_tags(teacher, sentences, device)
            runs.append(list(refined(teacher, batch, list(empty(sentences)), tags, max_steps=max_steps)))
        arcs = _mean(runs, max_steps, lambda step: step.scores.arcs)
        of_tags = [
            _mean(runs, max_steps, lambda step, column=column: step.scores.tags[column])  # type: ignore[misc]
            for column in range(len(runs[0][0].scores.tags))
        ]
        decoder = Decoder.of(teachers[0])
        heads = torch.zeros(arcs.shape[1:3], dtype=torch.long, device=device)
        for row, sentence in enumerate(sentences):
            n_words = len(sentence) + 1
            best = decoder.best_heads(arcs[-1, row, :n_words, :n_words].log())
            heads[row, :n_words] = torch.from_numpy(best).to(device).clamp(min=0)
        labels = _mean(runs, max_steps, lambda step: _labels(step, heads))[-1].log()
        return cls(sentences, teachers[0], runs, arcs, of_tags, heads, decoder.obeying(labels, heads).argmax(-1))

    @torch.no_grad()
    def targets(self, is_labelled: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
        """Return the most likely heads, labels and tags of each word at each step, and their probabilities.

        Labels are those of the tree of a labelled sentence, and of the mean tree of others.
        """
        device = self.heads.device
        gold = Graphs.of([sentence.arcs for sentence in self.sentences], self.model.vocabulary).to(device)
        heads = torch.where(torch.tensor(is_labelled, device=device)[:, None], gold.heads, self.heads)
        labels = _mean(self.runs, len(self.arcs), lambda step: _labels(step, heads))
        kinds = [most_likely(table) for table in (self.arcs, labels, *self.tags)]  # in the order of HEADS, LABELS, …
        ids, probabilities = (torch.stack(some, dim=3).movedim(0, 2).cpu() for some in zip(*kinds, strict=True))
        return ids.numpy().astype(np.int16), probabilities.numpy().astype(np.float16)  # [batch, word, step, kind, kept]

    def sentence(self, row: int) -> Sentence:
        """Return a sentence with its mean tree and tags: those of the last step if later steps correct tags."""
        model, sentence = self.model, self.sentences[row]
        settings, places = model.settings.tags, slice(1, len(sentence) + 1)
        heads, labels = self.heads[row, places].tolist(), self.labels[row, places].tolist()
        arcs = Arcs(tuple(heads), tuple(model.vocabulary.labels[label] for label in labels))
        columns = settings.columns if self.tags else ()
        best = [best_tag(table[-1 if settings.refined else 0, row, places]).tolist() for table in self.tags]
        return with_parse(sentence, arcs, columns, tag_names(model.vocabulary, columns, best, sentence))


def _labels(step: BatchStep, heads: Int[Tensor, "batch word"]) -> Float[Tensor, "batch word label"]:
    """Return the label scores of a step for these heads of the whole batch."""
    return step.scores.labels(heads[sent(step.sentences, heads.device), : step.batch.n_words])


def _mean(runs: Sequence[Sequence[BatchStep]], max_steps: int, scores_of: Callable[[BatchStep], Tensor]) -> _Table:
    """Return the mean over teachers of the probabilities of each choice, for every step up to the last."""
    whole = scores_of(runs[0][0])  # of the first step, which has all sentences
    total = torch.zeros((max_steps, *whole.shape), device=whole.device)
    for steps in runs:
        table = torch.zeros_like(total)
        for step in steps:
            probabilities = scores_of(step).float().softmax(-1)
            rows, (_, n_words, n_choices) = sent(step.sentences, whole.device), probabilities.shape
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
