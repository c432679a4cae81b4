"""Count the changes made by refinement, and write the file of --changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from html import escape
from typing import TYPE_CHECKING, Any

from treefine.config import COLUMNS
from treefine.drawing.html import PAGE_END, page_start, tree_figure
from treefine.errors import TreefineError, count, safe_html, visible
from treefine.treebank.conllu import suffix_of
from treefine.treebank.files import open_output
from treefine.treebank.graph import Arcs
from treefine.treebank.schemes import UPOS, contradictions, follows_ud
from treefine.treebank.sentence import BLANK

if TYPE_CHECKING:
    from treefine.parsing.parse import Change, Parse

_KINDS = {".html": "html", ".htm": "html", ".json": "json", ".tsv": "tsv"}
_COLUMNS = (
    *("file", "line", "sentence", "sent_id", "word", "form"),
    *("old_head", "old_label", "head", "label", "before", "after", "step"),
    *(f"{old}{column}" for column in COLUMNS for old in ("old_", "")),
)
_PLACE, _TAGS = _COLUMNS.index("word"), _COLUMNS.index("old_upos")  # the columns before these name the sentence, an arc
_MOST = 8  # most frequent labels printed per kind; the file of --changes has all of them
_MOST_ON_PAGE = 24
_COUNTED = {  # rows of the summary with a number, and the words after it
    "words": "",
    "heads changed": "",
    "labels changed": " on words that kept their head",
    "new arcs": " on words that had no arc",
    "new labels": " on arcs that had no label",
}
_ALWAYS = ("words", "heads changed", "labels changed")  # the others have a row if they are not 0
_LISTED = (  # rows with the number of times of each value
    "tags replaced",
    "label against tag",
    "old and new tag",
    "old and new label",
    "same label, new head",
    "labels renamed",
    "labels ignored",
)
_STYLE = """
#summary td { max-width: 60rem; }
#summary th { vertical-align: top; }
section > p { overflow-wrap: anywhere; margin: 0.5rem 0; }
"""


class Changes:
    """Counts the changes of each sentence; `known` are the labels of the model.

    Arcs and labels of words that had none before are not changes; they are counted separately.
    """

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self.n: Counter[str] = Counter()  # sentences, and the rows in `_COUNTED`
        self.listed = {name: Counter[str]() for name in (*_LISTED, "converged")}
        self.trust: dict[tuple[float, ...], None] = {}  # the weights of the old arcs, in order

    def add(self, parse: Parse, arcs: Arcs) -> Parse:
        """Count the changes to the arcs in the file; return the parse with them as its initial graph.

        A label that was read under another name is reported under that name, unless the output has the old one.
        """
        parse = replace(parse, initial=Arcs(arcs.heads, self._old_labels(parse, arcs)))
        if parse.trust:
            self.trust[parse.trust] = None
        t = len(parse.steps)
        stopped = f"confident enough at step {t:,}" if parse.was_sure else f"not within {count(t, 'step')}"
        self.listed["converged"][f"at step {t:,}" if parse.converged else stopped] += 1
        changes = parse.changes
        self.n.update({"sentences": 1, "changed sentences": bool(changes), "words": len(parse)})
        for change in changes:
            self.listed["tags replaced"].update(each.upper() for each in COLUMNS if getattr(change, f"has_new_{each}"))
            if change.has_new_upos:
                self.listed["old and new tag"][f"{change.old_upos} → {change.upos}"] += 1
            if change.has_new_arc:
                self._add_arc(change)
        if follows_ud(self._known, UPOS):
            tags = [tags.upos for tags in parse.given_tags] or parse.upos
            against = {"before": contradictions(parse.initial, tags)}
            against["after"] = contradictions(parse.sentence.arcs, parse.upos)
            self.listed["label against tag"].update({name: len(found) for name, found in against.items()})
        return parse

    def _add_arc(self, change: Change) -> None:
        if change.old_head is None:
            self.n["new arcs"] += 1
            return
        has_new_head = change.old_head != change.head
        self.n["heads changed"] += has_new_head
        if change.old_label == BLANK:
            self.n["new labels"] += 1
        elif change.old_label == change.label:
            self.listed["same label, new head"][change.label] += 1
        else:
            self.n["labels changed"] += not has_new_head
            self.listed["old and new label"][f"{change.old_label} → {change.label}"] += 1

    def _old_labels(self, parse: Parse, arcs: Arcs) -> tuple[str, ...]:
        """Return the old labels for the report; count those that were renamed or ignored."""
        reported = []
        for head, old, read, label in zip(*arcs, parse.initial.labels, parse.labels, strict=True):
            is_read = read in self._known
            is_decided = old == label and old not in self._known  # only a user can have chosen it
            if head is not None and old != BLANK and not is_decided and not is_read:
                self.listed["labels ignored"][old] += 1
            elif head is not None and old != BLANK and not is_decided and read != old:
                self.listed["labels renamed"][f"{old} → {read}"] += 1
            reported.append(read if is_read and old != label else old)
        return tuple(reported)

    def rows(self, most: int = _MOST) -> list[tuple[str, str]]:
        """Return the rows of the summary: name and value. Labels are limited to the `most` frequent ones."""
        n = self.n
        rows = [("sentences", f"{n['sentences']:,}, {n['changed sentences']:,} of them changed")]
        rows += [(name, f"{n[name]:,}{after}") for name, after in _COUNTED.items() if n[name] or name in _ALWAYS]
        if weights := [weight for of_sources in self.trust for weight in of_sources]:
            listed = ", ".join(f"{weight:.2f}" for weight in weights)
            rows.append(("trust", listed if len(weights) <= most else f"{min(weights):.2f} to {max(weights):.2f}"))
        for name in _LISTED:
            if any((counted := self.listed[name]).values()):
                listed = ", ".join(f"{value} {times:,}" for value, times in counted.most_common(most))
                n_more = len(counted) - most
                rows.append((name, listed + (f", and {n_more:,} more" if n_more > 0 else "")))
        ended = [f"{100 * times / n['sentences']:.1f}% {how}" for how, times in self.listed["converged"].most_common()]
        return [*rows, ("converged", ", ".join(ended))] if ended else rows

    def lines(self) -> list[str]:
        """Return the summary as lines of text."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return [f"{name:{width}}  {visible(value)}" for name, value in rows]

    def values(self) -> dict[str, Any]:
        """Return all counts as JSON values."""
        weights = [round(weight, 4) for weights in self.trust for weight in weights]
        return {**{name: self.n[name] for name in ("sentences", "changed sentences", *_COUNTED)}, "trust": weights} | {
            name: dict(counted.most_common()) for name, counted in self.listed.items()
        }


def check_changes(path: str) -> str:
    """Return the format of a file of changes; raise an error if its extension names none."""
    kind = _KINDS.get(suffix_of(path))
    if kind is None:
        hint = "Choose a file name that ends in .html, .json or .tsv."
        raise TreefineError("--changes cannot write this kind of file.", hint=hint, path=path)
    return kind


@contextmanager
def open_changes(path: str, changes: Changes) -> Iterator[Callable[[Parse], None]]:
    """Yield a function that adds the changes of a parse; the complete file ends with the summary."""
    kind = check_changes(path)
    part, separator = {"html": (_html, ""), "json": (_json, ",\n"), "tsv": (_tsv, "")}[kind]
    is_first = True

    def add(parse: Parse) -> None:
        nonlocal is_first
        if changed := parse.changes:
            stream.write((separator * (not is_first) + part(parse, changed)).encode())
            is_first = False

    with open_output(path) as stream:
        stream.write(_start(kind).encode())
        yield add
        stream.write(_end(kind, changes).encode())


def _start(kind: str) -> str:
    if kind != "html":
        return "\t".join(_COLUMNS) + "\n" if kind == "tsv" else '{"changes": [\n'
    return page_start("Changes made by refinement", style=_STYLE) + (
        "<p>Each drawing shows the tree after refinement. Changes are in colour; old arcs are dashed and old labels "
        'struck out. Sentences without changes are left out. The <a href="#summary">summary</a> is at the end.</p>\n'
    )


def _end(kind: str, changes: Changes) -> str:
    if kind != "html":
        summary = json.dumps(changes.values(), ensure_ascii=False)
        return "" if kind == "tsv" else f'\n],\n"summary": {summary}}}\n'
    rows = "\n".join(
        f'<tr><th scope="row">{name}</th><td>{safe_html(value)}</td></tr>'
        for name, value in changes.rows(most=_MOST_ON_PAGE)
    )
    return f'<table id="summary">\n{rows}\n</table>\n{PAGE_END}'


def _tsv(parse: Parse, changes: Sequence[Change]) -> str:
    return "".join("\t".join(map(_cell, row.values())) + "\n" for row in _rows(parse, changes))


def _json(parse: Parse, changes: Sequence[Change]) -> str:
    return ",\n".join(json.dumps(row, ensure_ascii=False) for row in _rows(parse, changes))


def _rows(parse: Parse, changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    sentence = parse.sentence
    place = (sentence.path, sentence.line, sentence.number, sentence.sent_id)
    for change in changes:
        values = [round(value, 4) if isinstance(value, float) else value for value in astuple(change)]
        yield dict(zip(_COLUMNS, (*place, *values), strict=True))


def _cell(value: object) -> str:
    return BLANK if value in (None, "") else visible(str(value))


def _html(parse: Parse, changes: Sequence[Change]) -> str:
    sentence = parse.sentence
    place = f"{sentence.path}:{sentence.line}" + (f" ({sentence.sent_id})" if sentence.sent_id else "")
    columns = _COLUMNS[_PLACE:] if any(change.has_new_tag for change in changes) else _COLUMNS[_PLACE:_TAGS]
    rows = ["".join(f'<th scope="col">{name}</th>' for name in columns)]
    for row in _rows(parse, changes):
        rows.append("".join(f'<td dir="auto">{escape(_cell(row[name]))}</td>' for name in columns))
    table = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (
        # Number the section like the sentence, because unchanged sentences are left out.
        f'<section>\n<h2 dir="auto" style="counter-reset: sentence {sentence.number - 1}">'
        f"{safe_html(parse.text)}</h2>\n<p>{safe_html(place)}</p>\n"
        f"{tree_figure([parse.changed_picture()], 'Tree')}\n"
        f'<div class="scroll" tabindex="0" role="group" aria-label="Changes">'
        f"<table>\n{table}\n</table></div>\n</section>\n"
    )
