"""Edits of a sentence: each changes what it must, renumbers everything that refers to a word, and nothing else."""

import io
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import conllu_files, random_heads
from tests.treebank.test_conllu import parsed
from treefine import Sentence, TreebankError, read_treebank
from treefine.treebank.conllu import CONLLX, convert, text_faults, tree_faults
from treefine.treebank.edits import (
    join_sentences,
    join_words,
    make_multiword,
    remove_multiword,
    set_arc,
    set_cell,
    set_comment,
    set_comments,
    split_into_multiword,
    split_sentence,
    split_word,
)
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import Layout

VAMOS = """\
# newdoc id = sea
# sent_id = sea-1
# text = Vamos al mar.
# text_en = Let us go to the sea.
1 Vamos ir VERB _ Mood=Imp 0 root 0:root _
2-3 al _ _ _ _ _ _ _ _
2 a a ADP _ _ 4 case 4:case _
3 el el DET _ _ 4 det 4:det _
4 mar mar NOUN _ Number=Sing 1 obl 1:obl:a NotHead=2,5|SpaceAfter=No
5 . . PUNCT _ _ 1 punct 1:punct _
"""
ANN = """\
# sent_id = tea
# text = Ann drank tea and Bob coffee.
1 Ann Ann PROPN NNP _ 2 nsubj 2:nsubj _
2 drank drink VERB VBD _ 0 root 0:root _
3 tea tea NOUN NN _ 2 obj 2:obj _
4 and and CCONJ CC _ 5 cc 5.1:cc _
5 Bob Bob PROPN NNP _ 2 conj 5.1:nsubj _
5.1 drank drink VERB VBD _ _ _ 2:conj:and CopyOf=2
6 coffee coffee NOUN NN _ 5 orphan 5.1:obj SpaceAfter=No
7 . . PUNCT . _ 2 punct 2:punct _
"""


def read(text: str) -> Sentence:
    """Read one sentence whose columns are separated by spaces."""
    return parsed([line if line.startswith("#") else line.replace(" ", "\t") for line in text.splitlines()])


def shown(sentence: Sentence) -> str:
    return sentence.to_conllu().replace("\t", " ").rstrip("\n") + "\n"


def arcs(*heads: int | None, labels: str = "") -> Sentence:
    words = [f"w{number}" for number in range(1, len(heads) + 1)]
    names = labels.split() or ["root" if head == 0 else f"l{number}" for number, head in enumerate(heads, start=1)]
    return Sentence.of_words(words).with_arcs(Arcs(heads, tuple(names)))


def faults(sentence: Sentence) -> list[str]:
    return [str(fault) for fault in (*tree_faults(sentence, needs_one_root=True), *text_faults(sentence))]


def assert_readable(*sentences: Sentence) -> None:
    """Check that a file of these sentences has exactly these sentences, and that they have places in it."""
    content = "".join(sentence.to_conllu() for sentence in sentences)
    assert tuple(read_treebank(io.BytesIO(content.encode()), format=sentences[0].format.name)) == sentences


# set_arc


def test_an_arc_changes_head_label_and_deps_of_one_word():
    changed = set_arc(read(VAMOS), 5, 4, "dep")

    assert shown(changed) == VAMOS.replace("1 punct 1:punct", "4 dep 4:dep")


def test_a_new_root_becomes_the_head_of_the_old_one():
    assert set_arc(arcs(0, 1, 2), 3, 0, "head").arcs == Arcs((3, 1, 0), ("dep", "l2", "head"))


@pytest.mark.parametrize(
    ("heads", "word", "head", "result"),
    [
        ((None, 1, 2), 1, 3, (3, None, 2)),
        ((None, None), 2, 0, (None, 0)),
        ((2, 3, 1), 1, 3, (3, 3, 1)),  # in a cycle: the arc is set, and nothing else
        ((2, 1, 0), 1, 0, (0, 1, 1)),
        ((0, 0, 0), 2, 0, (2, 0, 2)),
    ],
)
def test_arcs_can_be_set_in_sentences_that_are_not_trees(heads, word, head, result):
    assert set_arc(arcs(*heads), word, head).heads == result


def test_every_arc_between_four_words_keeps_a_tree_a_tree():
    trees = [heads for heads in product(range(5), repeat=4) if Graph.of_words(heads, "abcd").is_tree]
    assert len(trees) == 64

    for heads, word, head in product(trees, range(1, 5), range(5)):
        if word != head:
            changed = set_arc(arcs(*heads), word, head)
            assert changed.graph.is_tree
            assert changed.heads[word - 1] == head
            assert changed.labels[changed.heads.index(0)] == "root"
            assert changed.labels.count("root") == 1


# set_cell


def test_a_new_form_also_changes_the_text():
    changed = set_cell(read(VAMOS), 4, "form", "cine")

    assert shown(changed) == VAMOS.replace("4 mar mar", "4 cine mar").replace("al mar.", "al cine.")


@pytest.mark.parametrize(("column", "index"), [("lemma", 2), ("deps", 8)])
def test_another_cell_changes_nothing_else(column, index):
    changed = set_cell(read(VAMOS), 3, column, "  X ")

    assert changed.columns[index][3] == "X"
    assert set_cell(changed, 3, column, read(VAMOS).columns[index][3]) == read(VAMOS)
    assert set_cell(changed, 3, column, "").columns[index][3] == "_"


def test_features_are_sorted_without_regard_to_case():
    sentence = set_cell(read(VAMOS), 4, "feats", "Number=Sing|abbr=Yes|Case=Nom,Acc|Number[psor]=Plur")

    assert sentence[3].feats == "abbr=Yes|Case=Nom,Acc|Number=Sing|Number[psor]=Plur"


@pytest.mark.parametrize("feats", ["Sing", "Number=", "A=B C=D", "Case=Nom|Case=Acc"])
def test_invalid_features_are_an_error(feats):
    with pytest.raises(TreebankError, match=r"\(sea-1, word 4\) FEATS cannot be .*Write Name=Value\|Name=Value"):
        set_cell(read(VAMOS), 4, "feats", feats)


# split_word and join_words


def test_a_word_is_split_into_tokens_and_everything_is_renumbered():
    changed = split_word(read(ANN), 5, ["B", "ob"])

    assert shown(changed).splitlines()[:5] == ANN.splitlines()[:5]
    assert shown(changed).splitlines()[5:] == [
        "4 and and CCONJ CC _ 5 cc 6.1:cc _",
        "5 B Bob PROPN NNP _ 2 conj 6.1:nsubj SpaceAfter=No",
        "6 ob _ _ _ _ 5 dep 5:dep _",
        "6.1 drank drink VERB VBD _ _ _ 2:conj:and CopyOf=2",
        "7 coffee coffee NOUN NN _ 5 orphan 6.1:obj SpaceAfter=No",
        "8 . . PUNCT . _ 2 punct 2:punct _",
    ]
    assert faults(changed) == []


def test_marks_are_renumbered_and_the_last_part_takes_the_space():
    changed = split_word(read(VAMOS), 4, ["m", "a", "r"])

    assert [word.misc for word in changed[3:6]] == ["NotHead=2,7|SpaceAfter=No", "SpaceAfter=No", "SpaceAfter=No"]


def test_a_word_of_a_multiword_token_is_split_into_any_forms():
    changed = split_word(read(VAMOS), 3, ["e", "x", "l"])

    assert changed.columns[0] == ("1", "2-5", "2", "3", "4", "5", "6", "7")
    assert changed.forms == ("Vamos", "a", "e", "x", "l", "mar", ".")
    assert (changed.heads, changed.text) == ((0, 6, 6, 3, 3, 1, 1), "Vamos al mar.")


def test_words_are_joined_as_written():
    changed = join_words(read(ANN), 5, 6)

    assert shown(changed).splitlines()[:6] == ANN.splitlines()[:6]
    assert shown(changed).splitlines()[6] == "5 Bob coffee Bob PROPN NNP _ 2 conj 5.1:nsubj SpaceAfter=No"
    assert faults(changed) == []


def test_empty_nodes_between_joined_words_follow_the_new_word():
    changed = join_words(read(ANN.replace("7 . .", "6.1 x x X X _ _ _ 5.1:dep|6:dep CopyOf=6\n7 . .")), 5, 6)

    assert changed.columns[0] == ("1", "2", "3", "4", "5", "5.1", "5.2", "6")
    assert (changed.columns[8][6], changed.columns[9][6]) == ("5:dep|5.1:dep", "CopyOf=5")


def test_the_topmost_word_gives_tags_and_head():
    word = join_words(read(VAMOS), 4, 5)[3]  # "mar" is first

    assert (word.form, word.lemma, word.label, word.misc) == ("mar.", "mar", "obl", "NotHead=2")
    assert join_words(arcs(2, 0, 2, 2), 1, 2).arcs == Arcs((0, 1, 1), ("root", "l3", "l4"))


def test_a_multiword_token_with_one_word_left_disappears():
    changed = join_words(read(VAMOS), 2, 3)

    assert changed.columns[0] == ("1", "2", "3", "4")
    assert (changed[1].form, changed.heads) == ("al", (0, 3, 1, 1))
    assert changed[2].misc == "NotHead=2,4|SpaceAfter=No"


# multiword tokens


def test_a_multiword_token_takes_the_text_and_the_space():
    changed = make_multiword(read(VAMOS), 4, 5)

    assert shown(changed) == VAMOS.replace("4 mar", "4-5 mar. _ _ _ _ _ _ _ _\n4 mar").replace("|SpaceAfter=No", "")


def test_a_word_becomes_a_multiword_token():
    changed = split_into_multiword(read(VAMOS), 4, ["la", "mar"])

    assert shown(changed).splitlines()[8:11] == [
        "4-5 mar _ _ _ _ _ _ _ SpaceAfter=No",
        "4 la mar NOUN _ Number=Sing 1 obl 1:obl:a NotHead=2,6",
        "5 mar _ _ _ _ 4 dep 4:dep _",
    ]


def test_the_words_of_a_removed_multiword_token_are_tokens():
    changed = remove_multiword(read(VAMOS), 3)

    assert (changed.columns[0], changed.text) == (("1", "2", "3", "4", "5"), "Vamos ael mar.")
    assert [word.misc for word in changed[1:3]] == ["SpaceAfter=No", "_"]


def test_notes_about_spaces_move_to_the_token_and_back():
    sentence = Sentence.of_words(["can", "not"]).with_misc([r"SpacesBefore=\n|SpaceAfter=No", r"X=Y|SpacesAfter=\n"])

    changed = make_multiword(sentence, 1, 2)

    assert changed.columns[9] == (r"SpacesBefore=\n|SpacesAfter=\n", "_", "X=Y")
    assert remove_multiword(changed, 1).columns[9] == (r"SpaceAfter=No|SpacesBefore=\n", r"X=Y|SpacesAfter=\n")


# sentences


def test_a_sentence_is_split_with_its_text_arcs_and_empty_nodes():
    first, second = split_sentence(read(ANN), 5)

    before, _, _ = ANN.replace(" Bob coffee.", "", 1).partition("4 and")
    assert shown(first) == before + "4 and and CCONJ CC _ 2 cc _ _\n"
    assert shown(second).splitlines() == [
        "# sent_id = tea-2",
        "# text = Bob coffee.",
        "1 Bob Bob PROPN NNP _ 0 root 1.1:nsubj _",
        "1.1 drank drink VERB VBD _ _ _ _ _",
        "2 coffee coffee NOUN NN _ 1 orphan 1.1:obj SpaceAfter=No",
        "3 . . PUNCT . _ 1 punct 1:punct _",
    ]
    assert_readable(first, second)
    assert faults(first) + faults(second) == []


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_halves_and_the_whole_have_the_line_ends_of_the_file(newline):
    text = "\ufeff" + VAMOS.replace(" ", "\t").replace("#\t", "# ").replace("\n", newline) + newline * 2
    (sentence,) = read_treebank(io.BytesIO(text.encode()))

    first, second = split_sentence(sentence, 2)

    assert first.layout == Layout("\ufeff", newline, newline * 2)
    assert second.layout == Layout("", newline, newline * 3)
    assert_readable(first, second)
    assert join_sentences(first, second).layout == sentence.layout


def test_sentences_are_joined_with_their_texts_comments_and_empty_nodes():
    second = replace(read(ANN), layout=Layout("", "\n", "\n"))
    second = set_comments(second, ["newpar", *second.comments, "text_en = Tea.", "reviewed", "author = A"])

    joined = join_sentences(read(VAMOS), second)

    assert joined.comments == (
        "# newdoc id = sea",
        "# sent_id = sea-1",
        "# text = Vamos al mar. Ann drank tea and Bob coffee.",
        "# text_en = Let us go to the sea.",
        "# reviewed",
        "# author = A",
    )
    assert joined.layout.end == "\n"
    assert shown(joined).splitlines()[6 + 7 : -2] == [
        "7 drank drink VERB VBD _ 1 parataxis 1:parataxis _",
        "8 tea tea NOUN NN _ 7 obj 7:obj _",
        "9 and and CCONJ CC _ 10 cc 10.1:cc _",
        "10 Bob Bob PROPN NNP _ 7 conj 10.1:nsubj _",
        "10.1 drank drink VERB VBD _ _ _ 7:conj:and CopyOf=7",
    ]
    assert faults(joined) == []


# comments


def test_a_comment_is_replaced_in_its_place_added_or_removed():
    sentence = replace(read(VAMOS), comments=("#text =old ", "# a"))

    assert set_comment(sentence, "text", "new").comments == ("#text =new ", "# a")
    assert set_comment(sentence, "sent_id", "1").comments[-1] == "# sent_id = 1"
    assert set_comment(sentence, "text", None).comments == ("# a",)
    assert set_comment(sentence, "a", None) == sentence


def test_a_carriage_return_in_a_comment_of_the_file_stays_and_prevents_no_edit():
    sentence = replace(read(VAMOS), comments=("# a = b\rc", "# sent_id = s"))

    assert set_cell(sentence, 1, "upos", "X").comments == sentence.comments
    assert join_sentences(read(ANN), sentence).comments[-1] == "# a = b\rc"


# errors


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: set_arc(s, 2, 2), r"word 2\) A word cannot be its own head"),
        (lambda s: set_arc(s, 2, 6), r"There is no word 6\. The last word is 5\."),
        (lambda s: set_cell(s, 2, "head", "1"), "There is no column 'head' to edit. Choose one of form, lemma"),
        (lambda s: set_cell(s, 2, "lemma", "a\nb"), r"word 2\) 'a\\nb' contains a tab or line break"),
        (lambda s: split_word(s, 4, ["m", "er"]), "The new forms do not spell 'mar'. To give its words other forms"),
        (lambda s: join_words(s, 3, 4), "Only a part of a multiword token would be joined. Join all its words"),
        (lambda s: join_words(s, 4, 4), "At least two words are needed"),
        (lambda s: make_multiword(s, 3, 4), r"word 3\) The word is already part of the multiword token 2-3"),
        (lambda s: split_into_multiword(s, 2, ["a", "b"]), "already part of the multiword token 2-3. Split the word"),
        (lambda s: remove_multiword(s, 1), r"word 1\) The word is not part of a multiword token"),
        (lambda s: split_sentence(s, 3), "The border would be inside of the multiword token 2-3"),
        (lambda s: split_sentence(s, 1), "cannot start at word 1"),
        (lambda s: set_comment(convert(s, CONLLX), "a", "b"), "Sentences in CoNLL-X cannot be edited. Convert"),
        (lambda s: set_comment(s, "a=b", "c"), "'a=b' cannot be the key of a comment"),
        (lambda s: set_comment(s, "a", "b\nc"), "contains a line break"),
    ],
)
def test_an_impossible_edit_is_an_error_with_its_place(edit, message):
    with pytest.raises(TreebankError, match=message):
        edit(read(VAMOS))


# properties


@st.composite
def consistent(draw) -> Sentence:
    """Draw a tree with multiword tokens, empty nodes, DEPS and marks, whose `# text` agrees with its forms."""
    form = st.text("abc", min_size=1, max_size=3)
    n_words = draw(st.integers(1, 6))
    heads, rows, text, covered = draw(random_heads(n_words)), [], "", 0
    nodes = [f"{word}.1" for word in range(n_words + 1) if draw(st.integers(0, 3)) == 0]
    references = st.sampled_from([*map(str, range(1, n_words + 1)), *nodes])
    for word in range(n_words + 1):
        is_token = word > covered
        if word and is_token and word < n_words and draw(st.integers(0, 3)) == 0:
            covered, spelled = draw(st.integers(word + 1, n_words)), draw(form)
            space = covered < n_words and draw(st.booleans())
            rows.append([f"{word}-{covered}", spelled, *["_"] * 7, "_" if space else "SpaceAfter=No"])
            text, is_token = text + spelled + " " * space, False
        if word:
            spelled, space = draw(form), word < n_words and draw(st.booleans())
            head, label = str(heads[word - 1]), "root" if not heads[word - 1] else draw(st.sampled_from(["obj", "det"]))
            deps = draw(st.sampled_from(["_", f"{head}:{label}", f"{head}:{label}|{draw(references)}:x"]))
            notes = [f"NotHead={draw(references).partition('.')[0]}"] * draw(st.booleans())
            if is_token:
                text += spelled + " " * space
                notes += ["SpaceAfter=No"] * (not space)
            misc = "|".join(notes) or "_"
            rows.append([str(word), spelled, f"lemma{word}", "X", f"tag{word}", "_", head, label, deps, misc])
        if f"{word}.1" in nodes:
            rows.append([f"{word}.1", "e", *["_"] * 6, f"{draw(references)}:y", f"CopyOf={draw(references)}"])
    return parsed([f"# sent_id = {draw(form)}", f"# text = {text}", *map("\t".join, rows)])


@st.composite
def edits(draw, sentence: Sentence) -> tuple[Sentence, ...]:
    """Draw an edit that is possible in the sentence, and return its result; an impossible one changes nothing."""
    n_words, form = len(sentence), st.text("abc", min_size=1, max_size=3)
    word, last = sorted([draw(st.integers(1, n_words)), draw(st.integers(1, n_words))])
    forms = draw(st.lists(form, min_size=2, max_size=3))
    old, head = sentence[word - 1].form, draw(st.integers(0, n_words))
    possible = [
        lambda: set_arc(sentence, word, head),
        lambda: set_cell(sentence, word, "form", forms[0]),
        lambda: split_word(sentence, word, forms),
        lambda: split_word(sentence, word, [old[:1], old[1:]]),
        lambda: join_words(sentence, word, last),
        lambda: make_multiword(sentence, word, last),
        lambda: split_into_multiword(sentence, word, forms),
        lambda: remove_multiword(sentence, word),
        lambda: split_sentence(sentence, last),
        lambda: join_sentences(sentence, sentence),
    ]
    try:
        result = draw(st.sampled_from(possible))()
    except TreebankError:
        return (sentence,)
    return result if isinstance(result, tuple) else (result,)


@given(consistent(), st.data())
def test_after_any_edits_a_valid_sentence_is_valid(sentence, data):
    assert faults(sentence) == []

    for _ in range(3):
        results = data.draw(edits(sentence))
        assert_readable(*results)
        for result in results:
            assert faults(result) == []
            assert_references_exist(result)
        sentence = results[-1]


def assert_references_exist(sentence: Sentence) -> None:
    known = {"0", *[identifier for identifier in sentence.columns[0] if "-" not in identifier]}
    for deps, misc in zip(sentence.columns[8], sentence.columns[9], strict=True):
        assert {entry.partition(":")[0] for entry in deps.split("|") if entry != "_"} <= known
        for note in misc.split("|"):
            name, _, value = note.partition("=")
            assert name not in ("NotHead", "CopyOf") or set(value.split(",")) <= known


@given(conllu_files(), st.data())
def test_after_any_edit_any_readable_sentence_is_readable(content, data):
    *_, sentence = read_treebank(io.BytesIO(content))
    sentence = replace(sentence, layout=sentence.layout._replace(start=""))

    for result in data.draw(edits(sentence)):
        assert_readable(result)
        assert list(tree_faults(result, needs_one_root=True)) == []


@given(consistent(), st.data())
def test_joining_the_parts_of_a_word_gives_back_the_sentence(sentence, data):
    word = data.draw(st.integers(1, len(sentence)))
    form = sentence[word - 1].form
    if len(form) == 1:
        sentence = set_cell(sentence, word, "form", form := "xyz")

    changed = split_word(sentence, word, [form[:1], form[1:]])

    assert_same_up_to_order_of_notes(join_words(changed, word, word + 1), sentence)


def assert_same_up_to_order_of_notes(sentence: Sentence, other: Sentence) -> None:
    assert [sorted(misc.split("|")) for misc in sentence.columns[9]] == [sorted(m.split("|")) for m in other.columns[9]]
    assert replace(sentence, columns=sentence.columns[:9]) == replace(other, columns=other.columns[:9])


@given(consistent(), st.data())
def test_joining_two_halves_gives_back_the_words_and_the_text(sentence, data):
    word = data.draw(st.integers(1, len(sentence)))
    try:
        joined = join_sentences(*split_sentence(sentence, word))
    except TreebankError:
        return

    assert joined.columns[:6] == sentence.columns[:6]
    assert (joined.comments, joined.layout) == (sentence.comments, sentence.layout)


@given(consistent(), st.data())
def test_an_edit_that_changes_nothing_gives_back_the_sentence(sentence, data):
    word = data.draw(st.sampled_from(sentence.words))

    assert set_arc(sentence, word.number, word.head, word.label) == sentence
    assert set_cell(sentence, word.number, "form", word.form) == sentence
    assert set_comments(sentence, sentence.comments) == sentence
    assert set_comment(sentence, "text", sentence.text) == sentence
