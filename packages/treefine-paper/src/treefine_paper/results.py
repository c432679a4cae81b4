"""The scores and costs of trained systems: one JSON file each, and all of them by treebank and system."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from treefine.errors import TreefineError, count
from treefine.training.recipe import FILES
from treefine_paper.systems import BIAFFINE, SYSTEMS
from treefine_paper.treebanks import RELEASE, TREEBANKS, in_words

SYSTEM_TITLES = {FILES: "Files"} | {name: system.title for name, system in SYSTEMS.items()}
UD = tuple(code for code, treebank in TREEBANKS.items() if treebank.is_ud)
TREES_SUFFIX = ".trees.xz"


@dataclass(frozen=True)
class SystemResult:
    """The scores of one trained system on dev or test, and what they cost."""

    treebank: str
    system: str
    seed: int
    split: str  # dev or test
    encoder: str
    tags: str  # where the tags come from: given, predicted or none
    gold_file: str
    release: str  # of UD; empty if the folder does not name it
    train_sentences: int
    words: int
    UAS: float
    LAS: float
    UAS_by_step: Sequence[float | None]  # from t = 0; None without initial parses
    LAS_by_step: Sequence[float | None]
    parameters: int
    initial_parameters: int
    parsing_seconds: float
    device: str
    training_seconds: float | None
    updates: int | None  # of the weights: one per batch and step
    sha256: str  # of the file of trees
    changes: Sequence[str]  # of the paper's settings

    @property
    def name(self) -> str:
        """The name of the files of this result, as in `tr_imst-syntr-seed1-dev`."""
        return f"{self.treebank}-{self.system}-seed{self.seed}-{self.split}"


def load_results(folder: Path) -> list[SystemResult]:
    """Read all scores in a folder; fields of other versions are ignored."""
    names, results = {field.name for field in fields(SystemResult)}, []
    for path in sorted(folder.glob("*.json")):
        try:
            values = {name: value for name, value in json.loads(path.read_bytes()).items() if name in names}
            results.append(SystemResult(**values))
        except (ValueError, TypeError):
            hint = "Remove it; the next run measures the system again."
            raise TreefineError("The file is damaged.", hint=hint, path=str(path)) from None
    return results


@dataclass(frozen=True)
class ResultCollection:
    """The results of the paper's treebanks and systems.

    The initial parses of Files+RNGTr count as the system `files`: they are not trained, so they have one result.
    """

    results: Sequence[SystemResult]

    def of(self, treebank: str, system: str, split: str) -> list[SystemResult]:
        """Return the results of all seeds, the lowest seed first."""
        if system == FILES:
            refined = self.tested(treebank, f"{FILES}-rngtr") if split == "test" else None
            several = [refined] if refined else self.of(treebank, f"{FILES}-rngtr", split)
            return [_initial(result) for result in several if result.LAS_by_step[0] is not None][:1]
        found = [each for each in self.of_treebank(treebank) if (each.system, each.split) == (system, split)]
        return sorted(found, key=lambda result: result.seed)

    def chosen(self, treebank: str, system: str) -> SystemResult | None:
        """Return the dev result of the seed with the best dev LAS; of equal ones, the lowest."""
        return max(self.of(treebank, system, "dev"), key=lambda result: result.LAS, default=None)

    def tested(self, treebank: str, system: str) -> SystemResult | None:
        """Return the test result of the seed with the best dev LAS; without it, that of the lowest seed."""
        test, best = self.of(treebank, system, "test"), self.chosen(treebank, system)
        return next((result for result in test if best and result.seed == best.seed), test[0] if test else None)

    def mean(self, treebank: str, system: str, field: str) -> float | None:
        """Return the mean of a number over the seeds on dev; None if a seed has none."""
        values = [getattr(result, field) for result in self.of(treebank, system, "dev")]
        return None if not values or None in values else statistics.mean(values)

    def of_treebank(self, treebank: str) -> list[SystemResult]:
        """Return all results of a treebank."""
        return [each for each in self.results if each.treebank == treebank and each.system in SYSTEMS]

    def train_sentences(self, treebank: str) -> int | None:
        """Return the size of the training set."""
        return next((result.train_sentences for result in self.of_treebank(treebank)), None)

    def is_comparable(self, treebank: str) -> bool:
        """Return whether the scores can be compared with the paper's: UD must be of its release."""
        is_same = all(result.release == RELEASE for result in self.of_treebank(treebank))
        return is_same or not TREEBANKS[treebank].is_ud

    def title(self, treebank: str) -> str:
        """Return the name of a treebank in tables; † if its release is not the paper's."""
        return f"{TREEBANKS[treebank].language} ({treebank})" + "†" * (not self.is_comparable(treebank))

    def pooled(self) -> tuple[str, ...]:
        """Return the UD treebanks that count together: those of the paper's release, or all if none is."""
        with_results = [code for code in UD if self.of_treebank(code)]
        return tuple([code for code in with_results if self.is_comparable(code)] or with_results)

    def shared(self, systems: Iterable[str], split: str) -> tuple[list[str], list[str]]:
        """Return the systems that can be averaged, and the pooled treebanks that have results of all of them.

        A system with results on at most half as many treebanks as another is left out: it would leave too few.
        """
        has = {system: {code for code in self.pooled() if self.of(code, system, split)} for system in systems}
        most = max(map(len, has.values()))
        kept = [system for system, codes in has.items() if 2 * len(codes) > most]
        return kept, [code for code in self.pooled() if kept and all(code in has[system] for system in kept)]

    def note(self, codes: Collection[str], systems: Collection[str], split: str) -> str:
        """Say which tags, encoders and seeds the numbers of a table have, and which releases differ."""
        used = [result for code in codes for result in self.of_treebank(code) if result.system in systems]
        if not used:
            return "There are no results yet."
        pretrained = [result for result in used if result.system != BIAFFINE]
        said = [f"Tags: {_values(used, 'tags')}."]
        if pretrained:
            said.append(f"Encoder: {_values(pretrained, 'encoder')}.")
        if any(result.changes for result in used):
            said.append("The settings are not all those of the paper.")
        if len(pretrained) < len(used):
            said.append("Biaffine has no pretrained encoder.")
        seeds = sorted({result.seed for result in used})
        numbers = {len(self.of(code, system, "dev")) for code in codes for system in systems if system != FILES} - {0}
        uneven = ", not all for each system" * (len(numbers) > 1)
        said.append(f"Seed{'s' * (len(seeds) > 1)}: {in_words(list(map(str, seeds)))}{uneven}.")
        if split == "test" and len(seeds) > 1:
            early = []  # tested before a seed with a better dev LAS was trained
            for code, system in ((code, system) for code in codes for system in systems if system != FILES):
                both = {result.seed for result in (self.chosen(code, system), self.tested(code, system)) if result}
                early += [f"{SYSTEM_TITLES[system]} on {code}"] if len(both) > 1 else []
            exception = f", except for {in_words(early)}, where a later seed is better on dev" if early else ""
            said.append(f"The seed with the best dev LAS is tested{exception}.")
        others = []
        for code in codes:
            if not self.is_comparable(code):
                releases = sorted({result.release for result in self.of_treebank(code)})
                names = in_words([f"UD {name}" if name else "an unknown release" for name in releases])
                others.append(f"{code} is of {names}")
        if others:
            said.append(f"† another release: not comparable with the paper ({'; '.join(others)}).")
        return " ".join(said)


def _initial(refined: SystemResult) -> SystemResult:
    """Return the result of the initial parses that a system refined."""
    uas, las = refined.UAS_by_step[0] or 0.0, refined.LAS_by_step[0] or 0.0
    return replace(refined, system=FILES, UAS=uas, LAS=las, updates=None, training_seconds=None, parameters=0)


def _values(results: Sequence[SystemResult], field: str) -> str:
    """Return the most frequent value of a field, then the others, each with its treebanks."""
    counted = Counter(getattr(result, field) for result in results)
    most, *others = [value for value, _ in counted.most_common()]
    codes = {value: dict.fromkeys(r.treebank for r in results if getattr(r, field) == value) for value in others}
    exceptions = "; ".join(f"{value} for {in_words([*codes[value]])}" for value in others)
    return f"{most} ({exceptions})" if exceptions else str(most)


def counted_treebanks(codes: Sequence[str]) -> str:
    """Return the number of treebanks and their names, as in `2 treebanks (en_ewt, tr_imst)`."""
    return f"{count(len(codes), 'treebank')} ({', '.join(codes)})" if codes else "no treebank"
