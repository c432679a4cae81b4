"""UDPipe's formats. The expected output was written by UDPipe itself (ufal.udpipe 1.4), from the same input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_segmenter import texts, tiny_segmenter
from treefine.serving.udpipe_api import (
    OUTPUTS,
    as_new_document,
    checked_format,
    read_sentences,
    with_ranges,
    write_sentences,
)

HORIZONTAL = "The dog barks .\r\nNew York\u00a0City\n\n\tA b \n\n\n  x"
VERTICAL = "The\textra\ndog\n\n\nA b\r\nc\r\n\r\n\tx\n"
CONLLU = """\
# newdoc
# newpar
1	I	_	PRON	PRP	_	2	nsubj	_	_
2-3	can't	_	_	_	_	_	_	_	SpacesAfter=\\s\\n
2	ca	_	AUX	_	_	0	root	_	_
3	n't	_	PART	_	_	2	advmod	_	_
4	New York	_	X	_	_	2	obj	_	SpaceAfter=No
4.1	go	_	X	_	_	_	_	2:x	_
5	.	_	PUNCT	_	_	2	punct	_	SpacesAfter=\\n\\n

"""


def written(data, input, output):
    format, options = checked_format(output, OUTPUTS, "output")
    return write_sentences(read_sentences(data, input), format, options, model="en")


def conllu(*sentences):
    """Return the CoNLL-U of comments and words, without the generator comments."""
    lines = []
    for comments, *words in sentences:
        lines += [f"# {comment}" for comment in comments]
        lines += ["\t".join([str(number), word, *"________"]) for number, word in enumerate(words, start=1)]
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def test_horizontal_input_has_one_sentence_per_line_and_blank_lines_between_paragraphs():
    result = written(HORIZONTAL, "horizontal", "conllu")

    assert result.split("\n", maxsplit=2)[2] == conllu(
        (["newdoc", "newpar", "sent_id = 1"], "The", "dog", "barks", "."),
        (["sent_id = 2"], "New", "York City"),
        (["newpar", "sent_id = 3"], "A", "b"),
        (["newpar", "sent_id = 4"], "x"),
    )


def test_vertical_input_has_one_word_per_line_and_two_blank_lines_between_paragraphs():
    result = written(VERTICAL, "vertical", "conllu")

    assert result.split("\n", maxsplit=2)[2] == conllu(
        (["newdoc", "newpar", "sent_id = 1"], "The", "dog"),
        (["newpar", "sent_id = 2"], "A b", "c"),
        (["sent_id = 3"], "x"),
    )


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("horizontal", "I ca n't New\u00a0York .\nI ca n't New\u00a0York .\n"),
        ("horizontal=paragraphs", "I ca n't New\u00a0York .\n\nI ca n't New\u00a0York .\n"),
        ("vertical", "I\nca\nn't\nNew York\n.\n\nI\nca\nn't\nNew York\n.\n\n"),
        ("vertical=paragraphs", "I\nca\nn't\nNew York\n.\n\n\nI\nca\nn't\nNew York\n.\n\n"),
        ("plaintext", "I can't \nNew York.\n\nI can't \nNew York.\n\n"),
        ("plaintext=normalized_spaces", "I can't New York.\n\nI can't New York.\n"),
        ("plaintext=unknown", "I can't \nNew York.\n\nI can't \nNew York.\n\n"),
    ],
)
def test_output_equals_that_of_udpipe(output, expected):
    assert written(CONLLU * 2, "conllu", output) == expected


def test_the_generator_is_named_once():
    result = written(CONLLU * 2, "conllu", "conllu=v2")

    assert result.startswith("# generator = treefine ")
    assert result.split("\n", maxsplit=2)[1:] == ["# udpipe_model = en", CONLLU * 2]


WORDS = st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\u00a0"), min_size=1).filter(
    lambda word: word.strip(" ") == word
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), max_size=4), st.sampled_from(["horizontal", "vertical"]))
def test_written_words_are_read_back(sentences, format):
    lines = [" ".join(word.replace(" ", "\u00a0") for word in words) for words in sentences]

    read = read_sentences("\ufeff" + "\n".join(lines), "horizontal")
    again = read_sentences(write_sentences(read, format, (), model="en"), format)

    assert [list(each.forms) for each in read] == [list(each.forms) for each in again] == sentences


def test_the_range_of_a_multiword_token_is_in_its_own_line():
    (sentence,) = with_ranges(read_sentences(CONLLU.replace("4.1\tgo\t_\tX\t_\t_\t_\t_\t2:x\t_\n", ""), "conllu"))

    assert dict(zip(sentence.columns[0], sentence.columns[-1], strict=True)) == {
        "1": "TokenRange=0:1",
        "2-3": "SpacesAfter=\\s\\n|TokenRange=2:7",
        "2": "_",
        "3": "_",
        "4": "SpaceAfter=No|TokenRange=9:17",
        "5": "SpacesAfter=\\n\\n|TokenRange=17:18",
    }


@given(texts)
def test_ranges_are_the_offsets_of_every_token_of_any_text(text):
    found = [each.sentence for each in tiny_segmenter().segment(text)]

    for sentence in with_ranges(as_new_document(found)):
        for token in sentence.tokens():
            start, end = map(int, token.misc.rpartition("TokenRange=")[2].split(":"))
            assert text[start:end] == token.form
