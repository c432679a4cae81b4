"""Train the teachers of a model, and let them parse its training sentences together (knowledge distillation)."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine import fast
from treefine.config import BATCH_PIECES, Precision, TransformerSettings
from treefine.errors import TreefineError
from treefine.model.batch import Batch, Graphs, sent
from treefine.model.folder import fetch, load_model
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import Scores
from treefine.parsing.annotate import with_parse
from treefine.parsing.batches import batches, free_memory, halving
from treefine.parsing.decode import Decoder, made_trees
from treefine.parsing.initial import empty
from treefine.parsing.refine import BatchStep, Tags, refine
from treefine.parsing.results import TagNames, predicted_tags
from treefine.segmenter.segmenter import Segmenter
from treefine.training.checkpoint import FolderNames, TrainingStanding, remove_unfinished
from treefine.training.epochs import InitialGraphs, ModelTraining, Progress, learn
from treefine.training.prepare import Prepared
from treefine.training.processes import Processes
from treefine.training.recipe import expand
from treefine.training.targets import N_KEPT, Taught, TeacherTargets
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

LONGEST_UNLABELLED = 200  # a longer line of a text is hardly a sentence, and is left out
_STAGE = "targets"  # as in Progress


def taught(
    prepared: Prepared, folder: Path, processes: Processes, segmenter: Segmenter | None
) -> Generator[Progress, None, Taught | None]:
    """Train the teachers and compute the targets, unless they are in the folder; None if the recipe has no teachers."""
    settings, own = prepared.recipe.teacher, folder / FolderNames.teachers
    if not settings.names:
        return None
    path, texts = own / FolderNames.targets, own / FolderNames.unlabelled
    if not processes.same(path.exists()):
        trained = yield from _trained(prepared, own, processes)
        if processes.is_first:
            own.mkdir(parents=True, exist_ok=True)
            remove_unfinished(own, FolderNames.targets, FolderNames.unlabelled)
            lesson = Lesson(prepared, tuple(unlabelled(prepared.texts, segmenter)))
            precision = _precision(prepared, processes.device)
            targets, parsed = yield from lesson.targets(Ensemble.load(trained, processes.device, precision), processes)
            free_memory()
            if parsed:
                write_treebank(parsed, texts)
            targets.save(path)
        while processes.same(False):  # the other processes wait for one batch at a time, so they do not time out
            pass
    sentences = tuple(read_treebank(texts)) if texts.exists() else ()
    targets = TeacherTargets.load(path, (*prepared.data.train, *sentences))
    return Taught(sentences, targets, {Path(name).stem: each.recipe for name, each in prepared.teachers.items()})


def _trained(prepared: Prepared, folder: Path, processes: Processes) -> Generator[Progress, None, list[str]]:
    """Train each recipe of a teacher with several seeds, and return the folders of all teachers."""
    members = prepared.recipe.teacher.members
    total = members * len(prepared.teachers)
    folders = [expand(name) for name in prepared.recipe.teacher.models]
    for name, each in prepared.teachers.items():
        for number in range(members):
            training = replace(each.recipe.training, seed=each.recipe.training.seed + number)
            recipe = replace(each.recipe, training=training)
            own = folder / Path(name).stem / str(number + 1)
            initial = InitialGraphs.without_parser(recipe, each.data)
            stage = f"teacher {len(folders) + 1} of {total}"
            yield from learn(ModelTraining(recipe, each.data, own, processes, initial, stage=stage))
            folders.append(str(own / FolderNames.model))
    return folders


def _precision(prepared: Prepared, device: torch.device) -> Precision:
    chosen = prepared.recipe.training.precision
    return "bfloat16" if device.type == "cuda" and chosen != "float32" else "float32"


def unlabelled(texts: Sequence[str | Sentence], segmenter: Segmenter | None) -> Iterator[Sentence]:
    """Yield the sentences of texts, without very long ones; the segmenter divides lines into words."""
    found = [each for each in texts if isinstance(each, Sentence)]
    lines = [each for each in texts if isinstance(each, str)]
    if lines:
        assert segmenter is not None, "the recipe is not checked"
        found += [Sentence.of_words(each.sentence.forms) for each in segmenter.stream_lines(lines)]
    yield from (each for each in found if len(each) <= LONGEST_UNLABELLED)


@dataclass(frozen=True)
class EnsembleBatch(Batch):
    """The same sentences for each teacher, whose pieces may differ."""

    members: tuple[Batch, ...] = ()

    @classmethod
    def joined(cls, members: Sequence[Batch]) -> EnsembleBatch:
        """Return one batch for all teachers."""
        first = members[0]
        return cls(first.inputs, first.lengths, first.is_word, members=tuple(members))

    def select(self, sentences: Sequence[int]) -> EnsembleBatch:
        """Return some of the sentences, without needless padding."""
        return EnsembleBatch.joined([each.select(sentences) for each in self.members])


@dataclass(frozen=True)
class EnsembleScores(Scores):
    """The logarithms of the mean probabilities of all teachers."""

    members: tuple[Scores, ...] = ()

    @classmethod
    def joined(cls, members: Sequence[Scores]) -> EnsembleScores:
        """Return the scores of all teachers as one."""
        first = members[0]
        arcs = mean_log_probabilities([each.arcs for each in members])
        tags = tuple(map(mean_log_probabilities, zip(*(each.tags for each in members), strict=True)))
        return cls(arcs, first.label_dep, first.label_head, first.label_weight, tags, members=tuple(members))

    def labels(self, heads: Int[Tensor, "batch dep"]) -> Float[Tensor, "batch dep label"]:
        """Return the logarithms of the mean label probabilities, given these heads."""
        return mean_log_probabilities([each.labels(heads) for each in self.members])

    def only(self, row: int, n_words: int) -> EnsembleScores:
        """Return the scores of one sentence, cut to its words, ROOT included."""
        return EnsembleScores.joined([each.only(row, n_words) for each in self.members])


def mean_log_probabilities(scores: Sequence[Float[Tensor, "*place choice"]]) -> Float[Tensor, "*place choice"]:
    """Return the logarithms of the mean probabilities of several teachers."""
    return torch.stack([each.log_softmax(-1) for each in scores]).logsumexp(0) - math.log(len(scores))


@dataclass(frozen=True)
class Ensemble:
    """Teachers that parse together: each step of all of them reads the same graph and the same tags."""

    models: tuple[ParserModel, ...]  # with the same labels and tags
    device: torch.device

    @classmethod
    def load(cls, folders: Sequence[str], device: torch.device, precision: Precision) -> Ensemble:
        """Load the teachers."""
        models = (load_model(fetch(folder)).to(device).eval() for folder in folders)
        return cls(tuple(fast.parsing_model(each, device, precision) for each in models), device)

    @torch.no_grad()
    def steps(self, sentences: Sequence[Sentence], max_steps: int) -> list[BatchStep]:
        """Return the refinement steps of some sentences, from an empty graph."""
        first = self.models[0]
        decoder = Decoder.of(first)
        padded_to = fast.batch_shape(first, self.device, BATCH_PIECES).padded_to
        batch = [each.batch_of(sentences, padded_to=padded_to).to(self.device) for each in self.models]
        initial = Graphs.of(list(empty(sentences)), first.vocabulary)
        first_trees = made_trees(first, initial)
        settings = first.settings.tags
        tags = first.tag_inputs(sentences, read=settings.columns if settings.source == "given" else settings.given)

        def score(batch: Batch, graphs: Graphs, tags: Tags | None, t: int) -> Scores:
            assert isinstance(batch, EnsembleBatch)
            parts = zip(self.models, batch.members, strict=True)
            return EnsembleScores.joined([model(part, graphs, tags) for model, part in parts])

        def decode(scores: Scores, batch: Batch, t: int) -> Graphs:
            return decoder.graphs(scores, batch.is_word, as_trees=first_trees if t == 1 else ())

        found = refine(
            score,
            EnsembleBatch.joined(batch),
            initial.to(self.device),
            max_steps=max_steps,
            decode=decode,
            tags=None if tags is None else sent(tags, self.device),
            predict_tags=first.tagger is not None,
        )
        return list(found)

    @torch.no_grad()
    def trees(self, steps: Sequence[BatchStep]) -> Graphs:
        """Return the tree of each sentence, from the scores of its last step."""
        heads, labels = steps[0].graphs.heads.clone(), steps[0].graphs.labels.clone()
        decoder = Decoder.of(self.models[0])
        for step in steps:
            ended = [row for row, is_last in enumerate(step.ended.tolist()) if is_last]
            if ended:
                trees = decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ended)
                rows = sent([step.sentences[row] for row in ended], self.device)
                chosen, n_words = sent(ended, self.device), step.batch.n_words
                heads[rows, :n_words], labels[rows, :n_words] = trees.heads[chosen], trees.labels[chosen]
        return Graphs(heads, labels, has_any=True)


@dataclass(frozen=True)
class Lesson:
    """The sentences of a training, labelled and unlabelled, for which teachers compute the targets."""

    prepared: Prepared
    unlabelled: tuple[Sentence, ...]

    def targets(
        self, ensemble: Ensemble, processes: Processes
    ) -> Generator[Progress, None, tuple[TeacherTargets, list[Sentence]]]:
        """Return the targets of all sentences, and the unlabelled sentences with the teachers' trees and tags."""
        recipe, first = self.prepared.recipe, ensemble.models[0]
        labelled = self.prepared.data.train
        sentences = (*labelled, *self.unlabelled)
        found = TeacherTargets.blank(
            list(map(len, sentences)),
            n_labelled=len(labelled),
            weight=recipe.teacher.weight,
            n_steps=recipe.refine.max_steps,
            n_kinds=2 + (len(first.tagger.columns) if first.tagger is not None else 0),
        )
        parsed: dict[int, Sentence] = {}
        began, done, starts = time.monotonic(), 0, found.starts

        def work(numbers: Sequence[int]) -> list[None]:
            chosen = [sentences[number] for number in numbers]
            batch = _BatchTargets.of(ensemble, chosen, [number < len(labelled) for number in numbers], found.ids.shape)
            for row, number in enumerate(numbers):
                words = slice(starts[number], starts[number] + len(sentences[number]))
                places = slice(1, len(sentences[number]) + 1)
                found.ids[words] = batch.ids[row, places]
                found.probabilities[words] = batch.probabilities[row, places]
                if number >= len(labelled):
                    parsed[number] = batch.parsed[row]
            return [None] * len(numbers)

        def on_one(number: int) -> TreefineError:
            return sentences[number].error("There is not enough memory for this sentence.", hint="Remove it.")

        for numbers in _batches(ensemble, sentences):
            halving(numbers, work, on_one)
            processes.same(True)
            done += len(numbers)
            share = done / len(sentences)
            standing = TrainingStanding(epoch=int(done == len(sentences)))
            yield Progress(_STAGE, 1, 1, share, 0.0, None, standing, time.monotonic() - began)
        return found, [parsed[number] for number in range(len(labelled), len(sentences))]


def _batches(ensemble: Ensemble, sentences: Sequence[Sentence]) -> list[list[int]]:
    """Choose which sentences to parse together, by their length for the first teacher."""
    first = ensemble.models[0]
    shape, encoder = fast.batch_shape(first, ensemble.device, BATCH_PIECES), first.settings.encoder
    longest = encoder.n_positions if isinstance(encoder, TransformerSettings) else shape.most_pieces
    sizes = [first.n_pieces(each) for each in sentences]
    return batches(sizes, shape.most_pieces, longest, with_padding=shape.with_padding)


@dataclass(frozen=True)
class _BatchTargets:
    """The targets of one batch on the host, and its sentences with the teachers' trees and tags."""

    ids: Int[Tensor, "batch word step kind kept"]
    probabilities: Float[Tensor, "batch word step kind kept"]
    parsed: list[Sentence]

    @classmethod
    @torch.no_grad()
    def of(
        cls, ensemble: Ensemble, sentences: Sequence[Sentence], is_labelled: Sequence[bool], shape: tuple[int, ...]
    ) -> _BatchTargets:
        """Compute the targets. After the last step of a sentence, its targets are those of that step.

        Labels are those of the tree of a labelled sentence, and of the teachers' tree of others.
        """
        model, device = ensemble.models[0], ensemble.device
        steps = ensemble.steps(sentences, shape[1])
        trees = ensemble.trees(steps)
        gold = Graphs.of([each.arcs for each in sentences], model.vocabulary).to(device)
        heads = torch.where(torch.tensor(is_labelled, device=device)[:, None], gold.heads, trees.heads)
        of_batch = (len(sentences), trees.heads.shape[1], *shape[1:])
        ids = torch.zeros(of_batch, dtype=torch.int16, device=device)
        probabilities = torch.zeros(of_batch, dtype=torch.float16, device=device)
        for step in steps:
            rows, n_words = sent(step.sentences, device), step.batch.n_words
            labels = step.scores.labels(heads[rows, :n_words])
            kept = [most_likely(scores) for scores in (step.scores.arcs, labels, *step.scores.tags)]
            some, likely = (torch.stack(each, dim=2)[:, :, None] for each in zip(*kept, strict=True))
            ids[rows, :n_words, step.t - 1 :] = some.to(ids.dtype)
            probabilities[rows, :n_words, step.t - 1 :] = likely.to(probabilities.dtype)
        listed, names = trees.listed(), model.vocabulary.labels
        tags = _tags_of(steps, model, sentences)
        parsed = []
        for row, sentence in enumerate(sentences):
            places = slice(1, len(sentence) + 1)
            arcs = Arcs(tuple(listed[0][row][places]), tuple(names[label] for label in listed[1][row][places]))
            parsed.append(with_parse(sentence, arcs, model.settings.tags.columns, tags[row]))
        return cls(ids.cpu(), probabilities.cpu(), parsed)


def _tags_of(steps: Sequence[BatchStep], model: ParserModel, sentences: Sequence[Sentence]) -> list[TagNames]:
    """Return the tags of each sentence: those of its last step if later steps correct tags, else of the first."""
    found: list[TagNames] = [()] * len(sentences)
    for step in steps if model.settings.tags.refined else steps[:1]:
        names = predicted_tags(step, model, [sentences[number] for number in step.sentences])
        for number, each in zip(step.sentences, names, strict=True):
            found[number] = each
    return found


def most_likely(
    log_probabilities: Float[Tensor, "*place choice"],
) -> tuple[Int[Tensor, "*place kept"], Float[Tensor, "*place kept"]]:
    """Return the most likely choices of each word, and their probabilities, which sum to 1.

    Impossible choices become 0: a head may be padding, which another batch does not have.
    """
    n_kept = min(N_KEPT, log_probabilities.shape[-1])
    likely, ids = log_probabilities.exp().topk(n_kept, dim=-1)
    probabilities = likely / likely.sum(-1, keepdim=True)
    missing = (0, N_KEPT - n_kept)
    return F.pad(ids * (likely > 0), missing), F.pad(probabilities, missing)
