"""Calibration errors equal slow counts, examples by hand, and the expectation of probability theory."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy.calibration import (
    brier_score,
    calibration_error,
    chance_error,
    equal_mass,
    equal_width,
    reliability_bins,
)
from benchmarks.pages.english import draw_reliability

claims = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)
n_bins = st.integers(1, 15)


def arrays(pairs):
    return np.array([each for each, _ in pairs]), np.array([each for _, each in pairs])


def slow_error(groups):
    """Compute the error by its definition, group by group."""
    total = sum(map(len, groups))
    error = 0.0
    for group in groups:
        if group:
            confidence = sum(each for each, _ in group) / len(group)
            accuracy = sum(1 for _, is_right in group if is_right) / len(group)
            error += len(group) / total * abs(accuracy - confidence)
    return error


def slow_width_groups(pairs, n_bins):
    groups = [[] for _ in range(n_bins)]
    for confidence, is_right in pairs:
        number = 0
        while number < n_bins - 1 and confidence * n_bins >= number + 1:
            number += 1
        groups[number].append((confidence, is_right))
    return groups


@given(claims, n_bins)
def test_the_error_equals_a_slow_count(pairs, n_bins):
    found = calibration_error(*arrays(pairs), n_bins=n_bins)

    assert found == pytest.approx(slow_error(slow_width_groups(pairs, n_bins)), abs=1e-9)


@given(claims, n_bins)
def test_the_error_of_equal_mass_equals_that_of_slices_of_the_sorted_claims(pairs, n_bins):
    found = calibration_error(*arrays(pairs), n_bins=n_bins, kind="mass")

    ordered = sorted(pairs, key=lambda pair: pair[0])
    sizes = [len(pairs) // n_bins + (number < len(pairs) % n_bins) for number in range(n_bins)]
    ends = np.cumsum([0, *sizes]).tolist()
    groups = [ordered[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    assert found == pytest.approx(slow_error(groups), abs=1e-9)


def test_two_bins_by_hand():
    confidences = np.array([0.95, 0.95, 0.95, 0.95, 0.15])
    is_right = np.array([True, True, True, False, False])

    # 4/5 · |0.75 − 0.95| + 1/5 · |0 − 0.15|
    assert calibration_error(confidences, is_right) == pytest.approx(0.19)


def test_opposite_errors_cancel_in_one_bin_but_not_in_two():
    confidences, is_right = np.array([0.55, 0.45]), np.array([False, True])

    assert calibration_error(confidences, is_right, n_bins=1) == pytest.approx(0.0)
    assert calibration_error(confidences, is_right, n_bins=2) == pytest.approx(0.55)


def test_a_bin_contains_its_lower_edge_and_the_last_bin_also_1():
    assert equal_width(np.array([0.0, 0.25, 0.5, 0.999, 1.0]), 4).tolist() == [0, 1, 2, 3, 3]


def test_bins_of_equal_mass_have_equal_sizes():
    bins = equal_mass(np.array([0.99, 0.98, 0.97, 0.1, 0.99, 0.96]), 3)

    assert bins.tolist() == [2, 1, 1, 0, 2, 0]


def test_the_error_by_chance_is_the_expectation_of_probability_theory():
    n_claims, probability = 1000, 0.8

    found = chance_error(np.full(n_claims, probability), seed=1, n_simulations=2000)

    # The gap of one full bin is nearly normal, and the mean of its size is √(2/π) standard deviations.
    expected = math.sqrt(2 / math.pi * probability * (1 - probability) / n_claims)
    assert found == pytest.approx(expected, rel=0.05)


def test_the_error_by_chance_is_deterministic_and_smaller_for_more_claims():
    few, many = (np.linspace(0.05, 0.95, n_claims) for n_claims in (100, 10_000))

    assert chance_error(few, n_simulations=50) == chance_error(few, n_simulations=50)
    assert chance_error(many, n_simulations=50) == pytest.approx(chance_error(few, n_simulations=50) / 10, rel=0.3)


def test_certain_claims_have_no_error_by_chance():
    assert chance_error(np.array([0.0, 1.0, 1.0]), n_simulations=10) == 0


def test_the_brier_score_by_hand():
    assert brier_score(np.array([0.9, 0.4]), np.array([True, True])) == pytest.approx((0.01 + 0.36) / 2)


@given(claims)
def test_bins_count_each_claim_once(pairs):
    confidences, is_right = arrays(pairs)

    bins = reliability_bins(confidences, is_right)

    assert sum(each.size for each in bins) == len(pairs)
    assert sum(each.size * each.confidence for each in bins) == pytest.approx(confidences.sum(), abs=1e-3)
    assert sum(each.size * each.right for each in bins) == pytest.approx(is_right.sum(), abs=1e-3)
    assert all(each.start <= each.confidence <= each.end for each in bins if each.size)


def test_the_figure_has_a_bar_per_bin_a_point_per_nonempty_bin_and_the_error():
    bins = reliability_bins(np.array([0.95, 0.97, 0.12]), np.array([True, False, False]))

    drawn = ElementTree.fromstring(draw_reliability({"head <&>": bins}, {"head <&>": 0.123}, heading="en, dev"))

    named = [each for each in drawn.iter() if each.get("class")]
    points = [each for each in named if each.get("class") == "point"]
    assert sum(each.get("class") == "bar" for each in named) == 10
    assert [float(each.get("cx")) / 220 for each in points] == pytest.approx([0.12, 0.96], abs=0.001)
    assert [1 - float(each.get("cy")) / 220 for each in points] == pytest.approx([0, 0.5])
    assert "head <&>: error 12.3%" in [each.text for each in named]
