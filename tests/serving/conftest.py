"""A server with the bundled model and a tiny one, and a browser to look at its page with."""

import importlib
import os
import shutil

import pytest

import treefine
from tests.support.tiny import tiny_parser
from tests.support.tiny_app import listening

SIZE = {"width": 1000, "height": 800}


@pytest.fixture(scope="session")
def served():
    """The address of a server."""
    with listening({"en": treefine.load("en", device="cpu", precision="float32"), "tiny": tiny_parser()}) as address:
        yield f"{address}/"


def browser_or_skip():
    """Playwright and the path of a browser. Where one is missing tests skip, or fail with TREEFINE_BROWSER=required."""
    try:
        playwright = importlib.import_module("playwright.sync_api")
    except ImportError:
        playwright = None
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if playwright and found:
        return playwright, found
    missing = "no Chromium is installed" if playwright else "playwright is not installed"
    if os.environ.get("TREEFINE_BROWSER") == "required":
        pytest.fail(f"{missing}, and TREEFINE_BROWSER says that it is required")
    pytest.skip(missing)


@pytest.fixture(scope="module")  # an open playwright has a loop of its own, and other modules run theirs
def browser():
    """A real browser, where there is one."""
    playwright, found = browser_or_skip()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


def watched(page, served, faults):
    """The page, with whatever fails in it or is asked of another host among the faults."""
    page.set_default_timeout(15_000)
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((served, "blob:", "data:")) else faults.append(request.url),
    )
    return page


def check(faults):
    # A browser notes every answer that is an error, also one that the page tells the person about.
    assert [fault for fault in faults if not fault.startswith("Failed to load resource")] == []


@pytest.fixture
def new_page(browser, served):
    """Pages of the server with options of their own; after the test, nothing may have failed in them."""
    faults, contexts = [], []

    def make(**options):
        contexts.append(browser.new_context(viewport=SIZE, **options))
        return watched(contexts[-1].new_page(), served, faults)

    yield make
    for context in contexts:
        context.close()
    check(faults)


@pytest.fixture(scope="module")
def tab(browser, served):
    """A page that test after test takes, for a new one costs as much time as a test, and the faults in it."""
    faults = []
    context = browser.new_context(viewport=SIZE)
    yield watched(context.new_page(), served, faults), faults
    context.close()


@pytest.fixture
def page(tab):
    """A page of the server as if new, for it keeps nothing; after the test, nothing may have failed in it."""
    page, faults = tab
    yield page
    page.unroute_all()
    page.context.clear_permissions()
    page.goto("about:blank")
    found = [fault for fault in faults if fault != "about:blank"]
    faults.clear()
    check(found)
