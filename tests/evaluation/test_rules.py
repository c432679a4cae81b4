"""The rules of the CoNLL-X, Penn and CoNLL-2009 scorers, against NLTK, Perl and counting by hand."""

import io
import random
import shutil
import subprocess
import sys
import unicodedata
from itertools import compress

import pytest

from treefine import AlignmentError, Graph, TreebankError, TreefineError, evaluate, read_treebank
from treefine.evaluation.scores import RULES, Score, all_marks, load_pair
from treefine.evaluation.significance import sentence_counts
from treefine.treebank.formats import CONLLX, convert


def with_noise(sentences, seed):
    """The sentences with some heads and labels changed; the result may hold cycles, which these rules allow."""
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


@pytest.mark.parametrize("seed", range(5))
def test_the_conllx_rule_counts_as_nltk_does(data, seed):
    from nltk.parse import DependencyEvaluator, DependencyGraph

    gold = [convert(sentence, CONLLX) for sentence in read_treebank(data / "en_ewt-sample.conllu")]
    system = list(with_noise(gold, seed))
    graphs = [
        [DependencyGraph(s.to_text(), cell_separator="\t", top_relation_label="root") for s in sentences]
        for sentences in (system, gold)
    ]

    scores = evaluate(gold, system, rule="conllx")

    las, uas = sorted(DependencyEvaluator(*graphs).eval())
    assert (scores["UAS"].f1, scores["LAS"].f1) == pytest.approx((uas, las))
    assert scores["UAS"].gold < sum(map(len, gold))


@pytest.mark.skipif(shutil.which("perl") is None, reason="no perl on this machine")
def test_punctuation_is_what_perl_says_it_is():
    """The CoNLL-X scorer is a Perl script that leaves out words matching this very class."""
    program = (
        r'for (0..0x10FFFF) { next if $_ >= 0xD800 && $_ <= 0xDFFF; print "$_\n" if chr($_) =~ /^\p{Punctuation}+$/ }'
    )
    known = r'for (0..0x10FFFF) { next if $_ >= 0xD800 && $_ <= 0xDFFF; print "$_\n" if chr($_) =~ /^\p{Assigned}+$/ }'
    perl, assigned = (
        set(map(int, subprocess.run(["perl", "-e", code], capture_output=True, check=True, text=True).stdout.split()))
        for code in (program, known)
    )

    ours = {code for code in range(sys.maxunicode) if unicodedata.category(chr(code)).startswith("P")}

    perl = {code for code in perl if unicodedata.category(chr(code)) != "Cn"}  # whichever knows the newer Unicode
    assert ours & assigned == perl


def counted(gold, rule):
    pair = load_pair(gold, gold, rule=rule)
    return list(compress(pair.gold.forms, all_marks(pair, rule=rule)["LAS"].gold))


def test_each_rule_leaves_out_its_own_punctuation(penn):
    assert counted(penn, "conll09") == ["Mr.", "Lee", "``", "said", "''", "$", "5", "--", ".", "No", "!"]
    # By Unicode class, ` and $ are symbols and not punctuation.
    assert counted(penn, "conllx") == ["Mr.", "Lee", "``", "said", "$", "5", "No"]
    assert counted(penn, "ptb") == ["Mr.", "Lee", "said", "$", "5", "No"]


def test_a_form_that_is_empty_is_no_punctuation(data):
    text = (data / "penn.conllx").read_text().replace("\tNo\t", "\t\t")

    assert "" in counted([*read_treebank(io.BytesIO(text.encode()), format="conllx")], "conllx")


def test_the_ptb_rule_reads_the_fine_tag_and_the_coarse_one_where_that_is_blank(penn):
    no_fine_tags = [sentence.with_tags(xpos=["_"] * len(sentence)) for sentence in penn]
    chinese = [sentence.with_tags(xpos=["PU", *sentence.xpos[1:]]) for sentence in penn]

    assert counted(no_fine_tags, "ptb") == counted(penn, "ptb")
    assert counted(chinese, "ptb") == ["Lee", "said", "$", "5"]


def test_what_is_left_out_neither_helps_nor_harms(penn):
    wrong_at_punctuation = [
        sentence.with_graph(
            Graph.of_words(
                [
                    1 if tag in ("``", "''", ":", ".") else head
                    for head, tag in zip(sentence.heads, sentence.xpos, strict=True)
                ],
                sentence.labels,
            )
        )
        for sentence in penn
    ]

    scores = evaluate(penn, wrong_at_punctuation, rule="ptb")

    assert scores["LAS"] == Score(6, 6, 6, 6)
    assert scores["LEM"] == Score(2, 2, 2)
    assert evaluate(penn, wrong_at_punctuation, rule="conll09")["LAS"].correct < 11


def test_the_gold_file_decides_what_is_punctuation(penn):
    retagged = [sentence.with_tags(xpos=["."] * len(sentence)) for sentence in penn]

    assert evaluate(penn, retagged, rule="ptb")["LAS"] == Score(6, 6, 6, 6)


def test_multiword_tokens_make_no_difference_where_words_are_paired_by_number(data):
    gold = list(read_treebank(data / "constructs.conllu"))
    system = [convert(sentence, CONLLX) for sentence in gold]

    scores = evaluate(gold, system, rule="conll09")

    assert scores["LAS"].f1 == scores["UEM"].f1 == scores["LEM"].f1 == 1
    pair = load_pair(gold, system, rule="conll09")
    counts = sentence_counts(pair, all_marks(pair, rule="conll09")["LAS"])
    assert counts.tolist() == [[len(sentence)] * 3 for sentence in gold]


def test_ud_wants_one_root_whatever_the_format(penn):
    two_roots = [s.with_graph(Graph.of_words([0] * len(s), s.labels)) for s in penn]

    with pytest.raises(TreebankError, match="The sentence has 9 roots"):
        evaluate(penn, two_roots)


def test_labels_count_with_their_subtypes_but_in_ud(data):
    gold = list(read_treebank(data / "en_ewt-sample.conllu"))
    system = [s.with_graph(Graph.of_words(s.heads, [label.partition(":")[0] for label in s.labels])) for s in gold]

    assert evaluate(gold, system)["LAS"].f1 == 1
    assert evaluate(gold, system, rule="conll09")["LAS"].f1 < 1
    assert evaluate(gold, system, rule="conll09")["UAS"].f1 == evaluate(gold, gold, rule="conll09")["LA"].f1 == 1


def test_cycles_and_several_roots_are_scored_as_the_old_scorers_do(penn):
    everything_at_root = [s.with_graph(Graph.of_words([0] * len(s), s.labels)) for s in penn]
    loops = [s.with_graph(Graph.of_words(range(1, len(s) + 1), s.labels)) for s in penn]

    assert evaluate(penn, everything_at_root, rule="conll09")["UAS"].correct == 2
    assert evaluate(penn, loops, rule="conll09")["UAS"].correct == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Lee", "Li", "<stream>:2: (sentence 1, word 2) The word is 'Li', but 'Lee' in <stream>:2."),
        (
            "2\t!\t_\t.\t.\t_\t1\tpunct\t_\t_\n",
            "",
            "<stream>:11: (sentence 2) The sentence has 1 words, but 2 in <stream>:11.",
        ),
        (
            "\n1\tNo\t_\tUH\tUH\t_\t0\troot\t_\t_\n2\t!\t_\t.\t.\t_\t1\tpunct\t_\t_\n",
            "",
            "<stream>: The file has 1 sentences, but <stream> has 2.",
        ),
    ],
)
def test_other_words_are_an_error_with_the_place(data, old, new, message):
    gold = (data / "penn.conllx").read_text()
    system = gold.replace(old, new)
    assert system != gold

    with pytest.raises(AlignmentError) as error:
        load_pair(*(io.BytesIO(text.encode()) for text in (gold, system)), rule="conllx", format="conllx")

    assert str(error.value) == message


def test_an_unknown_rule_or_metric_is_answered_with_the_known_ones(penn):
    with pytest.raises(TreefineError, match="There is no rule 'ud'. Choose one of conll18, conllx, ptb, conll09."):
        evaluate(penn, penn, rule="ud")
    with pytest.raises(TreefineError, match="The rule ptb has no metric 'MLAS'. Choose one of UAS, LAS, LA."):
        all_marks(load_pair(penn, penn, rule="ptb"), rule="ptb", metrics=["MLAS"])
    assert set(RULES) == {"conll18", "conllx", "ptb", "conll09"}
