"""An encoder in eight bits."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_tokenizers import wordpiece
from treefine.errors import ModelError
from treefine.fast.int8_encoder import EightBitLinear, rounded_rows, with_eight_bits
from treefine.model.batch import Graphs
from treefine.model.bundled import find_model
from treefine.model.folder import load_model, restored, rounded


def some_linear(n_in, n_out, seed=1):
    linear = nn.Linear(n_in, n_out)
    for weight in linear.parameters():
        weight.data = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
    return linear


def slow_product(x, linear):
    """The product in whole numbers, one row and one column at a time."""
    results = []
    for row in x:
        row_scale = row.abs().max() / 127
        whole = [round((number / row_scale).item()) for number in row]
        for weights, bias in zip(linear.weight, linear.bias, strict=True):
            scale = weights.abs().max() / 127
            total = sum(a * round((b / scale).item()) for a, b in zip(whole, weights, strict=True))
            results.append(total * row_scale * scale + bias)
    return torch.stack(results).view(len(x), -1)


@torch.no_grad()
def test_the_product_is_that_of_the_whole_numbers():
    x, linear = torch.randn(3, 16, generator=torch.Generator().manual_seed(2)), some_linear(16, 8)

    assert torch.allclose(EightBitLinear([linear])(x), slow_product(x, linear), atol=1e-4)


@torch.no_grad()
@given(st.integers(0, 2**31), st.integers(1, 40), st.floats(1e-3, 1e3))
def test_it_is_within_a_step_of_each_of_the_two_numbers_it_multiplies(seed, n_rows, size):
    x = size * torch.randn(n_rows, 32, generator=torch.Generator().manual_seed(seed))
    linear = some_linear(32, 16, seed)

    found = EightBitLinear([linear])(x)

    steps = [each.abs().amax(-1) / 127 for each in (x, linear.weight)]  # of each row
    exact, most = F.linear(x, linear.weight, linear.bias), [each.abs().sum(-1) for each in (x, linear.weight)]
    bound = 0.5 * (steps[0][:, None] * most[1] + most[0][:, None] * steps[1]) + 8 * steps[0][:, None] * steps[1]
    assert ((found - exact).abs() <= bound + 1e-5 * exact.abs().max()).all()


@torch.no_grad()
def test_layers_that_read_the_same_input_are_one_product():
    x, linears = torch.randn(5, 16), [some_linear(16, 8, seed) for seed in (1, 2, 3)]

    together = EightBitLinear(linears)(x)

    assert torch.equal(together, torch.cat([EightBitLinear([each])(x) for each in linears], dim=1))


@torch.no_grad()
@given(st.integers(0, 2**31), st.integers(1, 60))
def test_a_row_gets_the_same_to_the_last_bit_whatever_stands_beside_it(seed, n_rows):
    x, layer = (
        torch.randn(n_rows, 32, generator=torch.Generator().manual_seed(seed)),
        EightBitLinear([some_linear(32, 16)]),
    )

    whole = layer(x)

    assert torch.equal(whole, torch.cat([layer(row[None]) for row in x]))


def test_a_row_of_zeros_and_weights_of_zeros_are_no_trouble():
    linear = some_linear(16, 8)
    linear.weight.data[3] = 0

    found = EightBitLinear([linear])(torch.zeros(2, 16))

    assert torch.equal(found, linear.bias.detach().expand(2, -1))


@given(st.integers(0, 2**31))
def test_weights_that_were_stored_in_eight_bits_are_rounded_no_second_time(seed):
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(seed))
    stored = rounded({"w": weight})

    rows, scale = rounded_rows(restored(stored)["w"])

    assert torch.equal(rows, stored["w"])
    assert torch.allclose(scale[:, 0], stored["w.scale"], rtol=1e-6)


def words_of(model, sentences, graphs=True):
    batch = model.batch_of(sentences, padded_to=4)
    read = Graphs.of([each.arcs for each in sentences], model.vocabulary) if graphs else None
    with torch.no_grad():
        return model.encoder(batch.inputs, model.given_tags(sentences), read)


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_an_encoder_in_eight_bits_gives_nearly_the_same_vectors(family, graphs):
    model, sentences = tiny_model(family=family, tokenizer=wordpiece), sample(6)

    exact, found = words_of(model, sentences, graphs), words_of(with_eight_bits(model), sentences, graphs)

    near = F.cosine_similarity(exact, found, dim=-1)
    assert near.median() > 0.999
    assert not torch.equal(exact, found)


def test_an_encoder_with_narrow_embeddings_is_in_eight_bits_too():
    model = tiny_model()
    assert isinstance(model.encoder.widen, type(None))
    model.encoder.widen = some_linear(16, 16)

    found = with_eight_bits(model)

    assert isinstance(found.encoder.widen, EightBitLinear)
    assert words_of(found, sample(2)).isfinite().all()


def test_the_model_itself_stays_as_it_is_and_shares_its_other_weights():
    model = tiny_model()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}

    found = with_eight_bits(model)
    words_of(found, sample(3))

    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert found.encoder.pieces.weight is model.encoder.pieces.weight
    assert found.scorer.arc_weight is model.scorer.arc_weight
    assert not any(isinstance(each, nn.Linear) for each in found.encoder.modules())


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("make", [tiny_model, lambda: load_model(find_model("en"))], ids=["tiny", "bundled"])
def test_a_sentence_gets_the_same_vectors_to_the_last_bit_in_every_batch(make, graphs):
    model, sentences = with_eight_bits(make()), sample(30)

    alone = [words_of(model, [sentence], graphs)[0] for sentence in sentences]

    for some in (slice(None), slice(4, 11), slice(None, None, -3)):
        for row, (sentence, expected) in enumerate(zip(sentences[some], alone[some], strict=True)):
            if row == 0:
                together = words_of(model, sentences[some], graphs)
            assert torch.equal(together[row, : len(sentence) + 1], expected)


@pytest.mark.parametrize("how", ["gradients", "train mode", "autocast"])
def test_all_but_parsing_is_refused_in_one_line(how):
    model = with_eight_bits(tiny_model()).train(how == "train mode")
    model.encoder.widen = EightBitLinear([some_linear(16, 16)])  # it comes before the layers
    inputs = model.batch_of(sample(2), padded_to=4).inputs

    with (
        torch.set_grad_enabled(how == "gradients"),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=how == "autocast"),
        pytest.raises(ModelError, match=r"only parses, on a CPU; .* Call it under torch\.inference_mode"),
    ):
        model.encoder(inputs, None, None)
