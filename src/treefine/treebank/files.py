"""Open files for reading and writing: plain or compressed, standard input and output. Files are replaced atomically."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from treefine.errors import TreebankError, described, import_optional

Source: TypeAlias = "str | os.PathLike[str] | BinaryIO"
_Opened: TypeAlias = AbstractContextManager[BinaryIO]
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
COMPRESSED_NAMES = f"{', '.join(COMPRESSED[:-1])} or {COMPRESSED[-1]}"  # for messages
_FIRST_BYTES = re.compile(
    rb"(?P<gz>\x1f\x8b)|(?P<xz>\xfd7zXZ\0)|(?P<bz2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))|(?P<zst>\x28\xb5\x2f\xfd)"
)
_LONGEST_START = 10  # bytes, of these
_OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)  # UTF-32 LE starts as UTF-16 LE
_ZSTD_CHUNK = 1 << 12  # bytes of a zstd file that are decompressed at a time


def name_of(source: Source) -> str:
    """Return the name of a source for messages: its path, <stdin>, or the name of the file object."""
    if isinstance(source, str | os.PathLike):
        return "<stdin>" if path_of(source) == "-" else path_of(source)
    if isinstance(source, io.TextIOBase):
        raise TreebankError("The file is open in text mode.", hint='Open it with mode "rb", or pass its path.')
    if not hasattr(source, "read"):
        raise TreebankError(f"A file must be a path or an open binary file, not {described(source)}.")
    return str(getattr(source, "name", "<stream>"))


def path_of(given: str | os.PathLike[str]) -> str:
    """Return a path as a string; raise an error if it is not a path, or not one that any file can have."""
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str):
        raise TreebankError(f"The path of a file must be a string or a Path, not {described(given)}.")
    if not path or "\0" in path:
        raise TreebankError(f"{path!r} cannot be the path of a file.")
    return path


def check_compression(path: str) -> None:
    """Raise an error if a package that this file needs is not installed, before work starts."""
    if Path(path).suffix.lower() == ".zst":
        _zstandard()


def _zstandard() -> Any:
    message = "Files that end in .zst need the package zstandard."
    return import_optional("zstandard", message, "'treefine[zstd]'", TreebankError)


class _CountedFile(io.FileIO):
    """A file that reports how many bytes have been read from it, for a progress bar."""

    def __init__(self, path: str, on_bytes: Callable[[int], None]) -> None:
        super().__init__(path)
        self._on_bytes = on_bytes

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._on_bytes(count or 0)
        return count


@contextmanager
def open_input(source: Source, *, on_bytes: Callable[[int], None] | None = None) -> Iterator[BinaryIO]:
    """Open a path, `-`, or an open binary file as a stream of bytes; decompress a file whose name ends in `COMPRESSED`.

    Standard input has no suffix, so its first bytes show whether it is compressed. `on_bytes` is called after each read
    from a path with the number of bytes.
    """
    name = name_of(source)
    try:
        with ExitStack() as stack:
            if not isinstance(source, str | os.PathLike):
                yield source
                return
            if name == "<stdin>" and sys.stdin is None:
                raise TreebankError("Standard input is closed.", hint="Name a file to read.")
            if name == "<stdin>":
                raw: Any = sys.stdin.buffer
                raw = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
                # Reading ahead on a terminal would cost the user an extra Ctrl-D.
                start = None if raw.isatty() else _FIRST_BYTES.match(raw.peek(_LONGEST_START))
                suffix = f".{start.lastgroup}" if start else ""
            else:
                counted = open(name, "rb") if on_bytes is None else io.BufferedReader(_CountedFile(name, on_bytes))
                raw, suffix = stack.enter_context(counted), Path(name).suffix.lower()
            openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
            stream = raw
            if suffix == ".zst":
                stream = _unpacked_zstd(raw, cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile())))
            elif suffix in openers:
                stream = stack.enter_context(openers[suffix](raw, "rb"))
            if not raw.isatty() and cast(io.BufferedReader, stream).peek(4).startswith(_OTHER_ENCODINGS):
                hint = "Convert it to UTF-8: iconv -f UTF-16 -t UTF-8."
                raise TreebankError("This file is UTF-16 or UTF-32.", hint=hint, path=name)
            yield stream
    except EOFError as error:
        hint = "Download or compress it again."
        raise TreebankError("The compressed file ends too early.", hint=hint, path=name) from error
    except IsADirectoryError as error:
        raise TreebankError("This is a directory.", hint="Name a file in it.", path=name) from error
    except FileNotFoundError as error:
        raise TreebankError("There is no such file.", hint=nearest_file(name), path=name) from error
    except (OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise TreebankError(f"{error.strerror}.", path=name) from error
        suffix = Path(name).suffix
        hint = f"If it is not compressed, remove {suffix} from its name; else download or compress it again."
        message = f"This is not a {suffix} file, or it is damaged."
        raise TreebankError(message, hint=hint, path=name) from error


def _unpacked_zstd(raw: BinaryIO, content: BinaryIO) -> BinaryIO:
    """Return the content in a temporary file, because zstandard's own reader accepts a file that ends too early."""
    library, packed, frame = _zstandard(), b"", None
    while packed := packed or raw.read(_ZSTD_CHUNK):
        frame = frame or library.ZstdDecompressor().decompressobj()  # a file is a sequence of frames
        try:
            content.write(frame.decompress(packed))
        except library.ZstdError as error:
            raise OSError(str(error)) from error
        packed, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise EOFError
    content.seek(0)
    return content


def utf8_lines(stream: BinaryIO, path: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 stream with their ends, without a byte order mark; only a line feed ends a line."""
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(error, path=path, line=number) from error


def not_utf8(error: UnicodeDecodeError, *, path: str, line: int, sentence: int | None = None) -> TreebankError:
    """Return the error for a byte that is not UTF-8, with the most likely encoding in its hint."""
    byte = error.object[error.start]
    encoding = "cp1252" if 0x80 <= byte < 0xA0 else "latin-1"  # these are control characters in Latin-1
    hint = f"Convert it to UTF-8: iconv -f {encoding} -t UTF-8."
    return TreebankError(f"Byte 0x{byte:02x} is not UTF-8.", hint=hint, path=path, line=line, sentence=sentence)


def nearest_file(path: str) -> str:
    """Return a hint for a path that does not exist: a file with a similar name in the same folder, if there is one."""
    folder, name = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or "."), reverse=True)  # noqa: PTH208 - x.conllu before x.conllu.gz
    except (OSError, ValueError):  # ValueError: no folder can have this name, such as half a surrogate pair
        return ""
    by_stem = {each.partition(".")[0]: each for each in names}
    close = get_close_matches(name.partition(".")[0], by_stem, n=1, cutoff=0.82)
    return f"Did you mean {os.path.join(folder, by_stem[close[0]])}?" if close else ""  # noqa: PTH118


def linked_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names, which need not exist; follow links, and refuse links to each other."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise not_written("Too many levels of symbolic links", os.fspath(path))
    return target


def not_written(reason: str, path: str, hint: str = "") -> TreebankError:
    """Return the error for an output that cannot be written, with a hint if its folder does not exist."""
    folder = os.path.dirname(path)  # noqa: PTH120 - Path would normalise what the user wrote
    if folder and not os.path.exists(folder):  # noqa: PTH110 - Path.exists raises if the name is too long
        hint = f"Create the folder {folder} first."
    return TreebankError(f"The output could not be written: {reason}.", hint=hint, path=path)


@contextmanager
def open_output(target: str | os.PathLike[str], *, is_synced: bool = False) -> Iterator[BinaryIO]:
    """Open a stream whose bytes replace the file at `target` when all are written; `-` is standard output.

    The bytes go to a temporary file in the same folder, which is renamed at the end and removed after an error. With
    `is_synced` the file is flushed to disk before it is renamed, so a power cut never leaves half a file.
    """
    name = path_of(target)
    try:
        if name == "-" and sys.stdout is None:
            raise TreebankError("Standard output is closed.", hint="Name a file to write.")
        if name == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        path = linked_file(target)  # so that the file is replaced and not the link
        if path.is_dir():
            raise TreebankError("This is a directory.", hint="Name a file to write.", path=name)
        is_device = path.exists() and not path.is_file()  # nothing can be renamed over it
        opened = cast(_Opened, path.open("wb")) if is_device else _renamed_at_end(path, is_synced=is_synced)
        with opened as raw, _compressed(raw, path.suffix) as stream:
            yield stream
    except BrokenPipeError:
        raise  # the reader of our output has stopped
    except OSError as error:
        raise not_written(error.strerror or str(error), "<stdout>" if name == "-" else name) from error


def _compressed(raw: BinaryIO, suffix: str) -> _Opened:
    openers: dict[str, Callable[[BinaryIO], Any]] = {
        ".gz": lambda raw: gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0),  # same content, same bytes
        ".xz": lambda raw: lzma.open(raw, "wb"),
        ".bz2": lambda raw: bz2.open(raw, "wb"),
        ".zst": lambda raw: _zstandard().ZstdCompressor().stream_writer(raw, closefd=False),
    }
    return cast(_Opened, openers.get(suffix.lower(), nullcontext)(raw))


@contextmanager
def _renamed_at_end(path: Path, *, is_synced: bool) -> Iterator[BinaryIO]:
    scratch, raw = _open_scratch(path)
    with raw:
        try:
            yield raw
            raw.flush()
            if is_synced:
                os.fsync(raw.fileno())
            if path.exists():
                shutil.copymode(path, scratch)
            if sys.platform == "win32":  # Windows cannot rename an open file
                raw.close()
            else:  # closing a copy reports the errors of closing, such as a full quota, but keeps the lock
                os.close(os.dup(raw.fileno()))
            scratch.replace(path)
        except BaseException:
            with suppress(OSError):
                if raw.closed or _is_at(scratch, raw):  # once it is renamed, another run may use the name
                    scratch.unlink()
            raise


def _open_scratch(path: Path) -> tuple[Path, BinaryIO]:
    """Open the temporary file of a path, which a killed run may have left; if it is not ours, open a new one."""
    scratch = path.with_name(f".{path.name}.tmp")
    with suppress(OSError):
        if (raw := open_locked(scratch)) is not None:
            raw.truncate(0)
            return scratch, raw
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    return scratch, scratch.open("xb")


def open_locked(path: Path) -> BinaryIO | None:
    """Open or create a file and lock it for this process; return None if another process has locked it.

    Raises OSError for a link, for anything that is no file, and for a file of another user. Otherwise another user
    could choose the file that is overwritten, or change it meanwhile.
    """
    from filelock import lock_descriptor

    while True:
        file = open(path, "a+b", opener=_open_own)
        with suppress(OSError):  # a file system without locks raises it
            if not lock_descriptor(file.fileno(), blocking=False):
                file.close()
                return None
        with suppress(FileNotFoundError):
            if _is_at(path, file):
                return file
        file.close()  # another process has just renamed it


def _open_own(name: str, flags: int) -> int:
    path = Path(name)
    if path.is_symlink():
        raise PermissionError(f"{path.name} is a link")
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # do not wait for the reader of a named pipe
    descriptor = os.open(name, flags, 0o666)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_uid != getattr(os, "geteuid", lambda: 0)():
        os.close(descriptor)
        raise PermissionError(f"{path.name} is not a file of this user alone")
    return descriptor


def _is_at(path: Path, raw: BinaryIO) -> bool:
    return os.path.samestat(path.lstat(), os.fstat(raw.fileno()))
