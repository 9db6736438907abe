"""Headers of sizes and tables for the C that lies beside a model. In: names and numbers. Out: text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Table = tuple[str, str, NDArray[np.int64]]  # type in C, name, values
PER_LINE = 12  # values


def header(name: str, about: str, sizes: Mapping[str, int], tables: Sequence[Table]) -> str:
    """Return `name`_tables.h: macros for the sizes, and constants tw_`name`_... for the tables."""
    guard = f"{name.upper()}_TABLES_H"
    lines = [
        f"/* Sizes and tables of {name}.c: {about}. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
    ]
    lines += [f"#define {name.upper()}_{key} {value}" for key, value in sizes.items()]
    for kind, key, values in tables:
        lines += ["", f"static const {kind} tw_{name}_{key}[{len(values)}] = {{", *_wrapped(values), "};"]
    return "\n".join([*lines, "", "#endif", ""])


def _wrapped(values: NDArray[np.int64]) -> list[str]:
    numbers = [str(int(value)) for value in values]
    return ["    " + ", ".join(numbers[i : i + PER_LINE]) + "," for i in range(0, len(numbers), PER_LINE)]
