"""A session: files are opened in a studio, with the parser of their language, and closed at the end."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from treefine.cores import use_threads
from treefine.errors import TreebankError, TreefineError
from treefine.model.bundled import EXTRA_MODEL, find_model, model_for
from treefine.segmenter.language import identify
from treefine.studio.document import Document, check_is_conllu
from treefine.studio.learn import CorrectionLearner
from treefine.studio.partner import Partner
from treefine.studio.project import Project, Reference
from treefine.treebank.conllu import Unreadable
from treefine.treebank.files import open_input, open_output
from treefine.treebank.sentence import own_text

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser

_SAMPLE = 60  # sentences from which the language is identified


@dataclass(frozen=True)
class SessionOptions:
    """What a session opens besides its files."""

    against: str = ""  # a file of another annotator
    adjudicate: str = ""  # the result of deciding between two files
    has_marks: bool = True
    learns: bool = False
    model: str | None = None  # "none": no parser; None: that of the language
    language: str | None = None  # None: identified
    device: str | None = None
    threads: int | None = None


@contextmanager
def opened(paths: Sequence[str], options: SessionOptions, warn: Callable[[str], None]) -> Iterator[Project]:
    """Open files, or an example without any, and close them at the end. Nothing is left of a session that fails."""
    if options.learns and options.model == "none":
        raise TreefineError("--learn needs a model.", hint="Name it with --model.")
    if options.model not in (None, "none") and "/" not in options.model and not Path(options.model).exists():
        find_model(options.model)  # raises an error; a folder or a model on the hub is only known when it is loaded
    with ExitStack() as stack:
        references, edited = _references(paths or [stack.enter_context(_example())], options)
        documents = []
        for path in edited:
            documents.append(stack.enter_context(closing(Document(path, has_marks=options.has_marks))))
            _check_has_sentence(documents[-1])
        languages = [options.language or _language_of(document) for document in documents]
        is_shown = threading.Event()
        partner = learner = None
        if (chosen := model_of(options.model, options.language, languages[0], warn)) is not None:
            name, code = chosen
            if options.learns:
                learner = CorrectionLearner(name, documents[0].folder / "learning", language=code or "")
                name = learner.present

            def load(name: str) -> Parser:
                from treefine.parsing.parser import Parser  # loads torch

                use_threads(options.threads)
                return Parser.from_pretrained(name, device=options.device, language=code)

            partner = Partner(load, name, is_shown=is_shown)
        project = stack.enter_context(
            closing(
                Project(
                    documents,
                    partner=partner,
                    references=references,
                    languages=languages,
                    learner=learner,
                    is_example=not paths,
                    is_shown=is_shown,
                )
            )
        )
        yield project
        project.close()
        for document in documents:
            if document.fault:
                warn(document.fault)


def _references(paths: Sequence[str], options: SessionOptions) -> tuple[list[Reference], Sequence[str]]:
    """Return the trees of other annotators, and the files to edit."""
    against, result = options.against, options.adjudicate
    if not result:
        return [Reference.read(against, Path(against).name)] if against else [], paths
    if against:
        raise TreefineError("--against and --adjudicate cannot be combined.", hint="Leave one of them out.")
    if len(paths) != 2:
        raise TreefineError(f"--adjudicate needs two files, not {len(paths)}.", hint="Name those of A and B.")
    names = [Path(path).name for path in paths]
    names = names if len(set(names)) == 2 else list(paths)
    references = [Reference.read(path, name) for path, name in zip(paths, names, strict=True)]
    if len(references[0].sentences) != len(references[1].sentences):
        counts = " and ".join(f"{len(reference.sentences):,}" for reference in references)
        raise TreefineError(f"The files have {counts} sentences.", hint="Adjudicate files of the same sentences.")
    if not Path(result).exists():
        for path in (paths[0], result):
            check_is_conllu(Path(path))
        with open_input(paths[0]) as source, open_output(result) as copy:
            shutil.copyfileobj(source, copy)
    elif any(Path(result).samefile(path) for path in paths):
        raise TreefineError("The result cannot be one of the two files.", hint="Name another file for OUT.")
    return references, [result]


def _check_has_sentence(document: Document) -> None:
    """Raise an error if no block of lines is a valid sentence: the file is probably not CoNLL-U."""
    if next(document.sentences(), None) is None:
        first = document.sentence(document.keys[0])
        assert isinstance(first, Unreadable)
        fault, hint = first.faults[0], "If this is a text, parse it first: treefine parse FILE -o FILE.conllu"
        raise TreebankError(fault.message, path=str(document.path), line=fault.line, hint=hint)


def _language_of(document: Document) -> str:
    sample = " ".join(own_text(sentence) for _, sentence in islice(document.sentences(), _SAMPLE))
    return identify(sample).language


def model_of(
    model: str | None, language: str | None, identified: str, warn: Callable[[str], None]
) -> tuple[str, str | None] | None:
    """Return the model and its option `language`; None, with a warning, if no model knows the language."""
    if model == "none":
        return None
    if model is not None:  # a model of one language needs no option, and the identified language may be wrong
        needs_language = model == EXTRA_MODEL and model_for(identified) is not None
        return model, language or (identified if needs_language else None)
    language = language or identified
    found = model_for(language) if language else None
    if found is None:
        what = f"the language {language}" if language else "this language"
        warn(f"No installed model knows {what}, so the files open without a parser. Name one with --model.")
        return None
    name, code = found
    return name, None if name == "en" else code


@contextmanager
def _example() -> Iterator[str]:
    """Yield a copy of the example, which is removed at the end."""
    with tempfile.TemporaryDirectory() as folder, as_file(files("treefine.studio").joinpath("example.conllu")) as path:
        copy = Path(folder, path.name)
        shutil.copyfile(path, copy)
        yield str(copy)
