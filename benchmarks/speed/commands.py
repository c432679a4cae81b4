"""Measure reading, scoring, comparing, analysing and start-up."""

from __future__ import annotations

import filecmp
import io
import json
import lzma
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks.rows import ROOT, TREEBANKS, save_row
from benchmarks.timing import Work, in_turn, median_ratio, seconds
from tests.support.oracles import change_labels, corrupt, move_heads, official, ours, render, udtools, unpack
from treefine import read_treebank
from treefine.evaluation.scores import load_pair
from treefine.evaluation.significance import compare

TRAIN, DEV = (TREEBANKS / "en_ewt" / f"{split}.conllu.xz" for split in ("train", "dev"))
OUTPUTS = ("report.html", "report.json")
TEXT = "I tried for hours, but none of the words answered."
Cell = tuple[str, str, int | None, str]


def by_treefine(path: str) -> Iterator[Cell]:
    """Yield four columns of each word, read by treefine."""
    for sentence in read_treebank(path):
        yield from zip(sentence.forms, sentence.upos, sentence.heads, sentence.labels, strict=True)


def by_conllu(path: str) -> Iterator[Cell]:
    """Yield the same, read by conllu."""
    import conllu

    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        for sentence in conllu.parse_incr(file):
            for token in sentence:
                if isinstance(token["id"], int):
                    yield token["form"], token["upos"], token["head"], token["deprel"]


def by_pyconll(path: str) -> Iterator[Cell]:
    """Yield the same, read by pyconll."""
    import pyconll

    for sentence in pyconll.iter_from_file(path):
        for token in sentence:
            if not (token.is_multiword() or token.is_empty_node()):
                yield token.form, token.upos, int(token.head), token.deprel


def only_read(path: str) -> dict[str, Callable[[], Iterable[object]]]:
    import conllu
    import pyconll

    return {
        "treefine": lambda: read_treebank(path),
        "conllu": lambda: conllu.parse_incr(Path(path).open(encoding="utf-8")),
        "pyconll": lambda: pyconll.iter_from_file(path),
    }


def count_of(items: Callable[[], Iterable[object]]) -> int:
    return sum(1 for _ in items())


def measure_reading(rounds: int = 7) -> None:
    """Measure reading en_ewt train, with and without using four columns of each word, compared with other readers."""
    with tempfile.NamedTemporaryFile(suffix=".conllu") as file:
        file.write(lzma.open(TRAIN).read())
        file.flush()
        path = file.name
        users = {"treefine": by_treefine, "conllu": by_conllu, "pyconll": by_pyconll}
        words = {name: list(use(path)) for name, use in users.items()}
        if not words["treefine"] == words["conllu"] == words["pyconll"]:
            sys.exit("the libraries do not read the same words: no time is printed")
        works: dict[str, Work] = {}
        for name, read in only_read(path).items():
            works |= {f"{name}, read": partial(count_of, read)}
            works |= {f"{name}, use": partial(count_of, partial(users[name], path))}
        times = in_turn(works, rounds)
    result: dict[str, float] = {f"{name}_seconds": round(statistics.median(t), 4) for name, t in times.items()}
    for peer in ("conllu", "pyconll"):
        for kind in ("read", "use"):
            ratio = median_ratio(times, f"{peer}, {kind}", f"treefine, {kind}")
            result[f"{peer}/treefine, {kind}"] = round(ratio, 2)
    config = {
        "file": "en_ewt train",
        "words": len(words["treefine"]),
        "rounds": rounds,
        "conllu": version("conllu"),
        "pyconll": version("pyconll"),
    }
    save_row("reading", config, result)


def measure_memory(gigabytes: float = 1.0) -> None:
    """Measure reading and rewriting a large file in a separate process; both files must be equal."""
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
            # Not ru_maxrss: on Linux a child starts with its parent's peak.
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


def measure_scoring(rounds: int = 5) -> None:
    """Measure scoring a corrupted en_ewt dev by three implementations that must agree."""
    gold = lzma.open(DEV).read().decode()
    system = corrupt(list(read_treebank(DEV)), seed=4)
    scorers = {"treefine": ours, "official": official, "udtools": udtools}
    counts = [score(gold, system) for score in scorers.values()]
    if not counts[0] == counts[1] == counts[2]:
        sys.exit("the scorers do not agree: no time is printed")
    times = in_turn({name: partial(score, gold, system) for name, score in scorers.items()}, rounds)
    result = {f"{name}_seconds": round(statistics.median(t), 3) for name, t in times.items()}
    for peer in ("official", "udtools"):
        result[f"{peer}/treefine"] = round(median_ratio(times, peer, "treefine"), 2)
    save_row("scoring", {"file": "en_ewt dev", "rounds": rounds, "seed": 4}, result)


def measure_resampling(samples: int = 10_000, sentences: int = 2_000, rounds: int = 5) -> None:
    """Measure both significance tests on two systems, as `treefine compare` runs them."""
    gold = list(read_treebank(DEV))[:sentences]
    files = [io.BytesIO("".join(sentence.to_conllu() for sentence in gold).encode())]
    for seed in (1, 2):
        changed = unpack(gold)
        for change in (move_heads, change_labels):
            change(random.Random(seed), changed)
        files.append(io.BytesIO(render(changed).encode()))
    first = load_pair(files[0], files[1])
    files[0].seek(0)
    pairs = {"first": first, "second": load_pair(files[0], files[2])}
    times = [seconds(lambda: compare(pairs, samples=samples)) for _ in range(rounds)]
    result = {"seconds": round(statistics.median(times), 3), "slowest": round(max(times), 3)}
    config = {"file": "en_ewt dev", "samples": samples, "sentences": len(gold), "rounds": rounds}
    save_row("resampling", config, result)


def measure_startup(rounds: int = 11) -> None:
    """Measure the CPU seconds of starting Python, importing treefine, and evaluating a file of two words."""
    row = "{}\tx\t_\t_\t_\t_\t{}\tdep\t_\t_\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiny.conllu")
        path.write_text(row.format(1, 0) + row.format(2, 1) + "\n")
        commands = {
            "python alone": ["-c", "pass"],
            "import treefine": ["-c", "import treefine"],
            "treefine evaluate": ["-m", "treefine", "evaluate", str(path), str(path)],
        }
        works = {name: partial(_run, sys.executable, *command) for name, command in commands.items()}
        times = in_turn(works, rounds, clock=cpu_seconds)
    result = {name: round(statistics.median(t), 3) for name, t in times.items()}
    save_row("startup", {"rounds": rounds}, result)


def cpu_seconds(work: Work) -> float:
    """Return the processor's own seconds in the processes that the work starts."""
    before = os.times()
    work()
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def measure_analyse_speed(sentences: int = 2_000, rounds: int = 5) -> None:
    """Measure `treefine analyse` from its start to its output files, in a separate process."""
    gold = list(read_treebank(DEV))[:sentences]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("gold.conllu", "first.conllu", "second.conllu")]
        for seed, path in enumerate(files):
            changed = unpack(gold)
            for change in (move_heads, change_labels) if seed else ():
                change(random.Random(seed), changed)
            path.write_text(render(changed), encoding="utf-8")
        outputs = [part for name in OUTPUTS for part in ("-o", str(Path(folder, name)))]
        one_core = ("env", "OMP_NUM_THREADS=1")
        analyse = partial(_run, *one_core, sys.executable, "-m", "treefine", "analyse", *map(str, files), *outputs)
        wall: list[float] = []
        processor = [cpu_seconds(lambda: wall.append(seconds(analyse))) for _ in range(rounds)]
        sizes = {f"{name}_bytes": Path(folder, name).stat().st_size for name in OUTPUTS}
    result = {
        "seconds": round(statistics.median(wall), 2),
        "slowest": round(max(wall), 2),
        "processor_seconds": round(statistics.median(processor), 2),
        **sizes,
    }
    words = sum(map(len, gold))
    config = {"file": "en_ewt dev", "sentences": len(gold), "words": words, "systems": 2, "rounds": rounds}
    save_row("analyse_speed", config, result)


def measure_newcomer(rounds: int = 7) -> None:
    """Measure cloning the repository, installing it from pip's cache, and parsing a sentence."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "treefine")
        _run("git", "clone", "--quiet", str(ROOT), str(clone), cwd=Path(folder))
        made = seconds(partial(_run, "make", "parse", f"TEXT={TEXT}", cwd=clone))
        parse = partial(_run, ".venv/bin/treefine", "parse", TEXT, "--format", "tree", cwd=clone)
        again = [seconds(parse) for _ in range(rounds)]
    result = {"make parse": round(made, 1), "treefine parse": round(statistics.median(again), 2)}
    save_row("newcomer", {"rounds": rounds, "text": TEXT}, result)
