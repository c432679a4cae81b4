import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from tests.support.tiny_tokenizers import KINDS, SENTENCES, unigram, wordpiece
from treefine.errors import ModelError
from treefine.model.subwords import Subwords

WORDS = [*" ".join(SENTENCES).split(), "Straße", "日本", "🙂", "<s>", "[SEP]"]
SUBWORDS = {kind: Subwords(kind()) for kind in KINDS}

every_kind = pytest.mark.parametrize("kind", KINDS)


def strings(subwords: Subwords, word: str) -> list[str | None]:
    return [subwords.tokenizer.id_to_token(piece) for piece in subwords.pieces_of([word])[0]]


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
    settings = {"cls_token": "a", "pad_token": "e"}  # not the customary ones
    subwords = Subwords(kind(), settings)

    subwords.save(tmp_path / "models" / "here")
    moved = (tmp_path / "models" / "here").rename(tmp_path / "there")

    assert equal(Subwords.from_folder(moved), subwords)
    assert sorted(path.name for path in moved.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


@every_kind
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_equal(kind, copied: Callable[[Subwords], Subwords]):
    assert equal(copied(Subwords(kind())), SUBWORDS[kind])


def test_a_folder_of_transformers_can_be_read(tmp_path):
    transformers = pytest.importorskip("transformers")
    names = {
        "cls_token": "<s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    transformers.PreTrainedTokenizerFast(tokenizer_object=unigram(), **names).save_pretrained(tmp_path)

    assert equal(Subwords.from_folder(tmp_path), SUBWORDS[unigram])


def test_names_in_tokenizer_config_come_before_those_of_the_older_special_tokens_map(tmp_path):
    wordpiece().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "special_tokens_map.json").write_text('{"cls_token": "a", "sep_token": {"content": "b"}}')
    (tmp_path / "tokenizer_config.json").write_text('{"cls_token": "c", "sep_token": null}')

    special = Subwords.from_folder(tmp_path).special

    assert (special["cls"], special["sep"]) == ("c", "b")


def test_an_older_bert_folder_is_read_from_its_vocabulary_and_lower_cased(tmp_path):
    subwords = Subwords.from_folder(old_bert_folder(tmp_path))

    assert subwords.pieces_of(WORDS) == SUBWORDS[wordpiece].pieces_of(WORDS)
    assert strings(subwords, "THE") == ["the"]
    assert strings(subwords, "É") == ["e"]


@pytest.mark.parametrize(
    ("settings", "pieces"),
    [({"do_lower_case": False}, ["É"]), ({"strip_accents": False}, ["é"]), ({"strip_accents": None}, ["e"])],
)
def test_an_older_bert_folder_says_how_letters_are_changed(settings, pieces, tmp_path):
    assert strings(Subwords.from_folder(old_bert_folder(tmp_path, **settings)), "É") == pieces


@pytest.mark.parametrize(("split", "pieces"), [(True, ["[UNK]", "[UNK]"]), (False, ["[UNK]"])])
def test_an_older_bert_folder_says_whether_chinese_characters_are_words(split, pieces, tmp_path):
    assert strings(Subwords.from_folder(old_bert_folder(tmp_path, tokenize_chinese_chars=split)), "日本") == pieces


# Errors

WAY_OUT = "Save it with a fast tokenizer: AutoTokenizer.from_pretrained(...).save_pretrained(...)."


def error_of(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        Subwords.from_folder(folder)
    return str(caught.value).replace(str(folder), "FOLDER")


def test_a_folder_without_a_tokenizer_says_what_was_looked_for(tmp_path):
    (tmp_path / "vocab.json").write_text("{}")

    assert error_of(tmp_path) == f"FOLDER: There is neither a tokenizer.json nor a vocab.txt in this folder. {WAY_OUT}"
    assert error_of(tmp_path / "nowhere").startswith("FOLDER: There is neither")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", b'{"version": "1.0", "mod', "The tokenizer cannot be read (EOF while parsing"),
        ("tokenizer.json", b"\xff\xfe", "The tokenizer cannot be read ('utf-8' codec can't decode byte 0xff"),
        ("vocab.txt", b"\xff\xfe", "The vocabulary cannot be read ('utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_damaged_file_is_named(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)

    text = error_of(tmp_path)

    assert text.startswith(f"FOLDER/{name}: {message}")
    assert text.endswith(f"). {WAY_OUT}")


def test_damaged_settings_are_named(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text("{")
    assert error_of(tmp_path) == (
        "FOLDER/tokenizer_config.json:1: The file is damaged: it is no JSON. Copy or download it again."
    )

    (tmp_path / "special_tokens_map.json").write_text("[]")
    assert error_of(tmp_path) == "FOLDER/special_tokens_map.json: The file is damaged: it is no JSON object."


def test_a_vocabulary_without_the_pieces_we_need_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("[UNK]\n[SEP]\na\n")
    (tmp_path / "tokenizer_config.json").write_text('{"cls_token": "[START]"}')

    assert error_of(tmp_path) == (
        "FOLDER/vocab.txt: The tokenizer has no cls piece; its vocabulary lacks [START], [CLS], <s>."
        ' Name one as "cls_token" in tokenizer_config.json.'
    )


def test_a_model_whose_own_unknown_piece_is_missing_is_refused(tmp_path):
    pieces = {"<s>": 0, "</s>": 1, "<unk>": 2}
    Tokenizer(models.WordPiece(pieces, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))

    text = error_of(tmp_path)

    assert text.startswith("FOLDER: The tokenizer cannot encode unknown text (WordPiece error: Missing [UNK]")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ModelError, match=r"file: The tokenizer could not be written: File exists\."):
        SUBWORDS[wordpiece].save(tmp_path / "file")
