"""What the paper reports (Mohammadshahi and Henderson 2021), for the tables that stand beside it. All in percent."""

from __future__ import annotations

# Test scores by treebank and model: UAS from the appendix, LAS from the table of UD treebanks.
TEST = {
    "en_ewt": {"SynTr": (92.92, 91.41), "Empty+RNGTr": (92.77, 91.23), "SynTr+RNGTr": (93.08, 91.52)},
    "ko_gsd": {"SynTr": (91.35, 89.29), "Empty+RNGTr": (91.28, 89.10), "SynTr+RNGTr": (91.49, 89.45)},
    "tr_imst": {"SynTr": (77.98, 72.52), "Empty+RNGTr": (77.49, 71.99), "SynTr+RNGTr": (78.50, 73.08)},
}

# Table 1, dev of tr_imst. Where the paper starts from UDify, we start from the biaffine parser: model, T, stop, scores.
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

# English UD, with the device of all its times: hours, minutes and seconds of training, and seconds of evaluation.
# Its row is "RNGTr": the initial parser is not named.
TIMES = {"SynTr": ("1:29:43", "3.7"), "RNGTr": ("8:14:26", "13.6")}
DEVICE = "NVIDIA V100"

# In millions, from the table of the English Penn Treebank; that of UD has none.
PARAMETERS = {"SynTr": "206.2", "RNGTr": "206.3", "Biaffine": "13.5"}
