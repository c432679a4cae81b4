"""Check what a caller asks of a parser: device, options, and sentences or words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args, get_type_hints

import torch

from treefine.config import Precision, PrecisionSettings, TagSource, TransformerSettings
from treefine.errors import ModelError, TreefineError
from treefine.fast.int8_encoder import is_quick
from treefine.model.parser_model import ParserModel
from treefine.treebank.constraints import CONSTRAIN, Keep
from treefine.treebank.sentence import Sentence

DEVICES = ("cpu", "cuda", "mps", "xpu")


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of this name; without one a GPU if there is any."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in DEVICES:
            raise RuntimeError(f"it is none of {', '.join(DEVICES)}")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise TreefineError(f"Device {str(name)!r} cannot be used ({reason}).", hint="Choose cpu.") from error
    return device


STEPS = 3  # T in the paper (Sec. 6.1), for a model that was not told its own …
STEPS_FROM_EMPTY = 4  # … with one more to make the first graph


def checked_steps(max_steps: int | None, model: ParserModel, *, starts_empty: bool) -> int:
    """T: as asked for, or else as the model was trained."""
    reads_graph, trained = model.settings.reads_graph, model.settings.max_steps
    if max_steps is None:
        return 1 if not reads_graph else trained or (STEPS_FROM_EMPTY if starts_empty else STEPS)
    if max_steps < 1:
        raise TreefineError(f"The number of steps is {max_steps}.", hint="At least one is needed to parse.")
    if max_steps > 1 and not reads_graph:
        raise ModelError("This model reads no graph, so it cannot take more than one step.")
    return max_steps


def checked_stop(stop_above: float | None, model: ParserModel, *, starts_empty: bool) -> float:
    """How sure a sentence has to be to take no further step: as asked for, or else as the model was measured.

    That was from an empty graph; another parser's trees are refined until nothing changes.
    """
    if stop_above is None:
        return model.settings.stop_above if starts_empty else 1.0
    if not 0 <= stop_above <= 1:
        hint = "It is a share of the words, from 0 to 1; with 1 a sentence stops only where it has converged."
        raise TreefineError(f"stop_above is {stop_above}.", hint=hint)
    return float(stop_above)


def checked_tags(tags: TagSource | None, model: ParserModel) -> TagSource:
    """Where tags come from: as asked for, or else as the model was trained."""
    source = model.settings.tags.source
    if tags is None:
        return source
    if tags not in ("given", "predicted", "none"):
        raise TreefineError(f"There is no source of tags {tags!r}.", hint="Choose given, predicted or none.")
    if (tags == "given" and source == "none") or (tags == "predicted" and source != "predicted"):
        what = "reads no tags" if tags == "given" else "has no tagger"
        raise ModelError(f"Tags cannot be {tags}: this model {what}.")
    return tags


def checked_precision(precision: Precision | None, model: ParserModel, device: torch.device) -> Precision:
    """The numbers that the model runs with on this device: as asked for, or else those it was measured with.

    On a processor that has no instructions for sums of eight bits, int8 is not taken by itself: it is no faster there.
    """
    if precision is None:
        own: Precision = getattr(model.settings.precision, device.type, "float32")
        return "float32" if own == "int8" and not is_quick() else own
    known = precisions_of(model, device)
    if precision not in known:
        where = f"on {device.type}" if isinstance(model.settings.encoder, TransformerSettings) else "by a BiLSTM"
        raise TreefineError(f"Nothing is run in {precision!r} {where}.", hint=f"Choose {' or '.join(known)}.")
    return precision


def precisions_of(model: ParserModel, device: torch.device) -> tuple[Precision, ...]:
    """The numbers that the model can run with on this device."""
    by_device = get_type_hints(PrecisionSettings) if isinstance(model.settings.encoder, TransformerSettings) else {}
    return get_args(by_device[device.type]) if device.type in by_device else ("float32",)


def checked_keep(keep: Keep) -> Keep:
    """What is kept of the input."""
    if keep not in CONSTRAIN:
        raise TreefineError(f"Nothing is called {keep!r} that could be kept.", hint="Choose marked, given or nothing.")
    return keep


def checked_k(k: int) -> int:
    """How many trees a sentence is to have."""
    if k < 1:
        raise TreefineError(f"The number of trees is {k}.", hint="A sentence has at least one.")
    return k


def sentence_of(words: Sentence | Sequence[str]) -> Sentence:
    """The sentence itself, or that of these words."""
    if isinstance(words, Sentence):
        return words
    listed = listed_words(words)
    forms = [each for each in listed if isinstance(each, str)]
    if len(forms) < len(listed):
        raise TreefineError("A sentence is a list of words.", hint=f"This is none: {str(words)[:40]}")
    return Sentence.of_words(forms)


def listed_words(words: Iterable[Sentence | Sequence[str]] | Sequence[str]) -> list[Sentence | Sequence[str] | str]:
    """The words, or sentences, as a list; text that is not cut into words is refused."""
    if not isinstance(words, Iterable):
        raise TreefineError("A sentence is a list of words.", hint=f"This is none: {str(words)[:40]}")
    if isinstance(words, str):
        raise TreefineError(
            f"{words[:40]!r} is a string, not a list of words.",
            hint='Cut it into words, ["A", "dog"], or call the parser itself with it.',
        )
    return list(words)
