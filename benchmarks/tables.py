"""The tables in README and docs, made from the newest rows. Each stands between two markers that name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import english, speed_figures
from benchmarks.corpora import CORPORA
from benchmarks.decisions import decisions
from benchmarks.english import ENGLISH
from benchmarks.markdown import table
from benchmarks.others_table import OTHER_PARSERS
from benchmarks.results import RESULTS
from benchmarks.rows import ROOT, last_row
from benchmarks.segmenters import SEGMENTERS
from benchmarks.serving_page import SERVING_PAGE
from benchmarks.speed_page import SPEED_PAGE
from benchmarks.summary import SUMMARY
from benchmarks.tested import TESTED

PAGES = (
    "README.md",
    "docs/benchmarks.md",
    "docs/results.md",
    "docs/english.md",
    "docs/refining.md",
    "docs/deciding.md",
    "docs/speed.md",
    "docs/serving.md",
    "docs/corpora.md",
)


def _origin(benchmark: str) -> str:
    row = last_row(benchmark)
    machine = row["machine"]
    return (
        f"`python -m benchmarks {benchmark}`, {row['when'][:10]}, commit {row['commit']}, {machine['processor']}, "
        f"{machine['cores']} cores, Python {machine['python']}."
    )


def reading() -> str:
    """Reading beside conllu and pyconll."""
    row = last_row("reading")
    result, config = row["result"], row["config"]
    rows: list[tuple[str, ...]] = [
        ("en_ewt train", "treefine", f"conllu {config['conllu']}", f"pyconll {config['pyconll']}")
    ]
    for kind, title in (("read", "read"), ("use", "read, and use form, tag, head and label of each word")):
        cells = [f"{result[f'treefine, {kind}_seconds']:.2f} s"]
        for peer in ("conllu", "pyconll"):
            cells.append(
                f"{result[f'{peer}, {kind}_seconds']:.2f} s: {result[f'{peer}/treefine, {kind}']:.1f} times as long"
            )
        rows.append((title, *cells))
    return f"{table(*rows)}\n\n{_origin('reading')}"


def memory() -> str:
    """Rewriting a gigabyte."""
    result = last_row("memory")["result"]
    rows = [
        ("a file of", "sentences", "read and rewritten in", "peak memory"),
        (
            f"{result['bytes'] / 1e9:.2f} GB",
            f"{result['sentences']:,}",
            f"{result['seconds']:.0f} s",
            f"{result['peak_mib']:.0f} MiB",
        ),
    ]
    return f"{table(*rows)}\n\n{_origin('memory')}"


def scoring() -> str:
    """Scoring beside the official scripts."""
    result = last_row("scoring")["result"]
    rows = [
        ("en_ewt dev", "treefine", "CoNLL 2018 script 1.2", "udtools"),
        (
            "all 13 measures",
            f"{result['treefine_seconds']:.2f} s",
            f"{result['official_seconds']:.2f} s: {result['official/treefine']:.1f} times as long",
            f"{result['udtools_seconds']:.2f} s: {result['udtools/treefine']:.1f} times as long",
        ),
    ]
    return f"{table(*rows)}\n\n{_origin('scoring')}"


def resampling() -> str:
    """Both paired tests."""
    row = last_row("resampling")
    config, result = row["config"], row["result"]
    rows = [
        ("sentences", "resamplings of each test", "both tests"),
        (f"{config['sentences']:,}", f"{config['samples']:,}", f"{result['seconds']:.2f} s"),
    ]
    return f"{table(*rows)}\n\n{_origin('resampling')}"


def analyse_speed() -> str:
    """The report of an error analysis."""
    row = last_row("analyse_speed")
    config, result = row["config"], row["result"]
    size = f"{config['sentences']:,} sentences, {config['words']:,} words, {config['systems']} systems"
    rows = [
        (config["file"], "from start to report", "processor's own seconds", "size of the page"),
        (
            size,
            f"{result['seconds']:.1f} s",
            f"{result['processor_seconds']:.1f}",
            f"{result['report.html_bytes'] / 1e6:.1f} MB",
        ),
    ]
    return f"{table(*rows)}\n\n{_origin('analyse_speed')}"


def startup() -> str:
    """CPU seconds of a start."""
    result = last_row("startup")["result"]
    cells = [f"{value:.2f}" for value in result.values()]
    return f"{table(('', *result), ('CPU seconds', *cells))}\n\n{_origin('startup')}"


def decoding() -> str:
    """The best tree beside other ways to find it."""
    row = last_row("decoding")
    result, config = row["result"], row["config"]
    peers = {
        "numba": f"the same compiled by numba {config['numba']}",
        "ufal": f"ufal.chu_liu_edmonds {config['ufal.chu_liu_edmonds']}",
        "networkx": f"networkx {config['networkx']}",
    }
    rows: list[tuple[str, ...]] = [("words", "treefine", *peers.values(), "treefine, projective")]
    for n_words in config["lengths"]:
        cells = [f"{result[f'treefine, {n_words}_microseconds']:,.0f} µs"]
        for peer in peers:
            if f"{peer}, {n_words}_microseconds" in result:
                ratio = result[f"{peer}/treefine, {n_words}"]
                times = f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"
                cells.append(f"{result[f'{peer}, {n_words}_microseconds']:,.0f} µs: {times} times as long")
            else:
                cells.append("not measured")
        projective = result[f"projective, {n_words}_microseconds"]
        rows.append((f"{n_words:,}", *cells, f"{projective:,.0f} µs"))
    also = (
        f"2,000 sentences of 12 to 25 words take treefine {result['treefine, 2000 sentences_seconds']:.2f} s. "
        f"The compiled one takes {result['numba, first call_seconds']:.1f} s to import, compile and call first, and "
        f"{result['numba, installed_megabytes']} MB to install."
    )
    return f"{table(*rows)}\n\n{also}\n\n{_origin('decoding')}"


def attention() -> str:
    """Attention over a graph beside other ways to write it."""
    row = last_row("attention")
    result, config = row["result"], row["config"]
    ways = {
        "no graph": "no graph (the library's fused attention)",
        "treefine": "treefine: a correction on the pairs with an arc",
        "table": "each query against the whole relation table, then gathered",
        "pairs": "a vector for each pair of pieces, as in the authors' code",
    }
    rows: list[tuple[str, ...]] = [("one layer", "parsing", "training, with gradients", "largest tensor")]
    for name, title in ways.items():
        cells = [title]
        for kind in ("parsing", "training"):
            ratio = f": {result[f'{name}/treefine, {kind}']:.2f} times treefine's" if name != "treefine" else ""
            cells.append(f"{result[f'{name}, {kind}_milliseconds']:.1f} ms{ratio}")
        rows.append((*cells, f"{result[f'{name}_largest'] / 1e6:.2f} million numbers"))
    shape = (
        f"{config['rows']} sentences of {config['pieces']} pieces, {config['labels']} labels, "
        f"{config['attention_heads']} attention heads of width {config['width']}, torch {config['torch']}."
    )
    return f"{table(*rows)}\n\n{shape}\n\n{_origin('attention')}"


def newcomer() -> str:
    """How long it takes from nothing to a tree."""
    row = last_row("newcomer")
    result = row["result"]
    rows = [
        ("", "seconds"),
        ("`make parse` in a clean clone, packages in pip's cache", f"{result['make parse']:.0f}"),
        ("`treefine parse` after that, from start to tree", f"{result['treefine parse']:.1f}"),
    ]
    return f"{table(*rows)}\n\n{_origin('newcomer')}"


TABLES: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        reading,
        memory,
        scoring,
        resampling,
        analyse_speed,
        startup,
        decoding,
        attention,
        newcomer,
        decisions,
    )
} | (RESULTS | TESTED | SUMMARY | ENGLISH | SEGMENTERS | OTHER_PARSERS | SPEED_PAGE | CORPORA | SERVING_PAGE)
FIGURES = {**english.FIGURES, **speed_figures.FIGURES}


def filled(page: str, tables: Mapping[str, Callable[[], str]] = TABLES) -> str:
    """The page with its tables made anew."""

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}\n{tables[match[2]]()}\n{match[3]}"

    marker = r"(<!-- table: (\w+) -->)\n.*?(<!-- end -->)"
    return re.sub(marker, fill, page, flags=re.DOTALL)


def write_tables() -> None:
    for name in PAGES:
        path = Path(ROOT, name)
        path.write_text(filled(path.read_text()))
    for name, draw in FIGURES.items():
        if (figure := draw()) is not None:
            Path(ROOT, name).write_text(figure)
