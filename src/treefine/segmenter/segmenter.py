"""Segmenter: split raw text into sentences, tokens and words, as a stream. Its folder contains no pickles."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from treefine.config import SegmenterSettings, SentenceEndSettings, read_settings
from treefine.cores import on_all_cores, torch_threads
from treefine.errors import ModelError
from treefine.model.folder import new_folder, restored, rounded
from treefine.model.weight_files import check_weights, read_json, read_weights, write_json
from treefine.segmenter.cut import Cuts, Scored, Segmented, is_gap, sentences_of
from treefine.segmenter.line_ends import are_clear, cuts_of
from treefine.segmenter.network import ENDS, WITHIN, Alphabet, CutScores, SegmenterNetwork, Windows
from treefine.segmenter.sentence_ends import SentenceEnds, SentenceScorer
from treefine.segmenter.whole_spans import WHOLE_SPANS, is_inside
from treefine.treebank.multiword import Multiwords
from treefine.version import __version__

STRIDE = 1024  # characters in a window; windows start at multiples of this
CONTEXT = 192  # characters that are read on either side of a window
BLOCK_WINDOWS = (
    8  # windows of a long text that are scored before its first sentences come out; more would not be faster
)
IN_BATCH = 4  # windows; grouped the same way every time, because rounding depends on the batch; each core has a batch
GPU_WINDOWS = 256  # windows in a block and in a batch on a GPU
AT_ONCE = 32  # short texts or lines in a batch
_FORMAT = 1  # the version of the folder format; a later treefine may write a higher one …
_FORMAT_OF_SEVERAL = 2  # … and that of a segmenter of several treebanks
_CONFIG, _WEIGHTS, _MULTIWORDS = "config.json", "segmenter.safetensors", "multiword.json"
_AGAIN = "Copy or download it again."
_CRLF = "\r\n"
_CLOSE = 1e-3  # a smaller margin may have the other sign in another batch


@dataclass(frozen=True)
class TokenizationRules:
    """The rules by which a treebank cuts text into tokens and words, apart from what the network learns."""

    multiwords: Multiwords = field(default_factory=Multiwords)
    most_spaces: int = 0  # maximum number of spaces in a token
    whole_spans: tuple[str, ...] = ()  # names of rules that keep URLs and the like whole
    marks_ends: bool = True  # whether most sentences end in final punctuation; in Thai they do not


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
        sentence_ends: SentenceEnds | None = None,
    ) -> None:
        self.network, self.alphabet = network.eval(), alphabet
        self.habits, self.treebanks = {"": TokenizationRules(), **habits}, tuple(treebanks)
        self.treebank = ""  # whose habits the segmenter follows; empty if it is unknown
        self.code = ""  # that the sentences get
        self.sentence_ends = sentence_ends

    def for_treebank(self, code: str) -> Segmenter:
        """Return a segmenter with the same network and the habits of this treebank; neutral ones if it is unknown."""
        other = copy(self)  # it shares the weights
        other.treebank, other.code = code if code in self.treebanks else "", code
        if self.sentence_ends is not None:
            other = other.with_encoder(self.sentence_ends.scorer, self.sentence_ends.settings)
        return other

    def with_encoder(self, scorer: SentenceScorer, settings: SentenceEndSettings) -> Segmenter:
        """Return a segmenter with the same network in which the encoder of a parser also scores sentence ends."""
        other = copy(self)
        keeps_titles, has_margin = "title" in self.whole_spans, self.own_habits.marks_ends
        other.sentence_ends = SentenceEnds(scorer, settings, keeps_titles, has_margin, self.treebank)
        return other

    @property
    def own_habits(self) -> TokenizationRules:
        """The habits of the treebank that this segmenter is for."""
        return self.habits[self.treebank]

    @property
    def multiwords(self) -> Multiwords:
        """Rules for splitting multiword tokens."""
        return self.own_habits.multiwords

    @property
    def most_spaces(self) -> int:
        """The maximum number of spaces in a token."""
        return self.own_habits.most_spaces

    @property
    def whole_spans(self) -> tuple[str, ...]:
        """The names of rules that keep URLs and the like whole."""
        return self.own_habits.whole_spans

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> Segmenter:
        """Load the segmenter of a folder. A missing, damaged or foreign file raises a ModelError."""
        path = Path(folder, _CONFIG)
        config = read_json(path)
        if not _is_ours(config):
            raise ModelError("This is not a segmenter's config.", hint="Is this a segmenter's folder?", path=str(path))
        wanted = _FORMAT_OF_SEVERAL if "treebanks" in config else _FORMAT
        if config["format"] != wanted:
            hint = f"It was saved by treefine {config.get('treefine')}; this is {__version__}."
            raise ModelError(f"The folder has format {config['format']!r}, not {wanted}.", hint=hint, path=str(path))
        settings = read_settings(SegmenterSettings, config["segmenter"], path=str(path))
        characters = config.get("alphabet")
        if not isinstance(characters, str) or len(set(characters)) < len(characters):
            raise ModelError("The alphabet is damaged: characters must not repeat.", hint=_AGAIN, path=str(path))
        treebanks, listed = _listed_habits(config, path)
        alphabet = Alphabet(characters, settings.n_hashes, splits_unspaced=settings.splits_unspaced)
        with torch.device("meta"):
            network = SegmenterNetwork(settings, n_chars=len(alphabet), n_treebanks=len(treebanks))
        weights = restored(read_weights(Path(folder, _WEIGHTS)))
        check_weights(weights, network.state_dict(), path=str(Path(folder, _WEIGHTS)))
        network.load_state_dict(weights, assign=True)
        tables = read_json(Path(folder, _MULTIWORDS))
        if not treebanks:
            tables = {"": tables}
        multiwords = _read_multiwords(tables, listed, Path(folder, _MULTIWORDS))
        habits = {code: _habits(each, multiwords.get(code, Multiwords()), path) for code, each in listed.items()}
        return cls(network, alphabet, habits, treebanks=treebanks)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a self-contained folder, which replaces an older segmenter once it is complete."""
        with new_folder(Path(folder), may_be_replaced=_may_be_replaced) as new:
            self.write(new)

    def write(self, folder: Path) -> None:
        """Write the files into an existing folder, with weights in eight bits."""
        values: dict[str, Any] = {"treefine": __version__, "format": _FORMAT}
        values |= {"segmenter": asdict(self.network.settings), "alphabet": self.alphabet.characters}
        habits = {
            code: {"most_spaces": each.most_spaces, "whole_spans": list(each.whole_spans)}
            | ({} if each.marks_ends else {"marks_ends": False})
            for code, each in self.habits.items()
        }
        tables = {code: asdict(each.multiwords) for code, each in self.habits.items() if each.multiwords.forms}
        if self.treebanks:
            values |= {"format": _FORMAT_OF_SEVERAL, "treebanks": list(self.treebanks), "habits": habits}
            text = json.dumps(tables, ensure_ascii=False, separators=(",", ":"))
            (folder / _MULTIWORDS).write_text(text + "\n", encoding="utf-8")
        else:
            values |= habits[""]
            write_json(folder / _MULTIWORDS, asdict(self.multiwords))
        write_json(folder / _CONFIG, values)
        weights = {name: each.detach().cpu() for name, each in self.network.state_dict().items()}
        small = {name: each.contiguous() for name, each in rounded(weights).items()}
        for name, each in small.items():
            if not each.isfinite().all():
                raise ModelError(f"The weight {name} of the segmenter is not finite in 16 bits; nothing was saved.")
        save_file(small, folder / _WEIGHTS, metadata={"format": "pt"})
        (folder / _WEIGHTS).chmod((folder / _CONFIG).stat().st_mode)  # safetensors lets only the owner read it

    def segment(self, text: str) -> list[Segmented]:
        """Return the sentences of a text."""
        return list(self.stream([text]))

    def segment_all(self, texts: Sequence[str]) -> list[list[Segmented]]:
        """Return the sentences of each text, as `segment` does; short texts share a batch.

        Scores differ slightly between batches, so a text with a close decision is scored again on its own. See
        docs/design.md, 'Batch invariance'.
        """
        found: dict[int, list[Segmented]] = {}
        plain = [text.replace(_CRLF, "\n") for text in texts]
        short = [number for number, text in enumerate(plain) if 0 < len(text) <= STRIDE]
        short.sort(key=lambda number: len(plain[number]))  # similar lengths together: less padding
        for first in range(0, len(short), AT_ONCE):
            group = short[first : first + AT_ONCE]
            token, sentence = self._scores([plain[number] for number in group])
            best, second = token.topk(2, dim=-1).values.unbind(-1)
            has_clear_token = (best - second > _CLOSE).numpy()  # [text, char]
            tokens, ends = token.argmax(-1).to(torch.int8).numpy(), sentence.numpy()
            scored = list[Scored]()
            for row, text in enumerate(plain[number] for number in group):
                scored.append(Scored(text, self._kept_whole(tokens[row, : len(text)], text), ends[row, : len(text)]))
            if self.sentence_ends is not None:
                scored = self.sentence_ends.of_texts(scored, most_spaces=self.most_spaces)
            for number, each, is_clear in zip(group, scored, has_clear_token, strict=True):
                is_sure = is_clear[: len(each.text)].all() and (abs(each.sentence) > _CLOSE).all()
                if is_sure and are_clear(each, _CLOSE):
                    found[number] = list(self._sentences(_restored(self._decided([each]), [texts[number]])))
        return [found[number] if number in found else self.segment(text) for number, text in enumerate(texts)]

    def stream(self, chunks: Iterable[str]) -> Iterator[Segmented]:
        """Yield the sentences of a text that comes in chunks. Chunk borders make no difference."""
        return self._sentences(self._cuts(chunks))

    def _sentences(self, cuts: Iterable[Cuts]) -> Iterator[Segmented]:
        return sentences_of(cuts, self.multiwords, most_spaces=self.most_spaces, treebank=self.code)

    def stream_lines(self, lines: Iterable[str]) -> Iterator[Segmented]:
        """Yield each line of a text, such as an open file, as one sentence; skip lines without a token."""
        found = self._cuts_of_lines(lines)
        return sentences_of(
            found, self.multiwords, most_spaces=self.most_spaces, blank_lines_end=False, treebank=self.code
        )

    def _cuts(self, chunks: Iterable[str]) -> Iterator[Cuts]:
        r"""Yield the decisions about a text, block by block. The network reads \n instead of \r\n, as in training."""
        pending_chunks = list[str]()  # chunks of the original text

        def plain() -> Iterator[str]:
            for chunk in _whole_breaks(chunks):
                pending_chunks.append(chunk)
                yield chunk.replace(_CRLF, "\n")

        scored = self.scored(plain())
        if self.sentence_ends is not None:
            scored = self.sentence_ends.of_stream(scored, most_spaces=self.most_spaces)
        yield from _restored(self._decided(scored), pending_chunks)

    def _decided(self, scored: Iterable[Scored]) -> Iterator[Cuts]:
        return cuts_of(scored, are_log_odds=self.sentence_ends is not None)

    def scored(self, chunks: Iterable[str]) -> Iterator[Scored]:
        r"""Yield the scores of a text without \r\n."""
        size = STRIDE * (GPU_WINDOWS if self.device.type == "cuda" else BLOCK_WINDOWS)
        before, parts, n_waiting = "", list[str](), 0
        for chunk in chunks:
            parts.append(chunk)
            n_waiting += len(chunk)
            if n_waiting < size + CONTEXT:
                continue
            text = "".join(parts)
            start = 0
            while len(text) - start >= size + CONTEXT:
                yield self._block(before, text[start : start + size], text[start + size : start + size + CONTEXT])
                before, start = text[start + size - CONTEXT : start + size], start + size
            parts, n_waiting = [text[start:]], len(text) - start
        text = "".join(parts)
        for start in range(0, len(text), size):  # at most two blocks: the first has less than CONTEXT after it
            block = text[start : start + size]
            yield self._block(before, block, text[start + size : start + size + CONTEXT])
            before = block[-CONTEXT:]

    def _block(self, before: str, block: str, after: str) -> Scored:
        return Scored(block, *self._score_windows([(before + block + after, len(before), len(before) + len(block))]))

    def _cuts_of_lines(self, lines: Iterable[str]) -> Iterator[Cuts]:
        """Yield the decisions about each line on its own. A sentence ends only with the last token of its line."""
        lines = (line for line in lines if line)
        while group := list(islice(lines, AT_ONCE)):
            plain = [line.replace(_CRLF, "\n") for line in group]
            token, _ = self._score_windows([(line, 0, len(line)) for line in plain])
            ends, stop = np.zeros(len(token), dtype=bool), 0
            for line in plain:
                in_token = np.flatnonzero(~is_gap(line))
                if len(in_token):
                    last = stop + in_token[-1]
                    ends[last], token[last] = True, max(token[last], ENDS)
                stop += len(line)
            cuts = Cuts("".join(plain), token, ends, np.zeros(len(token), np.float32))
            yield _with_returns(cuts, "".join(group), np.concatenate([*map(_is_read, group)]))

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
        found = on_all_cores(lambda some: self._scores([text for text, _, _ in some]), groups)
        for some, scores in zip(groups, found, strict=True):
            token, sentence = scores.token.argmax(-1).to(torch.int8).numpy(), scores.sentence.numpy()
            for row, (text, start, length) in enumerate(some):
                kept = self._kept_whole(token[row, : len(text)], text)
                tokens.append(kept[start : start + length])
                ends.append(sentence[row, start : start + length])
        return np.concatenate(tokens), np.concatenate(ends)

    def _kept_whole(self, token: np.ndarray, text: str) -> np.ndarray:
        """Return the token decisions about a text, with no end within a span that stays whole."""
        return np.where(is_inside(text, self.whole_spans), WITHIN, token) if self.whole_spans else token

    def _scores(self, texts: Sequence[str]) -> CutScores:
        """Return the scores of some windows, on the CPU."""
        number = self.treebanks.index(self.treebank) + 1 if self.treebank else 0
        numbers = [number] * len(texts)
        windows = Windows.of([self.alphabet.encode(text) for text in texts], numbers).to(self.device)
        # The steps of an LSTM are so short that more threads would mostly wait.
        with torch.inference_mode(), torch_threads(1):
            token, sentence = self.network(windows)
        return CutScores(token.cpu(), sentence.cpu())

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.network.parameters()).device


def _whole_breaks(chunks: Iterable[str]) -> Iterator[str]:
    r"""Yield the same text in chunks that do not end between \r and \n."""
    held = ""
    for chunk in chunks:
        text = held + chunk
        held = "\r" * text.endswith("\r")
        yield text.removesuffix("\r")
    yield held


def _restored(found: Iterable[Cuts], pending_chunks: list[str]) -> Iterator[Cuts]:
    r"""Yield the decisions about the original text, with each \r; take its chunks from `pending_chunks`."""
    text, start = "", 0
    for cuts in found:
        if pending_chunks:
            text, start = "".join([text[start:], *pending_chunks]), 0
            pending_chunks.clear()
        around = text[start : start + 2 * len(cuts.text)]  # each \n may have a \r before it
        restored = _with_returns(cuts, around, _is_read(around))
        start += len(restored.text)
        yield restored


def _is_read(text: str) -> np.ndarray:
    r"""Return the mask of the characters that the network reads: all except \r before \n."""
    mask = np.ones(len(text), dtype=bool)
    mask[[found.start() for found in re.finditer(_CRLF, text)]] = False
    return mask


def _with_returns(cuts: Cuts, text: str, is_read: np.ndarray) -> Cuts:
    r"""Return the decisions about the original text, which starts with the text of the cuts except for each \r."""
    places = np.flatnonzero(is_read)[: len(cuts.text)]
    stop = int(places[-1]) + 1
    token, ends = np.full(stop, WITHIN, dtype=cuts.token.dtype), np.zeros(stop, dtype=np.int8)
    doubt = np.zeros(stop, dtype=np.float32)
    token[places], ends[places], doubt[places] = cuts.token, cuts.ends_sentence, cuts.doubt
    return Cuts(text[:stop], token, ends, doubt)


def _may_be_replaced(folder: Path) -> bool:
    """Return whether a folder is empty or holds a segmenter and nothing else."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    ours = {_CONFIG, _WEIGHTS, _MULTIWORDS}
    return not names or (names <= ours and _CONFIG in names and _is_ours(read_json(folder / _CONFIG)))


def _is_ours(config: Mapping[str, Any]) -> bool:
    return "format" in config and "segmenter" in config


def _listed_habits(config: Mapping[str, Any], path: Path) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the codes of the treebanks, none if there is only one treebank, and the habits by code, unchecked."""
    if "treebanks" not in config:
        return (), {"": config}
    treebanks, habits = config["treebanks"], config.get("habits")
    is_valid = isinstance(treebanks, list) and all(isinstance(each, str) and each for each in treebanks)
    if not is_valid or not treebanks or len({*treebanks}) < len(treebanks):
        raise ModelError("The list of treebanks is damaged.", hint=_AGAIN, path=str(path))
    has_entries = isinstance(habits, dict) and all(isinstance(each, dict) for each in habits.values())
    if not isinstance(habits, dict) or not has_entries or habits.keys() != {"", *treebanks}:
        raise ModelError("The habits are damaged: they need one entry per treebank.", hint=_AGAIN, path=str(path))
    return tuple(treebanks), habits


def _habits(values: Mapping[str, Any], multiwords: Multiwords, path: Path) -> TokenizationRules:
    most_spaces, whole_spans = values.get("most_spaces"), values.get("whole_spans", [])
    if type(most_spaces) is not int or most_spaces < 0:
        raise ModelError(f"most_spaces must be 0 or more, not {most_spaces!r}.", hint=_AGAIN, path=str(path))
    if not isinstance(whole_spans, list) or not {*map(str, whole_spans)} <= {*WHOLE_SPANS}:
        known = ", ".join(WHOLE_SPANS)
        raise ModelError(f"whole_spans = {whole_spans!r}; known rules are {known}.", hint=_AGAIN, path=str(path))
    marks_ends = values.get("marks_ends", True)
    if type(marks_ends) is not bool:
        raise ModelError(f"marks_ends must be true or false, not {marks_ends!r}.", hint=_AGAIN, path=str(path))
    return TokenizationRules(multiwords, most_spaces, tuple(whole_spans), marks_ends)


def _read_multiwords(tables: Mapping[str, Any], codes: Iterable[str], path: Path) -> dict[str, Multiwords]:
    """Read the table of each treebank that has one."""
    try:
        if unknown := tables.keys() - {*codes}:
            raise ValueError(f"{min(unknown)} is unknown")
        return {code: _multiwords(dict(values)) for code, values in tables.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = error if isinstance(error, ValueError) else "a part is missing or has the wrong type"
        message = f"The table of multiword tokens is damaged ({reason})."
        raise ModelError(message, hint=_AGAIN, path=str(path)) from error


def _multiwords(values: dict[str, Any]) -> Multiwords:
    forms = {form: _words(words) for form, words in values.pop("forms").items()}
    endings = _rules(values.pop("endings"), joined=0)
    beginnings = _rules(values.pop("beginnings"), joined=-1)
    if values:
        raise ValueError(f"{next(iter(values))} is unknown")
    return Multiwords(forms, endings, beginnings)


def _rules(values: Mapping[str, Any], *, joined: int) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Read rules; the word at `joined` is joined to the rest of the token, so it may be empty."""
    found = {}
    for key, rule in values.items():
        if not isinstance(rule, list) or len(rule) != 2:
            raise ValueError(f"{key!r} needs a number and words")
        changed, words = rule
        if type(changed) is not int or not 0 <= changed <= len(key):
            raise ValueError(f"{key!r} changes {changed!r} characters")
        found[key] = (changed, _words(words, joined=joined))
    return found


def _words(words: Any, *, joined: int | None = None) -> tuple[str, ...]:
    is_valid = isinstance(words, list) and len(words) > 1 and all(isinstance(word, str) for word in words)
    whole = [word for place, word in enumerate(words) if joined is None or place != joined % len(words)]
    if not is_valid or not all(whole) or any(mark in word for word in words for mark in "\t\n\r\0"):
        raise ValueError(f"{words!r} must be several words")
    return tuple(words)
