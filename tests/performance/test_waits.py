"""Count how often training reads values that a GPU may still be computing, and the operations of an update.

On a CPU nothing waits, but training reads the same values: each of these reads would block the host on a GPU.
"""

import pytest
import torch

from tests.performance.test_counts import Waits
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import learner_of
from treefine.config import TagSettings
from treefine.parsing.initial import empty
from treefine.training.recipe import RefineSettings, TrainingSettings

SHORT = [each for each in sample() if len(each) < 12][:12]
GOLD = [each.arcs for each in SHORT]
ONE_BATCH = TrainingSettings(epochs=10, batch_pieces=10_000)


def learner_for(tags=None, **refine):
    model = tiny_model(tags=tags)
    learner = learner_of(model, SHORT, parses=GOLD, refine=RefineSettings(max_steps=3, **refine), training=ONE_BATCH)
    learner.model.train()
    return learner


@pytest.mark.parametrize("tags", [TagSettings(), TagSettings("predicted", ("upos", "xpos"))])
@pytest.mark.parametrize("start", ["blank", "mixed"])
def test_training_on_a_batch_reads_no_values_until_its_loss_is_read(tags, start):
    learner = learner_for(tags, stop=False)
    graphs = [*GOLD[:6], *empty(SHORT[6:])] if start == "mixed" else list(empty(SHORT))

    with Waits() as asked:
        loss = learner.learn_from(range(12), graphs, 0.5)
    assert asked.counts == {"__bool__": 3}  # on a CPU only: whether there is any graph to read in a step

    with asked:
        loss()
    assert asked.counts == {"__bool__": 3, "__float__": 1}


@pytest.mark.gpu
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
