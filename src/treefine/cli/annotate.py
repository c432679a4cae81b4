"""The annotate command."""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefine.cli.parse import DeviceOption, ThreadsOption, chosen_model
from treefine.cli.serve import bound_socket
from treefine.cli.terminal import completing, say, warn
from treefine.cores import use_threads
from treefine.errors import TreebankError, TreefineError
from treefine.jobs.inputs import files_named
from treefine.model.bundled import EXTRA_MODEL, bundled_models, find_model, model_for
from treefine.segmenter.language import identify
from treefine.treebank.conllu import Unreadable
from treefine.treebank.files import open_input, open_output
from treefine.treebank.raw_text import own_text

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser
    from treefine.studio.document import Document
    from treefine.studio.project import Project, Reference

_SAMPLE = 60  # sentences from which the language is identified
_PORT = 8090


def annotate_command(
    treebanks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]...",
            help="CoNLL-U files, folders or quoted patterns. Without any, an example opens.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            "--against", metavar="FILE", help="Also show the trees of this file, and sort the sentences by differences."
        ),
    ] = "",
    adjudicate: Annotated[
        str,
        typer.Option(
            "--adjudicate",
            metavar="OUT",
            help="Decide between two FILES of the same sentences; the result is OUT, a copy of the first at the start.",
        ),
    ] = "",
    marks: Annotated[
        bool,
        typer.Option(
            "--marks/--no-marks",
            help="Write # treefine_status and Keep= to the file; otherwise they are only in the journal.",
        ),
    ] = True,
    learn: Annotated[
        bool,
        typer.Option(
            "--learn", help="Fine-tune a copy of the model on the sentences that are done; it is offered if it helps."
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME|DIR",
            help="Bundled model, folder of a model, OWNER/NAME on the Hugging Face hub, or none for no parser.",
            autocompletion=completing(bundled_models),
            show_default="the model of the language",
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--lang",
            metavar="CODE",
            help="Language of the files, such as sv, or a treebank such as sv_talbanken.",
            show_default="identified from the text",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port of the page; 0 picks a free one.")
    ] = _PORT,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Correct treebank files in the browser, with a parser's help.

    The parser follows each correction. Nothing changes until you change it. Every change is saved at once; the journal
    and a copy of the original are in FILE.annotation. Only this machine can open the page. Ctrl-C ends the command.
    """
    try:
        import uvicorn

        from treefine.studio.app import create_studio
    except ImportError as error:
        hint = "Install it with: pip install 'treefine[serve]'"
        raise TreefineError(f"The page needs {error.name}.", hint=hint) from error
    with ExitStack() as stack:
        paths = _found(treebanks or [stack.enter_context(_example())])
        project = stack.enter_context(
            _opened(
                paths,
                against=against,
                adjudicate=adjudicate,
                marks=marks,
                learn=learn,
                model=model,
                language=language,
                device=device,
                threads=threads,
                is_example=not treebanks,
            )
        )
        bound = stack.enter_context(_listening(port))
        token = project.documents[0].token()
        address = f"http://127.0.0.1:{bound.getsockname()[1]}/{token}/"
        config = uvicorn.Config(
            create_studio(project, token=token),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        bound.listen(config.backlog)
        say(f"treefine: {address}")
        for document in project.documents:
            if document.notice:
                warn(document.notice)
        if project.agreement is not None:
            typer.echo(project.agreement.to_text())
        if browser:
            webbrowser.open(address)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # uvicorn raises it again at the end
        uvicorn.Server(config).run(sockets=[bound])


@contextmanager
def _opened(
    paths: Sequence[str],
    *,
    against: str,
    adjudicate: str,
    marks: bool,
    learn: bool,
    model: str | None,
    language: str | None,
    device: str | None,
    threads: int | None,
    is_example: bool,
) -> Iterator[Project]:
    """Open the files, and close them at the end."""
    from treefine.studio.document import Document
    from treefine.studio.partner import Partner
    from treefine.studio.project import Project

    if model not in (None, "none"):
        _check_model(model)
    is_new = bool(adjudicate) and not Path(adjudicate).exists()
    references, paths = _references(paths, against, adjudicate)
    documents: list[Document] = []
    try:
        for path in paths:
            documents.append(Document(path, has_marks=marks))
            _check_has_sentence(documents[-1])
        languages = [language or _language_of(each) for each in documents]
        chosen = _parser_of(model, language, languages[0]) if model != "none" else None
        partner = learner = None
        is_shown = threading.Event()
        if chosen is not None:
            name, code = chosen
            if learn:
                from treefine.studio.learn import CorrectionLearner

                learner = CorrectionLearner(name, documents[0].folder / "learning", language=code or "")
                name = learner.present

            def load(name: str) -> Parser:
                from treefine.parsing.parser import Parser  # loads torch

                use_threads(threads)
                return Parser.from_pretrained(name, device=device, language=code)

            partner = Partner(load, name, is_shown=is_shown)
        elif learn:
            raise TreefineError("--learn needs a model.", hint="Name it with --model.")
        project = Project(
            documents,
            partner=partner,
            references=references,
            languages=languages,
            learner=learner,
            is_example=is_example,
            is_shown=is_shown,
        )
    except BaseException:
        for each in documents:
            each.close()
        if is_new:
            Path(adjudicate).unlink(missing_ok=True)
        raise
    try:
        yield project
    finally:
        project.close()
        for each in documents:
            if each.fault:
                warn(each.fault)


def _references(paths: Sequence[str], against: str, adjudicate: str) -> tuple[list[Reference], list[str]]:
    """Return the trees of other annotators, and the files to edit."""
    from treefine.studio.document import check_is_conllu
    from treefine.studio.project import Reference

    if against and adjudicate:
        raise TreefineError("--against and --adjudicate cannot be combined.", hint="Leave one of them out.")
    if adjudicate:
        if len(paths) != 2:
            raise TreefineError(f"--adjudicate needs two files, not {len(paths)}.", hint="Name those of A and B.")
        names = _short_names(paths)
        found = [Reference.read(path, name) for path, name in zip(paths, names, strict=True)]
        if len(found[0].sentences) != len(found[1].sentences):
            counts = " and ".join(f"{len(each.sentences):,}" for each in found)
            hint = "Adjudicate files of the same sentences."
            raise TreefineError(f"The files have {counts} sentences.", hint=hint)
        if not Path(adjudicate).exists():
            for path in (paths[0], adjudicate):
                check_is_conllu(Path(path))
            with open_input(paths[0]) as source, open_output(adjudicate) as copy:
                shutil.copyfileobj(source, copy)
        elif any(Path(adjudicate).samefile(each) for each in paths):
            raise TreefineError("The result cannot be one of the two files.", hint="Name another file for OUT.")
        return found, [adjudicate]
    return [Reference.read(against, Path(against).name)] if against else [], list(paths)


def _short_names(paths: Sequence[str]) -> list[str]:
    names = [Path(each).name for each in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _found(arguments: Sequence[str]) -> list[str]:
    """Return the files that the arguments name, each once."""
    found: dict[Path, str] = {}
    for each in arguments:
        if each == "-":
            raise TreefineError("Standard input cannot be annotated.", hint="Name a file.")
        for path in [one.path for one in files_named(each, [".conllu"])] or [each]:
            found.setdefault(Path(path).resolve(), path)
    return list(found.values())


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


def _check_model(name: str) -> None:
    """Raise an error if no model can have this name. A folder or a model on the hub is only known when it is loaded."""
    if "/" not in name and not Path(name).exists():
        find_model(name)


def _parser_of(model: str | None, language: str | None, identified: str) -> tuple[str, str | None] | None:
    """Return the model and its option `language`; None, with a warning, if no model knows the language."""
    if model is not None:  # a model of one language needs no option, and the identified language may be wrong
        needs_language = model == EXTRA_MODEL and model_for(identified) is not None
        return model, language or (identified if needs_language else None)
    language = language or identified
    found = model_for(language) if language else None
    if found is None:
        what = f"the language {language}" if language else "this language"
        warn(f"No installed model knows {what}, so the files open without a parser. Name one with --model.")
        return None
    name, code = chosen_model(None, language)
    return name, None if name == "en" else code


@contextmanager
def _example() -> Iterator[str]:
    """Yield a copy of the example, which is removed at the end."""
    with tempfile.TemporaryDirectory() as folder, as_file(files("treefine.studio").joinpath("example.conllu")) as path:
        copy = Path(folder, path.name)
        shutil.copyfile(path, copy)
        yield str(copy)


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    """Yield a socket on this port, or on a free one if the default port is in use."""
    try:
        bound = bound_socket("127.0.0.1", port)
    except TreefineError:
        if port != _PORT:
            raise
        bound = bound_socket("127.0.0.1", 0)
    with bound:
        yield bound
