"""Make a bundled model from a trained one: weights in eight bits, fitted confidences, and a description."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean

import torch

from benchmarks.accuracy.languages import treebank_facts
from benchmarks.accuracy.model_rows import RAW, TAGGED, WORDS, by_split
from benchmarks.options import ROWS_FILE, command, option
from benchmarks.rows import ROOT, read_rows, save_row, weights_checksum
from treefine import Parser, TreefineError
from treefine.config import LAYOUT, PrecisionSettings
from treefine.model.bundled import ABOUT, BUNDLED, About, LanguageAbout
from treefine.model.folder import is_model_folder, new_folder, read_weights
from treefine.training.data import by_treebank, spaced_sample, treebank_code
from treefine.training.dev import calibrated, fitted_ends
from treefine.training.recipe import expand, read_recipe
from treefine.treebank.conllu import read_treebank
from treefine.treebank.sentence import Sentence

MOST_BYTES = {"en": 42_000_000, "multi": 60_000_000}  # the maximum of a bundled model
KNOWN = {
    "en": About("English", "UD English EWT 2.16", "CC BY-SA 4.0", "thenlper/gte-small"),
    "multi": About("36 languages", "48 treebanks of UD", "CC BY-SA 4.0", "intfloat/multilingual-e5-small"),
}
FOLDERS = {"en": BUNDLED / "en", "multi": ROOT / "packages" / "treefine-multi" / "src" / "treefine_multi" / "multi"}
FROM_TEXT, FROM_WORDS = "LAS from text", "LAS from words"  # in about.json of a model of several languages
_MOST_DEV = 400  # sentences of all treebanks, for a text whose language is not known
_DEV_SENTENCES = 60  # of each treebank of a model of several, to fit confidences and sentence ends


@command(
    option("folder", type=Path, help="folder of a model"),
    option("--dev", type=Path, help="dev set, to fit confidences and sentence ends (multi: those of its recipe)"),
    option("--name", choices=sorted(KNOWN), required=True, help="name of the bundled model"),
    ROWS_FILE,
)
def measure_bundle(options: argparse.Namespace) -> None:
    """Replace a bundled model by a trained one, in eight bits; its card README.md is kept: edit it by hand.

    python -m benchmarks bundle runs/en/model --name en --dev dev.conllu
    python -m benchmarks bundle runs/multi/model --name multi
    """
    dev = dev_of_recipe("multi") if options.name == "multi" else list(read_treebank(options.dev)) if options.dev else []
    make_bundle(options.folder, FOLDERS[options.name], name=options.name, dev=dev, rows=options.rows)


def dev_of_recipe(name: str) -> list[Sentence]:
    """Return some dev sentences of each treebank of a recipe, with the codes of their treebanks."""
    sentences: list[Sentence] = []
    for path in read_recipe(name).treebank.dev:
        some = list(read_treebank(expand(path)))[:_DEV_SENTENCES]  # neighbours, because they also are running text
        sentences += [replace(each, treebank=treebank_code(path)) for each in some]
    return sentences


def make_bundle(source: Path, target: Path, *, name: str, dev: Sequence[Sentence], rows: Path) -> None:
    """Write the bundled model, replacing an older one, and a row with its size and its original weights."""
    if not is_model_folder(source):
        raise TreefineError("This folder has no model.", hint="Name the folder of a model.", path=str(source))
    card = (target / LAYOUT.card).read_bytes() if (target / LAYOUT.card).exists() else b""
    with new_folder(target) as new:
        parser = Parser.from_pretrained(source, device="cpu")
        if not parser.model.vocabulary.treebanks:
            parser.languages = (name,)  # the name is a code; a training may not state it
        if dev:
            fit(parser, dev)
        parser.save(new, dtype=torch.int8)
        for path in source.rglob("*.safetensors"):  # rounding twice could change the last bit of a scale
            if any(weight.dtype == torch.int8 for weight in read_weights(path).values()):
                shutil.copyfile(path, new / path.relative_to(source))
        weights = weights_checksum(new)
        about = with_scores(KNOWN[name], name, weights, rows)
        (new / ABOUT).write_text(json.dumps(asdict(about), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        (new / LAYOUT.card).write_bytes(card)
        sizes = {str(path.relative_to(new)): path.stat().st_size for path in sorted(new.rglob("*")) if path.is_file()}
        if sum(sizes.values()) > MOST_BYTES[name]:
            message = f"The model has {sum(sizes.values()):,} bytes, but it may have at most {MOST_BYTES[name]:,}."
            raise TreefineError(message, hint="Choose a smaller encoder or segmenter.", path=str(source))
    config = {"model": name, "weights": weights, "made_of": weights_checksum(source)}
    save_row("bundle", config, {"bytes": sum(sizes.values()), "files": sizes}, path=rows)


def fit(parser: Parser, dev: Sequence[Sentence]) -> None:
    """Set the precisions of a bundled model; fit its confidences and sentence ends in int8, which most users run."""
    model = parser.model
    quick = parser.using(precision="int8")
    ends = fitted_ends(quick, dev)
    some = spaced_sample(dev, _MOST_DEV) if model.vocabulary.treebanks else dev
    confidence, drafts = calibrated(quick.using(keep="nothing"), some)
    quick = quick.using(keep="nothing")
    treebanks = {code: some for code, some in by_treebank(dev).items() if code}
    calibration = {code: calibrated(quick, some, sentences=confidence)[0] for code, some in treebanks.items()}
    precision = PrecisionSettings(cpu="int8", cuda="float16")
    model.settings = replace(
        model.settings,
        sentence_ends=ends,
        confidence=confidence,
        draft_confidence=drafts,
        calibration=calibration,
        precision=precision,
    )


def with_scores(about: About, name: str, weights: str, rows: Path) -> About:
    """Return the description with the scores of the tested weights in percent; without a test row, as it is."""
    if name == "en":
        row = by_split("pipeline", weights, path=rows).get("test")
        result = row["result"] if row else {}
        scores = {measure: result[RAW][measure] for measure in ("Tokens", "Sentences", "UPOS", "UAS", "LAS") if row}
        scores |= {f"LAS ({kind})": result[kind]["LAS"] for kind in (WORDS, TAGGED) if row}
        return replace(about, scores={measure: round(100 * share, 2) for measure, share in scores.items()})
    tested = read_rows("languages", path=rows, weights=weights, split="test")
    results = {row["config"]["treebank"]: row["result"] for row in tested}
    languages = {}
    for code, facts in treebank_facts().items():
        of_words = results[code][WORDS] if code in results else {}
        scores = {FROM_TEXT: results[code][RAW]["LAS"], FROM_WORDS: of_words["LAS"]} if code in results else {}
        scores |= {measure: of_words[measure] for measure in ("UPOS", "UFeats", "Lemmas") if measure in of_words}
        known = {field: getattr(facts, field) for field in ("name", "language", "licence", "words", "is_main", "note")}
        languages[code] = LanguageAbout(treebank=f"{facts.treebank} {facts.release}", scores=scores, **known)
    measured = [each.scores for each in languages.values() if each.scores]
    kinds = (FROM_TEXT, FROM_WORDS) if measured else ()
    means = {f"mean {kind}": round(mean(each[kind] for each in measured), 2) for kind in kinds}
    return replace(about, scores=means, languages=languages)
