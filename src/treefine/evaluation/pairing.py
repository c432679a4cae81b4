"""Match the words of a gold file with those of a system file, whose segmentation may differ."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from treefine.errors import AlignmentError
from treefine.evaluation.words import WordColumns
from treefine.treebank.align import same_words

UNALIGNED = -2


@dataclass(frozen=True, slots=True)
class AlignedWords:
    """The words of a gold and a system file over the same text, aligned."""

    gold: WordColumns
    system: WordColumns
    system_of: list[int]  # for each gold word, the matching system word, or UNALIGNED
    gold_of: list[int]  # for each system word, the matching gold word, or UNALIGNED


def pair_by_text(gold: WordColumns, system: WordColumns) -> AlignedWords:
    """Align two files over the same characters as the CoNLL 2018 scorer does.

    Words outside multiword tokens match if they cover the same characters. Where either file has a multiword token,
    words are matched by the longest common subsequence of their forms, in lower case.
    """
    if gold.characters != system.characters:
        raise _different_text(gold, system)
    # If the spans agree, so do the multiword tokens, because only their words share a span.
    if gold.spans == system.spans and [*map(str.lower, gold.forms)] == [*map(str.lower, system.forms)]:
        return AlignedWords(gold, system, list(range(len(gold))), list(range(len(gold))))
    return align(gold, system)


def pair_by_number(gold: WordColumns, system: WordColumns) -> AlignedWords:
    """Pair two files word by word, as the CoNLL-X and CoNLL-2009 scorers do; the words must be the same."""
    sentences = zip(gold.sentence_words(), system.sentence_words(), gold.places, system.places, strict=False)
    for ours, theirs, gold_place, place in sentences:
        a, b = gold.forms[ours.start : ours.stop], system.forms[theirs.start : theirs.stop]
        if a == b:
            continue
        for number, (form, other) in enumerate(zip(a, b, strict=False), start=1):
            if form != other:
                message = f"The word is {other!r} here, but {form!r} in {_at(gold, gold_place.of_word(number))}."
                raise AlignmentError(message, path=system.name, **place.of_word(number))
        message = f"The sentence has {len(b)} words here, but {len(a)} in {_at(gold, gold_place._asdict())}."
        line, sent_id, number = place[:3]
        raise AlignmentError(message, path=system.name, line=line, sent_id=sent_id, sentence=number)
    if len(gold.sentences) != len(system.sentences):
        n_gold, n_system = (words.n_before + len(words.sentences) for words in (gold, system))
        message = f"The file has {n_system} sentences, but {_name(gold)} has {n_gold}."
        raise AlignmentError(message, path=system.name)
    return AlignedWords(gold, system, list(range(len(gold))), list(range(len(gold))))


def _name(gold: WordColumns) -> str:
    return gold.name or "the gold treebank"


def _at(gold: WordColumns, place: dict[str, Any]) -> str:
    """Return a place in the gold file as text; without a file name, give the number of the sentence."""
    return f"{gold.name}:{place['line']}" if gold.name else f"the gold treebank (sentence {place['sentence']})"


def align(gold: WordColumns, system: WordColumns) -> AlignedWords:
    """Align by spans and, around multiword tokens, by forms; the slow path of `pair_by_text`."""
    pair = AlignedWords(gold, system, [UNALIGNED] * len(gold), [UNALIGNED] * len(system))
    for g, s in same_words(gold, system):
        pair.system_of[g], pair.gold_of[s] = s, g
    return pair


def _different_text(gold: WordColumns, system: WordColumns) -> AlignmentError:
    """Return an error that names the first place where the two files differ, or where one of them ends."""
    pairs = zip(gold.characters, system.characters, strict=False)
    shorter = min(len(gold.characters), len(system.characters))
    place = next((index for index, (a, b) in enumerate(pairs) if a != b), shorter)
    ours, theirs = (words.characters[place : place + 20] for words in (gold, system))
    there, here = (_place_of(words, place) for words in (gold, system))
    hint = "Both files must have the same characters; spaces and segmentation may differ."
    if not here:
        message = f"The file ends before {ours!r} in {_at(gold, there)}."
    elif not there:
        message = f"The file continues with {theirs!r} after the end of {_name(gold)}."
    else:
        message = f"The text differs from {_at(gold, there)}: it is {theirs!r} here and {ours!r} there."
    return AlignmentError(message, hint=hint, path=system.name, **here)


def _place_of(words: WordColumns, character: int) -> dict[str, Any]:
    """Return the place of the word that has this character, as the fields of an error; {} after the last word."""
    for word, (_, end) in enumerate(words.spans):
        if character < end:
            sentence = bisect_right(words.first_words, word) - 1
            return words.places[sentence].of_word(word - words.first_words[sentence] + 1)
    return {}
