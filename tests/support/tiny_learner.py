"""A Learner of a tiny model, with a recipe to match."""

from dataclasses import asdict, replace

import torch
from torch import nn

from treefine.model.attention import RelationAttention
from treefine.model.scorer import SharedDropout
from treefine.parsing.initial import empty
from treefine.training import dev
from treefine.training.learner import Learner
from treefine.training.processes import Processes
from treefine.training.recipe import (
    InitialSettings,
    OptimiserSettings,
    PretrainedSettings,
    Recipe,
    RefineSettings,
    SegmenterTraining,
    TagTraining,
    TrainingSettings,
    TreebankSettings,
)
from treefine.training.segmenter import RunningText


def recipe_for(model, *, refine=None, optimiser=None, training=None, initial=None):
    """Return a recipe that matches the model, with small batches and learning rates that suit random weights."""
    settings = model.settings
    return Recipe(
        TreebankSettings(("train.conllu",), ("dev.conllu",)),
        PretrainedSettings("encoder"),
        settings.relations,
        TagTraining(**asdict(settings.tags)),
        settings.scorer,
        settings.draft,
        settings.decode,
        initial or InitialSettings(),
        refine or RefineSettings(max_steps=3 if settings.reads_graph else 1, stages=settings.stages),
        optimiser or OptimiserSettings(learning_rate=0.01, encoder_learning_rate=0.01),
        training or TrainingSettings(epochs=100, batch_pieces=200),
        segmenter=SegmenterTraining(encoder_layers=settings.sentence_layers),
    )


def learner_of(model, sentences, *, parses=None, **settings):
    recipe = recipe_for(model, **settings)
    graphs = list(empty(sentences) if parses is None else parses)
    text = RunningText(sentences, recipe.segmenter, recipe.treebank) if model.finds_sentences else None
    return Learner(model, recipe, sentences, graphs, Processes(torch.device("cpu")), text=text)


def learn(learner, *, epochs, first=1):
    """Train for these epochs and return the loss of each batch."""
    return [loss for number in range(first, first + epochs) for _, loss in learner.epoch(number)]


def accuracy_of(learner, sentences, arcs, *, rule="conll18"):
    """Return the accuracy of the weights that a training would save, from these initial graphs."""
    learner.model.eval()
    recipe = replace(learner.recipe, treebank=replace(learner.recipe.treebank, rule=rule))
    with learner.optimiser.averaged():
        return dev.accuracy_of(learner.scoring_model, sentences, arcs, recipe, learner.processes.device)


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, SharedDropout):
            module.rate = 0.0
        elif isinstance(module, RelationAttention):
            module.dropout = 0.0
    return model


def weights_of(model):
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}


def are_equal(ours, theirs):
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def blank(sentences):
    return list(empty(sentences))
