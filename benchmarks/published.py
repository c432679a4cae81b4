"""What other parsers report for the test set of English EWT: measures of CoNLL 2018 in percent, from their pages.

Each treebank release differs from the last in text, words and labels, so figures are compared within one version of UD.
UDPipe 1 for UD 2.5 is told by Trankit's page. All were read on 2026-11-15, in the stored copy of the commit or version
that is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

STANZA = "https://stanfordnlp.github.io/stanza"
TRANKIT = "https://trankit.readthedocs.io/en/latest/performance.html"
UDPIPE_1 = "https://github.com/ufal/udpipe/blob"
UDPIPE_2 = "https://github.com/ufal/udpipe/blob/udpipe-2"


@dataclass(frozen=True, slots=True)
class Published:
    """One line of another parser's table. None where its page does not tell."""

    system: str
    ud: str  # version of Universal Dependencies, for training and test
    given: Literal["raw text", "gold words", "gold words and tags"]
    tokens: float | None
    sentences: float | None
    words: float | None
    upos: float | None
    uas: float
    las: float
    source: str  # address of the page
    version: str  # of the page or of its models: a date, a release or a commit


ENGLISH_EWT = (
    # UDPipe 1 prints one digit behind the point. With gold words it tells neither tokens nor sentences.
    Published(
        "UDPipe 1",
        "2.3",
        "raw text",
        tokens=None,
        sentences=77.1,
        words=99.1,
        upos=93.5,
        uas=80.5,
        las=77.5,
        source=f"{UDPIPE_1}/a964cbfca5069211c406b172be85be6058f54855/doc/manual_model_ud-2.3.t2t",
        version="models of 2018-11-15",
    ),
    Published(
        "UDPipe 1",
        "2.3",
        "gold words",
        tokens=None,
        sentences=None,
        words=None,
        upos=94.4,
        uas=84.5,
        las=81.2,
        source=f"{UDPIPE_1}/a964cbfca5069211c406b172be85be6058f54855/doc/manual_model_ud-2.3.t2t",
        version="models of 2018-11-15",
    ),
    Published(
        "UDPipe 1",
        "2.3",
        "gold words and tags",
        tokens=None,
        sentences=None,
        words=None,
        upos=None,
        uas=87.7,
        las=85.8,
        source=f"{UDPIPE_1}/a964cbfca5069211c406b172be85be6058f54855/doc/manual_model_ud-2.3.t2t",
        version="models of 2018-11-15",
    ),
    Published(
        "UDPipe 1",
        "2.5",
        "raw text",
        tokens=98.90,
        sentences=77.40,
        words=98.90,
        upos=93.26,
        uas=80.22,
        las=77.03,
        source=TRANKIT,  # UDPipe 1.2; its own manual has the same, rounded: 77.4, 98.9, 93.3, 80.2, 77.0
        version="commit 04a9ef1",
    ),
    Published(
        "Stanza",
        "2.5",
        "raw text",
        tokens=99.01,
        sentences=81.13,
        words=99.01,
        upos=95.40,
        uas=86.22,
        las=83.59,
        source=f"{STANZA}/v100performance.html",
        version="Stanza 1.0",
    ),
    Published(
        "Trankit base",
        "2.5",
        "raw text",
        tokens=98.48,
        sentences=88.35,
        words=98.48,
        upos=95.95,
        uas=90.14,
        las=87.96,
        source=TRANKIT,
        version="commit 04a9ef1",
    ),
    Published(
        "Trankit large",
        "2.5",
        "raw text",
        tokens=98.67,
        sentences=90.49,
        words=98.67,
        upos=96.65,
        uas=91.29,
        las=89.40,
        source=TRANKIT,
        version="commit 04a9ef1",
    ),
    Published(
        "UDPipe 2",
        "2.6",
        "raw text",
        tokens=98.95,
        sentences=86.60,
        words=98.95,
        upos=96.36,
        uas=89.55,
        las=87.43,
        source=f"{UDPIPE_2}/models-2.6/EVALUATION-server.txt",
        version="models of 2020-08-30",
    ),
    Published(
        "UDPipe 2",
        "2.6",
        "gold words",
        tokens=100.00,
        sentences=100.00,
        words=100.00,
        upos=97.29,
        uas=92.24,
        las=90.05,
        source=f"{UDPIPE_2}/models-2.6/EVALUATION-server.txt",
        version="models of 2020-08-30",
    ),
    Published(
        "Stanza",
        "2.12",
        "raw text",
        tokens=99.17,
        sentences=89.16,
        words=98.92,
        upos=96.20,
        uas=88.90,
        las=86.77,
        source=f"{STANZA}/performance.html",
        version="Stanza 1.5.1",
    ),
    Published(
        "UDPipe 2",
        "2.17",
        "raw text",
        tokens=99.29,
        sentences=88.42,
        words=99.07,
        upos=96.75,
        uas=91.59,
        las=89.91,
        source=f"{UDPIPE_2}/models-2.17/EVALUATION-server.txt",
        version="models of 2025-11-25",
    ),
    Published(
        "UDPipe 2",
        "2.17",
        "gold words",
        tokens=100.00,
        sentences=100.00,
        words=100.00,
        upos=97.61,
        uas=94.09,
        las=92.36,
        source=f"{UDPIPE_2}/models-2.17/EVALUATION-server.txt",
        version="models of 2025-11-25",
    ),
)
