import pytest
from hypothesis import given

from tests.support.generated import conllu_lines
from tests.treebank.test_conllu import parsed
from treefine import Graph, TreebankError, read_treebank
from treefine.treebank.conllu import CONLL09, CONLL09_PREDICTED, CONLLX, convert, format_of, losses
from treefine.treebank.sentence import CONLLU


@given(conllu_lines())
@pytest.mark.parametrize("to", [CONLLX, CONLL09])
def test_words_lemmas_features_and_trees_survive_every_conversion(to, lines):
    sentence = parsed(lines)

    there = convert(sentence, to)
    back = convert(there, CONLLU)

    assert (there.format, len(there.columns)) == (to, to.width)
    for name in ("forms", "lemma", "feats", "arcs"):
        assert getattr(there, name) == getattr(back, name) == getattr(sentence, name)


def test_conllx_gets_both_tags_and_conll09_fills_gold_and_predicted_columns(data):
    sentence = list(read_treebank(data / "constructs.conllu"))[1]

    conllx, conll09 = (convert(sentence, to).to_conllu().split("\n") for to in (CONLLX, CONLL09))

    assert conllx[0] == "1\tAnn\tAnn\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\t_"
    assert dict(losses(sentence, CONLLX)) == {"comment": 3, "empty node": 1, "DEPS": 7, "MISC": 2}
    assert conll09[0].split("\t") == "1 Ann Ann Ann NNP NNP Number=Sing Number=Sing 2 2 nsubj nsubj _ _".split()
    assert losses(sentence, CONLL09)["UPOS"] == 7


def test_conll09_is_read_with_gold_or_predicted_tags(data):
    gold = next(read_treebank(data / "german.conll09"))
    predicted = next(read_treebank(data / "german.conll09", format="conll09-predicted"))

    assert gold.xpos == ("ART", "NN", "VVFIN", "$.")
    assert predicted.xpos == ("ART", "NE", "VVFIN", "$.")
    assert (gold.lemma[2], predicted.lemma[2]) == ("schlafen", "schlaf")
    assert convert(predicted, CONLLU).to_conllu().split("\n")[1] == "2\tKatze\tKatze\t_\tNE\t*\t3\tSB\t_\t_"
    assert convert(predicted, CONLL09) is predicted
    assert losses(predicted, CONLLU)["LEMMA"] == losses(gold, CONLLU)["PLEMMA"]
    assert dict(losses(gold, CONLLU)) == {"PLEMMA": 2, "PPOS": 1, "PFEAT": 1, "FILLPRED": 1, "PRED": 1, "APRED": 1}


def test_changes_to_a_conll09_sentence_go_to_the_columns_they_were_read_from(data):
    predicted = next(read_treebank(data / "german.conll09", format="conll09-predicted"))

    changed = predicted.with_tags(xpos=["A", "B", "C", "D"]).with_graph(Graph.of_words([0, 1, 2, 3], ["r"] * 4))

    first = changed.to_conllu().split("\n")[0].split("\t")
    assert first == "1 Die der der ART A Nom Nom 0 2 r NK _ _ _".split()
    with pytest.raises(TreebankError, match="CoNLL-2009 has no column for UPOS"):
        predicted.with_tags(upos=["A"] * 4)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("a.conllu", CONLLU),
        ("dir.conllu/a.CONLLX.gz", CONLLX),
        ("a.conll09", CONLL09),
        ("-", CONLLU),
    ],
)
def test_the_file_name_decides_the_format(path, form):
    assert format_of(path) == form
    assert format_of(path, "conll09-predicted") == CONLL09_PREDICTED
