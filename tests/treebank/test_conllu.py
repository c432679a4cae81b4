"""Treebanks as streams: whole files, parts of files, and files of plain words."""

import io

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.support.data import PACK, UNPACK
from tests.support.generated import conllu_files, conllu_lines
from treefine import Graph, Sentence, TreebankError, read_treebank, write_treebank
from treefine.errors import EmptyError
from treefine.treebank import conllu
from treefine.treebank.conllu import (
    CONLL09,
    CONLL09_PREDICTED,
    CONLLX,
    convert,
    cut_sentences,
    cut_treebank,
    format_of,
    line_faults,
    losses,
    read_blocks,
    read_words,
)
from treefine.treebank.sentence import CONLLU

ROW = b"1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n"
TWO = "# sent_id = a\n1\tx\t_\t_\t_\t_\t0\troot\t_\t_\n\n# sent_id = b\n1\ty\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


def parsed(lines: list[str]) -> Sentence:
    (sentence,) = read_treebank(io.BytesIO("\n".join([*lines, "", ""]).encode()))
    return sentence


def rewritten(content: bytes) -> bytes:
    return "".join(sentence.to_conllu() for sentence in read_treebank(io.BytesIO(content))).encode()


@given(conllu_files())
def test_every_valid_file_comes_back_byte_for_byte(content):
    assert rewritten(content) == content


@pytest.mark.parametrize(
    "name", ["constructs.conllu", "layout.conllu", "en_ewt-sample.conllu", "german.conll09", "penn.conllx"]
)
@pytest.mark.parametrize("suffix", ["", *PACK])
def test_every_fixture_is_written_back_byte_for_byte_with_any_compression(data, tmp_path, name, suffix):
    content = (data / name).read_bytes()
    source, target = tmp_path / f"in-{name}{suffix}", tmp_path / f"out-{name}{suffix}"
    source.write_bytes(PACK.get(suffix, bytes)(content))

    write_treebank(read_treebank(source), target)

    assert UNPACK.get(suffix, bytes)(target.read_bytes()) == content


@given(conllu_lines(), st.data())
def test_the_fast_check_agrees_with_the_full_check(lines, data):
    """Compare the fast check with the full check on lines with one damaged cell."""
    rows = [line.split("\t") for line in lines]
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, len(rows[row]) - 1))
    rows[row][column] = data.draw(
        st.sampled_from(["", "1", "0", "2", "01", "+1", " 1", "٣", "1-2", "2.1", "_", "99", "#"])
    )
    damaged = ["\t".join(row) for row in rows]
    assume(all(damaged))  # an empty line would end the sentence
    faults = list(line_faults(damaged, 1, CONLLU, TreebankError))

    reported = []
    content = "\n".join([*damaged, "", ""]).encode()
    read = list(read_treebank(io.BytesIO(content), on_error="skip", on_skip=reported.append))

    assert [(e.line, e.word, e.message) for e in reported] == [(e.line, e.word, e.message) for e in faults]
    assert len(read) == (not faults)


def test_sentences_know_their_place_in_the_file():
    first, second = read_treebank(io.BytesIO(("\n" + TWO).encode()))

    assert (first.number, first.line, first.path) == (1, 2, "<stream>")
    assert (second.number, second.line) == (2, 5)
    assert str(second.error("Look.", word=1)) == "<stream>:6: (b, word 1) Look."


def test_skipping_reports_all_faults_and_keeps_the_other_sentence_numbers(capsys):
    broken = TWO.replace("\ty\t", "\ty\tz\t") + TWO.replace("# sent_id = a", "# sent_id = c")

    sentences = list(read_treebank(io.BytesIO(broken.encode()), on_error="skip"))

    assert [(sentence.sent_id, sentence.number) for sentence in sentences] == [("a", 1), ("c", 3), ("b", 4)]
    assert capsys.readouterr().err == "skipped: <stream>:5: (b) The line must have 10 columns, not 11.\n"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (b"\xe9", "Byte 0xe9 is not UTF-8. Convert it to UTF-8: iconv -f latin-1 -t UTF-8."),
        (b"y\0", "The line contains a null byte. Remove it."),
    ],
)
def test_an_invalid_byte_affects_only_its_own_sentence(form, message):
    reported = []
    content = TWO.encode().replace(b"\ty\t", b"\t%s\t" % form) + TWO.encode()

    sentences = list(read_treebank(io.BytesIO(content), on_error="skip", on_skip=reported.append))

    assert [sentence.number for sentence in sentences] == [1, 3, 4]
    assert [str(error) for error in reported] == [f"<stream>:5: (sentence 2) {message}"]


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n"])
def test_sentences_of_several_files_can_be_written_to_one_file(tmp_path, end):
    one = "\ufeff\n" + TWO.rstrip("\n") + end
    sentences = [*read_treebank(io.BytesIO(one.encode()))]

    write_treebank([*sentences, *sentences], tmp_path / "joined.conllu")
    write_treebank(reversed(sentences), tmp_path / "turned.conllu")

    joined, turned = ((tmp_path / f"{name}.conllu").read_bytes().decode() for name in ("joined", "turned"))
    assert joined == one + "\n" * (2 - min(len(end), 2)) + one.removeprefix("\ufeff\n")
    assert [s.sent_id for s in read_treebank(tmp_path / "turned.conllu")] == ["b", "a"]
    assert "\ufeff" not in turned


# A file is read in stretches of whole sentences, wherever they are cut

PARTS = [b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"# text", b"\0", b"\xff", b"2\tb\n", ROW, ROW + b"\n", ROW + b"\r\n"]


def found(data: bytes, size: int = 1 << 16) -> list:
    """Return everything that is read: sentences, the text of faults, and the final error."""
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conllu, "_CHUNK", size)
        try:
            for read in read_blocks(io.BytesIO(data)):
                is_fault = isinstance(read, conllu.Unreadable)
                place = (read.line, read.number)
                results.append((place, tuple(map(str, read.faults)) if is_fault else (read, read.layout)))
        except TreebankError as error:
            results.append((type(error), str(error)))
    return results


@given(data=conllu_files() | st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join), size=st.integers(1, 600))
@example(data=b"\n\n\xef\xbb\xbf" + ROW, size=1)
@example(data=ROW + b"\n\xef\xbb\xbf" + ROW, size=1)
@example(data=ROW + b"\n\r\n\n" + ROW + b"\n", size=len(ROW) + 1)
def test_the_sizes_of_stretches_do_not_change_sentences_faults_and_places(data, size):
    assert found(data, size) == found(data)


@given(conllu_files(), st.integers(1, 600))
def test_stretches_and_single_blocks_give_back_every_byte(data, size):
    stretches = list(cut_treebank(io.BytesIO(data), "x", size=size))

    assert b"".join(each.data for each in stretches) == data
    assert b"".join(each.data for each in cut_sentences(data, "x")) == data
    assert [each.line for each in stretches] == [
        1 + b"".join(each.data for each in stretches[:number]).count(b"\n") for number in range(len(stretches))
    ]


@pytest.mark.parametrize("data", [b"", b"\n\r\n", b"\xef\xbb\xbf\n"])
def test_a_file_without_sentences_is_an_error(data):
    with pytest.raises(EmptyError, match="x: The file contains no sentences"):
        list(cut_treebank(io.BytesIO(data), "x"))


def test_the_error_for_a_file_that_is_no_treebank_names_the_first_line(monkeypatch):
    monkeypatch.setattr(conllu, "_LONGEST", 1 << 20)

    with pytest.raises(TreebankError, match="x:3: There is not one whole sentence in the next 1 MiB"):
        list(cut_treebank(io.BytesIO(ROW + b"\n" + ROW * 60_000), "x"))


@pytest.mark.parametrize("before", [b"", ROW])
def test_a_file_of_blank_lines_is_rejected_early(before):
    stream = io.BytesIO(before + b"\n" * 20_000_000)

    with pytest.raises(
        TreebankError, match="x:1: There are more than 65,536 blank lines in a row. Is this a treebank?"
    ):
        list(cut_treebank(stream, "x"))
    assert stream.tell() <= conllu._STRETCH  # one part


# Plain words, one sentence per line


def words_in(text):
    return list(read_words(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "in.txt"))


def test_each_line_is_a_sentence_and_spaces_separate_its_words():
    first, second = words_in("A dog barks .\r\n\n  It\tsleeps   now  ")

    assert first.forms == ("A", "dog", "barks", ".")
    assert first.comments == ("# sent_id = 1", "# text = A dog barks .")
    assert second.forms == ("It", "sleeps", "now")
    assert (second.sent_id, second.line, second.number) == ("2", 3, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"A dog\ncaf\xe9 open\n", "in.txt:2: Byte 0xe9 is not UTF-8. Convert it to UTF-8: iconv -f latin-1"),
        ("A dog\nA d\0g\n", "in.txt:2: (sentence 2) 'd\\x00g' cannot be a cell of a treebank: it is"),
        ("\n \n", "in.txt: The file contains no sentences."),
    ],
)
def test_a_file_that_is_not_plain_words_is_an_error_with_its_line(text, message):
    with pytest.raises(TreebankError) as error:
        words_in(text)

    assert str(error.value).startswith(message)


# Other formats


@given(conllu_lines())
@pytest.mark.parametrize("to", [CONLLX, CONLL09])
def test_words_lemmas_features_and_trees_survive_every_conversion(to, lines):
    sentence = parsed(lines)

    there = convert(sentence, to)
    back = convert(there, CONLLU)

    assert (there.format, len(there.columns)) == (to, len(to.names))
    for name in ("forms", "lemma", "feats", "arcs"):
        assert getattr(there, name) == getattr(back, name) == getattr(sentence, name)


def test_conllx_gets_both_tags_and_conll09_fills_gold_and_predicted_columns(data):
    sentence = list(read_treebank(data / "constructs.conllu"))[1]

    conllx, conll09 = (convert(sentence, to).to_conllu().split("\n") for to in (CONLLX, CONLL09))

    assert conllx[0] == "1\tAnn\tAnn\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\t_"
    assert dict(losses(sentence, CONLLX)) == {"comment": 3, "empty node": 1, "DEPS": 7, "MISC": 2}
    assert conll09[0].split("\t") == "1 Ann Ann Ann NNP NNP Number=Sing Number=Sing 2 2 nsubj nsubj _ _".split()
    assert losses(sentence, CONLL09)["UPOS"] == 7
    assert not losses(Sentence.of_words(["Ann"], upos=["PROPN"]), CONLL09)  # the only tag stays


def test_conll09_is_read_with_gold_or_predicted_tags(data):
    gold = next(read_treebank(data / "german.conll09"))
    predicted = next(read_treebank(data / "german.conll09", format="conll09-predicted"))

    assert gold.xpos == ("ART", "NN", "VVFIN", "$.")
    assert predicted.xpos == ("ART", "NE", "VVFIN", "$.")
    assert (gold.lemma[2], predicted.lemma[2]) == ("schlafen", "schlaf")
    assert convert(predicted, CONLLU).to_conllu().split("\n")[1] == "2\tKatze\tKatze\t_\tNE\t*\t3\tSB\t_\t_"
    assert convert(predicted, CONLL09) is predicted
    assert losses(predicted, CONLLU)["LEMMA"] == losses(gold, CONLLU)["PLEMMA"]
    assert dict(losses(gold, CONLLU)) == {"PLEMMA": 2, "PPOS": 1, "PFEAT": 1, "FILLPRED": 1, "PRED": 1, "APRED": 1}


def test_changes_to_a_conll09_sentence_go_to_the_columns_they_were_read_from(data):
    predicted = next(read_treebank(data / "german.conll09", format="conll09-predicted"))

    changed = predicted.with_tags(xpos=["A", "B", "C", "D"]).with_graph(Graph.of_words([0, 1, 2, 3], ["r"] * 4))

    first = changed.to_conllu().split("\n")[0].split("\t")
    assert first == "1 Die der der ART A Nom Nom 0 2 r NK _ _ _".split()
    with pytest.raises(TreebankError, match="CoNLL-2009 has no column for UPOS"):
        predicted.with_tags(upos=["A"] * 4)


@pytest.mark.parametrize(
    ("path", "form"), [("a.conllu", CONLLU), ("dir.conllu/a.CONLLX.gz", CONLLX), ("a.conll09", CONLL09), ("-", CONLLU)]
)
def test_the_file_name_decides_the_format(path, form):
    assert format_of(path) == form
    assert format_of(path, "conll09-predicted") == CONLL09_PREDICTED
