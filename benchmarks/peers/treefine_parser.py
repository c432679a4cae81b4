"""treefine as a peer process, with the code of this checkout or of another commit."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

import torch

import treefine
from benchmarks.peers import answers
from benchmarks.peers.answers import Requests, answer, timed
from treefine.parsing import batches
from treefine.parsing import plan as plans

MEASURES = ("Tokens", "Sentences", "LAS")


def build(source: str, inputs: str, model: str, options: dict[str, Any], **_: Any) -> Requests:
    """Load the parser with the code in the folder `source`, and warm it up; `inputs` is a JSON file."""
    assert treefine.__file__ is not None
    assert Path(treefine.__file__).is_relative_to(source), f"{treefine.__file__} is not in {source}"
    given = json.loads(Path(inputs).read_text(encoding="utf-8"))
    nlp = treefine.load(model, device="cpu", **options)
    once = nlp.using(max_steps=1)
    multi = cache(partial(treefine.load, "multi", device="cpu"))
    text, words, ones = given["text"], given["words"], given["ones"]
    works: dict[str, Callable[[], object]] = {
        answers.RUNNING: lambda: nlp(text),
        answers.RUNNING_PIPE: lambda: [read_words(each) for each in nlp.pipe([text, text])],
        answers.FIVE: lambda: list(nlp.pipe(given["five"])),
        answers.WORDS: lambda: nlp.parse(words),
        answers.TREES: lambda: list(nlp.stream_trees(words)),
        answers.ONE_PASS: lambda: list(once.stream_trees(words)),
        answers.SEGMENT: lambda: list(nlp.segment([text])),
        answers.ONES_PIPE: lambda: list(nlp.pipe(ones)),
        answers.ONES_LINES: lambda: nlp("\n".join(ones)),
        answers.ONES_WORDS: lambda: nlp.parse(words[: len(ones)]),
        answers.MULTI: lambda: [multi()(each) for each in given["languages"]],
    }
    each_alone: dict[str, list[Callable[[], object]]] = {
        answers.SHORT_TEXT: [partial(nlp, each) for each in given["short_texts"]],
        answers.SHORT_SENTENCE: [partial(nlp.parse, each) for each in given["short_words"]],
    }
    nlp(text[:2000])

    def parse(path: str) -> dict[str, float]:
        if path == answers.MULTI:
            multi()  # loading is not timed
        if path in works:
            return timed(works[path])
        times = [timed(work) for work in each_alone[path]]
        return {name: statistics.median(each[name] for each in times) for name in times[0]}

    return {"parse": parse, "accuracy": partial(accuracy, nlp)}


def read_words(parses: Iterable[Any]) -> int:
    """Read each word as a user does, because a `Parse` may make its words only then. Return their number."""
    return len([(word.form, word.upos, word.head, word.label) for each in parses for word in each.words])


def accuracy(nlp: Any, gold: str, bare: str, text: str) -> dict[str, float]:
    """Return scores in percent of the file `gold`: of its text, of its words (the file `bare`), and the passes."""
    expected, words = list(treefine.read_treebank(gold)), list(treefine.read_treebank(bare))
    sentences = [each.sentence for each in nlp.segment([text])]
    result: dict[str, float] = {}
    for kind, given in (("raw text", sentences), ("gold words", words)):
        scores = treefine.evaluate(expected, list(nlp.stream_trees(given)))
        measures = MEASURES if kind == "raw text" else ("LAS",)
        result |= {f"{name}, {kind}": round(100 * scores[name].f1, 3) for name in measures}
    return result | {"passes": round(passes(nlp, words), 3)}


def passes(nlp: Any, sentences: Sequence[Any]) -> float:
    """Return the mean number of passes of the encoder per piece: pieces × layers that ran, over pieces × all layers."""
    parse_inputs: Any = getattr(batches, "parse_inputs", lambda plan, given: given)  # older code has none
    refine_inputs: Any = getattr(plans, "refine_inputs", None) or vars(plans)["refine_items"]
    older = {"wants_trees": False} if "wants_trees" in signature(refine_inputs).parameters else {}
    plan = nlp.plan()
    n_layers = plan.model.settings.encoder.n_layers

    @torch.no_grad()
    def count(plan: Any, inputs: Sequence[Any]) -> list[tuple[int, int]]:
        """Return, for each sentence of a batch, its pieces, and the layers that it passed."""
        sizes = [sum(map(len, each.pieces)) for each in inputs]
        layers = [0] * len(inputs)
        for step in refine_inputs(plan, inputs, **older):
            for number in step.sentences:
                layers[number] += getattr(step, "layers", n_layers)  # without stages, a step runs all layers
        return list(zip(sizes, layers, strict=True))

    counts = [found for _, found in batches.run(plan, parse_inputs(plan, sentences), count)]
    result: float = sum(size * layers for size, layers in counts) / (n_layers * sum(size for size, _ in counts))
    return result


if __name__ == "__main__":
    answer(build, ("torch", "numpy"))
