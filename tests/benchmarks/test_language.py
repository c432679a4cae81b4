"""The benchmark of language identification writes a row, and can rebuild the table."""

import json
import lzma

import pytest

from benchmarks.accuracy import language as benchmark
from tests.segmenter.test_language import SENTENCES
from treefine.segmenter import language


@pytest.fixture
def folders(tmp_path):
    """Write sentences in three languages, and a treebank in English."""
    for code in ("de", "en", "ja"):
        lines = "\n".join(f"{SENTENCES[code]} {number}" for number in range(50))
        (tmp_path / f"{code}.txt.xz").write_bytes(lzma.compress(lines.encode()))
    (tmp_path / "en_ewt").mkdir()
    treebank = f"# text = {SENTENCES['en'] * 3}\n1\tYes" + "\t_" * 4 + "\t0\troot\t_\t_\n\n"
    (tmp_path / "en_ewt" / "dev.conllu.xz").write_bytes(lzma.compress(treebank.encode()))
    return tmp_path


def test_the_benchmark_builds_a_table_and_measures_it(folders, monkeypatch):
    package = folders / "package"
    (package / "segmenter").mkdir(parents=True)
    (package / "serving").mkdir()
    names = (benchmark.PACKAGE / "serving" / "languages.tsv").read_bytes()
    (package / "serving" / "languages.tsv").write_bytes(names)
    monkeypatch.setattr(benchmark, "PACKAGE", package)
    rows = folders / "rows.jsonl"

    benchmark.measure_language(
        ["--build", "--text", str(folders), "--samples", "2", "--treebanks", str(folders), "--rows", str(rows)]
    )

    result = json.loads(rows.read_text())["result"]
    assert result["% right, 200 characters"] == 100
    assert (result["English blocks"], result["English blocks with a warning"]) == (1, 0)
    built = json.loads((package / "segmenter" / language.TABLE).read_text(encoding="utf-8"))
    assert (built["ja"]["name"], built["ja"]["scripts"]) == ("Japanese", "KANA CJK")
    assert "und" in built["de"]["words"].split()
