"""The names that a model knows: labels, tags, features, lemma scripts and treebanks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

import numpy as np
from jaxtyping import Int

from treefine.config import COLUMNS, Column, TagSettings
from treefine.errors import TreebankError
from treefine.treebank.graph import Arcs
from treefine.treebank.lemmas import SCRIPT_OF_FORM, case_of, learned_rules, lemma_of, script_by_rule, script_of
from treefine.treebank.schemes import read_as
from treefine.treebank.sentence import BLANK, Sentence

UNSEEN = -1  # the id of a label that the model has no name for
NO_HEAD = -1  # the head of ROOT, of padding, and of a word whose head is not given
N_CASES = 5  # see `case_of`
FEWEST_LEMMAS = 2  # occurrences of a lemma script that is worth learning
_MOST_RULED = 1 << 16  # words whose scripts are remembered
_NAMES = ("labels", "upos", "xpos", "feats", "lemma", "treebanks")


@dataclass(frozen=True)
class Vocabulary:
    """The names a model knows, in the order of their ids.

    >>> vocabulary = Vocabulary(labels=("nsubj", "root"), upos=("NOUN",))
    >>> vocabulary.label_ids(["root", "nsubj:pass", "foo"]), vocabulary.tag_ids("upos", ["NOUN", "X"])
    ([1, 0, -1], [1, 0])
    """

    labels: tuple[str, ...]
    upos: tuple[str, ...] = ()
    xpos: tuple[str, ...] = ()
    feats: tuple[str, ...] = ()  # whole values of FEATS, with "_" for a word without features
    lemma: tuple[str, ...] = ()  # lemma scripts, see `treefine.treebank.lemmas`
    lemma_rules: tuple[str, ...] = ()  # as `learned_rules` writes them
    treebanks: tuple[str, ...] = ()  # codes of the treebanks that a model of several tells apart, such as sv_talbanken
    blank: tuple[str, ...] = ()  # columns that one of these treebanks lacks, such as "mt_mudt feats"

    @classmethod
    def of_treebank(
        cls,
        sentences: Iterable[Sentence],
        *,
        columns: Sequence[Column] = COLUMNS,
        given: Sequence[Column] = (),
        fewest: int = 1,
    ) -> Vocabulary:
        """Return the labels, tags and features of a treebank, and its frequent lemma scripts.

        Features and lemma scripts that occur less than `fewest` times are left out, and lemma rules that occur once if
        `fewest` is above 1. `columns` are those that the model predicts: they decide which tags the lemma rules depend
        on. There are no rules for tags that are `given`, not predicted. If the sentences name their treebanks, the
        rules are those of each language.
        """
        counted: dict[str, Counter[str]] = {name: Counter() for name in _NAMES}
        n_filled: Counter[tuple[str, Column]] = Counter()
        tagged: Counter[tuple[str, str, str]] = Counter()  # the form, tag and lemma script of each word
        for sentence in sentences:
            for name in ("labels", "upos", "xpos", "feats"):
                counted[name].update(getattr(sentence, name))
            scripts = tags_in(sentence, "lemma")
            counted["lemma"].update(filter(None, scripts))
            if sentence.treebank:
                counted["treebanks"][sentence.treebank] += len(sentence)
                for column in ("feats", "lemma"):
                    n_filled[sentence.treebank, column] += sum(map(BLANK.__ne__, getattr(sentence, column)))
            tags = [rule_tag(tag, sentence.treebank) for tag in getattr(sentence, lemma_tag(columns))]
            tagged.update(each for each in zip(sentence.forms, tags, scripts, strict=True) if each[2])
        for name, least in (("lemma", max(fewest, FEWEST_LEMMAS)), ("feats", fewest)):
            counted[name] = Counter({value: n for value, n in counted[name].items() if n >= least})
        for name in ("labels", "upos", "xpos"):
            counted[name].pop(BLANK, None)
        if len(counted["feats"]) == 1:  # the column is blank
            counted["feats"].pop(BLANK, None)
        if not counted["labels"]:
            hint = "Use a treebank with a filled DEPREL column."
            raise TreebankError("The treebank has no labels to learn.", hint=hint)
        names = {name: tuple(sorted(counter)) for name, counter in counted.items()}
        has_rules = {"lemma", lemma_tag(columns)} <= set(columns).difference(given)
        rules = learned_rules(tagged, fewest=min(fewest, FEWEST_LEMMAS)) if has_rules else ()
        # A treebank lacks a column if it has no features at all, or lemmas of less than half of the words.
        fewest_filled = {"feats": 0, "lemma": 0.5}
        lacking = [key for key, n in n_filled.items() if n <= fewest_filled[key[1]] * counted["treebanks"][key[0]]]
        return cls(**names, lemma_rules=rules, blank=tuple(map(" ".join, sorted(lacking))))

    def __post_init__(self) -> None:
        if not self.labels:
            raise ValueError("there is no label")
        for name in _NAMES:
            names = getattr(self, name)
            if len(set(names)) < len(names):
                raise ValueError(f"a name occurs twice in {name}")

    @cached_property
    def _ids(self) -> dict[str, dict[str, int]]:
        return {name: {each: number for number, each in enumerate(getattr(self, name))} for name in _NAMES}

    def label_ids(self, labels: Sequence[str]) -> list[int]:
        """Return the id of each label: that of the known label that `read_as` finds for it, or UNSEEN."""
        ids = self._ids["labels"]
        unknown = set(labels).difference(ids, [BLANK])  # not cached: a server may receive any number of them
        if unknown:
            ids = ids | {label: ids.get(read_as(label, ids), UNSEEN) for label in unknown}
        return [ids.get(label, UNSEEN) for label in labels]

    def label_id(self, label: str) -> int | None:
        """Return the id of exactly this label, or None if the model has no such label."""
        return self._ids["labels"].get(label)

    def tag_ids(self, column: Column | Literal["treebanks"], tags: Sequence[str]) -> list[int]:
        """Return the id of each tag or treebank, counted from 1; 0 for a missing or unknown tag."""
        ids = self._ids[column]
        return [ids.get(tag, -1) + 1 for tag in tags]

    @cached_property
    def script_of_rule(self) -> dict[str, str]:
        """The scripts of the lemma rules."""
        return {key: script for key, _, script in (line.rpartition("\t") for line in self.lemma_rules)}

    @cached_property
    def _ruled(self) -> dict[tuple[str, str], str | None]:
        return {}

    def script_by_rule(self, form: str, tag: str) -> str | None:
        """Return the lemma script of a word by a rule for its tag, or None if no rule fits. Frequent words repeat."""
        known = self._ruled
        if (form, tag) in known:
            return known[form, tag]
        if len(known) > _MOST_RULED:
            known = self.__dict__["_ruled"] = {}  # a new one, because other threads may read the old one
        known[form, tag] = script = script_by_rule(self.script_of_rule, form, tag)
        return script


def language_of(treebank: str) -> str:
    """Return the language of a treebank by its code.

    >>> language_of("sv_talbanken"), language_of("")
    ('sv', '')
    """
    return treebank.partition("_")[0]


def rule_tag(tag: str, treebank: str) -> str:
    """Return a tag as lemma rules name it: with the language, if the treebank is known.

    >>> rule_tag("NOUN", "sv_talbanken"), rule_tag("NOUN", "")
    ('sv NOUN', 'NOUN')
    """
    return f"{language_of(treebank)} {tag}" if treebank else tag


def flat_arcs(
    arcs: Sequence[Arcs], vocabulary: Vocabulary
) -> tuple[Int[np.ndarray, " word"], Int[np.ndarray, " word"]]:
    """Return the head and the label id of each word, or NO_HEAD and UNSEEN if it has none.

    >>> flat_arcs([Arcs((2, 0), ("det", "root")), Arcs((None,), ("root",))], Vocabulary(labels=("root",)))
    (array([ 2,  0, -1], dtype=int32), array([-1,  0, -1], dtype=int32))
    """
    heads = np.array([NO_HEAD if head is None else head for each in arcs for head in each.heads], dtype=np.int32)
    labels = np.array(vocabulary.label_ids(list(chain.from_iterable(each.labels for each in arcs))), dtype=np.int32)
    labels[heads == NO_HEAD] = UNSEEN
    return heads, labels


def flat_tags(
    sentences: Sequence[Sentence], vocabulary: Vocabulary, columns: Sequence[Column]
) -> Int[np.ndarray, "word column"]:
    """Return the tag ids of the words, with one column per tag column; 0 for a word without a tag.

    A word without features has the features "_" if another word of its sentence has some.
    """
    ids = np.zeros((sum(map(len, sentences)), len(columns)), np.int32)
    for place, column in enumerate(columns):
        ids[:, place] = vocabulary.tag_ids(column, [tag for each in sentences for tag in tags_in(each, column)])
    return ids


def tags_in(sentence: Sentence, column: Column) -> Sequence[str]:
    """Return the values of a column as a model predicts them: scripts for lemmas, and "" for a missing value."""
    values: Sequence[str] = getattr(sentence, column)
    if column == "lemma":
        pairs = zip(sentence.forms, values, strict=True)
        return [script_of(form, lemma) if lemma != BLANK else "" for form, lemma in pairs]
    if column == "feats" and set(values) != {BLANK}:
        return values
    return ["" if value == BLANK else value for value in values]


def tag_names(
    vocabulary: Vocabulary, columns: Sequence[Column], ids: Sequence[Sequence[int]], sentence: Sentence
) -> list[list[str]]:
    """Return the tags of the words of a sentence, by column, from their ids, which count from 0; -1 is no tag.

    A lemma is made from its form: by a rule for its tag if there is one, else by the script that the model chose.
    """
    found = []
    for column, numbers in zip(columns, ids, strict=True):
        tags, is_blank = getattr(vocabulary, column), f"{sentence.treebank} {column}" in vocabulary.blank
        found.append([BLANK if is_blank or number < 0 else tags[number] for number in numbers])
    if "lemma" in columns and f"{sentence.treebank} lemma" not in vocabulary.blank:
        place, rules = columns.index("lemma"), ruled_scripts(vocabulary, columns, found, sentence)
        chosen = zip(sentence.forms, rules, found[place], strict=True)
        found[place] = [lemma_of(form, rule or script) for form, rule, script in chosen]
    return found


def lemma_tag(columns: Iterable[Column]) -> Column:
    """Return the column of tags that lemma rules depend on: XPOS tells more about inflection than UPOS."""
    return "xpos" if "xpos" in columns else "upos"


def ruled_scripts(
    vocabulary: Vocabulary, columns: Sequence[Column], tags: Sequence[Sequence[str]], sentence: Sentence
) -> list[str | None]:
    """Return the lemma script of each word by a rule for its tag, or None if no rule fits.

    The lemma of a letter in brackets, as in `(b)`, is the letter.
    """
    if "lemma" not in columns or (column := lemma_tag(columns)) not in columns:
        return [None] * len(sentence)
    named = tags[columns.index(column)]
    if vocabulary.treebanks:
        named = [rule_tag(tag, sentence.treebank) for tag in named]
    forms = sentence.forms
    return [
        SCRIPT_OF_FORM if after == ")" and len(form) == 1 and form.isalpha() else vocabulary.script_by_rule(form, tag)
        for form, after, tag in zip(forms, (*forms[1:], ""), named, strict=True)
    ]


def inputs_of(
    sentences: Sequence[Sentence], vocabulary: Vocabulary, tags: TagSettings, *, read: Collection[Column]
) -> Int[np.ndarray, "word column"] | None:
    """Return what a model reads of the words besides their pieces, or None if that is nothing.

    These are their own tags in the columns to `read`, the case of their letters, and the number of their treebank if
    the model tells treebanks apart. Other columns hold 0.
    """
    if not read and not tags.case and not vocabulary.treebanks:
        return None
    columns = tags.columns if tags.source != "none" else ()
    forms = list(chain.from_iterable(each.forms for each in sentences))
    own = np.zeros((len(forms), len(columns)), np.int32)
    places = [place for place, column in enumerate(columns) if column in read]
    own[:, places] = flat_tags(sentences, vocabulary, [columns[place] for place in places])
    found = [own]
    if tags.case:
        found.append(np.array(list(map(case_of, forms)), np.int32).reshape(-1, 1))
    if vocabulary.treebanks:
        ids = np.array(vocabulary.tag_ids("treebanks", [each.treebank for each in sentences]), np.int32)
        found.append(np.repeat(ids, list(map(len, sentences)))[:, None])
    return np.concatenate(found, axis=1)
