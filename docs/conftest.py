"""Run the snippets of short pages. tests/slow/test_pages.py runs the others, the consoles and the tutorials."""

from pathlib import Path

SLOW = (
    "coming-from.md",
    "parsing.md",
    "spacy.md",
    "tables.md",
    "training.md",
)  # they write files, take seconds, or need Polars or spaCy
collect_ignore = ["tutorials", "_hooks", *SLOW]

RECIPE = """
[treebank]
train = ["train.conllu"]
dev = "dev.conllu"
[encoder]
pretrained = "./encoder"
[relations]
graph = "none"
[segmenter]
train = "never"
"""


def prepare(folder: Path) -> None:
    """Prepare a working folder for the snippets of long pages: docs, untrained models, a treebank and a recipe."""
    from tests.support.tiny import sample, tiny_model, tiny_syntr, write_encoder
    from treefine import Parser, write_treebank
    from treefine.config import TagSettings

    (folder / "docs").symlink_to(Path(__file__).parent)
    Parser(tiny_model(), device="cpu").save(folder / "models/en")
    Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu").save(folder / "models/en-tagger")
    Parser(tiny_syntr(), device="cpu").save(folder / "models/en-syntr")
    write_treebank(sample(20), folder / "train.conllu")
    write_treebank(sample(26)[20:], folder / "dev.conllu")
    write_encoder(folder / "encoder", "bert")
    (folder / "syntr.toml").write_text(RECIPE)
