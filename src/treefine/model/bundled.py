"""The bundled parsers: their names, folders, languages and descriptions. Listing them does not import torch.

The English parser comes with the package. Others come with extra packages, which name their folders as entry points.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from treefine.config import LAYOUT, read_json, read_settings
from treefine.errors import ModelError, TreefineError

BUNDLED = Path(__file__).parent.parent / "models"
ABOUT = "about.json"  # in the folder of a bundled model
ENTRY_POINTS = "treefine.models"  # the group in which an extra package names its models
_TRAINED, _RECIPE = "model", "recipe.json"  # in the output folder of a training; see `FolderNames` in training

EXTRA_MODEL, EXTRA_PACKAGE = "multi", "treefine-multi"
_TAG = re.compile(r"([a-z]{2,3})(?:-(?:arab|cyrl|hans|hant|latn))?(?:-(?:[a-z]{2}|[0-9]{3}))?")  # such as zh-Hans-CN
_ALIASES = {"no": "nb", "norwegian": "nb", "chinese": "zh", "farsi": "fa"}


@dataclass(frozen=True)
class LanguageAbout:
    """The description of one treebank of a parser of several languages."""

    name: str  # of the language, in English
    language: str  # its code
    treebank: str  # such as "UD Swedish Talbanken 2.3"
    licence: str
    words: int  # in its training set
    is_main: bool  # whether the code of the language means this treebank
    scores: dict[str, float] = field(default_factory=dict)  # on its test set, in %
    note: str = ""


@dataclass(frozen=True)
class About:
    """The description of a bundled parser that `treefine models` shows."""

    language: str
    treebank: str
    licence: str
    encoder: str
    scores: dict[str, float] = field(default_factory=dict)  # on the treebank's test set, in %
    languages: dict[str, LanguageAbout] = field(default_factory=dict)  # of a parser of several, by treebank code


def bundled_models() -> dict[str, Path]:
    """Return the folders of the bundled parsers by name: those of this package, then those of extra packages.

    Warn about an extra package that cannot be used.
    """
    from importlib.metadata import entry_points  # takes some milliseconds

    found = {folder.name: folder for folder in sorted(BUNDLED.glob("*")) if (folder / LAYOUT.config).is_file()}
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: each.name):
        try:
            folder = Path(entry.load())
            if not (folder / LAYOUT.config).is_file():
                raise ModelError(f"{folder} is not the folder of a model.")
            found.setdefault(entry.name, folder)
        except Exception as error:  # the package of someone else may fail in any way
            reason = f"{type(error).__name__}: {error}".split("\n")[0]
            warnings.warn(f"The model {entry.name} of {entry.value} cannot be used ({reason}).", stacklevel=2)
    return found


def about(folder: Path) -> About:
    """Read the description of a bundled parser."""
    path = folder / ABOUT
    return read_settings(About, read_json(path), path=str(path))


def find_model(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a parser: a bundled one by name, else a local folder, else OWNER/NAME from the hub.

    A bundled name always means the bundled parser; `./en` is the folder of that name. A local folder can also be the
    output folder of a training.
    """
    known = bundled_models()
    asked = os.fspath(name)
    if asked in known:
        return known[asked]
    if "/" not in asked and "\\" not in asked and not Path(name).exists():
        bundled = f"Choose a bundled one ({', '.join(known)}), or give" if known else "No model is bundled; give"
        hint = f"{bundled} the path of a folder, or OWNER/NAME on the hub."
        raise ModelError(f"There is no model {asked!r}.", hint=" ".join([hint, *_places_of(asked)]))
    if Path(name).name == _TRAINED and not Path(name).exists():
        trained_model(Path(name).parent)  # raises an error if that training has not finished
    from treefine.model.folder import fetch  # imports torch

    return trained_model(fetch(name))


def trained_model(folder: Path) -> Path:
    """Return the model folder in the output folder of a training; return any other folder unchanged."""
    if (folder / LAYOUT.config).exists():
        return folder
    if (folder / _TRAINED / LAYOUT.config).is_file():
        return folder / _TRAINED
    if (folder / _RECIPE).is_file():
        hint = "Wait until it ends, or continue it with treefine train --resume."
        raise ModelError("This training has not finished, so there is no model yet.", hint=hint, path=str(folder))
    return folder


def _languages(folder: Path) -> dict[str, tuple[str, str]]:
    """Map the codes of the languages of a parser, then of its treebanks, to its own code and the English name."""
    codes = [str(code) for code in read_json(folder / LAYOUT.config).get("languages") or ()]
    described = about(folder) if (folder / ABOUT).is_file() else None
    if described is None:
        return {code: (code, code) for code in codes}
    names = {each.language: (each.language, each.name) for each in described.languages.values()}
    names |= {treebank: (treebank, each.name) for treebank, each in described.languages.items()}
    if len(codes) == 1 and not names:
        named = re.search(r"(\S+) [\d.]+$", described.treebank)  # EWT in "UD English EWT 2.16"
        names = dict.fromkeys(
            [*codes, *([f"{codes[0]}_{named[1].lower()}"] if named else [])], (codes[0], described.language)
        )
    return names


def usual_code(language: str) -> str:
    """Return a code or a name as the models know it: in lower case, without script and region, Norwegian as Bokmål.

    >>> usual_code("sv-SE"), usual_code("no"), usual_code("Scottish Gaelic"), usual_code("no-such-model")
    ('sv', 'nb', 'scottish gaelic', 'no-such-model')
    """
    asked = language.strip().lower()
    found = _TAG.fullmatch(asked)
    code = found[1] if found else asked
    return _ALIASES.get(code, code)


def model_for(language: str) -> tuple[str, str] | None:
    """Return the bundled parser for a language, and the code of the language for its option `language`.

    The language is a code, an English name, or the code of a treebank. Return None if no bundled parser knows it. Of
    several parsers, the one with the fewest languages is returned.

    >>> model_for("English"), model_for("en_ewt"), model_for("Klingon")
    (('en', 'en'), ('en', 'en'), None)
    """
    asked, fitting = usual_code(language), list[tuple[int, str, str]]()
    for name, folder in bundled_models().items():
        with suppress(TreefineError):  # the error of a damaged model is reported where it is used
            languages = _languages(folder)
            codes = [code for key, (code, english) in languages.items() if asked in (key, english.lower())]
            fitting += [(len(set(languages.values())), name, code) for code in codes[:1]]
    return min(fitting)[1:] if fitting else None


def bundled_languages() -> dict[str, str]:
    """Return the codes and English names of the languages of all bundled parsers."""
    found: dict[str, str] = {}
    for folder in bundled_models().values():
        with suppress(TreefineError):
            found |= {code: name for code, name in _languages(folder).values() if "_" not in code}
    return found


def unknown_language(asked: str, known: Mapping[str, str]) -> ModelError:
    """Return the error for a language that is not known; `known` maps the codes of the others to English names.

    >>> print(unknown_language("swedisch", {"da": "Danish", "sv": "Swedish"}))
    There is no language 'swedisch'. Did you mean sv (Swedish)? Choose one of da, sv.
    """
    language, choice = asked.strip().lower().partition("_")[0], f"Choose one of {', '.join(known)}."
    names = {code: code for code in known} | {name.lower(): code for code, name in known.items()}
    begun = [name for name in names if len(language) > 1 and name.startswith(language)]
    near = [
        f"Did you mean {names[each]} ({known[names[each]]})?" for each in begun or get_close_matches(language, names, 1)
    ]
    hints = near[:1] or _places_of(asked)
    hint = " ".join([*hints, choice if known else "This model names no language."])
    return ModelError(f"There is no language {asked[:40]!r}.", hint=hint)


def _places_of(language: str) -> list[str]:
    """Say which bundled parser knows a language, or which package has more of them."""
    if (found := model_for(language)) is not None:
        return [f"The model {found[0]} knows this language."]
    return [] if EXTRA_MODEL in bundled_models() else [f"The package {EXTRA_PACKAGE} has a model of more languages."]
