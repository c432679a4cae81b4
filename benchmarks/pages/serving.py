"""The tables of docs/serving.md on load, outages and fuzzing, and the picture of the web page."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.markdown import Lines, folded, table
from benchmarks.options import command, option
from benchmarks.rows import ROOT, ROWS, Row, missing, newest, origin
from benchmarks.server.clients import HOST, ServeProcess
from treefine import TreefineError

LOAD, OUTAGES, FUZZ = (f"python -m benchmarks {name}" for name in ("load", "outages", "fuzz"))
OF_OFFLINE = 0.85  # the share of the offline parser's speed that a server should reach
GROWN_MIB = 5.0  # memory that grows by no more than this is noise


def loads(path: Path = ROWS) -> str:
    """Speed, latency and memory under each kind of load."""
    row = newest("load", "cpu", path=path)
    if row is None:
        return missing("a server under load", LOAD)
    head = (
        "a request has",
        "sentences/s",
        "words/s",
        "of offline",
        "p50",
        "p95",
        "p99",
        "a round",
        "memory, first → last",
    )
    lines: Lines = [head]
    for name, each in row["result"].items():
        latency, memory = each["latency_milliseconds"], each["memory"]
        lines.append(
            (
                name,
                f"{each['sentences_per_second']:,.0f}",
                f"{each['words_per_second']:,}",
                f"{100 * each['of_offline']:.0f} %",
                *(f"{latency[share]:,.0f} ms" for share in ("p50", "p95", "p99")),
                _round(each),
                f"{memory['first_mib']:,.0f} → {memory['last_mib']:,.0f} MiB",
            )
        )
    config = row["config"]
    shares = [each["processor_share"]["clients"] for each in row["result"].values()]
    also = (
        f"{config['clients']} clients, at least {config['seconds']:.0f} s of each kind, on {config['sentences']:,} "
        f"sentences of {config['file']}; model {config['model']}, {config['settings']['precision']}, "
        f"T = {config['settings']['T']}. The clients themselves took {100 * min(shares):.0f} to "
        f"{100 * max(shares):.0f} % of one core. A round: how many sentences were parsed together, on average."
    )
    return f"{table(*lines)}\n\n{also}\n\n{origin(row, LOAD)}"


def outages(path: Path = ROWS) -> str:
    """What clients saw of a server that was overloaded, killed or told to end."""
    row = newest("outages", "cpu", path=path)
    if row is None:
        return missing("overload, kill and SIGTERM", OUTAGES)
    lines: Lines = [("", "requests", "answered", "had to ask again", "other answers", "p50", "p99", "longest")]
    for name, each in row["result"].items():
        latency = each["latency_milliseconds"]
        again = ", ".join(f"{count:,} × {reason}" for reason, count in each["refusals"].items()) or "none"
        answered = ", ".join(f"{count:,} × {status}" for status, count in each["answers_by_status"].items())
        times = (f"{latency[share]:,.0f} ms" for share in ("p50", "p99", "longest"))
        lines.append((name, f"{each['requests']:,}", answered, again, each["other_trees"], *times))
    return f"{table(*lines)}\n\n{_of_outages(row)}\n\n{origin(row, OUTAGES)}"


def _of_outages(row: Row) -> str:
    result, config = row["result"], row["config"]
    overload, term, killed = result["overload"], result["SIGTERM"], result["kill -9"]
    starts = [*killed["seconds_to_start"], *term["seconds_to_start"]]
    bad = sum(result["bad neighbours"]["bad"].values())
    speeds = [f"{overload[f'sentences_per_second{when}']:,.0f}" for when in ("", "_before", "_after")]
    memory = [f"{overload[f'memory_mib_{when}']:,.0f}" for when in ("before", "after")]
    return (
        f"{overload['clients']} clients in the overload, {config['clients']} else. The overloaded server parsed "
        f"{speeds[0]} sentences/s; before {speeds[1]} and after {speeds[2]} with {config['clients']} clients, when it "
        f"held {memory[0]} and {memory[1]} MiB. Bad neighbours sent {bad:,} requests. The server was killed "
        f"{killed['stops']} times and told to end {term['stops']} times, and answered again {min(starts):.1f} to "
        f"{max(starts):.1f} s after it was started. Latencies are those of the request that was answered."
    )


def fuzzed(path: Path = ROWS) -> str:
    """What a server answered to odd requests."""
    row = newest("fuzz", "cpu", path=path)
    if row is None:
        return missing("fuzzing", FUZZ)
    lines: Lines = [("requests", "route", "sent", "answers by status")]
    for name, each in row["result"].items():
        if isinstance(each, dict):
            for route, statuses in sorted(each["answers_by_status"].items()):
                told = ", ".join(f"{count:,} × {status}" for status, count in statuses.items())
                lines.append((name, f"`{route}`", f"{sum(statuses.values()):,}", told))
    found = [each for each in row["result"].values() if isinstance(each, dict)]
    totals = [sum(each[name] for each in found) for name in ("requests", "errors_of_the_server", "faults")]
    also = (
        f"{totals[0]:,} requests; {totals[1]} were answered by a 500, and {totals[2]} answers are not as described. "
        f"Schemathesis {row['config']['packages']['schemathesis']}."
    )
    return f"{table(*lines)}\n\n{also}\n\n{origin(row, FUZZ)}"


def not_ok(each: Mapping[str, Any], *, refusals: bool = True) -> int:
    """Answers that are not a 200, and with it connections that failed."""
    counted: dict[str, int] = {**each["answers_by_status"]}
    counted.pop("200", None)
    return sum(counted.values()) + (sum(each["refusals"].values()) if refusals else 0)


def _round(each: Mapping[str, Any]) -> str:
    n_rounds = each["rounds"]["rounds"]
    return f"{each['sentences'] / n_rounds:,.0f}" if n_rounds else ""


SERVING_PAGE: dict[str, Callable[[], str]] = {
    "serving_load": loads,
    "serving_outages": outages,
    "serving_fuzz": fuzzed,
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 800, "height": 720}
SHOWN = {"text": "The dog that I had really loved bones.", "t": 2}  # the step that changes most


@command(option("--output", type=Path, default=ROOT / "docs" / "page.png", help="default: %(default)s"))
def measure_page(options: argparse.Namespace) -> None:
    """Make the picture of the web page in the docs, in a headless browser over a server with the bundled model.

    python -m benchmarks page
    """
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
