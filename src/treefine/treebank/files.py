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
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from treefine.errors import TreebankError, described

Source: TypeAlias = "str | os.PathLike[str] | BinaryIO"

_DECOMPRESS: dict[str, Callable[[BinaryIO], object]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw, mode="rb"),
    ".xz": lambda raw: lzma.LZMAFile(raw),
    ".bz2": lambda raw: bz2.BZ2File(raw),
    ".zst": lambda raw: io.BufferedReader(_ZstdReader(raw)),
}
_COMPRESS: dict[str, Callable[[BinaryIO], object]] = {
    ".gz": lambda raw: gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0),  # same content, same bytes
    ".xz": lambda raw: lzma.LZMAFile(raw, "wb"),
    ".bz2": lambda raw: bz2.BZ2File(raw, "wb"),
    ".zst": lambda raw: _zstandard().ZstdCompressor().stream_writer(raw, closefd=False),
}
COMPRESSED = tuple(_DECOMPRESS)
COMPRESSED_NAMES = f"{', '.join(COMPRESSED[:-1])} or {COMPRESSED[-1]}"  # for messages
_PACKED = re.compile(  # first bytes
    rb"(?P<gz>\x1f\x8b)|(?P<xz>\xfd7zXZ\0)|(?P<bz2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))|(?P<zst>\x28\xb5\x2f\xfd)"
)
_N_PACKED = 10  # length of the longest of these
_CHUNK = 1 << 16  # bytes read at a time
_MARKS = {  # byte order marks; that of UTF-32 starts with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ZSTD_CHUNK = 1 << 9  # bytes of a zstd file that are decompressed at a time, to at most 16 MiB
_NOT_PACKED = {  # the error for a file that is not compressed, the kind of file, and its suffix
    "Not a gzipped file": ("a gzip", ".gz"),
    "Input format not": ("an xz", ".xz"),
    "Unknown frame": ("a zstd", ".zst"),
}


@dataclass(frozen=True)
class EncodedPath(os.PathLike[str]):
    """The path of a file in another encoding than UTF-8; `open_input` converts its content to UTF-8."""

    path: str | os.PathLike[str]
    encoding: str

    def __post_init__(self) -> None:
        try:
            bytes(4).decode(self.encoding)  # not every codec is for text
            codecs.getincrementaldecoder(self.encoding)
        except (LookupError, TypeError, ValueError) as error:
            hint = "Encodings have the names that Python uses, such as latin-1, cp1252, utf-16 or gb18030."
            raise TreebankError(f"There is no encoding {self.encoding!r}.", hint=hint) from error

    def __fspath__(self) -> str:
        """Return the path."""
        return os.fspath(self.path)


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


class _Counted(io.RawIOBase):
    """A file that reports how many bytes have been read from it, for a progress bar."""

    def __init__(self, raw: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self.raw = raw
        self.on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        count = cast(io.BufferedReader, self.raw).readinto(cast(bytearray, buffer)) or 0
        self.on_bytes(count)
        return count


class _Recoded(io.RawIOBase):
    """The content of a file in another encoding, as UTF-8."""

    def __init__(self, raw: BinaryIO, encoding: str, name: str) -> None:
        self._raw, self._encoding, self._name = raw, encoding, name
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._content, self._line, self._is_over = io.BytesIO(), 1, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        while not (count := self._content.readinto(cast(bytearray, buffer))) and not self._is_over:
            chunk = self._raw.read(_CHUNK)
            self._is_over = not chunk
            text = self._decoded(chunk)
            self._content = io.BytesIO(text.encode(errors="replace"))  # half a surrogate pair cannot be encoded
        return count

    def _decoded(self, chunk: bytes) -> str:
        before = self._decoder.getstate()
        try:
            text = self._decoder.decode(chunk, final=self._is_over)
        except UnicodeError as error:
            what, n_valid = "The file", 0
            if isinstance(error, UnicodeDecodeError):
                what = f"Byte 0x{error.object[error.start]:02x}"
                n_valid = max(0, error.start - len(before[0]))
            self._decoder.setstate(before)
            line = self._line + self._decoder.decode(chunk[:n_valid]).count("\n")
            hint = "Convert it to UTF-8."
            raise TreebankError(f"{what} is not {self._encoding}.", hint=hint, path=self._name, line=line) from error
        self._line += text.count("\n")
        return text


def _recoded(source: str | os.PathLike[str], stream: BinaryIO) -> BinaryIO:
    """Return the content of a file in UTF-8. Without an encoding, a byte order mark of UTF-16 or UTF-32 counts."""
    encoding = source.encoding if isinstance(source, EncodedPath) else None
    if encoding is None and not stream.isatty():  # looking ahead on a terminal would cost the user an extra Ctrl-D
        head = cast(io.BufferedReader, stream).peek(4)[:4]
        encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        return stream
    return cast(BinaryIO, io.BufferedReader(_Recoded(stream, encoding, name_of(source))))


class _DamagedZstdError(Exception):
    """A zstd file cannot be decompressed."""


class _ZstdReader(io.RawIOBase):
    """The decompressed content of a zstd file. Unlike zstandard, it reports a file that ends too early."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self._library = raw, _zstandard()
        self._frame: Any = None  # a file is a sequence of frames; None between two of them
        self._packed, self._content = b"", io.BytesIO()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        while not (count := self._content.readinto(cast(bytearray, buffer))):
            self._packed = self._packed or self._raw.read(_ZSTD_CHUNK)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError
                return 0
            frame = self._frame or self._library.ZstdDecompressor().decompressobj()
            try:
                self._content = io.BytesIO(frame.decompress(self._packed))
            except self._library.ZstdError as error:
                raise _DamagedZstdError(error) from error
            self._packed, self._frame = (frame.unused_data, None) if frame.eof else (b"", frame)
        return count


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        hint = "Install it: pip install 'treefine[zstd]'"
        raise TreebankError("Files that end in .zst need the package zstandard.", hint=hint) from error
    return zstandard


def check_compression(path: str) -> None:
    """Raise an error if a package that this file needs is not installed, before work starts."""
    if Path(path).suffix.lower() == ".zst":
        _zstandard()


@contextmanager
def open_input(source: Source, *, on_bytes: Callable[[int], None] | None = None) -> Iterator[BinaryIO]:
    """Open a path, `-`, or an open binary file as a stream of bytes; decompress a file whose name ends in `COMPRESSED`.

    Standard input has no suffix, so its first bytes show whether it is compressed. The content of an `EncodedPath`, and
    of a file that starts with a byte order mark of UTF-16 or UTF-32, is converted to UTF-8. `on_bytes` is called after
    each read from the disk with the number of bytes.
    """
    name = name_of(source)
    try:
        with _opened(source) as raw:
            counted = raw if on_bytes is None else cast(BinaryIO, io.BufferedReader(_Counted(raw, on_bytes)))
            if not isinstance(source, str | os.PathLike):
                yield counted
            elif os.fspath(source) == "-":
                yield _recoded(source, _looked_into(counted))
            else:
                yield _recoded(source, _unpacked(counted, Path(name).suffix.lower()))
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, _DamagedZstdError) as error:
        reason = "ends too early" if isinstance(error, EOFError) else f"is damaged ({error})"
        message, hint = f"The compressed file {reason}.", "Download or compress it again."
        for sign, (kind, suffix) in _NOT_PACKED.items():
            if sign in str(error):
                message, hint = f"This is not {kind} file.", f"If it is not compressed, remove {suffix} from its name."
        raise TreebankError(message, hint=hint, path=name) from error
    except IsADirectoryError as error:
        raise TreebankError("This is a directory.", hint="Name a file in it.", path=name) from error
    except FileNotFoundError as error:
        raise TreebankError("There is no such file.", hint=nearest_file(name), path=name) from error
    except OSError as error:
        # bz2 reports both faults as a bare OSError without an error number.
        if error.errno is not None:
            raise TreebankError(f"{error.strerror}.", path=name) from error
        hint = "If it is not compressed, remove .bz2 from its name; else download or compress it again."
        raise TreebankError("This is not a bzip2 file, or it is damaged.", hint=hint, path=name) from error


def _unpacked(raw: BinaryIO, suffix: str) -> BinaryIO:
    unpack = _DECOMPRESS.get(suffix)
    return raw if unpack is None else cast(BinaryIO, unpack(raw))


def _looked_into(raw: BinaryIO) -> BinaryIO:
    """Return the stream, decompressed if its first bytes are those of a compressed file."""
    if raw.isatty():  # nobody types compressed data, and reading ahead would cost the user an extra Ctrl-D
        return raw
    stream = raw if hasattr(raw, "peek") else cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, raw)))
    found = _PACKED.match(cast(io.BufferedReader, stream).peek(_N_PACKED))
    return _unpacked(stream, f".{found.lastgroup}" if found else "")


def utf8_lines(stream: BinaryIO, path: str) -> Iterator[str]:
    """Yield the lines of a stream with their line ends, without a byte order mark; raise an error if one is not UTF-8.

    Only a line feed ends a line; other Unicode line breaks do not.
    """
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
    found = get_close_matches(name.partition(".")[0], by_stem, n=1, cutoff=0.82)
    return f"Did you mean {os.path.join(folder, by_stem[found[0]])}?" if found else ""  # noqa: PTH118


def linked_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names, which need not exist; follow links, and refuse links to each other."""
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise not_written("Too many levels of symbolic links", os.fspath(path))
    return found


def not_written(reason: str, path: str, hint: str = "") -> TreebankError:
    """Return the error for an output that cannot be written, with a hint if its folder does not exist."""
    folder = os.path.dirname(path)  # noqa: PTH120 - Path would normalise what the user wrote
    if folder and not os.path.exists(folder):  # noqa: PTH110 - Path.exists raises if the name is too long
        hint = f"Create the folder {folder} first."
    return TreebankError(f"The output could not be written: {reason}.", hint=hint, path=path)


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if not isinstance(source, str | os.PathLike):
        yield source
    elif os.fspath(source) == "-":
        if sys.stdin is None:
            raise TreebankError("Standard input is closed.", hint="Name a file to read.")
        yield sys.stdin.buffer
    else:
        with open(source, "rb") as raw:
            yield raw


@contextmanager
def open_output(target: str | os.PathLike[str], *, is_synced: bool = False) -> Iterator[BinaryIO]:
    """Open a stream whose bytes replace the file at `target` when all are written; `-` is standard output.

    The bytes go to a temporary file in the same folder, which is renamed at the end and removed after an error. With
    `is_synced` the file is flushed to disk before it is renamed, so a power cut never leaves half a file.
    """
    name = path_of(target)
    path = linked_file(target)  # so that the file is replaced and not the link
    try:
        if name == "-" and sys.stdout is None:
            raise TreebankError("Standard output is closed.", hint="Name a file to write.")
        if name == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif path.is_dir():
            raise TreebankError("This is a directory.", hint="Name a file to write.", path=name)
        elif path.exists() and not path.is_file():  # a device or a pipe: nothing can be renamed over it
            with path.open("wb") as device, _packed(device, path.suffix) as stream:
                yield stream
        else:
            with _renamed_at_end(path, is_synced=is_synced) as raw, _packed(raw, path.suffix) as stream:
                yield stream
    except BrokenPipeError:
        raise  # the reader of our output has stopped
    except OSError as error:
        place = "<stdout>" if name == "-" else name
        raise not_written(error.strerror or str(error), place) from error


@contextmanager
def _renamed_at_end(path: Path, *, is_synced: bool) -> Iterator[BinaryIO]:
    scratch, raw = _new_scratch(path) if is_synced else _reused_scratch(path) or _new_scratch(path)
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
                if sys.platform == "win32":
                    raw.close()
                    scratch.unlink()
                elif _is_at(scratch, raw):  # once it is renamed, another run may use the name
                    scratch.unlink()
            raise


def _new_scratch(path: Path) -> tuple[Path, BinaryIO]:
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    return scratch, scratch.open("xb")


def _reused_scratch(path: Path) -> tuple[Path, BinaryIO] | None:
    """Open and lock the temporary file that a killed run may have left, so that none is left at the end.

    Return None if another process is writing it, if it belongs to another user, or if the file system has no locks.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    scratch = path.with_name(f".{path.name}.tmp")
    with ExitStack() as stack, suppress(OSError):
        raw, is_new = _opened_scratch(scratch)
        stack.enter_context(raw)
        try:
            fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        except OSError:
            if is_new:  # otherwise another process may be writing it
                scratch.unlink()
            return None
        found = os.fstat(raw.fileno())
        is_own = is_new or (found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode))
        if is_own and found.st_nlink == 1 and _is_at(scratch, raw):  # another process may have just renamed it
            raw.truncate(0)
            stack.pop_all()
            return scratch, raw
    return None


def _opened_scratch(scratch: Path) -> tuple[BinaryIO, bool]:
    """Open a temporary file without changing its content. Return it, and whether it is new."""
    try:
        return scratch.open("xb"), True
    except FileExistsError:
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # do not wait for the reader of a named pipe
        return open(scratch, "wb", opener=lambda name, _: os.open(name, flags)), False


def _is_at(path: Path, raw: BinaryIO) -> bool:
    return os.path.samestat(path.lstat(), os.fstat(raw.fileno()))


@contextmanager
def _packed(raw: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    pack = _COMPRESS.get(suffix.lower())
    if pack is None:
        yield raw
        return
    with cast(BinaryIO, pack(raw)) as packed:
        yield packed
