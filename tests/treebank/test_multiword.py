import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import UD
from tests.treebank.test_raw_text import sentence
from treefine import read_treebank
from treefine.treebank.multiword import Multiwords, learn_multiwords


def learned(*tokens):
    return learn_multiwords([sentence((token, "_")) for token in tokens])


def multiword(form, *words):
    plain = sentence(("+".join(words), "_"))
    forms = (form, *plain.columns[1][1:])
    return type(plain)(plain.comments, (plain.columns[0], forms, *plain.columns[2:]), plain.word_lines)


def test_a_known_form_is_split_as_most_often_in_the_treebank():
    known = learned("de+l", "d+el", "de+l", "mar")

    assert known.split("del") == ("de", "l")


def test_a_token_with_one_word_is_not_learned_from():
    assert learned("mar", "sol") == Multiwords()


def test_words_need_not_be_pieces_of_their_token():
    known = learn_multiwords([multiword("della", "di", "la"), multiword("nella", "in", "la")])

    assert known.split("della") == ("di", "la")
    assert learn_multiwords([multiword("dell'", "di", "l'")]).split("Dell'") == ("Di", "l'")


@pytest.mark.parametrize(
    ("tokens", "form", "words"),
    [
        (["evde+ki", "okulda+ki", "güzel+dir"], "bahçedeki", ("bahçede", "ki")),  # the longest known ending
        (["evde+ki", "okulda+ki", "güzel+dir"], "iyidir", ("iyi", "dir")),
        (["ב+בית", "ב+ספר", "ל+עבודה", "ב+מכונית"], "בשולחן", ("ב", "שולחן")),  # a beginning, as Hebrew has it
        (["evde+ki"], "okul", ("okul",)),  # like none that is known
        ([], "okul", ("okul",)),
        (["evde+ki"], "ki", ("ki",)),  # no word becomes empty
    ],
)
def test_an_unknown_form_is_split_as_those_like_it(tokens, form, words):
    assert learned(*tokens).split(form) == words


def test_what_stands_before_an_ending_tells_how_it_is_cut():
    known = learn_multiwords([multiword("aain", "aa", "in"), multiword("aakin", "aaki", "n")])

    assert known.split("ooin") == ("oo", "in")
    assert known.split("ookin") == ("ooki", "n")


def test_endings_come_first_where_a_language_cuts_them_off_and_beginnings_where_it_cuts_those_off():
    turkish = learned("ev+im", "güzel+dir", "çok+tur")
    hebrew = learn_multiwords([multiword("בבית", "ב", "ה", "בית"), multiword("לספר", "ל", "ספר")])

    assert turkish.split("evidir") == ("evi", "dir")
    assert hebrew.split("לבית") == ("ל", "בית")


@pytest.mark.parametrize(
    ("form", "words"),
    [("Della", ("Di", "la")), ("DELLA", ("DI", "LA")), ("CanNot", ("Can", "Not")), ("Evdeki", ("Evde", "ki"))],
)
def test_words_have_the_case_of_their_token(form, words):
    known = learn_multiwords(
        [multiword("della", "di", "la"), multiword("cannot", "can", "not"), multiword("odaki", "oda", "ki")]
    )

    assert known.split(form) == words


@given(
    st.lists(st.tuples(st.text("abİßI'", min_size=1, max_size=4), st.text("abıI", min_size=1, max_size=3)), max_size=6),
    st.text(),
)
def test_any_token_has_words_and_none_of_them_is_empty(tokens, form):
    known = learned(*[f"{a}+{b}" for a, b in tokens])

    words = known.split(form)

    assert words == (form,) or (len(words) > 1 and all(words))
    for a, b in tokens:
        assert "".join(known.split(a + b)) == a + b


@pytest.mark.skipif(not UD.exists(), reason="no treebanks beside this checkout")
def test_most_unknown_multiword_tokens_of_turkish_are_split_rightly():
    known = learn_multiwords(read_treebank(UD / "tr_imst" / "train.conllu.xz"))
    right = []

    for each in read_treebank(UD / "tr_imst" / "dev.conllu.xz"):
        for form, numbers, _ in each.tokens():
            if len(numbers) > 1 and form not in known.forms:
                right.append(known.split(form) == tuple(each.forms[number - 1] for number in numbers))

    assert len(right) > 100
    assert sum(right) / len(right) > 0.85


@pytest.mark.parametrize(
    ("form", "words"),
    [("İçindeki", ("İçinde", "ki")), ("İZMİRDEKİ", ("İZMİRDE", "Kİ")), ("IŞIKTAKi", ("IŞIKTA", "Ki"))],
)
def test_the_turkish_capital_i_is_one_letter(form, words):
    known = Multiwords({}, endings={"ki": (2, ("", "ki"))})

    assert known.split(form) == words
