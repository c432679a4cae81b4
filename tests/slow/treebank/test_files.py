"""Files after a killed run and on a full disk."""

import subprocess
import sys
from pathlib import Path

import pytest

from treefine.treebank.files import open_output

WRITE = """
import resource, sys
from treefine import Sentence, TreebankError, write_treebank
if sys.argv[1] == "out.conllu":
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_treebank([Sentence.of_words(["a"])] * 100_000, sys.argv[1])
except TreebankError as error:
    print(error, file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this machine")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("out.conllu", "out.conllu: The output could not be written: File too large."),
        ("/dev/full", "/dev/full: The output could not be written: No space left on device."),
        ("-", "<stdout>: The output could not be written: No space left on device."),
    ],
)
def test_a_full_disk_is_reported_and_the_old_file_stays(tmp_path, target, message):
    (tmp_path / "out.conllu").write_text("old")

    with open("/dev/full", "wb") as full:  # noqa: PTH123
        command = [sys.executable, "-c", WRITE, target]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.stderr.splitlines()[0] == message
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.conllu", "old")]


def test_the_temporary_file_of_a_killed_run_is_reused_and_none_is_left(tmp_path):
    killed = "import os, sys; from treefine.treebank.files import open_output\n"
    killed += "with open_output(sys.argv[1]) as stream: stream.write(bytes(10**6)); os.kill(os.getpid(), 9)"
    target = tmp_path / "out.html"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", killed, target], check=False)
        assert [path.name for path in tmp_path.iterdir()] == [".out.html.tmp"]

    with open_output(target) as stream:
        stream.write(b"new")

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.html", b"new")]
