"""Our CoNLL 2018 scores equal the official ones on corrupted, damaged and generated files; see also tests/slow."""

import io
import random
from itertools import islice

import pytest
from hypothesis import given

from tests.support.data import DATA
from tests.support.generated import file_pairs
from tests.support.oracles import FAULTS, RefusedError, corrupt, damage, official, official_script, ours
from treefine import Sentence, evaluate, read_treebank
from treefine.evaluation.tables import score_table


def sample(path, start=0) -> list[Sentence]:
    """Return ten consecutive sentences, so that joining neighbours makes sense."""
    return list(islice(read_treebank(path), start, start + 10))


def text_of(sentences: list[Sentence]) -> str:
    return "".join(sentence.to_conllu() for sentence in sentences)


@pytest.mark.parametrize("seed", range(6))
def test_a_corrupted_fixture_scores_as_in_the_official_script(seed):
    sentences = sample(DATA / ["en_ewt-sample.conllu", "constructs.conllu"][seed % 2])
    lines = [line for line in text_of(sentences).split("\n") if not line.startswith("1.1\t")]  # see the last test
    gold, system = "\n".join(lines), corrupt(sentences, seed)

    assert ours(gold, system) == official(gold, system)


@given(file_pairs())
def test_generated_pairs_score_as_in_the_official_script(files):
    assert ours(*files) == official(*files)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("is_gold", [False, True], ids=["system", "gold"])
def test_files_that_the_official_script_rejects_are_rejected(fault, is_gold):
    good = text_of(sample(DATA / "en_ewt-sample.conllu"))
    bad = FAULTS[fault](good, random.Random(1))
    files = (bad, good) if is_gold else (good, bad)

    with pytest.raises(RefusedError):
        official(*files)
    with pytest.raises(RefusedError) as refusal:
        ours(*files)
    assert str(refusal.value).startswith("<stream>")  # the message starts with the file


def test_our_scorer_and_the_official_script_agree_on_damaged_files():
    """Check that we reject all files that the script rejects, and give the same scores for all others."""
    lines = (DATA / "constructs.conllu").read_text().split("\n")
    text = "\n".join(line for line in lines if not line.startswith("1.1\t"))  # see the last test of this file
    accepted = 0

    for seed in range(150):
        damaged = damage(text, seed)
        for gold in (text, damaged):
            try:
                found = ours(gold, damaged)
            except RefusedError:
                continue
            assert found == official(gold, damaged), f"seed {seed}"
            accepted += 1

    assert accepted > 150 / 3


def test_the_table_looks_like_that_of_the_official_script():
    sentences = sample(DATA / "en_ewt-sample.conllu")
    gold, system = text_of(sentences), corrupt(sentences, 3)
    script = official_script()
    scores = script.evaluate(*(script.load_conllu(io.StringIO(text)) for text in (gold, system)))
    lines = [
        f"{name:11}|{100 * s.precision:10.2f} |{100 * s.recall:10.2f} |{100 * s.f1:10.2f} |"
        + (f"{100 * s.aligned_accuracy:10.2f}" if s.aligned_accuracy is not None else "")
        for name, s in scores.items()
    ]

    table = score_table(evaluate(*(io.BytesIO(text.encode()) for text in (gold, system))))

    assert table.split("\n")[2 : 2 + len(lines)] == lines


def test_an_empty_node_inside_a_multiword_token_is_accepted_unlike_in_the_2018_script():
    text = (
        "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta\t_\t_\t_\t_\t2\tdep\t_\t_\n"
        "1.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n2\tb\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    )

    with pytest.raises(RefusedError):
        official(text, text)
    assert ours(text, text)["LAS"][2] == 2


def test_words_of_a_multiword_token_are_aligned_by_their_forms():
    gold = "1-2\tab" + "\t_" * 8 + "\n1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n2\tb\t_\t_\t_\t_\t1\tdep\t_\t_\n\n"
    system = gold.replace("\tb\t", "\tx\t")

    assert ours(gold, system) == official(gold, system)
    assert ours(gold, system)["Words"] == (2, 2, 1, None)


def test_the_layout_of_sentences_in_memory_does_not_matter():
    text = "\n" + text_of(sample(DATA / "en_ewt-sample.conllu"))
    sentences = list(read_treebank(io.BytesIO(text.encode())))

    assert evaluate(sentences, sentences)["LAS"].f1 == 1
    with pytest.raises(RefusedError):
        ours(text, text)
