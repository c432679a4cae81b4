"""Locations of test data (our own fixtures, and the treebanks next to the checkout), and compression by suffix."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

DATA = Path(__file__).parents[1] / "data"
UD = Path(__file__).parents[3] / "shared" / "treebanks" / "ud-2.3"
PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}
UNPACK = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


def ud_files(pattern: str) -> list[object]:
    """Return the treebank files next to the checkout as test parameters, or one skipped test if there are no files."""
    files = sorted(UD.glob(pattern))
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no treebanks next to this checkout"))]
    return [pytest.param(path, id=f"{path.parent.name}-{path.name.partition('.')[0]}") for path in files]
