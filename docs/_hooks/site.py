"""Hooks of mkdocs.yml: the pages are written for GitHub, and these make them pages of the site.

Files outside docs/ that a page links to become pages too, because the site knows no address of the repository.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from urllib.parse import urldefrag

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))
from notebooks import NAMES, notebook  # noqa: E402
from reference import with_references  # noqa: E402

OUTSIDE = {  # Markdown files outside docs/, and their places in the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "src/treefine/models/en/README.md": "models/en.md",
}
LANGUAGES = {".py": "python", ".toml": "toml"}
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_EXTERNAL = re.compile(r"[a-z]+:|#|$")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for origin, place in OUTSIDE.items():
        if place != "index.md":
            files.append(File.generated(config, place, content=(ROOT / origin).read_text()))
    sources = {
        source
        for file in files.documentation_pages()
        for source in _linked_files(_origin(file.src_uri), file.content_string)
        if _place(source) == f"source/{source}.md"
    }
    for name in NAMES:
        text = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text()
        files.append(File.generated(config, f"tutorials/{name}.ipynb", content=notebook(text)))
    for source in sorted(sources):
        text = (ROOT / source).read_text()
        page = f"# `{source}`\n\n````{LANGUAGES.get(Path(source).suffix, '')}\n{text}\n````\n"
        files.append(File.generated(config, f"source/{source}.md", content=page))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links that leave docs/ or show the name of a file, drop comments, and mark doctests for highlighting."""
    place = page.file.src_uri
    if place.startswith("source/"):
        return markdown
    markdown = re.sub(r"^ *<!-- .*? -->$", "", with_references(markdown), flags=re.MULTILINE)
    markdown = re.sub(r"^```python\n(?=>>>)", "```pycon\n", markdown, flags=re.MULTILINE)
    parts = _FENCED.split(markdown)
    parts[::2] = (_with_plain_pipes(_with_site_links(part, place)) for part in parts[::2])
    return "".join(parts)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep numbers and short code on one line, and drop the dash before an empty description in the API reference."""
    html = re.sub(r"<code>(?=[^<]{1,25}</code>)", '<code class="short">', html)
    html = re.sub(r"<td.*?</td>", lambda cell: re.sub(r"(?<=\d) (?=[%±])|(?<=±) (?=\d)", "&nbsp;", cell[0]), html)
    return re.sub(r'–\s*<div class="doc-md-description">\s*<p>\u200b</p>\s*</div>', "", html)


def _with_plain_pipes(markdown: str) -> str:
    r"""Return Markdown whose tables have plain pipes in code: GitHub needs them escaped, Python-Markdown does not.

    >>> print(_with_plain_pipes(r"| `a\|b` | c |"))
    | `a|b` | c |
    """
    code = re.compile(r"`[^`\n]+`")
    row = re.compile(r"^\|.*$", re.MULTILINE)
    return row.sub(lambda line: code.sub(lambda span: span[0].replace(r"\|", "|"), line[0]), markdown)


def _with_site_links(markdown: str, place: str) -> str:
    origin = _origin(place)

    def replaced(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if _EXTERNAL.match(target):
            return match[0]
        path, fragment = urldefrag(target)
        new = _place(_from_root(origin, path))
        if new is None:
            return text  # a folder of the repository, which the site does not have
        relative = posixpath.relpath(new, posixpath.dirname(place) or ".")
        if text.endswith(".md") and new.endswith(".md"):
            text = _title(new) or text
        return f"[{text}]({relative}{'#' + fragment if fragment else ''})"

    return _LINK.sub(replaced, markdown)


def _title(place: str) -> str | None:
    """Return the heading of a page, which says more to a reader of the site than the name of its file."""
    file = ROOT / _origin(place)
    heading = re.search(r"^# (.+)$", file.read_text(), re.MULTILINE) if file.exists() else None
    return heading and heading[1]


def _linked_files(origin: str, markdown: str) -> list[str]:
    """Return the files that a page links to, as paths from the root of the repository."""
    targets = (match[2] for part in _FENCED.split(markdown)[::2] for match in _LINK.finditer(part))
    return [_from_root(origin, urldefrag(target).url) for target in targets if not _EXTERNAL.match(target)]


def _from_root(origin: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def _origin(place: str) -> str:
    """Return the path of a page's file from the root of the repository."""
    origins = {there: here for here, there in OUTSIDE.items() if there != "index.md"}
    return origins.get(place, f"docs/{place}")


def _place(path: str) -> str | None:
    """Return the place of a repository file in the site, or None for a folder.

    >>> _place("docs/serving.md"), _place("CHANGELOG.md"), _place("pyproject.toml"), _place("src")
    ('serving.md', 'changelog.md', 'source/pyproject.toml.md', None)
    """
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return None
    return OUTSIDE.get(path, f"source/{path}.md")
