"""The cost of parsing in machine-independent counts: passes, searches, labels, waits, bytes, sizes.

These count the code that runs on every machine. The GPU engine has its own counts in test_engine.
"""

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from tests.support.tiny import sample, short, tiny_model
from tests.support.wrapped_models import Sure, Wrapped, clear_labels
from treefine.config import TagSettings
from treefine.model import scorer as biaffine
from treefine.model.batch import padded
from treefine.parsing import decode
from treefine.parsing.decode import are_trees
from treefine.parsing.parser import Parser
from treefine.parsing.plan import ParseInput, refine_inputs
from treefine.parsing.results import trees
from treefine.treebank.constraints import FREE

TAGS = TagSettings("predicted", ("upos", "xpos"))


def sure_parser(sentences, **options):
    """Return a parser that finds the right heads in its first step, with high confidence, and then confirms them."""
    model = Sure(tiny_model(n_positions=512, tags=TAGS), {each.forms: each.graph for each in sentences})
    model.inner.tagger.forward = sure_tags
    return Parser(model, device="cpu", **options)


def sure_tags(words):
    """Return tag scores that are far apart."""
    return (torch.linspace(9, 0, 17).expand(len(words), -1),) * 2


class Waits(TorchFunctionMode):
    """Counts the calls in which the host would wait for a GPU, by name, and the bytes that it receives."""

    NAMES = ("tolist", "item", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__")

    def __init__(self):
        super().__init__()
        self.counts, self.bytes = Counter(), 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        places = args[1] if name == "__getitem__" else ()
        places = places if isinstance(places, tuple) else (places,)
        masks = [x for x in places if isinstance(x, torch.Tensor) and x.dtype == torch.bool]
        if name in self.NAMES or masks:
            self.counts[name] += 1
            self.bytes += sum(each.numel() * each.element_size() for each in masks or args[:1])
        return func(*args, **(kwargs or {}))


@contextmanager
def counted(module, name, count):
    """Record `count(*arguments)` for each call of a function of a module."""
    real, found = getattr(module, name), []

    def recorded(*arguments, **options):
        found.append(count(*arguments))
        return real(*arguments, **options)

    setattr(module, name, recorded)
    try:
        yield found
    finally:
        setattr(module, name, real)


@contextmanager
def passes(model):
    """Record the batches that a model scores."""
    real, found = model.forward, []

    def forward(batch, *rest, **options):
        found.append(batch)
        return real(batch, *rest, **options)

    model.forward = forward
    try:
        yield found
    finally:
        model.forward = real


def test_each_step_encodes_only_sentences_that_have_not_converged():
    model, sentences = tiny_model(scale=1.5), short()
    parser = Parser(model, device="cpu", max_steps=5, batch_pieces=1)

    with passes(parser.running) as found:
        parses = list(parser.stream(sentences))

    own = Counter()
    for each in found:
        own[each.inputs.pieces.numpy().tobytes()] += 1
    expected = Counter(
        model.batch_of([each.sentence], padded_to=parser.plan().shape.padded_to).inputs.pieces.numpy().tobytes()
        for each in parses
    )
    assert set(own) == set(expected)
    assert sum(own.values()) == sum(len(each.steps) for each in parses)
    assert len({len(each.steps) for each in parses}) > 2


def test_a_confident_sentence_costs_one_pass_instead_of_two():
    sentences = sample(40)
    parser = sure_parser(sentences, batch_pieces=500)

    for stop_above, n_steps in ((1.0, 2), (0.5, 1)):
        hasty = parser.using(stop_above=stop_above)
        with passes(parser.running) as found:
            hasty.parse(sentences)
        assert sum(map(len, found)) == n_steps * len(sentences)


def test_trees_are_searched_only_for_sentences_that_end_without_one():
    model, sentences = tiny_model(), short()
    parser = Parser(model, device="cpu", max_steps=3, batch_pieces=1)
    last = [each.steps[-1].heads for each in parser.stream(sentences)]
    is_tree = [are_trees(torch.tensor([each]), torch.ones(1, len(each), dtype=torch.bool)).item() for each in last]

    with counted(decode, "maximum_tree", len) as searched:
        parser.parse(sentences)

    assert len(searched) == is_tree.count(False)
    assert {True, False} == set(is_tree)


@pytest.mark.parametrize("wanted", ["trees", "details"])
def test_labels_are_scored_once_per_step(wanted):
    sentences = sample(40)
    parser = sure_parser(sentences, batch_pieces=500)

    with (
        passes(parser.running) as batches,
        counted(biaffine, "label_scores", lambda dep, *_: len(dep)) as scored,
    ):
        list(parser.stream_trees(sentences) if wanted == "trees" else parser.stream(sentences))

    assert scored == [int(each.is_word.sum()) for each in batches]


class Clear(Wrapped):
    """A model that gives the given heads of the batch a high confidence, without waiting for the device."""

    def __init__(self, model, sentences):
        super().__init__(model)
        heads = padded(np.concatenate([each.graph.heads[1:] for each in sentences]), list(map(len, sentences)), 0)
        self.arcs = 10 * torch.nn.functional.one_hot(torch.from_numpy(heads), heads.shape[1]).float()

    def forward(self, batch, graphs, tags, **rest):
        scores, encoded = self.inner(batch, graphs, tags, **rest)
        arcs = torch.where(scores.arcs.isinf(), scores.arcs, self.arcs)
        return replace(scores, arcs=arcs, label_weight=clear_labels(scores)), encoded


def items_of_batch(parser, sentences):
    return [ParseInput(each, next(parser.initial([each])), FREE) for each in sentences]


@pytest.mark.parametrize("n_sentences", [2, 40])
def test_the_host_waits_twice_per_step_for_one_byte_per_sentence(n_sentences):
    sentences = sample(n_sentences)
    parser = Parser(Clear(tiny_model(tags=TagSettings("none")), sentences), device="cpu")

    with torch.no_grad(), Waits() as waits:
        steps = list(refine_inputs(parser.plan(), items_of_batch(parser, sentences)))

    assert [len(step.batch) for step in steps] == [n_sentences] * 2
    assert waits.counts.total() == 2 * 2  # whether there is any graph to read; the sentences that leave
    assert waits.bytes == 2 * (1 + n_sentences)


@pytest.mark.parametrize("n_sentences", [2, 40])
def test_trees_are_copied_once_and_scores_are_not_copied(n_sentences):
    sentences = sample(n_sentences)
    parser = Parser(Clear(tiny_model(tags=TAGS), sentences), device="cpu", stop_above=0.0)
    n_words = max(map(len, sentences)) + 1
    parser.model.inner.tagger.forward = sure_tags

    with Waits() as waits:
        found = trees(parser.plan(), items_of_batch(parser, sentences))

    assert [each.graph.heads for each in found] == [each.graph.heads for each in sentences]
    # Waits: in the step; finished sentences and trees; heads and labels; the words to tag and their tags.
    assert waits.counts.total() == 2 + 2 + 2 + 3
    n_tagged = sum(map(len, sentences))
    in_step, of_trees = 1 + n_sentences, 2 * n_sentences + 8 * n_sentences * n_words * 2
    assert waits.bytes == in_step + of_trees + (n_tagged + n_sentences) + 8 * n_tagged * 2
