"""An extension of griffe for docs/api.md: it hands our docstrings and comments to mkdocstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Plain(griffe.Extension):
    """List the fields and properties of a class under its docstring, and show doctests as code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Put the doctests of a docstring into code blocks."""
        if obj.docstring is not None:
            obj.docstring.value = with_fences(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Replace the fields and properties of a class by one section of its docstring."""
        text, described = split_fields(cls.docstring.value if cls.docstring else "", frozenset(cls.members))
        lines = []
        for name, member in cls.members.items():
            if isinstance(member, griffe.Attribute) and not member.is_private and member.annotation is not None:
                description = described.get(name) or _description(member) or "\u200b"  # griffe wants some text
                lines.append(f"    {name} ({member.annotation}): {description}")
                member.docstring = None  # mkdocstrings shows a member of its own only if it has one
        if lines:
            text = "\n".join([text, "", "Attributes:", *lines])
        if text:
            cls.docstring = griffe.Docstring(text, parent=cls, lineno=cls.lineno)


def _description(attribute: griffe.Attribute) -> str:
    """Return the docstring of a property, or the comment at the end of a field's line."""
    if attribute.docstring is not None:
        return _capitalised(" ".join(attribute.docstring.value.split()).removeprefix("Return "))
    comment = re.search(r"  # (?:… )?(.+?)(?: …)?$", attribute.source.splitlines()[-1] if attribute.source else "")
    return _capitalised(comment[1].replace("[", "\\[")) if comment else ""


def split_fields(text: str, names: frozenset[str]) -> tuple[str, dict[str, str]]:
    r"""Return a class docstring without the lines that describe fields, and the description of each field.

    >>> split_fields("An arc.\n\nhead: The head,\n    or 0.\nlabel: Its label.", frozenset({"head", "label"}))
    ('An arc.', {'head': 'The head, or 0.', 'label': 'Its label.'})
    """
    described: dict[str, str] = {}

    def taken(match: re.Match[str]) -> str:
        if match[1] not in names:
            return match[0]
        described[match[1]] = _capitalised(" ".join(match[2].split()))
        return ""

    text = re.sub(r"^(\w+): (.+(?:\n    .+)*)\n?", taken, text, flags=re.MULTILINE)
    return text.strip(), described


def with_fences(text: str) -> str:
    r"""Return a docstring with each doctest in a code block, because Markdown reads `>>>` as a quotation.

    >>> with_fences("Add.\n\n>>> 1 + 1\n2")
    'Add.\n\n```pycon\n>>> 1 + 1\n2\n```'
    """
    doctest = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
    return doctest.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


def _capitalised(text: str) -> str:
    """Return a description with a capital, unless it starts with code such as `columns[c]`."""
    return text if re.match(r"\w+[\\\[(._=]", text) else text[:1].upper() + text[1:]
