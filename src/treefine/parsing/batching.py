"""A stream of sentences cut into batches that fit into memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch

from treefine.errors import TreefineError

Item = TypeVar("Item")
Result = TypeVar("Result")

CHUNK_BATCHES = 16  # batches' worth of sentences that are sorted by length together
MOST_SENTENCES = 4096  # in such a chunk


def chunks(items: Iterable[Item], size: Callable[[Item], int], batch_pieces: int) -> Iterator[list[Item]]:
    """Stretches of the stream, large enough to hold sentences of like length, small enough to be held in memory."""
    chunk: list[Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= CHUNK_BATCHES * batch_pieces or len(chunk) == MOST_SENTENCES:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def batches(
    sizes: Sequence[int], batch_pieces: int, longest: int, *, with_padding: int | None = None
) -> list[list[int]]:
    """Which sentences to score together, by like length, padding counted; one longer than `longest` is alone.

    Where padding is counted apart, `with_padding` is how much it may come to with all else.

    >>> batches([3, 9, 2, 3], 8, longest=8)
    [[2, 0], [3], [1]]
    >>> batches([3, 9, 2, 3], 8, longest=8, with_padding=9)
    [[2, 0, 3], [1]]
    """
    found: list[list[int]] = []
    total = 0  # in the last batch
    for number in sorted(range(len(sizes)), key=sizes.__getitem__):
        size = sizes[number]
        padded = size * (len(found[-1]) + 1) if found else 0
        is_full = (
            padded > batch_pieces if with_padding is None else total + size > batch_pieces or padded > with_padding
        )
        if not found or is_full or size > longest:
            found.append([])
            total = 0
        found[-1].append(number)
        total += size
    return found


def halving(
    numbers: Sequence[int],
    work: Callable[[Sequence[int]], list[Result]],
    on_one: Callable[[int], TreefineError],
) -> list[Result]:
    """What `work` makes of each number; when memory runs out, of each half apart. `on_one` is raised for one alone."""
    try:
        return work(numbers)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if len(numbers) == 1:
            raise on_one(numbers[0]) from error
    gc.collect()  # the error held on to the tensors of its frames
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(numbers) // 2
    return [*halving(numbers[:middle], work, on_one), *halving(numbers[middle:], work, on_one)]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on a GPU or on this machine."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    signs = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
