"""spaCy with a small pipeline, trained here on a treebank: spaCy's own models are not in a package registry.

Its components and sizes are the defaults, as in `en_core_web_sm`: English rules for tokens, and a tagger and a parser
that share convolutional vectors. The parser also ends sentences.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.answers import RUNNING, Requests, answer, timed
from treefine import Sentence, read_treebank
from treefine.treebank.raw_text import raw_sentences

EPOCHS, SENTENCES = 3, 8  # of training; of a document in it
BATCH, RATE, DROPOUT, WIDTH = 32, 2e-3, 0.1, 96
SHARED: dict[str, Any] = {"@architectures": "spacy.Tok2VecListener.v1", "width": WIDTH, "upstream": "*"}
TAGGER: dict[str, Any] = {"@architectures": "spacy.Tagger.v2", "nO": None, "normalize": False, "tok2vec": SHARED}
PARSER: dict[str, Any] = {
    "@architectures": "spacy.TransitionBasedParser.v2",
    "state_type": "parser",
    "extra_state_tokens": False,
    "hidden_width": 64,
    "maxout_pieces": 2,
    "use_upper": True,
    "nO": None,
    "tok2vec": SHARED,
}


def trained(path: Path, sentences: Sequence[Sentence]) -> None:
    """Train a pipeline and save it."""
    import spacy
    from spacy import training
    from thinc import api as thinc

    spacy.util.fix_random_seed(1)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.add_pipe("tagger", config={"model": TAGGER})
    nlp.add_pipe("parser", config={"model": PARSER})
    parts = [sentences[start : start + SENTENCES] for start in range(0, len(sentences), SENTENCES)]
    golds = [gold_doc(nlp, each) for each in parts]
    examples = [training.Example(nlp.make_doc(gold.text), gold) for gold in golds]
    nlp.initialize(lambda: examples)
    adam = thinc.Adam(RATE, L2=0.01, grad_clip=1.0, use_averages=True)
    size = BATCH // SENTENCES
    for epoch in range(EPOCHS):
        random.Random(epoch).shuffle(examples)
        for start in range(0, len(examples), size):
            adam.learn_rate = RATE * (1 - (epoch + start / len(examples)) / EPOCHS)
            nlp.update(examples[start : start + size], sgd=adam, drop=DROPOUT)
    with nlp.use_params(adam.averages):
        nlp.to_disk(path)


def gold_doc(nlp: Any, sentences: Sequence[Sentence]) -> Any:
    """Return sentences with their trees and tags as a Doc; the words of a multiword token have no spaces between."""
    from spacy.tokens import Doc

    columns: dict[str, list[Any]] = {name: [] for name in ("words", "spaces", "tags", "heads", "deps", "sent_starts")}
    for sentence, tokens in zip(sentences, raw_sentences(sentences)[1], strict=True):
        start = len(columns["words"])
        for token in tokens:
            columns["words"] += token.words if "".join(token.words) == token.form else [token.form, *token.words[1:]]
            columns["spaces"] += [False] * (len(token.words) - 1) + [bool(token.gap)]
        columns["tags"] += sentence.xpos
        columns["heads"] += [start + (head or word) - 1 for word, head in enumerate(sentence.heads, start=1)]
        columns["deps"] += ["ROOT" if label == "root" else label for label in sentence.labels]
        columns["sent_starts"] += [True] + [False] * (len(sentence) - 1)
    return Doc(nlp.vocab, **columns)


def conllu(nlp: Any, text: str) -> str:
    """Return the trees of a text as CoNLL-U, without tokens that are white space."""
    lines = []
    for sentence in nlp(text).sents:
        words = [each for each in sentence if not each.is_space]
        numbers = {each.i: number for number, each in enumerate(words, start=1)}
        root = numbers.get(sentence.root.i, 1)
        for number, each in enumerate(words, start=1):
            head = 0 if number == root else numbers.get(each.head.i, root)
            label = each.dep_ if head else "root"
            space = "_" if each.whitespace_ else "SpaceAfter=No"
            lines.append(f"{number}\t{each.text}\t_\t_\t{each.tag_}\t_\t{head}\t{label}\t_\t{space}")
        lines += [""] if words else []
    return "\n".join(lines) + "\n"


def build(inputs: str, train: str, folder: str, **_: Any) -> Requests:
    """Load the pipeline from the folder; train it first if it is not there."""
    import spacy

    path = Path(folder, f"spacy-{EPOCHS}")
    if not path.exists():
        trained(path, list(read_treebank(train)))
    nlp = spacy.load(path)
    texts = {RUNNING: json.loads(Path(inputs).read_text(encoding="utf-8"))["text"]}
    return {"parse": lambda path: timed(lambda: nlp(texts[path])), "conllu": partial(conllu, nlp)}


if __name__ == "__main__":
    answer(build, ("spacy", "thinc"))
