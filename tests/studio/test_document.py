"""A file that a person edits: opening, changes, undo, keys, versions and marks."""

import gzip
import lzma
import stat

import pytest

from tests.support.studio import DOG, DONE, RAIN, STARS, TREES, change, label, texts
from treefine.errors import TreebankError
from treefine.studio.actions import Action, act
from treefine.studio.document import Document, StaleError
from treefine.treebank.conllu import Unreadable

MIXED = TREES.replace("\t0\troot\t_\t_\n", "\t0\troot\t_\t_\r\n")  # line ends

# Opening and closing


def test_a_file_that_is_only_read_stays_as_it_is_and_nothing_is_left_beside_it(path, open_file):
    before = path.stat()

    document = open_file()
    assert texts(document) == [STARS, DOG, RAIN]
    document.spend(1, 5.0, 0)
    document.token()
    document.save()
    document.close()

    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert list(path.parent.iterdir()) == [path]


def test_a_second_session_on_the_same_file_is_refused_until_the_first_ends(path, open_file):
    first = open_file()

    with pytest.raises(TreebankError, match="Another treefine annotate has opened this file. Close it there first"):
        Document(path)
    path.with_name("link.conllu").symlink_to(path)
    with pytest.raises(TreebankError, match="Another treefine annotate has opened this file."):
        Document(path.with_name("link.conllu"))  # a link and its target are one file
    first.close()

    assert len(open_file().keys) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.conllu", None, "There is no such file."),
        ("wsj.conllx", b"1\ta\n\n", "Only CoNLL-U files can be annotated. Convert it first: treefine convert {}"),
        ("wsj.v2.conll.gz", gzip.compress(b"x", mtime=0), "Convert it first: treefine convert {} {folder}/wsj.conllu"),
        ("wide.conllu", STARS.encode("utf-16"), "This file is UTF-16 or UTF-32."),
        ("empty.conllu", b"\n\n", "The file contains no sentences."),
        ("zeros.conllu", b"\0" * 100, "contains null bytes"),
        ("packed.conllu.gz", STARS.encode(), "This is not a .gz file"),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused_and_nothing_is_left_beside_it(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(TreebankError) as error:
        Document(path)

    assert message.format(path, folder=tmp_path) in str(error.value)
    assert list(tmp_path.iterdir()) == ([path] if content is not None else [])


def test_the_token_stays_the_same_over_a_restart_and_only_the_owner_can_read_it(open_file):
    document = open_file()
    token = document.token()
    change(document, DONE)
    document.close()

    again = open_file()

    assert again.token() == token
    assert len(token) == 16
    assert stat.S_IMODE((again.folder / "token").stat().st_mode) == 0o600


# Changing


def test_the_same_id_is_applied_once_also_after_a_restart(open_file):
    document = open_file()
    first = change(document, label(4, "iobj"), id="same")

    assert change(document, label(4, "obl"), id="same") == first
    assert document.undo("also once").after[0].text == STARS
    assert document.undo("also once").after[0].text == STARS
    document.close()
    document = open_file()

    assert document.changes["same"] == first
    assert change(document, label(4, "obl"), id="same") == first
    assert document.undo("also once").kind == "undo"
    assert document.revision == 2
    assert document.text(1) == STARS


def test_a_change_of_an_old_version_is_refused(open_file):
    document = open_file()
    change(document, label(4, "iobj"), id="a", versions=[0])
    assert document.version(1) == 1

    with pytest.raises(StaleError, match="This sentence was changed in another tab."):
        change(document, label(4, "obl"), id="b", versions=[0])
    change(document, label(4, "obl"), id="c", versions=[1])
    document.undo("d")

    assert document.version(1) == 3
    assert document.version(2) == 0


def test_only_neighbours_that_exist_can_be_replaced(open_file):
    document = open_file()
    joined = act(document, 1, Action("join_sentences"))[1]

    with pytest.raises(StaleError, match="not neighbours"):
        document.replace([1, 3], joined, what="join", id="a")
    document.replace([1, 2], joined, what="join", id="b")
    with pytest.raises(StaleError, match="This sentence does not exist any more. It was joined with another one."):
        change(document, DONE, key=2, id="c")
    for read in (document.text, document.sentence, document.status, document.place, document.is_changed):
        with pytest.raises(StaleError):
            read(2)


def test_the_time_spent_survives_a_restart_also_if_it_was_spent_before_the_first_change(open_file):
    document = open_file()
    document.spend(1, 2.5, 0)
    change(document, DONE, key=2)
    document.spend(1, 1.0, 3)
    document.spend(2, 0.5, 1)
    document.spend(99, 100.0, 100)
    document.close()

    assert open_file().spent == {1: (3.5, 3), 2: (0.5, 1)}


@pytest.mark.parametrize(
    ("comment", "status"),
    [
        ("# treefine_status = done", "done"),
        ("#treefine_status=doubtful", "doubtful"),
        ("# treefine_status = nearly done", "open"),
        ("# the treefine_status = done", "open"),
    ],
)
def test_the_status_is_a_comment_that_is_replaced_in_its_place(path, open_file, comment, status):
    path.write_text(f"{comment}\n{STARS}")

    document = open_file()
    assert document.status(1) == status
    for number, new in enumerate(["doubtful", "done", "open"]):
        change(document, Action("status", value=new), id=str(number))
        assert document.status(1) == new

    assert document.content().decode() == (
        STARS if "# treefine" in comment or status != "open" else f"{comment}\n{STARS}"
    )


# Marks


def test_without_marks_the_file_has_none_and_the_journal_has_all(path, open_file):
    document = open_file(has_marks=False)
    change(document, label(4, "iobj"), id="a")
    change(document, DONE, id="b")
    change(document, Action("keep", words=(1, 2)), key=2, id="c")
    document.close()

    assert path.read_text() == STARS.replace("\tobj", "\tiobj") + DOG + RAIN
    assert document.content(has_marks=False) == path.read_bytes()
    again = open_file(has_marks=False)
    assert again.status(1) == "done"
    assert b"Keep=Arc" in again.content()
    again.close()
    with_marks = open_file()
    with_marks.close()
    assert path.read_bytes() == with_marks.content(has_marks=True)


def test_a_sentence_with_new_marks_only_stays_byte_for_byte_in_a_file_without_marks(tmp_path, open_file):
    path = tmp_path / "file.conllu"
    mixed = MIXED.replace("SpaceAfter=No", "SpaceAfter=No|Keep=Head", 1)
    path.write_bytes(mixed.encode())

    document = open_file(path, has_marks=False)
    for number, action in enumerate([DONE, Action("keep", words=(1,)), Action("free", words=(4,))]):
        change(document, action, id=str(number))
    document.close()

    assert path.read_bytes() == mixed.encode()


# Bytes: edits change those of a sentence and no others, whatever the file looks like

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
    assert open_file(path).undo("c", is_redo=True).after[0].text.startswith("1\tcafé")


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
