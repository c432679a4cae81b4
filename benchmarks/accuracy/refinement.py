"""List the trainings that show what refinement adds: RNGTr, and SynTr with as many updates, by training size."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.options import command, option

RECIPES = Path("benchmarks", "recipes")  # from the root of the repository, where the commands run
STEPS, EVALUATIONS = 3, 4  # T of RNGTr; dev scores per training, among which the best epoch is chosen
SYNTR = ("relations.graph=none", "refine.max_steps=1")
NEWS = ("treebank.train=$GENRES/en_ewt-news/train.conllu", "treebank.dev=$GENRES/en_ewt-news/dev.conllu")
REVIEWS = "$GENRES/en_ewt-reviews/dev.conllu"
TRIED = {  # by name: changes of RNGTr that may make later steps worth more
    "sampled": ("refine.sampled=0.15",),
    "noised": ("initial.noised_share=0.3",),
    "unstopped": ("refine.stop=false",),
    "jackknifed": (f"initial.parser={RECIPES}/tr_imst-refinement-syntr.toml", "initial.folds=2"),
}
START_SECONDS, DEV_SECONDS = 24.0, 1.5  # on an H200 that 14 trainings share: start and end; one step over dev
UPDATE_SECONDS = {"rngtr": 0.06, "syntr": 0.045}


@dataclass(frozen=True)
class Size:
    """A training set, and the settings that give at least about 700 updates on it."""

    treebank: str
    sentences: int  # 0: all
    epochs: int  # of RNGTr; SynTr has as many times more as RNGTr has steps
    batch_pieces: int
    n_pieces: int  # of the training set, about
    part: str = ""  # "news": train on one genre, and measure on another as well

    @property
    def name(self) -> str:
        """The name of the treebank, its part, and the number of sentences."""
        return "-".join(filter(None, [self.treebank, self.part, str(self.sentences or "all")]))


def _sample(treebank: str, sentences: int, pieces_per_sentence: int) -> Size:
    epochs, batch_pieces = {100: (48, 500), 300: (40, 1000), 1000: (24, 2000), 3000: (16, 4000)}[sentences]
    return Size(treebank, sentences, epochs, batch_pieces, sentences * pieces_per_sentence)


SIZES = (
    *(_sample("en_ewt", sentences, 22) for sentences in (100, 300, 1000, 3000)),
    Size("en_ewt", 0, 8, 4000, 276_000),
    Size("en_ewt", 0, 12, 4000, 90_000, part="news"),
    *(_sample("tr_imst", sentences, 23) for sentences in (100, 1000)),
    Size("tr_imst", 0, 8, 2000, 85_000),
    _sample("ko_gsd", 1000, 31),
    Size("ko_gsd", 0, 8, 2000, 136_000),
)
MORE_SIZES = (_sample("tr_imst", 300, 23), _sample("ko_gsd", 100, 31))  # if there is time
SIZE_OF_TRIED = next(size for size in SIZES if (size.treebank, size.sentences) == ("tr_imst", 1000))


@dataclass(frozen=True)
class Training:
    """One training: a system on a training set, with a seed."""

    size: Size
    system: str  # "rngtr" or "syntr"
    seed: int
    tried: str = ""  # a key of TRIED

    @property
    def name(self) -> str:
        """The name of its files."""
        return "-".join(filter(None, [self.size.name, self.system, self.tried, f"seed{self.seed}"]))

    @property
    def epochs(self) -> int:
        """The number of epochs: as many updates for both systems, if no batch of RNGTr stops before its last step."""
        return self.size.epochs * (STEPS if self.system == "syntr" else 1)

    @property
    def changes(self) -> tuple[str, ...]:
        """The changes of the recipe. The size is always among them, so no row counts as an unchanged recipe."""
        size = self.size
        return (
            *(NEWS if size.part == "news" else ()),
            f"treebank.sentences={size.sentences}",
            f"training.epochs={self.epochs}",
            f"training.batch_pieces={size.batch_pieces}",
            f"training.dev_every={self.epochs // EVALUATIONS}",
            *(SYNTR if self.system == "syntr" else ()),
            *TRIED.get(self.tried, ()),
        )

    @property
    def seconds(self) -> float:
        """The estimated seconds of the process."""
        n_steps = STEPS if self.system == "rngtr" else 1
        updates = math.ceil(self.size.n_pieces / self.size.batch_pieces) * self.size.epochs * STEPS
        seconds = START_SECONDS + (EVALUATIONS + 1) * n_steps * DEV_SECONDS + updates * UPDATE_SECONDS[self.system]
        if self.tried == "jackknifed":  # SynTr on all sentences, and on each half of them
            seconds += 2 * updates * UPDATE_SECONDS["syntr"]
        return seconds

    def command(self, work: Path) -> str:
        """Return the command line, with the estimated seconds as a comment."""
        arguments = ["python", "-m", "benchmarks", "accuracy", str(RECIPES / f"{self.size.treebank}-refinement.toml")]
        arguments += [part for change in self.changes for part in ("--set", change)]
        arguments += ["--seeds", str(self.seed), "--output", str(work / "runs")]
        arguments += ["--rows", str(work / "rows" / f"{self.name}.jsonl"), "--predictions", str(work / "predictions")]
        arguments += ["--also", REVIEWS] if self.size.part == "news" else []
        return f"{shlex.join(arguments)} # {math.ceil(self.seconds)} s"


def trainings(seeds: Sequence[int], treebanks: Sequence[str] = ()) -> Iterator[Training]:
    """Yield the trainings: those of SIZES, what was tried, then MORE_SIZES.

    Within each group the longest come first, so that a queue does not end with a long job.
    """

    def both(sizes: Sequence[Size]) -> list[Training]:
        return [Training(size, system, seed) for size in sizes for system in ("rngtr", "syntr") for seed in seeds]

    tried = [Training(SIZE_OF_TRIED, "rngtr", seed, name) for name in TRIED for seed in seeds]
    for each in (both(SIZES), tried, both(MORE_SIZES)):
        chosen = [one for one in each if not treebanks or one.size.treebank in treebanks]
        yield from sorted(chosen, key=lambda one: -one.seconds)


@command(
    option("action", choices=["jobs"], help="jobs: print one command line per training, for the queue"),
    option("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3"),
    option("--treebank", nargs="+", default=[], help="only these treebanks (default: all)"),
    option("--work", type=Path, default=Path("refinement"), help="folder for runs, rows and predictions"),
)
def measure_refinement(options: argparse.Namespace) -> None:
    """Print the command lines of the trainings for docs/refinement.md, with their estimated seconds.

    python -m benchmarks genres --output refinement/genres
    python -m benchmarks refinement jobs > jobs.txt
    GENRES=refinement/genres python -m benchmarks queue jobs.txt --at-once 14 --minutes 9 --logs refinement/logs
    """
    for training in trainings(options.seeds, options.treebank):
        print(training.command(options.work))
