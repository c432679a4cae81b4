"""Make a bundled model of a trained one, or write its card again: what it is, reaches, and whom it is owed to."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch

from benchmarks.accuracy.model_rows import RAW, TAGGED, WORDS, by_split
from benchmarks.options import ROWS_FILE, command, option
from benchmarks.pages.english import calibration_errors, scores
from benchmarks.rows import ROWS, Row, read_rows, save_row, weights_checksum
from treefine import Parser, TreefineError
from treefine.config import TransformerSettings
from treefine.model.bundled import ABOUT, BUNDLED, About
from treefine.model.folder import is_model_folder, load_model, new_folder
from treefine.model.weight_files import LAYOUT, read_weights
from treefine.training.recipe import read_recipe, recipe_toml
from treefine.training.train import FolderNames

MOST_BYTES = 40_000_000  # of a bundled model
KNOWN = {"en": About("English", "UD English EWT 2.3", "CC BY-SA 4.0", "thenlper/gte-small")}


@command(
    option("folder", type=Path, nargs="?", help="of a training or a model"),
    option("--name", choices=sorted(KNOWN), required=True, help="that users will call it by"),
    option("--models", type=Path, default=BUNDLED, help="where the bundled ones lie"),
    ROWS_FILE,
)
def measure_bundle(options: argparse.Namespace) -> None:
    """Make a bundled model of a trained one: weights in eight bits, a description, and a card.

    python -m benchmarks bundle runs/en --name en      from the folder of a training, or of a model
    python -m benchmarks bundle --name en              only write scores and card again, from the newest rows
    """
    target = options.models / options.name
    if options.folder is not None:
        make_bundle(options.folder, target, rows=options.rows)
    elif (target / ABOUT).is_file():
        describe(target, notes=_notes(target), rows=options.rows)
    else:
        hint = "Name the folder of a training to make one."
        raise TreefineError("There is no bundled model here.", hint=hint, path=str(target))
    print(f"{options.name}: {sum(sizes(target).values()) / 1e6:.1f} MB, weights {weights_checksum(target)[:8]}")


def make_bundle(source: Path, target: Path, *, rows: Path = ROWS) -> None:
    """Write the bundled model in place of an older one; a row tells its size and the weights it is made of."""
    if not is_model_folder(source) and is_model_folder(source / FolderNames.model):
        source = source / FolderNames.model
    if not is_model_folder(source):
        raise TreefineError(
            "There is no model in this folder.", hint="Name a training's or a model's.", path=str(source)
        )
    with new_folder(target, may_be_replaced=_may_be_replaced) as new:
        Parser.from_pretrained(source, device="cpu").save(new, dtype=torch.int8)
        for path in source.rglob("*.safetensors"):
            if any(weight.dtype == torch.int8 for weight in read_weights(path).values()):
                shutil.copyfile(path, new / path.relative_to(source))  # rounded twice, a scale may differ in a last bit
        describe(new, name=target.name, notes=_notes(source), rows=rows)
        found = sizes(new)
        if sum(found.values()) > MOST_BYTES:
            message = (
                f"The model has {sum(found.values()) / 1e6:.1f} MB, but at most {MOST_BYTES / 1e6:.0f} are bundled."
            )
            raise TreefineError(message, hint="Choose a smaller encoder or segmenter.", path=str(source))
        weights = weights_checksum(new)
    if not read_rows("bundle", path=rows, weights=weights):
        config = {"model": target.name, "weights": weights, "made_of": weights_checksum(source)}
        save_row("bundle", config, {"bytes": sum(found.values()), "files": found}, path=rows)


def describe(folder: Path, *, name: str = "", notes: str, rows: Path = ROWS) -> None:
    """Write what is known of a bundled model, and its card; both have the scores that the rows of its weights tell."""
    name = name or folder.name
    weights = weights_checksum(folder)
    measured, calibrated = (by_split(kind, weights, path=rows) for kind in ("pipeline", "calibration"))
    known = replace(KNOWN[name], scores=scores_to_list(measured.get("test")))
    content = json.dumps(asdict(known), ensure_ascii=False, indent=1) + "\n"
    (folder / ABOUT).write_text(content, encoding="utf-8")
    parser = Parser(load_model(folder), device="cpu")
    card = bundle_card(name, known, parser, measured, calibrated, notes)
    (folder / LAYOUT.card).write_text(card, encoding="utf-8")


def scores_to_list(row: Row | None) -> dict[str, float]:
    """What a list of models shows: from raw text, and LAS with gold words; nothing before the test set was parsed."""
    if row is None:
        return {}
    result = row["result"]
    found = {name: result[RAW][name] for name in ("Tokens", "Sentences", "UPOS", "UAS", "LAS")}
    found |= {f"LAS ({given})": result[given]["LAS"] for given in (WORDS, TAGGED)}
    return {name: round(100 * share, 2) for name, share in found.items()}


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file, the largest first."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    found = {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _notes(folder: Path) -> str:
    """What the card of a trained model says of its training; empty where it says nothing."""
    path = folder / LAYOUT.card
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    _, heading, notes = text.partition("\n## Training\n")
    return notes.strip() if heading else ""


def _may_be_replaced(target: Path) -> bool:
    return target.is_dir() and (not any(target.iterdir()) or (target / ABOUT).is_file())


ATTRIBUTION = """\
- **Treebank**: UD English EWT, release 2.3 of [Universal Dependencies](https://universaldependencies.org)
  (<http://hdl.handle.net/11234/1-2895>), annotations © The Board of Trustees of The Leland Stanford Junior University,
  [CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/). Natalia Silveira, Timothy Dozat, Marie-Catherine de
  Marneffe, Samuel Bowman, Miriam Connor, John Bauer and Christopher D. Manning: A Gold Standard Dependency Corpus for
  English, LREC 2014. It is annotated over texts of the English Web Treebank (LDC2012T13).
- **Encoder**: [thenlper/gte-small](https://huggingface.co/thenlper/gte-small), MIT licence. Zehan Li, Xin Zhang,
  Yanzhao Zhang, Dingkun Long, Pengjun Xie and Meishan Zhang: Towards General Text Embeddings with Multi-stage
  Contrastive Learning, 2023.
- **These weights** were trained from the treebank. Whether that makes them an adaptation of it is not settled, so to be
  on the safe side they are shared under the same licence,
  [CC BY-SA 4.0](https://creativecommons.org/licenses/by-sa/4.0/). They differ from the encoder's by training, and are
  rounded to eight bits. The code of treefine is under Apache-2.0."""
LIMITS = """\
- It has learned from English web text: weblogs, newsgroups, e-mails, reviews and answers. Other kinds of text have more
  errors, other languages get nonsense.
- Where a sentence ends without punctuation, as in headlines, lists and chat, it often sees no end, or one too many.
- Its encoder reads no difference between upper and lower case; the segmenter does.
- It knows the words, tags and labels of UD 2.3; later releases have others, such as multiword tokens for "don't"."""


def bundle_card(
    name: str,
    about: About,
    parser: Parser,
    measured: Mapping[str, Row],
    calibrated: Mapping[str, Row],
    notes: str,
) -> str:
    """The card, with the scores that there are rows of; `notes` are those of the training."""
    parts = [
        _front(name, about),
        f"# {name}: {about.language}, from text to trees",
        _kind(parser),
        f'```\ntreefine parse --model {name} "Nobody knew why."\n```',
        "## What it reaches",
        f"Measures of the CoNLL 2018 shared task on {about.treebank}, in per cent. It was tuned on dev alone.",
        scores(measured) if measured else "It has not been measured yet.",
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
        f"A segmenter finds sentences and words; then RNGTr, a graph-to-graph transformer ({layers}, "
        f"{n_parameters / 1e6:.1f} million parameters), tags the words, makes a first tree from nothing, and corrects "
        f"it until nothing changes, in at most {parser.max_steps} steps. It knows "
        f"{len(parser.model.vocabulary.labels)} labels. Its weights are kept in eight bits; they run in eight "
        "bits, float16 or float32, as the machine is fastest (scores: float32)."
    )


def _confidence(parser: Parser) -> str:
    found = parser.model.settings.confidence
    return (
        "The confidence of a head and of a label is the probability that the scores give it, divided first by a "
        f"temperature ({found.arc_temperature:.3f} for heads, {found.label_temperature:.3f} for labels). That of a "
        "whole sentence is a logistic curve over the logarithm of its words' summed doubts, −log p: half at "
        f"{found.sentence_scale:.3f}, with slope {found.sentence_slope:.3f}. All four numbers were fitted on dev to "
        "make what is right there as likely as they can."
    )


def _errors(calibrated: Mapping[str, Row]) -> str:
    lead = "By how much confidence and the share of right ones differ, on gold words without tags, in per cent:"
    return f"{lead}\n\n{calibration_errors(calibrated)}"


def _recipe(name: str, notes: str) -> str:
    """The recipe by its name; and its settings, where no notes of the training tell them."""
    settings = recipe_toml(read_recipe(name))
    if not notes:
        return f"Its folder had no notes of its training. This is the recipe `{name}`:\n\n```toml\n{settings}```"
    if "```toml" not in notes:
        return f"How it was trained is told below; `treefine train {name} --output DIR` trains a model like it."
    if settings in notes:
        return f"`treefine train {name} --output DIR` trains such a model, with the settings below."
    return f"It was trained with the settings below, from which the bundled recipe `{name}` differs by now."
