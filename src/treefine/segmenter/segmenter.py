"""Segmenter: split raw text into sentences, tokens and words, as a stream. Its folder contains no pickles."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

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
    are_clear,
    cuts_of,
    is_gap,
    sentences_of,
    with_whole_spans,
)
from treefine.segmenter.network import ENDS, Alphabet, CutScores, SegmenterNetwork, Windows
from treefine.segmenter.sentence_ends import SentenceEnds, SentenceScorer
from treefine.treebank.raw_text import Multiwords
from treefine.version import __version__

STRIDE = 1024  # characters in a window; windows start at multiples of this
CONTEXT = 192  # characters that are read on either side of a window
BLOCK_WINDOWS = 8  # windows of a long text that are scored before its first sentences; more would not be faster
IN_BATCH = 4  # windows; grouped the same way every time, because rounding depends on the batch; each core has a batch
GPU_WINDOWS = 256  # windows in a block and in a batch on a GPU
AT_ONCE = 32  # short texts or lines in a batch
_CONFIG, _WEIGHTS, _MULTIWORDS = "config.json", "segmenter.safetensors", "multiword.json"
_AGAIN = "Copy or download it again."
_CRLF = "\r\n"
_BREAK = re.compile("[\t\n\r\0]")  # characters that no word can hold
_CLOSE = 1e-3  # a smaller margin may have the other sign in another batch


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

    def segment_all(self, texts: Sequence[str]) -> list[list[Segmented]]:
        """Return the sentences of each text, as `segment` does; short texts share a batch.

        Scores differ slightly between batches, so a text with a close decision is scored again on its own. See
        docs/design.md, 'Batch invariance'.
        """
        segmented: dict[int, list[Segmented]] = {}
        plain = [text.replace(_CRLF, "\n") for text in texts]
        short = [number for number, text in enumerate(plain) if 0 < len(text) <= STRIDE]
        short.sort(key=lambda number: len(plain[number]))  # similar lengths together: less padding
        for first in range(0, len(short), AT_ONCE):
            group = short[first : first + AT_ONCE]
            token, sentence = self._scores([plain[number] for number in group])
            best, second = token.topk(2, dim=-1).values.unbind(-1)
            has_clear_token = (best - second > _CLOSE).numpy()  # [text, char]
            tokens, ends = token.argmax(-1).to(torch.int8).numpy(), sentence.numpy()
            scored, whole_spans = [], self.rules.whole_spans
            for row, text in enumerate(plain[number] for number in group):
                kept = with_whole_spans(tokens[row, : len(text)], text, whole_spans)
                scored.append(Scored(text, kept, ends[row, : len(text)]))
            if self.sentence_ends is not None:
                scored = self.sentence_ends.of_texts(scored, most_spaces=self.rules.most_spaces)
            for number, each, is_clear in zip(group, scored, has_clear_token, strict=True):
                is_sure = is_clear[: len(each.text)].all() and (abs(each.sentence) > _CLOSE).all()
                if is_sure and are_clear(each, _CLOSE):
                    segmented[number] = list(self._sentences(self._decided([each], [texts[number]])))
        return [segmented[number] if number in segmented else self.segment(text) for number, text in enumerate(texts)]

    def stream(self, chunks: Iterable[str]) -> Iterator[Segmented]:
        r"""Yield the sentences of a text that comes in chunks. Chunk borders make no difference.

        The network reads \n instead of \r\n, as in training.
        """
        pending_chunks = list[str]()  # of the original text

        def plain() -> Iterator[str]:
            held = ""  # no chunk ends between \r and \n
            for chunk in chain(chunks, [None]):
                text = held + (chunk or "")
                held = "\r" if chunk is not None and text.endswith("\r") else ""
                pending_chunks.append(text.removesuffix(held))
                yield pending_chunks[-1].replace(_CRLF, "\n")

        scored = self.scored(plain())
        if self.sentence_ends is not None:
            scored = self.sentence_ends.of_stream(scored, most_spaces=self.rules.most_spaces)
        return self._sentences(self._decided(scored, pending_chunks))

    def stream_lines(self, lines: Iterable[str]) -> Iterator[Segmented]:
        """Yield each line of a text, such as an open file, as one sentence; skip lines without a token."""
        return self._sentences(self._cuts_of_lines(lines), blank_lines_end=False)

    def _sentences(self, cuts: Iterable[Cuts], *, blank_lines_end: bool = True) -> Iterator[Segmented]:
        rules = self.rules
        return sentences_of(cuts, rules.multiwords, rules.most_spaces, self.code, blank_lines_end=blank_lines_end)

    def _decided(self, scored: Iterable[Scored], pending_chunks: list[str]) -> Iterator[Cuts]:
        r"""Yield the decisions about the original text, with each \r; take its chunks from `pending_chunks`."""
        text, start = "", 0
        for cuts in cuts_of(scored, are_log_odds=self.sentence_ends is not None):
            if pending_chunks:
                text, start = "".join([text[start:], *pending_chunks]), 0
                pending_chunks.clear()
            around = text[start : start + 2 * len(cuts.text)]  # each \n may have a \r before it
            whole = _with_returns(cuts, around) if _CRLF in around else cuts
            start += len(whole.text)
            yield whole

    def scored(self, chunks: Iterable[str]) -> Iterator[Scored]:
        r"""Yield the scores of a text without \r\n."""
        size = STRIDE * (GPU_WINDOWS if self.device.type == "cuda" else BLOCK_WINDOWS)
        before, parts, n_waiting = "", list[str](), 0
        for chunk in chain(chunks, [None]):
            parts.append(chunk or "")
            n_waiting += len(parts[-1])
            if chunk is not None and n_waiting < size + CONTEXT:
                continue
            text, start = "".join(parts), 0
            while len(text) - start >= size + CONTEXT or (chunk is None and start < len(text)):  # None is the end
                part, after = text[start : start + size], text[start + size : start + size + CONTEXT]
                places = [(before + part + after, len(before), len(before) + len(part))]
                yield Scored(part, *self._score_windows(places))
                before, start = part[-CONTEXT:], start + size
            parts, n_waiting = [text[start:]], len(text) - start

    def _cuts_of_lines(self, lines: Iterable[str]) -> Iterator[Cuts]:
        """Yield the decisions about each line on its own. A sentence ends only with the last token of its line."""
        lines = filter(None, lines)
        while group := list(islice(lines, AT_ONCE)):
            plain = [line.replace(_CRLF, "\n") for line in group]
            tokens, _ = self._score_windows([(line, 0, len(line)) for line in plain])
            stops = np.cumsum([len(line) for line in plain])
            for text, line, token in zip(plain, group, np.split(tokens, stops[:-1]), strict=True):
                ends = np.zeros(len(text), dtype=np.int8)
                for last in np.flatnonzero(~is_gap(text))[-1:]:
                    ends[last], token[last] = 1, max(token[last], ENDS)
                yield _with_returns(Cuts(text, token, ends, np.zeros(len(text), np.float32)), line)

    def _score_windows(self, places: Sequence[tuple[str, int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the token decisions and sentence scores for the characters of each (text, start, stop)."""
        windows = [
            (text[max(0, left - CONTEXT) : left + STRIDE + CONTEXT], min(left, CONTEXT), min(STRIDE, stop - left))
            for text, start, stop in places
            for left in range(start, stop, STRIDE)
        ]
        tokens, ends = [], []
        in_batch = GPU_WINDOWS if self.device.type == "cuda" else IN_BATCH
        groups = [windows[first : first + in_batch] for first in range(0, len(windows), in_batch)]
        results = on_all_cores(lambda some: self._scores([text for text, _, _ in some]), groups)
        for some, scores in zip(groups, results, strict=True):
            token, sentence = scores.token.argmax(-1).to(torch.int8).numpy(), scores.sentence.numpy()
            for row, (text, start, length) in enumerate(some):
                kept = with_whole_spans(token[row, : len(text)], text, self.rules.whole_spans)
                tokens.append(kept[start : start + length])
                ends.append(sentence[row, start : start + length])
        return np.concatenate(tokens), np.concatenate(ends)

    def _scores(self, texts: Sequence[str]) -> CutScores:
        """Return the scores of some windows, on the CPU."""
        number = self.treebanks.index(self.treebank) + 1 if self.treebank else 0
        windows = Windows.of([self.alphabet.encode(text) for text in texts], [number] * len(texts)).to(self.device)
        # The steps of an LSTM are so short that more threads would mostly wait.
        with torch.inference_mode(), torch_threads(1):
            token, sentence = self.network(windows)
        return CutScores(token.cpu(), sentence.cpu())

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.network.parameters()).device


def _with_returns(cuts: Cuts, text: str) -> Cuts:
    r"""Return the decisions about the original text, which starts with the text of the cuts except for each \r."""
    places = np.array([match.start() for match in re.finditer(_CRLF, text)], dtype=np.int64)
    places -= np.arange(len(places))  # of each \n in the text of the cuts
    places = places[places < len(cuts.text)]
    return Cuts(text[: len(cuts.text) + len(places)], *(np.insert(each, places, 0) for each in cuts[1:]))


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
