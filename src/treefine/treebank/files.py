"""Files in and out: plain, compressed, standard input and output; what is written appears whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import secrets
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from treefine.errors import TreebankError

Source: TypeAlias = "str | os.PathLike[str] | BinaryIO"

_DECOMPRESS: dict[str, Callable[[BinaryIO], object]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw, mode="rb"),
    ".xz": lambda raw: lzma.LZMAFile(raw),
    ".bz2": lambda raw: bz2.BZ2File(raw),
}
_COMPRESS: dict[str, Callable[[BinaryIO], object]] = {
    ".gz": lambda raw: gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0),  # same content, same bytes
    ".xz": lambda raw: lzma.LZMAFile(raw, "wb"),
    ".bz2": lambda raw: bz2.BZ2File(raw, "wb"),
}
COMPRESSED = tuple(_DECOMPRESS)


def name_of(source: Source) -> str:
    """What to call a source in a message: its path, <stdin>, or the name a file object has."""
    if isinstance(source, str | os.PathLike):
        return "<stdin>" if os.fspath(source) == "-" else os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


class _Counted(io.RawIOBase):
    """A file that tells how many bytes have been read from it, for a progress bar."""

    def __init__(self, raw: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self.raw = raw
        self.on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        count = cast(io.BufferedReader, self.raw).readinto(cast(bytearray, buffer)) or 0
        self.on_bytes(count)
        return count


@contextmanager
def open_input(source: Source, *, on_bytes: Callable[[int], None] | None = None) -> Iterator[BinaryIO]:
    """A path, `-`, or an open binary file as a stream of bytes; a path to .gz, .xz or .bz2 is unpacked on the way.

    `on_bytes` hears how many bytes were taken from the disk, each time some were.
    """
    name = name_of(source)
    try:
        with _opened(source) as raw:
            counted = raw if on_bytes is None else cast(BinaryIO, io.BufferedReader(_Counted(raw, on_bytes)))
            is_path = isinstance(source, str | os.PathLike)
            unpack = _DECOMPRESS.get(Path(name).suffix.lower()) if is_path else None
            yield counted if unpack is None else cast(BinaryIO, unpack(counted))
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        reason = "ends too early" if isinstance(error, EOFError) else f"is damaged ({error})"
        raise TreebankError(f"The compressed file {reason}.", hint="Fetch or pack it again.", path=name) from error
    except IsADirectoryError as error:
        raise TreebankError("This is a directory.", hint="Name a file in it.", path=name) from error
    except FileNotFoundError as error:
        raise TreebankError("There is no such file.", path=name) from error
    except OSError as error:
        # bz2 reports damage as a bare OSError without an error number.
        reason = f"The compressed file is damaged ({error})." if error.errno is None else f"{error.strerror}."
        raise TreebankError(reason, path=name) from error


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
def open_output(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose bytes replace the file at `target` once all are written, and never before; `-` is standard output.

    They go to a temporary file beside the target, which is renamed at the end and removed after an error.
    """
    name = os.fspath(target)
    path = Path(target).resolve()  # through a link, to the file it names
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
            with _renamed_at_end(path) as raw, _packed(raw, path.suffix) as stream:
                yield stream
    except BrokenPipeError:
        raise  # whoever reads our output has seen enough
    except OSError as error:
        place = "<stdout>" if name == "-" else name
        raise TreebankError(f"The output could not be written: {error.strerror or error}.", path=place) from error


@contextmanager
def _renamed_at_end(path: Path) -> Iterator[BinaryIO]:
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with scratch.open("xb") as raw:
            yield raw
        if path.exists():
            shutil.copymode(path, scratch)
        scratch.replace(path)
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


@contextmanager
def _packed(raw: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    pack = _COMPRESS.get(suffix.lower())
    if pack is None:
        yield raw
        return
    with cast(BinaryIO, pack(raw)) as packed:
        yield packed
