import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated_inputs import (
    LABELS,
    WAYS_TO_READ,
    arcs_over,
    decisions_on,
    inputs_of,
    sentences_in_pieces,
)
from treefine.config import RelationSettings
from treefine.model.batch import ARC, HEAD, LABEL, NOTHING, Graphs
from treefine.model.relations import NONE, n_relations, relate
from treefine.model.vocabulary import NO_HEAD, UNSEEN, Vocabulary
from treefine.treebank.graph import Arcs

VOCABULARY = Vocabulary(labels=LABELS)
DET, NSUBJ, ROOT_LABEL = range(3)
PIECE = 3  # the kind of arc from a word's first piece to its other pieces
N_KINDS = 4


def naive_relations(words, heads, labels, settings, decided=None):
    """Compute the matrix of Fig. 2 for one row, cell by cell: [query][key]. Word 0 is ROOT; -1 is a special piece."""
    is_labelled, n_labels = settings.graph == "labelled", len(LABELS)
    n_kinds = (n_labels if is_labelled else 1) + 1
    if settings.decided:
        n_kinds = 3 * n_labels + 2 if is_labelled else 3
    has_graph = any(head != NO_HEAD for head in heads) or bool(settings.decided and decided and any(decided))
    first = {word: words.index(word) for word in words if word >= 0}

    def arc(above, below):
        """Return the kind of arc between two pieces, or None."""
        head, dependent = words[above], words[below]
        if min(head, dependent) < 0 or not has_graph:
            return None
        what = decided[dependent] if settings.decided and decided else NOTHING
        label = labels[dependent]
        if head == dependent:
            if above == below == first[head] and is_labelled and what == LABEL and heads[head] < 0 and label >= 0:
                return 2 * n_labels + label
            return n_kinds - 1 if above == first[head] and below != first[head] else None
        if heads[dependent] != head or above != first[head] or below != first[dependent]:
            return None
        if not is_labelled:
            return int(what in (ARC, HEAD))
        if what == HEAD or (what == ARC and label == UNSEEN):
            return 3 * n_labels
        return None if label == UNSEEN else label + n_labels * {NOTHING: 0, ARC: 1, LABEL: 2}[what]

    def relation(query, key):
        down, up = arc(query, key), arc(key, query)
        if query != key and up is not None and down is not None and settings.two_cycles == "erased":
            return NONE
        if up is not None:
            return up + 1 + n_kinds
        return NONE if down is None else down + 1

    return [[relation(query, key) for key in range(len(words))] for query in range(len(words))]


def dense(relations):
    """Return the relation of each query to each key, as attention reads it: [row, query, key]."""
    is_above = relations.above[:, :, None] == torch.arange(relations.above.shape[1])  # [row, query, key]
    up = torch.where(is_above, relations.up[:, :, None], NONE)
    down = torch.where(is_above.transpose(1, 2), relations.down[:, None], NONE)
    assert not ((up != NONE) & (down != NONE)).any()
    return up + down


def matrix_of(sentence, heads, labels, settings=None):
    """Return the matrix of one sentence; piece 0 is CLS, piece 1 is ROOT."""
    inputs = inputs_of([sentence])
    graphs = Graphs.of([Arcs(tuple(heads), tuple(labels))], VOCABULARY)
    return dense(relate(inputs, graphs, len(LABELS), settings or RelationSettings()))[0].tolist()


def test_a_head_sees_the_label_and_a_dependent_the_label_reversed():
    matrix = matrix_of([[7], [8]], [2, 0], ["nsubj", "root"])

    down, up = 1, 1 + N_KINDS
    assert matrix == [
        [0, 0, 0, 0, 0],  # CLS
        [0, 0, 0, ROOT_LABEL + down, 0],  # ROOT
        [0, 0, 0, NSUBJ + up, 0],  # word 1
        [0, ROOT_LABEL + up, NSUBJ + down, 0, 0],  # word 2
        [0, 0, 0, 0, 0],  # SEP
    ]


def test_the_other_pieces_of_a_word_attach_to_its_first_piece():
    matrix = matrix_of([[7, 8, 9]], [0], ["root"])

    down, up = 1, 1 + N_KINDS
    assert matrix == [
        [0, 0, 0, 0, 0, 0],
        [0, 0, ROOT_LABEL + down, 0, 0, 0],
        [0, ROOT_LABEL + up, 0, PIECE + down, PIECE + down, 0],
        [0, 0, PIECE + up, 0, 0, 0],
        [0, 0, PIECE + up, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]


def test_words_that_are_each_others_head_see_their_own_heads():
    matrix = matrix_of([[7], [8]], [2, 1], ["nsubj", "det"])

    assert matrix[2][3] == NSUBJ + 1 + N_KINDS
    assert matrix[3][2] == DET + 1 + N_KINDS


def test_words_that_are_each_others_head_lose_both_arcs_if_two_cycles_are_erased():
    settings = RelationSettings(two_cycles="erased")

    matrix = matrix_of([[7], [8], [9]], [2, 1, 1], ["nsubj", "det", "det"], settings)

    assert matrix[2][3] == matrix[3][2] == NONE
    assert matrix[2][4] == DET + 1


def test_an_arc_with_an_unknown_label_is_read_only_by_models_of_unlabelled_graphs():
    labelled = matrix_of([[7], [8]], [2, 0], ["never-seen", "root"])
    unlabelled = matrix_of([[7], [8]], [2, 0], ["never-seen", "root"], RelationSettings(graph="unlabelled"))

    assert labelled[2][3] == labelled[3][2] == NONE
    assert (unlabelled[2][3], unlabelled[3][2]) == (3, 1)


def test_decided_arcs_have_rows_of_their_own():
    of_labels = 3 * 3  # predicted arcs, decided arcs, and decided labels of predicted arcs
    assert n_relations(3, RelationSettings(decided=True)) == 2 * (of_labels + 1 + 1) + 1
    assert n_relations(3, RelationSettings(graph="unlabelled", decided=True)) == 2 * (2 + 1) + 1


def decided_matrix(decided, heads, labels):
    """Return the matrix of two words of one piece each, and the number of kinds; piece 1 is ROOT."""
    settings = RelationSettings(decided=True)
    graphs = Graphs(
        torch.tensor([[NO_HEAD, *heads]]), torch.tensor([[UNSEEN, *labels]]), True, torch.tensor([[NOTHING, *decided]])
    )
    return dense(relate(inputs_of([[[7], [8]]]), graphs, len(LABELS), settings))[0].tolist()


def test_a_decided_label_without_a_head_relates_a_word_to_itself():
    up = 1 + (3 * len(LABELS) + 2)

    matrix = decided_matrix([LABEL, NOTHING], [NO_HEAD, NO_HEAD], [NSUBJ, UNSEEN])

    assert matrix[2][2] == 2 * len(LABELS) + NSUBJ + up
    assert sum(map(sum, matrix)) == matrix[2][2]


@pytest.mark.parametrize("graph", ["labelled", "unlabelled"])
@pytest.mark.parametrize("two_cycles", ["kept", "erased"])
@given(data=st.data())
def test_the_relations_equal_a_double_loop_over_the_pieces(graph, two_cycles, data):
    settings = RelationSettings(graph=graph, two_cycles=two_cycles, decided=data.draw(st.booleans()))
    sentences = data.draw(sentences_in_pieces())
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    n_positions = data.draw(st.sampled_from([4, 7, 8, 11, 15, 64]))  # small values split a sentence into windows
    inputs, graphs = inputs_of(sentences, n_positions), Graphs.of(arcs, VOCABULARY)
    if data.draw(st.booleans()):
        graphs = data.draw(decisions_on(graphs))

    relations = relate(inputs, graphs, len(LABELS), settings)

    for row, (sentence, matrix) in enumerate(zip(inputs.sentences.tolist(), dense(relations).tolist(), strict=True)):
        words, heads = inputs.words[row].tolist(), graphs.heads[sentence].tolist()
        decided = None if graphs.decided is None else graphs.decided[sentence].tolist()
        assert matrix == naive_relations(words, heads, graphs.labels[sentence].tolist(), settings, decided)
        has_decisions = settings.decided and any(decided or ())
        assert relations.has_graph[row] == (has_decisions or any(head is not None for head in arcs[sentence].heads))


@given(data=st.data())
def test_every_relation_has_a_row_in_the_tables(data):
    settings = data.draw(st.sampled_from(WAYS_TO_READ))
    sentences = data.draw(sentences_in_pieces(max_sentences=2))
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]

    relations = relate(inputs_of(sentences), Graphs.of(arcs, VOCABULARY), len(LABELS), settings)

    ids = torch.cat([relations.up.flatten(), relations.down.flatten()])
    assert (ids >= 0).all()
    assert (ids < n_relations(len(LABELS), settings)).all()


@given(data=st.data())
def test_a_slice_of_relations_contains_these_rows(data):
    sentences = data.draw(sentences_in_pieces(min_sentences=3))
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    relations = relate(inputs_of(sentences), Graphs.of(arcs, VOCABULARY), len(LABELS), RelationSettings())

    part = relations[1:3]

    assert torch.equal(dense(part), dense(relations)[1:3])
    assert torch.equal(part.has_graph, relations.has_graph[1:3])
