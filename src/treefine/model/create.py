"""Create untrained models: a pretrained encoder, all or some of its pieces, and the labels and tags of a treebank."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import torch
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from treefine.config import (
    DRAFT_SCORER,
    DecodeSettings,
    ModelSettings,
    RelationSettings,
    ScorerSettings,
    TagSettings,
)
from treefine.errors import ConfigError, ModelError
from treefine.model.folder import fetch, from_four_bits, in_four_bits
from treefine.model.hf_weights import fill, load_encoder
from treefine.model.parser_model import ParserModel
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.graph import ROOT
from treefine.treebank.sentence import BLANK, Sentence

_Model = dict[str, Any]  # the "model" of a tokenizer.json
_UNUSED = re.compile(r"\[unused\d+\]")  # BERT's spare pieces have low ids but are untrained
_BYTES = {f"<0x{byte:02X}>" for byte in range(256)}  # as SentencePiece writes them


def root_label_of(sentences: Iterable[Sentence]) -> str:
    """Return the label that every word under ROOT has and no other word has; "" if there is no such label."""
    under_root: set[str] = set()
    elsewhere: set[str] = set()
    for sentence in sentences:
        for head, label in zip(sentence.heads, sentence.labels, strict=True):
            (under_root if head == ROOT else elsewhere).add(label)
    is_one = len(under_root) == 1 and BLANK not in under_root
    return under_root.pop() if is_one and not under_root & elsewhere else ""


@dataclass(frozen=True)
class PieceChoice:
    """The pieces of a pretrained encoder that a model keeps, and their precision."""

    n_frequent: int | None = None  # keep the pieces of the treebank and this many others, the most frequent; None: all
    most_pieces: int = 0  # keep at most this many pieces of the treebank, the most frequent; 0: all
    table_bits: Literal[4, 32] = 32  # of a number in their embeddings; 4: they are rounded and not trained
    shares: Mapping[str, float] = field(default_factory=dict)  # how much a word of each treebank counts; 1 if not named

    def cut(self, subwords: Subwords, sentences: Iterable[Sentence]) -> tuple[Subwords, list[int]]:
        """Return subwords with these pieces, and the old id of each piece."""
        words: Counter[str] = Counter()
        for sentence in sentences:
            share = self.shares.get(sentence.treebank, 1)
            for form in sentence.forms:
                words[form] += share  # type: ignore[assignment]  # a share need not be whole
        return cut_subwords(subwords, words, self.n_frequent or 0, most_pieces=self.most_pieces)


def create_parser_model(
    encoder: str | os.PathLike[str],
    sentences: Iterable[Sentence],
    *,
    relations: RelationSettings | None = None,
    tags: TagSettings | None = None,
    scorer: ScorerSettings | None = None,
    decode: DecodeSettings | None = None,
    stages: tuple[int, ...] = (),
    draft: ScorerSettings = DRAFT_SCORER,
    sentence_layers: int = 0,
    pieces: PieceChoice | None = None,
    fewest: int = 1,
    seed: int = 1,
) -> ParserModel:
    """Create RNGTr (or SynTr, with `relations.graph = "none"`) over a pretrained encoder from a folder or the hub.

    `sentences` is the training treebank; the model gets its labels, its tags, and features and lemma scripts that occur
    at least `fewest` times.
    """
    folder = fetch(encoder)
    shape, weights = load_encoder(folder)
    subwords = Subwords.from_folder(folder)
    sentences, pieces = list(sentences), pieces or PieceChoice()
    if pieces.n_frequent is not None:
        subwords, rows = pieces.cut(subwords, sentences)
        weights["pieces.weight"] = weights["pieces.weight"][rows]
        shape = replace(shape, n_pieces=len(rows))
    if pieces.table_bits == 4:
        try:
            shape = replace(shape, table_bits=4)
        except ValueError as error:
            raise ConfigError(f"{error}.", hint="Set table_bits = 32 in [encoder].", path=str(folder)) from None
        weights["pieces.weight"] = from_four_bits(*in_four_bits(weights["pieces.weight"]))
    settings = ModelSettings(
        shape,
        relations or RelationSettings(),
        tags or TagSettings(),
        scorer or ScorerSettings(),
        decode or DecodeSettings(root_label_of(sentences)),
        stages=stages,
        draft=draft,
        sentence_layers=sentence_layers,
    )
    model = random_model(settings, sentences, subwords, fewest=fewest, seed=seed)
    fill(model.encoder, weights, path=str(folder))
    if subwords.mask_id is not None:  # MASK represents an unknown word, so it is a good initial vector for ROOT
        model.encoder.root.data.copy_(model.encoder.pieces.weight[subwords.mask_id].data)
    return model.eval()


def random_model(
    settings: ModelSettings, sentences: Iterable[Sentence], subwords: Subwords, *, fewest: int, seed: int
) -> ParserModel:
    """Return a model for the labels and tags of these sentences with random weights."""
    columns, given = settings.tags.columns, settings.tags.given
    vocabulary = Vocabulary.of_treebank(sentences, columns=columns, given=given, fewest=fewest)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ParserModel(settings, vocabulary, subwords)


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
    # Added pieces outside the vocabulary of the model follow its pieces.
    settings["model"], old_ids = _cut(model, _with_fallbacks(model, kept | frequent))
    old_ids += sorted({token["id"] for token in settings["added_tokens"]}.difference(old_ids))
    new_ids = {old: new for new, old in enumerate(old_ids)}
    added = [token | {"id": new_ids[token["id"]]} for token in settings["added_tokens"]]
    settings["added_tokens"] = sorted(added, key=lambda token: int(token["id"]))
    settings |= {"post_processor": None, "truncation": None, "padding": None}  # they contain old ids and are not used
    tokenizer = Tokenizer.from_str(json.dumps(settings, ensure_ascii=False))
    return Subwords(tokenizer, subwords.settings), old_ids


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
    parts: defaultdict[str, set[str]] = defaultdict(set)
    for left, right, whole in _merges(model):
        parts[whole] |= {left, right}
    found, waiting = set(pieces), list(pieces)
    while waiting:  # the two parts of every merge that results in one of them, recursively
        new = parts[waiting.pop()] - found
        found |= new
        waiting.extend(new)
    before = {"", model.get("continuing_subword_prefix") or ""}
    after = {"", model.get("end_of_word_suffix") or ""}
    return found | {start + character + end for start in before for character in set("".join(found)) for end in after}


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
