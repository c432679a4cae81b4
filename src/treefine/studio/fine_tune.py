"""One run of learning, in a process of its own: fine-tune a model on a few sentences, and compare it with another.

Unlike `treefine train --from`, the model keeps all its labels, tags and lemma rules: a few sentences lack most of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

import torch

from treefine.model.parser_model import ParserModel
from treefine.parsing.parser import Parser
from treefine.studio.learn import FineTuneRequest, LearningState, compared
from treefine.training import recipe as recipes
from treefine.training.dev import calibrated
from treefine.training.learner import Learner
from treefine.training.new_model import copy_rows, row_names
from treefine.training.processes import Processes
from treefine.treebank.schemes import read_as
from treefine.treebank.sentence import Sentence

_DECIDED_SHARE = 0.25  # of the sentences: with decided arcs, so that the model keeps the ability to read them


class FineTuner:
    """A model that learns from corrected sentences, epoch by epoch."""

    def __init__(self, request: FineTuneRequest) -> None:
        if hasattr(os, "nice"):
            os.nice(10)  # others come first
        self.request, settings = request, request.settings
        self.start = self._loaded(request.model)
        self.model = with_labels(self.start.model, (label for each in request.train for label in each.labels))
        plan = self._parser().plan()
        sentences = list(plan.language.of_sentences(request.train))
        self.epochs = max(1, min(settings.epochs, settings.most_words // sum(map(len, sentences))))
        ours = self.model.settings
        recipe = recipes.Recipe(
            recipes.TreebankSettings(("corrected",), ("held-back",), unnamed=0.0),  # the files are not read
            recipes.PretrainedSettings(fine_tune_from=request.model),
            tags=recipes.TagTraining(refined=ours.tags.refined),
            initial=recipes.InitialSettings(decided_share=_DECIDED_SHARE * ours.relations.decided),
            refine=recipes.RefineSettings(max_steps=plan.max_steps if ours.reads_graph else 1),
            optimiser=recipes.OptimiserSettings(
                settings.learning_rate, settings.encoder_learning_rate, eps=1e-8, warmup=0.1
            ),
            training=recipes.TrainingSettings(self.epochs, batch_pieces=settings.batch_pieces, masking=0.1, seed=1),
        )
        if self.model.sentence_ends is not None:  # the layers that also find sentences in text stay as they are
            self.model.encoder.requires_grad_(False)
            self.model.sentence_ends.requires_grad_(False)
            for layer in self.model.encoder.layers[self.model.settings.sentence_layers :]:
                layer.requires_grad_(True)
        graphs = list(plan.initial(sentences))
        self.learner = Learner(self.model, recipe, sentences, graphs, Processes(torch.device("cpu")))
        self.n_done = 0

    def epoch(self) -> float:
        """Train on all sentences once, and return the completed fraction of the training."""
        self.n_done += 1
        for _ in self.learner.epoch(self.n_done):
            pass
        return self.n_done / self.epochs

    def compared(self) -> LearningState:
        """Calibrate and save the new model, and compare it with the present one on the words of the held-back trees."""
        parser, request = self._parser(), self.request
        settings = self.model.settings  # a model is too sure after reading few sentences several times
        confidence, drafts = calibrated(parser, request.held_back, sentences=settings.confidence)
        self.model.settings = replace(settings, confidence=confidence, draft_confidence=drafts, calibration={})
        notes = f"Fine-tuned from {request.model} on {len(request.train):,} corrected sentences by treefine annotate."
        parser.save(request.output, dtype=torch.float16, notes=notes)
        words = [Sentence.of_words(sentence.forms) for sentence in request.held_back]
        present, new = (self._loaded(name).stream_trees(words) for name in (request.present, str(request.output)))
        return compared(request.held_back, present, new, most_p=request.settings.most_p)

    def _parser(self) -> Parser:
        """Return a parser with the current weights and everything else of the model that was loaded."""
        start = self.start
        return Parser(self.model, segmenter=start.segmenter, languages=start.languages, **start.options.set_options)

    def _loaded(self, name: str) -> Parser:
        return Parser.from_pretrained(name, device="cpu", keep="nothing", language=self.request.language or None)


def with_labels(model: ParserModel, labels: Iterable[str]) -> ParserModel:
    """Return a model that also knows these labels; new ones start as their main type, dep or the first."""
    known = model.vocabulary.labels
    new = tuple(sorted(set(labels).difference(known)))
    other = "dep" if "dep" in known else known[0]
    similar = {label: main if (main := read_as(label, known)) in known else other for label in new}
    wider = ParserModel(model.settings, replace(model.vocabulary, labels=(*known, *new)), model.subwords)
    old_weights, weights = model.state_dict(), wider.state_dict()
    for name, weight in weights.items():
        names = row_names(name, wider)
        if names is not None:  # such as "nsubj" or "up decided nsubj"
            pairs = [each.rpartition(" ") for each in names]
            names = [kind + space + similar.get(label, label) for kind, space, label in pairs]
        copy_rows(weight, old_weights[name], names, row_names(name, model))
    wider.load_state_dict(weights)
    return wider.eval()
