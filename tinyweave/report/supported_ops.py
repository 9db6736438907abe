"""docs/SUPPORTED_OPS.md, from the constraints themselves: what a constraint's docstring says is what an error says.

In: the rows of ops and kernels. Out: Markdown.
"""

from __future__ import annotations

from ..kernels.table import VARIANTS
from ..ops import SPECS

HEAD = """\
# Supported ops

Generated from the constraints of each op kind (`tinyweave/ops`); a test keeps it so, `pytest --update-golden` writes it anew.
The same sentences are the errors that a model which breaks them gets. "Types" are those of the data input and the output that a
kernel takes; "any" moves elements of every type. A view costs no code and no bytes. Networks that are uint8 throughout
become int8 where that changes no byte.
"""


def supported_ops() -> str:
    """Return the page: a table of all kinds with their types, then what each demands."""
    rows = [HEAD, "| kind | types |", "|---|---|", *(f"| [{kind}](#{kind}) | {_types(kind)} |" for kind in sorted(SPECS))]
    for kind in sorted(SPECS):
        rows += ["", f"## {kind}", ""]
        rows += [f"- {' '.join((constraint.__doc__ or '').split())}" for constraint in SPECS[kind].constraints]
    return "\n".join(rows) + "\n"


def _types(kind: str) -> str:
    if SPECS[kind].view:
        return "view"
    pairs = dict.fromkeys(row.types for row in VARIANTS if kind in row.kinds)
    return ", ".join("any" if pair[0] == "any" else f"{pair[0]} to {pair[1]}" for pair in pairs) or "known when compiling"
