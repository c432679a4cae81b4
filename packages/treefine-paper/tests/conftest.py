"""Let the tests find the command of this package, whether it is installed or not."""

from importlib.metadata import EntryPoint

import pytest

from tests.conftest import _seeded  # noqa: F401
from treefine.cli import app

collect_ignore = ["conftest.py"]  # as a module with doctests: docs has a module of the same name


@pytest.fixture(autouse=True, scope="session")
def _command():
    command = EntryPoint("reproduce", "treefine_paper.command:reproduce_command", "treefine.commands")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "plugged_in", lambda: {"reproduce": command})
        patch.setattr("treefine_paper.biaffine.WIDTH", 8)
        patch.setattr("treefine_paper.biaffine.N_LAYERS", 1)
        yield
