"""A run that is killed or interrupted can be resumed."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.commands import invoke

SMALL = ("--batch-pieces", 40, "--steps", 2)  # many small chunks


def start(model, *arguments):
    command = [sys.executable, "-m", "treefine", "parse", "in.txt", "--from", "words", "--model", model]
    options = ["--device", "cpu", *map(str, SMALL), *arguments]

    def accept_ctrl_c():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell makes its background jobs ignore it

    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, preexec_fn=accept_ctrl_c)


def wait_for(path, size):
    for _ in range(6000):
        if path.exists() and path.stat().st_size > size:
            return
        time.sleep(0.01)
    raise TimeoutError


def test_a_killed_run_can_be_resumed_and_an_interrupted_one_says_how(text_model, tmp_path, monkeypatch):
    """Kill a run at a random moment, interrupt the next with Ctrl-C, and let the third finish."""
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"Dogs bark {number} times a day\n" for number in range(150))
    Path("in.txt").write_text(lines)
    rng, part = random.Random(1), Path("out.json.part")

    for ending, at_least in ((signal.SIGKILL, 0), (signal.SIGINT, 100_000)):
        process = start(text_model, "-o", "out.json", "--resume")
        wait_for(part, at_least + rng.randrange(50_000))
        process.send_signal(ending)
        message = process.communicate()[1]
        assert process.returncode == (130 if ending == signal.SIGINT else -signal.SIGKILL)
        assert not Path("out.json").exists()
    for options in (("out.json", "--resume"), ("whole.json",)):
        model = ("--model", text_model, "--device", "cpu", *SMALL)
        invoke("parse", "in.txt", "--from", "words", *model, "-o", *options)

    stopped = "treefine: Stopped. The finished sentences are in out.json.part. To continue, run again with --resume.\n"
    assert message == stopped
    assert Path("out.json").read_bytes() == Path("whole.json").read_bytes()
