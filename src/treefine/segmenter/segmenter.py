"""Segmenter: split raw text into sentences, tokens and words, as a stream. Its folder contains no pickles."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from safetensors.torch import save_file

from treefine.config import Checked, SegmenterSettings, SentenceEndSettings, read_json, read_settings, write_json
from treefine.cores import on_all_cores, torch_threads
from treefine.errors import ModelError
from treefine.model.folder import check_weights, new_folder, read_weights, restored, rounded
from treefine.segmenter.cut import (
    WHOLE_SPANS,
    Cuts,
    Scored,
    Segmented,
    cuts_of,
    is_gap,
    part,
    sentences_of,
    with_whole_spans,
)
from treefine.segmenter.network import ENDS, Alphabet, SegmenterNetwork, Windows
from treefine.segmenter.sentence_ends import SentenceEnds, SentenceScorer
from treefine.treebank.raw_text import Multiwords
from treefine.version import __version__

TEXT_BLOCK = 16_384  # characters of a long text whose sentences come out together
TEXT_REACH = 256  # characters on either side of a block from which its decisions are made
STRIDE = 2048  # characters in a window of the network; windows start at multiples of this in a block
CONTEXT = 192  # characters that the network reads on either side of a window
AT_ONCE = TEXT_BLOCK  # characters of one or more texts that are scored together …
IN_BATCH = 8192  # … and in one batch; each core has a batch
GPU_FACTOR = 32  # times as many on a GPU
_CONFIG, _WEIGHTS, _MULTIWORDS = "config.json", "segmenter.safetensors", "multiword.json"
_AGAIN = "Copy or download it again."
_CRLF = "\r\n"
_BREAK = re.compile("[\t\n\r\0]")  # characters that no word can hold
_HAS_BFLOAT16 = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)  # instructions for products in it
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class TokenizationRules(Checked):
    """The rules by which a treebank cuts text into tokens and words, apart from what the network learns."""

    multiwords: Multiwords = field(default_factory=Multiwords)
    most_spaces: int = 0  # maximum number of spaces in a token
    whole_spans: tuple[str, ...] = ()  # names of rules that keep URLs and the like whole
    marks_ends: bool = True  # whether most sentences end in final punctuation; in Thai they do not

    def _faults(self) -> Iterator[str]:
        if not {*self.whole_spans} <= WHOLE_SPANS.keys():
            yield f"whole_spans = {self.whole_spans}; known rules are {', '.join(WHOLE_SPANS)}"


@dataclass(frozen=True)
class _Config(Checked):
    """The content of config.json."""

    segmenter: SegmenterSettings
    alphabet: str
    habits: dict[str, TokenizationRules]  # by treebank; those of "" are for texts whose treebank is not known
    treebanks: tuple[str, ...] = ()
    treefine: str = __version__  # which saved it
    format: int = 2

    def _faults(self) -> Iterator[str]:
        if len(set(self.alphabet)) < len(self.alphabet):
            yield "the alphabet is damaged: characters must not repeat"
        if len(set(self.treebanks)) < len(self.treebanks):
            yield "the list of treebanks is damaged"


class Segmenter:
    """A network and the habits of one or more treebanks, ready to segment text.

    `habits` are those of each treebank by its code. The key "" has those of a text whose treebank is not known, or
    those of the only treebank. `treebanks` are the codes in the order of the network's table. `for_treebank` returns
    the segmenter for texts like those of one treebank. Without `sentence_ends`, the network alone decides where
    sentences end. They belong to a parser and are not saved.
    """

    def __init__(
        self,
        network: SegmenterNetwork,
        alphabet: Alphabet,
        habits: Mapping[str, TokenizationRules],
        *,
        treebanks: Sequence[str] = (),
    ) -> None:
        self.network, self.alphabet = network.eval(), alphabet
        self.habits, self.treebanks = {"": TokenizationRules(), **habits}, tuple(treebanks)
        self.treebank = ""  # whose habits the segmenter follows; empty if it is unknown
        self.rules = self.habits[""]  # of that treebank
        self.code = ""  # that the sentences get
        self.sentence_ends: SentenceEnds | None = None

    def for_treebank(self, code: str) -> Segmenter:
        """Return a segmenter with the same network and the habits of this treebank; neutral ones if it is unknown."""
        other = copy(self)  # it shares the weights
        other.treebank, other.code = code if code in self.treebanks else "", code
        other.rules = self.habits[other.treebank]
        if self.sentence_ends is not None:
            other = other.with_encoder(self.sentence_ends.scorer, self.sentence_ends.settings)
        return other

    def with_encoder(self, scorer: SentenceScorer, settings: SentenceEndSettings) -> Segmenter:
        """Return a segmenter with the same network in which the encoder of a parser also scores sentence ends."""
        other = copy(self)
        keeps_titles, has_margin = "title" in self.rules.whole_spans, self.rules.marks_ends
        other.sentence_ends = SentenceEnds(scorer, settings, keeps_titles, has_margin, self.treebank)
        return other

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> Segmenter:
        """Load the segmenter of a folder. A missing, damaged or foreign file raises a ModelError."""
        path = Path(folder, _CONFIG)
        values = read_json(path)
        if "segmenter" not in values:
            raise ModelError("This is not a segmenter's config.", hint="Is this a segmenter's folder?", path=str(path))
        config = read_settings(_Config, values, path=str(path))
        multiwords = _read_multiwords(Path(folder, _MULTIWORDS))
        habits = {
            code: replace(each, multiwords=multiwords.pop(code, Multiwords())) for code, each in config.habits.items()
        }
        if habits.keys() != {"", *config.treebanks} or multiwords:
            raise ModelError("The habits are damaged: they need one entry per treebank.", hint=_AGAIN, path=str(path))
        alphabet = Alphabet(
            config.alphabet, config.segmenter.n_hashes, splits_unspaced=config.segmenter.splits_unspaced
        )
        with torch.device("meta"):
            network = SegmenterNetwork(config.segmenter, n_chars=len(alphabet), n_treebanks=len(config.treebanks))
        weights = restored(read_weights(Path(folder, _WEIGHTS)))
        check_weights(weights, network.state_dict(), path=str(Path(folder, _WEIGHTS)))
        network.load_state_dict(weights, assign=True)
        return cls(network, alphabet, habits, treebanks=config.treebanks)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a self-contained folder, which must not exist yet, with weights in eight bits."""
        values = asdict(_Config(self.network.settings, self.alphabet.characters, self.habits, self.treebanks))
        tables = {code: each.pop("multiwords") for code, each in values["habits"].items()}
        text = json.dumps({code: each for code, each in tables.items() if each["forms"]}, ensure_ascii=False)
        weights = {name: each.detach().cpu() for name, each in self.network.state_dict().items()}
        small = {name: each.contiguous() for name, each in rounded(weights).items()}
        for name, each in small.items():
            if not each.isfinite().all():
                raise ModelError(f"The weight {name} of the segmenter is not finite in 16 bits; nothing was saved.")
        with new_folder(Path(folder)) as new:
            write_json(new / _CONFIG, values)
            (new / _MULTIWORDS).write_text(text + "\n", encoding="utf-8")
            save_file(small, new / _WEIGHTS, metadata={"format": "pt"})
            (new / _WEIGHTS).chmod((new / _CONFIG).stat().st_mode)  # safetensors lets only the owner read it

    def segment(self, text: str) -> list[Segmented]:
        """Return the sentences of a text."""
        return list(self.stream([text]))

    def segment_all(self, texts: Iterable[str]) -> Iterator[list[Segmented]]:
        """Yield the sentences of each text. The texts may be endless; several of them are read together."""
        stretches = list[Scored]()
        for stretch, ends_text in self._scored(block for text in texts for block in _blocks([text])):
            stretches.append(stretch)
            if ends_text:
                yield list(self._sentences(self._cuts(stretches)))
                stretches = []

    def stream(self, chunks: Iterable[str]) -> Iterator[Segmented]:
        """Yield the sentences of a text that comes in chunks. Chunk borders make no difference."""
        return self._sentences(self._cuts(stretch for stretch, _ in self._scored(_blocks(chunks))))

    def stream_lines(self, lines: Iterable[str]) -> Iterator[Segmented]:
        """Yield each line of a text, such as an open file, as one sentence; skip lines without a token."""
        cuts = (_cuts_of_line(stretch) for stretch, _ in self._scored(map(_Block.of_line, lines), finds_ends=False))
        return self._sentences(cuts, blank_lines_end=False)

    def _cuts(self, stretches: Iterable[Scored]) -> Iterator[Cuts]:
        return cuts_of(stretches, are_log_odds=self.sentence_ends is not None)

    def _sentences(self, cuts: Iterable[Cuts], *, blank_lines_end: bool = True) -> Iterator[Segmented]:
        rules = self.rules
        return sentences_of(cuts, rules.multiwords, rules.most_spaces, self.code, blank_lines_end=blank_lines_end)

    def _scored(self, blocks: Iterable[_Block], *, finds_ends: bool = True) -> Iterator[tuple[Scored, bool]]:
        r"""Yield the scores of each block, and whether its text ends there; score several blocks together.

        The networks read \n instead of \r\n, as in training.
        """
        ends = self.sentence_ends if finds_ends else None
        for group in _groups(blocks, lambda block: len(block.text), AT_ONCE * self._share):
            scored = self.char_scores([block.text.replace(_CRLF, "\n") for block in group])
            if ends is not None:
                scored = ends.of_texts(scored, most_spaces=self.rules.most_spaces)
            for block, each in zip(group, scored, strict=True):
                whole = _with_returns(each, block.text) if _CRLF in block.text else each
                yield part(whole, block.start, block.stop), block.ends_text

    def char_scores(self, texts: Sequence[str]) -> list[Scored]:
        r"""Return what the network of characters says about some texts without \r\n."""
        places = [(number, left) for number, text in enumerate(texts) for left in range(0, len(text), STRIDE)]
        windows = [texts[number][max(0, left - CONTEXT) : left + STRIDE + CONTEXT] for number, left in places]
        order = sorted(range(len(windows)), key=lambda window: len(windows[window]))  # less padding
        groups = list(_groups(order, lambda window: len(windows[window]), IN_BATCH * self._share))
        results = on_all_cores(lambda some: self._scores([windows[each] for each in some]), groups)
        scored = [Scored(text, np.zeros(len(text), np.int8), np.zeros(len(text), np.float32)) for text in texts]
        for window, token, sentence in zip(order, *map(chain.from_iterable, zip(*results, strict=True)), strict=True):
            number, left = places[window]
            start, stop = min(left, CONTEXT), min(STRIDE, len(texts[number]) - left)
            scored[number].token[left : left + stop] = token[start : start + stop]
            scored[number].sentence[left : left + stop] = sentence[start : start + stop]
        rules = self.rules.whole_spans
        return [each._replace(token=with_whole_spans(each.token, each.text, rules)) for each in scored]

    def _scores(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the token decisions and the sentence scores of some windows, padded."""
        number = self.treebanks.index(self.treebank) + 1 if self.treebank else 0
        windows = Windows.of(self.alphabet.encode_all(texts), [number] * len(texts)).to(self.device)
        # The steps of an LSTM are so short that more threads would mostly wait.
        is_fast = self.device.type == "cpu" and _HAS_BFLOAT16()
        with torch.inference_mode(), torch_threads(1), torch.autocast("cpu", torch.bfloat16, enabled=is_fast):
            token, sentence = self.network(windows)
            return token.argmax(-1).to(torch.int8).cpu().numpy(), sentence.float().cpu().numpy()

    @property
    def _share(self) -> int:
        """The factor by which batches are larger on this device than on a CPU."""
        return GPU_FACTOR if self.device.type == "cuda" else 1

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.network.parameters()).device


class _Block(NamedTuple):
    """A stretch of a text, with some of the text on either side as context."""

    text: str  # with its context
    start: int  # of the stretch in it
    stop: int
    ends_text: bool

    @classmethod
    def of_line(cls, line: str) -> _Block:
        return cls(line, 0, len(line), ends_text=True)


def _blocks(chunks: Iterable[str]) -> Iterator[_Block]:
    """Yield a text that comes in chunks as blocks of the same length; the last one is shorter."""
    text, start = "", 0  # of the next block
    for chunk in chain(chunks, [None]):
        text += chunk or ""
        while chunk is None or len(text) - start >= TEXT_BLOCK + TEXT_REACH:
            first, stop = max(0, start - TEXT_REACH), min(start + TEXT_BLOCK, len(text))
            ends_text = chunk is None and stop == len(text)
            yield _Block(text[first : stop + TEXT_REACH], start - first, stop - first, ends_text)
            if ends_text:
                return
            start = stop
        first = max(0, start - TEXT_REACH)
        text, start = text[first:], start - first


def _groups(items: Iterable[_Item], length: Callable[[_Item], int], most: int) -> Iterator[list[_Item]]:
    """Group consecutive items of at least `most` characters in all; the last group has fewer."""
    group, n_characters = list[_Item](), 0
    for each in items:
        group.append(each)
        n_characters += 1 + length(each)  # empty ones count too
        if n_characters >= most:
            yield group
            group, n_characters = [], 0
    if group:
        yield group


def _cuts_of_line(scored: Scored) -> Cuts:
    """Return the decisions about a line. Its sentence ends with its last token."""
    ends, token = np.zeros(len(scored.text), dtype=np.int8), scored.token.copy()
    for last in np.flatnonzero(~is_gap(scored.text))[-1:]:
        ends[last], token[last] = 1, max(token[last], ENDS)
    return Cuts(scored.text, token, ends, np.zeros(len(ends), np.float32))


def _with_returns(scored: Scored, text: str) -> Scored:
    r"""Return the scores of a text for the original text, which has \r\n in some places where this one has \n."""
    places = np.array([match.start() for match in re.finditer(_CRLF, text)], dtype=np.int64)
    places -= np.arange(len(places))  # of each \n in the text of the scores
    return Scored(text, *(np.insert(each, places, 0) for each in scored[1:]))


def _read_multiwords(path: Path) -> dict[str, Multiwords]:
    """Read the table of each treebank that has one."""
    tables, read = read_json(path), dict[str, Multiwords]()
    try:
        for code, values in tables.items():
            forms = {key: tuple(words) for key, words in values["forms"].items()}
            endings, beginnings = (
                {key: (int(size), tuple(words)) for key, (size, words) in values[name].items()}
                for name in ("endings", "beginnings")
            )
            several = [*forms.values(), *(words for rules in (endings, beginnings) for _, words in rules.values())]
            if any(len(words) < 2 or _BREAK.search("".join(words)) for words in several):
                raise ValueError
            read[code] = Multiwords(forms, endings, beginnings)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError("The table of multiword tokens is damaged.", hint=_AGAIN, path=str(path)) from error
    return read
