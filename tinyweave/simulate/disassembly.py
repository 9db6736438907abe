"""Disassembly of basic blocks: names and registers of the instructions, and their effect on the stack pointer.

In: "arm" (Thumb) or "riscv", and machine code. Out: text, or numbers. unicorn_process.py, a separate process, loads this file
by its path. vectors.py decodes the instructions that are new in Armv8.1-M, capstone all others.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import capstone

MODES = {
    "arm": (capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS),
    "riscv": (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV32 | capstone.CS_MODE_RISCVC),
}
LONG_THUMB = (0b11101, 0b11110, 0b11111)  # upper bits of the first halfword of an instruction of four bytes
ADDS = {"add": 1, "addw": 1, "sub": -1, "subw": -1}


def arm_stack_change(instruction: Any) -> int | None:
    """Return how many bytes capstone's `instruction` adds to the stack pointer; None if that depends on a register's value."""
    name, operands = instruction.mnemonic.split(".")[0], instruction.op_str
    if "sp" not in operands and not name.startswith(("push", "pop", "vpush", "vpop")):
        return 0  # avoids the slow query below for most instructions
    if capstone.arm_const.ARM_REG_SP not in instruction.regs_access()[1] and name not in ("vpush", "vpop"):
        return 0  # capstone does not report that vpush and vpop write it
    listed = sum(8 if register[0] == "d" else 4 for register in re.findall(r"\w+", operands.partition("{")[2]))
    if name in ("push", "vpush") or (name in ("stmdb", "vstmdb") and operands.startswith("sp!")):
        return -listed
    if name in ("pop", "vpop") or (name in ("ldm", "vldmia") and operands.startswith("sp!")):
        return listed
    moved = re.search(r"^sp, (?:sp, )?#(\w+)$" if name in ADDS else r"\[sp(?:\], |, )#(-?\w+)(?:\]!)?$", operands)
    return int(moved[1], 0) * ADDS.get(name, 1) if moved else None


def riscv_stack_change(instruction: Any) -> int | None:
    """Return how many bytes a RISC-V instruction adds to the stack pointer; None if that depends on a register's value."""
    name, operands = instruction.mnemonic.removeprefix("c."), instruction.op_str
    if not operands.startswith("sp,") or name[0] == "b" or name in ("sb", "sh", "sw", "swsp"):
        return 0  # these read their first operand, all others write it
    moved = re.fullmatch(r"sp, (?:sp, )?(-?\w+)", operands) if name in ("addi", "addi16sp") else None
    return int(moved[1], 0) if moved else None


def arm_instruction(instruction: Any) -> tuple[str, str, str]:
    """Return a Thumb instruction as (name without suffixes, registers read, registers written), with spaces between."""
    name = instruction.insn_name()
    read, written = (" ".join(map(instruction.reg_name, listed)) for listed in instruction.regs_access())
    return name if name != "b" else instruction.mnemonic.split(".")[0], read, written


def riscv_instruction(instruction: Any) -> tuple[str, str, str]:
    """Return (name without `c.`, registers read, registers written) of a RISC-V instruction, from its operands."""
    full = instruction.insn_name()
    name, listed = full.removeprefix("c."), re.findall(RISCV_REGISTER, instruction.op_str)
    if name in RISCV_CALLS and len(listed) < RISCV_CALLS[name]:
        return name, " ".join(listed), "ra"  # not among the operands
    if not listed or name[0] == "b" or name in RISCV_WRITES_NOTHING:
        return name, " ".join(listed), ""
    changes = full != name and name not in RISCV_OVERWRITES  # a compressed instruction whose first operand is also read
    return name, " ".join(listed if changes else listed[1:]), listed[0]


RISCV_REGISTER = r"\b(?:zero|ra|sp|gp|tp|[ast]\d+)\b"
RISCV_CALLS = {"jal": 1, "jalr": 2}  # -> number of register operands if the first one receives the return address
RISCV_WRITES_NOTHING = {"sb", "sh", "sw", "swsp", "j", "jr"}
RISCV_OVERWRITES = {"mv", "li", "lui", "lw", "lwsp", "addi4spn"}
decode = runpy.run_path(str(Path(__file__).with_name("vectors.py")))["decode"]
INSTRUCTION = {"arm": arm_instruction, "riscv": riscv_instruction}
STACK_CHANGE = {"arm": arm_stack_change, "riscv": riscv_stack_change}


@lru_cache
def disassembler(isa: str) -> capstone.Cs:
    """Return capstone's disassembler for "arm" (Thumb) or "riscv"; each is created once."""
    engine = capstone.Cs(*MODES[isa])
    engine.detail = True
    return engine


@lru_cache(maxsize=1 << 12)
def disassembled(isa: str, code: bytes) -> list[Any]:
    """Return the instructions of a basic block as capstone objects; results are cached."""
    return list(disassembler(isa).disasm(code, 0))


def named(isa: str, code: bytes) -> str:
    """Return lines of (name or "unknown", operands, registers read, registers written, bytes), separated by tabs."""
    return "\n".join("\t".join(fields) for fields in (_arm_fields(code) if isa == "arm" else _fields(isa, code)))


def _fields(isa: str, code: bytes) -> Iterator[tuple[str, str, str, str, str]]:
    """Return the fields of `named` for each instruction that capstone knows, up to the first that it does not know."""
    for one in disassembled(isa, code):
        name, read, written = INSTRUCTION[isa](one)
        yield name, one.op_str, read, written, str(one.size)


def _arm_fields(code: bytes) -> Iterator[tuple[str, str, str, str, str]]:
    """Return the fields of `named` for Thumb code; one call decodes all between vectors, as IT conditions later ones."""
    at = begin = 0
    while at < len(code):
        first = int.from_bytes(code[at : at + 2], "little")
        size = 4 if first >> 11 in LONG_THUMB else 2
        vector = decode(first << 16 | int.from_bytes(code[at + 2 : at + 4], "little")) if size == 4 else None
        if vector:
            yield from _known(code[begin:at])
            yield *vector, "4"
            begin = at + size
        at += size
    yield from _known(code[begin:])


def _known(code: bytes) -> Iterator[tuple[str, str, str, str, str]]:
    """Return the fields of `named` for each instruction of Thumb code that has no vector instructions."""
    at = 0
    while at < len(code):
        for fields in _fields("arm", code[at:]):
            yield fields
            at += int(fields[-1])
        if at < len(code):
            size = 4 if int.from_bytes(code[at : at + 2], "little") >> 11 in LONG_THUMB else 2
            yield "unknown", "", "", "", str(size)
            at += size


@lru_cache(maxsize=1 << 16)
def describe(isa: str, code: bytes) -> tuple[int, int, bool]:
    """Return (instructions, dip, computed) of a basic block.

    `dip` is the lowest stack pointer relative to the block's start. `computed`: an instruction sets it to a value that only a
    run can show. Raises ValueError for unknown code, and if the block lowers the stack pointer after that.
    """
    change, dip, computed, instructions = 0, 0, False, disassembled(isa, code)
    if sum(instruction.size for instruction in instructions) != len(code):
        raise ValueError(f"cannot disassemble {code.hex()}")
    for instruction in instructions:
        by = STACK_CHANGE[isa](instruction)
        if by is None:
            computed = True
            continue
        change += by
        if computed and by < 0:
            raise ValueError("one block both computes and lowers the stack pointer, which is not supported")
        dip = min(dip, change)
    return len(instructions), dip, computed
