"""Draw graphs as a self-contained HTML page. Sections are written one by one, so the page can be of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files

from treefine.drawing.characters import safe_html
from treefine.drawing.picture import Picture
from treefine.drawing.svg import svg_and_width
from treefine.drawing.text import draw_text
from treefine.treebank.sentence import BLANK
from treefine.version import __version__

PRINTED = 960  # pixels; A4 paper has about 640 (margins of 2 cm), so the 12-pixel text of a drawing shrinks to 6 points
LONG = 200  # words; in longer sentences, arcs over a row of words are too long to follow
GENERATOR = f"treefine {__version__}"  # the name of the program in the files that it writes

PAGE_STYLE = "\n" + files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def page_start(title: str, *, style: str = "") -> str:
    """Return the start of the page up to its heading; `style` is CSS to add to the default."""
    name = safe_html(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f'<meta name="generator" content="{GENERATOR}"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{name}</title>\n<style>{PAGE_STYLE}{style}</style>\n</head>\n<body>\n<h1>{name}</h1>\n<main>\n"
    )


def page_part(pictures: Sequence[Picture], *, heading: str = "", others: Sequence[Picture] = ()) -> str:
    """Return the section of one sentence: its last picture, all steps if there are several, other trees, a word table.

    The default heading is the text of the sentence.
    """
    last = pictures[-1]
    if len(pictures) > 1:
        last = replace(last, before=None, title="")  # changes are shown in the steps
    parts = [f'<h2 dir="auto">{safe_html(heading or last.text)}</h2>', tree_figure([last], "Graph")]
    if len(pictures) > 1:
        steps = tree_figure(pictures, "Steps")
        parts.append(f"<details>\n<summary>All {len(pictures)} graphs, step by step</summary>\n{steps}\n</details>")
    if others:
        drawn = tree_figure(others, "Other trees")
        parts.append(f'<details open="">\n<summary>Next best trees ({len(others)})</summary>\n{drawn}\n</details>')
    parts.append(f"<details>\n<summary>Table of words</summary>\n{_table(last)}\n</details>")
    return "<section>\n" + "\n".join(parts) + "\n</section>\n"


def page_end() -> str:
    """Return the end of the page."""
    return "</main>\n</body>\n</html>\n"


def tree_figure(pictures: Sequence[Picture], name: str, *, caption: str = "") -> str:
    """Return the pictures with the words in a row; wide pictures are printed with one word per line.

    Sentences of more than 200 words have one word per line on the screen too, with a note that says so.
    """
    n_words = max(len(picture.forms) for picture in pictures)
    if n_words > LONG:
        kind, drawn = (
            ' class="long"',
            f"<p>Drawn with one word per line, because the sentence has {n_words:,} words.</p>\n",
        )
    else:
        drawn, width = svg_and_width(pictures)
        kind = ' class="wide"' if width > PRINTED else ""
    if kind:
        drawn += "".join(f"<pre>{escape(draw_text(each, isolate=True))}</pre>\n" for each in pictures)
    said = f'<figcaption dir="auto">{safe_html(caption)}</figcaption>\n' if caption else ""
    # The figure can get the keyboard focus, so that the arrow keys scroll a wide drawing.
    start = f'<figure{kind} tabindex="0" role="group" aria-label="{safe_html(name)}">'
    return f"{start}\n{drawn}{said}</figure>"


def _table(picture: Picture) -> str:
    """Return a table with the number, form and annotation of each word, as far as they are known."""
    columns: dict[str, Sequence[str]] = {"": [*map(str, range(1, len(picture.forms) + 1))], "word": picture.forms}
    if picture.lemmas:
        columns["lemma"] = picture.lemmas
    if picture.tags:
        columns["tag"] = picture.tags
    if picture.feats:
        columns["features"] = picture.feats
    if (graph := picture.graph) is not None:
        heads = ["ROOT", *picture.forms]
        named = [f"{head} {heads[head]}" for head in graph.heads]
        columns["head"] = [BLANK if word in picture.unattached else named[word] for word in range(1, len(named))]
        columns["label"] = graph.labels[1:]
    if picture.confidence:
        columns["confidence"] = [f"{each:.2f}" for each in picture.confidence]
    kinds = ['class="number"' if name in ("", "confidence") else 'dir="auto"' for name in columns]
    rows = [[f'<th scope="col">{name}</th>' for name in columns]]
    for cells in zip(*columns.values(), strict=True):
        rows.append([f"<td {kind}>{safe_html(cell)}</td>" for kind, cell in zip(kinds, cells, strict=True)])
    table = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0" role="group" aria-label="Words"><table>\n{table}\n</table></div>'
