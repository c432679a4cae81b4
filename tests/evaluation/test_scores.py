"""Scores: the alignment of two files, the rules, and the scores of labels."""

import io
import random
import shutil
import subprocess
import sys
import unicodedata
from itertools import compress

import pytest

from tests.support.oracles import corrupt, counts_of
from treefine import AlignmentError, Graph, Sentence, TreefineError, evaluate, read_treebank
from treefine.evaluation import pairing
from treefine.evaluation.pairing import stretches
from treefine.evaluation.scores import (
    Score,
    all_marks,
    all_scores,
    evaluate_stretches,
    head_confusions,
    label_confusions,
    load_pair,
    scores_by_label,
)
from treefine.evaluation.significance import sentence_counts
from treefine.treebank.align import same_words
from treefine.treebank.conllu import CONLLX, convert

# Alignment, also of tiny and empty files


ONE = Sentence.of_words(["a"]).with_graph(Graph.of_words([0], ["root"]))
TWO = Sentence.of_words(["a", "b"]).with_graph(Graph.of_words([2, 0], ["x", "root"]))


def test_the_fast_path_for_equal_segmentation_equals_the_slow_path(data):
    for name in ("constructs.conllu", "en_ewt-sample.conllu"):
        pair = load_pair(data / name, data / name)

        assert [*same_words(pair.gold, pair.system)] == [*enumerate(pair.system_of)]


def test_empty_files_have_zero_scores():
    assert set(evaluate([], []).values()) == {Score(0, 0, 0, 0), Score(0, 0, 0)}
    assert evaluate([], [])["LAS"].f1 == evaluate([], [])["LAS"].aligned_accuracy == 0


@pytest.mark.parametrize(
    ("gold", "system", "message"),
    [
        ([ONE], [], "The file ends before 'a' in the gold treebank (sentence 1)."),
        ([TWO], [ONE], "The file ends before 'b' in the gold treebank (sentence 1)."),
        ([], [ONE], "(sentence 1, word 1) The file continues with 'a' after the end of the gold treebank."),
        ([ONE], [TWO], "(sentence 1, word 2) The file continues with 'b' after the end of the gold treebank."),
    ],
)
def test_more_text_on_one_side_is_an_error(gold, system, message):
    with pytest.raises(AlignmentError) as error:
        load_pair(gold, system)

    hint = "Both files must have the same characters; spaces and segmentation may differ."
    assert str(error.value) == f"{message} {hint}"


# The rules of the CoNLL-X, Penn and CoNLL-2009 scorers, compared with NLTK, Perl and manual counts


def with_noise(sentences, seed):
    """Return the sentences with some heads and labels changed; they may have cycles, which these rules allow."""
    rng = random.Random(seed)
    for sentence in sentences:
        heads, labels = list(sentence.heads), list(sentence.labels)
        for word in range(len(heads)):
            if heads[word] and rng.random() < 0.3:
                heads[word] = rng.choice([h for h in range(1, len(heads) + 1) if h != word + 1] or [heads[word]])
            if heads[word] and rng.random() < 0.2:
                labels[word] = rng.choice(["nsubj", "nsubj:pass", "punct"])
        yield sentence.with_graph(Graph.of_words(heads, labels))


@pytest.fixture
def penn(data):
    return list(read_treebank(data / "penn.conllx"))


@pytest.mark.parametrize("seed", range(2))
def test_the_conllx_rule_counts_as_nltk_does(data, seed):
    from nltk.parse import DependencyEvaluator, DependencyGraph

    gold = [convert(sentence, CONLLX) for sentence in read_treebank(data / "en_ewt-sample.conllu")]
    system = list(with_noise(gold, seed))
    graphs = [
        [DependencyGraph(s.to_conllu(), cell_separator="\t", top_relation_label="root") for s in sentences]
        for sentences in (system, gold)
    ]

    scores = evaluate(gold, system, rule="conllx")

    las, uas = sorted(DependencyEvaluator(*graphs).eval())
    assert (scores["UAS"].f1, scores["LAS"].f1) == pytest.approx((uas, las))
    assert scores["UAS"].gold < sum(map(len, gold))


@pytest.mark.skipif(shutil.which("perl") is None, reason="no perl on this machine")
def test_punctuation_is_the_same_as_in_perl():
    """Compare with Perl: the CoNLL-X scorer is a Perl script that ignores words matching this class."""
    program = (
        r'for (0..0x10FFFF) { next if $_ >= 0xD800 && $_ <= 0xDFFF; print "$_\n" if chr($_) =~ /^\p{Punctuation}+$/ }'
    )
    known = r'for (0..0x10FFFF) { next if $_ >= 0xD800 && $_ <= 0xDFFF; print "$_\n" if chr($_) =~ /^\p{Assigned}+$/ }'
    perl, assigned = (
        set(map(int, subprocess.run(["perl", "-e", code], capture_output=True, check=True, text=True).stdout.split()))
        for code in (program, known)
    )

    ours = {code for code in range(sys.maxunicode) if unicodedata.category(chr(code)).startswith("P")}

    perl = {
        code for code in perl if unicodedata.category(chr(code)) != "Cn"
    }  # depending on which has the newer Unicode version
    assert ours & assigned == perl


def counted(gold, rule):
    pair = load_pair(gold, gold, rule=rule)
    return list(compress(pair.gold.forms, all_marks(pair, rule=rule)["LAS"].gold))


def test_each_rule_ignores_its_own_punctuation(penn):
    assert counted(penn, "conll09") == ["Mr.", "Lee", "``", "said", "''", "$", "5", "--", ".", "No", "!"]
    # In Unicode, ` and $ are symbols, not punctuation.
    assert counted(penn, "conllx") == ["Mr.", "Lee", "``", "said", "$", "5", "No"]
    assert counted(penn, "ptb") == ["Mr.", "Lee", "said", "$", "5", "No"]


def test_the_ptb_rule_reads_xpos_or_upos_if_xpos_is_blank(penn):
    no_fine_tags = [sentence.with_tags(xpos=["_"] * len(sentence)) for sentence in penn]
    chinese = [sentence.with_tags(xpos=["PU", *sentence.xpos[1:]]) for sentence in penn]

    assert counted(no_fine_tags, "ptb") == counted(penn, "ptb")
    assert counted(chinese, "ptb") == ["Lee", "said", "$", "5"]


def test_the_gold_file_decides_what_is_punctuation(penn):
    retagged = [sentence.with_tags(xpos=["."] * len(sentence)) for sentence in penn]

    assert evaluate(penn, retagged, rule="ptb")["LAS"] == Score(6, 6, 6, 6)


def test_multiword_tokens_are_ignored_if_words_are_paired_by_number(data):
    gold = list(read_treebank(data / "constructs.conllu"))
    system = [convert(sentence, CONLLX) for sentence in gold]

    scores = evaluate(gold, system, rule="conll09")

    assert scores["LAS"].f1 == scores["UEM"].f1 == scores["LEM"].f1 == 1
    pair = load_pair(gold, system, rule="conll09")
    counts = sentence_counts(pair, all_marks(pair, rule="conll09")["LAS"])
    assert counts.tolist() == [[len(sentence)] * 3 for sentence in gold]


def test_label_subtypes_count_except_in_ud(data):
    gold = list(read_treebank(data / "en_ewt-sample.conllu"))
    system = [s.with_graph(Graph.of_words(s.heads, [label.partition(":")[0] for label in s.labels])) for s in gold]

    assert evaluate(gold, system)["LAS"].f1 == 1
    assert evaluate(gold, system, rule="conll09")["LAS"].f1 < 1
    assert evaluate(gold, system, rule="conll09")["UAS"].f1 == evaluate(gold, gold, rule="conll09")["LA"].f1 == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Lee", "Li", "<stream>:2: (sentence 1, word 2) The word is 'Li' here, but 'Lee' in <stream>:2."),
        (
            "2\t!\t_\t.\t.\t_\t1\tpunct\t_\t_\n",
            "",
            "<stream>:11: (sentence 2, word 1) The sentence has 1 words here, but 2 in <stream>:11.",
        ),
        (
            "\n1\tNo\t_\tUH\tUH\t_\t0\troot\t_\t_\n2\t!\t_\t.\t.\t_\t1\tpunct\t_\t_\n",
            "",
            "<stream>: The file has fewer sentences than <stream>.",
        ),
    ],
)
def test_different_words_are_an_error_with_their_place(data, old, new, message):
    gold = (data / "penn.conllx").read_text()
    system = gold.replace(old, new)
    assert system != gold

    with pytest.raises(AlignmentError) as error:
        load_pair(*(io.BytesIO(text.encode()) for text in (gold, system)), rule="conllx", format="conllx")

    assert str(error.value) == message


# Labels and confusions


WORDS = Sentence.of_words(["She", "saw", "him", "."], upos=["PRON", "VERB", "PRON", "PUNCT"])
GOLD = WORDS.with_graph(Graph.of_words([2, 0, 2, 2], ["nsubj", "root", "obj", "punct"]))
SYSTEM = WORDS.with_graph(Graph.of_words([3, 0, 2, 1], ["nsubj", "root", "nsubj", "punct"]))


@pytest.fixture
def pair():
    return load_pair([GOLD], [SYSTEM])


def test_each_label_has_its_own_score(pair):
    assert scores_by_label(pair, all_marks(pair)["LAS"]) == {
        "nsubj": Score(1, 2, 0, 1),
        "obj": Score(1, 0, 0, 1),
        "punct": Score(1, 1, 0, 1),
        "root": Score(1, 1, 1, 1),
    }


def test_confusions_count_different_labels_and_different_heads(pair):
    assert label_confusions(pair, all_marks(pair)["LAS"]) == {("obj", "nsubj"): 1}
    assert head_confusions(pair, all_marks(pair)["UAS"]) == {("VERB", "PRON"): 2}


@pytest.mark.parametrize("seed", range(2))
def test_the_scores_of_all_labels_add_up_to_las(data, tmp_path, seed):
    sentences = list(read_treebank(data / "en_ewt-sample.conllu"))
    system = tmp_path / "system.conllu"
    system.write_text(corrupt(sentences, seed))
    pair = load_pair(data / "en_ewt-sample.conllu", system)

    columns = zip(*map(counts_of, scores_by_label(pair, all_marks(pair)["LAS"]).values()), strict=True)

    assert tuple(map(sum, columns)) == counts_of(evaluate(sentences, read_treebank(system))["LAS"])


def test_only_completely_right_sentences_are_exact_matches():
    halves = [Sentence.of_words(["She", "saw"]), Sentence.of_words(["him", "."])]
    cut = [half.with_graph(Graph.of_words([2, 0], ["nsubj", "root"])) for half in halves]
    wrong_label = GOLD.with_graph(Graph.of_words([2, 0, 2, 2], ["nsubj", "root", "iobj", "punct"]))

    assert evaluate([GOLD, GOLD], [GOLD, wrong_label])["UEM"] == Score(2, 2, 2)
    assert evaluate([GOLD, GOLD], [GOLD, wrong_label])["LEM"] == Score(2, 2, 1)
    assert evaluate([GOLD, GOLD], [GOLD, *cut])["UEM"] == Score(2, 3, 1)


# Files are scored in stretches, which have the same scores and errors as whole files


def as_file(text):
    file = io.BytesIO(text.encode())
    file.name = "x.conllu"
    return file


@pytest.mark.parametrize("stretch", [1, 30])
def test_stretches_add_up_to_the_scores_of_the_whole_file(data, monkeypatch, stretch):
    monkeypatch.setattr(pairing, "STRETCH", stretch)
    sample = data / "en_ewt-sample.conllu"
    gold, system = sample.read_text(), corrupt(list(read_treebank(sample)), seed=1)
    pair = load_pair(as_file(gold), as_file(system))
    marks = all_marks(pair)

    pairs = list(stretches(as_file(gold), as_file(system)))
    found = evaluate_stretches(pairs, labels=True, confusions=True)

    assert len(pairs) > 5
    assert found.scores == all_scores(pair, marks)
    assert [*found.by_label.items()] == [*scores_by_label(pair, marks["LAS"]).items()]
    assert found.label_confusions == label_confusions(pair, marks["LAS"])
    assert found.head_confusions == head_confusions(pair, marks["UAS"])


@pytest.mark.parametrize("rule", ["conll18", "conllx"])
@pytest.mark.parametrize("fault", ["shorter", "longer", "other word"])
def test_files_that_differ_have_the_same_error_as_whole_files(data, monkeypatch, rule, fault):
    monkeypatch.setattr(pairing, "_STRETCH_SENTENCES", 5)
    gold = (data / "en_ewt-sample.conllu").read_text()
    shorter = "\n\n".join(gold.split("\n\n")[:-4]) + "\n\n"
    gold, system = {
        "shorter": (gold, shorter),
        "longer": (shorter, gold),
        "other word": (gold, gold.replace("\twill\t", "\twould\t")),
    }[fault]

    with pytest.raises(TreefineError) as expected:
        load_pair(as_file(gold), as_file(system), rule=rule)
    with pytest.raises(TreefineError) as found:
        list(stretches(as_file(gold), as_file(system), is_ud=rule == "conll18"))

    assert str(found.value).partition(": it is")[0] == str(expected.value).partition(": it is")[0]
