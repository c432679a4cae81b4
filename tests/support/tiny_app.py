"""Apps over tiny parsers with random weights, and a server that listens, for tests."""

import socket
import threading
import time
from contextlib import contextmanager

import uvicorn

from tests.support.tiny import tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.config import TagSettings
from treefine.parsing.parser import Parser
from treefine.serving.app import create_app

PREDICTED = TagSettings(source="predicted", columns=("upos", "xpos"))


def tiny_tagging_parser():
    """A parser that does all that can be asked of one: it cuts text, predicts tags, and parses."""
    return Parser(tiny_model(tags=PREDICTED), device="cpu", segmenter=tiny_segmenter())


@contextmanager
def listening(parsers, **options):
    """The address of a real server over these parsers, on a free port."""
    # asyncio sends without delay on sockets that say that they are TCP; create_server's do not.
    free = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    free.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(parsers, **options), log_level="warning"))
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
