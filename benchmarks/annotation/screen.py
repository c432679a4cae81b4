"""A person's view of the studio: `treefine annotate` in a process, its page in Chromium, and a hand that counts.

The hand only uses the mouse and the keyboard. What is shown is read from the page and from the answers that it got.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.peers.process import memory
from benchmarks.rows import ROOT
from treefine import TreefineError

SIZE = {"width": 1440, "height": 900}
MOST_SECONDS = 120.0  # an answer that takes longer does not come
GIVEN_UP = 5.0  # seconds after which the page does not send a failed request again
IGNORED = ("status", "rows", "leave")  # requests that go on all the time
READ = ("edit", "follow", "undo", "sentence", "advice", "project", "parse")  # answers that say what is shown
WATCH = """
performance.setResourceTimingBufferSize(1e6);
window.__input = 0;
window.__frames = [];
for (const name of ["pointerup", "keydown"]) {
  addEventListener(name, () => { window.__input = performance.now(); window.__draws = []; }, { capture: true });
}
window.__draws = [];
addEventListener("DOMContentLoaded", () => {
  const drawn = () => requestAnimationFrame(() => window.__draws.push(performance.now()));
  new MutationObserver(drawn).observe(document.getElementById("tree"), { childList: true, subtree: true });
});
"""
SINCE_INPUT = """() => ({
  input: window.__input,
  draws: window.__draws,
  answers: performance.getEntriesByType("resource").filter((each) => each.startTime >= window.__input)
    .map(({ name, startTime, responseEnd }) => ({ name, start: startTime, end: responseEnd })),
})"""
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
WORDS = """() => [...document.querySelectorAll("#tree .word")].map((each) => each.getAttribute("aria-label"))"""
ON_ARC = """(word) => [...document.querySelectorAll(`#tree svg .arc[data-word="${word}"]`)].flatMap((group) => {
  const box = group.querySelector(".behind").getBoundingClientRect();
  const line = group.querySelector(".line");
  const place = line.getScreenCTM();
  const along = [0.97, 0.9, 0.8, 0.6, 0.4, 0.2].map((share) => {
    const point = line.getPointAtLength(share * line.getTotalLength()).matrixTransform(place);
    return [point.x, point.y];
  });
  return [[box.x + box.width / 2, box.y + box.height / 2], ...along];
})"""
PANE = """(selector) => {
  const isPane = (each) => /auto|scroll/.test(getComputedStyle(each).overflowY);
  const scrolls = (each) => each.scrollHeight > each.clientHeight && isPane(each);
  let pane = document.querySelector(selector);
  while (pane && !scrolls(pane)) pane = pane.parentElement;
  const box = (pane ?? document.documentElement).getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}"""
HOVERED = """() => [...document.querySelectorAll("#tree .arc.hover")].map((each) => +each.dataset.word)"""


@dataclass
class Counts:
    """Counts of what the hand did. Actions are drags, clicks, label entries, command keys and turns of the wheel."""

    actions: int = 0
    done: int = 0  # of the actions: Enter at the end of a sentence
    drags: int = 0
    clicks: int = 0
    keys: int = 0
    wheels: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts for a row."""
        return asdict(self) | {"kinds": dict(self.kinds)}


class StudioProcess:
    """A context manager that runs `treefine annotate` on a file, always on the same port."""

    def __init__(self, path: Path, *, port: int = 0, arguments: Sequence[str] = ()) -> None:
        self.path, self._port, self._arguments = path, port, arguments
        self.said = Path(f"{path}.said")
        self.address = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> StudioProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def command(self) -> list[str]:
        """The command line."""
        line = [sys.executable, "-m", "treefine", "annotate", str(self.path), "--no-browser", "--port", str(self._port)]
        return [*line, *self._arguments]

    def launch(self) -> None:
        """Start the command without waiting for it."""
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        with self.said.open("wb") as output:
            self._process = subprocess.Popen(
                self.command,
                env=os.environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def start(self) -> float:
        """Start the command; return the seconds until it printed its address."""
        started = time.perf_counter()
        self.launch()
        assert self._process is not None
        while True:
            lines = self.said.read_text(errors="replace").splitlines()
            found = [line for line in lines if line.startswith("treefine: http")]
            if found:
                break
            if self._process.poll() is not None or time.perf_counter() - started > MOST_SECONDS:
                raise TreefineError("treefine annotate did not start.", hint=lines[-1] if lines else "It said nothing.")
            time.sleep(0.005)
        self.address = found[0].split()[-1]
        self._port = urlsplit(self.address).port or 0
        return time.perf_counter() - started

    def get(self, path: str) -> Any:
        """Return an answer of the server, asked beside the page."""
        with urllib.request.urlopen(f"{self.address}api/{path}", timeout=MOST_SECONDS) as answer:
            return json.load(answer)

    def memory(self) -> dict[str, float]:
        """Return the present and the greatest memory of the server in MiB."""
        assert self._process is not None
        return {name: round(memory(self._process.pid, name)) for name in ("VmRSS", "VmHWM")}

    def kill(self) -> None:
        """Kill the server at once."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server as Ctrl-C does."""
        self._end(signal.SIGINT)

    def _end(self, number: int) -> None:
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
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise TreefineError("There is no Chromium.", hint="Install chromium, so that it is on PATH.")
    with sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


class Screen:
    """The page of the studio in a browser, with a hand that counts what it does."""

    def __init__(self, browser: Any) -> None:
        self._context = browser.new_context(viewport=SIZE)
        self._context.set_default_timeout(1000 * MOST_SECONDS)
        self.page = self._context.new_page()
        self.page.add_init_script(WATCH)
        self.counts = Counts()
        self.errors: list[str] = []  # of the page
        self.answers: list[tuple[str, int, Any, Any]] = []  # path, status, request and answer, since `settle` began
        self.changes: list[tuple[str, str]] = []  # the ids of changes that the page got an answer for, and their path
        self.versions: dict[int, list[Any]] = {}  # the states of each sentence that the page got, the newest last
        self.advice: dict[int, Any] = {}  # by key
        self.project: Any = None
        self._open: Counter[tuple[str, str]] = Counter()  # requests without an answer
        self._failed: Counter[tuple[str, str]] = Counter()  # requests that the page will send again
        self._finished: list[Any] = []
        self._heard = time.perf_counter()  # when something was last asked or answered
        self.given_up: list[str] = []  # requests without an answer that the page did not send again
        self.page.on("request", self._on_request)
        self.page.on("requestfinished", self._on_finished)
        self.page.on("requestfailed", self._on_failed)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def close(self) -> None:
        """Close the tab."""
        self._context.close()

    def _key(self, request: Any) -> tuple[str, str] | None:
        path = urlsplit(request.url).path
        if "/api/" not in path or path.rpartition("/")[2] in IGNORED:
            return None
        return request.url, request.post_data or ""

    def _on_request(self, request: Any) -> None:
        key = self._key(request)
        if key is not None:
            self._heard = time.perf_counter()
            self._open[key] += 1
            if self._failed[key]:
                self._failed[key] -= 1

    def _on_finished(self, request: Any) -> None:
        key = self._key(request)
        if key is not None:
            self._open[key] -= 1
            self._finished.append(request)

    def _on_failed(self, request: Any) -> None:
        key = self._key(request)
        if key is not None:
            self._heard = time.perf_counter()
            self._open[key] -= 1
            self._failed[key] += 1

    @property
    def is_quiet(self) -> bool:
        """Whether the page has an answer to everything that it asked."""
        return not self._open.total() and not self._failed.total()

    def settle(self) -> None:
        """Wait until the page has all answers and has drawn them; then read them."""
        self.answers = []
        until = time.perf_counter() + MOST_SECONDS
        n_quiet = 0
        while n_quiet < 2:
            self.page.evaluate(TWO_FRAMES)
            n_quiet = n_quiet + 1 if self.is_quiet else 0
            if not self._open.total() and time.perf_counter() - self._heard > GIVEN_UP:
                self.given_up += [urlsplit(url).path.rpartition("/")[2] for url, _ in +self._failed]
                self._failed.clear()
            if time.perf_counter() > until:
                asked = [urlsplit(url).path for url, _ in [*+self._open, *+self._failed]]
                raise TreefineError(f"The page waits for {', '.join(asked)}.", hint="; ".join(self.errors[-3:]))
            self._read_answers()

    def _read_answers(self) -> None:
        finished, self._finished = self._finished, []
        for request in finished:
            path = urlsplit(request.url).path.rpartition("/")[2]
            if path not in READ:
                continue
            response = request.response()
            asked = json.loads(request.post_data) if request.post_data else None
            try:
                found = response.json()
            except Exception as error:
                self.errors.append(f"{path}: {error}")
                continue
            self.answers.append((path, response.status, asked, found))
            if response.status == 200:
                self._remember(path, request.url, asked, found)

    def _remember(self, path: str, url: str, asked: Any, found: Any) -> None:
        if path == "project":
            self.project = found
        elif path == "sentence":
            self._add(found)
        elif path == "advice":
            self.advice[int(url.rpartition("key=")[2])] = found
        else:
            if found["is_changed"]:
                self.changes.append((asked["id"], path))
            for each in found["sentences"]:
                self._add(each)

    def _add(self, sentence: Any) -> None:
        known = self.versions.setdefault(sentence["key"], [])
        if sentence not in known:
            known.append(sentence)

    # What is shown

    def open(self, address: str) -> None:
        """Open the page, and wait until a sentence is drawn."""
        self.page.goto(address, wait_until="commit")
        self.page.wait_for_selector("#tree .word")

    @property
    def key(self) -> int:
        """The key of the sentence that is shown."""
        return int(self.page.evaluate("location.hash").rpartition("key=")[2])

    def sentence(self) -> Any:
        """Return the sentence that is drawn, which need not be the newest one that the server has."""
        key, words = self.key, self.page.evaluate(WORDS)
        for each in reversed(self.versions.get(key, [])):
            if each["words"] is not None and is_drawn(each, words):
                return each
        raise TreefineError(f"What is drawn is no state of sentence {key}.", hint="; ".join(words))

    def suggestions(self, sentence: Any) -> Sequence[Any]:
        """Return the suggestions that are listed beside a sentence."""
        found = self.advice.get(sentence["key"])
        if found is None or found["version"] != sentence["version"] or found["advice"] is None:
            return ()
        shown: Sequence[Any] = found["advice"]["suggestions"]
        return shown if self.page.locator("#suggestions li").count() == len(shown) else ()

    @property
    def selected(self) -> int:
        """The selected word, or 0."""
        script = """() => +(document.querySelector("#tree .word.selected")?.dataset.word ?? 0)"""
        return int(self.page.evaluate(script))

    @property
    def is_in_label(self) -> bool:
        """Whether the cursor is in the field for the label."""
        return bool(self.page.evaluate("document.activeElement?.id === 'label'"))

    @property
    def problem(self) -> str:
        """The messages that are shown."""
        return str(self.page.evaluate("document.getElementById('messages').innerText.trim()"))

    @property
    def progress(self) -> str:
        """The line about progress."""
        return str(self.page.locator("#counted").inner_text())

    def times_since_input(self) -> Mapping[str, float]:
        """Return the milliseconds of the answers to the last input by path, and until what followed was `shown`."""
        found = self.page.evaluate(SINCE_INPUT)
        spans = {urlsplit(each["name"]).path.rpartition("/")[2]: each for each in found["answers"]}
        times = {name: each["end"] - each["start"] for name, each in spans.items()}
        if "follow" in spans:
            end = spans["follow"]["end"]
            is_changed = any(path == "follow" and answer["is_changed"] for path, _, _, answer in self.answers)
            drawn = next((each for each in found["draws"] if each >= end), end) if is_changed else end
            times["shown"] = drawn - found["input"]
        return times

    # The hand

    def press(self, key: str, kind: str) -> None:
        """Press a key as a command of its own."""
        self.page.keyboard.press(key)
        self.counts.keys += 1
        self._act(kind)

    def click(self, selector: str, kind: str) -> None:
        """Click on an element."""
        x, y = self._visible(selector)
        self._click_at(x, y, kind)

    def click_arc(self, word: int) -> None:
        """Click on the arc of a word, where the page shows that the pointer is at this arc and no other."""
        self._visible(f"#word-{word} .form")
        for x, y in self.page.evaluate(ON_ARC, word):
            if not self._is_in_view(x, y):
                continue
            self.page.mouse.move(x, y)
            if set(self.page.evaluate(HOVERED)) == {word}:
                self._click_at(x, y, "arc")
                return
        self.click(f"#word-{word} .form", "word")

    def drag(self, word: int, head: int) -> None:
        """Drag a word onto its head, or onto the bar for ROOT."""
        x, y = self._visible(f"#word-{word} .form")
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x, y + 10, steps=2)  # ROOT is shown when the word moves
        x, y = self._visible(f"#word-{head} .form" if head else "#tree .root-bar")
        self.page.mouse.move(x, y, steps=8)
        self.page.mouse.up()
        self.counts.drags += 1
        self._act("drag")

    def enter_label(self, label: str) -> None:
        """Enter a label into its field: with its digit, or with as many letters as the completion needs, and Enter."""
        digit = self.digit_of(label)
        if digit:
            self.press(digit, "label")
            return
        self._type(label)
        self.page.keyboard.press("Enter")
        self.counts.keys += 1
        self._act("label")

    def _type(self, label: str) -> None:
        for letter in label:
            self.page.keyboard.press(letter)
            self.counts.keys += 1
            marked = self.page.evaluate("document.querySelector('#labels li.marked')?.dataset.label ?? ''")
            if marked == label:
                return

    def digit_of(self, label: str) -> str:
        """Return the key of one of the ten most frequent labels, or an empty string."""
        labels = self.frequent_labels
        return str((labels.index(label) + 1) % 10) if label in labels else ""

    @property
    def frequent_labels(self) -> list[str]:
        """The labels that have a key of their own."""
        return [each for each in self.project["files"][0]["labels"] if each != "root"][:10]

    def choose_order(self) -> None:
        """Choose "most doubtful first" with the keyboard."""
        self.click("#find label span", "order")
        self.press("ArrowDown", "order")

    def _act(self, kind: str) -> None:
        self.counts.actions += 1
        self.counts.done += kind == "done"
        self.counts.kinds[kind] += 1

    def _click_at(self, x: float, y: float, kind: str) -> None:
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.up()
        self.counts.clicks += 1
        self._act(kind)

    def _visible(self, selector: str) -> tuple[float, float]:
        """Return the middle of an element; turn the wheel first if it is not in view."""
        for _ in range(20):
            box = self.page.locator(selector).first.bounding_box()
            if box is None:
                raise TreefineError(f"{selector} is not shown.", hint=self.problem)
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            if self._is_in_view(x, y, selector):
                return x, y
            self.turn_wheel(selector, y - SIZE["height"] / 2)
        raise TreefineError(f"{selector} cannot be scrolled into view.")

    def _is_in_view(self, x: float, y: float, selector: str = "") -> bool:
        script = """([x, y, selector]) => {
          const found = document.elementFromPoint(x, y);
          const wanted = selector ? document.querySelector(selector) : document.getElementById("work");
          return Boolean(found && wanted?.contains(found));
        }"""
        return bool(self.page.evaluate(script, [x, y, selector]))

    def turn_wheel(self, selector: str, pixels: float) -> None:
        """Turn the wheel over the pane that contains an element. During a drag, the pointer goes there with it."""
        self.page.mouse.move(*self.page.evaluate(PANE, selector))
        self.page.mouse.wheel(0, pixels)
        self.page.wait_for_timeout(100)
        self.counts.wheels += 1
        self._act("wheel")


def is_drawn(sentence: Any, descriptions: Sequence[str]) -> bool:
    """Return whether the page's descriptions of the words are those of this state of a sentence."""
    words = sentence["words"]
    return len(words) == len(descriptions) and all(
        found.startswith(described(word, words)) for word, found in zip(words, descriptions, strict=True)
    )


def described(word: Any, words: Sequence[Any]) -> str:
    """Return the description of a word as the page writes it for screen readers.

    >>> words = [{"number": 1, "form": "Dogs", "upos": "NOUN", "head": 2, "label": "nsubj"}, {"form": "bark"}]
    >>> described(words[0] | {"keeps_head": True, "keeps_label": False}, words)
    '1 Dogs, NOUN, nsubj of bark, decided'
    """
    head = word["head"]
    arc = "no head" if head is None else f"{word['label']} of {words[head - 1]['form'] if head else 'ROOT'}"
    tag = "" if word["upos"] == "_" else word["upos"]
    is_decided = word["keeps_head"] or word["keeps_label"]
    parts = [f"{word['number']} {word['form']}", tag, arc, "decided" if is_decided else ""]
    return ", ".join(filter(None, parts))
