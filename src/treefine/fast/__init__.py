"""The same results, faster: choose how to encode, parse and train on each device.

`parsing` and `training` call these functions and import no other module of `fast`. Each function imports only what it
needs: a process without a GPU does not load Triton, and a process that only reads and writes files does not load torch.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from treefine.errors import TreefineError
from treefine.treebank.conllu import format_of, read_treebank, write_treebank
from treefine.treebank.files import Source, name_of, open_input, open_output

if TYPE_CHECKING:
    import os

    import torch
    from torch import nn

    from treefine.config import Precision
    from treefine.fast.engine import Engine
    from treefine.model.parser_model import ParserModel
    from treefine.parsing.parser import Parser
    from treefine.parsing.plan import Plan

    _Path = str | os.PathLike[str]

View = TypeVar("View", bound="nn.Module")

_CPU_PIECES = 1000  # in a batch of a transformer on a CPU; a larger batch does not fit into the cache
_CPU_PADDING = 4  # times as many with padding; a CPU pads only word scores, which must still fit into memory
_CHUNK_BATCHES = 16  # more would hardly save padding
_CPU_WEIGHTS = 128_000_000  # the same for a transformer on a CPU: its weights, times the batches in a chunk
_PADDED_TO = 4  # row lengths are multiples of this, so that more sentences have equal length and attend together


class BatchShape(NamedTuple):
    """The maximum size of a batch on a device, and how its rows are padded."""

    most_pieces: int  # in a batch
    with_padding: int | None  # the limit with padding, if `most_pieces` does not count padding; else None
    padded_to: int  # row lengths are multiples of this
    chunk_batches: int  # whose sentences are sorted by length, and whose results come together


def batch_shape(model: ParserModel, device: torch.device, batch_pieces: int) -> BatchShape:
    """Choose the shape of batches: `batch_pieces` pieces, or fewer if that is faster."""
    if device.type != "cpu":
        return BatchShape(batch_pieces, None, 1, _CHUNK_BATCHES)
    most, shape = min(batch_pieces, _CPU_PIECES), model.settings.encoder
    n_weights = shape.n_layers * shape.width * (4 * shape.width + 2 * shape.inner_width)
    n_batches = min(max(_CPU_WEIGHTS // n_weights, 2), _CHUNK_BATCHES)
    return BatchShape(most, _CPU_PADDING * most, _PADDED_TO, n_batches)


def parsing_model(model: ParserModel, device: torch.device, precision: Precision) -> ParserModel:
    """Return the model with the fastest encoder for parsing on this device in this precision."""
    from treefine.model.encoder import TransformerEncoder
    from treefine.model.parser_model import ParserModel

    if not isinstance(model.encoder, TransformerEncoder):
        return model
    if device.type == "cpu":
        from treefine.fast.cpu_encoder import FlatEncoder, int8_encoder, int8_linears

        if precision != "int8":
            return view_of(model, ParserModel, encoder=view_of(model.encoder, FlatEncoder))
        names = ("scorer", "draft_scorers", "tagger", "draft_taggers")
        scorers = {name: int8_linears(part) for name, part in model.named_children() if name in names}
        return view_of(model, ParserModel, encoder=int8_encoder(model.encoder), **scorers)
    if device.type != "cuda" or not has_kernels(device):
        return model
    import torch

    from treefine.fast.packed_encoder import PackedEncoder

    return view_of(model, ParserModel, encoder=PackedEncoder(model.encoder, getattr(torch, precision)))


def training_model(model: ParserModel) -> ParserModel:
    """Return the model with an encoder that trains with less memory, and faster on a GPU. It shares the weights."""
    from treefine.fast.training_encoder import training_encoder
    from treefine.model.encoder import TransformerEncoder
    from treefine.model.parser_model import ParserModel

    if not isinstance(model.encoder, TransformerEncoder):
        return model
    return view_of(model, ParserModel, encoder=training_encoder(model.encoder))


def engine_of(plan: Plan) -> Engine | None:
    """Return the engine that parses on a GPU; None if it cannot run this model."""
    from treefine.fast.engine import Engine, can_run

    return Engine(plan) if can_run(plan) else None


def has_kernels(device: torch.device) -> bool:
    """Return whether the Triton kernels run on a GPU. Without them, a parser runs the reference encoder in float32."""
    from treefine.fast.fused_attention import is_available

    return is_available(device)


def is_int8_quick() -> bool:
    """Return whether this CPU has int8 instructions (VNNI), with which torch's int8 products are fast and exact."""
    import torch

    has_them = getattr(torch.cpu, "_is_vnni_supported", lambda: False)
    return bool(torch.backends.mkldnn.is_available() and has_them())  # type: ignore[no-untyped-call]


def parse_file(parser: Parser, source: Source, target: _Path, format: str | None, workers: int | None) -> int:
    """Parse a treebank file; see `Parser.parse_file`."""
    from treefine.fast.file_workers import FileParser, FileReport, file_parts

    if workers is not None and workers < 0:
        raise TreefineError(f"workers must be 0 or more, not {workers}.")
    path = name_of(source)
    files = FileParser.of(parser, workers, Path(path).stat().st_size if Path(path).is_file() else None)
    if files is None:
        return write_treebank(parser.stream_trees(read_treebank(source, format=format)), target)
    counts: list[int] = []
    with files, open_output(target) as output, open_input(source) as stream:
        parts = file_parts(stream, path, format_of(path, format).name)
        for text in files.texts(parts, FileReport(on_sentences=counts.append)):
            output.write(text.encode())
    return sum(counts)


def view_of(module: nn.Module, kind: type[View], **parts: nn.Module | None) -> View:
    """Return a module of another class that shares the weights of this one, with some of its parts replaced."""
    view = copy.copy(module)
    view.__class__ = kind
    view._modules = {**module._modules, **parts}  # a copied module shares this dictionary
    assert isinstance(view, kind)
    return view
