"""Say what a model will be able to do before it is trained, and name a command for it afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from treefine.config import COLUMNS, named_columns
from treefine.drawing.characters import visible
from treefine.model.folder import fetch
from treefine.model.weight_files import LAYOUT, read_json
from treefine.training.data import filled_columns, no_text
from treefine.training.prepare import Prepared
from treefine.training.recipe import EMPTY, FILES, Recipe, expand
from treefine.treebank.formats import format_of
from treefine.treebank.sentence import Sentence
from treefine.wording import count

_LONGEST = 60  # characters of an example


def abilities(prepared: Prepared) -> list[str]:
    """Return plain sentences about what the model will read, predict and refine."""
    return [*_reading(prepared), *_tagging(prepared), *_refining(prepared), *_first_trained(prepared), _data(prepared)]


def _reading(prepared: Prepared) -> Iterator[str]:
    if prepared.recipe.segmenter.train == "always":
        yield "The model will read raw text: a segmenter is trained first."
    else:
        why = no_text(prepared.data) or "segmenter.train is never"
        yield f"The model will read words, not raw text: {why}."


def _tagging(prepared: Prepared) -> Iterator[str]:
    tags = prepared.recipe.tags
    if tags.source == "predicted":
        predicted = [column for column in tags.columns if column not in tags.given]
        needs = named_columns(tags.given) if tags.given else "none"
        yield f"It will predict {named_columns(predicted) if predicted else 'no tags'}; its input needs {needs}."
        filled = filled_columns(prepared.data.train)
        if missing := [column for column in COLUMNS if column not in filled]:
            yield f"It will not predict {named_columns(missing)}: the treebank has none."
    elif tags.source == "given":
        yield f"It will not predict tags: its input needs {named_columns(tags.columns)}."
    else:
        yield "It will neither predict nor read tags."
    if tags.source != "given" and (needed := _tags_of_initial(prepared)):
        yield f"Its initial parser needs {needed} in the input."


def _tags_of_initial(prepared: Prepared) -> str:
    """Return the tags that the initial parser reads but cannot predict, such as "UPOS tags"."""
    parser, recipe = prepared.recipe.initial.parser, prepared.initial.get("")
    if recipe is not None:
        columns = recipe.tags.columns if recipe.tags.source == "given" else recipe.tags.given
    elif parser in (EMPTY, FILES):
        return ""
    else:
        tags = read_json(fetch(expand(parser)) / LAYOUT.config).get("tags", {})
        columns = tuple(tags.get("columns" if tags.get("source") == "given" else "given", ()))
    return named_columns(columns) if columns else ""


def _refining(prepared: Prepared) -> Iterator[str]:
    recipe = prepared.recipe
    parser, steps = recipe.initial.parser, f"in up to {recipe.refine.max_steps} steps"
    if recipe.relations.graph == "none":
        yield "It will not refine trees: it reads no graph."
    elif parser == EMPTY:
        yield f"It will start from an empty graph and refine it {steps}."
    elif parser == FILES:
        yield f"It will refine the trees of another parser {steps}; without them it starts from an empty graph."
        if prepared.data.test:
            yield "It will not be scored on the test set, because the files have no trees of it."
    else:
        yield f"It will refine the trees of its initial parser, which is saved with it, {steps}."
    if recipe.initial.mix:
        yield f"It will also learn to refine the trees of {', '.join(recipe.initial.mix)}."


def _first_trained(prepared: Prepared) -> Iterator[str]:
    for name, recipe in prepared.initial.items():
        place = f"initial.mix.{name}" if name else "initial"
        what, folds = f"parser {name}" if name else "initial parser", _folds(prepared.recipe, name)
        more = f", and {folds} more for the folds" if folds else ""
        yield (
            f"Trained first: the {what}, {count(recipe.training.epochs, 'epoch')}{more}. "
            f"Change its settings with --set {place}.training.epochs=… and so on."
        )
    for base in prepared.bases:
        yield f"Trained first: the base model {Path(base).stem}, with the settings of {base}."
    members = prepared.recipe.teacher.members
    for teacher in prepared.teachers:
        yield f"Trained first: {count(members, 'teacher')} with the settings of {teacher}."


def _folds(recipe: Recipe, name: str) -> int:
    return recipe.initial.mix[name].folds if name else recipe.initial.folds


def _data(prepared: Prepared) -> str:
    card = prepared.recipe.card
    licence = card.licence or "not stated (set card.licence)"
    languages = ", ".join(card.language) or "not stated (set card.language)"
    return f"For the model card: language {languages}; treebank {card.treebank or 'not stated'}; licence {licence}."


def command_for(prepared: Prepared, model: Path) -> str:
    """Return a command that parses an example, or the dev set, with the trained model."""
    recipe, named = prepared.recipe, shlex.quote(str(model))
    if recipe.initial.parser == FILES and not recipe.initial.mix:
        return f"treefine refine --model {named} {_in_and_out(recipe, recipe.initial.dev[0], 'refined')}"
    needs_tags = recipe.tags.source == "given" or bool(recipe.tags.given) or bool(_tags_of_initial(prepared))
    if not needs_tags:
        reads_text = recipe.segmenter.train == "always"
        if example := _example(prepared.data.dev, reads_text=reads_text):
            kind = "--text" if reads_text else "--from words"
            return f"treefine parse --model {named} {kind} {shlex.quote(example)}"
    return f"treefine parse --model {named} {_in_and_out(recipe, recipe.treebank.dev[0], 'parsed')}"


def _example(sentences: tuple[Sentence, ...], *, reads_text: bool) -> str:
    """Return a short sentence as text or as words with spaces between them; empty if all are long."""
    for each in sentences:
        found = (each.text or "") if reads_text else " ".join(each.forms)
        is_plain = len(found) <= _LONGEST and visible(found) == found and not found.startswith("-")
        if is_plain and len(each) > 1 and (reads_text or len(found.split()) == len(each)):
            return found
    return ""


def _in_and_out(recipe: Recipe, path: str, name: str) -> str:
    """Return the arguments that read a file and write another one in the same format."""
    form = format_of(path, recipe.treebank.format or None)
    given = f"--from {form.name} " if recipe.treebank.format else ""
    suffix = form.suffixes[0] if form.suffixes else ".conll09"
    return f"{given}{shlex.quote(expand(path))} -o {name}{suffix}"
