"""Edits change the bytes of a sentence and no others, whatever the file looks like."""

import gzip
import lzma

import pytest

from tests.support.studio_files import DONE, MIXED, change, label, texts
from tests.support.studio_pages import DOG, STARS, TREES
from treefine.errors import TreebankError
from treefine.studio.actions import Action
from treefine.treebank.conllu import Unreadable

INVALID = "# sent_id = bad\n1\tno\tcolumns\n\n"
TOKENS = (
    "# text = al mar\n1-2\tal\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta\ta\tADP\t_\t_\t3\tcase\t3:case\t_\n"
    "2\tel\tel\tDET\t_\t_\t3\tdet\t3:det\t_\n2.1\tnada\t_\t_\t_\t_\t_\t_\t0:root\t_\n"
    "3\tmar\tmar\tNOUN\t_\t_\t0\troot\t0:root\tNote=_x\n\n"
)
FILES = {
    "usual": TREES,
    "Windows": TREES.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + TREES,
    "blank lines first": "\ufeff\n\r\n" + TREES,
    "no final line end": TREES.rstrip("\n"),
    "no final blank line": TREES.removesuffix("\n"),
    "Windows, no final blank line": TREES.replace("\n", "\r\n").removesuffix("\r\n"),
    "many blank lines": TREES.replace("\n\n", "\n\n\r\n\n"),
    "both line ends": MIXED,
    "only comments": STARS + "# only\n# comments\n\n" + DOG,
    "not valid": INVALID + STARS + INVALID + DOG,
    "multiword tokens and empty nodes": TOKENS + STARS + TOKENS,
    "not UTF-8": STARS.encode() + b"# text = caf\xe9\n1\tcaf\xe9\n\n" + DOG.encode(),
    "null bytes": STARS.encode() + b"1\t\0\n\n" + DOG.encode() + b"# a\0\n# b\n1\tx\n\n",
}


def blocks(document):
    return [each.encode(errors="surrogateescape") for each in texts(document)]


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_an_edit_leaves_every_byte_of_other_sentences_and_undo_gives_back_those_of_its_own(
    tmp_path, open_file, content
):
    path = tmp_path / "file.conllu"
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(content)
    document = open_file(path)
    before = blocks(document)
    assert b"".join(before) == content
    valid = [key for key, _ in document.sentences()]

    for key in valid:
        for number, action in enumerate([DONE, label(1, "dep"), Action("comments", lines=("a = b",))]):
            change(document, action, key=key, id=f"{key} {number}")
            assert not isinstance(document.sentence(key), Unreadable)
            after = blocks(document)
            assert after[: key - 1] + after[key:] == before[: key - 1] + before[key:]
            document.undo(f"undo {key} {number}")
            assert blocks(document) == before
    change(document, DONE, key=valid[-1], id="last")
    document.close()

    assert path.read_bytes() == b"".join(
        [*before[: valid[-1] - 1], open_file(path).text(valid[-1]).encode(), *before[valid[-1] :]]
    )


@pytest.mark.parametrize("name", ["Windows", "byte order mark", "no final line end", "Windows, no final blank line"])
def test_split_and_joined_sentences_have_the_line_ends_of_the_file(tmp_path, open_file, name):
    path = tmp_path / "file.conllu"
    path.write_bytes(FILES[name].encode())
    document = open_file(path)
    newline = "\r\n" if "\r\n" in FILES[name] else "\n"

    for number, (key, word) in enumerate([(1, 3), (2, 5), (3, 3)]):
        change(document, Action("split_sentence", word=word), key=key, id=f"split {number}")
    split = document.content().decode()
    assert len(list(document.sentences())) == 6
    for number, key in enumerate([1, 2, 3]):
        change(document, Action("join_sentences"), key=key, id=f"join {number}")

    for text in (split, document.content().decode()):
        assert text.startswith("\ufeff") == FILES[name].startswith("\ufeff")
        assert text.count("\ufeff") == FILES[name].count("\ufeff")
        assert text.count("\n") == text.count(newline)
        assert text[len(text.rstrip("\r\n")) :] == FILES[name][len(FILES[name].rstrip("\r\n")) :]
        assert 3 * newline not in text
    document.close()
    assert [each.forms for _, each in open_file(path).sentences()] == [
        ("She", "saw", "two", "stars", "."),
        ("The", "old", "dog", "slept", "near", "the", "door", "."),
        ("Rain", "fell", "."),
    ]


def test_lines_that_are_not_a_sentence_can_be_corrected_and_undo_brings_them_back(tmp_path, open_file):
    path = tmp_path / "file.conllu"
    path.write_bytes(FILES["not UTF-8"])
    document = open_file(path)
    assert isinstance(document.sentence(2), Unreadable)
    with pytest.raises(TreebankError, match="Correct its lines first."):
        change(document, DONE, key=2)

    change(document, Action("source", lines=("1\tcafé\t_\t_\t_\t_\t0\troot\t_\t_",)), key=2, id="a")
    assert document.valid_sentence(2).forms == ("café",)
    document.undo("b")
    document.close()

    assert path.read_bytes() == FILES["not UTF-8"]
    assert open_file(path).redo("c").after[0].text.startswith("1\tcafé")


@pytest.mark.parametrize(
    ("suffix", "pack", "unpack"), [(".gz", gzip.compress, gzip.decompress), (".XZ", lzma.compress, lzma.decompress)]
)
def test_compressed_files_are_edited_too(tmp_path, open_file, suffix, pack, unpack):
    path = tmp_path / f"trees.conllu{suffix}"
    path.write_bytes(pack(TREES.encode()))
    original = path.read_bytes()

    document = open_file(path)
    change(document, label(4, "iobj"), id="a")
    document.close()
    document = open_file(path)
    assert document.notice == ""
    change(document, DONE, key=3, id="b")
    document.close()

    assert unpack(path.read_bytes()) == open_file(path).content()
    assert (document.folder / f"original.bak{suffix}").read_bytes() == original
