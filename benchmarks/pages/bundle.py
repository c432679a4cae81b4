"""Make a bundled model from a trained one, and write its model card."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from benchmarks.accuracy.model_rows import RAW, TAGGED, WORDS, by_split
from benchmarks.options import ROWS_FILE, command, option
from benchmarks.pages.english import calibration_errors, scores
from benchmarks.pages.languages_card import about_languages, languages_card
from benchmarks.rows import ROOT, ROWS, Row, read_rows, save_row, weights_checksum
from treefine import Parser, TreefineError
from treefine.config import PrecisionSettings, TransformerSettings
from treefine.model.bundled import ABOUT, BUNDLED, About
from treefine.model.folder import is_model_folder, load_model, new_folder
from treefine.model.weight_files import LAYOUT, read_weights
from treefine.training.calibrate import calibrated, calibrated_by_treebank
from treefine.training.data import spaced_sample, treebank_code
from treefine.training.new_recipe import recipe_toml
from treefine.training.recipe import expand, read_recipe
from treefine.training.sentence_ends import fitted_ends
from treefine.training.train import FolderNames
from treefine.treebank.conllu import read_treebank
from treefine.treebank.sentence import Sentence

MOST_BYTES = {"en": 42_000_000, "multi": 60_000_000}  # the maximum of a bundled model
KNOWN = {
    "en": About("English", "UD English EWT 2.16", "CC BY-SA 4.0", "thenlper/gte-small"),
    "multi": About("36 languages", "48 treebanks of UD", "CC BY-SA 4.0", "intfloat/multilingual-e5-small"),
}
MULTI = ROOT / "packages" / "treefine-multi" / "src" / "treefine_multi" / "multi"
_MOST_DEV = 400  # sentences of all treebanks, for a text whose language is not known
_DEV_SENTENCES = 60  # of each treebank of a model of several, to fit confidences and sentence ends


@command(
    option("folder", type=Path, nargs="?", help="folder of a training or a model"),
    option("--dev", type=Path, help="dev set, to fit confidences and sentence ends in the precisions of the bundle"),
    option("--name", choices=sorted(KNOWN), required=True, help="name of the bundled model"),
    option("--models", type=Path, default=BUNDLED, help="folder of the bundled models, except multi"),
    ROWS_FILE,
)
def measure_bundle(options: argparse.Namespace) -> None:
    """Make a bundled model from a trained one: weights in eight bits, a description, and a model card.

    python -m benchmarks bundle runs/en --name en --dev dev.conllu  # from the folder of a training or a model
    python -m benchmarks bundle --name en                           # only rewrite scores and card from the newest rows
    python -m benchmarks bundle runs/multi --name multi             # fits each treebank to its own dev set
    """
    target = MULTI if options.name == "multi" else options.models / options.name
    if options.folder is not None:
        dev = dev_of_recipe("multi") if options.name == "multi" else _read(options.dev)
        make_bundle(options.folder, target, dev=dev, rows=options.rows)
    elif (target / ABOUT).is_file():
        describe(target, notes=_notes(target), rows=options.rows)
    else:
        hint = "To make one, name the folder of a training."
        raise TreefineError("This folder has no bundled model.", hint=hint, path=str(target))
    print(f"{options.name}: {sum(sizes(target).values()) / 1e6:.1f} MB, weights {weights_checksum(target)[:8]}")


def dev_of_recipe(name: str) -> list[Sentence]:
    """Return some dev sentences of each treebank of a recipe, with the codes of their treebanks."""
    found: list[Sentence] = []
    for path in read_recipe(name).treebank.dev:
        some = list(read_treebank(expand(path)))[:_DEV_SENTENCES]  # neighbours, because they also are running text
        found += [replace(each, treebank=treebank_code(path)) for each in some]
    return found


def _read(dev: Path | None) -> list[Sentence]:
    return [] if dev is None else list(read_treebank(dev))


def make_bundle(source: Path, target: Path, *, dev: Sequence[Sentence] = (), rows: Path = ROWS) -> None:
    """Write the bundled model, replacing an older one, and a row with its size and its original weights.

    Confidences and sentence ends are fitted to the dev set in int8, the precision that most users run.
    """
    if not is_model_folder(source) and is_model_folder(source / FolderNames.model):
        source = source / FolderNames.model
    if not is_model_folder(source):
        raise TreefineError(
            "This folder has no model.", hint="Name the folder of a training or a model.", path=str(source)
        )
    with new_folder(target, may_be_replaced=_may_be_replaced) as new:
        parser = Parser.from_pretrained(source, device="cpu")
        if not parser.model.vocabulary.treebanks:
            parser.languages = (target.name,)  # the name is a code; a training may not state it
        if dev:
            fit(parser, dev)
        parser.save(new, dtype=torch.int8)
        for path in source.rglob("*.safetensors"):
            if any(weight.dtype == torch.int8 for weight in read_weights(path).values()):
                shutil.copyfile(
                    path, new / path.relative_to(source)
                )  # rounding twice could change the last bit of a scale
        describe(new, name=target.name, notes=_notes(source), rows=rows)
        found = sizes(new)
        if sum(found.values()) > MOST_BYTES[target.name]:
            size, most = (each / 1e6 for each in (sum(found.values()), MOST_BYTES[target.name]))
            message = f"The model has {size:.1f} MB, but a bundled model may have at most {most:.0f} MB."
            raise TreefineError(message, hint="Choose a smaller encoder or segmenter.", path=str(source))
        weights = weights_checksum(new)
    if not read_rows("bundle", path=rows, weights=weights):
        config = {"model": target.name, "weights": weights, "made_of": weights_checksum(source)}
        save_row("bundle", config, {"bytes": sum(found.values()), "files": found}, path=rows)


def fit(parser: Parser, dev: Sequence[Sentence]) -> None:
    """Set the precisions of a bundled model, and fit its confidences and sentence ends in int8."""
    model = parser.model
    quick = parser.using(precision="int8")
    ends, several = fitted_ends(quick, dev), bool(model.vocabulary.treebanks)
    confidence = calibrated(quick.using(keep="nothing"), spaced_sample(dev, _MOST_DEV) if several else dev)
    each = calibrated_by_treebank(quick.using(keep="nothing"), dev, confidence)
    precision = PrecisionSettings(cpu="int8", cuda="float16")
    found = replace(model.settings, sentence_ends=ends, confidence=confidence, calibration=each, precision=precision)
    model.settings = found


def describe(folder: Path, *, name: str = "", notes: str, rows: Path = ROWS) -> None:
    """Write the description and the card of a bundled model, with the scores from the rows of its weights."""
    name = name or folder.name
    weights = weights_checksum(folder)
    parser = Parser(load_model(folder), device="cpu")
    if parser.model.vocabulary.treebanks:
        several = about_languages(KNOWN[name], weights, rows)
        _write_about(folder, several)
        tested = {
            row["config"]["treebank"]: row for row in read_rows("languages", path=rows, weights=weights, split="test")
        }
        card = languages_card(several, parser, tested, notes)
        (folder / LAYOUT.card).write_text(card, encoding="utf-8")
        return
    measured, calibrated = (by_split(kind, weights, path=rows) for kind in ("pipeline", "calibration"))
    known = replace(KNOWN[name], scores=scores_to_list(measured.get("test")))
    _write_about(folder, known)
    card = bundle_card(name, known, parser, measured, calibrated, notes)
    (folder / LAYOUT.card).write_text(card, encoding="utf-8")


def _write_about(folder: Path, known: About) -> None:
    content = json.dumps(asdict(known), ensure_ascii=False, indent=1) + "\n"
    (folder / ABOUT).write_text(content, encoding="utf-8")


def scores_to_list(row: Row | None) -> dict[str, float]:
    """Return the scores for a list of models: from raw text, and LAS with gold words; empty before the test."""
    if row is None:
        return {}
    result = row["result"]
    found = {name: result[RAW][name] for name in ("Tokens", "Sentences", "UPOS", "UAS", "LAS")}
    found |= {f"LAS ({given})": result[given]["LAS"] for given in (WORDS, TAGGED)}
    return {name: round(100 * share, 2) for name, share in found.items()}


def sizes(folder: Path) -> dict[str, int]:
    """Return the size of each file, the largest first."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    found = {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _notes(folder: Path) -> str:
    """Return what the card of a trained model says about its training, or an empty string."""
    path = folder / LAYOUT.card
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    _, heading, notes = text.partition("\n## Training\n")
    return notes.strip() if heading else ""


def _may_be_replaced(target: Path) -> bool:
    return target.is_dir() and (not any(target.iterdir()) or (target / ABOUT).is_file())


ATTRIBUTION = """\
- **Treebank**: UD English EWT, release 2.16 of [Universal Dependencies](https://universaldependencies.org),
  annotations © The Board of Trustees of The Leland Stanford Junior University,
  [CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/). Natalia Silveira, Timothy Dozat, Marie-Catherine de
  Marneffe, Samuel Bowman, Miriam Connor, John Bauer and Christopher D. Manning: A Gold Standard Dependency Corpus for
  English, LREC 2014. It is annotated over texts of the English Web Treebank (LDC2012T13).
- **Encoder**: [thenlper/gte-small](https://huggingface.co/thenlper/gte-small), MIT licence. Zehan Li, Xin Zhang,
  Yanzhao Zhang, Dingkun Long, Pengjun Xie and Meishan Zhang: Towards General Text Embeddings with Multi-stage
  Contrastive Learning, 2023.
- **Teachers**: four parsers of the same treebank, fine-tuned from
  [sentence-transformers/all-mpnet-base-v2](https://huggingface.co/sentence-transformers/all-mpnet-base-v2), Apache-2.0.
  They also parsed 24,000 English sentences of the [Common Voice](https://commonvoice.mozilla.org) text corpus, CC0.
- **These weights** were trained on the treebank and on those parses. It is not settled whether that makes them an
  adaptation of it, so they have the same licence,
  [CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/). They were fine-tuned from the
  encoder's weights and rounded to eight bits. The code of treefine is under Apache-2.0."""
LIMITS = """\
- It was trained on English web text: weblogs, newsgroups, e-mails, reviews and answers. Expect more errors in other
  kinds of text. Trees for other languages are meaningless.
- It may miss the end of a sentence without punctuation, as in chat, or add one.
- It uses the words, tags, features and labels of UD 2.16. Other releases differ, even in heads: in "President Bush" the
  head is now "Bush"."""


def bundle_card(
    name: str,
    about: About,
    parser: Parser,
    measured: Mapping[str, Row],
    calibrated: Mapping[str, Row],
    notes: str,
) -> str:
    """Return the model card with the scores of the rows; `notes` are those of the training."""
    parts = [
        _front(name, about),
        f"# {name}: {about.language}, from text to trees",
        _kind(parser),
        f'```\ntreefine parse --model {name} "Nobody knew why."\n```',
        "## Accuracy",
        f"Measures of the CoNLL 2018 shared task on {about.treebank}, in percent. Only dev was used for tuning.",
        scores(measured) if measured else "Not measured yet.",
        "## Confidence",
        _confidence(parser),
        *([_errors(calibrated)] if calibrated else []),
        "## Limits",
        LIMITS,
        "## Licence and attribution",
        ATTRIBUTION,
        "## Recipe",
        _recipe(name, notes),
        *(["## Training", notes] if notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def _front(name: str, about: About) -> str:
    lines = [
        "library_name: treefine",
        "license: " + about.licence.lower().replace(" ", "-"),
        f"language: {name}",
        f"base_model: {about.encoder}",
        "tags: [dependency-parsing, universal-dependencies]",
    ]
    return "\n".join(["---", *lines, "---"])


def _kind(parser: Parser) -> str:
    settings = parser.model.settings
    encoder = settings.encoder
    layers = (
        f"{encoder.n_layers} layers of width {encoder.width}" if isinstance(encoder, TransformerSettings) else "BiLSTM"
    )
    n_parameters = sum(each.numel() for each in parser.model.parameters())
    return (
        f"A segmenter finds sentences and words. Then RNGTr, a graph-to-graph transformer ({layers}, "
        f"{n_parameters / 1e6:.1f} million parameters), predicts tags, features, lemmas and a first tree, and corrects "
        f"them until nothing changes, in at most {parser.max_steps} steps. It has "
        f"{len(parser.model.vocabulary.labels)} labels. "
        "The weights are stored in eight bits and run in int8, float16 or float32, whichever is fastest on the "
        "machine. The scores below are those of int8."
    )


def _confidence(parser: Parser) -> str:
    found = parser.model.settings.confidence
    return (
        "The confidence in a head or a label is its probability after temperature scaling "
        f"({found.arc_temperature:.3f} for heads, {found.label_temperature:.3f} for labels; config.json has those for "
        "tags, features, lemmas and sentence ends). The confidence in a "
        "whole sentence is a logistic function of the logarithm of the sum of −log p over its words, with midpoint "
        f"{found.sentence_scale:.3f} and slope {found.sentence_slope:.3f}. From raw text it is multiplied by "
        "the probability that the sentence is cut right. All these numbers maximise the likelihood on dev, in int8."
    )


def _errors(calibrated: Mapping[str, Row]) -> str:
    lead = "The difference between confidence and accuracy, on gold words without tags, in percent:"
    return f"{lead}\n\n{calibration_errors(calibrated)}"


def _without_checkpoints(settings: str) -> str:
    """Return settings without the time between checkpoints, which does not change the weights."""
    return re.sub(r"(?m)^checkpoint_minutes = .*\n", "", settings)


def _recipe(name: str, notes: str) -> str:
    """Return the name of the recipe, and its settings if the notes of the training do not have them."""
    settings = recipe_toml(read_recipe(name))
    if not notes:
        return f"The training left no notes. This is the recipe `{name}`:\n\n```toml\n{settings}```"
    if "```toml" not in notes:
        return f"`treefine train {name} --output DIR` trains a similar model. Notes on this training are below."
    if _without_checkpoints(settings) in _without_checkpoints(notes):
        return f"`treefine train {name} --output DIR` trains this model, with the settings below."
    return f"It was trained with the settings below. The bundled recipe `{name}` has changed since."
