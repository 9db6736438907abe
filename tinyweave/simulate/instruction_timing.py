"""Cycle estimates of basic blocks, from published timings of the cores.

In: the instructions of a basic block, a core, and cache lines fetched from Flash. Out: the fewest, the likely and the most
cycles, a range over what the sources leave open.

Sources: "Instruction set summary" and "Load/store timings" of the Cortex-M0 (DDI 0432), M0+ (DDI 0484), M3 (DDI 0337) and M4
(DDI 0439) manuals. M7: measurements on an STM32H730 and an STM32H743, cited at the figures. M33: the M4's figures, whose
pipeline is as long, with a wider range. E31: SiFive's manuals. ESP32-C3: a pipeline of four stages; M55: LLVM's scheduling
model; both agree with published benchmarks, cited at the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


class Instruction(NamedTuple):
    """A disassembled instruction, and the registers that it reads and writes."""

    name: str  # mnemonic without condition and width suffixes
    operands: str  # as the disassembler prints them
    read: frozenset[str]
    written: frozenset[str]
    bytes: int = 4  # of its code


class Cycles(NamedTuple):
    """An estimated number of cycles: the likely value, and the range in which the true value should be."""

    fewest: int
    likely: int
    most: int

    def plus(self, fewest: int, likely: int, most: int) -> Cycles:
        """Return the sum of this estimate and another one, whose three values are the arguments."""
        return Cycles(self.fewest + fewest, self.likely + likely, self.most + most)


@dataclass(frozen=True)
class Timing:
    """The timing of a Cortex-M: cycles of each kind of instruction, and cycles added or saved by neighbouring instructions."""

    load: int = 2
    store: int = 1
    indexed: int = 2  # store whose address is the sum of registers
    multiple: int = 1  # load or store of several words, besides the cycles to transfer them
    words: int = 1  # words that such a load or store transfers per cycle
    behind: int = 1  # cycles saved by an access directly after a load whose result is not part of its address
    computed: int = 1  # cycles added if the instruction before an access computes its address
    multiply: int = 1
    accumulate: int = 1  # multiply-accumulate
    long: int = 1  # multiplication with a 64-bit result
    divide: int = 7
    predicate: int = 1  # IT instruction
    reload: int = 2  # cycles added by a taken branch
    call: int = 0  # cycles that a call adds to `reload`
    missed: int = 0  # cycles added by a mispredicted conditional branch
    dual: bool = False  # whether two instructions can start in one cycle. If so:
    result: int = 2  # cycles until a loaded or multiplied value can be used
    address: int = 3  # cycles until a loaded value can be used as an address
    pairs: bool = False  # whether a load may start with a store, or with a load from the other bank
    banks: bool = False  # with `pairs`, whether two loads whose banks are unknown use different ones


M4 = Timing()
M4_RANGE = (replace(M4, computed=0, divide=2, predicate=0, reload=1, indexed=1), M4, replace(M4, divide=12, reload=3))
M3 = replace(M4, accumulate=2, long=4)
M3_RANGE = (replace(M4_RANGE[0], accumulate=2, long=3), M3, replace(M4_RANGE[2], accumulate=2, long=7))
M33_RANGE = (replace(M4_RANGE[0], load=1, behind=0), M4, M4_RANGE[2])
M0_PLUS = Timing(store=2, behind=0, computed=0, divide=0, reload=1, call=1)
# Arm publishes no latencies of the Cortex-M7. Measured on an STM32H730 (quinapalus.com/cm7cycles.html) and on an STM32H743
# (github.com/jnk0le/random, pipeline cycle test): pairs of independent instructions start together, products in either place;
# so do a load and a store, and two loads from different banks, which are the even and the odd words. A product is ready after
# two cycles, but after one to be added to; a word that is loaded after one for arithmetic without a shift, else two; as an
# address after three; any value can be stored at once. Several words take half a cycle each. LLVM's model of this core agrees,
# except for addresses (two cycles). Unknown, hence the range: whether branches that are predicted take a cycle, mispredicted
# ones 4 (LLVM) to 9; banks; whether a product may start second, which GCC's model of this core denies.
M7 = Timing(load=1, indexed=1, multiple=0, words=2, behind=0, computed=0, divide=6, reload=1, missed=7, dual=True, pairs=True)
M7_RANGE = (
    replace(M7, divide=3, predicate=0, reload=0, missed=4, address=2, banks=True),
    M7,
    replace(M7, divide=12, reload=2, missed=9, words=1, pairs=False),
)


@dataclass(frozen=True)
class RiscvTiming:
    """The timing of an in-order, single-issue RISC-V core, which stalls until the operands of an instruction are ready."""

    word: int  # cycles from the start of a word load until its result can be used
    narrow: int  # the same for a load of a byte or halfword
    product: int  # the same for a multiplication
    quotient: int  # the same for a division
    busy: int  # cycles from the start of one multiplication to the next
    stored: int  # stall of a load from the address of the store directly before it
    reload: int  # cycles added by a taken branch
    missed: int  # cycles added by a mispredicted conditional branch
    drained: bool = False  # whether a block lasts until all its results are ready, since the next block may need them


# SiFive E31: 3.2 and 3.3 are "Instruction Fetch Unit" and "Execution Pipeline" of the FE310-G000 Manual, whose core is an E31.
# 3.3: "fully bypassed so that most instructions have a one-cycle result latency", "only interlocks on read-after-write and
# write-after-write hazards". 3.2: "correctly predicted control-flow instructions result in no penalty".
E31 = RiscvTiming(
    word=2,  # 3.3: "LW has a two-cycle result latency"; its DTIM, too, as others quote the FE310-G002 Manual
    narrow=3,  # 3.3: "LH, LHU, LB, and LBU have a three-cycle result latency"; its DTIM, too, likewise
    product=5,  # 3.3: "MUL, MULH, MULHU, and MULHSU have a 5-cycle result latency"
    quotient=17,  # 3.3: "DIV, DIVU, REM, and REMU have between a 2-cycle and 33-cycle result latency"; this is the middle
    busy=5,  # 3.3: "can only execute one operation at a time and will block until the previous operation" is over
    stored=5,  # E51 Manual, 3.4 (a related core): "Loads to addresses currently in the store pipeline [...] five-cycle penalty"
    reload=0,
    missed=3,  # 3.2: "Mispredicted control-flow instructions incur a three-cycle penalty"
)
# Unknown, hence the range: whether its predictor is right for all branches, for the more frequent way of each, or for no taken
# branch, as it stores few targets; the operands of divisions; whether the multiplier ("8-bit per cycle", 3.3) is free after
# four cycles; whether the first instructions of the next block need a block's last results.
E31_RANGE = (replace(E31, quotient=2, busy=4, missed=0), E31, replace(E31, quotient=33, reload=3, missed=0, drained=True))

# ESP32-C3: Espressif's manual says "4-stage, in-order, scalar pipeline" and gives no latencies. In such a pipeline, branches
# are resolved in the third stage and loads end in the fourth. CoreMark took 390,960 cycles per iteration on an ESP32-C3 (code
# in RAM; 409.249 iterations per second at 160 MHz, printed in the example of Espressif's component "coremark" 1.1.0, GCC 12.2,
# -O3). These figures give 389,493 for the same program from GCC 12.2, and 352,474 to 457,634 for the range
# (bench/peers/coremark.py).
ESP32_C3 = RiscvTiming(word=2, narrow=2, product=1, quotient=17, busy=1, stored=0, reload=2, missed=0)
ESP32_C3_RANGE = (
    replace(ESP32_C3, quotient=2, reload=1),
    ESP32_C3,
    replace(ESP32_C3, word=3, narrow=3, product=2, quotient=33, reload=3),
)


@dataclass(frozen=True)
class M55Timing:
    """A Cortex-M55: in order; vectors take two beats of eight bytes, which overlap the next's in other parts of the core."""

    loaded: int = 2  # cycles from the start of a load until its result can be used
    product: int = 2  # the same for a multiplication
    shifted: int = 2  # the same for an operation with a shifted operand, and for bit fields and saturation
    quotient: int = 7  # the same for a division, which also blocks the core
    words: int = 2  # words that a load or store of several words transfers per cycle
    gathered: int = 4  # cycles that the vector of addresses of a gather load must be ready before the load
    reload: int = 3  # cycles added by a taken branch
    entered: int = 3  # cycles added once per run of a low-overhead loop (LE); its jumps back take no cycles
    paired: bool = True  # whether two short instructions may start in one cycle
    drained: bool = False  # whether a block lasts until all its results are ready


# Arm publishes no latencies of the M55. LLVM's model of it (llvm/lib/Target/ARM/ARMScheduleM55.td) has these latencies, vectors
# in two beats, one part for loads and stores, one for integers, one for products, "MispredictPenalty = 3", and "can dual issue
# two 16-bit T1 instructions providing one is one of NOPs, ITs, Brs, ADDri/SUBri, UXTB/H, SXTB/H and MOVri's". SLOTHY's model of
# the M55 (github.com/slothy-optimizer/slothy, copyright Arm) has the same parts and throughputs. CoreMark took 356,506 cycles
# per iteration on a Cortex-M55 r0p0 with code and data in tightly coupled memory (2.805 per MHz by GCC 10.3 with -Ofast, at
# github.com/GorgonMeducer/coremark_cortex-m55). These figures give 346,347 for the same program from GCC 12.2, and 251,870 to
# 477,289 for the range (bench/peers/coremark.py). Layers of CMSIS-NN that were timed on an Alif Ensemble E8 took 3 to 12 % more
# cycles than these figures give if they are 1x1 convolutions, and 12 to 38 % more if they are depthwise
# (bench/peers/board_layers.py). Memories with wait states and the core's caches are not modelled.
M55 = M55Timing()
M55_RANGE = (
    replace(M55, loaded=1, shifted=1, quotient=2, gathered=0, reload=1, entered=1),
    M55,
    replace(M55, loaded=3, quotient=12, words=1, reload=4, entered=6, paired=False, drained=True),
)

CoreTiming = Timing | RiscvTiming | M55Timing
# core -> fewest, likely, most
TIMINGS: dict[str, tuple[CoreTiming, CoreTiming, CoreTiming]] = {
    "cortex-m0": (replace(M0_PLUS, reload=2),) * 3,
    "cortex-m0plus": (M0_PLUS,) * 3,
    "cortex-m3": M3_RANGE,
    "cortex-m4": M4_RANGE,
    "cortex-m7": M7_RANGE,
    "cortex-m33": M33_RANGE,
    "cortex-m55": M55_RANGE,
    "sifive-e31": E31_RANGE,
    "rv32imc-esp": ESP32_C3_RANGE,
}

CONDITIONS = "eq ne hs cs lo cc mi pl vs vc hi ls ge lt gt le"
CONDITIONAL = {"cbz", "cbnz", *(f"b{condition}" for condition in CONDITIONS.split()), "bltu", "bgeu", "beqz", "bnez"}
LOADS = {"ldr", "ldrb", "ldrh", "ldrsb", "ldrsh", "vldr"}
STORES = {"str", "strb", "strh", "vstr"}
ACCESSES = LOADS | STORES
SEVERAL = {"ldm", "ldmdb", "pop", "vldmia", "vldmdb", "vpop", "stm", "stmdb", "push", "vstmia", "vstmdb", "vpush"}
PAIRS = {"ldrd", "strd"}
LONGER = SEVERAL | PAIRS  # transfer more than one word
TABLES = {"tbb", "tbh"}
CALLS = {"bl", "blx"}
BRANCHES = {"b", "bx", *CALLS, *CONDITIONAL, *TABLES}
LONG = {"smull", "umull", "smlal", "umlal", "umaal"}
# field of `Timing` -> instructions with that cost
TAKES = {"load": LOADS, "divide": {"sdiv", "udiv"}, "long": LONG, "accumulate": {"mla", "mls"}, "multiply": {"mul"}}
FIELDS = {name: field for field, names in TAKES.items() for name in names}
SLOW_FLOATS = {"vdiv": 14, "vsqrt": 14, **dict.fromkeys("vmla vmls vnmla vnmls vfma vfms vfnma vfnms".split(), 3)}
SLOW_OR_LONGER = LONGER | SLOW_FLOATS.keys()
DSP = tuple("sxt uxt pkh ssat usat sadd ssub rev".split())  # a dual-issue core starts them first or alone
EARLY = tuple("bfi sbfx ubfx pkh rev rbit sxta uxta ssat usat".split())  # these take their operands a cycle early, as shifts do
EXTENDS = ("sxt", "uxt")
MULTIPLIES = ("mul", "ml", "sml", "smm", "smu", "umul", "umla", "umaa")
RISCV_WORDS = {"lw", "lwsp"}
RISCV_NARROW = {"lb", "lbu", "lh", "lhu"}
RISCV_STORES = {"sb", "sh", "sw", "swsp"}
PRODUCTS = {"mul", "mulh", "mulhu", "mulhsu"}
QUOTIENTS = {"div", "divu", "rem", "remu"}
RISCV_RESULTS = {"word": RISCV_WORDS, "narrow": RISCV_NARROW, "product": PRODUCTS, "quotient": QUOTIENTS}
# names of vector instructions in vectors.py -> the part of a Cortex-M55 that executes them
PARTS = {name: name for name in ("valu", "vmultiply", "vcontrol")} | dict.fromkeys(("vload", "vgather", "vstore"), "vload")
BEATS = 2  # cycles for which a vector instruction occupies its part
FLAGS = {"cpsr", "itstate"}  # registers of conditions, which cost no cycle to wait for
# instructions of two bytes that an M55 starts together with another one
ANY_PAIR = {"nop", "uxtb", "uxth", "sxtb", "sxth", "mov", "b"} | CONDITIONAL
SUMS = {"add", "addw", "sub", "subw"}  # these also do, if one operand is a constant
# beginnings of the names of instructions whose result an M55 has after `shifted` cycles
LATE = tuple("ssat usat sbfx ubfx bfi qadd qsub sadd ssub uadd usub sxta uxta sxtb16 uxtb16".split())
SHIFTS = ("lsl", "lsr", "asr", "ror", "bfi", "bfc", "sbfx", "ubfx", "sxt", "uxt")


# for the fewest, likely and most cycles: (cycles of one execution of a basic block, cycles added if the branch at its end is
# taken, cycles added if that branch is mispredicted, which is 0 without a conditional branch)
BlockCosts = tuple[tuple[int, int, int], ...]


def block_cycles(costs: BlockCosts, executions: int, taken: int) -> Cycles:
    """Return the cycles of `executions` runs of a basic block, `taken` with a taken branch; the rarer way is mispredicted."""
    rarer = min(taken, executions - taken)
    counts = [once * executions + left * taken + missed * rarer for once, left, missed in costs]
    return Cycles(min(counts), counts[1], max(counts))


def block_costs(core: str, instructions: Sequence[Instruction]) -> BlockCosts:
    """Estimate the cycle costs of a basic block on a core, three times: for the fewest, the likely and the most cycles.

    Each is (cycles of one execution, cycles added if the branch at the end is taken, cycles added if it is mispredicted, or
    once per run of a low-overhead loop). Raises KeyError for a core that is not in TIMINGS.
    """
    last, costs = instructions[-1].name, []
    for timing in TIMINGS[core]:
        if isinstance(timing, M55Timing):
            once, again = (_by_beats([*instructions] * times, timing) for times in (1, 2))
            if not timing.drained:
                once = again - once  # includes the wait for the last beat of the block before, if that is an equal block
            costs.append((once, 0, timing.entered) if last == "le" else (once, timing.reload, 0))
            continue
        if isinstance(timing, RiscvTiming):
            once, left = _when_ready(instructions, timing), timing.reload
        else:
            once = (_two_at_a_time if timing.dual else _one_by_one)(instructions, timing)
            left = timing.reload + (timing.call if last in CALLS else 0)
        costs.append((once, left, timing.missed if last in CONDITIONAL else 0))
    return tuple(costs)


class LineWaits(NamedTuple):
    """Cycles for which a core waits for a line of a cache from Flash."""

    alone: Cycles
    following: Cycles  # if the line directly follows the line that was fetched before

    def of(self, lines: int, following: int) -> Cycles:
        """Return the cycles for `lines` lines, `following` of them in sequence."""
        return Cycles(*(a * (lines - following) + b * following for a, b in zip(*self, strict=True)))


class FlashWaits(NamedTuple):
    """Cycles for which a core waits for its Flash: for code and for data (constants)."""

    code: LineWaits
    data: LineWaits
    prefetched: bool = False  # whether the Flash reads ahead while the core computes

    def of(self, missed: Mapping[str, tuple[int, int]]) -> Cycles:
        """Return the cycles for missed lines: `code` or `data` -> (lines, those of them in sequence)."""
        return Cycles(0, 0, 0).plus(*self.code.of(*missed.get("code", (0, 0)))).plus(*self.data.of(*missed.get("data", (0, 0))))

    def added(self, cycles: Cycles, missed: Mapping[str, tuple[int, int]]) -> Cycles:
        """Add the waits for missed lines to the cycles without waits."""
        total = cycles.plus(*(waits := self.of(missed)))
        return total._replace(fewest=max(cycles.fewest, waits.fewest)) if self.prefetched else total


def milliseconds(count: int, clock_hz: int) -> float:
    """Return the duration of `count` cycles in milliseconds."""
    return count / clock_hz * 1e3


def _registers(instruction: Instruction) -> int:
    """Return the number of 32-bit words that a load or store of a register list, such as {r4-r7, lr}, transfers."""
    words = 0
    for part in instruction.operands.partition("{")[2].rstrip("}").split(","):
        name, _, end = part.strip().partition("-")
        words += (int(end.strip()[1:]) - int(name[1:]) + 1 if end else 1) * (2 if name.startswith("d") else 1)
    return words


def _address(instruction: Instruction) -> frozenset[str]:
    """Return the registers from which a Thumb load or store computes its address: those in square brackets."""
    inside = instruction.operands.partition("[")[2].partition("]")[0]
    return frozenset(part.strip() for part in inside.split(",") if part.strip() in instruction.read)


def _alone(instruction: Instruction, timing: Timing) -> int:
    """Return the cycles of one instruction, without the effects of its neighbours and of a taken branch."""
    name = instruction.name
    if name in STORES:
        return timing.indexed if len(_address(instruction)) > 1 else timing.store
    if name in LONGER:
        return timing.multiple - (-(2 if name in PAIRS else _registers(instruction)) // timing.words)
    if name in TABLES:
        return timing.load + 1
    if name.startswith("it") and set(name[2:]) <= {"t", "e"}:
        return timing.predicate
    return getattr(timing, FIELDS[name]) if name in FIELDS else SLOW_FLOATS.get(name, 1)


def _one_by_one(instructions: Iterable[Instruction], timing: Timing) -> int:
    """Return the cycles of a basic block on a Cortex-M that finishes each instruction before it starts the next."""
    total, before = 0, None
    for instruction in instructions:
        count = _alone(instruction, timing)
        if before and (instruction.name in ACCESSES or instruction.name in PAIRS):
            needed = bool(before.written & _address(instruction))
            if before.name in LOADS and instruction.name not in PAIRS and not needed:
                count -= timing.behind if count > 1 else 0
            elif needed and before.name not in ACCESSES and before.name not in LONGER:
                count += timing.computed
        total, before = total + count, instruction
    return total


def _two_at_a_time(instructions: Iterable[Instruction], timing: Timing) -> int:
    """Return the cycles of a basic block on a dual-issue Cortex-M, where independent neighbours may start together."""
    written: dict[str, tuple[int, Instruction]] = {}  # register -> the instruction that wrote it, and the cycle of its start
    clock, before = 0, None  # the cycle at which the next instruction starts, unless together with `before`
    for instruction in instructions:
        read = ((register, *written[register]) for register in instruction.read if register in written)
        wanted = max((start + _until(writer, instruction, register, timing) for register, start, writer in read), default=0)
        if before and wanted <= clock - 1 and _start_together(before, instruction, timing):
            start, before = clock - 1, None
        else:
            start = max(clock, wanted)
            count = _alone(instruction, timing)
            clock = start + count
            before = instruction if count == 1 else None
        written |= dict.fromkeys(instruction.written, (start, instruction))
    return clock


def _until(writer: Instruction, reader: Instruction, register: str, timing: Timing) -> int:
    """Return the cycles from the start of an instruction until another one can start that reads its result on a Cortex-M7."""
    is_address = register in _address(reader)
    if reader.name in STORES and not is_address:
        return 0
    if not writer.name.startswith(MULTIPLIES) and writer.name not in LOADS:
        return 1
    if is_address:
        return timing.address if writer.name in LOADS else timing.result
    if reader.name.startswith(MULTIPLIES):  # sums may come late: the first two operands if they have 64 bits, else the fourth
        operands = reader.operands.split(", ")
        is_long, is_sum = reader.name[3:5] == "al", len(operands) == 4 and not reader.name.endswith("ull")
        late = is_sum and register not in (operands[2:] if is_long else operands[1:3])
    else:
        shifted = _shifts_operand(reader) and not reader.name.startswith(EXTENDS)
        late = writer.name == "ldr" and not (shifted or reader.name in ACCESSES or reader.name.startswith(EARLY))
    return timing.result - late


def _when_ready(instructions: Iterable[Instruction], timing: RiscvTiming) -> int:
    """Return the cycles of a basic block on a RISC-V core that starts instructions when operands and multiplier are ready."""
    ready: dict[str, int] = {}  # register -> the cycle from which it may be read or written
    clock = free = 0  # the cycles from which the next instruction and the next multiplication may start
    written = ""  # the address, as text, to which the previous instruction stored; "" if it was no store
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


def _by_beats(instructions: Iterable[Instruction], timing: M55Timing) -> int:
    """Return the cycles of instructions on a Cortex-M55, which wait for operands and, if vectors, for their part's beats."""
    ready: dict[str, int] = {}  # register -> the cycle from which it may be read; vectors are named q0 to q7
    free: dict[str, int] = {}  # part of the core -> the cycle from which it may start a vector instruction
    clock, before = 0, None  # the cycle at which the next instruction starts, unless together with `before`
    for instruction in instructions:
        name, part = instruction.name, PARTS.get(instruction.name, "")
        if name == "le":
            continue
        read = {_vector(register) for register in instruction.read} - FLAGS
        early = {register: timing.gathered * (name == "vgather" and register[0] == "q") for register in read}
        wanted = max((ready.get(register, 0) + early[register] for register in read), default=0)
        if timing.paired and before and wanted < clock and _pair(before, instruction):
            start, before = clock - 1, None
        else:
            start = max(clock, wanted, free.get(part, 0))
            clock, before = start + 1, instruction
        taken, result = _on_m55(instruction, timing)
        clock = max(clock, start + taken)
        if part:
            free[part] = start + (1 if name == "vcontrol" else BEATS)
        writes_back = part == "vload" or "!" in instruction.operands or "], #" in instruction.operands
        base = instruction.read & instruction.written if writes_back else frozenset()  # the register with the next address
        for register in instruction.written:
            ready[_vector(register)] = start + (taken if register in base else result)
    return max([clock, *ready.values(), *free.values()]) if timing.drained else clock


def _on_m55(instruction: Instruction, timing: M55Timing) -> tuple[int, int]:
    """Return after how many cycles on a Cortex-M55 the next instruction may start, and the result can be used."""
    name = instruction.name
    if name in PARTS:
        return 1, int(instruction.operands)
    if name in SEVERAL:
        count = -(-_registers(instruction) // timing.words)
        return count, count - 1 + timing.loaded
    if name in LOADS or name in PAIRS:
        return 1, timing.loaded
    if name in ("sdiv", "udiv", "vdiv", "vsqrt"):
        return (count := SLOW_FLOATS.get(name, timing.quotient)), count
    if name in LONG or name.startswith(("mul", "ml", "sml", "smm", "smu", "v")):
        return 1, timing.product
    return 1, timing.shifted if name.startswith(LATE) or _shifts_operand(instruction) else 1


def _vector(register: str) -> str:
    """Return the vector that a scalar floating-point register, such as s5 or d2, is a part of; other registers unchanged."""
    kind, number = register[0], register[1:]
    return f"q{int(number) // (4 if kind == 's' else 2)}" if kind in "sd" and number.isdigit() else register


def _pair(first: Instruction, second: Instruction) -> bool:
    """Return whether a Cortex-M55 starts both instructions in one cycle, if all operands are ready."""
    if (
        first.bytes != 2
        or second.bytes != 2
        or first.name in BRANCHES
        or first.written & (second.read | second.written) - FLAGS
    ):
        return False
    return any(
        one.name in ANY_PAIR or one.name.startswith("it") or (one.name in SUMS and "#" in one.operands)
        for one in (first, second)
    )


def _shifts_operand(instruction: Instruction) -> bool:
    return any(f"{shift} #" in instruction.operands for shift in SHIFTS[:4])


def _start_together(first: Instruction, second: Instruction, timing: Timing) -> bool:
    """Return whether a Cortex-M7 starts two instructions in one cycle, if all operands are ready."""
    names = {first.name, second.name}
    needed = _address(second) if second.name in STORES else second.read
    if first.written & (needed | second.written) or names & SLOW_OR_LONGER or first.name in BRANCHES:
        return False
    if second.name.startswith(DSP) or second.name in ("sdiv", "udiv"):
        return False
    shared = _units(first) & _units(second)
    if shared == {"memory"} and timing.pairs:
        return not names <= LOADS or timing.banks or _other_banks(first, second)
    return not shared


def _other_banks(first: Instruction, second: Instruction) -> bool:
    """Return whether two loads read words of different banks, which their offsets from the same register tell."""
    places = [one.operands.partition("[")[2].partition("]")[0].partition(", #") for one in (first, second)]
    (base, _, here), (other, _, there) = places
    return first.name == second.name == "ldr" and base == other and (int(here or "0", 0) - int(there or "0", 0)) % 8 == 4


def _units(instruction: Instruction) -> set[str]:
    """Return the functional units that an instruction needs, among those of which a dual-issue core has only one."""
    name = instruction.name
    needs = {
        "multiplier": name.startswith(MULTIPLIES) or name in STORES,
        "memory": name in ACCESSES,
        "shifter": name.startswith(SHIFTS) or _shifts_operand(instruction),
    }
    return {unit for unit, needed in needs.items() if needed}
