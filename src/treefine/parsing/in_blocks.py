"""Sentences through an engine, in blocks of some hundreds, and back in the order they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from treefine.network.packed_arrays import Packed, PackedTrees
from treefine.parsing.pack import filled, pack, with_parse
from treefine.parsing.run import Item, Plan, items_of, run_items
from treefine.parsing.work import trees
from treefine.treebank.sentence import Sentence

BLOCK = 512  # sentences


def stream_in_blocks(
    plan: Plan,
    engine: Callable[[Iterable[Packed]], Iterator[PackedTrees]],
    sentences: Iterable[Sentence],
    *,
    skip: int = 0,
) -> Iterator[Sentence]:
    """The sentences with their trees, but for the first `skip`.

    A block with a sentence about which a person decided something is not for the engine.
    """
    model = plan.model
    assert model.subwords is not None
    columns, vocabulary, subwords = model.settings.tags.columns, model.vocabulary, model.subwords
    items = islice(items_of(plan, sentences), skip, None)
    held: deque[list[Item]] = deque()

    def packed() -> Iterator[Packed]:
        """The next blocks, up to one that is not for the engine, which is then the last that is held."""
        while block := list(islice(items, BLOCK)):
            held.append(block)
            if any(item.constraints for item in block):
                return
            ours, arcs = [item.sentence for item in block], [item.initial for item in block]
            yield pack(ours, subwords, vocabulary, columns, reads_tags=plan.tags == "given", arcs=arcs)

    while True:
        for found in engine(packed()):
            yield from filled((item.sentence for item in held.popleft()), found, vocabulary, columns)
        if not held:
            return
        for sentence, parsed in run_items(plan, held.popleft(), trees):
            yield with_parse(sentence, parsed.tree.arcs, columns, parsed.tags)
