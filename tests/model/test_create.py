"""New models, from a pretrained encoder and a treebank."""

import pytest
import torch

from tests.support.tiny import sample, write_encoder
from treefine.model.create import PieceChoice, create_parser_model, root_label_of
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra", "mpnet"])
@pytest.mark.parametrize("n_frequent", [None, 20])
def test_a_new_model_combines_a_pretrained_encoder_and_a_treebank(tmp_path, family, n_frequent):
    write_encoder(tmp_path / "encoder", family)

    model = create_parser_model(tmp_path / "encoder", sample(), pieces=PieceChoice(n_frequent))

    parser = Parser(model, device="cpu")
    parser.save(tmp_path / "model")
    parsed = Parser.from_pretrained(tmp_path / "model", device="cpu").parse(sample(5))
    assert parsed == parser.parse(sample(5))
    assert "acl:relcl" in model.vocabulary.labels


def test_the_same_seed_gives_the_same_model_and_does_not_change_the_callers_random_state(tmp_path):
    write_encoder(tmp_path / "encoder", "bert")
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)

    one, two = (create_parser_model(tmp_path / "encoder", sample(5), seed=3).state_dict() for _ in range(2))

    assert torch.rand(1) == expected
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_root_label_of_a_new_model_is_the_treebanks(data):
    german = list(read_treebank(data / "german.conll09"))
    mixed = [sentence.with_graph(Graph(sentence.graph.heads, ("", *["dep"] * len(sentence)))) for sentence in sample(3)]

    assert root_label_of([Sentence.of_words(["Hi"]).with_graph(Graph.of_words([0], ["_"]))]) == ""
    assert root_label_of(sample()) == "root"
    assert root_label_of(german) == "ROOT"
    assert root_label_of(mixed) == ""
