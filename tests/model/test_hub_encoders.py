"""The encoders of the paper load exactly as the Hugging Face hub lays them out. See `tests.support.toy_hub`."""

import json
import pickle
import shutil
import unicodedata
from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.toy_hub import ENCODERS, toy_encoder
from tests.support.toy_treebanks import UD, UD_FOLDER, toy_treebanks
from treefine.errors import ModelError
from treefine.model.batch import ROOT_PIECE, PieceInputs
from treefine.model.create import create_parser_model
from treefine.model.folder import fetch
from treefine.model.hf_weights import load_encoder
from treefine.model.subwords import Subwords
from treefine.treebank.conllu import read_treebank

JAPANESE = "cl-tohoku/bert-base-japanese"
TREEBANKS = {  # a treebank that the paper parses with each encoder
    "bert-base-multilingual-cased": "UD_Hindi-HDTB",
    "bert-base-chinese": "UD_Chinese-GSD",
    "bert-base-uncased": "ptb",
    "bert-base-german-cased": "conll09-german",
    JAPANESE: "UD_Japanese-GSD",
}
WORDS = [
    "Bato",
    "naïve",
    "Straße",
    "don't",
    "山川",
    "川、山",
    "ナリメ",
    "ﾅﾘ",
    "バ",
    "한국",
    "नाम",
    "[MASK]",
    "a b",
    "..",
]

every_encoder = pytest.mark.parametrize("name", ENCODERS)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Return a folder with all toy encoders and the treebank of each."""
    folder = tmp_path_factory.mktemp("hub")
    for name in ENCODERS:
        toy_encoder(folder / name, name)
    toy_treebanks(folder, n_train=12, n_dev=2, n_test=2, names=TREEBANKS.values())
    return folder


def sentences_for(hub, name):
    treebank = TREEBANKS[name]
    place = hub / UD_FOLDER / treebank if treebank in UD else hub / treebank
    [path] = place.glob("*train.*")
    return list(read_treebank(path))


def copy_of(hub, name, tmp_path):
    return Path(shutil.copytree(hub / name, tmp_path / "copy"))


def equal_weights(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@every_encoder
@torch.no_grad()
def test_without_a_graph_the_vectors_equal_the_reference_library(name, hub):
    transformers = pytest.importorskip("transformers")
    reference = transformers.BertModel.from_pretrained(hub / name).eval()
    sentences = sentences_for(hub, name)
    model = create_parser_model(hub / name, sentences)
    subwords = model.subwords
    words = subwords.pieces_of(sentences[0].forms)

    inputs = PieceInputs.of(
        [words], cls_id=subwords.cls_id, sep_id=subwords.sep_id, pad_id=subwords.pad_id, n_positions=128
    )
    vectors = model.encoder(inputs, None, None).last[inputs.first_pieces]

    ids = inputs.pieces.clone()[None]
    ids[:, ROOT_PIECE] = subwords.mask_id
    firsts = [ROOT_PIECE, *(ROOT_PIECE + 1 + sum(map(len, words[:number])) for number in range(len(words)))]
    expected = reference(input_ids=ids).last_hidden_state[0, firsts]
    torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=1e-5)


# Tokenizers


@pytest.mark.parametrize("name", [name for name in ENCODERS if name != JAPANESE])
def test_vocab_txt_gives_the_pieces_of_tokenizer_json(name, hub, tmp_path):
    folder = copy_of(hub, name, tmp_path)
    (folder / "tokenizer.json").unlink()
    fast, slow = Subwords.from_folder(hub / name), Subwords.from_folder(folder)

    @given(words=st.lists(st.text(), max_size=20))
    def check(words):
        assert slow.pieces_of(WORDS + words) == fast.pieces_of(WORDS + words)

    assert slow.special == fast.special
    check()


@pytest.mark.parametrize("kind", ["wordpiece", "character"])
@pytest.mark.parametrize("do_lower_case", [False, True])
def test_japanese_words_are_divided_as_in_the_reference_library_after_mecab(kind, do_lower_case, hub, tmp_path):
    pytest.importorskip("transformers")
    from transformers.models.bert_japanese import tokenization_bert_japanese as reference

    folder = copy_of(hub, JAPANESE, tmp_path)
    settings = {"do_lower_case": do_lower_case, "word_tokenizer_type": "mecab", "subword_tokenizer_type": kind}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    vocabulary = reference.load_vocab(folder / "vocab.txt")
    splitter = reference.WordpieceTokenizer if kind == "wordpiece" else reference.CharacterTokenizer
    words = [word for word in WORDS if word not in ("[MASK]", "a b")]  # MeCab divides them

    subwords = Subwords.from_folder(folder)

    normal = [unicodedata.normalize("NFKC", word) for word in words]
    expected = [splitter(vocabulary, "[UNK]").tokenize(each.lower() if do_lower_case else each) for each in normal]
    found = [[subwords.tokenizer.id_to_token(piece) for piece in word] for word in subwords.pieces_of(words)]
    assert found == expected


# Weights


@pytest.mark.parametrize("name", [name for name in ENCODERS if name != JAPANESE])
def test_the_pickle_gives_the_weights_of_the_safetensors_file(name, hub, tmp_path):
    folder = copy_of(hub, name, tmp_path)
    (folder / "model.safetensors").unlink()

    shape, weights = load_encoder(folder)

    expected_shape, expected = load_encoder(hub / name)
    assert shape == expected_shape
    assert equal_weights(weights, expected)


class Code:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


PICKLES = {
    "code": lambda path: torch.save({"weight": Code(path.parent / "ran")}, path),
    "plain pickle": lambda path: path.write_bytes(pickle.dumps(Code(path.parent / "ran"))),
    "half": lambda path: path.write_bytes(path.read_bytes()[:-2000]),
    "a list": lambda path: torch.save([torch.zeros(2)], path),
    "a name that is a number": lambda path: torch.save({5: torch.zeros(2)}, path),
    "a number": lambda path: torch.save({"bert.step": 5}, path),
    "no values": lambda path: torch.save({"a": torch.zeros(2, device="meta")}, path),
    "sparse": lambda path: torch.save({"a": torch.eye(2).to_sparse()}, path),
}


@pytest.mark.parametrize("damage", PICKLES.values(), ids=PICKLES)
@pytest.mark.filterwarnings("ignore:.*TypedStorage:UserWarning")
def test_a_pickle_with_code_or_damage_is_refused_with_one_message(damage, hub, tmp_path):
    folder = copy_of(hub, JAPANESE, tmp_path)
    damage(folder / "pytorch_model.bin")

    with pytest.raises(ModelError) as caught:
        load_encoder(folder)

    assert str(caught.value) == (
        f"{folder}/pytorch_model.bin: The file is damaged, or it contains more than weights. "
        "Download it again, or save the encoder as model.safetensors."
    )
    assert not (folder / "ran").exists()


# Downloads


@pytest.mark.parametrize("name", [*ENCODERS, "tohoku-nlp/bert-base-japanese"])
def test_only_the_files_that_are_read_are_downloaded(name, tmp_path, monkeypatch):
    toy_encoder(tmp_path / "hub", name)

    def download(asked, *, allow_patterns):
        assert asked == name
        for path in (tmp_path / "hub").rglob("*"):
            place = path.relative_to(tmp_path / "hub")
            if path.is_file() and any(fnmatch(str(place), pattern) for pattern in allow_patterns):
                (tmp_path / "cache" / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, tmp_path / "cache" / place)
        return str(tmp_path / "cache")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)

    folder = fetch(name)

    is_japanese = name.endswith("japanese")
    weights = "pytorch_model.bin" if is_japanese else "model.safetensors"
    expected = {"README.md", "config.json", "tokenizer_config.json", "vocab.txt", weights}
    expected |= set() if is_japanese else {"tokenizer.json"}
    assert {path.name for path in folder.iterdir() if path.is_file()} == expected
    assert load_encoder(folder)[0] == load_encoder(tmp_path / "hub")[0]
