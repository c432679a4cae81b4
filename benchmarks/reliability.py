"""How far confidence is from how often it is right: bins, expected calibration error, what chance gives, Brier."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]
Kind = Literal["width", "mass"]

N_SIMULATIONS = 500


class Bin(NamedTuple):
    """What is between two confidences; means of nothing are 0."""

    start: float
    end: float
    size: int
    confidence: float  # the mean
    right: float  # the share


def equal_width(confidences: Numbers, n_bins: int) -> NDArray[np.int64]:
    """The bin of each confidence: bin k of n holds those from k/n to below (k+1)/n, the last one 1 as well."""
    return np.minimum((confidences * n_bins).astype(np.int64), n_bins - 1)


def equal_mass(confidences: Numbers, n_bins: int) -> NDArray[np.int64]:
    """The bin of each confidence where all bins hold as many as the others, give or take one; the lowest first."""
    found = np.zeros(len(confidences), dtype=np.int64)
    for number, members in enumerate(np.array_split(np.argsort(confidences, kind="stable"), n_bins)):
        found[members] = number
    return found


def calibration_error(confidences: Numbers, is_right: Truths, *, n_bins: int = 10, kind: Kind = "width") -> float:
    """The expected calibration error: by how much confidence and the share of right ones differ in a bin, weighted.

    >>> calibration_error(np.array([0.7, 0.7, 0.7, 0.7]), np.array([True, True, False, False])).round(6)
    0.2
    """
    place = equal_width if kind == "width" else equal_mass
    return _error(confidences, is_right, place(confidences, n_bins), n_bins)


def _error(confidences: Numbers, is_right: Truths, bins: NDArray[np.int64], n_bins: int) -> float:
    gaps = np.bincount(bins, weights=confidences - is_right, minlength=n_bins)
    return float(np.abs(gaps).sum() / max(1, len(confidences)))


def chance_error(
    confidences: Numbers, *, n_bins: int = 10, kind: Kind = "width", seed: int = 1, n_simulations: int = N_SIMULATIONS
) -> float:
    """The mean error of a parser whose confidence holds exactly, on as many words with the same confidences.

    Each is right by a draw of its own. Words of one sentence are wrong together, so chance gives more than this.
    """
    place = equal_width if kind == "width" else equal_mass
    bins, rng = place(confidences, n_bins), np.random.default_rng(seed)
    errors = [
        _error(confidences, rng.random(len(confidences)) < confidences, bins, n_bins) for _ in range(n_simulations)
    ]
    return float(np.mean(errors))


def brier_score(confidences: Numbers, is_right: Truths) -> float:
    """The mean square of what a confidence lacks of 1 where it is right, and of 0 where it is wrong."""
    return float(np.mean((confidences - is_right) ** 2)) if len(confidences) else 0.0


def reliability_bins(confidences: Numbers, is_right: Truths, *, n_bins: int = 10) -> list[Bin]:
    """The bins of equal width, for a figure."""
    bins = equal_width(confidences, n_bins)
    counts = np.bincount(bins, minlength=n_bins)
    sums = [np.bincount(bins, weights=each, minlength=n_bins) for each in (confidences, is_right)]
    means = [(each / np.maximum(1, counts)).round(6).tolist() for each in sums]
    edges = [round(number / n_bins, 6) for number in range(n_bins + 1)]
    return list(map(Bin, edges, edges[1:], counts.tolist(), *means))
