"""Parse files in parts, with an engine and workers; every byte is the same as without them."""

import os
import subprocess
import sys
from concurrent.futures import Future
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given as for_each
from hypothesis import strategies as st

from tests.cli.test_bad_input import GOOD
from tests.fast.test_engine import packed_plan
from tests.support.data import DATA
from tests.support.generated import conllu_files
from tests.support.tiny import sample, sure_of_tags, tiny_model
from tests.test_package import loaded_by
from treefine.config import TagSettings
from treefine.errors import TreebankError, TreefineError
from treefine.fast.engine import Engine
from treefine.fast.file_workers import FileParser, FilePart, FileReport, Scribe
from treefine.fast.packed_encoder import Room
from treefine.parsing.initial import from_file, input_trees, renamed
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import cut_treebank, format_of, read_treebank, texts_in_file
from treefine.treebank.sentence import BLANK

ROOMS = (Room(512, 32, 48), Room(256, 4, 128))  # small buffers for a CPU
TREEBANKS = ["en_ewt-sample.conllu", "constructs.conllu", "layout.conllu", "penn.conllx", "german.conll09"]
TAGS = TagSettings(source="predicted", columns=("upos", "xpos"))
TAGGING = Parser(sure_of_tags(tiny_model(tags=TAGS)), max_steps=2, device="cpu")
READING = Parser(tiny_model(), max_steps=2, device="cpu")  # reads the tags of the sentences
REFINING = READING.using(initial=input_trees, max_steps=2, trust=0)
MAPPED = REFINING.using(
    initial=renamed(input_trees, READING.model.vocabulary.labels, {"det": "punct"}), max_steps=2, trust=0
)
RETAGGING = TAGGING.using(initial=input_trees, max_steps=2, tags="predicted", trust=0)
WRONG_HEAD = GOOD.replace("\t2\tx", "\t3\tx").encode()
MARK = "1\tGo\t_\tVERB\t_\t_\t2\tobj\t_\tKeep=Arc\n2\tnow\t_\tADV\t_\t_\t0\troot\t_\t_\n\n"


class InThisProcess(FileParser):
    """A FileParser without workers."""

    def __init__(self, scribe, engine, parse):
        self.engine, self.parse, self.ahead, self._scribe = engine, parse, 3, scribe

    def submit(self, method, *arguments):
        done = Future()
        done.set_result(method(self._scribe, *arguments))
        return done


def file_parser(parser, n_workers=0, rooms=ROOMS):
    """Return a FileParser with an engine on a CPU; without workers, this process reads and writes."""
    needed = Scribe.of(parser), Engine(packed_plan(parser), rooms), parser.stream_trees
    return FileParser(*needed, n_workers) if n_workers else InThisProcess(*needed)


@pytest.fixture(scope="module")
def workers():
    with file_parser(TAGGING, 2) as files:
        yield files


@pytest.fixture
def with_engine(monkeypatch):
    """Give READING an engine, as on a GPU."""
    monkeypatch.setattr(READING, "engine", Engine(packed_plan(READING), ROOMS))
    return READING


def data_of(name):
    """Return the first sentences of a treebank."""
    start, gap, _ = (DATA / name).read_bytes()[:8000].rpartition(b"\n\n")
    return start + gap


def parts_of(data, *, path="x.conllu", size=1 << 18):
    return (FilePart(each, path, format_of(path).name) for each in cut_treebank(BytesIO(data), path, size=size))


def texts(files, data, *, report=None, skip=0, **options):
    if isinstance(files, Parser):
        files = file_parser(files)
    return "".join(files.texts(parts_of(data, **options), report or FileReport(), skip=skip))


def expected(parser, data, *, path="x.conllu", skip=0):
    stream = BytesIO(data)
    stream.name = path
    sentences = read_treebank(stream, format=format_of(path).name)
    return "".join(texts_in_file(parser.stream_trees(sentences, skip=skip), is_start=not skip))


# The same bytes


@pytest.mark.parametrize("name", TREEBANKS)
def test_workers_write_the_same_bytes_as_the_parser(workers, name):
    data = data_of(name)

    assert texts(workers, data, path=name, size=1) == expected(TAGGING, data, path=name)


PARSERS = {"tags": TAGGING, "reads": READING, "refines": REFINING, "maps": MAPPED, "retags": RETAGGING}


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS.keys())
@pytest.mark.parametrize("name", TREEBANKS)
def test_one_process_writes_the_same_bytes_whatever_the_parser_reads(parser, name):
    data = data_of(name)

    assert texts(parser, data, path=name, size=900) == expected(parser, data, path=name)


@for_each(data=conllu_files(), size=st.integers(1, 600), skip=st.integers(0, 5))
def test_the_bytes_are_the_same_for_any_file_part_size_and_first_sentence(data, size, skip):
    assert said(texts, REFINING, data, size=size, skip=skip) == said(expected, REFINING, data, skip=skip)


def said(write, *given, **options):
    """Return the written text, or the error: a generated cell may be a wrong mark."""
    try:
        return write(*given, **options)
    except TreebankError as error:
        return str(error)


@pytest.mark.parametrize(("size", "skip"), [(1, 0), (1, 2), (1, 3), (1 << 18, 1)])
def test_constraints_are_respected_in_files_that_the_engine_parses(size, skip):
    data = (GOOD * 2 + MARK + GOOD * 2).encode()

    found = texts(READING, data, size=size, skip=skip)

    assert found == expected(READING, data, skip=skip)
    assert ("\t2\tobj\t_\tKeep=Arc\n" in found) == (skip < 3)


# Reports


@pytest.mark.parametrize("size", [1, 1 << 18])
@pytest.mark.parametrize("bad", [bytes(range(256)) * 8, GOOD.replace("b", "é").encode("latin-1"), WRONG_HEAD], ids=len)
def test_bad_input_raises_the_readers_error_after_all_text_before_it(bad, size):
    good, bad = GOOD.encode() * 3, bad.replace(b"# sent_id = s1\n", b"")
    with pytest.raises(TreebankError) as ours:
        expected(READING, good + bad)

    found = []
    with pytest.raises(TreebankError) as error:
        found.extend(file_parser(READING).texts(parts_of(good + bad, size=size), FileReport()))

    assert str(error.value) == str(ours.value)
    assert "".join(found) == expected(READING, good)


def test_errors_from_workers_have_all_their_fields(workers):
    data = GOOD.encode() * 3 + GOOD.replace("\t2\tx", "\t9\tx").replace("# sent_id = s1\n", "").encode()

    with pytest.raises(TreebankError) as error:
        texts(workers, data, size=1)

    assert vars(error.value) == {
        "message": "HEAD is 9 but the sentence has 2 words.",
        "hint": "Write a number from 0 to 2, or _ for no head.",
        "path": "x.conllu",
        "line": 13,
        "sent_id": "",
        "sentence": 4,
        "word": "1",
    }


def test_the_first_sentence_without_tags_causes_one_warning_if_the_model_needs_tags():
    blank = [each.with_tags(upos=[BLANK] * len(each), xpos=[BLANK] * len(each)) for each in sample(4)]
    data = "".join(texts_in_file([sample(1)[0], *(replace(each, comments=()) for each in blank)])).encode()
    warnings = []

    texts(READING, data, size=1, report=FileReport(on_warning=warnings.append))
    texts(TAGGING, data, size=1, report=FileReport(on_warning=warnings.append))

    assert [str(each).partition(") ")[2] for each in warnings] == [
        "The sentence has no UPOS, which the model was trained to read. Its tree will be less accurate."
    ]
    assert warnings[0].sentence == 2


# Processes


def test_a_worker_loads_no_torch():
    assert "torch" not in loaded_by("import treefine.fast.file_workers")


def test_a_worker_does_not_import_the_users_script_or_modules_of_the_current_folder(tmp_path):
    (tmp_path / "here").mkdir()
    for name in ("pickle", "signal", "subprocess"):
        (tmp_path / "here" / f"{name}.py").write_text("raise SystemExit('imported')")
    (tmp_path / "script.py").write_text(
        "from tests.slow.fast.test_file_workers import GOOD, READING, file_parser, texts\n"
        "with file_parser(READING, 1) as files:\n"
        "    print(texts(files, GOOD.encode()).count('# sent_id'))\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)])

    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        cwd=tmp_path / "here",
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )

    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_killed_worker_is_a_one_line_error_and_the_others_end():
    with file_parser(READING, 2) as files:
        texts(files, GOOD.encode() * 4, size=1)
        one, other = (worker.process for worker in files.workers)
        one.kill()
        with pytest.raises(TreefineError, match="has ended unexpectedly. Is there enough memory"):
            texts(files, GOOD.encode() * 4, size=1)

    assert one.poll() is not None
    assert other.poll() is not None


@pytest.mark.parametrize(
    "parser",
    [
        READING.using(keep="given"),
        READING.using(initial=from_file("x.conllu")),
        READING.using(initial=input_trees),  # with trust
        READING.using(initial=READING),
    ],
    ids=["decided", "file", "trust", "parser"],
)
def test_a_parser_that_reads_more_than_pieces_and_arcs_has_no_workers(parser):
    assert Scribe.of(parser) is None
    assert FileParser.of(parser, 2, None) is None


# Parser.parse_file


def test_parse_file_writes_the_trees_of_stream_and_keeps_the_old_output_after_an_error(tmp_path, with_engine):
    data = data_of("en_ewt-sample.conllu")
    (tmp_path / "in.conllu").write_bytes(data)

    assert with_engine.parse_file(tmp_path / "in.conllu", tmp_path / "out.conllu") == data.count(b"\n\n")

    assert (tmp_path / "out.conllu").read_text() == expected(with_engine, data)
    (tmp_path / "in.conllu").write_bytes(GOOD.encode() + WRONG_HEAD)
    (tmp_path / "out.conllu").write_text("old")

    with pytest.raises(TreebankError, match="HEAD is 3"):
        with_engine.parse_file(tmp_path / "in.conllu", tmp_path / "out.conllu", workers=1)

    assert (tmp_path / "out.conllu").read_text() == "old"


def test_sentences_that_fit_into_no_buffer_have_the_trees_of_the_parser():
    data = data_of("en_ewt-sample.conllu")

    assert texts(file_parser(READING, rooms=(Room(64, 4, 16),)), data, size=900) == expected(READING, data)


@pytest.mark.filterwarnings("ignore::treefine.errors.LongSentenceWarning")
def test_long_sentences_are_parsed_in_the_same_parts_as_without_workers():
    parser = Parser(tiny_model(), max_steps=2, device="cpu")
    parser._plan = replace(parser._plan, most_words=10)
    data = "".join(each.to_conllu() for each in sample(4)).encode()

    texts = file_parser(parser).texts(parts_of(data, size=2000), FileReport())

    assert "".join(texts) == "".join(each.to_conllu() for each in parser.stream_trees(sample(4)))
