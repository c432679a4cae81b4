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
from typing import TYPE_CHECKING, Any, Literal

from treefine.config import COLUMNS
from treefine.drawing.characters import visible
from treefine.drawing.html import page_end, page_start, tree_figure
from treefine.errors import TreebankError, TreefineError
from treefine.treebank.files import linked_file, open_output
from treefine.treebank.formats import suffix_of
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK
from treefine.treebank.tag_rules import UPOS, contradictions, follows_ud
from treefine.wording import count

if TYPE_CHECKING:
    from treefine.parsing.parse import Change, Parse

_Kind = Literal["html", "json", "tsv"]
_KINDS: dict[str, _Kind] = {".html": "html", ".htm": "html", ".json": "json", ".tsv": "tsv"}
_PLACE = ("file", "line", "sentence", "sent_id")
_ARC = ("old_head", "old_label", "head", "label", "before", "after", "step")
_COLUMNS = (*_PLACE, "word", "form", *_ARC, *(f"{old}{each}" for each in COLUMNS for old in ("old_", "")))
_MOST = 8  # most frequent labels printed per kind; the file of --changes has all of them
_MOST_ON_PAGE = 24
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
        self.n_sentences = self.n_words = 0
        self.n_changed = 0  # sentences
        self.n_heads = 0  # words whose head changed
        self.n_added = 0  # arcs of words that had no arc
        self.n_named = 0  # labels of arcs that had no label
        self.moved: Counter[str] = Counter()  # by label: new head, same label
        self.relabelled: Counter[tuple[str, str]] = Counter()  # old and new label, same head
        self.replaced: Counter[tuple[str, str]] = Counter()  # old and new label, new head
        self.converged: Counter[int] = Counter()  # sentences by the step that changed nothing
        self.sure: Counter[int] = Counter()  # sentences that exceeded --stop-above, by step
        self.unfinished: Counter[int] = Counter()  # other sentences, by number of steps
        self.trust: dict[tuple[float, ...], None] = {}  # the weights of the old arcs, in order
        self.read_as: Counter[tuple[str, str]] = Counter()  # labels of the input, and the labels they were read as
        self.retagged: Counter[tuple[str, str]] = Counter()  # old and new UPOS
        self.n_retagged = Counter[str]()  # words whose value was replaced, by column
        self.n_feats_kept = 0  # words with a new UPOS whose FEATS are not blank and stay
        self.n_contradictions = Counter[str]()  # words whose label does not allow their UPOS, before and after

    def add(self, parse: Parse, given: Arcs) -> Parse:
        """Count the changes to the arcs given in the file; return the parse with them as its initial graph.

        A label that was read under another name is reported under that name, unless the output has the old one.
        """
        parse = replace(parse, initial=Arcs(given.heads, self._old_labels(parse, given)))
        self.n_sentences += 1
        self.n_words += len(parse)
        if parse.trust:
            self.trust[parse.trust] = None
        ended = self.converged if parse.converged else self.sure if parse.was_sure else self.unfinished
        ended[len(parse.steps)] += 1
        changes = parse.changes
        self.n_changed += bool(changes)
        self._add_tags(parse, changes)
        for each in changes:
            labels = (each.old_label, each.label)
            if not each.has_new_arc:
                continue
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

    def _add_tags(self, parse: Parse, changes: Sequence[Change]) -> None:
        """Count the replaced tags, and the labels that do not allow their tags before and after."""
        for each in changes:
            self.n_retagged.update(column for column in COLUMNS if getattr(each, f"has_new_{column}"))
            if each.has_new_upos:
                self.retagged[each.old_upos, each.upos] += 1
                self.n_feats_kept += each.old_feats == each.feats != BLANK
        if not follows_ud(self._known, UPOS):
            return
        given = [each.upos for each in parse.given_tags] or parse.upos
        self.n_contradictions["before"] += len(contradictions(parse.initial, given))
        self.n_contradictions["after"] += len(contradictions(parse.sentence.arcs, parse.upos))

    def _old_labels(self, parse: Parse, given: Arcs) -> tuple[str, ...]:
        """Return the old labels for the report; count those that were renamed or ignored."""
        reported = []
        for head, own, read, label in zip(*given, parse.initial.labels, parse.labels, strict=True):
            is_read = read in self._known
            is_decided = own == label and own not in self._known  # only a user can have chosen it
            if head is not None and own != BLANK and not is_decided and (not is_read or read != own):
                self.read_as[own, read if is_read else BLANK] += 1
            reported.append(read if is_read and own != label else own)
        return tuple(reported)

    def rows(self, most: int = _MOST) -> list[tuple[str, str]]:
        """Return the rows of the summary: name and value. Labels are limited to the `most` frequent ones."""
        found = [
            ("sentences", f"{self.n_sentences:,}, {self.n_changed:,} of them changed"),
            ("words", f"{self.n_words:,}"),
            ("heads changed", f"{self.n_heads:,}"),
            ("labels changed", f"{self.relabelled.total():,} on words that kept their head"),
        ]
        if self.trust:
            weights = [weight for of_sources in self.trust for weight in of_sources]
            listed = ", ".join(f"{weight:.2f}" for weight in weights)
            found.append(("trust", listed if len(weights) <= most else f"{min(weights):.2f} to {max(weights):.2f}"))
        if self.n_added:
            found.append(("new arcs", f"{self.n_added:,} on words that had no arc"))
        if self.n_named:
            found.append(("new labels", f"{self.n_named:,} on arcs that had no label"))
        if self.n_retagged:
            kept = f"; {self.n_feats_kept:,} of these words have FEATS, which stay" if self.n_feats_kept else ""
            counts = [
                f"{column.upper()} {self.n_retagged[column]:,}"
                for column in COLUMNS
                if self.n_retagged[column] or column in ("upos", "xpos")
            ]
            found.append(("tags replaced", ", ".join(counts) + kept))
        if any(self.n_contradictions.values()):
            before, after = (self.n_contradictions[each] for each in ("before", "after"))
            found.append(("label against tag", f"{count(before, 'word')} before, {after:,} after"))
        tags = {f"{old} → {new}": n for (old, new), n in self.retagged.items()}
        labels = {f"{old} → {new}": n for (old, new), n in (self.relabelled + self.replaced).items()}
        other = {f"{old} → {new}": n for (old, new), n in self.read_as.items() if new != BLANK}
        unread = {old: n for (old, new), n in self.read_as.items() if new == BLANK}
        for name, counted in (
            ("old and new tag", tags),
            ("old and new label", labels),
            ("same label, new head", self.moved),
            ("labels renamed", other),
            ("labels ignored", unread),
        ):
            if counted:
                found.append((name, _most_frequent(Counter(counted), most)))
        shares = [f"{self._share(n)} at step {t}" for t, n in sorted(self.converged.items())]
        shares += [f"{self._share(n)} confident enough at step {t}" for t, n in sorted(self.sure.items())]
        shares += [f"{self._share(n)} not within {count(t, 'step')}" for t, n in sorted(self.unfinished.items())]
        if shares:
            found.append(("converged", ", ".join(shares)))
        return found

    def lines(self) -> list[str]:
        """Return the summary as lines of text."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return [f"{name:{width}}  {visible(said)}" for name, said in rows]

    def values(self) -> dict[str, Any]:
        """Return all counts as JSON values."""

        def pairs(counted: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
            return [{"old": old, "new": new, "times": n} for (old, new), n in counted.most_common()]

        return {
            "sentences": self.n_sentences,
            "changed_sentences": self.n_changed,
            "words": self.n_words,
            "heads": self.n_heads,
            "labels": self.relabelled.total(),
            "trust": [round(weight, 4) for weights in self.trust for weight in weights],
            "new_arcs": self.n_added,
            "new_labels": self.n_named,
            "same_label": dict(self.moved.most_common()),
            "same_head": pairs(self.relabelled),
            "other_head_and_label": pairs(self.replaced),
            "converged": {str(t): n for t, n in sorted(self.converged.items())},
            "sure_enough": {str(t): n for t, n in sorted(self.sure.items())},
            "not_converged": {str(t): n for t, n in sorted(self.unfinished.items())},
            "upos": pairs(self.retagged),
            "xpos": self.n_retagged["xpos"],
            "feats": self.n_retagged["feats"],
            "lemma": self.n_retagged["lemma"],
            "replaced_with_feats": self.n_feats_kept,
            "contradictions": {name: self.n_contradictions[name] for name in ("before", "after")},
            "read_as": {old: None if new == BLANK else new for old, new in sorted(self.read_as)},
        }

    def _share(self, number: int) -> str:
        return f"{100 * number / self.n_sentences:.1f}%"


def _most_frequent(counted: Counter[str], most: int) -> str:
    listed = [f"{name} {n:,}" for name, n in counted.most_common(most)]
    rest = len(counted) - len(listed)
    return ", ".join([*listed, *([f"and {rest:,} more" if rest > 1 else "and one more"] if rest else [])])


def kind_of(path: str) -> _Kind:
    """Return the file format that the extension names."""
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
        unnamed = tempfile.TemporaryFile(dir=linked_file(path).parent)
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
    """Return the text before the changes and the text after them."""
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
        "<p>Each drawing shows the tree after refinement. Changes are in colour; old arcs are dashed and old labels "
        f"struck out. Left out: {count(n_left_out, 'sentence')} without changes.</p>"
    )
    return (
        f'{page_start("Changes made by refinement", style=_STYLE)}<table class="summary">\n{rows}\n</table>\n{note}\n',
        page_end(),
    )


def _tsv(parse: Parse, found: Sequence[Change]) -> str:
    def cell(value: str | int | float | None) -> str:
        if isinstance(value, str) and value:
            return visible(value)
        return f"{value:.4f}" if isinstance(value, float) else BLANK if value in (None, "") else str(value)

    return "".join("\t".join(map(cell, values)) + "\n" for values in _values(parse, found))


def _json(parse: Parse, found: Sequence[Change]) -> str:
    values = [
        {name: round(each, 4) if isinstance(each, float) else each for name, each in zip(_COLUMNS, value, strict=True)}
        for value in _values(parse, found)
    ]
    return ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)


def _values(parse: Parse, found: Sequence[Change]) -> Iterator[tuple[str | int | float | None, ...]]:
    """Yield the cells of each row."""
    sentence = parse.sentence
    for each in found:
        yield (sentence.path, sentence.line, sentence.number, sentence.sent_id, *astuple(each))


def _html(parse: Parse, found: Sequence[Change]) -> str:
    """Return a section with the number, text and place of a sentence, its tree, and a table of its changes."""
    sentence = parse.sentence
    place = f"{sentence.path}:{sentence.line}" + (f" ({sentence.sent_id})" if sentence.sent_id else "")
    has_tags = any(map(_new_tags, found))
    rows = "\n".join(_row(parse, each, has_tags=has_tags) for each in found)
    names = ("", "word", "old arc", "confidence", "new arc", "confidence", "from step", *["tags"] * has_tags)
    header = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        # Number the section like the sentence, because unchanged sentences are left out.
        f'<section>\n<h2 dir="auto" style="counter-reset: sentence {sentence.number - 1}">'
        f"{escape(visible(parse.text))}</h2>\n<p>{escape(visible(place))}</p>\n"
        f"{tree_figure([parse.changed_picture()], 'Tree')}\n"
        f'<div class="scroll" tabindex="0" role="group" aria-label="Changes">'
        f"<table>\n<tr>{header}</tr>\n{rows}\n</table></div>\n</section>\n"
    )


def _new_tags(change: Change) -> str:
    """Return the replaced tags, features and lemma of a word, as old → new."""
    return ", ".join(
        f"{getattr(change, f'old_{column}')} → {getattr(change, column)}"
        for column in COLUMNS
        if getattr(change, f"has_new_{column}")
    )


def _row(parse: Parse, change: Change, *, has_tags: bool) -> str:
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
        *([(text, _new_tags(change))] if has_tags else []),
    )
    return "<tr>" + "".join(f"<td {how}>{escape(visible(said))}</td>" for how, said in cells) + "</tr>"
