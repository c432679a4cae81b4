"""Take the pictures of the tour of `treefine annotate`, by using it with mouse and keyboard."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.options import command, option
from benchmarks.pages.serving import BROWSERS
from benchmarks.rows import ROOT
from treefine import TreefineError

SIZE = {"width": 1180, "height": 700}


@command(option("--output", type=Path, default=ROOT / "docs", help="folder of the pictures (default: %(default)s)"))
def measure_tour(options: argparse.Namespace) -> None:
    """Take the pictures of docs/annotating.md in a headless browser with the bundled model.

    python -m benchmarks tour
    """
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise TreefineError("Chromium was not found.", hint="Install it: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        example = Path(folder, "example.conllu")
        example.write_text(files("treefine.studio").joinpath("example.conllu").read_text(encoding="utf-8"))
        with annotating(str(example)) as address:
            _take_tour(new_page(opened, address), options.output)
        second = Path(folder, "ben.conllu")
        second.write_text(files("treefine.studio").joinpath("example.conllu").read_text(encoding="utf-8"))
        with annotating(str(example), str(second), "--adjudicate", str(Path(folder, "agreed.conllu"))) as address:
            page = new_page(opened, address)
            page.wait_for_selector("#others .card")
            page.screenshot(path=options.output / "annotate-two.png")
        opened.close()


def _take_tour(page: Any, folder: Path) -> None:
    page.wait_for_selector("#tree .arc.doubtful")
    page.wait_for_selector("#suggestions li")
    page.screenshot(path=folder / "annotate-open.png")
    start, end = centre(page, 9), centre(page, 6)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] - 20, start[1] - 30, steps=3)
    page.mouse.move(*end, steps=3)
    page.screenshot(path=folder / "annotate-drag.png")
    page.mouse.up()
    page.wait_for_selector("#followed:not([hidden])")
    page.wait_for_load_state("networkidle")
    page.screenshot(path=folder / "annotate-followed.png")
    page.keyboard.press("Enter")
    page.wait_for_selector("#place >> text=example-2")
    page.wait_for_selector("#suggestions li")
    page.locator("#tree .word[data-word='8'] .form").click()
    page.keyboard.press("l")
    page.keyboard.type("ob")
    page.wait_for_selector("#labels li")
    page.screenshot(path=folder / "annotate-label.png")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.wait_for_selector("#place >> text=example-3")
    page.select_option("#order", "doubt")
    page.wait_for_selector("#suggestions li")
    page.wait_for_load_state("networkidle")
    page.screenshot(path=folder / "annotate-queue.png")


def new_page(browser: Any, address: str) -> Any:
    """Open the page of the studio, without its introduction."""
    page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
    page.goto(address)
    page.wait_for_selector("#tree .word")
    page.click("#close-welcome")
    return page


def centre(page: Any, word: int) -> tuple[float, float]:
    """Return the middle of the form of a word."""
    box = page.locator(f"#tree .word[data-word='{word}'] .form").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@contextmanager
def annotating(*arguments: str) -> Iterator[str]:
    """Run `treefine annotate` on a free port, and yield its address."""
    options = ["--no-browser", "--port", "0", *arguments]
    process = subprocess.Popen(
        [sys.executable, "-m", "treefine", "annotate", *options], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"http://\S+", line):
                yield found[0]
                break
        else:
            raise TreefineError("treefine annotate did not start.")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
