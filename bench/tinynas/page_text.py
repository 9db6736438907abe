"""Markdown for the generated pages: tables, filled paragraphs, lists of names. In: cells, text, names. Out: Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

LINE = 128  # characters of a line of a page


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], left: int = 2) -> str:
    """Return a table in Markdown; columns after the first `left` are aligned to the right."""
    marks = ["---" if number < left else "---:" for number in range(len(heads))]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (heads, marks, *rows)) + "\n"


def filled(text: str) -> str:
    """Return a text with lines of at most LINE characters; an empty line separates paragraphs."""
    paragraphs = (fill(each, LINE, break_long_words=False, break_on_hyphens=False) for each in text.strip().split("\n\n"))
    return "\n\n".join(paragraphs) + "\n"


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them, and "and" before the last."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
