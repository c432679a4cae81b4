"""A tiny model is measured from raw text and gold words, and its confidence is checked."""

import shutil

import numpy as np
import pytest

from benchmarks.accuracy.calibration import claims_of, measure_calibration, review
from benchmarks.accuracy.pipeline import measure_pipeline
from benchmarks.rows import read_rows, release_of, weights_checksum
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine import Graph, Parser, Sentence, TreefineError, evaluate, write_treebank
from treefine.config import COLUMNS, TagSettings
from treefine.parsing.confidence import Confidence
from treefine.parsing.parse import Parse
from treefine.treebank.raw_text import raw_text
from treefine_paper.predictions import load_predictions, treebank_of

MEASURES = (measure_pipeline, measure_calibration)


def gold(split):
    return sample(10) if split == "dev" else sample(12)[10:]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a treebank, a model that tags, and the results of both measurements on dev."""
    folder = tmp_path_factory.mktemp("pipeline")
    (folder / "en_ewt").mkdir()
    for split in ("dev", "test"):
        write_treebank(gold(split), folder / "en_ewt" / f"{split}.conllu.xz")
    model = tiny_model(tags=TagSettings("predicted", COLUMNS))
    Parser(model, device="cpu", max_steps=3, segmenter=tiny_segmenter()).save(folder / "tiny")
    for measure in MEASURES:
        run(measure, folder)
    return folder


def run(measure, place, *options, rows="rows.jsonl"):
    paths = ["--model", place / "tiny", "--treebanks", place, "--rows", place / rows, "--device", "cpu"]
    if measure is measure_pipeline:
        paths += ["--predictions", place / "predictions"]
    measure([*map(str, paths), *options])


def row(place, benchmark):
    return read_rows(benchmark, path=place / "rows.jsonl")[0]


def blank(sentence, *columns):
    return sentence.with_tags(**{column: ["_"] * len(sentence) for column in columns})


def given(parser, kind):
    """Return the input of the parser, and the tags it uses."""
    if kind == "raw text":
        return [each.sentence for each in parser.segment([raw_text(gold("dev")).text])], parser
    if kind == "gold words":
        return [blank(each, *COLUMNS) for each in gold("dev")], parser
    if kind == "gold words and tags":
        return gold("dev"), parser.using(tags="given")
    return [blank(each, "xpos", "feats", "lemma") for each in gold("dev")], parser.using(tags="given")


KINDS = ("raw text", "gold words", "gold words and tags", "gold words and UPOS")


@pytest.mark.parametrize("kind", KINDS)
def test_the_scores_are_those_of_the_parsers_output(place, kind):
    parser = Parser.from_pretrained(place / "tiny", device="cpu")
    sentences, asked = given(parser, kind)

    result = row(place, "pipeline")["result"][kind]

    scores = evaluate(gold("dev"), asked.parse(sentences))
    names = [name for name in result if name in scores]
    assert {"UAS", "LAS", "CLAS", "UEM", "LEM"} <= set(names)
    assert [result[name] for name in names] == [round(scores[name].f1, 6) for name in names]
    assert result["sentences_parsed_otherwise"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_score_of_a_step_is_that_of_a_parser_that_stops_there(place, kind):
    parser = Parser.from_pretrained(place / "tiny", device="cpu")
    sentences, asked = given(parser, kind)

    by_step = row(place, "pipeline")["result"][kind]["LAS_by_step"]

    stopped = [evaluate(gold("dev"), asked.using(max_steps=t).parse(sentences))["LAS"].f1 for t in (1, 2, 3)]
    assert len(by_step) == asked.max_steps + 1
    assert by_step[0] is None
    assert by_step[1:4] == [round(each, 6) for each in stopped]


def test_given_tags_are_not_measured_and_predicted_ones_are_not_gold(place):
    result = row(place, "pipeline")["result"]

    names = ["UPOS", "XPOS", "UFeats", "AllTags", "Lemmas"]
    assert [[name for name in names if name in result[kind]] for kind in KINDS] == [names, names, [], names[1:]]
    assert result["gold words"]["UPOS"] < 0.9  # random weights
    assert "Tokens" not in result["gold words"]


def test_the_row_names_model_weights_and_treebank_without_a_path(place):
    config = row(place, "pipeline")["config"]

    assert (config["model"], config["treebank"], config["split"]) == ("tiny", "en_ewt", "dev")
    assert config["weights"] == weights_checksum(place / "tiny")
    assert (config["sentences"], config["tags"]) == (10, "predicted")
    assert str(place) not in (place / "rows.jsonl").read_text()


def test_the_trees_of_gold_words_are_saved_and_have_the_scores(place):
    results = row(place, "pipeline")["result"]

    for kind in KINDS[1:]:
        predictions = load_predictions(place / "predictions" / results[kind]["predictions"])
        parsed = treebank_of(predictions, gold("dev"))
        assert round(evaluate(gold("dev"), parsed)["LAS"].f1, 6) == results[kind]["LAS"]
    assert "predictions" not in results["raw text"]


@pytest.mark.parametrize("measure", MEASURES)
def test_the_same_weights_are_tested_once(place, measure):
    rows = f"{measure.__name__}.jsonl"
    run(measure, place, "--split", "test", rows=rows)

    with pytest.raises(TreefineError, match=r"tiny was tested on en_ewt by \w+ on .* A model is tested only once"):
        run(measure, place, "--split", "test", rows=rows)

    assert len((place / rows).read_text().splitlines()) == 1


def test_other_weights_of_the_same_name_may_be_tested_but_a_new_card_does_not_count(place, tmp_path):
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    before = weights_checksum(tmp_path / "tiny")

    (tmp_path / "tiny" / "README.md").write_text("new")
    assert weights_checksum(tmp_path / "tiny") == before

    Parser(tiny_model(seed=2), device="cpu", segmenter=tiny_segmenter()).save(tmp_path / "other")
    assert weights_checksum(tmp_path / "other") != before


def test_another_segmenter_changes_the_checksum_of_the_weights(place, tmp_path):
    shutil.copytree(place / "tiny", tmp_path / "tiny")
    before = weights_checksum(tmp_path / "tiny")

    tiny_segmenter(seed=5).save(tmp_path / "tiny" / "segmenter")

    assert weights_checksum(tmp_path / "tiny") != before


def test_a_folder_without_weights_is_an_error(tmp_path):
    with pytest.raises(TreefineError, match="This folder has no weights. Name a model folder."):
        weights_checksum(tmp_path)


def test_confidence_is_compared_with_correctness():
    right = Sentence.of_words(["Dogs", "bark", "loudly"]).with_graph(
        Graph.of_words([2, 0, 2], ["nsubj", "root", "advmod"])
    )
    parsed = right.with_graph(Graph.of_words([2, 0, 1], ["obj", "root", "advmod"]))
    sure = (Confidence(0.9, 0.8), Confidence(1.0, 0.5), Confidence(0.4, 0.7))
    parse = Parse(parsed, ((0, 4), (5, 9), (10, 16)), sure, 0.3, (parsed.graph,), right.arcs, sure, True)

    claims = claims_of([parse], [right])

    found = {
        kind: (confidences.round(6).tolist(), is_right.tolist()) for kind, (confidences, is_right) in claims.items()
    }
    assert found == {
        "arc": ([0.9, 1.0, 0.4], [True, True, False]),
        "label": ([0.8, 0.5], [False, True]),  # the third word's head is wrong, so its label does not count
        "both": ([0.72, 0.5, 0.28], [False, True, False]),
        "sentence": ([0.3], [False]),
    }


def test_confidence_in_features_and_lemmas_is_compared_with_correctness():
    words, tree = ["Dogs", "bark"], Graph.of_words([2, 0], ["nsubj", "root"])
    right = Sentence.of_words(words, feats=["Number=Plur", "_"], lemma=["dog", "_"]).with_graph(tree)
    parsed = Sentence.of_words(words, feats=["Number=Sing", "_"], lemma=["dog", "bark"]).with_graph(tree)
    sure, tags = (Confidence(1.0, 1.0),) * 2, {"feats": (0.9, 0.8), "lemma": (0.7, 0.6)}
    parse = Parse(parsed, ((0, 4), (5, 9)), sure, 1.0, (tree,), tree.arcs, sure, True, tag_confidences=tags)

    claims = claims_of([parse], [right])

    assert "upos" not in claims
    assert [each.tolist() for each in claims["feats"]] == [[0.9, 0.8], [False, True]]
    assert [each.tolist() for each in claims["lemma"]] == [[0.7], [True]]  # the second word has no gold lemma


def test_the_rows_name_the_precision_and_the_release_if_the_folder_does(place, tmp_path):
    assert [row(place, name)["config"]["precision"] for name in ("pipeline", "calibration")] == ["float32"] * 2
    assert row(place, "pipeline")["config"]["release"] == ""
    assert release_of(tmp_path / "ud-2.3", "en_ewt") == "2.3"
    assert release_of(tmp_path / "permissive", "en_ewt") == "2.16"


def test_a_wrong_subtype_is_a_wrong_label():
    right = Sentence.of_words(["bark"]).with_graph(Graph.of_words([0], ["root"]))
    parsed = right.with_graph(Graph.of_words([0], ["root:odd"]))

    sure = (Confidence(1.0, 1.0),)
    claims = claims_of([Parse(parsed, ((0, 4),), sure, 1.0, (parsed.graph,), right.arcs, sure, True)], [right])

    assert claims["label"][1].tolist() == [False]
    assert claims["sentence"][1].tolist() == [False]


def test_a_review_lists_sentences_below_the_limit_and_counts_the_wrong_ones():
    confidences = np.array([0.79, 0.8, 0.1, 0.95, 0.5])
    is_right = np.array([False, False, False, True, True])

    assert review(confidences, is_right, limit=0.8) == {
        "limit": 0.8,
        "listed": 0.6,
        "wrong_found": round(2 / 3, 6),
        "listed_wrong": round(2 / 3, 6),
    }


def test_calibration_does_not_use_gold_tags(place, tmp_path):
    shutil.copytree(place / "en_ewt", tmp_path / "en_ewt")
    parser = Parser(tiny_model(tags=TagSettings("given", ("upos", "xpos"))), device="cpu")
    parser.save(tmp_path / "tiny")

    run(measure_calibration, tmp_path)

    bare, tagged = (
        evaluate(gold("dev"), parser.parse(sentences))["UAS"].f1
        for sentences in ([blank(each, *COLUMNS) for each in gold("dev")], gold("dev"))
    )
    assert bare != tagged
    assert row(tmp_path, "calibration")["result"]["arc"]["right"] == pytest.approx(bare, abs=1e-6)


def test_the_row_of_calibration_counts_every_word_and_sentence_in_its_bins(place):
    result = row(place, "calibration")["result"]

    n_words = sum(map(len, gold("dev")))
    assert [result[kind]["count"] for kind in ("arc", "both", "sentence")] == [n_words, n_words, 10]
    assert result["label"]["count"] == round(result["arc"]["right"] * n_words)
    assert all(sum(each[2] for each in result[kind]["bins"]) == result[kind]["count"] for kind in ("arc", "label"))
    scores = row(place, "pipeline")["result"]["gold words"]
    assert result["arc"]["right"] == pytest.approx(scores["UAS"], abs=1e-6)
    assert 0 < result["arc"]["error_by_chance"]["10 bins"] < result["arc"]["error"]["10 bins"] < 1
