"""Count what a refinement changed, and write the file of --changes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from treefine.drawing.characters import visible
from treefine.drawing.html import page_end, page_start, tree_figure
from treefine.errors import TreebankError, TreefineError
from treefine.evaluation.tables import count
from treefine.treebank.files import open_output
from treefine.treebank.formats import suffix_of
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

if TYPE_CHECKING:
    from treefine.parsing.parse import Change, Parse

_Kind = Literal["html", "json", "tsv"]
_KINDS: dict[str, _Kind] = {".html": "html", ".htm": "html", ".json": "json", ".tsv": "tsv"}
_PLACE = ("file", "line", "sentence", "sent_id")
_COLUMNS = (*_PLACE, "word", "form", "old_head", "old_label", "head", "label", "before", "after", "step")
_MOST = 8  # labels printed of each kind; the file of changes has all of them
_MOST_ON_PAGE = 24
_STYLE = """
table.summary td { max-width: 60rem; }
table.summary th { vertical-align: top; }
section > p { overflow-wrap: anywhere; margin: 0.5rem 0; }
"""


class Changes:
    """Counts changes, sentence by sentence; `known` are the labels of the model.

    A new arc or label of a word that had none is not a change, and is counted separately.
    """

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self.n_sentences = self.n_words = 0
        self.n_changed = 0  # sentences
        self.n_heads = 0  # words with another head
        self.n_added = 0  # arcs of words that had none
        self.n_named = 0  # labels of arcs that had none
        self.moved: Counter[str] = Counter()  # by label: another head, the same label
        self.relabelled: Counter[tuple[str, str]] = Counter()  # old and new label, the same head
        self.replaced: Counter[tuple[str, str]] = Counter()  # old and new label, another head
        self.converged: Counter[int] = Counter()  # sentences, by the step that repeated its input
        self.sure: Counter[int] = Counter()  # sentences that stopped earlier, by the step that was sure enough
        self.unfinished: Counter[int] = Counter()  # sentences that did neither, by their number of steps
        self.read_as: Counter[tuple[str, str]] = Counter()  # labels of the input, and what the model reads them as

    def add(self, parse: Parse, given: Arcs) -> Parse:
        """Count a sentence that had these arcs in the file; return it with them as its initial graph.

        A label that was read under another name gets that name, unless it came back unchanged. A label that was not
        read keeps its own name.
        """
        parse = replace(parse, initial=Arcs(given.heads, self._old_labels(parse, given)))
        self.n_sentences += 1
        self.n_words += len(parse)
        ended = self.converged if parse.converged else self.sure if parse.was_sure else self.unfinished
        ended[len(parse.steps)] += 1
        changes = parse.changes
        self.n_changed += bool(changes)
        for each in changes:
            labels = (each.old_label, each.label)
            if each.old_head is None:
                self.n_added += 1
                continue
            self.n_heads += each.old_head != each.head
            if each.old_label == BLANK:
                self.n_named += 1
            elif each.old_head == each.head:
                self.relabelled[labels] += 1
            elif each.old_label == each.label:
                self.moved[each.label] += 1
            else:
                self.replaced[labels] += 1
        return parse

    def _old_labels(self, parse: Parse, given: Arcs) -> tuple[str, ...]:
        """Return the old labels as they are reported; count those that were renamed or not read."""
        told = []
        for head, own, read, label in zip(*given, parse.initial.labels, parse.labels, strict=True):
            is_read = read in self._known
            is_decided = own == label and own not in self._known  # only a person can have chosen it
            if head is not None and own != BLANK and not is_decided and (not is_read or read != own):
                self.read_as[own, read if is_read else BLANK] += 1
            told.append(read if is_read and own != label else own)
        return tuple(told)

    def rows(self, most: int = _MOST) -> list[tuple[str, str]]:
        """Return the summary as names and values, with the `most` frequent labels."""
        found = [
            ("sentences", f"{self.n_sentences:,}, {self.n_changed:,} of them changed"),
            ("words", f"{self.n_words:,}"),
            ("heads changed", f"{self.n_heads:,}"),
            ("labels changed", f"{self.relabelled.total():,}, of words with the same head"),
        ]
        if self.n_added:
            found.append(("new arcs", f"{self.n_added:,}, of words that had none"))
        if self.n_named:
            found.append(("new labels", f"{self.n_named:,}, of words that had a head alone"))
        labels = {f"{old} → {new}": n for (old, new), n in (self.relabelled + self.replaced).items()}
        other = {f"{old} → {new}": n for (old, new), n in self.read_as.items() if new != BLANK}
        unread = {old: n for (old, new), n in self.read_as.items() if new == BLANK}
        for name, counted in (
            ("old and new label", labels),
            ("head alone", self.moved),
            ("labels renamed", other),
            ("labels not read", unread),
        ):
            if counted:
                found.append((name, _most_frequent(Counter(counted), most)))
        shares = [f"{self._share(n)} at step {t}" for t, n in sorted(self.converged.items())]
        shares += [f"{self._share(n)} sure enough at step {t}" for t, n in sorted(self.sure.items())]
        shares += [f"{self._share(n)} not within {count(t, 'step')}" for t, n in sorted(self.unfinished.items())]
        if shares:
            found.append(("converged", ", ".join(shares)))
        return found

    def lines(self) -> list[str]:
        """Return the summary as lines for a terminal."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return [f"{name:{width}}  {visible(said)}" for name, said in rows]

    def values(self) -> dict[str, Any]:
        """Return all counts, for JSON."""

        def pairs(counted: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
            return [{"old": old, "new": new, "times": n} for (old, new), n in counted.most_common()]

        return {
            "sentences": self.n_sentences,
            "changed_sentences": self.n_changed,
            "words": self.n_words,
            "heads": self.n_heads,
            "labels": self.relabelled.total(),
            "new_arcs": self.n_added,
            "new_labels": self.n_named,
            "same_label": dict(self.moved.most_common()),
            "same_head": pairs(self.relabelled),
            "other_head_and_label": pairs(self.replaced),
            "converged": {str(t): n for t, n in sorted(self.converged.items())},
            "sure_enough": {str(t): n for t, n in sorted(self.sure.items())},
            "not_converged": {str(t): n for t, n in sorted(self.unfinished.items())},
            "read_as": {old: None if new == BLANK else new for old, new in sorted(self.read_as)},
        }

    def _share(self, number: int) -> str:
        return f"{100 * number / self.n_sentences:.1f} %"


def _most_frequent(counted: Counter[str], most: int) -> str:
    told = [f"{name} {n:,}" for name, n in counted.most_common(most)]
    rest = len(counted) - len(told)
    return ", ".join([*told, *([f"and {rest:,} more" if rest > 1 else "and one more"] if rest else [])])


def kind_of(path: str) -> _Kind:
    """Return the kind of file that its name asks for."""
    kind = _KINDS.get(suffix_of(path))
    if kind is None:
        hint = "Name a file that ends in .html, .json or .tsv."
        raise TreefineError("The ending does not tell how to write the changes.", hint=hint, path=path)
    return kind


@contextmanager
def open_changes(path: str, changes: Changes) -> Iterator[Callable[[Parse], None]]:
    """Give a function that adds the changes of a parse; the file appears at the end, and starts with the counts.

    Until then the changes are in a nameless temporary file beside it, so any number of sentences fits.
    """
    kind = kind_of(path)
    part, separator = {"html": (_html, ""), "json": (_json, ",\n"), "tsv": (_tsv, "")}[kind]

    def add(parse: Parse) -> None:
        found = parse.changes
        if found:
            try:
                body.write((separator * bool(body.tell()) + part(parse, found)).encode())
            except OSError as error:
                raise _not_written(error, path) from error

    try:
        unnamed = tempfile.TemporaryFile(dir=Path(path).resolve().parent)
    except OSError as error:
        raise _not_written(error, path) from error
    with unnamed as body:
        yield add
        start, end = _frame(kind, changes)
        body.seek(0)
        with open_output(path) as stream:
            stream.write(start.encode())
            shutil.copyfileobj(body, stream)
            stream.write(end.encode())


def _not_written(error: OSError, path: str) -> TreebankError:
    return TreebankError(f"The changes could not be written: {error.strerror or error}.", path=path)


def _frame(kind: _Kind, changes: Changes) -> tuple[str, str]:
    """Return the text before and after the changes."""
    if kind == "tsv":
        return "\t".join(_COLUMNS) + "\n", ""
    if kind == "json":
        summary = json.dumps(changes.values(), ensure_ascii=False)
        return f'{{"summary": {summary},\n"changes": [\n', "\n]}\n"
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(visible(said))}</td></tr>'
        for name, said in changes.rows(most=_MOST_ON_PAGE)
    )
    n_left_out = changes.n_sentences - changes.n_changed
    note = (
        "<p>Each drawing shows the tree after refinement. What changed is in colour; a dashed arc, or a label that is "
        "struck out, is what was there before. "
        f"Sentences without a change are left out: {n_left_out:,}.</p>"
    )
    return (
        f'{page_start("What the refinement changed", style=_STYLE)}<table class="summary">\n{rows}\n</table>\n{note}\n',
        page_end(),
    )


def _tsv(parse: Parse, found: Sequence[Change]) -> str:
    def cell(value: str | int | float | None) -> str:
        return f"{value:.4f}" if isinstance(value, float) else BLANK if value in (None, "") else visible(str(value))

    return "".join("\t".join(map(cell, values)) + "\n" for values in _values(parse, found))


def _json(parse: Parse, found: Sequence[Change]) -> str:
    values = [
        {name: round(each, 4) if isinstance(each, float) else each for name, each in zip(_COLUMNS, value, strict=True)}
        for value in _values(parse, found)
    ]
    return ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)


def _values(parse: Parse, found: Sequence[Change]) -> Iterator[tuple[str | int | float | None, ...]]:
    """Yield the cells of each change."""
    sentence = parse.sentence
    for each in found:
        yield (sentence.path, sentence.line, sentence.number, sentence.sent_id, *each)


def _html(parse: Parse, found: Sequence[Change]) -> str:
    """Return a section with the number, text and place of the sentence, its drawing, and a table of its changes."""
    sentence = parse.sentence
    place = f"{sentence.path}:{sentence.line}" + (f" ({sentence.sent_id})" if sentence.sent_id else "")
    rows = "\n".join(_row(parse, each) for each in found)
    names = ("", "word", "was", "confidence", "is", "confidence", "since step")
    header = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        # The page counts its sections from 1; here each has the number of its sentence.
        f'<section>\n<h2 dir="auto" style="counter-reset: sentence {sentence.number - 1}">'
        f"{escape(visible(parse.text))}</h2>\n<p>{escape(visible(place))}</p>\n"
        f"{tree_figure([parse.changed_picture()], 'Tree')}\n"
        f'<div class="scroll" tabindex="0" role="group" aria-label="Changes">'
        f"<table>\n<tr>{header}</tr>\n{rows}\n</table></div>\n</section>\n"
    )


def _row(parse: Parse, change: Change) -> str:
    def arc(head: int | None, label: str) -> str:
        if head is None:
            return "no arc"
        return f"{head} {parse.forms[head - 1] if head else 'ROOT'}: {'no label' if label == BLANK else label}"

    number, text = 'class="number"', 'dir="auto"'
    before = "" if change.before is None else f"{change.before:.2f}"
    cells = (
        (number, str(change.word)),
        (text, change.form),
        (text, arc(change.old_head, change.old_label)),
        (number, before),
        (text, arc(change.head, change.label)),
        (number, f"{change.after:.2f}"),
        (number, "tree" if change.step is None else str(change.step)),
    )
    return "<tr>" + "".join(f"<td {how}>{escape(visible(said))}</td>" for how, said in cells) + "</tr>"
