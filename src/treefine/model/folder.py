"""Save and load model folders, local or on the hub. Weights are safetensors; a model folder has no pickles."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from treefine.config import FOUR_BIT_BLOCK, LAYOUT, ModelSettings, read_json, read_settings, write_json
from treefine.errors import ModelError
from treefine.model.bundled import ABOUT, bundled_models
from treefine.model.parser_model import ParserModel
from treefine.model.subwords import TOKENIZER_FILES, Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.version import __version__


def model_card(model: ParserModel, notes: str = "", *, reads_text: bool = False) -> str:
    """Return the model card in the hub's Markdown: what the model is, what it reads, and how to use it."""
    settings, encoder, tags = model.settings, model.settings.encoder, model.settings.tags
    kind = "RNGTr, which refines a graph" if settings.reads_graph else "SynTr, which reads no graph"
    languages = f"language: {json.dumps(settings.languages)}\n" if settings.languages else ""  # `no` is false in YAML
    read = tags.columns if tags.source == "given" else tags.given
    uses = [
        f"{verb} {', '.join(map(str.upper, some))}"
        for verb, some in (("reads", read), ("predicts", tags.predicted))
        if some
    ]
    text, ending = ("raw text", "txt") if reads_text else ("words, not raw text", "conllu")
    notes = f"\n{notes}\n" if notes else ""
    return f"""---
{languages}library_name: treefine
tags: [dependency-parsing, universal-dependencies]
---

# A treefine dependency parser

This is {kind}: a transformer of the {encoder.family} family, {encoder.n_layers} layers of width {encoder.width}. \
It has {sum(each.numel() for each in model.parameters()) / 1e6:.1f} million parameters,
knows {len(model.vocabulary.labels)} labels, and {" and ".join(uses) or "reads no tags"}.
It reads {text}.

```
treefine parse --model THIS_FOLDER in.{ending} -o out.conllu
```
{notes}"""


PICKLED_WEIGHTS = "pytorch_model.bin"  # the weights of an older encoder; a treefine model never has this file


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file. A damaged or missing file raises a ModelError."""
    if not path.exists():
        raise ModelError("There is no such file.", hint="Weights are read from safetensors files.", path=str(path))
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        hint = "Copy or download it again."
        raise ModelError(f"The file is damaged ({error}).", hint=hint, path=str(path)) from error


def read_pickled_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a pytorch_model.bin without running code from it. Anything but tensors is a ModelError."""
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        for name, each in weights.items():
            if not isinstance(name, str) or each.layout != torch.strided or each.is_quantized or each.is_meta:
                raise TypeError(f"{name} is not a plain tensor")
        return {name: each.detach() for name, each in weights.items()}
    except (OSError, MemoryError):
        raise
    except Exception:  # a faulty pickle can raise anything, and torch's message advises to run its code
        hint = "Download it again, or save the encoder as model.safetensors."
        message = "The file is damaged, or it contains more than weights."
        raise ModelError(message, hint=hint, path=str(path)) from None


def check_weights(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], *, may_lack: frozenset[str] = frozenset(), path: str
) -> None:
    """Raise a ModelError that names weights that are missing, surplus, of the wrong shape, or not finite."""
    ours, theirs = ({name: each.shape for name, each in some.items()} for some in (weights, wanted))
    names = sorted(name for name in ours.keys() | theirs.keys() - may_lack if ours.get(name) != theirs.get(name))
    faults = [
        f"{name} is {_size(ours.get(name), 'missing')} instead of {_size(theirs.get(name), 'no weight')}"
        for name in names
    ]
    hint = "The weights do not belong to the config.json in this folder."
    if not faults:
        odd = (name for name, each in weights.items() if not each.is_floating_point() or not each.isfinite().all())
        faults, hint = [f"{name} has numbers that are not finite" for name in sorted(odd)], "The file is damaged."
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise ModelError(f"The weights do not fit the model: {', '.join(faults[:5])}{more}.", hint=hint, path=path)


def _size(shape: torch.Size | None, missing: str) -> str:
    return missing if shape is None else " × ".join(map(str, shape)) or "a number"


SCALE = ".scale"  # the row scales of an int8 weight are stored under its name with this suffix
NARROWEST = 16  # a shorter row would hardly be smaller in int8, because of its scale
LARGEST = 127


def in_four_bits(table: Tensor) -> tuple[Tensor, Tensor]:
    """Round a table to whole numbers from -8 to 7, with one scale for each block of a row. Return both.

    Two numbers share a byte: one of the first half of the block, in its low bits, and one of the second half. The
    largest number of a block becomes -8, as in the format q4_0 of llama.cpp, so that rounding again changes nothing.
    """
    blocks = table.float().view(len(table), -1, FOUR_BIT_BLOCK)  # [row, block, number]
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    scale = (largest / -8).half()
    by = torch.where(scale == 0, 1, scale.float())
    numbers = ((blocks / by).round().clamp(-8, 7) + 8).to(torch.uint8)
    low, high = numbers.chunk(2, dim=-1)
    return (low | (high << 4)).flatten(1), scale.squeeze(-1)


def from_four_bits(numbers: Tensor, scale: Tensor) -> Tensor:
    """Return the table that `in_four_bits` rounded, in float32."""
    pairs = numbers.view(len(numbers), -1, FOUR_BIT_BLOCK // 2)  # [row, block, byte]
    whole = torch.cat([pairs & 15, pairs >> 4], dim=-1).float() - 8
    return (whole * scale.float().unsqueeze(-1)).flatten(1)


def rounded(weights: Mapping[str, Tensor], *, in_four: Collection[str] = ()) -> dict[str, Tensor]:
    """Return each matrix as int8 with one scale per row, so that its largest number is ±127; the rest as float16.

    The tables whose names are `in_four` are rounded to four bits.
    """
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name in in_four:
            found[name], found[name + SCALE] = in_four_bits(weight)
        elif weight.dim() < 2 or weight.size(-1) < NARROWEST:
            found[name] = weight.half()
        else:
            scale = weight.float().abs().amax(-1, keepdim=True) / LARGEST
            tiny = torch.finfo(torch.float32).tiny
            found[name] = torch.round(weight.float() / scale.clamp(min=tiny)).to(torch.int8)
            found[name + SCALE] = scale.squeeze(-1)
    return found


def restored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights in float32, however they were stored. Integers without a scale are returned unchanged."""
    found = {}
    integers = {name for name, weight in weights.items() if weight.dtype in (torch.int8, torch.uint8)}
    for name, weight in weights.items():
        scale = weights.get(name + SCALE)
        is_four = weight.dtype == torch.uint8 and weight.dim() == 2
        shape = (len(weight), 2 * weight.shape[1] / FOUR_BIT_BLOCK) if is_four else weight.shape[:-1]  # of the scales
        if name in integers and scale is not None and scale.is_floating_point() and scale.shape == shape:
            found[name] = from_four_bits(weight, scale) if is_four else weight.float() * scale.float().unsqueeze(-1)
        elif not (name.endswith(SCALE) and name.removesuffix(SCALE) in integers):
            found[name] = weight.float() if weight.is_floating_point() else weight
    return found


FORMAT = 1  # the version of the folder format; a later treefine may write a higher one


def write_model(model: ParserModel, folder: Path, *, dtype: torch.dtype, notes: str, reads_text: bool = False) -> None:
    """Write the files of a model into an existing folder."""
    config = {"treefine": __version__, "format": FORMAT, **asdict(model.settings)}
    write_json(folder / LAYOUT.config, config)
    write_json(folder / LAYOUT.vocabulary, asdict(model.vocabulary))
    if dtype not in (torch.float32, torch.float16, torch.int8):
        raise ModelError(f"Weights cannot be saved as {dtype}.", hint="Choose torch.float32, float16 or int8.")
    weights = {name: each.detach().cpu().contiguous() for name, each in model.state_dict().items()}
    in_four = ("encoder.pieces.weight",) if model.settings.encoder.table_bits == 4 else ()
    if dtype == torch.int8:
        stored = rounded(weights, in_four=in_four)
    else:  # what has only four bits does not get larger
        stored = rounded({name: weights.pop(name) for name in in_four}, in_four=in_four)
        stored |= {name: each.to(dtype) for name, each in weights.items()}
    for name, each in stored.items():
        if not each.isfinite().all():
            raise ModelError(f"The weight {name} has a value that is not finite in {dtype}; nothing was saved.")
    save_file(stored, folder / LAYOUT.weights, metadata={"format": "pt"})
    (folder / LAYOUT.weights).chmod((folder / LAYOUT.config).stat().st_mode)  # safetensors lets only the owner read it
    model.subwords.save(folder)
    (folder / LAYOUT.card).write_text(model_card(model, notes, reads_text=reads_text), encoding="utf-8")


def load_model(folder: Path) -> ParserModel:
    """Load the model of a folder. A missing or damaged file, or weights that do not fit, raise a ModelError."""
    path = folder / LAYOUT.config
    config = read_json(path)
    if not {"format", "encoder"} <= config.keys():
        hint = "If this is a pretrained encoder, train a parser with it first."
        raise ModelError("This is not the config of a treefine model.", hint=hint, path=str(path))
    if config["format"] != FORMAT:
        hint = f"It was saved by treefine {config.get('treefine')}; this is {__version__}."
        raise ModelError(f"The folder has format {config['format']!r}, not {FORMAT}.", hint=hint, path=str(path))
    values = {name: each for name, each in config.items() if name not in ("treefine", "format")}
    settings = read_settings(ModelSettings, values, path=str(path))
    vocabulary = _read_vocabulary(folder / LAYOUT.vocabulary)
    subwords = Subwords.from_folder(folder)
    if len(subwords) > settings.encoder.n_pieces:
        raise ModelError(
            f"The tokenizer has {len(subwords)} pieces, but the model has {settings.encoder.n_pieces}.",
            hint="The tokenizer does not belong to the config.json in this folder.",
            path=str(folder),
        )
    with torch.device("meta"):  # weights with a shape but no memory
        model = ParserModel(settings, vocabulary, subwords)
    weights = restored(read_weights(folder / LAYOUT.weights))
    check_weights(weights, model.state_dict(), path=str(folder / LAYOUT.weights))
    model.load_state_dict(weights, assign=True)
    return model.eval()


def fetch(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a local model, of a bundled one, or of one on the hub. Only the hub needs a network."""
    folder, hub_name = Path(name), os.fspath(name)
    if folder.is_dir() and hub_name:
        return folder
    if hub_name in (known := bundled_models()):
        return known[hub_name]
    is_path = hub_name.count("/") > 1 or hub_name.startswith((".", "/", "~")) or "\\" in hub_name or folder.exists()
    if is_path or not hub_name:
        raise ModelError("There is no such model folder.", path=hub_name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    patterns = ["*.json", "*.safetensors", "*.txt", "*.md"]
    try:
        found = Path(snapshot_download(hub_name, allow_patterns=patterns))
        if not any(found.glob("*.safetensors")):  # an older encoder
            found = Path(snapshot_download(hub_name, allow_patterns=[*patterns, PICKLED_WEIGHTS]))
        return found
    except (HFValidationError, RepositoryNotFoundError):
        hint = "Give the path of a folder, or OWNER/NAME of a model on the hub."
        raise ModelError(f"There is no folder {hub_name!r} and no such model on the hub.", hint=hint) from None
    except Exception as error:  # the hub's client passes on any error of its network layers
        raise ModelError(
            f"There is no folder {hub_name!r} here, and the hub cannot be reached ({type(error).__name__}).",
            hint="Give the path of a folder, or try again with a network connection.",
        ) from error


def push_folder(folder: Path, name: str, *, is_private: bool) -> str:
    """Upload a model folder to the hub and return its address there."""
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        address = str(api.create_repo(name, private=is_private, exist_ok=True))
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload a treefine model")
    except Exception as error:  # as in `fetch`
        hint = "Log in with `hf auth login`, and check the name OWNER/NAME and the network."
        raise ModelError(f"{name!r} cannot be uploaded to the hub ({error}).", hint=hint) from error
    return address


def _read_vocabulary(path: Path) -> Vocabulary:
    try:
        return Vocabulary(**{name: tuple(each) for name, each in read_json(path).items() if each})  # empty by default
    except (TypeError, ValueError) as error:
        raise ModelError(f"The vocabulary is damaged: {error}.", path=str(path)) from error


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill. At the end it replaces the target, which may be an empty or a model folder."""
    target = target.resolve()  # replace the folder that a link points to, not the link
    try:
        if target.exists() and not _may_be_replaced(target):
            hint = "Choose another folder."
            raise ModelError("The folder contains files that do not belong to a model.", hint=hint, path=str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
            new = Path(scratch, "new")
            new.mkdir()
            yield new
            if target.exists():
                target.rename(Path(scratch, "old"))
            new.rename(target)
    except (OSError, SafetensorError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        raise ModelError(f"The model could not be saved: {reason}.", path=str(target)) from error


def _may_be_replaced(target: Path) -> bool:
    """Return whether a folder is empty, or holds a treefine model and nothing else."""
    if not target.is_dir():
        return False
    names = {path.name for path in target.iterdir()}
    ours = {LAYOUT.config, LAYOUT.vocabulary, LAYOUT.weights, LAYOUT.card, LAYOUT.initial, LAYOUT.segmenter, ABOUT}
    return not names or (names <= ours | set(TOKENIZER_FILES) and is_model_folder(target))


def is_model_folder(folder: Path) -> bool:
    """Return whether a folder holds a treefine model, not just an encoder."""
    return (folder / LAYOUT.config).is_file() and {"format", "encoder"} <= read_json(folder / LAYOUT.config).keys()
