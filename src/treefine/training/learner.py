"""One training: batches, the refinement loop with an update at each step, losses and masking (Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine import fast
from treefine.config import TransformerSettings
from treefine.errors import TreefineError
from treefine.model.batch import Arriving, Batch, Graphs, WordInputs, sent
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import Scores
from treefine.model.vocabulary import NO_HEAD, UNSEEN
from treefine.parsing.batches import batches, halving
from treefine.parsing.decode import Decoder, made_trees
from treefine.parsing.plan import is_out_of_memory
from treefine.parsing.refine import BatchStep, Tags, refine
from treefine.training.dev_scores import Accuracy, Measure
from treefine.training.graphs import TrainingGraphs
from treefine.training.optimiser import Optimiser
from treefine.training.processes import Processes
from treefine.training.recipe import Recipe
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

_UNKNOWN_WORD = 1  # as in `Vocabulary.word_ids`


def with_hidden(batch: Batch, share: float, hidden_piece: int) -> Batch:
    """The batch with about this share of its pieces replaced by one that says nothing; ROOT, CLS and SEP stay.

    A BiLSTM's words become unknown ones, and keep their characters.
    """
    if not share:
        return batch
    inputs = batch.inputs
    if isinstance(inputs, WordInputs):
        is_hidden = (torch.rand(inputs.words.shape, device=inputs.words.device) < share) & (inputs.words > 0)
        return replace(batch, inputs=replace(inputs, words=inputs.words.masked_fill(is_hidden, _UNKNOWN_WORD)))
    is_hidden = (torch.rand(inputs.pieces.shape, device=inputs.pieces.device) < share) & (inputs.words > 0)
    return replace(batch, inputs=replace(inputs, pieces=inputs.pieces.masked_fill(is_hidden, hidden_piece)))


@dataclass(frozen=True)
class Gold:
    """What is right for a batch."""

    graphs: Graphs
    tags: Int[Tensor, "batch word column"] | None  # counted from 1; only where tags are learned

    def select(self, sentences: tuple[int, ...], n_words: int) -> Gold:
        """That of some sentences, cut to `n_words`."""
        if len(sentences) == len(self.graphs.heads):
            return self
        rows = sent(sentences, self.graphs.heads.device)
        tags = None if self.tags is None else self.tags[rows, :n_words]
        return Gold(self.graphs.select(rows, n_words), tags)


def step_loss(step: BatchStep, gold: Gold) -> Float[Tensor, ""]:
    """The loss of one step, summed over the words that still move: heads, labels of the right heads, and tags.

    Tags are learned at the first step alone, whose tags are the ones that count: later steps read them.
    """
    right = gold.select(step.sentences, step.batch.n_words)
    heads, labels = right.graphs.heads, right.graphs.labels
    loss = _summed(step.scores.arcs, heads, NO_HEAD) + _summed(step.scores.labels(heads), labels, UNSEEN)
    if right.tags is not None and step.t == 1:
        for column, scores in enumerate(step.scores.tags):
            loss = loss + _summed(scores, right.tags[..., column] - 1, UNSEEN)
    return loss


def _summed(scores: Float[Tensor, "batch word choice"], right: Int[Tensor, "batch word"], ignored: int) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), right.flatten(), ignore_index=ignored, reduction="sum")


CPU = torch.device("cpu")


class Learner:
    """A model that is being trained. All that is random in an epoch follows from the seed and the epoch's number."""

    def __init__(
        self,
        model: ParserModel,
        recipe: Recipe,
        train: Sequence[Sentence],
        graphs: TrainingGraphs,
        processes: Processes,
        *,
        member: int = 0,
    ) -> None:
        self.model = model.to(processes.device)
        self.scoring_model = fast.training_model(self.model)  # the same weights
        self.recipe, self.train, self.graphs, self.processes = recipe, train, graphs, processes
        self.seeds = [recipe.training.seed, *([member] if member else [])]
        self.decoder = Decoder.of(model)
        self.optimiser = Optimiser(model, recipe.optimiser)
        self.n_moving = np.zeros(recipe.refine.max_steps)  # words that each step of the last epoch learned from
        self.sizes = [model.n_pieces(sentence) for sentence in train]
        encoder = model.settings.encoder
        self.longest = encoder.n_positions if isinstance(encoder, TransformerSettings) else max(self.sizes)
        subwords = model.subwords
        self.hidden_piece = 0 if subwords is None else subwords.unk_id if subwords.mask_id is None else subwords.mask_id
        precision = recipe.training.precision
        is_bfloat16 = precision == "bfloat16" or (precision == "auto" and processes.device.type == "cuda")
        self.dtype = torch.bfloat16 if is_bfloat16 else torch.float32

    def epoch(self, number: int) -> Iterator[tuple[float, float]]:
        """Learn from all sentences once; yield the share of the epoch that is done and the loss, batch by batch.

        `number` counts from 1.
        """
        settings = self.recipe.training
        rng = np.random.default_rng([*self.seeds, number])
        torch.manual_seed(int(rng.integers(2**62)) + self.processes.rank)
        drawn = self.graphs.draw(rng)
        order = rng.permutation(len(self.train)).tolist()
        found = batches([self.sizes[each] for each in order], settings.batch_pieces, self.longest)
        self.model.train()
        self.n_moving[:] = 0
        waiting: list[tuple[float, Callable[[], float]]] = []  # a loss is read when the next batch has been started
        for done, chosen in enumerate(rng.permutation(len(found)).tolist()):
            numbers = [order[each] for each in found[chosen]]
            progress = (number - 1 + done / len(found)) / settings.epochs
            try:
                with quick_products():
                    loss = self.learn_from(numbers, drawn, progress)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                hint = "Set a smaller training.batch_pieces."
                raise TreefineError("Memory does not suffice for a batch.", hint=hint) from error
            if waiting:
                share, read = waiting.pop()
                yield share, read()
            waiting.append(((done + 1) / len(found), loss))
        for share, read in waiting:
            yield share, read()

    def learn_from(self, numbers: Sequence[int], drawn: Sequence[Arcs], progress: float) -> Callable[[], float]:
        """Refine one batch, learning at each step or from all of them; the loss of a word and step, to be asked for."""
        settings, optimiser = self.recipe.refine, self.optimiser
        ours = self.processes.share(numbers)
        sentences = [self.train[number] for number in ours]
        steps: Iterator[BatchStep] = iter(())
        if sentences:
            gold, tags = self._gold(sentences), self.tags_of(sentences)
            if tags is not None and gold.tags is not None:  # what is given is not to be learned
                gold = replace(gold, tags=gold.tags * (tags == 0))
            graphs = [drawn[number] for number in ours]
            steps = self.steps(sentences, graphs, tags, stops=settings.stop, hidden=self.recipe.training.hidden)
        n_all = sum(len(self.train[number]) for number in numbers)
        summed, n_words = torch.zeros((), device=self.processes.device), 0.0
        for t in range(settings.max_steps):
            step = next(steps, None)
            n_moving = self.processes.total(0 if step is None else sum(step.batch.lengths))
            if n_moving == 0:
                break
            if step is not None:
                loss = step_loss(step, gold)
                torch.autograd.backward(loss / (n_moving if settings.update == "each" else n_all))
                summed += loss.detach()
            n_words += n_moving
            self.n_moving[t] += n_moving
            if settings.update == "each":
                self.processes.sum_gradients(optimiser.parameters)
                optimiser.update(progress)
        if settings.update == "sum":
            self.processes.sum_gradients(optimiser.parameters)
            optimiser.update(progress)
        arriving = Arriving(summed)
        return lambda: self.processes.total(float(arriving.read())) / max(1, n_words)

    def steps(
        self,
        sentences: Sequence[Sentence],
        arcs: Sequence[Arcs],
        tags: Tags | None,
        *,
        stops: bool = True,
        hidden: float = 0.0,
    ) -> Iterator[BatchStep]:
        """The refinement of one batch, in training or not as the model is; `hidden` is a share of its pieces."""
        model, device = self.model, self.processes.device
        batch = with_hidden(model.batch_of(sentences).to(device), hidden, self.hidden_piece)
        has_any = any(head is not None for each in arcs for head in each.heads)
        initial = replace(Graphs.of(arcs, model.vocabulary), has_any=has_any)
        first_trees = made_trees(model, initial)

        def score(batch: Batch, graphs: Graphs, tags: Tags | None, t: int) -> Scores:
            with self._autocast():
                scores: Scores = self.scoring_model(batch, graphs, tags)
            return scores

        @torch.no_grad()  # a graph is a choice: nothing is learned through it
        def decode(scores: Scores, batch: Batch, t: int) -> Graphs:
            return self.decoder.graphs(scores, batch.is_word, as_trees=first_trees if t == 1 else ())

        return refine(
            score,
            batch,
            initial.to(device),
            max_steps=self.recipe.refine.max_steps,
            decode=decode,
            tags=tags,
            predict_tags=model.tagger is not None,
            stops=stops,
        )

    def tags_of(self, sentences: Sequence[Sentence]) -> Tags | None:
        """The tags to read. In training, a model that predicts them has some given, so that it learns to read both."""
        source = self.model.settings.tags.source
        share = self.recipe.training.given_tags if source == "predicted" and self.model.training else 0.0
        if source == "none" or (source == "predicted" and not share):
            return None
        tags = sent(self.model.given_tags(sentences), self.processes.device)
        if source == "predicted":
            tags = tags * self._is_given(len(tags), tags.size(-1), share)
        return tags

    def _is_given(self, n_sentences: int, n_columns: int, share: float) -> Bool[Tensor, "batch 1 column"]:
        """Which sentences have tags given: half of them have all columns, the others one."""
        drawn = torch.rand((2, n_sentences, 1, 1), device=self.processes.device)
        only = torch.randint(n_columns, (n_sentences, 1, 1), device=drawn.device)
        is_only = torch.arange(n_columns, device=drawn.device) == only  # [batch, 1, column]
        return (drawn[0] < share) & ((drawn[1] < 0.5) | is_only)

    def _gold(self, sentences: Sequence[Sentence]) -> Gold:
        device = self.processes.device
        graphs = Graphs.of([sentence.arcs for sentence in sentences], self.model.vocabulary).to(device)
        return Gold(graphs, None if self.model.tagger is None else sent(self.model.given_tags(sentences), device))

    def _autocast(self) -> AbstractContextManager[None]:
        """The precision of the recipe in training; dev is measured in the model's own, by which it will parse."""
        is_shorter = self.model.training and self.dtype != torch.float32
        return torch.autocast(self.processes.device.type, dtype=self.dtype, enabled=is_shorter)

    def moving(self) -> list[float]:
        """The shares of the words that still moved at each step of the last epoch."""
        shares: list[float] = (self.n_moving / max(1, self.n_moving[0])).tolist()
        return shares

    @torch.no_grad()
    def measure(self, sentences: Sequence[Sentence], arcs: Sequence[Arcs], measure: Measure) -> Accuracy:
        """The accuracy of the averaged weights, if there are any, step by step."""
        self.model.eval()
        sizes = [self.model.n_pieces(sentence) for sentence in sentences]
        max_steps = self.recipe.refine.max_steps

        def right_words(numbers: Sequence[int]) -> list[np.ndarray]:
            found = np.zeros((len(numbers), max_steps + 2), dtype=np.int64)  # LAS by step, then the tree's UAS and LAS
            chosen = [sentences[each] for each in numbers]
            for step in self.steps(chosen, [arcs[each] for each in numbers], self.tags_of(chosen)):
                is_last = step.t == max_steps
                ending = {row for row, done in enumerate(step.converged.tolist()) if done or is_last}
                trees = self.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)
                graphs, trees = step.graphs.to(CPU), trees.to(CPU)
                for row, (place, length) in enumerate(zip(step.sentences, step.batch.lengths, strict=True)):
                    number = numbers[place]
                    found[place, step.t - 1 : max_steps] = measure.right(number, *graphs.words(row, length))[1]
                    if row in ending:
                        found[place, max_steps:] = measure.right(number, *trees.words(row, length))
            return list(found)

        def too_long(number: int) -> TreefineError:
            return sentences[number].error("Memory does not suffice for this sentence.", hint="Leave it out.")

        with self.optimiser.averaged():
            total = np.zeros(max_steps + 2, dtype=np.int64)
            for numbers in batches(sizes, 4 * self.recipe.training.batch_pieces, self.longest):
                total += np.sum(halving(numbers, right_words, too_long), axis=0)
        *by_step, uas, las = (total / measure.total).tolist()
        return Accuracy(tuple(by_step), uas, las)

    def measured_weights(self) -> dict[str, Tensor]:
        """A copy of the weights as they are measured."""
        with self.optimiser.averaged():
            return {name: each.detach().cpu().clone() for name, each in self.model.state_dict().items()}


@contextmanager
def quick_products() -> Iterator[None]:
    """Let a GPU round to ten bits where it multiplies float32 matrices: enough to learn, too little to parse."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
