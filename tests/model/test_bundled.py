"""The bundled English parser, as a new user sees it, and the models of extra packages."""

import json

import pytest

import treefine
from treefine import ModelError
from treefine.model.bundled import about, bundled_languages, bundled_models, find_model, model_for, unknown_language
from treefine.training.folder import FolderNames

NORDIC = {"da": "Danish", "nb": "Norwegian Bokmål", "sv": "Swedish"}


@pytest.fixture(scope="module")
def nlp():
    return treefine.load("en", device="cpu")


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


def test_the_output_folder_of_a_training_stands_for_its_model(tmp_path):
    model = tmp_path / FolderNames.model
    (tmp_path / FolderNames.recipe).touch()
    for name in (tmp_path, model):
        with pytest.raises(ModelError, match="This training has not finished, so there is no model yet. Wait until it"):
            find_model(name)

    model.mkdir()
    (model / "config.json").touch()

    assert find_model(tmp_path) == find_model(model) == model


# Models of extra packages


def language(name, code, *, is_main=True):
    named = {"name": name, "language": code, "treebank": f"UD {name} 2.8", "licence": "CC BY-SA 4.0"}
    return named | {"words": 80_000, "is_main": is_main, "scores": {"LAS from text": 80.5}}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a package with one model, of Danish and Swedish. There are no other packages."""
    monkeypatch.setattr("importlib.metadata.entry_points", entry_points_in(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, module, *, code="from pathlib import Path\nFOLDER = Path(__file__).parent / 'model'\n"):
        (tmp_path / module / "model").mkdir(parents=True)
        (tmp_path / module / "__init__.py").write_text(code)
        folder = tmp_path / module / "model"
        (folder / "config.json").write_text(json.dumps({"languages": ["da", "sv"]}))
        treebanks = {"da_ddt": language("Danish", "da"), "sv_talbanken": language("Swedish", "sv")}
        treebanks["sv_lines"] = language("Swedish", "sv", is_main=False)
        described = {"language": "2 languages", "treebank": "UD 2.8", "licence": "CC BY-SA 4.0", "encoder": "small"}
        (folder / "about.json").write_text(json.dumps({**described, "languages": treebanks}))
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[treefine.models]\n{name} = {module}:FOLDER\n")
        return folder

    return make


def entry_points_in(folder):
    from importlib.metadata import EntryPoints, distributions

    def entry_points(*, group):
        found = [each for one in distributions(path=[str(folder)]) for each in one.entry_points]
        return EntryPoints(each for each in found if each.group == group)

    return entry_points


def test_a_model_of_another_package_is_bundled_too(install):
    folder = install("nordic", "fake_nordic")

    assert list(bundled_models()) == ["en", "nordic"]
    assert find_model("nordic") == folder
    assert about(folder).languages["sv_lines"].is_main is False


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_like_this", "ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("FOLDER = 5", "TypeError"),
        ("FOLDER = '/nowhere'", "ModelError: /nowhere is not the folder of a model."),
    ],
)
def test_a_broken_package_is_left_out_with_one_warning(install, code, reason):
    install("broken", f"fake_{abs(hash(code))}", code=code)

    with pytest.warns(UserWarning, match="The model broken of fake_.* cannot be used") as caught:
        found = bundled_models()

    assert len(caught) == 1
    assert reason in str(caught[0].message)
    assert list(found) == ["en"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("English", ("en", "en")),
        ("sv", ("nordic", "sv")),
        (" SWEDISH ", ("nordic", "sv")),
        ("sv_lines", ("nordic", "sv_lines")),
        ("sv_pud", None),
        ("Klingon", None),
        ("", None),
    ],
)
def test_the_model_for_a_language_is_found_by_code_name_or_treebank(install, asked, found):
    install("nordic", "fake_nordic_2")

    assert model_for(asked) == found


@pytest.mark.usefixtures("only_own_models")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("sv", "The package treefine-multi has a model of more languages."),
        ("english", "The model en knows this language."),
    ],
)
def test_the_error_for_an_unknown_model_says_where_a_language_is(asked, said):
    with pytest.raises(ModelError) as caught:
        find_model(asked)

    hint = "Choose a bundled one (en), or give the path of a folder, or OWNER/NAME on the hub."
    assert str(caught.value) == f"There is no model '{asked}'. {hint} {said}"


@pytest.mark.usefixtures("only_own_models")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("sw", "Did you mean sv (Swedish)?"),
        ("no", "Did you mean nb (Norwegian Bokmål)?"),
        ("Klingon", "The package treefine-multi has a model of more languages."),
        ("en", "The model en knows this language."),
    ],
)
def test_an_unknown_language_is_an_error_with_the_nearest_one_and_a_list(asked, said):
    assert str(unknown_language(asked, NORDIC)) == f"There is no language '{asked}'. {said} Choose one of da, nb, sv."


def test_a_code_means_its_language_and_not_one_whose_name_begins_with_it():
    assert "Did you mean fa (Persian)?" in str(unknown_language("fa_perdt", {"fo": "Faroese", "fa": "Persian"}))


def test_the_languages_of_all_bundled_parsers_are_listed(install):
    install("nordic", "fake_nordic_3")

    assert bundled_languages() == {"en": "English", "da": "Danish", "sv": "Swedish"}
