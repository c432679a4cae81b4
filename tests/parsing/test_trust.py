"""Trust in other parsers: their arcs add a weight to the scores, which is given, estimated or fitted."""

from itertools import islice

import numpy as np
import pytest

from tests.support.tiny import sample, short, tiny_model
from treefine import Parser, TreefineError
from treefine.config import RelationSettings
from treefine.parsing import batches, trust
from treefine.parsing.initial import empty, input_trees
from treefine.parsing.trust import Choices, estimated_weight

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
    without = PARSER.using(initial=input_trees)  # a function whose trees a user did not supply as such

    assert PARSER.using(initial=empty, trust=3).plan().trust == ()
    assert PARSER.using(initial="given", trust=0).plan().trust == ()
    assert without.using(trust=0).plan().trust == ()
    assert all(each.trust == () for each in refined(trust=0))


def test_given_trees_with_a_huge_weight_are_returned():
    assert graphs(refined(trust=HUGE)) == [each.graph for each in GOLD]


def test_trees_do_not_depend_on_the_batch():
    together = refined(trust=4.0)
    alone = [PARSER.using(initial="given", trust=4.0).parse(each) for each in GOLD]

    assert graphs(together) == graphs(alone)


def test_two_parsers_that_agree_count_as_one_with_the_sum_of_their_weights():
    assert graphs(refined(initial=["given", "given"], trust=[2, 3])) == graphs(refined(trust=5))


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


def test_the_weight_is_estimated_once_from_the_start_of_a_stream(monkeypatch):
    monkeypatch.setattr(trust, "SAMPLE_SENTENCES", 4)

    some, more = refined(GOLD[:4], trust="auto"), refined(GOLD, trust="auto")

    assert some[0].trust == more[-1].trust
    assert graphs(some) == graphs(more[:4])


def test_an_error_in_the_sample_comes_after_the_sentences_before_it():
    def sentences():
        yield from GOLD[:2]
        raise TreefineError("The file ends here.")

    items = batches.parse_inputs(PARSER.using(initial="given").plan(), sentences())

    assert [item.sentence for item in islice(items, 2)] == GOLD[:2]
    with pytest.raises(TreefineError, match="ends here"):
        next(items)


def test_given_trees_and_files_are_weighed_by_default_and_other_initial_parsers_are_not(tmp_path):
    path = tmp_path / "theirs.conllu"
    path.write_text(GOLD[0].to_conllu(), "utf-8")
    syntr = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")

    assert PARSER.using(initial="given").trust == ("auto",)
    assert PARSER.using(initial=path).trust == ("auto",)
    assert PARSER.using(initial=syntr).trust == ()
    assert PARSER.using(initial=syntr, trust=2).trust == (2.0,)


def test_trust_is_fitted_to_the_sentences_that_have_correct_trees():
    theirs = other_trees(sample(20))
    weights = PARSER.fit_trust(theirs, sample(20)[5:10])

    assert len(weights) == 1
    assert weights[0] >= 0
    best = PARSER.fit_trust(GOLD, GOLD)
    assert best > PARSER.fit_trust(other_trees(), GOLD)
    assert PARSER.refine(GOLD[0], trust=best).trust == best


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
