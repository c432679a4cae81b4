"""What `speed` compares: treefine as it comes, in float32 and with one pass; bare encoders; and other parsers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.peers.answers import ALL_PASSES, FILE, ONE_PASS, WORDS

Device = Literal["cpu", "cuda"]
OURS, ENCODER = "treefine", "encoder"  # the packages that need no Python of their own
STOP_ABOVE = 0.935  # chosen on dev: see `stopping`
SURE = f"treefine, stop above {STOP_ABOVE}"  # sentences that are sure enough stop early
UNTRAINED = "untrained"  # said of a network whose trees are harder to find than a trained one's


@dataclass(frozen=True)
class System:
    """One parser with one choice of its options."""

    name: str
    package: str
    module: str
    build: Mapping[str, Any] = field(default_factory=dict)
    ways: tuple[str, ...] = (WORDS, FILE)
    devices: tuple[Device, ...] = ("cpu",)

    @property
    def is_parser(self) -> bool:
        """Whether every word has to have a head afterwards."""
        return self.package != ENCODER

    @property
    def is_other(self) -> bool:
        """Whether it is of other people, so that it parses one copy of the sentences alone: many take too long."""
        return self.package not in (OURS, ENCODER)


def _ours(name: str, *devices: Device, **build: Any) -> System:
    return System(name, OURS, "treefine_parser", build, devices=devices)


def _encoder(name: str, *devices: Device, **build: Any) -> System:
    sizes = {"layers": 12, "width": 384} | build
    return System(f"encoder alone, {name}", ENCODER, "bare_encoder", sizes, (ONE_PASS, ALL_PASSES), devices)


def _stanza(name: str, updates: int, update_words: int, batch_words: int = 5000, **build: Any) -> System:
    build |= {"updates": updates, "update_words": update_words, "batch_words": batch_words}
    return System(f"Stanza {name}", "stanza", "stanza_parser", build, devices=("cpu", "cuda"))


def _supar(name: str, *, tree: bool, **build: Any) -> System:
    ways = (WORDS,) if tree else (WORDS, FILE)  # the search takes long, and the same in both
    how = "trees" if tree else "best heads"
    devices: tuple[Device, ...] = ("cpu",) if tree else ("cpu", "cuda")
    return System(f"supar {name}, {how}", "supar", "supar_parser", {"tree": tree, **build}, ways, devices)


SYSTEMS = (
    _ours("treefine", "cpu", "cuda"),
    _ours(SURE, "cpu", "cuda", stop_above=STOP_ABOVE),
    _ours("treefine, float32", "cpu", "cuda", precision="float32"),
    _ours("treefine, one pass", "cpu", "cuda", max_steps=1),
    _ours("treefine, one pass, float32", "cpu", "cuda", max_steps=1, precision="float32"),
    _encoder("12 × 384, float32", "cpu", "cuda", kind="sdpa", dtype="float32"),
    _encoder("12 × 384, bfloat16", "cpu", "cuda", kind="sdpa", dtype="bfloat16"),
    _encoder("12 × 384, float16", "cuda", kind="sdpa", dtype="float16"),
    _encoder("12 × 384, int8", "cpu", kind="treefine", dtype="int8"),  # torch has none of its own
    _encoder("12 × 384, bfloat16, transformers", "cuda", kind="transformers", dtype="bfloat16"),
    _encoder("12 × 768, bfloat16", "cuda", kind="sdpa", dtype="bfloat16", width=768),
    _encoder("12 × 768, bfloat16, transformers", "cuda", kind="transformers", dtype="bfloat16", width=768),
    System("spaCy", "spacy", "spacy_parser", {"updates": 390, "processes": 1}, (WORDS,)),
    System("spaCy, 2 processes", "spacy", "spacy_parser", {"updates": 390, "processes": 2}, (WORDS,)),
    System("UDPipe 1, beam 5", "ufal.udpipe", "udpipe_parser", {"sentences": 12_000, "beam": 5}),
    System("UDPipe 1, beam 1", "ufal.udpipe", "udpipe_parser", {"sentences": 12_000, "beam": 1}),
    _stanza(f"default, {UNTRAINED}", 0, 300, has_char_lm=True),
    _stanza("fast, trained a little", 300, 1000, has_char_lm=False),
    _stanza("fast, trained a little, batches of 1000", 300, 1000, 1000, has_char_lm=False),
    _stanza(f"fast over BERT 12 × 384, {UNTRAINED}", 0, 300, has_char_lm=False, layers=12, width=384),
    _supar(f"BiLSTM, {UNTRAINED}", tree=False),
    _supar(f"BiLSTM, {UNTRAINED}", tree=True),
    _supar(f"BERT 12 × 384, {UNTRAINED}", tree=False, layers=12, width=384),
    _supar(f"BERT 12 × 384, {UNTRAINED}", tree=True, layers=12, width=384),
    _supar(f"BERT 12 × 768, {UNTRAINED}", tree=False, layers=12, width=768),
)
