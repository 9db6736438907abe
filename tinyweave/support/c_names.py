"""Identifiers of C and C++: names that emitted C can use."""

from __future__ import annotations

import re

from ..ir import CompileError

LONGEST = 64  # characters; file names append to it and are limited to 255
KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof "
    "alignas alignof and bitand bitor bool catch class compl constexpr decltype delete explicit export false friend mutable "
    "namespace new noexcept not nullptr operator or override private protected public template this throw true try typeid "
    "typename using virtual xor final".split()
)
# headers that the emitted C includes, directly or not; a file <m>.h of the same name would hide them
HEADERS = frozenset(
    "assert complex ctype errno fenv features float inttypes iso646 limits locale malloc math memory newlib picolibc setjmp "
    "signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar "
    "wchar wctype unistd arm_acle arm_mve".split()
)
DEVICES = frozenset(["con", "prn", "aux", "nul", *(f"{kind}{number}" for kind in ("com", "lpt") for number in range(10))])


def identifier(text: str) -> str:
    """Return `text` as a model name: a lower-case C identifier that equals no name of the emitted C or its headers."""
    name = re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_")[:LONGEST].rstrip("_")
    if not name:
        raise CompileError(f"no C name can be made from '{text}'", "name the model with --name, for example --name kws")
    # kernels have files named tw_..., enumerators are named AT_...
    taken = name in KEYWORDS | HEADERS | DEVICES or re.fullmatch(r"(\d|tw_).*|tw|at", name)
    return f"m_{name}"[:LONGEST].rstrip("_") if taken else name
