"""The bundled parsers: their names, folders, languages and descriptions. Listing them does not import torch.

The English parser comes with the package. Others come with extra packages, which name their folders as entry points.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
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

# The languages of the model in treefine-multi, known without that package so that errors can name it.
EXTRA_MODEL, EXTRA_PACKAGE = "multi", "treefine-multi"
_TAG = re.compile(r"([a-z]{2,3})(?:-(?:arab|cyrl|hans|hant|latn))?(?:-(?:[a-z]{2}|[0-9]{3}))?")  # such as zh-Hans-CN
_ALIASES = {"no": "nb", "norwegian": "nb", "chinese": "zh", "farsi": "fa"}
_NAMES_OF_MULTI = """
af Afrikaans, cy Welsh, da Danish, de German, en English, es Spanish, fa Persian, fi Finnish, fo Faroese, fr French,
ga Irish, gd Scottish Gaelic, hr Croatian, hy Armenian, id Indonesian, is Icelandic, it Italian, ja Japanese, ko Korean,
lt Lithuanian, lv Latvian, mt Maltese, nb Norwegian Bokmål, nn Norwegian Nynorsk, pt Portuguese, ro Romanian,
ru Russian, sl Slovenian, sv Swedish, th Thai, tr Turkish, ug Uyghur, uk Ukrainian, vi Vietnamese, wo Wolof, zh Chinese
"""
LANGUAGES_OF_MULTI = dict(each.split(maxsplit=1) for each in _NAMES_OF_MULTI.strip().split(","))


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
    """Return the folders of the bundled parsers by name: those of this package, then those of extra packages."""
    own = {folder.name: folder for folder in sorted(BUNDLED.glob("*")) if (folder / LAYOUT.config).is_file()}
    return own | {name: folder for name, folder in extra_models() if name not in own}


def extra_models() -> Iterator[tuple[str, Path]]:
    """Yield the names and folders that installed packages offer; warn about a package that cannot be used."""
    from importlib.metadata import entry_points  # takes some milliseconds

    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: each.name):
        try:
            folder = Path(entry.load())
            if not (folder / LAYOUT.config).is_file():
                raise ModelError(f"{folder} is not the folder of a model.")
        except Exception as error:  # the package of someone else may fail in any way
            reason = f"{type(error).__name__}: {error}".split("\n")[0]
            warnings.warn(f"The model {entry.name} of {entry.value} cannot be used ({reason}).", stacklevel=3)
            continue
        yield entry.name, folder


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
        place = f"It is in the package {EXTRA_PACKAGE}." if asked == EXTRA_MODEL else _where(asked)[1]
        hint = f"{bundled} the path of a folder, or OWNER/NAME on the hub. {place}"
        raise ModelError(f"There is no model {asked!r}.", hint=hint.rstrip())
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
    """Map the code and the English name of each language of a parser, and each treebank, to its code there and name."""
    config = read_json(folder / LAYOUT.config)
    codes = [str(code) for code in config.get("languages") or ()]
    languages = {code: (code, LANGUAGES_OF_MULTI.get(code, code)) for code in codes}
    described = about(folder) if (folder / ABOUT).is_file() else None
    if described is None:
        return languages
    for treebank, each in described.languages.items():
        languages |= dict.fromkeys((each.language, each.name.lower()), (each.language, each.name))
        languages[treebank] = (treebank, each.name)
    if len(codes) == 1 and not described.languages:
        named = re.search(r"(\S+) [\d.]+$", described.treebank)  # EWT in "UD English EWT 2.16"
        keys = [codes[0], described.language.lower(), *([f"{codes[0]}_{named[1].lower()}"] if named else [])]
        languages |= dict.fromkeys(keys, (codes[0], described.language))
    return languages


def usual_code(language: str) -> str:
    """Return a code or a name as the models know it: in lower case, without script and region, Norwegian as Bokmål.

    >>> usual_code("sv-SE"), usual_code("no"), usual_code("Scottish Gaelic"), usual_code("no-such-model")
    ('sv', 'nb', 'scottish gaelic', 'no-such-model')
    """
    asked = language.strip().lower()
    found = _TAG.fullmatch(asked)
    code = found[1] if found else asked
    return _ALIASES.get(code, code)


def _place_of(language: str) -> tuple[str, str, str] | None:
    """Return the bundled parser with the fewest languages that knows one, and the language's code there and name."""
    asked, fitting = usual_code(language), []
    for name, folder in bundled_models().items():
        with suppress(TreefineError):  # the error of a damaged model is reported where it is used
            languages = _languages(folder)
            if asked in languages:
                fitting.append((len({code for code, _ in languages.values()}), (name, *languages[asked])))
    return min(fitting, key=lambda each: each[0])[1] if fitting else None


def model_for(language: str) -> tuple[str, str] | None:
    """Return the bundled parser for a language, and the code of the language for its option `language`.

    The language is a code, an English name, or the code of a treebank. Return None if no bundled parser knows it. Of
    several parsers, the one with the fewest languages is returned.

    >>> model_for("English"), model_for("en_ewt"), model_for("Klingon")
    (('en', 'en'), ('en', 'en'), None)
    """
    place = _place_of(language)
    return None if place is None else place[:2]


def unknown_language(asked: str, known: Mapping[str, str], *, model: str = "") -> ModelError:
    """Return the error for a language that a model does not know; `known` maps its codes to English names.

    >>> print(unknown_language("swedisch", {"da": "Danish", "sv": "Swedish"}, model="multi"))
    There is no language 'swedisch'. Did you mean sv (Swedish)? The model multi knows da and sv.
    >>> print(unknown_language("English", {"da": "Danish", "sv": "Swedish"}))
    This model does not know English. English is in the model en. The model knows da and sv.
    """
    codes = " and ".join(filter(None, [", ".join([*known][:-1]), *[*known][-1:]]))
    knows = f"The model{f' {model}' if model else ''} knows {codes or 'no language by name'}."
    name, place = _where(asked)
    if place and asked.strip().lower().partition("_")[0] not in known:
        message = f"{f'The model {model}' if model else 'This model'} does not know {name}."
        return ModelError(message, hint=f"{place} {knows}")
    near = _nearest(asked, known)
    hint = f"Did you mean {near} ({known[near]})? {knows}" if near else knows
    return ModelError(f"There is no language {asked[:40]!r}.", hint=hint)


def _where(asked: str) -> tuple[str, str]:
    """Return the English name of a language and a sentence that says in which model it is; both empty if in none."""
    place = _place_of(asked)
    if place is not None:
        return place[2], f"{place[2]} is in the model {place[0]}."
    language = asked.strip().lower().partition("_")[0]  # of a treebank
    names = (name for code, name in LANGUAGES_OF_MULTI.items() if language in (code, name.lower()))
    name = "" if EXTRA_MODEL in bundled_models() else next(names, "")
    return name, f"{name} is in the model {EXTRA_MODEL}: install the package {EXTRA_PACKAGE}." if name else ""


def _nearest(asked: str, known: Mapping[str, str]) -> str:
    """Return the code of the language whose code or English name is most similar; empty if none is.

    >>> _nearest("sw", {"sl": "Slovenian", "sv": "Swedish"}), _nearest("Slovenia", {"sl": "Slovenian"})
    ('sv', 'sl')
    """
    language = asked.strip().lower().partition("_")[0]
    names = {name.lower(): code for code, name in known.items()} | {code: code for code in known}
    begun = [name for name in names if len(language) > 1 and name.startswith(language)]
    close = [language] if language in names else begun or get_close_matches(language, names, 1)
    return names[close[0]] if close else ""
