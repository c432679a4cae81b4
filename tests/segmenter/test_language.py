"""Identify languages, and warn only if a text is clearly in another language."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treefine.segmenter import language
from treefine.segmenter.language import LanguageCheck, grams, identify, mismatch, table

SENTENCES = {
    "de": "Gestern sind wir in den Wald gegangen und haben Pilze gesammelt, weil das Wetter so schön war.",
    "en": "Yesterday we went into the forest and picked mushrooms because the weather was so nice.",
    "fi": "Eilen menimme metsään ja poimimme sieniä, koska sää oli niin kaunis.",
    "fr": "Hier, nous sommes allés dans la forêt et nous avons cueilli des champignons parce qu'il faisait beau.",
    "ja": "昨日は天気がとても良かったので、森に行ってきのこを採りました。",
    "ko": "어제는 날씨가 아주 좋아서 우리는 숲에 가서 버섯을 땄다.",
    "pl": "Wczoraj poszliśmy do lasu i zbieraliśmy grzyby, bo pogoda była bardzo ładna.",
    "tr": "Dün ormana gittik ve mantar topladık çünkü hava çok güzeldi.",
    "zh": "昨天天气很好，所以我们去森林里采蘑菇。",
}
UNCLEAR = {
    "English": SENTENCES["en"] * 2,
    "short German": "Guten Tag, wie geht es Ihnen?",
    "names": "Hans Müller, Karl Schmidt, Heinz Fischer, Jürgen Weber, Uwe Schneider, Klaus Becker, Dieter Hoffmann, "
    "Wolfgang Schulz, Günter Koch, Stefan Richter, Petra Neumann, Ursula Schwarz, Monika Zimmermann",
    "addresses": "https://github.com/foo/bar/issues/12 http://www.4gamer.net/news/image/2005.09/2005091903_32big.html "
    "/usr/lib/python3/dist-packages/numpy/core/__init__.py",
    "code": "static void *malloc_or_die(size_t sz) { void *p = malloc(sz); if (!p) abort(); return p; } " * 2,
    "numbers": "12 3.4 5,600 " * 50,
    "medicines": "ibuprofen paracetamol diclofenac omeprazole simvastatin atorvastatin metformin amlodipine lisinopril "
    "acetylsalicylic acid methylphenidate potassium permanganate",
    "a quotation": "He said: Guten Tag, wie geht es Ihnen, mein Herr? Then he sat down and began to read the paper.",
    "nothing": "",
}
MODEL = (  # the languages of a multilingual model
    "af cy da de en es fa fi fo fr ga gd hr hy id is it ja ko lt lv mt nb nl nn pt ro ru sl sv th tr ug uk vi wo zh"
).split()
CLOSE = {
    "nb": "Jeg vet ikke hva hun sa, men vi kommer hjem igjen etter at møtet er ferdig.",
    "nn": "Eg veit ikkje kva ho sa, men vi kjem heim att etter at møtet er ferdig.",
    "da": "Jeg ved ikke, hvad hun sagde, men vi kommer hjem igen, efter at mødet er slut.",
    "hr": "Ne znam što je rekla, ali vratit ćemo se kući nakon što sastanak završi.",
    "sl": "Ne vem, kaj je rekla, ampak domov se bomo vrnili, ko bo sestanek končan.",
    "af": "Ek weet nie wat sy gesê het nie, maar ons kom weer huis toe ná die vergadering.",
    "nl": "Ik weet niet wat ze heeft gezegd, maar we komen na de vergadering weer naar huis.",
}
UNKNOWN = {
    "Swahili": "Jana tulikwenda msituni kuokota uyoga kwa sababu hali ya hewa ilikuwa nzuri sana, na watoto walifurahi "
    "kucheza chini ya miti mikubwa hadi jioni ilipofika.",
    "romanised Russian": "vchera my khodili v les i sobirali griby, potomu chto pogoda byla ochen khoroshaya, a deti "
    "igrali pod bolshimi derevyami, poka ne nastupil vecher.",
    "romanised Hindi": "kal ham jangal mein gaye aur kukurmutte ikatthe kiye kyonki mausam bahut achchha tha aur "
    "bachche shaam tak bade pedon ke neeche khelte rahe.",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_is_identified(code):
    found = identify(SENTENCES[code])

    assert found.language == code
    assert 0.5 < found.sure <= 1


@pytest.mark.parametrize("text", UNCLEAR.values(), ids=UNCLEAR)
def test_no_warning_unless_the_language_is_clearly_another(text):
    assert mismatch(text, ["en"]) is None


@pytest.mark.parametrize("code", sorted({*SENTENCES} - {"en"}))
def test_a_text_in_another_language_is_described(code):
    assert mismatch(SENTENCES[code] * 2, ["en"]) == f"looks {table().names[code]}"


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_languages_and_romanised_texts_are_described(text):
    assert mismatch(text, MODEL) == "is in an unknown language or romanised"


@pytest.mark.parametrize("sentences", [SENTENCES, CLOSE])
def test_a_text_in_a_language_of_the_model_is_no_mismatch(sentences):
    assert {mismatch(sentences[code] * 3, MODEL) for code in MODEL if code in sentences} == {None}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("de", "en", "mixes German and English"),
        ("fr", "tr", "mixes French and Turkish"),
        ("en", "ja", "mixes English and Japanese"),
    ],
)
def test_a_text_in_two_languages_is_odd_but_no_mismatch(first, second, expected):
    text = f"{SENTENCES[first]} {SENTENCES[first]} {SENTENCES[second]} {SENTENCES[second]}"

    assert expected in LanguageCheck(MODEL, guesses=True).warning(text)
    assert mismatch(text, MODEL) is None


def test_a_text_that_is_hard_to_identify_is_named_with_both_languages():
    check = LanguageCheck(["da", "nb", "en"], guesses=True)

    assert check.warning(SENTENCES["en"]) is None
    assert check.warning("Hun er her.").startswith(
        "The text may be Danish or Norwegian Bokmål; it is parsed as Danish."
    )


@settings(max_examples=20)
@given(st.text(max_size=30), st.none() | st.sets(st.sampled_from([*MODEL, "xx"])))
def test_any_text_can_be_identified(text, among):
    found = identify(text, among)

    assert found.language in {"", *(table().names if among is None else among)}
    assert 0 <= found.sure <= 1
    mismatch(text * 10, ["en", "xx"])
    LanguageCheck(["en", "fr"], guesses=True).warning(text * 10)


def test_a_text_is_identified_once(monkeypatch):
    seen = []
    monkeypatch.setattr(language, "grams", lambda text: seen.append(text) or grams(text))

    text = SENTENCES["fi"] + " Sitten söimme."

    assert identify(text, MODEL).language == "fi"
    assert LanguageCheck(MODEL, guesses=True).warning(text) is None

    assert seen.count(text) == 1
    assert len(seen) == 2  # and its plain words, of which enough are known
