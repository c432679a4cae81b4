"""A studio on a small file in a temporary folder, and a browser to look at its page with."""

from dataclasses import dataclass

import pytest

import treefine
from tests.serving.conftest import browser, check, watched  # noqa: F401
from tests.support.studio_files import open_file, trees_path, unsaved  # noqa: F401
from tests.support.studio_pages import MEASURES, SIZE, TREES, Desk
from tests.support.tiny_app import running
from treefine.studio import document
from treefine.studio.app import create_studio
from treefine.studio.document import Document
from treefine.studio.partner import Partner
from treefine.studio.project import Project

WELCOMED = "localStorage.getItem('treefine-welcomed') ?? localStorage.setItem('treefine-welcomed', 'yes')"


@dataclass
class Studio:
    """Files that are open in a studio."""

    address: str
    project: Project
    pages: object

    @property
    def document(self):
        """The first file."""
        return self.project.documents[0]

    def open(self, **options):
        """Return a new page with the first sentence."""
        page = self.pages.new(**options)
        page.goto(self.address)
        page.wait_for_function("() => document.getElementById('place').textContent")
        return page

    def open_beside(self, page):
        """Return a second tab of the same browser."""
        second = self.pages.watch(page.context.new_page())
        second.goto(self.address)
        second.wait_for_function("() => document.getElementById('place').textContent")
        return second

    def on_disk(self):
        """Return the first file after the studio is closed."""
        self.project.close()
        return self.document.path.read_text()


class Pages:
    """Opens pages, each in a context of its own, and notes what fails in them."""

    def __init__(self, browser, address):  # noqa: F811
        self.browser, self.address, self.contexts, self.faults = browser, address, [], []

    def new(self, *, viewport=SIZE, has_clock=False, **options):
        """Return a page. A page with a clock of the test waits for nothing: `page.clock.run_for`."""
        context = self.browser.new_context(viewport=viewport, **options)
        self.contexts.append(context)
        context.add_init_script(f"globalThis.measures = {MEASURES}")
        context.add_init_script(f"if (origin !== 'null') {WELCOMED}")
        if has_clock:
            context.clock.install()
        return self.watch(context.new_page())

    def watch(self, page, address=""):
        return watched(page, address or self.address, self.faults)


@pytest.fixture(scope="session")
def desk():
    """Return the address of a server whose studio each test replaces, and the app."""
    app = Desk()
    with running(app) as address:
        yield f"{address}/", app


@pytest.fixture
def pages(browser, desk):  # noqa: F811
    """Return the pages; after the test, check that nothing failed in them."""
    pages = Pages(browser, desk[0])
    yield pages
    for context in pages.contexts:
        context.close()
    check(pages.faults)


@pytest.fixture
def open_project(tmp_path):
    """Return a function that opens texts as the files of a project; after the test, all are closed."""
    projects = []

    def make(*texts, **options):
        folder = tmp_path / f"project {len(projects)}"
        folder.mkdir()
        paths = [folder / f"{name}.conllu" for name, _ in zip("abcd", texts or (TREES,), strict=False)]
        for path, text in zip(paths, texts or (TREES,), strict=True):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        projects.append(Project([Document(path) for path in paths], **options))
        return projects[-1]

    yield make
    for each in projects:
        each.close()


@pytest.fixture
def open_studio(desk, pages, open_project, monkeypatch):
    """Return a function that opens texts as files of a studio."""
    monkeypatch.setattr(document, "_PAUSE", 0.0)  # seconds between two times that the file is written
    address, app = desk

    def make(*texts, **options):
        project = open_project(*texts, **options)
        app.app = create_studio(project)
        return Studio(address, project, pages)

    return make


@pytest.fixture
def studio(open_studio):
    """Return a studio on three short sentences, without a parser."""
    return open_studio(TREES)


@pytest.fixture
def page(studio):
    """Return a page with the first sentence."""
    return studio.open()


@pytest.fixture(scope="session")
def english():
    """Return the bundled parser of English."""
    return treefine.load("en", device="cpu")


@pytest.fixture
def partner(english):
    """Return a partner with the bundled parser, which is loaded."""
    found = Partner(lambda name: english, "en")
    found.may_load.set()
    found.wait()
    return found
