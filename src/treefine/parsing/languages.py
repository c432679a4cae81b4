"""Choose the treebank whose habits a model of several languages follows: the user names it, or the text shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from treefine.config import ModelSettings
from treefine.model.bundled import unknown_language, usual_code
from treefine.model.vocabulary import Vocabulary, language_of
from treefine.segmenter.language import SAMPLE, LanguageCheck, code_of, identify, table
from treefine.treebank.raw_text import own_text
from treefine.treebank.sentence import Sentence

_SAMPLE_OF_SENTENCES = 1_000  # characters of consecutive sentences that are identified together


@dataclass(frozen=True)
class LanguageChoice:
    """The treebanks of a model, and the one that the user named, if any. A model of one treebank lists none."""

    treebanks: tuple[str, ...]  # codes such as sv_talbanken
    main: dict[str, str]  # by language: the treebank that it stands for
    named: str = ""

    @classmethod
    def of(
        cls, settings: ModelSettings, vocabulary: Vocabulary, asked: str | None, *, languages: Iterable[str] = ()
    ) -> LanguageChoice:
        """Return the choice for a model; raise an error if it does not know the language that the user asked for.

        Nothing, or an empty string, asks for identification. `languages` are those of a model of one treebank whose
        settings do not state them.
        """
        main = {language_of(each): each for each in (*reversed(vocabulary.treebanks), *settings.main_treebanks)}
        known = cls(vocabulary.treebanks, dict(sorted(main.items())))
        if not asked:
            return known
        code = code_of(asked) or usual_code(asked)
        named = code if code in vocabulary.treebanks else main.get(code, "")
        if named:
            return replace(known, named=named)
        own = [code_of(each) or each for each in languages] or list(settings.languages)
        if not vocabulary.treebanks and code in own:
            return known
        names = table().names
        raise unknown_language(asked, {each: names.get(each, each) for each in known.main or own})

    @property
    def guesses(self) -> bool:
        """Whether the language must be identified from the text."""
        return bool(self.treebanks) and not self.named

    def languages(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the codes of the languages that a text may be in; `known` are those of a model of one treebank."""
        if not self.treebanks:
            return tuple(known)
        return (language_of(self.named),) if self.named else tuple(self.main)

    def check(self, known: Iterable[str]) -> LanguageCheck:
        """Return a new check of texts; the arguments are as in `languages`."""
        return LanguageCheck(self.languages(known), guesses=self.guesses)

    def of_text(self, text: str) -> str:
        """Return the code of the treebank whose habits fit a text; empty if no language can be identified."""
        return self.main.get(identify(text, self.main).language, "") if self.guesses else self.named

    def of_chunks(self, chunks: Iterable[str], *, between: str = "") -> tuple[str, Iterable[str]]:
        """Return the treebank of a text that comes in chunks, and the same chunks. Reads only the start of the text.

        `between` is what stands between two chunks.
        """
        if not self.guesses:
            return self.named, chunks
        chunks, first, n_chars = iter(chunks), list[str](), 0
        for chunk in chunks:
            first.append(chunk)
            n_chars += len(chunk)
            if n_chars >= SAMPLE:
                break
        return self.of_text(between.join(first)), chain(first, chunks)

    def of_sentences(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """Yield the sentences with their treebanks. Consecutive sentences of a file are identified together.

        A sentence that has a treebank of the model keeps it, unless the user named another one. A model of one treebank
        has no codes.
        """
        group, n_chars = list[Sentence](), 0
        for each in sentences:
            if not self.guesses:
                yield each if each.treebank == self.named else replace(each, treebank=self.named)
                continue
            if each.treebank in self.treebanks or (group and each.path != group[0].path):
                yield from self._identified(group)
                group, n_chars = [], 0
            if each.treebank in self.treebanks:
                yield each
                continue
            group.append(each)
            n_chars += len(own_text(each))
            if n_chars >= _SAMPLE_OF_SENTENCES:
                yield from self._identified(group)
                group, n_chars = [], 0
        yield from self._identified(group)

    def _identified(self, group: Sequence[Sentence]) -> list[Sentence]:
        treebank = self.of_text(" ".join(map(own_text, group))) if group else ""
        return [replace(each, treebank=treebank) for each in group]
