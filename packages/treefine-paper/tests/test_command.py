"""`treefine reproduce` lists what is there and what it will train, and names mistakes."""

import pytest

from tests.support.commands import failed, invoke
from tests.support.toy_treebanks import toy_treebanks


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    toy_treebanks(folder, n_train=10, n_dev=1, n_test=1, names=["UD_Turkish-IMST", "UD_Swedish-Talbanken"])
    return folder


def reproduce(*arguments, code=0):
    return invoke(*arguments, command="reproduce", code=code)


def test_the_list_has_all_treebanks_and_where_to_get_missing_ones(data):
    lines = reproduce(data, "--list").stdout.splitlines()

    assert len(lines) == 16 + 1 + 11  # treebanks and systems, with a blank line between them
    assert any(
        line.startswith("tr_imst") and "UD_Turkish-IMST" in line and "2.3, bert-base-multilingual-cased" in line
        for line in lines
    )
    assert any(line.startswith("ptb") and "LDC99T42" in line for line in lines)


def test_a_dry_run_writes_nothing(data, tmp_path):
    result = reproduce(data, "--dry-run", "-o", tmp_path / "out", "--seeds", "1,2")

    assert "tr_imst-syntr-rngtr-seed2: bert-base-multilingual-cased, 10 sentences" in result.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--only", "tr_imts"), "There is no treebank or system 'tr_imts'. Did you mean tr_imst?"),
        (("--only", "ptb"), ": ptb has no train, dev and test file; get it from LDC99T42"),
        (("--only", "ptb", "--only", "syntr-rngtr-t1"), "The systems that --only names are not run on the"),
        (("--set", "training.epoch=1", "--only", "tr_imst", "--only", "syntr"), "[training] epoch is unknown; did you"),
        (
            ("--encoder", "./no-such-folder", "--only", "tr_imst"),
            "There is no such model folder",
        ),
    ],
)
def test_mistakes(data, tmp_path, options, message):
    assert message in failed(lambda *words, code: reproduce(data, "-o", tmp_path / "out", *words, code=code), *options)


def test_seeds_are_numbers(data):
    message = " ".join(reproduce(data, "--seeds", "one", code=2).stderr.split())

    assert "'one' is not a list of numbers, such as 1,2,3." in message


def test_a_folder_that_does_not_exist(tmp_path):
    assert "There is no such folder." in failed(lambda *words, code: reproduce(*words, code=code), tmp_path / "nowhere")
