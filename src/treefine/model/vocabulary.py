"""The names that a model knows: labels and tags, and for a BiLSTM words and characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np
from jaxtyping import Int

from treefine.config import Column, TagSettings
from treefine.errors import TreebankError
from treefine.treebank.graph import Arcs
from treefine.treebank.label_schemes import read_as
from treefine.treebank.lemmas import Lexicon, lemma_of, script_of
from treefine.treebank.sentence import BLANK, Sentence

UNSEEN = -1  # the id of a label that the model has no name for
NO_HEAD = -1  # the head of ROOT, of padding, and of a word whose head is not given
N_CASES = 5  # see `case_of`
FEWEST_LEMMAS = 2  # occurrences of a lemma script that is worth learning
_MOST_CACHED = 200_000  # forms
_NAMES = ("labels", "upos", "xpos", "feats", "lemma", "words", "chars")


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
    lexicon: tuple[str, ...] = ()  # the forms of the treebank, each with its most frequent script after a tab
    words: tuple[str, ...] = ()  # lower-cased
    chars: tuple[str, ...] = ()

    @classmethod
    def of_treebank(cls, sentences: Iterable[Sentence], *, min_words: int = 2) -> Vocabulary:
        """Return the labels, tags, features and characters of a treebank, its frequent lemma scripts and words.

        A word is frequent if it occurs `min_words` times or more.
        """
        counted: dict[str, Counter[str]] = {name: Counter() for name in _NAMES}
        pairs: list[tuple[str, str]] = []
        for sentence in sentences:
            counted["labels"].update(sentence.labels)
            counted["upos"].update(sentence.upos)
            counted["xpos"].update(sentence.xpos)
            counted["feats"].update(sentence.feats)
            own = [pair for pair in zip(sentence.forms, sentence.lemma, strict=True) if pair[1] != BLANK]
            counted["lemma"].update(script_of(form, lemma) for form, lemma in own)
            pairs += own
            for form in sentence.forms:
                counted["words"][form.lower()] += 1
                counted["chars"].update(form)
        counted["words"] = Counter({word: n for word, n in counted["words"].items() if n >= min_words})
        counted["lemma"] = Counter({script: n for script, n in counted["lemma"].items() if n >= FEWEST_LEMMAS})
        for name in ("labels", "upos", "xpos"):
            counted[name].pop(BLANK, None)
        if len(counted["feats"]) == 1:  # the column is blank
            counted["feats"].pop(BLANK, None)
        if not counted["labels"]:
            raise TreebankError(
                "The treebank has no labels to learn.", hint="Use a treebank with a filled DEPREL column."
            )
        names = {name: tuple(sorted(counter)) for name, counter in counted.items()}
        return cls(**names, lexicon=tuple(map("\t".join, Lexicon.of(pairs).scripts.items())))

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
        unknown = set(labels).difference(ids)  # not cached: a server may receive any number of them
        if unknown:
            ids = ids | {label: ids.get(read_as(label, ids), UNSEEN) for label in unknown}
        return [ids[label] for label in labels]

    def label_id(self, label: str) -> int | None:
        """Return the id of exactly this label, or None if the model has no such label."""
        return self._ids["labels"].get(label)

    def tag_ids(self, column: Column, tags: Sequence[str]) -> list[int]:
        """Return the id of each tag, counted from 1; 0 for a missing or unknown tag."""
        ids = self._ids[column]
        return [ids.get(tag, -1) + 1 for tag in tags]

    def tags(self, column: Column) -> tuple[str, ...]:
        """Return the tags of a column; the first one has id 1. Those of LEMMA are scripts."""
        names: tuple[str, ...] = getattr(self, column)
        return names

    @cached_property
    def _lexicon(self) -> Lexicon:
        return Lexicon(dict(_split(entry) for entry in self.lexicon))

    @cached_property
    def _guessed(self) -> dict[str, tuple[int, int]]:
        return {}

    def lemma_guesses(self, form: str) -> tuple[int, int]:
        """Return the script of a form in the lexicon and a guess from similar forms, counted from 1; 0 for none."""
        cache = self._guessed
        if form not in cache:
            if len(cache) > _MOST_CACHED:
                cache.clear()
            found = (self._lexicon.seen(form), self._lexicon.guess(form))
            ids = self._ids["lemma"]
            first, second = (0 if script is None else ids.get(script, -1) + 1 for script in found)
            cache[form] = first, second
        return cache[form]

    def word_ids(self, words: Sequence[str]) -> list[int]:
        """Return the id of each word, counted from 2; 1 for an unknown word. 0 is ROOT."""
        ids = self._ids["words"]
        return [ids.get(word.lower(), -1) + 2 for word in words]

    def char_ids(self, word: str, most: int) -> list[int]:
        """Return the ids of a word's first `most` characters, counted from 2; 1 for an unknown one. 0 is padding."""
        ids = self._ids["chars"]
        return [ids.get(char, -1) + 2 for char in word[:most]]


def flat_arcs(
    arcs: Sequence[Arcs], vocabulary: Vocabulary
) -> tuple[Int[np.ndarray, " word"], Int[np.ndarray, " word"]]:
    """Return the head and the label id of each word, or NO_HEAD and UNSEEN if it has none.

    >>> flat_arcs([Arcs((2, 0), ("det", "root")), Arcs((None,), ("root",))], Vocabulary(labels=("root",)))
    (array([ 2,  0, -1], dtype=int32), array([-1,  0, -1], dtype=int32))
    """
    given = [NO_HEAD if head is None else head for each in arcs for head in each.heads]
    heads = np.array(given, dtype=np.int32)
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
        ids[:, place] = vocabulary.tag_ids(
            column, list(chain.from_iterable(tags_in(each, column) for each in sentences))
        )
    return ids


def tags_in(sentence: Sentence, column: Column) -> Sequence[str]:
    """Return the values of a column as a model predicts them: scripts for lemmas, and "" for a missing value."""
    values: Sequence[str] = getattr(sentence, column)
    if column == "lemma":
        return [
            script_of(form, lemma) if lemma != BLANK else "" for form, lemma in zip(sentence.forms, values, strict=True)
        ]
    if column == "feats" and set(values) != {BLANK}:
        return values
    return ["" if value == BLANK else value for value in values]


def tag_names(vocabulary: Vocabulary, column: Column, ids: Sequence[int], forms: Sequence[str]) -> list[str]:
    """Return the tags with these ids, counted from 0. The ids of lemmas are scripts, which are applied to the forms."""
    names = vocabulary.tags(column)
    if column == "lemma":
        return [lemma_of(form, names[number]) for form, number in zip(forms, ids, strict=True)]
    return [names[number] for number in ids]


def inputs_of(
    sentences: Sequence[Sentence], vocabulary: Vocabulary, tags: TagSettings, *, given: bool
) -> Int[np.ndarray, "word column"] | None:
    """Return what a model reads of the words besides their pieces, or None if that is nothing.

    These are their own tags, if they are `given`, the case of their letters, and guesses at their lemmas.
    """
    if not given and not tags.case and not tags.lexicon:
        return None
    columns = tags.columns if tags.source != "none" else ()
    forms = list(chain.from_iterable(each.forms for each in sentences))
    found = [flat_tags(sentences, vocabulary, columns) if given else np.zeros((len(forms), len(columns)), np.int32)]
    if tags.case:
        found.append(np.array(list(map(case_of, forms)), np.int32).reshape(-1, 1))
    if tags.lexicon:
        found.append(np.array(list(map(vocabulary.lemma_guesses, forms)), np.int32).reshape(-1, 2))
    return np.concatenate(found, axis=1)


@lru_cache(maxsize=100_000)
def case_of(form: str) -> int:
    """Return the case of a form: 1 if it has no letters with case, 2 lower, 3 title, 4 upper, 5 mixed.

    >>> [case_of(form) for form in ("24/7", "dog", "Dog's", "I", "USA", "iPhone")]
    [1, 2, 3, 3, 4, 5]
    """
    letters = [each for each in form if each.isupper() or each.islower()]
    n_upper = sum(map(str.isupper, letters))
    if not letters or not n_upper:
        return 2 if letters else 1
    if n_upper == 1 and letters[0].isupper():
        return 3
    return 4 if n_upper == len(letters) else 5


def _split(entry: str) -> tuple[str, str]:
    """Return the form and the script of an entry of a lexicon."""
    form, _, script = entry.rpartition("\t")
    return form, script
