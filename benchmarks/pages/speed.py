"""Generate the tables of docs/speed.md: each path of a user, accuracy and passes, other parsers, and a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from benchmarks.markdown import NONE, Lines, table
from benchmarks.peers.answers import FIVE, RUNNING
from benchmarks.rows import Row, machine_of, newest, origin, read_rows
from benchmarks.speed.running_text import ACCURACY, BASE, FAST, MEMORY, NOW, PATHS, PEERS, Unit

USER = "python -m benchmarks running_text"
FILES = "python -m benchmarks files --device cuda"
SETTINGS = {NOW: "default", FAST: '`speed="fast"`', BASE: f"commit {BASE}"}
TEXT_SCORES = ("Tokens", "Sentences", "LAS")
NOTES = {
    "spaCy": "a small pipeline, trained here for a few minutes",
    "UDPipe 1": "beam of 5, trained here for a few minutes",
    "Stanza": "default size; random weights, except the tokenizer's",
}
NOT_YET = f"Not measured yet: `{USER}`."


def user_rows() -> dict[str, Row]:
    """Return the newest row of each path."""
    return {row["config"]["path"]: row for row in read_rows("running_text")}


def accuracy_rows() -> dict[str, Row]:
    """Return the newest row of accuracy of each treebank."""
    return {row["config"]["treebank"]: row for row in read_rows("running_text") if row["config"]["path"] == ACCURACY}


def cell(row: Row | None, system: str, name: str, digits: int = 0) -> str:
    """Return a number of a system, or a dash if it was not measured."""
    number = row["result"].get(system, {}).get(name) if row else None
    return NONE if number is None else f"{number:,.{digits}f}"


def _result(row: Row, system: str, unit: Unit) -> str:
    """Return the result of a path with its unit."""
    if unit == "sentences/s":
        number = cell(row, system, "sentences_per_second")
    elif unit == "CPU s":
        number = cell(row, system, "processor_seconds", 1)
    else:
        seconds = row["result"].get(system, {}).get("seconds")
        number = NONE if seconds is None else f"{seconds * (1000 if unit == 'ms' else 1):.1f}"
    return number if number == NONE else f"{number} {unit}"


def by_path(rows: Mapping[str, Row]) -> str:
    """Return the results of each path, and how many times as fast they are as those of the base commit."""
    if RUNNING not in rows:
        return NOT_YET
    settings = [system for system in SETTINGS if system in rows[RUNNING]["result"]]
    now = [system for system in settings if system != BASE]
    ratios = ("times as fast", f"times as fast, {SETTINGS[FAST]}")[: len(now)] if BASE in settings else ()
    lines: Lines = [("path", *(SETTINGS[system] for system in settings), *ratios)]
    for name, path in PATHS.items():
        if row := rows.get(name):
            cells = [_result(row, system, path.unit) for system in settings]
            lines.append((path.title, *cells, *(cell(row, system, "times_as_fast", 2) for system in now if ratios)))
    if row := rows.get(MEMORY):
        for name, what in (("en_mib", "`en`"), ("en_and_multi_mib", "`en` and `multi`")):
            numbers = (cell(row, system, name) for system in settings)
            cells = [each if each == NONE else f"{each} MiB" for each in numbers]
            lines.append((f"peak memory with {what}", *cells, *[""] * len(ratios)))
    config = rows[RUNNING]["config"]
    notes = (
        f"{config['sentences']:,} sentences, {config['words'] / config['sentences']:.0f} words on average, of "
        f"{' and '.join(config['text'])}, written genres; {config['threads']} threads, median of {config['rounds']} "
        f"rounds.{_share(rows)} {origin(rows[RUNNING], USER)}"
    )
    return f"{table(*lines)}\n\n{notes}"


def _share(rows: Mapping[str, Row]) -> str:
    """Return how fast short documents are, compared with one long text."""
    if FIVE not in rows:
        return ""
    speeds = [rows[name]["result"][NOW]["sentences_per_second"] for name in (FIVE, RUNNING)]
    return f" Documents of five sentences have {100 * speeds[0] / speeds[1]:.0f}% of the speed of one long text."


def by_treebank(rows: Iterable[Row]) -> str:
    """Return the accuracy and the passes of each setting on each treebank."""
    titles = [f"{name}, raw text" for name in TEXT_SCORES]
    lines: Lines = [("treebank", "setting", "passes", *titles, "LAS, gold words")]
    last: Row | None = None
    for row in rows:
        last = row
        for system in (each for each in SETTINGS if each in row["result"]):
            scores = (cell(row, system, name, 2) for name in (*titles, "LAS, gold words"))
            lines.append((row["config"]["treebank"], SETTINGS[system], cell(row, system, "passes", 2), *scores))
    return f"{table(*lines)}\n\n{origin(last, USER)}" if last else NOT_YET


def with_others(rows: Mapping[str, Row], accuracy: Row | None) -> str:
    """Return the speed and the accuracy of treefine and other parsers from running text."""
    row = rows.get(RUNNING)
    if row is None:
        return NOT_YET
    names = {NOW: "treefine `en`", FAST: 'treefine `en`, `speed="fast"`'} | {name: name for name in PEERS}
    lines: Lines = [("parser", "sentences/s", "CPU seconds", "LAS from raw text, en_ewt dev", "note")]
    for system, name in names.items():
        if system in row["result"]:
            speed = (cell(row, system, "sentences_per_second"), cell(row, system, "processor_seconds", 1))
            lines.append((name, *speed, cell(accuracy, system, "LAS, raw text", 2), NOTES.get(system, "")))
    packages = ", ".join(f"{name} {version}" for name, version in row["config"]["packages"].items())
    return f"{table(*lines)}\n\n{packages}. {origin(row, USER)}"


def on_gpu(row: Row) -> str:
    """Return the sentences per second from file to file on a GPU, by setting."""
    result, config = row["result"], row["config"]
    lines: Lines = [("setting", f"sentences/s, {machine_of(row)}, {config['settings']['to convergence'][0]}")]
    lines += [(name, f"{found['sentences_per_second']:,}") for name, found in result.items()]
    note = f"{config['workers']} worker processes read and write CoNLL-U files of {config['file']}."
    return f"{table(*lines)}\n\n{note} {origin(row, FILES)}"


SPEED_PAGE: dict[str, Callable[[], str]] = {
    "speed_paths": lambda: by_path(user_rows()),
    "speed_accuracy": lambda: by_treebank(accuracy_rows().values()),
    "speed_others": lambda: with_others(user_rows(), accuracy_rows().get("en_ewt dev")),
    "speed_gpu": lambda: on_gpu(newest("files", "cuda")),
}
