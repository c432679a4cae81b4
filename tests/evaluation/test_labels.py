import pytest

from benchmarks.accuracy.oracles import corrupt, counts_of
from treefine import Graph, Sentence, evaluate, read_treebank
from treefine.evaluation.scores import Score, all_marks, head_confusions, label_confusions, load_pair, scores_by_label

WORDS = Sentence.of_words(["She", "saw", "him", "."], upos=["PRON", "VERB", "PRON", "PUNCT"])
GOLD = WORDS.with_graph(Graph.of_words([2, 0, 2, 2], ["nsubj", "root", "obj", "punct"]))
SYSTEM = WORDS.with_graph(Graph.of_words([3, 0, 2, 1], ["nsubj", "root", "nsubj", "punct"]))


@pytest.fixture
def pair():
    return load_pair([GOLD], [SYSTEM])


def test_each_label_has_its_own_score(pair):
    assert scores_by_label(pair, all_marks(pair)["LAS"]) == {
        "nsubj": Score(1, 2, 0, 1),
        "obj": Score(1, 0, 0, 1),
        "punct": Score(1, 1, 0, 1),
        "root": Score(1, 1, 1, 1),
    }


def test_labels_are_confused_where_they_differ_and_heads_where_they_do(pair):
    assert label_confusions(pair, all_marks(pair)["LAS"]) == {("obj", "nsubj"): 1}
    assert head_confusions(pair, all_marks(pair)["UAS"]) == {("VERB", "PRON"): 2}


def test_a_word_hung_on_root_by_mistake_is_named_so():
    system = WORDS.with_graph(Graph.of_words([2, 3, 0, 2], ["nsubj", "obj", "root", "punct"]))

    pair = load_pair([GOLD], [system])

    assert head_confusions(pair, all_marks(pair)["UAS"]) == {("ROOT", "PRON"): 1, ("VERB", "ROOT"): 1}


@pytest.mark.parametrize("seed", range(4))
def test_the_scores_of_all_labels_add_up_to_las(data, tmp_path, seed):
    sentences = list(read_treebank(data / "en_ewt-sample.conllu"))
    system = tmp_path / "system.conllu"
    system.write_text(corrupt(sentences, seed))
    pair = load_pair(data / "en_ewt-sample.conllu", system)

    columns = zip(*map(counts_of, scores_by_label(pair, all_marks(pair)["LAS"]).values()), strict=True)

    assert tuple(map(sum, columns)) == counts_of(evaluate(sentences, read_treebank(system))["LAS"])


def test_only_whole_right_sentences_are_exact_matches():
    halves = [Sentence.of_words(["She", "saw"]), Sentence.of_words(["him", "."])]
    cut = [half.with_graph(Graph.of_words([2, 0], ["nsubj", "root"])) for half in halves]
    wrong_label = GOLD.with_graph(Graph.of_words([2, 0, 2, 2], ["nsubj", "root", "iobj", "punct"]))

    assert evaluate([GOLD, GOLD], [GOLD, wrong_label])["UEM"] == Score(2, 2, 2)
    assert evaluate([GOLD, GOLD], [GOLD, wrong_label])["LEM"] == Score(2, 2, 1)
    assert evaluate([GOLD, GOLD], [GOLD, *cut])["UEM"] == Score(2, 3, 1)


def test_a_right_sentence_that_is_joined_to_another_is_no_exact_match():
    one = Sentence.of_words(["Go", "!"]).with_graph(Graph.of_words([0, 1], ["root", "punct"]))
    two = Sentence.of_words(["Now"]).with_graph(Graph.of_words([0], ["root"]))
    joined = Sentence.of_words(["Go", "!", "Now"]).with_graph(Graph.of_words([0, 1, 1], ["root", "punct", "advmod"]))

    scores = evaluate([one, two], [joined])

    assert (scores["LAS"].correct, scores["LEM"]) == (2, Score(2, 1, 0))


def test_words_that_do_not_count_are_not_confused(data):
    gold = [next(read_treebank(data / "penn.conllx"))]
    system = [gold[0].with_graph(Graph.of_words([1] * 9, ["x"] * 9))]
    pair = load_pair(gold, system, rule="ptb")
    found = all_marks(pair, rule="ptb")

    assert sum(label_confusions(pair, found["LAS"], rule="ptb").values()) == 5
    assert sum(head_confusions(pair, found["UAS"]).values()) == 5
    assert "punct" not in scores_by_label(pair, found["LAS"], rule="ptb")
