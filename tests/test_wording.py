"""The prose of the project contains no phrase that the style guide bans (see tests/support/wording.py)."""

from pathlib import Path

import pytest

from tests.support.wording import EXEMPT, files, findings

ROOT = Path(__file__).parents[1]
PROSE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", ".ci/run"]
FOLDERS = ["benchmarks", "docs", "examples", "src", "tests"]


@pytest.mark.parametrize("name", [*PROSE, *FOLDERS])
def test_no_file_contains_a_banned_phrase(name):
    checked = [path for path in files(ROOT / name) if path.name not in EXEMPT]
    found = [str(each) for path in checked for each in findings(path)]

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "What is none is raised.",
        "Of two runs on one file the second is refused.",
        "A file with one row a word.",
        "A tenth of the pieces hidden in training.",
        "The keys that differ are told.",
        "It is parsed anew, and such ones are dropped.",
        "Drawings and pages cannot be gone\n# on with.",
        "A field that there is not is refused.",
        "Looked at are columns.",
    ],
)
def test_banned_phrases_are_found_across_line_breaks(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text)

    assert list(findings(path))


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Read files."""\n\n\ndef heads():\n    """The heads of the best tree."""\n', 4),
        ('class Limits:\n    """What a server accepts."""\n', 1),
        ("def test_a_bad_line_is_told():\n    pass\n", 1),
    ],
)
def test_docstrings_without_a_verb_and_test_names_are_found(tmp_path, source, line):
    path = tmp_path / "module.py"
    path.write_text(source)

    assert [each.line for each in findings(path)] == [line]
