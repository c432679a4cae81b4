from contextlib import suppress

import numpy as np
import pytest
import torch

from tests.support.tiny import sample, tiny_model, write_encoder
from tests.support.tiny_learner import are_equal, weights_of
from treefine.config import TagSettings
from treefine.model.create import create_parser_model
from treefine.model.hf_weights import load_encoder
from treefine.training.optimiser import Optimiser
from treefine.training.recipe import OptimiserSettings


def set_gradients(model, seed, *, scale=1.0, without=()):
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        gradient = scale * torch.randn(weight.shape, generator=generator)
        weight.grad = None if name in without else gradient


def groups_of(model, settings):
    """Return the peak learning rate and the weight decay of each weight, by name."""
    optimiser = Optimiser(model, settings)
    names = {id(weight): name for name, weight in model.named_parameters()}
    return {
        names[id(weight)]: (group["lr"], group["weight_decay"])
        for group in optimiser.adam.param_groups
        for weight in group["params"]
    }


class SlowAdamW:
    """AdamW (Loshchilov and Hutter) in numpy, with decoupled weight decay and bias correction."""

    def __init__(self, weights, settings):
        self.weights = {name: weight.numpy().astype(np.float64) for name, weight in weights.items()}
        self.settings, self.count = settings, 0
        self.first = {name: np.zeros_like(weight) for name, weight in self.weights.items()}
        self.second = {name: np.zeros_like(weight) for name, weight in self.weights.items()}

    def update(self, gradients, factor, groups):
        settings, (beta1, beta2) = self.settings, self.settings.betas
        length = np.sqrt(sum((each**2).sum() for each in gradients.values()))
        shrink = min(1.0, settings.clip_gradient_norm / length) if settings.clip_gradient_norm else 1.0
        self.count += 1
        for name, weight in self.weights.items():
            rate, decay = groups[name][0] * factor, groups[name][1]
            gradient = gradients[name] * shrink
            self.first[name] = beta1 * self.first[name] + (1 - beta1) * gradient
            self.second[name] = beta2 * self.second[name] + (1 - beta2) * gradient**2
            first = self.first[name] / (1 - beta1**self.count)
            second = self.second[name] / (1 - beta2**self.count)
            weight -= rate * decay * weight
            weight -= rate * first / (np.sqrt(second) + settings.eps)


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_updates_equal_a_reference_adamw(clip):
    model = tiny_model()
    settings = OptimiserSettings(
        learning_rate=0.01,
        encoder_learning_rate=0.003,
        betas=(0.8, 0.95),
        weight_decay=0.1,
        clip_gradient_norm=clip,
        warmup=0.4,
    )
    groups = groups_of(model, settings)
    slow = SlowAdamW(weights_of(model), settings)
    optimiser = Optimiser(model, settings)

    for update, progress in enumerate((0.1, 0.4, 0.7, 1.0)):
        set_gradients(model, update)
        gradients = {name: each.grad.numpy().astype(np.float64) for name, each in model.named_parameters()}
        slow.update(gradients, {0.1: 0.25, 0.4: 1.0, 0.7: 0.5, 1.0: 0.0}[progress], groups)
        optimiser.update(progress)

    assert optimiser.n_updates == 4
    assert all(weight.grad is None for weight in model.parameters())
    for name, weight in weights_of(model).items():
        np.testing.assert_allclose(weight.numpy(), slow.weights[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_pretrained_weights_use_the_encoder_learning_rate_and_the_rest_the_other(tmp_path):
    write_encoder(tmp_path, "electra")
    pretrained = {f"encoder.{name}" for name in load_encoder(tmp_path)[1]}
    model = create_parser_model(tmp_path, sample(), tags=TagSettings("predicted", ("upos", "xpos")))

    groups = groups_of(model, OptimiserSettings(learning_rate=0.5, encoder_learning_rate=0.25))

    rates = {name: rate for name, (rate, _) in groups.items()}
    assert rates == {name: 0.25 if name in pretrained else 0.5 for name, _ in model.named_parameters()}
    assert pretrained < rates.keys()


def test_weight_decay_skips_biases_norms_and_root():
    model = tiny_model(tags=TagSettings("predicted", ("upos",)))

    groups = groups_of(model, OptimiserSettings(weight_decay=0.125))

    kept = {name for name, (_, decay) in groups.items() if decay == 0}
    last = {name: name.rpartition(".")[2] for name in groups}
    assert kept == {
        name for name in groups if last[name].startswith("bias") or "norm." in name or name == "encoder.root"
    }
    assert {decay for _, decay in groups.values()} == {0.0, 0.125}


def test_the_ema_equals_a_reference_recursion_and_the_weights_are_restored_even_after_an_error():
    model = tiny_model()
    optimiser = Optimiser(model, OptimiserSettings(learning_rate=0.1, encoder_learning_rate=0.1, ema=0.15))
    mean = weights_of(model)

    for number in (1, 2, 3):
        set_gradients(model, number)
        optimiser.update(0.5)
        kept = min(0.15, number / (number + 10))  # 1/11, then 0.15
        mean = {name: kept * mean[name] + (1 - kept) * weight for name, weight in weights_of(model).items()}

    before = weights_of(model)
    with suppress(ValueError), optimiser.averaged():
        within = weights_of(model)
        raise ValueError

    assert are_equal(weights_of(model), before)
    for name, weight in within.items():
        torch.testing.assert_close(weight, mean[name], rtol=1e-5, atol=1e-6)


def test_updates_after_loading_a_state_are_bit_for_bit_the_same():
    settings = OptimiserSettings(learning_rate=0.1, encoder_learning_rate=0.01, ema=0.9)
    unused = "encoder.layers.0.attention.relations.keys"  # has no gradient when the state is saved
    model, other = tiny_model(seed=1), tiny_model(seed=2)
    optimiser, resumed = Optimiser(model, settings), Optimiser(other, settings)
    for number in (1, 2):
        set_gradients(model, number, without=[unused])
        optimiser.update(0.1)
    set_gradients(other, 7)
    resumed.update(0.1)  # loading must discard this update

    state = {name: each.clone() for name, each in optimiser.state().items()}
    copy = {name: each.clone() for name, each in state.items()}
    other.load_state_dict(model.state_dict())
    resumed.load_state(state)
    for each, mover in ((model, optimiser), (other, resumed)):
        for number in (3, 4):
            set_gradients(each, number)
            mover.update(0.2)

    assert are_equal(weights_of(model), weights_of(other))
    assert are_equal(optimiser.state(), resumed.state())
    assert are_equal(state, copy)  # the state of the caller is unchanged
