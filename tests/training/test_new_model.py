from dataclasses import replace

import pytest
import torch

from tests.support.tiny import ALL_TAGS, sample, tiny_model, write_encoder
from tests.support.tiny_learner import are_equal, recipe_for, weights_of
from treefine.config import COLUMNS, DecodeSettings, RelationSettings, ScorerSettings, TagSettings
from treefine.model.batch import Graphs
from treefine.model.hf_weights import load_encoder
from treefine.parsing.parser import Parser
from treefine.training.new_model import new_model
from treefine.training.recipe import PretrainedSettings, RefineSettings, SegmenterTraining, TagTraining
from treefine.treebank.graph import Graph

NO_GRAPH = RelationSettings(graph="none")
RELATIONS = "encoder.layers.1.attention.relations."
RENAMED = {"nsubj": "zzz", "det": "aaa", "case": "nsubj:mine"}  # sorted first, last and in between the old labels
RETAGGED = {"NOUN": "AAA", "VERB": "ZZZ", "NN": "AAA", "VB": "ZZZ"}


def other_treebank():
    """Return the sample with some labels and tags renamed, and without those of its last sentences."""
    sentences = []
    for each in sample(30):
        graph = Graph.of_words(each.heads, [RENAMED.get(label, label) for label in each.labels])
        tags = {name: [RETAGGED.get(tag, tag) for tag in getattr(each, name)] for name in ("upos", "xpos")}
        sentences.append(each.with_graph(graph).with_tags(**tags))
    return sentences


@pytest.fixture
def saved(tmp_path):
    """Save a model; return one fine-tuned from it on these sentences, with its settings except the given ones."""

    def continue_with(model, sentences, *, pieces="all", **changes):
        Parser(model, device="cpu").save(tmp_path / "old")
        encoder = PretrainedSettings(str(tmp_path / "old"), pieces=pieces, n_frequent=5)
        recipe = replace(recipe_for(model), encoder=encoder)
        if changes.get("relations", model.settings.relations) != NO_GRAPH:
            changes.setdefault("refine", replace(recipe.refine, max_steps=3))
        if "tags" in changes:
            own = changes["tags"]
            changes["tags"] = TagTraining(own.source, own.columns, own.case, own.refined)
        return new_model(replace(recipe, **changes), sentences)

    return continue_with


def check_rows(new, old, new_names, old_names):
    """Check that rows with a common name are equal, and that some rows have no counterpart."""
    ours, theirs = dict(zip(new_names, new, strict=True)), dict(zip(old_names, old, strict=True))
    shared = ours.keys() & theirs.keys()
    assert shared
    assert ours.keys() - shared
    assert theirs.keys() - shared
    assert all(torch.equal(ours[name], theirs[name]) for name in shared)
    assert not any(torch.equal(ours[name], row) for name in ours.keys() - shared for row in theirs.values())


def test_rows_of_labels_and_tags_are_kept_by_name_on_another_treebank(saved):
    old = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))

    new = saved(old, other_treebank())

    ours, theirs = weights_of(new), weights_of(old)
    labels, old_labels = new.vocabulary.labels, old.vocabulary.labels
    assert "zzz" in labels
    assert "zzz" not in old_labels
    check_rows(ours["scorer.label_weight"], theirs["scorer.label_weight"], labels, old_labels)
    for column, name in enumerate(("upos", "xpos")):
        for weight in (f"encoder.tags.{column}.weight", f"tagger.columns.{column}.weight"):
            tags = getattr(new.vocabulary, name), getattr(old.vocabulary, name)
            check_rows(ours[weight], theirs[weight], *tags)
    by_name = ("scorer.label_weight", "encoder.tags.", "tagger.", ".relations.keys", ".relations.values")
    rest = [name for name in ours if not any(part in name for part in by_name)]
    assert are_equal({name: ours[name] for name in rest}, {name: theirs[name] for name in rest})
    assert "encoder.root" in rest
    assert RELATIONS + "norm.weight" in rest


def test_relation_rows_are_kept_by_label_and_direction(saved):
    """Return the names of rows: NONE, each label and piece-of-word downwards, then the same upwards."""
    old = tiny_model()

    new = saved(old, other_treebank())

    def by_relation(model, table):
        rows, kinds = weights_of(model)[RELATIONS + table], [*model.vocabulary.labels, "piece"]
        names = ["none", *(("down", kind) for kind in kinds), *(("up", kind) for kind in kinds)]
        return dict(zip(names, rows, strict=True))

    for table in ("keys", "values"):
        ours, theirs = by_relation(new, table), by_relation(old, table)
        kept = [name for name in ours if name in theirs]
        assert {"none", ("down", "piece"), ("up", "piece"), ("up", "root"), ("down", "root")} <= set(kept)
        assert all(torch.equal(ours[name], theirs[name]) for name in kept)
        assert not any(torch.equal(ours["up", "zzz"], row) for row in theirs.values())


def test_a_model_fine_tuned_from_syntr_scores_the_same_from_an_empty_graph(saved):
    old = tiny_model(relations=NO_GRAPH)

    new = saved(old, sample(), relations=RelationSettings())

    assert new.settings.reads_graph
    assert replace(new.vocabulary, lemma_rules=()) == replace(old.vocabulary, lemma_rules=())
    sentences = sample(8)
    empty = Graphs.of([(each.arcs._replace(heads=(None,) * len(each))) for each in sentences], new.vocabulary)
    batch, tags = new.batch_of(sentences), new.given_tags(sentences)
    with torch.no_grad():
        (first, _), (before, _) = new(batch, empty, tags), old(batch, None, tags)
        again, _ = new(batch, Graphs.of([each.arcs for each in sentences], new.vocabulary), tags)
    assert torch.equal(first.arcs, before.arcs)
    assert torch.equal(first.labels(torch.zeros_like(empty.heads)), before.labels(torch.zeros_like(empty.heads)))
    assert not torch.equal(again.arcs, before.arcs)


def test_a_refining_model_can_be_fine_tuned_without_a_graph(saved):
    new = saved(old := tiny_model(), sample(), relations=NO_GRAPH, refine=RefineSettings(max_steps=1))

    ours, theirs = weights_of(new), weights_of(old)
    assert are_equal(ours, {name: each for name, each in theirs.items() if ".relations." not in name})


def test_weights_of_a_different_shape_are_new_and_the_rest_is_kept(saved):
    old = tiny_model()

    new = saved(old, sample(), scorer=ScorerSettings(arc_width=20, label_width=8))

    ours, theirs = weights_of(new), weights_of(old)
    changed = {name for name in ours if ours[name].shape != theirs[name].shape}
    assert changed == {"scorer.arc_weight"} | {
        f"scorer.arc_{side}.0.{kind}" for side in ("dep", "head") for kind in ("weight", "bias")
    }
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if name not in changed)
    assert Parser(new, device="cpu").parse(sample(2))


INPUTS = (*COLUMNS, "case", "gaps")
FEWER = TagSettings("predicted", ("lemma", "upos"))


@pytest.mark.parametrize(
    ("tags", "layers", "inputs"),
    [(ALL_TAGS, 1, INPUTS), (FEWER, 2, ("lemma", "upos", "gaps")), (TagSettings("none", case=True), 0, ("case",))],
)
def test_columns_case_and_the_head_that_finds_sentences_are_kept(saved, tags, layers, inputs):
    old, sentences = tiny_model(tags=ALL_TAGS, sentence_layers=1), other_treebank()

    new = saved(old, sentences, tags=tags, segmenter=SegmenterTraining(encoder_layers=layers))

    ours, theirs = weights_of(new), weights_of(old)
    assert len(new.encoder.tags) == len(inputs)
    for place, name in enumerate(inputs):
        found, kept = ours[f"encoder.tags.{place}.weight"], theirs[f"encoder.tags.{INPUTS.index(name)}.weight"]
        if name in COLUMNS:
            found = dict(zip(getattr(new.vocabulary, name), found, strict=True))
            kept = dict(zip(getattr(old.vocabulary, name), kept, strict=True))
            shared = found.keys() & kept.keys()
            assert len(shared) > 2
            assert all(torch.equal(found[each], kept[each]) for each in shared)
        else:
            assert torch.equal(found, kept)
    heads = [name for name in ours if name.startswith("sentence_ends")]
    assert len(heads) == (2 if layers else 0)
    assert all(torch.equal(ours[name], theirs[name]) for name in heads)


def test_a_model_that_gets_stages_starts_each_of_its_taggers_with_the_old_one(saved):
    old = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))
    stages = RefineSettings(max_steps=3, stages=(1, 2))

    new = saved(old, sample(30), refine=stages, relations=RelationSettings(first_layer=1))

    assert new.settings.drafts
    assert (len(new.draft_scorers), len(new.draft_taggers)) == (1, 1)
    assert are_equal(weights_of(new.draft_taggers[0]), weights_of(new.tagger))


def test_cutting_the_vocabulary_keeps_the_scores_of_the_treebank(saved):
    old, sentences = tiny_model(), sample(3)

    new = saved(old, sentences, pieces="cut")

    assert new.settings.encoder.n_pieces == len(new.encoder.pieces.weight) < old.settings.encoder.n_pieces
    with torch.no_grad():
        ours, theirs = (model(model.batch_of(sentences), None, model.given_tags(sentences))[0] for model in (new, old))
    assert torch.equal(ours.arcs, theirs.arcs)


@pytest.mark.parametrize("pieces", ["all", "cut"])
def test_a_pretrained_encoder_gives_its_weights_and_the_treebank_its_root_label(tmp_path, pieces):
    write_encoder(tmp_path, "bert")
    recipe = replace(
        recipe_for(tiny_model(decode=DecodeSettings(root_rule="none"))),
        encoder=PretrainedSettings(str(tmp_path), pieces=pieces, n_frequent=5),
    )

    labels = [["ROOT" if label == "root" else label for label in each.labels] for each in sample(3)]
    sentences = [each.with_graph(Graph.of_words(each.heads, own)) for each, own in zip(sample(3), labels, strict=True)]

    model = new_model(recipe, sentences)

    shape, weights = load_encoder(tmp_path)
    assert (model.settings.encoder.n_pieces < shape.n_pieces) == (pieces == "cut")
    for name, weight in weights.items():
        if name != "pieces.weight" or pieces == "all":
            assert torch.equal(model.encoder.state_dict()[name], weight)
    assert model.settings.decode == DecodeSettings(root_label="ROOT", root_rule="none")
