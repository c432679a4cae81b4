"""Measure a parser of many languages on each of its treebanks, and collect the facts about these treebanks.

Scores, confidences and errors in the rows are in percent.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.accuracy.calibration import ARC, calibration_error, claims_of
from benchmarks.accuracy.model_rows import RAW, WORDS, measures_of, without_tags
from benchmarks.options import DEVICE, MODEL, ROWS_FILE, SPLIT, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import TREEBANKS, model_fields, read_rows, save_row
from treefine import Parser, Sentence, TreefineError, evaluate, read_treebank
from treefine.evaluation.words import Treebank as Scored
from treefine.training.data import treebank_code
from treefine.training.recipe import read_recipe
from treefine.treebank.raw_text import text_of
from treefine_paper.predictions import checksum

FACTS = Path(__file__).parents[1] / "treebanks.json"
IDENTIFIED = "language identified"
IDENTIFIED_SENTENCES = 100  # of each treebank that are parsed without naming its language
CALIBRATED_SENTENCES = 150  # of each treebank whose confidences are compared with their accuracy
SHARED = TREEBANKS.parent
_RECIPE = "multi"
_LONG = 6  # words of a sentence that is not repeated by chance
_FOLDERS = {"PERMISSIVE": "permissive", "TREEBANKS": "ud-2.3"}  # of the variables in the recipe
# From the READMEs of the repositories; the other treebanks have them in LICENSE.txt.
_CONTRIBUTORS = {
    "fr_sequoia": "Candito, Marie; Seddah, Djamé; Perrier, Guy; Guillaume, Bruno",
    "sv_talbanken": "Nivre, Joakim; Smith, Aaron; Norrman, Victor",
    "ug_udt": "Eli, Marhaba; Zeman, Daniel; Tyers, Francis",
    "vi_vtb": "Nguyễn Thị, Lương; Hà Mỹ, Linh; Lê Hồng, Phương; Nguyễn Thị Minh, Huyền",
}
Measurement = tuple[dict[str, Any], dict[str, Any]]  # the config and the result of a row


@dataclass(frozen=True)
class TreebankFacts:
    """The facts about a treebank that the pages show."""

    name: str  # of the language, such as Swedish
    language: str  # its code
    treebank: str  # such as UD Swedish Talbanken
    release: str  # of UD, such as 2.3
    licence: str
    link: str
    contributors: str
    folder: str  # in the folder of all collections
    words: int  # in the training file
    is_main: bool  # whether the code of the language stands for this treebank
    is_dev_only: bool  # whether the training file is missing, so that most of the dev set was used to train
    note: str = ""  # on the training file
    repeated: float = 0.0  # % of the test sentences of six words or more that are in a training file of the model


@cache
def treebank_facts(path: Path = FACTS) -> dict[str, TreebankFacts]:
    """Return the facts about the treebanks of the recipe `multi`, by code."""
    return {code: TreebankFacts(**facts) for code, facts in json.loads(path.read_text(encoding="utf-8")).items()}


@command(
    TREEBANKS_FOLDER.but(default=SHARED, help="folder of all collections of treebanks"),
    option("--facts", type=Path, default=FACTS, help="file to write (default: benchmarks/treebanks.json)"),
)
def measure_treebank_facts(options: argparse.Namespace) -> None:
    """Write the facts about the treebanks of the recipe `multi` to benchmarks/treebanks.json.

    python -m benchmarks treebank_facts
    """
    settings = read_recipe(_RECIPE).treebank
    found = with_repeated(options.treebanks, collected(options.treebanks, settings.train, settings.main))
    written = json.dumps({code: asdict(each) for code, each in found.items()}, ensure_ascii=False, indent=1)
    options.facts.write_text(written + "\n", encoding="utf-8")
    treebank_facts.cache_clear()
    print(f"{len(found)} treebanks of {len({each.language for each in found.values()})} languages")


def collected(shared: Path, paths: Iterable[str], main: Sequence[str]) -> dict[str, TreebankFacts]:
    """Read the README of the treebanks and their LICENSE.txt; `paths` are the training files of the recipe."""
    tables = _tables((shared / "README.md").read_text(encoding="utf-8"))
    draft = {treebank_code(path): _facts(shared, path, tables) for path in paths}
    by_size = sorted(draft, key=lambda code: draft[code]["words"])  # the last one of a language counts
    chosen = {draft[code]["language"]: code for code in (*by_size, *main)}
    return {code: TreebankFacts(**each, is_main=code == chosen[each["language"]]) for code, each in draft.items()}


def _facts(shared: Path, path: str, tables: Mapping[tuple[str, str], dict[str, str]]) -> dict[str, Any]:
    """Return the facts about one treebank, except whether it is the main one of its language."""
    variable, rest = re.fullmatch(r"\$([A-Z]+)/(.*)/train\.conllu\.xz", path).groups()  # type: ignore[union-attr]
    folder = Path(shared, _FOLDERS[variable], rest).resolve().relative_to(shared.resolve())
    cells = tables[folder.parts[0], folder.name]
    licence = (shared / folder / "LICENSE.txt").read_text(encoding="utf-8").partition("\n-----")[0]
    repository = cells.get("UD repository") or cells["treebank"]
    language, _, title = repository.removeprefix("UD_").replace("_", " ").partition("-")
    code, tag = treebank_code(path), cells.get("tag") or cells["release"]
    before = re.search(r"\(before r([0-9.]+)\)", licence)
    is_dev_only = "train is the first 90 % of the dev file" in licence
    return {
        "name": cells.get("language", language),
        "language": code.partition("_")[0],
        "treebank": f"UD {language} {title}",
        "release": f"before {before[1]}" if before else tag.removeprefix("r"),
        "licence": cells["licence"].strip("*"),
        "link": f"https://github.com/UniversalDependencies/{repository}",
        "contributors": _CONTRIBUTORS.get(code) or _line(licence, "Contributors (as in its README)"),
        "folder": folder.as_posix(),
        "words": int(re.sub(r".*/|[^0-9]", "", cells["train"])),
        "is_dev_only": is_dev_only,
        "note": _note(cells, is_dev_only=is_dev_only),
    }


def _note(cells: Mapping[str, str], *, is_dev_only: bool) -> str:
    """Return what a reader must know about the training file of a treebank."""
    lost = re.search(r"\d+ of \d+ multiword tokens", cells.get("lost", ""))
    other = re.match(r"r([0-9.]+),", cells.get("train file", ""))
    notes = [
        "no training file: 90% of the dev set in its place" if is_dev_only else "",
        f"training file of release {other[1]}" if other else "",
        f"{lost[0]} lost in the training file" if lost else "",
    ]
    return "; ".join(filter(None, notes))


def _line(text: str, start: str) -> str:
    found = re.search(rf"^{re.escape(start)}: (.*?);?\s*$", text, re.MULTILINE)
    return found[1] if found else ""


def _tables(readme: str) -> dict[tuple[str, str], dict[str, str]]:
    """Return the cells of each treebank by the name of the column; the key is its collection and its folder."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    collection, head = "", list[str]()
    for line in readme.splitlines():
        heading = re.match(r"## `(.*)/`", line)
        collection = heading[1] if heading else collection
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            head = []
        elif not head:
            head = cells
        elif head[0] == "code":
            known = found.setdefault((collection, cells[0]), {})
            known |= {name: cell for name, cell in zip(head, cells, strict=True) if name not in known}
    return found


def with_repeated(shared: Path, facts: Mapping[str, TreebankFacts]) -> dict[str, TreebankFacts]:
    """Count the test sentences of each treebank that are in a training file, of this or of another treebank."""
    trained = {text for each in facts.values() for text in _texts(shared / each.folder / "train.conllu.xz")}
    found = {}
    for code, each in facts.items():
        texts = _texts(shared / each.folder / "test.conllu.xz")
        found[code] = replace(each, repeated=_percent(sum(text in trained for text in texts) / max(1, len(texts))))
    return found


def _texts(path: Path) -> list[str]:
    """Return the texts of the sentences of six words or more."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().split("\n\n")
    texts = [re.search(r"^# text = (.*)$", block, re.MULTILINE) for block in blocks]
    n_words = [len(re.findall(r"^\d+\t", block, re.MULTILINE)) for block in blocks]
    return [text[1].strip() for text, number in zip(texts, n_words, strict=True) if text and number >= _LONG]


@command(
    MODEL.but(default=_RECIPE, help=f"name of a bundled model, or a model folder (default: {_RECIPE})"),
    SPLIT.but(help="test is measured only once for the same weights (default: dev)"),
    option("--treebank", nargs="+", default=[], metavar="CODE", help="measure only these treebanks"),
    count("--jobs", 1, "treebanks to measure at the same time, each with one thread"),
    TREEBANKS_FOLDER.but(default=SHARED, help="folder of all collections of treebanks"),
    option("--facts", type=Path, default=FACTS, help="facts about the treebanks (default: benchmarks/treebanks.json)"),
    ROWS_FILE,
    DEVICE.but(default="cpu", help="cpu or cuda (default: cpu)"),
)
def measure_languages(options: argparse.Namespace) -> None:
    """Measure a parser of many languages from raw text and from gold words; write one row per treebank.

    Treebanks that have a row for the same weights and split are skipped, so the command can be stopped and repeated.

    python -m benchmarks languages --model multi --split dev
    """
    model = model_fields(options.model)
    known = treebank_facts(options.facts)
    if unknown := [code for code in options.treebank if code not in known]:
        raise TreefineError(f"There is no treebank {unknown[0]}.", hint=f"Choose from {', '.join(known)}.")
    rows = read_rows("languages", path=options.rows, weights=model["weights"], split=options.split)
    done = {row["config"]["treebank"] for row in rows}
    todo = [code for code in options.treebank or known if code not in done]
    todo.sort(key=lambda code: not known[code].is_main)  # each language first
    print(f"{options.split}: {len(todo)} treebanks to measure, {len(done)} done", flush=True)
    for number, (code, (config, result)) in enumerate(_measurements(options, known, todo), start=1):
        print(f"[{number}/{len(todo)}] {code}, {result['seconds']:.0f} s", flush=True)
        save_row("languages", model | config, result, path=options.rows)


def _measurements(
    options: argparse.Namespace, known: Mapping[str, TreebankFacts], codes: Sequence[str]
) -> Iterator[tuple[str, Measurement]]:
    """Yield the measurement of each treebank as soon as it is ready."""
    if options.jobs == 1:
        parser = Parser.from_pretrained(options.model, device=options.device) if codes else None
        for code in codes:
            assert parser is not None
            yield code, measurement(parser, code, known[code], options.treebanks, options.split)
        return
    context = multiprocessing.get_context("spawn")  # torch does not survive a fork
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        running = {pool.submit(_in_process, options, code, known[code]): code for code in codes}
        for each in as_completed(running):
            yield running[each], each.result()


def _in_process(options: argparse.Namespace, code: str, facts: TreebankFacts) -> Measurement:
    return measurement(_loaded(options.model, options.device), code, facts, options.treebanks, options.split)


@cache
def _loaded(model: str, device: str) -> Parser:
    """Load the parser once per process, with one thread."""
    import torch

    torch.set_num_threads(1)
    return Parser.from_pretrained(model, device=device)


def named(parser: Parser, code: str) -> Parser:
    """Return the parser for text of this treebank."""
    return parser.using(language=code)


def measurement(parser: Parser, code: str, facts: TreebankFacts, shared: Path, split: str) -> Measurement:
    """Return the config and the result of one treebank."""
    began = time.monotonic()
    gold = list(read_treebank(shared / facts.folder / f"{split}.conllu.xz"))
    result = measured(named(parser, code), parser, gold, language=facts.language)
    config = {
        "treebank": code,
        "release": facts.release,
        "split": split,
        "gold": checksum(gold),
        "sentences": len(gold),
        "words": sum(map(len, gold)),
        "T": parser.max_steps,
        "device": parser.device.type,
        "precision": parser.precision,
    }
    return config, result | {"seconds": round(time.monotonic() - began, 1)}


def measured(parser: Parser, unnamed: Parser, gold: Sequence[Sentence], *, language: str) -> dict[str, Any]:
    """Return all scores of a treebank; `unnamed` is the parser that identifies the language itself."""
    columns = parser.model.settings.tags.predicted
    cut = [each.sentence for each in parser.segment([text_of(gold)])]
    bare = [without_tags(each) for each in gold]
    parses = list(parser.stream_trees(bare))
    some = slice(CALIBRATED_SENTENCES)
    confidences, is_right = claims_of(list(parser.stream(bare[some])), gold[some])[ARC]
    of_words = _scores(gold, parses, measures_of(WORDS, columns))
    return {
        RAW: _scores(gold, list(parser.stream_trees(cut)), measures_of(RAW, columns)),
        WORDS: of_words,
        IDENTIFIED: _identified(unnamed, gold[:IDENTIFIED_SENTENCES], bare[:IDENTIFIED_SENTENCES], language),
        "calibration": {
            "confidence": _percent(float(confidences.mean())),
            "right": _percent(float(is_right.mean())),
            "error": _percent(calibration_error(confidences, is_right)),
        },
    }


def _identified(parser: Parser, gold: Sequence[Sentence], bare: Sequence[Sentence], language: str) -> dict[str, Any]:
    """Return LAS from words if the parser identifies the language, and the share of sentences for which it is right."""
    parses = list(parser.stream_trees(bare))
    codes = [each.treebank.partition("_")[0] for each in parses]
    share = _percent(sum(code == language for code in codes) / len(codes)) if any(codes) else None
    return _scores(gold, parses, ["UAS", "LAS"]) | {"right": share}


def _scores(gold: Sequence[Sentence], parses: Scored, names: Iterable[str]) -> dict[str, float]:
    scores = evaluate(gold, parses)
    return {name: _percent(scores[name].f1) for name in names}


def _percent(share: float) -> float:
    return round(100 * share, 2)
