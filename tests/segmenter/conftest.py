import pytest

from treefine.segmenter import segmenter as segment
from treefine.segmenter import sentence_ends


@pytest.fixture
def small_windows(monkeypatch):
    sizes = {
        segment: {"STRIDE": 5, "CONTEXT": 3, "BLOCK_WINDOWS": 2, "AT_ONCE": 2},
        sentence_ends: {"WINDOW_TOKENS": 2, "CONTEXT_TOKENS": 1, "WINDOWS_AT_ONCE": 2, "WINDOWS_IN_BATCH": 2},
    }
    for module, values in sizes.items():
        for name, size in values.items():
            monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(sentence_ends, "FEWEST_TOKENS", 0)
