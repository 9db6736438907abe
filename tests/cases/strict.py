"""The warnings that emitted C and the kernels must not cause with any compiler."""

from __future__ import annotations

from tinyweave.kernels.table import FILES

WARNINGS = tuple(
    """-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef -Wdouble-promotion -Wwrite-strings
    -Wredundant-decls -Wpointer-arith -Wformat=2 -Wvla -Wswitch-default -Wmissing-declarations -Werror""".split()
)
C99 = ("-std=c99", *WARNINGS, "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wold-style-definition")
CPP = ("-x", "c++", "-std=c++11", *WARNINGS)
INCLUDE = tuple(f"-I{folder}" for folder in sorted({path.parent for path in FILES.values()}))  # the kernels' headers


def c99(compiler: str) -> tuple[str, ...]:
    """Return the flags for C. In gcc the warnings of -Wcast-align depend on the target."""
    return (*C99, "-Wcast-align=strict" if "gcc" in compiler else "-Wcast-align")
