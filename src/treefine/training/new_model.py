"""Create the model to train: from a pretrained encoder or a trained base model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace

from torch import Tensor

from treefine.config import ModelSettings, TagSettings
from treefine.model.create import PieceChoice, create_parser_model, random_model, root_label_of
from treefine.model.folder import fetch, is_model_folder, load_model
from treefine.model.parser_model import ParserModel
from treefine.model.vocabulary import language_of
from treefine.training.data import balanced_shares, words_by_treebank
from treefine.training.recipe import Recipe, expand
from treefine.treebank.sentence import Sentence

_TAG_COLUMN = re.compile(r"(encoder\.tags\.|tagger\.columns\.|draft_taggers\.\d+\.columns\.)(\d+)")


def new_model(recipe: Recipe, sentences: Sequence[Sentence], start: str = "") -> ParserModel:
    """Create a model for the labels and tags of these sentences.

    Its weights come from the folder `start`, or from the encoder or model that the recipe names.
    """
    decode = replace(recipe.decode, root_label=root_label_of(sentences))
    folder = fetch(start or expand(recipe.encoder.start))
    if is_model_folder(folder):
        model = _continued(load_model(folder), replace(recipe, decode=decode), sentences)
    else:
        model = create_parser_model(
            folder,
            sentences,
            relations=recipe.relations,
            tags=_tags(recipe),
            scorer=recipe.scorer,
            decode=decode,
            stages=recipe.refine.stages,
            draft=recipe.draft,
            sentence_layers=recipe.segmenter.encoder_layers,
            pieces=_pieces(recipe, sentences),
            fewest=recipe.tags.fewest,
            seed=recipe.training.seed,
        )
    steps, languages = recipe.refine.max_steps, recipe.card.language
    main = main_treebanks(sentences, recipe.treebank.main)
    model.settings = replace(model.settings, max_steps=steps, languages=languages, main_treebanks=main)
    return model


def main_treebanks(sentences: Sequence[Sentence], chosen: Sequence[str]) -> tuple[str, ...]:
    """Return the treebank that each language stands for: a chosen one, or else its largest. Empty without codes."""
    n_words = words_by_treebank(sentences)
    by_size = sorted(filter(None, n_words), key=n_words.__getitem__)  # the last one of a language counts
    return tuple(sorted({language_of(code): code for code in (*by_size, *chosen)}.values()))


def _pieces(recipe: Recipe, sentences: Sequence[Sentence]) -> PieceChoice:
    """Return the choice of pieces; those of a treebank that is drawn more often count more."""
    encoder, n_words = recipe.encoder, words_by_treebank(sentences)
    shares = dict(zip(n_words, balanced_shares(list(n_words.values()), recipe.treebank.balance), strict=True))
    n_frequent = encoder.n_frequent if encoder.pieces == "cut" else None
    return PieceChoice(n_frequent, encoder.most_pieces, encoder.table_bits, shares)


def _tags(recipe: Recipe) -> TagSettings:
    return TagSettings(**{each.name: getattr(recipe.tags, each.name) for each in fields(TagSettings)})


def _continued(old: ParserModel, recipe: Recipe, sentences: Sequence[Sentence]) -> ParserModel:
    """Create a model with all weights of an old model that fit.

    Rows of labels and tags are matched by name. Weights that the old model lacks are random.
    """
    subwords, old_weights = old.subwords, old.state_dict()
    if recipe.encoder.pieces == "cut":
        subwords, rows = _pieces(recipe, sentences).cut(subwords, sentences)
        old_weights["encoder.pieces.weight"] = old_weights["encoder.pieces.weight"][rows]
    shape = replace(old.settings.encoder, n_pieces=len(old_weights["encoder.pieces.weight"]))
    settings = ModelSettings(
        shape,
        recipe.relations,
        _tags(recipe),
        recipe.scorer,
        recipe.decode,
        stages=recipe.refine.stages,
        draft=recipe.draft,
        sentence_layers=recipe.segmenter.encoder_layers,
    )
    new = random_model(settings, sentences, subwords, fewest=recipe.tags.fewest, seed=recipe.training.seed)
    weights = new.state_dict()
    for name, weight in weights.items():
        old_name = _name_in(name, new, old)
        if old_name.startswith("draft_taggers.") and old_name not in old_weights:  # the tagger is a good start
            old_name = re.sub(r"draft_taggers\.\d+", "tagger", old_name)
        if old_name in old_weights:
            copy_rows(weight, old_weights[old_name], row_names(name, new), row_names(old_name, old))
    new.load_state_dict(weights)
    return new.eval()


def _name_in(weight: str, new: ParserModel, old: ParserModel) -> str:
    """Return the name of a weight in the old model, whose tag columns may differ, or "" if it does not exist there."""
    found = _TAG_COLUMN.match(weight)
    if found is None:
        return weight
    column, columns = _inputs(new)[int(found[2])], _inputs(old)
    return f"{found[1]}{columns.index(column)}{weight[found.end() :]}" if column in columns else ""


def _inputs(model: ParserModel) -> list[str]:
    """Return the columns that the encoder reads, in the order of its tables."""
    tags, finds_sentences = model.settings.tags, model.finds_sentences
    columns = tags.columns if tags.source != "none" else ()
    treebanks = ["treebanks"] if model.vocabulary.treebanks else []
    return [*columns, *(["case"] if tags.case else []), *treebanks, *(["gaps"] if finds_sentences else [])]


def copy_rows(new: Tensor, old: Tensor, new_names: list[str] | None, old_names: list[str] | None) -> None:
    """Copy the rows of an old weight whose names the new one has; without names, copy a weight of the same shape."""
    if new_names is None or old_names is None:
        if new.shape == old.shape:
            new.copy_(old)
        return
    place = {name: row for row, name in enumerate(old_names)}
    is_read = len(new) == len(new_names) and len(old) == len(old_names)  # no rows: the encoder does not read the column
    if new.shape[1:] == old.shape[1:] and is_read:
        for row, name in enumerate(new_names):
            if name in place:
                new[row] = old[place[name]]


def row_names(weight: str, model: ParserModel) -> list[str] | None:
    """Return the labels or tags of the rows of a weight, or None if its rows have other meanings."""
    labels = list(model.vocabulary.labels)
    if weight.endswith(".label_weight"):
        return labels
    if weight.endswith((".relations.keys", ".relations.values")) and model.settings.relations.graph == "labelled":
        kinds = list(labels)
        if model.settings.relations.decided:  # in the order of `decided_kinds`
            kinds += [f"{what} {label}" for what in ("decided", "decided label") for label in labels] + ["decided head"]
        kinds.append("")  # the relation of a word's first piece and its others
        return ["NONE", *(f"down {kind}" for kind in kinds), *(f"up {kind}" for kind in kinds)]
    found = _TAG_COLUMN.match(weight)
    column = None if found is None else _inputs(model)[int(found[2])]
    has_names = column in (*model.settings.tags.columns, "treebanks")
    return list(getattr(model.vocabulary, str(column))) if has_names else None
