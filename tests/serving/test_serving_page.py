"""What docs/serving.md tells a person to type."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.tiny_app import listening, tiny_tagging_parser

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
COMMANDS = re.findall(r"^curl .*$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def address():
    with listening({"en": tiny_tagging_parser()}) as address:
        yield address


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("command", COMMANDS, ids=[str(number) for number in range(1, len(COMMANDS) + 1)])
def test_each_curl_command_is_answered_with_200(address, command):
    command = command.replace("http://127.0.0.1:8080", address)

    done = subprocess.run(["curl", "--fail", "--silent", *shlex.split(command)[1:]], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_the_page_shows_each_route_that_is_described(address):
    described = httpx.get(f"{address}/openapi.json", timeout=60).json()["paths"]

    assert [route for route in described if route not in PAGE.read_text()] == []


def test_the_page_names_each_metric(address):
    counted = re.findall(
        r"^# TYPE (treefine_\w+?)(?:_created)? ", httpx.get(f"{address}/metrics", timeout=60).text, re.M
    )

    assert [name for name in counted if name not in PAGE.read_text()] == []
