import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.support.messages import assert_message
from tests.support.tiny_tokenizers import KINDS, SENTENCES, byte_bpe, wordpiece
from treefine.errors import ModelError
from treefine.model import subwords as module
from treefine.model.subwords import MAX_WORD_PIECES, Subwords

WORDS = [*" ".join(SENTENCES).split(), "Straße", "naïve", "50,000", "日本", "a b", "🙂", "<s>", "[SEP]"]
SUBWORDS = {kind: Subwords(kind()) for kind in KINDS}  # for tests that only need pieces

every_kind = pytest.mark.parametrize("kind", KINDS)


def strings(subwords: Subwords, word: str) -> list[str | None]:
    return [subwords.tokenizer.id_to_token(piece) for piece in subwords.pieces_of([word])[0]]


# Pieces


@every_kind
def test_pieces_equal_those_of_transformers_with_split_input(kind):
    transformers = pytest.importorskip("transformers")
    tokenizer = kind()
    if kind is byte_bpe:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    reference = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)

    words = WORDS[:-2]  # transformers mistakes a special name in the text for the special piece
    pieces = Subwords(kind()).pieces_of(words)

    expected = reference(words, is_split_into_words=True, add_special_tokens=False)
    assert [piece for word in pieces for piece in word] == expected["input_ids"]
    assert [number for number, word in enumerate(pieces) for _ in word] == expected.word_ids()


@every_kind
@given(words=st.lists(st.text()))
def test_any_word_has_a_piece_and_every_piece_a_row(kind, words):
    subwords = SUBWORDS[kind]

    pieces = subwords.pieces_of(words)

    assert len(pieces) == len(words)
    assert all(1 <= len(word) <= MAX_WORD_PIECES for word in pieces)
    assert all(0 <= piece < len(subwords) for word in pieces for piece in word)


@every_kind
@given(words=st.lists(st.text()), special=st.sampled_from(["[CLS]", "[SEP]", "<s>", "</s>", "<pad>", "<mask>"]))
def test_no_text_is_mistaken_for_a_special_piece(kind, words, special):
    subwords = SUBWORDS[kind]

    pieces = subwords.pieces_of([*words, special, f"a{special}b"])

    markers = {subwords.cls_id, subwords.sep_id, subwords.pad_id, subwords.mask_id}
    assert markers.isdisjoint(piece for word in pieces for piece in word)


def test_a_word_that_the_normaliser_deletes_is_unknown_and_half_a_surrogate_pair_a_question_mark():
    subwords = SUBWORDS[wordpiece]

    assert subwords.pieces_of(["", "\x00", "\u200d\u200b"]) == [(subwords.unk_id,)] * 3
    assert subwords.pieces_of(["a\ud800"]) == subwords.pieces_of(["a?"])


@every_kind
def test_threads_do_not_disturb_each_other(kind, monkeypatch):
    monkeypatch.setattr(module, "_MAX_CACHED_WORDS", 20)  # so the cache is cleared often
    subwords = Subwords(kind())
    calls = [WORDS[start : start + 15] for start in range(len(WORDS))]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(subwords.pieces_of, calls))

    assert results == [SUBWORDS[kind].pieces_of(words) for words in calls]


# Special pieces


def test_settings_name_special_pieces_and_unknown_names_are_ignored():
    settings = {"cls_token": {"content": "the", "lstrip": False}, "sep_token": "##s", "mask_token": None}
    named = Subwords(wordpiece(), settings)
    start_and_end = Subwords(byte_bpe(), {"bos_token": "<mask>", "eos_token": "<pad>"})

    assert named.special == {"cls": "the", "sep": "##s", "unk": "[UNK]", "pad": "[PAD]", "mask": "[MASK]"}
    assert (start_and_end.cls_id, start_and_end.sep_id) == (4, 1)
    assert Subwords(wordpiece(), {"cls_token": "[START]"}).special["cls"] == "[CLS]"


# Folders


def old_bert_folder(folder: Path, **settings: object) -> Path:
    vocabulary = wordpiece().get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)) + "\nÉ\né\n", "utf-8")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def equal(one: Subwords, other: Subwords) -> bool:
    ids = [(each.cls_id, each.sep_id, each.pad_id, each.unk_id, each.mask_id, len(each)) for each in (one, other)]
    return ids[0] == ids[1] and one.pieces_of(WORDS) == other.pieces_of(WORDS)


@every_kind
def test_a_saved_folder_can_be_moved_and_read_again(kind, tmp_path):
    settings = {"cls_token": "a", "pad_token": "e"}  # not the usual ones
    subwords = Subwords(kind(), settings)

    subwords.save(tmp_path / "models" / "here")
    moved = (tmp_path / "models" / "here").rename(tmp_path / "there")

    assert equal(Subwords.from_folder(moved), subwords)
    assert sorted(path.name for path in moved.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


def test_an_older_bert_folder_is_read_from_its_vocabulary_and_lower_cased(tmp_path):
    subwords = Subwords.from_folder(old_bert_folder(tmp_path))

    assert subwords.pieces_of(WORDS) == SUBWORDS[wordpiece].pieces_of(WORDS)
    assert strings(subwords, "THE") == ["the"]
    assert strings(subwords, "É") == ["e"]


@pytest.mark.parametrize(
    ("settings", "word", "pieces"),
    [
        ({"do_lower_case": False}, "É", ["É"]),
        ({"strip_accents": False}, "É", ["é"]),
        ({"strip_accents": None}, "É", ["e"]),
        ({"tokenize_chinese_chars": True}, "日本", ["[UNK]", "[UNK]"]),
        ({"tokenize_chinese_chars": False}, "日本", ["[UNK]"]),
    ],
)
def test_an_older_bert_folder_configures_case_accents_and_chinese_characters(settings, word, pieces, tmp_path):
    assert strings(Subwords.from_folder(old_bert_folder(tmp_path, **settings)), word) == pieces


# Errors

WAY_OUT = "Save it with a fast tokenizer: AutoTokenizer.from_pretrained(...).save_pretrained(...)."
NO_UNK = Tokenizer(models.WordPiece({"<s>": 0, "</s>": 1, "<unk>": 2}, unk_token="[UNK]")).to_str()
NO_CLS = {"vocab.txt": "[UNK]\n[SEP]\na\n", "tokenizer_config.json": '{"cls_token": "[START]"}'}
NO_CLS_MESSAGE = (
    "/vocab.txt: The tokenizer has no cls piece; its vocabulary lacks [START], [CLS], <s>."
    ' Name one as "cls_token" in tokenizer_config.json.'
)


@pytest.mark.parametrize(
    ("files", "message"),  # … stands for the library's own text
    [
        ({"vocab.json": "{}"}, f": The folder has no tokenizer.json and no vocab.txt. {WAY_OUT}"),
        ({"tokenizer.json": '{"mod'}, f"/tokenizer.json: The tokenizer cannot be read (EOF while …). {WAY_OUT}"),
        ({"vocab.txt": b"\xff"}, f"/vocab.txt: The vocabulary cannot be read ('utf-8' codec …). {WAY_OUT}"),
        (
            {"special_tokens_map.json": "[]"},
            "/special_tokens_map.json: The file is damaged: it is not a JSON object. Copy or download it again.",
        ),
        (NO_CLS, NO_CLS_MESSAGE),
        ({"tokenizer.json": NO_UNK}, ": The tokenizer cannot encode unknown text (WordPiece error: Missing [UNK]…"),
    ],
)
def test_a_damaged_or_incomplete_folder_is_an_error(files, message, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(ModelError) as caught:
        Subwords.from_folder(tmp_path)

    assert_message(str(caught.value).removeprefix(str(tmp_path)), message)
