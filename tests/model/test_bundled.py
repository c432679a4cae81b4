"""The bundled English parser, as a new user sees it."""

import pytest

import treefine
from treefine import ModelError
from treefine.model.bundled import about, bundled_models, find_model
from treefine.training.checkpoint import FolderNames

MOST_BYTES = 42_000_000


@pytest.fixture(scope="module")
def nlp():
    return treefine.load("en", device="cpu")


def test_english_is_bundled_with_a_description():
    known = about(bundled_models()["en"])

    assert (known.language, known.licence) == ("English", "CC BY-SA 4.0")
    assert known.scores["LAS"] > 80


def test_all_bundled_models_together_are_at_most_42_megabytes():
    files = [path for folder in bundled_models().values() for path in folder.rglob("*") if path.is_file()]

    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
    assert not [path for path in files if path.suffix in (".bin", ".pt", ".pkl", ".pickle")]


def test_the_card_names_the_treebank_its_licence_and_the_encoder():
    card = (bundled_models()["en"] / "README.md").read_text()

    assert all(name in card for name in ("UD English EWT", "CC BY-SA 4.0", "gte-small", "MIT"))


@pytest.mark.parametrize(
    ("text", "heads", "labels"),
    [
        ("Dogs bark.", [2, 0, 2], ["nsubj", "root", "punct"]),
        ("She didn't read it.", [4, 4, 4, 0, 4, 4], ["nsubj", "aux", "advmod", "root", "obj", "punct"]),
        ("Who did you see?", [4, 4, 4, 0, 4], ["obj", "aux", "nsubj", "root", "punct"]),
    ],
)
def test_plain_sentences_get_the_tree_a_person_would_draw(nlp, text, heads, labels):
    (parse,) = nlp(text)

    assert list(parse.heads) == heads
    assert list(parse.labels) == labels
    assert parse.confidence > 0.5
    assert parse.steps[-1] == parse.tree
    assert [each.graph for each in parse.pictures(steps=True)] == list(parse.steps)  # the tree is not drawn twice


def test_a_text_is_segmented_as_a_person_would_do(nlp):
    parses = nlp("Mr. Smith paid $3.50 for it. He can't complain, can he? See you there!")

    assert [parse.forms for parse in parses] == [
        ("Mr.", "Smith", "paid", "$", "3.50", "for", "it", "."),
        ("He", "ca", "n't", "complain", ",", "can", "he", "?"),
        ("See", "you", "there", "!"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "🦆",
        "x" * 10_000,
        "word " * 600,
        "a\x00b\x1b[31mc\x07d",
        "half \ud800 a pair",
        "مرحبا بالعالم. 你好,世界。",
        "\u200b\u200b \u0301\u0301",
    ],
    ids=["one emoji", "10,000 letters", "600 words", "control characters", "surrogate", "other scripts", "no width"],
)
def test_odd_text_gets_trees_and_loses_no_character(nlp, text):
    parses = nlp(text)

    assert all(parse.tree.is_tree for parse in parses)
    spans = [span for parse in parses for span in parse.spans]
    assert [text[start:end] for start, end in spans] == [form for parse in parses for form in parse.forms]
    left = text
    for start, end in reversed(spans):
        left = left[:start] + left[end:]
    assert not any(each.isprintable() and not each.isspace() and not "\ud800" <= each <= "\udfff" for each in left)


@pytest.mark.parametrize("text", ["", "  \n\n\t "])
def test_a_text_without_words_has_no_sentence(nlp, text):
    assert nlp(text) == []


def test_an_unknown_name_is_an_error_that_lists_the_bundled_models():
    with pytest.raises(ModelError, match=r"There is no model 'english'. Choose a bundled one \(en\)"):
        find_model("english")


def test_the_output_folder_of_a_training_stands_for_its_model(tmp_path):
    model = tmp_path / FolderNames.model
    (tmp_path / FolderNames.recipe).touch()
    for name in (tmp_path, model):
        with pytest.raises(ModelError, match="This training has not finished, so there is no model yet. Wait until it"):
            find_model(name)

    model.mkdir()
    (model / "config.json").touch()

    assert find_model(tmp_path) == find_model(model) == model


def test_a_folder_without_a_model_is_returned_unchanged(tmp_path):
    assert find_model(tmp_path) == tmp_path
