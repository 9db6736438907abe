"""Cycles of instructions that ran one after the other, estimated from what is published of the cores.

In: the instructions of a basic block, a core; lines missed by caches. Out: the fewest, the likely and the most cycles, where
the extremes are those of what the sources leave open. All figures are estimates: nobody but the core itself knows.
Sources: Cortex-M0 DDI 0432, M0+ DDI 0484, M3 DDI 0337 and M4 DDI 0439, "Instruction set summary" and "Load/store timings" of
each. For the M7 Arm publishes none; what is here follows measurements at quinapalus.com/cm7cycles.html. For the M33 it
publishes none either: its pipeline is as long as the M4's, whose figures stand for it, with more left open. For SiFive's E31
they are those of SiFive's manuals, each named where its figure stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


class Instruction(NamedTuple):
    """name: its mnemonic without condition and width. operands: as in assembly. read, written: registers."""

    name: str
    operands: str
    read: frozenset[str]
    written: frozenset[str]


class Cycles(NamedTuple):
    """An estimate and what it may be off by."""

    fewest: int
    likely: int
    most: int

    def plus(self, fewest: int, likely: int, most: int) -> Cycles:
        return Cycles(self.fewest + fewest, self.likely + likely, self.most + most)


@dataclass(frozen=True)
class Timing:
    """Cycles of a kind of instruction.

    indexed: of a store whose address is the sum of registers. multiple: of an access to several words, besides one for each.
    behind: what an access takes less directly behind a load whose result it does not need for its address. computed: what an
    access takes more whose address comes from the instruction before. accumulate, long: of multiplications that add, that
    have 64 bits. reload: what a branch that is taken takes more. call: what a call takes more than that. missed: what a
    conditional branch takes more that does not go where it mostly goes. result: with `dual`, when a loaded or multiplied
    value may be used. dual: whether two instructions may start in one cycle.
    """

    load: int = 2
    store: int = 1
    indexed: int = 2
    multiple: int = 1
    behind: int = 1
    computed: int = 1
    multiply: int = 1
    accumulate: int = 1
    long: int = 1
    divide: int = 7
    predicate: int = 1
    reload: int = 2
    call: int = 0
    missed: int = 0
    result: int = 2
    dual: bool = False


M4 = Timing()
M4_RANGE = (replace(M4, computed=0, divide=2, predicate=0, reload=1, indexed=1), M4, replace(M4, divide=12, reload=3))
M3 = replace(M4, accumulate=2, long=4)
M3_RANGE = (replace(M4_RANGE[0], accumulate=2, long=3), M3, replace(M4_RANGE[2], accumulate=2, long=7))
M33_RANGE = (replace(M4_RANGE[0], load=1, behind=0), M4, M4_RANGE[2])
M0_PLUS = Timing(store=2, behind=0, computed=0, divide=0, reload=1, call=1)
M7 = Timing(load=1, indexed=1, multiple=0, behind=0, computed=0, divide=6, reload=1, missed=7, dual=True)
M7_RANGE = (replace(M7, divide=3, predicate=0, reload=0, missed=4), M7, replace(M7, divide=12, reload=2, missed=9, result=3))


@dataclass(frozen=True)
class RiscvTiming:
    """Cycles of a RISC-V core that starts at most one instruction in a cycle, in order, and waits for what that needs.

    word, narrow, product, quotient: from the start of a load of a word, of a byte or halfword, of a multiplication, of a
    division to when its result may be used. busy: from the start of a multiplication to that of the next. stored: what a load
    waits for the store directly before it that wrote the same place. reload: what a branch that is taken takes more. missed: as
    in `Timing`. drained: whether a block takes until all that it began is finished, as far as the next may need that.
    """

    word: int
    narrow: int
    product: int
    quotient: int
    busy: int
    stored: int
    reload: int
    missed: int
    drained: bool = False


# SiFive E31: 3.2 and 3.3 are "Instruction Fetch Unit" and "Execution Pipeline" of the FE310-G000 Manual, whose core is an E31.
# 3.3: "fully bypassed so that most instructions have a one-cycle result latency", "only interlocks on read-after-write and
# write-after-write hazards". 3.2: "correctly predicted control-flow instructions result in no penalty".
E31 = RiscvTiming(
    word=2,  # 3.3: "LW has a two-cycle result latency"; its DTIM, too, as others quote the FE310-G002 Manual
    narrow=3,  # 3.3: "LH, LHU, LB, and LBU have a three-cycle result latency"; its DTIM, too, likewise
    product=5,  # 3.3: "MUL, MULH, MULHU, and MULHSU have a 5-cycle result latency"
    quotient=17,  # 3.3: "DIV, DIVU, REM, and REMU have between a 2-cycle and 33-cycle result latency"; this is the middle
    busy=5,  # 3.3: "can only execute one operation at a time and will block until the previous operation" is over
    stored=5,  # E51 Manual, 3.4 (a sister core): "Loads to addresses currently in the store pipeline [...] five-cycle penalty"
    reload=0,
    missed=3,  # 3.2: "Mispredicted control-flow instructions incur a three-cycle penalty"
)
# Open: whether its predictor foresees all branches, what a branch mostly does, or none that is taken, for it keeps few targets;
# what is divided; whether the multiplier ("8-bit per cycle", 3.3) is free after four cycles; whether the next block needs at
# once what a block began.
E31_RANGE = (replace(E31, quotient=2, busy=4, missed=0), E31, replace(E31, quotient=33, reload=3, missed=0, drained=True))

LINE_WORDS = 4  # of a cache's line of 16 bytes, and the double words of one of 32

# core -> fewest, likely, most
TIMINGS: dict[str, tuple[Timing, Timing, Timing] | tuple[RiscvTiming, RiscvTiming, RiscvTiming]] = {
    "cortex-m0": (replace(M0_PLUS, reload=2),) * 3,
    "cortex-m0plus": (M0_PLUS,) * 3,
    "cortex-m3": M3_RANGE,
    "cortex-m4": M4_RANGE,
    "cortex-m7": M7_RANGE,
    "cortex-m33": M33_RANGE,
    "sifive-e31": E31_RANGE,
}

CONDITIONS = "eq ne hs cs lo cc mi pl vs vc hi ls ge lt gt le"
CONDITIONAL = {"cbz", "cbnz", *(f"b{condition}" for condition in CONDITIONS.split()), "bltu", "bgeu", "beqz", "bnez"}
LOADS = {"ldr", "ldrb", "ldrh", "ldrsb", "ldrsh", "vldr"}
STORES = {"str", "strb", "strh", "vstr"}
ACCESSES = LOADS | STORES
SEVERAL = {"ldm", "ldmdb", "pop", "vldmia", "vldmdb", "vpop", "stm", "stmdb", "push", "vstmia", "vstmdb", "vpush"}
PAIRS = {"ldrd", "strd"}
TABLES = {"tbb", "tbh"}
CALLS = {"bl", "blx"}
BRANCHES = {"b", "bx", *CALLS, *CONDITIONAL, *TABLES}
LONG = {"smull", "umull", "smlal", "umlal", "umaal"}
# field of `Timing` -> the instructions that take so long
TAKES = {"load": LOADS, "divide": {"sdiv", "udiv"}, "long": LONG, "accumulate": {"mla", "mls"}, "multiply": {"mul"}}
SLOW_FLOATS = {
    "vdiv": 14,
    "vsqrt": 14,
    "vmla": 3,
    "vmls": 3,
    "vnmla": 3,
    "vnmls": 3,
    "vfma": 3,
    "vfms": 3,
    "vfnma": 3,
    "vfnms": 3,
}
DSP = (
    "smla",
    "smls",
    "smmu",
    "smmla",
    "smmls",
    "smul",
    "smua",
    "smus",
    "sxt",
    "uxt",
    "pkh",
    "ssat",
    "usat",
    "sadd",
    "ssub",
    "rev",
)
RISCV_WORDS = {"lw", "lwsp"}
RISCV_NARROW = {"lb", "lbu", "lh", "lhu"}
RISCV_STORES = {"sb", "sh", "sw", "swsp"}
PRODUCTS = {"mul", "mulh", "mulhu", "mulhsu"}
QUOTIENTS = {"div", "divu", "rem", "remu"}
RISCV_RESULTS = {"word": RISCV_WORDS, "narrow": RISCV_NARROW, "product": PRODUCTS, "quotient": QUOTIENTS}
SHIFTS = ("lsl", "lsr", "asr", "ror", "bfi", "bfc", "sbfx", "ubfx", "sxt", "uxt")


@dataclass(frozen=True)
class BlockTiming:
    """Of a block, per timing of its core: the cycles of one run, those of being left by a branch, and those of a branch that
    was not foreseen, 0 where the last instruction is no conditional one."""

    costs: tuple[tuple[int, int, int], ...]

    def cycles(self, executions: int, taken: int) -> Cycles:
        """Of `executions` runs of which `taken` were left by a branch."""
        rarer = min(taken, executions - taken)
        counts = [once * executions + left * taken + missed * rarer for once, left, missed in self.costs]
        return Cycles(min(counts), counts[1], max(counts))


def block_timing(core: str, instructions: Sequence[Instruction]) -> BlockTiming:
    """Return the timing of a block; KeyError for a core not in TIMINGS."""
    last, costs = instructions[-1].name, []
    for timing in TIMINGS[core]:
        if isinstance(timing, RiscvTiming):
            once, left = _when_ready(instructions, timing), timing.reload
        else:
            once = (_two_at_a_time if timing.dual else _one_by_one)(instructions, timing)
            left = timing.reload + (timing.call if last in CALLS else 0)
        costs.append((once, left, timing.missed if last in CONDITIONAL else 0))
    return BlockTiming(tuple(costs))


def waiting(cycles: Cycles, code: int, data: int, waits: int) -> Cycles:
    """With `waits` cycles for each line of code and of data that comes from Flash.

    Fewest: code is there before it is needed. Most: a line takes its four words' time more to come in.
    """
    return cycles.plus(data * waits, (code + data) * waits, (code + data) * (waits + LINE_WORDS))


def milliseconds(count: int, clock_hz: int) -> float:
    """Return how long so many cycles take."""
    return count / clock_hz * 1e3


def _registers(instruction: Instruction) -> int:
    """Return how many words an access to several moves."""
    words = 0
    for part in instruction.operands.partition("{")[2].rstrip("}").split(","):
        name, _, end = part.strip().partition("-")
        words += (int(end.strip()[1:]) - int(name[1:]) + 1 if end else 1) * (2 if name.startswith("d") else 1)
    return words


def _address(instruction: Instruction) -> frozenset[str]:
    """Return the registers that an access gets its address from."""
    inside = instruction.operands.partition("[")[2].partition("]")[0]
    return frozenset(part.strip() for part in inside.split(",") if part.strip() in instruction.read)


def _alone(instruction: Instruction, timing: Timing) -> int:
    """Return cycles of an instruction whatever is around it; a taken branch's reload apart."""
    name = instruction.name
    if name in STORES:
        return timing.indexed if len(_address(instruction)) > 1 else timing.store
    if name in SEVERAL | PAIRS:
        return timing.multiple + (2 if name in PAIRS else _registers(instruction))
    if name in TABLES:
        return timing.load + 1
    if name.startswith("it") and set(name[2:]) <= {"t", "e"}:
        return timing.predicate
    field = next((field for field, names in TAKES.items() if name in names), None)
    return getattr(timing, field) if field else SLOW_FLOATS.get(name, 1)


def _one_by_one(instructions: Iterable[Instruction], timing: Timing) -> int:
    """In the order of the code, each after the one before."""
    total, before = 0, None
    for instruction in instructions:
        count = _alone(instruction, timing)
        if before and instruction.name in ACCESSES | PAIRS:
            needed = bool(before.written & _address(instruction))
            if before.name in LOADS and instruction.name not in PAIRS and not needed:
                count -= timing.behind if count > 1 else 0
            elif needed and before.name not in ACCESSES | PAIRS | SEVERAL:
                count += timing.computed
        total, before = total + count, instruction
    return total


def _two_at_a_time(instructions: Iterable[Instruction], timing: Timing) -> int:
    """Two neighbours may start together where neither needs the other, nor both the one unit that there is."""
    ready: dict[str, int] = {}  # register -> the cycle from which it may be read
    clock, before = 0, None  # the cycle at which the next may start, if it does not start with the one before
    for instruction in instructions:
        wanted = max((ready.get(register, 0) for register in instruction.read), default=0)
        if before and wanted <= clock - 1 and _start_together(before, instruction):
            start, before = clock - 1, None
        else:
            start = max(clock, wanted)
            count = _alone(instruction, timing)
            clock = start + count
            before = instruction if count == 1 else None
        late = instruction.name in LOADS or instruction.name in LONG or instruction.name.startswith(("mul", "ml", "sm"))
        for register in instruction.written:
            ready[register] = start + (timing.result if late else 1)
    return clock


def _when_ready(instructions: Iterable[Instruction], timing: RiscvTiming) -> int:
    """One after the other, each when what it reads and what it writes again is there, and the unit that it needs is free."""
    ready: dict[str, int] = {}  # register -> the cycle from which it may be read or written
    clock = free = 0  # the cycles from which the next instruction and the next multiplication may start
    written = ""  # where the instruction before stored to
    for instruction in instructions:
        name, place = instruction.name, instruction.operands.rpartition(", ")[2]
        start = max((ready.get(register, 0) for register in instruction.read | instruction.written), default=0)
        start = max(clock, start, free if name in PRODUCTS | QUOTIENTS else 0)
        if name in RISCV_WORDS | RISCV_NARROW and place == written:
            start += timing.stored
        result = next((getattr(timing, field) for field, names in RISCV_RESULTS.items() if name in names), 1)
        if name in PRODUCTS | QUOTIENTS:
            free = start + (timing.busy if name in PRODUCTS else timing.quotient)
        ready |= dict.fromkeys(instruction.written, start + result)
        clock, written = start + 1, place if name in RISCV_STORES else ""
    return max(clock, *ready.values()) if timing.drained and ready else clock


def _start_together(first: Instruction, second: Instruction) -> bool:
    if first.written & (second.read | second.written) or {first.name, second.name} & (SEVERAL | PAIRS | SLOW_FLOATS.keys()):
        return False
    if first.name in BRANCHES or second.name.startswith(DSP) or second.name in ("sdiv", "udiv"):
        return False
    return _units(first).isdisjoint(_units(second))


def _units(instruction: Instruction) -> set[str]:
    """Return which of the units that there are once an instruction needs."""
    name, operands = instruction.name, instruction.operands
    needs = {
        "multiplier": name in LONG or name.startswith(("mul", "ml", "smla", "smm", "smul", "smua", "smus")),
        "memory": name in ACCESSES,
        "shifter": name.startswith(SHIFTS) or any(f"{shift} #" in operands for shift in SHIFTS[:4]),
    }
    return {unit for unit, needed in needs.items() if needed}
