"""The flags that test programs are built with: warnings that our C must not cause with any compiler, and sanitizers."""

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
    return (*C99, "-Wcast-align=strict" if "gcc" in compiler else "-Wcast-align", *trap(compiler))


def sanitizers(compiler: str) -> tuple[str, ...]:
    """Return the flags with which undefined behaviour ends a program; put none after them that switches a sanitizer on."""
    return trap(compiler) or ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def trap(compiler: str) -> tuple[str, ...]:
    """Return the flag with which an error that zig's sanitizer finds ends the program.

    zig sanitizes by default. Without this flag it compiles a library that reports errors, which takes 17 s.
    """
    return ("-fsanitize-trap=undefined",) if compiler == "zig" else ()
