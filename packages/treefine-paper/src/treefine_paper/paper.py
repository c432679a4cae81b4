"""The numbers that the paper reports (Mohammadshahi and Henderson 2021), in percent.

The tables are copied as printed: `*` is bold, and the relative error reduction is in parentheses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LOW, HIGH = "Low-Resource", "High-Resource"


@dataclass(frozen=True)
class ScoreCell:
    """A score of a table, in percent."""

    score: float
    reduction: float | None = None  # of the errors of the initial parser, by refinement
    is_bold: bool = False  # not significantly different from the best of its row, or of its column in `PENN`

    def __str__(self) -> str:
        return f"{self.score:.2f}" + ("" if self.reduction is None else f" ({self.reduction:+.2f}%)")


def _cells(text: str) -> list[ScoreCell | None]:
    """Read the scores of a row; a dash is None.

    >>> [str(cell) for cell in _cells("82.88 *85.93(+17.81) -")]
    ['82.88', '85.93 (+17.81%)', 'None']
    """
    matches = [re.fullmatch(r"(\*?)([\d.]+)(?:\(([-+]?[\d.]+)\))?", cell) for cell in text.split()]
    return [m and ScoreCell(float(m[2]), float(m[3]) if m[3] else None, bool(m[1])) for m in matches]


def _ud(models: tuple[str, ...], text: str) -> dict[str, dict[str, ScoreCell]]:
    """Read a table of the UD treebanks: scores by code (or "Average") and model."""
    rows = [line.partition(" ") for line in text.strip().splitlines()]
    return {
        code: {model: cell for model, cell in zip(models, _cells(scores), strict=True) if cell}
        for code, _, scores in rows
    }


# Table 2: test LAS of the UD treebanks. Kulmizev et al. (2019) is "[1]" in the paper.
_LAS = _ud(
    ("Kulmizev et al. (2019)", "UDPipe", "UDify", "UDify+RNGTr", "SynTr", "SynTr+RNGTr", "Empty+RNGTr"),
    """
ar_padt 81.8 82.94 82.88 *85.93(+17.81) *86.23 *86.31(+0.58) *86.05
eu_bdt 79.8 82.86 80.97 87.55(+34.57) 87.49 *88.2(+5.68) *87.96
zh_gsd 83.4 80.5 83.75 89.05(+32.62) 89.53 *90.48(+9.08) 89.82
en_ewt 87.6 86.97 88.5 91.23(+23.74) *91.41 *91.52(+1.28) 91.23
fi_tdt 83.9 87.46 82.03 *91.87(+54.76) *91.80 *91.92(+1.46) *91.78
he_htb 85.9 86.86 88.11 90.80(+22.62) *91.07 *91.32(+2.79) 90.56
hi_hdtb 90.8 91.83 91.46 93.94(+29.04) 93.95 *94.21(+4.3) 93.97
it_isdt 91.7 91.54 93.69 94.65(+15.21) *95.08 *95.16(+1.62) *94.96
ja_gsd 92.1 93.73 92.08 *95.41(+42.06) *95.66 *95.71(+1.16) *95.56
ko_gsd 84.2 84.24 74.26 *89.12(+57.73) *89.29 *89.45(+1.5) *89.1
ru_syntagrus 91.0 92.32 93.13 *94.51(+20.09) *94.60 *94.47(-2.4) 94.31
sv_talbanken 86.9 86.61 89.03 92.02(+27.26) 92.03 *92.46(+5.4) *92.40
tr_imst 64.9 67.56 67.44 72.07(+14.22) *72.52 *73.08(+2.04) 71.99
Average 84.9 85.81 85.18 89.86 90.05 90.33 89.98
""",
)
# The training sets in Table 2, in thousands of sentences, in the order of the rows.
TRAIN_SIZES = dict(zip(_LAS, (6.1, 5.4, 4, 12.5, 12.2, 5.2, 13.3, 13.1, 7.1, 4.4, 48.8, 4.3, 3.7), strict=False))

# Appendix C: test UAS of the UD treebanks. The paper prints the reduction of Swedish with a comma.
_UAS = _ud(
    ("UDPipe", "UDify", "UDify+RNGTr", "SynTr", "SynTr+RNGTr", "Empty+RNGTr"),
    """
ar_padt 87.54 87.72 *89.73(+16.37) *89.89 *89.94(+0.49) *89.68
eu_bdt 86.11 84.94 90.49(+36.85) 90.46 *90.90(+4.61) *90.69
zh_gsd 84.64 87.93 91.04(+25.76) 91.38 *92.47(+12.64) 91.81
en_ewt 89.63 90.96 92.81(+20.46) *92.92 *93.08(+2.26) 92.77
fi_tdt 89.88 86.42 *93.49(+52.06) *93.52 *93.55(+0.47) *93.36
he_htb 89.70 91.63 93.03(+16.73) *93.36 *93.36(0.0) 92.80
hi_hdtb 94.85 95.13 96.44(+26.9) 96.33 *96.56(+6.27) 96.37
it_isdt 93.49 95.54 95.72(+4.04) *96.03 *96.10(+1.76) *95.98
ja_gsd 95.06 94.37 *96.25(+33.40) *96.43 *96.54(+3.08) *96.37
ko_gsd 87.70 82.74 *91.32(+49.71) *91.35 *91.49(+1.62) *91.28
ru_syntagrus 93.80 94.83 *95.54(+13.73) *95.53 *95.47(-1.34) *95.38
sv_talbanken 89.63 91.91 93.72(+22.37) 93.79 *94.14(+5.64) *94.14
tr_imst 74.19 74.56 77.74(+12.5) *77.98 *78.50(+2.37) 77.49
Average 88.94 89.13 92.10 92.23 92.46 92.16
""",
)
UD_SCORES = {"LAS": _LAS, "UAS": _UAS}

# Table 1, dev of tr_imst: model, UAS, LAS.
GRID = (
    ("SynTr", 75.62, 70.04),
    ("SynTr+RNGTr (T=1)", 76.37, 70.67),
    ("SynTr+RNGTr (T=3) w/o stop", 76.33, 70.61),
    ("SynTr+RNGTr (T=3)", 76.29, 70.84),
    ("UDify", 72.78, 65.48),
    ("UDify+RNGTr (T=1)", 74.13, 68.60),
    ("UDify+RNGTr (T=3) w/o stop", 75.68, 70.32),
    ("UDify+RNGTr (T=3)", 75.91, 70.66),
)


def _penn(text: str) -> dict[str, tuple[str, list[ScoreCell | None]]]:
    """Read Table 3 by model: "T" (transition-based) or "G", and test UAS and LAS of PTB, CTB and German."""
    rows = [line.split(" | ") for line in text.strip().splitlines()]
    return {model: (kind, _cells(scores)) for model, kind, scores in rows}


# Table 3: the Penn Treebanks and German, earlier parsers first.
PENN = _penn(
    """
Chen and Manning (2014) | T | 91.8 89.6 83.9 82.4 - -
Dyer et al. (2015) | T | 93.1 90.9 87.2 85.7 - -
Ballesteros et al. (2016) | T | 93.56 91.42 87.65 86.21 88.83 86.10
Cross and Huang (2016) | T | 93.42 91.36 86.35 85.71 - -
Weiss et al. (2015) | T | 94.26 92.41 - - - -
Andor et al. (2016) | T | 94.61 92.79 - - 90.91 89.15
Mohammadshahi and Henderson (2020) | T | 96.11 94.33 - - - -
Ma et al. (2018) | T | 95.87 94.19 90.59 89.29 93.65 92.11
Fernández-González and Gómez-Rodríguez (2019) | T | 96.04 94.43 - - - -
Kiperwasser and Goldberg (2016) | G | 93.1 91.0 86.6 85.1 - -
Wang and Chang (2016) | G | 94.08 91.82 87.55 86.23 - -
Cheng et al. (2016) | G | 94.10 91.49 88.1 85.7 - -
Kuncoro et al. (2016) | G | 94.26 92.06 88.87 87.30 91.60 89.24
Ma and Hovy (2017) | G | 94.88 92.98 89.05 87.74 92.58 90.54
Ji et al. (2019) | G | 95.97 94.31 - - - -
Li et al. (2019)+ELMo | G | 96.37 94.57 90.51 89.45 - -
Li et al. (2019)+BERT | G | 96.44 94.63 90.89 89.73 - -
Biaffine | G | 95.74 94.08 89.30 88.23 93.46 91.44
Biaffine+RNGTr | G | 96.44 94.71 91.85 90.12 94.68 93.30
SynTr | G | *96.60 *94.94 92.42 90.67 *95.11 *93.98
SynTr+RNGTr | G | *96.66 *95.01 *92.98 *91.18 *95.28 *94.02
"""
)


# Appendix B: training time (h:mm:ss) and seconds of evaluation on DEVICE. The initial parser of "RNGTr" is not named.
TIMES = {
    "ptb": {"Biaffine": ("4:39:18", "3.1"), "RNGTr": ("24:10:40", "20.6"), "SynTr": ("6:56:40", "7.5")},
    "en_ewt": {"UDify": ("2:22:47", "4.0"), "RNGTr": ("8:14:26", "13.6"), "SynTr": ("1:29:43", "3.7")},
}
DEVICE = "NVIDIA V100"


# In millions, from the table of the English Penn Treebank; the table of UD has none.
PARAMETERS = {"SynTr": "206.2", "RNGTr": "206.3", "Biaffine": "13.5"}


# Sec. 6, "Refinement Analysis", and the appendix on SynTr: relative error reduction at t = 1, 2 and 3, dev sets.
# Table 4, LAS by the size of the training set:
RESOURCES = {
    "SynTr+RNGTr": {LOW: (2.46, 0.09, 0.08), HIGH: (0.81, 0.80, 0.32)},
    "UDify+RNGTr": {LOW: (13.62, 17.74, 0.16), HIGH: (29.38, 0.81, 0.41)},
}


# Table 6, F-score of words in projective and non-projective trees, all treebanks together:
PROJECTIVITY = {
    "SynTr+RNGTr": {"non-projective": (5.0, 1.63, 0.13), "projective": (0.6, 0.61, 0.13)},
    "UDify+RNGTr": {"non-projective": (22.43, 3.92, 0.77), "projective": (29.6, 1.13, 0.0)},
}


def _steps(text: str) -> dict[str, tuple[float, ...]]:
    """Read the reductions of t = 1, 2 and 3 by dependency type; types are separated by commas."""
    rows = [row.split() for row in text.split(",")]
    return {name: tuple(map(float, numbers)) for name, *numbers in rows}


# Table 5, F-score of the dependency types with the largest total, all treebanks together:
DEPENDENCY_TYPES = {
    "SynTr+RNGTr": _steps(
        """
        clf 17.60 0.00 0.00, discourse 9.70 0.00 0.00, aux 3.57 3.71 0.00, case 2.78 2.86 0.00,
        root 2.27 2.33 0.00, nummod 2.68 1.38 0.00, acl 3.74 0.29 0.00, orphan 1.98 1.24 0.00,
        dep 1.99 0.80 0.00, cop 1.55 0.78 0.00, advcl 1.98 0.25 0.00, nsubj 1.07 0.54 0.00
        """
    ),
    "UDify+RNGTr": _steps(
        """
        goeswith 57.83 0.00 2.61, aux 66.04 3.04 3.12, cop 48.17 2.21 3.01, mark 44.97 2.44 0.00,
        amod 45.58 2.33 0.00, det 34.48 0.00 2.63, acl 33.01 0.89 0.00, xcomp 33.33 0.80 0.00,
        nummod 28.50 0.00 1.43, advcl 29.53 1.26 0.25, dep 22.48 2.02 0.37
        """
    ),
}
