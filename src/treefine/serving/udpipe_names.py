"""Find the model that a client of UDPipe means by a name such as english, en, eng or english-ewt-ud-2.5-191206."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files


@cache
def _language_codes() -> Mapping[str, str]:
    """Return the code that Universal Dependencies uses, by that code, the code of ISO 639-3, and UDPipe's name."""
    rows = files("treefine.serving").joinpath("languages.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {name: names[0] for names in (row.split("\t") for row in rows) for name in names}


def model_meant(asked: str, names: Sequence[str]) -> str:
    """Return the one of these models that is meant, or `asked` itself if none fits.

    A name is a language, then perhaps a treebank and a version. As with UDPipe, the part of a name before a hyphen
    stands for the whole, and the first model wins. A language may have any of its names, versions are ignored, and a
    name without a treebank fits a model with one.

    >>> model_meant("english-ewt-ud-2.5-191206", ["tr_imst", "en"])
    'en'
    >>> model_meant("tur", ["tr_boun", "tr_imst"]), model_meant("turkish-imst", ["tr_boun", "tr_imst"])
    ('tr_boun', 'tr_imst')
    >>> model_meant("turkish-penn", ["tr_boun", "tr_imst"]), model_meant("", ["en"])
    ('turkish-penn', '')
    >>> model_meant("en", ["en-gum", "en"]), model_meant("english-gum", ["en", "en_gum"])
    ('en', 'en_gum')
    """
    if not asked or asked in names:
        return asked
    for name in names:
        if name.startswith(f"{asked}-"):
            return name
    language, treebank = _parts(asked)
    same = [name for name in names if _parts(name)[0] == language]
    fitting = [name for name in same if not treebank or _parts(name)[1] in ("", treebank)]
    return min(fitting, key=lambda name: _parts(name)[1] != treebank, default=asked)


def _parts(name: str) -> tuple[str, str]:
    """Return the code of the language, and the treebank if the name has one.

    >>> _parts("ancient_greek-perseus-ud-2.5-191206"), _parts("en_ewt-ud-2.15-241121"), _parts("czech-ud-2.0-170801")
    (('grc', 'perseus'), ('en', 'ewt'), ('cs', ''))
    """
    language, _, rest = name.lower().partition("-")
    treebank = rest.partition("-")[0]
    codes = _language_codes()
    if language not in codes:
        language, _, found = language.partition("_")
        treebank = found or treebank
    return codes.get(language, language), "" if treebank == "ud" else treebank
