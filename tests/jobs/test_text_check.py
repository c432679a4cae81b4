"""Warnings about text with one sentence per line, and about text in another language."""

import json
import shutil
import textwrap

import numpy as np
import pytest

from tests.segmenter.test_language import SENTENCES
from tests.support.commands import invoke
from treefine.jobs.inputs import TextCheck
from treefine.model.bundled import ABOUT
from treefine.segmenter.cut import Scored, cuts_of, sentences_of
from treefine.segmenter.language import LanguageCheck
from treefine.segmenter.network import WITHIN
from treefine.treebank.raw_text import Multiwords

ADVICE = "f.txt: The text looks like one sentence per line. If it is, use --from lines."
PROSE = "The dog barked at the man who came to the door. Nobody knew him, so we waited. Then he left us alone again. "


def found(text):
    """Segment a text with a network that ends a sentence at each full stop and nowhere else."""
    score = np.array([4.0 if each in ".?" else -4.0 for each in text], dtype=np.float32)
    return sentences_of(cuts_of([Scored(text, np.full(len(text), WITHIN, np.int8), score)]), Multiwords())


def warnings(*texts, languages=(), is_lines=False):
    seen = []
    check = TextCheck(LanguageCheck(languages), lambda warning: seen.append(str(warning)))
    for text in texts:
        check([each.sentence for each in found(text)], "f.txt", "lines" if is_lines else "text")
    return seen


LISTS = {
    "headlines": "Storm batters coast\nMinister calls early election\nShares fall after weak data\n" * 4,
    "sentences": "The dog barks.\nThe cat does not answer it.\n" * 6,
    "chat": "hey are you there\nyeah whats up\nwanna grab lunch\n" * 4,
    "more lines than are counted": "Shares fall after weak data\n" * 400,
}
OTHERS = {
    "two lines": "Storm batters coast\nShares fall",
    "wrapped prose": "\n\n".join([textwrap.fill(PROSE * 3, 60)] * 3),
    "one paragraph per line": f"{PROSE}\n" * 20,
    "verse": "In the forests of the night,\nWhat immortal hand or eye,\nCould frame it?\nIn what distant skies\n" * 4,
    "no line end": PROSE * 20,
}


@pytest.mark.parametrize("name", [*LISTS, *OTHERS])
def test_only_a_text_with_one_sentence_per_line_is_reported(name):
    assert warnings((LISTS | OTHERS)[name]) == [ADVICE] * (name in LISTS)


def test_each_warning_comes_once_for_all_inputs():
    assert warnings(*[LISTS["headlines"]] * 2) == [ADVICE]
    assert len(warnings(*[SENTENCES["de"] * 2] * 2, languages=["English"])) == 1


def test_text_that_is_read_by_lines_is_checked_only_for_its_language():
    assert warnings(LISTS["headlines"], is_lines=True) == []
    assert warnings(SENTENCES["de"] * 2, languages=["English"], is_lines=True) == [
        "f.txt: The text looks German, but the model is for English; trees will be poor."
    ]


def test_the_command_prints_one_warning_for_all_inputs(text_model, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(text_model, model)
    about = {"language": "English", "treebank": "none", "licence": "none", "encoder": "none"}
    (model / ABOUT).write_text(json.dumps(about))
    arguments = ["parse", "--model", model, "Привет, как дела?", "Хорошо, а у тебя?"]

    warning = "treefine: warning: The text is in Cyrillic script, but the model is for English; trees will be poor.\n"
    assert invoke(*arguments).stderr == warning
    assert invoke(*arguments, "--quiet").stderr == ""
    assert invoke(*arguments, "--model", text_model).stderr == ""  # its language is not known
