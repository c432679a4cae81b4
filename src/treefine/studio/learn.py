"""Learn from corrections: fine-tune a copy of the model in the background, and offer it if it makes fewer errors.

A process of its own does the work, so this module does not load torch. Each run starts from the original model and
learns from all corrected sentences but the held-back ones, on which both models are compared.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
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

# The files and folders in the work folder; a run works in a folder of its own until its model is compared.
_RECORD, _LOG, _RUN, _NEW, _ADOPTED = "learning.json", "learning.log", "run", "new", "model"
_LONGEST = 200  # words of a sentence to learn from
_HELD_BACK = 4  # every fourth sentence


@dataclass(frozen=True)
class LearningSettings:
    """Settings of learning: when it starts, and how it trains. docs/annotating.md has the measurements."""

    every: int = 20  # new corrected sentences before a run
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
    """Compare the trees of two models with the correct ones, by heads and whole labels, in a test over sentences."""
    before, after = ([_right_words(*pair) for pair in zip(gold, trees, strict=True)] for trees in (present, new))
    old, now = (np.array([[len(words), len(words), sum(words)] for words in each], float) for each in (before, after))
    comparison = compare_counts({"present": old, "new": now})
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


def key_of(sentence: Sentence) -> str:
    """Return a key of the words of a sentence; sentences with the same words have the same key."""
    return hashlib.sha256("\t".join(sentence.forms).encode()).hexdigest()[:16]


def is_learnable(sentence: Sentence) -> bool:
    """Return whether a sentence has a whole tree with labels, and is short enough to learn from."""
    is_whole = BLANK not in sentence.labels and not any(tree_faults(sentence, needs_one_root=True))
    return is_whole and len(sentence) <= _LONGEST


@dataclass(frozen=True)
class FineTuneRequest:
    """Everything that one run needs."""

    model: str  # to start from
    present: str  # to compare with
    language: str  # option of both; empty: identified
    train: Sequence[Sentence]
    held_back: Sequence[Sentence]
    output: Path  # folder of the new model
    settings: LearningSettings


def fine_tuner(request: FineTuneRequest) -> Any:
    """Return a FineTuner; only the worker process calls this, because it loads torch."""
    from treefine.studio.fine_tune import FineTuner

    return FineTuner(request)


@dataclass(frozen=True)
class _Record:
    """The content of the work folder that later sessions need."""

    model: str  # the original model, and the language option: another choice starts from nothing
    language: str
    seen: Sequence[str] = ()  # the keys of all sentences so far; no run learns from every fourth of them
    is_adopted: bool = False  # whether the folder holds a model that was adopted
    kind: Any = "idle"  # the state after the last run
    message: str = ""


class CorrectionLearner:
    """Fine-tunes a copy of a model in the background, and keeps the adopted one in a folder for later sessions."""

    def __init__(
        self,
        model: str,
        folder: Path,
        *,
        language: str = "",
        settings: LearningSettings | None = None,
        create: Callable[[FineTuneRequest], Any] = fine_tuner,  # in the worker process
    ) -> None:
        self.folder, self.settings, self._create = folder, settings or LearningSettings(), create
        name = model if model in bundled_models() or not Path(model).exists() else str(Path(model).resolve())
        self._record = _Record(name, language)
        with suppress(OSError, ValueError, TypeError):  # there is no record, or not one of this version
            record = _Record(**json.loads((folder / _RECORD).read_bytes()))
            if (record.model, record.language) == (name, language):
                self._record = record
        self.state = LearningState(self._record.kind, self._record.message)
        self._seen = list(self._record.seen)  # with the sentences of runs that failed
        self._worker: WorkerProcess | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_stopped = False

    @property
    def present(self) -> str:
        """The model to use: the one that was adopted last, or the original one."""
        return str(self.folder / _ADOPTED) if self._record.is_adopted else self._record.model

    def consider(self, corrected: Sequence[Sentence]) -> bool:
        """Start a run if there are enough new sentences and no run is active. Return whether one was started."""
        with self._lock:
            by_key, seen = {key_of(sentence): sentence for sentence in corrected}, {*self._seen}
            new = [key for key, sentence in by_key.items() if key not in seen and is_learnable(sentence)]
            if self._is_stopped or self.state.kind == "training" or len(new) < self.settings.every:
                return False
            by_key = {key: sentence for key, sentence in by_key.items() if is_learnable(sentence)}
            self._seen += new  # a sentence keeps its place: the present model may have learned from it
            held_back = {*self._seen[_HELD_BACK - 1 :: _HELD_BACK]}
            request = FineTuneRequest(
                self._record.model,
                self.present,
                self._record.language,
                train=[sentence for key, sentence in by_key.items() if key not in held_back],
                held_back=[sentence for key, sentence in by_key.items() if key in held_back],
                output=self.folder / _RUN / "trained",
                settings=self.settings,
            )
            self.state = LearningState("training", "Learning starts.")
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
            self._keep(LearningState(), is_adopted=True)
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
        folder = request.output.parent
        try:
            shutil.rmtree(folder, ignore_errors=True)  # left over by a process that was killed
            folder.mkdir(parents=True)
            with self._lock:
                if self._is_stopped:
                    return
                self._worker = WorkerProcess(self._create, request, hint="There may not be enough memory.")
            progress, sentences = 0.0, count(len(request.train), "corrected sentence")
            while progress < 1:
                self.state = LearningState("training", f"Learning from {sentences}: {progress:.0%}.")
                progress = self._worker.run(methodcaller("epoch"), ())
            state: LearningState = self._worker.run(methodcaller("compared"), ())
            shutil.rmtree(self.folder / _NEW, ignore_errors=True)
            if state.kind == "better":
                request.output.rename(self.folder / _NEW)
            with self._lock:
                self._keep(state, seen=tuple(self._seen))
        except Exception as error:  # nothing that fails here may end the studio
            with suppress(OSError):
                (self.folder / _LOG).write_text(f"{error}\n", encoding="utf-8")  # it may be a traceback
            reason = str(error).strip().rpartition("\n")[2]
            message = f"Learning failed: {reason} Details are in {self.folder / _LOG}."
            self.state = LearningState() if self._is_stopped else LearningState("failed", message)
        finally:
            if self._worker is not None:
                self._worker.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _keep(self, state: LearningState, **values: Any) -> None:
        """Write the record with new values, and show the state."""
        record = replace(self._record, kind=state.kind, message=state.message, **values)
        with open_output(self.folder / _RECORD) as stream:
            stream.write(json.dumps(asdict(record), ensure_ascii=False, indent=1).encode() + b"\n")
        self._record, self.state = record, state
