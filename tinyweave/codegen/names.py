"""Names in the emitted C that the user chooses: of the model, of memories in a device file, and the prefix of kernels."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from ..ir import CompileError
from ..ops import SPECS
from ..support.c_names import KEYWORDS, identifier

# names of parameters, variables, struct members and called functions in the functions of a model
OWN = frozenset(
    """
    memory memories weights io index i layer tick row col error input output write_input read_output step init reset invoke
    rescale memcpy memset NULL begin_read
    """.split()
)
# sections of linker scripts; each memory has a section of its name
SECTIONS = frozenset("text data bss rodata init fini preinit_array init_array fini_array ctors dtors heap stack".split())


# matches the beginning of names of kernels, of their types, macros and files, except macros that the user defines
KERNEL = re.compile(r"\b(tw|TW)(?=_(?!(?:TRACE|PLAIN_C)\b)\w|\.[ch]\b)")
LONGEST_PREFIX = 32


def with_prefix(files: Mapping[str, str], own: Collection[str], prefix: str) -> dict[str, str]:
    """Return the files with kernels renamed from tw_... to <prefix>_tw_..., except in comments of the model's `own` files."""
    if not prefix:
        return dict(files)
    if prefix != identifier(prefix) or len(prefix) > LONGEST_PREFIX:
        what_to_do = f"give at most {LONGEST_PREFIX} lower-case letters, digits and _, beginning with a letter"
        raise CompileError(f"'{prefix[:LONGEST_PREFIX]}' cannot be a prefix of kernel names", what_to_do)

    def renamed(text: str) -> str:
        return KERNEL.sub(lambda match: f"{prefix if match[0] == 'tw' else prefix.upper()}_{match[0]}", text)

    def renamed_code(text: str) -> str:
        parts = re.split(r"(/\*.*?\*/)", text, flags=re.DOTALL)
        return "".join(part if index % 2 else renamed(part) for index, part in enumerate(parts))

    return {
        name if name in own else renamed(name): (renamed_code if name in own else renamed)(text) for name, text in files.items()
    }


def check_memories(names: Iterable[str]) -> None:
    """Raise CompileError if the emitted C already uses the name of a memory for something else."""
    layers = rf"({'|'.join([*SPECS, 'input', 'output', 'state', 'move'])})_\d.*|input_(map|timing)|(de)?quantize(_.*)?"
    for name in names:
        if name in KEYWORDS | OWN | SECTIONS or re.fullmatch(rf"{layers}|tw_.*|.*_t", name):
            raise CompileError(
                f"the memory name '{name}' has another meaning in the C", "rename the memory in the device's TOML file"
            )
