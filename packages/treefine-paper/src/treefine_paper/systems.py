"""The systems of the paper (Sec. 4 and 6) as recipes, and the controls that make them comparable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from treefine.config import STEPS, STEPS_FROM_EMPTY
from treefine.training.new_recipe import encoder_learning_rate, size_for
from treefine.training.recipe import EMPTY, FILES

Settings = Literal["paper", "by-size"]
MULTI = "multi"  # also the name of the folder of its trainings
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
    updates_of: str = ""  # it is trained with as many updates as this system can have
    is_control: bool = False  # not a system of the paper

    @property
    def is_bilstm(self) -> bool:
        """Whether it is the biaffine parser, which has no pretrained encoder."""
        return self.name == "biaffine"

    @property
    def is_refined(self) -> bool:
        """Whether it reads a graph."""
        return bool(self.initial)

    @property
    def base(self) -> str:
        """The name without the ending of a variant in Table 1."""
        return self.name.removesuffix("-t1").removesuffix("-no-stop")

    def applies_to(self, treebank: str) -> bool:
        """Return whether the system is run on this treebank; a variant is run only for Table 1."""
        return self.only in ("", treebank)


def _refining(initial: str, title: str, about: str, *, is_control: bool = False) -> tuple[System, ...]:
    """Return RNGTr over an initial parser, and its variants in Table 1."""
    name, title = f"{initial}-rngtr", f"{title}+RNGTr"
    one = f"{title} with one step, for Table 1"
    no_stop = f"{title} that also trains on sentences that no longer change, for Table 1"
    return (
        System(name, title, about, initial, STEPS, is_control=is_control),
        System(f"{name}-t1", f"{title} (T=1)", one, initial, 1, only=TABLE_1, is_control=is_control),
        System(f"{name}-no-stop", f"{title} w/o stop", no_stop, initial, STEPS, False, TABLE_1, is_control=is_control),
    )


_ALL = (
    System("biaffine", "Biaffine", "BiLSTM parser of Dozat and Manning (2017)"),
    System("syntr", "SynTr", "the network without a graph (Sec. 4)"),
    System("empty-rngtr", "Empty+RNGTr", "refinement from an empty graph", EMPTY, STEPS_FROM_EMPTY),
    *_refining("syntr", "SynTr", "refinement of SynTr"),
    _refining("biaffine", "Biaffine", "refinement of the biaffine parser")[0],
    *_refining(FILES, "Files", "refinement of another parser's files, such as those of UDify (--files)"),
    System(
        "syntr-long",
        "SynTr (longer)",
        "SynTr with as many updates as RNGTr can have",
        updates_of="syntr-rngtr",
        is_control=True,
    ),
    System(MULTI, "Multi", "SynTr trained on all UD treebanks together, as UDify is", is_control=True),
    *_refining(MULTI, "Multi", "refinement of Multi, which takes the role of UDify", is_control=True),
)
SYSTEMS = {each.name: each for each in _ALL}


def system_settings(system: System, settings: Settings, *, n_sentences: int, width: int) -> dict[str, dict[str, Any]]:
    """Return the settings of a system by section and key: those of Appendix A, or those for the size of a treebank.

    `width` is that of the encoder.
    """
    found: dict[str, dict[str, Any]] = {"segmenter": {"train": "never"}, "refine": {"max_steps": system.steps}}
    if system.is_refined:
        found["refine"]["stop"] = system.stop
    else:
        found["relations"] = {"graph": "none"}
    chosen = _paper(system) if settings == "paper" else _by_size(system, n_sentences, width)
    return found | {section: dict(values) for section, values in chosen.items()}


def _paper(system: System) -> Mapping[str, Mapping[str, Any]]:
    """Return Appendix A, which is the default of recipes. It says nothing about the biaffine parser."""
    if system.is_bilstm:
        return {"optimiser": {"betas": [0.9, 0.9], "eps": 1e-12}, "training": {"batch_pieces": 5000}}
    return {"training": {}}


def _by_size(system: System, n_sentences: int, width: int) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings that `treefine new-recipe` chooses: fewer epochs and higher rates than the paper's."""
    size = size_for(n_sentences)
    times = 1 if system.is_refined else 5 if system.is_bilstm else 2
    epochs = size.epochs * times
    optimiser = {"learning_rate": 2e-3 if system.is_bilstm else 1e-3, "eps": 1e-8, "warmup": 0.1, "ema": 0.99}
    if not system.is_bilstm:
        optimiser["encoder_learning_rate"] = encoder_learning_rate(width)
    training = {"epochs": epochs, "patience": epochs, "batch_pieces": size.batch_pieces, "masking": size.masking}
    return {"optimiser": optimiser, "training": training}
