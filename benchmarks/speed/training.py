"""Measure time and memory of training, and what reading a graph costs."""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor

from benchmarks.options import DEVICE, ROUNDS, ROWS_FILE, command, count, option
from benchmarks.rows import save_row, torch_fields
from benchmarks.timing import in_turn, median_ratio, seconds_on
from treefine.config import (
    DecodeSettings,
    ModelSettings,
    RelationSettings,
    ScorerSettings,
    TagSettings,
    TransformerSettings,
)
from treefine.model.batch import PieceInputs
from treefine.model.parser_model import ParserModel
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.parsing.initial import empty
from treefine.training.learner import Learner, quick_products
from treefine.training.optimiser import Optimiser
from treefine.training.processes import Processes
from treefine.training.recipe import (
    OptimiserSettings,
    PretrainedSettings,
    Recipe,
    RefineSettings,
    TrainingSettings,
    TreebankSettings,
)
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import Sentence

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LABELS = ("root", *(f"label{number}" for number in range(1, 50)))  # en_ewt has 50
TAGS = tuple(f"TAG{number}" for number in range(17))
LONG_WORDS = 0.3  # share of the words with two pieces; the others have one
WRONG_HEADS = 0.2  # in the initial graphs; about the errors of a fair parser
SIZES = {  # layers, width, attention heads, size of the vocabulary
    "base": (12, 768, 12, 30_000),
    "small": (12, 384, 12, 30_000),
    "tiny": (2, 64, 2, 300),
}


def random_model(size: str, *, seed: int = 1) -> ParserModel:
    """Return an untrained RNGTr model with an encoder of this size, for random sentences."""
    n_layers, width, n_attention_heads, n_pieces = SIZES[size]
    pieces = [*SPECIALS, "##x", *(f"s{number}" for number in range(n_pieces - len(SPECIALS) - 1))]
    tokenizer = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIALS))
    settings = ModelSettings(
        TransformerSettings(
            family="bert",
            n_pieces=n_pieces,
            n_positions=512,
            n_layers=n_layers,
            width=width,
            n_attention_heads=n_attention_heads,
            inner_width=4 * width,
            embedding_width=width,
        ),
        RelationSettings(),
        TagSettings(),
        ScorerSettings(),
        DecodeSettings("root"),
    )
    torch.manual_seed(seed)
    return ParserModel(settings, Vocabulary(labels=LABELS, upos=TAGS), Subwords(tokenizer))


def random_sentences(number: int, n_words: int, size: str, *, seed: int = 1) -> list[Sentence]:
    """Return sentences of this many words, with random trees, labels and tags."""
    rng = np.random.default_rng(seed)
    stems = rng.integers(SIZES[size][3] - len(SPECIALS) - 1, size=(number, n_words)).tolist()
    is_long = (rng.random((number, n_words)) < LONG_WORDS).tolist()
    found = []
    for row in range(number):
        forms = [f"s{stem}{'x' * long}" for stem, long in zip(stems[row], is_long[row], strict=True)]
        heads = [0, *(int(rng.integers(1, word)) for word in range(2, n_words + 1))]  # a tree: heads come first
        labels = ["root", *(str(each) for each in rng.choice(LABELS[1:], n_words - 1))]
        sentence = Sentence.of_words(forms, upos=[str(each) for each in rng.choice(TAGS, n_words)])
        found.append(replace(sentence.with_graph(Graph.of_words(heads, labels)), number=row + 1))
    return found


def random_graphs(sentences: list[Sentence], *, seed: int = 1) -> list[Arcs]:
    """Return the trees of the sentences with errors, like those of an initial parser."""
    rng, labels = np.random.default_rng(seed), np.array(LABELS)
    arcs = []
    for each in sentences:
        is_wrong = (rng.random(len(each)) < WRONG_HEADS).tolist()
        heads = [0 if wrong else head for head, wrong in zip(each.heads, is_wrong, strict=True)]
        names = [str(rng.choice(labels)) if wrong else name for name, wrong in zip(each.labels, is_wrong, strict=True)]
        arcs.append(Arcs(tuple(heads), tuple(names)))
    return arcs


Precision = Literal["auto", "float32", "bfloat16"]
Learn = Callable[[], float]  # learn from one batch, all steps; return the loss per word and step
ALL_STEPS, ONE_STEP, NO_GRAPH = "treefine", "one step", "one step without a graph"


@command(
    DEVICE.but(default="cpu", help="cpu or cuda (default: cpu)"),
    option("--size", choices=SIZES, default="base"),
    option("--sentences", type=int, nargs="+", default=[8, 32, 128], help="batch sizes (default: 8 32 128)"),
    count("--words", 60, "words per sentence"),
    count("--steps", 3, "refinement steps, each with an update"),
    option("--precision", choices=get_args(Precision), default="auto"),
    ROUNDS.but(default=5),
    ROWS_FILE,
)
def measure_training_speed(options: argparse.Namespace) -> None:
    """Measure training, with all steps and with one, with and without a graph; write a row for each batch size.

    python -m benchmarks training_speed --device cuda                    # base size, 60 words, several batch sizes
    python -m benchmarks training_speed --size tiny --sentences 8 --rows tried.jsonl       # a trial run on a CPU

    All use the same weights and optimiser and take turns.
    """
    device = torch.device(options.device)
    for n_sentences in options.sentences:
        setting = Setting(options.size, n_sentences, options.words, options.steps, device, options.precision)
        config = torch_fields(device.type) | {
            "size": options.size,
            "sentences": n_sentences,
            "words": options.words,
            "pieces": setting.n_pieces,
            "steps": options.steps,
            "precision": str(setting.dtype).removeprefix("torch."),
            "rounds": options.rounds,
        }
        save_row("training_speed", config, measured(setting, options.rounds), path=options.rows)
        del setting
        gc.collect()


class Setting:
    """One model, one batch, and everything that learns from it with the same weights and optimiser state."""

    def __init__(
        self, size: str, n_sentences: int, n_words: int, n_steps: int, device: torch.device, precision: Precision
    ) -> None:
        self.device, self.n_sentences, self.n_steps = device, n_sentences, n_steps
        self.model = random_model(size).to(device)
        self.sentences = random_sentences(n_sentences, n_words, size)
        self.arcs = random_graphs(self.sentences)
        inputs = self.model.batch_of(self.sentences).inputs
        assert isinstance(inputs, PieceInputs)
        self.n_pieces = max(inputs.row_sizes)  # in the longest sentence
        self.optimiser = Optimiser(self.model, OptimiserSettings(learning_rate=1e-5, encoder_learning_rate=1e-5))
        learner, one_step = (self._learner(self.optimiser, steps, precision) for steps in (n_steps, 1))
        self.dtype = learner.dtype
        self.contenders: dict[str, Learn] = {
            ALL_STEPS: self._by(learner, self.arcs),
            ONE_STEP: self._by(one_step, self.arcs),
            NO_GRAPH: self._by(one_step, list(empty(self.sentences))),
        }

    def _learner(self, optimiser: Optimiser, n_steps: int, precision: Precision) -> Learner:
        recipe = Recipe(
            TreebankSettings(("train.conllu",), ("dev.conllu",)),
            PretrainedSettings("encoder"),
            refine=RefineSettings(max_steps=n_steps, stop=False),
            training=TrainingSettings(precision=precision),
        )
        graphs = list(empty(self.sentences))
        learner = Learner(self.model, recipe, self.sentences, graphs, Processes(self.device))
        learner.optimiser = optimiser
        return learner

    def _by(self, learner: Learner, arcs: Sequence[Arcs]) -> Learn:
        return lambda: learner.learn_from(range(self.n_sentences), arcs, 0.5)()


def measured(setting: Setting, rounds: int) -> dict[str, float]:
    """Return time per batch, sentences per second and memory of each, and what a graph costs."""
    with quick_products():  # as in treefine's training
        return _measured(setting, rounds)


def _measured(setting: Setting, rounds: int) -> dict[str, float]:
    device, contenders = setting.device, setting.contenders
    setting.model.train()
    result: dict[str, float] = {}
    for name, learn in contenders.items():
        learn()  # a warm-up
        result[f"{name}_kept_megabytes"] = round(kept_bytes(setting.optimiser, learn) / 1e6, 1)
        if device.type == "cuda":
            gc.collect()
            torch.cuda.reset_peak_memory_stats(device)
            learn()
            result[f"{name}_peak_megabytes"] = round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    times = in_turn(contenders, rounds, clock=seconds_on(device.type))
    for name, each in times.items():
        result[f"{name}_milliseconds"] = round(1000 * statistics.median(each), 2)
        result[f"{name}_sentences_per_second"] = round(setting.n_sentences / statistics.median(each), 1)
    result[f"{ONE_STEP}/{NO_GRAPH}, time"] = round(median_ratio(times, ONE_STEP, NO_GRAPH), 2)
    for memory in ("kept", "peak"):
        if f"{ONE_STEP}_{memory}_megabytes" in result:
            ratio = result[f"{ONE_STEP}_{memory}_megabytes"] / result[f"{NO_GRAPH}_{memory}_megabytes"]
            result[f"{ONE_STEP}/{NO_GRAPH}, {memory} memory"] = round(ratio, 2)
    return result


def kept_bytes(optimiser: Optimiser, learn: Learn) -> int:
    """Return the peak of bytes kept for a backward pass, without weights; shared storage counts once."""
    weights = {weight.untyped_storage().data_ptr() for weight in optimiser.parameters}
    kept: dict[int, int] = {}
    peaks = [0]

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = 0 if storage.data_ptr() in weights else storage.nbytes()
        return tensor

    def end_step(*_: Any) -> None:
        peaks.append(sum(kept.values()))
        kept.clear()

    handle = optimiser.adam.register_step_post_hook(end_step)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        learn()
    handle.remove()
    return max(peaks)
