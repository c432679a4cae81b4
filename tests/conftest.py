import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One thread for each test and for the commands it runs: tests run side by side, and waiting threads are slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "treefine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,  # new examples here, the same ones where a change is judged
    max_examples=int(os.environ.get("EXAMPLES", "100")),
)
settings.load_profile("treefine")

DATA = Path(__file__).parent / "data"
UD = Path(__file__).parents[2] / "shared" / "treebanks" / "ud-2.3"


@pytest.fixture
def data() -> Path:
    return DATA


def ud_files(pattern: str) -> list[object]:
    """The treebank files beside the checkout as test parameters, or one test that skips where there are none."""
    files = sorted(UD.glob(pattern))
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no treebanks beside this checkout"))]
    return [pytest.param(path, id=f"{path.parent.name}-{path.name.partition('.')[0]}") for path in files]
