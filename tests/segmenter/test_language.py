"""Identify languages, and warn only if a text is clearly in another language."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treefine.segmenter.language import LanguageCheck, code_of, identify, mismatch, table

SENTENCES = {
    "ar": "ذهب الولد إلى المدرسة في الصباح وعاد إلى البيت بعد الظهر",
    "bg": "Вчера ходихме в гората и събирахме гъби, защото времето беше много хубаво.",
    "cs": "Včera jsme šli do lesa a sbírali houby, protože bylo velmi hezké počasí.",
    "da": "I går gik vi i skoven og samlede svampe, fordi vejret var meget smukt.",
    "de": "Gestern sind wir in den Wald gegangen und haben Pilze gesammelt, weil das Wetter so schön war.",
    "el": "Χθες πήγαμε στο δάσος και μαζέψαμε μανιτάρια γιατί ο καιρός ήταν πολύ καλός.",
    "en": "Yesterday we went into the forest and picked mushrooms because the weather was so nice.",
    "es": "Ayer fuimos al bosque y recogimos setas porque hacía muy buen tiempo.",
    "fi": "Eilen menimme metsään ja poimimme sieniä, koska sää oli niin kaunis.",
    "fr": "Hier, nous sommes allés dans la forêt et nous avons cueilli des champignons parce qu'il faisait beau.",
    "hi": "कल हम जंगल में गए और मशरूम इकट्ठा किए क्योंकि मौसम बहुत अच्छा था।",
    "hu": "Tegnap elmentünk az erdőbe és gombát szedtünk, mert nagyon szép idő volt.",
    "it": "Ieri siamo andati nel bosco e abbiamo raccolto i funghi perché il tempo era molto bello.",
    "ja": "昨日は天気がとても良かったので、森に行ってきのこを採りました。",
    "ko": "어제는 날씨가 아주 좋아서 우리는 숲에 가서 버섯을 땄다.",
    "nl": "Gisteren zijn we naar het bos gegaan en hebben we paddenstoelen geplukt omdat het weer zo mooi was.",
    "pl": "Wczoraj poszliśmy do lasu i zbieraliśmy grzyby, bo pogoda była bardzo ładna.",
    "sv": "I går gick vi till skogen och plockade svamp eftersom vädret var så fint.",
    "tr": "Dün ormana gittik ve mantar topladık çünkü hava çok güzeldi.",
    "zh": "昨天天气很好，所以我们去森林里采蘑菇。",
}
UNCLEAR = {
    "English": SENTENCES["en"] * 2,
    "short German": "Guten Tag, wie geht es Ihnen?",
    "names": "Hans Müller, Karl Schmidt, Heinz Fischer, Jürgen Weber, Uwe Schneider, Klaus Becker, Dieter Hoffmann, "
    "Wolfgang Schulz, Günter Koch, Stefan Richter, Petra Neumann, Ursula Schwarz, Monika Zimmermann",
    "towns": "Berlin Hamburg Köln Frankfurt Stuttgart Düsseldorf Leipzig Dortmund Essen Bremen Dresden Hannover "
    "Nürnberg Duisburg Bochum",
    "addresses": "https://github.com/foo/bar/issues/12 http://www.4gamer.net/news/image/2005.09/2005091903_32big.html "
    "/usr/lib/python3/dist-packages/numpy/core/__init__.py",
    "code": "static void *malloc_or_die(size_t sz) { void *p = malloc(sz); if (!p) abort(); return p; } " * 2,
    "numbers": "12 3.4 5,600 " * 50,
    "medicines": "ibuprofen paracetamol diclofenac omeprazole simvastatin atorvastatin metformin amlodipine lisinopril "
    "acetylsalicylic acid methylphenidate potassium permanganate",
    "formulas": "Let α and β be the roots; then αβ = c/a.",
    "a quotation": "He said: Guten Tag, wie geht es Ihnen, mein Herr? Then he sat down and began to read the paper.",
    "nothing": "",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_is_identified(code):
    found = identify(SENTENCES[code])

    assert found.language == code
    assert 0.5 < found.sure <= 1


@pytest.mark.parametrize("text", UNCLEAR.values(), ids=UNCLEAR)
def test_no_warning_unless_the_language_is_clearly_another(text):
    assert mismatch(text, ["en"]) is None


@pytest.mark.parametrize("code", sorted({*SENTENCES} - {"en", "ar", "bg"}))
def test_a_text_in_another_language_is_described(code):
    assert mismatch(SENTENCES[code] * 2, ["en"]) == f"looks {table().names[code]}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Привет, как дела?", "is in Cyrillic script"),
        ("הממשלה החליטה אתמול", "is in Hebrew script"),
        ("今天天气很好，我们去公园吧。", "looks Chinese"),
    ],
)
def test_a_short_text_in_another_script_is_described(text, expected):
    assert mismatch(text, ["en"]) == expected


def test_a_text_may_be_in_any_of_several_languages():
    assert mismatch(SENTENCES["de"] * 2, ["en", "de"]) is None
    assert mismatch(SENTENCES["en"] * 2, ["de"]) == "looks English"


def test_a_model_whose_language_is_not_known_never_warns():
    assert LanguageCheck(()).warning(SENTENCES["de"] * 2) is None
    assert LanguageCheck(["Klingon"]).warning(SENTENCES["de"] * 2) is None
    assert LanguageCheck(["en", "Klingon"]).warning(SENTENCES["de"] * 2) is None


def test_the_warning_comes_once():
    check = LanguageCheck(["English"])

    assert (
        check.warning(SENTENCES["de"] * 2) == "The text looks German, but the model is for English; trees will be poor."
    )
    assert check.warning(SENTENCES["de"] * 2) is None


def test_short_texts_are_checked_together_and_only_at_the_start():
    german, later = LanguageCheck(["English"]), LanguageCheck(["English"])
    words = SENTENCES["de"].split() * 3

    assert sum(german.warning(each) is not None for each in words) == 1
    assert later.warning(SENTENCES["en"] * 30) is None
    assert later.warning(SENTENCES["de"] * 30) is None


def test_languages_have_names():
    assert code_of("Norwegian Nynorsk") == "nn"
    assert len(table().names) == 39


@settings(max_examples=20)
@given(st.text(max_size=30))
def test_any_text_can_be_identified(text):
    found = identify(text)

    assert found.language in {"", *table().names}
    assert 0 <= found.sure <= 1
    mismatch(text * 10, ["en", "xx"])
