"""Recipes that new-recipe writes: their settings fit the treebank, and the comments say why."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.data import DATA
from tests.support.tiny import sample, tiny_model, write_encoder
from treefine.errors import ConfigError
from treefine.parsing.parser import Parser
from treefine.training.new_recipe import NewRecipe, RecipeRequest, new_recipe, write_new_recipe
from treefine.training.prepare import prepare
from treefine.training.recipe import Recipe, read_recipe
from treefine.treebank.conllu import write_treebank
from treefine.treebank.formats import FORMATS, convert

REQUEST = RecipeRequest(("train.conllu",), "dev.conllu", "./encoder")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Write a treebank and an encoder into the working folder."""
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(20), "train.conllu")
    write_treebank(sample(26)[20:], "dev.conllu")
    Path("encoder").mkdir()
    Path("encoder/config.json").write_text('{"model_type": "bert", "hidden_size": 384}')


def written(request: RecipeRequest, out: str = "my.toml") -> Recipe:
    write_new_recipe(out, request, force=True)
    return read_recipe(out)


def repeated(n_sentences: int) -> None:
    """Write a training set of this many sentences."""
    text = "1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No\n2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_\n\n"
    Path("train.conllu").write_text(text * n_sentences)


@pytest.mark.parametrize(
    ("n_sentences", "epochs", "batch_pieces", "masking"),
    [(500, 30, 1000, 0.1), (4_000, 10, 2000, 0.1), (12_500, 6, 4000, 0.0), (40_000, 3, 4000, 0.0)],
)
def test_epochs_batches_and_masking_fit_the_number_of_sentences(n_sentences, epochs, batch_pieces, masking):
    repeated(n_sentences)

    training = written(REQUEST).training

    assert (training.epochs, training.patience) == (epochs, epochs)
    assert (training.batch_pieces, training.masking) == (batch_pieces, masking)
    assert f"# {n_sentences:,} sentences: " in Path("my.toml").read_text()


@pytest.mark.parametrize(("width", "rate"), [(384, 1e-4), (768, 5e-5), (1024, 2e-5)])
def test_the_learning_rate_of_the_encoder_fits_its_width(width, rate):
    Path("encoder/config.json").write_text(f'{{"hidden_size": {width}}}')

    assert written(REQUEST).optimiser.encoder_learning_rate == rate
    assert f"# The encoder has a width of {width:,}." in Path("my.toml").read_text()


def test_an_encoder_that_is_not_on_this_machine_is_taken_for_a_base_model_without_a_network(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    recipe = written(replace(REQUEST, encoder="bert-base-multilingual-cased"))

    assert recipe.encoder.pretrained == "bert-base-multilingual-cased"
    assert recipe.optimiser.encoder_learning_rate == 5e-5


def test_the_config_of_a_downloaded_encoder_is_read(monkeypatch):
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda name, file: f"encoder/{file}")

    assert written(replace(REQUEST, encoder="owner/name")).optimiser.encoder_learning_rate == 1e-4


def test_tags_that_the_treebank_has_are_predicted():
    assert written(REQUEST).tags.columns == ("upos", "xpos", "feats", "lemma")
    assert written(REQUEST).tags.source == "predicted"
    assert written(REQUEST).training.given_tags == 0.4


def test_a_column_without_tags_or_with_very_many_is_left_out():
    sentences = sample(20)
    text = Path("train.conllu").read_text()
    without = re.sub(r"^(\d+\t[^\t]*)(\t[^\t]*){4}", r"\1\t_\t_\t_\t_", text, flags=re.MULTILINE)
    Path("train.conllu").write_text(without)
    assert written(REQUEST).tags.source == "none"
    assert written(REQUEST).training.given_tags == 0

    counter = iter(range(10_000))
    many = re.sub(
        r"^(\d+\t[^\t]*\t[^\t]*\t[^\t]*)\t[^\t]*", lambda found: f"{found[1]}\tT{next(counter)}", text, flags=re.M
    )
    Path("train.conllu").write_text(many)
    assert written(REQUEST).tags.columns == ("upos", "feats", "lemma")
    n_words = sum(map(len, sentences))
    assert f"XPOS is left out because it has {n_words} different tags." in Path("my.toml").read_text().replace(
        "\n# ", " "
    )


def test_a_segmenter_is_trained_if_the_treebank_has_text():
    assert written(REQUEST).segmenter.train == "always"
    assert written(replace(REQUEST, segmenter=False)).segmenter.train == "never"

    text = Path("train.conllu").read_text().replace("SpaceAfter=No", "_")
    Path("train.conllu").write_text(re.sub(r"^# text = .*\n", "", text, flags=re.MULTILINE))
    assert written(REQUEST).segmenter.train == "never"
    forced = write_new_recipe("my.toml", replace(REQUEST, segmenter=True), force=True)
    assert forced.warnings == ("No word is marked SpaceAfter=No, so the segmenter will cut text only at spaces.",)


def test_files_of_another_format_get_its_rule_and_no_segmenter():
    for name, sentences in (("train", sample(20)), ("dev", sample(26)[20:])):
        write_treebank([convert(each, FORMATS["conllx"]) for each in sentences], f"{name}.conllx")
    request = replace(REQUEST, train=("train.conllx",), dev="dev.conllx")

    recipe = written(request)

    assert (recipe.treebank.rule, recipe.treebank.format, recipe.segmenter.train) == ("conllx", "", "never")
    with pytest.raises(ConfigError, match="--segmenter needs CoNLL-U files"):
        new_recipe(replace(request, segmenter=True))
    Path("train.txt").write_bytes(Path("train.conllx").read_bytes())
    named = written(replace(request, train=("train.txt",), format="conllx"))
    assert (named.treebank.rule, named.treebank.format) == ("conllx", "conllx")


def test_every_setting_that_is_commented_out_can_be_uncommented():
    write_new_recipe("my.toml", replace(REQUEST, initial="syntr"))

    for name in ("my.toml", "my-syntr.toml"):
        text = Path(name).read_text()
        Path(name).write_text(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))

    assert replace(read_recipe("my.toml"), title="") == replace(
        written(replace(REQUEST, initial="syntr"), "my.toml"), title=""
    )


def test_comments_have_the_meanings_of_the_reference():
    text = new_recipe(REQUEST).text

    assert "\nmax_steps = 4  # T, the largest number of refinement steps; " in text
    assert re.search(r"^#seed = 1", text, re.MULTILINE)
    assert all(len(line) < 160 for line in text.splitlines())


def test_an_initial_parser_is_a_second_recipe_in_the_same_folder():
    Path("recipes").mkdir()

    for name, family in (("syntr", "pretrained"), ("biaffine", "bilstm")):
        recipe = written(replace(REQUEST, initial=name), "recipes/my.toml")
        other = read_recipe(f"recipes/my-{name}.toml")
        assert Path(recipe.initial.parser) == Path(f"recipes/my-{name}.toml")
        assert recipe.refine.max_steps == 3
        assert (other.encoder.family, other.relations.graph, other.refine.max_steps) == (family, "none", 1)
        assert other.treebank == recipe.treebank
        assert (recipe.initial.folds, other.training.epochs > recipe.training.epochs) == (0, True)
    repeated(4_000)
    assert written(replace(REQUEST, initial="syntr")).initial.folds == 3


def test_trees_of_another_parser_are_named_by_their_files():
    initial = {"initial": "files", "initial_train": "train.conllu", "initial_dev": "dev.conllu"}

    recipe = written(replace(REQUEST, **initial))

    assert (recipe.initial.parser, recipe.initial.train) == ("files", ("train.conllu",))
    with pytest.raises(ConfigError, match="Trees of another parser need all of"):
        new_recipe(replace(REQUEST, initial="files"))


@pytest.mark.parametrize("initial", ["empty", "syntr", "biaffine", "files", "trained"])
def test_new_recipes_pass_all_checks_of_a_training(initial):
    write_encoder(Path("encoder"), "bert")
    Parser(tiny_model(), device="cpu").save("trained")
    files = {"initial_train": "train.conllu", "initial_dev": "dev.conllu"} if initial == "files" else {}

    write_new_recipe("my.toml", replace(REQUEST, initial=initial, **files))

    assert prepare("my.toml").data.dev


def test_a_trained_model_can_be_fine_tuned():
    Parser(tiny_model(), device="cpu").save("trained")

    write_new_recipe("my.toml", replace(REQUEST, encoder="trained"))

    assert "# The trained model to fine-tune.\n" in Path("my.toml").read_text()
    recipe = prepare("my.toml").recipe
    assert recipe.encoder.fine_tune_from == "trained"
    assert recipe.optimiser.encoder_learning_rate == 1e-4


def test_without_files_the_recipe_has_placeholders():
    recipe = written(RecipeRequest(encoder="./encoder"))

    assert (recipe.treebank.train, recipe.treebank.dev) == (("TRAIN.conllu",), ("DEV.conllu",))
    assert recipe.training.epochs == 10
    assert "# Replace these by the files of your treebank" in Path("my.toml").read_text()


def test_a_path_with_quotes_and_letters_of_any_language_is_kept():
    name = 'ağaç "1".conllu'
    Path(name).write_bytes(Path("train.conllu").read_bytes())

    assert written(replace(REQUEST, train=("train.conllu", name))).treebank.train == ("train.conllu", name)


def faults(request: RecipeRequest, out: str = "my.toml") -> list[str]:
    before = sorted(Path().rglob("*"))
    with pytest.raises(ConfigError) as caught:
        write_new_recipe(out, request)
    assert sorted(Path().rglob("*")) == before
    return str(caught.value).split("\n")


def test_all_faults_are_reported_together_and_nothing_is_written():
    Path("my-syntr.toml").touch()
    Path("my.toml").touch()
    request = RecipeRequest(("a.conllu", "b.conllu"), "c.conllu", "./nowhere", "syntr")

    assert faults(request) == [
        "my.toml: The file exists. Overwrite it with --force, or choose another name.",
        "my-syntr.toml: The file exists. Overwrite it with --force, or choose another name.",
        "a.conllu: There is no such file.",
        "b.conllu: There is no such file.",
        "c.conllu: There is no such file.",
        "./nowhere: There is no such model folder.",
    ]


@pytest.mark.parametrize(
    ("changes", "out", "fault"),
    [
        ({"dev": ""}, "my.toml", "--train is given without --dev. Give both, or neither to write placeholders."),
        ({"train": ()}, "my.toml", "--dev is given without --train. Give both, or neither to write placeholders."),
        ({"train": ("-",)}, "my.toml", "standard input cannot be read more than once"),
        ({"initial": "syntr"}, "-", "--initial syntr writes two recipes; name a file instead of -."),
        ({"initial": "syntrr"}, "my.toml", "--initial syntrr: There is no such model folder. Choose empty, syntr,"),
        ({}, "my.tml", "my.tml: The name of a recipe must end in .toml."),
        ({"initial": "biaffine"}, "", ": The name of a recipe must end in .toml."),
        ({"encoder": "a b"}, "my.toml", "There is no encoder 'a b'."),
        ({"encoder": "$NO/x"}, "my.toml", "$NO/x needs the environment variable NO."),
        ({"format": "conll"}, "my.toml", "There is no format 'conll'. Choose one of"),
        ({"train": ("dev.conllu",)}, "my.toml", "dev.conllu: 6 sentences to train on, but at least 10 are needed."),
    ],
)
def test_what_cannot_be_done_is_said(changes, out, fault):
    (line,) = faults(replace(REQUEST, **changes), out)

    assert line.startswith(fault)


def test_a_real_treebank_of_another_language_gets_a_recipe():
    recipe = new_recipe(replace(REQUEST, train=(str(DATA / "en_ewt-sample.conllu"),)))

    assert isinstance(recipe, NewRecipe)
    assert recipe.text.startswith("# A recipe for treefine ")


def test_the_tutorial_shows_settings_of_a_recipe_for_english_ewt():
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "train-your-own.md"
    (shown,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    repeated(12_543)

    text = new_recipe(replace(REQUEST, encoder="bert-base-multilingual-cased")).text

    settings = iter([line.partition("  #")[0] for line in text.splitlines()])
    assert [line for line in shown.splitlines() if line not in settings] == []  # in this order
