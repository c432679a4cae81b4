"""The options of a parser, and the forms in which it accepts texts and sentences."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, Union, cast, get_args

from treefine.config import Precision, TagChoice
from treefine.errors import TreefineError, described, is_list_like, is_whole_number
from treefine.treebank.constraints import Constraints, Keep
from treefine.treebank.sentence import HasSentence, Sentence, sentence_in

if TYPE_CHECKING:
    import torch

    from treefine.parsing.initial import InitialParser
    from treefine.parsing.parser import Parser

Initial: TypeAlias = Union[str, os.PathLike[str], "Parser", "InitialParser"]
"""An initial parser; see `ParserOptions`."""
Trust: TypeAlias = float | Literal["auto"]
"""How much the arcs of an initial parser count."""


CAUTIOUS_TRUST = 1.0  # where trees come one by one, so that nothing can be estimated


@dataclass(frozen=True)
class ParserOptions:
    """The options of a parser. An option that is None has the default given here.

    initial: The parse to start from: "empty"; "given", the trees in the sentences; the folder of a SynTr or biaffine
        model; a file of the same text; a Parser; or a function from `treefine.parsing.initial`. A list of several is
        combined: the first one gives the initial graph, and the arcs of all are evidence. Default: the initial parser
        saved with the model, or else "empty".
    trust: How much the arcs of the initial parse count: a weight that is added to the score of each of these arcs and
        of its label. 0 adds nothing; "auto" estimates the weight from how often the parse agrees with the model; a list
        has one weight per initial parse. Default: "auto" for the trees of the input or of a file, otherwise 0.
    max_steps: The maximum number of refinement steps, T in the paper. Default: as in training; if the model does not
        record it, 3, or 4 from an empty graph.
    stop_above: Stop refining a sentence once its mean word confidence exceeds this value. Lower is faster and slightly
        less accurate; 1 refines until the tree no longer changes. Default: the model's setting (`en`: 1) if parsing
        starts from an empty graph, otherwise 1.
    tags: The tags that the model reads: "given" reads those of the input and predicts missing ones if the model can;
        "predicted" predicts all tags in the first step and reads them in later ones; "none" uses no tags. Blank tags
        of the input are filled in, and other tags are written as they are, with two exceptions. If the initial parse
        is "given", as in `refine`, "predicted" also replaces all tags. "best" reads the same tags as "predicted", and
        replaces a UPOS tag, with its XPOS tag, where the new label does not allow it and the model is sure of another;
        it needs an initial parse and a model of UD that predicts tags. With both, a model trained with `tags.given`
        still reads these columns of the input. Default: as in training; "best" if the initial parse is "given" and the
        model supports it.
    is_projective: Whether trees must be projective, that is, without crossing arcs. Default: False.
    keep: The heads and labels of the input to keep: "marked" keeps those marked in MISC, "given" keeps all that are
        filled in, "nothing" keeps none. Default: "marked".
    k: The number of best trees in a Parse. Default: 1.
    language: The language of the input, for a model of several languages: a code such as "sv", an English name, or a
        treebank such as "sv_talbanken", whose habits the model then follows. Default: identified from the text.
    device: A torch device. Default: a GPU if there is one.
    precision: "float32" or "int8" on a CPU; "float32", "float16" or "bfloat16" on a GPU. Default: the model's setting
        (`en`: int8 or float16), else "float32".
    batch_pieces: The maximum number of pieces (sub-words) in a batch, padding included; at most 1,000 on a CPU. If
        memory runs out, the batch is halved. Default: 4000.
    """

    initial: Initial | Sequence[Initial] | None = None
    trust: Trust | Sequence[Trust] | None = None
    max_steps: int | None = None
    stop_above: float | None = None
    tags: TagChoice | None = None
    is_projective: bool | None = None
    keep: Keep | None = None
    k: int | None = None
    language: str | None = None
    device: str | torch.device | None = None
    precision: Precision | None = None
    batch_pieces: int | None = None

    @property
    def given(self) -> OptionValues:
        """The options that are not None, as keyword arguments."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return cast("OptionValues", {name: value for name, value in values.items() if value is not None})

    def updated(self, changes: OptionValues) -> ParserOptions:
        """Return these options with some changed.

        A new `initial` resets `trust`, `max_steps` and `stop_above` unless they are given.
        """
        given = options_of(changes).given
        kept = replace(self, trust=None, max_steps=None, stop_above=None) if "initial" in given else self
        return replace(kept, **given)


class OptionValues(TypedDict, total=False):
    """The fields of `ParserOptions` as keyword arguments."""

    initial: Initial | Sequence[Initial] | None
    trust: Trust | Sequence[Trust] | None
    max_steps: int | None
    stop_above: float | None
    tags: TagChoice | None
    is_projective: bool | None
    keep: Keep | None
    k: int | None
    language: str | None
    device: str | torch.device | None
    precision: Precision | None
    batch_pieces: int | None


def _is_initial(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(_is_initial(each) and not isinstance(each, list | tuple) for each in value)
    return isinstance(value, str | os.PathLike) or callable(value)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_trust(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_trust(each) and not isinstance(each, list | tuple) for each in value)
    return isinstance(value, str) or _is_number(value)


# For each option: whether a value has the right type, and what the value must be. A Plan checks the values themselves.
_TYPES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "initial": (_is_initial, '"empty", "given", a path, a Parser, a function or a list of these'),
    "trust": (_is_trust, '"auto" or a number such as 1.5, or a list of them'),
    "max_steps": (is_whole_number, "a whole number, such as 3"),
    "stop_above": (_is_number, "a number from 0 to 1"),
    "tags": (lambda value: isinstance(value, str), '"given", "predicted", "best" or "none"'),
    "is_projective": (lambda value: isinstance(value, bool), "True or False"),
    "keep": (lambda value: isinstance(value, str), '"marked", "given" or "nothing"'),
    "k": (is_whole_number, "a whole number, such as 3"),
    "language": (lambda value: isinstance(value, str), 'a code or a name, such as "sv" or "Swedish"'),
    "device": (
        lambda value: isinstance(value, str) or type(value).__module__ == "torch",
        'a name such as "cpu", or a torch.device',
    ),
    "precision": (lambda value: isinstance(value, str), f"one of {', '.join(get_args(Precision))}"),
    "batch_pieces": (is_whole_number, "a whole number, such as 4000"),
}


def options_of(values: Mapping[str, object]) -> ParserOptions:
    """Return the options with these names and values; raise an error for an unknown name or a wrong type."""
    for name, value in values.items():
        if name not in _TYPES:
            close = get_close_matches(name, _TYPES, 1)
            hint = f"Did you mean {close[0]}?" if close else f"The options are {', '.join(_TYPES)}."
            raise TreefineError(f"A parser has no option {name!r}.", hint=hint)
        has_right_type, needed = _TYPES[name]
        if value is not None and not has_right_type(value):
            raise TreefineError(f"The option {name} must be {needed}, not {described(value)}.")
    return ParserOptions(**cast("OptionValues", values))


_CHARACTERS_AT_ONCE = 1 << 16  # in the texts that `first_texts` reads, without the last one
_Context = TypeVar("_Context")  # what belongs to a text of `Parser.pipe`

Words = Sentence | HasSentence | Sequence[str]
"""One sentence to parse: a Sentence, a Parse, or a list of words."""

_ONE_TEXT = 'Split it into words, as in ["A", "dog"], or parse the text with parser(text).'


def sentence_of(words: Words) -> Sentence:
    """Return the sentence itself, that of a Parse, or a new sentence of these words."""
    sentence = sentence_in(words)
    if sentence is not None:
        return sentence
    if isinstance(words, str):
        raise TreefineError(f"{words[:40]!r} is a string, not a list of words.", hint=_ONE_TEXT)
    if isinstance(words, bytes | Mapping) or not isinstance(words, Iterable):
        raise TreefineError(f"A sentence must be a list of words or a Sentence, not {described(words)}.")
    return Sentence.of_words(cast("Sequence[str]", words))  # which checks the words


def given_sentences(sentences: Iterable[Words]) -> Iterator[Sentence]:
    """Return an iterator over these sentences; an error names the number of the sentence.

    The argument itself is checked before the first sentence is asked for.
    """
    if isinstance(sentences, str):
        raise TreefineError(f"{sentences[:40]!r} is a string, not a list of sentences.", hint=_ONE_TEXT)
    if isinstance(sentences, bytes | Mapping) or not isinstance(sentences, Iterable):
        raise TreefineError(f"The sentences must be a list or an iterator, not {described(sentences)}.")
    if sentence_in(sentences) is not None:
        raise TreefineError("This is one sentence, but several are needed.", hint="Put it into a list.")
    return _numbered(iter(sentences))


def _numbered(sentences: Iterator[Words]) -> Iterator[Sentence]:
    for number, each in enumerate(sentences, start=1):
        try:
            sentence = sentence_of(each)
        except TreefineError as error:
            if error.sentence is None:
                error.sentence = number
            raise
        is_from_file = sentence.line > 0
        yield sentence if is_from_file else replace(sentence, number=number)


def one_or_several(sentences: Words | Iterable[Words]) -> tuple[list[Words], bool]:
    """Return a list of the sentences to parse, and whether the user passed only one sentence."""
    if sentence_in(sentences) is not None:
        return [cast("Words", sentences)], True
    if not is_list_like(sentences):
        return [sentence_of(cast("Words", sentences))], True  # raises an error
    several = list(sentences)
    if several and isinstance(several[0], str):
        return [cast("list[str]", several)], True
    return cast("list[Words]", several), False


ConstraintsLike = Constraints | Mapping[str, Mapping[int, Any]] | None
"""The constraints of one sentence: a Constraints, a dictionary with the names of its fields, or None."""


def constraints_of(constraints: Iterable[ConstraintsLike]) -> Iterator[Constraints]:
    """Return an iterator over the constraints of several sentences."""
    hint = "Pass a list with one for each sentence."
    if isinstance(constraints, Constraints | Mapping):
        raise TreefineError("There are several sentences but only one Constraints.", hint=hint)
    if not is_list_like(constraints):
        raise TreefineError(f"The constraints must be a list, not {described(constraints)}.", hint=hint)
    return map(Constraints.of, constraints)


def checked_strings(texts: Iterable[str], what: str) -> Iterator[str]:
    """Return an iterator over strings that checks each of them; a single string is a mistake."""
    if not is_list_like(texts):
        hint = "Pass an open file or a list of strings, or parse one text with parser(text)."
        raise TreefineError(f"The {what} must be a list or an iterator, not {described(texts)}.", hint=hint)

    def checked() -> Iterator[str]:
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str):
                raise TreefineError(f"Item {number} of the {what} is not a string but {described(text)}.")
            yield text

    return checked()


def text_pairs(items: Iterable[Any], *, as_tuples: bool) -> Iterator[tuple[str, Any]]:
    """Yield each text of a `pipe` with its context, None by default."""
    for number, item in enumerate(items, start=1):
        text, context = item, None
        if as_tuples:
            if not isinstance(item, tuple | list) or len(item) != 2:
                hint = "With as_tuples, pass pairs of a text and its context."
                raise TreefineError(f"Item {number} of the texts is not a pair but {described(item)}.", hint=hint)
            text, context = item
        if not isinstance(text, str):
            hint = "Pass as_tuples=True for pairs." if isinstance(text, tuple) else ""
            raise TreefineError(f"Item {number} of the texts is not a string but {described(text)}.", hint=hint)
        yield text, context


def first_texts(pairs: Iterator[tuple[str, _Context]], most: int) -> list[tuple[str, _Context]]:
    """Read the next texts of a `pipe`: at most this many, and fewer if they are long."""
    group: list[tuple[str, _Context]] = []
    n_characters = 0
    while len(group) < most and n_characters < _CHARACTERS_AT_ONCE and (pair := next(pairs, None)) is not None:
        group.append(pair)
        n_characters += len(pair[0])
    return group
