"""Measure the cost of reading a graph in the encoder: time and memory, forward and backward."""

from __future__ import annotations

import argparse
import copy
import gc
import sys
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.options import DEVICE, ROUNDS, ROWS_FILE, command, count, option
from benchmarks.rows import save_row, torch_fields
from benchmarks.timing import in_turn, median_ratio, seconds_on
from treefine.config import RelationSettings, TransformerSettings
from treefine.fast import view_of
from treefine.fast.buffers import Buffer, Standing
from treefine.fast.flat_encoder import FlatEncoder
from treefine.fast.packed import Packed
from treefine.fast.packed_encoder import PackedEncoder, Room
from treefine.fast.training_encoder import training_encoder
from treefine.model.batch import N_SPECIALS, Graphs, PieceInputs
from treefine.model.encoder import TransformerEncoder

SIZES = {"small": (12, 384, 12), "base": (12, 768, 12), "tiny": (2, 64, 2)}  # layers, width, attention heads
LENGTHS = (40, 90)  # pieces per row
LABELS, WORDS = 50, 1000
CLOSE = 1e-4  # tolerance for vectors in float32, whose numbers are about 1
BY_DEVICE = {"cuda": (8192, ("bfloat16", "float16")), "cpu": (1000, ("float32",))}


@command(
    DEVICE.but(default="cpu", help="cpu or cuda (default: cpu)"),
    option("--size", nargs="+", choices=list(SIZES), default=["small", "base"]),
    count("--pieces", None, "pieces per batch (default: 8192 on a GPU, 1000 on a CPU)"),
    ROUNDS.but(default=15),
    ROWS_FILE,
)
def measure_encoder(options: argparse.Namespace) -> None:
    """Compare an encoder with a graph and without one; write a row for each size, length and precision.

    python -m benchmarks encoder --device cuda                           8,192 pieces, bfloat16 and float16
    python -m benchmarks encoder                                         1,000 pieces on a CPU, float32
    python -m benchmarks encoder --size tiny --pieces 200 --rounds 2 --rows tried.jsonl       # a trial run

    Both take turns. No time is reported if the fast path differs from the reference encoder.
    """
    device = torch.device(options.device)
    n_pieces, precisions = BY_DEVICE[device.type]
    for size in options.size:
        for length in LENGTHS:
            setting = Setting(size, length, options.pieces or n_pieces, device)
            for precision in precisions:
                dtype = getattr(torch, precision)
                setting.check(dtype)
                config = torch_fields(device.type) | {
                    "size": size,
                    "pieces_in_row": length,
                    "rows": setting.inputs.n_rows,
                    "precision": precision,
                    "rounds": options.rounds,
                }
                save_row("encoder", config, setting.measured(dtype, options.rounds), path=options.rows)


class Setting:
    """An encoder with random weights, and rows of one length with random graphs."""

    def __init__(self, size: str, length: int, n_pieces: int, device: torch.device) -> None:
        n_layers, width, n_attention_heads = SIZES[size]
        shape = TransformerSettings("bert", WORDS, 512, n_layers, width, n_attention_heads, 4 * width, width)
        torch.manual_seed(1)
        self.device = device
        plain = TransformerEncoder(shape, RelationSettings(), n_labels=LABELS).to(device).train()
        self.encoder = training_encoder(plain)
        self.parsing = {torch.float32: copy.deepcopy(plain).eval()}  # by precision
        n_rows = max(1, n_pieces // length)
        words = [[5 + place % 100] * (2 if place % 4 == 0 else 1) for place in range(length)]
        while sum(map(len, words)) > length - N_SPECIALS:
            words.pop()
        words += [[7]] * (length - N_SPECIALS - sum(map(len, words)))
        inputs = PieceInputs.of([words] * n_rows, cls_id=1, sep_id=2, pad_id=0, n_positions=512)
        heads = torch.randint(0, len(words) + 1, (n_rows, len(words) + 1))
        labels = torch.randint(0, LABELS, heads.shape)
        heads[:, 0] = -1
        self.inputs, self.graphs = inputs.to(device), Graphs(heads, labels, True).to(device)

    def check(self, dtype: torch.dtype) -> None:
        """Exit with an error if the fast path differs from the reference encoder."""
        plain = self._vectors(torch.float32, is_plain=True)
        if _difference(self._vectors(torch.float32), plain) > CLOSE:
            sys.exit("the fast path differs from the reference encoder in float32: no time is printed")
        rounding = _difference(self._vectors(dtype, is_plain=True), plain)
        if _difference(self._vectors(dtype), plain) > 2 * rounding + CLOSE:
            sys.exit(f"the fast path differs from the reference encoder in {dtype}: no time is printed")
        if _difference(self._run(None, torch.float32), plain) < 100 * CLOSE:
            sys.exit("the graph makes no difference: no time is printed")

    def measured(self, dtype: torch.dtype, rounds: int) -> dict[str, float]:
        """Return milliseconds, and the ratios of the encoder with a graph to the one without."""
        result = self._ratios("forward", partial(self._run, dtype=dtype), rounds)
        if self.device.type == "cuda":  # only the kernels, without the time to start each of them
            without, with_graph, packed = (
                _captured(work)
                for work in (
                    partial(self._run, None, dtype),
                    partial(self._run, self.graphs, dtype),
                    self._packed(dtype),
                )
            )
            result |= self._ratios("replayed", lambda graphs: (without if graphs is None else with_graph)(), rounds)
            result |= self._ratios("engine", lambda graphs: (without if graphs is None else packed)(), rounds)
        result |= self._ratios("forward and backward", partial(self._learn, dtype=dtype), rounds)
        kept = [self._kept_bytes(each, dtype) for each in (self.graphs, None)]
        result["kept_megabytes, without graph"] = round(kept[1] / 1e6, 1)
        result["kept for backward, ratio"] = round(kept[0] / kept[1], 3)
        if self.device.type == "cuda":
            peaks = [self._peak(each, dtype) for each in (self.graphs, None)]
            result["peak_megabytes, without graph"] = round(peaks[1] / 1e6, 1)
            result["peak of forward and backward, ratio"] = round(peaks[0] / peaks[1], 3)
        return result

    def _packed(self, dtype: torch.dtype) -> Callable[[], Tensor]:
        """Return a function that encodes the same rows and graphs as the engine does; vectors do not include ROOT."""
        encoder = PackedEncoder(self.parsing[torch.float32], dtype)
        n_rows, n_pieces = self.inputs.pieces.shape
        is_word = self.inputs.words > 0
        counts = self.inputs.is_first[:, 2:].int().sum(1)
        room = Room(n_rows * n_pieces, n_rows, n_pieces)
        words_of = [torch.bincount(words[words > 0])[1:] for words in self.inputs.words.cpu()]
        heads, labels = (each[:, 1:].flatten().int().cpu().numpy() for each in (self.graphs.heads, self.graphs.labels))
        pieces = self.inputs.pieces[is_word].int().cpu().numpy()
        packed = Packed(pieces, torch.cat(words_of).int().numpy(), counts.int().cpu().numpy(), heads, labels)
        standing, buffer = Standing((1, 0, 2), 0), Buffer(room, 0, 1, self.device)
        buffer.fill(standing, standing.add(packed, n_pieces), last=1)
        buffer.on_device.copy_(buffer.sent)
        inputs = buffer.inputs().packed

        @torch.no_grad()
        def run() -> Tensor:
            vectors: Tensor = encoder.of_buffer(inputs, room)
            return vectors

        ours = run()[: n_rows * (self.graphs.heads.shape[1])].view(n_rows, -1, self.encoder.width)
        rounding = _difference(self._vectors(dtype, is_plain=True), self._vectors(torch.float32, is_plain=True))
        if _difference(ours, self._vectors(torch.float32, is_plain=True)) > 2 * rounding + CLOSE:
            sys.exit(f"the engine differs from the reference encoder in {dtype}: no time is printed")
        return run

    def _ratios(self, name: str, run: Callable[[Graphs | None], object], rounds: int) -> dict[str, float]:
        with_graph, without = partial(run, self.graphs), partial(run, None)
        for work in (with_graph, without, with_graph, without):  # a warm-up: compile and allocate memory
            work()
        times = in_turn({"with": with_graph, "without": without}, rounds, clock=self._seconds)
        best = {kind: min(each) for kind, each in times.items()}
        return {
            f"{name}_milliseconds, without graph": round(1000 * best["without"], 3),
            f"{name}, best ratio": round(best["with"] / best["without"], 3),
            f"{name}, median ratio": round(median_ratio(times, "with", "without"), 3),
        }

    def _seconds(self, work: Callable[[], object]) -> float:
        repeats = 10 if self.device.type == "cuda" else 1  # the GPU is idle when the clock starts and stops

        def repeated() -> None:
            for _ in range(repeats):
                work()

        return seconds_on(self.device.type)(repeated) / repeats

    def _run(self, graphs: Graphs | None, dtype: torch.dtype, *, is_plain: bool = False) -> Tensor:
        """Return the vectors of the words in this precision, by the reference encoder if `is_plain`."""
        if dtype not in self.parsing:
            self.parsing[dtype] = copy.deepcopy(self.parsing[torch.float32]).to(dtype)
        encoder = self.parsing[dtype]
        if not is_plain and self.device.type == "cuda":
            encoder = training_encoder(encoder)
        elif not is_plain and dtype == torch.float32:
            encoder = view_of(encoder, FlatEncoder)
        with torch.no_grad():
            vectors: Tensor = encoder(self.inputs, None, graphs)
        return vectors

    def _learn(self, graphs: Graphs | None, dtype: torch.dtype) -> None:
        """Run a forward and a backward pass as in training: weights in float32, products in this precision."""
        self.encoder.zero_grad()
        with torch.autocast(self.device.type, dtype=dtype, enabled=dtype != torch.float32):
            vectors = self.encoder(self.inputs, None, graphs)
        vectors.float().sum().backward()

    def _kept_bytes(self, graphs: Graphs | None, dtype: torch.dtype) -> int:
        """Return the bytes that a forward pass keeps for the backward pass, without weights."""
        kept: list[Tensor] = []

        def note(tensor: Tensor) -> Tensor:
            kept.append(tensor)
            return tensor

        with (
            torch.autograd.graph.saved_tensors_hooks(note, lambda each: each),
            torch.autocast(self.device.type, dtype=dtype, enabled=dtype != torch.float32),
        ):
            vectors = self.encoder(self.inputs, None, graphs)
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in (*kept, vectors)}
        weights = {each.untyped_storage().data_ptr() for each in self.encoder.parameters()}
        return sum(size for address, size in storages.items() if address not in weights)

    def _peak(self, graphs: Graphs | None, dtype: torch.dtype) -> int:
        self.encoder.zero_grad()
        gc.collect()
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        self._learn(graphs, dtype)
        return torch.cuda.max_memory_allocated(self.device) - before

    def _vectors(self, dtype: torch.dtype, *, is_plain: bool = False) -> Tensor:
        return self._run(self.graphs, dtype, is_plain=is_plain)


def _captured(work: Callable[[], Tensor]) -> Callable[[], None]:
    """Return the work as the replay of a CUDA graph."""
    other = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(other):
        work()
        work()
    torch.cuda.current_stream().wait_stream(other)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one.float() - other.float()).abs().max())
