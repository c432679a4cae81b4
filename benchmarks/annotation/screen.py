"""A person's view of the studio: `treefine annotate` in a process, its page in Chromium, and a hand that counts.

The hand only uses the mouse and the keyboard.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.peers.process import memory
from benchmarks.rows import ROOT
from treefine import TreefineError

SIZE = {"width": 1440, "height": 900}
MOST_SECONDS = 120.0  # an answer that takes longer does not come
IGNORED = ("status", "rows", "leave", "spent")  # requests that go on all the time
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class StudioProcess:
    """A context manager that runs `treefine annotate` on a file, always on the same port."""

    def __init__(self, path: Path, model: str = "") -> None:
        self.path, self._port = path, 0
        self._arguments = ["--model", model] if model else []
        self.address = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> StudioProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)

    def start(self) -> None:
        """Start the command, and wait until it has printed its address."""
        log, until = Path(f"{self.path}.log"), time.perf_counter() + MOST_SECONDS
        line = [sys.executable, "-m", "treefine", "annotate", str(self.path), "--no-browser", "--port", str(self._port)]
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*line, *self._arguments], env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        while not (addresses := [each for each in log.read_text().split() if each.startswith("http://")]):
            if self._process.poll() is not None or time.perf_counter() > until:
                raise TreefineError("treefine annotate did not start.", hint=log.read_text()[-300:])
            time.sleep(0.005)
        self.address = addresses[0]
        self._port = urlsplit(self.address).port or 0

    def get(self, path: str) -> Any:
        """Return an answer of the server, asked beside the page; wait for a server that is being restarted."""
        until = time.perf_counter() + MOST_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{self.address}api/{path}", timeout=MOST_SECONDS) as answer:
                    return json.load(answer)
            except OSError:
                if time.perf_counter() > until:
                    raise
                time.sleep(0.1)

    def memory(self) -> float:
        """Return the memory of the server in MiB."""
        assert self._process is not None
        return round(memory(self._process.pid, "VmRSS"))

    def end(self, number: int) -> None:
        """End the server with a signal: SIGINT is Ctrl-C."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(MOST_SECONDS)


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser; raise an error that says what is missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        hint = "Install it with: pip install playwright"
        raise TreefineError("The benchmark uses a browser through playwright.", hint=hint) from error
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise TreefineError("There is no Chromium.", hint="Install chromium, so that it is on PATH.")
    with sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


class Screen:
    """The page of the studio in a browser, with a hand that counts its actions."""

    def __init__(self, browser: Any, studio: StudioProcess) -> None:
        self.studio = studio
        self.page = browser.new_context(viewport=SIZE).new_page()
        self.page.set_default_timeout(1000 * MOST_SECONDS)
        self.actions: Counter[str] = Counter()  # drags, clicks, label entries and command keys, by kind
        self.errors: list[str] = []  # of the page
        self._waiting: Counter[str] = Counter()  # requests without an answer
        self.page.on("request", lambda request: self._count(request, 1))
        self.page.on("requestfinished", lambda request: self._count(request, -1))
        self.page.on("requestfailed", lambda request: self._count(request, -1))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(studio.address, wait_until="commit")
        self.page.wait_for_selector("#tree .word")

    def _count(self, request: Any, number: int) -> None:
        path = urlsplit(request.url).path
        if "/api/" in path and path.rpartition("/")[2] not in IGNORED:
            self._waiting[request.url + (request.post_data or "")] += number

    def settle(self) -> None:
        """Wait until the page has all answers, has drawn them, and is connected."""
        until, n_quiet = time.perf_counter() + MOST_SECONDS, 0
        while n_quiet < 3:
            self.page.evaluate(TWO_FRAMES)
            is_connected = not self.page.locator("#connection").is_visible()
            n_quiet = n_quiet + 1 if is_connected and not self._waiting.total() else 0
            if time.perf_counter() > until:
                raise TreefineError(f"The page waits for {+self._waiting}.", hint="; ".join(self.errors[-3:]))

    @property
    def key(self) -> int:
        """The key of the sentence that is shown."""
        return int(self.page.evaluate("location.hash").rpartition("key=")[2])

    def sentence(self) -> Any:
        """Return the sentence that is shown, as the server has it; wait until its words are drawn."""
        forms = "[...document.querySelectorAll('#tree .word .form')].map((each) => each.textContent)"
        until = time.perf_counter() + MOST_SECONDS
        while time.perf_counter() < until:
            sentence = self.studio.get(f"sentence?file=0&key={self.key}")
            if self.page.evaluate(forms) == [word["form"] for word in sentence["words"]]:
                return sentence
            self.page.evaluate(TWO_FRAMES)
        raise TreefineError(f"Sentence {self.key} is not drawn.", hint="; ".join(self.errors[-3:]))

    def press(self, key: str, kind: str) -> None:
        """Press a key as a command of its own."""
        self.page.keyboard.press(key)
        self.actions[kind] += 1

    def click(self, selector: str, kind: str) -> None:
        """Click on an element."""
        self.page.locator(selector).first.click()
        self.actions[kind] += 1

    def drag(self, word: int, head: int) -> None:
        """Drag a word onto its head, or onto the bar for ROOT, which is shown when the word moves."""
        box = self.page.locator(f"#word-{word} .form").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x, y + 10, steps=2)
        box = self.page.locator(f"#word-{head} .form" if head else "#tree .root-bar").first.bounding_box()
        self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=8)
        self.page.mouse.up()
        self.actions["drag"] += 1

    def enter_label(self, word: int, label: str, frequent: list[str]) -> None:
        """Select a word and enter its label: a digit, or as many letters as the completion needs, and Enter."""
        if not self.page.locator(f"#word-{word}.selected").count():
            self.page.wait_for_timeout(600)  # the second click of a double-click does nothing
            self.click(f"#word-{word} .form", "select")
        if label in frequent[:10]:
            self.press(str((frequent.index(label) + 1) % 10), "label")
            return
        self.page.locator("#label").focus()
        self.page.keyboard.press("ControlOrMeta+a")
        for letter in label:
            self.page.keyboard.press(letter)
            if self.page.evaluate("document.querySelector('#labels li.marked')?.dataset.label ?? ''") == label:
                break
        self.press("Enter", "label")
