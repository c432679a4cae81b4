"""All results of a reproduction by treebank and system, and what the tables say about where they come from."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from treefine.training.recipe import FILES
from treefine.wording import count
from treefine_paper.results import SystemResult, chosen_seed
from treefine_paper.systems import MULTI, SYSTEMS
from treefine_paper.treebanks import RELEASE, TREEBANKS

DASH = "–"
OURS, PAPER = "treefine", "paper"
SYSTEM_TITLES = {FILES: "Files"} | {name: system.title for name, system in SYSTEMS.items()}
UD = tuple(code for code, treebank in TREEBANKS.items() if treebank.is_ud)


@dataclass(frozen=True)
class ResultCollection:
    """The results of the paper's treebanks and systems.

    The initial parses of Files+RNGTr count as the system `files`: they are not trained, so they have one result.
    """

    results: tuple[SystemResult, ...]

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str], dict[int, SystemResult]]:
        found: dict[tuple[str, str, str], dict[int, SystemResult]] = {}
        for each in sorted(self.results, key=lambda each: each.seed):
            if each.treebank in TREEBANKS and each.system in SYSTEMS:
                found.setdefault((each.treebank, each.system, each.split), {})[each.seed] = each
        return found

    def of(self, treebank: str, system: str, split: str) -> list[SystemResult]:
        """Return the results of all seeds, the lowest seed first."""
        if system == FILES:
            refined = self.tested(treebank, _REFINED_FILES) if split == "test" else None
            several = [refined] if refined else self.of(treebank, _REFINED_FILES, split)
            return [_initial(each) for each in several if each.LAS_by_step[0] is not None][:1]
        return [*self._by_place.get((treebank, system, split), {}).values()]

    def chosen(self, treebank: str, system: str) -> SystemResult | None:
        """Return the dev result of the seed with the best dev LAS; of Multi, with the best mean over all treebanks."""
        dev = self.of(treebank, system, "dev")
        all_dev = [each for code in UD for each in self.of(code, system, "dev")] if system == MULTI else dev
        best = chosen_seed(all_dev)
        return next((each for each in dev if each.seed == best), None)

    def tested(self, treebank: str, system: str) -> SystemResult | None:
        """Return the test result of the seed with the best dev LAS; without it, that of the lowest seed."""
        test, best = self.of(treebank, system, "test"), self.chosen(treebank, system)
        return next((each for each in test if best and each.seed == best.seed), test[0] if test else None)

    def mean(self, treebank: str, system: str, field: str) -> float | None:
        """Return the mean of a number over the seeds on dev; None if a seed has none."""
        values = [getattr(each, field) for each in self.of(treebank, system, "dev")]
        return None if not values or None in values else statistics.mean(values)

    def gain(self, treebank: str, before: str, after: str) -> float | None:
        """Return the mean difference of two systems' dev LAS, in points, over the seeds that both have."""
        las = [{each.seed: each.LAS for each in self.of(treebank, system, "dev")} for system in (before, after)]
        gains = [100 * (las[1][seed] - las[0][seed]) for seed in las[0].keys() & las[1].keys()]
        return statistics.mean(gains) if gains else None

    def tested_early(self, codes: Iterable[str], systems: Iterable[str]) -> list[str]:
        """Name the systems that were tested before a seed with a better dev LAS was trained."""
        named = []
        for code, system in ((code, system) for code in codes for system in systems):
            chosen, tested = self.chosen(code, system), self.tested(code, system)
            if chosen and tested and chosen.seed != tested.seed and system != FILES:
                named.append(f"{SYSTEM_TITLES[system]} on {code}")
        return named

    def of_treebank(self, treebank: str) -> list[SystemResult]:
        """Return all results of a treebank."""
        return [each for (code, _, _), seeds in self._by_place.items() if code == treebank for each in seeds.values()]

    def train_sentences(self, treebank: str) -> int | None:
        """Return the size of the training set; the results of Multi have that of all treebanks together."""
        sizes = [each.train_sentences for each in self.of_treebank(treebank)]
        return min(sizes, default=None)

    def is_comparable(self, treebank: str) -> bool:
        """Return whether the scores can be compared with the paper's: UD must be of its release."""
        is_same = all(each.release == RELEASE for each in self.of_treebank(treebank))
        return not TREEBANKS[treebank].is_ud or is_same

    def title(self, treebank: str) -> str:
        """Return the name of a treebank in tables; † if its release is not the paper's."""
        language = TREEBANKS[treebank].language
        return f"{language} ({treebank})" + ("" if self.is_comparable(treebank) else "†")

    def pooled(self, codes: Iterable[str] = UD) -> tuple[str, ...]:
        """Return the treebanks with results that count together: those of the paper's release, or all if none is."""
        found = [code for code in codes if self.of_treebank(code)]
        return tuple([code for code in found if self.is_comparable(code)] or found)

    def shared(self, systems: Sequence[str], split: str, codes: Iterable[str] = UD) -> tuple[list[str], list[str]]:
        """Return the systems that can be averaged, and the pooled treebanks that have results of all of them.

        A system with results on at most half as many treebanks as another is left out: it would leave too few.
        """
        pooled = self.pooled(codes)
        has = {system: {code for code in pooled if self.of(code, system, split)} for system in systems}
        most = max(map(len, has.values()), default=0)
        kept = [system for system, its in has.items() if 2 * len(its) > most]
        return kept, [code for code in pooled if kept and all(code in has[system] for system in kept)]

    def note(self, codes: Collection[str], systems: Collection[str], split: str) -> str:
        """Say which tags, encoders and seeds the numbers of a table have, and which releases differ."""
        used = [each for code in codes for each in self.of_treebank(code) if each.system in systems]
        if not used:
            return "There are no results yet."
        pretrained = [each for each in used if not SYSTEMS[each.system].is_bilstm]
        parts = [f"Tags: {_values(used, 'tags')}."]
        if pretrained:
            parts.append(f"Encoder: {_values(pretrained, 'encoder')}.")
        from_multi = [each for each in pretrained if each.start == MULTI]
        if from_multi:
            parts.append("All models except Biaffine and Multi start from the weights of Multi, unlike the paper's.")
        if any(each.settings != "paper" for each in used):
            parts.append("The settings are shorter than those of the paper (by-size).")
        if any(SYSTEMS[each.system].is_bilstm for each in used):
            parts.append("Biaffine has no pretrained encoder.")
        seeds = sorted({each.seed for each in used})
        numbers = {len(self.of(code, system, "dev")) for code in codes for system in systems if system != FILES} - {0}
        some = ", not all for each system" if len(numbers) > 1 else ""
        parts.append(f"{'Seeds' if len(seeds) > 1 else 'Seed'}: {in_words(list(map(str, seeds)))}{some}.")
        if split == "test" and len(seeds) > 1:
            early = self.tested_early(codes, systems)
            late = f", except for {in_words(early)}, where a later seed is better on dev" if early else ""
            parts.append(f"The seed with the best dev LAS is tested{late}.")
        return " ".join([*parts, *self._releases(codes)])

    def _releases(self, codes: Iterable[str]) -> list[str]:
        others = {code: sorted({each.release for each in self.of_treebank(code)}) for code in codes}
        named = [
            f"{code} is of {in_words([f'UD {name}' if name else 'an unknown release' for name in releases])}"
            for code, releases in others.items()
            if not self.is_comparable(code)
        ]
        return [f"† another release: not comparable with the paper ({'; '.join(named)})."] if named else []


_REFINED_FILES = f"{FILES}-rngtr"


def _initial(refined: SystemResult) -> SystemResult:
    """Return the result of the initial parses that a system refined."""
    uas, las = refined.UAS_by_step[0], refined.LAS_by_step[0]
    if uas is None or las is None:
        raise ValueError("there are no initial parses")
    return replace(refined, system=FILES, UAS=uas, LAS=las, updates=None, training_seconds=None, parameters=0)


def _values(results: Sequence[SystemResult], field: str) -> str:
    """Return the most frequent value of a field, then the others, each with its treebanks, or systems and treebanks."""
    counted = Counter(getattr(each, field) for each in results)
    most, *others = [value for value, _ in counted.most_common()]
    by_treebank: dict[str, set[str]] = {}
    for each in results:
        by_treebank.setdefault(each.treebank, set()).add(getattr(each, field))
    exceptions = []
    for value in others:
        having = [each for each in results if getattr(each, field) == value]
        places = [
            each.treebank
            if len(by_treebank[each.treebank]) == 1
            else f"{SYSTEM_TITLES[each.system]} on {each.treebank}"
            for each in having
        ]
        exceptions.append(f"{value} for {in_words([*dict.fromkeys(places)])}")
    return f"{most} ({'; '.join(exceptions)})" if exceptions else str(most)


def percent(share: float | None) -> str:
    """Return a share in percent with two digits, or a dash."""
    return DASH if share is None else f"{100 * share:.2f}"


def in_words(parts: Sequence[str]) -> str:
    """Return the parts with commas and a last "and".

    >>> in_words(["1", "2", "3"])
    '1, 2 and 3'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def counted_treebanks(codes: Sequence[str]) -> str:
    """Return the number of treebanks and their names.

    >>> counted_treebanks(["en_ewt", "tr_imst"])
    '2 treebanks (en_ewt, tr_imst)'
    """
    return f"{count(len(codes), 'treebank')} ({', '.join(codes)})" if codes else "no treebank"
