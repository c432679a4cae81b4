"""Draw graphs as a self-contained HTML page. Sections are written one by one, so the page can be of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files

from treefine.drawing.picture import Drawing, Picture, drawings_of
from treefine.drawing.svg import draw_svg
from treefine.drawing.text import draw_text
from treefine.errors import safe_html
from treefine.treebank.sentence import BLANK, HasSentence, Sentence
from treefine.version import __version__

PRINTED = 960  # pixels; A4 paper has about 640 (margins of 2 cm), so the 12-pixel text of a drawing shrinks to 6 points
LONG = 200  # words; in longer sentences, arcs over a row of words are too long to follow
PAGE_END = "</main>\n</body>\n</html>\n"
GENERATOR = f"treefine {__version__}"  # the name of the program in the files that it writes

_STYLE = "\n" + files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def page_start(title: str, *, style: str = "") -> str:
    """Return the start of the page up to its heading; `style` is CSS to add to the default."""
    name = safe_html(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f'<meta name="generator" content="{GENERATOR}"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{name}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n<h1>{name}</h1>\n<main>\n"
    )


def page_part(drawing: Drawing) -> str:
    """Return the section of one sentence: its last picture, all steps or other trees, and a table of the words."""
    shown, *others = drawing.pictures if drawing.is_ranked else drawing.pictures[::-1]
    if others and not drawing.is_ranked:
        shown = replace(shown, before=None, title="")  # changes are shown in the steps
    parts = [f'<h2 dir="auto">{safe_html(drawing.text or shown.text)}</h2>', tree_figure([shown], "Graph")]
    if others and drawing.is_ranked:
        figure = tree_figure(others, "Other trees")
        parts.append(f'<details open="">\n<summary>Next best trees ({len(others)})</summary>\n{figure}\n</details>')
    elif others:
        figure, n_graphs = tree_figure(drawing.pictures, "Steps"), len(drawing.pictures)
        parts.append(f"<details>\n<summary>All {n_graphs} graphs, step by step</summary>\n{figure}\n</details>")
    parts.append(f"<details>\n<summary>Table of words</summary>\n{_table(shown)}\n</details>")
    return "<section>\n" + "\n".join(parts) + "\n</section>\n"


def tree_figure(pictures: Sequence[Picture], name: str, *, caption: str = "") -> str:
    """Return the pictures with words in a row; on paper, or if they are long, with one word per line."""
    n_words = max(len(picture.forms) for picture in pictures)
    if n_words > LONG:
        kind = ' class="long"'
        drawn = f"<p>Drawn with one word per line, because the sentence has {n_words:,} words.</p>\n"
    else:
        drawn, width = draw_svg(pictures)
        kind = ' class="wide"' if width > PRINTED else ""
    if kind:
        drawn += "".join(f"<pre>{escape(draw_text(each, isolate=True))}</pre>\n" for each in pictures)
    below = f'<figcaption dir="auto">{safe_html(caption)}</figcaption>\n' if caption else ""
    # The figure can get the keyboard focus, so that the arrow keys scroll a wide drawing.
    start = f'<figure{kind} tabindex="0" role="group" aria-label="{safe_html(name)}">'
    return f"{start}\n{drawn}{below}</figure>"


def _table(picture: Picture) -> str:
    columns: dict[str, Sequence[str]] = {
        "": [*map(str, range(1, len(picture.forms) + 1))],
        "word": picture.forms,
        "lemma": picture.lemmas,
        "tag": picture.tags,
        "features": picture.feats,
    }
    if (graph := picture.graph) is not None:
        heads = ["ROOT", *picture.forms]
        named = [f"{head} {heads[head]}" for head in graph.heads]
        columns["head"] = [BLANK if word in picture.unattached else named[word] for word in range(1, len(named))]
        columns["label"] = graph.labels[1:]
    columns["confidence"] = [f"{each:.2f}" for each in picture.confidence]
    columns = {name: cells for name, cells in columns.items() if cells}
    kinds = ['class="number"' if name in ("", "confidence") else 'dir="auto"' for name in columns]
    rows = [[f'<th scope="col">{name}</th>' for name in columns]]
    for cells in zip(*columns.values(), strict=True):
        rows.append([f"<td {kind}>{safe_html(cell)}</td>" for kind, cell in zip(kinds, cells, strict=True)])
    table = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0" role="group" aria-label="Words"><table>\n{table}\n</table></div>'


def to_html(
    sentences: Sentence | HasSentence | Iterable[Sentence | HasSentence], *, steps: bool = False, title: str = "Trees"
) -> str:
    """Return a complete HTML page with the trees of Sentences or Parses, and a table of the words of each.

    With `steps`, each Parse is drawn with all its refinement steps. `title` is the heading of the page.
    """
    return "".join(html_of(drawings_of(sentences, steps=steps), title))


def html_of(drawings: Iterable[Drawing], title: str) -> Iterator[str]:
    """Yield the parts of one page with a section per sentence."""
    yield page_start(title)
    yield from map(page_part, drawings)
    yield PAGE_END
