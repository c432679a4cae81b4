"""supar's biaffine parser with random weights, over its BiLSTM or over a random BERT.

With random weights nearly every sentence needs a search for its tree, which supar does in Python. So `tree=False`, the
best head of each word, is its upper bound.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.answers import FILE, WORDS, Built, Way, answer, heads_in_file, random_bert, words_in_file


def build(
    source: str,
    train: str,
    folder: str,
    device: str,
    tokenizer: str,
    tree: bool,
    layers: int = 0,
    width: int = 0,
    **_: Any,
) -> Built:
    """Build the parser of this size; without `layers`, supar's default: a BiLSTM over words and characters."""
    from supar.parsers.dep import BiaffineDependencyParser

    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    encoder: dict[str, Any] = {"encoder": "lstm", "feat": ["char"], "bert": None}
    if layers:
        encoder = {"encoder": "bert", "feat": [], "bert": str(random_bert(Path(folder), tokenizer, layers, width))}
        encoder |= {"mix_dropout": 0.0, "encoder_dropout": 0.1, "freeze": False}
    made = BiaffineDependencyParser.build(
        str(Path(tempfile.mkdtemp(), "model")), train=train, embed=None, build=True, **encoder
    )
    made.args.device = device
    made.model.to(device)
    words = words_in_file(source)
    output = Path(tempfile.mkdtemp(), "parsed.conllu")
    settings = {"tree": tree, "verbose": False}

    def parse_file() -> Path:
        made.predict(source, pred=str(output), **settings)
        return output

    ways = {
        WORDS: Way(lambda: made.predict(words, **settings), lambda data: [each.arcs for each in data.sentences]),
        FILE: Way(parse_file, heads_in_file),
    }
    return Built(ways, sum(each.numel() for each in made.model.parameters()))


if __name__ == "__main__":
    answer(build, ("supar", "torch", "transformers"))
