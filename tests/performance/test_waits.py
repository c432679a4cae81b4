"""Count how often training reads values that a GPU may still be computing, and the operations of an update.

On a CPU nothing waits, but training reads the same values: each of these reads would block the host on a GPU.
"""

from collections import Counter

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import learner_of, without_dropout
from treefine.config import TagSettings
from treefine.model.batch import Arriving, sent
from treefine.training.recipe import OptimiserSettings, RefineSettings, TrainingSettings

SHORT = [each for each in sample() if len(each) < 12][:12]
GOLD = [each.arcs for each in SHORT]
ONE_BATCH = TrainingSettings(epochs=10, batch_pieces=10_000)
QUESTIONS = {"item", "tolist", "numpy", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__"}
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Asked(TorchFunctionMode):
    """Counts the calls that copy values of a tensor to Python."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        is_mask = name == "__getitem__" and any(
            isinstance(each, torch.Tensor) and each.dtype == torch.bool
            for each in (args[1] if isinstance(args[1], tuple) else (args[1],))
        )
        if name in QUESTIONS or is_mask:
            self.counts[name] += 1
        return function(*args, **(kwargs or {}))


class Started(TorchDispatchMode):
    """Counts the operations that are started."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def learner_for(tags=None, **refine):
    model = tiny_model(tags=tags)
    learner = learner_of(model, SHORT, parses=GOLD, refine=RefineSettings(max_steps=3, **refine), training=ONE_BATCH)
    learner.model.train()
    return learner


@pytest.mark.parametrize("tags", [TagSettings(), TagSettings("predicted", ("upos", "xpos"))])
@pytest.mark.parametrize("update", ["each", "sum"])
@pytest.mark.parametrize("start", ["blank", "mixed"])
def test_training_on_a_batch_reads_no_values_until_its_loss_is_read(tags, update, start):
    learner = learner_for(tags, stop=False, update=update)
    graphs = learner.graphs.blank if start == "blank" else [*GOLD[:6], *learner.graphs.blank[6:]]

    with Asked() as asked:
        loss = learner.learn_from(range(12), graphs, 0.5)
    assert asked.counts == {}

    with asked:
        loss()
    assert asked.counts == {"__float__": 1}


def test_each_step_except_the_last_reads_once_which_sentences_have_converged():
    model = without_dropout(tiny_model()).train()
    learner = learner_of(
        model, SHORT, parses=GOLD, optimiser=OptimiserSettings(learning_rate=0.0, encoder_learning_rate=0.0)
    )

    with Asked() as asked:
        learner.learn_from(range(12), GOLD, 0.5)

    assert learner.n_moving[0] > learner.n_moving[1] > learner.n_moving[2] > 0
    assert asked.counts == {"tolist": 2}


def test_a_loss_is_read_after_the_next_batch(monkeypatch):
    learner, events = learner_of(tiny_model(), SHORT, training=TrainingSettings(batch_pieces=60)), []
    learn_from = learner.learn_from

    def watched(numbers, *rest):
        number, loss = len(events), learn_from(numbers, *rest)
        events.append(("learned", number))
        return lambda: events.append(("read", number)) or loss()

    monkeypatch.setattr(learner, "learn_from", watched)
    shares = [share for share, _ in learner.epoch(1)]

    kinds = "".join(kind[0] for kind, _ in events)
    assert len(shares) > 2
    assert kinds == "l" + "lr" * (len(shares) - 1) + "r"
    assert [number for kind, number in events if kind == "read"] == [
        number for kind, number in events if kind == "learned"
    ]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_an_update_needs_few_operations_for_any_number_of_weights():
    model = tiny_model()
    learner = learner_of(model, SHORT)
    for _ in range(2):  # the first update creates the optimiser's state
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight)
        with Started() as started:
            learner.optimiser.update(0.5)

    assert len(learner.optimiser.parameters) > 40
    assert started.count <= 25


def test_values_arrive_as_they_were_when_requested():
    values = torch.arange(3.0)
    arriving = Arriving(values * 2)
    values += 1

    assert arriving.read().tolist() == [0.0, 2.0, 4.0]
    assert sent((3, 1), torch.device("cpu")).tolist() == [3, 1]
    assert sent([], torch.device("cpu")).dtype == torch.int64


@on_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_on_a_gpu_the_host_does_not_wait_within_a_batch():
    from treefine.training.processes import Processes

    learner = learner_for(stop=False)
    learner.processes = Processes(torch.device("cuda"))
    learner.model.to("cuda")
    learner.optimiser = type(learner.optimiser)(learner.model, learner.recipe.optimiser)
    learner.learn_from(range(12), GOLD, 0.5)()

    torch.cuda.set_sync_debug_mode("error")
    try:
        loss = learner.learn_from(range(12), GOLD, 0.5)
    finally:
        torch.cuda.set_sync_debug_mode("default")

    assert loss() > 0
