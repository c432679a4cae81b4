"""What a training measured, one JSON line an epoch, and for TensorBoard where that is installed."""

from __future__ import annotations

import json
from pathlib import Path


class Metrics:
    """Writes metrics.jsonl. Lines of epochs that are done anew are dropped first."""

    def __init__(self, folder: Path, *, after_epoch: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "metrics.jsonl"
        kept = []
        if self.path.exists():
            lines = self.path.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if line.endswith("}") and json.loads(line)["epoch"] <= after_epoch]
        self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def add(self, epoch: int, values: dict[str, float]) -> None:
        """Write the values of one epoch."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": epoch, **values}) + "\n")
