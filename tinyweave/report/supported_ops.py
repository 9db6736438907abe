"""Generate docs/SUPPORTED_OPS.md from op names, refusals and the constraints of each op kind, which are the error messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..importers.op_names import op_names
from ..importers.refused import FRONT_ENDS, REFUSALS
from ..importers.tflite_lowering import FORMS, LOWERED
from ..kernels.table import VARIANTS
from ..ops import SPECS
from ..tflite_schema import CUSTOM, OPS

COMMON = 4  # a constraint that at least this many op kinds share is listed once for all of them
NONE = "—"
HEAD = f"""\
# Supported ops

`tinyweave inspect MODEL` names each op of your model that is not supported, with the reason. Find your op:

- If it is in [the table of names](#names-in-each-front-end), it is supported. [The section of the op](#constraints-of-each-op)
  lists its data types and constraints.
- If it is in [the table of refusals](#refused-on-purpose), it is not supported, and the table says what to use instead.
- If it is in neither table, it is not supported yet.

A uint8 network is computed in int8. By default its inputs and outputs stay uint8, and every output byte equals LiteRT's. If an
op cannot give the same bytes in int8, the network is refused.

`pytest --update-golden tests/report/test_supported_ops.py` generates this page from `tinyweave/ops` and `tinyweave/importers`.

## Names in each front end

The columns have the names of an op in `.tflite` files, in PyTorch and in ONNX; {NONE} means that the format has no such op. If
`.tflite` has no such op, tinyweave writes several ops or a custom op to `.tflite` files. An op that no format has is created by
tinyweave itself. PyTorch's names are names of ATen ops, as in programs of `torch.export`; torch decomposes other ops into
these, if it can. ONNX ops on constants and shapes are computed when the file is read.
"""
REFUSED = """\
## Refused on purpose

Error messages give these reasons. In a name, `*` stands for any letters.
"""
DEMANDS = f"""\
## Constraints of each op

Op kinds with equal constraints share a section. It lists the data types of inputs and outputs, then the constraints that an op
must meet.

- "any": the kernel copies elements of every type.
- "view": the op needs no code and no RAM, because its output has the bytes of its input.
- "custom op": TFLite has no such op, so a .tflite file has the custom op `{CUSTOM}KIND`.

### Common constraints
"""

REWRITTEN = """\
## Rewritten ops

Ops of a `.tflite` file that tinyweave rewrites as other ops when it reads the file:
"""


def supported_ops() -> str:
    """Return the text of SUPPORTED_OPS.md: ops of each format, types and constraints of each kind, refusals, rewrites."""
    uses = Counter(sentence for kind in SPECS for sentence in _constraints(kind))
    common = {sentence: number for number, (sentence, count) in enumerate(uses.most_common(), 1) if count >= COMMON}
    rows = [HEAD, *_table(("op", *FRONT_ENDS), ((op, *map(_listed, names.values())) for op, names in op_names().items())), ""]
    refusals = ((each.why, each.instead, *map(_listed, each.names().values())) for each in REFUSALS)
    rows += [REFUSED, *_table(("reason", "instead", *FRONT_ENDS), refusals), ""]
    rows += [DEMANDS, *(f"{number}. {sentence}" for sentence, number in common.items())]
    kinds_of = defaultdict[tuple[str, ...], list[str]](list)
    for kind in sorted(SPECS):
        kinds_of[_items(kind, common)].append(kind)
    for items, kinds in kinds_of.items():
        rows += ["", f"### {', '.join(kinds)}", "", *(f"- {item}" for item in items)]
    rewritten = {kind: " ".join((each.__doc__ or "").split()) for kind, each in sorted({**LOWERED, **FORMS}.items())}
    rows += ["", REWRITTEN, *(f"- {kind}: {says[0].lower()}{says[1:].removesuffix('.')}" for kind, says in rewritten.items())]
    return "\n".join(rows) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or NONE


def _items(kind: str, common: Mapping[str, int]) -> tuple[str, ...]:
    """Return the list under an op kind: its types, the numbers on the page of `common` constraints, its other constraints."""
    numbers = sorted(common[sentence] for sentence in _constraints(kind) if sentence in common)
    custom = f", custom op {OPS[kind].custom}".rstrip() if OPS[kind].numbers is not None else ""
    types = f"types: {_types(kind)}{custom}"
    shared = [f"[common constraints](#common-constraints) {', '.join(map(str, numbers))}"] if numbers else []
    return types, *shared, *(sentence for sentence in _constraints(kind) if sentence not in common)


def _constraints(kind: str) -> list[str]:
    return [" ".join((constraint.__doc__ or "").split()) for constraint in SPECS[kind].constraints]


def _types(kind: str) -> str:
    """Return the data types that the kernels of an op kind take and return, as text."""
    if SPECS[kind].view:
        return "view"
    pairs = dict.fromkeys(row.types for row in VARIANTS if kind in row.kinds)
    return ", ".join(each if each == to else f"{each} to {to}" for each, to in pairs) or "known when compiling"
