"""The loop as training uses it: one update a step, on the scores that each step yields."""

from itertools import count

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the customary name

from tests.support.tiny import sample, tiny_biaffine, tiny_model
from treefine.config import RelationSettings, TagSettings
from treefine.model.batch import Graphs
from treefine.parsing.decode import Decoder
from treefine.parsing.initial import given
from treefine.parsing.parser import Parser
from treefine.parsing.refine import refine
from treefine.treebank.graph import Arcs, Graph

KINDS = {
    "rngtr": lambda: tiny_model(scale=1.0),
    "unlabelled": lambda: tiny_model(relations=RelationSettings("unlabelled", none="zero"), scale=1.0),
    "syntr": lambda: tiny_model(relations=RelationSettings(graph="none"), scale=1.0),
    "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos")), scale=1.0),
    "biaffine": lambda: tiny_biaffine(scale=1.0),
}


def learn(model, sentences, arcs, *, max_steps, is_learned, most_updates=250):
    """Train on one batch, with the loss of each step before the next one is taken (Sec. 3.3), until it is learned."""
    batch, gold = model.batch_of(sentences), Graphs.of([sentence.arcs for sentence in sentences], model.vocabulary)
    given_tags = model.given_tags(sentences)
    is_tagger = model.tagger is not None
    decoder = Decoder(model.vocabulary.label_id("root"))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    n_updates = 0
    for number in count(1):
        for step in refine(
            lambda batch, graphs, tags, t: model(batch, graphs, tags),
            batch,
            Graphs.of(arcs, model.vocabulary),
            max_steps=max_steps,
            decode=lambda scores, batch, t: decoder.graphs(scores, batch.is_word),
            tags=None if is_tagger else given_tags,
            predict_tags=is_tagger,
        ):
            rows = torch.tensor(step.sentences)
            right = gold.select(rows, step.batch.n_words)
            is_word = right.heads >= 0
            loss = F.cross_entropy(step.scores.arcs[is_word], right.heads[is_word])
            loss = loss + F.cross_entropy(step.scores.labels(right.heads)[is_word], right.labels[is_word])
            for column, scores in enumerate(step.scores.tags):
                tags = given_tags[rows, : step.batch.n_words, column]
                loss = loss + F.cross_entropy(scores[is_word], tags[is_word] - 1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            n_updates += 1
        if n_updates >= most_updates or (number % 20 == 0 and is_learned()):
            return


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_sentences_can_be_learned_by_heart(kind):
    sentences = [sentence for sentence in sample() if len(sentence) < 15][:6]
    model = KINDS[kind]()
    blank = [Arcs((None,) * len(sentence), ("_",) * len(sentence)) for sentence in sentences]
    max_steps = 3 if model.settings.reads_graph else 1
    parser = Parser(model, device="cpu")

    def found():
        return [each.graph for each in parser.parse(sentences)], [next(parser.refine(each)).tags for each in sentences]

    gold = (
        [each.graph for each in sentences],
        [(each.upos, each.xpos) if kind == "tagger" else () for each in sentences],
    )
    learn(model, sentences, blank, max_steps=max_steps, is_learned=lambda: found() == gold)

    assert found() == gold


def test_what_only_the_graph_tells_can_be_learned_from_it():
    """Six words that are all alike: nothing but the initial graph says which head is right."""
    model = tiny_model(scale=1.0)
    words = sample(1)[0].of_words(["dog"] * 6, upos=["NOUN"] * 6)
    trees = [
        Graph.of_words(heads, ["root" if head == 0 else "flat" for head in heads])
        for heads in ([0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 0], [0, 1, 1, 1, 1, 1], [6, 6, 6, 6, 6, 0])
    ]
    sentences = [words.with_graph(tree) for tree in trees]

    refiner = Parser(model, initial=given, device="cpu")

    def refined():
        return [each.graph for each in refiner.parse(sentences)]

    arcs = [sentence.arcs for sentence in sentences]
    learn(model, sentences, arcs, max_steps=1, is_learned=lambda: refined() == trees)

    assert refined() == trees
    assert len({each.graph for each in Parser(model, device="cpu", max_steps=1).parse(sentences)}) == 1
