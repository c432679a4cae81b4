"""Apps with tiny parsers with random weights, and a real server, for tests."""

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import uvicorn

from tests.support.tiny import tiny_model
from tests.support.tiny_segmenter import MULTIWORDS, tiny_network, tiny_segmenter
from treefine.config import COLUMNS, TagSettings
from treefine.parsing.parser import Parser
from treefine.segmenter.network import Alphabet
from treefine.segmenter.segmenter import Segmenter, TokenizationRules
from treefine.serving.app import create_app
from treefine.serving.gate import connection_class
from treefine.serving.limits import ServerLimits

PREDICTED = TagSettings("predicted", COLUMNS)
TREEBANKS = ("da_ddt", "sv_lines", "sv_talbanken")


def tiny_tagging_parser():
    """Return a parser that segments text, predicts tags and parses."""
    return Parser(tiny_model(tags=PREDICTED), device="cpu", segmenter=tiny_segmenter())


def tiny_parser_of_two(**options):
    """Return a parser of Danish and Swedish text, with two Swedish treebanks."""
    model = tiny_model(tags=PREDICTED, treebanks=TREEBANKS)
    model.settings = replace(model.settings, languages=("da", "sv"), main_treebanks=("da_ddt", "sv_talbanken"))
    habits = {code: TokenizationRules(MULTIWORDS, most_spaces=1) for code in ("", *TREEBANKS)}
    network = tiny_network(n_treebanks=len(TREEBANKS))
    segmenter = Segmenter(network, Alphabet("ab .'\n12é中", 50), habits, treebanks=TREEBANKS)
    return Parser(model, device="cpu", segmenter=segmenter, **options)


@contextmanager
def listening(parsers, **options):
    """Run a real server with these parsers on a free port, and yield its address."""
    connection = connection_class(options.get("limits") or ServerLimits())
    with running(create_app(parsers, **options), http=connection) as address:
        yield address


@contextmanager
def running(app, *, port=0, **settings):
    """Run a real server with this app on a port, 0 for a free one, and yield its address."""
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol, which those of create_server lack.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server can start again on the same port
    bound.bind(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", **settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server does not stop"
        bound.close()
