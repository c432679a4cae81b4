import pytest

from treefine.segmenter import segmenter as segment
from treefine.segmenter import sentence_ends


@pytest.fixture
def small_windows(monkeypatch):
    sizes = {
        segment: {"STRIDE": 5, "CONTEXT": 3, "TEXT_BLOCK": 10, "TEXT_REACH": 6, "AT_ONCE": 20, "IN_BATCH": 10},
        sentence_ends: {"WINDOW_TOKENS": 2, "CONTEXT_TOKENS": 1, "WINDOWS_IN_BATCH": 2},
    }
    for module, values in sizes.items():
        for name, size in values.items():
            monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(segment, "_HAS_BFLOAT16", lambda: False)  # it rounds more, and so differs more between batches
