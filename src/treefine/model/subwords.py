"""Split words into pieces: the tokenizer of a pretrained encoder, applied to each word on its own (Sec. 5.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import NFKC, BertNormalizer, Lowercase, Normalizer
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import BertPreTokenizer, PreTokenizer, Split, WhitespaceSplit

from treefine.config import read_json
from treefine.errors import ModelError

MAX_WORD_PIECES = 24  # only the first piece is scored, and one word must not fill a window
_MAX_CACHED_WORDS = 200_000
_MAX_CACHED_LENGTH = 64  # characters; longer words hardly repeat
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")  # the files that `Subwords.save` writes

# For each special piece: the settings that may name it, and its usual names.
_SPECIAL = {
    "cls": (("cls_token", "bos_token"), ("[CLS]", "<s>")),
    "sep": (("sep_token", "eos_token"), ("[SEP]", "</s>")),
    "unk": (("unk_token",), ("[UNK]", "<unk>")),
    "pad": (("pad_token",), ("[PAD]", "<pad>")),
    "mask": (("mask_token",), ("[MASK]", "<mask>")),
}


class Subwords:
    """A sub-word tokenizer with a cache of words, and the ids of its special pieces.

    It switches off padding and truncation of the given tokenizer. `settings` names the special pieces as
    tokenizer_config.json does, for example {"cls_token": "<s>"}; `path` is the path shown in error messages.
    """

    def __init__(self, tokenizer: Tokenizer, settings: Mapping[str, object] | None = None, *, path: str = "") -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text; the library does not save this
        self.tokenizer = tokenizer
        self.special = _special_pieces(tokenizer, settings or {}, path)  # "cls" -> "[CLS]", "pad" -> "[PAD]", …
        all_ids = tokenizer.get_vocab()
        ids = {role: all_ids[piece] for role, piece in self.special.items()}
        self.cls_id, self.sep_id, self.unk_id = ids["cls"], ids["sep"], ids["unk"]
        self.pad_id = ids.get("pad", self.unk_id)  # padding is masked anyway
        self.mask_id = ids.get("mask")
        self._markers = {self.cls_id, self.sep_id, self.pad_id, self.mask_id} - {self.unk_id, None}
        self._n_ids = 1 + max(all_ids.values())
        parts = (tokenizer.normalizer, tokenizer.pre_tokenizer)
        self.is_byte_level = any(b'"ByteLevel"' in part.__getstate__() for part in parts if part is not None)
        self._cache: dict[str, tuple[int, ...]] = {}
        try:  # a character in no vocabulary: fails if the tokenizer has no unknown piece
            tokenizer.encode("\U0010ffff", add_special_tokens=False)
        except Exception as error:
            raise ModelError(f"The tokenizer cannot encode unknown text ({error}).", hint=_WAY_OUT, path=path) from None

    @classmethod
    def from_folder(cls, folder: Path) -> Subwords:
        """Load the tokenizer of a model folder: tokenizer.json, or vocab.txt of an older BERT."""
        paths = folder / "special_tokens_map.json", folder / "tokenizer_config.json"
        read = chain.from_iterable(read_json(path).items() for path in paths if path.exists())
        settings = {key: value for key, value in read if value is not None}
        if (folder / "tokenizer.json").is_file():
            try:
                tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
            except Exception as error:  # the library raises nothing narrower
                message, path = f"The tokenizer cannot be read ({error}).", str(folder / "tokenizer.json")
                raise ModelError(message, hint=_WAY_OUT, path=path) from None
        elif (folder / "vocab.txt").is_file():
            tokenizer = _read_wordpiece(folder / "vocab.txt", settings)
        else:
            message = "The folder has no tokenizer.json and no vocab.txt."
            raise ModelError(message, hint=_WAY_OUT, path=str(folder))
        return cls(tokenizer, settings, path=str(folder))

    @property
    def settings(self) -> dict[str, str]:
        """The special pieces under their names in tokenizer_config.json."""
        return {f"{role}_token": piece for role, piece in self.special.items()}

    def save(self, folder: Path) -> None:
        """Write all files that `from_folder` needs, and create the folder if needed."""
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **self.settings}
        folder.mkdir(parents=True, exist_ok=True)
        whole, special = (folder / name for name in TOKENIZER_FILES)
        whole.write_text(self.tokenizer.to_str(), encoding="utf-8")
        special.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")

    def __len__(self) -> int:
        """Return the number of rows of the embedding table: the highest id plus one."""
        return self._n_ids

    def __reduce__(self) -> tuple[type[Subwords], tuple[Tokenizer, dict[str, str]]]:
        # A copy of the library's tokenizer loses encode_special_tokens, so a copy of this class sets it again.
        return type(self), (self.tokenizer, self.settings)

    def pieces_of(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the pieces of each word, at most MAX_WORD_PIECES. The first piece represents the word.

        One call with the words of many sentences is faster than one call per sentence.
        """
        cache = self._cache
        new = [word for word in dict.fromkeys(words) if word not in cache]
        found = dict(zip(new, (tuple(ids[:MAX_WORD_PIECES]) for ids in self.all_pieces_of(new)), strict=True))
        cache.update((word, pieces) for word, pieces in found.items() if len(word) <= _MAX_CACHED_LENGTH)
        if len(cache) > _MAX_CACHED_WORDS:
            self._cache = {}  # a new one: another thread may be reading the old one
        return [found[word] if word in found else cache[word] for word in words]

    def all_pieces_of(self, words: Sequence[str]) -> list[list[int]]:
        """Return all pieces of each word, however many there are, without the cache."""
        texts = [word.encode("utf-8", "replace").decode("utf-8") for word in words]  # half a surrogate pair becomes "?"
        if self.is_byte_level:  # RoBERTa marks the start of a word by the space before it (add_prefix_space)
            texts = [text if text.startswith(" ") else f" {text}" for text in texts]
        found = [
            each.ids or [self.unk_id] for each in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ]
        for place, ids in enumerate(found):
            if not self._markers.isdisjoint(ids):
                parts = (self._spelled(piece) if piece in self._markers else [piece] for piece in ids)
                found[place] = list(chain.from_iterable(parts)) or [self.unk_id]
        return found

    def _spelled(self, piece: int) -> list[int]:
        """Spell out a special piece: a Unigram model mistakes the text "<s>" for the piece of that name."""
        ids = [self.tokenizer.token_to_id(character) for character in self.tokenizer.id_to_token(piece) or ""]
        return [self.unk_id if part is None or part in self._markers else part for part in ids]


_WAY_OUT = "Save it with a fast tokenizer: AutoTokenizer.from_pretrained(...).save_pretrained(...)."


def _special_pieces(tokenizer: Tokenizer, settings: Mapping[str, object], path: str) -> dict[str, str]:
    """Return the special piece of each role: the one in the settings, or else the one with the usual name."""
    found = {}
    for role, (keys, customary) in _SPECIAL.items():
        named = [value.get("content") if isinstance(value, dict) else value for value in map(settings.get, keys)]
        names = list(dict.fromkeys([*(name for name in named if isinstance(name, str)), *customary]))
        pieces = [name for name in names if tokenizer.token_to_id(name) is not None]
        if pieces:
            found[role] = pieces[0]
        elif role not in ("pad", "mask"):
            message = f"The tokenizer has no {role} piece; its vocabulary lacks {', '.join(names)}."
            raise ModelError(message, hint=f'Name one as "{role}_token" in tokenizer_config.json.', path=path)
    return found


def _read_wordpiece(path: Path, settings: Mapping[str, object]) -> Tokenizer:
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"The vocabulary cannot be read ({error}).", hint=_WAY_OUT, path=str(path)) from None
    vocabulary = {piece: number for number, piece in enumerate(lines)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.model = WordPiece(vocabulary, unk_token=_special_pieces(tokenizer, settings, str(path))["unk"])
    if "subword_tokenizer_type" in settings or settings.get("tokenizer_class") == "BertJapaneseTokenizer":
        tokenizer.normalizer, tokenizer.pre_tokenizer = _japanese(settings, str(path))
        return tokenizer
    strip_accents = settings.get("strip_accents")
    tokenizer.normalizer = BertNormalizer(
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=None if strip_accents is None else bool(strip_accents),  # None: strip if lower-casing
        lowercase=bool(settings.get("do_lower_case", True)),
    )
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def _japanese(settings: Mapping[str, object], path: str) -> tuple[Normalizer, PreTokenizer]:
    """Return the steps of transformers' BertJapaneseTokenizer before WordPiece, without its word tokenizer.

    That tokenizer divides a text into words with MeCab. The words of a treebank are given, so MeCab is not needed. Each
    whole word is divided into pieces (subword_tokenizer_type "wordpiece") or into characters ("character"). Other BERT
    models first divide a word at each kanji and punctuation mark; the Japanese ones do not.
    """
    kind = settings.get("subword_tokenizer_type", "wordpiece")
    if kind not in ("wordpiece", "character"):
        hint = "Choose an encoder with wordpiece or character."
        raise ModelError(f"Encoders with subword_tokenizer_type {kind!r} are not supported.", hint=hint, path=path)
    normalizer = Normalizers([NFKC(), Lowercase()]) if settings.get("do_lower_case", False) else NFKC()
    return normalizer, WhitespaceSplit() if kind == "wordpiece" else Split(Regex("."), "isolated")
