"""The numbers that the paper reports (Mohammadshahi and Henderson 2021), in percent."""

from __future__ import annotations

# Test scores by treebank and model: UAS from the appendix, LAS from the table of UD treebanks.
TEST = {
    "en_ewt": {"SynTr": (92.92, 91.41), "Empty+RNGTr": (92.77, 91.23), "SynTr+RNGTr": (93.08, 91.52)},
    "ko_gsd": {"SynTr": (91.35, 89.29), "Empty+RNGTr": (91.28, 89.10), "SynTr+RNGTr": (91.49, 89.45)},
    "tr_imst": {"SynTr": (77.98, 72.52), "Empty+RNGTr": (77.49, 71.99), "SynTr+RNGTr": (78.50, 73.08)},
}


# From the same table of the appendix: the share of SynTr's UAS errors that SynTr+RNGTr removes, as printed.
UAS_REDUCTIONS = {"en_ewt": 2.26, "ko_gsd": 1.62, "tr_imst": 2.37}


# Table 1, dev of tr_imst: model, T, stop, UAS, LAS. The paper starts from UDify, treefine from the biaffine parser.
GRID = (
    ("SynTr", 1, True, 75.62, 70.04),
    ("SynTr+RNGTr", 1, True, 76.37, 70.67),
    ("SynTr+RNGTr", 3, False, 76.33, 70.61),
    ("SynTr+RNGTr", 3, True, 76.29, 70.84),
    ("Biaffine", 1, True, 72.78, 65.48),
    ("Biaffine+RNGTr", 1, True, 74.13, 68.60),
    ("Biaffine+RNGTr", 3, False, 75.68, 70.32),
    ("Biaffine+RNGTr", 3, True, 75.91, 70.66),
)


# English UD: training time (h:mm:ss) and seconds of evaluation on DEVICE. The initial parser of "RNGTr" is not named.
TIMES = {"SynTr": ("1:29:43", "3.7"), "RNGTr": ("8:14:26", "13.6")}
DEVICE = "NVIDIA V100"


# In millions, from the table of the English Penn Treebank; the table of UD has none.
PARAMETERS = {"SynTr": "206.2", "RNGTr": "206.3", "Biaffine": "13.5"}


# Sec. 6, "Refinement Analysis", and the appendix on SynTr: relative error reduction at t = 1, 2 and 3, dev sets. The
# paper starts from UDify, treefine from the biaffine parser. LAS by the size of the training set:
RESOURCES = {
    "SynTr+RNGTr": {"Low-Resource": (2.46, 0.09, 0.08), "High-Resource": (0.81, 0.80, 0.32)},
    "Biaffine+RNGTr": {"Low-Resource": (13.62, 17.74, 0.16), "High-Resource": (29.38, 0.81, 0.41)},
}


# F-score of words in projective and non-projective trees, all treebanks together:
PROJECTIVITY = {
    "SynTr+RNGTr": {"non-projective": (5.0, 1.63, 0.13), "projective": (0.6, 0.61, 0.13)},
    "Biaffine+RNGTr": {"non-projective": (22.43, 3.92, 0.77), "projective": (29.6, 1.13, 0.0)},
}


# F-score of the dependency types with the largest total, all treebanks together:
LABELS = {
    "SynTr+RNGTr": {
        "clf": (17.60, 0.00, 0.00),
        "discourse": (9.70, 0.00, 0.00),
        "aux": (3.57, 3.71, 0.00),
        "case": (2.78, 2.86, 0.00),
        "root": (2.27, 2.33, 0.00),
        "nummod": (2.68, 1.38, 0.00),
        "acl": (3.74, 0.29, 0.00),
        "orphan": (1.98, 1.24, 0.00),
        "dep": (1.99, 0.80, 0.00),
        "cop": (1.55, 0.78, 0.00),
        "advcl": (1.98, 0.25, 0.00),
        "nsubj": (1.07, 0.54, 0.00),
    },
    "Biaffine+RNGTr": {
        "goeswith": (57.83, 0.00, 2.61),
        "aux": (66.04, 3.04, 3.12),
        "cop": (48.17, 2.21, 3.01),
        "mark": (44.97, 2.44, 0.00),
        "amod": (45.58, 2.33, 0.00),
        "det": (34.48, 0.00, 2.63),
        "acl": (33.01, 0.89, 0.00),
        "xcomp": (33.33, 0.80, 0.00),
        "nummod": (28.50, 0.00, 1.43),
        "advcl": (29.53, 1.26, 0.25),
        "dep": (22.48, 2.02, 0.37),
    },
}
