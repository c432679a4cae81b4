"""A tiny segmenter with random weights; its output is random but deterministic."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from treefine.config import SegmenterSettings
from treefine.segmenter.network import Alphabet, SegmenterNetwork
from treefine.segmenter.segmenter import Segmenter, TokenizationRules
from treefine.training.recipe import TreebankSettings
from treefine.treebank.raw_text import Multiwords

ANY_TREEBANK = TreebankSettings(("x",), ("x",))
TINY = SegmenterSettings(
    char_width=6, kind_width=4, char_hidden=5, n_hashes=50, hash_width=4, run_layers=1, run_hidden=5
)
MULTIWORDS = Multiwords({"del": ("de", "el")}, endings={"ki": (2, ("", "ki"))}, beginnings={"b": (1, ("ba", ""))})
ODD = " \n\r\t\x00\ud800\udc00\x0b\x85\u2028\u00a0\u3000\u200d\u0301\ufeff\x1b|\\_#.'ab1İ中😀"

texts = st.text(st.one_of(st.sampled_from(ODD), st.characters()))  # includes surrogates


HABITS = {
    "": TokenizationRules(whole_spans=("url",)),
    "es_one": TokenizationRules(MULTIWORDS, most_spaces=1, whole_spans=("url", "title")),
    "th_two": TokenizationRules(whole_spans=("url",), marks_ends=False),
}


def tiny_network(seed=0, *, n_chars=12, n_treebanks=0):
    torch.manual_seed(seed)
    network = SegmenterNetwork(TINY, n_chars=n_chars, n_treebanks=n_treebanks)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    return network.eval()


def tiny_segmenter(seed=0, *, most_spaces=1, multiwords=MULTIWORDS):
    return Segmenter(tiny_network(seed), Alphabet("ab .'\n12é中", 50), {"": TokenizationRules(multiwords, most_spaces)})


def tiny_segmenter_of_two(seed=0):
    network = tiny_network(seed, n_treebanks=2)
    return Segmenter(network, Alphabet("ab .'\n12é中", 50), HABITS, treebanks=("es_one", "th_two"))


def weights_of(network):
    return {name: each.numpy() for name, each in network.state_dict().items()}


def same_weights(one, other, *, within=0.0):
    a, b = weights_of(one), weights_of(other)
    return a.keys() == b.keys() and all(np.abs(a[name] - b[name]).max() <= within for name in a)


def with_small_windows(test):
    """Run a test with windows so short that a few words need several."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return pytest.mark.usefixtures("small_windows")(settings(suppress_health_check=checks)(test))
