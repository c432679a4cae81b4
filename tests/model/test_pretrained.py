"""Model folders: saved, moved, loaded; and what happens to one that is damaged."""

import json
import os
import shutil
import socket
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support.tiny import sample, tiny_biaffine, tiny_model, write_encoder
from treefine.config import DecodeSettings, RelationSettings, TagSettings
from treefine.errors import ModelError, TreefineError
from treefine.model import folder as pretrained
from treefine.model.create import create_biaffine_model, create_parser_model, root_label_of
from treefine.model.folder import model_card
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence

KINDS = {
    "rngtr": lambda: tiny_model(),
    "syntr": lambda: tiny_model(relations=RelationSettings(graph="none"), tags=TagSettings("none")),
    "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))),
    "unlabelled": lambda: tiny_model(relations=RelationSettings("unlabelled", key_norm=False, none="zero")),
    "released": lambda: tiny_model(decode=DecodeSettings("root", "none", "tree", "probabilities")),
    "mpnet": lambda: tiny_model(family="mpnet"),
    "biaffine": lambda: tiny_biaffine(),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A saved model in the working folder."""
    monkeypatch.chdir(tmp_path)
    Parser(tiny_model(), device="cpu").save("model")
    return Path("model")


def refused(folder="model"):
    with pytest.raises(TreefineError) as error:
        Parser.from_pretrained(folder, device="cpu")
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_was_moved_gives_the_same_trees(kind, tmp_path):
    parser = Parser(KINDS[kind](), device="cpu")
    parser.save(tmp_path / "here" / "model")
    shutil.move(tmp_path / "here", tmp_path / "there")

    loaded = Parser.from_pretrained(tmp_path / "there" / "model", device="cpu")

    assert loaded.model.settings == parser.model.settings
    assert loaded.model.vocabulary == parser.model.vocabulary
    assert loaded.parse(sample(10)) == parser.parse(sample(10))


def test_a_folder_holds_these_files(folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocabulary.json",
    ]


def test_whoever_may_read_one_file_of_a_folder_may_read_all(folder):
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_half_precision_halves_the_weights_and_hardly_moves_them(tmp_path):
    parser = Parser(tiny_model(), device="cpu")

    parser.save(tmp_path / "half", dtype=torch.float16)

    weights = load_file(tmp_path / "half" / "model.safetensors")
    assert {each.dtype for each in weights.values()} == {torch.float16}
    loaded = Parser.from_pretrained(tmp_path / "half", device="cpu").model.state_dict()
    for name, weight in parser.model.state_dict().items():
        assert loaded[name].dtype == torch.float32
        torch.testing.assert_close(loaded[name], weight, rtol=1e-3, atol=1e-3)


def test_eight_bits_quarter_the_weights_and_hardly_move_them(tmp_path):
    parser = Parser(tiny_model(), device="cpu")
    parser.save(tmp_path / "whole")

    parser.save(tmp_path / "rounded", dtype=torch.int8)

    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("rounded", "whole")]
    assert sizes[0] < 0.6 * sizes[1]  # a quarter, where rows are longer than in this model
    loaded = Parser.from_pretrained(tmp_path / "rounded", device="cpu").model.state_dict()
    for name, weight in parser.model.state_dict().items():
        assert loaded[name].dtype == torch.float32
        torch.testing.assert_close(loaded[name], weight, rtol=1e-2, atol=1e-2)


def test_a_rounded_weight_without_its_scale_is_refused_by_name(tmp_path):
    Parser(tiny_model(), device="cpu").save(tmp_path / "model", dtype=torch.int8)
    path = tmp_path / "model" / "model.safetensors"
    weights = load_file(path)
    name = next(each for each in weights if each.endswith(".scale"))
    save_file({each: weight for each, weight in weights.items() if each != name}, path)

    with pytest.raises(ModelError, match=rf"not finite numbers: {name.removesuffix('.scale')}"):
        Parser.from_pretrained(tmp_path / "model", device="cpu")


def test_weights_are_saved_as_numbers_that_can_hold_them(tmp_path):
    parser = Parser(tiny_model(), device="cpu")
    with pytest.raises(
        ModelError, match=r"Weights cannot be saved as torch.int16. Choose torch.float32, float16 or int8."
    ):
        parser.save(tmp_path / "model", dtype=torch.int16)
    parser.model.encoder.root.data[3] = 1e6

    with pytest.raises(ModelError, match="The weight encoder.root holds a number that is not finite in torch.float16"):
        parser.save(tmp_path / "model", dtype=torch.float16)

    assert not list(tmp_path.iterdir())


def test_an_initial_parser_is_saved_in_the_same_precision(tmp_path):
    parser = Parser(tiny_model(), initial=Parser(tiny_biaffine(), device="cpu"), device="cpu")

    parser.save(tmp_path / "model", dtype=torch.float16)

    weights = load_file(tmp_path / "model" / "initial" / "model.safetensors")
    assert {each.dtype for each in weights.values()} == {torch.float16}


def test_an_initial_parser_is_saved_inside_the_folder(tmp_path):
    parser = Parser(tiny_model(), initial=Parser(tiny_biaffine(), device="cpu"), device="cpu")
    parser.save(tmp_path / "model")

    loaded = Parser.from_pretrained(tmp_path / "model", device="cpu")

    assert isinstance(loaded.initial, Parser)
    assert loaded.max_steps == 3
    assert loaded.parse(sample(5)) == parser.parse(sample(5))
    alone = Parser.from_pretrained(tmp_path / "model", initial="empty", device="cpu")
    assert alone.max_steps == 4
    assert alone.parse(sample(5)) == Parser(tiny_model(), device="cpu").parse(sample(5))


def test_the_model_card_says_what_the_model_is_and_what_the_notes_say(tmp_path):
    Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu").save(
        tmp_path / "model", notes="Trained on nothing."
    )

    card = (tmp_path / "model" / "README.md").read_text()

    assert card.startswith("---\nlibrary_name: treefine\n")
    assert "RNGTr, which refines a graph: a transformer of the bert family, 2 layers of width 16" in card
    assert "predicts UPOS and XPOS tags in its first step and reads them in the later ones" in card
    assert card.endswith("\nTrained on nothing.\n")


def test_a_saved_model_takes_the_place_of_an_older_one(folder):
    Parser(tiny_biaffine(), device="cpu").save(folder)

    assert not (folder / "tokenizer.json").exists()
    assert Parser.from_pretrained(folder, device="cpu").model.subwords is None
    assert [path.name for path in Path.cwd().iterdir()] == ["model"]


def test_nothing_else_is_ever_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("mine")

    with pytest.raises(ModelError, match="There are files here that are not a model's. Choose another folder."):
        Parser(tiny_model(), device="cpu").save(tmp_path / "thesis")

    assert (tmp_path / "thesis" / "chapter").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "text"), [("config.json", '{"name": "app"}'), ("config.json", "torn"), ("notes.txt", "mine")]
)
def test_a_folder_with_anything_that_is_not_a_models_is_kept(folder, name, text):
    (folder / name).write_text(text)

    with pytest.raises(ModelError):
        Parser(tiny_biaffine(), device="cpu").save(folder)

    assert (folder / name).read_text() == text
    assert (folder / "tokenizer.json").exists()


def test_the_folder_of_an_encoder_is_kept(tmp_path):
    write_encoder(tmp_path / "encoder", "bert")

    with pytest.raises(ModelError, match="There are files here that are not a model's."):
        Parser(tiny_model(), device="cpu").save(tmp_path / "encoder")

    assert (tmp_path / "encoder" / "model.safetensors").exists()


def test_a_link_is_followed_to_the_folder_it_names(folder):
    Path("link").symlink_to("model")

    Parser(tiny_biaffine(), device="cpu").save("link")

    assert Path("link").is_symlink()
    assert Parser.from_pretrained("model", device="cpu").model.subwords is None


def test_a_place_that_cannot_be_written_is_told(folder):
    Path("file").touch()

    with pytest.raises(ModelError, match="The model could not be saved: "):
        Parser(tiny_model(), device="cpu").save("file/model")


def test_a_save_that_fails_leaves_the_older_model(folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(pretrained, "model_card", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        Parser(tiny_biaffine(), device="cpu").save(folder)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in Path.cwd().iterdir()] == ["model"]


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def test_missing_weights_are_refused_by_name(folder):
    change_weights(folder, lambda weights: weights.pop("scorer.arc_weight"))

    assert refused() == (
        "model/model.safetensors: The weights do not fit the model; missing: scorer.arc_weight. "
        "The weights do not belong to the config.json beside them."
    )


def test_surplus_weights_are_refused_by_name(folder):
    change_weights(folder, lambda weights: weights.update(extra=torch.zeros(1)))

    assert "The weights do not fit the model; surplus: extra." in refused()


def test_weights_of_another_shape_are_refused_by_name(folder):
    change_weights(folder, lambda weights: weights.update({"scorer.arc_weight": torch.zeros(3, 2)}))

    assert "The weights do not fit the model; scorer.arc_weight is 3 × 2 instead of 13 × 12." in refused()


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_no_numbers_are_refused_by_name(folder, number):
    change_weights(folder, lambda weights: weights["encoder.root"].__setitem__(2, number))

    assert refused().endswith(
        "The weights do not fit the model; not finite numbers: encoder.root. The file is damaged."
    )


def test_weights_that_are_whole_numbers_are_refused_by_name(folder):
    change_weights(folder, lambda weights: weights.update({"encoder.root": weights["encoder.root"].to(torch.int64)}))

    assert "not finite numbers: encoder.root." in refused()


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "model.safetensors", "tokenizer.json"])
def test_a_file_that_is_not_there_is_named(folder, name):
    (folder / name).unlink()

    assert name in refused()


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "binary", "list"])
def test_a_file_that_is_damaged_is_named(folder, name, damage):
    whole = (folder / name).read_bytes()
    damaged = {"cut": whole[: len(whole) // 2], "empty": b"", "binary": bytes(range(256)), "list": b"[1, 2]"}
    (folder / name).write_bytes(damaged[damage])

    message = refused()

    assert message.startswith(f"model/{name}:")
    assert "\n" not in message


def change_json(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_all_faults_of_the_config_come_in_one_report(folder):
    change_json(folder / "config.json", relations={"graf": "labelled", "key_norm": "yes"}, speed=3)

    assert refused() == (
        "model/config.json: The settings have 3 faults: speed is unknown; [relations] graf is unknown; did you mean "
        'graph?; [relations] key_norm = "yes"; it must be true or false'
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"n_layers": 10**9}, "n_layers = 1000000000; it must not be over 10,000,000"),
        ({"n_layers": 10**6}, "n_layers = 1000000; it must not be over 1000"),
        ({"width": 0}, "width = 0; it must be at least 1"),
        ({"n_pieces": 2**70}, "it must not be over 10,000,000"),
        ({"inner_width": 10**7}, "inner.bias is 24 instead of 10000000"),
    ],
)
def test_sizes_that_cannot_be_are_refused_at_once(folder, change, fault):
    config = json.loads((folder / "config.json").read_text())
    change_json(folder / "config.json", encoder=config["encoder"] | change)

    assert fault in refused()


def test_a_root_label_that_is_no_label_is_refused(folder):
    change_json(folder / "config.json", decode={"root_label": "nope"})

    assert refused().startswith("The root label 'nope' is none of the model's labels. Name one of them, or set")


def test_a_deep_tokenizer_config_is_refused(folder):
    (folder / "tokenizer_config.json").write_text("[" * 100_000)

    assert refused().startswith("model/tokenizer_config.json: The file is damaged: it is no JSON.")


def test_a_folder_of_a_later_treefine_is_refused(folder):
    change_json(folder / "config.json", format=2, treefine="9.0")

    assert refused().startswith("model/config.json: The folder has format 2, not 1. It was saved by treefine 9.0;")


def test_the_folder_of_an_encoder_is_no_parser(tmp_path):
    write_encoder(tmp_path / "encoder", "bert")

    assert "This is no config of a treefine model. This is a folder of something else;" in refused(tmp_path / "encoder")


def test_a_vocabulary_with_a_name_twice_is_refused(folder):
    change_json(folder / "vocabulary.json", labels=["root", "root"])

    assert refused() == "model/vocabulary.json: The vocabulary is damaged: a name stands twice among the labels."


def test_a_tokenizer_with_more_pieces_than_the_model_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    change_json(folder / "config.json", encoder=config["encoder"] | {"n_pieces": 10})

    assert refused().startswith("model: The tokenizer has 205 pieces, but the model 10.")


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "a/b/c", ""])
def test_a_path_that_is_not_there_is_told_without_asking_the_hub(name, monkeypatch):
    monkeypatch.setattr(socket, "socket", None)

    assert "There is no such model folder." in refused(name)


def test_a_local_folder_touches_no_network(folder):
    code = (
        "import socket, sys\nsocket.socket.connect = socket.create_connection = None\n"
        "from treefine import Parser\nParser.from_pretrained('model', device='cpu').parse(['A', 'dog'])\n"
        "assert 'huggingface_hub' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_hub_that_cannot_be_reached_is_told_in_one_line(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    environment = os.environ | {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-m", "treefine", "parse", "--model", "some/model", "-"]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, input="x\n")

    assert done.returncode == 1
    assert done.stderr.startswith("treefine: There is no folder 'some/model' here, and the hub cannot be reached")
    assert done.stderr.endswith("Give the path of a folder, or try again with a network connection.\n")
    assert done.stderr.count("\n") == 1


def test_a_model_on_the_hub_is_fetched_by_its_name(folder, monkeypatch):
    import huggingface_hub

    Parser(tiny_model(), initial=Parser(tiny_biaffine(), device="cpu"), device="cpu").save(folder)
    asked = []

    def download(name, *, allow_patterns):
        asked.append(name)
        for path in folder.rglob("*"):  # all of it is fetched
            assert path.is_dir() or any(fnmatch(str(path.relative_to(folder)), each) for each in allow_patterns)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)

    parser = Parser.from_pretrained("owner/model", device="cpu")

    assert asked == ["owner/model"]
    assert isinstance(parser.initial, Parser)
    assert parser.parse(["A", "dog"]).graph.is_tree


def test_an_encoder_on_the_hub_is_fetched_by_its_name(tmp_path, monkeypatch):
    import huggingface_hub

    write_encoder(tmp_path / "encoder", "electra")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(tmp_path / name.split("/")[1]))

    model = create_parser_model("owner/encoder", sample(5))

    assert model.settings.encoder.family == "electra"


def test_a_name_that_no_model_has_is_told(monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    def download(name, **_):
        raise HFValidationError(name)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)

    assert refused("no one/has this") == (
        "There is no model 'no one/has this', neither a folder nor on the hub. "
        "Give the path of a folder, or OWNER/NAME of a model on the hub."
    )


def test_a_model_is_pushed_to_the_hub_as_a_folder(monkeypatch, tmp_path):
    import huggingface_hub

    class Api:
        def create_repo(self, name, *, private, exist_ok):
            assert (name, private, exist_ok) == ("owner/model", True, True)
            return "https://hub/owner/model"

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, tmp_path / "uploaded")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    parser = Parser(tiny_model(), initial=Parser(tiny_biaffine(), device="cpu"), device="cpu")

    address = parser.push_to_hub("owner/model", private=True)

    assert address == "https://hub/owner/model"
    assert Parser.from_pretrained(tmp_path / "uploaded", device="cpu").parse(sample(3)) == parser.parse(sample(3))


def test_a_push_that_fails_is_told(monkeypatch):
    import huggingface_hub

    class Api:
        def create_repo(self, name, **_):
            raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)

    with pytest.raises(ModelError, match=r"'owner/model' cannot be uploaded to the hub \(no route\)\. Log in with"):
        Parser(tiny_model(), device="cpu").push_to_hub("owner/model")


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra", "mpnet"])
@pytest.mark.parametrize("n_frequent", [None, 20])
def test_a_new_model_is_made_of_a_pretrained_encoder_and_a_treebank(tmp_path, family, n_frequent):
    write_encoder(tmp_path / "encoder", family)

    model = create_parser_model(tmp_path / "encoder", sample(), n_frequent=n_frequent)

    parser = Parser(model, device="cpu")
    parser.save(tmp_path / "model")
    parsed = Parser.from_pretrained(tmp_path / "model", device="cpu").parse(sample(5))
    assert parsed == parser.parse(sample(5))
    assert "acl:relcl" in model.vocabulary.labels


def test_the_same_seed_makes_the_same_model_and_leaves_the_callers_random_numbers_alone(tmp_path):
    write_encoder(tmp_path / "encoder", "bert")
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)

    one, two = (create_parser_model(tmp_path / "encoder", sample(5), seed=3).state_dict() for _ in range(2))
    third, fourth = (create_biaffine_model(sample(5), seed=3).state_dict() for _ in range(2))

    assert torch.rand(1) == expected
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert all(torch.equal(third[name], fourth[name]) for name in third)


def test_a_cut_word_table_scores_the_words_of_the_treebank_as_before(tmp_path):
    write_encoder(tmp_path / "encoder", "xlm-roberta")
    whole = create_parser_model(tmp_path / "encoder", sample(20))

    cut = create_parser_model(tmp_path / "encoder", sample(20), n_frequent=0)

    assert cut.settings.encoder.n_pieces < whole.settings.encoder.n_pieces
    with torch.no_grad():
        vectors = [model.encoder(model.batch_of(sample(20)).inputs, None, None) for model in (whole, cut)]
    torch.testing.assert_close(*vectors)


def test_the_root_label_of_a_new_model_is_the_treebanks(data):
    german = list(read_treebank(data / "german.conll09"))
    mixed = [sentence.with_graph(Graph(sentence.graph.heads, ("", *["dep"] * len(sentence)))) for sentence in sample(3)]

    assert root_label_of(sample()) == "root"
    assert root_label_of([Sentence.of_words(["Hi"]).with_graph(Graph.of_words([0], ["_"]))]) == ""
    assert create_biaffine_model(sample()).settings.decode.root_label == "root"
    assert create_biaffine_model(german).settings.decode.root_label == "ROOT"
    assert create_biaffine_model(mixed).settings.decode.root_label == ""


def test_a_parser_that_only_tags_beside_its_trees_says_so_on_its_card():
    model = tiny_model(relations=RelationSettings(graph="none"), tags=TagSettings("predicted"))

    assert "predicts UPOS tags beside its trees." in model_card(model)
