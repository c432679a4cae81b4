"""What a user imports, and what that costs."""

import subprocess
import sys
from pathlib import Path

import treefine


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_public_names_are_these():
    assert treefine.__all__ == [
        "AlignmentError",
        "ConfigError",
        "Constraints",
        "Graph",
        "ModelError",
        "Parse",
        "Parser",
        "Score",
        "Sentence",
        "Step",
        "TreebankError",
        "TreefineError",
        "Word",
        "evaluate",
        "load",
        "read_treebank",
        "to_table",
        "write_treebank",
    ]
    assert all(hasattr(treefine, name) for name in treefine.__all__)


def test_importing_treefine_needs_the_standard_library_alone():
    assert not loaded_by("import treefine") & {"torch", "transformers", "numpy", "jinja2", "rich", "typer"}


def test_parsing_needs_neither_transformers_nor_the_hub():
    loaded = loaded_by("from treefine import Parser")

    assert "torch" in loaded
    assert not loaded & {"transformers", "huggingface_hub", "rich", "typer"}


def test_evaluating_loads_neither_torch_nor_numpy_nor_rich():
    """This is what keeps start-up short; `python -m benchmarks startup` measures it."""
    gold = str(Path(__file__).parent / "data" / "constructs.conllu")
    call = f"app(['evaluate', {gold!r}, {gold!r}], standalone_mode=False)"

    loaded = loaded_by(f"from treefine.cli.app import app; {call}")

    assert not loaded & {"torch", "transformers", "numpy", "jinja2", "rich"}


def test_every_fixture_has_its_origin_and_licence():
    folder = Path(__file__).parent / "data"
    readme = (folder / "README.md").read_text()

    for path in folder.glob("**/*"):
        name = str(path.relative_to(folder))
        assert path.name == "README.md" or path.is_dir() or "__pycache__" in name or f"`{name}`" in readme
