"""The names of the files in a model folder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """The names of the files in a model folder; a tokenizer's own are in `subwords`."""

    config: str = "config.json"
    vocabulary: str = "vocabulary.json"
    weights: str = "model.safetensors"
    card: str = "README.md"
    initial: str = "initial"  # the folder of the initial parser, where the model has one of its own
    segmenter: str = "segmenter"  # the folder of the segmenter, where it was trained with one


LAYOUT = Layout()
