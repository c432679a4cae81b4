"""The systems of the paper (Sec. 4 and 6) and the controls that make them comparable, with their settings."""

from __future__ import annotations

from dataclasses import dataclass

from treefine.config import STEPS, STEPS_FROM_EMPTY
from treefine.training.recipe import EMPTY, FILES

BIAFFINE, SYNTR = "biaffine", "syntr"
SYNTR_LONGER, REFINED, EMPTY_REFINED = "syntr-long", "syntr-rngtr", "empty-rngtr"
TABLE_1 = "tr_imst"  # the treebank of Table 1


@dataclass(frozen=True)
class System:
    """A system of the paper, or a control."""

    name: str
    title: str
    about: str
    initial: str = ""  # another system, EMPTY or FILES; "": it reads no graph
    steps: int = 1  # T
    stop: bool = True
    only: str = ""  # a treebank; "": all of them
    updates_of: str = ""  # a control: it is trained with as many updates as this system can have

    @property
    def reads_files(self) -> bool:
        """Whether it refines trees in files: another parser's, or those of the biaffine parser."""
        return self.initial in (FILES, BIAFFINE)


def _refining(initial: str, title: str, about: str) -> tuple[System, ...]:
    """Return RNGTr over an initial parser, and its variants in Table 1."""
    name, title = f"{initial}-rngtr", f"{title}+RNGTr"
    one = f"{title} with one step, for Table 1"
    no_stop = f"{title} that also trains on sentences that no longer change, for Table 1"
    return (
        System(name, title, about, initial, STEPS),
        System(f"{name}-t1", f"{title} (T=1)", one, initial, 1, only=TABLE_1),
        System(f"{name}-no-stop", f"{title} w/o stop", no_stop, initial, STEPS, False, TABLE_1),
    )


_FILES = "refinement of another parser's files, such as those of UDify (--files)"
_LONGER = "SynTr with as many updates as RNGTr can have"
_ALL = (
    System(BIAFFINE, "Biaffine", "BiLSTM parser of Dozat and Manning (2017)"),
    System(SYNTR, "SynTr", "the network without a graph (Sec. 4)"),
    System(EMPTY_REFINED, "Empty+RNGTr", "refinement from an empty graph", EMPTY, STEPS_FROM_EMPTY),
    *_refining(SYNTR, "SynTr", "refinement of SynTr"),
    _refining(BIAFFINE, "Biaffine", "refinement of the biaffine parser")[0],
    *_refining(FILES, "Files", _FILES),
    System(SYNTR_LONGER, "SynTr (longer)", _LONGER, updates_of=REFINED),
)
SYSTEMS = {system.name: system for system in _ALL}

METRICS = ("UAS", "LAS")
# The columns of the UD tables, each with the system of the paper that has the same role.
UD_SYSTEMS = {
    BIAFFINE: "",
    f"{BIAFFINE}-rngtr": "",
    FILES: "UDify",
    f"{FILES}-rngtr": "UDify+RNGTr",
    SYNTR: "SynTr",
    SYNTR_LONGER: "",
    REFINED: "SynTr+RNGTr",
    EMPTY_REFINED: "Empty+RNGTr",
}
PENN_SYSTEMS = (BIAFFINE, f"{BIAFFINE}-rngtr", SYNTR, SYNTR_LONGER, REFINED, EMPTY_REFINED)
REFINING = (f"{FILES}-rngtr", REFINED)  # the systems of Tables 4 to 6
