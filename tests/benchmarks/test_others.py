"""Parses of other parsers are made and refined, here with stand-ins for the parsers."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.accuracy.others import OTHERS, WHOLE, Other, Part, make_parses, measure_others, others_of
from benchmarks.peers.spacy_parser import graph_of_doc as _graph
from benchmarks.rows import ROOT, read_rows
from tests.benchmarks.stand_ins import chain, roots_alone
from tests.benchmarks.test_english import cells
from tests.support.tiny import sample, tiny_biaffine, tiny_model
from treefine import Graph, Parser, TreefineError, evaluate, read_treebank, write_treebank
from treefine.evaluation.scores import load_pairs
from treefine.evaluation.significance import compare
from treefine_paper.predictions import load_predictions, treebank_of

N_TRAIN, N_DEV = 11, 6
TRAIN, DEV = sample(N_TRAIN), sample(N_TRAIN + N_DEV)[N_TRAIN:]


def other(trees):
    return Other(trees, "numpy", {"iterations": 1})


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebanks")
    (folder / "en_ewt").mkdir()
    write_treebank(TRAIN, folder / "en_ewt" / "train.conllu.xz")
    write_treebank(DEV, folder / "en_ewt" / "dev.conllu.xz")
    return folder


def made(trees, treebanks, output, *, jobs=1):
    """Return the output for a stand-in called peer: its parses of train and dev, and its row."""
    options = {"folds": 2, "jobs": jobs, "output": output, "sentences": None, "rows": output / "rows.jsonl"}
    make_parses({"peer": other(trees)}, SimpleNamespace(treebanks=treebanks, treebank="en_ewt", **options))
    train, dev = (list(read_treebank(output / f"peer-{split}.conllu")) for split in ("train", "dev"))
    return train, dev, read_rows("others_made", path=output / "rows.jsonl")[0]


@settings(max_examples=8, deadline=None)
@given(folds=st.integers(2, N_TRAIN))
def test_each_training_sentence_is_parsed_once_by_a_parser_that_has_not_seen_it(treebanks, folds):
    parts = [Part("peer", other(chain), treebanks / "en_ewt", None, folds, fold) for fold in range(folds)]

    graphs = [graph for part in parts for graph in part.parsed()[0]]

    assert [len(graph) for graph in graphs] == [len(sentence) for sentence in TRAIN]
    assert {label for graph in graphs for label in graph.labels[1:]} == {"dep"}


def test_the_parser_of_a_fold_learns_from_the_other_folds_and_that_of_dev_from_all(treebanks):
    learned = []

    def trees(train, sentences):
        learned.append([each.forms for each in train])
        return chain(train, sentences)

    for fold in (0, 1, WHOLE):
        Part("peer", other(trees), treebanks / "en_ewt", None, 2, fold).parsed()

    forms = [each.forms for each in TRAIN]
    assert learned == [forms[5:], forms[:5], forms]


def test_the_files_have_the_same_sentences_with_new_heads_and_labels(treebanks, tmp_path):
    train, dev, _ = made(chain, treebanks, tmp_path)

    assert [each.graph for each in [*train, *dev]] == chain([], [*TRAIN, *DEV])
    for parse, gold in zip([*train, *dev], [*TRAIN, *DEV], strict=True):
        assert (parse.comments, parse.columns[:6]) == (gold.comments, gold.columns[:6])


def test_several_processes_write_the_same_files(treebanks, tmp_path):
    one = made(chain, treebanks, tmp_path / "one")
    two = made(chain, treebanks, tmp_path / "two", jobs=2)

    assert one[:2] == two[:2]


def test_the_row_has_parser_package_settings_and_scores(treebanks, tmp_path):
    train, dev, row = made(chain, treebanks, tmp_path)

    assert row["config"] | {"gold": ""} == {
        "parser": "peer",
        "package": row["config"]["package"],
        "settings": {"iterations": 1},
        "folds": 2,
        "treebank": "en_ewt",
        "gold": "",
        "sentences": N_TRAIN,
    }
    assert row["config"]["package"].startswith("numpy ")
    for split, gold, parses in (("train", TRAIN, train), ("dev", DEV, dev)):
        assert row["result"][f"UAS, {split}"] == round(evaluate(gold, parses)["UAS"].f1, 6) > 0
        assert row["result"][f"not trees, {split}"] == 0


def test_a_graph_that_is_not_a_tree_is_written_but_not_scored(treebanks, tmp_path):
    _, dev, row = made(roots_alone, treebanks, tmp_path)

    assert [each.graph for each in dev] == roots_alone([], DEV)
    assert row["result"]["not trees, dev"] == sum(len(each) > 1 for each in DEV) > 0
    assert "LAS, dev" not in row["result"]


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_the_error_for_a_missing_parser_says_how_to_install_it(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, OTHERS[name].package, None)

    with pytest.raises(TreefineError, match=f"not installed.* pip install {OTHERS[name].package}$"):
        measure_others(["make", "--parser", name, "--output", str(tmp_path)])


def test_the_root_of_a_spacy_tree_attaches_to_root():
    words = [SimpleNamespace(i=i, dep_=label) for i, label in enumerate(("nsubj", "ROOT", "punct"))]
    for word, head in zip(words, (1, 1, 1), strict=True):
        word.head = words[head]

    assert _graph(words) == Graph.of_words([2, 0, 2], ["nsubj", "root", "punct"])


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_parser_gives_trees_of_the_same_words_without_reading_their_heads(name):
    pytest.importorskip(OTHERS[name].package)
    flat = [each.with_graph(graph) for each, graph in zip(DEV, chain([], DEV), strict=True)]

    trees = OTHERS[name].trees(TRAIN, DEV)

    assert [len(tree) for tree in trees] == [len(sentence) for sentence in DEV]
    assert all(tree.is_tree for tree in trees)
    assert all(tree.labels[tree.roots[0]] == "root" for tree in trees)
    assert trees == OTHERS[name].trees(TRAIN, flat)  # training is deterministic


@pytest.fixture(scope="module")
def refined(treebanks, tmp_path_factory):
    """Return a folder with a tiny model, parses of a stand-in and a biaffine parser, and the refined parses."""
    folder = tmp_path_factory.mktemp("refined")
    Parser(tiny_model(), device="cpu").save(folder / "run" / "model")
    Parser(tiny_biaffine(), device="cpu").save(folder / "biaffine")
    parses = [each.with_graph(tree) for each, tree in zip(DEV, chain([], DEV), strict=True)]
    write_treebank(parses, folder / "peer-dev.conllu")
    refine(folder, treebanks, f"peer={folder / 'peer-dev.conllu'}", f"biaffine={folder / 'biaffine'}")
    return folder


def refine(folder, treebanks, *parses):
    paths = {"model": "run", "rows": "rows.jsonl", "predictions": "predictions"}
    options = [f"--{name}={folder / path}" for name, path in paths.items()]
    measure_others(["refine", *options, f"--treebanks={treebanks}", "--device=cpu", "--parses", *parses])


def initial(folder, name):
    """Return the parses to refine, and the tiny model that starts from them."""
    model = Parser.from_pretrained(folder / "run" / "model", device="cpu")
    start = folder / {"peer": "peer-dev.conllu", "biaffine": "biaffine"}[name]
    is_peer = name == "peer"
    parses = list(read_treebank(start) if is_peer else Parser.from_pretrained(start, device="cpu").stream_trees(DEV))
    return parses, model.using(initial=start, trust=0, max_steps=model.max_steps)


def row_of(folder, name):
    [row] = [row for row in read_rows("others", path=folder / "rows.jsonl") if row["config"]["parser"] == name]
    return row


@pytest.mark.parametrize("name", ["peer", "biaffine"])
def test_scores_are_those_of_the_initial_parse_and_of_a_parser_that_stops_at_each_step(refined, name):
    parses, parser = initial(refined, name)
    stopped = [parser.using(max_steps=t).parse(DEV) for t in range(1, parser.max_steps + 1)]

    result = row_of(refined, name)["result"]

    assert result["LAS_by_step"] == [round(evaluate(DEV, each)["LAS"].f1, 6) for each in (parses, *stopped)]
    assert result["LAS"] == result["LAS_by_step"][-1]
    alone = parser.using(initial="empty", max_steps=parser.max_steps).parse(DEV)
    assert result["nothing"]["LAS"] == round(evaluate(DEV, alone)["LAS"].f1, 6)


@pytest.mark.parametrize("name", ["peer", "biaffine"])
def test_changed_corrected_and_spoiled_words_are_counted(refined, name):
    parses, parser = initial(refined, name)
    counts = dict.fromkeys(("heads_changed", "labels_changed", "corrected", "spoiled"), 0)
    for sentence, old, new in zip(DEV, parses, parser.parse(DEV), strict=True):
        for word, before, after in zip(sentence.words, old.words, new.words, strict=True):
            gold = (word.head, word.label.split(":")[0])
            was, is_now = ((each.head, each.label.split(":")[0]) == gold for each in (before, after))
            counts["heads_changed"] += before.head != after.head
            counts["labels_changed"] += before.head == after.head and before.label != after.label
            counts["corrected"] += is_now and not was
            counts["spoiled"] += was and not is_now

    result = row_of(refined, name)["result"]

    assert {key: result[key] for key in counts} == counts
    assert counts["heads_changed"] > 0


def test_the_refined_trees_are_compared_with_the_initial_ones_and_with_an_empty_start(refined):
    parses, parser = initial(refined, "peer")
    alone = parser.using(initial="empty", max_steps=parser.max_steps).parse(DEV)
    systems = {"before": parses, "nothing": alone, "after": parser.parse(DEV)}
    found = compare(load_pairs(DEV, systems), metric="LAS", alpha=0.01, samples=10_000, seed=1)

    result = row_of(refined, "peer")["result"]

    for other in ("before", "nothing"):
        each = found.differences[other, "after"]
        assert result[f"after minus {other}"] == {
            "difference": round(each.difference, 6),
            "randomisation": round(each.randomisation, 6),
            "bootstrap": round(each.bootstrap, 6),
        }
    assert result["after minus before"]["difference"] == pytest.approx(
        result["LAS"] - result["LAS_by_step"][0], abs=2e-6
    )


def test_the_trees_of_each_step_and_those_from_an_empty_graph_are_saved(refined):
    parses, parser = initial(refined, "peer")
    alone = list(parser.using(initial="empty", max_steps=parser.max_steps).stream_trees(DEV))
    result = row_of(refined, "peer")["result"]

    predictions, from_nothing = (
        load_predictions(refined / "predictions" / each["predictions"]) for each in (result, result["nothing"])
    )

    assert predictions.graphs(0) == [each.graph for each in parses]
    assert treebank_of(predictions, DEV) == list(parser.stream_trees(DEV))
    assert treebank_of(from_nothing, DEV) == alone


def test_the_row_names_the_model_by_its_training_and_has_no_path(refined):
    row = row_of(refined, "biaffine")

    assert (row["config"]["model"], row["config"]["tags"], row["config"]["T"]) == ("run", "given", 4)
    assert row["result"]["predictions"].startswith(f"run-{row['config']['weights'][:8]}-tags-given-from-biaffine-dev")
    assert str(refined) not in (refined / "rows.jsonl").read_text()


def test_parses_that_are_not_trees_are_rejected_with_their_file(refined, treebanks, tmp_path):
    flat = [each.with_graph(graph) for each, graph in zip(DEV, roots_alone([], DEV), strict=True)]
    write_treebank(flat, tmp_path / "flat.conllu")

    with pytest.raises(TreefineError) as error:
        refine(refined, treebanks, f"flat={tmp_path / 'flat.conllu'}")

    assert str(error.value).startswith(f"{tmp_path / 'flat.conllu'}: Not all of flat's parses are trees.")


@pytest.mark.parametrize("text", ["udpipe", "=file", "udpipe="])
def test_parses_without_a_name_or_a_path_are_rejected_with_an_example(text, capsys):
    with pytest.raises(SystemExit):
        measure_others(["refine", "--parses", text])

    assert "must be NAME=PATH, such as udpipe=" in capsys.readouterr().err


def test_making_parses_needs_no_torch():
    code = "import sys; import benchmarks.accuracy.others; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def refined_row(parser, *, model="en", after=0.9, when="2026-11-15T10:00"):
    tested = {"difference": after - 0.8, "randomisation": 0.0001, "bootstrap": 0.0002}
    result = {
        "LAS_by_step": [0.8, after - 0.01, after],
        "heads_changed": 1234,
        "labels_changed": 56,
        "corrected": 900,
        "spoiled": 30,
        "nothing": {"LAS": 0.91},
        "after minus before": tested,
        "after minus nothing": {"difference": after - 0.91, "randomisation": 0.25, "bootstrap": 0.5},
    }
    config = {"parser": parser, "model": model, "tags": "given", "treebank": "en_ewt", "sentences": 2002}
    return {"when": when, "commit": "1234567", "config": config, "result": result}


def test_the_table_has_the_newest_row_of_each_parser_and_model():
    rows = [
        refined_row("spacy", after=0.85),
        refined_row("udpipe"),
        refined_row("spacy"),
        refined_row("spacy", model="b"),
    ]

    text = others_of(rows, [])

    line = ["80.00", "89.00, 90.00", "+10.00", "0.0001", "1,234, 56", "900, 30", "91.00", "-1.00", "0.2500"]
    gist, details = text.split("<details")
    assert cells(gist, "spacy", "en, tags given") == ["80.00", "90.00", "91.00", "-1.00"]
    assert cells(details, "spacy", "en, tags given") == line
    assert details.index("| spacy | b,") < details.index("| spacy | en,") < details.index("| udpipe | en,")
    assert "2,002 sentences" in text


def test_the_text_below_the_table_says_how_the_parsers_were_trained(treebanks, tmp_path):
    _, _, row = made(chain, treebanks, tmp_path)

    text = others_of([refined_row("peer")], [row])

    assert "- peer: numpy " in text
    assert "a small model trained on 11 sentences of en_ewt with gold tags, not a published one; LAS " in text


def test_without_rows_the_table_says_so():
    assert others_of([], []) == "Not measured yet."
