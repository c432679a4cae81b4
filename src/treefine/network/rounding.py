"""Weights rounded to eight bits for storage: a quarter of float32's size. They are float32 again when a model runs."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

SCALE = ".scale"  # ends the name of what a rounded weight's rows are multiplied by
NARROWEST = 16  # a shorter row would hardly be smaller with a scale of its own
LARGEST = 127


def rounded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each matrix as int8 with a scale for each row, by which its largest number is ±127; all else as float16."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.dim() < 2 or weight.size(-1) < NARROWEST:
            found[name] = weight.half()
            continue
        scale = weight.float().abs().amax(-1, keepdim=True) / LARGEST
        found[name] = torch.round(weight.float() / scale.clamp(min=torch.finfo(torch.float32).tiny)).to(torch.int8)
        found[name + SCALE] = scale.squeeze(-1)
    return found


def restored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights in float32, whichever way they were stored. What was not rounded stays in its place."""
    found = {}
    for name, weight in weights.items():
        scale = weights.get(name + SCALE)
        has_scale = scale is not None and scale.is_floating_point() and scale.shape == weight.shape[:-1]
        if weight.dtype == torch.int8 and scale is not None and has_scale:
            found[name] = weight.float() * scale.float().unsqueeze(-1)
        elif not (name.endswith(SCALE) and _is_rounded(weights.get(name.removesuffix(SCALE)))):
            found[name] = weight.float() if weight.is_floating_point() else weight
    return found


def _is_rounded(weight: Tensor | None) -> bool:
    return weight is not None and weight.dtype == torch.int8
