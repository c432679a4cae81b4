"""Build the table by which languages are identified, and measure how often it is right and how long that takes."""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import math
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean

from benchmarks.options import ROWS_FILE, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import ROOT, save_row
from treefine import read_treebank
from treefine.segmenter import language
from treefine.segmenter.language import PER_LEVEL, TABLE, grams, identify, mismatch

TEXT = ROOT.parent / "shared" / "text"
PACKAGE = Path(language.__file__).parents[1]
N_GRAMS, N_WORDS = 400, 30  # per language in the table
_MOST_HELD_OUT = 2_000  # sentences per language
_MOST_COUNTED = 500_000  # characters per language
_LENGTHS = (40, 100, 200)  # characters of a text to identify
_BLOCK = 200  # characters of a block of a treebank


@command(
    option("--build", action="store_true", help="write the table of the package from the sentences, then measure it"),
    option("--text", type=Path, default=TEXT, help="folder of the sentences: one LANGUAGE.txt.xz per language"),
    count("--samples", 100, "texts per language and length"),
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_language(options: argparse.Namespace) -> None:
    """Measure how often a language is identified in held-out sentences, and how often a warning is wrong or missing.

    python -m benchmarks language --build
    """
    paths = sorted(options.text.glob("*.txt.xz"))
    if options.build:
        _build(paths)
    rng, result = random.Random(1), dict[str, float]()
    texts = {path.name.partition(".")[0]: " ".join(_sentences(path, held_out=True)) for path in paths}
    samples = {
        size: [(code, _sample(text, size, rng)) for code, text in texts.items() for _ in range(options.samples)]
        for size in _LENGTHS
    }
    for size, some in samples.items():
        found = [(code, identify(text)) for code, text in some]
        result[f"% right, {size} characters"] = _percent(each.language == code for code, each in found)
        result[f"mean sureness, {size} characters"] = round(100 * mean(each.sure for _, each in found), 2)
    foreign = [text for code, text in samples[_BLOCK] if code != "en"]
    result["% of foreign texts with a warning"] = _percent(mismatch(each, ["en"]) is not None for each in foreign)
    blocks = list(_blocks(options.treebanks / "en_ewt" / "dev.conllu.xz"))
    result["English blocks"] = len(blocks)
    result["English blocks with a warning"] = sum(mismatch(each, ["en"]) is not None for each in blocks)
    result |= _times(texts["en"])
    result["bytes"] = (PACKAGE / "segmenter" / TABLE).stat().st_size
    save_row("language", {"languages": len(texts), "samples": options.samples}, result, path=options.rows)


def _build(paths: Iterable[Path]) -> None:
    """Write the table: one language per line; n-grams are grouped by log probability."""
    with (PACKAGE / "serving" / "languages.tsv").open(encoding="utf-8") as file:
        names = {row["code"]: row["name"].replace("_", " ").title() for row in csv.DictReader(file, delimiter="\t")}
    names["nn"] = "Norwegian Nynorsk"  # UDPipe has one name for both written forms
    rows = []
    for path in paths:
        code, text = path.name.partition(".")[0], "\n".join(_sentences(path, held_out=False))[:_MOST_COUNTED]
        counts = grams(text)
        total, levels = counts.total(), dict[int, list[str]]()
        for gram, number in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:N_GRAMS]:
            levels.setdefault(round(-math.log(number / total) / PER_LEVEL), []).append(gram)
        scripts = Counter(language.scripts_of(text))
        main = [script for script, number in scripts.most_common() if number > 0.05 * scripts.total()]
        words = sorted(Counter(language.words_of(text)).items(), key=lambda each: (-each[1], each[0]))[:N_WORDS]
        found = {
            "name": names[code],
            "scripts": " ".join(main),
            "words": " ".join(word for word, _ in words),
            "grams": {str(level): " ".join(some) for level, some in levels.items()},
        }
        rows.append(f"{json.dumps(code)}: {json.dumps(found, ensure_ascii=False)}")
    (PACKAGE / "segmenter" / TABLE).write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    language.table.cache_clear()


def _sentences(path: Path, *, held_out: bool) -> list[str]:
    """Return the sentences of a language that are held out, or the others."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    random.Random(1).shuffle(lines)
    stop = min(len(lines) // 5, _MOST_HELD_OUT)
    return lines[:stop] if held_out else lines[stop:]


def _sample(text: str, size: int, rng: random.Random) -> str:
    start = rng.randrange(len(text) - size)
    return text[start : start + size]


def _blocks(path: Path) -> Iterator[str]:
    block = ""
    for sentence in read_treebank(path):
        block = f"{block} {sentence.text}".strip()
        if len(block) >= _BLOCK:
            yield block
            block = ""


def _percent(are_right: Iterable[bool]) -> float:
    return round(100 * mean(are_right), 2)


def _times(text: str) -> dict[str, float]:
    """Return the CPU time for loading the table, and for identifying a text of 1,000 characters."""
    language.table.cache_clear()
    start = time.process_time()
    language.table()
    loading, start = time.process_time() - start, time.process_time()
    for place in range(0, 50_000, 1_000):
        identify(text[place : place + 1_000])
    return {
        "CPU ms to load the table": round(1_000 * loading, 2),
        "CPU ms per 1,000 characters": round(20 * (time.process_time() - start), 2),
    }
