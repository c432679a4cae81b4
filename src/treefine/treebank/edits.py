"""Edit a sentence of CoNLL-U by hand. Each function returns a new sentence and changes only what the edit requires.

Words are numbered from 1, and head 0 is ROOT. An edit that is not possible raises TreebankError. All edits change the
rows of a sentence, where words still have their old numbers; then `_rebuilt` numbers the rows and all references.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from treefine.treebank.graph import ROOT, Arcs
from treefine.treebank.raw_text import Span, gap_of, spans_in
from treefine.treebank.sentence import BLANK, Sentence, Token, deps_order, is_list_like

_Row: TypeAlias = "list[str]"  # the cells of one line; the ID of a new word is "3+" if it was split from word 3
_FORM, _HEAD, _LABEL, _DEPS, _MISC = 1, 6, 7, 8, 9  # columns
_COLUMNS = {"form": _FORM, "lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deps": _DEPS, "misc": _MISC}
_AFTER, _BEFORE = ("SpaceAfter", "SpacesAfter"), ("SpacesBefore",)  # notes in MISC about the spaces around a token
_REFERRING = ("NotHead", "CopyOf")  # notes in MISC that contain word numbers
_ONLY_HERE = re.compile(r"sent_id|text|new(doc|par)\b.*")  # keys of comments that do not suit another sentence
_FEATURE = re.compile(r"[^\s=|]+=[^\s=|]+")
_BREAK = re.compile("[\n\r\0\ud800-\udfff]")  # line breaks and other characters that no line can hold


def set_arc(sentence: Sentence, word: int, head: int, label: str | None = None) -> Sentence:
    """Attach a word to a head, and keep a tree a tree.

    Without a label, the word keeps its label, but a word attached to ROOT gets `root`, and a word that was the root
    gets `dep`. If the new head is below the word, the branch with the new head takes over the old head and label of the
    word. In UD, a new root becomes the head of the old root, with the label `dep`.

    >>> sentence = Sentence.of_words(["a", "b", "c"]).with_arcs(Arcs((0, 1, 2), ("root", "obj", "det")))
    >>> set_arc(sentence, 1, 3, "nsubj").arcs
    Arcs(heads=(3, 0, 2), labels=('nsubj', 'root', 'det'))
    >>> set_arc(sentence, 2, 0).arcs
    Arcs(heads=(2, 0, 2), labels=('dep', 'root', 'det'))
    """
    for each in (word, head or word):
        _token_of(sentence, each)
    if head == word:
        raise sentence.error("A word cannot be its own head.", word=word, hint="Choose another word, or 0 for ROOT.")
    heads, labels = [None, *sentence.heads], ["", *sentence.labels]
    old_head, old_label = heads[word], labels[word]
    path = _upward(heads, head)
    if word in path and word not in _upward(heads, old_head):  # below the word, and the word is not in a cycle
        branch = path[path.index(word) - 1]
        heads[branch], labels[branch] = old_head, old_label
    if label is None:
        leaves_root = old_head == ROOT and old_label.lower() == "root"
        label = "root" if head == ROOT else "dep" if leaves_root else old_label
    if head == ROOT and sentence.format.is_ud:
        for other in range(1, len(heads)):
            if heads[other] == ROOT and other != word:
                heads[other], labels[other] = word, "dep"
    heads[word], labels[word] = head, _cell(sentence, label, word)
    return sentence.with_arcs(Arcs(tuple(heads[1:]), tuple(labels[1:])))


def set_cell(sentence: Sentence, word: int, column: str, value: str) -> Sentence:
    """Change the form, lemma, upos, xpos, feats, deps or misc of a word; an empty value means "_".

    Features are sorted as UD requires. A new form also replaces the old one in `# text`.
    """
    token, rows, comments = _token_of(sentence, word), _rows(sentence), sentence.comments
    if column not in _COLUMNS:
        raise sentence.error(f"There is no column {column!r} to edit.", hint=f"Choose one of {', '.join(_COLUMNS)}.")
    cell = _cell(sentence, value, word)
    if column == "feats" and cell != BLANK:
        features = sorted(cell.split("|"), key=str.lower)
        names = {feature.partition("=")[0] for feature in features if _FEATURE.fullmatch(feature)}
        if len(names) < len(features):
            hint = "Write Name=Value|Name=Value, each name once, as in Case=Nom|Number=Sing."
            raise sentence.error(f"FEATS cannot be {cell!r}.", word=word, hint=hint)
        cell = "|".join(features)
    elif column == "form" and len(token.words) == 1:
        comments = _rewritten(sentence, token.words, cell)
    _row(rows, word)[_COLUMNS[column]] = cell
    return _rebuilt(sentence, rows, comments)


def split_word(sentence: Sentence, word: int, forms: Sequence[str]) -> Sentence:
    """Replace a word by several words; the first keeps its columns and dependents, the others attach to it as `dep`.

    The forms of a word that is a token of its own must spell it; a word of a multiword token can have any forms.
    """
    token, rows = _token_of(sentence, word), _rows(sentence)
    new = _divided(sentence, _row(rows, word), forms)
    if len(token.words) == 1 and not _spell(new, token):
        hint = "To give its words other forms, make it a multiword token."
        raise sentence.error(f"The new forms do not spell {token.form!r}.", word=word, hint=hint)
    return _rebuilt(sentence, _replaced(rows, word, new))


def join_words(sentence: Sentence, first: int, last: int) -> Sentence:
    """Replace adjacent words by one word, written as in the text; arcs to any of them now go to the new word.

    Its lemma, tags, head and label are those of the topmost word: the first word whose head is outside of the range and
    not below a word of the range. A multiword token disappears if only one word is left of it.
    """
    words = _checked_range(sentence, first, last)
    tokens = [token for token in sentence.tokens() if set(token.words) & set(words)]
    is_whole = tokens[0].words[0] == first and tokens[-1].words[-1] == last
    if not is_whole and len(tokens) > 1:
        hint = "Join all its words, or remove the multiword token first."
        raise sentence.error("Only a part of a multiword token would be joined.", word=first, hint=hint)
    heads, rows = [None, *sentence.heads], _rows(sentence)

    def distance_from_top(word: int) -> tuple[bool, bool, bool]:
        head = heads[word]
        return head in words, head is None, any(above in words for above in _upward(heads, head))

    top = min(words, key=distance_from_top)
    new = list(_row(rows, top))
    form = _written(sentence, words) if is_whole else "".join(sentence.forms[first - 1 : last])
    new[_FORM] = _cell(sentence, form, first)
    if is_whole:
        _take_notes(new, _BEFORE, tokens[0].misc)
        _take_notes(new, _AFTER, tokens[-1].misc)
    gone = {str(word) for word in words[1:]}
    rows = _replaced([row for row in rows if row[0] not in gone], first, [new])
    return _rebuilt(sentence, _numbered(sentence, rows, merged={str(word): str(top) for word in words}))


def make_multiword(sentence: Sentence, first: int, last: int) -> Sentence:
    """Make adjacent words one multiword token, written as in the text."""
    words, rows = _checked_range(sentence, first, last), _rows(sentence)
    for word in words:
        _single_token(sentence, word, hint="Remove that multiword token first.")
        _take_notes(_row(rows, word), (*_BEFORE, *_AFTER), BLANK)
    token = _range_row(sentence, words, _cell(sentence, _written(sentence, words), first))
    return _rebuilt(sentence, _replaced(rows, first, [token, _row(rows, first)]))


def split_into_multiword(sentence: Sentence, word: int, forms: Sequence[str]) -> Sentence:
    """Make a word a multiword token of several words with these forms, attached as `split_word` does."""
    token, rows = _single_token(sentence, word, hint="Split the word instead."), _rows(sentence)
    new = _divided(sentence, _row(rows, word), forms)
    _take_notes(new[0], (*_BEFORE, *_AFTER), BLANK)
    return _rebuilt(sentence, _replaced(rows, word, [_range_row(sentence, token.words, token.form), *new]))


def remove_multiword(sentence: Sentence, word: int) -> Sentence:
    """Remove the multiword token of a word: its words become tokens, and `# text` follows their spelling."""
    token, rows, comments = _token_of(sentence, word), _rows(sentence), sentence.comments
    if len(token.words) == 1:
        hint = "Choose a word of a multiword token."
        raise sentence.error("The word is not part of a multiword token.", word=word, hint=hint)
    words = [_row(rows, number) for number in token.words]
    if not _spell(words, token):
        comments = _rewritten(sentence, token.words, "".join(row[_FORM] for row in words))
    return _rebuilt(sentence, [row for row in rows if row[0] != token.id], comments)


def split_sentence(sentence: Sentence, word: int) -> tuple[Sentence, Sentence]:
    """Split a sentence into two; the second starts at this word.

    A half without a root gets one: its first word whose head is in the other half. Other words with a head in the other
    half attach to the root. Comments stay with the first half; the second gets `# text` and a new `# sent_id`.
    """
    token = _token_of(sentence, word)
    if word == 1:
        raise sentence.error("The second sentence cannot start at word 1.", word=1, hint="Choose a later word.")
    if word != token.words[0]:
        message = f"The border would be inside of the multiword token {token.id}."
        raise sentence.error(message, word=word, hint="Remove the multiword token first.")
    halves = range(1, word), range(word, len(sentence) + 1)
    heads, labels = [None, *sentence.heads], ["", *sentence.labels]
    for half in halves:
        roots = [word for word in half if heads[word] == ROOT]
        outside = [word for word in half if heads[word] not in (None, ROOT, *half)]
        if not roots and outside:
            heads[outside[0]], labels[outside[0]] = ROOT, "root"
            roots, outside = outside[:1], outside[1:]
        for each in outside + roots[1:]:
            heads[each], labels[each] = roots[0], "dep" if labels[each] == "root" else labels[each]
    rows = _rows(sentence.with_arcs(Arcs(tuple(heads[1:]), tuple(labels[1:]))))
    border = next(line for line, row in enumerate(rows) if row[0].partition("-")[0] == str(word))
    comments, new_comments = sentence.comments, tuple[str, ...]()
    if sentence.sent_id:
        new_comments = _commented(new_comments, "sent_id", f"{sentence.sent_id}-2")
    if sentence.text is not None:
        texts = [_written(sentence, half) for half in halves]
        comments, new_comments = _commented(comments, "text", texts[0]), _commented(new_comments, "text", texts[1])
    first = _rebuilt(sentence, rows[:border], comments)
    second = _rebuilt(sentence, rows[border:], new_comments)
    first = replace(first, layout=first.layout._replace(end=sentence.layout.newline * 2))
    return first, replace(second, layout=second.layout._replace(start=""), line=0, number=sentence.number + 1)


def join_sentences(first: Sentence, second: Sentence) -> Sentence:
    """Join two sentences into one; the root of the second attaches to the root of the first as `parataxis`."""
    comments, keys = first.comments, set(map(_key, first.comments))
    if first.text is not None or second.text is not None:
        *_, last = first.tokens()
        texts = [each.text or _written(each, range(1, len(each) + 1)) for each in (first, second)]
        comments = _commented(comments, "text", (" " if gap_of(last.misc) else "").join(texts))
    added = [line for line in second.comments if not (_key(line) in keys or _ONLY_HERE.fullmatch(_key(line)))]
    n_empty = sum(identifier.startswith(f"{len(first)}.") for identifier in first.columns[0])
    rows = [*_rows(first), *_numbered(second, _rows(second), after=(len(first), n_empty))]
    joined = _rebuilt(first, rows, (*comments, *added))
    joined = replace(joined, layout=joined.layout._replace(end=second.layout.end))
    heads, labels = list(joined.heads), list(joined.labels)
    for place in range(len(first), len(joined)):
        if heads[place] == ROOT and ROOT in first.heads:
            heads[place], labels[place] = first.heads.index(ROOT) + 1, "parataxis"
    return joined.with_arcs(Arcs(tuple(heads), tuple(labels)))


def set_comment(sentence: Sentence, key: str, value: str | None) -> Sentence:
    """Set the comment `# key = value`, in its place if there is one, or remove it if the value is None."""
    _check_comments(sentence, [key, value or ""])
    if not key.strip() or "=" in key:
        raise sentence.error(f"{key!r} cannot be the key of a comment.", hint="Write a word such as text_en.")
    return _rebuilt(sentence, _rows(sentence), _commented(sentence.comments, key.strip(), value and value.strip()))


def set_comments(sentence: Sentence, lines: Iterable[str]) -> Sentence:
    """Replace all comments by these lines; add "# " where it is missing, and drop blank lines.

    >>> set_comments(Sentence.of_words(["Yes"]), ["sent_id = s1", "", "#checked"]).comments
    ('# sent_id = s1', '#checked')
    """
    lines = [line for line in lines if line.strip()]
    _check_comments(sentence, lines)
    comments = tuple([line if line.startswith("#") else f"# {line.strip()}" for line in lines])
    return _rebuilt(sentence, _rows(sentence), comments)


def _rows(sentence: Sentence) -> list[_Row]:
    if not sentence.format.is_ud:
        hint = "Convert the file to CoNLL-U first."
        raise sentence.error(f"Sentences in {sentence.format.title} cannot be edited.", hint=hint)
    return [list(row) for row in zip(*sentence.columns, strict=True)]


def _rebuilt(sentence: Sentence, rows: Sequence[_Row], comments: tuple[str, ...] | None = None) -> Sentence:
    """Return the sentence with these rows, which are numbered, and these comments in place of its own."""
    rows = _numbered(sentence, rows)
    comments = sentence.comments if comments is None else comments
    lines = [line for line, row in enumerate(rows) if row[0].isdecimal()]
    words = tuple(lines) if len(lines) < len(rows) else range(len(rows))
    layout, n_lines = sentence.layout, len(comments) + len(rows)
    if n_lines != len(sentence.comments) + len(sentence.columns[0]):
        layout = layout._replace(newlines=layout.newline if n_lines > 1 else "\n")
    columns = tuple(zip(*rows, strict=True))
    return replace(sentence, comments=comments, columns=columns, word_lines=words, layout=layout)


def _numbered(
    sentence: Sentence, rows: Sequence[_Row], *, merged: Mapping[str, str] = {}, after: tuple[int, int] = (0, 0)
) -> list[_Row]:
    """Give the rows new numbers in order, and change all references to words and empty nodes accordingly.

    References to words without a row are dropped, unless `merged` names the word that replaced them. `after` is the
    number of words before the rows, and of empty nodes after the last of these words.
    """
    word, empty = after
    moved: dict[str, str | None] = dict.fromkeys(sentence.columns[0])
    ends: dict[str, int] = {}  # the last new word of each old word
    for identifier in [row[0] for row in rows if "-" not in row[0]]:
        is_empty_node = "." in identifier
        word, empty = (word, empty + 1) if is_empty_node else (word + 1, 0)
        moved[identifier] = f"{word}.{empty}" if is_empty_node else str(word)
        ends[identifier.rstrip("+")] = word
    for old, new in merged.items():
        moved[old], ends[old] = moved[new], ends[new]
    for identifier in [row[0] for row in rows if "-" in row[0]]:
        first, last = identifier.split("-")
        moved[identifier] = f"{moved[first]}-{ends[last]}" if moved[first] != str(ends[last]) else None
    return [_moved(row, moved) for row in rows if moved[row[0]] is not None]


def _moved(row: _Row, moved: Mapping[str, str | None]) -> _Row:
    """Return the row with its new number and new references; no word refers to itself because of a merge."""
    number = moved[row[0]] or ""

    def refer(old: str) -> str | None:
        new = moved.get(old, old)
        return None if new == number and old != row[0] else new

    new = [number, *row[1:]]
    if number.isdecimal():
        new[_HEAD] = refer(row[_HEAD]) or BLANK
    new[_DEPS] = _moved_deps(row[_DEPS], refer)
    new[_MISC] = _moved_misc(row[_MISC], refer)
    return new


def _moved_deps(deps: str, refer: Callable[[str], str | None]) -> str:
    """Return DEPS with new references; sort it again if it was sorted, because a merge can change the order."""
    old = deps.split("|")
    parts = [entry.partition(":") for entry in old]
    moved = [f"{new}{colon}{label}" for head, colon, label in parts if (new := refer(head)) is not None]
    moved = moved if moved == old else list(dict.fromkeys(moved))
    return "|".join(sorted(moved, key=deps_order) if old == sorted(old, key=deps_order) else moved) or BLANK


def _moved_misc(misc: str, refer: Callable[[str], str | None]) -> str:
    """Return MISC with new references; drop a note that has no reference left."""
    notes = []
    for note in misc.split("|"):
        name, _, value = note.partition("=")
        numbers = value.split(",")
        moved = [new for old in numbers if (new := refer(old)) is not None] if name in _REFERRING else numbers
        if moved:
            notes.append(note if moved == numbers else f"{name}={','.join(dict.fromkeys(moved))}")
    return "|".join(notes) or BLANK


def _divided(sentence: Sentence, row: _Row, forms: Sequence[str]) -> list[_Row]:
    """Return one row per form: the first keeps the cells of the word, and blank rows for the others attach to it."""
    word = int(row[0])
    if not is_list_like(forms) or len(forms) < 2 or not all(map(str.strip, forms)):
        hint = 'Write them as in ["can", "not"]; none may be empty.'
        raise sentence.error("A word can only be split into two or more forms.", word=word, hint=hint)
    rows = [list(row), *[[row[0] + "+" * number, *[BLANK] * (len(row) - 1)] for number in range(1, len(forms))]]
    for new, form in zip(rows, forms, strict=True):
        new[_FORM] = _cell(sentence, form, word)
    for new in rows[1:]:
        new[_HEAD], new[_LABEL] = row[0], "dep"
        new[_DEPS] = BLANK if row[_DEPS] == BLANK else f"{row[0]}:dep"
    return rows


def _upward(heads: Sequence[int | None], word: int | None) -> list[int]:
    """Return the word and all words above it. The path ends at ROOT, at a blank head, or before a word repeats."""
    path: dict[int, None] = {}
    while word and word not in path:
        path[word] = None
        word = heads[word]
    return list(path)


def _token_of(sentence: Sentence, word: int) -> Token:
    """Return the token of a word; raise an error if there is no such word."""
    for token in sentence.tokens():
        if word in token.words:
            return token
    raise sentence.error(f"There is no word {word}.", hint=f"The last word is {len(sentence)}.")


def _row(rows: Sequence[_Row], word: int) -> _Row:
    return next(row for row in rows if row[0] == str(word))


def _replaced(rows: Sequence[_Row], word: int, new: Sequence[_Row]) -> list[_Row]:
    """Return the rows with new rows in place of the row of a word."""
    return [each for row in rows for each in (new if row[0] == str(word) else [row])]


def _range_row(sentence: Sentence, words: range, form: str) -> _Row:
    """Return the row of a multiword token, with the spaces around these words."""
    row = [f"{words[0]}-{words[-1]}", *[BLANK] * (len(sentence.columns) - 1)]
    row[_FORM] = form
    _take_notes(row, _BEFORE, sentence[words[0] - 1].misc)
    _take_notes(row, _AFTER, sentence[words[-1] - 1].misc)
    return row


def _take_notes(row: _Row, names: Collection[str], source: str) -> None:
    """Replace the notes with these names in MISC of a row by those of another MISC."""
    notes = row[_MISC].split("|")
    ours, theirs = ([note for note in each if note.partition("=")[0] in names] for each in (notes, source.split("|")))
    if ours != theirs:
        row[_MISC] = "|".join([*[note for note in notes if note not in (*ours, BLANK)], *theirs]) or BLANK


def _spell(rows: Sequence[_Row], token: Token) -> bool:
    """Write the spaces between rows that replace a token to MISC; return whether their forms spell the token."""
    found = re.fullmatch(r"(\s*)".join(re.escape(row[_FORM]) for row in rows), token.form)
    gaps = found.groups() if found else [""] * (len(rows) - 1)
    for row, gap in zip(rows, gaps, strict=False):
        _take_notes(row, _AFTER, BLANK if gap else "SpaceAfter=No")
    _take_notes(rows[0], _BEFORE, token.misc)
    _take_notes(rows[-1], _AFTER, token.misc)
    return found is not None


def _span(sentence: Sentence, words: range) -> Span | None:
    """Return the span of these words in `# text`, or None if they or words before them are not found there."""
    spans = spans_in(sentence.text or "", sentence)[: words[-1]]
    return (spans[words[0] - 1][0], spans[-1][1]) if all(start < end for start, end in spans) else None


def _written(sentence: Sentence, words: range) -> str:
    """Return the tokens of these words as written in `# text`, or else as their forms and MISC say."""
    if span := _span(sentence, words):
        return (sentence.text or "")[span[0] : span[1]]
    tokens = [token for token in sentence.tokens() if token.words[0] in words]
    gaps = [" " if gap_of(token.misc) else "" for token in tokens]
    return "".join(token.form + gap for token, gap in zip(tokens, [*gaps[:-1], ""], strict=True))


def _rewritten(sentence: Sentence, words: range, form: str) -> tuple[str, ...]:
    """Return the comments with this form in the place of these words in `# text`, if they are found there."""
    text, span = sentence.text, _span(sentence, words)
    if text is None or span is None or text[span[0] : span[1]] == form:
        return sentence.comments
    return _commented(sentence.comments, "text", text[: span[0]] + form + text[span[1] :])


def _key(comment: str) -> str:
    return comment[1:].partition("=")[0].strip()


def _commented(comments: tuple[str, ...], key: str, value: str | None) -> tuple[str, ...]:
    """Return the comments with another value of this key; None removes it."""
    found = [place for place, comment in enumerate(comments) if "=" in comment and _key(comment) == key]
    if value is None:
        return tuple([comment for place, comment in enumerate(comments) if place not in found])
    if not found:
        return (*comments, f"# {key} = {value}".rstrip())
    name, _, old = comments[found[0]].partition("=")
    new = old.replace(old.strip(), value, 1) if old.strip() else f" {value}"
    return (*comments[: found[0]], f"{name}={new}", *comments[found[0] + 1 :])


def _cell(sentence: Sentence, value: str, word: int) -> str:
    value = value.strip()
    if "\t" in value or _BREAK.search(value):
        raise sentence.error(f"{value!r} contains a tab or line break.", word=word, hint="Remove it.")
    return value or BLANK


def _checked_range(sentence: Sentence, first: int, last: int) -> range:
    _token_of(sentence, first)
    _token_of(sentence, last)
    if first >= last:
        raise sentence.error("At least two words are needed.", word=first, hint="Give the first and the last word.")
    return range(first, last + 1)


def _single_token(sentence: Sentence, word: int, *, hint: str) -> Token:
    """Return the token of a word; raise an error if it is a multiword token."""
    token = _token_of(sentence, word)
    if len(token.words) > 1:
        message = f"The word is already part of the multiword token {token.id}."
        raise sentence.error(message, word=word, hint=hint)
    return token


def _check_comments(sentence: Sentence, lines: Iterable[str]) -> None:
    """Raise an error if a new comment has a line break; those of a file may have a carriage return."""
    for line in filter(_BREAK.search, lines):
        raise sentence.error(f"The comment {line!r} contains a line break.", hint="Remove it.")
