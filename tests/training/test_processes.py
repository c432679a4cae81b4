"""Two processes have the same gradients and weights as one process with the whole batch."""

import os
import re
import socket
import subprocess
import sys
from functools import cache

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import multiprocessing, nn

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import learner_of, without_dropout
from tests.support.trainings import CPU, SYNTR, metrics, run, write_recipe
from treefine.errors import TreefineError
from treefine.parsing.initial import empty
from treefine.training.processes import Processes
from treefine.training.recipe import RefineSettings
from treefine.training.steps import input_tags, refined
from treefine.treebank.graph import Arcs

BATCHES = {  # sentences 0, 2, … belong to the first process
    "as many in each": [0, 1, 2, 3],
    "fewer in the second": [0, 1, 2],
    "none in the second": [0],
    "the second soon done": [0, 4, 1, 5],
    "the first soon done": [4, 0, 5, 1],
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def learn(processes, name):
    """Train on one batch; return the gradients of each update, the final weights, the loss and the steps."""
    model, (sentences, arcs) = double_model(), sentences_and_arcs()
    learner = learner_of(model, sentences, parses=arcs, refine=RefineSettings(max_steps=3))
    learner.processes, found, steps = processes, {}, 0
    apply, refine = learner.optimiser.update, learner.steps

    def recorded(progress):
        for name, weight in zip(learner.optimiser.names, learner.optimiser.parameters, strict=True):
            if weight.grad is not None:
                found[f"gradient {learner.optimiser.n_updates} {name}"] = weight.grad.clone()
        apply(progress)

    def counted(*arguments, **options):
        nonlocal steps
        for step in refine(*arguments, **options):
            steps += 1
            yield step

    learner.optimiser.update, learner.steps = recorded, counted
    learner.model.train()
    loss = learner.learn_from(BATCHES[name], arcs, 0.5)()
    found |= {f"weight {name}": weight.detach() for name, weight in model.named_parameters()}
    numbers = {"loss": loss, "own steps": steps, "updates": learner.optimiser.n_updates}
    return found | {name: torch.tensor(float(number)) for name, number in numbers.items()}


def double_model():
    """Return a model without most of the rounding, which each update would make larger."""
    model = without_dropout(tiny_model())
    model.scorer.register_forward_pre_hook(lambda _, inputs: (inputs[0].double(), *inputs[1:]))
    return model.double()


@cache
def sentences_and_arcs():
    """Return four longer sentences without arcs, then two that are done after one step: the model keeps their arcs."""
    model, sentences = double_model().eval(), [each for each in sample() if 4 < len(each) < 12]
    found, arcs, tags = [], [], input_tags(model, sentences, CPU)
    with torch.no_grad():
        for step in refined(model, model.batch_of(sentences), list(empty(sentences)), tags, RefineSettings(20)):
            for row, place in enumerate(step.sentences):
                if step.converged[row]:
                    words = slice(1, len(sentences[place]) + 1)
                    labels = [model.vocabulary.labels[label] for label in step.graphs.labels[row, words].tolist()]
                    found.append(sentences[place])
                    arcs.append(Arcs(tuple(step.graphs.heads[row, words].tolist()), tuple(labels)))
    longer = [each for each in sample() if 12 <= len(each) < 30][:4]
    return longer + found[:2], [*empty(longer), *arcs[:2]]


def work(rank, port, folder):
    """Run the work of one of two processes. At the end the second one fails while the first one waits."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    with Processes(CPU) as processes:
        for number, name in enumerate(BATCHES):
            save_file(learn(processes, name), folder / f"{rank} {number}")
        unused, used = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
        used.grad = torch.tensor([1.0, rank])
        processes.sum_gradients([unused, used])
        same, total = processes.same(rank + 5), processes.total(rank + 0.5)
        (folder / f"{rank} exchanged").write_text(f"{unused.grad} {used.grad.tolist()} {same} {total}")
        if rank == 1:
            return
        try:
            processes.wait()
        except TreefineError as error:
            (folder / "failed").write_text(str(error))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Return the folder with the results of two processes."""
    folder = tmp_path_factory.mktemp("two")
    multiprocessing.start_processes(work, (free_port(), folder), nprocs=2, start_method="fork")  # imports nothing again
    return folder


def gradients(found):
    """Return the joined gradient of each update, keyed by the weights that have one."""
    by_update = {}
    for key in sorted(found):
        if key.startswith("gradient"):
            by_update.setdefault(key.split()[1], []).append(found[key].flatten())
    return {(update, len(each)): torch.cat(each) for update, each in by_update.items()}


@pytest.mark.parametrize("name", BATCHES)
def test_two_processes_train_like_one(two, name):
    first, second = (load_file(two / f"{rank} {list(BATCHES).index(name)}") for rank in (0, 1))
    alone = learn(Processes(CPU), name)

    assert alone["updates"] == 3
    assert float(first["loss"]) == pytest.approx(float(alone["loss"]), rel=1e-6)
    assert gradients(first).keys() == gradients(alone).keys()
    for update_number, ours in gradients(first).items():
        theirs = gradients(alone)[update_number]
        assert (ours - theirs).norm() <= 1e-6 * theirs.norm()
    for key in first.keys() - {"own steps"}:
        assert torch.equal(first[key], second[key]), key
    own_steps = {"none in the second": (3, 0), "the second soon done": (3, 1), "the first soon done": (1, 3)}
    assert (first["own steps"], second["own steps"]) == own_steps.get(name, (3, 3))


def test_gradients_numbers_and_failures_are_exchanged(two):
    exchanged = "None [2.0, 1.0] 5.0 2.0"

    assert (two / "0 exchanged").read_text() == (two / "1 exchanged").read_text() == exchanged
    assert (two / "failed").read_text() == "Another process of this training has failed. See its error message."


def test_each_process_of_a_machine_has_its_own_gpu(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")

    assert Processes(torch.device("cuda")).device == torch.device("cuda", 1)
    assert Processes(torch.device("cuda", 0)).device == torch.device("cuda", 0)  # the given one
    assert Processes(CPU).device == CPU


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"RANK": "1"},
            r"RANK is 1, but there are 1 processes \(WORLD_SIZE\)\. Start the training with torchrun, or unset RANK\.",
        ),
        (
            {"WORLD_SIZE": "2", "RANK": "0"},
            r"The processes cannot connect to each other \(.*MASTER_ADDR.*\)\. Start the training with torchrun\.",
        ),
    ],
)
def test_a_wrong_environment_is_one_clear_line(monkeypatch, environment, message):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(TreefineError, match=message) as raised, Processes(CPU):
        pass

    assert "\n" not in str(raised.value)


def test_torchrun_trains_the_same_model_as_one_process(tmp_path):
    recipe = write_recipe(tmp_path, "syntr", sections=SYNTR + '[tags]\nsource = "none"\n')
    recipe.write_text(recipe.read_text().replace("[scorer]", "[scorer]\ndropout = 0.0"))
    config = tmp_path / "encoder" / "config.json"
    config.write_text(re.sub(r'dropout": 0\.1', 'dropout": 0.0', config.read_text()))
    run(recipe, tmp_path / "one")

    torchrun = f"-m torch.distributed.run --nproc-per-node 2 --master-port {free_port()}".split()
    command = [sys.executable, *torchrun, "-m", "treefine", "train", recipe, "-o", tmp_path / "two", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert (
        done.stderr.count("epoch 3 of 3") == done.stdout.count("The model is in ") == 1
    )  # only the first process reports
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two"))
    assert all(torch.allclose(one[name], two[name], atol=1e-4) for name in one)
    ours, theirs = (metrics(tmp_path / name)["metrics.jsonl"] for name in ("one", "two"))
    assert [line["loss"] for line in ours] == pytest.approx([line["loss"] for line in theirs], rel=1e-4)
