"""A corpus is cut into blocks, and what they give, one after another, is what the whole gives."""

import dataclasses
import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import conllu_files
from treefine.cli.inputs import Input, Reading, Section, open_source, read_input
from treefine.cli.outputs import Job
from treefine.errors import TreebankError, TreefineError
from treefine.integrations.corpus.blocks import bytes_of, cut_jobs, place_in_file, sections_of
from treefine.treebank.conllu import read_blocks, texts_in_file
from treefine.treebank.formats import CONLLX
from treefine.treebank.sentence import Sentence

ODD_LINES = st.text("ab .\t\r\0\u3000\ufeffé", max_size=6)
CLEAN_LINES = st.sampled_from(["Dogs bark.", "a", "b b", "é a."])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("cut") / "corpus.data"


def sections(source, size):
    """Return the file as inputs, divided or whole; check that they cover all its bytes."""
    found = sections_of(source, size) or [Section(0, Path(source.name).stat().st_size)]
    assert [found[0].start, *(each.stop for each in found)] == [*(each.start for each in found), found[-1].stop]
    assert found[-1].stop == Path(source.name).stat().st_size
    return [dataclasses.replace(source, section=each) for each in found]


def sentences_in(source, parser=None):
    numbered = itertools.count(source.section.n_before + 1 if source.section else 1)
    return [each.sentence for each in read_input(source, parser, Reading(), numbered)]


@settings(max_examples=50)
@given(data=conllu_files(), size=st.integers(1, 300))
def test_the_sections_of_a_treebank_contain_all_its_bytes(path, data, size):
    path.write_bytes(data)
    source = Input(str(path), kind="conllu")

    parts = [texts_in_file(sentences_in(each)) for each in sections(source, size)]

    assert "".join(text for part in parts for text in part).encode() == data


@given(pieces=st.lists(st.sampled_from(["# a", "1\tx" + "\t_" * 8, "\n", "\r\n", "\n\n", "\r", "\ufeff", " "])))
def test_sections_of_any_file_contain_its_sentences_and_faults(path, pieces):
    path.write_text("".join(pieces), newline="")

    def read(source):
        try:
            with open_source(source) as stream:
                for each in read_blocks(stream):
                    yield each.to_conllu() if isinstance(each, Sentence) else [fault.message for fault in each.faults]
        except TreebankError as error:
            yield error.message

    source = Input(str(path), kind="conllu")
    whole = list(read(dataclasses.replace(source, section=Section(0, path.stat().st_size))))

    assert [each for part in sections(source, 1) for each in read(part)] == whole


def test_a_treebank_is_cut_at_the_first_blank_lines_after_the_size(path):
    path.write_bytes(b"# a\n1\n\n\n# b\n1\n\n# c\n1\n\n")

    assert sections_of(Input(str(path), kind="conllu"), 5) == [Section(0, 8), Section(8, 15), Section(15, 22)]
    assert sections_of(Input(str(path), kind="conllu"), 10) == [Section(0, 15), Section(15, 22)]


def test_only_the_parts_of_a_large_treebank_near_a_cut_are_read(path, monkeypatch):
    path.write_bytes(b"1\tx\n\n" * 200_000)
    n_read = []
    monkeypatch.setattr(
        "treefine.integrations.corpus.blocks._LINE_ENDS",
        type(
            "Counted", (tuple,), {"__contains__": lambda self, line: n_read.append(1) or tuple.__contains__(self, line)}
        )((b"\n", b"\r\n")),
    )

    assert len(sections_of(Input(str(path), kind="conllu"), 100_000)) == 10
    assert len(n_read) < 60


END = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n"])


@given(lines=st.lists(st.tuples(st.one_of(ODD_LINES, CLEAN_LINES), END), max_size=12), size=st.integers(1, 30))
def test_sentences_of_words_keep_their_numbers(path, lines, size):
    path.write_bytes("".join(line.replace("\r", "").replace("\0", "") + end for line, end in lines).encode())
    source = Input(str(path), kind="words")
    try:
        whole = sentences_in(source)
    except TreebankError:
        assert len(sections(source, size)) == 1
        return

    found = [each for part in sections(source, size) for each in sentences_in(part)]

    assert [each.to_conllu() for each in found] == [each.to_conllu() for each in whole]


@settings(max_examples=8)
@given(
    lines=st.lists(st.tuples(CLEAN_LINES, END), min_size=100, max_size=100),
    odd=st.dictionaries(st.integers(0, 99), ODD_LINES, max_size=30),
    size=st.integers(1, 300),
)
def test_lines_keep_their_numbers_cuts_and_notes(path, nlp, lines, odd, size):
    path.write_bytes("".join(odd.get(number, line) + end for number, (line, end) in enumerate(lines)).encode())
    source = Input(str(path), kind="lines")
    whole = sentences_in(source, nlp)

    found = [each for part in sections(source, size) for each in sentences_in(part, nlp)]

    assert [each.to_conllu() for each in found] == [each.to_conllu() for each in whole]


def test_plain_lines_are_cut(path):
    path.write_text("Dogs bark.\n" * 200)

    found = sections_of(Input(str(path), kind="lines"), 100)

    assert [each.n_before for each in found] == [0, 32, 64, 96, 128, 160, 192]


@pytest.mark.parametrize(("place", "odd"), [(32, " a"), (31, "a "), (32, "\ufeffa"), (31, "\0"), (32, "")])
def test_lines_are_not_cut_where_a_note_in_misc_would_be_lost(path, place, odd):
    path.write_text("".join(f"{odd if number == place else 'Dogs bark.'}\n" for number in range(100)))

    assert len(sections_of(Input(str(path), kind="lines"), 100)) == 3


def test_a_line_that_may_contain_several_sentences_stops_the_cutting(path):
    path.write_text("Dogs bark.\n" * 64 + "a " * 6_000 + "\n" + "Dogs bark.\n" * 640)

    assert [each.n_before for each in sections_of(Input(str(path), kind="lines"), 100)] == [0, 32]


@pytest.mark.parametrize(("name", "kind"), [("a.txt", "text"), ("a.data", None), ("a.conllu.gz", "conllu")])
def test_running_text_and_compressed_files_are_not_cut(tmp_path, name, kind):
    (tmp_path / name).write_bytes(b"1\tx\n\n" * 100)

    assert sections_of(Input(str(tmp_path / name), kind=kind), 50) == []


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.conllx").write_bytes(b"1\tx\n\n" * 30)
    Path("b.conllu").write_bytes(b"1\tx\n\n")
    kinds = {"a": "conllx", "b": "conllu"}
    return [
        Job((Input(f"{name}.{kind}", kind=kind),), f"out/{name}.{kind}", "conllu", CONLLX)
        for name, kind in kinds.items()
    ]


def test_blocks_are_named_after_their_file_and_numbered_if_it_is_cut(jobs):
    blocks = cut_jobs(jobs, trees_alone=True, size=60)

    assert [each.target for each in blocks] == [
        "out/a-00001.conllx",
        "out/a-00002.conllx",
        "out/a-00003.conllx",
        "out/b.conllu",
    ]
    assert [bytes_of(each) for each in blocks] == [65, 65, 20, 5]
    assert all(each.is_block and not each.can_be_resumed for each in blocks)


def test_files_are_not_cut_if_the_output_depends_on_the_batch(jobs):
    assert [each.target for each in cut_jobs(jobs, trees_alone=False, size=60)] == ["out/a.conllx", "out/b.conllu"]


def test_two_blocks_with_one_name_are_an_error(jobs):
    other = dataclasses.replace(jobs[1], target="out/a-00002.conllx")

    with pytest.raises(
        TreefineError, match=r"^out/a-00002\.conllx: Two blocks would be written to this file\. Rename one"
    ):
        cut_jobs([jobs[0], other], trees_alone=True, size=60)


def test_an_error_in_a_section_has_its_line_in_the_whole_file(path):
    path.write_bytes(b"1\tx\n\n" * 30)
    source = Input(str(path), kind="conllu", section=Section(75, 150))
    error = TreebankError("odd", path=str(path), line=4, sentence=2)

    assert str(place_in_file(error, source)) == f"{path}:34: odd"


def test_an_error_of_another_file_is_unchanged(path):
    source = Input(str(path), kind="words", section=Section(75, 150, 15))
    error = TreebankError("odd", path="other", line=4, sentence=2)

    assert str(place_in_file(error, source)) == "other:4: (sentence 2) odd"


def test_a_file_in_another_encoding_is_not_cut(tmp_path):
    path = tmp_path / "in.txt"
    text = "a b\nc d\n"
    path.write_text(text)
    assert len(sections_of(Input(str(path), kind="words"), 4)) == 2
    assert sections_of(Input(str(path), kind="words", encoding="latin-1"), 4) == []

    path.write_bytes(text.encode("utf-16"))
    assert sections_of(Input(str(path), kind="words"), 4) == []
