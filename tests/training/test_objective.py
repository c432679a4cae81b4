import math
from dataclasses import replace

import pytest
import torch

from tests.support.tiny import ALL_TAGS, sample, tiny_model, tiny_syntr
from treefine.config import TagSettings
from treefine.model.batch import Graphs
from treefine.model.vocabulary import tags_in
from treefine.parsing.refine import BatchStep
from treefine.training.learner import GoldBatch, step_loss
from treefine.treebank.graph import Graph

KINDS = {
    "rngtr": lambda: tiny_model(),
    "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))),
    "all tags": lambda: tiny_model(tags=ALL_TAGS),
    "syntr": lambda: tiny_syntr(),
}


def short_sentences():
    """Draw sentences of 1 to 8 words, with an unknown label, unknown tags, and an unknown subtype."""
    sentences = sorted((each for each in sample() if len(each) <= 8), key=len)[::4]
    changed = sentences[-1]
    labels = ["zzz", "nsubj:zzz", *changed.labels[2:]]
    changed = changed.with_graph(Graph.of_words(changed.heads, labels))
    tags = ["ZZZ", "_", *changed.upos[2:]]
    return [*sentences[:-1], changed.with_tags(upos=tags, xpos=tags)]


def gold_of(model, sentences):
    graphs = Graphs.of([each.arcs for each in sentences], model.vocabulary)
    return GoldBatch(graphs, None if model.tagger is None else model.given_tags(sentences))


def step_of(model, sentences, chosen):
    """Return a step in which only the chosen sentences are unfinished; they read their gold graphs."""
    batch = model.batch_of(sentences).select(chosen)
    graphs = gold_of(model, sentences).graphs.select(torch.tensor(chosen), batch.n_words)
    scores = model(batch, graphs, None)
    none = torch.zeros(len(chosen), dtype=torch.bool)
    return BatchStep(2, tuple(chosen), batch, scores, graphs, None, none, none)


def surprise(scores, right):
    """Return the negative log-probability of the correct name; scores are floats by name."""
    return math.log(sum(math.exp(each) for each in scores.values())) - scores[right]


def slow_loss(model, step, sentences, *, refines_tags=False, tag_weight=1.0):
    """Return the loss, computed word by word from the scores and the names in the treebank."""
    total, vocabulary = 0.0, model.vocabulary
    for row, number in enumerate(step.sentences):
        sentence = sentences[number]
        for dep, (head, label) in enumerate(zip(sentence.heads, sentence.labels, strict=True), start=1):
            allowed = [each for each in range(len(sentence) + 1) if each != dep]
            total += surprise({each: float(step.scores.arcs[row, dep, each]) for each in allowed}, head)
            dep_vector, head_vector = step.scores.label_dep[row, dep], step.scores.label_head[row, head]
            label_scores = {
                name: float(dep_vector @ weight @ head_vector)
                for name, weight in zip(vocabulary.labels, step.scores.label_weight, strict=True)
            }
            label = label if label in vocabulary.labels else label.partition(":")[0]
            if label in vocabulary.labels:
                total += surprise(label_scores, label)
            has_tags = step.t == 1 or refines_tags  # other steps read the tags of the first
            columns = model.settings.tags.columns if has_tags else ()
            for column, scores in zip(columns, step.scores.tags, strict=False):
                names = vocabulary.tags(column)
                tag = tags_in(sentence, column)[dep - 1]
                if tag in names:
                    total += tag_weight * surprise(dict(zip(names, scores[row, dep].tolist(), strict=True)), tag)
    return total


@pytest.mark.parametrize("t", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_loss_equals_a_loop_over_the_words_of_unfinished_sentences(kind, t):
    model, sentences = KINDS[kind](), short_sentences()
    longest = max(range(len(sentences)), key=lambda number: len(sentences[number]))

    for chosen in (list(range(len(sentences))), [3, 0, 2], [longest]):
        step = replace(step_of(model, sentences, chosen), t=t)

        loss = step_loss(step, gold_of(model, sentences))

        assert float(loss) == pytest.approx(slow_loss(model, step, sentences), rel=1e-4)


@pytest.mark.parametrize("t", [1, 2])
@pytest.mark.parametrize(
    "options", [{"refines_tags": True}, {"tag_weight": 0.3}, {"refines_tags": True, "tag_weight": 2}]
)
@torch.no_grad()
def test_later_steps_may_correct_tags_and_their_loss_has_a_weight(options, t):
    model, sentences = KINDS["all tags"](), short_sentences()
    step = replace(step_of(model, sentences, [0, 2, 3]), t=t)

    loss = step_loss(step, gold_of(model, sentences), **options)

    assert float(loss) == pytest.approx(slow_loss(model, step, sentences, **options), rel=1e-4)
    has_tags, has_weight = t == 1 or "refines_tags" in options, "tag_weight" in options
    is_plain = not has_tags or (t == 1 and not has_weight)
    assert (float(loss) == float(step_loss(step, gold_of(model, sentences)))) == is_plain


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_does_not_change_the_loss(kind):
    model, sentences = KINDS[kind](), short_sentences()
    gold = gold_of(model, sentences)

    apart = sum(float(step_loss(step_of(model, sentences, [each]), gold)) for each in range(len(sentences)))

    together = float(step_loss(step_of(model, sentences, list(range(len(sentences)))), gold))
    assert together == pytest.approx(apart, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_others", [0, 3])
def test_gradients_are_finite_though_forbidden_heads_score_minus_infinity(kind, n_others):
    model = KINDS[kind]()
    one_word = next(each for each in sample() if len(each) == 1)
    sentences = [one_word, one_word, *short_sentences()[-n_others:][:n_others]]
    step = step_of(model, sentences, list(range(len(sentences))))
    assert step.scores.arcs.isinf().any()

    loss = step_loss(step, gold_of(model, sentences))
    loss.backward()

    assert loss.isfinite()
    grads = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    assert "scorer.arc_weight" in grads
    assert all(each.isfinite().all() for each in grads.values())
