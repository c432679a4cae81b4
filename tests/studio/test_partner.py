"""The parser beside a person: it never changes what a person or another parser chose, and it never stops the studio."""

import random

import pytest

from tests.support.studio import DOG, arcs_by_word, conllu
from tests.support.tiny import short, tiny_model, tiny_parser
from treefine import Sentence
from treefine.errors import ModelError, TreefineError
from treefine.parsing.parser import Parser
from treefine.studio.actions import decisions_of
from treefine.studio.partner import DOUBTFUL, Partner
from treefine.treebank import edits
from treefine.treebank.conllu import Stretch, read_stretch, tree_faults
from treefine.treebank.constraints import Constraints
from treefine.treebank.sentence import CONLLU


def loaded(load, name="tiny"):
    """Return a partner that has loaded its parser, or tried to."""
    partner = Partner(load, name)
    partner.may_load.set()
    partner.wait()
    return partner


@pytest.fixture(scope="module")
def tiny():
    """Return a partner that reads graphs, with random weights: its trees are bad, and it doubts nearly everything."""
    partner = loaded(lambda name: tiny_parser())
    yield partner
    partner.close()


def read(text):
    return next(read_stretch(Stretch(text.encode(), 1), CONLLU, ""))


def is_tree(sentence):
    return not any(tree_faults(sentence, needs_one_root=True))


def attached(sentence, word, head, label=None):
    """Return the sentence after a person has attached a word, which is decided."""
    decided = Constraints({word: head}, {} if label is None else {word: label})
    return decided.mark(edits.set_arc(sentence, word, head, label))


# What follows from a correction


def test_follow_changes_only_what_was_the_parsers_own_choice_and_is_not_decided(tiny):
    chance, n_followed = random.Random(3), 0
    for sentence in [each for each in short(30, longest=10) if len(each) > 2]:
        before = tiny.parse(tiny.parse(sentence))
        for _ in range(chance.randint(0, 2)):  # arcs that somebody else chose
            before = edits.set_arc(before, *chance.sample(range(1, len(before) + 1), 2), "nsubj:other")
        some = chance.sample(range(1, len(before) + 1), 2)
        before = Constraints(heads={word: before.heads[word - 1] for word in some}).mark(before)
        word, head = chance.sample(range(1, len(before) + 1), 2)
        after = attached(before, word, head, chance.choice([None, "obl"]))

        followed = tiny.follow(before, after)

        if followed is None:
            continue
        n_followed += 1
        decided = decisions_of(after)
        assert decisions_of(followed) == decided
        assert is_tree(followed)
        own, old, new, found = map(arcs_by_word, (tiny.parse(before), before, after, followed))
        for word in [word for word in new if found[word] != new[word]]:
            assert word not in decided.heads or found[word][0] == decided.heads[word]
            assert word not in decided.labels
            assert old[word] == own[word] or old[word] != new[word]  # or the correction itself moved it
    assert n_followed > 1


def test_a_forbidden_arc_is_replaced_also_if_it_was_not_the_parsers_choice(tiny):
    sentence = read(DOG)
    own, others = arcs_by_word(tiny.parse(sentence)), arcs_by_word(sentence)
    words = [word for word in others if own[word] != others[word] and others[word][1] != "root"]
    assert len(words) > 3

    for word in words:
        forbidden = Constraints(not_labels={word: [sentence.labels[word - 1]]}).mark(sentence)
        found = tiny.follow(sentence, forbidden)

        assert is_tree(found)
        assert found.labels[word - 1] != sentence.labels[word - 1]


@pytest.mark.parametrize(
    "decided",
    [
        Constraints(heads={1: 0, 2: 0}),
        Constraints(heads={1: 2, 2: 1}),
        Constraints(not_heads={1: [0, 2, 3]}),
        Constraints(heads={3: 9}),
    ],
    ids=str,
)
def test_decisions_that_contradict_each_other_stop_nothing(tiny, decided):
    sentence = read(conllu("1 a _ _ _ _ 2 det _ _\n2 b _ _ _ _ 0 root _ _\n3 c _ _ _ _ 2 obj _ _"))
    contradictory = decided.mark(sentence)

    assert tiny.follow(sentence, contradictory) is None
    assert tiny.follow(contradictory, sentence) is None
    assert tiny.parse(contradictory) is None
    assert tiny.advise(contradictory).suggestions == ()
    rated = tiny.rate([sentence, contradictory, sentence])
    assert rated[0] == rated[2]
    assert set(rated[1].confidence) == {1.0}


# Advice


def test_suggestions_differ_from_the_sentence_and_agree_with_the_decisions(tiny):
    chance, n_seen = random.Random(5), 0
    for sentence in short(12, longest=12):
        some = chance.sample(range(1, len(sentence) + 1), len(sentence) // 2)
        heads = {word: sentence.heads[word - 1] for word in some}
        labels = {word: sentence.labels[word - 1] for word in some[::2]}
        decided = Constraints(heads, labels).mark(sentence)

        advice = tiny.advise(decided)

        for each in advice.suggestions:
            n_seen += 1
            assert (each.head, each.label) != arcs_by_word(sentence)[each.word]
            assert advice.confidence[each.word - 1] < DOUBTFUL
            changed = edits.set_arc(decided, each.word, each.head, each.label)
            assert decisions_of(changed) == decisions_of(decided)
            assert is_tree(changed)
        sure = [advice.confidence[each.word - 1] for each in advice.suggestions]
        assert sure == sorted(sure)
        assert len(sure) <= 5
        assert all(advice.confidence[word - 1] == 1.0 for word in labels)
    assert n_seen > 10


def test_ratings_are_the_confidences_of_the_advice(tiny):
    sentences = short(6, longest=12)

    assert [each.confidence for each in tiny.rate(sentences)] == [
        pytest.approx(tiny.advise(each).confidence, abs=1e-4) for each in sentences
    ]


def test_a_very_long_sentence_is_edited_without_the_parser(tiny):
    long = Sentence.of_words(["a"] * 401)
    brief = read(DOG)

    assert tiny.parse(long) is None
    assert tiny.follow(long, attached(long, 1, 2, "det")) is None
    assert [each.n_wrong for each in tiny.rate([long, brief, long])] == [401, tiny.rate([brief])[0].n_wrong, 401]


# Loading


@pytest.mark.parametrize(
    ("error", "fault"), [(ModelError("It is damaged."), "It is damaged."), (KeyError(), "KeyError")]
)
def test_a_parser_that_cannot_be_loaded_gives_a_fault(error, fault):
    def load(name):
        raise error

    partner = loaded(load)

    assert (partner.is_ready, partner.fault, partner.labels) == (False, fault, ())
    with pytest.raises(TreefineError) as raised:
        partner.advise(read(DOG))
    assert (raised.value.message, raised.value.hint) == ("The parser is not loaded.", fault)
    partner.close()


def test_another_model_replaces_the_present_one_if_it_can_be_loaded():
    parsers = {"first": tiny_parser(), "second": Parser(tiny_model(seed=2), device="cpu")}
    partner = loaded(parsers.__getitem__, "first")
    before = partner.advise(read(DOG))

    with pytest.raises(TreefineError, match="The new model cannot be loaded. 'third'"):
        partner.use("third")
    assert (partner.name, partner.advise(read(DOG))) == ("first", before)
    partner.use("second")

    assert (partner.name, partner.fault) == ("second", "")
    assert partner.advise(read(DOG)) != before
    partner.close()


def test_the_parser_is_loaded_when_the_page_is_shown_and_not_after_closing():
    asked = []
    waiting = Partner(lambda name: asked.append(name) or tiny_parser(), "tiny")
    assert not asked
    waiting.may_load.set()
    waiting.wait()
    assert (asked, waiting.is_ready) == (["tiny"], True)
    waiting.close()

    closed = Partner(lambda name: asked.append(name), "never")
    closed.close()
    closed.wait()

    assert asked == ["tiny"]
