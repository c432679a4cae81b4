"""Measure the studio: actions per correction, kills, a large file, latency, and the estimate of the errors left."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.annotation.annotator import Annotator, spread
from benchmarks.annotation.inputs import (
    INPUT_LANGUAGE,
    INPUT_MODEL,
    INPUT_STEPS,
    Case,
    of_length,
    parsed_cases,
    stretch,
    without_marks,
    write_cases,
    write_large,
    wrong_words,
)
from benchmarks.annotation.killer import Killer
from benchmarks.annotation.screen import Screen, StudioProcess, chromium
from benchmarks.options import ROWS_FILE, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import TREEBANKS, model_fields, release_of, save_row
from treefine import Sentence, TreefineError, read_treebank
from treefine.studio.journal import Journal

WORDS = 25  # of the sentences whose latency is measured
STEP = 1000  # pixels of one turn of the wheel
LEFT = """() => {
  const rows = document.getElementById("rows");
  return rows.scrollHeight - rows.clientHeight - rows.scrollTop;
}"""
LAST_ROW = """(place) => document.querySelector(`#rows .row[aria-posinset="${place}"] .row-text`)?.textContent"""
READY_SECONDS = 600.0  # until the parser has read a file


KINDS = ("corrections", "kills", "opening", "latency", "estimate")


@command(
    option("--only", nargs="+", choices=KINDS, default=KINDS, help="what to measure (default: all)"),
    option("--model", default="", help="model of the studio (default: the one that treefine annotate chooses)"),
    TREEBANKS_FOLDER.but(default=TREEBANKS.parent / "permissive"),
    count("--sentences", 50, "number of sentences to correct"),
    count("--arcs", 120, "number of wrong arcs in them"),
    option("--confirms", action="store_true", help="tick that correcting a word confirms the words before it"),
    count("--kills", 20, "number of kills of the server"),
    count("--seed", 1, "random seed of their moments"),
    count("--large", 10_000, "number of sentences of the large file"),
    count("--rounds", 3, "how often the large file is opened"),
    count("--timed", 20, "number of sentences whose latency is measured"),
    count("--rated", 200, "number of sentences for the estimate of the errors left"),
    option("--keep", type=Path, default=None, metavar="DIR", help="keep the files in this folder"),
    ROWS_FILE,
)
def measure_annotation(options: argparse.Namespace) -> None:
    """Correct trees in the browser as a person does, with the mouse and the keyboard; write one row per measurement.

    python -m benchmarks annotation
    python -m benchmarks annotation --only corrections kills --sentences 5 --arcs 12 --kills 4 --rows scratch/rows.jsonl

    corrections  a scripted annotator corrects the output of a weaker parser, most doubtful sentences first
    kills        the same, while the server is killed and started again
    opening      the seconds until a large file is shown, and how smoothly its list scrolls
    latency      the milliseconds that the parser needs to follow a correction in sentences of 25 words
    estimate     the number of wrong arcs left that the page shows, and the true one

    Actions are drags, clicks, label entries (some letters and Enter, or a digit), command keys and turns of the wheel.
    Run it on an idle machine. The rows record the load before each measurement.
    """
    measures: Mapping[str, Callable[[Bench], tuple[dict[str, Any], dict[str, Any]]]] = {
        "corrections": measured_corrections,
        "kills": measured_kills,
        "opening": measured_opening,
        "latency": measured_latency,
        "estimate": measured_estimate,
    }
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(options, folder, browser)
        for kind in filter(options.only.__contains__, KINDS):
            load = round(os.getloadavg()[0], 2)
            config, result = measures[kind](bench)
            shared: dict[str, Any] = {
                "kind": kind,
                "treebank": "en_ewt",
                "release": release_of(options.treebanks, "en_ewt"),
            }
            shared["load_average"] = load
            save_row("annotation", shared | bench.model | config, result, path=options.rows)


class Bench:
    """The parts that all measurements share: the options, a folder, a browser, and the parsed sentences."""

    def __init__(self, options: argparse.Namespace, folder: Path, browser: Any) -> None:
        self.options, self.folder, self.browser = options, folder, browser
        self.model: dict[str, Any] = {}  # the studio's model, as fields of a config

    @cached_property
    def cases(self) -> list[Case]:
        """All sentences of dev as the weaker parser leaves them."""
        return parsed_cases(self.options.treebanks)

    def path(self, name: str) -> Path:
        """Return the path of a new file, without what an earlier run left beside it."""
        path = self.folder / f"{name}.conllu"
        shutil.rmtree(f"{path}.annotation", ignore_errors=True)
        return path

    def studio(self, path: Path) -> StudioProcess:
        """Return the studio on a file."""
        return StudioProcess(path, arguments=["--model", self.options.model] if self.options.model else [])

    @contextmanager
    def opened(self, path: Path) -> Iterator[tuple[StudioProcess, Screen]]:
        """Open a file, and wait until the parser has read all its sentences."""
        with self.studio(path) as studio:
            screen = Screen(self.browser)
            screen.open(studio.address)
            screen.click("#close-welcome", "welcome")
            wait_until_read(screen)
            screen.settle()
            self.note_model(studio)
            yield studio, screen
            screen.close()
            studio.stop()

    def note_model(self, studio: StudioProcess) -> None:
        """Remember the model of the studio for the rows."""
        self.model = model_fields(studio.get("project")["parser"]["name"])


def wait_until_read(screen: Screen) -> None:
    """Wait until the page's estimate is about all sentences."""
    until = time.perf_counter() + READY_SECONDS
    while estimate_of(screen.progress) is None:
        if time.perf_counter() > until:
            raise TreefineError("The parser does not read the sentences.", hint=screen.progress)
        screen.page.wait_for_timeout(100)


def wait_for_parser(studio: StudioProcess, screen: Screen) -> None:
    """Wait until the parser of a new server is loaded, and the page has heard of it."""
    while not studio.get("project")["parser"]["is_ready"]:
        screen.page.wait_for_timeout(100)
    screen.page.wait_for_timeout(2000)  # it asks more often
    screen.settle()


def estimate_of(progress: str) -> int | None:
    """Return the number of wrong arcs left that the page shows; None while the parser has not read all sentences.

    >>> estimate_of("0 of 12 done · about 1,045 wrong arcs left · 1 s and 1.0 actions per sentence")
    1045
    >>> estimate_of("0 of 12 done · about 5 wrong arcs left in the 3 sentences that the parser has read")
    """
    found = re.search(r"about ([\d,]+) wrong arcs? left(?! in the)", progress)
    return int(found[1].replace(",", "")) if found else None


# Corrections


def measured_corrections(bench: Bench) -> tuple[dict[str, Any], dict[str, Any]]:
    """Correct the sentences without disturbance."""
    return corrected(bench, "corrections", kills=0)


def measured_kills(bench: Bench) -> tuple[dict[str, Any], dict[str, Any]]:
    """Correct the sentences while the server is killed."""
    config, result = corrected(bench, "kills", kills=bench.options.kills)
    return config | {"seed": bench.options.seed}, result


def corrected(bench: Bench, name: str, *, kills: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let the annotator correct a stretch of dev; its right sentences are marked as done, and stay untouched."""
    options = bench.options
    cases = stretch(bench.cases, options.sentences, options.arcs)
    path = bench.path(name)
    right = {place for place, case in enumerate(cases) if not case.n_wrong}
    write_cases(cases, path, done=right)
    before = blocks(path)
    n_wrong = sum(case.n_wrong for case in cases)
    gold = {place + 1: case.gold for place, case in enumerate(cases) if place not in right}
    estimates: dict[str, Any] = {}
    with bench.opened(path) as (studio, screen):
        inputs = len(gold) + n_wrong // 2  # at least so many
        killer = Killer(
            studio,
            kills=kills,
            inputs=inputs,
            seed=options.seed,
            wait_for_parser=lambda: wait_for_parser(studio, screen),
        )
        screen.choose_order()
        if options.confirms:
            screen.click("#confirms", "confirms")
        screen.settle()
        estimates["start"] = {"estimate": estimate_of(screen.progress), "wrong": n_wrong}
        setup, screen.counts = screen.counts, type(screen.counts)()
        lost: list[str] = []

        def after_sentence(n_done: int) -> None:
            if n_done == len(gold) // 2 and not kills:
                wait_until_read(screen)
                left = sum(cases[key - 1].n_wrong for key in gold if key not in annotator.tally.actions_by_sentence)
                estimates["half"] = {"estimate": estimate_of(screen.progress), "wrong": left}

        annotator = Annotator(
            screen,
            gold,
            before_input=killer.before_input,
            after_sentence=after_sentence,
            after_move=lambda: lost.extend(not_on_server(killer, studio, screen)),
        )
        annotator.correct_all()
        killer.wait()
    tally, counts = annotator.tally, screen.counts
    result = {
        "sentences": len(gold),
        "wrong_arcs": n_wrong,
        "actions": counts.actions,
        "actions_per_wrong_arc": round(counts.actions / n_wrong, 3),
        "actions_per_wrong_arc_without_done": round((counts.actions - counts.done) / n_wrong, 3),
        "hand": counts.to_dict(),
        "setup_actions": setup.actions,
        **tally.to_dict(),
        "estimates": estimates,
        "page_errors": screen.errors,
        **file_checks(path, before, {key: case.gold for key, case in enumerate(cases, start=1)}, set(gold)),
    }
    if kills:
        result |= {
            "kills": killer.n_kills,
            "kills_by_moment": dict(killer.moments),
            "faults": killer.faults,
            "lost": lost,
            "given_up": screen.given_up,
            **journal_checks(path, screen.changes),
        }
    config = {"input": f"{INPUT_MODEL} ({INPUT_LANGUAGE}), T = {INPUT_STEPS}", "untouched": len(right)}
    return config | {"sentences": len(gold), "order": "doubt", "confirms": options.confirms}, result


def not_on_server(killer: Killer, studio: StudioProcess, screen: Screen) -> list[str]:
    """Return what is shown but not on the server, if it was killed and runs again."""
    if not killer.n_kills or killer.is_at_work:
        return []
    shown = screen.sentence()
    found = studio.get(f"sentence?file=0&key={shown['key']}")
    return [] if found["lines"] == shown["lines"] else [f"sentence {shown['key']}, version {shown['version']}"]


def blocks(path: Path) -> list[str]:
    """Return the sentences of a file as they are written."""
    return re.split(r"(?<=\n\n)", path.read_bytes().decode())[:-1]


def file_checks(path: Path, before: Sequence[str], gold: Mapping[int, Sentence], touched: set[int]) -> dict[str, Any]:
    """Compare the file with gold and with what it was: trees, and the bytes of the sentences that nobody touched."""
    found, after = list(read_treebank(path)), blocks(path)
    pairs = [(found[key - 1], gold[key]) for key in touched] if len(found) == len(gold) else []
    same = (
        [after[key - 1] == before[key - 1] for key in gold if key not in touched] if len(after) == len(before) else []
    )
    return {
        "trees_right": sum(not wrong_words(one, other) for one, other in pairs),
        "identical_without_marks": sum(without_marks(one).to_conllu() == other.to_conllu() for one, other in pairs),
        "untouched_identical": sum(same),
        "untouched": len(gold) - len(touched),
    }


def journal_checks(path: Path, shown: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return which of the changes that the page got an answer for are not in the journal, or are there twice."""
    records = Journal(path.with_name(f"{path.name}.annotation") / "journal.jsonl").read()
    recorded = Counter(each["id"] for each in records if each["record"] == "change")
    return {
        "changes_shown": len({change for change, _ in shown}),
        "changes_missing": sorted({change for change, _ in shown if not recorded[change]}),
        "changes_twice": sorted(change for change, times in recorded.items() if times > 1),
    }


# A large file


def measured_opening(bench: Bench) -> tuple[dict[str, Any], dict[str, Any]]:
    """Open a large file several times, and scroll through its list once."""
    options = bench.options
    path = bench.path("large")
    write_large(options.treebanks, path, options.large)
    address, drawn, scrolled = [], [], {}
    for number in range(options.rounds):
        screen = Screen(bench.browser)
        studio = bench.studio(path)
        started = time.perf_counter()
        with studio:
            address.append(time.perf_counter() - started)
            screen.open(studio.address)
            drawn.append(time.perf_counter() - started)
            if number == 0:
                opened = studio.memory()
                scrolled = scroll(screen, options.large)
                bench.note_model(studio)
                scrolled["memory"] = {"opened": opened, "scrolled": studio.memory()}
            screen.close()
            studio.stop()
    return {"sentences": options.large, "bytes": path.stat().st_size}, {
        "address_seconds": [round(each, 2) for each in address],
        "drawn_seconds": [round(each, 2) for each in drawn],
        "drawn": round(statistics.median(drawn), 2),
        **scrolled,
    }


def scroll(screen: Screen, sentences: int) -> dict[str, Any]:
    """Turn the wheel through the whole list, with the parser at work in the background; return how smooth it was."""
    page = screen.page
    box = page.locator("#rows").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.evaluate(
        """() => {
          const frame = (now) => { window.__frames.push(now); window.__frame = requestAnimationFrame(frame); };
          window.__frames = [];
          window.__frame = requestAnimationFrame(frame);
        }"""
    )
    turns = 0
    while page.evaluate(LEFT) > 1:
        page.mouse.wheel(0, STEP)
        turns += 1
    frames = page.evaluate("() => { cancelAnimationFrame(window.__frame); return window.__frames; }")
    started = time.perf_counter()
    while page.evaluate(LAST_ROW, sentences) in (None, "…"):
        if time.perf_counter() - started > READY_SECONDS:
            raise TreefineError("The last row of the list is not shown.")
    gaps = [after - before for before, after in zip(frames, frames[1:], strict=False)]
    return {
        "turns": turns,
        "scroll_seconds": round((frames[-1] - frames[0]) / 1000, 1),
        "frames_per_second": round(1000 * len(gaps) / (frames[-1] - frames[0]), 1),
        "frame_ms": spread(gaps),
        "last_row_ms": round(1000 * (time.perf_counter() - started)),
    }


# Latency


def measured_latency(bench: Bench) -> tuple[dict[str, Any], dict[str, Any]]:
    """Correct one head in each of some sentences of about 25 words."""
    cases = of_length(bench.cases, WORDS, bench.options.timed)
    path = bench.path("latency")
    write_cases(cases, path)
    with bench.opened(path) as (_, screen):
        annotator = Annotator(screen, {key: case.gold for key, case in enumerate(cases, start=1)})
        for _ in cases:
            if not annotator.correct_first():
                raise TreefineError("This sentence has no wrong head.", hint=f"Sentence {screen.key}.")
            screen.press("PageDown", "next")
            screen.settle()
    tally = annotator.tally
    lengths = [len(case.gold) for case in cases]
    return {"sentences": len(cases), "words": [min(lengths), max(lengths)]}, {
        **{path: spread(each) for path, each in tally.answers_ms.items()},
        "shown": spread(tally.drags_ms),
        "not_applied": tally.not_applied,
    }


# Errors left


def measured_estimate(bench: Bench) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the estimate for sentences that nobody chose, then after the most doubtful half of them is right."""
    cases = bench.cases[: bench.options.rated]
    path = bench.path("estimate")
    write_cases(cases, path)
    result: dict[str, Any] = {}
    with bench.opened(path) as (studio, screen):
        keys = studio.get("queue?file=0&order=doubt")["keys"]
        result["start"] = {"estimate": estimate_of(screen.progress), "wrong": sum(case.n_wrong for case in cases)}
    done = {key - 1 for key in keys[: len(keys) // 2]}
    path = bench.path("estimate-half")
    write_cases(cases, path, done=done)
    with bench.opened(path) as (_, screen):
        left = sum(case.n_wrong for place, case in enumerate(cases) if place not in done)
        result["half"] = {"estimate": estimate_of(screen.progress), "wrong": left}
    return {"sentences": len(cases), "input": f"{INPUT_MODEL} ({INPUT_LANGUAGE}), T = {INPUT_STEPS}"}, result
