"""Tests check the shapes in signatures; see tests/support/shapes.py."""

import pytest
import torch
from jaxtyping import TypeCheckError

from tests.support.shapes import _FIRST_CHECKS, start_checks
from treefine.model.scorer import label_scores

WRONG = torch.zeros(1, 2, 3), torch.zeros(1, 2, 4), torch.zeros(5, 3, 3)  # dependents and heads of different widths
RIGHT = torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.zeros(5, 3, 3)


def rejects_wrong_shapes():
    with pytest.raises((TypeCheckError, RuntimeError)) as caught:
        label_scores(*WRONG)
    return caught.type is TypeCheckError


@pytest.mark.parametrize("all_calls", [True, False])
def test_a_wrong_shape_is_an_error_in_all_calls_or_in_the_first_calls_of_a_test(all_calls):
    start_checks(all_calls=all_calls)

    assert rejects_wrong_shapes()
    for _ in range(_FIRST_CHECKS):
        label_scores(*RIGHT)

    assert rejects_wrong_shapes() == all_calls


def test_in_the_next_test_shapes_are_checked_again():
    assert rejects_wrong_shapes()
