"""Networks without numbers."""

import subprocess
import sys

import torch
from torch import nn

from treefine.model.folder import unfilled


def test_weights_have_a_shape_and_no_memory_and_outside_all_is_as_before():
    with unfilled():
        made = nn.Sequential(nn.Embedding(1000, 8), nn.LSTM(8, 4), nn.Linear(4, 2))
        nn.init.normal_(made[2].weight)

    assert {each.device.type for each in made.parameters()} == {"meta"}
    assert made[2].weight.shape == (2, 4)
    torch.manual_seed(1)
    assert nn.Linear(4, 2).weight.abs().sum() > 0


def test_loading_a_parser_does_not_load_torchs_compiler():
    """That is a second of start-up."""
    code = "import treefine, sys; treefine.load('en', device='cpu'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert not {"torch._dynamo", "sympy"} & set(done.stdout.split())
