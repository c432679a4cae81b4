"""The whole network, encoder and scorer: from words, tags and a graph to scores (Eqs. 1 and 7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from treefine.config import Column, ModelSettings
from treefine.errors import ConfigError
from treefine.model.batch import (
    N_SPECIALS,
    Batch,
    Encoded,
    Graphs,
    PieceInputs,
    TagIds,
    most_pieces_of_word,
    padded,
)
from treefine.model.encoder import TransformerEncoder
from treefine.model.scorer import BiaffineScorer, Scores, Tagger, padded_words
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import N_CASES, Vocabulary, flat_tags, inputs_of
from treefine.treebank.raw_text import N_GAPS, GapToken, gap_kinds
from treefine.treebank.sentence import Sentence


class ParserModel(nn.Module):
    """The network of RNGTr or SynTr, depending on its settings."""

    def __init__(self, settings: ModelSettings, vocabulary: Vocabulary, subwords: Subwords) -> None:
        super().__init__()
        self.settings, self.vocabulary, self.subwords = settings, vocabulary, subwords
        columns = settings.tags.columns if settings.tags.source != "none" else ()
        n_tags = tuple(len(getattr(vocabulary, column)) for column in columns)
        n_inputs = tuple(0 if name in settings.tags.unread else n for name, n in zip(columns, n_tags, strict=True))
        n_inputs += (N_CASES,) * settings.tags.case
        n_inputs += (len(vocabulary.treebanks),) * bool(vocabulary.treebanks)
        n_inputs += (N_GAPS,) * bool(settings.sentence_layers)  # the last one: only running text has it
        n_labels = len(vocabulary.labels)
        double = settings.tags.double_specials
        self.encoder = TransformerEncoder(  # or one of `treefine.fast`
            settings.encoder, settings.relations, n_labels=n_labels, n_tags=n_inputs, double_specials=double
        )
        self.scorer = BiaffineScorer(self.encoder.width, n_labels, settings.scorer)
        if settings.decode.root_label and vocabulary.label_id(settings.decode.root_label) is None:
            raise ConfigError(
                f"The root label {settings.decode.root_label!r} is not one of the model's labels.",
                hint='Choose one of them, or set root_label = "" in [decode] if no label is reserved for root words.',
            )
        predicts = settings.tags.source == "predicted"
        if predicts and 0 in n_tags:
            lacking = columns[n_tags.index(0)]
            raise ConfigError(
                f"The model should predict {lacking}, but its treebank has no such tags.",
                hint=f"Remove {lacking} from the columns in [tags].",
            )
        n_tags = tuple(0 if name in settings.tags.given else n for name, n in zip(columns, n_tags, strict=True))
        self.tagger = Tagger(self.encoder.width, n_tags, settings.scorer.dropout) if predicts else None
        # Each stage before the last has a scorer and a tagger of its own.
        early = settings.stages[:-1]
        self.draft_scorers = nn.ModuleList(BiaffineScorer(self.encoder.width, n_labels, settings.draft) for _ in early)
        taggers = (Tagger(self.encoder.width, n_tags, settings.draft.dropout) for _ in early if predicts)
        self.draft_taggers = nn.ModuleList(taggers)
        self.finds_sentences = settings.sentence_layers > 0  # of running text
        self.sentence_ends = nn.Linear(self.encoder.width, 1) if self.finds_sentences else None

    def forward(
        self, batch: Batch, graphs: Graphs | None = None, tags: TagIds | None = None, *, stage: int | None = None
    ) -> tuple[Scores, Encoded]:
        """Return the scores of a batch, RNGTr's with graphs, SynTr's without, and the vectors for the next step.

        `tags` are the tags to read, if any. A `stage` of the settings, counted from 0, continues from `batch.encoded`;
        without one, all layers run.
        """
        ends = self.settings.stage_ends
        last, start = len(ends) - 1, 0
        stage = last if stage is None else stage
        if batch.encoded is not None:
            start = ends[stage - 1] if stage <= last else self.settings.relations.first_layer
        stage = min(stage, last)
        encoded = self.encoder(batch.inputs, tags, graphs, range(start, ends[stage]), batch.encoded)
        words = encoded.last[batch.inputs.first_pieces]
        with torch.autocast(words.device.type, enabled=False):  # the encoder may run in bfloat16, the scorer never
            scorer = self.scorer if stage == last else self.draft_scorers[stage]
            scores: Scores = scorer(words.float(), batch.is_word, batch.places, batch.roots)
        tagger = self.tagger
        if tagger is not None and stage < last:
            tagger = cast("Tagger", self.draft_taggers[stage])
        return replace(scores, stage=stage, tagger=tagger), encoded

    def n_pieces(self, sentence: Sentence, pieces: Sequence[Sequence[int]] | None = None) -> int:
        """Return how many pieces of a sentence are read, CLS, ROOT and SEP included."""
        pieces = self.subwords.pieces_of(sentence.forms) if pieces is None else pieces
        most = most_pieces_of_word(self.settings.encoder.n_positions)
        return sum(min(len(each), most) for each in pieces) + N_SPECIALS

    def batch_of(
        self,
        sentences: Sequence[Sentence],
        pieces: Sequence[Sequence[Sequence[int]] | None] | None = None,
        *,
        padded_to: int = 1,
    ) -> Batch:
        """Return the sentences as tensors; the length of a row of pieces is a multiple of `padded_to`.

        `pieces` holds the pieces of each sentence's words, if they are already known.
        """
        known = pieces or [None] * len(sentences)
        inputs = PieceInputs.of(
            [own or self.subwords.pieces_of(sentence.forms) for sentence, own in zip(sentences, known, strict=True)],
            cls_id=self.subwords.cls_id,
            sep_id=self.subwords.sep_id,
            pad_id=self.subwords.pad_id,
            n_positions=self.settings.encoder.n_positions,
            padded_to=padded_to,
        )
        return Batch.of(inputs, [len(sentence) for sentence in sentences])

    def given_tags(self, sentences: Sequence[Sentence]) -> TagIds:
        """Return the ids of the sentences' own tags, in the columns that the model reads or predicts."""
        flat = flat_tags(sentences, self.vocabulary, self.settings.tags.columns)
        return torch.from_numpy(padded(flat, [len(sentence) for sentence in sentences], 0))

    def tag_inputs(self, sentences: Sequence[Sentence], *, read: Collection[Column]) -> TagIds | None:
        """Return what the encoder reads of the words besides their pieces (`inputs_of`), or None if that is nothing.

        Their own tags are part of it in the columns to `read`.
        """
        flat = inputs_of(sentences, self.vocabulary, self.settings.tags, read=read)
        return None if flat is None else torch.from_numpy(padded(flat, [len(sentence) for sentence in sentences], 0))

    def text_batch(
        self, windows: Sequence[Sequence[GapToken]], treebanks: Sequence[str] = (), *, padded_to: int = 1
    ) -> tuple[Batch, TagIds]:
        """Return stretches of running text as a batch, and what the encoder reads of their tokens besides pieces.

        `treebanks` has the code of each stretch's treebank, or "" if it is unknown; it may be left out.
        """
        sentences = [
            replace(Sentence.of_words([token.form for token in window]), treebank=treebank)
            for window, treebank in zip(windows, treebanks or [""] * len(windows), strict=True)
        ]
        gaps = np.array([gap_kinds(token) for window in windows for token in window], np.int32)[:, None]
        flat = inputs_of(sentences, self.vocabulary, self.settings.tags, read=())
        if flat is None:  # tags are the only inputs besides the gaps
            columns = self.settings.tags.columns if self.settings.tags.source != "none" else ()
            flat = np.zeros((len(gaps), len(columns)), np.int32)
        inputs = padded(np.concatenate([flat, gaps], axis=1), [len(each) for each in windows], 0)
        return self.batch_of(sentences, padded_to=padded_to), torch.from_numpy(inputs)

    def sentence_end_logits(self, batch: Batch, tags: TagIds) -> Float[Tensor, "batch word"]:
        """Return the score of each token of a `text_batch` for ending a sentence. Column 0 is ROOT."""
        assert self.sentence_ends is not None
        encoded = self.encoder(batch.inputs, tags, None, range(self.settings.sentence_layers))
        words = encoded.last[batch.inputs.first_pieces]
        with torch.autocast(words.device.type, enabled=False):
            logits = padded_words(self.sentence_ends(words.float()), batch.places, batch.is_word.shape)[..., 0]
        return logits

    @torch.no_grad()
    def sentence_end_scores(self, windows: Sequence[Sequence[GapToken]], treebank: str = "") -> list[np.ndarray]:
        """Return one score per token of each window; above zero, a sentence ends after the token."""
        batch, tags = self.text_batch(windows, [treebank] * len(windows), padded_to=4)
        device = self.sentence_ends.weight.device if self.sentence_ends is not None else torch.device("cpu")
        logits = self.sentence_end_logits(batch.to(device), tags.to(device)).cpu().numpy()
        return [row[1 : len(window) + 1] for row, window in zip(logits, windows, strict=True)]
