"""Names in the emitted C that come from outside: of the model, of memories, from a device's file, and what kernels begin with.

In: any text. Out: an identifier that is also a file's name, or a CompileError of one line; files with other names of kernels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from ..ir import CompileError
from ..ops import SPECS

LONGEST = 64  # with what is appended to it, a file's name may have 255 characters
KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof "
    "alignas alignof and bitand bitor bool catch class compl constexpr decltype delete explicit export false friend mutable "
    "namespace new noexcept not nullptr operator or override private protected public template this throw true try typeid "
    "typename using virtual xor final".split()
)
# headers that ours, or what they include, look for by these names in the folder of the model too
HEADERS = frozenset(
    "assert complex ctype errno fenv features float inttypes iso646 limits locale malloc math memory newlib picolibc setjmp "
    "signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar "
    "wchar wctype unistd arm_acle arm_mve".split()
)
DEVICES = frozenset(["con", "prn", "aux", "nul", *(f"{kind}{number}" for kind in ("com", "lpt") for number in range(10))])
# what the functions of a model call their parameters and variables, the members of its types, and what they call
OWN = frozenset(
    "memory memories io index i layer tick row col error input output step init reset invoke rescale memcpy memset NULL".split()
)
# sections that linker scripts have, because each memory's array lies in one of its name
SECTIONS = frozenset("text data bss rodata init fini preinit_array init_array fini_array ctors dtors heap stack".split())


def identifier(text: str) -> str:
    """Return `text` as the name of a model: a C and C++ identifier in lower case that no file or macro of ours has."""
    name = re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_")[:LONGEST].rstrip("_")
    if not name:
        raise CompileError(f"'{text}' cannot be made into a C name", "name the model with --name, for example --name kws")
    # kernels lie beside the model in files tw_<kernel>, and enumerators AT_<tensor> beside its macros
    taken = name in KEYWORDS | HEADERS | DEVICES or re.fullmatch(r"(\d|tw_).*|tw|at", name)
    return f"m_{name}"[:LONGEST].rstrip("_") if taken else name


# names of kernels, of their types, macros and files; but macros that the user defines keep their names
KERNEL = re.compile(r"\b(tw|TW)(?=_(?!(?:TRACE|LAYER|PLAIN_C)\b)\w|\.[ch]\b)")
LONGEST_PREFIX = 32


def with_prefix(files: Mapping[str, str], own: Collection[str], prefix: str) -> dict[str, str]:
    """Return files whose kernels are called <prefix>_tw_... in place of tw_...; in those of `own` comments stay as they are."""
    if not prefix:
        return dict(files)
    if prefix != identifier(prefix) or len(prefix) > LONGEST_PREFIX:
        what_to_do = f"give at most {LONGEST_PREFIX} lower-case letters, digits and _, beginning with a letter"
        raise CompileError(f"'{prefix[:LONGEST_PREFIX]}' cannot be what the names of kernels begin with", what_to_do)

    def renamed(text: str) -> str:
        return KERNEL.sub(lambda match: f"{prefix if match[0] == 'tw' else prefix.upper()}_{match[0]}", text)

    def renamed_code(text: str) -> str:
        parts = re.split(r"(/\*.*?\*/)", text, flags=re.DOTALL)
        return "".join(part if index % 2 else renamed(part) for index, part in enumerate(parts))

    return {
        name if name in own else renamed(name): (renamed_code if name in own else renamed)(text) for name, text in files.items()
    }


def check_memories(names: Iterable[str]) -> None:
    """Raise CompileError when C uses one of these names, as those of a device's memories, for something else."""
    layers = rf"({'|'.join([*SPECS, 'input', 'output', 'state', 'move'])})_\d.*|input_(map|timing)|(de)?quantize(_.*)?"
    for name in names:
        if name in KEYWORDS | OWN | SECTIONS or re.fullmatch(rf"{layers}|tw_.*|.*_t", name):
            raise CompileError(
                f"the memory '{name}' has the name of something else in C", "give it another one in the device's TOML file"
            )
