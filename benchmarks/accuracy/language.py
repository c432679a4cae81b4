"""Build the table by which languages are identified, and measure how often it is right and how long that takes.

The counts come from CC0 sentences, and from the train files of treebanks with permissive licences. The constants of
`segmenter/language` were fitted on held-out sentences and dev files. Test files are only measured.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import math
import random
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median, pstdev
from unittest.mock import patch

from benchmarks.options import ROWS_FILE, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import ROOT, TREEBANKS, save_row
from treefine.segmenter import language
from treefine.segmenter.language import N_LEVELS, PER_LEVEL, TABLE, LanguageTable, grams, identify, mismatch, oddity

TEXT = ROOT.parent / "shared" / "text"
PACKAGE = Path(language.__file__).parents[1]
PERMISSIVE = TREEBANKS.parent / "permissive"
ELSEWHERE = ("ud-2.3/fr_sequoia", "ud-2.3/sv_talbanken", "ud-2.3/ug_udt", "ud-2.3/vi_vtb", "ud-later/ja_gsd-2.9")
N_GRAMS, N_GRAMS_OF_OWN_SCRIPT, N_WORDS = 4_000, 1_500, 100  # per language in the table
_NORWEGIAN = {"nb": "Norwegian Bokmål", "nn": "Norwegian Nynorsk"}  # UDPipe has one name for both written forms
_MOST_HELD_OUT = 2_000  # sentences per language
_MOST_COUNTED = 400_000  # characters per language
_USUAL_TEXTS, _LEAST_SPREAD = 200, 0.02  # texts per source, and the least standard deviation of their familiarity
_LENGTHS = (40, 100, 200)  # characters of a text to identify
_BLOCK, _PARAGRAPH, _SENTENCE = 200, 300, 100  # characters of a text that may be odd
_TOGETHER = 5  # sentences of a paragraph to identify
_CYRILLIC = dict(
    zip(
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґ",
        "a b v g d e yo zh z i y k l m n o p r s t u f kh ts ch sh shch  y  e yu ya i yi ye g".split(" "),
        strict=True,
    )
)
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        "a v g d e z i th i k l m n x o p r s s t y f ch ps o".split(),
        strict=True,
    )
)
_PERSIAN = dict(
    zip(
        "اآبپتثجچحخدذرزژسشصضطظعغفقکگلمنوهی",
        "a a b p t s j ch h kh d z r z zh s sh s z t z a gh f gh k g l m n o h i".split(),
        strict=True,
    )
)
_ROMANISED = ("ru", "uk", "bg", "el", "fa", "hi", "ja", "ko")  # languages whose romanised text is measured
Texts = Mapping[str, Sequence[str]]  # by the code of the language


@command(
    option("--build", action="store_true", help="write the table of the package from the sentences, then measure it"),
    option("--text", type=Path, default=TEXT, help="folder of the sentences: one LANGUAGE.txt.xz per language"),
    count("--samples", 100, "texts per language and length"),
    TREEBANKS_FOLDER.but(default=PERMISSIVE, help="folder of the treebanks with permissive licences"),
    ROWS_FILE,
)
def measure_language(options: argparse.Namespace) -> None:
    """Measure how often a language is identified, and how often a warning about a text is wrong or missing.

    python -m benchmarks language --build
    """
    paths = {path.name.partition(".")[0]: path for path in sorted(options.text.glob("*.txt.xz"))}
    treebanks = sorted(options.treebanks.glob("*_*/")) + [options.treebanks.parent / each for each in ELSEWHERE]
    if options.build:
        _build(paths, treebanks)
    rng, result = random.Random(1), dict[str, object]()
    held_out = {code: _sentences(path, held_out=True) for code, path in paths.items()}
    texts = {code: " ".join(lines) for code, lines in held_out.items()}
    samples = {
        size: [(code, _sample(text, size, rng)) for code, text in texts.items() for _ in range(options.samples)]
        for size in _LENGTHS
    }
    for size, some in samples.items():
        result |= _identified(some, f"{size} characters")
    foreign = [text for code, text in samples[_BLOCK] if code != "en"]
    result["% of foreign texts with a warning"] = _percent(mismatch(each, ["en"]) is not None for each in foreign)
    dev = _of_languages(treebanks, "dev")
    blocks = _blocks(dev["en"], _BLOCK)
    result["English blocks"] = len(blocks)
    result["English blocks with a warning"] = sum(mismatch(each, ["en"]) is not None for each in blocks)
    result |= _oddities(dev, held_out, options.samples)
    result |= _test_files(_of_languages(treebanks, "test"))
    result |= _times(texts["en"])
    result["bytes"] = (PACKAGE / "segmenter" / TABLE).stat().st_size
    config = {"languages": len(language.table().names), "samples": options.samples, "possible": len(dev)}
    save_row("language", config, result, path=options.rows)


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
    _forget_table()


def _forget_table() -> None:
    language.table.cache_clear()
    language.grams_of.cache_clear()
    language._packed_weights.cache_clear()


def _main_scripts(text: str) -> list[str]:
    scripts = Counter(language.scripts_of(text))
    return [script for script, number in scripts.most_common() if number > 0.05 * scripts.total()]


def _most_frequent(counts: Counter[str], number: int) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:number])


def _usual(sources: Iterable[Sequence[str]], known: Collection[str]) -> tuple[float, float]:
    """Return the mean and the standard deviation of the familiarity of texts, the same number from each source."""
    texts = [each for lines in sources for each in _blocks(lines, language.USUAL_LETTERS * 5 // 4)[:_USUAL_TEXTS]]
    words = [language.plain_words(each) for each in texts]
    shares = [language.familiarity(each, known) for each in words if sum(map(len, each)) > language.USUAL_LETTERS // 2]
    return (round(mean(shares), 3), round(pstdev(shares), 3)) if shares else (0.0, 0.0)


def _identified(
    samples: Iterable[tuple[str, str]], what: str, among: Collection[str] | None = None
) -> dict[str, float]:
    """Return how often the language of these texts is identified, and the mean probability of being right."""
    found = [(code, identify(text, among)) for code, text in samples]
    return {
        f"% right, {what}": _percent(each.language == code for code, each in found),
        f"mean sureness, {what}": round(100 * mean(each.sure for _, each in found), 2),
    }


def _oddities(dev: Texts, held_out: Texts, n_texts: int) -> dict[str, float]:
    """Return how often `oddity` reports texts of the treebanks' languages, and other, romanised and mixed texts."""
    rng, codes = random.Random(1), sorted(dev)
    paragraphs = {code: _some(_blocks(lines, _PARAGRAPH), n_texts, rng) for code, lines in {**held_out, **dev}.items()}
    sentences = {
        code: _some([each for each in lines if len(each) >= _SENTENCE], n_texts, rng) for code, lines in dev.items()
    }

    def share(texts: Iterable[str]) -> float:
        return _percent(oddity(each, codes) is not None for each in texts)

    result = {
        "% of paragraphs that are called odd by mistake": share(text for code in codes for text in paragraphs[code]),
        "% of sentences that are called odd by mistake": share(text for some in sentences.values() for text in some),
    }
    others = [code for code in paragraphs if code not in codes]
    result["% of other languages reported"] = share(text for code in others for text in paragraphs[code])
    unknown = []
    for code in others:
        with patch.object(language, "table", return_value=_without(code)):
            unknown += [oddity(text, codes) is not None for text in paragraphs[code]]
    result["% of unknown languages reported"] = _percent(unknown)
    result["% of romanised texts reported"] = share(
        romanised(text) for code in _ROMANISED for text in paragraphs.get(code, ())
    )
    mixed = [" ".join(paragraphs[code][0] for code in rng.sample(codes, 2)) for _ in range(n_texts) if len(codes) > 1]
    result["% of mixed texts reported"] = share(mixed)
    return result


def _without(code: str) -> LanguageTable:
    """Return the table without a language."""
    known = language.table()
    return known._replace(names={each: name for each, name in known.names.items() if each != code})


def romanised(text: str) -> str:
    """Return a simple romanisation of Cyrillic, Greek, Persian, Devanagari, kana and Hangul text.

    >>> romanised("Привет"), romanised("ねこ"), romanised("한국"), romanised("किताब")
    ('Privet', 'neko', 'hangug', 'kitaaba')
    """
    found = ""
    for each in unicodedata.normalize("NFC", text):
        plain = unicodedata.normalize("NFD", each.lower())[0]
        letter = next(
            (table[key] for table in (_CYRILLIC, _GREEK, _PERSIAN) for key in (each.lower(), plain) if key in table),
            None,
        )
        kind, name = unicodedata.name(each, "").partition(" ")[::2]
        last = name.rpartition(" ")[2].lower()
        if letter is not None:
            found += letter.capitalize() if each.isupper() else letter
        elif kind in ("HIRAGANA", "KATAKANA", "HANGUL", "DEVANAGARI"):
            is_vowel_sign = "VOWEL SIGN" in name or "VIRAMA" in name
            found = found.removesuffix("a") if is_vowel_sign else found
            found += last if each.isalpha() or (is_vowel_sign and last != "virama") else ""
        else:
            found += f"{each} " if each in "、。" else each if not kind.startswith("CJK") else " "
    return found


def _test_files(test: Texts) -> dict[str, object]:
    """Return how often the languages of test files are identified, and print a table with a row per language."""
    result, columns = dict[str, object](), list[dict[str, float]]()
    for number, what in ((1, "a test sentence"), (_TOGETHER, f"{_TOGETHER} test sentences")):
        texts = [(code, each) for code, lines in test.items() for each in _together(lines, number)]
        found = [(code, identify(text, test)) for code, text in texts]
        right: dict[str, list[bool]] = defaultdict(list)
        for code, each in found:
            right[code].append(each.language == code)
        columns.append({code: _percent(some) for code, some in right.items()})
        result[f"% right, {what}, by language"] = columns[-1]
        result[f"% right, {what}, mean of languages"] = round(mean(columns[-1].values() or [0]), 2)
        result[f"% right, {what}"] = _percent(each.language == code for code, each in found)
        result[f"mean sureness, {what}"] = round(100 * mean([each.sure for _, each in found] or [0]), 2)
    print("language  % right: a sentence, a paragraph")
    for code, share in sorted(columns[0].items(), key=lambda each: each[1]):
        print(f"{code:8}  {share:6.2f}  {columns[1].get(code, math.nan):6.2f}")
    return result


def _together(lines: Sequence[str], number: int) -> list[str]:
    """Return each `number` consecutive sentences that have letters as one text."""
    worded = [each for each in lines if language.words_of(each)]
    return [" ".join(worded[start : start + number]) for start in range(0, len(worded) - number + 1, number)]


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


def _sample(text: str, size: int, rng: random.Random) -> str:
    start = rng.randrange(len(text) - size)
    return text[start : start + size]


def _some(texts: Sequence[str], number: int, rng: random.Random) -> list[str]:
    return rng.sample(texts, min(number, len(texts)))


def _blocks(lines: Iterable[str], size: int) -> list[str]:
    """Join consecutive sentences to texts of at least this number of characters."""
    blocks, block = list[str](), ""
    for line in lines:
        block = f"{block} {line}".strip()
        if len(block) >= size:
            blocks.append(block)
            block = ""
    return blocks


def _percent(are_right: Iterable[bool]) -> float:
    return round(100 * mean([*are_right] or [0]), 2)


def _times(text: str) -> dict[str, float]:
    """Return the CPU time for loading the table, and for identifying a text of 1,000 characters."""
    _forget_table()
    start = time.process_time()
    identify("text")
    loading, start = time.process_time() - start, time.process_time()
    for place in range(0, 50_000, 1_000):
        identify(text[place : place + 1_000])
    return {
        "CPU ms to load the table": round(1_000 * loading, 2),
        "CPU ms per 1,000 characters": round(20 * (time.process_time() - start), 2),
    }
