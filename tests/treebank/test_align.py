"""Transferring arcs from one file to another over the same text."""

import io
import sys
from dataclasses import replace
from itertools import count, islice, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.generated import file_pairs
from tests.support.oracles import official_script, text_file
from treefine import AlignmentError, Graph, Sentence, read_treebank
from treefine.treebank.align import characters_of, transferred
from treefine.treebank.graph import Arcs


def read(text):
    return list(read_treebank(io.BytesIO(text.encode())))


def sentence(words, heads="", labels=""):
    """Return the sentence on line 1 of a file; words, heads and labels are strings separated by spaces."""
    bare = replace(Sentence.of_words(words.split()), line=1)
    if not heads:
        return bare
    numbers = [int(head) for head in heads.split()]
    return bare.with_graph(Graph.of_words(numbers, labels.split() or ["x"] * len(numbers)))


def arcs(ours, *theirs):
    return list(transferred([sentence(words) for words in ours], theirs))


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        # If all words are the same, all arcs are kept.
        (["Dogs bark loudly"], [("Dogs bark loudly", "2 0 2", "nsubj root advmod")], ["2:nsubj 0:root 2:advmod"]),
        # A word that only one of the files splits gets no arc; the other words keep theirs.
        (["We cannot go"], [("We can not go", "4 4 2 0", "nsubj aux advmod root")], ["3:nsubj _ 0:root"]),
        # If only the other file splits the head, the head is the larger word here. The reverse gives no head.
        (["cannot go"], [("can not go", "3 1 2")], ["_ 1:x"]),
        (["yes do n't"], [("yes don't", "2 0")], ["_ _ _"]),
        # Heads do not cross sentences. Two sentences that are one sentence here keep both roots.
        (["It is .", "Yes ."], [("It is . Yes .", "2 0 2 2 4")], ["2:x 0:x 2:x", "_ 1:x"]),
        (["It is . Yes ."], [("It is .", "2 0 2"), ("Yes .", "0 1")], ["2:x 0:x 2:x 0:x 4:x"]),
        # After a difference, both files continue at the same character.
        (["ab c", "d e"], [("a b", "2 0"), ("c", "0"), ("d e", "0 1")], ["_ 0:x", "0:x 1:x"]),
        # Words without a head in the other file get no head.
        (["a bc"], [("a b c",)], ["_ _"]),
    ],
)
def test_each_word_gets_the_arc_of_the_same_word_in_the_other_file(ours, theirs, wanted):
    found = arcs(ours, *[sentence(*each) for each in theirs])

    assert list(map(shown, found)) == wanted


def shown(found):
    assert all((head is None) == (label == "_") for head, label in zip(*found, strict=True))
    return " ".join("_" if head is None else f"{head}:{label}" for head, label in zip(*found, strict=True))


MULTIWORD = """\
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\t_\t_\t_\t_\t3\tcase\t_\t_
2\tle\t_\t_\t_\t_\t3\tdet\t_\t_
3\tpain\t_\t_\t_\t_\t0\troot\t_\t_

"""


def test_the_words_of_a_multiword_token_are_aligned_by_their_forms():
    cut = MULTIWORD.replace("3\tpain", "3\tpa").replace("root\t_\t_\n", "root\t_\t_\n4\tin\t_\t_\t_\t_\t3\tx\t_\t_\n")

    (found,) = transferred(read(cut), read(MULTIWORD))

    assert found == Arcs((None, None, None, None), ("_",) * 4)  # "pain" is not a word here
    assert next(transferred(read(MULTIWORD), read(cut))) == Arcs((3, 3, None), ("case", "det", "_"))


@given(st.text("()[]{}\"'`“”‘’\\/* -LRB", min_size=1, max_size=12), st.data())
def test_the_characters_of_a_text_do_not_depend_on_word_boundaries(text, data):
    cuts = [0, *sorted(data.draw(st.sets(st.integers(0, len(text))))), len(text)]

    pieces = [text[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]

    assert "".join(map(characters_of, pieces)) == characters_of(text)


def test_the_error_names_the_first_difference_in_both_files():
    ours, theirs = (
        replace(sentence(words), path=name) for name, words in (("in", "do n't go ."), ("p", "don't goes ."))
    )

    with pytest.raises(AlignmentError) as error:
        list(transferred([ours], [theirs], "p"))

    assert str(error.value) == (
        "p:2: (sentence 1, word 2) The text differs from in:4: it is 'es.' here and '.' there. "
        "Both files must have the same characters; spaces and segmentation may differ."
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        (["a b", "c d"], ["ab", "c"], "p: The file ends before 'd' in the input (sentence 1)."),
        (["a b", "c"], ["ab", "c d"], "p:2: (sentence 1, word 2) The file continues with 'd' after the end of the"),
    ],
)
def test_a_file_that_is_too_short_or_too_long_is_an_error(ours, theirs, message):
    with pytest.raises(AlignmentError) as error:
        list(transferred(map(sentence, ours), map(sentence, theirs), "p"))

    assert str(error.value).startswith(message)


def test_endless_streams_are_read_lazily():
    ours = (sentence("a b") for _ in count())
    theirs = (sentence("ab", "0") for _ in count())

    assert list(islice(transferred(ours, theirs), 3)) == [Arcs((None, None), ("_", "_"))] * 3


def official_pairs(ours, theirs):
    """Return the pairs of words that the CoNLL 2018 script aligns, by their numbers in the two files."""
    script, found = official_script(), []

    def watch(frame, event, result):
        if event == "return" and frame.f_code.co_name == "align_words":
            found.extend(result.matched_words)

    files = [script.load_conllu(text_file(text)) for text in (ours, theirs)]
    numbers = [{id(word): number for number, word in enumerate(file.words)} for file in files]
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        script.evaluate(*files)
    finally:
        sys.setprofile(before)
    return [(numbers[0][id(pair.gold_word)], numbers[1][id(pair.system_word)]) for pair in found]


def place(sentences):
    """Return, for each word of a file, its sentence, its number there, and the characters of its token."""
    found, start = [], 0
    for number, each in enumerate(sentences):
        for token in each.tokens():
            end = start + len(token.form)
            found += [(number, word, range(start, end), len(token.words) == 1) for word in token.words]
            start = end
    return found


def slowly(ours, theirs, pairs):
    """Apply the rules of `transferred` word by word to whole files, given the pairs of the same words."""
    our_words, their_words = place(ours), place(theirs)
    result = [[(None, "_")] * len(each) for each in ours]
    for our, their in pairs:
        sentence_number, word, _, _ = our_words[our]
        their_number, their_word, _, _ = their_words[their]
        head, label = (column[their_word - 1] for column in theirs[their_number].arcs)
        if head != 0:
            at = next(i for i, each in enumerate(their_words) if each[:2] == (their_number, head))
            same = [a for a, b in pairs if b == at]
            holding = [
                a for a, (*_, own, is_alone) in enumerate(our_words) if is_alone and {*their_words[at][2]} <= {*own}
            ]
            found = (same or holding or [None])[0]
            is_near = found is not None and found != our and our_words[found][0] == sentence_number
            head = our_words[found][1] if is_near else None
        if head is not None:
            result[sentence_number][word - 1] = (head, label)
    return [Arcs(*map(tuple, zip(*each, strict=True))) for each in result]


@given(file_pairs())
def test_any_two_files_over_one_text_are_aligned_as_the_official_script_does(files):
    ours, theirs = map(read, files)
    for one, other in product(ours, theirs):
        assume(one.forms != other.forms or text_of(one) == text_of(other))

    assert list(transferred(ours, theirs)) == slowly(ours, theirs, official_pairs(*files))


def text_of(each):
    return "".join(token.form for token in each.tokens())


def test_a_multiword_token_of_only_ignored_characters_does_not_stop_the_alignment():
    line = "\t".join("_" * 8)
    backslash = "1-2\t\\\t" + line + "\n1\ta\t_\t_\t_\t_\t3\tx\t_\t_\n2\tb\t_\t_\t_\t_\t3\ty\t_\t_\n"
    theirs = read(backslash + "3\tc\t_\t_\t_\t_\t0\tz\t_\t_\n\n")

    assert list(transferred([sentence("c")], theirs)) == [Arcs((0,), ("z",))]
    assert list(transferred(theirs, [sentence("c", "0", "z")])) == [Arcs((None, None, 0), ("_", "_", "z"))]
