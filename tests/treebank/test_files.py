import errno
import gzip
import io
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.data import PACK
from treefine import Sentence, TreebankError, read_treebank, write_treebank
from treefine.treebank.files import COMPRESSED, EncodedPath, check_compression, open_input, open_output, utf8_lines

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


def test_a_file_can_be_rewritten_onto_itself(data, tmp_path):
    content = (data / "constructs.conllu").read_bytes()
    target = tmp_path / "same.conllu"
    target.write_bytes(content)

    assert write_treebank(read_treebank(target), target) == 5

    assert target.read_bytes() == content


def test_new_files_have_default_permissions_and_replaced_files_keep_theirs(tmp_path):
    for name, mode in (("usual", None), ("secret.conllu", 0o600)):
        (tmp_path / name).write_text("old")
        if mode:
            (tmp_path / name).chmod(mode)

    for name in ("new.conllu", "secret.conllu"):
        write_treebank([SENTENCE], tmp_path / name)

    assert (tmp_path / "new.conllu").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert (tmp_path / "secret.conllu").stat().st_mode & 0o777 == 0o600


def test_a_link_still_points_to_the_file_that_was_written(tmp_path):
    (tmp_path / "real.conllu").write_text("old")
    (tmp_path / "link.conllu").symlink_to(tmp_path / "real.conllu")

    write_treebank([SENTENCE], tmp_path / "link.conllu")

    assert (tmp_path / "link.conllu").is_symlink()
    assert (tmp_path / "real.conllu").read_text() == SENTENCE.to_conllu()


def test_a_device_is_written_to_and_not_replaced():
    write_treebank([SENTENCE], "/dev/null")

    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (".", "This is a directory. Name a file to write."),
        ("no/x.conllu", "The output could not be written: No such file or directory. Create the folder no first."),
    ],
)
def test_the_error_says_why_a_file_cannot_be_written(tmp_path, monkeypatch, target, message):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(TreebankError) as error:
        write_treebank([SENTENCE], target)

    assert str(error.value) == f"{target}: {message}"


WRITE = """
import resource, sys
from treefine import Sentence, TreebankError, write_treebank
if sys.argv[1] == "out.conllu":
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_treebank([Sentence.of_words(["a"])] * 100_000, sys.argv[1])
except TreebankError as error:
    print(error, file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this machine")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("out.conllu", "out.conllu: The output could not be written: File too large."),
        ("/dev/full", "/dev/full: The output could not be written: No space left on device."),
        ("-", "<stdout>: The output could not be written: No space left on device."),
    ],
)
def test_a_full_disk_is_reported_and_the_old_file_stays(tmp_path, target, message):
    (tmp_path / "out.conllu").write_text("old")

    with open("/dev/full", "wb") as full:  # noqa: PTH123
        command = [sys.executable, "-c", WRITE, target]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.stderr.splitlines()[0] == message
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.conllu", "old")]


def test_the_temporary_file_of_a_killed_run_is_reused_and_none_is_left(tmp_path):
    killed = "import os, sys; from treefine.treebank.files import open_output\n"
    killed += "with open_output(sys.argv[1]) as stream: stream.write(bytes(10**6)); os.kill(os.getpid(), 9)"
    target = tmp_path / "out.html"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", killed, target], check=False)
        assert [path.name for path in tmp_path.iterdir()] == [".out.html.tmp"]

    with open_output(target) as stream:
        stream.write(b"new")

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.html", b"new")]


def test_two_runs_that_write_the_same_file_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "out.html"

    with open_output(target) as first:
        first.write(b"first")
        with open_output(target) as second:
            second.write(b"second")
        assert target.read_bytes() == b"second"

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.html", b"first")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_a_file_system_without_locks_gets_no_temporary_file_with_a_fixed_name(tmp_path, monkeypatch):
    def fail(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)

    with open_output(tmp_path / "out.html") as stream:
        stream.write(b"new")
        assert not (tmp_path / ".out.html.tmp").exists()

    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
@pytest.mark.parametrize(("name", "code"), [("fcntl.flock", errno.ENOLCK), ("os.open", errno.EMFILE)])
def test_a_run_that_cannot_lock_the_temporary_file_leaves_it_to_the_run_that_writes_it(
    tmp_path, monkeypatch, name, code
):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    with open_output(tmp_path / "out.html") as first:
        first.write(b"first")
        monkeypatch.setattr(name, fail)
        with open_output(tmp_path / "out.html") as second:
            second.write(b"second")
        assert (tmp_path / "out.html").read_bytes() == b"second"

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
    for name in ("a.conllu.gz", "b.conllu.gz"):
        with open_output(tmp_path / name) as stream:
            stream.write(b"x" * 1000)

    assert (tmp_path / "a.conllu.gz").read_bytes() == (tmp_path / "b.conllu.gz").read_bytes()
    assert (tmp_path / "a.conllu.gz").read_bytes()[3:8] == bytes(5)  # no name and no time in the header


def test_a_dash_is_standard_input_and_output(data):
    content = (data / "constructs.conllu").read_bytes()
    code = "from treefine import read_treebank, write_treebank; write_treebank(read_treebank('-'), '-')"

    done = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True)

    assert done.stdout == content


def test_an_open_file_can_be_read(data):
    with (data / "constructs.conllu").open("rb") as stream:
        names = {sentence.path for sentence in read_treebank(stream)}
    assert names == {str(data / "constructs.conllu")}
    assert next(read_treebank(io.BytesIO(SENTENCE.to_conllu().encode()))).path == "<stream>"


class Piped(io.RawIOBase):
    """A pipe that returns a few bytes at a time."""

    def __init__(self, content):
        self.rest = content

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self.rest[: min(10, len(buffer))]
        self.rest = self.rest[len(data) :]
        buffer[: len(data)] = data
        return len(data)


@pytest.mark.parametrize("suffix", ["", *PACK])
@given(content=st.text(max_size=30).map(str.encode))
@example(b"")
@example(b"BZh9 is not compressed")
@example(b"x" * 100_000)
def test_compressed_standard_input_is_decompressed(suffix, content):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Piped(PACK.get(suffix, bytes)(content)))))

        with open_input("-") as stream:
            assert stream.read() == content


def test_compressed_standard_input_is_streamed(monkeypatch):
    packed = io.BytesIO(gzip.compress(random.Random(1).randbytes(1_000_000)))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(packed))

    with open_input("-") as stream:
        assert len(stream.read(100)) == 100
        assert packed.tell() < 500_000


@pytest.mark.parametrize("suffix", PACK)
def test_truncated_compressed_standard_input_is_an_error(suffix, monkeypatch):
    packed = PACK[suffix](SENTENCE.to_conllu().encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed[:-4])))

    with pytest.raises(TreebankError) as error:
        list(read_treebank("-"))

    assert str(error.value) == "<stdin>: The compressed file ends too early. Download or compress it again."


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("theirs.conll", " Did you mean theirs.conllu?"),
        ("thiers.conllu.gz", " Did you mean theirs.conllu?"),
        ("sub/../theirs", " Did you mean sub/../theirs.conllu?"),
        ("b.conllu", ""),
        ("nowhere/theirs.conllu", ""),
    ],
)
def test_the_error_for_a_missing_file_suggests_a_similar_name(tmp_path, monkeypatch, name, hint):
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    for other in ("a.conllu", "theirs.conllu", "theirs.conllu.gz"):
        Path(other).touch()

    with pytest.raises(TreebankError) as error:
        list(read_treebank(name))

    assert str(error.value) == f"{name}: There is no such file.{hint}"


def test_several_zstd_frames_are_one_file(tmp_path):
    path = tmp_path / "in.zst"
    path.write_bytes(PACK[".zst"](b"one ") + PACK[".zst"](b"") + PACK[".zst"](b"two"))

    with open_input(path) as stream:
        assert stream.read() == b"one two"


def test_a_large_zstd_file_is_streamed(tmp_path):
    path = tmp_path / "in.zst"
    path.write_bytes(PACK[".zst"](bytes(10_000_000)))

    with open_input(path) as stream:
        assert sum(map(len, iter(lambda: stream.read(100_000), b""))) == 10_000_000


def test_a_missing_zstandard_is_reported_before_work_starts(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(TreebankError, match=r"^Files that end in .zst need the package zstandard. Install it: pip"):
        check_compression("out.conllu.zst")
    check_compression("out.conllu.gz")


def test_the_tests_cover_all_kinds_of_compression():
    assert tuple(PACK) == COMPRESSED


ENCODINGS = ["utf-8", "utf-16", "utf-16-be", "utf-32", "latin-1", "cp1252", "gb18030", "koi8-r"]


@given(st.sampled_from(ENCODINGS), st.text("a\n\réЖ€漢😀", max_size=9), st.sampled_from([1, 20_000]))
@settings(max_examples=30)
def test_a_file_in_another_encoding_is_read_as_utf8(encoding, text, times):
    content = (text * times).encode(encoding, "ignore")  # without the letters that the encoding lacks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        with open_input(EncodedPath("-", encoding)) as stream:
            found = stream.read()

    assert found == content.decode(encoding).encode()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("suffix", ["", *PACK])
def test_a_byte_order_mark_shows_the_encoding(tmp_path, encoding, suffix):
    path = tmp_path / f"in.txt{suffix}"
    path.write_bytes(PACK.get(suffix, bytes)("été\n".encode(encoding)))

    with open_input(path) as stream:
        assert list(stream) == ["été\n".encode()]


@pytest.mark.parametrize(
    ("encoding", "content", "message"),
    [
        ("ascii", b"a\nb\xe9\n", ":2: Byte 0xe9 is not ascii. Convert it to UTF-8."),
        ("utf-16-be", "a\n\n".encode("utf-16-be") + b"\xdc\x00", ":3: Byte 0xdc is not utf-16-be. Convert it"),
        ("utf-16", b"\xfe\xff\0a\0\n\0", ":2: Byte 0x00 is not utf-16. Convert it"),
        ("utf-8", b"a\nb\xe9\n", ":2: Byte 0xe9 is not UTF-8. Convert it"),
        ("shift_jis", b"a\n" * 50_000 + b"\x81", ":50001: Byte 0x81 is not shift_jis."),
    ],
)
def test_a_byte_that_is_not_in_the_encoding_is_reported_with_its_line(tmp_path, encoding, content, message):
    path = tmp_path / "in.txt"
    path.write_bytes(content)

    with pytest.raises(TreebankError) as error, open_input(EncodedPath(path, encoding)) as stream:
        list(utf8_lines(stream, str(path)))

    assert str(error.value).startswith(f"{path}{message}")


@pytest.mark.parametrize("name", ["latin-99", "base64", "rot13", "undefined", "", "a\0b", "é" * 300])
def test_an_unknown_encoding_is_an_error(name):
    with pytest.raises(TreebankError, match="There is no encoding .* Encodings have the names that Python uses"):
        EncodedPath("in.txt", name)


def test_a_treebank_in_another_encoding_can_be_read(tmp_path):
    path = tmp_path / "in.conllu"
    path.write_bytes(Sentence.of_words(["été"]).to_conllu().encode("latin-1"))

    assert next(read_treebank(path, encoding="latin-1")).forms == ("été",)
