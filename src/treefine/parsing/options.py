"""The options of a parser, and the forms in which it accepts sentences."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypedDict, cast

from treefine.config import Precision, TagSource
from treefine.errors import TreefineError
from treefine.treebank.constraints import Keep
from treefine.treebank.sentence import Sentence

if TYPE_CHECKING:
    import torch

    from treefine.parsing.initial import InitialParser
    from treefine.parsing.parser import Parser


@dataclass(frozen=True)
class ParserOptions:
    """The options of a parser. An option that is None has the default given here.

    initial: The parse to start from: "empty"; "given", the trees in the sentences; the folder of a SynTr or biaffine
        model; a file of the same text; a Parser; or a function from `treefine.parsing.initial`. Default: the initial
        parser saved with the model, or else "empty".
    max_steps: The maximum number of refinement steps, T in the paper. Default: as in training; if the model does not
        record it, 3, or 4 from an empty graph.
    stop_above: Stop refining a sentence once its mean word confidence exceeds this value. Lower is faster and slightly
        less accurate; 1 refines until the tree no longer changes. Default: the model's setting (`en`: 1) if parsing
        starts from an empty graph, otherwise 1.
    tags: "given" reads the tags of the input and predicts missing ones if the model can; "predicted" predicts all tags
        in the first step and reads them in later ones; "none" uses no tags. Default: as in training.
    is_projective: Whether trees must be projective, that is, without crossing arcs. Default: False.
    keep: The heads and labels of the input to keep: "marked" keeps those marked in MISC, "given" keeps all that are
        filled in, "nothing" keeps none. Default: "marked".
    k: The number of best trees in a Parse. Default: 1.
    device: A torch device. Default: a GPU if there is one.
    precision: "float32" or "int8" on a CPU; "float32", "float16" or "bfloat16" on a GPU. Default: the model's setting
        (`en`: int8 or float16), else "float32".
    batch_pieces: The maximum number of pieces (sub-words) in a batch, padding included; at most 1,000 on a CPU. If
        memory runs out, the batch is halved. Default: 4000.
    """

    initial: str | os.PathLike[str] | Parser | InitialParser | None = None
    max_steps: int | None = None
    stop_above: float | None = None
    tags: TagSource | None = None
    is_projective: bool | None = None
    keep: Keep | None = None
    k: int | None = None
    device: str | torch.device | None = None
    precision: Precision | None = None
    batch_pieces: int | None = None

    @property
    def given(self) -> OptionValues:
        """The options that are not None, as keyword arguments."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return cast("OptionValues", {name: value for name, value in values.items() if value is not None})

    def updated(self, changes: OptionValues) -> ParserOptions:
        """Return these options with some changed. A new `initial` resets `max_steps` and `stop_above` unless given."""
        given = ParserOptions(**changes).given
        kept = replace(self, max_steps=None, stop_above=None) if "initial" in given else self
        return replace(kept, **given)


class OptionValues(TypedDict, total=False):
    """The fields of `ParserOptions` as keyword arguments."""

    initial: str | os.PathLike[str] | Parser | InitialParser | None
    max_steps: int | None
    stop_above: float | None
    tags: TagSource | None
    is_projective: bool | None
    keep: Keep | None
    k: int | None
    device: str | torch.device | None
    precision: Precision | None
    batch_pieces: int | None


def sentence_of(words: Sentence | Sequence[str]) -> Sentence:
    """Return the sentence itself, or a new sentence of these words."""
    if isinstance(words, Sentence):
        return words
    listed = listed_words(words)
    forms = [each for each in listed if isinstance(each, str)]
    if len(forms) < len(listed):
        raise TreefineError(f"A sentence must be a list of words, not {str(words)[:40]}.")
    return Sentence.of_words(forms)


def listed_words(words: Iterable[Sentence | Sequence[str]] | Sequence[str]) -> list[Sentence | Sequence[str] | str]:
    """Return the words or sentences as a list; raise an error for text that is not split into words."""
    if not isinstance(words, Iterable):
        raise TreefineError(f"A sentence must be a list of words, not {str(words)[:40]}.")
    if isinstance(words, str):
        raise TreefineError(
            f"{words[:40]!r} is a string, not a list of words.",
            hint='Split it into words, as in ["A", "dog"], or parse the text with parser(text).',
        )
    return list(words)
