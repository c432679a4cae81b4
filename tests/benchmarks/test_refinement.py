"""The trainings for docs/refinement.md: their commands, the genres of English EWT, and the queue that runs them."""

import lzma
import shlex
import sys
from pathlib import Path

import pytest

from benchmarks.accuracy.genres import measure_genres, of_genres
from benchmarks.accuracy.queue import Job, read_job, run_jobs
from benchmarks.accuracy.recipes import kind_of, read_run
from benchmarks.accuracy.refinement import SIZES, TRIED, Training, measure_refinement, trainings
from benchmarks.rows import ROOT
from tests.support.tiny import sample
from treefine import TreefineError, read_treebank

WRITE_ROW = """
import sys, time, pathlib
time.sleep(float(sys.argv[1]))
rows = pathlib.Path(sys.argv[sys.argv.index("--rows") + 1])
rows.write_text('{"benchmark": "accuracy", "config": {}}\\n')
"""


def run_of(training, monkeypatch):
    """Return the run that the command of a training starts."""
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(training.command(Path("work")), comments=True)
    changes = [arguments[place + 1] for place, each in enumerate(arguments) if each == "--set"]
    return read_run(arguments[4], changes, training.seed)


def test_both_systems_of_a_size_differ_only_in_the_graph_and_have_as_many_updates(monkeypatch):
    for size in SIZES:
        rngtr, syntr = (run_of(Training(size, system, 1), monkeypatch).recipe for system in ("rngtr", "syntr"))

        assert (rngtr.relations.graph, rngtr.refine.max_steps) == ("labelled", 3)
        assert (syntr.relations.graph, syntr.refine.max_steps) == ("none", 1)
        assert syntr.training.epochs == 3 * rngtr.training.epochs
        for recipe in (rngtr, syntr):
            assert recipe.training.epochs / recipe.training.dev_every == 4
        same = ("treebank", "encoder", "tags", "scorer", "optimiser", "segmenter")
        assert all(getattr(rngtr, name) == getattr(syntr, name) for name in same)


def test_a_change_that_was_tried_is_a_model_that_refines(monkeypatch):
    kinds = {name: kind_of(run_of(Training(SIZES[-3], "rngtr", 1, name), monkeypatch)) for name in TRIED}

    assert kinds == {
        "sampled": "Empty+RNGTr",
        "noised": "Empty+RNGTr",
        "unstopped": "Empty+RNGTr",
        "jackknifed": "SynTr+RNGTr",
    }


def test_each_training_is_listed_once_with_its_own_files_and_estimate(capsys):
    measure_refinement(["jobs", "--work", "work"])

    jobs = [read_job(line) for line in capsys.readouterr().out.splitlines()]
    assert len({job.name for job in jobs}) == len({job.arguments for job in jobs}) == len(jobs) > 60
    assert "en_ewt-all-rngtr-seed1" == jobs[0].name
    assert all(30 < job.seconds < 300 for job in jobs)


def test_treebanks_and_seeds_can_be_chosen():
    found = list(trainings([2], ["ko_gsd"]))

    assert {(each.seed, each.size.treebank) for each in found} == {(2, "ko_gsd")}


def test_a_document_keeps_its_genre_until_the_next_begins(tmp_path):
    path = tmp_path / "genres.conllu"
    row = "1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    path.write_text(f"# newdoc id = weblog-x-1\n# text = a\n{row}{row}# newdoc id = reviews-7\n{row}")

    found = [sentence.line for sentence in of_genres(read_treebank(path), ["weblog"])]

    assert found == [sentence.line for sentence in read_treebank(path)][:2]


def test_news_are_split_from_reviews(tmp_path):
    texts = [sentence.to_conllu().replace("# newdoc", "# olddoc") for sentence in sample(12)]
    for first, genre in ((0, "newsgroup"), (4, "reviews"), (8, "email")):
        texts[first] = f"# newdoc id = {genre}-1\n{texts[first]}"
    (tmp_path / "en_ewt").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "en_ewt" / f"{split}.conllu.xz").write_bytes(lzma.compress("".join(texts).encode()))

    measure_genres(["--treebanks", str(tmp_path), "--output", str(tmp_path / "out")])

    written = {str(path.relative_to(tmp_path / "out")): path for path in (tmp_path / "out").rglob("*.conllu")}
    assert written.keys() == {"en_ewt-news/train.conllu", "en_ewt-news/dev.conllu", "en_ewt-reviews/dev.conllu"}
    forms = [each.forms for each in sample(12)]
    assert [each.forms for each in read_treebank(written["en_ewt-news/train.conllu"])] == forms[:4]
    assert [each.forms for each in read_treebank(written["en_ewt-reviews/dev.conllu"])] == forms[4:8]


@pytest.fixture
def job(tmp_path):
    """Return a function that makes a job which sleeps, and then writes a row."""
    script = tmp_path / "write_row.py"
    script.write_text(WRITE_ROW)

    def make(name, *, sleep=0.0, seconds=1.0):
        rows = tmp_path / "rows" / f"{name}.jsonl"
        rows.parent.mkdir(exist_ok=True)
        arguments = (sys.executable, str(script), str(sleep), "accuracy", "--seeds", "1", "--rows", str(rows))
        return Job(arguments, seconds)

    return make


def run(jobs, tmp_path, **limits):
    return list(run_jobs(jobs, logs=tmp_path / "logs", **({"at_once": 2, "seconds": 30} | limits)))


def test_a_queue_runs_all_jobs_and_a_second_run_skips_them(job, tmp_path):
    jobs = [job("a"), job("b"), job("c")]

    first, second = run(jobs, tmp_path), run(jobs, tmp_path)

    assert {line.partition(",")[0] for line in first[1:-1]} == {"a: done", "b: done", "c: done"}
    assert first[-1] == "3 of 3 jobs are done; 0 were not started."
    assert second == ["3 of 3 jobs were done before.", first[-1]]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["a.log", "b.log", "c.log"]


def test_a_job_that_cannot_end_in_time_is_not_started(job, tmp_path):
    lines = run([job("long", seconds=60), job("short")], tmp_path)

    assert lines[-1] == "1 of 2 jobs are done; 1 were not started."
    assert not (tmp_path / "logs" / "long.log").exists()


def test_a_job_that_runs_at_the_time_limit_is_killed(job, tmp_path):
    lines = run([job("slow", sleep=60)], tmp_path, seconds=1.5)

    assert lines[1:] == ["slow: killed at the time limit", "0 of 1 jobs are done; 0 were not started."]


def test_a_job_that_fails_is_reported_and_the_others_run(job, tmp_path):
    lines = run([job("wrong", sleep="never"), job("right")], tmp_path)

    assert any(line.startswith("wrong: FAILED (1), see its log") for line in lines)
    assert "ValueError" in (tmp_path / "logs" / "wrong.log").read_text()
    assert lines[-1] == "1 of 2 jobs are done; 0 were not started."


@pytest.mark.parametrize("line", ["ls # 3 s", "python -m benchmarks accuracy en --seeds 1 --rows a.jsonl"])
def test_a_line_that_is_not_a_job_is_an_error(line):
    with pytest.raises(TreefineError, match="This is not a job"):
        read_job(line)
