"""Disassembly of basic blocks: names and registers of the instructions, and their effect on the stack pointer.

In: the name of an instruction set ("arm" is Thumb, or "riscv") and code. Out: text, or numbers. unicorn_process.py, a
process of its own, loads this file by its path.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import capstone

MODES = {
    "arm": (capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS),
    "riscv": (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV32 | capstone.CS_MODE_RISCVC),
}
ADDS = {"add": 1, "addw": 1, "sub": -1, "subw": -1}


def arm_stack_change(instruction: Any) -> int | None:
    """Return by how many bytes an instruction moves the stack pointer; None if only execution can tell."""
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
    """Return by how many bytes an instruction moves the stack pointer; None if only execution can tell."""
    name, operands = instruction.mnemonic.removeprefix("c."), instruction.op_str
    if not operands.startswith("sp,") or name[0] == "b" or name in ("sb", "sh", "sw", "swsp"):
        return 0  # these read their first operand, all others write it
    moved = re.fullmatch(r"sp, (?:sp, )?(-?\w+)", operands) if name in ("addi", "addi16sp") else None
    return int(moved[1], 0) if moved else None


def arm_instruction(instruction: Any) -> tuple[str, str, str]:
    """Return an instruction's name without condition and width, the registers that it reads, and those that it writes."""
    name = instruction.insn_name()
    read, written = (" ".join(map(instruction.reg_name, listed)) for listed in instruction.regs_access())
    return name if name != "b" else instruction.mnemonic.split(".")[0], read, written


def riscv_instruction(instruction: Any) -> tuple[str, str, str]:
    """Return an instruction's name without the prefix c., the registers that it reads, and those that it writes.

    capstone does not report these registers for RISC-V, so they are derived from the operands.
    """
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
INSTRUCTION = {"arm": arm_instruction, "riscv": riscv_instruction}
STACK_CHANGE = {"arm": arm_stack_change, "riscv": riscv_stack_change}


@lru_cache
def disassembler(isa: str) -> capstone.Cs:
    """Return capstone's disassembler for an instruction set."""
    engine = capstone.Cs(*MODES[isa])
    engine.detail = True
    return engine


@lru_cache(maxsize=1 << 12)
def disassembled(isa: str, code: bytes) -> list[Any]:
    """Return capstone's instructions of a block."""
    return list(disassembler(isa).disasm(code, 0))


def named(isa: str, code: bytes) -> str:
    """Return one line per instruction of a block: name, operands, registers read and written, separated by tabs."""
    described = ((one.op_str, *INSTRUCTION[isa](one)) for one in disassembled(isa, code))
    return "\n".join("\t".join((name, operands, read, written)) for operands, name, read, written in described)


@lru_cache(maxsize=1 << 16)
def describe(isa: str, code: bytes) -> tuple[int, int, bool]:
    """Return (number of instructions, lowest stack pointer, whether the block computes a new stack pointer) of a basic block.

    The lowest stack pointer is relative to the block's start.
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
