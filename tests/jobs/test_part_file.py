"""Part files can be resumed after an interruption at any byte."""

import io
import json
import os
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.disks import full_disk
from tests.support.generated import conllu_files
from treefine.errors import AlignmentError, TreebankError, TreefineError
from treefine.jobs.part_file import open_part
from treefine.treebank.conllu import read_treebank, texts_in_file
from treefine.treebank.sentence import Sentence

SENTENCES = [Sentence.of_words(words.split()) for words in ("Dogs bark", "It sleeps now", "Yes")]
WHOLE = "".join(texts_in_file(SENTENCES)).encode()


def write(target, sentences, *, is_resumed):
    with open_part(target, is_json=False, is_resumed=is_resumed) as part:
        for text in texts_in_file(islice(sentences, part.skip, None), is_start=not part.skip):
            part.write(text)
        return part.skip


@given(contents=st.lists(conllu_files(), min_size=1, max_size=2), data=st.data())
def test_a_treebank_cut_at_any_byte_is_resumed_to_the_same_bytes(tmp_path_factory, contents, data):
    target = tmp_path_factory.mktemp("part") / "out.conllu"
    sentences = [sentence for content in contents for sentence in read_treebank(io.BytesIO(content))]
    whole = "".join(texts_in_file(sentences)).encode()
    cut = data.draw(st.integers(0, len(whole)))
    target.with_name("out.conllu.part").write_bytes(whole[:cut])

    write(target, sentences, is_resumed=True)

    assert target.read_bytes() == whole
    assert [path.name for path in target.parent.iterdir()] == ["out.conllu"]


def test_blank_lines_at_the_start_are_written_once(tmp_path):
    sentences = list(read_treebank(io.BytesIO(b"\n\n" + WHOLE)))
    (tmp_path / "out.part").write_bytes(b"\n\n" + SENTENCES[0].to_conllu().encode())

    write(tmp_path / "out", sentences, is_resumed=True)

    assert (tmp_path / "out").read_bytes() == b"\n\n" + WHOLE


def test_blank_lines_before_a_second_file_are_also_dropped_after_a_resume(tmp_path):
    second = list(read_treebank(io.BytesIO(b"\xef\xbb\xbf\n" + WHOLE)))
    whole = "".join(texts_in_file([*SENTENCES, *second])).encode()
    (tmp_path / "out.part").write_bytes(WHOLE + SENTENCES[0].to_conllu().encode())

    assert write(tmp_path / "out", [*SENTENCES, *second], is_resumed=True) == 3
    assert (tmp_path / "out").read_bytes() == whole


@given(texts=st.lists(st.text(), min_size=1, max_size=4), data=st.data())
def test_json_lines_cut_at_any_byte_are_resumed_to_the_same_bytes(tmp_path_factory, texts, data):
    target = tmp_path_factory.mktemp("part") / "out.json"
    lines = [json.dumps({"words": [{"form": text}]}) + "\n" for text in texts]
    whole = "".join(lines).encode()
    cut = data.draw(st.integers(0, len(whole)))
    target.with_name("out.json.part").write_bytes(whole[:cut])

    with open_part(target, is_json=True, is_resumed=True) as part:
        for line in lines[part.skip :]:
            part.write(line)

    assert target.read_bytes() == whole


def test_a_link_stays_and_its_target_keeps_its_mode(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")

    write(tmp_path / "link", SENTENCES, is_resumed=False)

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == WHOLE
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([*SENTENCES[:2], SENTENCES[0]], "Sentence 3 differs from the input."),
        (SENTENCES[:2], "The file has 3 sentences, but the input has fewer."),
    ],
)
def test_a_part_file_of_different_sentences_is_rejected_and_stays(tmp_path, sentences, message):
    (tmp_path / "out.part").write_bytes(WHOLE)

    with pytest.raises(AlignmentError) as error:
        write(tmp_path / "out", sentences, is_resumed=True)

    hint = "It may belong to a different input or model. To start over, replace --resume by --force."
    assert str(error.value) == f"{tmp_path}/out.part: {message} {hint}"
    assert (tmp_path / "out.part").read_bytes() == WHOLE
    assert not (tmp_path / "out").exists()


HOW = "The finished sentences are in out.part. To continue, run again with --resume."


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TreebankError("Bad.", hint="Fix it."), f"Bad. Fix it. {HOW}"),
        (AlignmentError("Different words."), "Different words."),  # resuming would not help
        (RuntimeError("A bug."), "A bug."),
    ],
)
def test_an_error_leaves_the_part_file_and_says_how_to_resume(tmp_path, error, message):
    def sentences():
        yield SENTENCES[0]
        raise error

    with pytest.raises(type(error)) as raised:
        write(tmp_path / "out", sentences(), is_resumed=False)

    assert str(raised.value) == message
    assert (tmp_path / "out.part").read_text() == SENTENCES[0].to_conllu()
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_the_part_file_and_says_how_to_resume(tmp_path):
    sentences = SENTENCES * 1000

    with pytest.raises(TreebankError) as error, full_disk(20_000):
        write(tmp_path / "out", sentences, is_resumed=False)
    write(tmp_path / "out", sentences, is_resumed=True)

    assert str(error.value) == (f"{tmp_path}/out: The output could not be written: File too large. {HOW}")
    assert (tmp_path / "out").read_bytes() == "".join(texts_in_file(sentences)).encode()


@pytest.mark.parametrize("is_resumed", [True, False])
def test_a_second_run_on_the_same_file_fails_and_changes_nothing(tmp_path, is_resumed):
    with open_part(tmp_path / "out", is_json=False, is_resumed=False) as part:
        for text in texts_in_file(SENTENCES):
            part.write(text)
        with pytest.raises(TreefineError, match="out: Another run is writing this file. Wait until it ends") as error:
            write(tmp_path / "out", SENTENCES, is_resumed=is_resumed)

    assert "--resume" in str(error.value)
    assert (tmp_path / "out").read_bytes() == WHOLE
    write(tmp_path / "out", SENTENCES, is_resumed=False)


@pytest.mark.parametrize("kind", ["link", "hard link", "other user", "pipe"])
def test_a_part_file_that_is_not_of_this_user_alone_is_refused_and_stays(tmp_path, monkeypatch, kind):
    precious, part = tmp_path / "precious.txt", tmp_path / "out.conllu.part"
    precious.write_text("precious")
    if kind == "link":
        part.symlink_to(precious)
    elif kind == "hard link":
        part.hardlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(part)
    else:
        part.write_bytes(b"precious")
        monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(TreebankError, match="out.conllu: The output could not be written: out.conllu.part is "):
        write(tmp_path / "out.conllu", SENTENCES, is_resumed=False)

    assert precious.read_text() == "precious"
    assert part.exists()
    assert not (tmp_path / "out.conllu").exists()
