"""Count the changes made by refinement, and write the file of --changes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from html import escape
from typing import TYPE_CHECKING, Any

from treefine.config import COLUMNS
from treefine.drawing.html import page_end, page_start, tree_figure
from treefine.errors import TreefineError, count, visible
from treefine.treebank.conllu import suffix_of
from treefine.treebank.files import linked_file, not_written, open_output
from treefine.treebank.graph import Arcs
from treefine.treebank.schemes import UPOS, contradictions, follows_ud
from treefine.treebank.sentence import BLANK

if TYPE_CHECKING:
    from treefine.parsing.parse import Change, Parse

_KINDS = {".html": "html", ".htm": "html", ".json": "json", ".tsv": "tsv"}
_PLACE = ("file", "line", "sentence", "sent_id")
_ARC = ("old_head", "old_label", "head", "label", "before", "after", "step")
_COLUMNS = (*_PLACE, "word", "form", *_ARC, *(f"{old}{column}" for column in COLUMNS for old in ("old_", "")))
_MOST = 8  # most frequent labels printed per kind; the file of --changes has all of them
_MOST_ON_PAGE = 24
_ENDED = {  # how refinement ended, by the name in JSON
    "converged": "at step {:,}",
    "sure_enough": "confident enough at step {:,}",
    "not_converged": "not within {:,} step",
}
_NUMBER, _TEXT = 'class="number"', 'dir="auto"'
_STYLES = (_NUMBER, _TEXT, _TEXT, _NUMBER, _TEXT, _NUMBER, _NUMBER, _TEXT)  # of the cells of a change
_STYLE = """
table.summary td { max-width: 60rem; }
table.summary th { vertical-align: top; }
section > p { overflow-wrap: anywhere; margin: 0.5rem 0; }
"""


class Changes:
    """Counts the changes of each sentence; `known` are the labels of the model.

    Arcs and labels of words that had none before are not changes; they are counted separately.
    """

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self.n: Counter[str] = Counter()  # sentences, words, changed values and others, by their names in JSON
        self.moved: Counter[str] = Counter()  # by label: new head, same label
        self.relabelled: Counter[tuple[str, str]] = Counter()  # old and new label, same head
        self.replaced: Counter[tuple[str, str]] = Counter()  # old and new label, new head
        self.read_as: Counter[tuple[str, str]] = Counter()  # labels of the input, and the labels they were read as
        self.retagged: Counter[tuple[str, str]] = Counter()  # old and new UPOS
        self.ended: dict[str, Counter[int]] = {name: Counter() for name in _ENDED}  # sentences by their last step
        self.contradictions: Counter[str] = Counter()  # words whose label does not allow their UPOS, before and after
        self.trust: dict[tuple[float, ...], None] = {}  # the weights of the old arcs, in order

    def add(self, parse: Parse, arcs: Arcs) -> Parse:
        """Count the changes to the arcs in the file; return the parse with them as its initial graph.

        A label that was read under another name is reported under that name, unless the output has the old one.
        """
        parse = replace(parse, initial=Arcs(arcs.heads, self._old_labels(parse, arcs)))
        if parse.trust:
            self.trust[parse.trust] = None
        ending = "converged" if parse.converged else "sure_enough" if parse.was_sure else "not_converged"
        self.ended[ending][len(parse.steps)] += 1
        changes = parse.changes
        self.n.update({"sentences": 1, "words": len(parse), "changed_sentences": bool(changes)})
        for change in changes:
            self.n.update(column for column in COLUMNS if getattr(change, f"has_new_{column}"))
            if change.has_new_upos:
                self.retagged[change.old_upos, change.upos] += 1
                self.n["replaced_with_feats"] += change.old_feats == change.feats != BLANK
            labels = (change.old_label, change.label)
            if not change.has_new_arc:
                continue
            if change.old_head is None:
                self.n["new_arcs"] += 1
                continue
            self.n["heads"] += change.old_head != change.head
            if change.old_label == BLANK:
                self.n["new_labels"] += 1
            elif change.old_head == change.head:
                self.relabelled[labels] += 1
            elif change.old_label == change.label:
                self.moved[change.label] += 1
            else:
                self.replaced[labels] += 1
        if follows_ud(self._known, UPOS):
            tags = [tags.upos for tags in parse.given_tags] or parse.upos
            self.contradictions["before"] += len(contradictions(parse.initial, tags))
            self.contradictions["after"] += len(contradictions(parse.sentence.arcs, parse.upos))
        return parse

    def _old_labels(self, parse: Parse, arcs: Arcs) -> tuple[str, ...]:
        """Return the old labels for the report; count those that were renamed or ignored."""
        reported = []
        for head, old, read, label in zip(*arcs, parse.initial.labels, parse.labels, strict=True):
            is_read = read in self._known
            is_decided = old == label and old not in self._known  # only a user can have chosen it
            if head is not None and old != BLANK and not is_decided and (not is_read or read != old):
                self.read_as[old, read if is_read else BLANK] += 1
            reported.append(read if is_read and old != label else old)
        return tuple(reported)

    def rows(self, most: int = _MOST) -> list[tuple[str, str]]:
        """Return the rows of the summary: name and value. Labels are limited to the `most` frequent ones."""
        n = self.n
        rows = [
            ("sentences", f"{n['sentences']:,}, {n['changed_sentences']:,} of them changed"),
            ("words", f"{n['words']:,}"),
            ("heads changed", f"{n['heads']:,}"),
            ("labels changed", f"{self.relabelled.total():,} on words that kept their head"),
        ]
        if weights := [weight for of_sources in self.trust for weight in of_sources]:
            listed = ", ".join(f"{weight:.2f}" for weight in weights)
            rows.append(("trust", listed if len(weights) <= most else f"{min(weights):.2f} to {max(weights):.2f}"))
        if n["new_arcs"]:
            rows.append(("new arcs", f"{n['new_arcs']:,} on words that had no arc"))
        if n["new_labels"]:
            rows.append(("new labels", f"{n['new_labels']:,} on arcs that had no label"))
        if any(n[column] for column in COLUMNS):
            feats = n["replaced_with_feats"]
            kept = f"; {feats:,} of these words have FEATS, which stay" if feats else ""
            tags = [f"{each.upper()} {n[each]:,}" for each in COLUMNS if n[each] or each in ("upos", "xpos")]
            rows.append(("tags replaced", ", ".join(tags) + kept))
        if any(self.contradictions.values()):
            before, after = self.contradictions["before"], self.contradictions["after"]
            rows.append(("label against tag", f"{count(before, 'word')} before, {after:,} after"))
        renamed = Counter({names: times for names, times in self.read_as.items() if names[1] != BLANK})
        ignored = Counter({old: times for (old, new), times in self.read_as.items() if new == BLANK})
        for name, counted in (
            ("old and new tag", _arrows(self.retagged)),
            ("old and new label", _arrows(self.relabelled + self.replaced)),
            ("same label, new head", self.moved),
            ("labels renamed", _arrows(renamed)),
            ("labels ignored", ignored),
        ):
            if counted:
                listed = ", ".join(f"{name} {times:,}" for name, times in counted.most_common(most))
                n_more = len(counted) - most
                rest = f", and {n_more:,} more" if n_more > 1 else ", and one more" if n_more == 1 else ""
                rows.append((name, listed + rest))
        ended = [
            f"{100 * times / n['sentences']:.1f}% {how.format(t)}{'s' * (how.endswith('step') and t != 1)}"
            for name, how in _ENDED.items()
            for t, times in sorted(self.ended[name].items())
        ]
        return [*rows, ("converged", ", ".join(ended))] if ended else rows

    def lines(self) -> list[str]:
        """Return the summary as lines of text."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return [f"{name:{width}}  {visible(value)}" for name, value in rows]

    def values(self) -> dict[str, Any]:
        """Return all counts as JSON values."""

        def pairs(counted: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
            return [{"old": old, "new": new, "times": times} for (old, new), times in counted.most_common()]

        return {
            **{name: self.n[name] for name in ("sentences", "changed_sentences", "words", "heads")},
            "labels": self.relabelled.total(),
            "trust": [round(weight, 4) for weights in self.trust for weight in weights],
            **{name: self.n[name] for name in ("new_arcs", "new_labels")},
            "same_label": dict(self.moved.most_common()),
            "same_head": pairs(self.relabelled),
            "other_head_and_label": pairs(self.replaced),
            **{name: {str(t): times for t, times in sorted(ended.items())} for name, ended in self.ended.items()},
            "upos": pairs(self.retagged),
            **{name: self.n[name] for name in ("xpos", "feats", "lemma", "replaced_with_feats")},
            "contradictions": {name: self.contradictions[name] for name in ("before", "after")},
            "read_as": {old: None if new == BLANK else new for old, new in sorted(self.read_as)},
        }


def _arrows(pairs: Counter[tuple[str, str]]) -> Counter[str]:
    return Counter({f"{old} → {new}": times for (old, new), times in pairs.items()})


def check_changes(path: str) -> str:
    """Return the format of a file of changes; raise an error if its extension names none."""
    kind = _KINDS.get(suffix_of(path))
    if kind is None:
        hint = "Choose a file name that ends in .html, .json or .tsv."
        raise TreefineError("--changes cannot write this kind of file.", hint=hint, path=path)
    return kind


@contextmanager
def open_changes(path: str, changes: Changes) -> Iterator[Callable[[Parse], None]]:
    """Yield a function that adds the changes of a parse; the file appears at the end and starts with the summary.

    Until then the changes are in an unnamed temporary file in the same folder, so memory use stays constant.
    """
    kind = check_changes(path)
    part, separator = {"html": (_html, ""), "json": (_json, ",\n"), "tsv": (_tsv, "")}[kind]

    def add(parse: Parse) -> None:
        if changed := parse.changes:
            try:
                body.write((separator * bool(body.tell()) + part(parse, changed)).encode())
            except OSError as error:
                raise not_written(error.strerror or str(error), path) from error

    with tempfile.TemporaryFile(dir=linked_file(path).parent) as body:
        yield add
        body.seek(0)
        with open_output(path) as stream:
            start, end = _frame(kind, changes)
            stream.write(start.encode())
            shutil.copyfileobj(body, stream)
            stream.write(end.encode())


def _frame(kind: str, changes: Changes) -> tuple[str, str]:
    """Return the text before the changes and the text after them."""
    if kind == "tsv":
        return "\t".join(_COLUMNS) + "\n", ""
    if kind == "json":
        summary = json.dumps(changes.values(), ensure_ascii=False)
        return f'{{"summary": {summary},\n"changes": [\n', "\n]}\n"
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(visible(value))}</td></tr>'
        for name, value in changes.rows(most=_MOST_ON_PAGE)
    )
    n_left_out = changes.n["sentences"] - changes.n["changed_sentences"]
    note = (
        "<p>Each drawing shows the tree after refinement. Changes are in colour; old arcs are dashed and old labels "
        f"struck out. Left out: {count(n_left_out, 'sentence')} without changes.</p>"
    )
    start = page_start("Changes made by refinement", style=_STYLE)
    return f'{start}<table class="summary">\n{rows}\n</table>\n{note}\n', page_end()


def _tsv(parse: Parse, changes: Sequence[Change]) -> str:
    def cell(value: str | int | float | None) -> str:
        return BLANK if value in (None, "") else f"{value:.4f}" if isinstance(value, float) else visible(str(value))

    return "".join("\t".join(map(cell, values)) + "\n" for values in _values(parse, changes))


def _json(parse: Parse, changes: Sequence[Change]) -> str:
    rows = [
        {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in zip(_COLUMNS, row, strict=True)
        }
        for row in _values(parse, changes)
    ]
    return ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def _values(parse: Parse, changes: Sequence[Change]) -> Iterator[tuple[str | int | float | None, ...]]:
    """Yield the cells of each row."""
    sentence = parse.sentence
    for change in changes:
        yield (sentence.path, sentence.line, sentence.number, sentence.sent_id, *astuple(change))


def _html(parse: Parse, changes: Sequence[Change]) -> str:
    """Return a section with the number, text and place of a sentence, its tree, and a table of its changes."""
    sentence = parse.sentence
    place = f"{sentence.path}:{sentence.line}" + (f" ({sentence.sent_id})" if sentence.sent_id else "")
    tags = [
        ", ".join(
            f"{getattr(change, f'old_{column}')} → {getattr(change, column)}"
            for column in COLUMNS
            if getattr(change, f"has_new_{column}")
        )
        for change in changes
    ]
    names = ("", "word", "old arc", "confidence", "new arc", "confidence", "from step", *["tags"] * any(tags))
    rows = ["".join(f'<th scope="col">{name}</th>' for name in names)]
    for change, new_tags in zip(changes, tags, strict=True):
        before = "" if change.before is None else f"{change.before:.2f}"
        old, new = _arc(parse, change.old_head, change.old_label), _arc(parse, change.head, change.label)
        step = "tree" if change.step is None else str(change.step)
        cells = (str(change.word), change.form, old, before, new, f"{change.after:.2f}", step, new_tags)
        columns = list(zip(_STYLES, cells, strict=True))[: len(names)]
        rows.append("".join(f"<td {style}>{escape(visible(value))}</td>" for style, value in columns))
    table = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (
        # Number the section like the sentence, because unchanged sentences are left out.
        f'<section>\n<h2 dir="auto" style="counter-reset: sentence {sentence.number - 1}">'
        f"{escape(visible(parse.text))}</h2>\n<p>{escape(visible(place))}</p>\n"
        f"{tree_figure([parse.changed_picture()], 'Tree')}\n"
        f'<div class="scroll" tabindex="0" role="group" aria-label="Changes">'
        f"<table>\n{table}\n</table></div>\n</section>\n"
    )


def _arc(parse: Parse, head: int | None, label: str) -> str:
    if head is None:
        return "no arc"
    return f"{head} {parse.forms[head - 1] if head else 'ROOT'}: {'no label' if label == BLANK else label}"
