import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_segmenter import texts, tiny_network
from treefine.segmenter.network import N_RESERVED, Alphabet, Windows

ALPHABET = Alphabet("ab .'!\n12é中", 50)
words = texts.filter(bool)


def runs(text):
    starts = np.flatnonzero(ALPHABET.encode(text).starts_run)
    return [text[start:stop] for start, stop in zip(starts, [*starts[1:], len(text)], strict=False)]


def test_a_run_is_letters_and_digits_or_one_other_character_with_the_space_after_it():
    assert runs("Don't  go2. \n…e\u0301!") == ["Don", "'", "t  ", "go2", ". \n", "…", "e\u0301", "!"]
    assert runs(" a") == [" ", "a"]


def test_runs_that_differ_only_in_case_digits_and_space_share_a_row():
    hashes = ALPHABET.encode("Ab2 aB7\nab3. b").hashes

    assert hashes[0] == hashes[4] == hashes[8] != hashes[13]
    assert hashes[0] == hashes[3]


def test_the_scores_equal_a_loop_over_runs_and_characters():
    network, text = tiny_network(n_chars=len(ALPHABET)), "Don't go2. \n…é!"
    encoded = ALPHABET.encode(text)

    x = torch.cat([network.chars(torch.tensor(encoded.chars)), network.kinds(torch.tensor(encoded.kinds))], dim=-1)
    x = network.char_layers[0](x)[0]
    spans, start = [], 0
    for run in runs(text):
        spans.append((start, start := start + len(run)))
    ends = [torch.cat([x[a], x[b - 1], network.hashes.weight[encoded.hashes[a]]]) for a, b in spans]
    of_run = network.run_layers[0](torch.stack(ends))[0]
    rows = [of_run[number] for number, (a, b) in enumerate(spans) for _ in range(a, b)]
    slow = torch.stack(
        [
            network.scorer(torch.relu(network.of_char(one) + network.of_run(run)))
            for one, run in zip(x, rows, strict=True)
        ]
    )

    token, sentence = network(Windows.of([encoded]))

    assert torch.allclose(token[0], slow[:, :3], atol=1e-5)
    assert torch.allclose(sentence[0], slow[:, 3], atol=1e-5)


@given(texts)
def test_any_text_can_be_encoded(text):
    encoded = ALPHABET.encode(text)

    assert len(encoded) == len(text) == len(encoded.hashes)
    assert ((encoded.chars > 0) & (encoded.chars < len(ALPHABET))).all()
    assert ((encoded.hashes >= N_RESERVED) & (encoded.hashes < 50 + N_RESERVED)).all()
    assert "".join(runs(text)) == text


@given(st.lists(words, min_size=2, max_size=4))
def test_windows_in_a_batch_have_the_same_scores_as_alone(stretches):
    network, encoded = tiny_network(n_chars=len(ALPHABET)), [ALPHABET.encode(each) for each in stretches]

    together = network(Windows.of(encoded))

    for row, each in enumerate(encoded):
        alone = network(Windows.of([each]))
        for a, b in zip(together, alone, strict=True):
            assert torch.allclose(a[row, : len(each)], b[0], atol=1e-5)


def test_each_letter_of_a_script_without_spaces_is_a_run_if_the_settings_say_so():
    text, whole, split = "Go 中文ไป한국 あ1", ALPHABET, Alphabet("ab", 50, splits_unspaced=True)

    starts = [np.flatnonzero(each.encode(text).starts_run).tolist() for each in (whole, split)]

    assert starts == [[0, 3, 10], [0, 3, 4, 5, 6, 7, 10, 11]]
