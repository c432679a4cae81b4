"""The tables on the bundled parser show what handmade rows say."""

from itertools import pairwise

import pytest

from benchmarks.accuracy.model_rows import MEASURES, by_split
from benchmarks.pages import english
from benchmarks.pages.english import ENGLISH_EWT, Published
from benchmarks.pages.tables import PAGES, TABLES
from benchmarks.rows import save_row

PEER = {"tokens": 99.5, "sentences": None, "words": 99.4, "upos": 95.25, "uas": 88.0, "las": 85.5}


def pipeline_row(split, *, las=0.9, weights="abcdef0123456789"):
    result = {
        kind: {**dict.fromkeys(names, 0.95), "LAS": las, "LAS_by_step": [None, las - 0.01, las]}
        for kind, names in MEASURES.items()
    }
    config = {"model": "en", "weights": weights, "treebank": "en_ewt", "split": split, "T": 2}
    return {
        "benchmark": "pipeline",
        "when": "2026-11-15T10:00",
        "commit": "1234567",
        "config": config,
        "result": result,
    }


def calibration_row(split, *, error=0.0123):
    ways = ("10 bins", "15 bins", "10 bins of equal mass")
    result_of_kind = {
        "count": 2500,
        "confidence": 0.91,
        "right": 0.9,
        "error": dict.fromkeys(ways, error),
        "error_by_chance": dict.fromkeys(ways, 0.004),
        "brier": 0.05678,
        "bins": [[0.0, 0.5, 500, 0.4, 0.45], [0.5, 1.0, 2000, 0.95, 0.96]],
    }
    result = dict.fromkeys(("arc", "label", "both", "sentence", "upos", "lemma"), result_of_kind)
    review = {"limit": 0.8, "listed": 0.41, "wrong_found": 0.87, "listed_wrong": 0.66}
    return pipeline_row(split) | {"benchmark": "calibration", "result": result | {"review": review}}


def cells(text, *starts):
    """Return the cells of the only line of a table that starts with these."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    [found] = [line for line in lines if line[: len(starts)] == list(starts)]
    return found[len(starts) :]


def test_each_split_and_input_has_a_line_with_its_measures():
    text = english.scores({"dev": pipeline_row("dev"), "test": pipeline_row("test", las=0.8765)})

    assert len(text.splitlines()[2:10]) == 2 * len(MEASURES)
    assert cells(text, "test", "raw text")[-6:] == ["87.65", "95.00", "95.00", "95.00", "95.00", "95.00"]
    assert cells(text, "dev", "gold words")[:5] == ["–", "–", "–", "95.00", "95.00"]
    assert "`python -m benchmarks pipeline --split test`, 2026-11-15, commit 1234567, weights abcdef01, UD 2.3." in text


def test_steps_are_shown_from_1_to_t():
    text = english.steps({"dev": pipeline_row("dev")})

    assert cells(text, "split", "input") == ["step 1", "step 2"]
    assert cells(text, "dev", "gold words") == ["89.00", "90.00"]


def test_other_parsers_are_compared_with_test_or_else_with_dev():
    peer = Published("Peer", "2.5", "raw text", **PEER, source="https://example.org", version="1.0")
    dev, test = pipeline_row("dev", las=0.9), pipeline_row("test", las=0.8)

    before = english.peers({"dev": dev}, [peer])
    after = english.peers({"dev": dev, "test": test}, [peer])

    assert cells(before, "raw text", "treefine `en`, dev")[-2] == "**90.00**"
    assert cells(after, "raw text", "treefine `en`")[-2] == "**80.00**"
    expected = ["2.5", "99.50", "–", "99.40", "95.25", "–", "–", "88.00", "85.50", "[1.0](https://example.org)"]
    assert cells(after, "raw text", "Peer") == expected


def test_published_scores_keep_their_number_of_decimals():
    peer = Published("Peer", "2.5", "raw text", **PEER | {"upos": 95.2}, source="https://example.org", version="1.0")

    assert cells(english.peers({}, [peer]), "raw text", "Peer")[3:9] == ["99.4", "95.2", "–", "–", "88.0", "85.5"]


def test_the_small_table_has_one_line_per_parser_and_version():
    with_words = Published("Peer", "2.5", "gold words", **PEER | {"las": 91.21}, source="https://a.org", version="1")
    raw = Published("Peer", "2.5", "raw text", **PEER, source="https://example.org", version="1.0")

    text = english.small({"test": pipeline_row("test", las=0.8765)}, [raw, with_words])

    ours = cells(text, "**treefine `en`**", "2.3")
    assert ours == ["**95.00**"] * 6 + ["**87.65**"] * 3
    assert cells(text, "Peer", "2.5") == ["99.50", "–", "95.25", "–", "–", "88.00", "85.50", "91.21", "–"]


def test_a_row_names_its_release_and_earlier_rows_may_lack_measures():
    row = pipeline_row("test")
    row["config"] |= {"release": "2.16", "precision": "int8"}
    del row["result"]["raw text"]["Lemmas"]

    text = english.small({"test": row})

    assert cells(text, "**treefine `en`**", "2.16")[3:5] == ["**95.00**", "–"]
    assert "weights abcdef01, UD 2.16, int8." in english.scores({"test": row})
    assert cells(text, "UDPipe 2", "2.17")[2:5] == ["96.75", "97.21", "97.13"]


@pytest.mark.parametrize("weights", ["abcdef0123456789", "earlier"])
def test_the_readme_shows_accuracy_and_speed_compared_with_other_parsers(weights):
    speed = {"treefine: words to trees": {"sentences_per_second": 1234.4}}
    settings = {"treefine": {"precision": "int8"}}
    config = {"settings": settings, "weights": weights}
    row = {"config": config, "machine": {"processor": "AMD EPYC", "cores": 2}, "result": speed}

    text = english.readme({"test": pipeline_row("test", las=0.8765)}, row)

    assert cells(text, "**treefine `en`**", "2.3") == ["87.65", "87.65", "1,234"]
    assert cells(text, "**treefine `en`, one pass (no refinement)**", "2.3") == ["86.65", "86.65", "–"]
    assert cells(text, "UDPipe 2", "2.17") == ["89.91", "92.36", "–"]
    assert len(text.splitlines()) <= 2 + 8 + 2
    assert "(AMD EPYC, 2 cores)" in text
    assert ("earlier weights" in text) == (weights == "earlier")


def test_sentence_ends_are_shown_for_the_treebank_and_for_other_text():
    found = {"Sentences": 0.9193, "cut_right": 0.9335, "cut_confidence": 0.927}
    row = pipeline_row("dev") | {"result": found | {"other_text": found | {"odd_boundaries_per_1000": 1.0}}}

    text = english.cuts({"dev": row})

    assert "| English EWT, dev | 91.93 | 93.35 | 92.70 | – |" in text
    assert "| other text | 91.93 | 93.35 | 92.70 | 1.0 |" in text


def test_every_published_line_is_shown():
    text, small = english.peers({}), english.small({})

    assert all(f"| {each.given} | {each.system} | {each.ud} |" in text for each in ENGLISH_EWT)
    assert all(f"| {each.system} | {each.ud} |" in small for each in ENGLISH_EWT)


def test_calibration_shows_the_error_by_chance_and_what_a_review_finds():
    text = english.calibration({"test": calibration_row("test")})

    assert cells(text, "test", "lemma")[:2] == ["2,500", "91.00"]
    assert "| XPOS |" not in text
    errors = ["1.23", "0.40", "1.23", "1.23", "0.0568"]
    assert cells(text, "test", "head") == ["2,500", "91.00", "90.00", *errors]
    assert (
        "test: `--review 0.8` lists 41% of the sentences. They include 87% of the sentences with an error; 66% of the "
        in text
    )
    assert "on test](reliability.svg)" in text


def test_the_figure_shows_test_if_it_was_measured():
    dev, test = calibration_row("dev", error=0.05), calibration_row("test", error=0.01)

    assert "en_ewt dev" in english.figure({"dev": dev})
    drawn = english.figure({"dev": dev, "test": test})
    assert "en_ewt test" in drawn
    assert "head: error 1.0%" in drawn


def test_without_rows_the_tables_are_empty():
    assert english.scores({}) == english.steps({}) == english.calibration({}) == english.size(None, {}, {}) == "–"
    assert english.figure({}) is None


def test_the_cost_of_eight_bits_is_the_difference_to_the_trained_weights():
    row = {"result": {"bytes": 39_200_000, "files": {"model.safetensors": 35_000_000, "about.json": 139}}}
    before = {"dev": pipeline_row("dev", las=0.9012, weights="float")}

    text = english.size(row, {"dev": pipeline_row("dev", las=0.9007)}, before)

    assert cells(text, "`model.safetensors`") == ["35.0 MB"]
    assert cells(text, "total") == ["35.0 MB"]
    assert "about.json" not in text  # rewritten after the row
    assert cells(text, "gold words") == ["90.12", "90.07", "-0.05"]


def test_rows_have_the_same_weights_the_newest_of_dev_and_the_first_of_test(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [("a", "dev", 1), ("a", "dev", 2), ("a", "test", 3), ("a", "test", 4), ("b", "dev", 5)]
    for weights, split, number in rows:
        config = {"weights": weights, "treebank": "en_ewt", "split": split}
        save_row("pipeline", config, {"number": number}, path=path)

    found = by_split("pipeline", "a", path=path)

    assert {split: row["result"]["number"] for split, row in found.items()} == {"dev": 2, "test": 3}
    assert by_split("pipeline", "c", path=path) == {}


@pytest.mark.parametrize("name", english.ENGLISH)
def test_each_table_except_the_readmes_is_on_the_page_of_the_parser(name):
    assert TABLES[name]()
    assert name == "readme" or f"<!-- table: {name} -->" in english_page()


def english_page():
    from benchmarks.rows import ROOT

    assert "docs/english.md" in PAGES
    return (ROOT / "docs" / "english.md").read_text()


@pytest.mark.parametrize("line", ENGLISH_EWT, ids=lambda line: f"{line.system}, UD {line.ud}, {line.given}")
def test_published_scores_are_percentages_in_a_plausible_order(line: Published):
    limits = [each for each in (100.0, line.tokens, line.words, line.uas, line.las) if each is not None]

    assert all(lower <= higher for higher, lower in pairwise(limits))
    assert line.las > 50  # not a share between 0 and 1
    assert line.upos is None or line.las < line.upos <= limits[-3]
    assert line.sentences is None or 50 < line.sentences <= 100


def test_each_published_line_names_its_source():
    assert all(line.source.startswith("https://") and line.version for line in ENGLISH_EWT)


def test_no_published_line_is_repeated():
    lines = [(line.system, line.ud, line.given) for line in ENGLISH_EWT]

    assert len(set(lines)) == len(lines)


def test_every_peer_has_a_line_from_raw_text():
    systems = {line.system for line in ENGLISH_EWT if line.given == "raw text"}

    assert systems == {"Stanza", "UDPipe 1", "UDPipe 2", "Trankit base", "Trankit large"}
