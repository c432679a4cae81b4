"""Names and readers of the files in a model folder. The readers raise a ModelError if a file is damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from treefine.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ModelFiles:
    """The names of the files in a model folder; the tokenizer's files are named in `subwords`."""

    config: str = "config.json"
    vocabulary: str = "vocabulary.json"
    weights: str = "model.safetensors"
    card: str = "README.md"
    initial: str = "initial"  # the folder of the initial parser, if the model has its own
    segmenter: str = "segmenter"  # the folder of the segmenter, if it was trained with one


LAYOUT = ModelFiles()
PICKLED_WEIGHTS = "pytorch_model.bin"  # the weights of an older encoder; a treefine model never has this file


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file. A damaged or missing file raises a ModelError."""
    if not path.exists():
        raise ModelError("There is no such file.", hint="Weights are read from safetensors files.", path=str(path))
    from safetensors.torch import load_file  # imported here because it loads torch, which a tokenizer does not need

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        hint = "Copy or download it again."
        raise ModelError(f"The file is damaged ({error}).", hint=hint, path=str(path)) from error


def read_pickled_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a pytorch_model.bin without running code from it. Anything but tensors is a ModelError."""
    import torch

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


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Anything else raises a ModelError."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError("There is no such file.", hint="Is this a model folder?", path=str(path)) from None
    except OSError as error:
        raise ModelError(f"The file cannot be read ({error.strerror}).", path=str(path)) from error
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise ModelError(
            "The file is damaged: it is not JSON.", hint="Copy or download it again.", path=str(path), line=line
        ) from error
    if not isinstance(value, dict):
        raise ModelError("The file is damaged: it is not a JSON object.", path=str(path))
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a value as human-readable JSON."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def check_weights(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], *, may_lack: frozenset[str] = frozenset(), path: str
) -> None:
    """Raise a ModelError that names all weights that are missing, surplus, of the wrong shape, or not finite."""
    missing = sorted(wanted.keys() - weights.keys() - may_lack)
    surplus = sorted(weights.keys() - wanted.keys())
    wrong = [
        f"{name} is {shown_shape(weights[name])} instead of {shown_shape(wanted[name])}"
        for name in sorted(weights.keys() & wanted.keys())
        if weights[name].shape != wanted[name].shape
    ]
    faults = [f"missing: {_listed(missing)}"] if missing else []
    faults += [f"surplus: {_listed(surplus)}"] if surplus else []
    faults += wrong[:3]
    odd = sorted(name for name, each in weights.items() if not each.is_floating_point() or not each.isfinite().all())
    faults += [f"not finite numbers: {_listed(odd)}"] if odd else []
    if faults:
        is_other = missing or surplus or wrong
        hint = "The weights do not belong to the config.json in this folder." if is_other else "The file is damaged."
        raise ModelError(f"The weights do not fit the model; {'; '.join(faults)}.", hint=hint, path=path)


def shown_shape(weight: Tensor) -> str:
    """Format the shape of a weight for an error message."""
    return " × ".join(map(str, weight.shape)) if weight.dim() else "a number"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
