"""Text that is cut into words already, one sentence a line."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine.errors import TreebankError
from treefine.treebank.conllu import read_treebank, read_words, write_treebank


def read(text, name="in.txt"):
    stream = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    stream.name = name
    return list(read_words(stream))


def test_each_line_is_a_sentence_and_spaces_part_its_words():
    first, second = read("A dog barks .\r\n\n  It\tsleeps   now  ")

    assert first.forms == ("A", "dog", "barks", ".")
    assert first.comments == ("# sent_id = 1", "# text = A dog barks .")
    assert second.forms == ("It", "sleeps", "now")
    assert (second.sent_id, second.line, second.number) == ("2", 3, 2)


def test_a_no_break_space_stands_inside_a_word():
    assert read("10\u00a0000 dogs\u3000bark")[0].forms == ("10\u00a0000", "dogs\u3000bark")


def test_a_byte_order_mark_is_no_word():
    assert read("\ufeffA dog")[0].forms == ("A", "dog")


WORDS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters=" "), min_size=1, max_size=4
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_every_word_of_every_line_comes_back_from_the_treebank_written_of_them(tmp_path_factory, lines):
    lines = [[word.lstrip("\ufeff") or "x" for word in line] for line in lines]
    path = tmp_path_factory.mktemp("words") / "out.conllu"

    write_treebank(read("\n".join(map(" ".join, lines))), path)

    assert [list(sentence.forms) for sentence in read_treebank(path)] == lines


def test_a_byte_that_is_no_utf8_is_told_with_its_line():
    with pytest.raises(TreebankError) as error:
        read(b"A dog\ncaf\xe9 open\n")

    assert str(error.value) == "in.txt:2: Byte 0xe9 is not UTF-8. Convert the file to UTF-8."


def test_a_zero_byte_is_told_with_its_line():
    with pytest.raises(TreebankError, match=r"in.txt:2: \(sentence 2\) 'd\\x00g' cannot be a cell of a treebank"):
        read("A dog\nA d\0g\n")


def test_a_file_without_words_is_told():
    for text in ("", "\n \n"):
        with pytest.raises(TreebankError, match="in.txt: The file holds no sentence."):
            read(text)
