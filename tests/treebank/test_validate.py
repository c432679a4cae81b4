import io

import pytest

from tests.support.data import DATA
from treefine.treebank.conllu import validate

GOOD = """\
# sent_id = s
# text = a b
1\ta\t_\t_\t_\t_\t2\tx\t_\t_
2\tb\t_\t_\t_\t_\t0\troot\t_\t_
"""


HEADS = "Write a number from 0 to 2, or _ for no head."
A, B = GOOD.splitlines()[2:]
REST = "\t_" * 8  # the other columns of a line


def faults(text: str, form: str = "conllu") -> list[str]:
    return [str(fault) for fault in validate(io.BytesIO((text + "\n").encode()), format=form)]


@pytest.mark.parametrize("path", ["constructs.conllu", "en_ewt-sample.conllu", "penn.conllx", "german.conll09"])
def test_the_fixtures_are_valid(path):
    assert list(validate(DATA / path)) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("2\tb\t_", "2\tb", "4: (s) The line must have 10 columns, not 9."),
        (A, "1 a _", "3: (s) The line must have 10 columns, not 1. Columns are separated by tabs, not by spaces."),
        ("2\tb", "# c\n2\tb", "4: (s) There is a comment between words. Move it before the first word."),
        (
            GOOD,
            "# c\n",
            "1: (sentence 1) There are no words after the comments. Remove the comments, or the blank line",
        ),
        ("2\tb", "1\tb", "4: (s) ID is '1'; 2 is expected."),
        ("2\tb", "3\tb", "4: (s) ID is '3'; 2 is expected."),
        ("1\ta", "x\ta", "3: (s) ID is 'x'; 1 is expected."),
        ("2\tb", f"2-3\tb{REST}\n2\tb", "5: (s) A multiword token ends at word 3, but the last word is 2."),
        ("2\tb", f"1-2\tb{REST}\n2\tb", "4: (s) ID is '1-2'; 2 is expected."),
        ("1\ta", f"1-2\tb{REST}\n1-2\tb{REST}\n1\ta", "4: (s) ID is '1-2'; 1 is expected."),
        ("2\tb", f"1.2\tb{REST}\n2\tb", "4: (s) ID is '1.2'; 1.1 is expected."),
        ("1\ta", f"1-2\ta b\t{REST[2:]}\n1\ta", "3: (s, word 1-2) Column 3 is empty. Write _ for an empty value."),
        ("\t2\tx", "\t3\tx", f"3: (s, word 1) HEAD is 3 but the sentence has 2 words. {HEADS}"),
        ("\t2\tx", "\t-1\tx", f"3: (s, word 1) HEAD is -1 but the sentence has 2 words. {HEADS}"),
        ("\t2\tx", "\t1\tx", "3: (s, word 1) The heads form a cycle: 1 -> 1. Change one of these heads."),
        ("\t2\tx", "\t0\tx", "4: (s, word 2) The sentence has 2 roots: words 1, 2. Only one word may have HEAD 0."),
        ("\t2\tx", "\t_\tx", "3: (s, word 1) HEAD is blank. Fill it in, or parse the file first."),
        ("1\ta\t_", "1\ta\t", "3: (s, word 1) Column 3 is empty. Write _ for an empty value."),
        ("text = a b", "text = a c", "4: (s, word 2) # text has 'c' at character 3, but the form is 'b'."),
        ("text = a b", "text = ab", "3: (s, word 1) # text has no space after 'a', but SpaceAfter=No is missing."),
        ("x\t_\t_", "x\t_\tSpaceAfter=No", "3: (s, word 1) # text has a space after 'a', but MISC says SpaceAfter=No."),
        ("text = a b", "text = a b c", "1: (s) # text continues after the last word: 'c'."),
    ],
)
def test_each_fault_has_its_line_and_message(old, new, fault):
    assert old in GOOD
    (found,) = faults(GOOD.replace(old, new))
    assert found.startswith(f"<stream>:{fault}")


def test_a_bad_line_does_not_hide_faults_in_other_lines():
    bad = GOOD.replace("2\tb\t_", "2\tb").replace("\t2\tx", "\t9\tx").encode() + b"\n"
    worse = bad.replace(b"text = a b", b"text = \xff b").replace(b"2\tb", b"2\t\xfe")

    reported = [(fault.line, fault.message) for fault in validate(io.BytesIO(worse))]

    assert reported == [
        (2, "Byte 0xff is not UTF-8."),
        (4, "Byte 0xfe is not UTF-8."),
        (4, "The line must have 10 columns, not 9."),
        (3, "HEAD is 9 but the sentence has 2 words."),
    ]


def test_all_faults_of_a_file_are_reported_in_order():
    bad = GOOD.replace("\t2\tx", "\t7\tx").replace("2\tb", "5\tb")
    text = bad + "\n" + GOOD + "\n" + GOOD.replace("text = a b", "text = b") + "\n" + bad

    assert faults(text) == [
        "<stream>:4: (s) ID is '5'; 2 is expected.",
        "<stream>:3: (s, word 1) HEAD is 7 but the sentence has 2 words. " + HEADS,
        "<stream>:11: (s) The sentence at line 6 has the same sent_id. Each sent_id must be unique.",
        "<stream>:13: (s, word 1) # text has 'b' at character 1, but the form is 'a'.",
        "<stream>:19: (s) ID is '5'; 2 is expected.",
        "<stream>:18: (s, word 1) HEAD is 7 but the sentence has 2 words. " + HEADS,
    ]


def test_the_older_formats_allow_several_roots_but_no_multiword_tokens():
    words = f"{A}\n{B}\n"

    assert faults(words.replace("\t2\tx", "\t0\tx"), "conllx") == []
    message = "<stream>:1: (sentence 1) ID is '1-2'; 1 is expected. CoNLL-X has no multiword tokens or empty nodes."
    assert faults(f"1-2\tab{REST}\n{words}", "conllx") == [message]


def test_all_lines_of_a_conll09_sentence_must_have_the_same_number_of_columns():
    row = "1\ta" + "\t_" * 6 + "\t0\t0\tr\tr\t_\t_"
    longer, shorter = row.replace("1\ta", "2\ta") + "\t_\n", row.rpartition("\t")[0] + "\n"

    assert faults(f"{row}\n{longer}", "conll09") == ["<stream>:2: (sentence 1) The line must have 14 columns, not 15."]
    assert faults(shorter, "conll09") == ["<stream>:1: (sentence 1) The line must have 14 columns, not 13."]
