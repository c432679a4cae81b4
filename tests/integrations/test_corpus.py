"""A corpus parsed into a folder, block by block; with Ray, workers and the run itself may be killed on the way."""

import dataclasses
import gzip
import importlib.util
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke
from tests.support.tiny import sample
from tests.test_package import loaded_by
from treefine.cli.inputs import Input, find_inputs
from treefine.cli.outputs import Job, OutputOptions
from treefine.cli.parse import ModelChoice
from treefine.cli.stream import JobRunner
from treefine.errors import TreefineError
from treefine.fast.file_workers import FileParser
from treefine.integrations.corpus.ray import BlockActor, Outcome, Share, attempts_path, share_of, waiting_message
from treefine.integrations.corpus.run import parse_corpus
from treefine.parsing.options import ParserOptions
from treefine.treebank.conllu import write_treebank
from treefine.version import __version__

FILES = ("a.conllu", "b.conllx", "c.txt", "d.txt.gz", "e.txt")
SHORT = ("a.conllu", "e.txt")
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Create a folder with treebanks and texts."""
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(8), "a.conllu")
    invoke("convert", "a.conllu", "b.conllx")
    Path("c.txt").write_text("Dogs bark.\nNobody knew why.\n" * 40)
    Path("d.txt.gz").write_bytes(gzip.compress(b"The old man the boats. Nobody came.\n\nReally? Yes"))
    Path("e.txt").write_text("It sleeps\n\nWhy?")
    return tmp_path


def new_actor(choice, **changes):
    settings = {"wanted": OutputOptions(), "folder": str(Path.cwd()), "threads": 1, "workers": None}
    return BlockActor(**{"choice": choice, "version": __version__, **settings, **changes})


def outcome_of(actor, block):
    return Outcome(**json.loads(actor({"block": pickle.dumps(block)})["outcome"]))


@pytest.fixture
def no_exit(monkeypatch):
    """Raise SystemExit where an actor would end its process."""

    def end(code):
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", end)


@pytest.fixture
def parse(text_model, capsys, no_exit):
    """Return a function that runs the driver with actors in this process, and returns its success and its messages."""

    def call(*names, kind=None, shape=None, wanted=None, size=1 << 24, skip=(), **options):
        model, label_map = options.pop("model", text_model), options.pop("label_map", None)
        usual = {"max_steps": 2, "device": "cpu", "batch_pieces": 4000}
        choice = ModelChoice(model, ParserOptions(**usual | options), label_map)
        wanted = wanted or OutputOptions(model=text_model)

        def parse_blocks(blocks):
            actor, to_do = new_actor(choice, wanted=wanted), [each for each in blocks if each.target not in skip]
            while to_do:
                try:
                    yield outcome_of(actor, to_do[0])
                    to_do.pop(0)
                except SystemExit:  # as Ray does it: another actor tries the block
                    actor = new_actor(choice, wanted=wanted)

        inputs = find_inputs(names, kind=kind)
        is_right = parse_corpus(inputs, "out/", shape, wanted, choice, size=size, parse_blocks=parse_blocks)
        return is_right, capsys.readouterr().err

    return call


def refusal(parse, *names, **options):
    with pytest.raises(TreefineError) as error:
        parse(*names, **options)
    return str(error.value)


def outputs(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if not path.name.startswith(".")}


def joined(folder):
    """Return the outputs, with the blocks of each file joined."""
    found = {}
    for name, data in sorted(outputs(folder).items()):
        stem, number = name.rpartition(".")[0], name.rpartition(".")[0].rpartition("-")[2]
        whole = name.replace(f"-{number}", "") if number.isdecimal() and stem != number else name
        found[whole] = found.get(whole, b"") + data
    return found


@pytest.mark.parametrize(
    ("names", "asked", "options", "n_outputs"),
    [
        (FILES, {}, [], 5),
        (("c.txt", "e.txt"), {"kind": "words", "size": 300}, ["--from", "words"], 5),
        (("c.txt", "e.txt"), {"kind": "lines", "size": 300}, ["--from", "lines"], 4),
        (("a.conllu", "b.conllx"), {"shape": "conllu", "size": 1500}, ["--format", "conllu"], 9),
        (SHORT, {"wanted": OutputOptions(confidence=True), "size": 1500}, ["--confidence"], 2),
        (SHORT, {"shape": "json", "size": 1500}, ["--format", "json"], 2),
        (SHORT, {"shape": "html", "size": 1500}, ["--format", "html"], 2),
        (SHORT, {"shape": "parquet", "size": 1500}, ["--format", "parquet"], 2),
    ],
    ids=["whole", "words", "lines", "treebanks", "confidence", "json", "html", "parquet"],
)
def test_the_output_equals_that_of_the_local_engine(files, parse, text_model, names, asked, options, n_outputs):
    """Joined, the outputs of a divided file equal its whole output."""
    if "parquet" in options:
        pytest.importorskip("pyarrow")
    wanted = dataclasses.replace(asked.get("wanted", OutputOptions()), model=text_model)

    is_right, said = parse(*names, **asked | {"wanted": wanted})

    invoke("parse", *names, "-o", "local/", "--model", text_model, "--device", "cpu", "--steps", 2, *options)
    assert is_right
    assert re.fullmatch(r"\d+ blocks parsed, \d+ sentences\n", said)
    assert len(outputs("out")) == n_outputs
    assert joined("out") == outputs("local")


def test_finished_blocks_are_skipped(files, parse):
    parse(*FILES)
    whole = outputs("out")
    Path("out/b.conllx").unlink()
    Path("out/c.conllu").write_text("mine")

    is_right, said = parse(*FILES)
    again = parse(*FILES)

    assert is_right
    assert said.startswith("treefine: 4 of 5 blocks already finished\n1 block parsed, 8 sentences")
    assert again == (True, "treefine: 5 of 5 blocks already finished\n")
    assert outputs("out") == whole | {"c.conllu": b"mine"}


def test_subfolders_are_kept_and_resumed(files, parse):
    for place in ("in", "in/x"):
        Path(place).mkdir()
        shutil.copy("e.txt", place)

    assert parse("in")[1].startswith("2 blocks parsed")
    Path("out/x/.e.conllu.attempt").touch()

    assert parse("in")[1] == "treefine: 2 of 2 blocks already finished\n"
    hidden = [".treefine.cpu.float32", ".treefine.json", ".treefine.lock"]
    assert sorted(str(path.relative_to("out")) for path in Path("out").rglob("*.*")) == [
        *hidden,
        "e.conllu",
        "x/e.conllu",
    ]


def test_more_files_can_be_added(files, parse):
    parse("a.conllu", "c.txt")

    assert parse("a.conllu", "e.txt")[1].startswith("treefine: 1 of 2 blocks already finished\n1 block parsed")
    assert parse("c.txt", "e.txt")[1] == "treefine: 2 of 2 blocks already finished\n"


def test_faults_are_reported_at_the_end_with_their_lines_and_the_rest_is_written(files, parse):
    lines = Path("a.conllu").read_text().split("\n")
    place = next(number for number, line in enumerate(lines) if line.startswith("1\t") and number > 60)
    lines[place] = lines[place].replace("\t", " ", 1)
    Path("bad.conllu").write_text("\n".join(lines))
    Path("none.txt").write_text(" \n")
    Path("broken.txt.gz").write_bytes(b"no gzip")
    Path("bytes.txt").write_bytes(b"Yes\n\xff")

    is_right, said = parse("bad.conllu", "none.txt", "broken.txt.gz", "e.txt", "bytes.txt", size=1500)

    reported = [line.partition(" (")[0] if "conllu" in line else line for line in said.splitlines()]
    n_written = len(outputs("out"))
    assert not is_right
    assert reported[0] == f"treefine: bad.conllu:{place + 1}:"
    assert reported[1].startswith("treefine: broken.txt.gz: This is not a gzip file.")
    assert reported[2] == (
        "treefine: bytes.txt:2: Byte 0xff is not UTF-8. Name its encoding, such as --encoding latin-1, or convert it "
        "to UTF-8."
    )
    assert reported[3] == "treefine: none.txt: The text contains no words."
    assert reported[4].startswith(f"{n_written} blocks parsed, ")
    assert reported[4].endswith("; 1 empty; 3 failed")
    assert outputs("out").keys() >= {"bad-00001.conllu", "e.conllu", "none.conllu"}


def test_a_file_without_words_is_reported_and_its_output_is_empty(files, parse):
    Path("none.txt").write_text(" \n")

    is_right, said = parse("none.txt", "e.txt")

    assert not is_right
    assert said.startswith("treefine: none.txt: The text contains no words.\n2 blocks parsed, ")
    assert outputs("out")["none.conllu"] == b""
    assert parse("none.txt", "e.txt") == (
        False,
        "treefine: 2 of 2 blocks already finished\ntreefine: none.txt: The text contains no words.\n",
    )
    assert parse("e.txt") == (True, "treefine: 1 of 1 block already finished\n")
    Path("out/none.conllu").unlink()
    Path("none.txt").write_text("Yes.\n")
    assert parse("none.txt")[0]
    assert parse("none.txt")[0]


def test_a_block_without_an_outcome_is_reported(files, parse):
    is_right, said = parse("a.conllu", "e.txt", skip=["out/e.conllu"])

    assert not is_right
    assert said.startswith("treefine: e.txt: A block was not written. Run the same command again.\n1 block parsed, ")


def test_columns_lost_in_the_output_format_are_counted_over_all_blocks(files, parse, text_model, data):
    german = (data / "german.conll09").read_bytes()
    Path("g.conll09").write_bytes(german * 3)

    said = parse("g.conll09", shape="conllu", size=len(german) // 2)[1]

    whole = ["parse", "g.conll09", "--format", "conllu", "-o", "g.conllu", "--model", text_model, "--device", "cpu"]
    assert len(outputs("out")) > 3
    assert said.splitlines()[:-1] == invoke(*whole).stderr.splitlines() != []


def test_the_first_warning_of_each_kind_is_reported(files, parse, monkeypatch):
    monkeypatch.setattr("treefine.parsing.plan.MOST_WORDS", 10)
    for name in ("a.conllu", "b.conllu"):
        marked = [each.with_misc(["NotLabel=zzz", *["_"] * (len(each) - 1)]) for each in sample(4)]
        write_treebank(marked, name)

    said = [parse("a.conllu", "b.conllu")[1] for _ in range(2)]  # the second run reads them from files

    for each in said:
        long, label = sorted(line for line in each.splitlines() if "warning" in line)
        assert long.startswith("treefine: warning: a.conllu:12: (")
        assert "is parsed in" in long
        assert label.startswith("treefine: warning: a.conllu:4: (")
        assert "The model has no label 'zzz'." in label


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_steps": 1}, "The files in this folder were written with steps 2, but this run uses 1."),
        (
            {"wanted": OutputOptions(confidence=True)},
            "The files in this folder were written with confidence False, but this run uses True.",
        ),
        (
            {"size": 1500},
            "The files in this folder were written with block size 16777216, but this run uses 1500.",
        ),
        (
            {"batch_pieces": 99, "shape": "json"},
            "The files in this folder were written with batch_pieces 4000, but this run uses 99.",
        ),
    ],
)
def test_a_folder_made_with_other_options_is_not_resumed(files, parse, options, message):
    parse("e.txt", shape=options.get("shape"))

    assert refusal(parse, "e.txt", **options) == f"out: {message} Choose another folder, or empty this one."


def test_trees_without_confidences_may_use_another_batch_size(files, parse):
    parse("e.txt")

    assert parse("e.txt", batch_pieces=99) == (True, "treefine: 1 of 1 block already finished\n")


def test_a_run_with_a_changed_model_is_not_resumed(files, parse, text_model):
    shutil.copytree(text_model, "model")
    parse("e.txt", model="model")
    weights = Path("model/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")

    with pytest.raises(
        TreefineError,
        match=r"out: The files in this folder were written with weights \w{16}, but this run uses \w{16}\.",
    ):
        parse("e.txt", model="model")


def test_another_file_with_the_same_name_is_an_error(files, parse):
    for folder in ("f1", "f2"):
        Path(folder).mkdir()
        Path(folder, "x.txt").write_text(f"In {folder}.")
    parse("f1/x.txt")

    assert refusal(parse, "f2/x.txt") == (
        f"out/x.conllu: This is the output of {files}/f1/x.txt; {files}/f2/x.txt would overwrite it. "
        "Rename one of the inputs, or choose another folder."
    )


@pytest.mark.parametrize("is_there", [True, False])
def test_a_block_of_one_file_is_not_mistaken_for_the_output_of_another(files, parse, is_there):
    Path("a-00001.txt").write_text("Other.")
    parse("a.conllu", size=1500)
    if not is_there:
        Path("out/a-00001.conllu").unlink()

    with pytest.raises(
        TreefineError, match=r"a-00001\.conllu: This is the output of \S+/a\.conllu; \S+ would overwrite it"
    ):
        parse("a-00001.txt", size=1500)


def test_trees_of_different_devices_or_precisions_are_not_mixed(files, parse):
    parse("e.txt", precision="float32")
    Path("out/.treefine.cpu.float32").rename("out/.treefine.cuda.float16")
    Path("out/e.conllu").unlink()

    assert refusal(parse, "e.txt", precision="float32") == (
        "out: The trees in this folder were computed on cuda in float16, but this worker uses cpu in float32. "
        "Choose another folder, or empty this one. Set --device and --precision to use the same on all workers."
    )
    assert outputs("out") == {}
    assert not Path("out/.treefine.cpu.float32").exists()


def test_a_changed_input_is_an_error(files, parse):
    parse("e.txt")
    parse("a.conllu")
    os.utime("e.txt", (0, 0))  # of the same size

    assert re.fullmatch(
        r"out/e\.conllu: This is the output of e\.txt \(15 bytes, modified 20[-\d]+ [:\d]+\.\d{3}, text\), "
        r"which has changed to e\.txt \(15 bytes, modified 19[-\d]+ [:\d]+\.\d{3}, text\)\. "
        r"Delete its outputs, or choose another folder\.",
        refusal(parse, "e.txt"),
    )
    Path("out/e.conllu").unlink()
    assert parse("e.txt")[0]


def test_blocks_of_a_file_that_became_shorter_are_an_error(files, parse):
    parse("a.conllu", size=1500)
    blocks = sorted(Path("out").glob("a-*"))
    for path in blocks[:-1]:
        path.unlink()
    write_treebank(sample(2), "a.conllu")

    with pytest.raises(TreefineError, match=rf"{blocks[-1].name}: This is the output of a\.conllu \("):
        parse("a.conllu", size=1500)


@pytest.mark.parametrize("is_first", [True, False])
def test_outputs_of_unknown_origin_are_an_error(files, parse, is_first):
    if not is_first:
        parse("a.conllu")
    Path("out").mkdir(exist_ok=True)
    Path("out/e.conllu").write_text("mine")

    with pytest.raises(TreefineError, match=r"out/e\.conllu: This file exists, but no earlier run wrote it"):
        parse("e.txt")


@pytest.mark.parametrize("text", ["{", "[]", '{"options": {}, "files": {"e.conllu": []}}'])
def test_a_damaged_record_is_an_error(files, parse, text):
    parse("e.txt")
    Path("out/.treefine.json").write_text(text)

    with pytest.raises(TreefineError, match=r"out/\.treefine\.json: This record of a run is damaged"):
        parse("e.txt")


def test_a_second_run_in_the_same_folder_is_an_error(files, parse):
    import fcntl

    parse("e.txt")
    with Path("out/.treefine.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TreefineError, match=r"out: Another run is writing into this folder\. Wait until it ends"):
            parse("e.txt")


def test_temporary_files_of_dead_workers_are_removed(files, parse):
    parse("e.txt")
    Path("out/e.conllu").unlink()
    for name in (".e.conllu.0123abcd.tmp", ".e.conllu.attempt"):
        Path("out", name).touch()
    Path("out/.other.tmp").touch()

    assert parse("e.txt")[0]
    kept = [path.name for path in Path("out").iterdir() if not path.name.startswith(".treefine")]
    assert sorted(kept) == [".other.tmp", "e.conllu"]


def test_the_record_of_a_run_that_cannot_be_replaced_stays_whole(files, parse, monkeypatch):
    parse("e.txt")
    before = Path("out/.treefine.json").read_bytes()
    monkeypatch.setattr(os, "fsync", lambda number: Path("full").stat())

    with pytest.raises(TreefineError, match=r"treefine\.json: The output could not be written"):
        parse("a.conllu")

    assert Path("out/.treefine.json").read_bytes() == before


@pytest.mark.parametrize("shape", ["conllu", "parquet"])
def test_a_block_is_on_disk_before_it_is_renamed(files, parse, monkeypatch, shape):
    if shape == "parquet":
        pytest.importorskip("pyarrow")
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda number: sizes.append((outputs("out").keys(), os.fstat(number).st_size)))

    parse("e.txt", shape=shape)

    ((name, data),) = outputs("out").items()
    assert sizes[-1] == (set(), len(data)), name


BLOCK = Job((Input("e.txt", kind="text"),), "out/e.conllu", "conllu", is_block=True)


@pytest.fixture
def worker(files, text_model):
    Path("out").mkdir()

    def call(**changes):
        return outcome_of(
            new_actor(**{"choice": ModelChoice(text_model, ParserOptions(device="cpu")), **changes}), BLOCK
        )

    return call


def test_a_block_that_kills_every_worker_is_skipped(worker):
    attempts = attempts_path("out/e.conllu")
    attempts.write_text("1 on a\n2 on b")
    found = worker()
    assert (found.fault, found.n_dead_workers) == ("", 2)
    assert not attempts.exists()
    Path("out/e.conllu").unlink()
    attempts.write_text("1 on a: OSError: odd\n2 on b\n3 on c")

    outcome = worker()

    assert (
        outcome.fault
        == "e.txt: 3 workers died while parsing this block. The usual reason is too little memory; see the logs of Ray."
    )
    assert not outcome.is_worker_unfit


def test_a_finished_block_of_a_dead_worker_is_not_parsed_again(worker):
    Path("out/e.conllu").write_text("whole")
    attempts_path("out/e.conllu").write_text("1 on a")

    assert worker() == Outcome("out/e.conllu", n_dead_workers=1)
    assert Path("out/e.conllu").read_text() == "whole"


def test_messages_of_a_finished_block_are_reported_later(worker):
    Path("e.txt").write_text(" \n")
    first = worker()

    assert first.empty == ["e.txt: The text contains no words."]
    assert worker() == first
    report = Path("out/.e.conllu.report")
    report.write_text(report.read_text().replace("out/e.conllu", "../run/out/e.conllu"))  # from another folder
    assert worker() == first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "0.0"}, "but the command runs treefine 0.0. Install the same version on all machines."),
        ({"folder": "/no/such"}, "/no/such: A worker cannot enter the folder: No such file or directory. Start from"),
        ({"choice": ModelChoice("nothing")}, "There is no model 'nothing'."),
    ],
)
def test_an_unfit_worker_reports_why_and_gets_no_more_blocks(worker, changes, message):
    outcome = worker(**changes)

    assert outcome.is_worker_unfit
    assert message in outcome.fault


def test_an_unfit_worker_ends_the_run(files, parse):
    with pytest.raises(TreefineError, match=r"There is no initial|initial"):
        parse("a.conllu", "e.txt", initial="nowhere/at/all")


def test_an_unexpected_error_loses_no_other_block(files, parse, monkeypatch):
    run = JobRunner.run

    def odd(self, block):
        if block.target == "out/e.conllu":
            raise LookupError("odd\nand long")
        run(self, block)

    monkeypatch.setattr(JobRunner, "run", odd)

    is_right, said = parse("a.conllu", "e.txt")

    assert not is_right
    assert said.startswith(
        "treefine: e.txt: 3 workers died while parsing this block: LookupError: odd\n1 block parsed, 8 sent"
    )
    assert said.endswith("; 3 dead workers replaced; 1 failed\n")


@pytest.mark.parametrize(
    ("error", "workers"),
    [
        (RuntimeError("CUDA error: an illegal memory access was encountered"), None),
        (TreefineError("A worker process has ended unexpectedly."), 1),
    ],
)
def test_an_error_outside_a_block_ends_the_actor(worker, monkeypatch, no_exit, error, workers):
    """Otherwise Ray would not start a new one with a working GPU and processes."""

    def fail(*others, **options):
        raise error

    monkeypatch.setattr(JobRunner, "run", fail)
    monkeypatch.setattr(FileParser, "of", lambda parser, workers: object() if workers else None)

    with pytest.raises(SystemExit, match="1"):
        worker(workers=workers)

    assert attempts_path("out/e.conllu").read_text().endswith(f": RuntimeError: {error}")


def test_without_file_workers_a_treefine_error_belongs_to_the_block(worker, monkeypatch):
    def fail(*others, **options):
        raise TreefineError("It is odd.")

    monkeypatch.setattr(JobRunner, "run", fail)

    assert worker(workers=0) == Outcome("out/e.conllu", fault="It is odd.")


FOLDER = "--engine ray writes into a folder. Give a folder: -o NAME/"
FILES_ONLY = "--engine ray cannot read standard input or text arguments. Give files."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("e.txt", FOLDER),
        ("e.txt -o out.conllu", FOLDER),
        ("- -o out/", FILES_ONLY),
        ("Dogs! -o out/", FILES_ONLY),
        ("e.txt -o out/ --resume", "--engine ray always resumes. Leave out --resume."),
        (
            "e.txt -o out/ --review 0.5",
            "--review does not work with --engine ray, which parses sentences in any order. Leave out one of them.",
        ),
        (
            "e.txt -o out/ --device cuda:1",
            "--device cuda:1 is one GPU, but Ray assigns a GPU to each worker. Use --device cuda.",
        ),
        (
            "a.conllu -o out/ --initial a.conllu",
            "--engine ray cannot read initial trees from other files. "
            "Leave out --initial FILE, --label-map and --trust-from, or --engine ray.",
        ),
    ],
)
def test_options_that_do_not_work_on_many_machines_are_an_error(files, arguments, message):
    assert failed(invoke, "parse", *arguments.split(), "--engine", "ray") == message
    assert not Path("out").exists()


def test_ray_is_loaded_only_to_run_it():
    assert not loaded_by("import treefine.integrations.corpus.ray") & {"ray", "pandas"}


def test_a_missing_ray_and_actors_without_ray_are_errors(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_BACKEND_LOG_LEVEL"):
        monkeypatch.setenv(name, "0")

    missing = failed(invoke, "parse", "e.txt", "--engine", "ray", "-o", "out/")
    assert missing == "Ray is not installed. Install it: pip install 'treefine[ray]'"
    assert failed(invoke, "parse", "e.txt", "--actors", 2) == (
        "--actors needs --engine ray. Add --engine ray, or leave out --actors."
    )


def test_threads_cannot_be_combined_with_ray(files):
    assert failed(invoke, "parse", "e.txt", "-o", "out/", "--engine", "ray", "--threads", 2) == (
        "--threads does not work with --engine ray, which divides the cores among the actors. Use --actors instead."
    )


@pytest.mark.parametrize(
    ("nodes", "options", "share"),
    [
        ([{"CPU": 2}], {}, Share(2, 1, 0)),
        ([{"CPU": 2}], {"n_blocks": 1}, Share(1, 2, 0)),
        ([{"CPU": 16}], {"asked": 3}, Share(3, 5, 0)),
        ([{"CPU": 4}, {"CPU": 4}], {"n_blocks": 1}, Share(1, 4, 0)),
        ([{"memory": 9}, {"CPU": 1}, {"CPU": 8}], {}, Share(9, 1, 0)),
        ([{"CPU": 16, "GPU": 1}], {}, Share(1, 16, 1)),
        ([{"CPU": 16, "GPU": 8}, {"CPU": 64}], {}, Share(8, 2, 1)),
        ([{"CPU": 16, "GPU": 8}], {"device": "cpu"}, Share(16, 1, 0)),
    ],
)
def test_each_actor_has_a_gpu_or_its_cores(nodes, options, share):
    assert share_of(nodes, **{"n_blocks": 100, "asked": None, "device": None} | options) == share


@pytest.mark.parametrize(
    ("nodes", "options", "message"),
    [
        ([{"CPU": 2}], {"asked": 3}, "--actors is 3, but Ray has only 2 cores. Use a smaller number."),
        (
            [{"CPU": 9, "GPU": 2}],
            {"asked": 3},
            "--actors is 3, but Ray has only 2 GPUs with a core. Use a smaller number.",
        ),
        ([{"CPU": 2}], {"device": "cuda"}, "Ray has no GPU for --device cuda. Leave out --device."),
        ([{"memory": 2}], {}, "Ray has no CPU cores. Start it with: ray start --num-cpus N"),
    ],
)
def test_requesting_more_than_ray_has_is_an_error(nodes, options, message):
    with pytest.raises(TreefineError) as error:
        share_of(nodes, **{"n_blocks": 9, "asked": None, "device": None} | options)

    assert str(error.value) == message


@pytest.mark.parametrize(
    ("free", "share", "line"),
    [
        ({"CPU": 2.0}, Share(2, 1, 0), ""),
        ({"CPU": 16.0, "GPU": 1.0}, Share(8, 2, 1), ""),
        ({"memory": 9.0}, Share(2, 1, 0), "Waiting: a worker needs 1 core, but Ray has 0 free."),
        ({"CPU": 16.0}, Share(8, 2, 1), "Waiting: a worker needs 1 GPU, but Ray has 0 free."),
    ],
)
def test_a_cluster_without_room_prints_a_message(free, share, line):
    assert waiting_message(free, share) == line


KILLED = "treefine: The run was killed, or Ray ended it"
ENDS = {  # what a run does, and how its message starts
    "os._exit(1)": KILLED,  # as Ray does it
    "os.kill(os.getpid(), 9)": KILLED,
    "sys.exit('An error.')": "An error.\n",
    "sys.exit()": "",
}
END_WATCHED = """
import json, os, sys
from treefine.integrations.corpus.ray import watched
for end in sys.argv[1:]:
    reading, writing = os.pipe()
    if os.fork() == 0:  # much faster than a new Python
        os.dup2(writing, 2)
        os.close(writing)
        with watched():
            exec(end)
    os.close(writing)
    print(json.dumps(open(reading).read()), flush=True)
"""


def test_a_run_that_ends_without_a_message_gets_one():
    done = subprocess.run([sys.executable, "-c", END_WATCHED, *ENDS], capture_output=True, text=True, check=True)

    messages = [json.loads(line) for line in done.stdout.splitlines()]
    for message, said in zip(messages, ENDS.values(), strict=True):
        assert message.startswith(said)
        assert message.count("\n") == bool(said)


def begin(model, names, *options):
    command = [sys.executable, "-m", "treefine", "parse", *names, "--engine", "ray", "-o", "out/", "--model", model]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    settings = ["--device", "cpu", "--steps", "2", "--actors", "2", *options]
    return subprocess.Popen(
        [*command, *settings], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def wait_for(found, process, seconds=300):
    """Wait until `found` returns something, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if value := found():
            return value
        time.sleep(0.005)
    process.kill()
    raise AssertionError(process.communicate())


def state_and_parent(pid):
    state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return state, int(parent)


def descendants(pid):
    """Return the processes that a process has started, directly or through others, parents first."""
    found, parents = [pid], {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            _, parents[int(path.name)] = state_and_parent(path.name)
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def kill_with_descendants(process):
    for pid in [process.pid, *descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def pid_of(attempt):
    return int(attempt.read_text().split()[0])


def stop_a_worker(process):
    """Stop a worker of this run in the middle of a block; return its attempt file, or None."""
    for attempt in Path("out").glob(".*.attempt"):
        with suppress(OSError, IndexError):  # the block is finished, or the file is still empty
            pid = pid_of(attempt)
            state_and_parent(pid)  # without listing all processes for a worker that has ended
            if pid in descendants(process.pid):  # otherwise it is of the killed run
                os.kill(pid, signal.SIGSTOP)
                wait_for(lambda pid=pid: state_and_parent(pid)[0] == "T", process)
                if attempt.exists():
                    return attempt
                os.kill(pid, signal.SIGCONT)
    return None


@needs_ray
def test_a_killed_run_is_resumed_and_a_killed_worker_replaced(files, text_model):
    """Use two Ray actors: kill everything after the first block, then one actor in the middle of another block."""
    names = [f"{number}.conllu" for number in range(4)]
    for number, name in enumerate(names):
        write_treebank(sample(10 + 10 * number), name)

    process = begin(text_model, names)
    wait_for(lambda: list(Path("out").glob("*.conllu")), process)
    kill_with_descendants(process)
    n_before = len(outputs("out"))
    process = begin(text_model, names)
    attempt = wait_for(lambda: stop_a_worker(process), process)
    was_written = Path("out", attempt.name[1:].removesuffix(".attempt")).exists()
    os.kill(pid_of(attempt), signal.SIGKILL)
    printed, said = process.communicate()

    assert 0 < n_before < len(names)
    assert not was_written
    assert process.returncode == 0, said
    assert re.fullmatch(
        r"treefine: [1-3] of 4 blocks already finished\n[1-3] blocks? parsed, \d+ sentences; 1 dead worker replaced\n",
        said,
    )
    assert printed == ""
    invoke("parse", *names, "-o", "local/", "--model", text_model, "--device", "cpu", "--steps", 2)
    assert outputs("out") == outputs("local")
    assert {path.name for path in Path("out").iterdir() if not path.name.startswith(".treefine.")} == set(names)
