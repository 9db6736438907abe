"""C99 text from numbers and names: literals, arrays, structs, comments."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

WIDTH = 118  # columns of the emitted C


def integer(value: int) -> str:
    """Return a C99 integer constant. The minima of int32 and int64 have no literal, so they become a difference."""
    return f"({value + 1} - 1)" if value in (-(2**31), -(2**63)) else str(value)


def float_literal(value: float) -> str:
    """Return the shortest C literal that reads back as exactly this float32."""
    single = np.float32(value)
    if single == 0 or 1e-4 <= abs(single) < 1e7:
        return np.format_float_positional(single, unique=True, trim="0") + "f"
    return np.format_float_scientific(single, unique=True, trim="0", exp_digits=1) + "f"


def array(ctype: str, name: str, values: np.ndarray, layout: str = "") -> str:
    """Return the definition of a static constant array, on one line if it fits.

    The C array is flat. If `values` has several axes, a comment gives its shape, and the header `layout` that describes it.
    """
    flat = values.reshape(-1)
    if flat.dtype.kind == "f":
        words = [repr(v) if ctype == "double" else float_literal(v) for v in flat.tolist()]
    else:
        words = [f"0x{v:08x}" if ctype == "uint32_t" else integer(v) for v in flat.tolist()]
    axes = "".join(f"[{extent}]" for extent in values.shape)
    about = ", layout: ".join(filter(None, (axes if values.ndim > 1 else "", layout)))
    head = f"/* {about} */\n" if about else ""
    head += f"static const {ctype} {name}[{len(words)}] = {{"
    if len(head) + sum(len(word) + 2 for word in words) < WIDTH:
        return f"{head}{', '.join(words)}}};\n"
    widest = max(map(len, words))
    per_line = (WIDTH - 4) // (widest + 2)
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return f"{head}\n    " + ",\n    ".join(lines) + ",\n};\n"


def value(item: object) -> str:
    """Return the C initialiser of a number, a sequence or a mapping (a struct with named members). Text is C already."""
    if isinstance(item, (int, np.integer)):
        return integer(int(item))
    if isinstance(item, (float, np.floating)):
        return float_literal(float(item))
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping):
        return "{" + ", ".join(f".{key} = {value(entry)}" for key, entry in item.items()) + "}"
    assert isinstance(item, Sequence)
    return "{" + ", ".join(value(entry) for entry in item) + "}"


def struct(ctype: str, name: str, members: Sequence[Mapping[str, object]]) -> str:
    """Return the definition of a struct. Each mapping in `members` becomes one line of initialisers.

    `ctype` is the type with its qualifiers, such as `static const tw_conv`. A value that is a sequence of such mappings
    initialises a struct inside the struct, with lines of its own. Nested braces also compile as C++; designators such as
    `.conv.in` do not.
    """
    return f"{ctype} {name} = {{\n{_initialisers(members, '    ')}}};\n"


def _initialisers(members: Sequence[Mapping[str, object]], indent: str) -> str:
    """Return the lines of initialisers between the braces of a struct, each with this indent."""

    def text(entry: object) -> str:
        if isinstance(entry, Sequence) and isinstance(entry[0], Mapping):
            return f"{{\n{_initialisers(entry, f'{indent}    ')}{indent}}}"
        return value(entry)

    lines = (", ".join(f".{key} = {text(entry)}" for key, entry in line.items()) for line in members if line)
    return "".join(f"{indent}{line},\n" for line in lines)


def structs(ctype: str, name: str, entries: Sequence[Mapping[str, object]]) -> str:
    """Return the definition of a static constant array of structs, one struct per line."""
    lines = [f"    {value(entry)}," for entry in entries]
    return f"static const {ctype} {name}[{len(entries)}] = {{\n" + "\n".join(lines) + "\n};\n"


def block(definitions: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return lines of C behind definitions of variables, in a block; `lines` if there are no definitions."""
    return ["{", *(f"    {line}" for line in [*definitions, *lines]), "}"] if definitions else [*lines]


def comment(lines: Sequence[str]) -> str:
    """Return a block comment in printable ASCII, one line per item. No text can end the comment or form a trigraph."""
    plain = (re.sub(r"[^ -~]", "?", " ".join(line.splitlines())) for line in lines)
    safe = [re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", line) for line in plain]
    if len(safe) == 1:
        return f"/* {safe[0]} */\n"
    return "/* " + "\n".join([safe[0], *(f" * {line}".rstrip() for line in safe[1:])]) + "\n */\n"


def comment_lines(text: str) -> list[str]:
    """Return a block comment with `text`, wrapped, as a list of lines."""
    return comment(textwrap.wrap(text, 108)).rstrip().split("\n")
