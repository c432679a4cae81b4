"""Lemma scripts give back the lemma that they were made from, and any script can be applied to any form."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treefine.treebank.lemmas import SCRIPT_OF_FORM, learned_rules, lemma_of, script_by_rule, script_of

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
@example("1st", "2first")
@example("abc", "ab12")
@example(",", ",")
@example("_", "_")
def test_a_script_makes_the_lemma_that_it_was_made_from(form, lemma):
    assert lemma_of(form, script_of(form, lemma)) == lemma


@pytest.mark.parametrize(
    ("form", "lemma", "script"),
    [
        ("Cities", "city", "L|0|3y"),
        ("Paris", "Paris", SCRIPT_OF_FORM),
        ("paris", "Paris", "T|0|0"),
        ("2,000", "2000", "N|0|0"),
        ("went", "go", "=go"),
        ("abc", "ab12", "=ab12"),  # `L|0|112` would remove 112 letters
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


def rules_of(counted):
    return dict(line.rsplit("\t", 1) for line in learned_rules(counted))


def test_an_unknown_form_is_decided_by_its_longest_known_ending_in_the_same_case():
    known = {"boxes": "box", "foxes": "fox", "shoes": "shoe", "canoes": "canoe"}
    rules = rules_of(Counter((form, "NNS", script_of(form, lemma)) for form, lemma in known.items()))

    assert lemma_of("taxes", script_by_rule(rules, "taxes", "NNS")) == "tax"
    assert lemma_of("oboes", script_by_rule(rules, "oboes", "NNS")) == "oboe"
    for form, tag in (("Taxes", "NNS"), ("taxes", "VBZ"), ("is", "NNS")):
        assert script_by_rule(rules, form, tag) is None
    assert lemma_of("ox", "L|0|3y") == "ox"  # the script does not apply


@pytest.mark.parametrize(("endings", "script"), [(("3axes", "2xes"), "L|0|1"), (("3xes", "2axes"), "L|0|2")])
def test_the_lemma_of_a_capitalised_form_is_decided_by_the_longer_of_both_endings(endings, script):
    rules = {f"NNS\t{ending}": rule for ending, rule in zip(endings, ("L|0|1", "L|0|2"), strict=True)}

    assert script_by_rule(rules, "Taxes", "NNS") == script


words = st.tuples(similar, st.sampled_from(["A", "B"]), st.sampled_from(["L|0|0", "L|0|1", "K|0|0", "=be"]))


@given(words=st.lists(words, max_size=12))
def test_each_form_of_a_treebank_gets_its_most_frequent_script_though_most_rules_are_left_out(words):
    counted = Counter(words)

    rules = rules_of(counted)

    for form, tag, _ in counted:
        own = {script: number for (other, same, script), number in counted.items() if (other, same) == (form, tag)}
        assert own[script_by_rule(rules, form, tag)] == max(own.values())
