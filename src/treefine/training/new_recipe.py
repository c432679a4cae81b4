"""Write a commented recipe for a user's treebank and encoder, with settings chosen by the size of the treebank."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from treefine.config import BiLSTMSettings, Column
from treefine.drawing.characters import visible
from treefine.errors import ConfigError, TreefineError
from treefine.model.bundled import bundled_models
from treefine.model.weight_files import LAYOUT, read_json
from treefine.training.data import FEWEST, MOST_XPOS, columns_to_predict, load_data, no_text
from treefine.training.recipe import (
    BIAFFINE,
    EMPTY,
    FILES,
    NEW_ENCODER,
    NEW_INITIALS,
    SYNTR,
    CardSettings,
    PretrainedSettings,
    Recipe,
    TeacherSettings,
    TreebankSettings,
    expand,
    values_of,
)
from treefine.treebank.files import open_input, open_output
from treefine.treebank.formats import format_of
from treefine.version import __version__

_TRAIN, _DEV = "TRAIN.conllu", "DEV.conllu"  # placeholders
_RULES = {"conllu": "conll18", "conllx": "conllx", "conll09": "conll09", "conll09-predicted": "conll09"}
_WIDE = 768  # the width of a base model, and the one assumed for an encoder that is not on this machine
_LINE = 110  # characters


@dataclass(frozen=True)
class _Size:
    """Settings for treebanks of at least `n_sentences` sentences; see docs/training.md, Rates and epochs."""

    n_sentences: int
    epochs: int  # with a graph, where each batch gives up to T updates; doubled without a graph
    batch_pieces: int
    masking: float
    folds: int
    reason: str


SIZES = (  # the first row that fits; the epochs of the first and the last row keep the number of updates similar
    _Size(40_000, 3, 4000, 0.0, 2, "An estimate: fewer epochs than for the 12,500 sentences of English EWT."),
    _Size(7_000, 6, 4000, 0.0, 2, "These settings suited a treebank of 12,500 sentences (English EWT)."),
    _Size(1_000, 10, 2000, 0.1, 3, "These settings suited treebanks of 4,000 sentences (Turkish IMST, Korean GSD)."),
    _Size(0, 30, 1000, 0.1, 5, "An estimate: more epochs than for treebanks of 4,000 sentences."),
)


def size_for(n_sentences: int) -> _Size:
    """Return the settings for a training set of this size."""
    return next(each for each in SIZES if n_sentences >= each.n_sentences)


def encoder_learning_rate(width: int) -> float:
    """Return the learning rate that suits a pretrained encoder of this width."""
    return 1e-4 if width < _WIDE else 5e-5 if width == _WIDE else 2e-5


@dataclass(frozen=True)
class RecipeRequest:
    """The files and the encoder that a new recipe names."""

    train: tuple[str, ...] = ()  # no files: placeholders
    dev: str = ""
    encoder: str = NEW_ENCODER  # a folder, OWNER/NAME on the hub, or a trained model
    initial: str = EMPTY  # or "syntr", "biaffine", "files", or a model folder
    initial_train: str = ""  # with "files": another parser's trees of the training set …
    initial_dev: str = ""  # … and of the dev set
    format: str = ""  # of the files; empty: by their names
    segmenter: bool | None = None  # None: if the treebank marks words that follow without a space


@dataclass(frozen=True)
class _Facts:
    """The properties of the treebank and the encoder that settings depend on."""

    n_sentences: int = 0  # 0: unknown
    n_words: int = 0
    n_dev: int = 0
    columns: tuple[Column, ...] = ("upos",)  # worth predicting
    n_xpos: int = 0  # different tags
    rule: str = "conll18"
    is_ud: bool = True
    n_joined: int = 0  # tokens that no space follows
    has_text: bool = False  # whether a segmenter can learn from the treebank
    width: int = 0  # of the encoder; 0: unknown
    is_model: bool = False  # whether the encoder is a trained treefine model
    warnings: tuple[str, ...] = ()

    @property
    def size(self) -> _Size:
        return size_for(self.n_sentences or 4_000)


@dataclass(frozen=True)
class NewRecipe:
    """The text of a recipe, and of its initial parser's recipe if there is one."""

    text: str
    initial_text: str = ""
    warnings: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # the files that were written


def write_new_recipe(out: str, request: RecipeRequest, *, force: bool = False) -> NewRecipe:
    """Write a recipe to a TOML file, or to standard output if `out` is "-", and return it.

    An initial parser's recipe is written to the same folder. Raises one error with a line per fault.
    """
    faults = []
    targets = [out] if out == "-" else [out, *([_beside(out, request)] if _has_two(request) else [])]
    if out == "-" and _has_two(request):
        faults.append(f"--initial {request.initial} writes two recipes; name a file instead of -.")
    elif out != "-" and not out.endswith(".toml"):
        faults.append(f"{out}: The name of a recipe must end in .toml.")
    for target in targets:
        if target != "-" and os.path.lexists(target) and not force:
            faults.append(f"{target}: The file exists. Overwrite it with --force, or choose another name.")
    faults += [f"{name!r} is not valid UTF-8, so a recipe cannot contain it." for name in _undecodable(request, out)]
    recipe = new_recipe(request, out, faults=faults)
    for target, text in zip(targets, (recipe.text, recipe.initial_text), strict=False):
        with open_output(target) as stream:
            stream.write(text.encode())
    return recipe if out == "-" else replace(recipe, paths=tuple(targets))


def new_recipe(request: RecipeRequest, out: str = "recipe.toml", *, faults: Sequence[str] = ()) -> NewRecipe:
    """Return a commented recipe for a treebank and an encoder; `out` is the file that it will be in.

    Raises one error with a line for each of the given faults and for each file that cannot be used.
    """
    found = list(faults)
    facts = _survey(request, found)
    if found:
        raise ConfigError("\n".join(found))
    title = (Path(request.train[0] if request.train else "recipe") if out == "-" else Path(out)).stem
    text = "\n".join(_recipe(request, facts, title, out)) + "\n"
    initial = ""
    if _has_two(request):
        initial = "\n".join(_initial_recipe(request, facts, f"{title}, initial parser", out)) + "\n"
    return NewRecipe(text, initial, facts.warnings)


def _undecodable(request: RecipeRequest, out: str) -> list[str]:
    """Return the file names that Python could not decode; TOML is UTF-8 and has no place for them."""
    names = (out, *request.train, request.dev, request.encoder, request.initial)
    names += (request.initial_train, request.initial_dev)
    return [name for name in names if name.encode(errors="ignore").decode() != name]


def _has_two(request: RecipeRequest) -> bool:
    return request.initial in (SYNTR, BIAFFINE)


def _beside(out: str, request: RecipeRequest) -> str:
    """Return the path of the initial parser's recipe."""
    return str(Path(out).parent / f"{Path(out).stem}-{request.initial}.toml")  # with_name would reject . and /


# What the files say


def _survey(request: RecipeRequest, faults: list[str]) -> _Facts:
    """Read the treebank once, and the shape of the encoder; add what is wrong to the faults."""
    values: dict[str, Any] = {}
    if bool(request.train) != bool(request.dev):
        given, missing = ("--train", "--dev") if request.train else ("--dev", "--train")
        faults.append(f"{given} is given without {missing}. Give both, or neither to write placeholders.")
    elif request.train:
        values = _treebank_facts(request, faults)
    if (request.initial == FILES) != bool(request.initial_train and request.initial_dev):
        faults.append('Trees of another parser need all of "--initial files", --initial-train and --initial-dev.')
    if request.initial not in NEW_INITIALS and not Path(request.initial).is_dir():
        choices = f"Choose {', '.join(NEW_INITIALS)}, or the folder of a trained model."
        faults.append(f"--initial {request.initial}: There is no such model folder. {choices}")
    for path in filter(None, (request.initial_train, request.initial_dev)):
        try:
            with open_input(expand(path)):
                pass
        except TreefineError as error:
            faults.append(str(error))
    return _Facts(**values, **_encoder_facts(request.encoder, faults))


def _treebank_facts(request: RecipeRequest, faults: list[str]) -> dict[str, Any]:
    try:
        rule = _RULES[format_of(request.train[0], request.format or None).name]
        data = load_data(TreebankSettings(request.train, (request.dev,), (), rule, request.format))  # type: ignore[arg-type]
    except TreefineError as error:
        faults.append(str(error))
        return {}
    except ValueError as error:
        faults.extend(map(str, error.args))
        return {}
    warnings = list(data.warnings)
    is_ud = all(each.format.is_ud for each in (*data.train, *data.dev))
    n_joined = sum("SpaceAfter=No" in token.misc for each in data.train for token in each.tokens()) if is_ud else 0
    if request.segmenter and not is_ud:
        faults.append("--segmenter needs CoNLL-U files; other formats do not mark words that follow without a space.")
    elif request.segmenter and not n_joined:
        warnings.append("No word is marked SpaceAfter=No, so the segmenter will cut text only at spaces.")
    return {
        "n_sentences": len(data.train),
        "n_words": sum(map(len, data.train)),
        "n_dev": len(data.dev),
        "columns": tuple(columns_to_predict(data.train)),
        "n_xpos": len({tag for each in data.train for tag in each.xpos}),
        "rule": rule,
        "is_ud": is_ud,
        "n_joined": n_joined,
        "has_text": not no_text(data),
        "warnings": tuple(warnings),
    }


def _encoder_facts(name: str, faults: list[str]) -> dict[str, Any]:
    """Return the width of an encoder and whether it is a trained model, as far as files on this machine say."""
    try:
        folder = bundled_models().get(name, Path(expand(name)))
        config: Path | None = folder / LAYOUT.config
        is_path = name.count("/") > 1 or name.startswith((".", "/", "~", "$")) or "\\" in name or folder.exists()
        if not folder.is_dir() and is_path:
            raise ConfigError("There is no such model folder.", path=name)
        if not folder.is_dir():
            config = _cached_config(name)
        if config is None:
            return {}
        values = read_json(config)
    except TreefineError as error:
        faults.append(str(error))
        return {}
    inner = values.get("encoder")
    is_model = isinstance(inner, dict) and "format" in values
    width = inner.get("width") if isinstance(inner, dict) and is_model else values.get("hidden_size")
    return {"width": width if isinstance(width, int) else 0, "is_model": is_model}


def has_encoder(name: str) -> bool:
    """Return whether an encoder is on this machine: a folder, or downloaded from the hub before."""
    return Path(expand(name)).is_dir() or _cached_config(name) is not None


def encoder_width(name: str) -> int:
    """Return the width of an encoder; that of a base model if it is not on this machine."""
    faults: list[str] = []
    width: int = _encoder_facts(name, faults).get("width", 0)
    if faults:
        raise ConfigError(faults[0])
    return width or _WIDE


def _cached_config(name: str) -> Path | None:
    """Return the config of a hub's model if it was downloaded before; new recipes need no network."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, LAYOUT.config)
    except HFValidationError:
        hint = "Give the path of a folder, or OWNER/NAME of a model on the hub."
        raise ConfigError(f"There is no encoder {name!r}.", hint=hint) from None
    return Path(found) if isinstance(found, str) else None


# The text


@dataclass
class _Section:
    """A section of the recipe: settings to write, with reasons, and other settings to list with their defaults."""

    name: str
    kind: type
    values: Mapping[str, Any] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    listed: Sequence[str] = ()  # commented out, with their defaults
    reason: str = ""  # for the section
    is_active: bool = True  # else the section itself is commented out

    def lines(self) -> Iterator[str]:
        """Yield the lines of the section, settings in the order of the reference."""
        notes, types = meanings(self.kind), get_type_hints(self.kind)
        yield ""
        if self.reason:
            yield from _comment(self.reason)
        yield f"[{self.name}]" if self.is_active else f"#[{self.name}]"
        for each in fields(self.kind):
            is_chosen = each.name in self.values
            if not is_chosen and each.name not in self.listed:
                continue
            if each.name in self.reasons:
                yield from _comment(self.reasons[each.name])
            default = each.default if each.default is not MISSING else ""
            setting = f"{each.name} = {toml_value(self.values.get(each.name, default))}"
            note = "; ".join(filter(None, [_choices(types[each.name]), notes.get(each.name, "")]))
            sign = "" if is_chosen and self.is_active else "#"
            yield sign + setting + (f"  # {note}" if note else "")


def meanings(kind: type) -> dict[str, str]:
    """Return the comments on the fields of a settings class; none if its source is not installed."""
    try:
        source = inspect.getsource(kind)
    except OSError:
        return {}
    return dict(re.findall(r"^    (\w+):[^#\n]*  # (.+)$", source, re.MULTILINE))


def _choices(hint: Any) -> str:
    """Return the choices of a setting, as "a, b or c"."""
    listed = get_args(get_args(hint)[0] if get_origin(hint) is tuple else hint)
    *others, last = [each for each in listed if isinstance(each, str)] or [""]
    return f"{', '.join(others)} or {last}" if others else ""


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _LINE, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _recipe(request: RecipeRequest, facts: _Facts, title: str, out: str) -> Iterator[str]:
    """Yield the lines of the main recipe."""
    name = "recipe.toml" if out == "-" else out
    recipe, folder = (shlex.quote(visible(each)) for each in (name, f"runs/{Path(name).stem}"))
    yield from (
        f"# A recipe for treefine {__version__}, written by treefine new-recipe.",
        f"# Check it, and print all settings:  treefine train {recipe} --dry-run",
        f"# Train:                             treefine train {recipe} --output {folder}",
        "# Settings that start with # have their default; remove the # to change one.",
        "# Paths are relative to the working folder.",
        "",
        f"title = {toml_value(title)}",
    )
    for section in (
        _treebank_section(request, facts),
        _encoder_section(request, facts),
        _tags_section(facts),
        _initial_section(request, facts, out),
        _refine_section(request),
        _optimiser_section(facts),
        _training_section(facts, epochs=facts.size.epochs, reads_given_tags=bool(facts.columns)),
        _segmenter_section(request, facts),
        _card_section(),
    ):
        yield from section.lines()


def _initial_recipe(request: RecipeRequest, facts: _Facts, title: str, out: str) -> Iterator[str]:
    """Yield the lines of the initial parser's recipe: SynTr, or the biaffine parser."""
    is_biaffine, name = request.initial == BIAFFINE, visible(Path(out).name)
    yield from (
        f"# The initial parser of {name}, trained first, on the treebank and with the seed of that recipe.",
        "",
        f"title = {toml_value(title)}",
    )
    hints = get_type_hints(Recipe)
    no_graph = "An initial parser reads no graph, so it takes one step."
    encoder = _encoder_section(request, facts)
    if is_biaffine:
        sizes = ("word_width", "char_width", "n_layers", "width", "dropout")
        encoder = _Section("encoder", BiLSTMSettings, {"family": "bilstm"}, listed=sizes)
    epochs = facts.size.epochs * (5 if is_biaffine else 2)
    treebank = _treebank_section(request, facts)
    for section in (
        replace(treebank, listed=(), reason=""),
        encoder,
        _tags_section(facts),
        _Section("relations", hints["relations"], {"graph": "none"}, reason=no_graph),
        _Section("refine", hints["refine"], {"max_steps": 1}),
        _optimiser_section(facts, is_biaffine=is_biaffine),
        _training_section(facts, epochs=epochs),
    ):
        yield from section.lines()


def _treebank_section(request: RecipeRequest, facts: _Facts) -> _Section:
    train: str | list[str] = list(request.train) if len(request.train) > 1 else "".join(request.train) or _TRAIN
    values: dict[str, Any] = {"train": train, "dev": request.dev or _DEV}
    reason = "Replace these by the files of your treebank, at least 10 sentences in train; several files may be listed."
    if facts.n_sentences:
        reason = (
            f"{facts.n_sentences:,} sentences with {facts.n_words:,} words to train on, {facts.n_dev:,} sentences in "
            "dev. The dev set chooses the best epoch; keep the test set for the final score."
        )
    if facts.rule != "conll18":
        values["rule"] = facts.rule
    if request.format:
        values["format"] = request.format
    return _Section("treebank", TreebankSettings, values, listed=("test", "rule", "format"), reason=reason)


def _encoder_section(request: RecipeRequest, facts: _Facts) -> _Section:
    key = "fine_tune_from" if facts.is_model else "pretrained"
    reason = "The pretrained transformer to fine-tune, downloaded from the hub at its first use unless it is a folder."
    if facts.is_model:
        reason = "The trained model to fine-tune."
    values = {key: request.encoder}
    return _Section("encoder", PretrainedSettings, values, listed=("pieces", "n_frequent"), reason=reason)


def _tags_section(facts: _Facts) -> _Section:
    kind = get_type_hints(Recipe)["tags"]
    if not facts.columns:
        reason = "The treebank has no tags, features or lemmas."
        return _Section("tags", kind, {"source": "none"}, reason=reason)
    reason = "The model predicts these columns, so its input needs only words. given: it reads those of its input."
    if facts.n_xpos > MOST_XPOS and "xpos" not in facts.columns:
        reason += f" XPOS is left out because it has {facts.n_xpos:,} different tags."
    return _Section("tags", kind, {"source": "predicted", "columns": list(facts.columns)}, reason=reason)


def _initial_section(request: RecipeRequest, facts: _Facts, out: str) -> _Section:
    kind = get_type_hints(Recipe)["initial"]
    if request.initial == EMPTY:
        reason = (
            "The graph that the first step reads. To refine another parser, name its recipe or model folder here, or "
            'set parser = "files" and name its trees of both sets in train and dev.'
        )
        return _Section("initial", kind, {"parser": EMPTY}, listed=("train", "dev"), reason=reason)
    values: dict[str, Any] = {"parser": request.initial}
    reasons = {}
    if request.initial == FILES:
        values |= {"train": request.initial_train, "dev": request.initial_dev}
        reasons["train"] = "The other parser must not be trained on the sentences that it parses here (jack-knifing)."
    elif _has_two(request):
        values["parser"] = Path(_beside(out, request)).name
        folds = facts.size.folds if facts.n_sentences == 0 or facts.n_sentences >= 3 * FEWEST else 0
        values["folds"] = folds
        if folds:
            reasons["folds"] = (
                f"{folds} parsers each parse the part of the training set that they were not trained on, so training "
                "sees realistic errors. 0 trains one parser, which is faster and less accurate."
            )
    reason = "The first step reads the trees of this parser; they are refined."
    return _Section("initial", kind, values, reasons, listed=("empty_share", "noised_share"), reason=reason)


def _refine_section(request: RecipeRequest) -> _Section:
    values = {"max_steps": 4 if request.initial == EMPTY else 3}
    return _Section("refine", get_type_hints(Recipe)["refine"], values, listed=("stop", "update"))


def _optimiser_section(facts: _Facts, *, is_biaffine: bool = False) -> _Section:
    width = facts.width or _WIDE
    values = {"learning_rate": 2e-3 if is_biaffine else 1e-3, "eps": 1e-8, "warmup": 0.1, "ema": 0.99}
    reasons = {}
    if not is_biaffine:
        values["encoder_learning_rate"] = encoder_learning_rate(width)
        known = f"The encoder has a width of {width:,}." if facts.width else f"For an encoder of width {_WIDE}."
        reasons["encoder_learning_rate"] = (
            f"{known} 1e-4 suited encoders of width 384, 5e-5 width 768; the rate for wider ones is an estimate."
        )
    kind = get_type_hints(Recipe)["optimiser"]
    return _Section("optimiser", kind, values, reasons, listed=("weight_decay", "clip_gradient_norm"))


def _training_section(facts: _Facts, *, epochs: int, reads_given_tags: bool = False) -> _Section:
    size = facts.size
    values: dict[str, Any] = {"epochs": epochs, "patience": epochs, "batch_pieces": size.batch_pieces}
    values["masking"] = size.masking
    reasons = {"patience": "The learning rates fall to zero at the last epoch, so all epochs are run."}
    if reads_given_tags:
        values["given_tags"] = 0.4
        reasons["given_tags"] = "The model also learns to use tags that are in its input. 0 if it never has any."
    reason = f"{facts.n_sentences:,} sentences: {size.reason[0].lower()}{size.reason[1:]}"
    if not facts.n_sentences:
        reason = f"{size.reason} Run new-recipe with --train and --dev to choose by the size of your treebank."
    reason += " If dev LAS still rises at the end, add epochs; if it peaks early, lower the learning rates."
    listed = ("seed", "weight_averaging", "precision", "dev_every", "checkpoint_minutes")
    return _Section("training", get_type_hints(Recipe)["training"], values, reasons, listed, reason)


def _segmenter_section(request: RecipeRequest, facts: _Facts) -> _Section:
    kind = get_type_hints(Recipe)["segmenter"]
    has_segmenter = request.segmenter if request.segmenter is not None else facts.has_text
    if has_segmenter:
        reason = "Also train a segmenter, so that the model reads raw text."
        if facts.n_joined:
            reason += f" {facts.n_joined:,} tokens of the treebank are marked SpaceAfter=No."
    elif facts.is_ud:
        reason = "The model will parse words, not raw text. To train a segmenter as well, set train to always."
    else:
        reason = "A segmenter, for raw text, needs CoNLL-U files, which mark words that follow without a space."
    values = {"train": "always" if has_segmenter else "never"}
    is_open = request.segmenter is None and not facts.n_sentences  # auto decides when the files are known
    return _Section("segmenter", kind, values, {}, ("epochs", "batch_windows"), reason, not is_open)


def _card_section() -> _Section:
    reason = "For the model card. Language and treebank are read from file names such as en_ewt-ud-train.conllu."
    return _Section("card", CardSettings, {}, listed=("language", "treebank", "licence"), reason=reason)


def recipe_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML that `read_recipe` reads back, with all settings, including the defaults."""
    values = values_of(recipe)
    del values["decode"]["root_label"]  # comes from the treebank
    if recipe.teacher == TeacherSettings():
        del values["teacher"]  # there are no teachers
    return "\n".join(_toml_lines(values)) + "\n"


def _toml_lines(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the settings of a section, then the sections within it; values that are None are left out."""
    for key, value in values.items():
        if not isinstance(value, dict) and value is not None:
            yield f"{key} = {toml_value(value)}"
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from ("", f"[{prefix}{key}]", *_toml_lines(value, f"{prefix}{key}."))


def toml_value(value: object) -> str:
    """Return a string, number, truth value or list as TOML."""
    # JSON writes these as TOML does, except for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
