"""Train a segmenter on the raw text of a treebank; F1 of words and sentences on dev chooses the best epoch."""

from __future__ import annotations

import copy
import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.errors import TreefineError
from treefine.evaluation.scores import Score, load_pair, segmentation_scores
from treefine.segmenter.cut import Segmented
from treefine.segmenter.network import ENDS, ENDS_MULTIWORD, WITHIN, Alphabet, CutScores, SegmenterNetwork, Windows
from treefine.segmenter.segmenter import Segmenter
from treefine.segmenter.whole_spans import agreeing_rules
from treefine.training.optimiser import rate_factor, update_mean
from treefine.training.recipe import SegmenterTraining
from treefine.treebank.graph import Graph
from treefine.treebank.multiword import learn_multiwords
from treefine.treebank.raw_text import PARAGRAPH, RawText, RawToken, documents, joined, raw_sentences, raw_text
from treefine.treebank.sentence import BLANK, Sentence

_Tokens: TypeAlias = "list[RawToken]"  # of one sentence
_BLOCK = 20  # sentences per document in a treebank without document boundaries
_NARROWEST, _WIDEST = 30, 100  # characters per wrapped line
_WARMUP = 0.05  # share of the training in which the learning rate rises
_CLIP = 1.0  # largest norm of the gradient
N_UPDATES = 2_000  # that a segmenter needs; by default, a small treebank gets smaller batches
_MOST_WINDOWS = 32  # per batch, by default
_LEARNED = 0.01  # difference in F1 that shows that something was learned
NOWHERE = -100  # target of a character that is ignored


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
        for each in ranges:  # gaps between documents are drawn later, and the last sentence may move
            cut[each.stop - 1] = _followed_by(cut[each.stop - 1], " ")
        return cls(tuple(tuple(cut[each.start : each.stop]) for each in ranges), are_named)

    def draw(self, settings: SegmenterTraining, rng: np.random.Generator) -> RawText:
        """Return all documents in random order, some of them with changes to their layout."""
        text: list[_Tokens] = []
        for number in rng.permutation(len(self.texts)).tolist():
            document = [_changed(sentence, settings, rng) for sentence in self.texts[number]]
            if rng.random() < settings.shuffled:  # keeps the network from memorising neighbouring sentences
                document = [document[place] for place in rng.permutation(len(document)).tolist()]
            text += _with_lines(document, settings, rng)
            is_apart = self.are_named and rng.random() >= settings.joined
            text[-1] = _followed_by(text[-1], PARAGRAPH if is_apart else " ")
        return joined(text)


def _changed(sentence: _Tokens, settings: SegmenterTraining, rng: np.random.Generator) -> _Tokens:
    """Return the sentence unchanged, in lower case, or without its final punctuation mark."""
    if rng.random() < settings.lowered:
        sentence = [RawToken(form.lower(), words, gap) for form, words, gap in sentence]
    if rng.random() < settings.unpointed and len(sentence) > 1 and sentence[-1].form in (".", "!", "?"):
        sentence = _followed_by(sentence[:-1], sentence[-1].gap)
    return sentence


def _with_lines(document: list[_Tokens], settings: SegmenterTraining, rng: np.random.Generator) -> list[_Tokens]:
    """Return the document on one line, wrapped, or with one sentence per line."""
    choice = rng.random()
    if choice < settings.wrapped:
        return _wrapped(document, int(rng.integers(_NARROWEST, _WIDEST)))
    if choice < settings.wrapped + settings.lines:
        return [_followed_by(sentence, "\n") for sentence in document]
    return document


def _wrapped(document: list[_Tokens], width: int) -> list[_Tokens]:
    wrapped, column = [], 0
    for sentence in document:
        wrapped.append(list[RawToken]())
        for token in sentence:
            column += len(token.form) + len(token.gap)
            if token.gap == " " and column > width:
                token, column = token._replace(gap="\n"), 0
            wrapped[-1].append(token)
    return wrapped


def _followed_by(sentence: _Tokens, gap: str) -> _Tokens:
    return [*sentence[:-1], sentence[-1]._replace(gap=gap)]


@dataclass(frozen=True)
class SegmenterEpoch:
    """The result of an epoch: F1 on the raw text of dev."""

    epoch: int
    loss: float
    scores: dict[str, Score]  # Tokens, Sentences, Words
    is_best: bool  # so far
    seconds: float  # since the start of the training
    has_learned: bool  # whether an epoch so far was better than cutting at spaces and blank lines


class CharTargets(NamedTuple):
    """The targets of each character; negative targets are ignored."""

    token: Int[Tensor, "batch char"]
    sentence: Float[Tensor, "batch char"]


class SegmenterLearner:
    """A segmenter in training. After the last epoch it has the weights of the best epoch."""

    def __init__(
        self,
        train: Sequence[Sentence],
        dev: Sequence[Sentence],
        settings: SegmenterTraining,
        *,
        seed: int = 1,
        device: torch.device | None = None,
    ) -> None:
        torch.manual_seed(seed)
        self.settings, self.seed, self.dev, self.device = settings, seed, dev, device or torch.device("cpu")
        self.segmenter = new_segmenter(train, settings)
        self.network = copy.deepcopy(self.segmenter.network).to(self.device).train()
        self.mean = self.segmenter.network.to(self.device)  # has the moving average of the weights
        self.documents, self.text = Documents.of(train), raw_text(dev).text
        self.at_spaces = cut_at_spaces(raw_text(dev))
        self.adam = torch.optim.AdamW(
            self.network.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=self.device.type == "cuda",
        )
        self.n_updates = 0

    def epochs(self) -> Iterator[SegmenterEpoch]:
        """Train, and yield the result of each epoch."""
        best, best_accuracy, began = _copied(self.mean), -1.0, time.monotonic()
        has_learned = min(self.at_spaces.values()) > 1 - _LEARNED  # there is nothing to learn
        for epoch in range(1, self.settings.epochs + 1):
            loss = self._learn(epoch)
            if not math.isfinite(loss):
                hint = "Set a lower segmenter.learning_rate."
                raise TreefineError(f"In epoch {epoch}, the loss of the segmenter became infinite or NaN.", hint=hint)
            scores = measured(self.segmenter, self.text, self.dev)
            accuracy = (scores["Words"].f1 + scores["Sentences"].f1) / 2
            is_best = accuracy > best_accuracy
            if is_best:
                best, best_accuracy = _copied(self.mean), accuracy
            has_learned |= any(scores[name].f1 > f1 + _LEARNED for name, f1 in self.at_spaces.items())
            yield SegmenterEpoch(epoch, loss, scores, is_best, time.monotonic() - began, has_learned)
        self.mean.load_state_dict(best)

    def _learn(self, epoch: int) -> float:
        """Train on the whole text once; return the mean loss."""
        rng = np.random.default_rng([self.seed, epoch])
        text = self.documents.draw(self.settings, rng)
        batches = list(_batches(text, self.segmenter.alphabet, self.settings, rng))
        losses = []
        for done, (windows, gold) in enumerate(batches):
            progress = (epoch - 1 + done / len(batches)) / self.settings.epochs
            losses.append(self._update(windows.to(self.device), gold, progress))
        return float(torch.stack(losses).mean())

    def _update(self, windows: Windows, gold: CharTargets, progress: float) -> Tensor:
        scores = self.network(windows, hidden=self.settings.masking)
        loss = cut_loss(scores, gold.token.to(self.device), gold.sentence.to(self.device))
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP)
        for group in self.adam.param_groups:
            group["lr"] = self.settings.learning_rate * rate_factor(progress, _WARMUP)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.n_updates += 1
        mean, weights = list(self.mean.parameters()), list(self.network.parameters())
        update_mean(mean, weights, self.settings.ema, self.n_updates)
        return loss.detach()


def nothing_learned(epoch: SegmenterEpoch, settings: SegmenterTraining) -> str:
    """Return a warning if a segmenter has learned nothing after a tenth of its epochs, or at the end."""
    if epoch.has_learned or epoch.epoch not in (math.ceil(settings.epochs / 10), settings.epochs):
        return ""
    fewer = f"a lower segmenter.batch_windows than {settings.batch_windows}, or " if settings.batch_windows > 1 else ""
    return (
        f"After {epoch.epoch} of {settings.epochs} epochs, the segmenter cuts text no better than at spaces and blank "
        f"lines. It may need more updates: set {fewer}more segmenter.epochs than {settings.epochs}. To train without a "
        "segmenter, set segmenter.train=never."
    )


def cut_at_spaces(text: RawText) -> dict[str, float]:
    """Return the F1 of tokens and sentences if the text is cut only at spaces and blank lines."""
    begins = [0, *(number + 1 for number, ends in enumerate(text.ends_sentence) if ends)]
    sentences = [(text.spans[first][0], text.spans[end - 1][1]) for first, end in pairwise(begins)]
    found = {"Tokens": (text.spans, r"\S+"), "Sentences": (sentences, r"\S(?:.*?\S)?(?=\s*(?:\n\s*\n|$))")}
    scores = {}
    for name, (gold, pattern) in found.items():
        ours = [each.span() for each in re.finditer(pattern, text.text, re.DOTALL)]
        scores[name] = Score(len(gold), len(ours), len(set(gold) & set(ours))).f1
    return scores


def new_segmenter(train: Sequence[Sentence], settings: SegmenterTraining) -> Segmenter:
    """Return an untrained segmenter that knows the characters and multiword tokens of the treebank."""
    text = raw_text(train)
    alphabet = Alphabet.of(text.text, settings.network.n_hashes)
    tokens = [token.form for sentence in train for token in sentence.tokens()]
    most_spaces = max(sum(map(str.isspace, form)) for form in tokens)
    network = SegmenterNetwork(settings.network, n_chars=len(alphabet))
    whole_spans = agreeing_rules(text)
    return Segmenter(network, alphabet, learn_multiwords(train), most_spaces=most_spaces, whole_spans=whole_spans)


def measured(segmenter: Segmenter, text: str, gold: Sequence[Sentence]) -> dict[str, Score]:
    """Score the tokens, sentences and words that a segmenter finds in the text of a treebank."""
    return cut_scores(segmenter.segment(text), gold)


def cut_scores(found: Iterable[Segmented], gold: Sequence[Sentence]) -> dict[str, Score]:
    """Score the tokens, sentences and words of a segmented text."""

    def with_any_tree(sentence: Sentence) -> Sentence:  # because the scorer needs trees
        return sentence.with_graph(Graph.of_words([0] + [1] * (len(sentence) - 1), [BLANK] * len(sentence)))

    return segmentation_scores(load_pair(gold, [with_any_tree(each.sentence) for each in found]))


def cut_loss(
    scores: CutScores, token: Int[Tensor, "batch char"], sentence: Float[Tensor, "batch char"]
) -> Float[Tensor, ""]:
    """Return the mean loss over characters in tokens plus that over ends of tokens. Negative targets are ignored."""
    is_token, is_end = token >= 0, sentence >= 0
    token_loss = F.cross_entropy(scores.token[is_token], token[is_token], reduction="sum")
    sentence_loss = F.binary_cross_entropy_with_logits(scores.sentence[is_end], sentence[is_end], reduction="sum")
    return token_loss / max(1, int(is_token.sum())) + sentence_loss / max(1, int(is_end.sum()))


def _batches(
    text: RawText, alphabet: Alphabet, settings: SegmenterTraining, rng: np.random.Generator
) -> Iterator[tuple[Windows, CharTargets]]:
    """Yield batches of windows of a text, starting at a random offset, in random order."""
    encoded, (token, sentence) = alphabet.encode(text.text), targets(text)
    size = settings.window
    offsets = np.arange(-int(rng.integers(size)), len(encoded), size).clip(0, max(0, len(encoded) - size))
    most = settings.batch_windows or min(_MOST_WINDOWS, max(1, settings.epochs * len(offsets) // N_UPDATES))
    for some in np.array_split(rng.permutation(offsets), max(1, len(offsets) // most)):
        places = [slice(offset, offset + size) for offset in some.tolist()]
        cut = (np.stack([each[place] for place in places]) for each in (token, sentence))
        yield Windows.of([encoded[place] for place in places]), CharTargets(*map(torch.from_numpy, cut))


def targets(text: RawText) -> tuple[np.ndarray, np.ndarray]:
    """Return two targets for each character of a text: for its token and for its sentence."""
    token, sentence = np.full(len(text.text), NOWHERE), np.full(len(text.text), -1, dtype=np.float32)
    for (first, end), words, ends_sentence in zip(text.spans, text.words, text.ends_sentence, strict=True):
        token[first : end - 1] = WITHIN
        token[end - 1] = ENDS if len(words) == 1 else ENDS_MULTIWORD
        sentence[end - 1] = ends_sentence
    return token, sentence


def _copied(network: SegmenterNetwork) -> dict[str, Tensor]:
    return {name: each.detach().clone() for name, each in network.state_dict().items()}
