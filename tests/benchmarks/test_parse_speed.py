"""What the benchmark tells of speed, and how it talks to a parser in another Python."""

import json
import sys

import pytest

from benchmarks import parse_speed
from benchmarks.parse_speed import STAND_INS, STANZA_BATCH, Stanza, summed_up, without_trees
from treefine import TreefineError

SENTENCE = """\
# text = Dogs don't
1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t2\tnsubj\t2:nsubj\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\tMood=Ind\t0\troot\t0:root\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t2:advmod\t_

"""
PEER = """\
import json, sys
for line in sys.stdin:
    request, arguments = json.loads(line)
    if request == "version":
        answer = {"stanza": "0"}
    elif request == "times":
        answer = {"all": 9.0, "parser": arguments["batch_size"] / 1000}
    elif request == "parameters":
        answer = 7
    else:
        answer = None
    print(json.dumps(answer), flush=True)
"""


def test_heads_labels_and_enhanced_arcs_are_hidden_and_all_else_is_kept():
    hidden = without_trees(SENTENCE)

    for old, new in zip(SENTENCE.split("\n"), hidden.split("\n"), strict=True):
        before, after = old.split("\t"), new.split("\t")
        assert (before[:6], before[9:]) == (after[:6], after[9:])
        assert after[6:9] in ([], ["_"] * 3)


def test_a_peer_is_compared_round_by_round_and_by_the_processor_with_the_processor():
    times = {
        "treefine, all": [2.0, 1.0, 4.0],
        "treefine, all processor": [1.0, 1.0, 1.0],
        "stanza a, batches of 5, all": [4.0, 3.0, 4.0],
        "stanza a, batches of 5, scores processor": [3.0, 4.0, 5.0],
    }

    result = summed_up(times, n_sentences=10, n_words=100)

    assert result["treefine, all_seconds"] == 2.0
    assert result["treefine, all_sentences_per_second"] == 5.0
    assert result["stanza a, batches of 5, all_words_per_second"] == 25
    assert result["stanza a, batches of 5/treefine, all"] == 2.0  # the median of 2, 3 and 1
    assert result["stanza a, batches of 5/treefine, scores processor"] == 4.0
    assert not [name for name in result if name.startswith("treefine/")]


@pytest.fixture
def stanza(tmp_path, monkeypatch):
    peer, source = tmp_path / "peer.py", tmp_path / "source.conllu"
    peer.write_text(PEER)
    source.write_text(SENTENCE)
    monkeypatch.setattr(parse_speed, "PEER", peer)
    made = Stanza(
        sys.executable, source, source, tmp_path / "models", threads=1, stand_ins=[each.name for each in STAND_INS]
    )
    yield made
    made.close()


def test_each_stand_in_is_measured_in_default_batches_and_in_those_that_are_fastest(stanza):
    times = stanza.times()

    names = {f"stanza {each.name}, batches of {size}" for each in STAND_INS for size in (STANZA_BATCH, 1000)}
    assert set(times) == names
    assert stanza.config == {"stanza": "0"} | {f"parameters of {each.name}": 7 for each in STAND_INS}
    assert json.dumps(times)


def test_a_peer_that_ends_early_is_told_of(stanza):
    stanza.process.kill()
    stanza.process.wait()

    with pytest.raises(TreefineError, match="Stanza ended while it was asked for times"):
        stanza.times()


def test_a_python_that_is_not_there_is_told_of(tmp_path):
    with pytest.raises(TreefineError, match="No such file"):
        Stanza(tmp_path / "python", tmp_path, tmp_path, tmp_path, threads=1, stand_ins=())
