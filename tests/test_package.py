"""The public names of the package, the modules that importing it loads, and the wheels that are published."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import treefine


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


PUBLIC = """
AlignmentError ConfigError Constraints Graph LanguageWarning LongSentenceWarning ModelError Parse Parser
ParserOptions Parses Score Sentence Step TreebankError TreefineError UnknownLabelWarning Word evaluate
load read_treebank to_html to_svg to_table write_treebank
"""


def test_the_public_names_are_these():
    assert treefine.__all__ == PUBLIC.split()
    assert all(hasattr(treefine, name) for name in treefine.__all__)


def test_importing_treefine_loads_only_the_standard_library():
    assert not loaded_by("import treefine") & {"torch", "transformers", "numpy", "jinja2", "rich", "typer"}


def test_parsing_loads_neither_transformers_nor_the_hub():
    loaded = loaded_by("from treefine import Parser")

    assert "torch" in loaded
    assert not loaded & {"transformers", "huggingface_hub", "rich", "typer"}


def test_evaluating_loads_neither_torch_nor_numpy_nor_rich():
    """Check that start-up stays fast; `python -m benchmarks startup` measures it."""
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


PACKAGE = Path(treefine.__file__).parent
ROOT = Path(__file__).parents[1]


def part_of_contributing(name):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return page.partition(f"<!-- {name} -->")[2].partition("<!-- end -->")[0]


def test_the_map_lists_exactly_the_files_of_the_package():
    named = []
    for line in part_of_contributing("map").strip().splitlines()[2:]:
        folder, _, files = line.strip("| ").split(" | ")
        folder = folder.strip("`").removeprefix("treefine/")
        named += [f"{folder}{name}.py" for name in re.findall(r"`(\w+)`", files)]

    found = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")]
    assert len(named) == len(set(named))
    assert {name for name in found if not name.endswith("/__init__.py")} == set(named) - {"fast/__init__.py"}


def test_every_file_in_the_reading_order_and_on_the_design_page_exists():
    named = re.findall(r"`(\w+/\w+)`", part_of_contributing("reading order"))

    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

    assert len(named) == len(set(named)) <= 30
    named += [name for name in re.findall(r"`(\w+/\w+)[`.]", design) if (PACKAGE / name).parent.is_dir()]
    assert [name for name in named if not (PACKAGE / f"{name}.py").is_file()] == []


def defined_in(module):
    """Yield the public names that a module defines at its top level."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names += [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        yield from {name for name in names if not name.startswith("_")}


def test_each_public_name_is_defined_in_only_one_module():
    modules = Counter(name for module in PACKAGE.rglob("*.py") for name in set(defined_in(module)))

    assert [name for name, number in modules.items() if number > 1] == []
