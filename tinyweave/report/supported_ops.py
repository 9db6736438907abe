"""Generate docs/SUPPORTED_OPS.md from the constraints of each op kind, whose docstrings are the error messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from ..importers.tflite_lowering import FORMS, LOWERED
from ..kernels.table import VARIANTS
from ..ops import SPECS
from ..tflite_schema import CUSTOM, OPS

COMMON = 4  # a constraint that at least this many op kinds share is listed once for all of them
HEAD = f"""\
# Supported ops

`tinyweave inspect MODEL` names each op of your model that is not supported, with the reason. Kinds with equal constraints share
a section, which lists the types of data input and output, then what an op must meet.

- "any": elements of every type are moved.
- "view": no code and no bytes.
- "custom op": TFLite lacks the kind; a .tflite file has the custom op `{CUSTOM}KIND`.

uint8 networks become int8 if that changes no byte.

Generated from `tinyweave/ops` (`pytest --update-golden tests/report/test_supported_ops.py`).
"""

REWRITTEN = """\
## Rewritten ops

Ops of a `.tflite` file that tinyweave rewrites as other ops when it reads the file:
"""


def supported_ops() -> str:
    """Return the text of SUPPORTED_OPS.md: common constraints, types and constraints of each kind, and rewritten ops."""
    uses = Counter(sentence for kind in SPECS for sentence in _constraints(kind))
    common = {sentence: number for number, (sentence, count) in enumerate(uses.most_common(), 1) if count >= COMMON}
    rows = [HEAD, "## Common constraints", "", *(f"{number}. {sentence}" for sentence, number in common.items())]
    kinds_of = defaultdict[tuple[str, ...], list[str]](list)
    for kind in sorted(SPECS):
        kinds_of[_items(kind, common)].append(kind)
    for items, kinds in kinds_of.items():
        rows += ["", f"## {', '.join(kinds)}", "", *(f"- {item}" for item in items)]
    rewritten = {kind: " ".join((each.__doc__ or "").split()) for kind, each in sorted({**LOWERED, **FORMS}.items())}
    rows += ["", REWRITTEN, *(f"- {kind}: {says[0].lower()}{says[1:].removesuffix('.')}" for kind, says in rewritten.items())]
    return "\n".join(rows) + "\n"


def _items(kind: str, common: Mapping[str, int]) -> tuple[str, ...]:
    """Return the items of the list under an op kind: its types, the numbers of its common constraints, its other constraints.

    `common` maps the sentence of each common constraint to its number on the page.
    """
    numbers = sorted(common[sentence] for sentence in _constraints(kind) if sentence in common)
    custom = f", custom op {OPS[kind].custom}".rstrip() if OPS[kind].numbers is not None else ""
    types = f"types: {_types(kind)}{custom}"
    shared = [f"[common constraints](#common-constraints) {', '.join(map(str, numbers))}"] if numbers else []
    return types, *shared, *(sentence for sentence in _constraints(kind) if sentence not in common)


def _constraints(kind: str) -> list[str]:
    """Return the constraints of an op kind as sentences."""
    return [" ".join((constraint.__doc__ or "").split()) for constraint in SPECS[kind].constraints]


def _types(kind: str) -> str:
    """Return the data types that the kernels of an op kind take and return, as text."""
    if SPECS[kind].view:
        return "view"
    pairs = dict.fromkeys(row.types for row in VARIANTS if kind in row.kinds)
    return ", ".join(each if each == to else f"{each} to {to}" for each, to in pairs) or "known when compiling"
