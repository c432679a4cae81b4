"""The treebanks of the paper are found in the layouts in which people have them."""

import pytest

from treefine_paper.treebanks import find_paper_files


def put(folder, *names):
    """Write empty files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("")


def found(code, *folders):
    return find_paper_files(folders)[code]


def test_ud_as_downloaded(tmp_path):
    names = [f"tr_imst-ud-{split}.conllu" for split in ("train", "dev", "test")]
    put(tmp_path / "ud-treebanks-v2.3" / "UD_Turkish-IMST", *names, "README.md", "stats.xml", "tr_imst-ud-test.txt")

    files = found("tr_imst", tmp_path)

    assert [files.train, files.dev, files.test] == [
        str(tmp_path / "ud-treebanks-v2.3" / "UD_Turkish-IMST" / name) for name in names
    ]
    assert files.missing == ()
    assert files.release == "2.3"
    assert files.is_comparable


@pytest.mark.parametrize(
    ("code", "folder", "names"),
    [
        ("sv_talbanken", "sv_talbanken", ["train.conllu.xz", "dev.conllu.xz", "test.conllu.xz"]),
        ("en_ewt", "all", ["en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu", "en_ewt-ud-test.conllu"]),
        ("ptb", "PTB", ["train.conllx", "dev.conllx", "test.conllx"]),
        ("ptb", "wsj", ["ptb_train_3.3.0.conllx", "ptb_dev_3.3.0.conllx", "ptb_test_3.3.0.conllx"]),
        ("ctb", "ctb5.1", ["train.conll", "dev.conll", "test.conll"]),
        (
            "de_conll09",
            "german",
            [
                "CoNLL2009-ST-German-train.txt",
                "CoNLL2009-ST-German-development.txt",
                "CoNLL2009-ST-evaluation-German.txt",
            ],
        ),
    ],
)
def test_other_layouts(tmp_path, code, folder, names):
    put(tmp_path / folder, *names)

    files = found(code, tmp_path)

    assert [files.train, files.dev, files.test] == [str(tmp_path / folder / name) for name in names]


def test_a_complete_treebank_comes_before_one_of_the_release_of_the_paper(tmp_path):
    put(tmp_path / "ud-2.3" / "ja_gsd", "dev.conllu", "test.conllu")
    put(tmp_path / "later" / "ja_gsd-2.9", "train.conllu", "dev.conllu", "test.conllu")

    files = found("ja_gsd", tmp_path / "ud-2.3", tmp_path / "later")

    assert files.release == "2.9"
    assert not files.is_comparable


def test_the_shortest_of_several_names_is_taken(tmp_path):
    put(tmp_path / "german", "CoNLL2009-ST-evaluation-German-ood.txt", "CoNLL2009-ST-evaluation-German.txt")
    put(tmp_path / "ptb", "test.blind.conllx", "test.conllx")

    assert found("de_conll09", tmp_path).test == str(tmp_path / "german" / "CoNLL2009-ST-evaluation-German.txt")
    assert found("ptb", tmp_path).test == str(tmp_path / "ptb" / "test.conllx")


@pytest.mark.parametrize(
    ("folder", "release"),
    [("ud-2.3", "2.3"), ("UD_v2.3", "2.3"), ("ud-treebanks-v2.16", "2.16"), ("r2.5", "2.5"), ("project-2.3", "")],
)
def test_the_release_is_read_from_the_names_of_folders(tmp_path, folder, release):
    put(tmp_path / folder / "UD_Turkish-IMST", "train.conllu")

    assert found("tr_imst", tmp_path).release == release


def test_a_treebank_with_a_longer_name_is_another_one(tmp_path):
    put(tmp_path / "sv_talbanken2", "train.conllu")
    put(tmp_path / "it_isdt_old", "it_isdt_old-ud-train.conllu")

    assert found("sv_talbanken", tmp_path).missing == ("train", "dev", "test")
    assert found("it_isdt", tmp_path).missing == ("train", "dev", "test")
