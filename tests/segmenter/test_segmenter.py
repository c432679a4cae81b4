"""The Segmenter class: streams, lines, odd text, its folder, and its network."""

import json
import re
import shutil
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.support.tiny_segmenter import (
    HABITS,
    same_weights,
    texts,
    tiny_network,
    tiny_segmenter,
    tiny_segmenter_of_two,
    with_small_windows,
)
from treefine.errors import TreefineError
from treefine.segmenter import segmenter as segment
from treefine.segmenter.network import N_RESERVED, Alphabet, Windows
from treefine.segmenter.segmenter import Segmenter
from treefine.treebank.raw_text import text_of

AGAIN = "Copy or download it again."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Save a segmenter in the working folder."""
    monkeypatch.chdir(tmp_path)
    tiny_segmenter().save("segmenter")
    return Path("segmenter")


def load_error(folder):
    with pytest.raises(TreefineError) as error:
        Segmenter.from_folder(folder)
    return str(error.value)


def sentences(segmented):
    return [each.sentence for each in segmented]


@with_small_windows
@given(texts, st.integers(0, 3))
def test_any_text_can_be_rebuilt_from_its_sentences(text, seed):
    found = tiny_segmenter(seed).segment(text)

    assert text_of(sentences(found)) == (text if found else "")


@given(st.lists(texts.map(lambda text: re.sub("[\r\n]", "", text)), max_size=4), st.integers(0, 3))
def test_a_text_with_crlf_is_cut_like_the_same_text_with_lf(lines, seed):
    segmenter, plain, text = tiny_segmenter(seed), "\n".join(lines), "\r\n".join(lines)
    expected_of_text = segmenter.segment(plain)

    for found, expected in (
        (segmenter.segment(text), expected_of_text),
        (segmenter.stream(chunk for each in text for chunk in (each, "")), expected_of_text),
        (next(segmenter.segment_all([text])), expected_of_text),
        [segmenter.stream_lines(f"{each}{end}" for each in lines) for end in ("\r\n", "\n")],
    ):
        found, expected = list(found), list(expected)
        assert [each.sentence.forms for each in found] == [each.sentence.forms for each in expected]
        assert [each.sentence.text for each in found] == [each.sentence.text for each in expected]
    found = segmenter.segment(text)
    assert text_of(sentences(found)) == (text if found else "")
    for each in found:
        tokens = [(token.form, token.words[0]) for token in each.sentence.tokens()]
        assert [text[slice(*each.spans[word - 1])] for _, word in tokens] == [form for form, _ in tokens]


@with_small_windows
@given(texts)
def test_lines_are_sentences_and_can_be_rebuilt(text):
    lines = re.findall(r"[^\n]*\n|[^\n]+$", text)  # only a line feed ends a line

    found = list(tiny_segmenter().stream_lines(lines))

    assert text_of(sentences(found)) == (text if found else "")
    ends = np.cumsum([len(line) for line in lines])
    of_line = [{int(np.searchsorted(ends, start, side="right")) for start, _ in each.spans} for each in found]
    assert all(len(each) == 1 for each in of_line)
    assert len({line for each in of_line for line in each}) == len(found)


def test_a_text_of_any_size_is_segmented_as_it_arrives():
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield "ab a.\n\n" * 100

    found = list(islice(tiny_segmenter().stream(endless()), 50))

    assert len(found) == 50
    assert len(taken) < 500


@pytest.mark.parametrize("whole", [tiny_segmenter(), tiny_segmenter_of_two()], ids=["one treebank", "two"])
def test_a_moved_folder_segments_the_same(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole.save("segmenter")
    rounded = Segmenter.from_folder("segmenter")
    rounded.for_treebank("th_two").save("again")  # the whole segmenter
    shutil.move("again", "there")

    loaded = Segmenter.from_folder("there")

    assert (loaded.treebanks, loaded.habits, loaded.treebank) == (whole.treebanks, whole.habits, "")
    assert loaded.alphabet.characters == whole.alphabet.characters
    assert same_weights(loaded.network, whole.network, within=2e-2)  # int8
    for code in ("", *loaded.treebanks):
        text = "ab del. 12 é'中\n\n a b! okulki" * 20
        assert loaded.for_treebank(code).segment(text) == rounded.for_treebank(code).segment(text)
    tables = json.loads(Path("there/multiword.json").read_text())
    assert list(tables) == [code for code, rules in whole.habits.items() if rules.multiwords.forms]  # no empty tables


@pytest.mark.parametrize("name", ["config.json", "segmenter.safetensors", "multiword.json"])
def test_a_damaged_or_missing_file_is_named(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    damaged = load_error(folder)
    (folder / name).unlink()

    assert damaged.startswith(f"segmenter/{name}:")
    assert "The file is damaged" in damaged
    assert load_error(folder).startswith(f"segmenter/{name}: There is no such file.")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alphabet": "aa"}, "the alphabet is damaged: characters must not repeat"),
        ({"alphabet": ["a"]}, 'alphabet = ["a"]; it must be a string'),
        ({"habits": {"": {"whole_spans": ["x"]}}}, "whole_spans = ('x',); known rules are"),
        ({"habits": {"": {}, "es_one": {}}}, f"The habits are damaged: they need one entry per treebank. {AGAIN}"),
        ({"treebanks": ["es_one", "es_one"]}, "the list of treebanks is damaged"),
        ({"segmenter": {"run_layers": 9_000_000}}, "run_layers = 9000000; it must be at most 1000"),
        ({"alphabet": "abc"}, "The weights do not fit the model: chars.weight is 12 × 6 instead of 5 × 6."),
    ],
)
def test_an_invalid_config_is_an_error(folder, changes, message):
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))

    assert message in load_error(folder)


@pytest.mark.parametrize(
    "changes",
    [{"forms": {"del": ["del"]}}, {"forms": {"del": ["de", "l\n"]}}, {"forms": {"del": None}}, {"endings": []}],
)
def test_an_invalid_table_of_multiword_tokens_is_an_error(folder, changes):
    tables = json.loads((folder / "multiword.json").read_text())
    (folder / "multiword.json").write_text(json.dumps({"": tables[""] | changes}))

    assert load_error(folder) == f"segmenter/multiword.json: The table of multiword tokens is damaged. {AGAIN}"


def test_weights_that_are_not_finite_are_an_error_when_read_and_when_written(folder):
    weights = load_file(folder / "segmenter.safetensors")
    weights["scorer.bias"][0] = torch.nan
    save_file(weights, folder / "segmenter.safetensors")

    assert "scorer.bias has numbers that" in load_error(folder)
    broken = tiny_segmenter()
    broken.network.scorer.bias.data[0] = 1e6
    with pytest.raises(TreefineError, match=r"scorer\.bias of the segmenter is not finite in 16 bits"):
        broken.save("broken")
    assert not Path("broken").exists()


SHORT = [" ".join(["ab 1.", "b'a"] * number) for number in range(1, 41)]


def test_texts_share_batches(monkeypatch):
    segmenter, seen = tiny_segmenter(), []
    segmenter.network.register_forward_hook(lambda _, windows, __: seen.append(len(windows[0].lengths)))

    found = list(segmenter.segment_all([*SHORT, "a" * (segment.STRIDE + 1)]))

    assert (len(seen), sum(seen)) == (2, len(SHORT) + 2)  # the last text has two windows
    assert all(found)


def test_texts_may_be_endless():
    assert len(list(islice(tiny_segmenter().segment_all("ab." for _ in count()), 5000))) == 5000


def test_a_segmenter_for_a_treebank_has_its_habits_and_number_and_shares_the_weights():
    whole = tiny_segmenter_of_two()

    together = whole.network(Windows.of([whole.alphabet.encode("ab del.")] * 3, [0, 1, 2])).token
    for number, code in enumerate(["", "es_one", "th_two"]):
        one = whole.for_treebank(code)
        assert one.rules == HABITS[code]
        tokens, _ = one._scores(["ab del."])
        assert tokens[0].tolist() == together[number].argmax(-1).tolist()
        assert one.network is whole.network
    assert (whole.treebank, whole.rules) == ("", HABITS[""])  # unchanged


# The network


ALPHABET = Alphabet("ab .'!\n12é中", 50)


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
    sums = [network.of_char(one) + network.of_run(run) for one, run in zip(x, rows, strict=True)]
    slow = network.scorer(torch.relu(torch.stack(sums)))

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


@given(st.lists(texts.filter(bool), min_size=2, max_size=4))
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
