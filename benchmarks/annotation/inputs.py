"""Write the files that the scripted annotator opens: trees of a parser that are partly wrong, and the right trees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

from benchmarks.accuracy.model_rows import without_tags
from benchmarks.rows import english_path
from treefine import Parser, Sentence, TreefineError, read_treebank, write_treebank
from treefine.studio.document import STATUS_COMMENT
from treefine.treebank.constraints import FREE
from treefine.treebank.edits import set_comment
from treefine.treebank.sentence import BLANK

INPUT_MODEL, INPUT_LANGUAGE, INPUT_STEPS = "multi", "en_ewt", 1  # the parser whose trees are corrected


@dataclass(frozen=True)
class Case:
    """A sentence as a parser left it, and as it should be. They differ only in HEAD and DEPREL."""

    given: Sentence
    gold: Sentence

    @property
    def n_wrong(self) -> int:
        """The number of wrong arcs."""
        return len(wrong_words(self.given, self.gold))

    def written(self, *, is_done: bool = False) -> Sentence:
        """Return the sentence for the file; a sentence that is done has its gold tree and its mark."""
        return set_comment(self.gold, STATUS_COMMENT, "done") if is_done else self.given


def wrong_words(given: Sentence, gold: Sentence) -> list[int]:
    """Return the words whose head or full label is wrong."""
    pairs = zip(given.heads, given.labels, gold.heads, gold.labels, strict=True)
    return [word for word, (head, label, *right) in enumerate(pairs, start=1) if [head, label] != right]


def without_marks(sentence: Sentence) -> Sentence:
    """Return the sentence without the marks of the studio."""
    return FREE.mark(set_comment(sentence, STATUS_COMMENT, None))


def parsed_cases(treebanks: Path, sentences: int | None = None) -> list[Case]:
    """Parse the words of en_ewt dev in one step, which leaves more errors than a refined parse.

    The other columns are those of the treebank, so that only arcs are wrong. DEPS is blank, as a parser leaves it.
    """
    gold = list(map(without_deps, islice(read_treebank(english_path(treebanks, "dev")), sentences)))
    parser = Parser.from_pretrained(INPUT_MODEL, language=INPUT_LANGUAGE, max_steps=INPUT_STEPS)
    parses = parser.stream(map(without_tags, gold))
    return [Case(each.with_graph(parse.tree), each) for each, parse in zip(gold, parses, strict=True)]


def without_deps(sentence: Sentence) -> Sentence:
    """Return the sentence without an enhanced graph; the lines of empty nodes stay as they are."""
    index = sentence.format.deps
    assert index is not None
    pairs = zip(sentence.columns[0], sentence.columns[index], strict=True)
    cells = tuple(cell if "." in identifier else BLANK for identifier, cell in pairs)
    return replace(sentence, columns=(*sentence.columns[:index], cells, *sentence.columns[index + 1 :]))


def stretch(cases: Sequence[Case], sentences: int, arcs: int) -> list[Case]:
    """Return the first stretch of neighbours with this many wrong sentences and, together, this many wrong arcs.

    If none has exactly that many wrong arcs, the first of those with the fewest more is taken.
    """
    wrong = [place for place, case in enumerate(cases) if case.n_wrong]
    windows = [wrong[start : start + sentences] for start in range(len(wrong) - sentences + 1)]
    totals = [sum(cases[place].n_wrong for place in window) for window in windows]
    enough = [number for number, total in enumerate(totals) if total >= arcs]
    if not enough:
        hint = "Lower --arcs or raise --sentences."
        raise TreefineError(f"No {sentences} sentences in a row have {arcs} wrong arcs.", hint=hint)
    chosen = windows[min(enough, key=lambda number: totals[number])]
    return list(cases[chosen[0] : chosen[-1] + 1])


def of_length(cases: Iterable[Case], words: int, sentences: int) -> list[Case]:
    """Return the first sentences of about this length in which a head is wrong; the nearest lengths fill up."""
    wrong = [case for case in cases if case.given.heads != case.gold.heads]
    return sorted(wrong, key=lambda case: abs(len(case.gold) - words))[:sentences]


def write_cases(cases: Iterable[Case], path: Path, *, done: Collection[int] = ()) -> None:
    """Write the sentences to a file; those with a place in `done` are right and marked as done."""
    write_treebank([case.written(is_done=place in done) for place, case in enumerate(cases)], path)


def write_large(treebanks: Path, path: Path, sentences: int) -> None:
    """Write a file of this many sentences of en_ewt train, again and again if there are fewer, with new sent_ids."""
    found = list(read_treebank(english_path(treebanks, "train")))

    def renamed() -> Iterator[Sentence]:
        for number, sentence in enumerate(islice(cycle(found), sentences), start=1):
            yield set_comment(sentence, "sent_id", f"large-{number}")

    write_treebank(renamed(), path)
