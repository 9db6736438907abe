"""The header <m>_memory.h: arrays for the memories of model <m>, each in the linker section that a macro names."""

from __future__ import annotations

import textwrap

from ..planning import Plan
from . import c

DEFAULT_MEMORY = "sram"  # a plan with only this memory needs no <m>_memory.h


def has_memory_header(plan: Plan) -> bool:
    """Return whether <m>_memory.h is needed: if the plan's memories are not just the one default memory."""
    return set(plan.arena) != {DEFAULT_MEMORY}


def memory_header(plan: Plan, name: str, file: str) -> str:
    """Return the text of <m>_memory.h: an array for each memory, in .bss or in the linker section that a macro names."""
    prefix = name.upper()
    head = [
        f"{name}_memory.h - the memories of {name}, generated from {file}. Do not edit.",
        "",
        *textwrap.wrap(
            f"Include this file in one C file, and pass &{name}_memories to all functions of the model. The arrays are in .bss "
            "by default. To place an array in its memory, define its ..._SECTION macro before the include, as the attribute of "
            "a section that your linker script puts there. Or define TW_PLACE_... and add the linker script place_....ld of an "
            "export.",
            112,
        ),
    ]
    macros, arrays = [], []
    for memory in plan.arena:
        mark = f"{prefix}_{memory.upper()}"
        macros += [
            f"#if !defined({mark}_SECTION) && defined(TW_PLACE_{memory.upper()})",
            f'#define {mark}_SECTION __attribute__((section("{placed_section(memory)}.{name}")))',
            "/* without the linker script the arena would lie anywhere: the program then refers to a symbol that is missing */",
            f'__asm__(".pushsection {placed_section(memory)}.{name}, \\"aw\\"\\n"',
            f'        ".reloc 0, BFD_RELOC_32, {placed_symbol(memory)}\\n.popsection");',
            f"#elif !defined({mark}_SECTION)",
            f"#define {mark}_SECTION /* .bss */",
            "#endif",
        ]
        arrays += [f"static uint8_t {name}_{memory}[{mark}_BYTES]"]
        arrays += [f"    {mark}_SECTION __attribute__((aligned({prefix}_ALIGN)));"]
    members = "".join(f"    {{{name}_{memory}, sizeof {name}_{memory}}},\n" for memory in plan.arena)
    declared, weights = weights_given(plan, name)
    if declared:
        arrays.append(f"{declared} /* {'reads ' * plan.fetches}the file {name}.weights */")
        members += f"    {weights},\n"
    guard = f"{prefix}_MEMORY_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", "", f'#include "{name}.h"', "", *macros, "", *arrays, ""]
    lines += [f"static const {name}_memory {name}_memories = {{\n{members}}};", "", "#endif", ""]
    return c.comment(head) + "\n".join(lines)


def placed_symbol(memory: str) -> str:
    """Return the name of the symbol that place_<memory>.ld defines; code that needs this linker script refers to it."""
    return f"tw_pass_place_{memory}_ld_to_the_linker"


def placed_section(memory: str) -> str:
    """Return the beginning of the linker section of a model's array if TW_PLACE_<memory> is defined; ".<model>" follows it."""
    return f".tw_{memory}"


def weights_given(plan: Plan, name: str) -> tuple[str, str]:
    """Return the C declaration of what the application defines for a file of weights, and the member of it; "" for no file."""
    if not plan.weights_file:
        return "", ""
    if plan.fetches:
        function = f"{name}_read_weights"
        return (
            f"int {function}(void *context, uint32_t offset, void *destination, uint32_t bytes);",
            f"{{{function}, NULL, NULL, NULL}}",
        )
    array = f"{name}_weights"
    return f"extern const uint8_t {array}[{name.upper()}_WEIGHTS_BYTES];", f"{{{array}, sizeof {array}}}"
