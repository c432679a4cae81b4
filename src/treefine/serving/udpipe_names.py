"""Which of our models a client of UDPipe means by a name such as english, en, eng or english-ewt-ud-2.5-191206."""

from __future__ import annotations

from collections.abc import Sequence

# The code that treebanks of Universal Dependencies have, that of ISO 639-3, and the name in UDPipe's models.
_LANGUAGES = """
af afr afrikaans
akk akk akkadian
ar ara arabic
be bel belarusian
bg bul bulgarian
bm bam bambara
br bre breton
bxr bxr buryat
ca cat catalan
cop cop coptic
cs ces czech
cu chu old_church_slavonic
cy cym welsh
da dan danish
de deu german
el ell greek
en eng english
es spa spanish
et est estonian
eu eus basque
fa fas persian
fi fin finnish
fo fao faroese
fr fra french
fro fro old_french
ga gle irish
gd gla scottish_gaelic
gl glg galician
got got gothic
grc grc ancient_greek
gv glv manx
hbo hbo ancient_hebrew
he heb hebrew
hi hin hindi
hr hrv croatian
hsb hsb upper_sorbian
hu hun hungarian
hy hye armenian
hyw hyw western_armenian
id ind indonesian
is isl icelandic
it ita italian
ja jpn japanese
ka kat georgian
kk kaz kazakh
kmr kmr kurmanji
ko kor korean
ky kir kyrgyz
la lat latin
lt lit lithuanian
lv lav latvian
lzh lzh classical_chinese
mk mkd macedonian
mr mar marathi
mt mlt maltese
nl nld dutch
no nor norwegian
orv orv old_east_slavic
pcm pcm naija
pl pol polish
pt por portuguese
ro ron romanian
ru rus russian
sa san sanskrit
sk slk slovak
sl slv slovenian
sme sme north_sami
sq sqi albanian
sr srp serbian
sv swe swedish
ta tam tamil
te tel telugu
th tha thai
tl tgl tagalog
tr tur turkish
tt tat tatar
ug uig uyghur
uk ukr ukrainian
ur urd urdu
uz uzb uzbek
vi vie vietnamese
wo wol wolof
xcl xcl classical_armenian
yo yor yoruba
zh zho chinese
"""
_CODES = {name: line.split()[0] for line in _LANGUAGES.split("\n") for name in line.split()}


def model_meant(asked: str, names: Sequence[str]) -> str:
    """The one of these models that is meant; what was asked for itself, if none is.

    A name is a language, then perhaps a treebank and a version. As with UDPipe the part of a name before a hyphen
    stands for the whole, and the first model wins. Languages have several names here, versions do not count, and a
    name without a treebank fits those with one: nothing else of theirs is loaded here.

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
    """The code of the language, and the treebank, if the name tells one.

    >>> _parts("ancient_greek-perseus-ud-2.5-191206"), _parts("en_ewt-ud-2.15-241121"), _parts("czech-ud-2.0-170801")
    (('grc', 'perseus'), ('en', 'ewt'), ('cs', ''))
    """
    language, _, rest = name.lower().partition("-")
    treebank = rest.partition("-")[0]
    if language not in _CODES:
        language, _, found = language.partition("_")
        treebank = found or treebank
    return _CODES.get(language, language), "" if treebank == "ud" else treebank
