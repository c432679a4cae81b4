"""Write recipes and their treebanks to the working folder, and run `treefine train` on them."""

import re
import shlex
from functools import partial
from pathlib import Path

from tests.support.commands import invoke
from tests.support.tiny import sample, write_encoder
from treefine.treebank.conllu import write_treebank

TREEBANK = """segmenter.train = "never"
[treebank]
train = "train.conllu"
dev = "dev.conllu"
"""
BIAFFINE = f"""{TREEBANK}
[encoder]
family = "bilstm"
word_width = 8
char_width = 8
tag_width = 8
n_layers = 1
width = 8
[scorer]
arc_width = 8
label_width = 8
[relations]
graph = "none"
[refine]
max_steps = 1
[training]
epochs = 2
"""
RNGTR = f"""{TREEBANK}
[encoder]
family = "pretrained"
pretrained = "./encoder"
[scorer]
arc_width = 8
label_width = 8
[training]
epochs = 2
"""


def write_files(*, has_encoder=False):
    """Write two recipes and their treebanks, and the encoder of one of them."""
    write_treebank(sample(20), "train.conllu")
    write_treebank(sample(26)[20:], "dev.conllu")
    Path("biaffine.toml").write_text(BIAFFINE)
    Path("rngtr.toml").write_text(RNGTR)
    if has_encoder:
        write_encoder(Path("encoder"), "bert")


run = partial(invoke, "--device", "cpu", command="train")


def changes(*settings):
    """Return the command-line options for these changes."""
    return [part for setting in settings for part in ("--set", setting)]


def try_hint(result):
    """Run the command that a training names at its end, and return its arguments and its result."""
    arguments = shlex.split(result.stdout.rstrip("\n").split(" To try it: treefine ")[1])
    return arguments, invoke(*arguments, "--device", "cpu")


def epoch_lines(result):
    """Return the lines of a training that report an epoch."""
    return [line for line in result.stderr.splitlines() if re.match(r"(.*, )?epoch \d", line)]


def training_errors(*arguments, output="out"):
    """Run a training that must fail without changing the folder, and return its error messages."""
    before = sorted(Path().rglob("*"))
    result = run(*arguments, "--output", output, code=1)
    assert sorted(Path().rglob("*")) == before
    assert result.stdout == ""
    lines = result.stderr.removesuffix("\n").split("\n")
    assert all(line.startswith("treefine: ") for line in lines)
    return [line.removeprefix("treefine: ") for line in lines]
