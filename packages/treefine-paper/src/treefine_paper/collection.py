"""All results of a reproduction by treebank and system, and what the tables say about where they come from."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from treefine.errors import count
from treefine.training.recipe import FILES
from treefine_paper.results import SystemResult, chosen_seed
from treefine_paper.systems import BIAFFINE, MULTI, SYSTEMS
from treefine_paper.treebanks import RELEASE, TREEBANKS, in_words

DASH = "–"
SYSTEM_TITLES = {FILES: "Files"} | {name: system.title for name, system in SYSTEMS.items()}
UD = tuple(code for code, treebank in TREEBANKS.items() if treebank.is_ud)
_REFINED_FILES = f"{FILES}-rngtr"


@dataclass(frozen=True)
class ResultCollection:
    """The results of the paper's treebanks and systems.

    The initial parses of Files+RNGTr count as the system `files`: they are not trained, so they have one result.
    """

    results: tuple[SystemResult, ...]

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str], list[SystemResult]]:
        places: dict[tuple[str, str, str], list[SystemResult]] = {}
        for result in sorted(self.results, key=lambda result: result.seed):
            if result.treebank in TREEBANKS and result.system in SYSTEMS:
                places.setdefault((result.treebank, result.system, result.split), []).append(result)
        return places

    def of(self, treebank: str, system: str, split: str) -> list[SystemResult]:
        """Return the results of all seeds, the lowest seed first."""
        if system == FILES:
            refined = self.tested(treebank, _REFINED_FILES) if split == "test" else None
            several = [refined] if refined else self.of(treebank, _REFINED_FILES, split)
            return [_initial(result) for result in several if result.LAS_by_step[0] is not None][:1]
        return self._by_place.get((treebank, system, split), [])

    def chosen(self, treebank: str, system: str) -> SystemResult | None:
        """Return the dev result of the seed with the best dev LAS; of Multi, with the best mean over all treebanks."""
        dev = self.of(treebank, system, "dev")
        all_dev = [result for code in UD for result in self.of(code, system, "dev")] if system == MULTI else dev
        best = chosen_seed(all_dev)
        return next((result for result in dev if result.seed == best), None)

    def tested(self, treebank: str, system: str) -> SystemResult | None:
        """Return the test result of the seed with the best dev LAS; without it, that of the lowest seed."""
        test, best = self.of(treebank, system, "test"), self.chosen(treebank, system)
        return next((result for result in test if best and result.seed == best.seed), test[0] if test else None)

    def mean(self, treebank: str, system: str, field: str) -> float | None:
        """Return the mean of a number over the seeds on dev; None if a seed has none."""
        values = [getattr(result, field) for result in self.of(treebank, system, "dev")]
        return None if not values or None in values else statistics.mean(values)

    def gain(self, treebank: str, before: str, after: str) -> float | None:
        """Return the mean difference of two systems' dev LAS, in points, over the seeds that both have."""
        las = [{result.seed: result.LAS for result in self.of(treebank, system, "dev")} for system in (before, after)]
        gains = [100 * (las[1][seed] - las[0][seed]) for seed in las[0].keys() & las[1].keys()]
        return statistics.mean(gains) if gains else None

    def tested_early(self, codes: Iterable[str] = TREEBANKS, systems: Iterable[str] = SYSTEMS) -> list[str]:
        """Name the systems that were tested before a seed with a better dev LAS was trained."""
        named = []
        for code, system in ((code, system) for code in codes for system in systems if system != FILES):
            chosen, tested = self.chosen(code, system), self.tested(code, system)
            if chosen and tested and chosen.seed != tested.seed:
                named.append(f"{SYSTEM_TITLES[system]} on {code}")
        return named

    def of_treebank(self, treebank: str) -> list[SystemResult]:
        """Return all results of a treebank."""
        return [result for (code, _, _), seeds in self._by_place.items() if code == treebank for result in seeds]

    def train_sentences(self, treebank: str) -> int | None:
        """Return the size of the training set; the results of Multi have that of all treebanks together."""
        return min((result.train_sentences for result in self.of_treebank(treebank)), default=None)

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

    def shared(self, systems: Sequence[str], split: str) -> tuple[list[str], list[str]]:
        """Return the systems that can be averaged, and the pooled treebanks that have results of all of them.

        A system with results on at most half as many treebanks as another is left out: it would leave too few.
        """
        has = {system: {code for code in self.pooled() if self.of(code, system, split)} for system in systems}
        most = max(map(len, has.values()), default=0)
        kept = [system for system, codes in has.items() if 2 * len(codes) > most]
        return kept, [code for code in self.pooled() if kept and all(code in has[system] for system in kept)]

    def note(self, codes: Collection[str], systems: Collection[str], split: str) -> str:
        """Say which tags, encoders and seeds the numbers of a table have, and which releases differ."""
        used = [result for code in codes for result in self.of_treebank(code) if result.system in systems]
        if not used:
            return "There are no results yet."
        pretrained = [result for result in used if result.system != BIAFFINE]
        seeds = sorted({result.seed for result in used})
        numbers = {len(self.of(code, system, "dev")) for code in codes for system in systems if system != FILES} - {0}
        early = self.tested_early(codes, systems)
        sentences = {
            f"Tags: {_values(used, 'tags')}.": True,
            f"Encoder: {_values(pretrained, 'encoder')}.": pretrained,
            "All models except Biaffine and Multi start from the weights of Multi, unlike the paper's.": any(
                result.start == MULTI for result in pretrained
            ),
            "The settings are shorter than those of the paper (by-size).": any(r.settings != "paper" for r in used),
            "Biaffine has no pretrained encoder.": len(pretrained) < len(used),
            f"{'Seeds' if len(seeds) > 1 else 'Seed'}: {in_words(list(map(str, seeds)))}"
            f"{', not all for each system' if len(numbers) > 1 else ''}.": True,
            "The seed with the best dev LAS is tested"
            + (f", except for {in_words(early)}, where a later seed is better on dev." if early else "."): (
                split == "test" and len(seeds) > 1
            ),
        }
        others = {code: sorted({result.release for result in self.of_treebank(code)}) for code in codes}
        named = [
            f"{code} is of {in_words([f'UD {name}' if name else 'an unknown release' for name in releases])}"
            for code, releases in others.items()
            if not self.is_comparable(code)
        ]
        sentences[f"† another release: not comparable with the paper ({'; '.join(named)})."] = bool(named)
        return " ".join(sentence for sentence, is_said in sentences.items() if is_said)


def _initial(refined: SystemResult) -> SystemResult:
    """Return the result of the initial parses that a system refined."""
    uas, las = refined.UAS_by_step[0] or 0.0, refined.LAS_by_step[0] or 0.0
    return replace(refined, system=FILES, UAS=uas, LAS=las, updates=None, training_seconds=None, parameters=0)


def _values(results: Sequence[SystemResult], field: str) -> str:
    """Return the most frequent value of a field, then the others, each with its treebanks."""
    counted = Counter(getattr(result, field) for result in results)
    most, *others = [value for value, _ in counted.most_common()] or [""]
    exceptions = []
    for value in others:
        codes = dict.fromkeys(result.treebank for result in results if getattr(result, field) == value)
        exceptions.append(f"{value} for {in_words([*codes])}")
    return f"{most} ({'; '.join(exceptions)})" if exceptions else str(most)


def percent(share: float | None) -> str:
    """Return a fraction in percent with two digits, or a dash."""
    return DASH if share is None else f"{100 * share:.2f}"


def counted_treebanks(codes: Sequence[str]) -> str:
    """Return the number of treebanks and their names.

    >>> counted_treebanks(["en_ewt", "tr_imst"])
    '2 treebanks (en_ewt, tr_imst)'
    """
    return f"{count(len(codes), 'treebank')} ({', '.join(codes)})" if codes else "no treebank"
