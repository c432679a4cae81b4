"""From file to file through stretches, workers and an engine: every byte is what the parser alone would write."""

from collections import Counter
from dataclasses import replace
from io import BytesIO
from itertools import chain

import pytest
from hypothesis import given as for_each
from hypothesis import settings
from hypothesis import strategies as st

from tests.cli.test_bad_input import BAD, GOOD
from tests.support.data import DATA
from tests.support.generated import conllu_files
from tests.support.tiny import SAMPLE, sample, tiny_biaffine, tiny_model, tiny_parser
from tests.test_package import loaded_by
from treefine.config import TagSettings
from treefine.errors import TreebankError, TreefineError
from treefine.fast.file_workers import FileParser, Told, orders_of
from treefine.fast.scribe import Place, Scribe
from treefine.parsing.initial import from_file, given, renamed
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import Stretch, cut_treebank, read_treebank, texts_in_file, write_treebank
from treefine.treebank.formats import FORMATS, convert, format_of, losses
from treefine.treebank.sentence import BLANK

TREEBANKS = ["en_ewt-sample.conllu", "constructs.conllu", "layout.conllu", "penn.conllx", "german.conll09"]
TAGGING = Parser(tiny_model(tags=TagSettings(source="predicted", columns=("upos", "xpos"))), max_steps=2, device="cpu")
READING = Parser(tiny_model(), max_steps=2, device="cpu")  # of tags that the sentences have
REFINING = READING.using(initial=given, max_steps=2)
MAPPED = READING.using(initial=renamed(given, READING.model.vocabulary.labels, {"det": "punct"}), max_steps=2)
MARK = "1\tGo\t_\tVERB\t_\t_\t2\tobj\t_\tKeep=Arc\n2\tnow\t_\tADV\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture(scope="module")
def workers():
    with FileParser(TAGGING, orders_of(TAGGING), 2) as files:
        yield files


def data_of(name):
    """The first sentences of a treebank."""
    start, gap, _ = (DATA / name).read_bytes()[:8000].rpartition(b"\n\n")
    return start + gap


def texts(files, data, *, told=None, skip=0, path="x.conllu", size=1 << 18, to=None):
    stretches = cut_treebank(BytesIO(data), path, size=size)
    places = (Place(stretch, path, format_of(path).name, to) for stretch in stretches)
    return "".join(files.texts(places, told or Told(), skip=skip))


def texts_here(parser, data, **options):
    return texts(FileParser(parser, orders_of(parser), 0), data, **options)


def expected(parser, data, *, path="x.conllu", skip=0):
    sentences = read_treebank(named(data, path), format=format_of(path).name)
    return "".join(texts_in_file(parser.stream(sentences, skip=skip), is_start=not skip))


def named(data, path):
    stream = BytesIO(data)
    stream.name = path
    return stream


# The same bytes


@pytest.mark.parametrize("size", [1, 1 << 18])
@pytest.mark.parametrize("name", TREEBANKS)
def test_workers_write_a_treebank_as_the_parser_alone_does(workers, name, size):
    data = data_of(name)

    assert texts(workers, data, path=name, size=size) == expected(TAGGING, data, path=name)


@pytest.mark.parametrize("parser", [TAGGING, READING, REFINING, MAPPED], ids=["tags", "reads", "refines", "maps"])
@pytest.mark.parametrize("name", TREEBANKS)
def test_so_does_this_process_alone_whatever_the_parser_reads(parser, name):
    data = data_of(name)

    assert texts_here(parser, data, path=name, size=900) == expected(parser, data, path=name)


@settings(max_examples=30)
@for_each(data=conllu_files(), size=st.integers(1, 600), skip=st.integers(0, 5))
def test_it_does_so_for_any_file_and_any_size_of_stretches_and_from_any_sentence_on(data, size, skip):
    assert said(texts_here, REFINING, data, size=size, skip=skip) == said(expected, REFINING, data, skip=skip)


def said(write, *given, **options):
    """What is written, or why nothing is: a cell may be a mark that is none."""
    try:
        return write(*given, **options)
    except TreebankError as error:
        return str(error)


@pytest.mark.parametrize("skip", [1, 3])
def test_sentences_that_are_there_already_are_left_out_of_a_stretch(skip):
    data = data_of("en_ewt-sample.conllu")

    assert texts_here(READING, data, skip=skip) == expected(READING, data, skip=skip)


def test_labels_of_the_file_are_read_by_the_names_that_were_given_for_them():
    labels = READING.model.vocabulary.labels
    scribe = Scribe(orders_of(MAPPED))
    (stretch,) = cut_treebank(BytesIO(data_of("en_ewt-sample.conllu")), "x")

    packed = scribe.read(0, Place(stretch, "x", "conllu")).packed

    own = [label for each in read_treebank(BytesIO(stretch.data)) for label in each.labels]
    assert "det" in own
    assert [labels[each] for each in packed.labels] == ["punct" if label == "det" else label for label in own]


def test_where_nothing_is_decided_the_marks_of_a_file_are_as_good_as_none():
    data = (GOOD + MARK.replace("Keep=Arc", "Keep=Yes") + GOOD).encode()
    heedless = READING.using(keep="nothing")

    assert texts_here(heedless, data) == expected(heedless, data)


@pytest.mark.parametrize(("size", "skip"), [(1, 0), (1, 2), (1, 3), (1 << 18, 1)])
def test_what_a_person_decided_is_kept_among_stretches_that_an_engine_parses(size, skip):
    data = (GOOD * 2 + MARK + GOOD * 2).encode()

    found = texts_here(READING, data, size=size, skip=skip)

    assert found == expected(READING, data, skip=skip)
    assert ("\t2\tobj\t_\tKeep=Arc\n" in found) == (skip < 3)


def test_an_output_in_another_format_is_that_of_converted_sentences_and_the_losses_are_counted(workers):
    sentences = list(read_treebank(BytesIO(data_of("constructs.conllu"))))
    told = Told()

    found = texts(workers, data_of("constructs.conllu"), to="conllx", size=1, told=told)

    converted = [convert(each, FORMATS["conllx"]) for each in sentences]
    assert found == "".join(texts_in_file(TAGGING.stream(converted)))
    assert told.lost == sum((losses(each, FORMATS["conllx"]) for each in sentences), Counter())
    assert told.lost


@pytest.mark.parametrize("skip", [0, 1])
def test_files_one_after_another_are_joined_as_their_sentences_are(skip):
    first, second = b"\xef\xbb\xbf" + GOOD.encode().rstrip(), b"\n" + GOOD.replace("\n", "\r\n").encode()
    places = (Place(each, "x", "conllu") for data in (first, second) for each in cut_treebank(BytesIO(data), "x"))

    found = "".join(FileParser(READING, orders_of(READING), 0).texts(places, Told(), skip=skip))

    sentences = chain(*(read_treebank(BytesIO(data)) for data in (first, second)))
    assert found == "".join(texts_in_file(READING.stream(sentences, skip=skip), is_start=not skip))


def test_sentences_are_numbered_in_each_file_anew():
    first, second = GOOD.encode(), (GOOD + GOOD.replace("\t2\tx", "\t9\tx")).replace("# sent_id = s1\n", "").encode()
    places = (
        Place(each, "x", "conllu") for data in (first, second) for each in cut_treebank(BytesIO(data), "x", size=1)
    )

    with pytest.raises(TreebankError, match=r"^x:4: \(sentence 2, word 1\) HEAD is 9"):
        list(FileParser(READING, orders_of(READING), 0).texts(places, Told()))


# What is told


@pytest.mark.parametrize("size", [1, 1 << 18])
@pytest.mark.parametrize("name", ["binary.conllu", "latin1.conllu", "nine.conllu", "range.conllu", "twice.conllu"])
def test_bad_input_is_told_as_the_reader_tells_it_after_all_that_comes_before_it(name, size):
    good, bad = GOOD.encode() * 3, BAD[name][0].replace(b"# sent_id = s1\n", b"")
    with pytest.raises(TreebankError) as ours:
        expected(READING, good + bad)

    found = []
    stretches = cut_treebank(BytesIO(good + bad), "x.conllu", size=size)
    places = (Place(each, "x.conllu", "conllu") for each in stretches)
    with pytest.raises(TreebankError) as error:
        found.extend(FileParser(READING, orders_of(READING), 0).texts(places, Told()))

    assert str(error.value) == str(ours.value)
    assert "".join(found) == expected(READING, good)


def test_a_file_that_breaks_off_is_told_after_all_that_comes_before():
    fault = TreebankError("The compressed file ends too early.")

    def places():
        yield from (Place(each, "x", "conllu") for each in cut_treebank(BytesIO(GOOD.encode() * 3), "x", size=1))
        raise fault

    found = []
    with pytest.raises(TreebankError) as error:
        found.extend(FileParser(READING, orders_of(READING), 0).texts(places(), Told()))

    assert error.value is fault
    assert "".join(found) == expected(READING, GOOD.encode() * 3)


def test_workers_tell_of_faults_with_all_their_fields(workers):
    data = GOOD.encode() * 3 + GOOD.replace("\t2\tx", "\t9\tx").replace("# sent_id = s1\n", "").encode()

    with pytest.raises(TreebankError) as error:
        texts(workers, data, size=1)

    assert vars(error.value) == {
        "message": "HEAD is 9 but the sentence has 2 words.",
        "hint": "Write a number from 0 to 2, or _ for none.",
        "path": "x.conllu",
        "line": 13,
        "sent_id": "",
        "sentence": 4,
        "word": "1",
    }


def test_a_mark_that_is_none_is_told_with_its_place():
    data = (GOOD + MARK.replace("Keep=Arc", "Keep=Yes")).encode()

    with pytest.raises(TreebankError, match=r"^x.conllu:5: \(sentence 2, word 1\) Keep=Yes is no mark\."):
        texts_here(READING, data, size=1)


def test_a_mark_that_the_format_of_the_output_has_no_place_for_is_not_read():
    data = (GOOD + MARK.replace("Keep=Arc", "Keep=Yes")).encode()

    assert texts_here(READING, data, size=1, to="conllx").count("\n\n") == 2


def test_the_first_sentence_without_tags_is_told_once_where_the_model_needs_them():
    blank = [each.with_tags(upos=[BLANK] * len(each), xpos=[BLANK] * len(each)) for each in sample(4)]
    data = "".join(texts_in_file([sample(1)[0], *(replace(each, comments=()) for each in blank)])).encode()
    warnings = []

    texts_here(READING, data, size=1, told=Told(on_warning=warnings.append))
    texts_here(TAGGING, data, size=1, told=Told(on_warning=warnings.append))

    assert [str(each).partition(") ")[2] for each in warnings] == [
        "There is no UPOS here, which the model was trained to read. Trees will be worse than they could be."
    ]
    assert warnings[0].sentence == 2


def test_it_is_told_how_many_sentences_are_written():
    counts = []

    texts_here(READING, GOOD.encode() * 5, size=1, skip=2, told=Told(on_sentences=counts.append))

    assert sum(counts) == 3


# Who reads and writes


def test_a_worker_loads_no_torch():
    assert "torch" not in loaded_by("import treefine.fast.worker")


def test_stretches_are_dealt_to_all_workers(workers):
    place = Place(Stretch(GOOD.encode(), 1), "x", "conllu")

    assert len({workers._pool.hand_for(place) for _ in range(2)}) == 2


def test_a_short_file_starts_no_process(monkeypatch):
    monkeypatch.setattr("treefine.fast.pool.subprocess.Popen", None)
    monkeypatch.setattr("treefine.fast.file_workers.default_workers", lambda: 2)
    files = FileParser(READING, orders_of(READING))

    assert texts(files, GOOD.encode()) == expected(READING, GOOD.encode())
    with pytest.raises(TypeError):  # that is, a long one would
        texts(files, GOOD.encode() * 20_000)


def test_a_worker_that_is_killed_is_told_in_one_line_and_the_others_end():
    with FileParser(READING, orders_of(READING), 2) as files:
        texts(files, GOOD.encode() * 4, size=1)
        one, other = (worker._process for worker in files._pool._workers)
        one.kill()
        with pytest.raises(TreefineError, match="has ended. Is there enough memory"):
            texts(files, GOOD.encode() * 4, size=1)

    assert one.poll() is not None
    assert other.poll() is not None


def test_a_worker_ends_when_nobody_can_ask_it_any_more():
    with FileParser(READING, orders_of(READING), 1) as files:
        texts(files, GOOD.encode())
        process = files._pool._workers[0]._process

        process.stdin.close()

        assert process.wait(timeout=20) == 0


@pytest.mark.parametrize(
    "parser",
    [
        Parser(tiny_biaffine(), device="cpu"),
        READING.using(keep="given"),
        READING.using(initial=from_file("x.conllu")),
        READING.using(initial=READING),
    ],
    ids=["words", "decided", "file", "parser"],
)
def test_a_parser_whose_sentences_are_not_pieces_and_arcs_alone_has_no_orders(parser):
    assert orders_of(parser) is None
    assert FileParser.of(parser, 2) is None


# The parser's own method


@pytest.mark.parametrize("workers", [None, 1])
def test_parse_file_writes_what_stream_gives_and_counts_it(tmp_path, data, workers):
    (tmp_path / "in.conllu").write_bytes(data_of("en_ewt-sample.conllu"))

    count = READING.parse_file(tmp_path / "in.conllu", tmp_path / "out.conllu.gz", workers=workers)

    write_treebank(READING.stream(read_treebank(tmp_path / "in.conllu")), tmp_path / "other.conllu.gz")
    assert (tmp_path / "out.conllu.gz").read_bytes() == (tmp_path / "other.conllu.gz").read_bytes()
    assert count == len(list(read_treebank(tmp_path / "in.conllu")))


def test_after_an_error_parse_file_leaves_the_old_output(tmp_path):
    (tmp_path / "in.conllu").write_bytes(GOOD.encode() + BAD["nine.conllu"][0])
    (tmp_path / "out.conllu").write_text("old")

    with pytest.raises(TreebankError, match="9 columns"):
        READING.parse_file(tmp_path / "in.conllu", tmp_path / "out.conllu", workers=1)

    assert (tmp_path / "out.conllu").read_text() == "old"


def test_a_number_of_workers_below_none_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TreefineError, match="workers is -1. Give 0 or more"):
        tiny_parser().parse_file(SAMPLE, tmp_path / "out.conllu", workers=-1)

    assert not list(tmp_path.iterdir())
