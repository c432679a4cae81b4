import errno
import io
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.data import PACK
from treefine import Sentence, TreebankError, read_treebank, write_treebank
from treefine.treebank.files import check_compression, open_input, open_output

SENTENCE = Sentence.of_words(["a"])


def failing():
    yield SENTENCE
    raise RuntimeError("half-way")


def test_a_file_is_replaced_only_when_the_new_one_is_complete(tmp_path):
    target = tmp_path / "out.conllu"
    target.write_text("old")

    with pytest.raises(RuntimeError, match="half-way"):
        write_treebank(failing(), target)

    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.conllu"]


def test_new_files_have_default_permissions_and_replaced_files_keep_theirs(tmp_path):
    usual, new, secret = (tmp_path / name for name in ("usual", "new.conllu", "secret.conllu"))
    usual.touch()
    secret.touch(mode=0o600)

    for path in (new, secret):
        write_treebank([SENTENCE], path)

    assert new.stat().st_mode == usual.stat().st_mode
    assert secret.stat().st_mode & 0o777 == 0o600


def test_a_link_still_points_to_the_file_that_was_written(tmp_path):
    real, link = tmp_path / "real.conllu", tmp_path / "link.conllu"
    link.symlink_to(real)

    write_treebank([SENTENCE], link)

    assert link.is_symlink()
    assert real.read_text() == SENTENCE.to_conllu()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (".", r"\.: This is a directory. Name a file to write."),
        ("no/x", "no/x: The output could not be written: No such file or directory. Create the folder no first."),
    ],
)
def test_the_error_says_why_a_file_cannot_be_written(tmp_path, monkeypatch, target, message):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(TreebankError, match=message):
        write_treebank([SENTENCE], target)


def test_two_runs_that_write_the_same_file_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "out.html"

    with open_output(target) as first:
        first.write(b"first")
        with open_output(target) as second:
            second.write(b"second")
        assert target.read_bytes() == b"second"

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.html", b"first")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows reports such errors earlier")
def test_an_error_of_closing_is_reported_before_the_old_file_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "out.html").write_bytes(b"old")
    close = os.close

    def fail(number):
        close(number)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr("os.close", fail)

    with pytest.raises(TreebankError, match="Disk quota exceeded"), open_output(tmp_path / "out.html") as stream:
        stream.write(b"new")

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.html", b"old")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no temporary files with a fixed name")
def test_an_interrupt_just_after_the_rename_does_not_remove_the_temporary_file_of_the_next_run(tmp_path, monkeypatch):
    rename = Path.replace

    def rename_and_stop(scratch, target):
        rename(scratch, target)
        scratch.write_bytes(b"of the next run")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", rename_and_stop)

    with pytest.raises(KeyboardInterrupt), open_output(tmp_path / "out.html") as stream:
        stream.write(b"new")

    assert (tmp_path / "out.html").read_bytes() == b"new"
    assert (tmp_path / ".out.html.tmp").read_bytes() == b"of the next run"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no temporary files with a fixed name")
@pytest.mark.parametrize("kind", ["of another user", "a hard link", "a symbolic link", "a named pipe"])
def test_a_file_with_the_name_of_the_temporary_file_is_reused_only_if_it_is_an_ordinary_file_of_the_user(
    tmp_path, monkeypatch, kind
):
    scratch, other = tmp_path / ".out.html.tmp", tmp_path / "other"
    other.write_bytes(b"old")
    if kind == "of another user":
        scratch.write_bytes(b"old")
        monkeypatch.setattr("os.geteuid", lambda: scratch.stat().st_uid + 1)
    elif kind == "a hard link":
        os.link(other, scratch)
    elif kind == "a symbolic link":
        scratch.symlink_to(other)
    else:
        os.mkfifo(scratch)
    before = scratch.lstat()

    with open_output(tmp_path / "out.html") as stream:
        stream.write(b"new")

    assert (tmp_path / "out.html").read_bytes() == b"new"
    assert other.read_bytes() == b"old"
    assert (scratch.lstat().st_ino, scratch.lstat().st_size) == (before.st_ino, before.st_size)


def test_equal_content_is_compressed_to_equal_bytes(tmp_path):
    with open_output(tmp_path / "a.conllu.gz") as stream:
        stream.write(b"x" * 1000)

    assert (tmp_path / "a.conllu.gz").read_bytes()[3:8] == bytes(5)  # no name and no time in the header


@pytest.mark.parametrize("suffix", ["", *PACK])
@pytest.mark.parametrize("content", [b"", b"BZh9 is not compressed"])
def test_compressed_standard_input_is_decompressed(monkeypatch, suffix, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PACK.get(suffix, bytes)(content))))

    with open_input("-") as stream:
        assert stream.read() == content


@pytest.mark.parametrize("suffix", PACK)
def test_truncated_compressed_standard_input_is_an_error(suffix, monkeypatch):
    packed = PACK[suffix](SENTENCE.to_conllu().encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed[:-4])))

    with pytest.raises(TreebankError, match="<stdin>: The compressed file ends too early. Download or compress it"):
        list(read_treebank("-"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("thiers.conllu.gz", " Did you mean theirs.conllu?"),
        ("sub/../theirs", " Did you mean sub/../theirs.conllu?"),
        ("nowhere/theirs.conllu", ""),
    ],
)
def test_the_error_for_a_missing_file_suggests_a_similar_name(tmp_path, monkeypatch, name, hint):
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    for other in ("a.conllu", "theirs.conllu", "theirs.conllu.gz"):
        Path(other).touch()

    with pytest.raises(TreebankError, match=f"{name}: There is no such file.{re.escape(hint)}$"):
        list(read_treebank(name))


def test_several_zstd_frames_are_one_file(tmp_path):
    path = tmp_path / "in.zst"
    path.write_bytes(PACK[".zst"](b"one ") + PACK[".zst"](b"") + PACK[".zst"](b"two"))

    with open_input(path) as stream:
        assert stream.read() == b"one two"


def test_a_missing_zstandard_is_reported_before_work_starts(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(TreebankError, match=r"^Files that end in .zst need the package zstandard. Install it: pip"):
        check_compression("out.conllu.zst")


@pytest.mark.parametrize("suffix", PACK)
def test_a_file_that_is_not_compressed_as_its_name_says_is_an_error(tmp_path, suffix):
    path = tmp_path / f"in.conllu{suffix}"
    path.write_bytes(b"1\tnot compressed")

    with pytest.raises(TreebankError, match=f"This is not a {suffix} file, or it is damaged. If it is not compressed"):
        list(read_treebank(path))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_another_unicode_encoding_is_an_error_with_the_way_out(tmp_path, encoding):
    path = tmp_path / "in.txt.gz"
    path.write_bytes(PACK[".gz"]("été\n".encode(encoding)))

    with pytest.raises(TreebankError, match="This file is UTF-16 or UTF-32. Convert it to UTF-8"), open_input(path):
        pass
