"""Learn from corrections: fine-tune a copy of the model in the background, and offer it if it makes fewer errors.

A process of its own does the work, so this module does not load torch. Each run starts from the original model and
learns from all corrected sentences, except those that are held back. Both models then parse the words of the held-back
sentences. The weights do not depend on these, so the comparison is fair; only confidences are calibrated on them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal

import numpy as np

from treefine.errors import TreefineError, count
from treefine.evaluation.significance import compare_counts
from treefine.model.bundled import bundled_models
from treefine.treebank.conllu import tree_faults
from treefine.treebank.files import open_output
from treefine.treebank.sentence import BLANK, Sentence
from treefine.worker_process import WorkerProcess

# The files and folders in the work folder:
_RECORD, _LOG = "learning.json", "learning.log"
_TRAINED, _NEW, _ADOPTED = "trained", "new", "model"  # a model that is not compared yet, that is offered, that is used
_LONGEST = 200  # words of a sentence to learn from


@dataclass(frozen=True)
class LearningSettings:
    """Settings of learning: when it starts, and how it trains. docs/annotating.md has the measurements."""

    least_sentences: int = 20  # corrected sentences before the first run
    again_after: int = 20  # new corrected sentences before the next run
    held_back: float = 0.25  # fraction of the sentences that the comparison needs
    most_p: float = 0.1  # that the difference is chance, for a new model with fewer errors to be offered
    epochs: int = 5
    most_words: int = 15_000  # words to read in all epochs; many sentences are read in fewer epochs
    learning_rate: float = 3e-4  # of the scorer and the tagger
    encoder_learning_rate: float = 1e-4
    batch_pieces: int = 500  # sub-words per batch


@dataclass(frozen=True)
class LearningState:
    """The state of a learner: the present run, or the result of the last one."""

    kind: Literal["idle", "training", "better", "not better", "failed"] = "idle"
    message: str = ""


def compared(
    gold: Sequence[Sentence], present: Iterable[Sentence], new: Iterable[Sentence], *, most_p: float
) -> LearningState:
    """Compare the trees of two models with the correct ones: a word is right if its head and its whole label are.

    The new model must be better, and the p of a randomisation test over sentences must not be above `most_p`.
    """
    before, after = ([_right_words(*pair) for pair in zip(gold, trees, strict=True)] for trees in (present, new))
    counts = {
        name: np.array([[len(words), len(words), sum(words)] for words in sentences], np.float64)
        for name, sentences in (("present", before), ("new", after))
    }
    comparison = compare_counts(counts)
    las, p = comparison.scores, comparison.between("present", "new").randomisation
    changes = [change for words in map(zip, before, after) for change in words]
    gained, lost = changes.count((False, True)), changes.count((True, False))
    message = (
        f"On {count(len(gold), 'held-back sentence')} ({count(len(changes), 'word')}) the new model has "
        f"{100 * las['new']:.1f} LAS, the present one {100 * las['present']:.1f}: "
        f"{count(gained, 'word')} became right, {lost} wrong (p = {p:.2g})."
    )
    if gained > lost and p <= most_p:
        return LearningState("better", message)
    return LearningState("not better", message + " This may be chance." * (gained > lost))


def _right_words(gold: Sentence, tree: Sentence) -> list[bool]:
    return [x == y for x, y in zip(zip(*gold.arcs, strict=True), zip(*tree.arcs, strict=True), strict=True)]


@dataclass(frozen=True)
class FineTuneRequest:
    """Everything that one run needs."""

    model: str  # to start from
    present: str  # to compare with
    language: str  # option of both; empty: identified
    train: tuple[Sentence, ...]
    held_back: tuple[Sentence, ...]
    output: Path  # folder of the new model
    settings: LearningSettings


def fine_tuner(request: FineTuneRequest) -> Any:
    """Return a FineTuner; only the worker process calls this, because it loads torch."""
    from treefine.studio.fine_tune import FineTuner

    if hasattr(os, "nice"):
        os.nice(10)  # others come first
    return FineTuner(request)


@dataclass(frozen=True)
class _Record:
    """The content of the work folder that later sessions need."""

    model: str  # the original model, and the language option: another choice starts from nothing
    language: str
    trained: Sequence[str] = ()  # keys of the sentences that a run has learned from
    held_back: Sequence[str] = ()  # keys of the others, which no run learns from
    is_adopted: bool = False  # whether the folder holds a model that was adopted
    state: LearningState = LearningState()  # after the last run


class CorrectionLearner:
    """Fine-tunes a copy of a model in the background when enough sentences have been corrected.

    The work folder keeps the adopted model and the division of the sentences from one session to the next. `create`
    makes the FineTuner in the worker process.
    """

    def __init__(
        self,
        model: str,
        folder: Path,
        *,
        language: str = "",
        settings: LearningSettings | None = None,
        create: Callable[[FineTuneRequest], Any] = fine_tuner,
    ) -> None:
        self.folder, self.settings, self._create = folder, settings or LearningSettings(), create
        name = model if model in bundled_models() or not Path(model).exists() else str(Path(model).resolve())
        self._record = _read_record(folder, name, language)
        self.state = self._record.state
        self._seen = {*self._record.trained, *self._record.held_back}  # with the sentences of runs that failed
        self._worker: WorkerProcess | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_stopped = False

    @property
    def present(self) -> str:
        """The model to use: the one that was adopted last, or the original one."""
        adopted = self.folder / _ADOPTED
        return str(adopted) if self._record.is_adopted and adopted.is_dir() else self._record.model

    def consider(self, corrected: Sequence[Sentence]) -> bool:
        """Start a run if there are enough new sentences and no run is active. Return whether one was started."""
        with self._lock:
            by_key = {key_of(sentence): sentence for sentence in corrected}
            n_new = sum(is_learnable(by_key[key]) for key in by_key.keys() - self._seen)
            is_enough = n_new >= (self.settings.again_after if self._seen else self.settings.least_sentences)
            if self._is_stopped or self.state.kind == "training" or not is_enough:
                return False
            by_key = {key: sentence for key, sentence in by_key.items() if is_learnable(sentence)}
            self._seen.update(by_key)
            record = self._record
            train, held_back = divided(by_key, record.trained, record.held_back, self.settings.held_back)
            names = (record.model, self.present, record.language)
            request = FineTuneRequest(*names, train, held_back, self.folder / _TRAINED, self.settings)
            self._show_progress(request, 0.0)
            self._thread = threading.Thread(target=self._run, args=(request,), name="learning", daemon=True)
            self._thread.start()
            return True

    def adopt(self, load: Callable[[str], object]) -> str:
        """Load the new model, make it the present one, also for later sessions, and return its folder.

        If `load` raises an error, the model before stays the present one.
        """
        with self._lock:
            if self.state.kind != "better":
                raise TreefineError("There is no better model to adopt.")
            new, adopted = self.folder / _NEW, self.folder / _ADOPTED
            load(str(new))
            shutil.rmtree(adopted, ignore_errors=True)
            new.rename(adopted)
            self._keep(replace(self._record, state=LearningState(), is_adopted=True))
            return str(adopted)

    def stop(self) -> None:
        """Stop the run, if there is one. Its process does not outlive this call, nor this process."""
        with self._lock:
            self._is_stopped = True
            if self._worker is not None:
                self._worker.kill()
        self.wait()

    def wait(self) -> LearningState:
        """Wait until the run ends, and return the state."""
        if self._thread is not None:
            self._thread.join()
        return self.state

    def _run(self, request: FineTuneRequest) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for left_over in self.folder.glob(f".{_TRAINED}.*"):  # by a process that was killed
                shutil.rmtree(left_over, ignore_errors=True)
            with self._lock:
                if self._is_stopped:
                    return
                self._worker = WorkerProcess(self._create, request, hint="There may not be enough memory.")
            progress = 0.0
            while progress < 1:
                progress = self._worker.run(methodcaller("epoch"), ())
                self._show_progress(request, progress)
            state: LearningState = self._worker.run(methodcaller("compared"), ())
            shutil.rmtree(self.folder / _NEW, ignore_errors=True)
            if state.kind == "better":
                request.output.rename(self.folder / _NEW)
            else:
                shutil.rmtree(request.output, ignore_errors=True)
            with self._lock:
                trained = sorted({*self._record.trained, *map(key_of, request.train)})
                held_back = sorted({*self._record.held_back, *map(key_of, request.held_back)})
                self._keep(replace(self._record, trained=trained, held_back=held_back, state=state))
        except Exception as error:  # nothing that fails here may end the studio
            with suppress(OSError):
                (self.folder / _LOG).write_text(f"{error}\n", encoding="utf-8")  # it may be a traceback
            reason = str(error).strip().rpartition("\n")[2]
            message = f"Learning failed: {reason} Details are in {self.folder / _LOG}."
            self.state = LearningState() if self._is_stopped else LearningState("failed", message)
        finally:
            if self._worker is not None:
                self._worker.close()

    def _show_progress(self, request: FineTuneRequest, progress: float) -> None:
        sentences = count(len(request.train), "corrected sentence")
        self.state = LearningState("training", f"Learning from {sentences}: {progress:.0%}.")

    def _keep(self, record: _Record) -> None:
        """Write the record, and show its state."""
        with open_output(self.folder / _RECORD) as stream:
            stream.write(json.dumps(asdict(record), ensure_ascii=False, indent=1).encode() + b"\n")
        self._record, self.state = record, record.state


def _read_record(folder: Path, model: str, language: str) -> _Record:
    """Read the record of an earlier session; without a readable one of this model, return an empty record."""
    record = _Record(model, language)
    with suppress(OSError, ValueError, TypeError, KeyError):
        values = json.loads((folder / _RECORD).read_bytes())
        state = LearningState(values["state"]["kind"], values["state"]["message"])
        if (values["model"], values["language"]) == (model, language):
            is_lost = state.kind == "better" and not (folder / _NEW).is_dir()
            record = _Record(**values | {"state": LearningState() if is_lost else state})
    return record


def key_of(sentence: Sentence) -> str:
    """Return a key of the words of a sentence; sentences with the same words have the same key."""
    return hashlib.sha256("\t".join(sentence.forms).encode()).hexdigest()[:16]


def is_learnable(sentence: Sentence) -> bool:
    """Return whether a sentence has a whole tree with labels, and is short enough to learn from."""
    has_labels = BLANK not in sentence.labels and len(sentence) <= _LONGEST
    return has_labels and not any(tree_faults(sentence, needs_one_root=True))


def divided(
    by_key: Mapping[str, Sentence], trained: Iterable[str], held_back: Iterable[str], fraction: float
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """Divide sentences, by their keys, into those to learn from and those to hold back.

    A sentence stays on the side where an earlier run had it, because the present model may have learned from it. Of
    the new sentences, those with the lowest keys are held back, up to the fraction of all sentences.
    """
    kept = set(held_back) & by_key.keys()
    new = by_key.keys() - kept - set(trained)
    kept.update(sorted(new)[: max(round(fraction * len(by_key)) - len(kept), 0)])
    return (
        tuple(sentence for key, sentence in by_key.items() if key not in kept),
        tuple(sentence for key, sentence in by_key.items() if key in kept),
    )
