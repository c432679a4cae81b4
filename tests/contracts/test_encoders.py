"""One contract for every encoder: the vectors of `TransformerEncoder`, from the same inputs, tags and graphs."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812 - the customary name

from tests.support.generated_inputs import SOME_WAYS_TO_READ, arcs_over, name_of
from tests.support.tiny import ALL_TAGS, sample, short, tiny_model
from treefine.config import RelationSettings, TagSettings
from treefine.errors import ModelError
from treefine.fast import view_of
from treefine.fast.cpu_encoder import FlatEncoder, int8_encoder
from treefine.fast.packed_encoder import PackedEncoder
from treefine.fast.training_encoder import training_encoder
from treefine.model.batch import LABEL, Graphs
from treefine.model.vocabulary import NO_HEAD
from treefine.training.segmenter import windows_of
from treefine.treebank.graph import Arcs
from treefine.treebank.raw_text import raw_text


@dataclass(frozen=True)
class Contract:
    """An encoder to test, and its guarantees compared with the reference."""

    make: Any
    is_exact: bool = True  # same vectors up to the order of sums; if False, nearly the same vectors
    learns: bool = False
    device: str = "cpu"
    within: float = 1e-4  # tolerance if it is exact


ENCODERS = {
    "flat": Contract(lambda encoder: view_of(encoder, FlatEncoder)),
    "int8": Contract(int8_encoder, is_exact=False),
    "packed": Contract(lambda encoder: PackedEncoder(encoder, torch.float32)),
    "training": Contract(training_encoder, learns=True),
    "packed on a GPU": Contract(lambda each: PackedEncoder(each, torch.float32), device="cuda", within=2e-4),
    "packed in float16": Contract(lambda each: PackedEncoder(each, torch.float16), is_exact=False, device="cuda"),
    "training on a GPU": Contract(training_encoder, learns=True, device="cuda", within=2e-4),
}
FAMILIES = ["bert", "mpnet", "electra"]


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.gpu] * name.endswith(("GPU", "float16"))) for name in ENCODERS]
)
def contract(request):
    return ENCODERS[request.param]


def model_of(**options):
    tags = TagSettings("given", ("upos", "xpos"), double_specials=True)
    return tiny_model(**{"tags": tags, "n_positions": 24} | options)  # some sentences are split into windows


def vectors_of(encoder, model, sentences, graphs=True, *, device="cpu", layers=()):
    """Return the vectors of all words, sentence by sentence, after some layers."""
    batch = model.batch_of(sentences, padded_to=4).to(torch.device(device))
    if graphs is True:
        graphs = [each.arcs for each in sentences]
    read = None
    if graphs:
        read = graphs if isinstance(graphs, Graphs) else Graphs.of(graphs, model.vocabulary)
        read = read.to(torch.device(device))
    tags = (
        model.tag_inputs(sentences, read=model.settings.tags.columns).to(device)
        if model.settings.tags.columns
        else None
    )
    return encoder(batch.inputs, tags, read, *layers).last[batch.inputs.first_pieces].cpu().float()


def both(contract, model, sentences, graphs=True):
    """Return the vectors of the reference and of the encoder under test."""
    with torch.no_grad():
        expected = vectors_of(model.encoder, model, sentences, graphs)
        made = contract.make(model.encoder.to(contract.device))
        found = vectors_of(made, model, sentences, graphs, device=contract.device)
    model.encoder.cpu()
    return expected, found


def assert_kept(contract, expected, found):
    if contract.is_exact:
        torch.testing.assert_close(found, expected, atol=contract.within, rtol=1e-5)
    else:
        assert F.cosine_similarity(found, expected, dim=-1).median() > 0.999


@pytest.mark.parametrize("graphs", [True, False], ids=["graphs", "no graphs"])
@pytest.mark.parametrize("family", FAMILIES)
def test_words_have_the_vectors_of_the_reference(contract, family, graphs):
    model = model_of(family=family)
    assert len(model.batch_of(sample(6)).inputs.row_sizes) > 6  # some are split into windows

    expected, found = both(contract, model, sample(6), graphs)

    assert_kept(contract, expected, found)


@pytest.mark.parametrize("sentence_layers", [0, 1])
def test_features_lemmas_and_case_are_read(contract, sentence_layers):
    model, sentences = model_of(tags=ALL_TAGS, sentence_layers=sentence_layers), sample(4)

    expected, found = both(contract, model, sentences)

    assert_kept(contract, expected, found)
    with torch.no_grad():
        for place in range(model.tag_inputs(sentences, read=model.settings.tags.columns).shape[-1]):
            model.encoder.tags[place].weight.zero_()
            before, expected = expected, vectors_of(model.encoder, model, sentences)
            assert not torch.allclose(before, expected, atol=1e-3)  # the column was read


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_layers_read_running_text_with_its_gaps(contract, family, n_layers):
    model = model_of(family=family, tags=ALL_TAGS, sentence_layers=n_layers).to(contract.device)
    windows = [window.tokens for window in windows_of(raw_text(sample(4)), rng=np.random.default_rng(1))]
    batch, tags = model.text_batch(windows, padded_to=4)
    batch, tags = batch.to(torch.device(contract.device)), tags.to(contract.device)

    def vectors(encoder, *layers):
        return encoder(batch.inputs, tags, None, *layers).last[batch.inputs.first_pieces].cpu().float()

    with torch.no_grad():
        whole = vectors(model.encoder)
        expected = vectors(model.encoder, range(n_layers))
        found = vectors(contract.make(model.encoder), range(n_layers))
        tags[..., -1] = 1
        same_gaps = vectors(model.encoder, range(n_layers))

    assert_kept(contract, expected, found)
    assert not torch.allclose(expected, same_gaps, atol=1e-3)
    assert torch.allclose(expected, whole, atol=1e-3) == (n_layers == 2)


@pytest.mark.parametrize("first_layer", [0, 1])
def test_layers_may_run_in_two_calls_and_again_with_another_graph(contract, first_layer):
    model, sentences = model_of(relations=RelationSettings(first_layer=first_layer)).to(contract.device), sample(6)
    encoder, device = contract.make(model.encoder), torch.device(contract.device)
    batch = model.batch_of(sentences, padded_to=4).to(device)
    graphs = Graphs.of([each.arcs for each in sentences], model.vocabulary).to(device)

    with torch.no_grad():
        expected = [model.encoder(batch.inputs, None, None), model.encoder(batch.inputs, None, graphs)]
        lower = encoder(batch.inputs, None, None, range(1))
        found = [encoder(batch.inputs, None, None, range(1, 2), lower)]
        found.append(encoder(batch.inputs, None, graphs, range(first_layer, 2), found[0]))

    assert [each.n_layers for each in (lower, *found)] == [1, 1, 2 - first_layer]
    for ours, theirs in zip(found, expected, strict=True):
        pieces = batch.inputs.is_piece
        assert_kept(contract, theirs.last[pieces].cpu(), ours.last[pieces].cpu().float())


@pytest.mark.parametrize("relations", SOME_WAYS_TO_READ, ids=name_of)
def test_graphs_are_read_with_all_settings(contract, relations):
    model = model_of(relations=relations)

    expected, found = both(contract, model, sample(3))

    assert_kept(contract, expected, found)


@pytest.mark.parametrize("graph", ["labelled", "unlabelled"])
def test_decided_arcs_are_read(contract, graph):
    model, sentences = model_of(relations=RelationSettings(graph=graph, decided=True)), sample(5)
    graphs = Graphs.of([each.arcs for each in sentences], model.vocabulary)
    decided = torch.arange(graphs.heads.numel()).view(graphs.heads.shape) % 4 * (graphs.heads >= 0)
    heads = torch.where(decided == LABEL, NO_HEAD, graphs.heads)  # a decided label without a head
    marked = replace(graphs, heads=heads, decided=decided)

    expected, found = both(contract, model, sentences, marked)

    assert_kept(contract, expected, found)
    with torch.no_grad():
        unmarked = vectors_of(model.encoder, model, sentences, replace(graphs, heads=heads))
    assert not torch.allclose(unmarked, expected, atol=1e-3)


@given(data=st.data())
def test_any_graph_is_read(data):
    model, sentences = model_of(), short(3)
    labels = (*model.vocabulary.labels[:4], "never-seen")
    graphs = [Arcs(*data.draw(arcs_over(len(each), labels=labels))) for each in sentences]

    for contract in ENCODERS.values():
        if contract.device == "cpu" and contract.is_exact:
            assert_kept(contract, *both(contract, model, sentences, graphs))


@pytest.mark.parametrize("graphs", [True, False], ids=["graphs", "no graphs"])
def test_a_sentence_has_nearly_the_same_vectors_in_every_batch(contract, graphs):
    model, sentences = model_of().to(contract.device), short(9)
    encoder = contract.make(model.encoder)

    with torch.no_grad():
        alone = [vectors_of(encoder, model, [each], graphs, device=contract.device) for each in sentences]
        for some in (slice(None), slice(2, 6), slice(None, None, -3)):
            together = vectors_of(encoder, model, sentences[some], graphs, device=contract.device)
            assert_kept(contract, torch.cat(alone[some]), together)


def test_the_model_keeps_its_weights(contract):
    model = model_of().to(contract.device)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}

    with torch.no_grad():
        vectors_of(contract.make(model.encoder), model, sample(3), device=contract.device)

    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_encoders_that_only_parse_reject_training(contract):
    model = model_of().to(contract.device)
    encoder = contract.make(model.encoder)

    if contract.learns:
        vectors_of(encoder, model, sample(2), device=contract.device).sum().backward()
        assert model.encoder.pieces.weight.grad is not None
    elif isinstance(encoder, FlatEncoder):
        for how in ("gradients", "train mode"):
            model.train(how == "train mode")
            with (
                torch.set_grad_enabled(how == "gradients"),
                pytest.raises(ModelError, match=r"cannot be trained\. Call it under torch\.no_grad"),
            ):
                vectors_of(encoder, model, sample(2))
    else:
        assert not vectors_of(encoder, model, sample(2), device=contract.device).requires_grad


def test_autocast_does_not_change_encoders_that_only_parse(contract):
    if contract.learns:
        pytest.skip("autocast is for training")
    model = model_of().to(contract.device)
    encoder = contract.make(model.encoder)

    with torch.no_grad():
        expected = vectors_of(encoder, model, sample(3), device=contract.device)
        with torch.autocast(contract.device, dtype=torch.bfloat16):
            found = vectors_of(encoder, model, sample(3), device=contract.device)

    assert torch.equal(found, expected)


@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_encoders_that_learn_have_the_gradients_of_the_reference(contract, family):
    if not contract.learns:
        pytest.skip("this encoder only parses")
    model, sentences = model_of(family=family), sample(8)
    for module in model.modules():  # turn dropout off, to compare the backward pass in training mode
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0.0
    model.train()
    weights = torch.randn(sum(len(each) + 1 for each in sentences), model.encoder.width)

    def gradients(encoder, device):
        model.to(device).zero_grad()
        (vectors_of(encoder, model, sentences, device=device) * weights).sum().backward()
        grads = {name: each.grad for name, each in model.encoder.named_parameters()}
        return {name: grad.cpu().clone() for name, grad in grads.items() if grad is not None}

    expected = gradients(model.encoder, "cpu")
    found = gradients(contract.make(model.encoder.to(contract.device)), contract.device)

    assert found.keys() == expected.keys()
    largest = max(float(each.abs().max()) for each in expected.values())  # many sums cancel out to nearly 0
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=3e-6 * largest, rtol=1e-5)
