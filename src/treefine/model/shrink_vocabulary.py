"""Shrink a vocabulary to the pieces that a treebank uses and the most frequent others (XLM-R has 250,000 pieces)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from treefine.errors import ModelError
from treefine.model.subwords import Subwords

_Model = dict[str, Any]  # the "model" of a tokenizer.json
_Added = dict[str, Any]  # one of its "added_tokens"
_UNUSED = re.compile(r"\[unused\d+\]")  # BERT's spare pieces have low ids but are untrained
_BYTES = {f"<0x{byte:02X}>" for byte in range(256)}  # as SentencePiece writes them


def cut_subwords(
    subwords: Subwords, words: Iterable[str] | Mapping[str, float], n_frequent: int, *, most_pieces: int = 0
) -> tuple[Subwords, list[int]]:
    """Return subwords that split `words` as before, with a smaller vocabulary, and the old id of each new piece.

    The embedding table becomes `old_table[old_ids]`. The vocabulary keeps the pieces of `words`, special and added
    pieces, the `n_frequent` most frequent others, and the shorter pieces that unseen words fall back to. The values of
    a mapping `words` are how often they occur. With `most_pieces`, only that many of their pieces are kept, the most
    frequent ones, and words with other pieces are split into shorter ones. See docs/design.md, 'Smaller vocabularies'.
    """
    settings = json.loads(subwords.tokenizer.to_str())
    model: _Model = settings["model"]
    if model["type"] not in ("WordPiece", "Unigram", "BPE"):
        hint = 'Keep all of it: pieces = "all" in [encoder].'
        raise ModelError(f"The vocabulary of a {model['type']} tokenizer cannot be shrunk.", hint=hint)
    special = {token["content"] for token in settings["added_tokens"]} | set(subwords.special.values())
    names = {number: piece for piece, number in subwords.tokenizer.get_vocab().items()}
    words, counted = Counter(words), Counter[str]()
    for count, ids in zip(words.values(), subwords.all_pieces_of(list(words)), strict=True):
        for number in ids:
            counted[names[number]] += count  # weighted counts need not be whole
    used = {piece for piece, _ in counted.most_common(most_pieces or None)}
    scripts = {_script(character) for word in words for character in word}
    letters = {piece for piece in names.values() if len(piece) == 1 and _script(piece) in scripts}
    alphabet = set(ByteLevel.alphabet()) if subwords.is_byte_level else _BYTES if model.get("byte_fallback") else set()
    kept = special | used | letters | alphabet | _needed_by(model)
    others = (piece for piece in _most_frequent_first(model) if piece not in kept and not _UNUSED.fullmatch(piece))
    frequent = set(islice(others, n_frequent))
    settings["model"], old_ids = _cut(model, _with_fallbacks(model, kept | frequent))
    settings["added_tokens"], outside = _renumbered(settings["added_tokens"], old_ids)
    settings |= {"post_processor": None, "truncation": None, "padding": None}  # they contain old ids and are not used
    tokenizer = Tokenizer.from_str(json.dumps(settings, ensure_ascii=False))
    return Subwords(tokenizer, subwords.settings), old_ids + outside


def _script(character: str) -> str:
    """Return the first word of a character's name, such as LATIN or HANGUL."""
    return unicodedata.name(character, "").partition(" ")[0]


def _most_frequent_first(model: _Model) -> list[str]:
    vocabulary = model["vocab"]
    if model["type"] == "Unigram":
        return [piece for piece, _ in sorted(vocabulary, key=lambda entry: -entry[1])]
    return sorted(vocabulary, key=lambda piece: vocabulary[piece])


def _needed_by(model: _Model) -> set[str]:
    """Return the unknown piece of the model, and for Unigram the piece that sets the score of unknown characters."""
    if model["type"] != "Unigram":
        return {model["unk_token"]} & set(model["vocab"])
    unknown = [] if model["unk_id"] is None else [model["vocab"][model["unk_id"]]]
    return {piece for piece, _ in (*unknown, min(model["vocab"], key=lambda entry: entry[1]))}


def _merges(model: _Model) -> list[tuple[str, str, str]]:
    """Return the left part, the right part and the result of each merge; nothing if the model is not BPE."""
    start = len(model.get("continuing_subword_prefix") or "")
    return [(left, right, left + right[start:]) for left, right in model.get("merges", ())]


def _with_fallbacks(model: _Model, pieces: set[str]) -> set[str]:
    """Return the pieces and the shorter ones that can replace them. Some of these may not be in the vocabulary."""
    found = _with_parts(_merges(model), pieces)
    before = {"", model.get("continuing_subword_prefix") or ""}
    after = {"", model.get("end_of_word_suffix") or ""}
    characters = set("".join(found))
    return found | {start + character + end for start in before for character in characters for end in after}


def _with_parts(merges: list[tuple[str, str, str]], pieces: set[str]) -> set[str]:
    """Return the pieces and, recursively, the two parts of every merge that results in one of them."""
    parts: defaultdict[str, set[str]] = defaultdict(set)
    for left, right, whole in merges:
        parts[whole] |= {left, right}
    found, waiting = set(pieces), list(pieces)
    while waiting:
        new = parts[waiting.pop()] - found
        found |= new
        waiting.extend(new)
    return found


def _cut(model: _Model, kept: set[str]) -> tuple[_Model, list[int]]:
    """Return the model with only the kept pieces, numbered from 0 in their old order, and the old id of each."""
    vocabulary = model["vocab"]
    if model["type"] == "Unigram":
        old_ids = [number for number, (piece, _) in enumerate(vocabulary) if piece in kept]
        unk_id = None if model["unk_id"] is None else old_ids.index(model["unk_id"])
        return model | {"vocab": [vocabulary[number] for number in old_ids], "unk_id": unk_id}, old_ids
    pieces = [piece for piece in _most_frequent_first(model) if piece in kept]
    smaller = model | {"vocab": {piece: number for number, piece in enumerate(pieces)}}
    if "merges" in model:
        smaller["merges"] = [(left, right) for left, right, whole in _merges(model) if {left, right, whole} <= kept]
    return smaller, [vocabulary[piece] for piece in pieces]


def _renumbered(added_tokens: list[_Added], old_ids: list[int]) -> tuple[list[_Added], list[int]]:
    """Return the added pieces with their new ids, and the old ids of those outside the model's vocabulary."""
    inside = set(old_ids)
    outside = sorted(token["id"] for token in added_tokens if token["id"] not in inside)
    new_ids = {old: new for new, old in enumerate(old_ids + outside)}
    tokens = [token | {"id": new_ids[token["id"]]} for token in added_tokens]
    return sorted(tokens, key=lambda token: int(token["id"])), outside
