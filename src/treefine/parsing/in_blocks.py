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

    Those about which a person decided something are not for the engine.
    """
    model = plan.model
    assert model.subwords is not None
    columns, vocabulary, subwords = model.settings.tags.columns, model.vocabulary, model.subwords
    items = islice(items_of(plan, sentences), skip, None)
    held: deque[list[Item]] = deque()

    def packed() -> Iterator[Packed]:
        while block := list(islice(items, BLOCK)):
            held.append(block)
            ours = [item for item in block if not item.constraints]
            arcs = [item.initial for item in ours]
            told = [item.sentence for item in ours]
            yield pack(told, subwords, vocabulary, columns, reads_tags=plan.tags == "given", arcs=arcs)

    for found in engine(packed()):
        block = held.popleft()
        free = filled((item.sentence for item in block if not item.constraints), found, vocabulary, columns)
        decided = run_items(plan, [item for item in block if item.constraints], trees)
        for item in block:
            if item.constraints:
                sentence, parsed = next(decided)
                yield with_parse(sentence, parsed.tree.arcs, columns, parsed.tags)
            else:
                yield next(free)
