"""C files written beside a model: copies of files of this folder, and headers with sizes and tables. In: numbers. Out: text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Table = tuple[str, str, NDArray[np.int64]]  # type in C, name, values
PER_LINE = 12  # values per line


def texts(*names: str) -> dict[str, str]:
    """Return the contents of C files of this package: file name -> text."""
    return {name: (Path(__file__).parent / name).read_text() for name in names}


def header(name: str, about: str, sizes: Mapping[str, int], tables: Sequence[Table]) -> str:
    """Return a C header of sizes (macro without NAME_ -> value) and tables (C type, name, values) of the C file `name`."""
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
        numbers = [str(int(value)) for value in values]
        wrapped = ["    " + ", ".join(numbers[i : i + PER_LINE]) + "," for i in range(0, len(numbers), PER_LINE)]
        lines += ["", f"static const {kind} tw_{name}_{key}[{len(values)}] = {{", *wrapped, "};"]
    return "\n".join([*lines, "", "#endif", ""])
