"""A model of several treebanks follows the habits of the one that the user names, or that the text shows."""

from dataclasses import replace
from functools import cache

import pytest

from tests.segmenter.test_language import SENTENCES
from tests.support.tiny import ALL_TAGS, sample, tiny_model
from tests.support.tiny_segmenter import tiny_network, tiny_segmenter
from treefine.config import ConfidenceSettings, TagSettings
from treefine.errors import LanguageWarning
from treefine.model.bundled import bundled_models
from treefine.model.parser_model import ParserModel
from treefine.parsing.parser import Parser
from treefine.segmenter.network import Alphabet
from treefine.segmenter.segmenter import Segmenter, TokenizationRules
from treefine.treebank.raw_text import text_of
from treefine.treebank.sentence import Sentence

TREEBANKS = ("de_gsd", "fr_gsd", "fr_sequoia", "ja_gsd")
WORDS = Sentence.of_words("Le chien dort sous la table de la cuisine .".split())


@cache
def model(**changes):
    found = tiny_model(tags=TagSettings("predicted", ("upos",)), treebanks=TREEBANKS)
    found.settings = replace(found.settings, main_treebanks=("de_gsd", "fr_sequoia", "ja_gsd"), **changes)
    return found


def parser(**options):
    habits = dict.fromkeys(("", *TREEBANKS), TokenizationRules())
    alphabet = Alphabet("ab .'\n12é中", 50)
    segmenter = Segmenter(tiny_network(n_treebanks=len(TREEBANKS)), alphabet, habits, treebanks=TREEBANKS)
    return Parser(model(), device="cpu", segmenter=segmenter, **options)


@pytest.mark.parametrize("asked", ["fr", "French", "FR", "fr_sequoia"])
def test_a_language_stands_for_its_main_treebank(asked):
    assert parser(language=asked).parse(WORDS).sentence.treebank == "fr_sequoia"


def test_the_language_of_a_text_is_identified_for_all_its_sentences():
    parses = parser()(SENTENCES["de"] * 2)

    assert {each.sentence.treebank for each in parses} == {"de_gsd"}


def test_texts_of_a_pipe_may_be_in_different_languages():
    texts = [SENTENCES["de"] * 2, SENTENCES["fr"] * 2, SENTENCES["ja"] * 2, "12 34"]

    found = [{each.sentence.treebank for each in parses} for parses in parser().pipe(texts)]

    assert found == [{"de_gsd"}, {"fr_sequoia"}, {"ja_gsd"}, {""}]


@pytest.mark.parametrize(("paths", "n"), [(("", ""), 20), (("de.conllu", "fr.conllu"), 2)], ids=["one", "two"])
def test_sentences_of_a_file_that_are_already_divided_are_identified_together(paths, n):
    german, french = (Sentence.of_words(SENTENCES[code].split()) for code in ("de", "fr"))
    sentences = [replace(german, path=paths[0])] * n + [replace(french, path=paths[1])] * n

    found = list(parser().stream_trees(sentences))

    assert [found[0].treebank, found[-1].treebank] == ["de_gsd", "fr_sequoia"]
    assert [each.forms for each in found] == [each.forms for each in sentences]


def test_a_sentence_keeps_its_treebank_unless_the_user_names_one():
    known = replace(WORDS, treebank="ja_gsd")

    assert parser().parse(known).sentence.treebank == "ja_gsd"
    assert parser(language="de").parse(known).sentence.treebank == "de_gsd"


@pytest.mark.parametrize(
    "text", [SENTENCES["pl"] * 3, SENTENCES["de"] * 3 + "\n\n" + SENTENCES["fr"] * 3], ids=["unknown", "mixed"]
)
def test_a_text_in_no_language_of_the_model_or_in_two_gives_one_warning(text):
    with pytest.warns(LanguageWarning) as seen:
        parser()(text)

    assert len(seen) == 1


def test_confidences_are_calibrated_by_treebank():
    hot = ConfidenceSettings(arc_temperature=5.0)
    calibrated = parser()
    calibrated.model.settings = replace(calibrated.model.settings, calibration={"fr_gsd": hot})
    sentences = [replace(WORDS, treebank=each) for each in ("fr_gsd", "de_gsd", "fr_gsd")]

    try:
        together = [each.word_confidences[0].arc for each in calibrated.stream(sentences)]
        alone = [calibrated.parse(each).word_confidences[0].arc for each in sentences]
        plain = parser(language="fr_gsd")
        plain.model.settings = replace(plain.model.settings, calibration={})
        before = plain.parse(WORDS).word_confidences[0].arc
    finally:
        calibrated.model.settings = replace(calibrated.model.settings, calibration={})

    assert together == pytest.approx(alone)
    assert together[0] == together[2] < before


def test_a_saved_model_knows_its_treebanks_and_its_calibration(tmp_path):
    several = tiny_model(tags=ALL_TAGS, treebanks=TREEBANKS)
    calibration = {"fr_gsd": ConfidenceSettings(arc_temperature=2.0)}
    several.settings = replace(several.settings, main_treebanks=("fr_gsd",), calibration=calibration)

    Parser(several, device="cpu").save(tmp_path / "model")
    loaded = Parser.from_pretrained(tmp_path / "model", device="cpu", language="fr")

    assert loaded.model.vocabulary.treebanks == TREEBANKS
    assert loaded.model.settings.calibration == calibration
    assert loaded.parse(sample(1)[0]).sentence.treebank == "fr_gsd"


def test_sentences_of_several_treebanks_share_a_batch(monkeypatch):
    sizes, forward = [], ParserModel.forward
    monkeypatch.setattr(
        ParserModel,
        "forward",
        lambda model, batch, *rest, **named: sizes.append(len(batch)) or forward(model, batch, *rest, **named),
    )
    sentences = [replace(WORDS, treebank=each) for each in TREEBANKS]

    parser(max_steps=1).parse(sentences)

    assert sizes == [len(TREEBANKS)]


def test_text_in_another_language_gives_one_warning():
    english, german = Parser(tiny_model(), segmenter=tiny_segmenter(), languages=("English",)), SENTENCES["de"] * 2

    with pytest.warns(LanguageWarning, match="The text looks German, but the model is for English") as seen:
        english(german)
    english(german)  # warnings are errors in tests

    assert len(seen) == 1
    assert seen[0].filename == __file__


# The model `multi`


needs_multi = pytest.mark.skipif("multi" not in bundled_models(), reason="needs the package treefine-multi")

TEXTS = {  # by language, in the script in its comment
    "sv": "Hunden sover under bordet i köket. Den drömmer om en katt.",  # Latin
    "vi": "Tôi đọc một quyển sách về lịch sử Việt Nam. Nó rất hay.",  # Latin with tone marks
    "ru": "Моя сестра читает новую книгу. Она живёт в большом городе.",  # Cyrillic
    "hy": "Իմ քույրը նոր գիրք է կարդում։ Նա ապրում է մեծ քաղաքում։",  # Armenian
    "fa": "برادر من کتاب تازه‌ای می‌خواند. او در شهر بزرگی زندگی می‌کند.",  # Arabic
    "ug": "مەن كىتاب ئوقۇيمەن. ئۇ شەھەردە تۇرىدۇ.",  # Arabic with vowels
    "th": "แมวนอนอยู่บนโต๊ะ ฉันอ่านหนังสือ",  # Thai
    "zh": "我的朋友住在一个大城市。他喜欢看书。",  # Han
    "ja": "昨日、東京で友達に会いました。とても楽しかったです。",  # kana and Han
    "ko": "나는 어제 친구를 만났다. 우리는 함께 책을 읽었다.",  # Hangul
}


@cache
def multi():
    return Parser.from_pretrained("multi", device="cpu")


@needs_multi
@pytest.mark.filterwarnings("ignore::treefine.errors.LanguageWarning")  # short texts may be in doubt
@pytest.mark.parametrize(("code", "text"), TEXTS.items(), ids=TEXTS)
def test_a_text_in_each_script_is_identified_and_parsed_without_losing_a_character(code, text):
    parses = multi()(text)

    assert {each.language for each in parses} == {code}
    assert text_of(each.sentence for each in parses) == text
    assert all(each.tree.heads[1:].count(0) == 1 for each in parses)
    assert all(word.upos != "_" and word.label != "_" for each in parses for word in each.words)


@needs_multi
def test_a_simple_sentence_has_the_right_tree():
    (parse,) = multi().using(language="sv")("Hunden sover under bordet.")

    assert parse.tree.heads[1:] == (2, 0, 4, 2, 2)
    assert parse.tree.labels[1:] == ("nsubj", "root", "case", "obl", "punct")
    assert parse.lemma == ("hund", "sova", "under", "bord", ".")
