"""Generate texts, treebanks, recipes and JSON, and damage them. All functions draw from the given random generator."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from random import Random
from typing import Any

import zstandard

WORDS = "The dog barks . don't del a 1987 walkers boat b Übung 中文 שלום مرحبا".split()
ODD = (
    "\x00 \x07 \x0b \x1b[31m \x7f \x85 \u00a0 \u00ad \u0301 \u200b \u200d \u200f \u2028 \u202e \u3000 \ufeff \ufffd "
    "\U000e0041 😀 👩‍👩‍👧 İ ß ﬁ \u0e33 _ # | \\ \" ' < & = =cmd|' -1 1-2 1.1 1\t _ % {} ../ \ud800 \udc80"
).split(" ")
LABELS = "nsubj obj det punct nsubj:pass dobj dep foo root _ é".split()
TAGS = ("NOUN", "VERB", "DET", "PUNCT", "X", "_", "nn", "odd tag")
FEATS = ("_", "Number=Sing", "Case=Nom|Number=Plur", "b=1|a=2", "=", "|")
MISC = "_ SpaceAfter=No Keep=Arc Keep=Head Keep=Label NeverHead=1 NeverLabel=obj Conf=0.9 | x=".split()
CELLS = ("", "_", "0", "1", "2", "99", "-1", "1-2", "2-1", "1.1", "0.1", "01", "²", "1e3", " ", "9" * 30, "a b", "#")
FORMATS = ("conllu", "conllx", "conll09", "conll09-predicted")
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}
VALUES: tuple[Any, ...] = (0, 1, 2, -1, 0.5, 1.5, -0.1, 1e300, True, False, "", "none", "x", "é\n", [], [1], ["a"], {})


def word(rng: Random) -> str:
    """Return a word: mostly an ordinary one, sometimes an odd or a very long one."""
    kind = rng.random()
    if kind < 0.7:
        return rng.choice(WORDS)
    if kind < 0.9:
        return "".join(rng.choice((*ODD, *WORDS)) for _ in range(rng.randint(1, 3)))
    if kind < 0.98:
        return "".join(chr(rng.choice((rng.randrange(0x250), rng.randrange(0x110000)))) for _ in range(3))
    return (rng.choice((*WORDS, "\u0301", "😀")) * rng.choice((50, 500)))[:500]


def clean_word(rng: Random) -> str:
    """Return a word that a treebank can contain."""
    letters = "".join(each for each in word(rng) if each.isprintable() and not "\ud800" <= each <= "\udfff").strip()
    return letters or "w"


def text(rng: Random) -> str:
    """Return a text of up to a few sentences, with any kind of space and line end."""
    spaces = rng.choice(([" "], [" ", "\n"], [" ", "\r\n"], [" ", "\n\n", "\t", "", "  ", "\r", "\u00a0"]))
    return "".join(word(rng) + rng.choice(spaces) for _ in range(rng.choice((0, 1, 3, 8, 20))))


def text_bytes(rng: Random) -> bytes:
    """Return a text as bytes: UTF-8, with a byte order mark, or not UTF-8."""
    codec = rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"))
    return text(rng).encode(codec, "replace")


def sentence(rng: Random, form: str = "conllu", *, is_tree: bool = False) -> list[str]:
    """Return the lines of a valid sentence in this format, with every construct that the format has.

    With `is_tree`, its graph is a tree and has all labels; otherwise heads can be blank or form cycles.
    """
    n_words = rng.choice((1, 1, 2, 3, 5, 9))
    order = rng.sample(range(1, n_words + 1), n_words)
    heads = {each: rng.choice(order[:rank]) if rank else 0 for rank, each in enumerate(order)}
    if not is_tree and rng.random() < 0.04:
        heads = {each: rng.randint(0, n_words) for each in order}
    is_blank = not is_tree and rng.random() < 0.05
    rows, covered = [], 0
    for number in range(1, n_words + 1):
        head = heads[number]
        label = rng.choice(LABELS) if not is_tree else rng.choice(LABELS[:-3]) if head else "root"
        form_and_tags = [rng.choice(TAGS), rng.choice(TAGS), rng.choice(FEATS)]
        shown, label = ("_", "_") if is_blank else (str(head), label)
        if form.startswith("conll09"):
            cells = [clean_word(rng), "_", "_", *form_and_tags, "_", shown, shown, label, label, "_", "_"]
            cells += [rng.choice(("_", "A0"))] if rng.random() < 0.1 else []
        else:
            cells = [clean_word(rng), clean_word(rng), *form_and_tags, shown, label]
            cells += ["_", "_"] if form == "conllx" else [rng.choice(("_", f"{head}:{label}")), rng.choice(MISC)]
        if form == "conllu" and number > covered and number < n_words and rng.random() < 0.15:
            covered = rng.randint(number + 1, n_words)
            rows.append([f"{number}-{covered}", clean_word(rng), *["_"] * 7, rng.choice(MISC[:2])])
        rows.append([str(number), *cells])
        if form == "conllu" and rng.random() < 0.05:
            rows.append([f"{number}.1", clean_word(rng), *["_"] * 6, f"{number}:dep", "_"])
    lines = ["\t".join(row) for row in rows]
    if form == "conllu" and rng.random() < 0.6:
        name = rng.choice(("1", "a b", clean_word(rng), rng.randrange(99)))
        more = rng.choice(([], ["#"], ["# newdoc"], [f"# {clean_word(rng)}"], ["# confidence = 0.5"]))
        lines = [f"# sent_id = {name}", f"# text = {text(rng)!r}", *more, *lines]
    return lines


def treebank(rng: Random, form: str = "conllu", n_sentences: int = 0, *, is_tree: bool = False) -> bytes:
    """Return a valid treebank of a few sentences, or of the given number."""
    end = rng.choice(("\n", "\n", "\n", "\r\n"))
    number = n_sentences or rng.choice((1, 1, 2, 3, 6))
    lines = "".join(end.join([*sentence(rng, form, is_tree=is_tree), "", ""]) for _ in range(number))
    lines = rng.choice(("", "", "", "\ufeff", end)) + lines
    return (lines.rstrip("\r\n") if rng.random() < 0.1 else lines).encode("utf-8", "replace")


def damaged(rng: Random, data: bytes) -> bytes:
    """Return the data with one to three changes: bytes, lines or cells changed, removed, repeated or inserted."""
    for _ in range(rng.randint(1, 3)):
        place, kind = rng.randint(0, len(data)), rng.random()
        lines = data.split(b"\n")
        row = rng.randrange(len(lines))
        if kind < 0.2:
            data = data[:place] + rng.randbytes(1) + data[place + 1 :]
        elif kind < 0.35:
            data = rng.choice((data[:place], data[place:], data[:place] + data[place + rng.randint(1, 20) :]))
        elif kind < 0.5:
            odd = (rng.randbytes(rng.randint(1, 8)), word(rng).encode("utf-8", "replace"), b"\n\n", b"\t", b"\xff\0")
            data = data[:place] + rng.choice(odd) + data[place:]
        elif kind < 0.65:
            lines[row : row + 1] = rng.choice(([], [lines[row]] * 2, [lines[row], b""], [b" "], [rng.choice(lines)]))
            data = b"\n".join(lines)
        else:
            cells = lines[row].split(b"\t")
            cell = rng.choice((*CELLS, word(rng))).encode("utf-8", "surrogatepass")
            column = rng.randrange(len(cells))
            cells[column : column + 1] = rng.choice(([cell], [cell], [cell], [cells[column], cell], []))
            lines[row] = b"\t".join(cells)
            data = b"\n".join(lines)
    return data


def treebank_file(rng: Random, stem: str, form: str | None = None) -> tuple[str, bytes]:
    """Return the name and the bytes of a treebank: valid or damaged, plain or compressed, with any extension."""
    form = form or rng.choice(("conllu", "conllu", "conllu", *FORMATS))
    data = treebank(rng, form)
    data = damaged(rng, data) if rng.random() < 0.4 else data
    name = stem + rng.choice(("." + form.partition("-")[0],) * 6 + (".conllu", ".conll", ".txt", ".data", ""))
    return compressed(rng, name, data)


def compressed(rng: Random, name: str, data: bytes) -> tuple[str, bytes]:
    """Return a file as it is, or compressed; some compressed files are damaged or have the wrong name."""
    if rng.random() < 0.85:
        return name, data
    ending = rng.choice((*COMPRESS, ".zip"))
    data = COMPRESS.get(ending, bytes)(data)
    return name + ending, damaged(rng, data) if rng.random() < 0.4 else data


def toml(value: Any) -> str:
    """Return the value in TOML."""
    return "{}" if value == {} else json.dumps(value)


def json_damaged(rng: Random, data: bytes) -> bytes:
    """Return JSON with one value changed or one entry removed, or damaged bytes if it is not JSON."""
    try:
        values = json.loads(data)
    except ValueError:
        return damaged(rng, data)
    holder, key = {"": values}, ""
    place: Any = holder
    while isinstance(place[key], dict | list) and place[key] and (place is holder or rng.random() < 0.8):
        place = place[key]
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))  # type: ignore[assignment]
    if rng.random() < 0.3 and place is not holder:
        del place[key]
    else:
        place[key] = rng.choice((*VALUES, None, 2**40, -(2**40), [[]], text(rng)))
    return json.dumps(holder[""]).encode()
