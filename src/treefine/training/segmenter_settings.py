"""The section [segmenter] of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field

from treefine.config import SegmenterSettings


@dataclass(frozen=True, slots=True)
class SegmenterTraining:
    """How a segmenter is trained on the text of the treebank; what has a share is drawn anew each epoch."""

    network: SegmenterSettings = field(default_factory=SegmenterSettings)
    epochs: int = 40
    rate: float = 2e-3
    window: int = 640  # characters that are read together
    batch_windows: int = 32  # fewer suit a small treebank: it needs some thousand updates
    weight_decay: float = 0.01
    average: float = 0.995  # what a running mean of the weights keeps of itself at an update
    hidden: float = 0.05  # share of the characters that the network does not get to see; of the runs it is twice that
    joined: float = 0.1  # share of the documents that no blank line parts from the next
    shuffled: float = 0.5  # share of the documents whose sentences stand in another order
    wrapped: float = 0.1  # share of the documents that have lines of some width …
    lines: float = 0.05  # … or a sentence a line
    lowered: float = 0.05  # share of the sentences in small letters
    unpointed: float = 0.05  # share of the sentences without their last full stop

    def __post_init__(self) -> None:
        counts = {"epochs": self.epochs, "window": self.window, "batch_windows": self.batch_windows}
        faults = [f"{name} = 0; it must be at least 1" for name, count in counts.items() if not count]
        names = ("joined", "shuffled", "lowered", "unpointed")
        shares = {name: getattr(self, name) for name in names}
        faults += [f"{name} = {share}; it must not be over 1" for name, share in shares.items() if share > 1]
        if self.wrapped + self.lines > 1:
            faults.append("wrapped and lines together are over 1")
        if self.hidden >= 0.5:
            faults.append(f"hidden = {self.hidden}; it must be below 0.5")
        if self.average >= 1:
            faults.append(f"average = {self.average}; it must be below 1")
        if faults:
            raise ValueError(*faults)
