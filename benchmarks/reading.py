"""Reading a treebank beside the packages `conllu` and `pyconll`, and rewriting one of a gigabyte."""

from __future__ import annotations

import filecmp
import json
import lzma
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks.rows import TREEBANKS, save_row, seconds
from treefine import read_treebank

TRAIN = TREEBANKS / "en_ewt" / "train.conllu.xz"
Cell = tuple[str, str, int | None, str]


def by_treefine(path: str) -> Iterator[Cell]:
    for sentence in read_treebank(path):
        yield from zip(sentence.forms, sentence.upos, sentence.heads, sentence.labels, strict=True)


def by_conllu(path: str) -> Iterator[Cell]:
    import conllu

    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        for sentence in conllu.parse_incr(file):
            for token in sentence:
                if isinstance(token["id"], int):
                    yield token["form"], token["upos"], token["head"], token["deprel"]


def by_pyconll(path: str) -> Iterator[Cell]:
    import pyconll

    for sentence in pyconll.iter_from_file(path):
        for token in sentence:
            if not (token.is_multiword() or token.is_empty_node()):
                yield token.form, token.upos, int(token.head), token.deprel


def only_read(path: str) -> dict[str, Callable[[], object]]:
    import conllu
    import pyconll

    def read_conllu() -> int:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return sum(1 for _ in conllu.parse_incr(file))

    return {
        "treefine": lambda: sum(1 for _ in read_treebank(path)),
        "conllu": read_conllu,
        "pyconll": lambda: sum(1 for _ in pyconll.iter_from_file(path)),
    }


def measure_reading(rounds: int = 7) -> None:
    """Read en_ewt train, and read it and use four columns of each word; rounds are interleaved."""
    with tempfile.NamedTemporaryFile(suffix=".conllu") as file:
        file.write(lzma.open(TRAIN).read())
        file.flush()
        path = file.name
        users = {"treefine": by_treefine, "conllu": by_conllu, "pyconll": by_pyconll}
        words = {name: list(use(path)) for name, use in users.items()}
        if not words["treefine"] == words["conllu"] == words["pyconll"]:
            sys.exit("the libraries do not read the same words: no time is printed")
        readers = only_read(path)
        times: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, use in users.items():
                times.setdefault(f"{name}, read", []).append(seconds(readers[name]))
                times.setdefault(f"{name}, use", []).append(seconds(lambda use=use: sum(1 for _ in use(path))))
    result: dict[str, float] = {f"{name}_seconds": round(statistics.median(t), 4) for name, t in times.items()}
    for peer in ("conllu", "pyconll"):
        for kind in ("read", "use"):
            pairs = zip(times[f"{peer}, {kind}"], times[f"treefine, {kind}"], strict=True)
            result[f"{peer}/treefine, {kind}"] = round(statistics.median(a / b for a, b in pairs), 2)
    config = {
        "file": "en_ewt train",
        "words": len(words["treefine"]),
        "rounds": rounds,
        "conllu": version("conllu"),
        "pyconll": version("pyconll"),
    }
    save_row("reading", config, result)


def measure_memory(gigabytes: float = 1.0) -> None:
    """Read and rewrite a file made by repetition in a process of its own, and compare the two byte for byte."""
    content = lzma.open(TRAIN).read()
    copies = -(-int(gigabytes * 10**9) // len(content))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.conllu"), Path(folder, "out.conllu")
        with source.open("wb") as file:
            for _ in range(copies):
                file.write(content)
        program = (
            "import json, re, sys, time; from pathlib import Path; from treefine import read_treebank, write_treebank\n"
            "start = time.perf_counter(); count = write_treebank(read_treebank(sys.argv[1]), sys.argv[2])\n"
            # Not ru_maxrss: Linux hands the parent's peak down to the child.
            "peak = int(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1]) / 1024\n"
            "print(json.dumps({'sentences': count, 'seconds': time.perf_counter() - start, 'peak_mib': peak}))"
        )
        command = [sys.executable, "-c", program, str(source), str(target)]
        measured = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        if not filecmp.cmp(source, target, shallow=False):
            sys.exit("the file that was written differs from the one that was read")
        size = source.stat().st_size
    result = {
        "bytes": size,
        "sentences": measured["sentences"],
        "peak_mib": round(measured["peak_mib"], 1),
        "seconds": round(measured["seconds"], 1),
        "megabytes_per_second": round(size / 1e6 / measured["seconds"], 1),
    }
    save_row("memory", {"file": "en_ewt train, repeated", "copies": copies}, result)
