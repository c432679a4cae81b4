"""The browser and the server of tests/serving."""

from tests.serving.conftest import browser, new_page, page, served, tab  # noqa: F401
