"""A studio on a small file in a temporary folder, and a browser to look at its page with."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.serving.conftest import browser, check, watched  # noqa: F401
from tests.support import studio as support
from tests.support.studio import TREES
from tests.support.tiny_app import running
from treefine.studio import document
from treefine.studio.app import create_studio
from treefine.studio.document import Document
from treefine.studio.project import Project

MEASURES = Path(support.__file__).with_name("studio_measures.js").read_text(encoding="utf-8")
WELCOMED = "localStorage.getItem('treefine-welcomed') ?? localStorage.setItem('treefine-welcomed', 'yes')"


@pytest.fixture(name="path")
def trees_path(tmp_path):
    """Return the path of a file with three sentences."""
    path = tmp_path / "trees.conllu"
    path.write_text(TREES)
    return path


@pytest.fixture
def open_file(path):
    """Return a function that opens a file; after the test, all files are closed."""
    with ExitStack() as documents:

        def make(file=path, **options):
            opened = Document(file, **options)
            documents.callback(opened.close)
            return opened

        yield make


@pytest.fixture
def unsaved(monkeypatch):
    """Write files only when a test calls `save` or `close`."""
    monkeypatch.setattr(Document, "_save_when_changed", lambda self: None)


@pytest.fixture
def open_project(tmp_path):
    """Return a function that opens texts as the files of a project; after the test, all are closed."""
    with ExitStack() as projects:

        def make(*texts, **options):
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            documents = []
            for name, text in zip("abcd", texts or (TREES,), strict=False):
                path = folder / f"{name}.conllu"
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
                documents.append(Document(path))
            project = Project(documents, **options)
            projects.callback(project.close)
            return project

        yield make


@dataclass
class Studio:
    """Files that are open in a studio, and a function that opens a page with its first sentence."""

    project: Project
    open: Callable

    @property
    def document(self):
        """The first file."""
        return self.project.documents[0]

    def on_disk(self):
        """Return the first file after the studio is closed."""
        self.project.close()
        return self.document.path.read_text()


@pytest.fixture(scope="session")
def desk():
    """Return a server whose app each test replaces, because starting one takes as long as a test."""
    desk = SimpleNamespace()

    async def app(scope, receive, send):
        await desk.app(scope, receive, send)

    with running(app) as address:
        desk.address = f"{address}/"
        yield desk


@pytest.fixture
def new_page(browser, desk):  # noqa: F811
    """Return a function that opens pages; after the test, check that nothing failed in them."""
    faults = []
    with ExitStack() as contexts:

        def make(*, beside=None, address=desk.address, has_clock=False, **options):
            """Open a page in a tab beside another, or in a context of its own.

            A page with a clock of the test waits for nothing: `page.clock.run_for`.
            """
            if beside is None:
                options = {"viewport": {"width": 1280, "height": 800}} | options
                context = contexts.enter_context(browser.new_context(**options))
                context.add_init_script(f"globalThis.measures = {MEASURES}")
                context.add_init_script(f"if (origin !== 'null') {WELCOMED}")
                if has_clock:
                    context.clock.install()
            page = watched((beside.context if beside else context).new_page(), address, faults)
            page.goto(address)
            page.wait_for_function("() => document.getElementById('place').textContent")
            return page

        yield make
    check(faults)


@pytest.fixture
def open_studio(desk, new_page, open_project, monkeypatch):
    """Return a function that opens texts as files of a studio."""
    monkeypatch.setattr(document, "_PAUSE", 0.0)  # seconds between two times that the file is written

    def make(*texts, **options):
        project = open_project(*texts, **options)
        desk.app = create_studio(project)
        return Studio(project, new_page)

    return make


@pytest.fixture
def studio(open_studio):
    """Return a studio on three short sentences, without a parser."""
    return open_studio(TREES)


@pytest.fixture
def page(studio):
    """Return a page with the first sentence."""
    return studio.open()
