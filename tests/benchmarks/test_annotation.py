"""The scripted annotator: what it does next, what counts as an action, and what is checked in the file."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks.annotation import run
from benchmarks.annotation.annotator import Annotator, Move, View, next_move, spread
from benchmarks.annotation.inputs import Case, of_length, stretch, without_deps, without_marks, write_cases, wrong_words
from benchmarks.annotation.killer import MOMENTS, Killer
from benchmarks.annotation.run import blocks, file_checks, journal_checks
from benchmarks.annotation.screen import Screen, StudioProcess
from benchmarks.annotation.summary import annotation
from benchmarks.rows import read_rows, save_row
from tests.serving.conftest import browser  # noqa: F401
from tests.support.studio_pages import DOG, RAIN, STARS, Stub, opened
from treefine import TreefineError, read_treebank
from treefine.studio.actions import set_arcs
from treefine.studio.journal import Journal

GOLD = [(2, "nsubj"), (0, "root"), (4, "det"), (2, "obj")]
ONE_HEAD = [(2, "nsubj"), (0, "root"), (2, "det"), (2, "obj")]  # word 3
ONE_LABEL = [(2, "nsubj"), (0, "root"), (4, "det"), (2, "iobj")]  # word 4
TWO = [(2, "expl"), (0, "root"), (2, "det"), (2, "obj")]  # words 1 and 3


def view(arcs, **fields):
    return View(arcs, **fields)


def test_a_right_tree_is_done():
    assert next_move(view(GOLD), GOLD) == Move("done")


def test_the_leftmost_wrong_word_is_next():
    assert next_move(view(TWO), GOLD).word == 1
    assert next_move(view(ONE_HEAD), GOLD) == Move("drag", 3, 4)


def test_a_wrong_label_needs_a_click_on_the_arc_then_the_label():
    assert next_move(view(ONE_LABEL), GOLD) == Move("arc", 4, label="obj")
    assert next_move(view(ONE_LABEL, selected=4, is_in_label=True), GOLD) == Move("label", 4, label="obj")


def test_the_label_of_the_word_that_was_just_attached_comes_before_words_on_its_left():
    both = [(2, "expl"), (0, "root"), (4, "amod"), (2, "obj")]

    assert next_move(view(both, selected=3, is_in_label=True), GOLD) == Move("label", 3, label="det")


def test_a_selected_word_gets_a_frequent_label_with_one_key():
    assert next_move(view(ONE_LABEL, selected=4, frequent=["obj"]), GOLD) == Move("digit", 4, label="obj")


def test_a_right_suggestion_is_taken_and_a_wrong_one_is_not():
    offered = {"suggested": [1, 3]}

    assert next_move(view(ONE_HEAD, suggestions=[(3, "nsubj"), (4, "det")], **offered), GOLD).place == 1
    assert next_move(view(ONE_HEAD, suggestions=[(3, "nsubj"), (4, "amod")], **offered), GOLD).kind == "drag"


def test_a_follow_up_is_refused_if_it_broke_more_than_it_repaired():
    assert next_move(view(ONE_HEAD, before_follow_up=GOLD), GOLD) == Move("refuse")
    assert next_move(view(ONE_HEAD, before_follow_up=ONE_LABEL), GOLD).kind == "drag"  # one for one
    assert next_move(view(GOLD, before_follow_up=ONE_LABEL), GOLD) == Move("done")


def sentences(tmp_path, text):
    path = tmp_path / "given.conllu"
    path.write_text(text, encoding="utf-8")
    return list(read_treebank(path))


@pytest.fixture
def cases(tmp_path):
    """Return sentences with two, two and no wrong arcs."""
    stars, dog, rain = sentences(tmp_path, STARS + DOG + RAIN)
    wrong_stars = set_arcs(stars, [(3, 2, "nummod"), (4, 2, "obl")])
    wrong_dog = set_arcs(dog, [(5, 4, "case"), (7, 3, "nmod")])
    return [Case(wrong_stars, stars), Case(wrong_dog, dog), Case(rain, rain)]


def test_a_wrong_head_or_a_wrong_label_makes_a_word_wrong(cases):
    assert wrong_words(cases[0].given, cases[0].gold) == [3, 4]
    assert [case.n_wrong for case in cases] == [2, 2, 0]


def counted(*numbers):
    return [SimpleNamespace(n_wrong=number, place=place) for place, number in enumerate(numbers)]


def test_the_stretch_is_the_first_with_exactly_the_wanted_arcs_or_the_fewest_more():
    cases = counted(0, 5, 0, 1, 2, 0, 2, 1)

    assert [case.place for case in stretch(cases, 2, 4)] == [4, 5, 6]
    assert [case.place for case in stretch(cases, 2, 5)] == [1, 2, 3]
    with pytest.raises(TreefineError, match="No 2 sentences in a row have 7 wrong arcs"):
        stretch(cases, 2, 7)


def test_sentences_of_a_length_have_a_wrong_head(cases):
    only_label = Case(set_arcs(cases[2].gold, [(1, 2, "obj")]), cases[2].gold)

    assert of_length([*cases, only_label], 8, 2) == [cases[1], cases[0]]


def test_done_sentences_are_written_with_their_gold_tree_and_a_mark(cases, tmp_path):
    write_cases(cases, tmp_path / "x.conllu", done={1})

    found = list(read_treebank(tmp_path / "x.conllu"))
    assert "# treefine_status = done" in found[1].comments
    assert without_marks(found[1]).to_conllu() == DOG
    assert found[0].to_conllu() == cases[0].given.to_conllu()


def test_an_enhanced_graph_is_left_out(tmp_path):
    (sentence,) = sentences(tmp_path, RAIN.replace("nsubj\t_", "nsubj\t2:nsubj"))

    assert without_deps(sentence).to_conllu() == RAIN


def test_the_checks_of_the_file_find_a_wrong_tree_and_a_changed_sentence(cases, tmp_path):
    path = tmp_path / "x.conllu"
    write_cases(cases, path, done={2})
    before, gold = blocks(path), {key: case.gold for key, case in enumerate(cases, start=1)}
    path.write_text(STARS + before[1] + before[2].replace("Rain\train", "Rain\tRain"), encoding="utf-8")

    found = file_checks(path, before, gold, {1, 2})

    assert found == {"trees_right": 1, "identical_without_marks": 1, "untouched_identical": 0, "untouched": 1}

    path.write_text(STARS + DOG, encoding="utf-8")  # a sentence is missing

    assert set(file_checks(path, before, gold, {1, 2}).values()) == {0, 1}


def test_the_checks_of_the_journal_find_lost_and_repeated_changes(tmp_path):
    path = tmp_path / "x.conllu"
    folder = tmp_path / "x.conllu.annotation"
    folder.mkdir()
    changes = [{"record": "change", "id": each} for each in ("a", "b", "b")]
    Journal(folder / "journal.jsonl").append({"record": "start", "version": 1}, *changes)

    found = journal_checks(path, [("a", "edit"), ("b", "edit"), ("c", "follow")])

    assert found == {"changes_shown": 3, "changes_missing": ["c"], "changes_twice": ["b"]}


def test_spread_of_nothing_has_no_median():
    assert spread([]) == {"n": 0}
    assert spread(range(1, 101)) == {"n": 100, "median": 50.5, "p90": 91, "max": 100}


class StandIn(StudioProcess):
    """A program that prints an address and waits."""

    @property
    def command(self):
        program = "import signal; print('treefine: http://127.0.0.1:1/x/', flush=True); signal.pause()"
        return [sys.executable, "-IS", "-c", program]


def test_a_killer_kills_at_the_wanted_number_of_inputs_and_starts_the_server_again(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text(RAIN)
    with StandIn(path) as studio:
        first = studio._process
        killer = Killer(studio, kills=2, inputs=2, seed=1)
        for _ in range(5):
            killer.before_input()
        killer.wait()

        assert killer.n_kills == 2
        assert set(killer.moments) < set(MOMENTS)
        assert killer.faults == []
        assert first.returncode == -signal.SIGKILL
        assert studio._process.poll() is None
        studio.stop()


def test_a_command_that_ends_without_an_address_is_reported(tmp_path):
    studio = StandIn(tmp_path / "x.conllu")
    studio.launch = lambda: (
        studio.said.write_text("treefine: error: no such file\n"),
        setattr(studio, "_process", subprocess.Popen([sys.executable, "-IS", "-c", ""])),
    )

    with pytest.raises(TreefineError, match="no such file"):
        studio.start()


def corrected(browser, cases, tmp_path, **stub):  # noqa: F811
    """Let the annotator correct all sentences in a real browser; return it and the sentences of the file."""
    path = tmp_path / "work.conllu"
    write_cases(cases, path)
    gold = {key: case.gold for key, case in enumerate(cases, start=1) if case.n_wrong}
    with opened(path, partner=Stub(**stub)) as (address, project):
        screen = Screen(browser)
        screen.open(address)
        screen.settle()
        annotator = Annotator(screen, gold)
        annotator.correct_all()
        screen.close()
        project.documents[0].save()
        assert screen.errors == []
    return annotator, [without_marks(each).to_conllu() for each in read_treebank(path)]


def test_sentences_are_corrected_with_mouse_and_keyboard(browser, cases, tmp_path):  # noqa: F811
    annotator, found = corrected(browser, cases, tmp_path)

    counts = annotator.screen.counts
    assert found == [STARS, DOG, RAIN]
    assert dict(counts.kinds) == {"drag": 3, "arc": 1, "label": 2, "done": 2}
    assert (counts.actions, counts.drags, counts.clicks, counts.wheels) == (8, 3, 1, 0)
    assert counts.keys >= 5  # two labels of at least one letter and Enter, or a digit
    assert annotator.tally.not_applied == []


def test_suggestions_are_taken_and_bad_follow_ups_refused(browser, cases, tmp_path):  # noqa: F811
    annotator, found = corrected(
        browser, cases, tmp_path, suggests={7: [(4, "obl")]}, sure={7: 0.3}, follows={(5, 7): [(6, 3, "det")]}
    )

    assert found == [STARS, DOG, RAIN]
    kinds = annotator.screen.counts.kinds
    assert (kinds["take"], kinds["refuse"]) == (1, 1)
    assert (annotator.tally.broken, annotator.tally.refused, annotator.tally.repaired) == (1, 1, 0)


def test_arcs_that_the_parser_corrects_need_no_action(browser, cases, tmp_path):  # noqa: F811
    annotator, found = corrected(browser, cases, tmp_path, follows={(3, 4): [(4, 2, "obj")], (5, 7): [(7, 4, "obl")]})

    assert found == [STARS, DOG, RAIN]
    assert dict(annotator.screen.counts.kinds) == {"drag": 2, "done": 2}
    assert annotator.tally.repaired == 2


def test_a_missing_treebank_is_named(tmp_path):
    bench = run.Bench(SimpleNamespace(treebanks=tmp_path), tmp_path, None)

    with pytest.raises(TreefineError, match="en_ewt"):
        _ = bench.cases


CHECKED = {"trees_right": 50, "identical_without_marks": 50, "untouched_identical": 74, "untouched": 74}
HAND = {"drags": 40, "clicks": 60, "keys": 120}
RESULTS = {
    "corrections": CHECKED
    | {"wrong_arcs": 120, "actions_per_wrong_arc": 1.9, "actions_per_wrong_arc_without_done": 1.5, "hand": HAND}
    | {"repaired": 5, "broken": 3},
    "kills": CHECKED
    | {"lost": [], "given_up": [], "changes_missing": ["a"], "changes_twice": [], "faults": []}
    | {"kills": 20, "changes_shown": 180},
    "opening": {"drawn": 1.6, "frames_per_second": 58.7, "frame_ms": {"max": 33.4}}
    | {"memory": {"scrolled": {"VmRSS": 1234}}},
    "latency": {name: {"median": 160.2, "p90": 200.0} for name in ("follow", "edit", "advice", "shown")},
    "estimate": {"start": {"estimate": 130, "wrong": 120}, "half": {"estimate": 50, "wrong": 45}},
}


def test_the_table_shows_the_newest_row_of_each_kind_with_its_target(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    assert "python -m benchmarks annotation" in annotation(path)
    for kind, result in RESULTS.items():
        config = {"kind": kind, "sentences": 50, "words": [25, 25]}
        save_row("annotation", config, result, path=path)
    assert len(read_rows("annotation", path=path)) == 5

    found = annotation(path)

    assert "| 1.90 | at most 2.2: met |" in found
    assert "| 1 of 180 | 0: **missed** |" in found
    assert "| 1.6 s | less than 2 s: met |" in found
    assert "160 ms (200 ms) | less than 150 ms: **missed** |" in found
    assert "after the most doubtful half: estimated, true | 50, 45 |" in found
