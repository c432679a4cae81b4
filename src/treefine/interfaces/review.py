"""The sentences that a person should look at: those the parser is not sure of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treefine.drawing.characters import shorten, visible

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse

WIDTH, WORD_WIDTH = 60, 20  # columns of a sentence's text, and of a word


class Review:
    """Counts the sentences, and lists those whose confidence is below a limit."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.n_seen = self.n_listed = 0

    def line(self, parse: Parse) -> str | None:
        """The line of a sentence, if it is one of them."""
        self.n_seen += 1
        if parse.confidence >= self.limit:
            return None
        self.n_listed += 1
        return review_line(parse)

    @property
    def counted(self) -> str:
        """How many they are."""
        return f"{self.n_listed:,} of {self.n_seen:,} sentences below {self.limit:g}"


def review_line(parse: Parse) -> str:
    """Place, sent_id, confidence and text of a sentence, and the word the parser is least sure of, between tabs."""
    sentence = parse.sentence
    place = f"{sentence.path}:{sentence.line}" if sentence.path else str(sentence.number)
    word = min(parse.words, key=lambda each: each.confidence)
    head = parse.forms[word.head - 1] if word.head else "ROOT"
    form, head = shorten(word.form, WORD_WIDTH), shorten(head, WORD_WIDTH)
    doubt = f"{word.number} {form} <- {word.head} {head}: {word.label} {word.confidence:.2f}"
    cells = (place, sentence.sent_id or "_", f"{parse.confidence:.2f}", shorten(parse.text, WIDTH), doubt)
    return "\t".join(map(visible, cells)) + "\n"
