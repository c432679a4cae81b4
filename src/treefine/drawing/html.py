"""Graphs as a page that stands alone: a section for each sentence, written one after another, so any number fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from treefine.drawing.characters import visible
from treefine.drawing.picture import Picture
from treefine.drawing.svg import FONTS, draw_svg

PAGE_STYLE = f"""
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 {FONTS}; max-width: 80rem; margin: 0 auto; padding: 1rem 1.5rem; counter-reset: sentence; }}
h1 {{ font-size: 1.5rem; }}
h2 {{ font-size: 1.1rem; overflow-wrap: anywhere; }}
h2::before {{ counter-increment: sentence; content: counter(sentence) ". "; }}
section {{ margin: 2rem 0; }}
figure {{ margin: 0.5rem 0; overflow-x: auto; border: 1px solid #81818155; border-radius: 6px; }}
figure svg {{ display: block; }}
summary {{ cursor: pointer; }}
:focus-visible {{ outline: 2px solid #bc4c00; outline-offset: 2px; }}
table {{ border-collapse: collapse; margin: 0.5rem 0; font-size: 0.9rem; }}
th, td {{ text-align: start; padding: 0.1rem 0.8rem; border-bottom: 1px solid #81818155; }}
td {{ max-width: 24rem; overflow-wrap: break-word; }}
td.number {{ text-align: end; font-variant-numeric: tabular-nums; }}
@media print {{
  :root {{ color-scheme: light; }}
  figure, tr {{ break-inside: avoid; }}
  h2 {{ break-after: avoid; }}
  figure {{ overflow: visible; }}
  figure svg {{ max-width: 100%; height: auto; }}
  details::details-content {{ content-visibility: visible; block-size: auto; }}
}}
"""


def page_start(title: str, *, style: str = "") -> str:
    """The page down to its heading; more style than that of a page of sentences may be given."""
    name = escape(visible(title))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{name}</title>\n<style>{PAGE_STYLE}{style}</style>\n</head>\n<body>\n<h1>{name}</h1>\n<main>\n"
    )


def page_part(pictures: Sequence[Picture], *, heading: str = "", others: Sequence[Picture] = ()) -> str:
    """One sentence: its last picture, the steps before it if there are several, other trees, and a table of its words.

    Without a heading it has the text of the sentence.
    """
    last = pictures[-1]
    if len(pictures) > 1:
        last = replace(last, before=None, title="")  # what changed is seen among the steps
    parts = [f'<h2 dir="auto">{escape(visible(heading or last.text))}</h2>', _figure([last], "Graph")]
    if len(pictures) > 1:
        steps = _figure(pictures, "Steps")
        parts.append(f"<details>\n<summary>All {len(pictures)} graphs, step by step</summary>\n{steps}\n</details>")
    if others:
        drawn = _figure(others, "Other trees")
        parts.append(f'<details open="">\n<summary>The next best trees: {len(others)}</summary>\n{drawn}\n</details>')
    parts.append(f"<details>\n<summary>Table of words</summary>\n{_table(last)}\n</details>")
    return "<section>\n" + "\n".join(parts) + "\n</section>\n"


def page_end() -> str:
    """The end of the page."""
    return "</main>\n</body>\n</html>\n"


def _figure(pictures: Sequence[Picture], name: str) -> str:
    # It has a place in the order of the Tab key, so that the arrow keys can move a wide drawing.
    return f'<figure tabindex="0" role="group" aria-label="{name}">\n{draw_svg(pictures)}</figure>'


def _table(picture: Picture) -> str:
    """Number, word, tag, head, label and confidence of each word, as far as they are given."""
    graph = picture.graph
    names = ["", "word", *["tag"] * bool(picture.tags), *["head", "label"] * (graph is not None)]
    names += ["confidence"] * bool(picture.confidence)
    rows = ["<tr>" + "".join(f'<th scope="col">{name}</th>' for name in names) + "</tr>"]
    for word, form in enumerate(picture.forms, start=1):
        cells = [_number(str(word)), _cell(form)]
        if picture.tags:
            cells.append(_cell(picture.tags[word - 1]))
        if graph is not None:
            head = graph.heads[word]
            cells += [_cell(f"{head} {picture.forms[head - 1] if head else 'ROOT'}"), _cell(graph.labels[word])]
        if picture.confidence:
            cells.append(_number(f"{picture.confidence[word - 1]:.2f}"))
        rows.append("<tr>" + "".join(cells) + "</tr>")
    return "<table>\n" + "\n".join(rows) + "\n</table>"


def _cell(text: str) -> str:
    return f'<td dir="auto">{escape(visible(text))}</td>'


def _number(text: str) -> str:
    return f'<td class="number">{text}</td>'
