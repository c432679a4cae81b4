from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated_inputs import LABELS, WAYS_TO_READ, arcs_over, inputs_of, sentences_in_pieces
from tests.support.tiny import ALL_TAGS, sample, short, sure_of_tags, tiny_model
from treefine.config import COLUMNS, DecodeSettings, RelationSettings, TagSettings
from treefine.errors import TreebankError
from treefine.fast import view_of
from treefine.fast.buffers import Buffer, SentenceState
from treefine.fast.engine import Engine
from treefine.fast.packed import Packed, pack
from treefine.fast.packed_encoder import PackedEncoder, Room, relate_packed
from treefine.model.attention import NONE, relate
from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.model.vocabulary import Vocabulary
from treefine.parsing.parser import Parser
from treefine.treebank.graph import Arcs

ROOMS = (Room(160, 12, 24), Room(128, 4, 64))
CPU = torch.device("cpu")


def parser_of(model=None, **options):
    return Parser(tiny_model(**{"n_positions": 64} | (model or {})), device="cpu", **options)


def packed_plan(parser):
    """Return the parser's plan with the encoder that it uses on a GPU."""
    encoder = PackedEncoder(parser.model.encoder, torch.float32)
    return replace(parser.plan(), model=view_of(parser.model, ParserModel, encoder=encoder))


def by_engine(parser, sentences, rooms=ROOMS):
    engine = Engine(packed_plan(parser), rooms)
    return [each.to_conllu() for each in engine.stream_sentences(engine.plan, sentences)]


def by_parser(parser, sentences):
    return [each.to_conllu() for each in parser.stream_trees(sentences)]


PARSER = parser_of()
FITTING = [each for each in short() if PARSER.model.n_pieces(each) <= 64]
KINDS = {
    "bert": {},
    "treebanks": {
        "tags": TagSettings("predicted", ("upos",)),
        "treebanks": ("xx_one", "xx_two"),
        "options": {"language": "xx_two"},
    },
    "electra": {"family": "electra"},
    "no graph": {"relations": RelationSettings(graph="none")},
    "unlabelled": {"relations": RelationSettings(graph="unlabelled", none="zero", two_cycles="erased")},
    "tags given": {"tags": TagSettings("given", ("upos", "xpos"), double_specials=True)},
    "tags predicted": {"tags": TagSettings("predicted", ("upos", "xpos"))},
    "all tags": {"tags": ALL_TAGS, "options": {"max_steps": 4}},
    "all tags, some given": {"tags": ALL_TAGS, "options": {"tags": "given"}},
    "all tags, none read": {"tags": ALL_TAGS, "options": {"tags": "none"}},
    "refined tags only": {"tags": TagSettings("predicted", ("feats", "lemma"), refined=True)},
    "all tags in windows": {"tags": ALL_TAGS, "sentence_layers": 1, "n_positions": 16},
    "sure": {"options": {"stop_above": 0.3}},
    "windows": {"n_positions": 16},
    "probabilities": {"decode": DecodeSettings(tree_over="probabilities")},
}


def partly_tagged(sentence, number):
    """Remove most UPOS tags, half of the lemmas, and the features of every second sentence."""
    return sentence.with_tags(
        upos=["_" if n % 3 else tag for n, tag in enumerate(sentence.upos)],
        lemma=["_" if n % 2 else lemma for n, lemma in enumerate(sentence.lemma)],
        feats=None if number % 2 else ["_"] * len(sentence),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_returns_the_trees_and_tags_of_the_parser(kind):
    model = dict(KINDS[kind])
    options = model.pop("options", {})
    parser = parser_of(model, **options)
    sentences = sample(7)
    sentences = [partly_tagged(each, number) for number, each in enumerate(sentences)]

    assert by_engine(parser, sentences) == by_parser(parser, sentences)


@pytest.mark.parametrize("rooms", [ROOMS, (Room(64, 4, 16),)], ids=["in buffers", "some alone"])
@pytest.mark.parametrize("columns", [TagSettings("predicted", ("upos", "xpos")), ALL_TAGS], ids=["two", "all"])
@pytest.mark.parametrize("tags", ["predicted", "given"])
def test_the_engine_replaces_the_same_tags_as_the_parser(tags, columns, rooms):
    model = tiny_model(n_positions=64, tags=columns)
    parser = Parser(sure_of_tags(model, 50), initial="given", trust=0, tags=tags, device="cpu")

    found = by_engine(parser, sample(7), rooms)

    assert found == by_parser(parser, sample(7))
    assert any(each.upos != old.upos for each, old in zip(parser.stream_trees(sample(7)), sample(7), strict=True)) == (
        tags != "given"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["bert", "electra", "tags predicted", "windows"])
def test_on_a_gpu_replayed_steps_return_the_trees_of_the_parser(kind):
    model = tiny_model(**{"n_positions": 64} | KINDS[kind])
    sentences = sample(60)

    expected = by_parser(Parser(model, device="cpu"), sentences)

    parser = Parser(model, device="cuda", precision="float32")
    assert parser.engine is not None
    for _ in range(3):  # captured, then replayed
        assert [each.to_conllu() for each in parser.stream_trees(sentences)] == expected


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float16", "float32"])
def test_on_a_gpu_asking_for_confidence_changes_no_tree(precision):
    parser = Parser.from_pretrained("en", device="cuda", precision=precision)

    assert list(parser.stream_trees(sample())) == [each.sentence for each in parser.stream(sample())]


@given(data=st.data())
def test_blocks_buffer_sizes_and_other_sentences_change_no_tree(data):
    parser = PARSER
    plan, model = packed_plan(parser), parser.model
    sentences = data.draw(st.lists(st.sampled_from(FITTING), min_size=1, max_size=20))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sentences)))) - {len(sentences)})
    blocks = [sentences[a:b] for a, b in zip([0, *cuts], [*cuts, len(sentences)], strict=True)]
    room = data.draw(st.sampled_from([Room(64, 3, 64), Room(100, 40, 64), Room(512, 5, 64)]))
    packed = [pack(each, model.subwords, model.vocabulary, model.settings.tags, read=COLUMNS) for each in blocks]

    found = list(Engine(plan, (room,)).stream(packed))

    trees = [each.arcs for each in parser.stream_trees(sentences)]
    assert [len(each.heads) for each in found] == [sum(map(len, block)) for block in blocks]
    assert list(chain.from_iterable(each.heads for each in trees)) == np.concatenate([e.heads for e in found]).tolist()
    names = [model.vocabulary.labels[each] for found_block in found for each in found_block.labels]
    assert list(chain.from_iterable(each.labels for each in trees)) == names


@pytest.mark.parametrize("marked", [{2}, {0, 1, 4}, set(range(6))], ids=str)
def test_sentences_with_constraints_satisfy_them_and_stay_in_order(marked):
    parser = parser_of()
    sentences = sample(6)
    for number in marked:
        heads = sentences[number].arcs.heads
        sentences[number] = sentences[number].with_misc([f"NotHead={each}" if each else "_" for each in heads])

    found = by_engine(parser, sentences)

    assert found == by_parser(parser, sentences)
    assert by_engine(parser, sample(6))[3] == found[3] or 3 in marked


def test_blocks_before_an_error_are_parsed():
    parser = parser_of()
    model = parser.model

    def broken():
        for each in FITTING[:5]:
            yield pack([each], model.subwords, model.vocabulary, model.settings.tags, read=())
        raise TreebankError("no further")

    stream = Engine(packed_plan(parser), ROOMS).stream(broken())

    assert [len(next(stream).heads) for _ in range(5)] == [len(each) for each in FITTING[:5]]
    with pytest.raises(TreebankError, match="no further"):
        next(stream)


@given(data=st.data())
def test_relations_in_a_buffer_equal_those_of_a_batch(data):
    settings = data.draw(st.sampled_from(WAYS_TO_READ))
    sentences = [each for each in data.draw(sentences_in_pieces(min_sentences=1)) if each] or [[[7]]]
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    graphs = Graphs.of(arcs, Vocabulary(LABELS))
    counts = [len(word) for sentence in sentences for word in sentence]
    heads, labels = (
        np.concatenate([row[1 : len(each) + 1].numpy() for row, each in zip(tensor, sentences, strict=True)])
        for tensor in (graphs.heads, graphs.labels)
    )
    pieces = [piece for sentence in sentences for word in sentence for piece in word]
    packed = Packed(*(np.array(each, np.int32) for each in (pieces, counts, [*map(len, sentences)], heads, labels)))
    standing, buffer = SentenceState((2, 0, 3), 0), Buffer(Room(256, 8, 64), 0, 1, CPU)

    buffer.fill(standing, standing.add(packed, 64), last=1)
    buffer.on_device.copy_(buffer.sent)
    found = relate_packed(buffer.inputs(), len(LABELS), settings)

    inputs = inputs_of(sentences)
    expected = relate(inputs, graphs, len(LABELS), settings)
    n_pieces = len(inputs.pieces)
    assert buffer.host["pieces"][:n_pieces].tolist() == inputs.pieces.tolist()
    for name in ("above", "up", "down", "has_graph"):
        assert getattr(found, name)[:n_pieces].tolist() == getattr(expected, name).tolist()
    assert not (found.up[n_pieces:].ne(NONE) | found.down[n_pieces:].ne(NONE)).any()


def test_streams_may_be_interleaved_or_abandoned():
    parser = parser_of()
    engine = Engine(packed_plan(parser), ROOMS)
    model = parser.model
    blocks = [
        pack([each], model.subwords, model.vocabulary, model.settings.tags, read=COLUMNS) for each in FITTING[:12]
    ]
    left = engine.stream(blocks)
    next(left)
    first, second = engine.stream(blocks), engine.stream(blocks[::-1])

    pairs = [(next(first), next(second)) for _ in blocks]
    left.close()

    for (ours, _), (_, theirs) in zip(pairs, pairs[::-1], strict=True):
        assert (ours.heads.tolist(), ours.labels.tolist()) == (theirs.heads.tolist(), theirs.labels.tolist())
