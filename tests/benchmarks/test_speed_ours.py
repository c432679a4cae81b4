"""treefine and bare encoders as peers of the benchmark of speed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertModel

from benchmarks.peers import (
    bare_encoder,
    treefine_parser,
)
from benchmarks.peers.answers import ALL_PASSES, FILE, ONE_PASS, WORDS, parsed
from benchmarks.peers.bare_encoder import PlainEncoder
from benchmarks.peers.treefine_parser import covered, passes, profiled, same_trees
from benchmarks.speed.curves import sentences_of, with_labels
from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Parser, TreefineError, write_treebank

FEW = sample(5)
spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair))))


@given(found=spans)
def test_overlapping_kernels_count_once(found):
    assert covered(found) == len({second for start, stop in found for second in range(start, stop)})


def test_a_profile_names_the_costliest_operations_within_the_total_time():
    found = profiled(lambda: torch.ones(300, 300) @ torch.ones(300, 300), torch.device("cpu"))

    assert "aten::mm" in found["top_seconds"]
    assert 0 <= found["busy_seconds"] <= found["profiled_seconds"]


def test_passes_count_how_often_a_sentence_is_scored():
    parser = tiny_parser(max_steps=3)
    sentences = sample(12)

    counts = passes(parser, sentences)

    assert counts == [len(steps) for _, steps in parser.stream_steps(sentences)]


def test_equal_trees_pass_the_check():
    found = same_trees(tiny_parser(max_steps=2), sample(6))

    assert found["sentences"] == 6
    assert found["other trees, percent"] == 0
    assert found["LAS"] == found["LAS, plain"]


def test_trees_that_differ_from_the_reference_are_rejected(monkeypatch):
    parser, gold = tiny_parser(max_steps=2), sample(6)
    parses = list(parser.stream_trees(gold))
    parses[0] = gold[0]  # a tree that the random model does not find
    monkeypatch.setattr(Parser, "stream_trees", lambda self, sentences: iter(parses))

    with pytest.raises(
        TreefineError, match="trees of the fast path differ from the reference implementation's.*No time is printed"
    ):
        same_trees(parser, gold)


def test_treefine_parses_in_both_ways_and_reports_its_settings(tmp_path):
    model, source = tmp_path / "model", tmp_path / "source.conllu"
    tiny_parser().save(model)
    write_treebank(sample(5) * 2, source)
    built = treefine_parser.build(
        source=str(source), model=str(model), device="cpu", dev=str(source), dev_sentences=3, copies=2, max_steps=2
    )

    answers = {way: parsed(built, way) for way in (WORDS, FILE, FILE)}  # an existing file is overwritten

    n_words = 2 * sum(map(len, sample(5)))
    assert all((each["sentences"], each["words"], each["headless"]) == (10, n_words, 0) for each in answers.values())
    assert built.more["settings"]()["T"] == 2
    assert len(built.more["passes"]()) == 10
    assert built.more["check"]()["sentences"] == 3
    assert {"reading, alone_seconds", "tokenising, alone_seconds", "writing, alone_seconds"} < set(
        built.more["profile"]()
    )


@pytest.mark.parametrize("kind", ["sdpa", "transformers", "treefine"])
def test_a_bare_encoder_makes_the_passes_of_a_refinement(tmp_path, kind, monkeypatch):
    model, source = tmp_path / "model", tmp_path / "source.conllu"
    tiny_parser().save(model)
    write_treebank(sample(4), source)
    rows = []
    made = bare_encoder._encoder

    def counting(*arguments):
        encoder, module = made(*arguments)
        return lambda inputs, mask: rows.append(len(inputs.pieces)) or encoder(inputs, mask), module

    monkeypatch.setattr(bare_encoder, "_encoder", counting)
    size = {"kind": kind, "layers": 2, "width": 48, "dtype": "float32"}
    built = bare_encoder.build(source=str(source), model=str(model), device="cpu", passes=[1, 2, 1, 3], **size)

    counts = []
    for way in (ONE_PASS, ALL_PASSES):
        rows.clear()
        parsed(built, way)
        counts.append(sum(rows))

    assert counts == [4, 7]


def test_the_plain_encoder_is_bert():
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=50, num_hidden_layers=2, hidden_size=48, num_attention_heads=12, intermediate_size=192
    )
    bert, plain = BertModel(config, add_pooling_layer=False).eval(), PlainEncoder(50, 2, 48).eval()
    old = bert.state_dict()
    new = {
        "pieces.weight": old["embeddings.word_embeddings.weight"],
        "positions.weight": old["embeddings.position_embeddings.weight"]
        + old["embeddings.token_type_embeddings.weight"][0],
    }
    names = {"attention_norm": "attention.output.LayerNorm", "output": "attention.output.dense"}
    names |= {"inner": "intermediate.dense", "outer": "output.dense", "outer_norm": "output.LayerNorm"}
    for kind in ("weight", "bias"):
        new[f"norm.{kind}"] = old[f"embeddings.LayerNorm.{kind}"]
        for layer in range(2):
            place = f"encoder.layer.{layer}"
            parts = [old[f"{place}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            new[f"layers.{layer}.qkv.{kind}"] = torch.cat(parts)
            new |= {f"layers.{layer}.{ours}.{kind}": old[f"{place}.{theirs}.{kind}"] for ours, theirs in names.items()}
    plain.load_state_dict(new)
    pieces = torch.randint(0, 50, (3, 7))
    is_piece = torch.arange(7)[None] < torch.tensor([7, 4, 5])[:, None]

    with torch.no_grad():
        expected = bert(pieces, attention_mask=is_piece.long()).last_hidden_state
        found = plain(pieces, is_piece)

    assert torch.allclose(found[is_piece], expected[is_piece], atol=1e-5)


@given(length=st.integers(1, 90), number=st.integers(1, 5))
def test_sentences_consist_of_the_words_of_others(length, number):
    given_words = [form for sentence in FEW for form in sentence.forms]

    made = sentences_of(FEW, length, number)

    assert [len(each) for each in made] == [length] * number
    words = [form for sentence in made for form in sentence.forms]
    assert words == (given_words * (len(words) // len(given_words) + 1))[: len(words)]


@pytest.mark.parametrize("extra", [0, 30])
def test_a_model_with_copies_of_its_labels_parses_as_before(extra):
    model = tiny_model()
    n_labels = len(model.vocabulary.labels)

    more = with_labels(model, n_labels + extra)

    assert len(more.vocabulary.labels) == n_labels + extra
    expected, found = (list(Parser(each, max_steps=3, device="cpu").stream_trees(sample(10))) for each in (model, more))
    assert found == expected


def test_a_model_with_fewer_labels_keeps_the_root_label():
    model = tiny_model()

    fewer = with_labels(model, 2)

    assert len(fewer.vocabulary.labels) == 2
    assert fewer.vocabulary.labels[0] == model.settings.decode.root_label
    assert Parser(fewer, max_steps=2, device="cpu").parse(sample(3))
