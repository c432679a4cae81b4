"""The train command; errors are reported before training starts, and then nothing is written."""

import io
import json
import re
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke, read
from tests.support.tiny import sample, tiny_biaffine, tiny_model, write_encoder
from tests.support.train_commands import (
    BIAFFINE,
    RNGTR,
    changes,
    epoch_lines,
    run,
    training_errors,
    try_hint,
    write_files,
)
from treefine.cli.train import show
from treefine.parsing.parser import Parser
from treefine.training.checkpoint import TrainingStanding
from treefine.training.epochs import Accuracy
from treefine.training.train import Progress
from treefine.treebank.conllu import read_treebank, write_treebank


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write recipes and their treebanks to the working folder."""
    monkeypatch.chdir(tmp_path)
    write_files()


@pytest.fixture
def encoder(files):
    write_encoder(Path("encoder"), "bert")


# Training


READS_WORDS = "The model will read words, not raw text: segmenter.train is never."
TAGS = "It will predict UPOS and XPOS tags, features and lemmas; its input needs none."
NO_GRAPH = "It will not refine trees: it reads no graph."
CARD = (
    "For the model card: language not stated (set card.language); treebank not stated; licence not stated (set "
    "card.licence)."
)


def test_training_says_what_the_model_will_do_and_prints_a_command_that_uses_it(files):
    output = "my runs/it's one"

    result = run("biaffine.toml", "--output", output, *changes("training.epochs=1", "tags.source=given"))

    assert result.stdout.startswith(f"The model is in {output}/model. To try it: treefine parse --model ")
    needs_tags = "It will not predict tags: its input needs UPOS tags."
    assert result.stderr.splitlines()[:-1] == [READS_WORDS, needs_tags, NO_GRAPH, CARD]
    arguments, _ = try_hint(result)
    assert arguments == ["parse", "--model", f"{output}/model", "dev.conllu", "-o", "parsed.conllu"]
    assert [each.forms for each in read_treebank("parsed.conllu")] == [each.forms for each in sample(26)[20:]]


def test_without_a_terminal_each_epoch_prints_a_line_with_dev_scores(files):
    result = run("biaffine.toml", "--output", "out")

    *said, first, last = result.stderr.splitlines()
    number = r"\d+\.\d\d"
    scores = rf"loss \d+\.\d{{3}}, LAS {number}, UAS {number}, best LAS {number}, "
    scores += " ".join(f"{column} {number}" for column in ("UPOS", "XPOS", "FEATS", "LEMMA"))
    assert said == [READS_WORDS, TAGS, NO_GRAPH, CARD]
    assert re.fullmatch(rf"epoch 1 of 2, 0:00:\d\d left, {scores}", first)
    assert re.fullmatch(rf"epoch 2 of 2, 0:00:00 left, {scores}", last)
    arguments, parsed = try_hint(result)
    assert arguments[3:] == ["--from", "words", "Read the entire article ; there 's a punchline , too ."]
    (sentence,) = read(parsed.stdout)
    assert "_" not in sentence.upos


def test_a_recipe_without_settings_gives_a_parser_of_raw_text(encoder):
    for name in ("train", "dev"):
        Path(f"{name}.conllu").rename(f"en_x-ud-{name}.conllu")
    files = 'train = "en_x-ud-train.conllu"\ndev = "en_x-ud-dev.conllu"\ntest = "en_x-ud-dev.conllu"'
    Path("small.toml").write_text(f'[treebank]\n{files}\n[encoder]\npretrained = "./encoder"\n')
    network = "segmenter.network={run_hidden = 8, char_hidden = 8}"
    quick = changes("training.epochs=1", "segmenter.epochs=1", network, "card.licence=CC0")

    result = run("small.toml", "--output", "out", *quick)

    assert result.stderr.splitlines()[:4] == [
        "The model will read raw text: a segmenter is trained first.",
        TAGS,
        "It will start from an empty graph and refine it in up to 4 steps.",
        "For the model card: language en; treebank en_x; licence CC0.",
    ]
    warning = (
        "treefine: warning: After 1 of 1 epochs, the segmenter cuts text no better than at spaces and blank lines."
    )
    assert warning in result.stderr
    arguments, parsed = try_hint(result)
    assert arguments[3:] == ["--text", "Read the entire article; there's a punchline, too."]
    assert all("_" not in each.upos for each in read(parsed.stdout))
    card = Path("out/model/README.md").read_text()
    assert card.startswith('---\nlanguage: ["en"]\n')
    number = r"\d+\.\d\d%"
    measures = ("UAS", "LAS", "UPOS", "XPOS", "FEATS", "LEMMA")
    scores = f"{', '.join(f'{each} {number}' for each in measures)}, on the words of 6 sentences"
    assert "- Language: en\n- Treebank: en_x\n- Licence of the treebank: CC0\n" in card
    dev, test = (re.search(f"\n- {name}: ({scores})", card)[1] for name in ("dev", "test"))
    assert dev == test  # the same file, scored in training and by the saved parser
    assert re.search(f"- dev, segmenter on raw text: F1 of Tokens {number}, Sentences {number}, Words {number}", card)


def test_the_initial_parser_is_trained_first_and_named_in_its_lines(encoder):
    Path("recipes").mkdir()
    # the file of the other recipe is used
    Path("recipes/first.toml").write_text(BIAFFINE.replace("dev.conllu", "nowhere.conllu"))
    Path("recipes/second.toml").write_text(RNGTR + '[initial]\nparser = "first.toml"\nfolds = 2\n')

    quick = changes("refine.max_steps=2", "training.epochs=2", "initial.training.epochs=1")
    result = run("recipes/second.toml", "--output", "out", *quick)

    first = "Trained first: the initial parser, 1 epoch, and 2 more for the folds. "
    assert f"{first}Change its settings with --set initial.training.epochs=… and so on.\n" in result.stderr

    stages = [line.partition("epoch ")[0] for line in epoch_lines(result)]
    assert stages == ["initial parser, ", "fold 1 of 2, ", "fold 2 of 2, ", "", ""]
    number = r"\d+\.\d\d"
    last = result.stderr.splitlines()[-1]
    assert re.search(rf"LAS {number}, .*, G1 {number} G2 {number}$", last)  # of the tree, and of each graph
    assert Parser.from_pretrained("out/model", device="cpu").parse(["Dogs", "bark"]).tree.is_tree
    kept = json.loads(Path("out/recipe.json").read_text())
    assert kept["initial parser"]["treebank"] == kept["recipe"]["treebank"]


def test_a_recipe_to_fine_tune_from_is_trained_first_and_its_warnings_are_printed(encoder):
    write_treebank(sample()[40:], "other.conllu")
    Path("base.toml").write_text(RNGTR.replace("train.conllu", "other.conllu"))
    Path("next.toml").write_text(RNGTR.replace('pretrained = "./encoder"', 'fine_tune_from = "base.toml"'))

    result = run("next.toml", "--output", "out", "--set", "refine.max_steps=1")

    warning, lines = result.stderr.splitlines()[0], epoch_lines(result)
    assert "Trained first: the base model base, with the settings of base.toml.\n" in result.stderr
    assert warning.startswith(
        "treefine: warning: dev.conllu: These labels are not in the training set"
    )  # from base.toml
    assert [line.partition("epoch ")[0] for line in lines] == ["base model base, "] * 2 + [""] * 2
    assert json.loads(Path("out/recipe.json").read_text())["start base"]["encoder"]["pretrained"] == "./encoder"
    run("next.toml", "--output", "out", "--set", "refine.max_steps=1", "--resume")


def test_set_overrides_settings_and_the_full_recipe_is_saved(files):
    run("biaffine.toml", "--output", "out", "--set", "training.epochs=1", "--set", "title=Small one")

    kept = json.loads(Path("out/recipe.json").read_text())
    assert (kept["recipe"]["training"]["epochs"], kept["recipe"]["title"]) == (1, "Small one")
    assert kept["recipe"]["optimiser"]["learning_rate"] == 2e-3  # saved because defaults may change
    assert list(kept["checksums"]) == ["train.conllu", "dev.conllu"]


def test_a_dry_run_prints_the_settings_of_all_parsers_and_writes_nothing(encoder):
    write_treebank(sample()[40:], "other.conllu")
    Path("base.toml").write_text(RNGTR.replace("train.conllu", "other.conllu").replace("epochs = 2", "epochs = 7"))
    Path("next.toml").write_text(
        RNGTR.replace('pretrained = "./encoder"', 'fine_tune_from = "base.toml"')
        + '[initial]\nparser = "biaffine.toml"\n'
    )

    result = run("next.toml", "--output", "out", "--dry-run", "--set", "training.seed=5")

    assert result.stderr.splitlines()[-6:-3] == [
        READS_WORDS,
        TAGS,
        "It will refine the trees of its initial parser, which is saved with it, in up to 3 steps.",
    ]
    shown = json.loads(result.stdout)

    assert list(shown) == ["recipe", "initial parser", "start base"]
    assert shown["initial parser"]["encoder"]["word_width"] == 8
    assert shown["initial parser"]["training"]["seed"] == 5  # from the main recipe
    assert shown["start base"]["training"]["epochs"] == 7
    assert shown["recipe"]["training"]["seed"] == 5
    assert "checkpoint_minutes" in shown["recipe"]["training"]
    Path("mixed.toml").write_text(RNGTR + '[initial.mix.first]\nparser = "biaffine.toml"\nshare = 0.25\n')
    mixed = json.loads(run("mixed.toml", "--output", "out", "--dry-run", "--set", "initial.mix.first.share=0.5").stdout)
    assert mixed["recipe"]["initial"]["mix"]["first"]["share"] == 0.5
    assert mixed["mixed first"]["encoder"]["word_width"] == 8
    assert json.loads(run("biaffine.toml", "--output", "out", "--dry-run").stdout)["initial parser"] is None
    assert not Path("out").exists()


def test_dev_labels_missing_from_the_training_set_cause_a_warning(files):
    text = Path("dev.conllu").read_text()
    Path("dev.conllu").write_text(text.replace("\tnsubj\t", "\tsubject\t").replace("\tobj\t", "\tobj:new\t"))

    result = run("biaffine.toml", "--output", "out", "--set", "training.epochs=1")

    assert re.fullmatch(
        r"treefine: warning: dev.conllu: These labels are not in the training set, so they cannot be predicted: "
        r"subject \(\d+\)\.",  # but not obj:new, which conll18 counts as obj
        result.stderr.splitlines()[0],
    )


# The progress bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def progress(epoch, share, *, epochs=4, done=None, las=None, las_from=None, stage="", seconds=60.0):
    standing = TrainingStanding() if done is None else TrainingStanding(epoch=done, best_epoch=done, best_las=0.75)
    accuracy = None if las is None else Accuracy(las, 0.9, 0.74, las_from or {})
    return Progress(stage, epoch, epochs, share, 0.5, accuracy, standing, seconds)


@pytest.fixture
def shown(monkeypatch):
    """Return a function that returns the lines drawn on a terminal of 80 columns, without control codes and bars."""
    monkeypatch.setenv("COLUMNS", "80")

    def rows(steps):
        stream = Terminal()
        show(steps, stream=stream)
        lines = [line.rstrip() for line in re.sub(r"\x1b\[[\d;?]*\w", "", stream.getvalue()).splitlines()]
        assert all(len(line) <= 80 for line in lines if line[:1] in set("━╸╺ "))  # not the lines of finished stages
        assert any(re.match("[━╸╺]{10} ", line) for line in lines[-4:])
        return [line.lstrip("━╸╺ ") for line in lines if line]

    return rows


LONG = "start of a long name [with brackets], member 1 of 3"  # rich would read brackets as colours
FIVE = (0.7, 0.75, 0.751, 0.752, 0.753)
BY_SOURCE = {"empty": 0.7, "biaffine": 0.75, "spacy": 0.74, "udpipe": 0.77}


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        (
            [progress(1, 0.25, done=1, las=(0.7, 0.75)), progress(2, 0.4, done=1)],
            [
                "epoch 2 of 4, 0:01:30 left",
                "loss 0.500, LAS 74.00, UAS 90.00, best LAS 75.00",
                "G1 70.00 G2 75.00",
            ],  # both LAS values are of trees
        ),
        (
            [progress(1, 0.25, done=1, las=(0.7, 0.75), las_from=BY_SOURCE)],
            [
                "loss 0.500, LAS 74.00, UAS 90.00, best LAS 75.00",
                "from empty 70.00 biaffine 75.00 spacy 74.00 udpipe 77.00",
                "G1 70.00 G2 75.00",
            ],
        ),
        (
            [progress(200, 0.5, epochs=200, done=199, las=FIVE, stage=LONG, seconds=36000.0)],
            [
                LONG,
                "epoch 200 of 200, 10:00:00 left",
                "loss 0.500, LAS 74.00, UAS 90.00, best LAS 75.00",
                "G1 70.00 G2 75.00 G3 75.10 G4 75.20 G5 75.30",
            ],
        ),
    ],
    ids=["two steps", "a mix of sources", "eighty columns"],
)
def test_the_bar_shows_the_stage_time_left_loss_and_accuracy_of_each_step(shown, steps, lines):
    assert shown(steps)[-len(lines) :] == lines


def test_a_finished_stage_leaves_a_line_and_its_accuracy_is_not_shown_for_the_next(shown):
    stage = "start [odd] name"

    *lines, first, second = shown([progress(4, 1.0, done=4, las=(0.7,), stage=stage), progress(1, 0.125)])

    assert f"{stage}, epoch 4 of 4, 0:00:00 left, loss 0.500, LAS 74.00, UAS 90.00, best LAS 75.00" in lines
    assert (first, second) == ("epoch 1 of 4, 0:07:00 left", "loss 0.500")


# Renamed settings


def test_each_old_name_of_a_setting_is_one_warning(files):
    Path("old.toml").write_text(BIAFFINE + "hidden = 0.1\n")

    result = run("old.toml", "--output", "out", *changes("training.epochs=1", "optimiser.rate=0.1"))

    assert [line for line in result.stderr.splitlines() if "warning" in line] == [
        "treefine: warning: old.toml: [training] hidden is deprecated; use masking.",
        "treefine: warning: --set optimiser.rate=0.1: [optimiser] rate is deprecated; use learning_rate.",
    ]
    kept = json.loads(Path("out/recipe.json").read_text())["recipe"]
    assert (kept["training"]["masking"], kept["optimiser"]["learning_rate"]) == (0.1, 0.1)


def test_a_run_of_an_older_version_is_resumed_without_warnings_about_its_own_file(encoder):
    run("rngtr.toml", "--output", "out", *changes("refine.max_steps=1", "training.epochs=1"))
    path = Path("out/recipe.json")
    kept = json.loads(path.read_text())
    optimiser, own_encoder = kept["recipe"]["optimiser"], kept["recipe"]["encoder"]
    optimiser["rate"] = optimiser.pop("learning_rate")
    own_encoder["folder"] = own_encoder.pop("pretrained")
    del own_encoder["fine_tune_from"]
    kept["recipe"]["treebank"] |= {"dev": "dev.conllu"}
    del kept["recipe"]["treebank"]["test"]
    kept["recipe"]["initial"] |= {"train": "", "dev": ""}
    kept["recipe"]["segmenter"] = None
    path.write_text(json.dumps(kept))

    result = run("rngtr.toml", "--output", "out", "--resume", *changes("refine.max_steps=1", "training.epochs=1"))

    assert result.stderr == ""


# Resuming


def test_a_finished_training_stays_unchanged_and_needs_resume(files):
    run("biaffine.toml", "--output", "out")
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}

    result = run("biaffine.toml", "--output", "out", "--resume")

    assert result.stdout.startswith("The model is in out/model.")
    assert {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()} == before
    for name in ("recipe.json", "metrics.jsonl"):  # even if some of its files are missing
        assert training_errors("biaffine.toml") == [
            "out: The folder contains a training run. Continue it with --resume, or choose another folder."
        ]
        (Path("out") / name).unlink()


@pytest.mark.parametrize(
    ("minutes", "said"), [(0, "Continue from the last checkpoint"), (10, "The epochs of this stage are lost")]
)
def test_a_stopped_training_says_how_to_continue(files, monkeypatch, minutes, said):
    def stop_after_an_epoch(steps):
        next(step for step in steps if step.accuracy is not None)
        raise KeyboardInterrupt

    monkeypatch.setattr("treefine.cli.train.show", stop_after_an_epoch)
    settings = changes(f"training.checkpoint_minutes={minutes}")

    result = run("biaffine.toml", "--output", "out", *settings, code=130)

    assert result.stderr.splitlines()[-1].startswith(f"treefine: Stopped. {said}")


def test_resume_needs_the_same_recipe_and_the_same_sentences(files):
    title = changes("title=Müller")
    run("biaffine.toml", "--output", "out", *title)

    assert training_errors(
        "biaffine.toml", "--resume", *title, *changes("training.seed=2", "optimiser.betas=[0.9, 0.98]")
    ) == [
        "out: The training in this folder has a different recipe: "
        "optimiser.betas was [0.9, 0.999], not [0.9, 0.98], training.seed was 1, not 2. "
        "Use the same recipe, or choose another folder."
    ]
    (line,) = training_errors("biaffine.toml", "--resume", *title, *changes("segmenter.train=always"))
    assert 'a different recipe: segmenter.train was "never", not "always". Use' in line
    (readable,) = training_errors("biaffine.toml", "--resume", *changes("title=Łódź"))
    assert 'title was "Müller", not "Łódź"' in readable
    write_treebank(sample(21), "train.conllu")
    (other_sentences,) = training_errors("biaffine.toml", "--resume", *title)
    assert "a different recipe: the content of train.conllu has changed. Use" in other_sentences
    Path("out/recipe.json").write_text("{")
    (damaged,) = training_errors("biaffine.toml", "--resume")
    assert damaged.startswith("out/recipe.json: The file is damaged (")
    Path("out/recipe.json").unlink()
    assert training_errors("biaffine.toml", "--resume") == [
        "out: recipe.json is missing, so the recipe of this training is unknown. Choose another folder."
    ]


def test_resume_starts_a_training_in_a_folder_with_only_hidden_files(files):
    Path("out").mkdir()
    Path("out/.keep").touch()

    run("biaffine.toml", "--output", "out", "--resume")

    assert Path("out/model").is_dir()


def test_a_training_can_be_resumed_from_a_different_working_folder(encoder, tmp_path, monkeypatch):
    Path("recipes").mkdir()
    Path("elsewhere").mkdir()
    for name, text in (("first", BIAFFINE), ("second", RNGTR + '[initial]\nparser = "first.toml"\n')):
        for file in ("train.conllu", "dev.conllu", "./encoder"):
            text = text.replace(f'"{file}"', f'"{tmp_path / file}"')
        Path("recipes", f"{name}.toml").write_text(text)
    settings = changes("training.epochs=1", "refine.max_steps=1")
    run("recipes/second.toml", "--output", "out", *settings)

    monkeypatch.chdir("elsewhere")
    result = run("../recipes/second.toml", "--output", "../out", *settings, "--resume")

    assert result.stdout.startswith("The model is in ../out/model.")


def test_resume_needs_the_same_recipe_of_the_initial_parser(encoder):
    Path("second.toml").write_text(RNGTR + '[initial]\nparser = "biaffine.toml"\n')
    run("second.toml", "--output", "out", "--set", "refine.max_steps=1", "--set", "training.epochs=1")
    Path("biaffine.toml").write_text(BIAFFINE.replace("n_layers = 1", "n_layers = 2"))

    (line,) = training_errors("second.toml", "--resume", "--set", "refine.max_steps=1", "--set", "training.epochs=1")

    assert "a different recipe: initial parser.encoder.n_layers was 1, not 2. Use" in line


@pytest.mark.parametrize("options", [(), ("--resume",)])
def test_a_folder_with_unrelated_files_is_rejected(files, options):
    Path("out").mkdir()
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        Path("out", name).touch()

    assert training_errors("biaffine.toml", *options) == [
        "out: The folder contains other files: a.txt, b.txt, c.txt …. Choose a new or empty folder."
    ]


# Bad input


@pytest.mark.parametrize(
    ("recipe", "settings", "output", "lines"),
    [
        ("biaffine.toml", [], "dev.conllu", ["dev.conllu: Not a directory."]),
        ("biaffine.toml", [], "dev.conllu/out", ["dev.conllu/out: Not a directory."]),
        (
            "biaffine.toml",
            ["training.epohcs=5", "refin.max_steps=1"],
            "out",
            [
                "biaffine.toml: refin is unknown; did you mean refine?",
                "biaffine.toml: [training] epohcs is unknown; did you mean epochs?",
            ],
        ),
        (
            "biaffine.toml",
            ['treebank.train=["a.conllu", "b.conllu"]', "treebank.dev=$NO/c"],
            "out",
            [
                "a.conllu: There is no such file.",
                "b.conllu: There is no such file.",
                "$NO/c needs the environment variable NO. Set it to a folder: NO=FOLDER treefine train …",
            ],
        ),
        # an encoder named in two recipes is reported once
        ("rngtr.toml", ["initial.parser=rngtr.toml"], "out", ["./encoder: There is no such model folder."]),
    ],
)
def test_a_wrong_recipe_or_folder_is_reported(files, recipe, settings, output, lines):
    assert training_errors(recipe, *changes(*settings), output=output) == lines


def test_an_unknown_device_is_reported(files):
    message = failed(invoke, "train", "biaffine.toml", "--output", "out", "--device", "abacus")

    assert message.startswith("Device 'abacus' cannot be used (")


def test_an_unusable_encoder_is_reported(encoder):
    Path("encoder/tokenizer.json").unlink()
    Parser(tiny_biaffine(), device="cpu").save("biaffine")
    Path("other").mkdir()
    Path("other/config.json").write_text('{"model_type": "gpt2"}')

    def message_for(folder):
        (line,) = training_errors("rngtr.toml", "--set", f"encoder.pretrained={folder}")
        return line

    assert message_for("./none") == "./none: There is no such model folder."
    assert message_for("./biaffine") == "biaffine: A biaffine model cannot be fine-tuned."
    assert message_for("./encoder") == (
        "encoder: The folder has no tokenizer.json and no vocab.txt. Save it with a fast tokenizer: "
        "AutoTokenizer.from_pretrained(...).save_pretrained(...)."
    )
    assert message_for("./other") == (
        "other/config.json: Encoders with model_type 'gpt2' are not supported. "
        "Choose an encoder of type bert, roberta, xlm-roberta, camembert, electra, mpnet."
    )


def test_too_few_sentences_are_reported(files):
    write_treebank(sample(3), "train.conllu")

    assert training_errors("biaffine.toml") == ["train.conllu: 3 sentences to train on, but at least 10 are needed."]


def test_cycles_are_reported(files):
    lines = Path("dev.conllu").read_text().split("\n\n")[0].splitlines()
    cells = [line.split("\t") for line in lines if line[0].isdigit()]
    cells[0][6], cells[1][6] = "2", "1"
    Path("dev.conllu").write_text("\n".join("\t".join(row) for row in cells) + "\n\n")

    (line,) = training_errors("biaffine.toml")

    assert line.startswith("dev.conllu:1: (sentence 1, word 1) The heads form a cycle: 1 -> 2 -> 1.")


def test_all_errors_of_recipe_treebank_encoder_and_initial_parser_are_reported_together(files):
    Path("first.toml").write_text(RNGTR.replace("./encoder", "./other") + "[tags]\nsorce = 1\n")
    Path("second.toml").write_text(RNGTR + '[initial]\nparser = "first.toml"\n[refine]\nmax_step = 1\n')

    assert training_errors("second.toml", "--set", "treebank.dev=none.conllu", "--set", "seed") == [
        "--set 'seed' is not a change. Write SECTION.KEY=VALUE, such as training.seed=2.",
        "second.toml: [refine] max_step is unknown; did you mean max_steps?",
        "none.conllu: There is no such file.",
        "./encoder: There is no such model folder.",
        "first.toml: [tags] sorce is unknown; did you mean source?",
        "./other: There is no such model folder.",
    ]


def test_an_unusable_initial_parser_is_reported(encoder):
    Path("second.toml").write_text(RNGTR + '[initial]\nparser = "biaffine.toml"\n')
    Parser(tiny_model(), device="cpu").save("trained")

    def message_for(parser, *changes):
        (line,) = training_errors("rngtr.toml", "--set", f"initial.parser={parser}", *changes)
        return line

    assert message_for("none.toml").startswith("none.toml: There is no such file.")
    assert message_for("none").startswith("There is no recipe 'none'. Name a TOML file, or one of ")
    assert message_for("./no/model") == "./no/model: There is no such model folder."
    assert message_for("$NO/model").startswith("$NO/model needs the environment variable NO.")
    assert message_for("second.toml") == (
        "second.toml: The recipe of an initial parser must not have an initial parser itself. "
        "Train it separately, and name its model folder."
    )
    assert message_for("trained", "--set", "initial.folds=2") == (
        "[initial] folds = 2 needs a recipe as parser, not the model trained."
    )
    assert (
        message_for("biaffine.toml", "--set", "initial.folds=21")
        == "[initial] folds = 21 is too many for 20 sentences."
    )
    write_treebank(sample(19), "train.conllu")  # half of them are nine, fewer than the minimum
    assert (
        message_for("biaffine.toml", "--set", "initial.folds=2") == "[initial] folds = 2 is too many for 19 sentences."
    )


def test_changes_of_an_initial_parser_that_is_no_recipe_are_reported(encoder):
    Parser(tiny_model(), device="cpu").save("trained")

    quick = changes("initial.training.epochs=1", "initial.mix.x.training.epochs=1")
    assert training_errors("rngtr.toml", *quick, *changes("initial.parser=./trained")) == [
        "--set initial.training.epochs=1: [initial] does not name a recipe as parser.",
        "--set initial.mix.x.training.epochs=1: There is no [initial.mix.x].",
    ]
    (line,) = training_errors("rngtr.toml", *changes("initial.parser=biaffine.toml", "initial.training.epohcs=1"))
    assert line == "biaffine.toml: [training] epohcs is unknown; did you mean epochs?"


def test_initial_parses_of_different_sentences_are_reported(encoder):
    settings = changes("initial.parser=files", "initial.train=dev.conllu", "initial.dev=train.conllu")

    first, second = training_errors("rngtr.toml", *settings)

    assert first.startswith("dev.conllu:1: ")
    assert second.startswith("train.conllu:1: ")
