"""Training of a segmenter: its text, its targets, its loss, and its stage in a training."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_segmenter import ANY_TREEBANK, TINY, same_weights
from tests.treebank.test_raw_text import sentence
from treefine import Graph
from treefine.segmenter.network import ENDS, ENDS_MULTIWORD, WITHIN, CutScores
from treefine.training.recipe import SegmenterTraining
from treefine.training.segmenter import (
    NOWHERE,
    Documents,
    RunningText,
    SegmenterLearner,
    cut_loss,
    new_segmenter,
    targets,
    text_scores,
    without_some,
)
from treefine.treebank.raw_text import raw_text

PLAIN = SegmenterTraining(joined=0, shuffled=0, wrapped=0, lines=0, lowered=0, unpointed=0, quoted=0, short=0)
SMALL = replace(PLAIN, network=replace(TINY, char_hidden=24, char_width=16, run_hidden=16, dropout=0.0), epochs=12)


def with_tree(words):
    return words.with_graph(Graph.of_words([0] + [1] * (len(words) - 1), ["root"] + ["dep"] * (len(words) - 1)))


def document(*texts):
    """Return sentences of words; a sentence that starts with # starts a document."""
    return [
        sentence(*[(word, "_") for word in text.lstrip("#").split()], comments=["# newdoc"] * text.startswith("#"))
        for text in texts
    ]


def easy_treebank(n_sentences, seed):
    """Return sentences of a language in which "Mr." ends no sentence, "n't" is a token, and "delX" is de + elX."""
    rng = random.Random(seed)
    words = [("Mr.", "_"), ("do", "SpaceAfter=No"), ("de+lor", "_"), ("cat", "_"), ("sat", "_"), ("2", "_")]
    found = []
    for _ in range(n_sentences):
        tokens = []
        for word in rng.choices(words, k=rng.randint(2, 6)):
            tokens += [word, ("n't", "_")] if word[0] == "do" else [word]
        tokens[-1] = (tokens[-1][0] if tokens[-1][0] != "Mr." else "cat", "SpaceAfter=No")
        found.append(with_tree(sentence(*tokens, (".", "_"))))
    return found


def drawn(sentences, settings, seed=0):
    return Documents.of(sentences).draw(settings, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"joined": 1}, "Ab c . D . "),
        ({"joined": 1, "unpointed": 1}, "Ab c D "),
        ({"lowered": 1}, "ab c . d .\n\n"),
        ({"unpointed": 1}, "Ab c D\n\n"),
        ({"lines": 1}, "Ab c .\nD .\n\n"),
    ],
)
def test_the_layout_of_documents_may_change(change, text):
    treebank = document("#Ab c .", "D .")

    found = drawn([*treebank, *treebank], replace(PLAIN, **change))

    assert found.text == text * 2
    assert found.ends_sentence.count(True) == 4


def test_a_sentence_may_be_in_quotation_marks():
    assert drawn(document("#Ab c ."), replace(PLAIN, quoted=1)).text.strip() in ('"Ab c ."', "“Ab c .”")


def test_sentences_are_shuffled_only_within_their_document():
    treebank = [*document("#A", "B", "C"), *document("#D", "E", "F")]

    texts = {drawn(treebank, replace(PLAIN, shuffled=1), seed).text for seed in range(40)}

    assert len(texts) > 20
    for text in texts:
        assert sorted(sorted(part.split()) for part in text.split("\n\n")) == [[], ["A", "B", "C"], ["D", "E", "F"]]


@given(st.integers(0, 100), *[st.sampled_from([0.0, 0.3, 0.5])] * 5)
def test_tokens_are_at_their_spans_in_a_drawn_text(seed, joined, wrapped, lines, lowered, unpointed):
    settings = replace(PLAIN, joined=joined, wrapped=wrapped, lines=lines, lowered=lowered, unpointed=unpointed)
    treebank = document("#Ab c .", "De f ?", "#G", "#H i", "J k .")

    found = drawn(treebank, settings, seed)

    assert len(found.spans) == len(found.words) == len(found.ends_sentence)
    for (start, end), words in zip(found.spans, found.words, strict=True):
        assert found.text[start:end].lower() == words[0].lower()
    assert found.ends_sentence.count(True) == 5


def test_targets_are_the_ends_of_tokens_and_of_sentences():
    text = raw_text([sentence(("de+l", "SpaceAfter=No"), ("a", "_")), sentence(("b", "_"))])

    token, ends = targets(text)

    assert text.text == "dela b"
    assert token.tolist() == [WITHIN, WITHIN, ENDS_MULTIWORD, ENDS, NOWHERE, ENDS]
    assert ends.tolist() == [-1, -1, 0, 1, -1, 1]


def test_the_loss_is_a_mean_over_characters_plus_a_mean_over_token_ends():
    scores = CutScores(torch.zeros(1, 4, 3), torch.zeros(1, 4))
    nothing = torch.full((1, 4), NOWHERE)

    loss = cut_loss(scores, torch.tensor([[WITHIN, ENDS, ENDS, NOWHERE]]), torch.tensor([[-1.0, 1.0, 0.0, -1.0]]))

    assert loss.item() == pytest.approx(np.log(3) + np.log(2))
    assert cut_loss(scores, nothing, nothing.float()).item() == 0


def test_an_easy_treebank_is_learned_and_scored_on_raw_text():
    dev = easy_treebank(40, 2)
    settings = replace(SMALL, epochs=8, learning_rate=1e-2, window=80, batch_windows=2)
    learner = SegmenterLearner(RunningText(easy_treebank(150, 1), settings, ANY_TREEBANK), dev)

    epochs = list(learner.epochs())

    scores = {name: score.f1 for name, score in text_scores(learner.segmenter, raw_text(dev).text, dev).items()}
    assert scores == max((f1 for _, _, f1 in epochs), key=lambda f1: f1["Words"] + f1["Sentences"])
    assert {name: round(f1, 2) for name, f1 in scores.items()} == {"Tokens": 1, "Sentences": 1, "Words": 1}
    assert epochs[0][2]["Words"] < 0.9


def test_the_best_epoch_is_kept(monkeypatch):
    text = RunningText(easy_treebank(20, 1), replace(SMALL, epochs=3, window=100), ANY_TREEBANK)
    learner = SegmenterLearner(text, easy_treebank(5, 2))
    f1, kept = iter([0.2, 0.9, 0.5]), []

    def measure():
        kept.append({name: each.clone() for name, each in learner.network.state_dict().items()})
        return dict.fromkeys(("Tokens", "Words", "Sentences"), next(f1))

    monkeypatch.setattr(learner, "dev_f1", measure)

    list(learner.epochs())

    assert all(torch.equal(each, kept[1][name]) for name, each in learner.segmenter.network.state_dict().items())


def test_a_segmenter_depends_only_on_the_seed():
    def learned(seed):
        text = RunningText(easy_treebank(20, 1), replace(SMALL, epochs=1, masking=0.1), ANY_TREEBANK)
        learner = SegmenterLearner(text, easy_treebank(5, 2), seed=seed)
        list(learner.epochs())
        return learner.segmenter.network

    assert same_weights(learned(1), learned(1))
    assert not same_weights(learned(1), learned(2))


def of_treebanks(**sentences):
    return [replace(each, treebank=code) for code, some in sentences.items() for each in some]


@pytest.mark.parametrize("share", [0.1, 2.5])
def test_a_share_of_the_documents_is_drawn_and_all_are_drawn_before_one_is_repeated(share):
    treebank = Documents.of(document("#A", "#B", "#C", "#D"))

    counts = Counter(treebank.draw(PLAIN, np.random.default_rng(1), share=share).text.split())

    assert sum(counts.values()) == max(1, round(4 * share))
    assert max(counts.values()) - min(counts[each] for each in "ABCD") <= 1


def test_with_a_balance_small_treebanks_are_drawn_more_often():
    train = of_treebanks(aa_one=document(*["#a a a"] * 90), bb_two=document(*["#b b b"] * 10))

    def words(balance):
        found = RunningText(train, PLAIN, replace(ANY_TREEBANK, balance=balance)).draw(np.random.default_rng(1))
        return {code: len(text.spans) for code, text in found}

    assert words(1.0) == {"aa_one": 270, "bb_two": 30}
    assert words(0.5) == {"aa_one": 225, "bb_two": 75}
    assert words(0.0) == {"aa_one": 150, "bb_two": 150}


def test_codes_of_treebanks_are_left_out_for_a_share_of_the_windows():
    rng = np.random.default_rng(1)

    assert 50 < without_some(["aa_one"] * 1000, 0.1, rng).count("") < 150
    assert without_some(["aa_one"] * 9, 0.0, rng) == ["aa_one"] * 9
    before = rng.bit_generator.state
    assert without_some([""] * 9, 0.1, rng) == [""] * 9
    assert rng.bit_generator.state == before  # a single treebank is trained as by earlier versions


def test_a_new_segmenter_has_the_habits_of_each_treebank():
    spaced = [sentence(("a a", "_"), ("www.x", "SpaceAfter=No"), (".y", "_"))]
    marked = [sentence(("de+l", "_"), (".", "_"))]

    segmenter = new_segmenter(of_treebanks(aa_one=spaced, bb_two=marked), PLAIN)

    assert segmenter.treebanks == ("aa_one", "bb_two")
    one, two, unknown = (segmenter.for_treebank(code).rules for code in ("aa_one", "bb_two", ""))
    assert (one.most_spaces, two.most_spaces, unknown.most_spaces) == (1, 0, 0)
    assert (one.marks_ends, two.marks_ends, unknown.marks_ends) == (False, True, True)
    assert (two.multiwords.split("del"), unknown.multiwords.split("del")) == (("de", "l"), ("del",))
    assert "url" in two.whole_spans
    assert "url" not in one.whole_spans
    assert unknown.whole_spans == one.whole_spans  # those of all treebanks
