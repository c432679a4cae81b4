"""The annotate command."""

from __future__ import annotations

import signal
import socket
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import typer

from treefine.cli.options import DEVICE, THREADS, argument, model_option, option
from treefine.cli.serve import bound_socket
from treefine.cli.terminal import say, warn
from treefine.errors import TreefineError
from treefine.jobs.inputs import files_named

_PORT = 8090


def annotate_command(
    treebanks: list[str] | None = argument(
        None, "[FILES]...", "CoNLL-U files, folders or quoted patterns. Without any, an example opens.", shown=False
    ),
    against: str = option(
        "", "--against FILE", "Also show the trees of this file, and sort the sentences by differences."
    ),
    adjudicate: str = option(
        "",
        "--adjudicate OUT",
        "Decide between two FILES of the same sentences; the result is OUT, a copy of the first at the start.",
    ),
    marks: bool = option(
        True,
        "--marks/--no-marks",
        "Write # treefine_status and Keep= to the file; otherwise they are only in the journal.",
    ),
    learn: bool = option(
        False, "--learn", "Fine-tune a copy of the model on the sentences that are done; it is offered if it helps."
    ),
    model: str | None = model_option(
        "Bundled model, folder of a model, OWNER/NAME on the Hugging Face hub, or none for no parser.",
        shown="the model of the language",
    ),
    language: str | None = option(
        None,
        "--lang CODE",
        "Language of the files, such as sv, or a treebank such as sv_talbanken.",
        shown="identified from the text",
    ),
    port: int = option(_PORT, "--port PORT", "Port of the page; 0 picks a free one.", min=0, max=65535),
    browser: bool = option(True, "--browser/--no-browser", "Open the page in a browser."),
    device: str | None = DEVICE,
    threads: int | None = THREADS,
) -> None:
    """Correct treebank files in the browser, with a parser's help.

    The parser follows each correction. Nothing changes until you change it. Every change is saved at once; the journal
    and a copy of the original are in FILE.annotation. Only this machine can open the page. Ctrl-C ends the command.
    """
    try:
        import uvicorn

        from treefine.studio.app import create_studio
        from treefine.studio.project import SessionOptions, opened
    except ImportError as error:
        hint = "Install it with: pip install 'treefine[serve]'"
        raise TreefineError(f"The page needs {error.name}.", hint=hint) from error
    options = SessionOptions(against, adjudicate, marks, learn, model, language, device, threads)
    with _listening(port) as bound, opened(_paths(treebanks or []), options, warn) as project:
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


def _paths(arguments: Sequence[str]) -> list[str]:
    """Return the files that the arguments name, each once."""
    paths: dict[Path, str] = {}
    for name in arguments:
        if name == "-":
            raise TreefineError("Standard input cannot be annotated.", hint="Name a file.")
        for path in [file for file, _ in files_named(name, [".conllu"])] or [name]:
            paths.setdefault(Path(path).resolve(), path)
    return list(paths.values())


def _listening(port: int) -> socket.socket:
    """Return a socket on this port, or on a free one if the default port is in use."""
    try:
        return bound_socket("127.0.0.1", port)
    except TreefineError:
        if port != _PORT:
            raise
        return bound_socket("127.0.0.1", 0)
