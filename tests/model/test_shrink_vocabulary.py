from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.support.tiny_tokenizers import KINDS, SENTENCES
from treefine.model.create import cut_subwords
from treefine.model.subwords import Subwords


def marked_bpe() -> Tokenizer:
    """Return a BPE tokenizer that marks the inside and the end of words, as older models do."""
    tokenizer = Tokenizer(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>", fuse_unk=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=200,
        special_tokens=["<s>", "</s>", "<unk>"],
        continuing_subword_prefix="##",
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def sentencepiece_bpe() -> Tokenizer:
    """Return a BPE tokenizer with byte fallback, as converted from SentencePiece, and two added pieces."""
    parts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁adehinorst"]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("e", "r"), ("r", "e"), ("▁", "re"), ("▁re", "a"), ("▁rea", "d")]
    pieces = dict.fromkeys([*parts, *(left + right for left, right in merges)])
    ids = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_tokens([AddedToken("@user", single_word=True), AddedToken("the")])
    return tokenizer


@cache
def subwords_of(kind) -> Subwords:
    return Subwords(kind())


def strings(subwords: Subwords, words: Sequence[str]) -> list[list[str | None]]:
    return [[subwords.tokenizer.id_to_token(piece) for piece in ids] for ids in subwords.all_pieces_of(words)]


def pieces(subwords: Subwords) -> list[str]:
    vocabulary = subwords.tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


every_kind = pytest.mark.parametrize("kind", [*KINDS, marked_bpe, sentencepiece_bpe])
known = [word for sentence in SENTENCES for word in sentence.split()]
letters = st.text(st.sampled_from(sorted(set("".join(known)))), max_size=12)
words_of_any_kind = st.lists(
    st.sampled_from(known) | letters | st.text(max_size=8) | st.sampled_from(["<s>", "a[SEP]"])
)


@every_kind
@given(words=words_of_any_kind, n_frequent=st.integers(0, 60))
def test_the_words_keep_their_pieces_and_the_pieces_their_rows(kind, words, n_frequent):
    subwords = subwords_of(kind)
    whole = pieces(subwords)

    smaller, old_ids = cut_subwords(subwords, words, n_frequent)

    assert strings(smaller, words) == strings(subwords, words)
    assert pieces(smaller) == [whole[number] for number in old_ids]
    assert len(smaller) == len(old_ids)
    assert old_ids == sorted(set(old_ids))
    assert smaller.special == subwords.special
    rows = [[old_ids[piece] for piece in word] for word in smaller.pieces_of(words)]
    assert rows == [list(word) for word in subwords.pieces_of(words)]


@pytest.mark.parametrize("kind", KINDS)
@given(words=st.lists(st.text(st.sampled_from("aehinorst"), max_size=15), max_size=5), data=st.data())
def test_another_word_of_the_same_letters_is_known_by_shorter_pieces(kind, words, data):
    other = "".join(data.draw(st.permutations("".join(words))))

    smaller, _ = cut_subwords(subwords_of(kind), [*words, "a"], 0)

    assert smaller.unk_id not in smaller.all_pieces_of([other or "a"])[0]


@every_kind
def test_a_smaller_vocabulary_can_be_saved_and_shrunk_again(kind, tmp_path):
    smaller, _ = cut_subwords(subwords_of(kind), known[:20], 5)

    smaller.save(tmp_path)
    loaded = Subwords.from_folder(tmp_path)
    again, old_ids = cut_subwords(loaded, known[:20], 0)

    assert loaded.pieces_of(known) == smaller.pieces_of(known)
    assert pieces(loaded) == pieces(smaller)
    assert strings(again, known[:20]) == strings(smaller, known[:20])
    assert set(old_ids) <= set(range(len(smaller)))


def test_an_unknown_character_keeps_its_id_and_score():
    # An unknown character scores 10 below the lowest score. Without "rare", unknown "x" and "abc" would score higher.
    scores = [("<s>", 0.0), ("</s>", 0.0), ("abc", -1.0), ("xa", -9.0), ("b", -9.0), ("c", -9.0), ("gone", -20.0)]
    subwords = Subwords(Tokenizer(models.Unigram([*scores, ("rare", -30.0), ("<unk>", 0.0)], unk_id=8)))
    words = ["xabc", "abc", "?"]

    smaller, _ = cut_subwords(subwords, words, 0)

    assert strings(smaller, words) == strings(subwords, words) == [["xa", "b", "c"], ["abc"], ["<unk>"]]
    assert "gone" not in pieces(smaller)
