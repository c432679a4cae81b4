"""AdamW with two learning rates, gradient clipping, and a moving average of the weights (Appendix A)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from treefine.model.hf_weights import is_pretrained
from treefine.training.recipe import OptimiserSettings


class Optimiser:
    """Updates the weights of a model. `progress`, from 0 to 1, is the completed share of the training."""

    def __init__(self, model: nn.Module, settings: OptimiserSettings) -> None:
        self.settings = settings
        trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.names, self.parameters = list(trained), list(trained.values())
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for name, parameter in trained.items():
            is_slow = name.startswith("encoder.") and is_pretrained(name.removeprefix("encoder."))
            rate = settings.encoder_learning_rate if is_slow else settings.learning_rate
            decay = settings.weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
        self.has_fused = self.parameters[0].device.type in ("cpu", "cuda")
        self.adam = torch.optim.AdamW(
            [{"params": some, "lr": rate, "weight_decay": decay} for (rate, decay), some in groups.items()],
            betas=(settings.betas[0], settings.betas[1]),
            eps=settings.eps,
            fused=self.has_fused,  # one pass over all weights
        )
        self.highest = [float(group["lr"]) for group in self.adam.param_groups]
        self.n_updates = 0
        self.ema: list[Tensor] = []
        if settings.ema:
            self.ema = [parameter.detach().clone() for parameter in self.parameters]

    def update(self, progress: float) -> None:
        """Update the weights, and clear the gradients."""
        if self.settings.clip_gradient_norm:
            longest = self.settings.clip_gradient_norm
            nn.utils.clip_grad_norm_(self.parameters, longest, foreach=self.has_fused)
        factor = rate_factor(progress, self.settings.warmup)
        for group, highest in zip(self.adam.param_groups, self.highest, strict=True):
            group["lr"] = highest * factor
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.n_updates += 1
        if self.ema:  # its decay is lower at first, to forget the initial weights
            decay = min(self.settings.ema, self.n_updates / (self.n_updates + 10))
            with torch.no_grad():
                torch._foreach_lerp_(self.ema, list[Tensor](self.parameters), 1 - decay)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Use the moving average of the weights, if EMA is on, until the context ends."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, ema in zip(self.parameters, self.ema, strict=bool(self.ema)):
            kept = parameter.clone()  # swaps values, not tensors: the tensors of an LSTM share one block on a GPU
            parameter.copy_(ema)
            ema.copy_(kept)

    def state(self) -> dict[str, Tensor]:
        """Return the state of the optimiser, without the weights, as named tensors."""
        state: dict[str, Tensor] = {"n_updates": torch.tensor(self.n_updates)}
        for number, (name, parameter) in enumerate(zip(self.names, self.parameters, strict=True)):
            for key, value in self.adam.state.get(parameter, {}).items():
                state[f"{key}.{name}"] = value
            if self.ema:
                state[f"ema.{name}"] = self.ema[number]
        return state

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore a state."""
        self.n_updates = int(state["n_updates"])
        self.adam.state.clear()
        for number, (name, parameter) in enumerate(zip(self.names, self.parameters, strict=True)):
            device = parameter.device
            if f"exp_avg.{name}" in state:
                keys = ("step", "exp_avg", "exp_avg_sq")
                self.adam.state[parameter] = {key: state[f"{key}.{name}"].to(device, copy=True) for key in keys}
            if self.ema:
                self.ema[number] = state[f"ema.{name}"].to(device, copy=True)


def rate_factor(progress: float, warmup: float) -> float:
    """Return the factor of the peak learning rate: it rises linearly to 1, then falls to 0.

    >>> [rate_factor(progress, 0.2) for progress in (0.1, 0.2, 0.6, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    return (1 - progress) / (1 - warmup) if warmup < 1 else 1.0
