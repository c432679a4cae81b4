"""Checks of one sentence: our own, those of udtools, and both together."""

import io
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.support.generated import conllu_lines
from treefine import Graph, read_treebank
from treefine.studio.checks import check, validator_of
from treefine.treebank.conllu import validate

EWT = Path("/work/shared/treebanks/permissive/en_ewt/dev.conllu.xz")
WORDS = """\
# sent_id = s1
# text = She saw two stars.
1\tShe\tshe\tPRON\tPRP\tCase=Nom|Gender=Fem|Number=Sing|Person=3|PronType=Prs\t2\tnsubj\t_\t_
2\tsaw\tsee\tVERB\tVBD\tMood=Ind|Number=Sing|Person=3|Tense=Past|VerbForm=Fin\t0\troot\t_\t_
3\ttwo\ttwo\tNUM\tCD\tNumForm=Word|NumType=Card\t4\tnummod\t_\t_
4\tstars\tstar\tNOUN\tNNS\tNumber=Plur\t2\tobj\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


def sentence_of(text):
    (sentence,) = read_treebank(io.BytesIO(text.encode()))
    return sentence


def changed(*pairs, text=None):
    """Return the sentence with some changes."""
    text = text or WORDS
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return sentence_of(text)


def faults_of(sentence, language="en"):
    """Return the word and the test of each fault."""
    return [(fault.word, fault.name) for fault in check(sentence, language)]


ENHANCED = """\
# text = Dogs don't run.
1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t4\tnsubj\t4:nsubj\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\tMood=Ind|Number=Plur|Person=3|Tense=Pres|VerbForm=Fin\t4\taux\t4:aux\t_
3\tn't\tnot\tPART\tRB\tPolarity=Neg\t4\tadvmod\t4:advmod\t_
3.1\tever\tever\tADV\tRB\t_\t_\t_\t4:advmod\t_
4\trun\trun\tVERB\tVB\tVerbForm=Inf\t0\troot\t0:root\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t4:punct\t_

"""


FAULTS = [  # the text, changes, and word and test of the faults then; our own have no name
    (WORDS, [("4\tnummod", "3\tnummod")], [(3, "")]),
    (WORDS, [("two stars.\n", "two star.\n")], [(4, "")]),
    (WORDS, [("stars.\n", "stars. And\n")], [(None, "")]),
    (WORDS, [("Number=Plur", "Foo=Bar")], [(4, "feature-unknown")]),
    (WORDS, [("2\tobj", "2\tobj:foo")], [(4, "unknown-deprel")]),
    (
        WORDS,
        [("NUM\t", "NUMB\t"), ("2\tobj", "3\tobjj")],
        [(3, "")],  # udtools checks valid trees only
    ),
    (WORDS, [("Number=Plur", "plural"), ("2\tpunct", "4\tcase")], [(4, "invalid-feature")]),
    # Words are counted without multiword tokens and empty nodes.
    (ENHANCED, [("VERB", "VREB")], [(4, "unknown-upos"), (4, "feature-upos-not-permitted")]),
    (ENHANCED, [("2-3\tdon't\t_", "2-3\tdon't\tdo")], [(2, "mwt-nonempty-field")]),
    (ENHANCED, [("ADV", "ADVERB")], [(None, "unknown-upos")]),  # an empty node
]


@pytest.mark.parametrize("language", ["en_ewt", "EN-gb", "", "xx"])
def test_a_valid_sentence_has_no_faults(language):
    assert check(sentence_of(WORDS), language) == []
    assert check(sentence_of(ENHANCED), language) == []


@pytest.mark.parametrize(("text", "changes", "faults"), FAULTS)
def test_a_fault_is_reported_at_its_word(text, changes, faults):
    assert faults_of(changed(*changes, text=text)) == faults


def test_subtypes_and_features_are_checked_only_if_the_language_is_known():
    assert faults_of(changed(("Number=Plur", "Foo=Bar"), ("2\tobj", "2\tobj:foo")), "") == []


def test_enhanced_labels_of_one_sentence_do_not_allow_a_basic_label_in_the_next():
    wrong = changed(("2\tobj", "2\tref"))
    alone = check(wrong)

    check(sentence_of(ENHANCED))

    assert [fault.name for fault in alone] == ["unknown-udeprel"]
    assert check(wrong) == alone


def test_metadata_of_files_and_our_marks_are_no_faults():
    text = "# newdoc\n# newdoc id = a\n# newpar\n# sent_id = a/b/c\n# sent_id =\n# parallel_id = x\n"
    text += "# treefine_status = done\n" + WORDS.partition("\n")[2]
    text = text.replace("SpaceAfter=No", "Keep=Arc|SpaceAfter=No").replace("2\tpunct\t_\t_", "2\tpunct\t_\tKeep=Head")
    text = text.replace("0\troot\t_\t_", "0\troot\t_\tNotHead=1,3|NotLabel=obj,iobj")
    text = text.replace("4\tnummod\t_\t_", "4\tnummod\t_\tNotLabel=det |NotHead= 2|NotHead=")

    assert faults_of(sentence_of(text)) == []


def test_an_error_inside_udtools_is_no_finding(monkeypatch):
    validator, wrong = validator_of("en"), changed(("NOUN", "NOUNS"))

    monkeypatch.setattr(validator, "check_deprels", lambda *_: 1 / 0)
    assert faults_of(sentence_of(WORDS)) == []
    assert faults_of(wrong) == [(4, "unknown-upos")]  # found before the error
    monkeypatch.setattr(validator, "data", None)
    assert faults_of(wrong) == []


# Any sentence


@settings(deadline=None)
@given(conllu_lines())
def test_any_sentence_can_be_checked_and_our_faults_are_those_of_validate(lines):
    data = "\n".join([*lines, "", ""]).encode()
    sentence = sentence_of(data.decode())

    faults = check(sentence, "en")

    ours = sorted(fault.message for fault in faults if fault.source == "treefine")
    assert ours == sorted({error.message for error in validate(io.BytesIO(data))})
    assert all(fault.word is None or 1 <= fault.word <= len(sentence) for fault in faults)
    assert len(set(faults)) == len(faults)


@pytest.mark.skipif(not EWT.exists(), reason="this machine does not have the treebank")
def test_the_findings_are_those_of_the_validator_on_the_whole_file(tmp_path):
    """Compare with udtools on a file of sentences with wrong labels and tags."""
    from udtools import Validator

    other_labels = ["det", "punct", "obl", "case", "fixed", "goeswith", "cop", "nsubj"]
    wrong = []
    for number, sentence in enumerate(islice(read_treebank(EWT), 60)):
        labels, tags, place = list(sentence.labels), list(sentence.upos), number % len(sentence)
        if sentence.heads[place]:
            labels[place] = other_labels[number % len(other_labels)]
        tags[-1 - place] = "X"
        wrong.append(sentence.with_graph(Graph.of_words(sentence.heads, labels)).with_tags(upos=tags))
    path = tmp_path / "wrong.conllu"
    path.write_text("".join(each.to_conllu() for each in wrong))
    incidents = Validator(lang="en", output=None).validate_files([str(path)]).error_tracker

    ours = {(each.sent_id, fault.name, fault.message.rstrip(".")) for each in wrong for fault in check(each, "en")}

    theirs = {(each.sentid, each.testid, " ".join(each.message.split()).rstrip(".")) for each in incidents}
    assert ours == theirs
    assert len(ours) > 100
