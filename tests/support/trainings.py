"""Small trainings of every kind, as recipes in a folder; and trainings that are killed and resumed repeatedly.

    python -m tests.support.trainings SEED RECIPE…

trains each recipe in the folder `killed` next to it, in a child process that is killed by SIGKILL, at a random moment
or before a random change to the files, and started again, six times. The last run continues to the end. The program
prints the number of killed children for each recipe.
"""

import json
import os
import random
import signal
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from tests.support.tiny import sample, tiny_model
from treefine.config import RelationSettings
from treefine.parsing.parser import Parser
from treefine.training.prepare import prepare
from treefine.training.train import train
from treefine.treebank.conllu import write_treebank

SYNTR = """
[relations]
graph = "none"
[refine]
max_steps = 1
"""
TRAINING = """
[scorer]
arc_width = 12
label_width = 8
[optimiser]
learning_rate = 1e-2
encoder_learning_rate = 1e-3
{optimiser}
[training]
epochs = {epochs}
batch_pieces = 300
checkpoint_minutes = 0
{training}
"""
N_RUNS, MOST_CHANGES, MOST_SECONDS = 6, 60, 0.6
FEWEST_CHANGES = 10  # that every training makes to its files
CPU = torch.device("cpu")


def write_recipe(folder: Path, name, *, sections="", optimiser="", training="", epochs=3, encoder="encoder"):
    """Write a recipe, with a small treebank and an encoder in the same folder."""
    path = folder / f"{name}.toml"
    if not (folder / "train.conllu").exists():
        sentences = [each for each in sample() if 4 < len(each) < 20]
        write_treebank(sentences[:20], folder / "train.conllu")
        write_treebank(sentences[20:26], folder / "dev.conllu")
    if not (folder / "encoder").exists():
        Parser(tiny_model(relations=RelationSettings("none"), scale=1.0), device="cpu").save(folder / "encoder")
    text = "" if "[segmenter" in sections else 'segmenter.train = "never"\n'
    text += f'[treebank]\ntrain = ["{folder}/train.conllu"]\ndev = "{folder}/dev.conllu"\n'
    key = "pretrained" if encoder == "bert" else "fine_tune_from"
    text += f'[encoder]\n{key} = "{folder}/{encoder}"\n' if encoder else ""
    text += sections + TRAINING.format(epochs=epochs, optimiser=optimiser, training=training)
    path.write_text(text)
    return path


def write_recipe_with_base(folder: Path):
    """Write a recipe of RNGTr over folds of SynTr; both fine-tune a model of other sentences."""
    sentences = [each for each in sample() if 4 < len(each) < 20]
    base = write_recipe(folder, "base", sections=SYNTR, epochs=2)
    write_treebank(sentences[10:], folder / "other.conllu")
    base.write_text(base.read_text().replace("train.conllu", "other.conllu"))
    write_recipe(folder, "inner", sections=SYNTR, epochs=1, encoder="base.toml")
    sections = 'pieces = "cut"\nn_frequent = 10\n[initial]\nparser = "inner.toml"\nfolds = 2\n'
    return write_recipe(folder, "rngtr", sections=sections, epochs=2, encoder="base.toml", optimiser="ema = 0.8")


def run(recipe: Path, output: Path):
    """Train, and return all progress reports."""
    return list(train(prepare(recipe), output, device=CPU))


def weights(output: Path):
    """Return the weight files of the trained model, and of its initial parser if it has one."""
    return {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.glob("model/**/*.safetensors"))}


def metrics(output: Path):
    """Return the metrics of each stage, except for times."""
    found = {}
    for path in sorted(output.glob("**/metrics.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[str(path.relative_to(output))] = [line | {"seconds": None} for line in lines]
    return found


@dataclass
class _Killer:
    """Kills this process before a change to the files of a folder, after `left` earlier changes."""

    folder: str
    left: int

    def __call__(self, event, arguments):
        is_change = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir") or (
            event == "open" and (arguments[1] or "r")[0] in "wax"
        )
        if is_change and str(arguments[0]).startswith(self.folder):
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _train_killed(recipe: Path, output: Path, rng, *, number: int):
    """Train until the training ends or the process is killed at random; run 0 is killed on any machine."""
    if number == 0 or rng.random() < 0.5:
        sys.addaudithook(_Killer(str(output), rng.randrange(MOST_CHANGES if number else FEWEST_CHANGES)))
    else:
        threading.Timer(rng.uniform(0, MOST_SECONDS), os.kill, (os.getpid(), signal.SIGKILL)).start()
    run(recipe, output)


def _status_of_child(work, *arguments):
    """Run a function in a child process, and return its wait status."""
    pid = os.fork()  # much faster than a new Python, and safe because torch never runs in this process
    if pid == 0:
        work(*arguments)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def _run_killed(recipe: Path, seed: int):
    output, killed = recipe.parent / "killed", 0
    for number in range(N_RUNS):
        status = _status_of_child(
            partial(_train_killed, number=number), recipe, output, random.Random(f"{seed} {number}")
        )
        if status and os.WTERMSIG(status) != signal.SIGKILL:
            sys.exit("a training failed without being killed")
        killed += status != 0
    if _status_of_child(run, recipe, output):
        sys.exit("the last training failed")
    return killed


if __name__ == "__main__":
    import torch._dynamo  # import these once, not in every child
    import torch.utils.tensorboard

    for path in sys.argv[2:]:
        sys.stdout.write(f"{_run_killed(Path(path), int(sys.argv[1]))}\n")
