"""Other scorers that must give the same counts, and treebanks corrupted in every way in which a system can fail."""

from __future__ import annotations

import importlib.util
import io
import random
import runpy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from treefine import Score, Sentence, TreefineError, evaluate

UD_NAMES = tuple("Tokens Sentences Words UPOS XPOS UFeats AllTags Lemmas UAS LAS CLAS MLAS BLEX".split())
Counts = dict[str, tuple[int, int, int, int | None]]


class RefusedError(Exception):
    """A scorer rejected the two files."""


@cache
def official_script() -> SimpleNamespace:
    """Load conll18_ud_eval.py 1.2, as the shared task published it, from the combo-nlp wheel."""
    found = importlib.util.find_spec("combo")  # not imported: it would load a parser
    assert found is not None
    assert found.submodule_search_locations
    path = Path(found.submodule_search_locations[0]) / "evaluation" / "conll18_ud_eval.py"
    return SimpleNamespace(**runpy.run_path(str(path)))


def text_file(text: str) -> io.TextIOWrapper:
    """Return the text as the scripts open a file: with universal newlines."""
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")


def _counts(script: Any, load: Callable[[io.TextIOWrapper], Any], *texts: str) -> Counts:
    try:
        scores = script.evaluate(*(load(text_file(text)) for text in texts))
    except script.UDError as error:
        raise RefusedError(error) from error
    return {
        name: (score.gold_total, score.system_total, score.correct, score.aligned_total)
        for name, score in scores.items()
        if name in UD_NAMES
    }


def official(gold: str, system: str) -> Counts:
    """Return the counts of the official script."""
    return _counts(official_script(), official_script().load_conllu, gold, system)


def udtools(gold: str, system: str) -> Counts:
    """Return the counts of the script that the UD project maintains."""
    from udtools import udeval

    return _counts(udeval, lambda file: udeval.load_conllu(file, "x", {}), gold, system)


def udapi(gold: str, system: str) -> dict[str, tuple[int, int, int]]:
    """Return the counts of udapi, an independent implementation that needs the same sentences in both files."""
    from udapi.block.eval.conll18 import Conll18
    from udapi.block.read.conllu import Conllu
    from udapi.core.document import Document

    document = Document()
    for zone, text in (("gold", gold), ("pred", system)):
        reader = Conllu(zone=zone, filehandle=io.StringIO(text), ignore_sent_id=1, bundles_per_doc=0)
        reader.process_document(document)
    block = Conll18(gold_zone="gold", print_results=False)
    for bundle in document:
        for tree in bundle:
            block.process_tree(tree)
    total = block.total_count
    content = ("CLAS", "MLAS", "BLEX")
    return {
        name: tuple(total[key + "_cont" * (name in content)] for key in ("gold", "pred")) + (total[name],)
        for name in UD_NAMES[2:]
    }


def counts_of(score: Score) -> tuple[int, int, int, int | None]:
    return (score.gold, score.system, score.correct, score.aligned)


def ours(gold: str, system: str) -> Counts:
    try:
        scores = evaluate(*(io.BytesIO(text.encode()) for text in (gold, system)))
    except TreefineError as error:
        raise RefusedError(error) from error
    return {name: counts_of(scores[name]) for name in UD_NAMES}


@dataclass(eq=False)
class Word:
    """A word whose head is another `Word`, so that words can be added and removed."""

    form: str
    cells: list[str]  # LEMMA to FEATS
    label: str
    head: Word | None = None


@dataclass(eq=False)
class Token:
    """One word, or a multiword token."""

    form: str
    words: list[Word] = field(default_factory=list)  # several words, or one with a different form: a multiword token

    @property
    def is_multiword(self) -> bool:
        """Whether the token has several words."""
        return len(self.words) > 1


Sentences = list[list[Token]]


def unpack(sentences: list[Sentence]) -> Sentences:
    unpacked = []
    for sentence in sentences:
        ids, forms = sentence.columns[0], sentence.columns[1]
        words = [Word(w.form, [w.lemma, w.upos, w.xpos, w.feats], w.label) for w in sentence.words]
        for word, head in zip(words, sentence.heads, strict=True):
            word.head = words[head - 1] if head else None
        tokens, covered = [], 0
        for identifier, form in zip(ids, forms, strict=True):
            first, _, last = identifier.partition("-")
            if "." in identifier or (not last and int(first) <= covered):
                continue
            covered = int(last or first)
            tokens.append(Token(form, words[int(first) - 1 : covered]))
        unpacked.append(tokens)
    return unpacked


def render(sentences: Sentences) -> str:
    lines = []
    for tokens in sentences:
        words = [word for token in tokens for word in token.words]
        _repair(words)
        number = {id(word): index for index, word in enumerate(words, start=1)}
        for token in tokens:
            if token.is_multiword:
                first, last = number[id(token.words[0])], number[id(token.words[-1])]
                lines.append("\t".join([f"{first}-{last}", token.form, *["_"] * 8]))
            for word in token.words:
                head = str(number[id(word.head)]) if word.head else "0"
                lines.append("\t".join([str(number[id(word)]), word.form, *word.cells, head, word.label, "_", "_"]))
        lines.append("")
    return "\n".join([*lines, ""])


def _repair(words: list[Word]) -> None:
    """Make the heads a tree with one root again after words were added or removed."""
    present = {id(word) for word in words}
    root = next((word for word in words if word.head is None), words[0])
    root.head = None
    for word in words:
        if word is not root and (word.head is None or id(word.head) not in present):
            word.head = root
    for word in words:
        seen, upward = set(), word
        while upward.head is not None:
            if id(upward) in seen:
                upward.head = root if upward is not root else None
                break
            seen.add(id(upward))
            upward = upward.head


def _some(rng: random.Random, sentences: Sentences, share: float) -> list[Word]:
    words = [word for tokens in sentences for token in tokens for word in token.words]
    return rng.sample(words, max(1, int(share * len(words))))


def move_heads(rng: random.Random, sentences: Sentences) -> None:
    for tokens in sentences:
        words = [word for token in tokens for word in token.words]
        for word in words:
            if word.head is not None and rng.random() < 0.2:
                word.head = rng.choice([other for other in words if other is not word] or [word.head])


def change_labels(rng: random.Random, sentences: Sentences) -> None:
    for word in _some(rng, sentences, 0.2):
        word.label = rng.choice(["nsubj", "obl:tmod", "obl", "case", "det", "punct", "unknown", "dep"])


def change_cells(rng: random.Random, sentences: Sentences) -> None:
    for word in _some(rng, sentences, 0.3):
        column = rng.randrange(4)
        word.cells[column] = rng.choice(["_", "X", word.cells[column].upper(), "Number=Sing", "Case=Nom|Foo=Bar"])


def split_tokens(rng: random.Random, sentences: Sentences) -> None:
    for tokens in sentences:
        for index, token in reversed(list(enumerate(tokens))):
            if not token.is_multiword and len(token.form) > 1 and " " not in token.form and rng.random() < 0.1:
                cut = rng.randrange(1, len(token.form))
                word = token.words[0]
                rest = Word(token.form[cut:], ["_", "X", "_", "_"], "dep", word)
                word.form = token.form[:cut]
                tokens[index : index + 1] = [Token(word.form, [word]), Token(rest.form, [rest])]


def _neighbours(sentences: Sentences) -> Iterator[tuple[list[Token], int]]:
    """Yield each place of a token that has another one behind it, so that the two can be replaced by one."""
    for tokens in sentences:
        for index in reversed(range(len(tokens) - 1)):
            yield tokens, index


def merge_tokens(rng: random.Random, sentences: Sentences) -> None:
    for tokens, index in _neighbours(sentences):
        if rng.random() < 0.05:
            word = tokens[index].words[0]
            word.form = tokens[index].form + tokens[index + 1].form
            tokens[index : index + 2] = [Token(word.form, [word])]


def make_multiword(rng: random.Random, sentences: Sentences) -> None:
    for tokens, index in _neighbours(sentences):
        if rng.random() < 0.1:
            first, second = tokens[index : index + 2]
            words = first.words + second.words
            for word in words:
                word.form = rng.choice([word.form, word.form.upper(), word.form[::-1]])
            tokens[index : index + 2] = [Token(first.form + second.form, words)]


def dissolve_multiword(rng: random.Random, sentences: Sentences) -> None:
    for tokens in sentences:
        for token in tokens:
            if token.is_multiword and rng.random() < 0.5:
                token.words = token.words[:1]
                token.words[0].form = token.form


def cut_sentences(rng: random.Random, sentences: Sentences) -> None:
    for index in reversed(range(len(sentences))):
        if len(sentences[index]) > 2 and rng.random() < 0.2:
            cut = rng.randrange(1, len(sentences[index]))
            sentences[index : index + 1] = [sentences[index][:cut], sentences[index][cut:]]


def join_sentences(rng: random.Random, sentences: Sentences) -> None:
    for index in reversed(range(len(sentences) - 1)):
        if rng.random() < 0.1:
            sentences[index : index + 2] = [sentences[index] + sentences[index + 1]]


Change = Callable[[random.Random, Sentences], None]
CHANGES: list[Change] = [move_heads, change_labels, change_cells, split_tokens, merge_tokens, make_multiword]
CHANGES += [dissolve_multiword, cut_sentences, join_sentences]


def corrupt(sentences: list[Sentence], seed: int) -> str:
    """Return the sentences as another system might analyse them, with one to four kinds of changes."""
    rng = random.Random(seed)
    changed = unpack(sentences)
    for change in rng.sample(CHANGES, rng.randint(1, 4)):
        change(rng, changed)
    return render(changed)


def _cell(text: str, rng: random.Random, column: int, value: Callable[[list[str]], str]) -> str:
    lines = text.split("\n")
    index = rng.choice([i for i, line in enumerate(lines) if line[:1].isdigit() and "-" not in line.split("\t")[0]])
    cells = lines[index].split("\t")
    cells[column] = value(cells)
    lines[index] = "\t".join(cells)
    return "\n".join(lines)


def damage(text: str, seed: int) -> str:
    """Return the text with a few characters changed, added, doubled or removed, mostly in critical places."""
    rng = random.Random(seed)
    pieces = list(text)
    marks = [*"\t\n\r #_-.0129a=|:", "\r\n", "\ufeff", "\u00a0", "\x0b", "\x85", "\u2028", "1-2", "2.1", "٣", "+1"]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        place = rng.randrange(len(pieces))
        kind = rng.random()
        if kind < 0.4:
            pieces[place] = rng.choice(marks)
        elif kind < 0.7:
            pieces.insert(place, rng.choice(marks))
        elif kind < 0.9:
            pieces[place] = ""
        else:
            stretch = pieces[place : place + rng.randrange(1, 60)]
            pieces[place : place + len(stretch)] = rng.choice([[], stretch * 2])
    return "".join(pieces)


# Each turns a valid file into one that the official scorer rejects, by itself or together with its gold file.
FAULTS: dict[str, Callable[[str, random.Random], str]] = {
    "head out of range": lambda text, rng: _cell(text, rng, 6, lambda cells: "999"),
    "head not a number": lambda text, rng: _cell(text, rng, 6, lambda cells: "x"),
    "head blank": lambda text, rng: _cell(text, rng, 6, lambda cells: "_"),
    "head negative": lambda text, rng: _cell(text, rng, 6, lambda cells: "-1"),
    "own head": lambda text, rng: _cell(text, rng, 6, lambda cells: cells[0]),
    "wrong ID": lambda text, rng: _cell(text, rng, 0, lambda cells: "77"),
    "empty form": lambda text, rng: _cell(text, rng, 1, lambda cells: " "),
    "nine columns": lambda text, rng: text.replace("\t_\n", "\n", 1),
    "two blank lines": lambda text, rng: text.replace("\n\n", "\n\n\n", 1),
    "blank first line": lambda text, rng: "\n" + text,
    "no last blank line": lambda text, rng: text[:-1],
    "byte order mark": lambda text, rng: "\ufeff" + text,
    "comments alone": lambda text, rng: "# nothing\n\n" + text,
    "comment inside": lambda text, rng: text.replace("\n2", "\n# inside\n2", 1),
    "another text": lambda text, rng: _cell(text, rng, 1, lambda cells: cells[1] + "x"),
    "two roots": lambda text, rng: "1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n2\tb\t_\t_\t_\t_\t0\troot\t_\t_\n\n" + text,
}
