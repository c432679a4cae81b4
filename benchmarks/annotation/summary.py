"""Write the table of the studio's measurements, with their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.markdown import Line, Lines, table, verdict
from benchmarks.rows import ROWS, missing, origin, read_rows

COMMAND = "python -m benchmarks annotation"
KINDS = ("corrections", "kills", "opening", "latency", "estimate")
MOST_ACTIONS, MOST_SECONDS, MOST_MS = 2.2, 2.0, 150.0  # per wrong arc; to the first sentence; of a follow-up


def annotation(path: Path = ROWS) -> str:
    """Return one line per measurement of the studio, with its target."""
    rows = {row["config"]["kind"]: row for row in read_rows("annotation", path=path)}
    if not rows:
        return missing("the studio", COMMAND)
    lines: Lines = [("measurement", "result", "target")]
    for kind in filter(rows.__contains__, KINDS):
        lines += LINES[kind](rows[kind]["config"], rows[kind]["result"])
    newest = max(rows.values(), key=lambda row: str(row["when"]))
    return f"{table(*lines)}\n\n{origin(newest, COMMAND)}"


def _correction_lines(config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Line]:
    n, wrong, ratio = config["sentences"], result["wrong_arcs"], result["actions_per_wrong_arc"]
    hand = result["hand"]
    is_right = result["trees_right"] == n == result["identical_without_marks"]
    return [
        (
            f"actions per wrong arc ({n} sentences with {wrong} wrong arcs), with one Enter per sentence",
            f"{ratio:.2f}",
            f"at most {MOST_ACTIONS}: {verdict(ratio <= MOST_ACTIONS)}",
        ),
        ("without the Enter per sentence", f"{result['actions_per_wrong_arc_without_done']:.2f}", ""),
        ("drags, clicks, key presses", f"{hand['drags']}, {hand['clicks']}, {hand['keys']}", ""),
        (
            "other arcs that the parser corrected, broke after a correction",
            f"{result['repaired']}, {result['broken']}",
            "",
        ),
        (
            "sentences with the gold tree in the file",
            f"{result['trees_right']} of {n}",
            f"all: {verdict(is_right)}",
        ),
        (
            "untouched sentences that are the same byte for byte",
            f"{result['untouched_identical']} of {result['untouched']}",
            f"all: {verdict(result['untouched_identical'] == result['untouched'])}",
        ),
    ]


def _kill_lines(config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Line]:
    lost = sum(len(result[each]) for each in ("lost", "given_up", "changes_missing", "changes_twice", "faults"))
    is_whole = result["trees_right"] == config["sentences"] and not lost
    return [
        (
            f"changes lost or made twice when the server was killed {result['kills']} times",
            f"{lost} of {result['changes_shown']}",
            f"0: {verdict(is_whole)}",
        )
    ]


def _opening_lines(config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Line]:
    return [
        (
            f"first sentence of a file of {config['sentences']:,} is shown after",
            f"{result['drawn']:.1f} s",
            f"less than {MOST_SECONDS:.0f} s: {verdict(result['drawn'] < MOST_SECONDS)}",
        ),
        (
            "scrolling through its list",
            f"{result['frames_per_second']:.0f} frames per second, longest {result['frame_ms']['max']:.0f} ms",
            "",
        ),
        ("memory of the server", f"{result['memory']['scrolled']['VmRSS']:,.0f} MiB", ""),
    ]


def _latency_lines(config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Line]:
    low, high = config["words"]
    words = f"{low}" if low == high else f"{low} to {high}"
    return [
        (
            f"the parser follows a correction in a sentence of {words} words, median (90%)",
            f"{result['follow']['median']:.0f} ms ({result['follow']['p90']:.0f} ms)",
            f"less than {MOST_MS:.0f} ms: {verdict(result['follow']['median'] < MOST_MS)}",
        ),
        (
            "saving the correction, finding doubtful places",
            f"{result['edit']['median']:.0f} ms, {result['advice']['median']:.0f} ms",
            "",
        ),
        ("from the release of the mouse to the shown follow-up", f"{result['shown']['median']:.0f} ms", ""),
    ]


def _estimate_lines(config: Mapping[str, Any], result: Mapping[str, Any]) -> list[Line]:
    return [
        (
            f"wrong arcs left in {config['sentences']} sentences {when}: estimated, true",
            f"{result[name]['estimate']}, {result[name]['wrong']}",
            "",
        )
        for name, when in (("start", "at the start"), ("half", "after the most doubtful half"))
    ]


LINES: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], list[Line]]] = {
    "corrections": _correction_lines,
    "kills": _kill_lines,
    "opening": _opening_lines,
    "latency": _latency_lines,
    "estimate": _estimate_lines,
}
