"""The engine when the GPU runs out of memory: smaller buffers, the same trees, and no sentence lost."""

import threading
import warnings
import weakref

import pytest
import torch

from tests.fast.test_engine import ROOMS, by_parser, packed_plan, parser_of
from tests.support.tiny import sample, short, tiny_model
from treefine.errors import TreebankError
from treefine.fast import engine as engine_module
from treefine.fast.buffers import Buffer
from treefine.fast.engine import Engine, Slot
from treefine.fast.packed_encoder import Room
from treefine.parsing.parser import Parser

WARNING = "The GPU ran out of memory. Parsing continues with smaller buffers and may be slower."
NO_MEMORY = "There is not enough memory to parse this sentence. Use another device or a smaller model."
ERRORS = [
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]
PARSER = parser_of(max_steps=2)
LONG = max(sample(), key=len)  # too long for any buffer
SENTENCES = [*short(9, longest=9), LONG, *short(9, longest=16)]
EXPECTED = by_parser(PARSER, SENTENCES)


def new_engine():
    return Engine(packed_plan(PARSER), ROOMS)


def parsed(engine, sentences=SENTENCES):
    return [each.to_conllu() for each in engine.stream_sentences(engine.plan, sentences)]


def first_of_length(n_words):
    return next(each for each in sample() if len(each) == n_words)


def failing(monkeypatch, owner, name, should_fail, error=ERRORS[0]):
    """Let a method run out of memory whenever `should_fail` says so about its arguments."""
    method = getattr(owner, name)

    def fail_or_run(*arguments):
        if should_fail(*arguments):
            raise type(error)(*error.args)  # a new one: its traceback keeps the slot alive
        return method(*arguments)

    monkeypatch.setattr(owner, name, fail_or_run)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_a_step_that_runs_out_of_memory_is_repeated_in_smaller_buffers(monkeypatch, error):
    failing(monkeypatch, Slot, "_run", lambda slot: slot.buffer.room.pieces > 70, error)
    engine = new_engine()

    with pytest.warns(RuntimeWarning) as caught:
        found = parsed(engine)

    assert found == EXPECTED
    assert [str(each.message) for each in caught] == [WARNING]
    assert [lane.room for lane in engine.lanes] == [Room(40, 3, 24), Room(64, 1, 64)]
    assert parsed(engine) == EXPECTED  # without a further warning


@pytest.mark.parametrize("moments", [{0}, {1, 3, 8}, {5, 6}], ids=str)
def test_memory_may_run_out_at_any_moment(monkeypatch, moments):
    calls = iter(range(10**6))
    failing(monkeypatch, Slot, "_run", lambda slot: next(calls) in moments)

    with pytest.warns(RuntimeWarning, match=WARNING):
        assert parsed(new_engine()) == EXPECTED


def test_old_buffers_are_freed_before_new_ones_are_allocated(monkeypatch):
    slots, counts = weakref.WeakSet(), []
    failing(monkeypatch, Buffer, "__init__", lambda *_: len(slots) == 1)  # there is memory for one slot at a time
    create = Slot.__init__
    monkeypatch.setattr(Slot, "__init__", lambda slot, *rest: slots.add(slot) or create(slot, *rest))
    monkeypatch.setattr(engine_module, "free_memory", lambda: counts.append(len(slots)))

    with pytest.warns(RuntimeWarning, match=WARNING):
        assert parsed(new_engine()) == EXPECTED

    assert set(counts) == {0}


def test_threads_that_run_out_of_memory_together_return_all_trees(monkeypatch):
    failing(monkeypatch, Slot, "_run", lambda slot: slot.buffer.room.pieces > 80)
    engine, found = new_engine(), []
    threads = [threading.Thread(target=lambda: found.append(parsed(engine, short(6)))) for _ in range(3)]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert found == 3 * [by_parser(PARSER, short(6))]
    assert len(caught) == 1
    assert [lane.room.pieces for lane in engine.lanes] == [80, 64]


@pytest.mark.parametrize("number", [0, 7])
def test_a_sentence_that_fits_into_no_buffer_is_named(monkeypatch, number):
    sentences = [*short(number, longest=8), first_of_length(9), *short(3, longest=8)]
    failing(monkeypatch, Slot, "_run", lambda slot: 9 + 1 in slot.buffer.host["n_words"])
    engine = new_engine()

    with pytest.warns(RuntimeWarning, match=WARNING), pytest.raises(TreebankError) as error:
        parsed(engine, sentences)

    assert str(error.value) == str(sentences[number].error(NO_MEMORY))
    assert all(lane.room.sentences == 1 for lane in engine.lanes)


# On a GPU


def on_gpu(model):
    parser = Parser(model, device="cuda", precision="float32")
    assert parser.engine is not None
    return parser


def limit_memory(n_bytes):
    """Let this process allocate at most this number of further bytes on the GPU."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + n_bytes) / total)


@pytest.fixture
def undisturbed():
    """Return a model, sentences, their texts with trees, and the bytes that the engine allocates for them on a GPU."""
    model, sentences = tiny_model(n_positions=512), 40 * sample()
    engine_module.free_memory()  # what earlier tests reserved, so that the difference is what this engine needs
    parser = on_gpu(model)
    before = torch.cuda.memory_reserved()
    texts = [each.to_conllu() for each in parser.stream_trees(sentences)]
    n_bytes = torch.cuda.memory_reserved() - before
    del parser
    engine_module.free_memory()
    yield model, sentences, texts, n_bytes
    torch.cuda.set_per_process_memory_fraction(1.0)
    engine_module.free_memory()


@pytest.mark.gpu
@pytest.mark.parametrize("share", [2, 3])
def test_on_a_gpu_with_little_memory_buffers_become_smaller_and_trees_stay_the_same(undisturbed, share):
    model, sentences, expected, n_bytes = undisturbed
    parser = on_gpu(model)
    limit_memory(n_bytes // share)

    with pytest.warns(RuntimeWarning, match=WARNING):
        found = [each.to_conllu() for each in parser.stream_trees(sentences)]

    assert found == expected
    assert parser.engine.lanes[0].room.pieces < 8192
