"""The "treefine" component of a spaCy pipeline: `nlp.add_pipe("treefine", config={"model": "en"})`.

spaCy imports this module whenever a pipeline is made, with us in it or not. So torch is not loaded here.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zipfile import ZipFile

from treefine.config import Precision, TagSource, read_settings
from treefine.errors import ModelError, TreefineError
from treefine.integrations.spacy_doc import (
    register_extensions,
    sentence_in,
    spacy_label,
    stretches,
    to_conllu,
    write_confidence,
    write_trees,
)
from treefine.model.bundled import bundled_models, find_model

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse
    from treefine.parsing.parser import Parser
    from treefine.treebank.sentence import Sentence

try:
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.pipeline.dep_parser import parser_score
    from spacy.scorer import Scorer
    from spacy.tokens import Doc
    from spacy.training import Example
    from spacy.util import minibatch
except ImportError as error:
    raise TreefineError("spaCy is not installed.", hint="Install it: pip install 'treefine[spacy]'") from error


__all__ = ["TreefineComponent", "create", "to_conllu"]


@dataclass(frozen=True)
class Options:
    """What a pipeline's config says of the component; None leaves a choice to the model."""

    model: str = "en"  # a bundled parser, the path of a folder, or OWNER/NAME on a hub
    initial: Literal["doc", "empty"] | None = None  # "doc": the heads and labels that the Doc has
    max_steps: int | None = None  # T
    stop_above: float | None = None  # how sure a sentence has to be to take no further step
    tags: TagSource | None = None  # "given": those that the Doc has
    confidence: bool = True  # whether tokens and sentences get their confidence; trees alone are faster
    device: str | None = None
    precision: Precision | None = None

    def __post_init__(self) -> None:
        # A name without a slash is a bundled one, so that a slip is told at once. A path is not: when a saved pipeline
        # is loaded, it may name a folder of another machine, and the model comes with the pipeline.
        if not {"/", "\\"} & set(self.model) and not self.is_bundled:
            hint = f"Choose {', '.join(bundled_models())}, or give the path of a folder, ./{self.model}"
            raise ModelError(f"There is no bundled model {self.model!r}.", hint=hint)

    @property
    def is_bundled(self) -> bool:
        """Whether the model comes with the package."""
        return self.model in bundled_models()

    def load(self, folder: Path) -> Parser:
        """The parser of a folder, with all that the folder holds, so that it can be saved whole."""
        from treefine.parsing.parser import Parser

        return Parser.from_pretrained(folder, tags=self.tags, device=self.device, precision=self.precision)

    def parser(self, whole: Parser) -> Parser:
        """The same parser with these options."""
        from treefine.parsing.initial import given, renamed

        initial = renamed(given, whole.model.vocabulary.labels) if self.initial == "doc" else self.initial
        return whole.using(initial=initial, max_steps=self.max_steps, stop_above=self.stop_above)


@Language.factory(  # type: ignore[untyped-decorator]
    "treefine",
    default_config=asdict(Options()),
    assigns=["token.head", "token.dep", "token.pos", "token.tag", "token.is_sent_start", "doc.sents"],
    default_score_weights={"dep_uas": 0.5, "dep_las": 0.5, "dep_las_per_type": None, "sents_f": 0.0},
)
def create(
    nlp: Language,
    name: str,
    model: Any,  # `Options` says what each may be: its faults take one line, and spaCy's own many
    initial: Any,
    max_steps: Any,
    stop_above: Any,
    tags: Any,
    confidence: Any,
    device: Any,
    precision: Any,
) -> TreefineComponent:
    """The component with these `Options`; a model that is on this machine is loaded at once."""
    config = {
        "model": model,
        "initial": initial,
        "max_steps": max_steps,
        "stop_above": stop_above,
        "tags": tags,
        "confidence": confidence,
        "device": device,
        "precision": precision,
    }
    options = read_settings(Options, config)
    register_extensions(confidence=options.confidence)
    return TreefineComponent(name, options)


class TreefineComponent(Pipe):  # type: ignore[misc]
    """What stands in the pipeline. Docs that come together are parsed together."""

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.options = options
        self._whole: Parser | None = None  # what is saved: it may have an initial parser that the options leave out
        self._parser: Parser | None = None
        self._process = os.getpid()
        if options.is_bundled or Path(options.model).is_dir():  # else it may come from the disk, or from a hub
            self._load(find_model(options.model))

    def _load(self, folder: Path) -> Parser:
        self._whole = self.options.load(folder)
        self._parser = self.options.parser(self._whole)
        return self._parser

    @property
    def parser(self) -> Parser:
        """The parser itself, for all that spaCy has no word for."""
        return self._parser or self._load(find_model(self.options.model))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that tokens can get; none before there is a model, for spaCy asks while it loads a pipeline."""
        known = () if self._parser is None else self._parser.model.vocabulary.labels
        return tuple(sorted(map(spacy_label, known)))

    def __call__(self, doc: Doc) -> Doc:
        """Parse one Doc."""
        self._parse([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse Docs, so many at a time; what fails alone goes to the error handler, and the others are parsed."""
        on_error = self.get_error_handler()
        for docs in minibatch(stream, size=batch_size):
            docs = list(docs)
            try:
                self._parse(docs)
            except Exception:  # one of them, or all: each is tried alone
                yield from self._one_by_one(docs, on_error)
            else:
                yield from docs

    def _one_by_one(self, docs: Iterable[Doc], on_error: Callable[..., Any]) -> Iterator[Doc]:
        for doc in docs:
            try:
                self._parse([doc])
            except Exception as error:
                on_error(self.name, self, [doc], error)
            else:
                yield doc

    def _parse(self, docs: Iterable[Doc]) -> None:
        """Parse the sentences of all Docs as one stream, and only then change any Doc."""
        docs, parser = list(docs), self._runnable()
        segment = None if parser.segmenter is None else partial(_places, parser)
        found = [stretches(doc, segment) for doc in docs]
        if self.options.initial == "doc":
            _check_parsed(docs)
        told = [
            sentence_in(doc, stretch, with_tags=parser.tags == "given", with_arcs=self.options.initial == "doc")
            for doc, some in zip(docs, found, strict=True)
            for stretch in some
            if stretch.words
        ]
        parsed: list[tuple[Sentence, Parse | None]] = (
            [(each.sentence, each) for each in parser.stream_parses(told)]
            if self.options.confidence
            else [(each, None) for each in parser.stream(told)]
        )
        rest = iter(parsed)
        for doc, some in zip(docs, found, strict=True):
            pairs = [next(rest) if stretch.words else (None, None) for stretch in some]
            write_trees(doc, some, [sentence for sentence, _ in pairs])
            for stretch, (_, parse) in zip(some, pairs, strict=True):
                if parse is not None:
                    write_confidence(doc, stretch, parse.word_confidences, parse.confidence)

    def _runnable(self) -> Parser:
        """The parser, in a process that was forked with the means to run it."""
        parser = self.parser
        if os.getpid() != self._process:
            import torch

            if parser.device.type != "cpu":
                hint = "Leave out n_process, or set device to cpu."
                raise TreefineError(f"A parser on {parser.device.type} cannot run in several processes.", hint=hint)
            torch.set_num_threads(1)  # the threads of the parent are not here, and torch would wait for them
            self._process = os.getpid()
        return parser

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """What `nlp.evaluate` tells: UAS, LAS, sentences and tags, as spaCy counts them."""
        listed = list(examples)
        tags = (Scorer.score_token_attr(listed, each, **kwargs) for each in ("pos", "tag"))
        return {name: value for scores in (parser_score(listed, **kwargs), *tags) for name, value in scores.items()}

    def to_disk(self, path: str | os.PathLike[str], *, exclude: Iterable[str] = ()) -> None:
        """Write the model's folder; of a bundled one nothing, for the name in the config says all."""
        if not self.options.is_bundled:
            whole = self._whole or self.options.load(find_model(self.options.model))
            whole.save(path)

    def from_disk(self, path: str | os.PathLike[str], *, exclude: Iterable[str] = ()) -> TreefineComponent:
        """Read the model's folder."""
        if not self.options.is_bundled:
            self._load(Path(path).resolve())  # so that no name is taken for a bundled one
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The model's folder as a ZIP file, an empty one for a bundled model."""
        target = BytesIO()
        with tempfile.TemporaryDirectory() as scratch, ZipFile(target, "w") as packed:
            folder = Path(scratch, "model")
            self.to_disk(folder)
            for path in sorted(folder.rglob("*")):
                packed.write(path, path.relative_to(folder))
        return target.getvalue()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> TreefineComponent:
        """Read such a folder."""
        with tempfile.TemporaryDirectory() as folder, ZipFile(BytesIO(data)) as packed:
            packed.extractall(folder)
            return self.from_disk(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        """Weights are never pickled; a process that is spawned reads the files."""
        return _restored, (self.name, self.options, self.to_bytes(), self.get_error_handler())


def _restored(name: str, options: Options, data: bytes, on_error: Callable[..., Any]) -> TreefineComponent:
    register_extensions(confidence=options.confidence)
    component = TreefineComponent(name, options).from_bytes(data)
    component.set_error_handler(on_error)
    return component


def _places(parser: Parser, text: str) -> Iterator[tuple[int, int]]:
    for each in parser.segment([text]):
        yield each.spans[0][0], each.spans[-1][1]


def _check_parsed(docs: Iterable[Doc]) -> None:
    for doc in docs:
        if not doc.has_annotation("DEP"):
            hint = "Put a parser before treefine, or leave `initial` out of its config."
            raise TreefineError('initial is "doc", but this Doc has no heads and labels.', hint=hint)
