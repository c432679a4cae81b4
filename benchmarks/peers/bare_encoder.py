"""A bare transformer of a parser's size on its batches: the minimum cost of any parser with this encoder.

It has random weights. Words are tokenised and copied to the device before the clock starts; nothing is copied back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from benchmarks.peers.answers import ALL_PASSES, ONE_PASS, Built, Way, answer
from treefine import Parser, Sentence, read_treebank
from treefine.model.batch import PieceInputs
from treefine.parsing.batches import batches

Kind = Literal["sdpa", "transformers", "treefine"]
N_POSITIONS, EPS = 512, 1e-12  # of BERT
GPU_PIECES = 16_384  # in a batch, padding included


class PlainLayer(nn.Module):
    """A layer of BERT in plain PyTorch: one product for queries, keys and values, and the fused attention."""

    def __init__(self, width: int, n_attention_heads: int) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.attention_norm, self.outer_norm = nn.LayerNorm(width, EPS), nn.LayerNorm(width, EPS)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the output of the layer."""
        query, key, value = self.qkv(x).unflatten(-1, (3, self.n_attention_heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2)
        x = self.attention_norm(x + self.output(attended))
        output: Tensor = self.outer_norm(x + self.outer(F.gelu(self.inner(x))))
        return output


class PlainEncoder(nn.Module):
    """Embeddings and layers of BERT."""

    def __init__(self, n_pieces: int, layers: int, width: int) -> None:
        super().__init__()
        self.pieces, self.positions = nn.Embedding(n_pieces, width), nn.Embedding(N_POSITIONS, width)
        self.norm = nn.LayerNorm(width, EPS)
        self.layers = nn.ModuleList(PlainLayer(width, 12) for _ in range(layers))

    def forward(self, pieces: Tensor, is_piece: Tensor | None) -> Tensor:
        """Return the vectors of the last layer; without a mask there is no padding."""
        x = self.norm(self.pieces(pieces) + self.positions.weight[: pieces.shape[1]])
        mask = None if is_piece is None else is_piece[:, None, None]
        for layer in self.layers:
            x = layer(x, mask)
        encoded: Tensor = x
        return encoded


def build(
    source: str,
    model: str,
    device: str,
    kind: Kind,
    layers: int,
    width: int,
    dtype: str,
    passes: Sequence[int],
    batch_pieces: int | None = None,
    **_: Any,
) -> Built:
    """Build the encoder; `passes` holds how often refinement scores each sentence."""
    torch.manual_seed(1)
    is_own = kind == "treefine"
    parser = Parser.from_pretrained(model, device=device, precision=dtype if is_own else "float32")  # type: ignore[arg-type]
    plan, sentences = parser.plan(), list(read_treebank(source))
    sizes = [plan.size(each) for each in sentences]
    is_on_cpu = parser.device.type == "cpu"
    most = batch_pieces or (plan.shape.most_pieces if is_on_cpu else GPU_PIECES)
    runs = []
    for t in range(1, max(passes) + 1):
        kept = [number for number, count in enumerate(passes) if count >= t]
        cut = batches([sizes[number] for number in kept], most, N_POSITIONS)
        taken = ([sentences[kept[number]] for number in batch] for batch in cut)
        runs.append([_ready(parser, batch) for batch in taken])
    encoder, module = _encoder(kind, parser, layers, width, dtype)

    @torch.inference_mode()
    def encode(steps: Sequence[Sequence[Any]]) -> None:
        for inputs, mask in (each for step in steps for each in step):
            encoder(inputs, mask)
        if not is_on_cpu:
            torch.cuda.synchronize()

    ways = {
        ONE_PASS: Way(lambda: encode(runs[:1]), lambda _: ()),
        ALL_PASSES: Way(lambda: encode(runs), lambda _: ()),
    }
    return Built(ways, sum(each.numel() for each in module.parameters()))


def _ready(parser: Parser, sentences: Sequence[Sentence]) -> tuple[PieceInputs, Tensor | None]:
    """Return a batch on the device, and its mask if it has padding."""
    inputs = parser.model.batch_of(sentences).to(parser.device).inputs
    assert isinstance(inputs, PieceInputs)
    return inputs, None if bool(inputs.is_piece.all()) else inputs.is_piece


def _encoder(
    kind: Kind, parser: Parser, layers: int, width: int, dtype: str
) -> tuple[Callable[[PieceInputs, Tensor | None], Tensor], nn.Module]:
    if kind == "treefine":
        own = parser.running.encoder
        return (lambda inputs, _: own(inputs, None, None)), own
    assert parser.model.subwords is not None
    n_pieces = len(parser.model.subwords)
    module: nn.Module
    if kind == "transformers":
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=n_pieces,
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=12,
            intermediate_size=4 * width,
        )
        module = BertModel(config, add_pooling_layer=False)
    else:
        module = PlainEncoder(n_pieces, layers, width)
    module = module.eval().to(parser.device, getattr(torch, dtype))
    if kind == "transformers":
        return (lambda inputs, mask: module(inputs.pieces, attention_mask=mask).last_hidden_state), module
    return (lambda inputs, mask: module(inputs.pieces, mask)), module


if __name__ == "__main__":
    answer(build, ("torch", "transformers"))
