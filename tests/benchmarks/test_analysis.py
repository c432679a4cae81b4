"""docs/analysis.md shows what the rows and the saved trees of the chosen models say."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.accuracy.model_rows import grouped
from benchmarks.pages import analysis, analysis_models
from benchmarks.pages.analysis import (
    ANALYSIS,
    FIGURES,
    PAGE,
    chosen_examples,
    label_sentence,
    measure_analysis,
    shown_systems,
)
from benchmarks.pages.analysis_models import (
    all_models,
    models_of,
    refinement_of_all,
    refinement_of_model,
    training_sizes,
)
from benchmarks.pages.tables import filled
from benchmarks.rows import ROOT, TREEBANKS, read_rows
from tests.benchmarks.test_results import cells, row
from tests.support.tiny import sample, tiny_model
from treefine import Parser, TreefineError
from treefine.evaluation.analysis import errors, export
from treefine.evaluation.analysis.refinement import Refinement, StepCounts
from treefine_paper import paper

TEX = ROOT.parent / "shared" / "paper" / "rngtr.tex"
needs_treebanks = pytest.mark.skipif(not TREEBANKS.exists(), reason="no treebanks next to this checkout")
needs_paper = pytest.mark.skipif(not TEX.exists(), reason="no paper next to this checkout")


@needs_treebanks
def test_the_page_is_generated_from_the_rows_and_trees():
    page = (ROOT / PAGE).read_text()

    assert set(re.findall(r"<!-- table: (\w+) -->", page)) == ANALYSIS.keys()
    assert filled(page, ANALYSIS) == page


def test_the_page_states_the_limits_of_the_report():
    page = (ROOT / PAGE).read_text()

    assert f"fewer than {export.LEAST_WORDS} gold" in page
    assert f"the { ({10: 'ten'}[errors.EXAMPLES]) } shortest corrected" in page


@needs_treebanks
@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_generated_from_the_rows_and_trees(name):
    assert (ROOT / name).read_text() == FIGURES[name]()
    assert f"]({Path(name).name})" in (ROOT / PAGE).read_text()


@needs_treebanks
def test_the_saved_trees_have_the_scores_of_the_rows():
    for models in all_models().values():
        for model in models.values():
            found = refinement_of_model(model)
            for metric in ("UAS", "LAS"):
                measured = means(model.results.values(), f"{metric}_by_step")[found.first :]
                assert found.attachment[metric].f1 == pytest.approx(measured, abs=2e-6)
            changed = [1 - number / found.n_sentences for number in found.converged]
            assert changed == pytest.approx(means(model.results.values(), "changed_by_step")[found.first :], abs=2e-6)


def means(results, name):
    columns = zip(*(result[name] for result in results), strict=True)
    return [None if None in each else sum(each) / len(each) for each in columns]


@needs_treebanks
def test_each_treebank_counts_once_in_the_total_whatever_its_number_of_seeds():
    models = all_models()["SynTr+RNGTr"]
    fewer = dict(models)
    fewer["en_ewt"] = replace(models["en_ewt"], results={2: models["en_ewt"].results[2]}, chosen=2)

    sizes = [refinement_of_all(each).attachment["LAS"].gold for each in (models, fewer)]

    assert sizes[0] == sizes[1] == sum(sum(map(len, analysis_models.gold_of(name))) for name in models)


@needs_treebanks
def test_sentences_are_shown_only_if_the_licence_of_the_treebank_allows_it():
    readme = (TREEBANKS.parent / "README.md").read_text()
    (licence,) = re.findall(rf"^\| {analysis.TREEBANK} \| [^|]* \| r2\.3 \| ([^|]*) \|", readme, re.MULTILINE)

    assert licence == "CC BY-SA 4.0"
    assert licence in (ROOT / PAGE).read_text()
    dev = set(analysis_models.gold_of(analysis.TREEBANK))
    assert all(example.gold in dev for kind in ("corrected", "spoiled") for example in chosen_examples(kind))


@needs_treebanks
def test_the_page_says_if_the_lines_mix_encoders(monkeypatch):
    assert analysis.curves().startswith(
        "On en_ewt the lines mix encoders: SynTr, SynTr+RNGTr and Empty+RNGTr have mpnet and Biaffine+RNGTr has "
        "gte-small. Each line shows one seed."
    )

    same = {
        kind: {treebank: replace(model, encoder="x") for treebank, model in of_kind.items()}
        for kind, of_kind in all_models().items()
    }
    monkeypatch.setattr(analysis, "all_models", lambda: same)

    assert analysis.curves().startswith("Each line shows one seed.")


@needs_treebanks
def test_the_lines_by_length_show_only_systems_that_all_treebanks_have():
    for files in shown_systems().values():
        assert files.keys() == set(analysis_models.NAMES)


def model(treebank="tr_imst", kind="SynTr+RNGTr", *, las=0.7, **changed):
    return row(kind, treebank=treebank, las=las, recipe=f"{treebank}-{changed.get('encoder', 'x')}", **changed)


def test_the_encoder_with_the_best_mean_dev_las_is_analysed():
    rows = [model(encoder="a", las=0.70, seed=1), model(encoder="a", las=0.76, seed=2), model(encoder="b", las=0.74)]

    found = models_of(grouped(rows))["SynTr+RNGTr"]["tr_imst"]

    assert (found.encoder, found.chosen, list(found.predictions)) == ("b", 1, [1])


def test_changed_models_single_steps_and_other_treebanks_are_left_out():
    rows = [
        model(changes=["refine.stop=false"], stop=False),
        model(treebank="ko_gsd", T=1),
        model(treebank="xx_yy"),
        row("SynTr"),
    ]

    assert models_of(grouped(rows)) == {}


def test_models_are_grouped_by_their_initial_parser():
    rows = [model(), model(kind="Biaffine+RNGTr", encoder="c"), model(kind="Empty+RNGTr", encoder="d")]

    assert list(models_of(grouped(rows))) == ["SynTr+RNGTr", "Biaffine+RNGTr", "Empty+RNGTr"]


def other(*, parser="biaffine", model="tr_imst-x-mixed-seed2", las=0.8, gold="all", tags="given"):
    config = {"parser": parser, "model": model, "treebank": "tr_imst", "gold": gold, "tags": tags}
    return {"config": config, "result": {"LAS": las, "predictions": f"{las}.trees.xz"}}


def test_a_mixed_model_is_analysed_from_the_biaffine_parses(monkeypatch):
    monkeypatch.setattr(analysis_models, "gold_of", lambda _: ())
    monkeypatch.setattr(analysis_models, "checksum", lambda _: "all")
    groups = grouped([model(kind="Biaffine+RNGTr", las=0.7), row("Mixed+RNGTr", recipe="tr_imst-x-mixed", encoder="e")])
    others = [
        other(las=0.71),
        other(las=0.72),  # the same seed, measured again
        other(parser="udpipe", las=0.9),
        other(gold="a part", las=0.9),
        other(tags="predicted", las=0.9),
        other(model="en", las=0.9),
    ]

    found = models_of(groups, others)["Biaffine+RNGTr"]["tr_imst"]

    assert (found.recipe, found.encoder, found.chosen, found.las) == ("tr_imst-x-mixed", "e", 2, 0.72)
    assert found.predictions == {2: "0.72.trees.xz"}
    assert found.is_mixed


def test_training_sizes_are_read_from_the_table_of_the_treebanks():
    readme = (
        "| code | x |\n| aa_b | UD | r2.3 | CC0 | 10,001 / 2 | 3 / 4 |\n| cc_d | UD | r2.3 | CC0 | absent | 3 / 4 |"
    )

    assert training_sizes(readme) == {"aa_b": 10001}


@pytest.mark.parametrize(("size", "expected"), [(10_000, "Low-Resource"), (10_001, "High-Resource")])
def test_more_than_ten_thousand_sentences_are_high_resource(size, expected, monkeypatch):
    monkeypatch.setattr(analysis_models, "sizes", lambda: {"xx": size})

    assert analysis_models.resource("xx") == expected


def test_the_sentence_below_the_types_counts_better_and_worse_ones():
    labels = {
        "up": StepCounts(100, (100, 100), (50, 60)),
        "same": StepCounts(100, (100, 100), (50, 50)),
        "down": StepCounts(100, (100, 100), (50, 45)),
        "rare": StepCounts(99, (99, 99), (50, 45)),
    }
    found = Refinement("x", 0, 10, {}, labels, {}, (5,))

    assert label_sentence(found) == (
        "Refinement lowers the error of 1 and raises that of 1 of the 3 types with at least 100 gold words, mostly of "
        "`down` (-10.00%)."
    )


def test_uas_is_shown_with_the_papers_and_the_errors_that_refinement_removes(monkeypatch):
    rows = [
        row(kind, las=las, split=split)
        for kind, las in (("SynTr", 0.7), ("SynTr+RNGTr", 0.75))
        for split in ("dev", "test")
    ]
    monkeypatch.setattr(analysis_models, "read_rows", lambda name: rows)

    text = analysis_models.uas()

    assert cells(text, "tr_imst", "treefine", "e5-small") == ("75.00", "80.00 (+20.00%)", "–")
    assert cells(text, "tr_imst", "paper", "BERT") == ("77.98", "78.50 (+2.37%)", "77.49")


def test_step_times_are_saved_as_a_row_and_shown(tmp_path, monkeypatch):
    Parser(tiny_model(), device="cpu", max_steps=3).save(tmp_path / "model")
    monkeypatch.setattr(analysis_models, "gold_of", lambda _: tuple(sample(6)))
    rows = tmp_path / "rows.jsonl"

    measure_analysis(["--time", str(tmp_path / "model"), "--rows", str(rows), "--device", "cpu"])

    (saved,) = read_rows("step_times", path=rows)
    monkeypatch.setattr(analysis_models, "read_rows", lambda _: [saved])
    text = analysis_models.step_times()
    assert cells(text, "sentences refined")[:2] == ("–", "6")
    assert f"`{tmp_path.name}` on en_ewt dev ({sum(map(len, sample(6))):,} words), T = 4, tags given" in text


def test_without_treebanks_the_error_names_their_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(analysis, "TREEBANKS", tmp_path / "none")

    with pytest.raises(TreefineError, match="none: The treebanks are missing"):
        measure_analysis([])


@needs_paper
@pytest.mark.parametrize("kind", paper.DEPENDENCY_TYPES)
def test_the_papers_numbers_equal_those_of_its_tables(kind):
    # The tables of UDify are in Sec. 6, those of SynTr in an appendix.
    main, appendix = TEX.read_text().split(r"\section{SynTr Refinement Analysis}")
    text = appendix if kind == "SynTr+RNGTr" else main
    number = r"[\s&]*\+?([\d.]+)\\%"

    for name, reported in (paper.DEPENDENCY_TYPES[kind] | paper.RESOURCES[kind] | paper.PROJECTIVITY[kind]).items():
        title = re.escape(name.title()) if "projective" in name else re.escape(name)
        found = re.findall(rf"(?:tt |\s){title}\s*\}}?{number * 3}", text)
        assert [tuple(map(float, each)) for each in found] == [reported], name
    rows = re.findall(r"^\{\\tt (\w+) \}", text, re.MULTILINE)
    assert rows == list(paper.DEPENDENCY_TYPES[kind])


@needs_paper
@pytest.mark.parametrize(
    ("language", "treebank"), [("English", "en_ewt"), ("Korean", "ko_gsd"), ("Turkish", "tr_imst")]
)
def test_the_papers_reductions_of_uas_are_as_printed(language, treebank):
    uas = f"{paper.TEST[treebank]['SynTr+RNGTr'][0]:.2f}"

    (row,) = [line for line in TEX.read_text().splitlines() if line.strip().startswith(f"{language} &") and uas in line]

    (printed,) = re.findall(rf"{uas}\}}\(([+\d.]+)\\%\)", row)
    assert float(printed) == paper.UAS_REDUCTIONS[treebank]
