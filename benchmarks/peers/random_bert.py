"""A BERT that has learned nothing, in a folder as others load it, for parsers with an encoder of some size."""

from __future__ import annotations

from pathlib import Path


def random_bert(folder: Path, tokenizer: str, layers: int, width: int) -> Path:
    """A folder with a random BERT of this size and the tokeniser of ours."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    kept = folder / f"bert-{layers}x{width}"
    if not kept.exists():
        pieces = PreTrainedTokenizerFast.from_pretrained(tokenizer)
        config = BertConfig(
            vocab_size=len(pieces),
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=12,
            intermediate_size=4 * width,
        )
        BertModel(config).save_pretrained(kept)
        pieces.save_pretrained(kept)
    return kept
