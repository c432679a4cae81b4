"""Build the table by which languages are identified.

The counts come from CC0 sentences, and from the train files of treebanks with permissive licences. The constants of
`segmenter/language` were fitted on held-out sentences and dev files.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median, pstdev

from benchmarks.options import TREEBANKS_FOLDER, command, option
from benchmarks.rows import ROOT, TREEBANKS
from treefine.segmenter import language
from treefine.segmenter.language import N_LEVELS, PER_LEVEL, TABLE, grams

TEXT = ROOT.parent / "shared" / "text"
PACKAGE = Path(language.__file__).parents[1]
PERMISSIVE = TREEBANKS.parent / "permissive"
ELSEWHERE = ("ud-2.3/fr_sequoia", "ud-2.3/sv_talbanken", "ud-2.3/ug_udt", "ud-2.3/vi_vtb", "ud-later/ja_gsd-2.9")
N_GRAMS, N_GRAMS_OF_OWN_SCRIPT, N_WORDS = 4_000, 1_500, 100  # per language in the table
_NORWEGIAN = {"nb": "Norwegian Bokmål", "nn": "Norwegian Nynorsk"}  # UDPipe has one name for both written forms
_MOST_HELD_OUT = 2_000  # sentences per language
_MOST_COUNTED = 400_000  # characters per language
_USUAL_TEXTS, _LEAST_SPREAD = 200, 0.02  # texts per source, and the least standard deviation of their familiarity


@command(
    option("--text", type=Path, default=TEXT, help="folder of the sentences: one LANGUAGE.txt.xz per language"),
    TREEBANKS_FOLDER.but(default=PERMISSIVE, help="folder of the treebanks with permissive licences"),
)
def measure_language(options: argparse.Namespace) -> None:
    """Write the table by which languages are identified, segmenter/languages.json.

    python -m benchmarks language
    """
    paths = {path.name.partition(".")[0]: path for path in sorted(options.text.glob("*.txt.xz"))}
    treebanks = sorted(options.treebanks.glob("*_*/")) + [options.treebanks.parent / each for each in ELSEWHERE]
    _build(paths, treebanks)


def _build(paths: Mapping[str, Path], treebanks: Iterable[Path]) -> None:
    """Write the table: one language per line; n-grams are grouped by log probability."""
    with (PACKAGE / "serving" / "languages.tsv").open(encoding="utf-8") as file:
        names = {row["code"]: row["name"].replace("_", " ").title() for row in csv.DictReader(file, delimiter="\t")}
    sources: dict[str, list[list[str]]] = defaultdict(list)
    for code, path in paths.items():
        sources[code].append(_sentences(path, held_out=False))
    for treebank in treebanks:
        lines = _treebank_lines(treebank / "train.conllu.xz")
        if lines:
            sources[_code(treebank)].append(lines)
    texts = {
        code: "\n".join(_start(each, _MOST_COUNTED // len(some)) for each in some) for code, some in sources.items()
    }
    scripts = {code: _main_scripts(text) for code, text in texts.items()}
    n_sharing = Counter(script for each in scripts.values() for script in each)
    top, usual = dict[str, dict[str, int]](), dict[str, tuple[float, float]]()
    dev = _of_languages(treebanks, "dev")
    totals = {}
    for code in sorted(texts):
        counts, is_alone = grams(texts[code]), all(n_sharing[each] == 1 for each in scripts[code])
        totals[code] = counts.total()
        top[code] = _most_frequent(counts, N_GRAMS_OF_OWN_SCRIPT if is_alone else N_GRAMS)
        held_out = _sentences(paths[code], held_out=True) if code in paths else []
        usual[code] = _usual([held_out, dev.get(code, [])], top[code])
    least = max(_LEAST_SPREAD, median(spread for _, spread in usual.values()))  # text of one source varies too little
    rows = []
    for code, counted in top.items():
        levels: dict[int, list[str]] = defaultdict(list)
        for gram, number in counted.items():
            level = round(-math.log(number / totals[code]) / PER_LEVEL)
            if level < N_LEVELS:
                levels[level].append(gram)
        found = {
            "name": (names | _NORWEGIAN)[code],
            "scripts": " ".join(scripts[code]),
            "words": " ".join(_most_frequent(Counter(language.words_of(texts[code])), N_WORDS)),
            "usual": [usual[code][0], max(usual[code][1], least)],
            "grams": {str(level): " ".join(some) for level, some in levels.items()},
        }
        rows.append(f"{json.dumps(code)}: {json.dumps(found, ensure_ascii=False)}")
    (PACKAGE / "segmenter" / TABLE).write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def _main_scripts(text: str) -> list[str]:
    scripts = language.scripts_of(text)
    return [script for script, number in scripts.most_common() if number > 0.05 * scripts.total()]


def _most_frequent(counts: Counter[str], number: int) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:number])


def _usual(sources: Iterable[Sequence[str]], known: Collection[str]) -> tuple[float, float]:
    """Return the mean and the standard deviation of the familiarity of texts, the same number from each source."""
    texts = [each for lines in sources for each in _blocks(lines, language.USUAL_LETTERS * 5 // 4)[:_USUAL_TEXTS]]
    words = [language.plain_words(each) for each in texts]
    shares = [language.familiarity(each, known) for each in words if sum(map(len, each)) > language.USUAL_LETTERS // 2]
    return (round(mean(shares), 3), round(pstdev(shares), 3)) if shares else (0.0, 0.0)


def _of_languages(treebanks: Iterable[Path], split: str) -> dict[str, list[str]]:
    """Return the sentences of a split of all treebanks, by language."""
    found: dict[str, list[str]] = defaultdict(list)
    for treebank in treebanks:
        lines = _treebank_lines(treebank / f"{split}.conllu.xz")
        if lines:
            found[_code(treebank)] += lines
    return dict(sorted(found.items()))


def _code(treebank: Path) -> str:
    return treebank.name.partition("_")[0]


def _treebank_lines(path: Path) -> list[str]:
    """Return the texts of the sentences of a treebank file; none if it does not exist."""
    if not path.exists():
        return []
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [line.partition("=")[2].strip() for line in file if line.startswith("# text =")]


def _sentences(path: Path, *, held_out: bool) -> list[str]:
    """Return the sentences of a language that are held out, or the others."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    random.Random(1).shuffle(lines)
    stop = min(len(lines) // 5, _MOST_HELD_OUT)
    return lines[:stop] if held_out else lines[stop:]


def _start(lines: Sequence[str], size: int) -> str:
    """Join random lines, up to this number of characters."""
    return "\n".join(random.Random(1).sample(lines, len(lines)))[:size]


def _blocks(lines: Iterable[str], size: int) -> list[str]:
    """Join consecutive sentences to texts of at least this number of characters."""
    blocks, block = list[str](), ""
    for line in lines:
        block = f"{block} {line}".strip()
        if len(block) >= size:
            blocks.append(block)
            block = ""
    return blocks
