"""Checks of one sentence: our own, those of udtools, and both together."""

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.support.generated import conllu_lines
from treefine import Graph, Sentence, read_treebank
from treefine.studio.checks import Checker, Fault
from treefine.treebank.conllu import validate
from treefine.treebank.formats import CONLLX, convert

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


CHECKER = Checker("en")  # for tests with many sentences


def sentence_of(text):
    (sentence,) = read_treebank(io.BytesIO(text.encode()))
    return sentence


def changed(old, new):
    """Return the sentence with one change."""
    assert old in WORDS
    return sentence_of(WORDS.replace(old, new, 1))


def found(sentence, language="en"):
    """Return word, column and the test of udtools (or "ours") of each fault."""
    return [(fault.word, fault.column, fault.name or "ours") for fault in Checker(language).check(sentence)]


@pytest.fixture
def no_udtools(monkeypatch):
    monkeypatch.setitem(sys.modules, "udtools", None)  # the import fails


@pytest.mark.parametrize("language", ["en", "en_ewt", "EN-gb", "", "xx", "ud"])
def test_a_valid_sentence_has_no_faults(language):
    assert Checker(language).check(sentence_of(WORDS)) == []


@pytest.mark.parametrize("language", ["en", ""])
def test_a_cycle_is_reported_once(language):
    (fault,) = Checker(language).check(changed("2\tobj", "3\tobj"))

    message = "The heads form a cycle: 3 -> 4 -> 3."
    assert fault == Fault(3, "head", message, "Change one of these heads.", is_error=True, source="treefine", name="")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("4\tnummod", "3\tnummod", (3, "head", "The heads form a cycle: 3 -> 3.")),
        ("2\tnsubj", "0\troot", (2, "head", "The sentence has 2 roots: words 1, 2.")),
        ("0\troot", "_\troot", (2, "head", "HEAD is blank.")),
    ],
)
def test_heads_that_are_not_a_tree_are_reported_once(old, new, expected):
    (fault,) = Checker("en").check(changed(old, new))

    assert (fault.word, fault.column, fault.message) == expected


def test_a_head_out_of_range_is_a_fault_and_not_an_error():
    columns = list(sentence_of(WORDS).columns)
    columns[6] = ("2", "0", "4", "9", "x")

    faults = Checker("en").check(Sentence((), tuple(columns), range(5)))

    assert [(fault.word, fault.column, fault.message) for fault in faults] == [
        (4, "head", "HEAD is 9 but the sentence has 5 words."),
        (5, "head", "HEAD is 'x', not a number."),
    ]


def test_words_without_an_order_are_a_fault_and_not_an_error():
    columns = list(sentence_of(WORDS).columns)
    columns[0] = ("1", "2", "2", "4", "5")

    faults = Checker("en").check(Sentence((), tuple(columns), range(5)))

    assert [(fault.word, fault.column, fault.message) for fault in faults] == [
        (2, "id", "ID 2 is used twice; 3 is expected."),
        (4, "id", "ID 4 does not fit here; 3 is expected."),
    ]


def test_a_text_that_differs_is_reported_once():
    assert found(changed("two stars.\n", "two star.\n")) == [(4, "text", "ours")]
    assert found(changed("two stars.\n", "two stars .\n")) == [(4, "text", "ours")]
    assert found(changed("SpaceAfter=No", "_")) == [(4, "text", "ours")]
    assert found(changed("stars.\n", "stars. And\n")) == [(None, "text", "ours")]


def test_an_empty_cell_is_reported_once():
    columns = list(sentence_of(WORDS).columns)
    columns[4] = ("", *columns[4][1:])
    columns[7] = (*columns[7][:3], "", "punct")

    faults = Checker("en").check(Sentence((), tuple(columns), range(5)))

    assert [(fault.word, fault.column, fault.source) for fault in faults] == [
        (1, "xpos", "treefine"),
        (4, "label", "treefine"),
    ]


# Findings of udtools


def test_an_unknown_tag_has_the_nearest_one_as_hint():
    (fault,) = Checker("en").check(changed("NOUN", "NOUNS"))

    assert fault == Fault(
        4, "upos", "Unknown UPOS tag: 'NOUNS'.", "Did you mean NOUN?", source="udtools", name="unknown-upos"
    )
    (fault,) = Checker("en").check(changed("NOUN", "_"))
    assert (fault.word, fault.message) == (4, "UPOS is blank.")
    assert fault.hint.startswith("The tags are ADJ, ADP, ADV, AUX, ")


@pytest.mark.parametrize(
    ("label", "message", "hint", "name"),
    [
        ("objj", "Unknown main DEPREL type: 'objj'.", "Did you mean obj?", "unknown-udeprel"),
        ("obj:foo", "Unknown DEPREL label: 'obj:foo'.", "Did you mean obj?", "unknown-deprel"),
        (
            "OBJ",
            "Invalid DEPREL value 'OBJ'. Only lowercase English letters or a colon are expected.",
            "Did you mean obj?",
            "invalid-deprel",
        ),
        ("_", "DEPREL is blank.", "", "invalid-deprel"),
    ],
)
def test_an_unknown_label_is_reported_once(label, message, hint, name):
    (fault,) = Checker("en").check(changed("2\tobj", f"2\t{label}"))

    assert fault == Fault(4, "label", message, hint, source="udtools", name=name)


def test_subtypes_and_features_are_checked_only_if_the_language_is_known():
    sentence = changed("Number=Plur", "Foo=Bar")
    subtype = changed("2\tobj", "2\tobj:foo")

    assert found(sentence) == [(4, "feats", "feature-unknown")]
    assert found(subtype) == [(4, "label", "unknown-deprel")]
    assert found(sentence, "") == found(subtype, "") == []


def test_norwegian_has_one_list_for_both_standards():
    sentence = changed("Number=Plur", "Foo=Bar")

    assert [(4, "feats", "feature-unknown") in found(sentence, code) for code in ("nb", "nn_nynorsk", "no")] == [
        True
    ] * 3


def test_punctuation_with_a_child_is_marked():
    faults = Checker().check(changed("4\tnummod", "5\tnummod"))

    fault = next(fault for fault in faults if fault.name == "leaf-punct")
    assert (fault.word, fault.column, fault.is_error) == (5, "label", True)
    assert fault.message == "'punct' not expected to have children (5:.:punct --> 3:two:nummod)."
    assert fault.hint == "Attach word 3 to another word, or change the label of word 5."


def test_a_warning_is_not_an_error():
    (fault,) = Checker("en").check(changed("Case=Nom|Gender=Fem|Number=Sing|Person=3|PronType=Prs", "_"))

    assert (fault.word, fault.column, fault.is_error, fault.name) == (1, "feats", False, "pron-det-without-prontype")


def test_the_root_label_belongs_to_the_root():
    assert found(changed("2\tobj", "2\troot")) == [(4, "label", "root-is-not-0")]
    assert found(changed("0\troot", "0\tdep")) == [(2, "label", "0-is-not-root")]


def test_other_cells_are_checked_even_if_the_heads_are_not_a_tree():
    assert found(sentence_of(WORDS.replace("NUM\t", "NUMB\t").replace("2\tobj", "3\tobjj"))) == [
        (3, "head", "ours"),
        (3, "upos", "unknown-upos"),
        (4, "label", "unknown-udeprel"),
    ]


def test_malformed_features_do_not_hide_other_faults():
    sentence = sentence_of(WORDS.replace("Number=Plur", "plural").replace("2\tpunct", "4\tcase"))

    names = found(sentence)

    assert (4, "feats", "invalid-feature") in names
    assert (5, "label", "upos-rel-punct") in names
    assert [each for each in names if each[0] == 4] == [(4, "feats", "invalid-feature")]


def test_blank_tags_are_no_fault_if_the_sentence_has_no_tags():
    sentence = sentence_of(WORDS)
    bare = sentence.with_tags(upos=["_"] * 5, feats=["_"] * 5)

    assert found(bare) == []


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


def test_words_are_counted_without_multiword_tokens_and_empty_nodes():
    assert found(sentence_of(ENHANCED)) == []
    assert found(sentence_of(ENHANCED.replace("VERB", "VREB"))) == [(4, "upos", "unknown-upos")]
    assert found(sentence_of(ENHANCED.replace("5\t.\t.\tPUNCT", "5\t.\t.\tSYM"))) == [(5, "label", "rel-upos-punct")]
    assert found(sentence_of(ENHANCED.replace("2-3\tdon't\t_", "2-3\tdon't\tdo"))) == [
        (2, "lemma", "mwt-nonempty-field")
    ]
    (fault,) = Checker("en").check(sentence_of(ENHANCED.replace("ADV", "ADVERB")))
    assert (fault.word, fault.column, fault.message) == (None, "upos", "Empty node 3.1: Unknown UPOS tag: 'ADVERB'.")


def test_enhanced_labels_of_one_sentence_do_not_allow_a_basic_label_in_the_next():
    checker = Checker()
    wrong = changed("2\tobj", "2\tref")
    alone = checker.check(wrong)

    checker.check(sentence_of(ENHANCED))

    assert [fault.name for fault in alone] == ["unknown-udeprel"]
    assert checker.check(wrong) == alone


def test_the_same_sentence_can_be_checked_again_and_without_its_id_and_text():
    checker = Checker("en")
    bare = sentence_of("".join(line for line in WORDS.splitlines(keepends=True) if not line.startswith("#")))

    assert [checker.check(each) for each in (sentence_of(WORDS), sentence_of(WORDS), bare)] == [[], [], []]


def test_metadata_of_files_and_our_marks_are_no_faults():
    text = "# newdoc\n# newdoc id = a\n# newpar\n# sent_id = a/b/c\n# sent_id =\n# parallel_id = x\n"
    text += "# treefine_status = done\n" + WORDS.partition("\n")[2]
    text = text.replace("SpaceAfter=No", "Keep=Arc|SpaceAfter=No").replace("2\tpunct\t_\t_", "2\tpunct\t_\tKeep=Head")
    text = text.replace("0\troot\t_\t_", "0\troot\t_\tNotHead=1,3|NotLabel=obj,iobj")
    text = text.replace("4\tnummod\t_\t_", "4\tnummod\t_\tNotLabel=det |NotHead= 2|NotHead=")

    assert found(sentence_of(text)) == []


def test_nothing_is_printed(capfd):
    for old, new in (("VERB", "X"), ("2\tobj", "4\tobj"), ("SpaceAfter=No", "spaceafter=No"), ("stars", "sta\u0300rs")):
        assert Checker("en").check(changed(old, new))

    assert capfd.readouterr() == ("", "")


def test_threads_do_not_disturb_each_other():
    checkers = [Checker("en"), Checker("")]
    sentences = [changed("4\tnummod", "5\tnummod"), changed("NOUN", "NOUNS"), sentence_of(ENHANCED)] * 10
    pairs = [(checker, sentence) for sentence in sentences for checker in checkers]
    alone = [checker.check(sentence) for checker, sentence in pairs]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda pair: pair[0].check(pair[1]), pairs))

    assert together == alone


# Without udtools, and if it fails


def test_our_checks_work_without_udtools(no_udtools):
    checker = Checker("en")
    checker.warm_up()

    assert checker.check(sentence_of(WORDS)) == []
    assert [fault.source for fault in checker.check(changed("2\tobj", "3\tobjj"))] == ["treefine"]
    assert checker.check(changed("NOUN", "NOUNS")) == []


def test_an_error_inside_udtools_is_no_finding(monkeypatch):
    checker = Checker("en")
    checker.warm_up()

    def fail(*_):
        raise RuntimeError("a bug in udtools")

    monkeypatch.setattr(checker._validator, "check_deprels", fail)

    assert checker.check(sentence_of(WORDS)) == []
    before = checker.check(changed("NOUN", "NOUNS"))
    assert [fault.name for fault in before] == ["unknown-upos"]  # found before the error
    monkeypatch.setattr(checker._validator, "data", None)
    assert checker.check(changed("NOUN", "NOUNS")) == []


def test_importing_and_creating_a_checker_loads_neither_udtools_nor_torch():
    code = (
        "import sys; from treefine.studio.checks import Checker; Checker('en'); "
        "print([name for name in ('udtools', 'udapi', 'torch', 'numpy') if name in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "[]\n"


def test_other_formats_have_only_our_checks():
    sentence = convert(changed("NOUN", "NOUNS"), CONLLX)

    assert Checker("en").check(sentence) == []
    cyclic = sentence.with_graph(Graph.of_words([2, 0, 3, 2, 2], sentence.labels))
    assert [(fault.word, fault.column) for fault in Checker("en").check(cyclic)] == [(3, "head")]


# Any sentence


@settings(deadline=None)
@given(conllu_lines())
def test_any_sentence_can_be_checked_and_our_faults_are_those_of_validate(lines):
    data = "\n".join([*lines, "", ""]).encode()
    sentence = sentence_of(data.decode())

    faults = CHECKER.check(sentence)

    ours = sorted(fault.message for fault in faults if fault.source == "treefine")
    assert ours == sorted({error.message for error in validate(io.BytesIO(data))})
    assert all(fault.word is None or 1 <= fault.word <= len(sentence) for fault in faults)
    assert len(set(faults)) == len(faults)


@pytest.mark.skipif(not EWT.exists(), reason="this machine does not have the treebank")
def test_a_treebank_that_udtools_accepts_has_no_errors_here():
    checker = Checker("en")
    sentences = [each for _, each in zip(range(300), read_treebank(EWT), strict=False)]

    faults = [fault for sentence in sentences for fault in checker.check(sentence)]

    assert not [fault for fault in faults if fault.is_error]
    assert len(faults) < len(sentences)  # warnings about features


@pytest.mark.skipif(not EWT.exists(), reason="this machine does not have the treebank")
def test_the_findings_are_those_of_the_validator_on_the_whole_file(tmp_path):
    """Compare with udtools on a file of sentences with wrong labels and tags."""
    from udtools import Validator

    sentences = [each for _, each in zip(range(60), read_treebank(EWT), strict=False)]
    labels = ["det", "punct", "obl", "case", "fixed", "goeswith", "cop", "nsubj"]
    wrong = []
    for number, sentence in enumerate(sentences):
        changed_labels = list(sentence.labels)
        place = number % len(sentence)
        if sentence.heads[place]:
            changed_labels[place] = labels[number % len(labels)]
        tags = list(sentence.upos)
        tags[-1 - place] = "X"
        arcs = Graph.of_words(sentence.heads, changed_labels)
        wrong.append(sentence.with_graph(arcs).with_tags(upos=tags))
    path = tmp_path / "wrong.conllu"
    path.write_text("".join(each.to_conllu() for each in wrong))
    incidents = Validator(lang="en", output=None).validate_files([str(path)]).error_tracker

    ours = {
        (sentence.sent_id, fault.name, fault.message.rstrip("."))
        for sentence in wrong
        for fault in CHECKER.check(sentence)
    }

    theirs = {(each.sentid, each.testid, " ".join(each.message.split()).rstrip(".")) for each in incidents}
    assert ours == theirs
    assert len(ours) > 100
