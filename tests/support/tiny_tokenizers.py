"""Tokenizers of a few hundred pieces, one for each kind of pretrained encoder, identical in every run."""

from collections import Counter
from math import log

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The old bridge was rebuilt in the summer after the river had washed it away.",
    "She reads three books a week and remembers every character in them.",
    "Nobody knew where the gardener had hidden the keys to the greenhouse.",
    "If the weather holds, we will walk to the harbour and watch the boats come in.",
    "My neighbour's dog barks at trains, bicycles and, strangely enough, at umbrellas.",
    "They were talking about the unhappiest ending that a happy story could have.",
    "Bakers rise early; readers, writers and gardeners need not.",
    "In 1987 the village had 412 inhabitants, two bakeries and no railway station.",
    '"Where are you going?" he asked, but the walkers were already out of hearing.',
    "The parser reads a sentence, guesses its tree, and reads the sentence again with that tree.",
    "A reader who remembers the first tree is rarely happy with the second one.",
    "Washing the boats and rebuilding the greenhouse took the whole summer.",
    "The station was hidden behind three umbrellas and a very talkative gardener.",
    "Every story about the harbour ends with the weather, and every ending is the same.",
]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece() -> Tokenizer:
    """Build one like BERT's: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4; then characters, then longer pieces."""
    parts = _parts(" ".join(SENTENCES).lower().split(), inside="##")
    return bert_tokenizer([*SPECIALS, *_best(parts, 200)], lowercase=True)


def bert_tokenizer(pieces: list[str], *, lowercase: bool) -> Tokenizer:
    """Build the tokenizer that BertTokenizerFast writes for these pieces."""
    numbers = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(each, numbers[each]) for each in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def byte_bpe() -> Tokenizer:
    """Build one like RoBERTa's: <s> 0, <pad> 1, </s> 2, <unk> 3, <mask> 4; then the 256 bytes, then 100 merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=361,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def unigram() -> Tokenizer:
    """Build one like XLM-R's: <s> 0, <pad> 1, </s> 2, <unk> 3; then by score; <mask> is last."""
    specials = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(specials + _scored_parts(200), unk_id=3))
    tokenizer.add_special_tokens(["<mask>"])
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


KINDS = [wordpiece, byte_bpe, unigram]


# The trainers of WordPiece and Unigram are not deterministic, so we count parts of words ourselves.


def _scored_parts(n_pieces: int) -> list[tuple[str, float]]:
    parts = _parts(["▁" + word for word in " ".join(SENTENCES).split()], inside="")
    scored = [(part, round(log(parts[part] / parts.total()), 4)) for part in _best(parts, n_pieces)]
    return sorted(scored, key=lambda entry: (-entry[1], entry[0]))


def _parts(words: list[str], *, inside: str) -> Counter[str]:
    return Counter(
        (inside if start else "") + word[start:end]
        for word in words
        for start in range(len(word))
        for end in range(start + 1, min(start + 7, len(word)) + 1)
    )


def _best(parts: Counter[str], n_pieces: int) -> list[str]:
    """Return every character, then the parts that shorten the text most."""
    characters = sorted(part for part in parts if len(part.removeprefix("##")) == 1)
    longer = sorted(set(parts) - set(characters), key=lambda part: (-parts[part] * len(part.removeprefix("##")), part))
    return [*characters, *longer][:n_pieces]
