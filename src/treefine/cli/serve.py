"""The commands that start a server: serve and annotate."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
import webbrowser
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from treefine.cli.options import DEVICE, THREADS, argument, model_option, option, with_options
from treefine.cli.terminal import say, warn
from treefine.cores import thread_count, torch_threads, use_threads
from treefine.errors import TreefineError
from treefine.jobs.inputs import files_named
from treefine.model.bundled import EXTRA_MODEL, bundled_models
from treefine.parsing.options import OPTIONS, ParserOptions
from treefine.serving.limits import ServerLimits

_MOST_WORKERS = 4
_PORT = 8090  # of annotate
_INSTALL = "Install it with: pip install 'treefine[serve]'"
_UVICORN: dict[str, Any] = {"ws": "none", "log_config": None, "access_log": False, "server_header": False}
_DEFAULT_MODELS = ("en", EXTRA_MODEL)  # those of them that are installed


@with_options(without=OPTIONS.keys() - {"device", "precision"})
def serve_command(
    models: list[str] | None = option(
        None,
        "--model [NAME=]NAME|DIR",
        "Model, and its name for clients. Can be repeated; the first model is the default one.",
        shown="en, and multi if it is installed",
        names=bundled_models,
    ),
    host: str = option("127.0.0.1", "--host ADDRESS", "Address to listen on; 0.0.0.0 is open to other machines."),
    port: int = option(8080, "--port PORT", "Port to listen on; 0 picks a free one.", min=0, max=65535),
    *,
    limits: ServerLimits,
    allowed_host: list[str] | None = option(
        None,
        "--allowed-host NAME",
        "Also accept requests for this host; * is any. Can be repeated.",
        shown="IP addresses",
    ),
    allow_origin: list[str] | None = option(
        None, "--allow-origin URL", "Let web pages of this origin send requests (CORS); * is any. Can be repeated."
    ),
    root_path: str = option("", "--root-path PATH", "Path of treefine behind a reverse proxy, such as /treefine."),
    options: ParserOptions,
    threads: int | None = THREADS,
    workers: int | None = option(
        None,
        "--workers N",
        "Processes per model that share the CPU threads. Each takes the memory of a model.",
        shown=f"one per thread, at most {_MOST_WORKERS}; 0 with one thread",
        min=0,
    ),
) -> None:
    """Serve parsers over HTTP: web page, JSON API, UDPipe API.

    The web page shows trees step by step. /openapi.json describes the JSON API; /metrics has metrics for Prometheus.
    After Ctrl-C or SIGTERM the server finishes running requests before it exits.
    """
    try:
        import uvicorn

        from treefine.serving.app import create_app
        from treefine.serving.gate import connection_class, raise_file_limit

        import_module("python_multipart")  # Starlette imports it only when a form arrives
    except ImportError as error:
        raise TreefineError(f"The server needs {error.name}.", hint=_INSTALL) from error
    from treefine.parsing.parser import Parser  # loads torch

    named = _named(models or [each for each in _DEFAULT_MODELS if each in bundled_models()] or ["en"])
    n_files = raise_file_limit()  # the server needs files for itself too
    limits = replace(limits, connections=min(limits.connections, n_files * 3 // 4))
    with bound_socket(host, port) as bound:  # before loading models, to report a used port at once
        use_threads(threads)
        with torch_threads(1):  # with more, OpenMP threads of this thread would compete with those that parse
            parsers = {name: Parser.from_pretrained(path, **options.set_options) for name, path in named.items()}
        if workers is None:  # none on a GPU, on Windows, or with only one thread
            may_start = os.name != "nt" and all(each.device.type == "cpu" for each in parsers.values())
            workers = min(thread_count(), _MOST_WORKERS) if may_start and thread_count() > 1 else 0
        hosts = [host, *(allowed_host or ())]
        app = create_app(parsers, limits=limits, hosts=hosts, origins=allow_origin or (), workers=workers)
        logging.basicConfig(level=logging.WARNING, format="treefine: %(message)s")
        config = uvicorn.Config(
            app,
            http=connection_class(limits),
            root_path=root_path,
            timeout_keep_alive=75,  # longer than any Retry-After
            timeout_graceful_shutdown=math.ceil(limits.seconds) + 1,
            **_UVICORN,
        )
        bound.listen(config.backlog)
        address = f"[{host}]" if ":" in host else host
        say(f"treefine: http://{address}:{bound.getsockname()[1]}/ ({', '.join(parsers)})")
        uvicorn.Server(config).run(sockets=[bound])


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to this address."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        if os.name != "nt":  # on Windows it would let two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        return bound
    except OSError as error:
        bound.close()
        hint = "Choose a different --port or --host."
        raise TreefineError(f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint=hint) from error


def _named(models: list[str]) -> dict[str, str]:
    """Return the models by their names for clients: the part before =, else the last part of the path.

    >>> _named(["en", "models/tr-imst/", "old=models/2024", "a=b/c"])
    {'en': 'en', 'tr-imst': 'models/tr-imst/', 'old': 'models/2024', 'a': 'b/c'}
    """
    named: dict[str, str] = {}
    for model in models:
        name, is_named, path = model.partition("=")
        if not is_named or "/" in name:  # the = is part of a path
            name, path = model.rstrip("/\\").replace("\\", "/").rpartition("/")[2], model
        if not name or name in named:
            hint = "Give each model a unique name: --model NAME=DIR."
            raise TreefineError(f"Two models have the name {name!r}." if name else f"{model!r} has no name.", hint=hint)
        named[name] = path
    return named


def annotate_command(
    treebanks: list[str] | None = argument(
        None, "[FILES]...", "CoNLL-U files, folders or quoted patterns. Without any, an example opens.", shown=False
    ),
    against: str = option("", "--against FILE", "Also show the trees of this file; sort sentences by differences."),
    adjudicate: str = option("", "--adjudicate OUT", "Decide between two FILES; OUT starts as a copy of the first."),
    marks: bool = option(True, "--marks/--no-marks", "Write # treefine_status and Keep= to the file."),
    learn: bool = option(
        False, "--learn", "Fine-tune a copy of the model on finished sentences; offer it if it helps."
    ),
    model: str | None = model_option("Model, or none for no parser.", shown="the model of the language"),
    language: str | None = option(
        None,
        "--lang CODE",
        "Language, such as sv, or a treebank such as sv_talbanken.",
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
        raise TreefineError(f"The page needs {error.name}.", hint=_INSTALL) from error
    options = SessionOptions(against, adjudicate, marks, learn, model, language, device, threads)
    paths: dict[Path, str] = {}  # each file once
    for name in treebanks or ():
        if name == "-":
            raise TreefineError("Standard input cannot be annotated.", hint="Name a file.")
        for path in [file for file, _ in files_named(name, [".conllu"])] or [name]:
            paths.setdefault(Path(path).resolve(), path)
    try:
        bound = bound_socket("127.0.0.1", port)
    except TreefineError:
        if port != _PORT:
            raise
        bound = bound_socket("127.0.0.1", 0)
    with bound, opened(list(paths.values()), options, warn) as project:
        token = project.documents[0].token()
        address = f"http://127.0.0.1:{bound.getsockname()[1]}/{token}/"
        app = create_studio(project, token=token)
        config = uvicorn.Config(app, timeout_graceful_shutdown=1, **_UVICORN)
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
