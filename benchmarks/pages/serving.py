"""Generate the tables of docs/serving.md on limits, load, outages and fuzzing, and the screenshot of the web page."""

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
from benchmarks.rows import ROOT, ROWS, Row, missing, newest, origin, read_rows
from benchmarks.server.clients import HOST, ServeProcess
from benchmarks.server.soak import WARM_UP
from treefine import TreefineError
from treefine.serving.limits import ServerLimits

LOAD, OUTAGES, FUZZ, SOAK = (f"python -m benchmarks {name}" for name in ("load", "outages", "fuzz", "soak"))
OF_OFFLINE = 0.85  # the share of the offline parser's speed that a server should reach
GAP = "\n\n"
NAMES = {  # of kinds of requests and outages, as a page shows them
    "bad neighbours": "misbehaving clients",
    "made from its description": "generated from the API description",
    "in order as far as the model": "match the schema and reach the model",
}
GROWN_MIB = 5.0  # memory that grows by no more than this is noise


def sentence_lengths() -> str:
    """Return the maximum length of a sentence for some numbers of steps and trees."""
    limits = ServerLimits()
    lines: Lines = [("`steps`", "`k`", f"words per sentence, with `--max-words {limits.max_words}`")]
    for steps, k in ((8, 1), (20, 1), (3, 2), (3, 5), (3, 20), (20, 20)):
        lines.append(("up to 8" if steps == 8 else steps, k, f"{limits.words_with(steps=steps, k=k):,}"))
    for steps, k in ((3, 2), (20, 20)):
        lines.append((steps, f"{k}, `projective`", limits.words_with(steps=steps, k=k, is_projective=True)))
    return table(*lines)


def load_rows(path: Path = ROWS) -> list[Row]:
    """Return the newest row for each number of clients on an idle machine, then on a shared one."""
    found = {
        (bool(row["config"].get("busy_processes")), row["config"]["clients"]): row
        for row in read_rows("load", path=path)
    }
    return [row for _, row in sorted(found.items(), key=lambda pair: pair[0])]


def loads(path: Path = ROWS) -> str:
    """Return throughput and latency under each kind of load; the details are folded."""
    rows = load_rows(path)
    if not rows:
        return missing("a server under load", LOAD)
    lines: Lines = [
        ("a request has", "clients", "sentences/s", "share of `treefine parse`", "median latency", "99th percentile")
    ]
    details: Lines = [
        ("a request has", "clients", "words/s", "95th percentile", "sentences per batch", "memory, first → last")
    ]
    for row in rows:
        n_clients = str(row["config"]["clients"]) + (", shared" if row["config"].get("busy_processes") else "")
        for name, each in row["result"].items():
            latency, memory = each["latency_milliseconds"], each["memory"]
            speeds = (f"{each['sentences_per_second']:,.0f}", f"{100 * each['of_offline']:.0f}%")
            lines.append((name, n_clients, *speeds, *(f"{latency[share]:,.0f} ms" for share in ("p50", "p99"))))
            grown = f"{memory['first_mib']:,.0f} → {memory['last_mib']:,.0f} MiB"
            words = (f"{each['words_per_second']:,}", f"{latency['p95']:,.0f} ms")
            details.append((name, n_clients, *words, _round(each), grown))
    config = rows[0]["config"]
    shares = [each["processor_share"]["clients"] for row in rows for each in row["result"].values()]
    also = (
        f"At least {config['seconds']:.0f} s per kind of request, on "
        f"{config['sentences']:,} sentences of {config['file']}; model {config['model']}, "
        f"{config['settings']['precision']}, T = {config['settings']['T']}. The clients took {100 * min(shares):.0f} "
        f'to {100 * max(shares):.0f}% of one core. The number of sentences per batch is an average. "Shared" means '
        "that one other process per core is busy, also while `treefine parse` runs."
    )
    sources = GAP.join(dict.fromkeys(origin(row, LOAD) for row in rows))
    return f"{table(*lines)}\n\n{folded('Details', f'{table(*details)}{GAP}{also}{GAP}{sources}')}"


def soaked(path: Path = ROWS) -> str:
    """Return the memory of a server under a mix of requests for a long time."""
    row = newest("soak", "cpu", path=path)
    if row is None:
        return missing("memory under a long mixed load", SOAK)
    config, result = row["config"], row["result"]
    memory, n_answers = result["memory_mib"], sum(result["answers_by_status"].values())
    shown = [1, *range(WARM_UP + 1, len(memory), 5), len(memory)]
    lines: Lines = [("minute", *map(str, shown)), ("MiB", *(f"{memory[minute - 1]:,.0f}" for minute in shown))]
    gist = (
        f"In {config['minutes']} minutes with {config['clients']} clients and all kinds of requests in turn, the "
        f"memory changed by {result['grown_percent']:+.1f}% after the first {WARM_UP} minutes. All {n_answers:,} "
        f"responses were compared with `treefine parse`: {not_ok(result | {'refusals': {}})} were errors, "
        f"{result['other_trees']} had other trees."
    )
    return GAP.join([gist, table(*lines), origin(row, SOAK)])


def outages(path: Path = ROWS) -> str:
    """Return what clients saw of a server that was overloaded, killed or stopped."""
    row = newest("outages", "cpu", path=path)
    if row is None:
        return missing("overload, kill and SIGTERM", OUTAGES)
    lines: Lines = [("situation", "requests", "lost or wrong", "retries", "longest latency")]
    details: Lines = [("situation", "responses by status", "reasons for retries", "median latency", "99th percentile")]
    for name, each in row["result"].items():
        title, latency = NAMES.get(name, name), each["latency_milliseconds"]
        lost = each["unanswered"] + each["other_trees"] + not_ok(each, refusals=False)
        retried = f"{sum(each['refusals'].values()):,}"
        lines.append((title, f"{each['requests']:,}", lost, retried, f"{latency['longest']:,.0f} ms"))
        again = ", ".join(f"{count:,} × {reason}" for reason, count in each["refusals"].items()) or "none"
        answered = ", ".join(f"{count:,} × {status}" for status, count in each["answers_by_status"].items())
        details.append((title, answered, again, *(f"{latency[share]:,.0f} ms" for share in ("p50", "p99"))))
    return (
        f"{table(*lines)}\n\n{folded('Details', GAP.join([table(*details), _of_outages(row), origin(row, OUTAGES)]))}"
    )


def _of_outages(row: Row) -> str:
    result, config = row["result"], row["config"]
    overload, term, killed = result["overload"], result["SIGTERM"], result["kill -9"]
    starts = [*killed["seconds_to_start"], *term["seconds_to_start"]]
    bad = sum(result["bad neighbours"]["bad"].values())
    speeds = [f"{overload[f'sentences_per_second{when}']:,.0f}" for when in ("", "_before", "_after")]
    memory = [f"{overload[f'memory_mib_{when}']:,.0f}" for when in ("before", "after")]
    return (
        f"{overload['clients']} clients in the overload, {config['clients']} otherwise. The overloaded server parsed "
        f"{speeds[0]} sentences/s; with {config['clients']} clients it parsed {speeds[1]} before and {speeds[2]} after "
        f"the overload, and used {memory[0]} and {memory[1]} MiB. Misbehaving clients sent {bad:,} requests. The "
        f"server was killed {killed['stops']} times and stopped by SIGTERM {term['stops']} times. It answered again "
        f"{min(starts):.1f} to {max(starts):.1f} s after each restart. Latency is that of the answered attempt."
    )


def fuzzed(path: Path = ROWS) -> str:
    """Return the responses of a server to odd requests."""
    row = newest("fuzz", "cpu", path=path)
    if row is None:
        return missing("fuzzing", FUZZ)
    lines: Lines = [("requests", "route", "sent", "responses by status")]
    for name, each in row["result"].items():
        if isinstance(each, dict):
            for route, statuses in sorted(each["answers_by_status"].items()):
                answers = ", ".join(f"{count:,} × {status}" for status, count in statuses.items())
                lines.append((NAMES.get(name, name), f"`{route}`", f"{sum(statuses.values()):,}", answers))
    found = [each for each in row["result"].values() if isinstance(each, dict)]
    totals = [sum(each[name] for each in found) for name in ("requests", "errors_of_the_server", "faults")]
    gist = (
        f"Of {totals[0]:,} requests, {totals[1]} were answered with a 500, and {totals[2]} responses differ from the "
        "API description."
    )
    tool = f"Schemathesis {row['config']['packages']['schemathesis']}."
    return f"{gist}\n\n{folded('Responses by route', GAP.join([table(*lines), f'{tool} {origin(row, FUZZ)}']))}"


def not_ok(each: Mapping[str, Any], *, refusals: bool = True) -> int:
    """Count the responses that are not a 200, and the failed connections if `refusals` is set."""
    counted: dict[str, int] = {**each["answers_by_status"]}
    counted.pop("200", None)
    return sum(counted.values()) + (sum(each["refusals"].values()) if refusals else 0)


def _round(each: Mapping[str, Any]) -> str:
    n_rounds = each["rounds"]["rounds"]
    return f"{each['sentences'] / n_rounds:,.0f}" if n_rounds else ""


SERVING_PAGE: dict[str, Callable[[], str]] = {
    "serving_load": loads,
    "serving_soak": soaked,
    "serving_outages": outages,
    "serving_fuzz": fuzzed,
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 800, "height": 720}
SHOWN = {"text": "I called for hours, and not one of the words answered.", "t": 2}  # the step that changes most


@command(option("--output", type=Path, default=ROOT / "docs" / "page.png", help="default: %(default)s"))
def measure_page(options: argparse.Namespace) -> None:
    """Take the screenshot of the web page for the docs, in a headless browser with the bundled model.

    python -m benchmarks page
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise TreefineError("Chromium was not found.", hint="Install it: apt-get install chromium")
    with ServeProcess([]) as server:
        take_picture(f"http://{HOST}:{server.port}/#{urlencode(SHOWN)}", browser, options.output)


def take_picture(address: str, browser: str, path: Path) -> None:
    """Write a screenshot of the page at this address."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        page = opened.new_page(viewport=SIZE, reduced_motion="reduce")
        page.goto(address)
        page.wait_for_selector("#drawing svg")
        top, bottom = page.locator("#result").bounding_box(), page.locator("#legend").bounding_box()
        page.screenshot(path=path, clip=top | {"height": bottom["y"] + bottom["height"] - top["y"] + 8})
        opened.close()
