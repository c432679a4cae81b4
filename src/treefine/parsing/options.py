"""The options of a parser, stated once, and the forms in which a parser accepts texts and sentences.

The command line, the server's schema, spaCy's config and the documentation are generated from `OPTIONS`.
"""
# The types of the options are read at run time, so annotations in this module are not postponed.

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from numbers import Real
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from treefine.config import STEPS, STEPS_FROM_EMPTY, Precision, Speed, TagChoice
from treefine.errors import TreefineError, described, is_whole_number
from treefine.parsing.initial import InitialParser
from treefine.treebank.constraints import Constraints, Keep
from treefine.treebank.sentence import HasSentence, Sentence, is_list_like, sentence_in

if TYPE_CHECKING:
    import torch

    from treefine.parsing.parser import Parser

Initial: TypeAlias = Union[str, os.PathLike[str], "Parser", InitialParser]
"""An initial parser; see `ParserOptions`."""
Trust: TypeAlias = float | Literal["auto"]
"""How much the arcs of an initial parser count."""
Device: TypeAlias = Union[str, "torch.device"]

CAUTIOUS_TRUST = 1.0  # where trees come one by one, so that nothing can be estimated
MOST_TRUST = 1_000  # far above any difference of scores


@dataclass(frozen=True)
class Option:
    """What is known about one option of a parser."""

    name: str
    type: Any  # of its values, apart from None
    help: str
    default: str  # what None stands for
    flag: str  # on the command line
    metavar: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    in_python: str = ""  # more help, about values that only a Python program can pass
    accepts: Callable[[object], bool] | None = None  # the check of a type that is not checked generically …
    needs: str = ""  # … and what the value must be
    text_type: Any = None  # the type on the command line, if it differs …
    from_text: Callable[[Any], object] = lambda value: value  # … and how to turn it into a value

    @property
    def full_help(self) -> str:
        """The help for a Python program."""
        return f"{self.help} {self.in_python}".strip()

    @property
    def needed(self) -> str:
        """What a value must be, for a message."""
        if self.needs:
            return self.needs
        if get_origin(self.type) is Literal:
            *names, last = [f'"{each}"' for each in get_args(self.type)]
            return f"{', '.join(names)} or {last}"
        limits = f"from {self.at_least} to {self.at_most}" if self.at_most is not None else f"from {self.at_least}"
        return {bool: "True or False", int: f"a whole number {limits}", float: f"a number {limits}"}[self.type]

    def accepted(self, value: Any) -> bool:
        """Return whether a value has the right type and is within the limits."""
        if self.accepts is not None:
            return self.accepts(value)
        if get_origin(self.type) is Literal:
            return isinstance(value, str) and value in get_args(self.type)
        if self.type is bool or self.type is str:
            return isinstance(value, self.type)
        is_number = is_whole_number(value) if self.type is int else _is_number(value)
        return is_number and self.at_least <= value <= (self.at_most or float("inf"))


def parser_option(help: str, *, default: str, flag: str, **others: Any) -> Any:
    """Declare a field of `ParserOptions`; the arguments are the fields of `Option`."""
    return field(default=None, metadata={"help": help, "default": default, "flag": flag, **others})


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_initial(value: object) -> bool:
    several = value if isinstance(value, list | tuple) else [value]
    return bool(several) and all(isinstance(each, str | os.PathLike) or callable(each) for each in several)


def _is_trust(value: object) -> bool:
    several: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    return all(each == "auto" or (_is_number(each) and 0 <= each <= MOST_TRUST) for each in several)


def _trust_from_text(text: str) -> Trust | list[Trust]:
    """Return the value of --trust: auto, a weight, or several of them, separated by commas."""
    weights: list[Trust] = []
    for each in text.split(","):
        try:
            weights.append("auto" if each.strip() == "auto" else float(each))
        except ValueError:
            message = f"--trust must be auto or a number, not {each.strip()!r}."
            raise TreefineError(message, hint="Write --trust auto, --trust 1.5, or --trust 1.5,0.5.") from None
    return weights[0] if len(weights) == 1 else weights


@dataclass(frozen=True)
class ParserOptions:
    """The options of a parser. An option that is None has its default, which may depend on the model."""

    initial: Initial | Sequence[Initial] | None = parser_option(
        'The initial parse: "empty"; the folder of another model; or a file of the same text. Several are combined: '
        "the first one gives the initial graph, and the arcs of all are evidence.",
        in_python='"given" stands for the trees in the sentences. A Parser, a function from `treefine.parsing.initial` '
        "and a list of all these are possible too.",
        default='the initial parser saved with the model, or else "empty"',
        flag="--initial",
        metavar="empty|DIR|FILE",
        accepts=_is_initial,
        needs='"empty", "given", a path, a Parser, a function or a list of these',
        text_type=list[str],
        from_text=lambda values: values[0] if len(values) == 1 else values or None,
    )
    trust: Trust | Sequence[Trust] | None = parser_option(
        "How much the arcs of the initial parse count: a weight that is added to the score of each of these arcs and "
        "of its label. 0 adds nothing, 3 suits trees that are better than the model's, and auto estimates the weight "
        "from the first sentences. Several initial parses may have one weight each, separated by commas.",
        default="auto for the trees of the input or of a file, otherwise 0",
        flag="--trust",
        metavar="auto|WEIGHT",
        accepts=_is_trust,
        needs=f'"auto" or a number from 0 to {MOST_TRUST:,}, or a list of them',
        text_type=str,
        from_text=_trust_from_text,
    )
    max_steps: int | None = parser_option(
        "Maximum number of refinement steps, T in the paper.",
        default=f"as in training; if the model does not record it, {STEPS}, or {STEPS_FROM_EMPTY} from an empty graph",
        flag="--steps",
        metavar="N",
        at_least=1,
    )
    stop_above: float | None = parser_option(
        "Stop refining a sentence when its mean word confidence exceeds this value. A lower value is faster and "
        "slightly less accurate; 1 refines until the tree no longer changes.",
        default="the model's setting (`en`: 1) if parsing starts from an empty graph, otherwise 1",
        flag="--stop-above",
        metavar="LIMIT",
        at_least=0,
        at_most=1,
    )
    speed: Speed | None = parser_option(
        '"fast" stops refining a sentence at the first step that is likely right; docs/speed.md says what it costs. A '
        "model without a setting for it ignores it.",
        default='"default"',
        flag="--speed",
    )
    tags: TagChoice | None = parser_option(
        'The tags that the model reads: "given" reads those of the input and predicts missing ones if the model can; '
        '"predicted" predicts all tags in the first step and reads them in later ones; "none" uses no tags. Blank '
        "tags, features and lemmas of the input are filled in, and others stay, unless the trees of the input are "
        'refined with "predicted", which replaces them.',
        in_python="A model trained with `tags.given` always reads these columns of the input.",
        default="as in training; the tags of the input stay",
        flag="--tags",
    )
    is_projective: bool | None = parser_option(
        "Find the best tree without crossing arcs.", default="False", flag="--projective"
    )
    keep: Keep | None = parser_option(
        'The heads and labels of the input to keep: "marked" keeps those marked in MISC (Keep=Arc, Keep=Head, '
        'Keep=Label), "given" all that are filled in, "nothing" none.',
        default='"marked"',
        flag="--keep",
    )
    k: int | None = parser_option(
        "Return the K best trees of each sentence, with their probabilities.",
        default="1",
        flag="--k",
        metavar="K",
        at_least=1,
    )
    language: str | None = parser_option(
        'The language of the input, for a model of several: a code such as "sv", an English name, or a treebank such '
        'as "sv_talbanken", whose habits the model then follows.',
        default="identified from the text",
        flag="--lang",
        metavar="CODE",
        needs='a code or a name, such as "sv" or "Swedish"',
    )
    device: Device | None = parser_option(
        'The device: "cpu", "cuda", "cuda:1", …',
        default="a GPU if there is one",
        flag="--device",
        metavar="DEVICE",
        accepts=lambda value: isinstance(value, str) or type(value).__module__ == "torch",
        needs='a name such as "cpu", or a torch.device',
        text_type=str,
    )
    precision: Precision | None = parser_option(
        'The precision of the model: "float32" or "int8" on a CPU; "float32", "float16" or "bfloat16" on a GPU.',
        default='the model\'s setting (`en`: int8 or float16), else "float32"',
        flag="--precision",
    )
    batch_pieces: int | None = parser_option(
        "Maximum number of sub-words in a batch, padding included; at most 1,000 on a CPU. If memory runs out, the "
        "batch is halved.",
        default="4000",
        flag="--batch-pieces",
        metavar="N",
        at_least=1,
    )

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not (option := OPTIONS[name]).accepted(value):
                raise TreefineError(f"The option {name} must be {option.needed}, not {described(value)}.")

    @property
    def set_options(self) -> dict[str, Any]:
        """The options that are not None, as keyword arguments."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def updated(self, changes: Mapping[str, object]) -> "ParserOptions":
        """Return these options with some changed.

        A new `initial` resets `trust`, `max_steps` and `stop_above` unless they are changed too.
        """
        changed = options_of(changes).set_options
        kept = replace(self, trust=None, max_steps=None, stop_above=None) if "initial" in changed else self
        return replace(kept, **changed)


def _without_none(kind: Any) -> Any:
    kinds = [each for each in get_args(kind) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 else Union[tuple(kinds)]  # noqa: UP007


OPTIONS: Mapping[str, Option] = {
    each.name: Option(name=each.name, type=_without_none(each.type), **each.metadata) for each in fields(ParserOptions)
}
ParserOptions.__doc__ = "\n\n".join(
    [
        cast("str", ParserOptions.__doc__),
        *(
            textwrap.fill(f"{each.name}: {each.full_help} Default: {each.default}.", 116, subsequent_indent="    ")
            for each in OPTIONS.values()
        ),
    ]
)


def options_of(values: Mapping[str, object]) -> ParserOptions:
    """Return the options with these names and values; raise an error for an unknown name or a wrong value."""
    for name in values:
        if name not in OPTIONS:
            close = get_close_matches(name, OPTIONS, 1)
            hint = f"Did you mean {close[0]}?" if close else f"The options are {', '.join(OPTIONS)}."
            raise TreefineError(f"A parser has no option {name!r}.", hint=hint)
    return ParserOptions(**cast("dict[str, Any]", values))


_CHARACTERS_AT_ONCE = 1 << 16  # in a group of texts, without the last one

Words = Sentence | HasSentence | Sequence[str]
"""One sentence to parse: a Sentence, a Parse, or a list of words."""
ConstraintsLike = Constraints | Mapping[str, Mapping[int, Any]] | None
"""The constraints of one sentence: a Constraints, a dictionary with the names of its fields, or None."""


def sentence_of(words: Words) -> Sentence:
    """Return the sentence itself, that of a Parse, or a new sentence of these words."""
    sentence = sentence_in(words)
    if sentence is not None:
        return sentence
    if not is_list_like(words):
        hint = 'Split it into words, as in ["A", "dog"], or parse a text with parser(text).'
        raise TreefineError(f"A sentence must be a list of words or a Sentence, not {described(words)}.", hint=hint)
    return Sentence.of_words(cast("Sequence[str]", words))  # which checks the words


def checked_sentences(sentences: Iterable[Words]) -> Iterator[Sentence]:
    """Yield each of these sentences; an error names the number of the sentence."""
    if sentence_in(sentences) is not None or not is_list_like(sentences):
        hint = "Put one sentence into a list, or parse a text with parser(text)."
        raise TreefineError(f"The sentences must be a list or an iterator, not {described(sentences)}.", hint=hint)
    for number, words in enumerate(sentences, start=1):
        try:
            sentence = sentence_of(words)
        except TreefineError as error:
            error.sentence = error.sentence or number
            raise
        yield sentence if sentence.line else replace(sentence, number=number)  # those of a file have numbers


def one_or_several(sentences: Words | Iterable[Words]) -> tuple[list[Words], bool]:
    """Return a list of the sentences to parse, and whether the user passed only one sentence."""
    if sentence_in(sentences) is not None or not is_list_like(sentences):
        return [sentence_of(cast("Words", sentences))], True
    several = list(sentences)
    if several and isinstance(several[0], str):
        return [cast("list[str]", several)], True
    return cast("list[Words]", several), False


def checked_strings(texts: Iterable[str], what: str) -> Iterator[str]:
    """Yield each of these strings; a single string is a mistake."""
    if not is_list_like(texts):
        hint = "Pass an open file or a list of strings, or parse one text with parser(text)."
        raise TreefineError(f"The {what} must be a list or an iterator, not {described(texts)}.", hint=hint)
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise TreefineError(f"Item {number} of the {what} is not a string but {described(text)}.")
        yield text


def text_groups(items: Iterable[Any], most: int, *, as_tuples: bool) -> Iterator[list[tuple[str, Any]]]:
    """Yield the texts of a `pipe` with their contexts, at most `most` at a time, and fewer if they are long.

    The texts before one that causes an error come before the error.
    """
    group, n_characters = list[tuple[str, Any]](), 0
    pairs = items if as_tuples else ((text, None) for text in checked_strings(items, "texts"))
    try:
        for number, pair in enumerate(pairs, start=1):
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
                message = f"Item {number} of the texts is not a pair of a text and its context but {described(pair)}."
                raise TreefineError(message)
            group.append((pair[0], pair[1]))
            n_characters += len(pair[0])
            if len(group) == most or n_characters >= _CHARACTERS_AT_ONCE:
                yield group
                group, n_characters = [], 0
    except Exception:
        if group:
            yield group
        raise
    if group:
        yield group
