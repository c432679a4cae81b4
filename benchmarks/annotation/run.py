"""Measure the studio: actions per correction, kills of its server, a large file, and the speed of follow-ups."""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.accuracy.model_rows import without_tags
from benchmarks.annotation.screen import Screen, StudioProcess, chromium
from benchmarks.options import ROWS_FILE, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import TREEBANKS, english_path, save_row
from treefine import Parser, Sentence, TreefineError, read_treebank, write_treebank
from treefine.studio.document import Journal
from treefine.treebank.edits import set_comment

KINDS = ("corrections", "kills", "opening", "latency")
WORDS = 25  # of the sentences whose latency is measured
MOST_ACTIONS = 8  # per word of a sentence; whoever needs more does not come to an end
STATUS = "treefine_status"
AT_END = """() => {
  const rows = document.getElementById("rows");
  return rows.scrollHeight - rows.clientHeight - rows.scrollTop <= 1;
}"""
Arcs = list[tuple[int | None, str]]


@dataclass(frozen=True)
class Case:
    """A sentence as a parser left it, and as it should be. They differ only in HEAD and DEPREL."""

    parsed: Sentence
    gold: Sentence

    @property
    def n_wrong(self) -> int:
        """The number of wrong arcs."""
        return len(wrong(arcs_of(self.parsed), arcs_of(self.gold)))


def arcs_of(sentence: Sentence) -> Arcs:
    """Return head and label of each word."""
    return list(zip(sentence.heads, sentence.labels, strict=True))


def wrong(arcs: Arcs, gold: Arcs) -> list[int]:
    """Return the words whose head or label is wrong."""
    return [word for word, (arc, right) in enumerate(zip(arcs, gold, strict=True), start=1) if arc != right]


@command(
    option("--only", nargs="+", choices=KINDS, default=KINDS, help="what to measure (default: all)"),
    option("--model", default="", help="model of the studio (default: the one that treefine annotate chooses)"),
    TREEBANKS_FOLDER.but(default=TREEBANKS.parent / "permissive"),
    count("--sentences", 50, "number of wrong sentences to correct"),
    count("--kills", 20, "number of kills of the server"),
    count("--seed", 1, "random seed of their moments"),
    count("--large", 10_000, "number of sentences of the large file"),
    count("--timed", 20, "number of sentences whose latency is measured"),
    ROWS_FILE,
)
def measure_annotation(options: argparse.Namespace) -> None:
    """Correct trees in the browser as a person does, with the mouse and the keyboard; write one row per measurement.

    python -m benchmarks annotation
    python -m benchmarks annotation --only corrections kills --sentences 5 --kills 4 --rows scratch/rows.jsonl

    corrections  a scripted annotator corrects the output of a weaker parser, one sentence after another
    kills        the same, while the server is killed and started again
    opening      the seconds until a large file is shown, and how smoothly its list scrolls
    latency      the milliseconds until the parser has followed a correction in sentences of 25 words

    Actions are drags, clicks, label entries and command keys. Run it on an idle machine.
    """
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        cases = (
            []
            if {*options.only} == {"opening"}
            else parsed_cases(options.treebanks, 10 * max(options.sentences, options.timed))
        )
        for kind in options.only:
            load, path = round(os.getloadavg()[0], 2), Path(scratch, f"{kind}.conllu")
            if kind == "opening":
                result = opened(browser, path, options)
            elif kind == "latency":
                result = timed(browser, path, cases, options)
            else:
                result = corrected(browser, path, cases, options, kills=options.kills if kind == "kills" else 0)
            config = {"kind": kind, "treebank": "en_ewt", "model": options.model or "default", "load_average": load}
            save_row("annotation", config, result, path=options.rows)


def parsed_cases(treebanks: Path, number: int) -> list[Case]:
    """Parse the first sentences of en_ewt dev with `multi` in one step, which leaves more errors than several."""
    gold = list(read_treebank(english_path(treebanks, "dev")))[:number]
    parser = Parser.from_pretrained("multi", language="en_ewt", max_steps=1)
    trees = parser.stream_trees(map(without_tags, gold))
    return [Case(each.with_graph(tree.graph), each) for each, tree in zip(gold, trees, strict=True)]


class Annotator:
    """A careful person who knows the right trees and corrects the sentence that is shown with the least effort.

    A follow-up of the parser that broke more than it repaired is refused. Then the leftmost wrong word is corrected:
    with a suggestion if it is right, else by dragging it onto its head, or with its label.
    """

    def __init__(self, screen: Screen, gold: Sequence[Sentence]) -> None:
        self.screen = screen
        self._gold = [arcs_of(each) for each in gold]
        self._frequent = [each for each in screen.studio.get("project")["files"][0]["labels"] if each != "root"]
        self.done: set[int] = set()

    def correct(self) -> None:
        """Correct the sentence that is shown, and end with "done, next"."""
        screen, key = self.screen, self.screen.key
        gold, started, before = self._gold[key - 1], self.screen.actions.total(), None
        while True:
            arcs = self._arcs()
            is_worse = before is not None and len(wrong(before, gold)) < len(wrong(arcs, gold)) + 1
            if before is not None and is_worse and screen.page.locator("#refuse").is_visible():
                screen.press("Backspace", "refuse")
                before = None
            elif not (left := wrong(arcs, gold)):
                screen.press("Enter", "done")
                screen.settle()
                if screen.studio.get(f"sentence?file=0&key={key}")["status"] == "done":
                    self.done.add(key)
                    return
            else:
                before = arcs
                self._improve(left[0], arcs, gold)
            screen.settle()
            if screen.actions.total() - started > MOST_ACTIONS * len(gold):
                raise TreefineError(f"Sentence {key} does not become right.", hint="; ".join(screen.errors[-3:]))

    def _arcs(self) -> Arcs:
        return [(word["head"], word["label"]) for word in self.screen.sentence()["words"]]

    def _improve(self, word: int, arcs: Arcs, gold: Arcs) -> None:
        head, label = gold[word - 1]
        assert head is not None
        advice = self.screen.studio.get(f"advice?file=0&key={self.screen.key}")["advice"] or {"suggestions": []}
        for place, each in enumerate(advice["suggestions"], start=1):
            taking = self.screen.page.locator(f"#suggestions li:nth-child({place}) .take")
            if (each["word"], each["head"], each["label"]) == (word, head, label) and taking.is_visible():
                return self.screen.click(f"#suggestions li:nth-child({place}) .take", "take")
        if arcs[word - 1][0] != head:
            self.screen.drag(word, head)
        else:
            self.screen.enter_label(word, label, self._frequent)


def started(browser: Any, studio: StudioProcess) -> Screen:
    """Open the page, and wait until the parser has read all sentences."""
    screen, until = Screen(browser, studio), time.perf_counter() + 600
    screen.click("#close-welcome", "welcome")
    while not re.search(r"wrong arcs? left(?! in the)", screen.page.locator("#counted").inner_text()):
        if time.perf_counter() > until:
            raise TreefineError("The parser does not read the sentences.")
        screen.page.wait_for_timeout(100)
    screen.settle()
    screen.actions.clear()
    return screen


def corrected(
    browser: Any, path: Path, cases: Sequence[Case], options: argparse.Namespace, *, kills: int
) -> dict[str, Any]:
    """Let the annotator correct the first wrong sentences; the right ones among them are marked as done."""
    places = [place for place, case in enumerate(cases) if case.n_wrong][: options.sentences]
    some = cases[: places[-1] + 1]
    written = [case.parsed if case.n_wrong else set_comment(case.gold, STATUS, "done") for case in some]
    write_treebank(written, path)
    before, n_wrong = blocks(path), sum(case.n_wrong for case in some)
    faults: list[str] = []
    with StudioProcess(path, options.model) as studio:
        screen = started(browser, studio)
        annotator, rng = Annotator(screen, [case.gold for case in some]), random.Random(options.seed)
        screen.page.select_option("#show", "open")
        screen.settle()
        started_at = time.time()
        for number in range(len(places)):
            n_kills = kills * (number + 1) // len(places) - kills * number // len(places)
            killer = threading.Thread(target=kill_often, args=(studio, n_kills, rng, faults.append))
            killer.start()
            for _ in places:
                if screen.key - 1 in places and screen.key not in annotator.done:
                    break
                screen.press("PageDown", "next")
                screen.settle()
            annotator.correct()
            killer.join()
        seconds = time.time() - started_at
        screen.settle()
        studio.end(signal.SIGINT)
    after, trees = blocks(path), list(read_treebank(path))
    records = Journal(path.with_name(f"{path.name}.annotation") / "journal.jsonl").read()
    changes = Counter(each["id"] for each in records if each["record"] == "change")
    return {
        "sentences": len(places),
        "wrong_arcs": n_wrong,
        "actions": screen.actions.total(),
        "actions_per_wrong_arc": round(screen.actions.total() / n_wrong, 3),
        "actions_by_kind": dict(screen.actions),
        "seconds": round(seconds, 1),
        "kills": kills,
        "faults": faults,
        "page_errors": screen.errors,
        "trees_right": sum(not wrong(arcs_of(trees[place]), arcs_of(some[place].gold)) for place in places),
        "untouched": len(some) - len(places),
        "untouched_identical": sum(after[place] == before[place] for place in range(len(some)) if place not in places),
        "changes": len(changes),
        "changes_twice": [change for change, times in changes.items() if times > 1],
    }


def kill_often(studio: StudioProcess, kills: int, rng: random.Random, report: Callable[[str], None]) -> None:
    """Kill the server at random moments and start it again; the file must be whole in between."""
    for _ in range(kills):
        time.sleep(rng.uniform(0, 2))
        studio.end(signal.SIGKILL)
        try:
            for _ in read_treebank(studio.path):
                pass
            studio.start()
        except TreefineError as error:
            report(str(error))


def blocks(path: Path) -> list[str]:
    """Return the sentences of a file as they are written."""
    return re.split(r"(?<=\n\n)", path.read_bytes().decode())[:-1]


def opened(browser: Any, path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Open a large file, and scroll through its list with the parser at work in the background."""
    sentences = list(read_treebank(english_path(options.treebanks, "train")))
    numbered = enumerate(islice(cycle(sentences), options.large), start=1)
    write_treebank((set_comment(each, "sent_id", f"large-{number}") for number, each in numbered), path)
    began = time.perf_counter()
    with StudioProcess(path, options.model) as studio:
        address = time.perf_counter() - began
        screen = Screen(browser, studio)
        drawn, memory = time.perf_counter() - began, studio.memory()
        screen.page.evaluate(
            """() => {
              const frame = (now) => { window.frames_drawn.push(now); requestAnimationFrame(frame); };
              window.frames_drawn = [];
              requestAnimationFrame(frame);
            }"""
        )
        screen.page.locator("#rows").hover()
        while not screen.page.evaluate(AT_END):
            screen.page.mouse.wheel(0, 1000)
        frames = screen.page.evaluate("window.frames_drawn")
        gaps = [after - before for before, after in zip(frames, frames[1:], strict=False)]
        return {
            "sentences": options.large,
            "address_seconds": round(address, 2),
            "drawn_seconds": round(drawn, 2),
            "frames_per_second": round(1000 * len(gaps) / sum(gaps), 1),
            "longest_frame_ms": round(max(gaps), 1),
            "memory_mib": {"opened": memory, "scrolled": studio.memory()},
        }


def timed(browser: Any, path: Path, cases: Sequence[Case], options: argparse.Namespace) -> dict[str, Any]:
    """Attach one word in each of some sentences of about 25 words; time until the parser has followed."""
    with_wrong_head = [case for case in cases if case.parsed.heads != case.gold.heads]
    some = sorted(with_wrong_head, key=lambda case: abs(len(case.gold) - WORDS))[: options.timed]
    write_treebank((case.parsed for case in some), path)
    times = []
    with StudioProcess(path, options.model) as studio:
        screen = started(browser, studio)
        for case in some:
            pairs = enumerate(zip(case.parsed.heads, case.gold.heads, strict=True), start=1)
            word, head = next((word, head) for word, (parsed, head) in pairs if parsed != head)
            assert head is not None
            with screen.page.expect_response(lambda answer: "/api/follow" in answer.url):
                screen.drag(word, head)
                released = time.perf_counter()
            times.append(1000 * (time.perf_counter() - released))
            screen.settle()
            screen.press("PageDown", "next")
            screen.settle()
    times.sort()
    return {"sentences": len(some), "median_ms": round(statistics.median(times)), "longest_ms": round(times[-1])}
