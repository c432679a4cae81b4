"""A file in stretches, each read apart: the same sentences and the same faults as from the whole file."""

from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.data import DATA
from tests.support.generated import conllu_files
from treefine.errors import EmptyError, TreebankError
from treefine.treebank import conllu
from treefine.treebank.conllu import cut_treebank, read_blocks, read_stretch
from treefine.treebank.formats import format_of
from treefine.treebank.sentence import CONLLU

ROW = b"1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n"
PARTS = [b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"# text", b"\0", b"\xff", b"2\tb\n", ROW, ROW + b"\n", ROW + b"\r\n"]


def whole(data, form=CONLLU):
    stream = BytesIO(data)
    stream.name = "x"
    return found(read_blocks(stream, format=form.name))


def in_stretches(data, size, form=CONLLU):
    return found(each for each in read_all(data, size, form))


def read_all(data, size, form):
    number = 1
    for stretch in cut_treebank(BytesIO(data), "x", size=size):
        for read in read_stretch(stretch, form, "x", number=number):
            yield read
            number = read.number + (read.has_words if isinstance(read, conllu.Unreadable) else 1)


def found(reads):
    """All that is read, faults by their text, and the error that ends it."""
    results = []
    try:
        for read in reads:
            is_fault = isinstance(read, conllu.Unreadable)
            place = (read.line, read.number)
            results.append((place, tuple(map(str, read.faults)) if is_fault else (read, read.layout)))
    except TreebankError as error:
        results.append((type(error), str(error)))
    return results


@given(data=conllu_files(), size=st.integers(1, 600))
def test_the_stretches_of_a_valid_file_hold_its_sentences(data, size):
    assert in_stretches(data, size) == whole(data)
    assert b"".join(each.data for each in cut_treebank(BytesIO(data), "x", size=size)) == data


@given(data=st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join), size=st.integers(1, 80))
@example(data=b"\n\n\xef\xbb\xbf" + ROW, size=1)
@example(data=ROW + b"\n\xef\xbb\xbf" + ROW, size=1)
@example(data=ROW + b"\n\r\n\n" + ROW + b"\n", size=len(ROW) + 1)
def test_the_stretches_of_any_bytes_have_the_faults_of_the_file(data, size):
    assert in_stretches(data, size) == whole(data)


@pytest.mark.parametrize("size", [1, 1000, 1 << 18])
@pytest.mark.parametrize("name", ["constructs.conllu", "layout.conllu", "penn.conllx", "german.conll09"])
def test_the_stretches_of_a_treebank_hold_its_sentences(name, size):
    data, form = (DATA / name).read_bytes(), format_of(name)

    assert in_stretches(data, size, form) == whole(data, form)


def test_stretches_are_about_as_long_as_asked_for():
    data = (DATA / "en_ewt-sample.conllu").read_bytes()

    sizes = [len(each.data) for each in cut_treebank(BytesIO(data), "x", size=5000)]

    assert len(sizes) > 5
    assert max(sizes) < 15_000


@pytest.mark.parametrize("data", [b"", b"\n\r\n", b"\xef\xbb\xbf\n"])
def test_a_file_without_a_sentence_is_refused(data):
    with pytest.raises(EmptyError, match="x: The file holds no sentence"):
        list(cut_treebank(BytesIO(data), "x"))


def test_a_file_without_blank_lines_is_refused_where_the_lines_start(monkeypatch):
    monkeypatch.setattr(conllu, "_LONGEST", 1 << 20)

    with pytest.raises(TreebankError, match="x:3: There is no blank line in the 1 MiB that start here"):
        list(cut_treebank(BytesIO(ROW + b"\n" + ROW * 60_000), "x"))
