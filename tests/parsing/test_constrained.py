"""Trees that satisfy a user's constraints."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsing.test_decode import every_tree
from tests.support.generated import random_heads
from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Parser, Sentence, TreebankError
from treefine.config import DecodeSettings, RelationSettings
from treefine.parsing.initial import input_trees, renamed
from treefine.treebank.constraints import Constraints
from treefine.treebank.graph import Arcs

WORDS = ("The", "old", "man", "sleeps", ".")
pytestmark = pytest.mark.filterwarnings("ignore::treefine.errors.UnknownLabelWarning")


@pytest.fixture(scope="module")
def parser():
    return tiny_parser(max_steps=3)


@pytest.fixture(scope="module")
def syntr():
    """Return a parser whose scores do not depend on the graph, and so not on the constraints."""
    decode = DecodeSettings(root_label="root")
    return Parser(tiny_model(relations=RelationSettings(graph="none"), decode=decode), device="cpu")


@st.composite
def decisions(draw, n_words=4):
    """Draw constraints that at least one tree satisfies."""
    heads = draw(random_heads(n_words))
    labels = ["root" if head == 0 else draw(st.sampled_from(["nsubj", "obj", "det", "xyz"])) for head in heads]
    words = range(1, n_words + 1)
    kept = {word: heads[word - 1] for word in words if draw(st.booleans())}
    names = {word: labels[word - 1] for word in words if draw(st.booleans())}
    other_heads = st.lists(st.integers(0, n_words), max_size=3)
    not_heads = {word: [head for head in draw(other_heads) if head not in (word, heads[word - 1])] for word in words}
    not_labels = {
        word: [label for label in draw(st.lists(st.sampled_from(["nsubj", "obj", "conj"]), max_size=2))
               if label != labels[word - 1]]
        for word in words
    }  # fmt: skip
    return Constraints(kept, names, not_heads, not_labels)


def obeys(tree, decided):
    return all(
        tree.heads[word] == decided.heads.get(word, tree.heads[word])
        and tree.labels[word] == decided.labels.get(word, tree.labels[word])
        and tree.heads[word] not in decided.not_heads.get(word, ())
        and tree.labels[word] not in decided.not_labels.get(word, ())
        for word in range(1, len(tree) + 1)
    )


@settings(max_examples=60, deadline=None)
@given(decisions())
def test_every_step_satisfies_the_constraints(parser, decided):
    for step in parser.steps(WORDS[:4], constraints=decided):
        assert step.tree.is_tree
        assert obeys(step.graph, decided)
        assert obeys(step.tree, decided)


@settings(max_examples=60, deadline=None)
@given(decisions(), st.booleans())
def test_no_tree_that_satisfies_the_constraints_has_a_higher_score(syntr, decided, projective):
    """Fixed labels say whether a word may be the root; heads say everything else."""
    (free,) = syntr.steps(WORDS[:4])
    log_arcs = free.arc_scores - np.logaddexp.reduce(free.arc_scores, axis=-1, keepdims=True)

    def total(heads):
        return sum(log_arcs[word, heads[word]] for word in range(1, 5))

    def is_allowed(heads):
        return all(
            heads[word] == decided.heads.get(word, heads[word])
            and heads[word] not in decided.not_heads.get(word, ())
            and (decided.labels.get(word, "xyz") == "xyz" or (decided.labels[word] == "root") == (heads[word] == 0))
            for word in range(1, 5)
        )

    allowed = [total(heads) for heads in every_tree(4, projective=projective).tolist() if is_allowed(heads)]
    constrained = syntr.using(is_projective=projective)
    if not allowed:
        with pytest.raises(TreebankError, match="No projective tree satisfies"):
            constrained.parse(WORDS[:4], constraints=decided)
        return

    tree = constrained.parse(WORDS[:4], constraints=decided).tree

    assert total(tree.heads) == pytest.approx(max(allowed), abs=1e-5)


def test_constraints_hold_in_every_batch(parser):
    """Sentences without constraints do not change."""
    sentences = sample(20)
    decided = [
        Constraints(heads={1: 0}, not_labels={2: ["punct"]}) if number % 3 == 0 and len(each) > 1 else Constraints()
        for number, each in enumerate(sentences)
    ]

    together = list(parser.stream_trees(sentences, constraints=decided))

    alone = [parser.parse(each, constraints=some).sentence for each, some in zip(sentences, decided, strict=True)]
    assert together == alone
    free = list(parser.stream_trees(sentences))
    assert all(ours == theirs for ours, theirs, some in zip(together, free, decided, strict=True) if not some)
    assert any(ours != theirs for ours, theirs in zip(together, free, strict=True))


def test_fixed_arcs_and_labels_have_confidence_1(parser):
    (parse,) = parser.stream([WORDS], constraints=[Constraints(heads={1: 2, 2: 0}, labels={1: "xyz", 3: "obj"})])

    confidences = parse.word_confidences
    assert [each.arc for each in confidences[:2]] == [1.0, 1.0]
    assert [confidences[0].label, confidences[2].label] == [1.0, 1.0]
    assert parse.labels[0] == "xyz"


def test_a_kept_label_of_another_scheme_is_read_by_its_known_name_and_does_not_change(parser):
    sentence = marked(["_", "_", "Keep=Arc", "_", "_"], labels=("det", "amod", "dobj", "root", "punct"))
    known = marked(["_", "_", "Keep=Arc", "_", "_"], labels=("det", "amod", "obj", "root", "punct"))
    labels = parser.model.vocabulary.labels
    refining = parser.using(initial=renamed(input_trees, labels))

    (parse,) = refining.stream([sentence])

    assert parse.labels[2] == "dobj"
    assert 3 not in {change.word for change in parse.changes}
    (same,) = refining.stream([known])
    assert parse.heads == same.heads
    assert parse.word_confidences == same.word_confidences


def marked(notes, heads=(3, 3, 4, 0, 4), labels=("det", "amod", "nsubj", "root", "punct")):
    return Sentence.of_words(WORDS).with_arcs(Arcs(heads, labels)).with_misc(notes)


def test_marks_are_respected_by_default(parser):
    sentence = marked(["Keep=Arc", "_", "NotHead=4", "Keep=Head", "_"])

    parsed = parser.parse(sentence).sentence

    assert (parsed.heads[0], parsed.labels[0], parsed.heads[3]) == (3, "det", 0)
    assert parsed.heads[2] != 4
    assert parsed.column(9) == sentence.column(9)
    free = parser.using(keep="nothing").parse(sentence)
    assert free.tree == parser.parse(Sentence.of_words(WORDS)).tree


def test_keep_given_keeps_all_arcs_and_fills_the_blanks(parser):
    partial = marked(["_"] * 5, (3, None, None, 0, None), ("det", "_", "obj", "_", "_"))

    parsed = parser.using(keep="given").parse(partial)

    assert parsed.tree.is_tree
    assert (parsed.heads[0], parsed.heads[3]) == (3, 0)
    assert (parsed.labels[0], parsed.labels[2]) == ("det", "obj")


@pytest.mark.parametrize(
    ("decided", "message"),
    [
        (
            Constraints(heads={1: 2, 2: 1, 4: 0}),
            "word 1 'The' must attach to 2 'old'; word 2 'old' must attach to 1 'The'",
        ),
        (Constraints(heads={3: 0, 4: 0, 1: 3}), "word 3 'man' must be the root; word 4 'sleeps' must be the root"),
        (
            Constraints(labels={1: "root", 3: "root"}),
            "word 1 'The' must have the label root; word 3 'man' must have the label root",
        ),
        (
            Constraints(not_heads={word: [0] for word in range(1, 6)}),
            "; ".join(f"word {word} {form!r} must not be the root" for word, form in enumerate(WORDS, start=1)),
        ),
    ],
)
def test_an_error_names_only_the_constraints_that_contradict_each_other(parser, decided, message):
    rooted = Parser(tiny_model(decode=DecodeSettings(root_label="root")), device="cpu")

    with pytest.raises(TreebankError) as caught:
        rooted.parse(WORDS, constraints=decided)

    assert f": {message}. Change one of them." in str(caught.value)


def test_a_model_reads_what_was_decided():
    model = tiny_model(relations=RelationSettings(decided=True), scale=1.0)
    parser = Parser(model, device="cpu", max_steps=3)
    arc, head, label = {"heads": {1: 3}, "labels": {1: "det"}}, {"heads": {1: 3}}, {"labels": {1: "det"}}

    free, *decided = (
        parser.steps(WORDS, constraints=each)[0].arc_probabilities[2:] for each in (None, arc, head, label)
    )

    assert not any(np.allclose(each, free, atol=1e-4) for each in decided)
