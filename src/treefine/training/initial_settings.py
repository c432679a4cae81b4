"""The section [initial] of a recipe: what refinement starts from (Sec. 4), one parser's parses or those of several."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

EMPTY, FILES = "empty", "files"  # initial parsers that are no models


def check_claims(*claims: tuple[bool, str]) -> None:
    """Raise, all at once, what is wrong where a claim does not hold."""
    faults = [fault for holds, fault in claims if not holds]
    if faults:
        raise ValueError(*faults)


@dataclass(frozen=True, slots=True)
class MixedSettings:
    """One more source of G⁰, for a share of the training sentences."""

    parser: str  # as in [initial]: "empty", a recipe to train first, a model folder, or "files"
    share: float  # of the training sentences, drawn anew each epoch
    folds: int = 0  # as in [initial], for a recipe
    train: str = ""  # as in [initial], for files
    dev: str = ""

    def __post_init__(self) -> None:
        claims = _source_claims(self.parser, self.folds, self.train, self.dev)
        check_claims(*claims, (self.share > 0, "share = 0 is no share; leave this source out"))


@dataclass(frozen=True, slots=True)
class InitialSettings:
    """G⁰: what refinement starts from. Without shares, the training set has the parser's parses alone."""

    parser: str = EMPTY  # or a recipe to train first, or a model folder; "files" for those of train and dev
    folds: int = 0  # the training set's parses are made by so many parsers, none of which saw them; 0: by the parser
    train: str = ""  # a file with another parser's parses of all training sentences …
    dev: str = ""  # … and of the dev set
    empty_share: float = 0.0  # of the training sentences that start from no graph instead, drawn anew each epoch
    noised_share: float = 0.0  # … from a gold tree with errors put in
    noise: float = 0.15  # share of the words of such a tree whose arc is wrong
    mix: dict[str, MixedSettings] = field(default_factory=dict)  # by their names: the metrics and folders have these

    def __post_init__(self) -> None:
        shares = (self.empty_share, self.noised_share, *(each.share for each in self.mix.values()))
        among = "empty_share, noised_share and the shares in mix" if self.mix else "empty_share and noised_share"
        odd = [name for name in self.mix if not re.fullmatch(r"[A-Za-z0-9_]+", name)]
        check_claims(
            *_source_claims(self.parser, self.folds, self.train, self.dev),
            (round(sum(shares), 9) <= 1, f"{among} together are over 1"),  # 0.2 + 0.4 + 0.3 + 0.1 is a bit more
            (self.noise <= 1, f"noise = {self.noise}; it must not be over 1"),
            (not odd, "a name in mix has letters from a to z, digits and _ alone"),
            (self.name not in self.mix, f"mix.{self.name} is what parser is called; choose another name"),
        )

    @property
    def name(self) -> str:
        """What the source of all other sentences is called beside those of the mix."""
        return EMPTY if self.parser == EMPTY else "parser"


def _source_claims(parser: str, folds: int, train: str, dev: str) -> list[tuple[bool, str]]:
    """What must hold of any source of initial parses."""
    files = [name for name, each in (("train", train), ("dev", dev)) if each]
    needed = ["train", "dev"] if parser == FILES else []
    can_fold = parser not in (EMPTY, FILES)
    return [
        (bool(parser), f'parser names nothing; choose "{EMPTY}", "{FILES}", a recipe or a model folder'),
        (folds != 1, "folds = 1 leaves nothing to train on; choose 0, or at least 2"),
        (files == needed, 'parser = "files" needs train and dev, and they need it'),
        (not folds or can_fold, f'folds = {folds} needs a recipe as parser, not "{parser}"'),
    ]
