"""A journal: JSON lines that are on disk before a change is confirmed, so that a killed process loses nothing."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from treefine.errors import TreebankError
from treefine.treebank.files import not_written

VERSION = 1  # of the records


class Entry(NamedTuple):
    """A sentence of a file: a number that never changes, and its text in CoNLL-U."""

    key: int
    text: str


@dataclass(frozen=True, slots=True)
class Revision:
    """Neighbouring sentences that were replaced by others."""

    id: str  # chosen by the page, so that a change that was sent twice is made once
    what: str  # in plain words, such as "arc"
    before: tuple[Entry, ...]
    after: tuple[Entry, ...]
    kind: str = "edit"  # or "undo", "redo"
    is_follow_up: bool = False  # made by the parser because of the change before

    def record(self) -> dict[str, Any]:
        """Return the change for the journal. The texts before it follow from the records before."""
        record: dict[str, Any] = {"record": "change", "id": self.id, "what": self.what, "kind": self.kind}
        if self.is_follow_up:
            record["follow_up"] = True
        return record | {"replaced": [key for key, _ in self.before], "by": [list(entry) for entry in self.after]}


class Journal:
    """An append-only file of JSON lines. Each record is on disk when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0  # of the records that are known to be on disk, in bytes
        self._lock = threading.Lock()

    def read(self) -> list[dict[str, Any]]:
        """Return the records. The next `append` removes a last line that a killed process left half-written."""
        data = self.path.read_bytes()
        self._end = data.rfind(b"\n") + 1
        records = []
        for number, line in enumerate(data[: self._end].split(b"\n")[:-1], start=1):
            try:
                records.append(json.loads(line))
            except ValueError as error:
                hint = "Move the journal away to start from the file as it is."
                message = "This is not a line of a journal."
                raise TreebankError(message, path=str(self.path), line=number, hint=hint) from error
        if records and records[0].get("version") != VERSION:
            hint = "Update treefine, or move the journal away to start from the file as it is."
            raise TreebankError("Another version of treefine wrote this journal.", path=str(self.path), hint=hint)
        return records

    def append(self, *records: Mapping[str, Any]) -> None:
        """Write records and wait until they are on disk. After an error, the journal is as it was before."""
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        data = lines.encode(errors="surrogatepass")  # bytes of the file that are not UTF-8 are surrogates
        with self._lock:
            try:
                # A journal that was moved away during a session must not be continued without its beginning.
                with self.path.open("r+b" if self._end else "wb") as file:
                    file.seek(self._end)
                    file.truncate()
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                with suppress(OSError):
                    os.truncate(self.path, self._end)
                raise not_written(error.strerror or str(error), str(self.path)) from error
            self._end += len(data)


def trusted_hashes(records: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the hashes that the file may have if nobody else changed it: the last one saved, and those being saved."""
    hashes: set[str] = set()
    for record in records:
        if record["record"] in ("start", "saved"):
            hashes = {record["hash"]}
        elif record["record"] == "saving":
            hashes.add(record["hash"])
    return hashes
