"""README and docs show what the program really does, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SERVING = ROOT / "docs" / "serving.md"
MARKDOWN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def headings(page: Path) -> set[str]:
    """Return the anchors that GitHub and the site give to the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    plain = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    )
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)", text):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists() or path.endswith(".ipynb"), target  # notebooks are made with the site
        assert not anchor or anchor in headings(file), target


def test_code_refers_to_sections_that_the_design_page_has():
    sections = re.findall(r"^## (.+)$", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE)
    sources = [re.sub(r"\n\s*#?\s*", " ", path.read_text()) for path in (ROOT / "src" / "treefine").rglob("*.py")]

    named = [name for text in sources for name in re.findall(r"docs/design\.md, ['\"]?(.{1,80})", text)]

    assert len(named) > 10
    assert [name for name in named if not name.startswith(tuple(sections))] == []


def test_the_picture_of_the_readme_is_what_its_command_draws():
    import treefine

    (text,) = re.findall(r'make parse TEXT="([^"]+)"', (ROOT / "README.md").read_text())
    (parse,) = treefine.load("en", device="cpu")(text)

    def without_numbers(svg):  # confidences may differ in the last digit between machines
        return re.sub(r"\d\.\d\d", "", svg).strip()

    assert without_numbers(parse.to_svg(steps=True)) == without_numbers((ROOT / "docs" / "steps.svg").read_text())
    assert f"TEXT ?= {text}\n" in (ROOT / "Makefile").read_text()
