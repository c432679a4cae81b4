"""Make a bundled model of a trained one: weights in eight bits, what is known of it, and a card. Or tell it anew.

python -m benchmarks bundle runs/en --name en      of the folder of a training, or of a model
python -m benchmarks bundle --name en              scores and card of the bundled one from the newest rows; no weights
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from benchmarks.bundle_card import bundle_card
from benchmarks.model_rows import RAW, TAGGED, WORDS, Row, by_split, rows_of, weights_checksum
from benchmarks.rows import ROWS, save_row
from treefine import Parser, TreefineError
from treefine.model.bundled import ABOUT, BUNDLED, About
from treefine.model.folder import is_model_folder, load_model, new_folder
from treefine.model.weight_files import LAYOUT, read_weights
from treefine.training.train import LAYOUT as TRAINING

MOST_BYTES = 40_000_000  # of a bundled model
KNOWN = {"en": About("English", "UD English EWT 2.3", "CC BY-SA 4.0", "thenlper/gte-small")}


def measure_bundle(arguments: Sequence[str]) -> None:
    """The command."""
    options = _options(arguments)
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
    if not is_model_folder(source) and is_model_folder(source / TRAINING.model):
        source = source / TRAINING.model
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
    if not rows_of("bundle", weights, path=rows):
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


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks bundle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="of a training or a model")
    parser.add_argument("--name", choices=sorted(KNOWN), required=True, help="that users will call it by")
    parser.add_argument("--models", type=Path, default=BUNDLED, help="where the bundled ones lie")
    parser.add_argument("--rows", type=Path, default=ROWS)
    return parser.parse_args(arguments)
