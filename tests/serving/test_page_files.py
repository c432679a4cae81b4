"""The files of the page, tested without a browser."""

import re
import shutil
import sys
from importlib.resources import files

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.serving.conftest import browser_or_skip
from treefine.drawing.svg import STYLE
from treefine.serving import page

FILES = {file.name: file.read_text(encoding="utf-8") for file in files("treefine.serving").joinpath("page").iterdir()}


@pytest.fixture(scope="module")
def client():
    app = FastAPI()
    app.include_router(page.page_routes())
    with TestClient(app) as client:
        yield client


def test_the_page_and_its_files_are_served_with_their_media_types(client):
    found = client.get("/")
    named = re.findall(r'(?:src|href)="(page/[^"]+)"', found.text)
    imported = [f"page/{name}" for text in FILES.values() for name in re.findall(r'from "\./([^"]+)"', text)]

    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert {"page/page.css", "page/page.js"} == set(named)
    assert {name.removeprefix("page/") for name in [*named, *imported]} == set(FILES) - {"index.html"}
    for name in [*named, *imported]:
        kind = {"css": "text/css", "js": "text/javascript"}[name.rpartition(".")[2]]
        assert client.get(f"/{name}").headers["content-type"] == f"{kind}; charset=utf-8"


def test_the_style_of_drawings_comes_before_the_style_of_the_page(client):
    assert client.get("/page/page.css").text == STYLE + FILES["page.css"]


@pytest.mark.parametrize(
    "name", ["/page/", "/page/../page.py", "/page/%2e%2e/page.py", "/page.css", "/page/nothing.js"]
)
def test_no_other_file_is_served(client, name):
    assert client.get(name).status_code == 404


@pytest.mark.parametrize("name", FILES)
def test_no_file_loads_from_other_hosts_or_turns_text_into_markup_or_code(name):
    text = FILES[name].replace("http://www.w3.org/2000/svg", "")

    assert not re.search(r"https?:|//[a-z]+\.[a-z]|@import|url\(", text)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|localStorage|cookie", text
    )
    assert not re.search(r"<style|<script(?![^>]* src=)| on[a-z]+=| style=", text) or name.endswith(".js")


def luminance(color):
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_controls_have_the_contrast_of_wcag_level_aa(scheme):
    colors = re.findall(r"--(\w+): (#\w{6});", FILES["page.css"])
    assert len(colors) == 22
    chosen = dict(colors[:11] if scheme == "light" else colors[11:])

    def contrast(one, other):
        low, high = sorted((luminance(chosen[one]), luminance(chosen[other])))
        return (high + 0.05) / (low + 0.05)

    for name in ("ink", "soft", "changed", "kept", "moved", "unsure", "bad"):
        assert contrast(name, "paper") >= 4.5, name
    assert contrast("ink", "raised") >= 4.5
    assert contrast("soft", "raised") >= 4.5
    assert contrast("edge", "paper") >= 3


@pytest.mark.parametrize("found", [None, "/usr/bin/chromium"])
def test_a_required_browser_that_is_missing_fails_the_tests(monkeypatch, found):
    monkeypatch.setattr(shutil, "which", lambda name: found)
    if found:
        monkeypatch.setitem(sys.modules, "playwright.sync_api", None)  # as where it is not installed

    monkeypatch.delenv("TREEFINE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="installed"):
        browser_or_skip()
    monkeypatch.setenv("TREEFINE_BROWSER", "required")
    with pytest.raises(pytest.fail.Exception, match="required"):
        browser_or_skip()
