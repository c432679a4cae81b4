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
from treefine.segmenter.segmenter import Habits, Segmenter
from treefine.serving.app import create_app
from treefine.serving.connections import connection_class
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
    habits = {code: Habits(MULTIWORDS, most_spaces=1) for code in ("", *TREEBANKS)}
    network = tiny_network(n_treebanks=len(TREEBANKS))
    segmenter = Segmenter(network, Alphabet("ab .'\n12é中", 50), habits, treebanks=TREEBANKS)
    return Parser(model, device="cpu", segmenter=segmenter, **options)


@contextmanager
def listening(parsers, **options):
    """Run a real server with these parsers on a free port, and yield its address."""
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol, which those of create_server lack.
    free = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    free.bind(("127.0.0.1", 0))
    connection = connection_class(options.get("limits") or ServerLimits())
    server = uvicorn.Server(uvicorn.Config(create_app(parsers, **options), http=connection, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [free]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{free.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        free.close()
