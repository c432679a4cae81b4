"""Document: a treebank file that a person edits. Every change is in its journal, and soon after in the file."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from treefine.errors import TreebankError, TreefineError
from treefine.serving.limits import ServingError
from treefine.treebank.conllu import Stretch, Unreadable, cut_sentences, format_of, read_stretch
from treefine.treebank.constraints import FREE
from treefine.treebank.edits import set_comment
from treefine.treebank.files import COMPRESSED, not_written, open_input, open_output
from treefine.treebank.sentence import CONLLU, Sentence

STATUS_COMMENT = "treefine_status"
VERSION = 1  # of the records of a journal
_STATUS = re.compile(rf"^# *{STATUS_COMMENT} *= *(done|doubtful) *\r?$", re.MULTILINE)
_MOST_READ = 20_000  # sentences that are kept in memory as columns
_PAUSE = 0.3  # seconds between two times that the file is written
_RETRY = 5.0  # seconds until the file is written again after a fault
_FILE_START = re.compile("\ufeff?[\r\n]*")  # a byte order mark, blank lines
_TOKEN = re.compile(r"[\w-]{16,100}", re.ASCII)


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


class Journal:
    """An append-only file of JSON lines. Each record is on disk when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = path.stat().st_size if path.exists() else 0  # of the records that are on disk, in bytes
        self._lock = threading.Lock()

    @property
    def has_records(self) -> bool:
        """Whether there is anything that must not be lost."""
        return self._end > 0

    def read(self) -> list[dict[str, Any]]:
        """Return the records. The next `append` removes a last line that a killed process left half-written."""
        data = self.path.read_bytes() if self.path.exists() else b""
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


class StaleError(ServingError):
    """A sentence was changed elsewhere, for instance in another tab."""

    status = 409


class Document:
    """The sentences of one file, in order. Each has a key that stays the same, whatever is inserted before it.

    Beside FILE there is a folder FILE.annotation with the journal and a copy of the original file. The file on disk
    always is a whole treebank; it is at most about a second older than the journal.
    """

    def __init__(self, path: str | os.PathLike[str], *, has_marks: bool = True) -> None:
        # A link and its target are one file, with one journal.
        self.path, self.has_marks = Path(path).resolve() if Path(path).is_symlink() else Path(path), has_marks
        self.folder = self.path.with_name(self.path.name + ".annotation")
        self.notice = ""  # what a person should know about the opening of the file
        self.fault = ""  # why the file cannot be written at the moment
        self.revision = 0  # the number of changes so far
        self.spent: dict[int, tuple[float, int]] = {}  # seconds and actions by key
        self.changes: dict[str, Revision] = {}  # all of them, by their ids
        self.undo_stack: list[Revision] = []  # the last change is the next to take back
        self.redo_stack: list[Revision] = []
        self.lock = threading.RLock()
        self.read = lru_cache(maxsize=_MOST_READ)(self._read)
        self._unmarked = lru_cache(maxsize=_MOST_READ)(self._without_marks)
        self._versions: dict[int, int] = {}
        self._save_lock = threading.Lock()
        self._wants_saving, self._is_closing = threading.Event(), threading.Event()
        self._saver: threading.Thread | None = None
        self._journal = Journal(self.folder / "journal.jsonl")
        self._original = self.folder / f"original.bak{self.compression}"
        check_is_conllu(Path(path))
        if not self._journal.path.exists():
            with open_input(self.path) as stream:  # report a missing file before anything is created
                stream.read(1)
        self._lock_file = self._locked()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def compression(self) -> str:
        """The suffix of a compressed file, such as .gz; otherwise empty."""
        return self.path.suffix if self.path.suffix.lower() in COMPRESSED else ""

    def _open(self) -> None:
        records = self._journal.read()
        self._saved_hash, content = "", b""  # of the file as it was last written
        if self.path.exists() or not records:
            content = _content(self.path)
            self._saved_hash = _hash(content)
            if records and self._saved_hash not in trusted_hashes(records):
                self._archive()
                records = []
        else:
            self.notice = f"{self.path.name} was missing. It is written again from its journal."
        if records:
            content = _content(self._original)
            if _hash(content) != records[0]["hash"]:
                hint = f"Move the folder {self.folder.name} away to start from the file as it is."
                raise TreebankError("This copy of the original file was changed.", path=str(self._original), hint=hint)
        blocks = cut_sentences(content, str(self.path))
        self._texts = {key: each.data.decode(errors="surrogateescape") for key, each in enumerate(blocks, start=1)}
        self._first_texts = dict(self._texts)
        self.keys = list(self._texts)
        self._next_key = len(self.keys) + 1
        for record in records:
            self._replay(record)
        self._saver = threading.Thread(target=self._save_when_changed, daemon=True)
        self._saver.start()
        if records:
            self._wants_saving.set()

    def _locked(self) -> FileLock:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            hint = "The journal and a copy of the original are written there; copy the file to a folder of your own."
            message = f"The folder {self.folder.name} cannot be created: {error.strerror}."
            raise TreebankError(message, path=str(self.path), hint=hint) from error
        lock = FileLock(self.folder / "lock", timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout as error:
            hint = "Close it there first (Ctrl-C in its terminal)."
            message = "Another treefine annotate has opened this file."
            raise TreebankError(message, path=str(self.path), hint=hint) from error
        return lock

    def _archive(self) -> None:
        """Move the journal of another content of the file away, so that it is not lost."""
        folders = (self.folder / f"earlier-{number}" for number in count(1))
        old = next(folder for folder in folders if not folder.exists())
        old.mkdir()
        for path in (self._journal.path, self._original):
            if path.exists():
                path.rename(old / path.name)
        self._journal = Journal(self._journal.path)
        self.notice = (
            f"{self.path.name} was changed by another program since it was last annotated. "
            f"The earlier journal and original are in {old}."
        )

    def _replay(self, record: Mapping[str, Any]) -> None:
        if record["record"] == "change":
            before = tuple(Entry(key, self._texts[key]) for key in record["replaced"])
            after = tuple(Entry(*entry) for entry in record["by"])
            kind, is_follow_up = record["kind"], bool(record.get("follow_up"))
            self._apply(Revision(record["id"], record["what"], before, after, kind, is_follow_up))
        elif record["record"] == "spent":
            seconds, actions = self.spent.get(record["key"], (0.0, 0))
            self.spent[record["key"]] = (seconds + record["seconds"], actions + record["actions"])

    # Reading

    def text(self, key: int) -> str:
        """Return a sentence in CoNLL-U, with the blank line after it."""
        try:
            return self._texts[key]
        except KeyError as error:
            hint = "It was joined with another one."
            raise StaleError("This sentence does not exist any more.", hint=hint) from error

    def sentence(self, key: int) -> Sentence | Unreadable:
        """Return a sentence, or the faults of a block of lines that is not one."""
        return self.read(self.text(key))

    def _read(self, text: str) -> Sentence | Unreadable:
        """Return the sentence of a text, which may be an earlier state; `self.read` remembers it."""
        return next(read_stretch(Stretch(text.encode(errors="surrogateescape"), 1), CONLLU, str(self.path)))

    def valid_sentence(self, key: int) -> Sentence:
        """Return a sentence; raise an error if its lines are not valid."""
        sentence = self.sentence(key)
        if isinstance(sentence, Unreadable):
            fault = sentence.faults[0]
            raise TreebankError(fault.message, hint="Correct its lines first.", line=fault.line)
        return sentence

    def sentences(self) -> Iterator[tuple[int, Sentence]]:
        """Yield the key and the sentence of each valid block, in order."""
        for key in list(self.keys):
            text = self._texts.get(key)  # None if it was joined with another one in the meantime
            if text is not None and isinstance(sentence := self.read(text), Sentence):
                yield key, sentence

    def version(self, key: int) -> int:
        """Return the number of the last change of a sentence; 0 if it is as it was."""
        return self._versions.get(key, 0)

    def status(self, key: int) -> str:
        """Return "done" or "doubtful" if a sentence is marked as that, else "open"."""
        text = self.text(key)
        match = _STATUS.search(text) if STATUS_COMMENT in text else None
        return match[1] if match else "open"

    def place(self, key: int) -> int:
        """Return the place of a sentence in the file, from 0."""
        with self.lock:
            self.text(key)  # raises an error if there is no such sentence
            return self.keys.index(key)

    def is_changed(self, key: int) -> bool:
        """Return whether a sentence differs from the original file."""
        return self._first_texts.get(key) != self.text(key)

    # Changing

    def replace(
        self,
        keys: Sequence[int],
        sentences: Sequence[Sentence],
        *,
        what: str,
        id: str,
        versions: Sequence[int] | None = None,
        is_follow_up: bool = False,
    ) -> Revision | None:
        """Replace neighbouring sentences by others, and return when that is in the journal.

        The first of the new sentences keep the keys. Return None if nothing changes. A change with a known id was made
        before and is only returned. With `versions`, raise a StaleError if a sentence has changed since.
        """
        with self.lock:
            if id in self.changes:
                return self.changes[id]
            place = self.place(keys[0])
            if self.keys[place : place + len(keys)] != list(keys):
                raise StaleError("These sentences are not neighbours any more.")
            if versions is not None and [self.version(key) for key in keys] != list(versions):
                raise StaleError("This sentence was changed in another tab.", hint="It is shown as it is now.")
            texts = [each.to_conllu() for each in sentences]
            before = tuple(Entry(key, self.text(key)) for key in keys)
            new_keys = [*keys, *range(self._next_key, self._next_key + len(texts) - len(keys))][: len(texts)]
            after = tuple(map(Entry, new_keys, _in_file(texts, before)))
            if before == after:
                return None
            self._record(Revision(id, what, before, after, is_follow_up=is_follow_up))
            return self.changes[id]

    def undo(self, id: str, *, is_redo: bool = False, is_refusal: bool = False) -> Revision | None:
        """Take back the last change, or make the last one that was taken back again; return None if there is none.

        A correction and what the parser changed after it are one step. With `is_refusal`, only that is taken back.
        """
        with self.lock:
            stack = self.redo_stack if is_redo else self.undo_stack
            if id in self.changes or not stack:
                return self.changes.get(id)
            pair = stack[:-3:-1] if is_redo else stack[-2:]  # a correction, and what the parser changed then
            is_pair = len(pair) == 2 and pair[1].is_follow_up and pair[1].before == pair[0].after
            for step in [f"{id} first", id] if is_pair and not is_refusal else [id]:
                last = stack[-1]
                before, after = (last.before, last.after) if is_redo else (last.after, last.before)
                is_follow_up = last.is_follow_up and not is_refusal  # redo of the correction does not make it again
                kind = "redo" if is_redo else "undo"
                self._record(Revision(step, last.what, before, after, kind, is_follow_up))
            return self.changes[id]

    def spend(self, key: int, seconds: float, actions: int) -> None:
        """Add to the time and the number of actions that a sentence took."""
        record = {"record": "spent", "key": key, "seconds": round(seconds, 1), "actions": actions}
        with self.lock:
            if key in self._texts:
                if self._journal.has_records:
                    self._journal.append(record)
                self._replay(record)

    def _record(self, change: Revision) -> None:
        """Write a change to the journal, then apply it. The texts before it follow from the records before."""
        first = [] if self._journal.has_records else self._first_records()
        record: dict[str, Any] = {"record": "change", "id": change.id, "what": change.what, "kind": change.kind}
        record |= {"follow_up": change.is_follow_up, "replaced": [key for key, _ in change.before], "by": change.after}
        self._journal.append(*first, record | {"time": round(time.time(), 1)})
        self._apply(change)
        self._wants_saving.set()

    def _first_records(self) -> list[dict[str, Any]]:
        """Copy the original file, and return the records before the first change."""
        try:
            shutil.copyfile(self.path, self._original)
            with self._original.open("r+b") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise not_written(error.strerror or str(error), str(self._original)) from error
        if _hash(_content(self._original)) != self._saved_hash:
            hint = "Stop treefine annotate and start it again."
            raise StaleError(f"Another program has changed {self.path.name} since it was opened.", hint=hint)
        spent = [
            {"record": "spent", "key": key, "seconds": seconds, "actions": actions}
            for key, (seconds, actions) in self.spent.items()
        ]
        return [{"record": "start", "version": VERSION, "hash": self._saved_hash}, *spent]

    def _apply(self, change: Revision) -> None:
        place = self.place(change.before[0].key)
        new = [key for key, _ in change.after]
        self.keys[place : place + len(change.before)] = new
        self._texts.update(change.after)  # before the others are removed, because reading needs no lock
        for key, _ in change.before:
            if key not in new:
                del self._texts[key]
        self._next_key = max(self._next_key, *(key + 1 for key in new))
        self.revision += 1
        self._versions.update(dict.fromkeys(new, self.revision))
        self.changes[change.id] = change
        if change.kind == "undo":
            self.redo_stack.append(replace(self.undo_stack.pop(), is_follow_up=change.is_follow_up))
        elif change.kind == "redo":
            self.undo_stack.append(self.redo_stack.pop())
        else:
            self.undo_stack.append(change)
            self.redo_stack.clear()

    # Writing

    def content(self, *, has_marks: bool = True) -> bytes:
        """Return the file as it should be. Untouched sentences are byte for byte those of the original."""
        with self.lock:
            texts = [(self._texts[key], self._first_texts.get(key)) for key in self.keys]
        return "".join(
            text if has_marks or text == first else self._unmarked(text, first) for text, first in texts
        ).encode(errors="surrogateescape")

    def _without_marks(self, text: str, original: str | None) -> str:
        """Return a sentence without our marks; the original one if it differs only in marks."""
        sentence, first = self.read(text), self.read(original or text)
        if isinstance(sentence, Unreadable):
            return text
        plain = without_marks(sentence)
        if original is not None and isinstance(first, Sentence):
            unmarked = without_marks(first)
            if (plain.comments, plain.columns) == (unmarked.comments, unmarked.columns):
                return original
        return plain.to_conllu()

    def save(self) -> None:
        """Replace the file by its present content. If another program has changed it, leave it and set `fault`."""
        with self._save_lock:
            with self.lock:
                content, revision = self.content(has_marks=self.has_marks), self.revision
            new = _hash(content)
            if new == self._saved_hash and not self.fault:
                return
            present = ""  # it is missing, or cannot be read
            with suppress(TreefineError):
                present = _hash(_content(self.path))
            if present != self._saved_hash:
                self.fault = (
                    f"Another program has changed {self.path.name}, so treefine stopped saving it. "
                    f"Your changes are safe in {self.folder.name}. "
                    "Move the other program's file away, then start treefine annotate again."
                )
                return
            try:
                if new != self._saved_hash:
                    self._journal.append({"record": "saving", "revision": revision, "hash": new})
                    with open_output(self.path, is_synced=True) as stream:
                        stream.write(content)
                    self._journal.append({"record": "saved", "revision": revision, "hash": new})
            except TreefineError as error:
                self.fault = str(error)
                return
            self._saved_hash, self.fault = new, ""

    def _save_when_changed(self) -> None:
        while not self._is_closing.is_set():
            self._wants_saving.wait(_RETRY if self.fault else None)
            self._wants_saving.clear()
            start = time.monotonic()
            self.save()
            self._is_closing.wait(max(_PAUSE, 5 * (time.monotonic() - start)))

    def close(self) -> None:
        """Write the file and release it. If it was never changed, remove the folder beside it."""
        if not self._lock_file.is_locked:
            return
        if self._saver is not None:
            self._is_closing.set()
            self._wants_saving.set()
            self._saver.join()
            self.save()
        if not self._journal.has_records and self.path.exists():
            with suppress(OSError):
                for path in (self.folder / "token", self._journal.path, self._original, self.folder / "lock"):
                    path.unlink(missing_ok=True)
                self.folder.rmdir()
        self._lock_file.release()

    def token(self) -> str:
        """Return a secret for the address of the page. It stays the same, so that an open tab works after a restart."""
        path = self.folder / "token"
        path.touch(mode=0o600)
        if not _TOKEN.fullmatch(path.read_text(errors="replace")):  # it is new, or a killed process has not written it
            path.write_text(secrets.token_urlsafe(12))
        return path.read_text()


def check_is_conllu(path: Path) -> None:
    """Raise an error if the name of a file is that of another format."""
    if format_of(str(path), None) is not CONLLU:
        hint = f"Convert it first: treefine convert {path} {path.with_name(path.name.partition('.')[0])}.conllu"
        raise TreebankError("Only CoNLL-U files can be annotated.", path=str(path), hint=hint)


def without_marks(sentence: Sentence) -> Sentence:
    """Return a sentence without its status and without decisions in MISC."""
    return FREE.mark(set_comment(sentence, STATUS_COMMENT, None))


def _content(path: Path) -> bytes:
    with open_input(path) as stream:
        return stream.read()


def _in_file(texts: Sequence[str], before: Sequence[Entry]) -> Iterator[str]:
    """Yield the texts with the byte order mark and the line ends that they need at their place in the file.

    What the file had around the old sentences is around the new ones, and a blank line separates them.
    """
    first, last = before[0].text, before[-1].text
    start = first[: len(first) - len(_FILE_START.sub("", first, count=1))]
    end = last[len(last.rstrip("\r\n")) :]
    newline = newline_of(last)
    for number, text in enumerate(texts, start=1):
        body = _FILE_START.sub("", text, count=1).rstrip("\r\n")
        yield start + body + (end if number == len(texts) else 2 * newline)
        start = ""


def newline_of(text: str) -> str:
    """Return the line end in a sentence; if it has one line, that after it."""
    body = text.strip("\ufeff\r\n")
    return "\r\n" if "\r\n" in (body if "\n" in body else text) else "\n"


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
