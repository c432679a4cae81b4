"""A parser of many languages is measured on each treebank, logs become rows, and the page shows what rows say."""

import json
import tarfile
from dataclasses import asdict, fields, replace

import pytest

from benchmarks.accuracy.language_training import measure_import_training
from benchmarks.accuracy.languages import (
    SHARED,
    TreebankFacts,
    collected,
    measure_languages,
    treebank_facts,
    with_repeated,
)
from benchmarks.accuracy.model_rows import without_tags
from benchmarks.markdown import NONE
from benchmarks.pages import languages
from benchmarks.pages.languages import Nearest, languages_about, nearest
from benchmarks.pages.tables import FIGURES, PAGES, TABLES
from benchmarks.rows import read_rows
from tests.support.tiny import sample
from tests.support.tiny_app import tiny_parser_of_two
from treefine import Parser, TreefineError, evaluate, write_treebank
from treefine.model.bundled import LanguageAbout
from treefine.training.recipe import read_recipe
from treefine.treebank.raw_text import text_of

needs_treebanks = pytest.mark.skipif(not SHARED.exists(), reason="needs the treebanks in ../shared")


def facts(name, code, *, words=30_000, release="2.5", is_main=True, is_dev_only=False, note=""):
    title = f"UD {name} {code.partition('_')[2].upper()}"
    link = "https://example.org"
    return TreebankFacts(
        name,
        code.partition("_")[0],
        title,
        release,
        "CC BY-SA 4.0",
        link,
        "Doe, Jane",
        code,
        words,
        is_main,
        is_dev_only,
        note,
    )


KNOWN = {
    "da_ddt": facts("Danish", "da_ddt", words=80_000),
    "fi_tdt": facts("Finnish", "fi_tdt", words=16_000, is_dev_only=True, note="no training file"),
    "sv_talbanken": facts("Swedish", "sv_talbanken", words=66_000, release="2.3", note="training file of release 2.5"),
}
PEERS = {
    "sources": {
        "udpipe1-2.5": {"parser": "UDPipe 1", "release": "2.5", "url": "https://example.org/1"},
        "udpipe2-2.6": {"parser": "UDPipe 2", "release": "2.6", "url": "https://example.org/2"},
        "udpipe2-2.10": {"parser": "UDPipe 2", "release": "2.10", "url": "https://example.org/3"},
    },
    "scores": {
        "da_ddt": {
            "udpipe1-2.5": {"raw": {"LAS": 76.0}, "words": {"LAS": 77.0}},
            "udpipe2-2.6": {"raw": {"LAS": 86.0}, "words": {"LAS": 87.0}},
            "udpipe2-2.10": {"raw": {"LAS": 88.0}, "words": {"LAS": 89.0}},
        },
        "fi_tdt": {
            "udpipe1-2.5": {"raw": {"LAS": 79.5}, "words": {"LAS": 78.0}},
            "udpipe2-2.6": {"words": {"LAS": 89.0}},
        },
    },
}


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.setattr(languages, "published", lambda: PEERS)


def row(code, las, *, split="test", gain=1.0):
    scores = {"Tokens": 99.0, "Sentences": 90.0, "UPOS": 95.0, "UFeats": 93.0, "Lemmas": 94.0, "UAS": las + 3}
    config = {"model": "multi", "weights": "abcdef0123456789", "treebank": code, "split": split, "precision": "int8"}
    result = {
        "raw text": {**scores, "LAS": las - 2},
        "gold words": {**scores, "LAS": las},
        "LAS_by_step": [las - gain, las - gain / 4, las],
        "language identified": {"UAS": las, "LAS": las - 0.5, "right": 98.0},
        "calibration": {"confidence": 91.0, "right": 90.0, "error": 1.25},
    }
    return {"benchmark": "languages", "when": "2026-11-18T10:00", "commit": "1", "config": config, "result": result}


ROWS = {"da_ddt": row("da_ddt", 85.0), "fi_tdt": row("fi_tdt", 80.0, gain=2.0)}


def cells(text, *starts):
    """Return the cells of the only line of a table that starts with these."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    [found] = [line for line in lines if line[: len(starts)] == list(starts)]
    return found[len(starts) :]


# Measurements


def gold(split):
    return sample(8) if split == "dev" else sample(12)[8:]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with two treebanks, a model of them, and the rows of their dev sets."""
    folder = tmp_path_factory.mktemp("languages")
    for code in ("da_ddt", "sv_talbanken"):
        (folder / code).mkdir()
        for split in ("dev", "test"):
            write_treebank(gold(split), folder / code / f"{split}.conllu.xz")
    known = {code: asdict(KNOWN[code]) for code in ("da_ddt", "sv_talbanken")}
    (folder / "facts.json").write_text(json.dumps(known))
    tiny_parser_of_two().save(folder / "tiny")
    measure(folder, "--split", "dev")
    return folder


def measure(place, *options, rows="rows.jsonl"):
    paths = ["--model", place / "tiny", "--treebanks", place, "--rows", place / rows, "--facts", place / "facts.json"]
    measure_languages([*map(str, paths), *options])


def measured_row(place, code, rows="rows.jsonl"):
    [found] = read_rows("languages", path=place / rows, treebank=code)
    return found


@pytest.mark.parametrize("code", ["da_ddt", "sv_talbanken"])
def test_the_scores_are_those_of_the_parser_of_the_treebank(place, code):
    parser = Parser.from_pretrained(place / "tiny", device="cpu", language=code)
    bare = [without_tags(each) for each in gold("dev")]

    result = measured_row(place, code)["result"]

    from_text = evaluate(gold("dev"), parser.stream_chunks([text_of(gold("dev"))]))
    from_words = evaluate(gold("dev"), parser.parse(bare))
    assert result["raw text"]["LAS"] == round(100 * from_text["LAS"].f1, 2)
    assert result["raw text"]["Words"] == round(100 * from_text["Words"].f1, 2)
    for name in ("UPOS", "UAS", "LAS"):
        assert result["gold words"][name] == round(100 * from_words[name].f1, 2)
    assert result["calibration"]["right"] == pytest.approx(result["gold words"]["UAS"], abs=0.01)


def test_a_language_that_is_not_named_is_identified(place):
    bare = [without_tags(each) for each in gold("dev")]
    parses = list(Parser.from_pretrained(place / "tiny", device="cpu").stream_trees(bare))

    found = {code: measured_row(place, code)["result"]["language identified"] for code in ("da_ddt", "sv_talbanken")}

    las = round(100 * evaluate(gold("dev"), parses)["LAS"].f1, 2)
    assert [each["LAS"] for each in found.values()] == [las, las]
    share = 100 * sum(each.treebank == "da_ddt" for each in parses) / len(parses)
    assert found["da_ddt"]["right"] == pytest.approx(share, abs=0.01)


def test_the_row_names_weights_treebank_release_split_and_precision(place):
    config = measured_row(place, "sv_talbanken")["config"]

    wanted = {"model": "tiny", "treebank": "sv_talbanken", "release": "2.3", "split": "dev", "precision": "float32"}
    assert wanted.items() <= config.items()
    assert (config["sentences"], config["T"], len(config["weights"])) == (8, 4, 64)


def test_treebanks_that_have_a_row_are_not_measured_again(place, capsys):
    measure(place, "--split", "test", "--treebank", "da_ddt", rows="again.jsonl")
    measure(place, "--split", "test", rows="again.jsonl")
    measure(place, "--split", "test", rows="again.jsonl")

    rows = read_rows("languages", path=place / "again.jsonl")
    assert [each["config"]["treebank"] for each in rows] == ["da_ddt", "sv_talbanken"]
    assert "test: 0 treebanks to measure, 2 done" in capsys.readouterr().out


def test_several_processes_find_the_same(place):
    measure(place, "--jobs", "2", rows="jobs.jsonl")

    for code in ("da_ddt", "sv_talbanken"):
        results = [measured_row(place, code, rows)["result"] for rows in ("rows.jsonl", "jobs.jsonl")]
        assert results[0] | {"seconds": 0} == results[1] | {"seconds": 0}


def test_an_unknown_treebank_is_an_error(place):
    with pytest.raises(TreefineError, match="There is no treebank xx_abc. Choose from da_ddt, sv_talbanken"):
        measure(place, "--treebank", "xx_abc")


# Facts about treebanks

README = """\
## `ud-2.3/`

| code | UD repository | tag | licence | train | dev |
| --- | --- | --- | --- | --- | --- |
| sv_talbanken | UD_Swedish-Talbanken | r2.3 | CC BY-SA 4.0 | 4,303 / 66,645 † | 504 / 9,797 |

| code | train file | lost or guessed |
| --- | --- | --- |
| sv_talbanken | r2.5, from a spaCy DocBin | comments |

## `permissive/`

| code | language | UD repository | tag | licence | train | lost |
| --- | --- | --- | --- | --- | --- | --- |
| nb_bokmaal | Norwegian Bokmål | UD_Norwegian-Bokmaal | r2.16 | CC BY-SA 4.0 | 2,169 / 32,750 | |
| tr_boun | Turkish | UD_Turkish-BOUN | r2.10 | CC BY-SA 4.0 | 7,803 / 98,214 | as below; 4 of 951 multiword tokens |
| tr_penn | Turkish | UD_Turkish-Penn | commit 1a2 | CC BY-SA 4.0 | 560 / 6,110 | |
"""
HEADER = """\
UD_X-Y, {release} of Universal Dependencies
Contributors (as in its README): Doe, Jane; Roe, Richard;
Source and changes: {source}

------------------------------------------------------------------------

The text of the licence
"""


def test_facts_come_from_the_readme_and_the_licence_files(tmp_path):
    headers = {
        "permissive/nb_bokmaal": ("release r2.16", "train is the first 90 % of the dev file of the release"),
        "permissive/tr_boun": ("release r2.10", "unchanged"),
        "permissive/tr_penn": ("commit 1a2 (before r2.17)", "unchanged"),
        "ud-2.3/sv_talbanken": ("", ""),
    }
    for folder, (release, source) in headers.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "LICENSE.txt").write_text(HEADER.format(release=release, source=source))
    (tmp_path / "README.md").write_text(README)
    paths = [f"$PERMISSIVE/{each}/train.conllu.xz" for each in ("nb_bokmaal", "tr_boun", "tr_penn")]

    found = collected(tmp_path, [*paths, "$TREEBANKS/sv_talbanken/train.conllu.xz"], ["tr_penn"])

    assert [*found] == ["nb_bokmaal", "tr_boun", "tr_penn", "sv_talbanken"]
    assert (found["nb_bokmaal"].name, found["nb_bokmaal"].treebank) == ("Norwegian Bokmål", "UD Norwegian Bokmaal")
    assert found["nb_bokmaal"].contributors == "Doe, Jane; Roe, Richard"
    assert [each.is_dev_only for each in found.values()] == [True, False, False, False]
    assert [each.is_main for each in found.values()] == [True, False, True, True]
    assert [each.words for each in found.values()] == [32_750, 98_214, 6_110, 66_645]
    assert [each.release for each in found.values()] == ["2.16", "2.10", "before 2.17", "2.3"]
    assert found["sv_talbanken"].note == "training file of release 2.5"
    assert found["tr_boun"].note == "4 of 951 multiword tokens lost in the training file"


@needs_treebanks
def test_the_facts_of_the_page_are_those_of_the_treebanks():
    settings = read_recipe("multi").treebank

    found = collected(SHARED, settings.train, settings.main)

    assert found == {code: replace(each, repeated=0.0) for code, each in treebank_facts().items()}


def test_test_sentences_that_are_in_any_training_file_are_counted(tmp_path):
    long = [each for each in sample() if len(each) > 6]
    files = {
        "da_ddt": {"train": long[:4], "test": long[4:6]},
        "fi_tdt": {"train": long[5:6], "test": long[6:7]},
    }
    for code, splits in files.items():
        (tmp_path / code).mkdir()
        for split, sentences in splits.items():
            write_treebank(sentences, tmp_path / code / f"{split}.conllu.xz")

    found = with_repeated(tmp_path, {code: KNOWN[code] for code in files})

    assert [each.repeated for each in found.values()] == [50.0, 0.0]


def test_each_treebank_has_a_licence_without_nc_a_link_and_contributors():
    found = treebank_facts().values()

    assert len({each.language for each in found}) == 36 == sum(each.is_main for each in found)
    assert all("NC" not in each.licence and each.link.startswith("https://") and each.contributors for each in found)


# Logs of trainings


@pytest.fixture
def logs(tmp_path):
    """Return a folder with one log of each kind."""
    dev = {"las": 0.8, "uas": 0.85, "by_step": [0.78, 0.8], "UPOS": 0.95, "FEATS": 0.9, "LEMMA": 0.92}
    last = {"dev": dev, "epoch": 20, "updates": 1234, "seconds": 56.7}
    contents = {
        "mono-sv_talbanken/log.jsonl": json.dumps({"dev": {**dev, "las": 0.1}, "epoch": 1}) + "\n" + json.dumps(last),
        "dev-avg.json": json.dumps({"sv_talbanken": {**dev, "las": 0.825}, "da_ddt": dev}),
        "curve-ug_udt-50-plain/log.jsonl": json.dumps({**last, "dev": {**dev, "las": 0.2}}),
        "curve-ug_udt-50-multi/log.jsonl": json.dumps({**last, "dev": {**dev, "las": 0.4}}),
        "zero-ug_udt.json": json.dumps({**dev, "las": 0.15}),
    }
    for name, content in contents.items():
        (tmp_path / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "logs" / name).write_text(content + "\n")
    return tmp_path / "logs"


def imported(logs, benchmark):
    rows = logs.parent / "rows.jsonl"
    measure_import_training([str(logs), "--rows", str(rows), "--device", "NVIDIA H200"])
    return read_rows(benchmark, path=rows)


def test_the_last_line_of_a_log_becomes_a_row_in_percent(logs):
    [found] = imported(logs, "language_alone")

    assert found["config"] == {
        "treebank": "sv_talbanken",
        "release": "2.3",
        "split": "dev",
        "precision": "float32",
        "device": "NVIDIA H200",
    }
    assert found["result"] == {
        "LAS": 80.0,
        "UAS": 85.0,
        "UPOS": 95.0,
        "UFeats": 90.0,
        "Lemmas": 92.0,
        "LAS_by_step": [78.0, 80.0],
        "epochs": 20,
        "updates": 1234,
        "seconds": 56.7,
    }


def test_the_scores_of_all_treebanks_together_become_one_row_each(logs):
    found = imported(logs, "language_together")

    assert [(each["config"]["treebank"], each["result"]["LAS"]) for each in found] == [
        ("sv_talbanken", 82.5),
        ("da_ddt", 80.0),
    ]


def test_a_learning_curve_has_a_row_for_each_size_and_start(logs):
    found = imported(logs, "language_curve")

    names = ("training_sentences", "start")
    points = [(*(each["config"][name] for name in names), each["result"]["LAS"]) for each in found]
    assert sorted(points) == [(0, "multi", 15.0), (50, "multi", 40.0), (50, "plain", 20.0)]


def test_logs_can_be_an_archive_and_are_imported_once(logs):
    before = imported(logs, "language_curve")
    with tarfile.open(logs.parent / "logs.tar.xz", "w:xz") as archive:
        archive.add(logs, "results")

    after = imported(logs.parent / "logs.tar.xz", "language_curve")

    assert after == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("curve-ug_udt-many-plain", "The name of this folder is not that of a learning curve"),
        ("mono-xx_abc", "xx_abc is not a treebank of the model"),
    ],
)
def test_a_log_with_an_unknown_name_is_an_error(logs, name, message):
    (logs / name).mkdir()
    (logs / name / "log.jsonl").write_text('{"dev": {"las": 0.5}}\n')

    with pytest.raises(TreefineError, match=message):
        imported(logs, "language_curve")


def test_a_folder_without_logs_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()

    with pytest.raises(TreefineError, match="There are no logs of trainings"):
        imported(tmp_path / "empty", "language_curve")


# The page


def test_each_treebank_has_a_line_and_a_dash_if_it_was_not_measured():
    text = languages.scores_by_treebank(ROWS, KNOWN)

    measured = ["80,000", "83.00", "85.00", "95.00", "93.00", "94.00"]
    assert cells(text, "Danish", "`da_ddt`, `da`") == ["Danish DDT 2.5", *measured]
    assert cells(text, "Finnish", "`fi_tdt`, `fi`")[0] == "Finnish TDT 2.5*"
    assert cells(text, "Swedish", "`sv_talbanken`, `sv`")[2:] == [NONE] * 5
    assert "sv_talbanken: training file of release 2.5." in text
    assert "also in a training file" not in text
    assert "2 treebanks, 2026-11-18, weights abcdef01, int8." in text


def test_treebanks_with_repeated_test_sentences_are_named():
    known = KNOWN | {"da_ddt": replace(KNOWN["da_ddt"], repeated=13.04)}

    text = languages.scores_by_treebank(ROWS, known)

    assert "Test sentences of six words or more that are also in a training file: da_ddt 13.0%." in text


@pytest.mark.parametrize(
    ("release", "expected"), [("2.5", (87.0, "2.6")), ("2.8", (89.0, "2.10")), ("before 2.11", (89.0, "2.10"))]
)
def test_the_nearest_release_is_shown_and_of_two_the_later(peers, release, expected):
    assert nearest("UDPipe 2", "da_ddt", "words", release) == Nearest(*expected)


def test_other_parsers_are_shown_with_the_release_of_their_treebank(peers):
    text = languages.beside_others(ROWS, KNOWN)

    from_text = ["**83.0** (2.5)", "76.0 (2.5)", "86.0 (2.6)", NONE, NONE]
    assert cells(text, "Danish", "da_ddt") == [*from_text, "**85.0** (2.5)", "77.0 (2.5)", "87.0 (2.6)"]
    assert cells(text, "Swedish", "sv_talbanken") == [NONE] * 8
    assert "[UDPipe 2 2.6](https://example.org/2)" in text


def test_means_are_compared_with_udpipe_2_and_treebanks_without_a_training_file_apart(peers):
    text = languages.summary(ROWS, KNOWN)

    assert cells(text, "at least 20,000 training words") == ["1", "85.00", "87.00", "-2.00"]
    assert cells(text, "of these, with most of the dev set in its place") == ["0", NONE, NONE, NONE]
    assert cells(text, "all without a training file") == ["1", "80.00", "89.00", "-9.00"]
    assert cells(text, "all") == ["2", "82.50", "88.00", "-5.50"]


def test_languages_behind_udpipe_1_are_named(peers):
    text = languages.summary(ROWS, KNOWN)

    assert (
        "From raw text, `multi` is ahead of UDPipe 1 in 1 of 2 languages; it is behind in Finnish (fi_tdt*, -1.5)."
        in text
    )
    assert "From words, `multi` is ahead of UDPipe 1 in 2 of 2 languages." in text


def test_treebanks_trained_alone_and_together_are_compared_by_size():
    def scored(las):
        return {"result": {"LAS": las}}

    alone = {"da_ddt": scored(85.0), "fi_tdt": scored(70.0), "sv_talbanken": scored(80.0)}
    text = languages.cost_of_many(alone, {"da_ddt": scored(84.5), "fi_tdt": scored(72.0)}, KNOWN)

    assert [line.split(" | ")[1] for line in text.splitlines()[2:5]] == ["fi_tdt*", "sv_talbanken", "da_ddt"]
    assert cells(text, "Finnish") == ["fi_tdt*", "16,000", "70.00", "72.00", "+2.00"]
    assert cells(text, "Swedish")[-2:] == [NONE, NONE]
    assert "Mean difference: +0.75 points." in text


def test_the_gain_of_refinement_is_shown_by_size():
    text = languages.refinement(ROWS, KNOWN)

    assert cells(text, "Finnish") == ["fi_tdt*", "16,000", "78.00", "80.00", "+2.00"]
    assert "+2.00 with fewer than 25,000 training words (1 treebank)" in text
    assert f"]({languages.PICTURE})" in text


def test_the_picture_has_a_dot_and_a_label_for_each_treebank():
    known = treebank_facts()
    drawn = languages.draw_refinement({code: row(code, 80.0, gain=len(code) / 8) for code in known}, known)

    assert drawn.count("<circle") + drawn.count('class="marker"') == len(known)
    assert all(f">{code}</text>" in drawn for code in known)
    assert drawn.count("hollow") - languages.STYLE.count("hollow") == sum(each.is_dev_only for each in known.values())
    assert languages.draw_refinement({}, known) is None


def test_labels_do_not_overlap():
    boxes = list(
        languages.labels_of({f"xx_{number}": (300 + number, 200 + number % 3) for number in range(20)}).values()
    )

    assert len(boxes) == 20
    assert not any(one.overlaps(other) for one in boxes for other in boxes if one is not other)


def test_a_learning_curve_shows_both_starts_by_number_of_sentences():
    def point(size, start, las):
        config = {"treebank": "sv_talbanken", "training_sentences": size, "start": start}
        return {"config": config, "result": {"UAS": las + 5, "LAS": las}}

    text = languages.curve([point(0, "multi", 30.0), point(50, "plain", 20.0), point(50, "multi", 50.0)], KNOWN)

    assert cells(text, "Swedish", "0") == ["35.00", "30.00", NONE, NONE]
    assert cells(text, "Swedish", "50") == ["55.00", "50.00", "25.00", "20.00"]


def test_confidence_and_accuracy_are_shown_by_language():
    text = languages.calibration(ROWS, KNOWN)

    assert cells(text, "Danish") == ["da_ddt", "91.00", "90.00", "1.25"]
    assert "Mean error: 1.25" in text


def test_the_share_of_identified_sentences_is_shown():
    text = languages.identified(ROWS, KNOWN)

    assert text.startswith("On average 98.00% of the sentences are put into the right language.")
    assert "da_ddt 98.00%" in text


def test_the_sources_and_licences_are_listed():
    text = languages.attribution(KNOWN)

    assert cells(text, "[UD Danish DDT](https://example.org)") == ["2.5", "CC BY-SA 4.0", "Doe, Jane"]


@pytest.mark.parametrize(
    "shown",
    [
        lambda: languages.summary({}, KNOWN),
        lambda: languages.beside_others({}, KNOWN),
        lambda: languages.scores_by_treebank({}, KNOWN),
        lambda: languages.cost_of_many({}, {}, KNOWN),
        lambda: languages.refinement({}, KNOWN),
        lambda: languages.curve([], KNOWN),
        lambda: languages.calibration({}, KNOWN),
        lambda: languages.identified({}, KNOWN),
    ],
)
def test_the_page_can_be_written_without_rows(peers, shown):
    text = shown()

    assert NONE in text or "Not measured yet" in text


def test_the_description_of_the_model_has_the_test_scores_of_each_treebank():
    found = languages_about([ROWS["da_ddt"], row("fi_tdt", 70.0, split="dev")], KNOWN)

    assert found["da_ddt"].keys() == {each.name for each in fields(LanguageAbout)}
    danish = LanguageAbout(**found["da_ddt"])
    assert (danish.name, danish.language, danish.treebank) == ("Danish", "da", "UD Danish DDT 2.5")
    assert (danish.scores["LAS from text"], danish.scores["LAS from words"]) == (83.0, 85.0)
    assert found["fi_tdt"]["scores"] == {}
    assert found["sv_talbanken"]["note"] == "training file of release 2.5"


def test_all_tables_and_the_picture_are_registered():
    assert languages.LANGUAGES.items() <= TABLES.items()
    assert languages.FIGURES.items() <= FIGURES.items()
    assert "docs/languages.md" in PAGES
