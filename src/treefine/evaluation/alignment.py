"""Which word of one file is which word of the other, where their segmentation may differ."""

from __future__ import annotations

from dataclasses import dataclass

from treefine.errors import AlignmentError
from treefine.evaluation.words import Words

UNALIGNED = -2


@dataclass(frozen=True, slots=True)
class Pair:
    """A gold and a system file over the same text, their words aligned."""

    gold: Words
    system: Words
    system_of: list[int]  # for each gold word, the system word that it is, or UNALIGNED
    gold_of: list[int]  # for each system word, the gold word that it is, or UNALIGNED


def pair_by_text(gold: Words, system: Words) -> Pair:
    """Align two files over the same characters as the CoNLL 2018 scorer does.

    Words outside multiword tokens are the same if their characters are. A stretch of text that a multiword token of
    either file covers is aligned by the longest common subsequence of its words' forms, in lower case.
    """
    if gold.characters != system.characters:
        raise _different_text(gold, system)
    if _is_same_segmentation(gold, system):
        return Pair(gold, system, list(range(len(gold))), list(range(len(gold))))
    return align(gold, system)


def pair_by_number(gold: Words, system: Words) -> Pair:
    """Pair two files word by word, as the CoNLL-X and CoNLL-2009 scorers do; the words must be the same."""
    sentences = zip(gold.sentence_words(), system.sentence_words(), gold.places, system.places, strict=False)
    for ours, theirs, gold_place, place in sentences:
        a, b = gold.forms[ours.start : ours.stop], system.forms[theirs.start : theirs.stop]
        if a == b:
            continue
        at = {"path": system.name, **place._asdict()}
        there = f"in {_name(gold)}:{gold_place.line}"
        for number, (form, other) in enumerate(zip(a, b, strict=False), start=1):
            if form != other:
                raise AlignmentError(f"The word is {other!r}, but {form!r} {there}.", word=str(number), **at)
        raise AlignmentError(f"The sentence has {len(b)} words, but {len(a)} {there}.", **at)
    if len(gold.sentences) != len(system.sentences):
        message = f"The file has {len(system.sentences)} sentences, but {_name(gold)} has {len(gold.sentences)}."
        raise AlignmentError(message, path=system.name)
    return Pair(gold, system, list(range(len(gold))), list(range(len(gold))))


def _name(gold: Words) -> str:
    return gold.name or "the gold treebank"


def _is_same_segmentation(gold: Words, system: Words) -> bool:
    """Whether spans and forms agree; equal spans have equal multiword tokens, since only their words share one."""
    if gold.spans != system.spans:
        return False
    return gold.forms == system.forms or [*map(str.lower, gold.forms)] == [*map(str.lower, system.forms)]


def align(gold: Words, system: Words) -> Pair:
    """Align by spans and, around multiword tokens, by forms: the slow road that `pair_by_text` takes where it must."""
    pair = Pair(gold, system, [UNALIGNED] * len(gold), [UNALIGNED] * len(system))
    g = s = 0
    while g < len(gold) and s < len(system):
        if gold.in_multiword[g] or system.in_multiword[s]:
            ours, theirs = _multiword_stretch(gold, system, g, s)
            _align_by_form(pair, ours, theirs)
            g, s = ours.stop, theirs.stop
            continue
        if gold.spans[g] == system.spans[s]:
            pair.system_of[g], pair.gold_of[s] = s, g
            g, s = g + 1, s + 1
        elif gold.spans[g][0] <= system.spans[s][0]:
            g += 1
        else:
            s += 1
    return pair


def _multiword_stretch(gold: Words, system: Words, g: int, s: int) -> tuple[range, range]:
    """The words of both files from here to the first place where no multiword token of either is under way."""
    if gold.in_multiword[g]:
        end = gold.spans[g][1]
        # A plain word that began earlier is no part of it. Like the official scorer we leave out one such word only.
        s += not system.in_multiword[s] and system.spans[s][0] < gold.spans[g][0]
    else:
        end = system.spans[s][1]
        g += not gold.in_multiword[g] and gold.spans[g][0] < system.spans[s][0]

    def is_beyond(words: Words, index: int) -> bool:
        if index >= len(words):
            return True
        start, stop = words.spans[index]
        return start >= end if words.in_multiword[index] else stop > end

    first_g, first_s = g, s
    while not (is_beyond(gold, g) and is_beyond(system, s)):
        is_gold_next = g < len(gold) and (s >= len(system) or gold.spans[g][0] <= system.spans[s][0])
        words, index = (gold, g) if is_gold_next else (system, s)
        if words.in_multiword[index]:
            end = max(end, words.spans[index][1])
        g, s = (g + 1, s) if is_gold_next else (g, s + 1)
    return range(first_g, g), range(first_s, s)


def _align_by_form(pair: Pair, ours: range, theirs: range) -> None:
    """Match the words of a stretch along the longest common subsequence of their forms, in lower case."""
    a = [pair.gold.forms[index].lower() for index in ours]
    b = [pair.system.forms[index].lower() for index in theirs]
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]  # longest[i][j]: of a[i:] and b[j:]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            if a[i] == b[j]:
                longest[i][j] = longest[i + 1][j + 1] + 1
            else:
                longest[i][j] = max(longest[i + 1][j], longest[i][j + 1])
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            pair.system_of[ours[i]], pair.gold_of[theirs[j]] = theirs[j], ours[i]
            i, j = i + 1, j + 1
        elif longest[i][j] == longest[i + 1][j]:
            i += 1
        else:
            j += 1


def _different_text(gold: Words, system: Words) -> AlignmentError:
    """Name the first place where the characters of the two files differ."""
    pairs = zip(gold.characters, system.characters, strict=False)
    shorter = min(len(gold.characters), len(system.characters))
    place = next((index for index, (a, b) in enumerate(pairs) if a != b), shorter)
    ours, theirs = (words.characters[place : place + 20] for words in (gold, system))
    message = f"The text differs from {_name(gold)}: {theirs!r} stands here, {ours!r} there."
    hint = "Both files must hold the same characters; spaces and segmentation may differ."
    later = [at for at, (_, end) in zip(system.places, system.sentences, strict=True) if place < end]
    at = [*later, *system.places[-1:]][:1]  # the sentence of the first difference, or the last one
    return AlignmentError(message, hint=hint, path=system.name, **(at[0]._asdict() if at else {}))
