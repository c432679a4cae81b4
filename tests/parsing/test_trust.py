"""Trust in other parsers: their arcs add a weight to the scores, which is given, estimated or fitted."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from tests.fast.test_engine import by_engine, parser_of
from tests.support.tiny import sample, short, tiny_biaffine, tiny_model
from treefine import Graph, Parser, Sentence, TreefineError
from treefine.config import ConfidenceSettings
from treefine.errors import LongSentenceWarning
from treefine.model.batch import Evidence
from treefine.model.vocabulary import Vocabulary
from treefine.parsing import batches, trust
from treefine.parsing.initial import empty, given, renamed
from treefine.parsing.plan import WeightedArcs
from treefine.parsing.trust import NO_CHOICES, Beliefs, Choices, choices_of, estimated_weight, fitted_weight
from treefine.treebank.graph import Arcs

PARSER = Parser(tiny_model(), device="cpu", max_steps=3)
GOLD = short(12)
HUGE = 1000.0


def graphs(parses):
    return [each.tree for each in parses]


def refined(sentences=GOLD, parser=PARSER, **options):
    return list(parser.using(**{"initial": "given"} | options).stream(sentences))


def other_trees(sentences=GOLD, seed=2):
    """Return the sentences with the trees of another parser."""
    return list(Parser(tiny_model(seed=seed), device="cpu").stream_trees(sentences))


def test_no_trust_leaves_the_scores_alone():
    without = PARSER.using(initial=given)  # a function whose trees a user did not supply as such

    assert PARSER.using(initial=empty, trust=3).plan().trust == ()
    assert PARSER.using(initial="given", trust=0).plan().trust == ()
    assert without.using(trust=0).plan().trust == ()
    assert all(each.trust == () for each in refined(trust=0))


def test_a_parse_from_an_empty_graph_has_no_evidence():
    plain, trusting = (list(PARSER.using(initial="empty", trust=each).stream(GOLD)) for each in (0, 5))

    assert plain == trusting


def test_given_trees_with_a_huge_weight_are_returned():
    assert graphs(refined(trust=HUGE)) == [each.graph for each in GOLD]


def test_a_larger_weight_keeps_more_arcs():
    def n_kept(weight):
        pairs = zip(refined(trust=weight), GOLD, strict=True)
        return sum(a == b for parse, old in pairs for a, b in zip(parse.heads, old.heads, strict=True))

    kept = [n_kept(weight) for weight in (0, 5, 20, 100)]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]


def test_trust_makes_the_model_more_confident_in_the_given_arcs():
    low, high = (refined(trust=weight) for weight in (0, 20))

    def mean(parses):
        return np.mean([each.both for parse in parses for each in parse.initial_confidences if each is not None])

    assert mean(high) > mean(low)


def test_trees_do_not_depend_on_the_batch():
    together = refined(trust=4.0)
    alone = [PARSER.using(initial="given", trust=4.0).parse(each) for each in GOLD]

    assert graphs(together) == graphs(alone)


def test_the_order_of_further_parsers_does_not_matter():
    sources = [renamed(_listed(other_trees(seed=seed)), PARSER.model.vocabulary.labels) for seed in (2, 3)]

    one = refined(initial=["given", *sources], trust=[1, 2, 3])
    other = refined(initial=["given", *reversed(sources)], trust=[1, 3, 2])

    assert graphs(one) == graphs(other)


def test_two_parsers_that_agree_count_as_one_with_the_sum_of_their_weights():
    assert graphs(refined(initial=["given", "given"], trust=[2, 3])) == graphs(refined(trust=5))


def _listed(sentences):
    return lambda stream: (each.arcs for each, _ in zip(sentences, stream, strict=True))


def test_the_engine_returns_the_trees_of_the_parser():
    parser = parser_of(initial="given", trust=4.0)

    assert by_engine(parser, GOLD) == [each.to_conllu() for each in parser.stream_trees(GOLD)]


def test_the_k_best_trees_respect_the_evidence():
    for parse in refined(GOLD[:4], trust=HUGE, k=2):
        assert parse.trees[0].tree == parse.tree
        assert parse.trees[0].probability == pytest.approx(1.0)


@pytest.mark.filterwarnings(f"ignore::{LongSentenceWarning.__module__}.LongSentenceWarning")
def test_the_parts_of_a_long_sentence_get_their_evidence():
    n_words = PARSER.plan().most_words + 10
    heads = [0, *range(1, n_words)]
    long = Sentence.of_words(["word"] * n_words).with_graph(Graph.of_words(heads, ["root"] + ["dep"] * (n_words - 1)))

    found = PARSER.using(initial="given", trust=HUGE, max_steps=1).parse(long)

    assert sum(a == b for a, b in zip(found.heads, heads, strict=True)) >= n_words - 2  # one arc joins the parts
    assert found.trust == (HUGE,)


def test_an_unknown_label_is_evidence_for_its_head_only():
    old = GOLD[1]
    strange = old.with_graph(Graph.of_words(old.graph.heads[1:], ["root" if not h else "strange" for h in old.heads]))

    [found] = refined([strange], trust=HUGE)

    assert found.heads == old.heads
    assert "strange" not in found.labels


def test_a_missing_or_blank_arc_is_no_evidence():
    arcs = trust.arcs_with_labels(Arcs((2, None, 2), ("det", "_", "_")))

    assert arcs == Arcs((2, None, None), ("det", "_", "_"))


def test_evidence_is_cut_and_selected_with_its_batch():
    heads = torch.tensor([[[-1, 2, 0, -1], [-1, 0, 1, 1]]])
    evidence = Evidence(heads, torch.zeros_like(heads), (2.0,))

    part = evidence.select(torch.tensor([0]), 3)

    assert part.heads.tolist() == [[[-1, 2, 0]]]
    assert part.of_heads(3)[0, 1].tolist() == [0, 0, 2]
    assert part.of_labels(torch.tensor([[0, 2, 1]]), 2)[0].tolist() == [[0, 0], [2, 0], [0, 0]]


# The estimate


def simulated(sharpness, weight=0.0, *, n_words=4000, seed=1):
    """Return a parser's choices among heads with random calibrated probabilities, with the right ones in gold."""
    draw = np.random.default_rng(seed)
    table = draw.dirichlet([0.15] * 6, n_words).clip(1e-6)
    right = np.array([draw.choice(6, p=row / row.sum()) for row in table])
    powers = table**sharpness
    powers[np.arange(n_words), right] *= np.exp(weight)
    chosen = np.array([draw.choice(6, p=row / row.sum()) for row in powers])
    order = np.array([[pick, *(each for each in range(6) if each != pick)] for pick in chosen])
    columns = np.array([row.tolist().index(pick) for row, pick in zip(order, right, strict=True)])
    return Choices(np.take_along_axis(table, order, 1), columns)


TRUE_LABELS = simulated(1.0)


def test_a_parser_that_errs_where_the_model_is_sure_gets_little_weight():
    weights = [estimated_weight(simulated(sharpness), TRUE_LABELS) for sharpness in (0.5, 0.8, 1.1)]

    assert weights == sorted(weights)
    assert weights[0] < 0.2
    assert weights[-1] > 4


def test_a_parser_that_repeats_the_models_errors_gets_less_weight_than_one_that_does_not():
    weights = [estimated_weight(simulated(1.2), simulated(sharpness)) for sharpness in (1.05, 1.3, 1.6)]

    assert weights == sorted(weights, reverse=True)
    assert weights[-1] < 0.5


def test_slips_limit_the_weight_of_a_good_parser_but_do_not_make_it_weak():
    good = simulated(1.15)
    is_slip = (np.arange(len(good.gold)) % 25 == 0)[:, None]  # 4% of the words have the least likely choice
    slipped = Choices(np.where(is_slip, np.sort(good.probabilities, axis=1), good.probabilities), good.gold)

    careful, careless = estimated_weight(good, TRUE_LABELS), estimated_weight(slipped, TRUE_LABELS)

    assert 2 < careless < careful


def test_few_words_give_a_cautious_weight():
    usual, sure = (estimated_weight(simulated(1.2, n_words=n), simulated(1.2, n_words=n)) for n in (3, 5000))

    assert 0.2 < usual < 1 < sure


@pytest.mark.parametrize("weight", [0.0, 1.0, 3.0])
def test_the_fitted_weight_makes_the_right_heads_most_probable(weight):
    choices = simulated(1.0, weight)

    def surprise(trust):
        """Add the weight to the other parser's heads, word by word, and return how surprising the right heads are."""
        total = 0.0
        for row, right in zip(choices.probabilities.tolist(), choices.gold.tolist(), strict=True):
            scores = [row[0] * math.exp(trust), *row[1:]]
            total -= math.log(scores[right] / sum(scores))
        return total

    assert fitted_weight(choices, TRUE_LABELS) == pytest.approx(min(np.arange(0, 6, 0.2), key=surprise), abs=0.21)


def test_a_weight_fitted_to_few_words_is_near_the_estimated_one():
    few = simulated(0.7, 3.0, n_words=5)

    assert abs(fitted_weight(few, NO_CHOICES) - estimated_weight(few, NO_CHOICES)) < 0.5


def test_choices_have_the_given_head_first_and_find_the_right_one():
    heads = np.array([[0.1, 0.0, 0.9], [0.7, 0.3, 0.0]], dtype=np.float32)
    labels = np.array([[0.4, 0.6], [0.2, 0.8]], dtype=np.float32)
    arcs = Arcs((0, 0), ("obj", "obj"))

    found, of_labels = choices_of(
        [Beliefs(heads, (labels,))], [WeightedArcs(arcs, 0)], 0, Vocabulary(("obj", "root")), [(2, 0)]
    )

    assert found.probabilities[:, :2] == pytest.approx(np.array([[0.1, 0.9], [0.7, 0.3]]))
    assert found.gold.tolist() == [1, 0]
    assert of_labels.probabilities[:, :2] == pytest.approx(np.array([[0.2, 0.8]]))  # the model believes in this head


def test_the_weight_is_estimated_once_from_the_start_of_a_stream(monkeypatch):
    monkeypatch.setattr(trust, "SAMPLE_SENTENCES", 4)

    some, more = refined(GOLD[:4], trust="auto"), refined(GOLD, trust="auto")

    assert some[0].trust == more[-1].trust
    assert graphs(some) == graphs(more[:4])


def test_the_weight_does_not_depend_on_skipped_sentences():
    parser = PARSER.using(initial="given", trust="auto")

    assert list(parser.stream_trees(GOLD, skip=5)) == list(parser.stream_trees(GOLD))[5:]


def test_no_more_than_the_sample_is_read_ahead(monkeypatch):
    monkeypatch.setattr(trust, "SAMPLE_SENTENCES", 3)
    read = []

    def sentences():
        for each in GOLD:
            read.append(each)
            yield each

    next(batches.items_of(PARSER.using(initial="given").plan(), sentences()))

    assert len(read) == 3


def test_an_error_in_the_sample_comes_after_the_sentences_before_it():
    def sentences():
        yield from GOLD[:2]
        raise TreefineError("The file ends here.")

    items = batches.items_of(PARSER.using(initial="given").plan(), sentences())

    assert [item.sentence for item in islice(items, 2)] == GOLD[:2]
    with pytest.raises(TreefineError, match="ends here"):
        next(items)


def test_given_trees_and_files_are_weighed_by_default_and_other_initial_parsers_are_not(tmp_path):
    path = tmp_path / "theirs.conllu"
    path.write_text(GOLD[0].to_conllu(), "utf-8")
    biaffine = Parser(tiny_biaffine(), device="cpu")

    assert PARSER.using(initial="given").trust == ("auto",)
    assert PARSER.using(initial=path).trust == ("auto",)
    assert PARSER.using(initial=biaffine).trust == ()
    assert PARSER.using(initial=biaffine, trust=2).trust == (2.0,)


def test_the_weight_has_the_units_of_the_scores(monkeypatch):
    model = tiny_model()
    model.settings = replace(model.settings, confidence=ConfidenceSettings(arc_temperature=3.0))
    monkeypatch.setattr(batches, "estimated_weight", lambda heads, labels: 0.5)

    assert refined(GOLD[:1], Parser(model, device="cpu"))[0].trust == (1.5,)


def test_a_new_initial_parse_resets_the_trust():
    several = PARSER.using(initial=["given", "given"], trust=[1, 2])

    assert several.using(initial="given").trust == ("auto",)
    assert several.refine(GOLD[0]).trust != ()
    assert PARSER.using(initial="given", trust=2.0).refine(GOLD[0]).trust == (2.0,)


def test_a_number_of_numpy_is_a_weight():
    assert PARSER.using(initial="given", trust=np.float32(1.5)).trust == (1.5,)


def test_refine_takes_a_weight():
    assert PARSER.refine(GOLD[0], trust=HUGE).tree == GOLD[0].graph
    assert PARSER.refine(GOLD[0], trust=0).trust == ()


def test_trust_is_fitted_to_the_sentences_that_have_correct_trees():
    theirs = other_trees(sample(20))
    weights = PARSER.fit_trust(theirs, sample(20)[5:10])

    assert len(weights) == 1
    assert weights[0] >= 0
    best = PARSER.fit_trust(GOLD, GOLD)
    assert best > PARSER.fit_trust(other_trees(), GOLD)
    assert PARSER.refine(GOLD[0], trust=best).trust == best


def test_trust_cannot_be_fitted_without_common_sentences():
    with pytest.raises(TreefineError, match="None of the 1 sentences with correct trees occurs in the input"):
        PARSER.fit_trust(GOLD[:2], GOLD[2:3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trust": [1, 2]}, r"trust has 2 values, but the number of initial parses is 1."),
        ({"initial": ["given", "empty"]}, r"An empty graph cannot be combined"),
    ],
)
def test_wrong_values_are_refused(options, message):
    with pytest.raises(TreefineError, match=message):
        PARSER.using(**{"initial": "given"} | options)
