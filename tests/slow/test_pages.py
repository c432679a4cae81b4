"""The pages show what the program does: consoles, tutorials, long snippets, and the site, which needs no network."""

import doctest
import os
import re
import subprocess
import sys

import pytest

from docs.conftest import SLOW, prepare
from tests.serving.conftest import browser as browser  # a fixture
from tests.support.tutorials import (
    PAGES,
    ROOT,
    Command,
    blocks,
    matches,
    run,
    run_command,
    working_folder_and_environment,
)

DOCS = ROOT / "docs"
TABS = ["Install", "Parse", "Correct", "Train", "Evaluate", "Serve", "Scale", "Reference", "Design"]
PHONE = {"width": 390, "height": 844}
SHOWN = [
    pytest.param(each, id=f"{page.stem}-{each.line}")
    for page in sorted([ROOT / "README.md", *DOCS.glob("*.md")])
    for each in blocks(page.read_text(encoding="utf-8"))
    if isinstance(each, Command)
]


@pytest.mark.parametrize("command", SHOWN)
def test_each_console_block_prints_what_it_shows(command, monkeypatch):
    monkeypatch.chdir(ROOT)

    with working_folder_and_environment():
        printed = run_command(command)

    assert printed == command.expected or matches(command.expected, printed)  # the first shows a difference well


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_tutorial_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    run(page)


@pytest.mark.parametrize("name", SLOW)
def test_the_snippets_of_long_pages_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)

    failed, attempted = doctest.testfile(str(DOCS / name), module_relative=False, encoding="utf-8")

    assert attempted
    assert not failed


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("INFO ")] == []
    return folder


def test_the_site_builds_without_a_warning_and_has_every_page_and_the_generated_references(site):
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("[a-z]*.md")}

    assert pages <= {path.relative_to(site) for path in site.rglob("*.html")}
    text = "".join(path.read_text() for path in site.rglob("*.html"))
    assert "<!-- table" not in text
    assert "<!-- generated" not in text
    assert re.findall(r'(?:src|<link [^>]*href)="(?:https?:)?//[^"]*', text) == []
    assert "treefine parse" in (site / "cli.html").read_text()
    assert {"parse-a-folder.ipynb", "correct-trees.ipynb"} <= {path.name for path in (site / "tutorials").iterdir()}


def test_the_site_works_from_a_folder_and_on_a_phone(site, browser):
    page = browser.new_page(viewport=PHONE)
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
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
