"""Document: a treebank file that a person edits. Every change is in its journal, and soon after in the file."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, cast

from filelock import FileLock, Timeout

from treefine.errors import TreebankError, TreefineError
from treefine.serving.limits import ServingError
from treefine.studio.journal import VERSION, Entry, Journal, Revision, trusted_hashes
from treefine.treebank.conllu import Stretch, Unreadable, cut_sentences, read_stretch
from treefine.treebank.constraints import FREE
from treefine.treebank.edits import set_comment
from treefine.treebank.files import COMPRESSED, not_written, open_input, open_output
from treefine.treebank.formats import format_of
from treefine.treebank.sentence import CONLLU, Sentence

Status = Literal["open", "done", "doubtful"]
STATUS_COMMENT = "treefine_status"
_STATUS = re.compile(rf"^# *{STATUS_COMMENT} *= *(done|doubtful) *\r?$", re.MULTILINE)
_MOST_READ = 20_000  # sentences that are kept in memory as columns
_PAUSE = 0.3  # seconds between two times that the file is written
_RETRY = 5.0  # seconds until the file is written again after a fault
_FILE_START = re.compile("\ufeff?[\r\n]*")  # a byte order mark, blank lines
_TOKEN = re.compile(r"[\w-]{16,100}", re.ASCII)


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
        self.lock = threading.RLock()
        self._save_lock = threading.Lock()
        self._journal = Journal(self.folder / "journal.jsonl")
        packed = self.path.suffix if self.path.suffix.lower() in COMPRESSED else ""
        self._original = self.folder / f"original.bak{packed}"
        self._read = lru_cache(maxsize=_MOST_READ)(self._sentence)
        self._plain = lru_cache(maxsize=_MOST_READ)(self._without_marks)
        check_is_conllu(Path(path))
        self._has_journal = self._journal.path.exists()
        if not self._has_journal:
            with open_input(self.path) as stream:  # report a missing file before anything is created
                stream.read(1)
        self._lock_file = self._locked()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._undo: list[Revision] = []
        self._redo: list[Revision] = []
        self._known: dict[str, Revision] = {}  # the changes by their ids
        self.spent: dict[int, tuple[float, int]] = {}  # seconds and actions by key
        self._versions: dict[int, int] = {}
        self.revision = 0  # the number of changes so far
        records = self._journal.read() if self._has_journal else []
        self._on_disk = self._stat()  # before the file is read, so that a later change is noticed
        self._saved_hash = self._announced_hash = ""
        if self.path.exists() or not records:
            content = _content(self.path)
            self._saved_hash = _hash(content)
            if records and self._saved_hash not in trusted_hashes(records):
                self._archive()
                records = []
        else:
            self.notice = f"{self.path.name} was missing. It is written again from its journal."
        self._has_journal = bool(records)
        if records:
            content = _content(self._original)
            if _hash(content) != records[0]["hash"]:
                hint = f"Move the folder {self.folder.name} away to start from the file as it is."
                raise TreebankError("This copy of the original file was changed.", path=str(self._original), hint=hint)
        self._texts = _entries(content, str(self.path))
        self._first_texts = dict(self._texts)
        self.keys = list(self._texts)
        self._places: dict[int, int] | None = None
        self._next_key = len(self.keys) + 1
        for each in records:
            self._replay(each)
        self._wants_saving = threading.Event()
        self._is_closing = threading.Event()
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
            raise TreebankError(
                "Another treefine annotate has opened this file.", path=str(self.path), hint=hint
            ) from error
        return lock

    def _archive(self) -> None:
        """Move the journal of another content of the file away, so that it is not lost."""
        number = 1
        while (old := self.folder / f"earlier-{number}").exists():
            number += 1
        old.mkdir()
        for each in (self._journal.path, self._original):
            if each.exists():
                each.rename(old / each.name)
        self._journal = Journal(self._journal.path)
        self.notice = (
            f"{self.path.name} was changed by another program since it was last annotated. "
            f"The earlier journal and original are in {old}."
        )

    def _replay(self, record: Mapping[str, Any]) -> None:
        if record["record"] == "change":
            before = tuple(Entry(key, self._texts[key]) for key in record["replaced"])
            after = tuple(Entry(*each) for each in record["by"])
            is_follow_up = bool(record.get("follow_up"))
            self._apply(Revision(record["id"], record["what"], before, after, record["kind"], is_follow_up))
        elif record["record"] == "spent":
            self._count(record["key"], record["seconds"], record["actions"])

    # Reading

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.keys)

    def __contains__(self, key: int) -> bool:
        """Return whether there is a sentence with this key."""
        return key in self._texts

    def text(self, key: int) -> str:
        """Return a sentence in CoNLL-U, with the blank line after it."""
        try:
            return self._texts[key]
        except KeyError as error:
            raise StaleError(
                "This sentence does not exist any more.", hint="It was joined with another one."
            ) from error

    def sentence(self, key: int) -> Sentence | Unreadable:
        """Return a sentence, or the faults of a block of lines that is not one."""
        return self._read(self.text(key))

    def read(self, text: str) -> Sentence | Unreadable:
        """Return the sentence of a text, which may be an earlier state."""
        return self._read(text)

    def _sentence(self, text: str) -> Sentence | Unreadable:
        try:
            return next(read_stretch(Stretch(text.encode(errors="surrogateescape"), 1), CONLLU, str(self.path)))
        except TreebankError as error:  # a null byte in its first line
            return Unreadable(1, 1, "", True, (error,))

    def valid_sentence(self, key: int) -> Sentence:
        """Return a sentence; raise an error if its lines are not valid."""
        found = self.sentence(key)
        if isinstance(found, Unreadable):
            raise TreebankError(found.faults[0].message, hint="Correct its lines first.", line=found.faults[0].line)
        return found

    def sentences(self) -> Iterator[tuple[int, Sentence]]:
        """Yield the key and the sentence of each valid block, in order."""
        for key in list(self.keys):
            text = self._texts.get(key)  # None if it was joined with another one in the meantime
            if text is not None and isinstance(found := self._read(text), Sentence):
                yield key, found

    def version(self, key: int) -> int:
        """Return the number of the last change of a sentence; 0 if it is as it was."""
        return self._versions.get(key, 0)

    def status(self, key: int) -> Status:
        """Return whether a sentence is marked as done or doubtful."""
        text = self.text(key)
        found = _STATUS.search(text) if STATUS_COMMENT in text else None
        return cast(Status, found[1]) if found else "open"

    def place(self, key: int) -> int:
        """Return the place of a sentence in the file, from 0."""
        with self.lock:
            self.text(key)  # raises an error if there is no such sentence
            if self._places is None:
                self._places = {each: place for place, each in enumerate(self.keys)}
            return self._places[key]

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
            if id in self._known:
                return self._known[id]
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
            change = Revision(id, what, before, after, is_follow_up=is_follow_up)
            self._record(change)
            return change

    def undo(self, id: str, *, is_refusal: bool = False) -> Revision | None:
        """Take back the last change; return None if there was no change.

        If the parser followed a correction, take back both. With `is_refusal`, only its own change is taken back.
        """
        with self.lock:
            is_new = id not in self._known
            if is_new and not is_refusal and len(self._undo) > 1 and _is_followed(self._undo[-2], self._undo[-1]):
                self._step(self._undo, "undo", f"{id} follow-up")
            return self._step(self._undo, "undo", id, is_refusal=is_refusal)

    def redo(self, id: str) -> Revision | None:
        """Make the last change that was taken back again; return None if no change was taken back.

        If the parser had followed a correction, make both again.
        """
        with self.lock:
            if id not in self._known and len(self._redo) > 1 and _is_followed(self._redo[-1], self._redo[-2]):
                self._step(self._redo, "redo", f"{id} correction")
            return self._step(self._redo, "redo", id)

    def _step(self, stack: Sequence[Revision], kind: str, id: str, *, is_refusal: bool = False) -> Revision | None:
        with self.lock:
            if id in self._known:
                return self._known[id]
            if not stack:
                return None
            last = stack[-1]
            before, after = (last.after, last.before) if kind == "undo" else (last.before, last.after)
            is_follow_up = last.is_follow_up and not is_refusal  # redo of the correction does not make it again
            change = Revision(id, last.what, before, after, kind, is_follow_up)
            self._record(change)
            return change

    def spend(self, key: int, seconds: float, actions: int) -> None:
        """Add to the time and the number of actions that a sentence took."""
        with self.lock:
            if key not in self._texts:
                return
            if self._has_journal:
                self._journal.append(_spent_record(key, seconds, actions))
            self._count(key, seconds, actions)

    @property
    def can_undo(self) -> bool:
        """Whether there is a change to take back."""
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        """Whether there is a change to make again."""
        return bool(self._redo)

    @property
    def last_change(self) -> Revision | None:
        """The change that `undo` would take back."""
        return self._undo[-1] if self._undo else None

    def _count(self, key: int, seconds: float, actions: int) -> None:
        before = self.spent.get(key, (0.0, 0))
        self.spent[key] = (before[0] + seconds, before[1] + actions)

    def _record(self, change: Revision) -> None:
        """Write a change to the journal, then apply it."""
        first = [] if self._has_journal else self._first_records()
        self._journal.append(*first, change.record() | {"time": round(time.time(), 1)})
        self._has_journal = True
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
        spent = [_spent_record(key, *each) for key, each in self.spent.items()]
        return [{"record": "start", "version": VERSION, "hash": self._saved_hash}, *spent]

    def _apply(self, change: Revision) -> None:
        place = self.place(change.before[0].key)
        new = [each.key for each in change.after]
        if self.keys[place : place + len(change.before)] != new:
            self.keys[place : place + len(change.before)] = new
            self._places = None
        self._texts.update(change.after)  # before the others are removed, because reading needs no lock
        for each in change.before:
            if each.key not in new:
                del self._texts[each.key]
        self._next_key = max(self._next_key, *(each.key + 1 for each in change.after))
        self.revision += 1
        self._versions.update((each.key, self.revision) for each in change.after)
        self._known[change.id] = change
        if change.kind == "undo":
            self._redo.append(replace(self._undo.pop(), is_follow_up=change.is_follow_up))
        elif change.kind == "redo":
            self._undo.append(self._redo.pop())
        else:
            self._undo.append(change)
            self._redo.clear()

    def made(self, id: str) -> Revision | None:
        """Return the change with this id; None if it was not made."""
        return self._known.get(id)

    # Writing

    def content(self, *, has_marks: bool = True) -> bytes:
        """Return the file as it should be. Untouched sentences are byte for byte those of the original."""
        with self.lock:
            texts = [self._texts[key] for key in self.keys]
            if not has_marks:
                texts = [
                    self._plain(text, self._first_texts.get(key)) for key, text in zip(self.keys, texts, strict=True)
                ]
        return "".join(texts).encode(errors="surrogateescape")

    def _without_marks(self, text: str, original: str | None) -> str:
        """Return a sentence without our marks; the original one if it differs only in marks."""
        if text == original:
            return text
        found, first = self._read(text), self._read(original or text)
        if isinstance(found, Unreadable):
            return text
        plain = without_marks(found)
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
            if self._is_changed_elsewhere():
                self.fault = (
                    f"Another program has changed {self.path.name}, so it is not written any more. "
                    f"Your changes are safe in {self.folder.name}. "
                    "Move the other program's file away, then start treefine annotate again."
                )
                return
            if new == self._saved_hash:
                self.fault = ""
                return
            try:
                if new != self._announced_hash:
                    self._journal.append({"record": "saving", "revision": revision, "hash": new})
                    self._announced_hash = new
                with open_output(self.path, is_synced=True) as stream:
                    stream.write(content)
                self._on_disk = self._stat()
                self._journal.append({"record": "saved", "revision": revision, "hash": new})
            except TreefineError as error:
                self.fault = str(error)
                return
            self._saved_hash, self._announced_hash, self.fault = new, "", ""

    def _save_when_changed(self) -> None:
        while not self._is_closing.is_set():
            self._wants_saving.wait(_RETRY if self.fault else None)
            self._wants_saving.clear()
            start = time.monotonic()
            self.save()
            self._is_closing.wait(max(_PAUSE, 5 * (time.monotonic() - start)))

    def _is_changed_elsewhere(self) -> bool:
        """Return whether another program has changed the content of the file; a new time alone is no change."""
        found = self._stat()
        if found != self._on_disk:
            try:
                if _hash(_content(self.path)) != self._saved_hash:
                    return True
            except TreefineError:
                return True
            self._on_disk = found
        return False

    def _stat(self) -> tuple[int, int]:
        with suppress(OSError):
            found = self.path.stat()
            return found.st_mtime_ns, found.st_size
        return (0, 0)

    def close(self) -> None:
        """Write the file and release it. If it was never changed, remove the folder beside it."""
        if not self._lock_file.is_locked:
            return
        if hasattr(self, "_saver"):
            self._is_closing.set()
            self._wants_saving.set()
            self._saver.join()
            self.save()
        if not self._has_journal:
            with suppress(OSError):
                for each in (self.folder / "token", self._journal.path, self._original, self.folder / "lock"):
                    each.unlink(missing_ok=True)
                self.folder.rmdir()
        self._lock_file.release()

    def token(self) -> str:
        """Return a secret for the address of the page. It stays the same, so that an open tab works after a restart."""
        path = self.folder / "token"
        known = path.read_text(errors="replace") if path.exists() else ""
        if not _TOKEN.fullmatch(known):  # also if a killed process has not written it
            known = secrets.token_urlsafe(12)
            path.touch(mode=0o600)
            path.write_text(known)
        return known


def _is_followed(correction: Revision, change: Revision) -> bool:
    """Return whether the parser made a change because of this correction."""
    return change.is_follow_up and change.before == correction.after


def check_is_conllu(path: Path) -> None:
    """Raise an error if the name of a file is that of another format."""
    if format_of(str(path), None) is not CONLLU:
        hint = f"Convert it first: treefine convert {path} {path.with_name(path.name.partition('.')[0])}.conllu"
        raise TreebankError("Only CoNLL-U files can be annotated.", path=str(path), hint=hint)


def without_marks(sentence: Sentence) -> Sentence:
    """Return a sentence without its status and without decisions in MISC."""
    return FREE.mark(set_comment(sentence, STATUS_COMMENT, None))


def _content(path: Path) -> bytes:
    """Return the content of a file, decompressed. It must be UTF-8, because it is written as UTF-8."""
    with open_input(path) as stream:
        return stream.read()


def _entries(content: bytes, path: str) -> dict[int, str]:
    """Return the sentences of a file by key: 1 for the first."""
    blocks = cut_sentences(content, path)
    found = {key: each.data.decode(errors="surrogateescape") for key, each in enumerate(blocks, start=1)}
    if not found:
        raise TreebankError("The file contains no sentences.", path=path, hint="Is it the right file?")
    return found


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


def _spent_record(key: int, seconds: float, actions: int) -> dict[str, Any]:
    return {"record": "spent", "key": key, "seconds": round(seconds, 1), "actions": actions}


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
