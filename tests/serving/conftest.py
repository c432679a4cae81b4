"""A server with the bundled model and tiny ones, and a browser to look at its page with."""

import importlib
import os
import shutil
from contextlib import ExitStack

import pytest

import treefine
from tests.support.tiny import tiny_parser
from tests.support.tiny_app import listening, tiny_parser_of_two

SIZE = {"width": 1000, "height": 800}


@pytest.fixture(scope="session")
def served():
    """Return the address of a server."""
    english = treefine.load("en", device="cpu", precision="float32")
    with listening({"en": english, "tiny": tiny_parser(), "multi": tiny_parser_of_two()}) as address:
        yield f"{address}/"


@pytest.fixture(scope="module")  # an open Playwright runs its own event loop; other modules need theirs
def browser():
    """Return a real browser. Without one, skip the test, or fail if TREEFINE_BROWSER=required."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if os.environ.get("TREEFINE_BROWSER") != "required":
        pytest.importorskip("playwright.sync_api")
        if path is None:
            pytest.skip("no Chromium is installed")
    assert path, "no Chromium is installed, and TREEFINE_BROWSER says that it is required"
    playwright = importlib.import_module("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


def watched(page, served, faults):
    """Return the page; record errors and requests to other hosts as faults."""
    page.set_default_timeout(15_000)
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((served, "blob:", "data:")) else faults.append(request.url),
    )
    return page


def check(faults):
    # A browser logs every error answer, also those that the page shows.
    assert [fault for fault in faults if not fault.startswith("Failed to load resource")] == []


@pytest.fixture
def new_page(browser, served):
    """Return a function that opens pages with options; after the test, check that nothing failed in them."""
    faults = []
    with ExitStack() as contexts:
        yield lambda **options: watched(
            contexts.enter_context(browser.new_context(viewport=SIZE, **options)).new_page(), served, faults
        )
    check(faults)


@pytest.fixture(scope="module")
def tab(browser, served):
    """Return a page and its faults. Tests share it, because opening one takes as long as a test."""
    faults = []
    context = browser.new_context(viewport=SIZE)
    yield watched(context.new_page(), served, faults), faults
    context.close()


@pytest.fixture
def page(tab):
    """Return the shared page, reset; after the test, check that nothing failed in it."""
    page, faults = tab
    yield page
    page.unroute_all()
    page.context.clear_permissions()
    page.goto("about:blank")
    found = [fault for fault in faults if fault != "about:blank"]
    faults.clear()
    check(found)
