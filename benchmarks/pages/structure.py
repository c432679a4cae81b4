"""Measure the size of the codebase, and how many files run to parse one sentence."""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.markdown import table
from benchmarks.options import ROWS_FILE, command, option
from benchmarks.rows import ROOT, read_rows, save_row

BEFORE = "25f3bf0"  # the commit that issue 17 measured
TEXT = "The dog barks."
# Each part ends with a call of `measured`, which counts the files whose functions run.
_PARSE = "measured(lambda: CliRunner().invoke(app, ['parse', TEXT]))"
_CALL = "nlp = treefine.load('en', device='cpu'); nlp(TEXT); measured(lambda: nlp(TEXT))"
_POST = """
app = create_app({'en': treefine.load('en', device='cpu')})
threading.setprofile(note)  # for the thread that parses, which the client starts
with TestClient(app, base_url='http://localhost') as client:
    client.post('/v1/parse', json={'text': TEXT}).raise_for_status()
    found.clear()
    measured(lambda: client.post('/v1/parse', json={'text': TEXT}).raise_for_status())
"""
PATHS = {"treefine parse": _PARSE, "nlp(text)": _CALL, "POST /v1/parse": _POST}
_PROGRAM = """
import sys, threading
from pathlib import Path
import treefine
from typer.testing import CliRunner
try:
    from treefine.cli.app import app
except ImportError:
    from treefine.interfaces.cli import app
from fastapi.testclient import TestClient
from treefine.serving.app import create_app
TEXT, PACKAGE, found = {text!r}, str(Path(treefine.__file__).parent), set()
def note(frame, event, _):
    code = frame.f_code
    if code.co_filename.startswith(PACKAGE) and not code.co_name.startswith('<'):
        if '__qualname__' not in frame.f_locals:  # the body of a class runs on import
            found.add(code.co_filename)
def measured(work):
    threading.setprofile(note)
    sys.setprofile(note)
    work()
    sys.setprofile(None)
{part}
print(len(found))
"""


ALGORITHM = (
    "model/relations",
    "model/attention",
    "model/encoder",
    "model/scorer",
    "parsing/refine",
    "parsing/decode",
    "parsing/trees",
)
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@command(option("--checkout", type=Path, default=ROOT, help="checkout to measure (default: this one)"), ROWS_FILE)
def measure_structure(options: argparse.Namespace) -> None:
    """Measure the size of package and tests, names defined twice, and the files that run to parse a sentence.

    python -m benchmarks structure
    python -m benchmarks structure --checkout ../base    # another checkout
    """
    checkout = options.checkout.resolve()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True
    )
    save_row("structure", {"of": commit.stdout.strip()}, structure_of(checkout), path=options.rows)


def structure_of(checkout: Path) -> dict[str, Any]:
    """Return the measures of one checkout."""
    package = checkout / "src" / "treefine"
    files = sorted(package.rglob("*.py"))
    trees = {path: ast.parse(path.read_text()) for path in files}
    functions = [each for tree in trees.values() for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    classes = [each.name for tree in trees.values() for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    tests = [path for path in (checkout / "tests").rglob("*.py")]
    toy = [path for path in (checkout / "tests" / "data" / "toy").glob("*.conllu")]
    algorithm = [path for path in files if path.relative_to(package).with_suffix("").as_posix() in ALGORITHM]
    result = {
        "files": len(files),
        "lines": sum(map(_n_lines, files)),
        "largest folder": max(Counter(path.parent for path in files if path.name != "__init__.py").values()),
        "lines of the algorithm": sum(map(_n_code_lines, algorithm)),
        "attend functions": sum(each.name.startswith("attend") for each in functions),
        "Relations classes": sum(each.endswith("Relations") for each in classes),
        "signatures with max_steps and stop_above": sum(_restates_options(each) for each in functions),
        "names in two modules": len(repeated_names(package)),
        "test lines": sum(map(_n_lines, tests)),
        "generated toy lines": sum(map(_n_lines, toy)),
    }
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "COLUMNS": "100"}
    for name, part in PATHS.items():
        program = _PROGRAM.format(text=TEXT, part=part)
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        if run.returncode:
            sys.exit(run.stderr)
        result[f"files, {name}"] = int(run.stdout.split()[-1])
    return result


def repeated_names(package: Path) -> dict[str, list[str]]:
    """Return the public names that more than one module of a package defines at its top level, with the modules."""
    found: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).as_posix()
        for name in dict.fromkeys(_defined(ast.parse(path.read_text()))):
            found.setdefault(name, []).append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def _defined(module: ast.Module) -> list[str]:
    names = []
    for each in module.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(each.name)
        targets = [each.target] if isinstance(each, ast.AnnAssign) else getattr(each, "targets", [])
        names += [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def _restates_options(function: ast.FunctionDef) -> bool:
    arguments = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    return {"stop_above", "tags"} <= arguments and bool({"max_steps", "steps"} & arguments)


def _n_code_lines(path: Path) -> int:
    """Count lines of code: neither blank lines nor comments, docstrings and imports."""
    text = path.read_text(encoding="utf-8")
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = node.body if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) else []
        docstrings = [each for each in body[:1] if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]
        imports = [node] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        for each in (*docstrings, *imports):
            left_out.update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for each in tokens if each.type not in _NO_CODE for line in range(each.start[0], each.end[0] + 1)}
    return len(lines - left_out)


def _n_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


AIMS = {
    "files": ("Python files in `src`", "115"),
    "lines": ("lines of Python in `src`", "21,000"),
    "largest folder": ("files in the largest flat folder", "16"),
    "files, treefine parse": ('files whose functions run in `treefine parse "text"`', "35"),
    "files, nlp(text)": ("… in `nlp(text)`, once loaded", "20"),
    "files, POST /v1/parse": ("… in one `POST /v1/parse`", "25"),
    "lines of the algorithm": ("lines of code of the algorithm, without its fast paths", "800"),
    "attend functions": ("functions named `attend*`", "one reference"),
    "Relations classes": ("classes named `*Relations`", "one reference"),
    "signatures with max_steps and stop_above": ("signatures that restate the parser's options", "1"),
    "names in two modules": ("public top-level names defined in two modules", "0"),
    "test lines": ("lines of test code", "28,000"),
    "generated toy lines": ("lines of generated toy data in git", "0"),
}


def structure_table() -> str:
    """Return the measures before and after the redesign, with the targets."""
    rows = {row["config"]["of"]: row["result"] for row in read_rows("structure")}
    before, after = rows[BEFORE], list(rows.values())[-1]
    before["lines of the algorithm"] = None  # not separable from its fast paths
    lines = [(title, _shown(before[key]), _shown(after[key]), aim) for key, (title, aim) in AIMS.items()]
    return table(("measure", "before", "now", "target"), *lines)


def _shown(number: int | None) -> str:
    return "not separable" if number is None else f"{number:,}"
