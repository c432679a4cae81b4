"""Lemma scripts give back the lemma that they were made from, and any script can be applied to any form."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.tiny import sample
from treefine.treebank.lemmas import SCRIPT_OF_FORM, Lexicon, lemma_of, script_of

printable = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
similar = st.text(st.sampled_from("aAbBiIİßſǅ0129,|=_'"), min_size=1, max_size=6)  # many letters in common
words = printable | similar
scripts = st.text() | st.builds(
    "{}|{}{}|{}{}".format, st.sampled_from("LKTUNX"), st.integers(0, 9), similar, st.integers(0, 9), similar
)


@given(form=words, lemma=words)
@example("İstanbul", "istanbul")  # its lower case is longer
@example("ISTANBUL", "İstanbul")
@example("Straße", "STRASSE")
@example("a|b", "a|bc")
@example("x=", "=x")
@example("1st", "2first")
@example("abc", "ab12")
@example("abc", "7bc")
@example("2,000", "2000")
@example(",", ",")
@example("_", "_")
@example("a_", "_")
def test_a_script_makes_the_lemma_that_it_was_made_from(form, lemma):
    assert lemma_of(form, script_of(form, lemma)) == lemma


def test_words_of_a_treebank_get_back_their_lemmas():
    pairs = [pair for each in sample() for pair in zip(each.forms, each.lemma, strict=True)]

    assert [lemma_of(form, script_of(form, lemma)) for form, lemma in pairs] == [lemma for _, lemma in pairs]


@pytest.mark.parametrize(
    ("form", "lemma", "script"),
    [
        ("Cities", "city", "L|0|3y"),
        ("Paris", "Paris", SCRIPT_OF_FORM),
        ("dog", "dog", "L|0|0"),
        ("paris", "Paris", "T|0|0"),
        ("usa", "USA", "U|0|0"),
        ("2,000", "2000", "N|0|0"),
        ("gelaufen", "laufen", "L|2|0"),
        ("went", "go", "=go"),
        ("abc", "ab12", "=ab12"),  # `L|0|112` would remove 112 letters
        ("a", "the", "=the"),
    ],
)
def test_similar_words_share_a_script(form, lemma, script):
    assert script_of(form, lemma) == script


@given(form=st.text(), script=scripts)
@example("", "L|0|0")
@example("", "=")
@example("a", f"L|{5000 * '9'}|0")
def test_any_script_can_be_applied_to_any_form(form, script):
    lemma = lemma_of(form, script)

    assert lemma or not form


@pytest.mark.parametrize("script", ["L|0|3y", "L|3|0", "L|1|1", "X|0|0", "l|0|0", "", "L|9", "|", "="])
def test_a_script_that_does_not_apply_gives_the_form(script):
    assert lemma_of("Ox", script) == "Ox"


def test_no_script_makes_a_blank_lemma():
    assert lemma_of("a_", "L|1|0") == "a_"
    assert lemma_of(",", "N|0|0") == ","


def lexicon_of(*pairs):
    return Lexicon.of(pair.split("/") for pair in pairs)


def test_the_lexicon_has_the_most_frequent_script_of_each_form():
    lexicon = lexicon_of("saw/see", "saw/saw", "saw/see", "US/US", "us/we")

    assert lemma_of("saw", lexicon.seen("saw")) == "see"
    assert lemma_of("US", lexicon.seen("US")) == "US"
    assert lemma_of("us", lexicon.seen("us")) == "we"


def test_a_form_is_also_found_in_lower_case():
    lexicon = lexicon_of("dogs/dog", "Paris/Paris")

    assert lexicon.seen("DOGS") == lexicon.seen("dogs") == "L|0|1"
    assert lexicon.seen("PARIS") is None
    assert lexicon.seen("cats") is None


def test_an_unknown_form_gets_the_most_frequent_script_that_makes_a_known_lemma():
    lexicon = lexicon_of("cats/cat", "dogs/dog", "foxes/fox", "boxes/box", "boxed/box", "ate/eat")

    assert lexicon.guess("Foxed") == "L|0|2"
    assert lexicon.guess("dogs") == "L|0|1"
    assert lexicon.guess("unknown") is None


@given(pairs=st.lists(st.tuples(similar, similar), max_size=12), form=similar)
def test_a_guess_is_the_first_by_frequency_of_all_scripts_that_make_a_known_lemma(pairs, form):
    lexicon = Lexicon.of(pairs)
    lemmas = {lemma_of(each, script).lower() for each, script in lexicon.scripts.items()}
    counts = Counter(script for script in lexicon.scripts.values() if not script.startswith("="))
    possible = {script for script in counts if lemma_of(form.lower(), script).lower() in lemmas}

    found = lexicon.guess(form)

    assert (found is None) == (not possible)
    assert found is None or (found in possible and counts[found] == max(counts[each] for each in possible))


def test_an_empty_lexicon_knows_nothing():
    assert (Lexicon({}).seen("dog"), Lexicon({}).guess("dog")) == (None, None)
