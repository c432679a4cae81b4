"""Learn from corrections: fine-tune a copy of the model in the background, and offer it if it makes fewer errors.

A process of its own does the work, so importing this module does not load torch. Each run starts from the original
model and learns from all corrected sentences, except those that are held back. Both models then parse the held-back
sentences from their words alone. The weights do not depend on these sentences, so the comparison is fair; only the
confidences of the new model are calibrated on them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from treefine.config import read_settings
from treefine.errors import TreefineError
from treefine.model.bundled import bundled_models
from treefine.treebank.conllu import tree_faults
from treefine.treebank.files import open_output
from treefine.treebank.sentence import BLANK, Sentence
from treefine.worker_process import WorkerProcess

if TYPE_CHECKING:
    from treefine.studio.fine_tune import FineTuner

# The files and folders in the work folder:
_RECORD, _LOG = "learning.json", "learning.log"
_TRAINED, _NEW, _ADOPTED = "trained", "new", "model"  # a model that is not compared yet, that is offered, that is used
_LONGEST = 200  # words of a sentence to learn from


@dataclass(frozen=True)
class LearningSettings:
    """Settings of learning: when it starts, and how it trains. docs/annotating.md has the measurements."""

    least_sentences: int = 20  # corrected sentences before the first run
    again_after: int = 20  # new corrected sentences before the next run
    held_back: float = 0.25  # share of the sentences that the comparison needs
    most_p: float = 0.25  # of the sign test, for a new model with fewer errors to be offered
    epochs: int = 5
    most_words: int = 15_000  # words to read in all epochs; many sentences are read in fewer epochs
    learning_rate: float = 3e-4  # of the scorer and the tagger
    encoder_learning_rate: float = 1e-4
    batch_pieces: int = 500  # sub-words per batch
    masking: float = 0.1  # share of the sub-words that are masked
    seed: int = 1
    niceness: int = 10  # of the process, so that others come first


@dataclass(frozen=True)
class HeldBackComparison:
    """The trees of two models for the held-back sentences. A word is right if its head and its whole label are."""

    sentences: int
    words: int
    right_heads: tuple[int, int]  # words with the right head: of the present model, of the new model
    right: tuple[int, int]  # words with the right head and label
    became_right: int
    became_wrong: int

    @classmethod
    def of(cls, gold: Sequence[Sentence], present: Iterable[Sentence], new: Iterable[Sentence]) -> HeldBackComparison:
        """Compare the trees of both models with the correct trees."""
        heads, arcs = [0, 0], [0, 0]
        became_right = became_wrong = 0
        for right, before, after in zip(gold, present, new, strict=True):
            pairs = [zip(each.heads, each.labels, strict=True) for each in (right, before, after)]
            for (head, label), *found in zip(*pairs, strict=True):
                is_right = [each == (head, label) for each in found]
                for place, (ours, _) in enumerate(found):
                    heads[place] += ours == head
                    arcs[place] += is_right[place]
                became_right += is_right == [False, True]
                became_wrong += is_right == [True, False]
        n_words = sum(map(len, gold))
        counts = (heads[0], heads[1]), (arcs[0], arcs[1]), became_right, became_wrong
        return cls(len(gold), n_words, *counts)

    @property
    def p(self) -> float:
        """The two-sided p of the sign test."""
        return sign_test(self.became_right, self.became_wrong)


def sign_test(first: int, second: int) -> float:
    """Return the two-sided p of the exact sign test: how often a fair coin gives counts at least as far apart.

    Words of one sentence depend on each other, so the true probability is somewhat higher.

    >>> sign_test(9, 3), sign_test(0, 0)
    (0.14599609375, 1.0)
    """
    n = first + second
    as_low = sum(math.comb(n, k) for k in range(min(first, second) + 1))
    return min(1.0, 2 * as_low / (1 << n))


LearningKind = Literal["idle", "training", "better", "not better", "failed"]


@dataclass(frozen=True)
class LearningState:
    """The state of a learner and the result of its last run. Scores are in percent."""

    kind: LearningKind = "idle"
    message: str = ""
    progress: float = 0.0  # of the current run, from 0 to 1
    sentences: int = 0  # that the model learned from
    held_back: int = 0  # sentences of the comparison
    words: int = 0  # of these sentences
    uas: float = 0.0  # of the present model
    new_uas: float = 0.0
    las: float = 0.0  # by whole labels: nmod:poss is not nmod
    new_las: float = 0.0
    became_right: int = 0  # words
    became_wrong: int = 0
    p: float = 1.0  # of the sign test
    seconds: float = 0.0
    model: str = ""  # folder of the new model, if it is better

    @classmethod
    def of(cls, found: HeldBackComparison, *, most_p: float = 1.0) -> LearningState:
        """Return the state after a comparison. The new model must be better, and p must not be above `most_p`."""
        has_gained = found.became_right > found.became_wrong
        is_better = has_gained and found.p <= most_p
        uas, las = ([100 * number / found.words for number in each] for each in (found.right_heads, found.right))
        message = (
            f"On {_counted(found.sentences, 'held-back sentence')} ({_counted(found.words, 'word')}) the new model has "
            f"{las[1]:.1f} LAS, the present one {las[0]:.1f}: {_counted(found.became_right, 'word')} became right, "
            f"{found.became_wrong} wrong (p = {found.p:.2g})."
        )
        return cls(
            "better" if is_better else "not better",
            message + " This may be chance." * (has_gained and not is_better),
            progress=1.0,
            held_back=found.sentences,
            words=found.words,
            uas=uas[0],
            new_uas=uas[1],
            las=las[0],
            new_las=las[1],
            became_right=found.became_right,
            became_wrong=found.became_wrong,
            p=found.p,
        )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class LearningJob:
    """Everything that one run needs."""

    model: str  # to start from
    present: str  # to compare with
    language: str  # option of both; empty: identified
    train: tuple[Sentence, ...]
    held_back: tuple[Sentence, ...]
    output: Path  # folder of the new model
    settings: LearningSettings


class FineTuning:
    """One run in the worker process. Its methods import torch when they are called."""

    def __init__(self, job: LearningJob) -> None:
        self.job = job
        self.tuner: FineTuner | None = None

    def step(self) -> float:
        """Load the model, or train for one epoch. Return the completed share of the training."""
        from treefine.studio.fine_tune import FineTuner

        if self.tuner is None:
            if hasattr(os, "nice"):
                os.nice(self.job.settings.niceness)
            self.tuner = FineTuner(self.job)
            return 0.0
        return self.tuner.epoch()

    def compared(self) -> HeldBackComparison:
        """Save the new model, and compare it with the present one."""
        assert self.tuner is not None
        return self.tuner.compared()


@dataclass(frozen=True)
class _Record:
    """The content of the work folder that later sessions need."""

    model: str  # the original model, and the language option: another choice starts from nothing
    language: str
    trained: tuple[str, ...] = ()  # keys of the sentences that a run has learned from
    held_back: tuple[str, ...] = ()  # keys of the others, which no run learns from
    state: LearningState = field(default_factory=LearningState)  # after the last run
    is_adopted: bool = False  # whether the folder holds a model that was adopted


class CorrectionLearner:
    """Fine-tunes a copy of a model in the background when enough sentences have been corrected.

    The work folder keeps the adopted model and the division of the sentences from one session to the next.
    """

    work: type[FineTuning] = FineTuning  # that the worker process does

    def __init__(
        self,
        model: str,
        folder: str | os.PathLike[str],
        *,
        language: str = "",
        settings: LearningSettings | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.settings = settings or LearningSettings()
        found = model if model in bundled_models() or not Path(model).exists() else str(Path(model).resolve())
        self._record = _read_record(self.folder / _RECORD, found, language)
        self._state = self._record.state
        self._worker: WorkerProcess | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_stopped = False
        self._seen = {*self._record.trained, *self._record.held_back}  # with the sentences of runs that failed

    @property
    def present(self) -> str:
        """The model to use: the one that was adopted last, or the original one."""
        adopted = self.folder / _ADOPTED
        return str(adopted) if self._record.is_adopted and adopted.is_dir() else self._record.model

    @property
    def state(self) -> LearningState:
        """The present state."""
        return self._state

    def consider(self, corrected: Sequence[Sentence]) -> bool:
        """Start a run if there are enough new sentences and no run is active. Return whether one was started."""
        with self._lock:
            if self._is_stopped or self._state.kind == "training":
                return False
            settings, by_key = self.settings, {key_of(each): each for each in corrected}
            needed = settings.again_after if self._seen else settings.least_sentences
            if len(by_key.keys() - self._seen) >= needed:
                by_key = {key: each for key, each in by_key.items() if is_learnable(each)}
            n_missing = needed - len(by_key.keys() - self._seen)
            if n_missing > 0:
                if not self._seen:
                    missing = _counted(n_missing, "more corrected sentence")
                    self._state = LearningState(message=f"Learning starts after {missing}.")
                return False
            self._seen |= by_key.keys()
            train, held_back = divided(by_key, self._record.trained, self._record.held_back, settings.held_back)
            self._state = LearningState("training", _training(len(train), 0.0), sentences=len(train))
            job = LearningJob(
                self._record.model,
                self.present,
                self._record.language,
                train,
                held_back,
                self.folder / _TRAINED,
                settings,
            )
            self._thread = threading.Thread(target=self._run, args=(job,), name="learning", daemon=True)
            self._thread.start()
            return True

    def adopt(self, load: Callable[[str], object]) -> str:
        """Load the new model, make it the present one, also for later sessions, and return its folder.

        If `load` raises an error, the model before stays the present one.
        """
        with self._lock:
            if self._state.kind != "better":
                raise TreefineError("There is no better model to adopt.")
            new, adopted = self.folder / _NEW, self.folder / _ADOPTED
            load(str(new))
            shutil.rmtree(adopted, ignore_errors=True)
            new.rename(adopted)
            n_sentences = _counted(self._state.sentences, "corrected sentence")
            state = replace(self._state, kind="idle", model="", message=f"The model has learned from {n_sentences}.")
            self._keep(replace(self._record, state=state, is_adopted=True))
            return str(adopted)

    def stop(self) -> None:
        """Stop the run, if there is one. Its process does not outlive this call, nor this process."""
        with self._lock:
            self._is_stopped = True
            if self._worker is not None:
                self._worker.kill()
        self.wait()

    def wait(self, seconds: float | None = None) -> LearningState:
        """Wait until the run ends, or for some seconds, and return the state."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._state

    def _run(self, job: LearningJob) -> None:
        start = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for left_over in self.folder.glob(f".{_TRAINED}.*"):  # by a process that was killed
                shutil.rmtree(left_over, ignore_errors=True)
            with self._lock:
                if self._is_stopped:
                    return
                self._worker = WorkerProcess(self.work, job, hint="There may not be enough memory.")
            share = self._worker.run(self.work.step, ())
            while share < 1:
                share = self._worker.run(self.work.step, ())
                self._state = replace(self._state, progress=share, message=_training(len(job.train), share))
            found = self._worker.run(self.work.compared, ())
            state = LearningState.of(found, most_p=job.settings.most_p)
            state = replace(state, sentences=len(job.train), seconds=round(time.monotonic() - start, 1))
            if state.kind == "better":
                shutil.rmtree(self.folder / _NEW, ignore_errors=True)
                state = replace(state, model=str(job.output.rename(self.folder / _NEW)))
            else:
                self.discard(job.output)
            with self._lock:
                trained, held_back = (
                    tuple(sorted({*before, *map(key_of, now)}))
                    for before, now in ((self._record.trained, job.train), (self._record.held_back, job.held_back))
                )
                self._keep(replace(self._record, trained=trained, held_back=held_back, state=state))
        except Exception as error:  # nothing that fails here may end the studio
            self._state = LearningState() if self._is_stopped else self._failed(error, time.monotonic() - start)
        finally:
            if self._worker is not None:
                self._worker.close()

    def discard(self, model: Path) -> None:
        """Remove a new model that is not better."""
        shutil.rmtree(model, ignore_errors=True)

    def _failed(self, error: Exception, seconds: float) -> LearningState:
        """Return the state after an error, with its details in the log."""
        details = str(error).strip()
        message = f"Learning failed: {details.splitlines()[-1].removesuffix('.')}." if details else "Learning failed."
        if "\n" in details:  # a traceback
            with suppress(OSError):
                (self.folder / _LOG).write_text(details + "\n", encoding="utf-8")
                message += f" Details are in {self.folder / _LOG}."
        return LearningState("failed", message, seconds=round(seconds, 1))

    def _keep(self, record: _Record) -> None:
        """Write the record, and show its state."""
        with open_output(self.folder / _RECORD) as stream:
            stream.write(json.dumps(asdict(record), ensure_ascii=False, indent=1).encode() + b"\n")
        self._record, self._state = record, record.state


def _training(n_sentences: int, share: float) -> str:
    return f"Learning from {_counted(n_sentences, 'corrected sentence')}: {share:.0%}."


def _read_record(path: Path, model: str, language: str) -> _Record:
    """Read the record of an earlier session; without a readable one of this model, return an empty record."""
    try:
        found = read_settings(_Record, json.loads(path.read_bytes()), path=str(path))
    except (OSError, ValueError, TreefineError):
        return _Record(model, language)
    if (found.model, found.language) != (model, language):
        return _Record(model, language)
    is_lost = found.state.kind == "better" and not (path.parent / _NEW).is_dir()
    return replace(found, state=LearningState()) if is_lost else found


def key_of(sentence: Sentence) -> str:
    """Return a key of the words of a sentence; sentences with the same words have the same key."""
    return hashlib.sha256("\t".join(sentence.forms).encode()).hexdigest()[:16]


def is_learnable(sentence: Sentence) -> bool:
    """Return whether a sentence has a whole tree with labels, and is short enough to learn from."""
    has_labels = BLANK not in sentence.labels and len(sentence) <= _LONGEST
    return has_labels and not any(tree_faults(sentence, needs_one_root=sentence.format.is_ud))


def divided(
    by_key: Mapping[str, Sentence], trained: Iterable[str], held_back: Iterable[str], share: float
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """Divide sentences, by their keys, into those to learn from and those to hold back.

    A sentence stays on the side where an earlier run had it, because the present model may have learned from it. Of
    the new sentences, those with the lowest keys are held back, up to the share of all sentences.
    """
    kept = set(held_back) & by_key.keys()
    new = by_key.keys() - kept - set(trained)
    kept.update(sorted(new)[: max(round(share * len(by_key)) - len(kept), 0)])
    return (
        tuple(each for key, each in by_key.items() if key not in kept),
        tuple(each for key, each in by_key.items() if key in kept),
    )
