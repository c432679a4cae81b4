"""Where the words of a sentence stand in its text."""

from __future__ import annotations

from treefine.treebank.sentence import Sentence

Span = tuple[int, int]  # from this character to before that one


def own_text(sentence: Sentence) -> str:
    """The text that a sentence is of, or was; its words with spaces where no comment tells it."""
    return sentence.text if sentence.text is not None else " ".join(token.form for token in sentence.tokens())


def spans_in(text: str, sentence: Sentence) -> tuple[Span, ...]:
    """Where the words stand in the sentence's own text; a form that is not found there has no characters.

    >>> spans_in("Don't  go", Sentence.of_words(["Do", "n't", "x", "go"]))
    ((0, 2), (2, 5), (7, 7), (7, 9))
    """
    spans: list[Span] = []
    place = 0
    for token in sentence.tokens():
        while place < len(text) and text[place].isspace():
            place += 1
        end = place + len(token.form) * text.startswith(token.form, place)
        spans += [(place, end)] * len(token.words)
        place = end
    return tuple(spans)
