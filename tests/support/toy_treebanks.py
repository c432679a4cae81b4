"""Toy treebanks in the folders that a run of the paper looks for. Every sentence comes from a tiny seeded grammar.

    ud-treebanks-v2.3/UD_Arabic-PADT/ar_padt-ud-train.conllu   the thirteen treebanks, as the UD 2.3 archive unpacks;
                                                               each folder has LICENSE.txt and README.md
    ptb/train.conllx                                           Penn Treebank: CoNLL-X, Stanford labels, Penn tags
    ctb5.1/train.conllx                                        Chinese Penn Treebank: CoNLL-X, labels of Penn2Malt
    conll09-german/train.conll09                               CoNLL-2009: labels of TIGER, predicted tags in PPOS

Each also has a dev and a test file. The words are random syllables in the script of the language, so no sentence is
taken from a treebank.
"""

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

UD_FOLDER = "ud-treebanks-v2.3"
PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class Language:
    """The syllables of invented words, and how a sentence is written."""

    syllables: str  # separated by spaces
    full_stop: str = "."
    has_spaces: bool = True
    verb_last: bool = False
    has_multiword: bool = False  # an adposition and its noun are one token


ARABIC = Language("با تو ري سم كد لن مر نا شي فل قا وب", has_multiword=True)
CHINESE = Language("山 水 木 火 土 天 人 口 手 心 石 田 月 日 大 小", "。", has_spaces=False)
GERMAN = Language("bau tö ri scham keß lun mür na fei wol zu grä")
ENGLISH = Language("ba to ri sham kel lun mer na fee wol zu gra")
UD = {
    "UD_Arabic-PADT": ("ar_padt", ARABIC),
    "UD_Basque-BDT": ("eu_bdt", Language("ba tso ri txa ke lun zer na fe ol zu gra", verb_last=True)),
    "UD_Chinese-GSD": ("zh_gsd", CHINESE),
    "UD_English-EWT": ("en_ewt", ENGLISH),
    "UD_Finnish-TDT": ("fi_tdt", Language("baa tö ri sää ke lun myy na fe vol yö kra")),
    "UD_Hebrew-HTB": ("he_htb", Language("בא תו רי שם כל לן מר נא פי וב זו גר", has_multiword=True)),
    "UD_Hindi-HDTB": ("hi_hdtb", Language("बा तो री शम के लु मे ना फी वो ज़ु गर", "।", verb_last=True)),
    "UD_Italian-ISDT": ("it_isdt", Language("ba to ri scià che lu mè na fi vo zu gra", has_multiword=True)),
    "UD_Japanese-GSD": ("ja_gsd", Language("か た り し け ル メ ナ 山 川 木 月", "。", False, verb_last=True)),
    "UD_Korean-GSD": ("ko_gsd", Language("바 토 리 샴 켈 룬 멜 나 피 울 주 그", verb_last=True)),
    "UD_Russian-SynTagRus": ("ru_syntagrus", Language("ба то ри шам ке лун мер на фи вол жу гря")),
    "UD_Swedish-Talbanken": ("sv_talbanken", Language("bå tö ri skam ke lun mär na fe vol sju gra")),
    "UD_Turkish-IMST": ("tr_imst", Language("ba to rı şam ke lün mer na fi völ zu ğra", verb_last=True)),
}
OTHERS = {
    "ptb": ("conllx", ENGLISH),
    "ctb5.1": ("conllx", CHINESE),
    "conll09-german": ("conll09", GERMAN),
}
NAMES = (*UD, *OTHERS)  # the values that `toy_treebanks` accepts in `names`

# For each role of a word in the grammar: its tag and its label, by scheme.
_SCHEMES = {
    "ud": {
        "det": ("DET", "det"),
        "adj": ("ADJ", "amod"),
        "subj": ("NOUN", "nsubj"),
        "owner": ("PRON", "nmod:poss"),
        "adv": ("ADV", "advmod"),
        "verb": ("VERB", "root"),
        "obj": ("NOUN", "obj"),
        "adp": ("ADP", "case"),
        "obl": ("NOUN", "obl"),
        "stop": ("PUNCT", "punct"),
    },
    "ptb": {
        "det": ("DT", "det"),
        "adj": ("JJ", "amod"),
        "subj": ("NN", "nsubj"),
        "owner": ("PRP$", "poss"),
        "adv": ("RB", "advmod"),
        "verb": ("VBD", "root"),
        "obj": ("NNS", "dobj"),
        "adp": ("IN", "prep"),
        "obl": ("NNP", "pobj"),
        "stop": (".", "punct"),
    },
    "ctb5.1": {
        "det": ("DT", "NMOD"),
        "adj": ("JJ", "NMOD"),
        "subj": ("NN", "SUB"),
        "owner": ("NR", "NMOD"),
        "adv": ("AD", "VMOD"),
        "verb": ("VV", "ROOT"),
        "obj": ("NN", "OBJ"),
        "adp": ("P", "VMOD"),
        "obl": ("NN", "PMOD"),
        "stop": ("PU", "P"),
    },
    "conll09-german": {
        "det": ("ART", "NK"),
        "adj": ("ADJA", "NK"),
        "subj": ("NN", "SB"),
        "owner": ("PPOSAT", "AG"),
        "adv": ("ADV", "MO"),
        "verb": ("VVFIN", "ROOT"),
        "obj": ("NN", "OA"),
        "adp": ("APPR", "MO"),
        "obl": ("NN", "NK"),
        "stop": ("$.", "PUNC"),
    },
}
_HEADS = {"det": "subj", "adj": "subj", "owner": "obj", "adp": "obl", "verb": ""}  # every other role: the verb


@dataclass(frozen=True)
class Word:
    """A word of a toy sentence, with its role in the grammar."""

    form: str
    tag: str
    label: str
    head: int
    role: str


@dataclass
class Grammar:
    """Sentences of one language in one scheme. The same seed gives the same sentences."""

    language: Language
    scheme: str
    rng: random.Random
    lexicon: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        syllables = self.language.syllables.split()
        pairs = [first + second for first in syllables for second in syllables if first != second]
        self.rng.shuffle(pairs)
        sizes = {"noun": 14, "verb": 8, "adj": 6, "adv": 4, "owner": 3}
        self.lexicon = {kind: [pairs.pop() for _ in range(size)] for kind, size in sizes.items()}
        short = self.rng.sample(syllables, 6)  # frequent words are short
        self.lexicon |= {"det": short[:3], "adp": short[3:], "stop": [self.language.full_stop]}

    def sentence(self, *, is_full: bool) -> list[Word]:
        """Return the words of a sentence. A full one has every role, so it has every label."""

        def chosen(probability: float) -> bool:
            return self.rng.random() < probability or is_full

        det, adj, adv = chosen(0.5), chosen(0.5), chosen(0.4)
        owner, obj, obl = chosen(0.3), chosen(0.7), chosen(0.5)
        moved = adj and self.rng.random() < 0.3  # an adjective away from its noun: a non-projective tree
        before = ["det"] * det + ["adj"] * (adj and not moved) + ["subj"]
        after = ["owner"] * (owner and obj) + ["obj"] * obj + ["adp", "obl"] * obl
        verb = ["verb"] + ["adj"] * moved
        roles = before + ["adv"] * adv + ([*after, *verb] if self.language.verb_last else [*verb, *after]) + ["stop"]
        place = {role: number for number, role in enumerate(roles, start=1)} | {"": 0}
        heads = dict(_HEADS)
        if self.scheme != "ud":  # the schemes before UD attach a noun to its adposition
            heads |= {"adp": "verb", "obl": "adp"}
        nouns = ("subj", "obj", "obl")
        return [
            Word(
                self.rng.choice(self.lexicon["noun" if role in nouns else role]),
                *_SCHEMES[self.scheme][role],
                head=place[heads.get(role, "verb")],
                role=role,
            )
            for role in roles
        ]


def toy_treebanks(folder: Path, *, n_train: int, n_dev: int, n_test: int, names: Collection[str] = NAMES) -> None:
    """Write the treebanks of these names with so many sentences each. The same call writes the same files.

    The first sentence of each file has all labels, so dev and test have none that are unseen in training.
    """
    sizes = dict(zip(PARTS, (n_train, n_dev, n_test), strict=True))
    for name in names:
        rng = random.Random(name)  # a string as seed does not depend on PYTHONHASHSEED
        if name in UD:
            _write_ud(folder / UD_FOLDER / name, *UD[name], sizes, rng)
        else:
            _write_other(folder / name, name, sizes, rng)


def _write_ud(folder: Path, code: str, language: Language, sizes: dict[str, int], rng: random.Random) -> None:
    folder.mkdir(parents=True)
    (folder / "LICENSE.txt").write_text("Toy sentences of the tests of treefine, under the licence of treefine.\n")
    (folder / "README.md").write_text(f"# Summary\n\n{folder.name}: toy sentences of invented words.\n")
    grammar = Grammar(language, "ud", rng)
    for part, size in sizes.items():
        blocks = [
            _conllu(grammar.sentence(is_full=number == 1), language, f"{code}-{part}-{number}")
            for number in range(1, size + 1)
        ]
        (folder / f"{code}-ud-{part}.conllu").write_text("".join(blocks), encoding="utf-8")


def _conllu(words: list[Word], language: Language, sent_id: str) -> str:
    """Format a sentence in CoNLL-U, with # sent_id, # text, SpaceAfter=No and multiword tokens."""
    lines, text = [], ""
    for number, word in enumerate(words, start=1):
        starts_token = language.has_multiword and word.role == "adp"
        ends_token = language.has_multiword and word.role == "obl"
        token = word.form + (words[number].form if starts_token else "")
        last = number + starts_token  # the last word of the token; no space before the full stop
        has_space = language.has_spaces and last < len(words) - 1
        misc = "_" if has_space or last == len(words) else "SpaceAfter=No"
        if starts_token:
            lines.append(f"{number}-{last}\t{token}" + "\t_" * 7 + f"\t{misc}")
        if starts_token or ends_token:
            misc = "_"
        if not ends_token:
            text += token + " " * has_space
        cells = [str(number), word.form, word.form, word.tag, "_", "_", str(word.head), word.label, "_", misc]
        lines.append("\t".join(cells))
    return "\n".join([f"# sent_id = {sent_id}", f"# text = {text}", *lines]) + "\n\n"


def _write_other(folder: Path, name: str, sizes: dict[str, int], rng: random.Random) -> None:
    folder.mkdir(parents=True)
    suffix, language = OTHERS[name]
    grammar = Grammar(language, name, rng)
    for part, size in sizes.items():
        sentences = [grammar.sentence(is_full=number == 0) for number in range(size)]
        blocks = [_conllx(each) if suffix == "conllx" else _conll09(each, rng) for each in sentences]
        (folder / f"{part}.{suffix}").write_text("".join(blocks), encoding="utf-8")


def _conllx(words: list[Word]) -> str:
    """Format ten columns: ID FORM LEMMA CPOSTAG POSTAG FEATS HEAD DEPREL PHEAD PDEPREL."""
    rows = [
        [str(number), word.form, "_", word.tag, word.tag, "_", str(word.head), word.label, "_", "_"]
        for number, word in enumerate(words, start=1)
    ]
    return "\n".join(map("\t".join, rows)) + "\n\n"


def _conll09(words: list[Word], rng: random.Random) -> str:
    """Format 14 columns, each gold column beside its prediction, and one more for the verb's arguments.

    ID FORM LEMMA PLEMMA POS PPOS FEAT PFEAT HEAD PHEAD DEPREL PDEPREL FILLPRED PRED APRED. Some predicted tags are
    wrong.
    """
    rows = []
    for number, word in enumerate(words, start=1):
        predicted = "NE" if word.tag == "NN" and rng.random() < 0.2 else word.tag
        predicate = ["Y", f"{word.form}.1"] if word.role == "verb" else ["_", "_"]
        argument = {"subj": "A0", "obj": "A1"}.get(word.role, "_")
        head, form = str(word.head), word.form
        cells = [form, form, form, word.tag, predicted, "_", "_", head, head, word.label, word.label]
        rows.append([str(number), *cells, *predicate, argument])
    return "\n".join(map("\t".join, rows)) + "\n\n"
