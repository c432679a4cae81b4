import importlib.util
import math
import os

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812 - the customary name

from tests.model.test_attention import GRAPHS, INPUTS, chain, naive_attend, padding_bias, some_tensors
from tests.support.generated_inputs import (
    LABELS,
    SOME_WAYS_TO_READ,
    WAYS_TO_READ,
    arcs_over,
    inputs_of,
    name_of,
    sentences_in_pieces,
)
from treefine.config import RelationSettings
from treefine.fast import fused_attention as fused
from treefine.fast.fused_attention import KEYS, QUERIES, FusedAttention, RowRelations, Rows, attend_rows, is_available
from treefine.model.attention import PaddedAttention, Relations, RelationTables, relate
from treefine.model.batch import Graphs
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.graph import Arcs

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's interpreter runs kernels on a CPU, slowly
DEVICE = torch.device("cpu" if IS_INTERPRETED else "cuda")
CAN_RUN = importlib.util.find_spec("triton") is not None and (IS_INTERPRETED or is_available(DEVICE))
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not CAN_RUN, reason="needs a GPU and Triton, or Triton and TRITON_INTERPRET=1"),
]
HALVES = [torch.float16] if IS_INTERPRETED else [torch.float16, torch.bfloat16]
LONG = 2 * max(QUERIES, KEYS) + 3  # pieces of a row that takes three blocks


def on_device(value):
    """Return a tensor, a module or relations on the device of these tests."""
    if isinstance(value, Relations):
        return Relations(*(on_device(each) for each in (value.above, value.up, value.down, value.has_graph)))
    return value.to(DEVICE)


def fused_and_plain(vectors, tables, relations, inputs, *, by_distance=None):
    """Return the results of both, with the gradients of a weighted sum."""
    wanted = [*vectors, *tables.parameters(), *([] if by_distance is None else [by_distance])]
    inputs, bias = inputs.to(DEVICE), on_device(padding_bias(inputs))
    if by_distance is not None:
        reach = by_distance.shape[1] // 2
        places = torch.arange(bias.shape[-1], device=DEVICE)
        distance = (places[None] - places[:, None]).clamp(-reach, reach) + reach
        bias = bias + by_distance[:, distance][None]
    factors = torch.randn(vectors[0].shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    lengths = torch.tensor(inputs.row_sizes, device=DEVICE)
    rows = Rows(inputs.starts, lengths, inputs.places, max(inputs.row_sizes), by_distance)
    plain = PaddedAttention(inputs.starts, inputs.rows, inputs.places, bias, relations)
    found = []
    for attend in (FusedAttention(rows, relations), plain):
        attended = attend(*vectors, tables.rows())
        gradients = torch.autograd.grad((attended * factors).sum(), wanted, allow_unused=True)
        found.append([attended, *gradients])
    return found


def assert_equal(found, expected, *, within=3e-5):
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, atol=within, rtol=within)


def vectors_and_tables(settings, inputs):
    vectors, tables = some_tensors(settings, inputs)
    return [on_device(each.detach()).requires_grad_() for each in vectors], on_device(tables)


def packed(lengths, *, n_attn=2, width=8, gap=0, dtype=torch.float32, seed=1):
    """Return query, key, value and relations of rows with `gap` pieces between them; the second has no graph."""
    generator = torch.Generator().manual_seed(seed)
    starts = [sum(lengths[:row]) + gap * row for row in range(len(lengths))]
    n_pieces = starts[-1] + lengths[-1] + gap
    vectors = [torch.randn(n_pieces, n_attn, width, generator=generator).to(DEVICE, dtype) for _ in range(3)]
    above, up, down = (torch.zeros(n_pieces, dtype=torch.int32) for _ in range(3))
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        places = torch.arange(start, start + length)
        above[places] = (places - start).int()
        if row != 1 and length > 1:  # each piece attaches to one before it
            chosen = torch.rand(length, generator=generator)
            above[places[1:]] = (chosen[1:] * torch.arange(1, length)).int()
            up[places[1:]] = torch.randint(4, 7, (length - 1,), generator=generator).int()
            down[places[1:]] = torch.randint(1, 4, (length - 1,), generator=generator).int()
    tables = [torch.randn(7, width, generator=generator).to(DEVICE, dtype) for _ in range(2)]
    has_graph = torch.tensor([row != 1 for row in range(len(lengths))])
    in_rows = torch.zeros(n_pieces, dtype=torch.long, device=DEVICE)
    for start, length in zip(starts, lengths, strict=True):
        in_rows[start : start + length] = torch.arange(length)
    rows = Rows(*(torch.tensor(each).int().to(DEVICE) for each in (starts, lengths)), in_rows, max(lengths))
    ids = [on_device(each) for each in (above, up, down, has_graph)]
    return vectors, rows, RowRelations(*ids, *tables)


# The reference, which equals the double loop of Eqs. 4 and 5


@pytest.mark.parametrize("settings", SOME_WAYS_TO_READ, ids=name_of)
def test_results_and_gradients_equal_the_reference(settings):
    vectors, tables = vectors_and_tables(settings, INPUTS)
    relations = on_device(relate(INPUTS, GRAPHS, len(LABELS), settings))

    fused, plain = fused_and_plain(vectors, tables, relations, INPUTS)

    assert_equal(fused, plain)


@profile(max_examples=profile().max_examples // (20 if IS_INTERPRETED else 2))
@given(data=st.data())
def test_results_equal_the_reference_for_any_sentences_graphs_and_biases(data):
    settings = data.draw(st.sampled_from(WAYS_TO_READ))
    sentences = data.draw(sentences_in_pieces(max_sentences=3, max_words=12))
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    inputs, graphs = inputs_of(sentences, n_positions=30), Graphs.of(arcs, Vocabulary(LABELS))
    vectors, tables = vectors_and_tables(settings, inputs)
    reach = data.draw(st.one_of(st.none(), st.integers(0, 40)))
    by_distance = None if reach is None else torch.randn(2, 2 * reach + 1).to(DEVICE).requires_grad_()
    relations = on_device(relate(inputs, graphs, len(LABELS), settings))

    fused, plain = fused_and_plain(vectors, tables, relations, inputs, by_distance=by_distance)

    assert_equal(fused, plain)


@pytest.mark.parametrize("has_distances", [False, True])
def test_results_equal_the_reference_for_rows_of_several_blocks(has_distances):
    settings = RelationSettings()
    inputs = inputs_of([[[5]] * (LONG - 3), [[6]] * (QUERIES - 3), [[7]] * (KEYS - 2)])
    vectors, tables = vectors_and_tables(settings, inputs)
    heads, labels = (each.repeat(3, 1) for each in (chain(LONG - 3).heads, chain(LONG - 3).labels))
    heads[:, 5] = QUERIES - 4  # far away
    heads[0, 6] = LONG - 3  # and in another block
    by_distance = torch.randn(2, 2 * KEYS + 1).to(DEVICE).requires_grad_() if has_distances else None
    relations = on_device(relate(inputs, Graphs(heads, labels), len(LABELS), settings))

    fused, plain = fused_and_plain(vectors, tables, relations, inputs, by_distance=by_distance)

    assert_equal(fused, plain)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("width", [8, 32, 64])
def test_half_precision_results_are_close_to_the_reference(dtype, width):
    settings = RelationSettings()
    inputs = inputs_of([[[5, 6]] * 18, [[7]] * 30])
    graphs = Graphs(chain(30).heads.expand(2, -1), chain(30).labels.expand(2, -1))
    tables = on_device(RelationTables(len(LABELS), width, settings))
    generator = torch.Generator().manual_seed(1)
    for weight in tables.parameters():
        weight.data = torch.randn(weight.shape, generator=generator).to(DEVICE)
    shape = (len(inputs.pieces), 2, width)
    vectors = [torch.randn(shape, generator=generator).to(DEVICE, dtype) for _ in range(3)]
    halves, wholes = ([each.to(kind).requires_grad_() for each in vectors] for kind in (dtype, torch.float32))
    relations = on_device(relate(inputs, graphs, len(LABELS), settings))

    fused, _ = fused_and_plain(halves, tables, relations, inputs)

    _, plain = fused_and_plain(wholes, tables, relations, inputs)
    step = torch.finfo(dtype).eps
    for ours, theirs in zip(fused, plain, strict=True):
        assert (ours - theirs).abs().max() <= 8 * step * theirs.abs().max().clamp(min=1)


def test_without_relations_it_is_plain_attention():
    vectors, rows, _ = packed([5, LONG])

    found = attend_rows(*vectors, rows=rows)

    for start, length in zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True):
        query, key, value = (each[start : start + length].transpose(0, 1)[None] for each in vectors)
        expected = F.scaled_dot_product_attention(query, key, value)[0].transpose(0, 1)
        torch.testing.assert_close(found[start : start + length], expected, atol=1e-5, rtol=1e-5)


# Dropout


def recovered_mask(lengths, *, rate, seed):
    """Recover the dropout factor of each weight: zero queries give equal weights, one-hot values identify them.

    The result is [row, attn, query, key], with padding.
    """
    longest, sizes = max(lengths), torch.tensor(lengths, device=DEVICE)
    starts, of_row = sizes.cumsum(0) - sizes, torch.arange(len(lengths), device=DEVICE).repeat_interleave(sizes)
    places = torch.arange(sum(lengths), device=DEVICE) - starts[of_row]
    rows = Rows(starts, sizes, places, longest)
    factors = torch.zeros(len(lengths), 2, longest, longest, device=DEVICE)
    zeros = torch.zeros(sum(lengths), 2, 4, device=DEVICE)
    for first in range(0, longest, 4):
        value = zeros.clone()
        for place in range(first, min(first + 4, longest)):
            value[places == place, :, place - first] = 1
        torch.manual_seed(seed)
        weights = attend_rows(zeros, zeros, value, rows=rows, dropout=rate)
        factors[of_row, :, places, first : first + 4] = weights[..., : longest - first]
    return factors * sizes[:, None, None, None]


@pytest.mark.parametrize("settings", WAYS_TO_READ[:1])
def test_dropout_drops_the_same_weights_forwards_and_backwards(settings):
    vectors, tables = vectors_and_tables(settings, INPUTS)
    wanted = [*vectors, *tables.parameters()]
    relations = on_device(relate(INPUTS, GRAPHS, len(LABELS), settings))
    kept = recovered_mask(INPUTS.row_sizes, rate=0.4, seed=3)
    lengths, inputs = torch.tensor(INPUTS.row_sizes, device=DEVICE), INPUTS.to(DEVICE)

    torch.manual_seed(3)
    fused = FusedAttention(Rows(inputs.starts, lengths, inputs.places, max(INPUTS.row_sizes)), relations)
    attended = fused(*vectors, tables.rows(), 0.4)
    gradients = torch.autograd.grad(attended.square().sum(), wanted)

    assert sorted({round(each, 4) for each in kept.flatten().tolist()}) == [0, round(1 / 0.6, 4)]
    cpu = [each.detach().cpu().requires_grad_() for each in vectors]
    cpu_tables = RelationTables(len(LABELS), 4, settings)
    cpu_tables.load_state_dict({name: each.cpu() for name, each in tables.state_dict().items()})
    expected = naive_attend(*cpu, cpu_tables, settings, kept=kept.cpu())
    expected_gradients = torch.autograd.grad(expected.square().sum(), [*cpu, *cpu_tables.parameters()])
    assert_equal([attended.cpu(), *(each.cpu() for each in gradients)], [expected, *expected_gradients], within=1e-4)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_has_the_given_rate_and_differs_by_query_attention_head_and_seed(rate):
    kept = recovered_mask([40], rate=rate, seed=5)[0]  # [attn, query, key]
    other = recovered_mask([40], rate=rate, seed=6)[0]

    assert (kept == 0).float().mean().item() == pytest.approx(rate, abs=0.03)
    assert torch.equal(kept, recovered_mask([40], rate=rate, seed=5)[0])
    chance = rate**2 + (1 - rate) ** 2  # that two independent draws agree
    for one, two in [(kept, other), (kept[0], kept[1]), (kept[:, :-1], kept[:, 1:]), (kept[..., :-1], kept[..., 1:])]:
        assert (one == two).float().mean().item() == pytest.approx(chance, abs=0.06)


# Invariances, memory and fallbacks


def test_results_do_not_depend_on_other_rows_or_the_position_of_a_row():
    vectors, rows, relations = packed([4, 6, LONG, 7, 33], gap=2)
    factors = torch.randn(vectors[0].shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    vectors = [each.requires_grad_() for each in vectors]
    together = attend_rows(*vectors, rows=rows, relations=relations)
    gradients = torch.autograd.grad((together * factors).sum(), vectors)

    for row, (start, length) in enumerate(zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True)):
        pieces = slice(start, start + length)
        own = [each.detach()[pieces].clone().requires_grad_() for each in vectors]
        ids = [each[pieces].clone() for each in (relations.above, relations.up, relations.down)]
        alone_relations = RowRelations(
            *ids, relations.has_graph[row : row + 1], relations.key_rows, relations.value_rows
        )
        zero = torch.zeros(1, dtype=torch.int32, device=DEVICE)
        alone_rows = Rows(zero, rows.lengths[row : row + 1], rows.places[pieces], length)
        alone = attend_rows(*own, rows=alone_rows, relations=alone_relations)
        alone_gradients = torch.autograd.grad((alone * factors[pieces]).sum(), own)

        assert torch.equal(alone, together[pieces])
        for ours, theirs in zip(alone_gradients, gradients, strict=True):
            assert torch.equal(ours, theirs[pieces])


def test_pieces_outside_rows_and_empty_rows_cause_no_nan():
    vectors, rows, relations = packed([5, 3, 9], gap=4)
    is_in_row = torch.zeros(len(vectors[0]), dtype=torch.bool)
    for start, length in zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True):
        is_in_row[start : start + length] = True
    for each in vectors:
        each[~is_in_row] = math.nan
    zeros = torch.zeros(3, dtype=torch.int32, device=DEVICE)
    with_empty = Rows(torch.cat([rows.starts, zeros]), torch.cat([rows.lengths, zeros]), rows.places, rows.longest)
    has_graph = torch.cat([relations.has_graph, zeros.bool()])
    tables = [each.requires_grad_() for each in (relations.key_rows, relations.value_rows)]
    relations = RowRelations(relations.above, relations.up, relations.down, has_graph, *tables)
    vectors = [each.requires_grad_() for each in vectors]

    attended = attend_rows(*vectors, rows=with_empty, relations=relations)
    gradients = torch.autograd.grad(attended.square().sum(), [*vectors, *tables])

    assert not attended[~is_in_row].any()
    assert attended[is_in_row].isfinite().all()
    for each in gradients:
        assert each.isfinite().all()
    assert not gradients[0][~is_in_row].any()


def test_gradients_are_the_same_bit_for_bit_in_every_run():
    vectors, rows, relations = packed([5, 30, 45, 12] * 3)
    wanted = [each.requires_grad_() for each in (*vectors, relations.key_rows, relations.value_rows)]
    runs = []
    for _ in range(2):
        torch.manual_seed(7)
        attended = attend_rows(*vectors, rows=rows, relations=relations, dropout=0.1)
        runs.append(torch.autograd.grad(attended.square().sum(), wanted))

    for first, second in zip(*runs, strict=True):
        assert torch.equal(first, second)


def test_no_tensor_of_pieces_by_pieces_is_stored_for_the_backward_pass():
    vectors, rows, relations = packed([90, 80], width=32)
    wanted = [each.requires_grad_() for each in vectors]
    kept = {}

    def note(tensor):
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda each: each):
        attended = attend_rows(*vectors, rows=rows, relations=relations, dropout=0.1)

    plain = sum(each.numel() * each.element_size() for each in (*wanted, attended))
    assert plain <= sum(kept.values()) <= 1.1 * plain
    assert max(kept.values()) < 90 * 90 * 2 * 4


def test_if_no_kernel_can_be_compiled_there_is_one_warning_and_the_reference_runs(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(fused, "attend_rows", fail)

    with pytest.warns(RuntimeWarning, match="Triton cannot compile here, so attention is slower: no C compiler"):
        assert not fused._compiles(torch.device("cpu"))
