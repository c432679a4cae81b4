"""The documentation site: it builds without a warning, and works from a folder without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving.conftest import browser as browser  # a fixture

ROOT = Path(__file__).parents[1]
TABS = ["Install", "Parse", "Correct", "Train", "Evaluate", "Serve", "Scale", "Reference", "Design"]
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("INFO ")] == []
    return folder


def test_the_site_builds_without_a_warning_and_has_every_page(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("[a-z]*.md")}

    assert pages <= {path.relative_to(site) for path in site.rglob("*.html")}
    text = "".join(path.read_text() for path in site.rglob("*.html"))
    assert "<!-- table" not in text
    assert re.findall(r'(?:src|<link [^>]*href)="(?:https?:)?//[^"]*', text) == []


def test_the_site_works_from_a_folder_and_on_a_phone(site, browser):
    page = browser.new_page(viewport=PHONE)
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))

    def note_failure(request):
        if request.failure != "net::ERR_ABORTED":  # the next page was opened before the icon was loaded
            faults.append(f"{request.url}: {request.failure}")

    page.on("requestfailed", note_failure)
    page.on(
        "request", lambda request: None if request.url.startswith(("file:", "data:")) else faults.append(request.url)
    )

    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":  # which only a server shows
            page.goto(path.as_uri())
            if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                faults.append(f"{path.name} is wider than a phone")

    assert faults == []
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto((site / "index.html").as_uri())
    assert page.locator(".md-tabs__link").all_inner_texts() == TABS
    page.fill("[data-md-component=search-query]", "segmenter")
    page.wait_for_selector(".md-search-result__item")
    page.close()
