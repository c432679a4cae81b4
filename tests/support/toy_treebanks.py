"""Toy treebanks in the folders that a run of the paper looks for. Every sentence comes from a tiny seeded grammar.

    ud-treebanks-v2.3/UD_Arabic-PADT/ar_padt-ud-train.conllu   the thirteen treebanks, as the UD 2.3 archive unpacks
    ptb/train.conllx                                           Penn Treebank: CoNLL-X, Stanford labels, Penn tags
    ctb5.1/train.conllx                                        Chinese Penn Treebank: CoNLL-X, labels of Penn2Malt
    conll09-german/train.conll09                               CoNLL-2009: labels of TIGER

Each also has a dev and a test file. The words are random syllables in the script of the language.
"""

import random
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from treefine import Graph, Sentence
from treefine.treebank.conllu import convert, format_of, write_treebank

UD_FOLDER = "ud-treebanks-v2.3"


class Language(NamedTuple):
    """The syllables of invented words."""

    syllables: str  # separated by spaces
    full_stop: str = "."


CHINESE = Language("山 水 木 火 土 天 人 口 手 心 石 田 月 日 大 小", "。")
GERMAN = Language("bau tö ri scham keß lun mür na fei wol zu grä")
ENGLISH = Language("ba to ri sham kel lun mer na fee wol zu gra")
UD = {
    "UD_Arabic-PADT": ("ar_padt", Language("با تو ري سم كد لن مر نا شي فل قا وب")),
    "UD_Basque-BDT": ("eu_bdt", Language("ba tso ri txa ke lun zer na fe ol zu gra")),
    "UD_Chinese-GSD": ("zh_gsd", CHINESE),
    "UD_English-EWT": ("en_ewt", ENGLISH),
    "UD_Finnish-TDT": ("fi_tdt", Language("baa tö ri sää ke lun myy na fe vol yö kra")),
    "UD_Hebrew-HTB": ("he_htb", Language("בא תו רי שם כל לן מר נא פי וב זו גר")),
    "UD_Hindi-HDTB": ("hi_hdtb", Language("बा तो री शम के लु मे ना फी वो ज़ु गर", "।")),
    "UD_Italian-ISDT": ("it_isdt", Language("ba to ri scià che lu mè na fi vo zu gra")),
    "UD_Japanese-GSD": ("ja_gsd", Language("か た り し け ル メ ナ 山 川 木 月", "。")),
    "UD_Korean-GSD": ("ko_gsd", Language("바 토 리 샴 켈 룬 멜 나 피 울 주 그")),
    "UD_Russian-SynTagRus": ("ru_syntagrus", Language("ба то ри шам ке лун мер на фи вол жу гря")),
    "UD_Swedish-Talbanken": ("sv_talbanken", Language("bå tö ri skam ke lun mär na fe vol sju gra")),
    "UD_Turkish-IMST": ("tr_imst", Language("ba to rı şam ke lün mer na fi völ zu ğra")),
}
OTHERS = {"ptb": ("conllx", ENGLISH), "ctb5.1": ("conllx", CHINESE), "conll09-german": ("conll09", GERMAN)}
NAMES = (*UD, *OTHERS)  # the values that `toy_treebanks` accepts in `names`
# Tag and label of each word of a full sentence, and the places of the heads in it.
_SCHEMES = {
    "ud": "DET:det ADJ:amod NOUN:nsubj VERB:root NOUN:obj ADP:case NOUN:obl PUNCT:punct",
    "ptb": "DT:det JJ:amod NN:nsubj VBD:root NNS:dobj IN:prep NNP:pobj .:punct",
    "ctb5.1": "DT:NMOD JJ:NMOD NN:SUB VV:ROOT NN:OBJ P:VMOD NN:PMOD PU:P",
    "conll09-german": "ART:NK ADJA:NK NN:SB VVFIN:ROOT NN:OA APPR:MO NN:NK $.:PUNC",
}
_HEADS = (3, 3, 4, 0, 4, 7, 4, 4)
_OPTIONAL = ((1,), (2,), (5,), (6, 7))  # words that a sentence may lack


def toy_treebanks(folder: Path, *, n_train: int, n_dev: int, n_test: int, names: Collection[str] = NAMES) -> None:
    """Write the treebanks of these names with so many sentences each. The same call writes the same files."""
    for name in names:
        rng = random.Random(name)  # a string as seed does not depend on PYTHONHASHSEED
        code, language = UD[name] if name in UD else ("", OTHERS[name][1])
        place = folder / UD_FOLDER / name if name in UD else folder / name
        place.mkdir(parents=True)
        for part, size in {"train": n_train, "dev": n_dev, "test": n_test}.items():
            file = f"{code}-ud-{part}.conllu" if name in UD else f"{part}.{OTHERS[name][0]}"
            scheme = [entry.split(":") for entry in _SCHEMES["ud" if name in UD else name].split()]
            sentences = [_sentence(language, scheme, rng, is_full=number == 0) for number in range(size)]
            write_treebank([convert(each, format_of(file)) for each in sentences], place / file)


def _sentence(language: Language, scheme: list[list[str]], rng: random.Random, *, is_full: bool) -> Sentence:
    """Return a sentence. A full one has all labels, so dev and test have none that are unseen in training."""
    missing = {word for words in _OPTIONAL if not is_full and rng.random() < 0.4 for word in words}
    places = [place for place in range(1, len(_HEADS) + 1) if place not in missing]
    number = {place: word for word, place in enumerate(places, start=1)} | {0: 0}
    syllables = language.syllables.split()
    forms = ["".join(rng.sample(syllables, rng.choice([1, 2]))) for _ in places[1:]]
    tags, labels = zip(*[scheme[place - 1] for place in places], strict=True)
    words = Sentence.of_words([*forms, language.full_stop], upos=tags, xpos=tags)
    return words.with_graph(Graph.of_words([number[_HEADS[place - 1]] for place in places], labels))
