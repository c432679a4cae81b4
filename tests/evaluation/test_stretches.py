"""Files that are scored in stretches have the same scores and errors as whole files."""

import io
from pathlib import Path

import pytest

from tests.support.oracles import corrupt
from treefine import TreefineError, read_treebank
from treefine.evaluation import scores
from treefine.evaluation.scores import (
    RULES,
    all_marks,
    all_scores,
    evaluate_stretches,
    head_confusions,
    label_confusions,
    load_pair,
    scores_by_label,
    stretches,
)

SAMPLE = Path(__file__).parents[1] / "data" / "en_ewt-sample.conllu"


@pytest.fixture(params=[1, 30, 10**6], autouse=True)
def stretch(request, monkeypatch):
    monkeypatch.setattr(scores, "STRETCH", request.param)
    return request.param


def as_file(text):
    file = io.BytesIO(text.encode())
    file.name = "x.conllu"
    return file


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_stretches_add_up_to_the_scores_of_the_whole_file(seed, stretch):
    gold, system = SAMPLE.read_text(), corrupt(list(read_treebank(SAMPLE)), seed=seed)
    pair = load_pair(as_file(gold), as_file(system))
    marks = all_marks(pair)

    pairs = list(stretches(as_file(gold), as_file(system)))
    found = evaluate_stretches(pairs, labels=True, confusions=True)

    assert len(pairs) > 5 or stretch > 30
    assert found.scores == all_scores(pair, marks)
    assert [*found.by_label.items()] == [*scores_by_label(pair, marks["LAS"]).items()]
    assert found.label_confusions == label_confusions(pair, marks["LAS"])
    assert found.head_confusions == head_confusions(pair, marks["UAS"])


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_scores_a_file_against_itself(rule):
    pair = load_pair(SAMPLE, SAMPLE, rule=rule)

    found = evaluate_stretches(stretches(SAMPLE, SAMPLE, rule=rule), rule=rule)

    assert found.scores == all_scores(pair, all_marks(pair, rule=rule), rule=rule)


@pytest.mark.parametrize("rule", ["conll18", "conllx"])
@pytest.mark.parametrize("fault", ["shorter", "longer", "other word"])
def test_files_that_differ_have_the_same_error_as_whole_files(rule, fault):
    gold = SAMPLE.read_text()
    sentences = gold.split("\n\n")
    shorter = "\n\n".join(sentences[:-4]) + "\n\n"
    gold, system = {
        "shorter": (gold, shorter),
        "longer": (shorter, gold),
        "other word": (gold, gold.replace("\twill\t", "\twould\t")),
    }[fault]

    with pytest.raises(TreefineError) as expected:
        load_pair(as_file(gold), as_file(system), rule=rule)
    with pytest.raises(TreefineError) as found:
        evaluate_stretches(stretches(as_file(gold), as_file(system), rule=rule), rule=rule)

    assert str(found.value) == str(expected.value)
