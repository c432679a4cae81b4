import bz2
import gzip
import io
import lzma
import tracemalloc

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.data import ud_files
from tests.support.generated import conllu_files, conllu_lines
from treefine import Sentence, TreebankError, read_treebank, write_treebank
from treefine.treebank import conllu
from treefine.treebank.conllu import line_faults
from treefine.treebank.sentence import CONLLU

TWO = "# sent_id = a\n1\tx\t_\t_\t_\t_\t0\troot\t_\t_\n\n# sent_id = b\n1\ty\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


def parsed(lines: list[str]) -> Sentence:
    (sentence,) = read_treebank(io.BytesIO("\n".join([*lines, "", ""]).encode()))
    return sentence


def rewritten(content: bytes) -> bytes:
    return "".join(sentence.to_text() for sentence in read_treebank(io.BytesIO(content))).encode()


@settings(max_examples=300)
@given(conllu_files())
def test_every_valid_file_comes_back_byte_for_byte(content):
    assert rewritten(content) == content


@given(conllu_files(), st.integers(3, 40))
def test_it_does_not_matter_where_the_stream_is_cut(content, chunk):
    whole = list(read_treebank(io.BytesIO(content)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conllu, "_CHUNK", chunk)
        cut = list(read_treebank(io.BytesIO(content)))

    assert cut == whole
    assert [(s.line, s.number) for s in cut] == [(s.line, s.number) for s in whole]


@pytest.mark.parametrize("path", ud_files("*/*.conllu.xz"))
def test_every_treebank_comes_back_byte_for_byte(path):
    content = lzma.open(path).read()

    assert rewritten(content) == content


@pytest.mark.parametrize(
    "name", ["constructs.conllu", "layout.conllu", "en_ewt-sample.conllu", "german.conll09", "penn.conllx"]
)
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2"])
def test_every_fixture_is_written_back_byte_for_byte_whatever_its_packing(data, tmp_path, name, suffix):
    content = (data / name).read_bytes()
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}[suffix]
    unpack = {"": bytes, ".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}[suffix]
    source, target = tmp_path / f"in-{name}{suffix}", tmp_path / f"out-{name}{suffix}"
    source.write_bytes(pack(content))

    write_treebank(read_treebank(source), target)

    assert unpack(target.read_bytes()) == content


@given(conllu_lines(), st.data())
def test_a_sentence_that_is_plainly_in_order_has_no_fault_and_the_others_get_a_close_look(lines, data):
    """The fast check against the slow one, on lines that are damaged in one cell."""
    rows = [line.split("\t") for line in lines]
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, len(rows[row]) - 1))
    rows[row][column] = data.draw(
        st.sampled_from(["", "1", "0", "2", "01", "+1", " 1", "٣", "1-2", "2.1", "_", "99", "#"])
    )
    damaged = ["\t".join(row) for row in rows]
    assume(all(damaged))  # an empty line would end the sentence
    faults = list(line_faults(damaged, 1, CONLLU, TreebankError))

    told = []
    content = "\n".join([*damaged, "", ""]).encode()
    read = list(read_treebank(io.BytesIO(content), on_error="skip", on_skip=told.append))

    assert [(e.line, e.word, e.message) for e in told] == [(e.line, e.word, e.message) for e in faults]
    assert len(read) == (not faults)


def test_sentences_know_their_place():
    first, second = read_treebank(io.BytesIO(("\n" + TWO).encode()))

    assert (first.number, first.line, first.path) == (1, 2, "<stream>")
    assert (second.number, second.line) == (2, 5)
    assert str(second.error("Look.", word=1)) == "<stream>:6: (b, word 1) Look."


def test_skipping_tells_all_faults_and_shifts_no_neighbour(capsys):
    broken = TWO.replace("\ty\t", "\ty\tz\t") + TWO.replace("# sent_id = a", "# sent_id = c")

    sentences = list(read_treebank(io.BytesIO(broken.encode()), on_error="skip"))

    assert [(sentence.sent_id, sentence.number) for sentence in sentences] == [("a", 1), ("c", 3), ("b", 4)]
    assert capsys.readouterr().err == "skipped: <stream>:5: (b) The line has 11 columns, not 10.\n"


def test_a_sentence_that_is_not_utf8_is_skipped_alone():
    told = []
    content = TWO.encode().replace(b"\ty\t", b"\t\xe9\t") + TWO.encode()

    sentences = list(read_treebank(io.BytesIO(content), on_error="skip", on_skip=told.append))

    assert [sentence.number for sentence in sentences] == [1, 3, 4]
    assert [str(error) for error in told] == [
        "<stream>:5: (sentence 2) Byte 0xe9 is not UTF-8. Convert the file to UTF-8."
    ]


def test_a_zero_byte_spoils_its_own_sentence_alone():
    told = []
    content = TWO.encode().replace(b"\ty\t", b"\ty\0\t") + TWO.encode()

    sentences = list(read_treebank(io.BytesIO(content), on_error="skip", on_skip=told.append))

    assert [sentence.number for sentence in sentences] == [1, 3, 4]
    assert [str(error) for error in told] == ["<stream>:5: (sentence 2) There is a zero byte. Remove it."]


def test_comments_alone_are_a_fault_but_no_sentence():
    told = []

    (first, _) = read_treebank(io.BytesIO(f"# alone\n\n{TWO}".encode()), on_error="skip", on_skip=told.append)

    assert (first.sent_id, first.number) == ("a", 1)
    assert len(told) == 1


def written(sentences, target) -> bytes:
    write_treebank(sentences, target)
    return target.read_bytes()


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n"])
def test_sentences_of_several_files_make_one_file_whatever_ended_theirs(tmp_path, end):
    one = "\ufeff\n" + TWO.rstrip("\n") + end
    sentences = [*read_treebank(io.BytesIO(one.encode()))]

    joined = written([*sentences, *sentences], tmp_path / "joined.conllu").decode()
    turned = written(reversed(sentences), tmp_path / "turned.conllu").decode()

    assert joined == one + "\n" * (2 - min(len(end), 2)) + one.removeprefix("\ufeff\n")
    assert [s.sent_id for s in read_treebank(tmp_path / "turned.conllu")] == ["b", "a"]
    assert "\ufeff" not in turned


def test_windows_line_ends_go_on_where_a_file_had_no_last_one(tmp_path):
    whole = TWO.replace("\n", "\r\n")
    for end in ("", "\r\n"):
        crlf = [*read_treebank(io.BytesIO((whole.rstrip() + end).encode()))]

        assert written([*crlf, *crlf], tmp_path / "out.conllu").decode() == whole + whole.rstrip() + end


@pytest.mark.parametrize("before", [b"", TWO.encode()])
def test_a_file_of_blank_lines_is_given_up_before_memory_is(before):
    stream = io.BytesIO(before + b"\n" * 2_000_000 + TWO.encode())

    with pytest.raises(TreebankError, match="There are more than 65,536 blank lines in a row. Is this a treebank?"):
        list(read_treebank(stream))
    assert stream.tell() < 1 << 18


def test_an_unpacked_stream_is_not_unpacked_again(tmp_path):
    packed = tmp_path / "a.conllu.gz"
    packed.write_bytes(gzip.compress(TWO.encode()))

    with gzip.open(packed) as stream:
        assert len(list(read_treebank(stream))) == 2


def test_on_error_takes_raise_or_skip():
    with pytest.raises(ValueError, match="choose 'raise' or 'skip'"):
        next(read_treebank(io.BytesIO(TWO.encode()), on_error="ignore"))


def test_a_file_without_blank_lines_is_given_up_before_memory_is(monkeypatch):
    monkeypatch.setattr(conllu, "_LONGEST", 1 << 17)
    endless = io.BytesIO(b"word after word\n" * 100_000)

    with pytest.raises(TreebankError, match=r"<stream>:1: There is no blank line in the 0 MiB that start here"):
        next(read_treebank(endless))
    assert endless.tell() < 1 << 19


def test_more_than_a_thousand_words_are_one_sentence():
    lines = [f"{word}\tw\t_\t_\t_\t_\t{word - 1}\tdep\t_\t_" for word in range(1, 5001)]

    sentence = parsed(lines)

    assert len(sentence) == 5000
    assert sentence.heads[-1] == 4999


def test_memory_does_not_grow_with_the_file(tmp_path):
    sentence = TWO.encode()
    target = tmp_path / "out.conllu"

    def peak(copies: int) -> int:
        source = tmp_path / "in.conllu"
        source.write_bytes(sentence * copies)
        tracemalloc.start()
        write_treebank(read_treebank(source), target)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert target.read_bytes() == source.read_bytes()
        return used

    assert peak(20_000) < 1.5 * peak(2_000)


def test_progress_hears_every_byte_that_was_read(tmp_path):
    source = tmp_path / "in.conllu.xz"
    source.write_bytes(lzma.compress(TWO.encode() * 1000))
    heard = []

    list(read_treebank(source, on_bytes=heard.append))

    assert sum(heard) == source.stat().st_size
