"""Write and read rows.jsonl: one JSON row per run, with its commit, machine, configuration and result."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from treefine import TreefineError

ROOT = Path(__file__).parents[1]
ROWS = Path(__file__).with_name("rows.jsonl")
PREDICTIONS = Path(__file__).with_name("predictions")
TREEBANKS = ROOT.parent / "shared" / "treebanks" / "ud-2.3"
RELEASES = {("permissive", "en_ewt"): "2.16"}  # UD releases of treebanks whose folder does not name it
DEVICES = ("cpu", "cuda")
Row = dict[str, Any]


def english_path(treebanks: Path, split: str) -> Path:
    """Return the file of a split of en_ewt."""
    path = treebanks / "en_ewt" / f"{split}.conllu.xz"
    if not path.exists():
        raise TreefineError(f"{path} does not exist.", hint="Name the folder of all treebanks: --treebanks DIR.")
    return path


def release_of(treebanks: Path, treebank: str) -> str:
    """Return the UD release of a treebank, from the name of the folder of all treebanks; empty if it is not known.

    >>> (
    ...     release_of(Path("shared/ud-2.3"), "tr_imst"),
    ...     release_of(Path("permissive"), "en_ewt"),
    ...     release_of(Path("a"), "b"),
    ... )
    ('2.3', '2.16', '')
    """
    name = treebanks.resolve().name
    found = re.fullmatch(r"ud-([0-9.]+)", name)
    return found[1] if found else RELEASES.get((name, treebank), "")


def machine() -> dict[str, Any]:
    """Return the processor, its cores and the version of Python."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """Return the current commit, with a + if src has changes; $COMMIT on a machine without git."""
    if "COMMIT" in os.environ:
        return os.environ["COMMIT"]

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "src") else "")


def save_row(
    benchmark: str, config: dict[str, Any], result: dict[str, Any], *, path: Path = ROWS, when: str = ""
) -> None:
    """Append a row and print its result; `when` is the time of the measurement, if it is not now."""
    row = {
        "benchmark": benchmark,
        "when": when or datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "config": config,
        "result": result,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(f"{benchmark}:")
    for name, value in result.items():
        print(f"  {name}: {value}")


def model_fields(name: str | Path) -> dict[str, str]:
    """Return the name of a model and the checksum of its weights, as fields of a config."""
    from treefine.model.bundled import find_model

    folder = find_model(str(name))
    return {"model": folder.name, "weights": weights_checksum(folder)}


def torch_fields(device: str) -> dict[str, Any]:
    """Return the name of the GPU or "cpu", the number of threads and the torch version, as fields of a config."""
    import torch

    card = torch.cuda.get_device_name() if device.startswith("cuda") else device
    return {"device": card, "threads": torch.get_num_threads(), "torch": torch.__version__}


def weights_checksum(folder: Path) -> str:
    """Return the SHA-256 of all weights in a model folder, with those of its segmenter and initial parser."""
    paths = sorted(folder.rglob("*.safetensors"))
    if not paths:
        raise TreefineError("This folder has no weights.", hint="Name a model folder.", path=str(folder))
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(folder).as_posix()}\n{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_rows(benchmark: str, *, path: Path = ROWS, **wanted: Any) -> list[Row]:
    """Return the rows of a benchmark whose config has the wanted fields, oldest first; none without a file."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [row for row in map(json.loads, lines) if row["benchmark"] == benchmark]
    return [row for row in rows if wanted.items() <= row["config"].items()]


def newest(benchmark: str, device: str, *, path: Path = ROWS) -> Row:
    """Return the newest row of a benchmark on a device."""
    return [row for row in read_rows(benchmark, path=path) if device_of(row) == device][-1]


def device_of(row: Row) -> str:
    """Return "cpu" or "cuda"; a row holds one of these or the name of the GPU."""
    return "cpu" if row["config"].get("device", "cpu") == "cpu" else "cuda"


def machine_of(row: Row) -> str:
    """Describe the machine: the GPU if there is one, the processor and its cores.

    >>> machine_of({"machine": {"processor": "AMD EPYC", "cores": 2}, "config": {"device": "cpu"}})
    'AMD EPYC, 2 cores'
    """
    config, machine = row["config"], row["machine"]
    card = config.get("device_name") or (config["device"] if config.get("device") not in (None, "cpu", "cuda") else "")
    processor = machine["processor"].replace("(R)", "").removesuffix(" Processor")
    cores = f"{processor}, {machine['cores']} cores".removeprefix(", ")
    return f"{card}, {cores}" if card else cores


def origin(row: Row, command: str) -> str:
    """Return the command, date, commit and machine of a row."""
    return f"`{command}`, {row['when'][:10]}, commit {row['commit']}, {machine_of(row)}."
