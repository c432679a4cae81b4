"""A studio and a browser, as in the fast tests."""

from tests.studio.conftest import *  # noqa: F403
