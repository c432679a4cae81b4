"""The benchmark of speed, and its protocol with parsers in other processes."""

import json
import lzma
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.answers import ALL_PASSES, FILE, WORDS, heads_in_file
from benchmarks.peers.process import Peer
from benchmarks.speed import parsers as speed
from benchmarks.speed.parsers import OURS, SYSTEMS, System, measure_speed, spread, summed_up, without_trees
from tests.benchmarks.stand_in_peer import HELD
from treefine import TreefineError

SENTENCE = """\
# text = Dogs don't
1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t2\tnsubj\t2:nsubj\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\tMood=Ind\t0\troot\t0:root\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t2:advmod\t_

"""
MODULE = "tests.benchmarks.stand_in_peer"


def test_only_heads_labels_and_enhanced_arcs_are_blanked():
    hidden = without_trees(SENTENCE)

    for old, new in zip(SENTENCE.split("\n"), hidden.split("\n"), strict=True):
        before, after = old.split("\t"), new.split("\t")
        assert (before[:6], before[9:]) == (after[:6], after[9:])
        assert after[6:9] in ([], ["_"] * 3)


@given(number=st.integers(1, 60), wanted=st.integers(1, 80))
def test_sentences_are_evenly_spread_and_in_order(number, wanted):
    found = [int(each) for each in spread("".join(f"{each}\n\n" for each in range(number)), wanted)]

    assert len(found) == min(number, wanted)
    gaps = {b - a for a, b in zip(found, found[1:], strict=False)}
    assert not gaps or (min(gaps) >= 1 and max(gaps) - min(gaps) <= 1)
    assert number - found[-1] <= -(-number // len(found))  # the last one is near the end


def answered(seconds, words=100, sentences=10, **parts):
    return {"seconds": seconds, "processor_seconds": 1.0, "sentences": sentences, "words": words, "parts": parts}


def test_a_peer_is_compared_per_word_round_by_round():
    ours, theirs = f"treefine: {FILE}", f"other: {FILE}"
    rounds = [
        {
            ours: answered(own, words=200),
            theirs: answered(other, network=other / 2),
            f"encoder: {ALL_PASSES}": answered(1),
        }
        for own, other in ((2.0, 4.0), (1.0, 3.0), (4.0, 4.0))
    ]
    memory = {"treefine": {"start_mib": 5.0, "peak_mib": 7.0}, "other": {"start_mib": 1.0, "peak_mib": 9.4}}
    memory["encoder"] = memory["other"]

    result = summed_up(rounds, memory)

    assert result[ours]["times_ours"] == 1.0
    assert result[theirs]["times_ours"] == 4.0  # the median of 2, 3 and 1, and half the words
    assert (result[theirs]["sentences_per_second"], result[theirs]["words_per_second"]) == (2.5, 25)
    assert result[theirs]["network_seconds"] == 2.0
    assert (result[theirs]["peak_mib"], result[theirs]["above_start_mib"]) == (9, 8)
    assert (
        result[f"encoder: {ALL_PASSES}"]["times_ours"] == 1.0
    )  # the median of 0.5, 1 and 0.25, compared with file to file


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.conllu"
    path.write_text(without_trees(SENTENCE))
    return path


@pytest.fixture
def peer():
    made = Peer("stand-in", sys.executable, MODULE, threads=1)
    yield made
    made.close()


@pytest.mark.parametrize("way", [WORDS, FILE])
def test_a_peer_parses_in_each_way_and_its_printed_output_is_ignored(peer, source, way):
    built = peer.ask("build", {"source": str(source)})

    found = peer.ask("parse", {"way": way})

    assert built == {"parameters": 7, "ways": [WORDS, FILE], "has_learned": False}
    assert (found["sentences"], found["words"], found["headless"]) == (1, 3, 0)
    assert found["seconds"] >= 0


def test_the_error_of_a_peer_that_ends_early_has_its_last_output(peer, source):
    with pytest.raises(TreefineError, match=r"stand-in ended during the request build.*\n?.*too small a machine"):
        peer.ask("build", {"source": str(source), "ends": True})


def test_a_missing_python_is_an_error(tmp_path):
    with pytest.raises(TreefineError, match="No such file"):
        Peer("stand-in", tmp_path / "python", MODULE, threads=1)


def test_memory_includes_child_processes(peer, source):
    peer.ask("build", {"source": str(source), "has_child": True})
    start = peer.memory()

    _, peak = peer.ask_with_memory("parse", {"way": WORDS})

    assert start > 1
    assert HELD / 2**20 < peak - start < 3 * HELD / 2**20


def test_heads_are_read_from_a_file_and_a_blank_head_is_minus_one(source):
    assert heads_in_file(source) == [[-1, -1, -1]]

    source.write_text(SENTENCE * 2)

    assert heads_in_file(source) == [[2, 0, 2]] * 2


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Return a function that runs the command with stand-ins for all systems and returns its row."""
    (tmp_path / "en_ewt").mkdir()
    for split in ("train", "dev", "test"):
        with lzma.open(tmp_path / "en_ewt" / f"{split}.conllu.xz", "wt", encoding="utf-8") as file:
            file.write(SENTENCE * 3)
    rows = tmp_path / "rows.jsonl"

    def run(**build):
        systems = (
            System("treefine", OURS, "tests"),
            System("other", "other", "tests", build),
            System("absent", "absent", "tests"),
        )
        monkeypatch.setattr(speed, "SYSTEMS", systems)
        monkeypatch.setattr(speed, "BASE", systems[0])
        monkeypatch.setattr(speed, "Peer", lambda name, python, _, threads: Peer(name, python, MODULE, threads=threads))
        options = ["--python", f"other={sys.executable}", "--treebanks", str(tmp_path), "--rows", str(rows)]
        measure_speed([*options, "--rounds", "1", "--copies", "2", "--folder", str(tmp_path / "kept")])
        return json.loads(rows.read_text().splitlines()[-1])

    return run


def test_the_command_measures_available_systems_and_names_the_missing_ones(command, capsys):
    row = command()

    config, result = row["config"], row["result"]
    assert set(result) == {f"{name}: {way}" for name in ("treefine", "other") for way in (WORDS, FILE)}
    assert (config["sentences"], config["words"], config["sentences by step"]) == (6, 18, [6, 3])
    assert config["profile"]["busy_share"] == 0.5
    assert "left out, because --python names no Python for: absent" in (printed := capsys.readouterr().out)
    assert f"| other | {FILE} |" in printed


def test_no_time_is_reported_for_a_parser_that_leaves_words_without_a_head(command, tmp_path):
    with pytest.raises(TreefineError, match=r"3 sentences and 9 words, 3 of them without a head.* No time is printed"):
        command(head=99)

    assert not (tmp_path / "rows.jsonl").exists()


def test_a_parser_is_restarted_after_training_so_that_only_parsing_counts(command, monkeypatch):
    asked = []
    ask = Peer.ask
    monkeypatch.setattr(
        Peer, "ask", lambda self, request, *rest: asked.append((self.name, request)) or ask(self, request, *rest)
    )

    command(learns=True)
    command(learns=True)

    assert asked.count(("other", "build")) == 3  # twice in the first run, once in the second
    assert asked.count(("treefine", "build")) == 2


def test_names_of_systems_are_unique_and_treefine_is_first():
    names = [each.name for each in SYSTEMS]

    assert len(set(names)) == len(names)
    assert SYSTEMS[0].package == OURS
    assert not any(": " in name for name in names)  # it separates names and ways
