"""The tables of running text are made from rows of one run."""

from benchmarks.pages.speed import by_path, by_treebank, with_others
from benchmarks.peers.answers import FIVE, RUNNING, SHORT_TEXT
from benchmarks.speed.running_text import summed_up

CONFIG = {"sentences": 10, "words": 210, "text": ["en_ewt dev"], "threads": 2, "rounds": 3, "packages": {"torch": "2"}}


def rounds_of(**seconds):
    """Return rounds in which each system takes these seconds, one by round."""
    names = {"base": "768cf25"}
    return [
        {
            names.get(name, name): {"seconds": each[n], "processor_seconds": 2 * each[n]}
            for name, each in seconds.items()
        }
        for n in range(3)
    ]


def row(rounds, unit="sentences/s", **config):
    result = summed_up(rounds, 10, unit, "768cf25")
    machine = {"processor": "AMD EPYC", "cores": 2}
    return {"result": result, "config": CONFIG | config, "machine": machine, "when": "2026-11-19", "commit": "abc"}


def test_ratios_are_the_medians_of_the_ratios_of_the_rounds():
    result = summed_up(rounds_of(now=[1, 2, 1], base=[2, 8, 3]), 10, "sentences/s", "768cf25")

    assert result["now"] == {
        "seconds": 1,
        "processor_seconds": 2,
        "sentences_per_second": 10,
        "times_as_fast": 3,
    }


def test_a_line_per_path_shows_the_settings_that_were_measured():
    rows = {
        RUNNING: row(rounds_of(now=[1, 1, 1], base=[3, 3, 3], spaCy=[0.1] * 3)),
        FIVE: row(rounds_of(now=[2, 2, 2])),
        SHORT_TEXT: row(rounds_of(now=[0.02] * 3, base=[0.04] * 3), "ms"),
    }

    paths, others = by_path(rows), with_others(rows, None)

    assert "| running text: `nlp(text)` | 10 sentences/s | 3 sentences/s | 3.00 |" in paths
    assert "| 20.0 ms | 40.0 ms | 2.00 |" in paths
    assert "have 50% of the speed of one long text" in paths
    assert "| spaCy | 100 | 0.2 | – | a small pipeline" in others


def test_accuracy_has_a_line_per_treebank_and_setting():
    scores = {"passes": 2.3, "LAS, raw text": 90.1}
    rows = [row(rounds_of(now=[1, 1, 1]), treebank="en_ewt dev") | {"result": {"now": scores}}]

    assert "| en_ewt dev | default | 2.30 | – | – | 90.10 | – |" in by_treebank(rows)
