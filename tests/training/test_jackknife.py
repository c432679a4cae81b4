from hypothesis import given
from hypothesis import strategies as st

from treefine.training.data import fold_ranges


@given(n_sentences=st.integers(0, 500), folds=st.integers(1, 60))
def test_the_blocks_are_a_partition_into_nearly_equal_stretches(n_sentences, folds):
    found = fold_ranges(n_sentences, folds)

    assert len(found) == folds
    assert [number for block in found for number in block] == list(range(n_sentences))
    assert max(map(len, found)) - min(map(len, found)) <= 1
