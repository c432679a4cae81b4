"""Texts that the bundled English model must cut right.

Tokens are those of UD English EWT. There, `don't` is one multiword token with the words `do` and `n't`.
"""

import pytest

from treefine import load

# Each sentence is written with a space between its tokens.
TEXTS = {
    "Hong Kong Island was ceded to Britain.": ["Hong Kong Island was ceded to Britain ."],
    # names, titles and abbreviations within a sentence
    "I asked Prof. Miller about it. He agreed.": ["I asked Prof. Miller about it .", "He agreed ."],
    "She works for L'Oréal in Paris.": ["She works for L'Oréal in Paris ."],
    # addresses, numbers and signs that are one token
    "Contact us at sales@example.com or visit our office.": ["Contact us at sales@example.com or visit our office ."],
    "I <3 this place.": ["I <3 this place ."],
    "Our family 👨‍👩‍👧‍👦 is happy.": ["Our family 👨‍👩‍👧‍👦 is happy ."],
    "Great 😀😂😂": ["Great 😀😂😂"],
    "I write C++ and C#, see the Q&A of 2024-05-01.": ["I write C++ and C# , see the Q&A of 2024-05-01 ."],
    "A low-confidence guess.": ["A low - confidence guess ."],
    # a word before a period
    'Then shouted Bob. "What?"': ["Then shouted Bob .", '" What ? "'],
    "I met Dr. Smith. “Nothing,” he said.": ["I met Dr. Smith .", "“ Nothing , ” he said ."],
    "Cats are nice. They purr.": ["Cats are nice .", "They purr ."],
    # chat
    "alice: hey\nbob: hi there\nalice: how are you?": ["alice : hey", "bob : hi there", "alice : how are you ?"],
    # several sentences
    'He said "Stop!" and left.': ['He said " Stop ! " and left .'],
    # line ends
    "Shopping list:\n- milk\n- a loaf of bread": ["Shopping list :", "- milk", "- a loaf of bread"],
    "# Getting started\n\nInstall the package.": ["# Getting started", "Install the package ."],
    "Storm batters coast\nShares fall\nRail strike": ["Storm batters coast", "Shares fall", "Rail strike"],
    "The dog barks.\r\nThe cat sleeps.\r\n": ["The dog barks .", "The cat sleeps ."],
}

# A text that the bundled encoder cuts wrongly, because it learned only from windows of 192 tokens.
WRONG = {
    'I asked Tom. "Home," he said.': ["I asked Tom .", '" Home , " he said .'],
}


@pytest.fixture(scope="module")
def nlp():
    return load("en", device="cpu")


@pytest.mark.parametrize(
    "text", [*TEXTS, *[pytest.param(text, marks=pytest.mark.xfail(strict=True)) for text in WRONG]]
)
def test_a_text_is_cut_into_the_expected_sentences_and_tokens(nlp, text):
    found = [" ".join(token.form for token in each.sentence.tokens()) for each in nlp.segment([text])]

    assert found == (TEXTS | WRONG)[text]


def test_a_contraction_is_a_multiword_token(nlp):
    (found,) = nlp.segment(["I don't know."])

    assert found.sentence.columns[0] == ("1", "2-3", "2", "3", "4", "5")
    assert found.sentence.forms == ("I", "do", "n't", "know", ".")


def test_a_multiword_token_before_the_last_period_is_split(nlp):
    (found,) = nlp.segment(["I cannot."])

    assert found.sentence.forms == ("I", "can", "not", ".")
