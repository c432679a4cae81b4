"""Texts that the bundled English model must cut right.

Tokens are those of UD English EWT. There, `don't` is one multiword token with the words `do` and `n't`.
"""

import pytest

from treefine import load

# Each sentence is written with a space between its tokens.
TEXTS = {
    # names, titles and abbreviations within a sentence
    "Hong Kong Island was ceded to Britain.": ["Hong Kong Island was ceded to Britain ."],
    "I asked Prof. Miller about it. He agreed.": ["I asked Prof. Miller about it .", "He agreed ."],
    "She works for L'Oréal in Paris.": ["She works for L'Oréal in Paris ."],
    # addresses, numbers and signs that are one token
    "Contact us at sales@example.com or visit our office.": ["Contact us at sales@example.com or visit our office ."],
    "I <3 this place.": ["I <3 this place ."],
    "Our family 👨‍👩‍👧‍👦 is happy.": ["Our family 👨‍👩‍👧‍👦 is happy ."],
    # several sentences
    'He said "Stop!" and left.': ['He said " Stop ! " and left .'],
    # line ends
    "Shopping list:\n- milk\n- a loaf of bread": ["Shopping list :", "- milk", "- a loaf of bread"],
    "# Getting started\n\nInstall the package.": ["# Getting started", "Install the package ."],
    "Storm batters coast\nShares fall\nRail strike": ["Storm batters coast", "Shares fall", "Rail strike"],
    "The dog barks.\r\nThe cat sleeps.\r\n": ["The dog barks .", "The cat sleeps ."],
}


@pytest.fixture(scope="module")
def nlp():
    return load("en", device="cpu")


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_cut_into_the_expected_sentences_and_tokens(nlp, text):
    found = [" ".join(token.form for token in each.sentence.tokens()) for each in nlp.segment([text])]

    assert found == TEXTS[text]


def test_a_contraction_is_a_multiword_token(nlp):
    (found,) = nlp.segment(["I don't know."])

    assert found.sentence.columns[0] == ("1", "2-3", "2", "3", "4", "5")
    assert found.sentence.forms == ("I", "do", "n't", "know", ".")
