"""Flat arrays for the engine equal the padded tensors of a batch, and its trees equal those of the parser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated_inputs import arcs_over
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_tokenizers import KINDS
from treefine.config import TagSettings
from treefine.fast.packed import PackedTrees, filled, pack
from treefine.model.batch import Graphs
from treefine.parsing.batches import parse_inputs, run
from treefine.parsing.parser import Parser
from treefine.parsing.results import steps
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

MODEL = tiny_model(tags=TagSettings(source="predicted", columns=("upos", "xpos")))


def packed(sentences, model=MODEL, **options):
    options = {"read": model.settings.tags.columns} | options
    return pack(sentences, model.subwords, model.vocabulary, model.settings.tags, **options)


@pytest.mark.parametrize("tokenizer", KINDS)
def test_the_pieces_equal_those_of_a_batch_without_padding_and_special_pieces(tokenizer):
    model, sentences = (
        tiny_model(tokenizer=tokenizer, n_positions=512),
        sample(20),
    )  # so that no sentence has two windows

    found, inputs = packed(sentences, model), model.batch_of(sentences).inputs

    assert found.pieces.tolist() == inputs.pieces[inputs.words > 0].tolist()
    assert found.counts.tolist() == [
        int(((inputs.sentences == row) & (inputs.words == word)).sum())
        for row, each in enumerate(sentences)
        for word in range(1, len(each) + 1)
    ]
    assert found.lengths.tolist() == [len(each) for each in sentences]
    assert found.pieces.dtype == found.counts.dtype == found.lengths.dtype == np.int32


@given(data=st.data())
def test_initial_arcs_equal_the_graphs_of_a_batch(data):
    sentences = data.draw(st.lists(st.sampled_from(sample(9)), min_size=1, max_size=3))
    labels = ("nsubj", "det", "nsubj:never", "dobj", "never-seen", BLANK)
    arcs = [Arcs(*data.draw(arcs_over(len(each), labels))) for each in sentences]

    found, graphs = packed(sentences, arcs=arcs), Graphs.of(arcs, MODEL.vocabulary)

    of_words = [graphs.words(row, len(each)) for row, each in enumerate(sentences)]
    assert found.heads.tolist() == np.concatenate([heads for heads, _ in of_words]).tolist()
    assert found.labels.tolist() == np.concatenate([labels for _, labels in of_words]).tolist()


def untagged(sentence):
    blank = [BLANK] * len(sentence)
    return sentence.with_tags(xpos=blank, **({} if sentence.format.upos is None else {"upos": blank}))


@pytest.mark.parametrize("name", ["en_ewt-sample.conllu", "constructs.conllu", "penn.conllx", "german.conll09"])
def test_filled_trees_and_tags_equal_those_of_the_parser(data, name):
    """Multiword tokens, empty nodes and enhanced arcs included; and formats without a column for UPOS."""
    sentences = [untagged(each) if number % 2 else each for number, each in enumerate(read_treebank(data / name))][:20]
    parser = Parser(MODEL, tags="predicted", device="cpu")
    columns, vocabulary = MODEL.settings.tags.columns, MODEL.vocabulary
    plan = parser.plan()
    found = [each for _, each in run(plan, parse_inputs(plan, sentences), steps)]
    flat = PackedTrees(
        np.array([head for each in found for head in each[-1].tree.heads[1:]]),
        np.array(vocabulary.label_ids([label for each in found for label in each[-1].tree.labels[1:]])),
        np.array(
            [vocabulary.tag_ids(each, [tag for p in found for tag in p[0].tags[i]]) for i, each in enumerate(columns)]
        ).T,
    )

    assert list(filled(sentences, flat, vocabulary, MODEL.settings.tags)) == list(parser.stream_trees(sentences))
    without = filled(sentences, PackedTrees(flat.heads, flat.labels), vocabulary, MODEL.settings.tags)
    assert [each.xpos for each in without] == [each.xpos for each in sentences]
