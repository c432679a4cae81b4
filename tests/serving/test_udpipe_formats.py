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


MARKUP = """\
1	<a'&"b>	a\u00a0é	X	_	A=1|B=<	3	x<"	_	_
2	_	_	X	_	_	1	dep	_	_
3	w	_	X	_	_	0	root	_	_
4	v	_	X	_	_	_	_	_	_

"""
MATXIN = """\
<corpus>
<SENTENCE ord="1" alloc="0">
 <NODE ord="2" alloc="0" form="ca" lem="_" mi="" si="root">
  <NODE ord="1" alloc="0" form="I" lem="_" mi="" si="nsubj"/>
  <NODE ord="3" alloc="0" form="n't" lem="_" mi="" si="advmod"/>
  <NODE ord="4" alloc="0" form="New York" lem="_" mi="" si="obj"/>
  <NODE ord="5" alloc="0" form="." lem="_" mi="" si="punct"/>
 </NODE>
</SENTENCE>

<SENTENCE ord="2" alloc="0">
 <NODE ord="3" alloc="0" form="w" lem="_" mi="" si="root">
  <NODE ord="1" alloc="0" form="&lt;a'&amp;&quot;b&gt;" lem="a\u00a0é" mi="A=1|B=&lt;" si="x&lt;&quot;">
   <NODE ord="2" alloc="0" form="_" lem="_" mi="" si="dep"/>
  </NODE>
 </NODE>
</SENTENCE>
</corpus>
"""


def test_matxin_output_equals_that_of_udpipe():
    assert written(CONLLU + MARKUP, "conllu", "matxin") == MATXIN


def test_matxin_output_of_no_sentences_and_of_a_deep_tree_is_short_xml():
    chain = "".join(f"{word}\ta\t_\t_\t_\t_\t{word - 1}\tx\t_\t_\n" for word in range(1, 3001)) + "\n"

    assert written("", "conllu", "matxin") == "<corpus>\n</corpus>\n"
    assert len(written(chain, "conllu", "matxin")) < 3000 * 300


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
