"""One epoch of training: batches, masking, and the refinement loop with a loss and an update per step (Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine import fast
from treefine.errors import TreefineError
from treefine.model.batch import AsyncCopy, Batch, Graphs, padded, to_device
from treefine.model.parser_model import ParserModel
from treefine.model.vocabulary import NO_HEAD, UNSEEN, flat_arcs, inputs_of
from treefine.parsing.batches import batches
from treefine.parsing.plan import is_out_of_memory
from treefine.parsing.refine import BatchStep, Tags
from treefine.training.data import drawn_order
from treefine.training.distil import FIRST_TAGS, HEADS, LABELS, TargetBatch, Targets
from treefine.training.optimiser import Optimiser
from treefine.training.processes import Processes
from treefine.training.recipe import Recipe, TagTraining
from treefine.training.segmenter import RunningText, TextWindow, end_loss
from treefine.training.steps import Decisions, refined
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence


def masked(batch: Batch, share: float, mask_piece: int) -> Batch:
    """Replace about this share of the pieces by `mask_piece`, but never ROOT, CLS or SEP."""
    if not share:
        return batch
    inputs = batch.inputs
    is_masked = (torch.rand(len(inputs.pieces), device=inputs.pieces.device) < share) & (inputs.words > 0)
    return replace(batch, inputs=replace(inputs, pieces=inputs.pieces.masked_fill(is_masked, mask_piece)))


@dataclass(frozen=True)
class GoldBatch:
    """The gold graphs and tags of a batch."""

    graphs: Graphs
    tags: Int[Tensor, "batch word column"] | None  # ids start at 1; None if the model predicts no tags
    targets: TargetBatch | None = None  # of the teachers, if there are any

    def select(self, sentences: tuple[int, ...], n_words: int) -> GoldBatch:
        """Return the gold graphs and tags of some sentences, cut to `n_words`."""
        if len(sentences) == len(self.graphs.heads):
            return self
        rows = to_device(sentences, self.graphs.heads.device)
        tags = None if self.tags is None else self.tags[rows, :n_words]
        targets = None if self.targets is None else self.targets.select(rows, n_words)
        return GoldBatch(self.graphs.select(rows, n_words), tags, targets)


def step_loss(step: BatchStep, gold: GoldBatch, settings: TagTraining) -> Float[Tensor, ""]:
    """Return the loss of one step, summed over the unfinished sentences: heads, labels of gold heads, and tags.

    Later steps read the tags that the first step predicts. They learn tags only if they correct them (`tags.refined`).
    With teachers, the target of a word is a mixture of its gold head, label and tags and of the teachers' probabilities
    at this step.
    """
    right = gold.select(step.sentences, step.batch.n_words)
    heads, labels = right.graphs.heads, right.graphs.labels
    targets = None if right.targets is None else right.targets.at(step.t, step.graphs)
    loss = _summed(step.scores.arcs, heads, NO_HEAD, targets, HEADS)
    loss = loss + _summed(step.scores.labels(heads), labels, UNSEEN, targets, LABELS)
    if right.tags is not None and (step.t == 1 or settings.refined or step.scores.stage > 0):
        for column, scores in enumerate(step.scores.tags):
            if not scores.shape[-1]:  # it is read from the input
                continue
            of_column = _summed(scores, right.tags[..., column] - 1, UNSEEN, targets, FIRST_TAGS + column)
            loss = loss + settings.weight * of_column
    return loss


def _summed(
    scores: Float[Tensor, "batch word choice"],
    right: Int[Tensor, "batch word"],
    ignored: int,
    targets: TargetBatch | None,
    kind: int,
) -> Tensor:
    """Return the cross-entropy of the words whose correct choice is known."""
    flat, correct = scores.flatten(0, 1), right.flatten()
    if targets is None:
        return F.cross_entropy(flat, correct, ignore_index=ignored, reduction="sum")
    hard = F.cross_entropy(flat, correct, ignore_index=ignored, reduction="none").view_as(right)
    mixed = (1 - targets.share) * hard + targets.share * targets.cross_entropy(kind, scores)
    return torch.where(right == ignored, 0, mixed).sum()


class TrainingInputs:
    """The training sentences in numbers, computed once: their pieces, and per word its gold arc and what it shows."""

    def __init__(self, model: ParserModel, train: Sequence[Sentence]) -> None:
        self.pieces = [model.subwords.pieces_of(sentence.forms) for sentence in train]
        self.sizes = [model.n_pieces(sentence, pieces) for sentence, pieces in zip(train, self.pieces, strict=True)]
        self.lengths = list(map(len, train))
        self.starts = np.cumsum([0, *self.lengths]).tolist()
        self.heads, self.labels = flat_arcs([sentence.arcs for sentence in train], model.vocabulary)
        settings = model.settings.tags
        columns = settings.columns if settings.source != "none" else ()
        self.words = inputs_of(train, model.vocabulary, settings, read=columns)  # None if nothing is read
        self.n_columns = len(columns)

    def graphs(self, numbers: Sequence[int]) -> Graphs:
        """Return the gold graphs of some sentences."""
        heads, labels = self._padded(self.heads, numbers, NO_HEAD), self._padded(self.labels, numbers, UNSEEN)
        return Graphs(heads, labels)

    def inputs(self, numbers: Sequence[int]) -> Tags | None:
        """Return what the model may read of the words of some sentences: all tags, and the inputs after them."""
        return None if self.words is None else self._padded(self.words, numbers, 0)

    def _padded(self, flat: np.ndarray, numbers: Sequence[int], fill: int) -> Tensor:
        rows = np.concatenate([flat[self.starts[number] : self.starts[number + 1]] for number in numbers])
        return torch.from_numpy(padded(rows, [self.lengths[number] for number in numbers], fill))


@dataclass(eq=False)
class Learner:
    """A model in training. All random choices of an epoch follow from the seed and the number of the epoch."""

    model: ParserModel
    recipe: Recipe
    train: Sequence[Sentence]
    graphs: Sequence[Arcs]  # the initial graph G⁰ of each sentence
    processes: Processes
    text: RunningText | None = None
    targets: Targets | None = None  # of the sentences in `train`; None without teachers
    member: int = 0  # of weight averaging; each member sees the sentences in another order

    def __post_init__(self) -> None:
        recipe, subwords, device = self.recipe, self.model.subwords, self.processes.device
        self.model = self.model.to(device)
        self.scoring_model = fast.training_model(self.model)  # the same weights
        self.optimiser = Optimiser(self.model, recipe.optimiser)
        self.inputs = TrainingInputs(self.model, self.train)
        self.mask_piece = subwords.unk_id if subwords.mask_id is None else subwords.mask_id
        precision = recipe.training.precision
        is_bfloat16 = precision == "bfloat16" or (precision == "auto" and device.type == "cuda")
        self.dtype = torch.bfloat16 if is_bfloat16 else torch.float32

    @property
    def shares_layers(self) -> bool:
        """Whether the steps of a batch share layers, so that one update follows all of them."""
        return self.model.settings.relations.first_layer > 0

    def epoch(self, number: int) -> Iterator[tuple[float, float]]:
        """Train on all sentences once; epochs count from 1. Yield the completed share and the loss of each batch."""
        settings = self.recipe.training
        rng = np.random.default_rng([settings.seed, *([self.member] if self.member else []), number])
        torch.manual_seed(int(rng.integers(2**62)) + self.processes.rank)
        texts = [] if self.text is None else self.text.batches(rng)
        rng.random(len(self.graphs))  # keeps the order in which earlier versions draw the sentences
        treebanks, longest = [sentence.treebank for sentence in self.train], self.model.settings.encoder.n_positions
        order = drawn_order(treebanks, self.inputs.lengths, self.recipe.treebank.balance, rng)
        groups = batches([self.inputs.sizes[number] for number in order], settings.batch_pieces, longest)
        n_batches = len(groups)
        self.model.train()
        pending: list[tuple[float, Callable[[], float]]] = []  # a loss is read while the next batch is computed
        for done, chosen in enumerate(rng.permutation(n_batches).tolist()):
            numbers = [order[place] for place in groups[chosen]]
            progress = (number - 1 + done / n_batches) / settings.epochs
            try:
                with quick_products():
                    loss = self.learn_from(numbers, self.graphs, progress)
                    for windows in texts[done * len(texts) // n_batches : (done + 1) * len(texts) // n_batches]:
                        self.learn_sentence_ends(windows, progress)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                hint = "Set a smaller training.batch_pieces."
                raise TreefineError("There is not enough memory for a batch.", hint=hint) from error
            yield from ((share, read()) for share, read in pending)
            pending = [((done + 1) / n_batches, loss)]
        yield from ((share, read()) for share, read in pending)

    def learn_from(self, numbers: Sequence[int], graphs: Sequence[Arcs], progress: float) -> Callable[[], float]:
        """Train on one batch; return a function that waits for the mean loss per word and step."""
        ours = self.processes.own_part(numbers)
        sentences = [self.train[number] for number in ours]
        steps: Iterator[BatchStep] = iter(())
        if sentences:
            gold, tags = self._gold(ours), self.shown_tags(ours)
            if tags is not None and gold.tags is not None:  # given tags are not predicted
                gold = replace(gold, tags=gold.tags * (tags[..., : gold.tags.shape[-1]] == 0))
            batch = self.model.batch_of(sentences, [self.inputs.pieces[number] for number in ours])
            steps = self.steps(batch, [graphs[number] for number in ours], tags, gold.graphs)
        summed, n_words = torch.zeros((), device=self.processes.device), 0.0
        shared, total = self.shares_layers, torch.zeros_like(summed)
        for _ in range(self.recipe.refine.max_steps):
            step = next(steps, None)
            n_moving = self.processes.total(0 if step is None else sum(step.batch.lengths))
            if n_moving == 0:
                break
            if step is not None:
                loss = step_loss(step, gold, self.recipe.tags)
                if not shared:
                    torch.autograd.backward(loss / n_moving)
                total = total + loss / n_moving
                summed += loss.detach()
            n_words += n_moving
            if not shared:
                self._update(progress)
        if shared:  # the steps share the lower layers, so one update follows all of them
            if sentences:
                torch.autograd.backward(total)
            self._update(progress)
        arriving = AsyncCopy(summed)
        return lambda: self.processes.total(float(arriving.read())) / max(1, n_words)

    def learn_sentence_ends(self, windows: Sequence[TextWindow], progress: float) -> None:
        """Train the head that finds sentences on some windows of running text."""
        ours = self.processes.own_part(windows)
        if ours:
            batch, tags = self.model.text_batch([one.tokens for one in ours], [one.treebank for one in ours])
            device = self.processes.device
            batch = masked(batch.to(device), self.recipe.training.masking, self.mask_piece)
            with torch.autocast(device.type, dtype=self.dtype, enabled=self.dtype != torch.float32):
                logits = self.scoring_model.sentence_end_logits(batch, to_device(tags, device))
            torch.autograd.backward(end_loss(logits, ours) * len(ours) / len(windows))
        self._update(progress)

    def _update(self, progress: float) -> None:
        self.processes.sum_gradients(self.optimiser.parameters)
        self.optimiser.update(progress)

    def steps(self, batch: Batch, arcs: Sequence[Arcs], tags: Tags | None, gold: Graphs) -> Iterator[BatchStep]:
        """Yield the steps of one batch with pieces masked and gold arcs decided as the recipe says."""
        settings, decisions = self.recipe.initial, None
        batch = masked(batch.to(self.processes.device), self.recipe.training.masking, self.mask_piece)
        if settings.decided_share + settings.corrected_share > 0:
            decisions = Decisions.drawn(batch, gold, len(self.model.vocabulary.labels), settings)
        model, refine = self.scoring_model, self.recipe.refine
        return refined(model, batch, arcs, tags, refine, dtype=self.dtype, decisions=decisions)

    def shown_tags(self, numbers: Sequence[int]) -> Tags | None:
        """Return the input tags of some sentences: the columns in `tags.given`, and others by `given_tags`."""
        read = self.inputs.inputs(numbers)
        if read is None:
            return None
        settings, tags = self.model.settings.tags, to_device(read, self.processes.device)
        if settings.source == "predicted":
            share, n_columns = self.recipe.training.given_tags, len(settings.columns)
            is_shown = torch.tensor([column in settings.given for column in settings.columns], device=tags.device)
            if share:
                is_shown = self._is_given(len(tags), n_columns, share) | is_shown
            tags[..., :n_columns] *= is_shown
        if self.model.vocabulary.treebanks:  # their column is the last one
            tags[..., -1] *= torch.rand((len(tags), 1), device=tags.device) >= self.recipe.treebank.unnamed
        return tags

    def _is_given(self, n_sentences: int, n_columns: int, share: float) -> Bool[Tensor, "batch 1 column"]:
        """Draw the sentences whose tags are given: half of them in all columns, the other half in some columns."""
        drawn = torch.rand((2, n_sentences, 1, 1), device=self.processes.device)
        only = torch.randint(n_columns, (n_sentences, 1, 1), device=drawn.device)
        is_only = torch.arange(n_columns, device=drawn.device) == only  # [batch, 1, column]
        if n_columns > 2:
            is_only = is_only | (torch.rand(is_only.shape, device=drawn.device) < 0.5)
        return (drawn[0] < share) & ((drawn[1] < 0.5) | is_only)

    def _gold(self, numbers: Sequence[int]) -> GoldBatch:
        device = self.processes.device
        known = self.inputs.inputs(numbers) if self.model.tagger is not None else None
        tags = None if known is None else to_device(known[..., : self.inputs.n_columns], device)
        targets = None if self.targets is None else self.targets.of_batch(numbers, device)
        if targets is not None and self.shares_layers:  # each stage learns the last step of the teachers
            targets = replace(targets, ids=targets.ids[:, :, -1:], probabilities=targets.probabilities[:, :, -1:])
        return GoldBatch(self.inputs.graphs(numbers).to(device), tags, targets)

    def measured_weights(self) -> dict[str, Tensor]:
        """Copy the weights that the dev set is scored with."""
        with self.optimiser.averaged():
            return {name: weight.detach().cpu().clone() for name, weight in self.model.state_dict().items()}


@contextmanager
def quick_products() -> Iterator[None]:
    """Multiply float32 matrices in TF32 on a GPU: precise enough for training, but not for parsing."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
