"""The picture of the web page in the docs, made in a headless browser over a server with the bundled model.

python -m benchmarks page
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.http_client import HOST
from benchmarks.rows import ROOT
from benchmarks.serve_process import ServeProcess
from treefine import TreefineError

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 800, "height": 720}
SHOWN = {"text": "The dog that I had really loved bones.", "t": 2}  # the step that changes most


def measure_page(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="benchmarks page", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "page.png", help="default: %(default)s")
    options = parser.parse_args(arguments)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise TreefineError("There is no Chromium.", hint="Install Debian's chromium.")
    with ServeProcess([]) as server:
        take_picture(f"http://{HOST}:{server.port}/#{urlencode(SHOWN)}", browser, options.output)


def take_picture(address: str, browser: str, path: Path) -> None:
    """Write what a browser shows at this address."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        page = opened.new_page(viewport=SIZE, reduced_motion="reduce")
        page.goto(address)
        page.wait_for_selector("#drawing svg")
        top, bottom = page.locator("#result").bounding_box(), page.locator("#legend").bounding_box()
        page.screenshot(path=path, clip=top | {"height": bottom["y"] + bottom["height"] - top["y"] + 8})
        opened.close()
