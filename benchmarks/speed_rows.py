"""The newest rows that docs/speed.md shows, by kind and device, and the machines they were measured on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.rows import ROWS, read_rows

Row = dict[str, Any]
DEVICES = ("cpu", "cuda")


def device_of(row: Row) -> str:
    """Whether a row was measured on a CPU or a GPU; commands name it by its kind or by the name of the card."""
    return "cpu" if row["config"].get("device", "cpu") == "cpu" else "cuda"


def newest(benchmark: str, device: str, *, path: Path = ROWS, **wanted: Any) -> Row | None:
    """The newest row of a benchmark on a device, with all that is wanted in its config."""
    rows = [
        row
        for row in read_rows(benchmark, path=path)
        if device_of(row) == device and wanted.items() <= row["config"].items()
    ]
    return rows[-1] if rows else None


def encoder_rows(path: Path = ROWS) -> list[Row]:
    """The newest rows of the encoder with and without a graph: of each device, size, length and precision."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in read_rows("encoder", path=path):
        config = row["config"]
        if config["size"] in ("small", "base"):
            found[device_of(row), config["size"], config["pieces_in_row"], config["precision"]] = row
    return [found[key] for key in sorted(found, key=lambda key: (DEVICES.index(key[0]), key[1] == "base", key[2:]))]


def machine_of(row: Row) -> str:
    """The machine in words: the card where there is one, the processor, and its cores.

    >>> machine_of({"machine": {"processor": "AMD EPYC", "cores": 2}, "config": {"device": "cpu"}})
    'AMD EPYC, 2 cores'
    """
    config, machine = row["config"], row["machine"]
    card = config.get("device_name") or (config["device"] if config.get("device") not in (None, "cpu", "cuda") else "")
    cores = f"{machine['processor']}, {machine['cores']} cores".removeprefix(", ")
    return f"{card}, {cores}" if card else cores


def origin(row: Row, command: str) -> str:
    """When and where a row was measured, and how to do so again."""
    return f"`{command}`, {row['when'][:10]}, commit {row['commit']}, {machine_of(row)}."


def missing(what: str, command: str) -> str:
    """What stands in place of a table that has no row yet."""
    return f"Not measured yet: {what}. `{command}`"


def cost(row: Row, name: str) -> float | None:
    """The seconds a word of a system in one of its ways, as "system: way"; None where it was not measured."""
    found: Mapping[str, float] = row["result"].get(name, {})
    return 1 / found["words_per_second"] if found else None


def fastest(row: Row, starts: str, way: str) -> str | None:
    """The fastest of the systems whose name starts so, in this way."""
    found: dict[str, float] = {
        name.rpartition(": ")[0]: each["words_per_second"]
        for name, each in row["result"].items()
        if name.startswith(starts) and name.endswith(f": {way}")
    }
    return max(found, key=found.__getitem__, default=None)
