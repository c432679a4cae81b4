"""Train a segmenter on the raw text of treebanks, and make the running text that teaches an encoder sentence ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name
from torch.nn.utils.rnn import pad_sequence

from treefine.errors import TreefineError
from treefine.evaluation.scores import Score, load_pair, segmentation_scores
from treefine.segmenter.cut import WHOLE_SPANS, agreeing_rules
from treefine.segmenter.network import (
    ENDS,
    ENDS_MULTIWORD,
    WITHIN,
    Alphabet,
    CutScores,
    SegmenterNetwork,
    Windows,
)
from treefine.segmenter.segmenter import Segmenter, TokenizationRules
from treefine.segmenter.sentence_ends import ends_finally
from treefine.training.data import balanced_shares, by_treebank, words_by_treebank
from treefine.training.optimiser import Optimiser
from treefine.training.recipe import OptimiserSettings, SegmenterTraining, TreebankSettings
from treefine.treebank.graph import Graph
from treefine.treebank.raw_text import (
    PARAGRAPH,
    GapToken,
    RawText,
    RawToken,
    documents,
    joined,
    learn_multiwords,
    raw_sentences,
    raw_text,
)
from treefine.treebank.sentence import BLANK, Sentence

_Tokens: TypeAlias = "list[RawToken]"  # of one sentence
_BLOCK = 20  # sentences per document in a treebank without document boundaries
_NARROWEST, _WIDEST = 30, 100  # characters per wrapped line
_WARMUP = 0.05  # share of the training in which the learning rate rises
N_UPDATES = 2_000  # that a segmenter needs; by default, a small treebank gets smaller batches
_MOST_WINDOWS = 32  # per batch, by default
_MARKED = 0.5  # the share of sentences with final punctuation, below which sentence ends count as unmarked
NOWHERE = -100  # target of a character that is ignored
WINDOW = 192  # tokens of running text
BATCH_WINDOWS = 32  # of this length in a batch; more if they are shorter
_SHORTEST = 3  # tokens
_LONG, _WHOLE, _ALONE = 0.35, 0.4, 0.7  # shares: of long windows, of whole sentences, of these without neighbours
_QUOTES, _PAIRS = "\"“”'‘’", ('""', "“”")  # around a sentence: marks, and pairs
_IGNORED = -1.0  # the target of ROOT and padding


@dataclass(frozen=True)
class Documents:
    """The documents of a treebank as lists of tokens."""

    texts: tuple[tuple[_Tokens, ...], ...]
    are_named: bool  # False: blocks of sentences, with no blank line between them

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> Documents:
        """Return the documents of a treebank."""
        _, cut = raw_sentences(sentences)
        ranges = list(documents(sentences))
        are_named = len(ranges) > 1
        if not are_named:
            ranges = [range(first, min(first + _BLOCK, len(cut))) for first in range(0, len(cut), _BLOCK)]
        for some in ranges:  # gaps between documents are drawn later, and the last sentence may move
            cut[some.stop - 1] = _followed_by(cut[some.stop - 1], " ")
        return cls(tuple(tuple(cut[some.start : some.stop]) for some in ranges), are_named)

    def draw(self, settings: SegmenterTraining, rng: np.random.Generator, *, share: float = 1.0) -> RawText:
        """Return all documents in random order, some of them with changes to their layout.

        A share below 1 returns only some of the documents; with a share above 1, documents occur repeatedly.
        """
        text: list[_Tokens] = []
        n_drawn, numbers = max(1, round(share * len(self.texts))), list[int]()
        while len(numbers) < n_drawn:
            numbers += rng.permutation(len(self.texts))[: n_drawn - len(numbers)].tolist()
        for number in numbers:
            document = [_changed(sentence, settings, rng) for sentence in self.texts[number]]
            if rng.random() < settings.shuffled:  # keeps the network from memorising neighbouring sentences
                document = [document[place] for place in rng.permutation(len(document)).tolist()]
            text += _with_lines(document, settings, rng)
            is_apart = self.are_named and rng.random() >= settings.joined
            text[-1] = _followed_by(text[-1], PARAGRAPH if is_apart else " ")
        return joined(text)


def without_some(codes: Sequence[str], unnamed: float, rng: np.random.Generator) -> list[str]:
    """Return the codes of the treebanks of some windows, with "" for a share `unnamed` of them."""
    if not any(codes):
        return list(codes)
    return [code if kept else "" for code, kept in zip(codes, rng.random(len(codes)) >= unnamed, strict=True)]


def _changed(sentence: _Tokens, settings: SegmenterTraining, rng: np.random.Generator) -> _Tokens:
    """Return the sentence, perhaps in lower case, without its final punctuation mark or in quotation marks."""
    if rng.random() < settings.lowered:
        sentence = [RawToken(form.lower(), words, gap) for form, words, gap in sentence]
    if rng.random() < settings.unpointed and len(sentence) > 1 and sentence[-1].form in (".", "!", "?"):
        sentence = _followed_by(sentence[:-1], sentence[-1].gap)
    if rng.random() < settings.quoted and not any(mark in token.form for token in sentence for mark in _QUOTES):
        start, stop = (RawToken(mark, (mark,), "") for mark in rng.choice(_PAIRS))
        sentence = [start, *_followed_by(sentence, ""), stop._replace(gap=sentence[-1].gap)]
    return sentence


def _with_lines(document: list[_Tokens], settings: SegmenterTraining, rng: np.random.Generator) -> list[_Tokens]:
    """Return the document on one line, wrapped, or with one sentence per line."""
    choice = rng.random()
    if choice >= settings.wrapped:
        has_lines = choice < settings.wrapped + settings.lines
        return [_followed_by(sentence, "\n") for sentence in document] if has_lines else document
    width, wrapped, column = int(rng.integers(_NARROWEST, _WIDEST)), list[_Tokens](), 0
    for sentence in document:
        wrapped.append([])
        for token in sentence:
            column += len(token.form) + len(token.gap)
            if token.gap == " " and column > width:
                token, column = token._replace(gap="\n"), 0
            wrapped[-1].append(token)
    return wrapped


def _followed_by(sentence: _Tokens, gap: str) -> _Tokens:
    return [*sentence[:-1], sentence[-1]._replace(gap=gap)]


def _short(place: slice, text: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> slice:
    """Return some whole sentences of a window, without the gaps around them, if there are two or more in it."""
    token, sentence = (each[place] for each in text)
    ends = np.flatnonzero(sentence == 1) + 1
    if len(ends) < 2:
        return place
    first, last = np.sort(rng.choice(len(ends), 2, replace=False))
    start = ends[first] + np.argmax(token[ends[first] :] != NOWHERE)
    return slice(place.start + int(start), place.start + int(ends[last]))


_Batch: TypeAlias = "tuple[Windows, Tensor, Tensor]"  # and the targets of tokens and sentences; see `cut_loss`


class SegmenterLearner:
    """A segmenter in training. After the last epoch it has the weights of the best epoch."""

    def __init__(
        self, texts: RunningText, dev: Sequence[Sentence], *, seed: int = 1, device: torch.device | None = None
    ) -> None:
        torch.manual_seed(seed)
        settings, self.seed, self.device = texts.settings, seed, device or torch.device("cpu")
        self.texts, self.settings = texts, settings
        self.segmenter = new_segmenter(texts.train, settings)
        self.network = self.segmenter.network.to(self.device)
        self.dev_texts = {code: (raw_text(some).text, some) for code, some in by_treebank(dev).items()}
        rates = OptimiserSettings(
            settings.learning_rate, eps=1e-8, weight_decay=settings.weight_decay, warmup=_WARMUP, ema=settings.ema
        )
        self.optimiser = Optimiser(self.network, rates)

    def epochs(self) -> Iterator[tuple[int, float, dict[str, float]]]:
        """Train, and yield number, loss and dev F1 of each scored epoch: by default all, and always the last."""
        best, best_sum = self._weights(), -1.0
        with ThreadPoolExecutor(1) as thread:  # prepares the batches of the next epoch
            following = thread.submit(self._prepare, 1)
            for epoch in range(1, self.settings.epochs + 1):
                batches = following.result()
                if epoch < self.settings.epochs:
                    following = thread.submit(self._prepare, epoch + 1)
                loss = self._learn(batches, epoch)
                if not math.isfinite(loss):
                    message = f"In epoch {epoch}, the loss of the segmenter became infinite or NaN."
                    raise TreefineError(message, hint="Set a lower segmenter.learning_rate.")
                if epoch % self.settings.dev_every and epoch < self.settings.epochs:
                    continue
                with self.optimiser.averaged():
                    f1 = self.dev_f1()
                    if f1["Words"] + f1["Sentences"] > best_sum:
                        best, best_sum = self._weights(), f1["Words"] + f1["Sentences"]
                yield epoch, loss, f1
        self.network.load_state_dict(best)

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.detach().clone() for name, weight in self.network.state_dict().items()}

    def dev_f1(self) -> dict[str, float]:
        """Return the F1 of the current weights on the raw text of dev: the mean over the treebanks."""
        scores = [
            text_scores(self.segmenter.for_treebank(code), text, some) for code, (text, some) in self.dev_texts.items()
        ]
        return {name: fmean(one[name].f1 for one in scores) for name in scores[0]}

    def _learn(self, batches: Sequence[_Batch], epoch: int) -> float:
        """Train on the batches of an epoch; return the mean loss."""
        losses: list[Tensor] = []
        self.network.train()
        for done, (windows, *gold) in enumerate(batches):
            scores = self.network(windows.to(self.device), hidden=self.settings.masking)
            loss = cut_loss(scores, *(table.to(self.device) for table in gold))
            torch.autograd.backward(loss)
            self.optimiser.update((epoch - 1 + done / len(batches)) / self.settings.epochs)
            losses.append(loss.detach())
        self.network.eval()
        return float(torch.stack(losses).mean())

    def _prepare(self, epoch: int) -> list[_Batch]:
        """Return batches of windows of new texts, in random order. Those of each text start at a random offset."""
        rng, settings, size = np.random.default_rng([self.seed, epoch]), self.settings, self.settings.window
        encoded, right, places = list[np.recarray](), list[tuple[np.ndarray, np.ndarray]](), list[tuple[int, slice]]()
        texts = self.texts.draw(rng)
        for number, (_, drawn) in enumerate(texts):
            encoded.append(self.segmenter.alphabet.encode(drawn.text))
            right.append(targets(drawn))
            n_chars = len(drawn.text)
            offsets = np.arange(-int(rng.integers(size)), n_chars, size).clip(0, max(0, n_chars - size))
            stretches = [slice(offset, offset + size) for offset in offsets.tolist()]
            are_short = rng.random(len(stretches)) < settings.short
            places += [
                (number, _short(each, right[-1], rng) if is_short else each)
                for each, is_short in zip(stretches, are_short, strict=True)
            ]
        most = settings.batch_windows or min(_MOST_WINDOWS, max(1, settings.epochs * len(places) // N_UPDATES))
        order = rng.permutation(len(places))
        codes = without_some([texts[number][0] for number, _ in places], self.texts.unnamed, rng)
        numbers = {"": 0} | {code: number for number, code in enumerate(self.segmenter.treebanks, start=1)}
        batches: list[_Batch] = []
        for some in np.array_split(order, max(1, len(order) // most)):
            chosen = [places[window] for window in some.tolist()]
            treebanks = [numbers[codes[window]] for window in some.tolist()]
            windows = Windows.of([encoded[number][place] for number, place in chosen], treebanks)
            token, sentence = (
                pad_sequence([torch.from_numpy(right[number][kind][place]) for number, place in chosen], True, padding)
                for kind, padding in ((0, NOWHERE), (1, -1))
            )
            batches.append((windows, token, sentence))
        return batches


def new_segmenter(train: Sequence[Sentence], settings: SegmenterTraining) -> Segmenter:
    """Return an untrained segmenter that knows the characters of the text and the habits of each treebank."""
    treebanks = by_treebank(train)
    texts = {code: raw_text(some) for code, some in treebanks.items()}
    alphabet = Alphabet.of("".join(text.text for text in texts.values()), settings.network)
    habits = {code: _habits(some, texts[code], code) for code, some in treebanks.items()}
    codes = tuple(filter(None, treebanks))
    if codes and "" not in habits:  # no treebank is without a code
        agreed = [name for name in WHOLE_SPANS if all(name in each.whole_spans for each in habits.values())]
        habits[""] = TokenizationRules(whole_spans=tuple(agreed))
    network = SegmenterNetwork(settings.network, n_chars=len(alphabet), n_treebanks=len(codes))
    return Segmenter(network, alphabet, habits, treebanks=codes)


def _habits(train: Sequence[Sentence], text: RawText, code: str) -> TokenizationRules:
    tokens = [token.form for sentence in train for token in sentence.tokens()]
    most_spaces = max(sum(map(str.isspace, form)) for form in tokens)
    last = [text.text[slice(*span)] for span, ends in zip(text.spans, text.ends_sentence, strict=True) if ends]
    marks_ends = not code or sum(map(ends_finally, last)) >= _MARKED * len(last)
    return TokenizationRules(learn_multiwords(train), most_spaces, agreeing_rules(text), marks_ends)


def text_scores(segmenter: Segmenter, text: str, gold: Sequence[Sentence]) -> dict[str, Score]:
    """Score the tokens, sentences and words that a segmenter finds in the text of a treebank."""

    def with_any_tree(sentence: Sentence) -> Sentence:  # because the scorer needs trees
        return sentence.with_graph(Graph.of_words([0] + [1] * (len(sentence) - 1), [BLANK] * len(sentence)))

    return segmentation_scores(load_pair(gold, [with_any_tree(one.sentence) for one in segmenter.segment(text)]))


def cut_loss(
    scores: CutScores, token: Int[Tensor, "batch char"], sentence: Float[Tensor, "batch char"]
) -> Float[Tensor, ""]:
    """Return the mean loss over characters in tokens plus that over ends of tokens. Negative targets are ignored."""
    is_token, is_end = token >= 0, sentence >= 0
    wanted = token.masked_fill(~is_token, NOWHERE).flatten()
    token_loss = F.cross_entropy(scores.token.flatten(0, 1), wanted, ignore_index=NOWHERE, reduction="sum")
    end_losses = F.binary_cross_entropy_with_logits(scores.sentence, sentence.clamp(min=0), reduction="none")
    # No number is read from the device, so that a GPU is never waited for.
    return token_loss / is_token.sum().clamp(min=1) + (end_losses * is_end).sum() / is_end.sum().clamp(min=1)


def targets(text: RawText) -> tuple[np.ndarray, np.ndarray]:
    """Return two targets for each character of a text: for its token and for its sentence."""
    token, sentence = np.full(len(text.text), NOWHERE), np.full(len(text.text), -1, dtype=np.float32)
    if text.spans:
        first, end = np.array(text.spans).T
        change = np.zeros(len(text.text) + 1, dtype=np.int8)
        change[first] += 1
        change[end] -= 1
        token[np.cumsum(change, dtype=np.int8)[:-1] > 0] = WITHIN
        token[end - 1] = np.where([len(words) == 1 for words in text.words], ENDS, ENDS_MULTIWORD)
        sentence[end - 1] = text.ends_sentence
    return token, sentence


@dataclass(frozen=True)
class TextWindow:
    """A stretch of running text, and whether a sentence ends after each of its tokens."""

    tokens: tuple[GapToken, ...]
    ends: tuple[bool, ...]
    treebank: str = ""  # code of its treebank; empty if it is masked


def windows_of(text: RawText, *, rng: np.random.Generator | None = None, treebank: str = "") -> list[TextWindow]:
    r"""Cut a text into windows of the same number of tokens or, with `rng`, of any number from 3 on.

    Some of these end with a sentence and have no neighbours or only a \n after them, as a short text.
    """
    edges = [0, *(place for span in text.spans for place in span), len(text.text)]
    gaps = [text.text[first:end] for first, end in zip(edges[::2], edges[1::2], strict=True)]
    forms = [text.text[first:end] for first, end in text.spans]
    tokens, windows, stop = list(map(GapToken, forms, gaps, gaps[1:])), list[TextWindow](), 0
    while stop < len(tokens):
        first, size, is_whole, is_alone = stop, WINDOW, False, False
        if rng is not None:
            is_whole, is_alone = rng.random(2) < (_WHOLE, _ALONE)
            size = WINDOW if rng.random() < _LONG else int(np.exp(rng.uniform(*np.log([_SHORTEST, WINDOW]))))
        stop = min(first + size, len(tokens))
        while is_whole and stop < len(tokens) and not text.ends_sentence[stop - 1]:
            stop += 1
        some = tokens[first:stop]
        if rng is not None and is_whole and is_alone:
            some[0] = some[0]._replace(before="")
            some[-1] = some[-1]._replace(after=rng.choice(["", "\n"]))
        windows.append(TextWindow(tuple(some), text.ends_sentence[first:stop], treebank))
    return windows


class RunningText:
    """The text of one or more treebanks, drawn again for each epoch."""

    def __init__(self, train: Sequence[Sentence], settings: SegmenterTraining, treebank: TreebankSettings) -> None:
        self.train, self.settings, self.unnamed = train, settings, treebank.unnamed
        self.shares = balanced_shares(list(words_by_treebank(train).values()), treebank.balance)
        self.documents = {code: Documents.of(some) for code, some in by_treebank(train).items()}

    def draw(self, rng: np.random.Generator) -> list[tuple[str, RawText]]:
        """Return one text per treebank, with the code of the treebank."""
        pairs = zip(self.documents.items(), self.shares, strict=True)
        return [(code, some.draw(self.settings, rng, share=share)) for (code, some), share in pairs]

    def batches(self, rng: np.random.Generator) -> list[list[TextWindow]]:
        """Return the windows of an epoch in random batches."""
        windows: list[TextWindow] = []
        for _ in range(self.settings.texts_per_epoch):
            for code, text in self.draw(rng):
                windows += windows_of(text, rng=rng, treebank=code)
        codes = without_some([window.treebank for window in windows], self.unnamed, rng)
        windows = [replace(window, treebank=code) for window, code in zip(windows, codes, strict=True)]
        windows.sort(key=lambda window: len(window.tokens) + rng.random())  # similar lengths: less padding
        stops = np.cumsum([len(window.tokens) for window in windows]) // (BATCH_WINDOWS * WINDOW)
        batches = [[windows[each] for each in np.flatnonzero(stops == number)] for number in range(stops[-1] + 1)]
        return [batches[each] for each in rng.permutation(len(batches)) if batches[each]]


def end_loss(logits: Float[Tensor, "batch word"], windows: Sequence[TextWindow]) -> Float[Tensor, ""]:
    """Return the mean loss over the tokens of some windows. Column 0 of the logits is ROOT."""
    right = np.full(logits.shape, _IGNORED, np.float32)
    for row, window in zip(right, windows, strict=True):
        row[1 : len(window.ends) + 1] = window.ends
    targets = torch.from_numpy(right).to(logits.device)
    is_token = targets != _IGNORED
    return F.binary_cross_entropy_with_logits(logits[is_token], targets[is_token])
