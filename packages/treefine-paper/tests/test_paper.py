"""The numbers of the paper equal those of its LaTeX."""

import re
from pathlib import Path

import pytest

from treefine_paper import paper
from treefine_paper.treebanks import TREEBANKS

TEX = Path(__file__).parents[4] / "shared" / "paper" / "rngtr.tex"
needs_paper = pytest.mark.skipif(not TEX.exists(), reason="no paper next to this checkout")
LANGUAGES = {each.language: code for code, each in TREEBANKS.items() if each.is_ud}


def tables():
    """Return the rows of each tabular of the paper, in its order."""
    found = []
    for text in re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", TEX.read_text(), re.DOTALL):
        rows = re.split(r"\\\\(?:\s*\[-?[\d.]+ex\])?", text.replace(r"\hline", ""))
        found.append([[cell.strip() for cell in row.split("&")] for row in rows if "&" in row])
    return found


def table_with(*words):
    (found,) = [table for table in tables() if all(any(word in " ".join(row) for row in table) for word in words)]
    return found


def printed(cell):
    """Return a score of the LaTeX: its value, its reduction and whether it is bold."""
    pattern = r"(?:\\textbf\{)?([\d.]+)\}?\s*(?:\(([-+\d.,]+)\\%\))?"
    score, reduction = re.fullmatch(pattern, cell).groups()
    reduced = float(reduction.replace(",", ".")) if reduction else None
    return paper.ScoreCell(float(score), reduced, cell.startswith(r"\textbf"))


@needs_paper
@pytest.mark.parametrize(
    ("words", "metric", "first"), [(("[1]", "Average"), "LAS", 2), (("Multi+Mono", "95.13"), "UAS", 1)]
)
def test_scores_of_ud_treebanks_are_as_printed(words, metric, first):
    rows, scores = table_with(*words), paper.UD_SCORES[metric]
    codes = LANGUAGES | {"Average": "Average"}

    for row in rows:
        if row[0] in codes:
            assert list(scores[codes[row[0]]].values()) == list(map(printed, row[first:])), row
    assert list(scores) == [codes[row[0]] for row in rows if row[0] in codes] == list(codes.values())
    models = [cell for row in rows for cell in row if cell in next(iter(scores.values()))]
    assert models == [model for model in next(iter(scores.values())) if "Kulmizev" not in model]


@needs_paper
def test_table_1_is_as_printed():
    rows = table_with("(T=1)")[1:]

    found = [(re.sub(r"~\\cite\{\w+\}|\\textit|[{}]", "", model), float(uas), float(las)) for model, uas, las in rows]
    assert tuple(found) == paper.GRID


@needs_paper
def test_table_3_is_as_printed():
    rows = [row for row in table_with("Biaffine", "UAS", "dozat") if row[1] in ("T", "G")]

    for row, (model, ours) in zip(rows, paper.PENN.items(), strict=True):
        cells = [None if cell == "-" else printed(cell) for cell in row[2:]]
        assert ours == (row[1], cells)
        # A citation names the first author and the year: chen-manning-2014-fast, or FerGomNAACL2019.
        cited = re.search(r"\\newcite\{(\D*)(\d*)", row[0])
        if cited:
            assert model.lower().startswith(cited[1].strip("-").partition("-")[0][:2].lower())
            assert cited[2][:4] in model or model.startswith("Mohammadshahi")  # published in 2020
            assert row[0].partition("}")[2] == model.partition(")")[2]
        else:
            assert model == row[0].partition("~")[0]


@needs_paper
def test_costs_are_as_printed():
    for code, word in (("ptb", "206.2M"), ("en_ewt", "2:22:47")):
        rows = [row for row in table_with(word) if "Model" not in row[0]]
        names = [row[0].partition("~")[0] for row in rows]
        assert dict(zip(names, ((row[-2], row[-1]) for row in rows), strict=True)) == paper.TIMES[code]
    sizes = {row[0].partition("~")[0]: row[1] for row in table_with("206.2M") if "Model" not in row[0]}
    assert sizes == {model: f"{size}M" for model, size in paper.PARAMETERS.items()}


@needs_paper
def test_analyses_of_refinement_are_as_printed():
    def reductions(table):
        return {
            re.sub(r"\\tt |[{}]", "", row[0]).strip(): tuple(
                float(re.match(r"\+?([\d.]+)\\%", cell)[1]) for cell in row[1:]
            )
            for row in table
            if r"\%" in row[1]
        }

    found = [each for each in map(reductions, tables()) if each]
    tree_types = [{name.title(): cells for name, cells in each.items()} for each in paper.PROJECTIVITY.values()]

    udify, syntr = found[:3], found[3:]
    assert udify == [paper.RESOURCES["UDify+RNGTr"], paper.DEPENDENCY_TYPES["UDify+RNGTr"], tree_types[1]]
    assert syntr == [paper.DEPENDENCY_TYPES["SynTr+RNGTr"], paper.RESOURCES["SynTr+RNGTr"], tree_types[0]]
