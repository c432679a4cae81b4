"""How fast training is, and how much memory it takes, beside RNGTr as one writes it first (see `straightforward`).

python -m benchmarks training_speed --device cuda                    base size, 60 words, at several batch sizes
python -m benchmarks training_speed --device cuda --profile          what one batch's updates spend their time on
python -m benchmarks training_speed --size tiny --sentences 8 --rows tried.jsonl       a rehearsal on a CPU

All learn with the same weights and the same optimiser, in turn. No time is told unless their losses are the same.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from benchmarks.rows import ROWS, save_row
from benchmarks.straightforward import Straightforward
from benchmarks.training_profile import profile
from benchmarks.training_setting import SIZES, random_graphs, random_model, random_sentences
from treefine.model.batch import PieceInputs
from treefine.parsing.initial import empty
from treefine.training.graphs import TrainingGraphs
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
from treefine.treebank.graph import Arcs

Precision = Literal["auto", "float32", "bfloat16"]
Learn = Callable[[], float]  # from one batch, all its steps; the loss of a word and step
OURS, REFERENCE, IN_FLOAT32 = "treefine", "straightforward", "straightforward in float32"
ONE_STEP, NO_GRAPH = "one step", "one step without a graph"
CLOSE = 1e-4  # of losses in float32


def measure_training_speed(arguments: Sequence[str]) -> None:
    """The command: learn in turn, round by round, and write a row for each batch size."""
    options = _options(arguments)
    device = torch.device(options.device)
    for n_sentences in options.sentences:
        setting = Setting(options.size, n_sentences, options.words, options.steps, device, options.precision)
        setting.check_losses()
        config = {
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "size": options.size,
            "sentences": n_sentences,
            "words": options.words,
            "pieces": setting.n_pieces,
            "steps": options.steps,
            "precision": str(setting.dtype).removeprefix("torch."),
            "compiled": options.compile,
            "rounds": options.rounds,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        if options.compile:
            for layer in setting.model.encoder.layers:
                layer.compile(dynamic=True)
        if options.profile:
            save_row("training_profile", config, profile(setting.contenders[OURS], device), path=options.rows)
        else:
            save_row("training_speed", config, measured(setting, options.rounds), path=options.rows)
        del setting
        gc.collect()


class Setting:
    """One model, one batch, and all that learns from it; they share the weights and the optimiser's state."""

    def __init__(
        self, size: str, n_sentences: int, n_words: int, n_steps: int, device: torch.device, precision: Precision
    ) -> None:
        self.device, self.n_sentences, self.n_steps = device, n_sentences, n_steps
        self.model = random_model(size).to(device)
        self.sentences = random_sentences(n_sentences, n_words, size)
        self.arcs = random_graphs(self.sentences)
        inputs = self.model.batch_of(self.sentences).inputs
        assert isinstance(inputs, PieceInputs)
        self.n_pieces = max(inputs.row_lengths)  # of the longest sentence
        self.optimiser = Optimiser(self.model, OptimiserSettings(rate=1e-5, encoder_rate=1e-5))
        learner, one_step = (self._learner(self.optimiser, steps, precision) for steps in (n_steps, 1))
        self.dtype = learner.dtype
        self.contenders: dict[str, Learn] = {
            OURS: self._by(learner, self.arcs),
            REFERENCE: self._by_reference(self.optimiser, self.dtype),
            ONE_STEP: self._by(one_step, self.arcs),
            NO_GRAPH: self._by(one_step, list(empty(self.sentences))),
        }
        if self.dtype != torch.float32:
            self.contenders[IN_FLOAT32] = self._by_reference(self.optimiser, torch.float32)

    def check_losses(self) -> None:
        """Leave if ours and the reference's differ, in float32 and without dropout; nothing is learned here."""
        frozen = Optimiser(self.model, OptimiserSettings(rate=0.0, encoder_rate=0.0))
        self.model.eval()
        ours = self._by(self._learner(frozen, self.n_steps, "float32"), self.arcs)()
        theirs = self._by_reference(frozen, torch.float32)()
        self.model.train()
        if not abs(ours - theirs) <= CLOSE * abs(theirs):
            sys.exit(f"the losses differ ({ours} and {theirs}): no time is printed")

    def _learner(self, optimiser: Optimiser, n_steps: int, precision: Precision) -> Learner:
        recipe = Recipe(
            TreebankSettings(("train.conllu",), "dev.conllu"),
            PretrainedSettings("encoder"),
            refine=RefineSettings(max_steps=n_steps, stop=False),
            training=TrainingSettings(precision=precision),
        )
        graphs = TrainingGraphs(self.sentences, None, recipe.initial)
        learner = Learner(self.model, recipe, self.sentences, graphs, Processes(self.device))
        learner.optimiser = optimiser
        return learner

    def _by(self, learner: Learner, arcs: Sequence[Arcs]) -> Learn:
        return lambda: learner.learn_from(range(self.n_sentences), arcs, 0.5)()

    def _by_reference(self, optimiser: Optimiser, dtype: torch.dtype) -> Learn:
        reference = Straightforward(self.model, optimiser, max_steps=self.n_steps, dtype=dtype)
        return lambda: reference.learn_from(self.sentences, self.arcs, 0.5)


def measured(setting: Setting, rounds: int) -> dict[str, float]:
    """Seconds a batch, sentences a second and memory of each, and how ours stands to the others."""
    with quick_products():  # as ours learns
        return _measured(setting, rounds)


def _measured(setting: Setting, rounds: int) -> dict[str, float]:
    device, contenders = setting.device, setting.contenders
    setting.model.train()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    result: dict[str, float] = {}
    for name, learn in contenders.items():
        learn()  # a warm-up
        result[f"{name}_kept_megabytes"] = round(kept_bytes(setting.optimiser, learn) / 1e6, 1)
        if device.type == "cuda":
            gc.collect()
            torch.cuda.reset_peak_memory_stats(device)
            learn()
            result[f"{name}_peak_megabytes"] = round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    for _ in range(rounds):
        for name, learn in contenders.items():
            times[name].append(_seconds(learn, device))
    for name, each in times.items():
        result[f"{name}_milliseconds"] = round(1000 * statistics.median(each), 2)
        result[f"{name}_sentences_per_second"] = round(setting.n_sentences / statistics.median(each), 1)
    pairs = ((REFERENCE, OURS), (IN_FLOAT32, OURS), (ONE_STEP, NO_GRAPH))
    for name, against in ((name, against) for name, against in pairs if name in times):
        ratios = [a / b for a, b in zip(times[name], times[against], strict=True)]
        result[f"{name}/{against}, time"] = round(statistics.median(ratios), 2)
        for memory in ("kept", "peak"):
            if f"{name}_{memory}_megabytes" in result:
                ratio = result[f"{name}_{memory}_megabytes"] / result[f"{against}_{memory}_megabytes"]
                result[f"{name}/{against}, {memory} memory"] = round(ratio, 2)
    return result


def kept_bytes(optimiser: Optimiser, learn: Learn) -> int:
    """The most that is kept for a backward pass, weights not counted; what is kept twice counts once."""
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


def _seconds(learn: Learn, device: torch.device) -> float:
    gc.collect()
    start = time.perf_counter()
    learn()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks training_speed", description="Time training.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--sentences", type=int, nargs="+", default=[8, 32, 128], help="in a batch (8 32 128)")
    parser.add_argument("--words", type=int, default=60, help="in a sentence (60)")
    parser.add_argument("--steps", type=int, default=3, help="of refinement, each with an update (3)")
    parser.add_argument("--precision", choices=get_args(Precision), default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="tell where the time of a batch goes instead")
    parser.add_argument("--compile", action="store_true", help="let torch.compile make our layers")
    parser.add_argument("--rows", type=Path, default=ROWS)
    return parser.parse_args(arguments)
