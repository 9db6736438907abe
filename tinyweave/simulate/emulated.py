"""Emitted C on an emulated core: build a program from it, run it, and measure RAM, Flash, stack and instructions.

In: the folder of an emitted model, its name, a core. Out: a Firmware, and Inferences. Unmapped bytes around each memory, stack,
Flash and static data make a stray access a Fault. Instructions are counted per basic block, including predicated ones whose
condition is false. Unicorn runs in a separate process (unicorn_process.py); QEMU (qemu.py) takes the same requests.
"""

from __future__ import annotations

import bisect
import importlib.util
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from ..ir import CompileError
from ..support import toolchain
from ..support.installing import install
from . import qemu
from .cores import CORES
from .instruction_timing import TIMINGS, BlockCosts, Cycles, FlashWaits, Instruction, block_costs, block_cycles
from .messages import decode, encode
from .run import (
    ALIGN,
    FOLDER,
    NO_FILE,
    WHOLE,
    BasicBlock,
    Dump,
    Exchange,
    Fault,
    Inference,
    Region,
    Round,
    StepPart,
    WeightsFile,
    arena_part,
    check_end,
    filled,
    in_order,
    names_of,
    noise,
    place,
)
from .worker import isolated, worker

PAGE = 4096
WRITTEN, IN_MEMORY = 1, 2  # flags of an ELF section: SHF_WRITE, SHF_ALLOC
UNWINDING = ".ARM.ex"  # prefix of unwinding sections, which the linker script discards
# emulator -> address of the first memory, distance to the next one, lowest address of the stack
ADDRESSES = {"unicorn": (0x30000000, 0x08000000, 0x24000000), "qemu": (qemu.MEMORY_START, qemu.MEMORY_STEP, qemu.STACK_START)}
STACK_BYTES = 1 << 16
HEADERS = tuple(sorted((FOLDER / "include").glob("*.h")))  # what emitted C needs of a C library, and trace.h
LIMIT_INSTRUCTIONS = 100_000_000_000
LIMIT_S = 600.0
TRACED = ("-DTW_TRACE=tw_trace_all", f"-include{FOLDER / 'include' / 'trace.h'}")  # flags of a build whose steps are recognised
FUNCTIONS = ("init", "reset", "input", "invoke", "output")  # of a model
OF_FLOATS = ("write_piece", "read_piece")  # of host_model.c

DISASSEMBLES = "cortex-m4"  # a core whose emulator, Unicorn, comes with the disassembler for all cores

COMPILERS = {"arm": toolchain.arm, "riscv": toolchain.riscv}


@dataclass(frozen=True, eq=False)
class Firmware:
    """A model compiled and linked for an emulated core.

    `sizes`, from the ELF file, has the bytes of `weights`, `tables` (other constants, and initial values of static data),
    `code` (with kernels and the compiler's library) and `static` (data in RAM).
    """

    path: Path  # ELF file
    model: str  # prefix of the model's C functions
    core: str  # key of CORES
    compiler: str  # version and flags
    sizes: Mapping[str, int]


def flags_for(core: str, compiler: toolchain.Toolchain, optimize: str = "-O2") -> list[str]:
    """Return the flags with which `compiler` compiles C for a core, a key of CORES."""
    zig = compiler.name == "zig"
    flags = [*(CORES[core].zig if zig else CORES[core].gcc), "-std=c99", optimize]
    flags += ["-ffunction-sections", "-fdata-sections", "-fomit-frame-pointer", "-fno-unwind-tables"]
    return [*flags, "-fno-asynchronous-unwind-tables", *(["-fno-sanitize=all"] if zig else [])]


def build(
    folder: Path,
    model: str,
    core: str,
    *,
    optimize: str = "-O2",
    trace: bool = False,
    plain: bool = False,
    floats: bool = False,
) -> Firmware:
    """Compile and link the model in `folder` for `core`, or return the cached result of an equal build.

    With `trace`, the C calls a hook after each step of the plan for `invoke`. With `plain`, kernels are plain C, as those with
    instructions that `core` lacks must be. With `floats`, write_input and read_output are linked, too.
    """
    if core not in CORES:
        raise CompileError(f"no emulated core is called {core}", f"known cores: {', '.join(CORES)}")
    compiler = COMPILERS[CORES[core].isa]()
    flags = [*flags_for(core, compiler, optimize), *(TRACED if trace else ())]
    flags += ["-DTW_PLAIN_C"] if plain else []
    kept = (*FUNCTIONS, *(OF_FLOATS if floats else ()))
    link = ["-Wl,--gc-sections", f"-Wl,-e,{model}_invoke", *(f"-Wl,-u,{model}_{name}" for name in kept), *names_of(model)]
    files = [*toolchain.sources(Path(folder), model), FOLDER / "runtime.c"]
    ours = [FOLDER / "firmware.ld", *HEADERS, *([FOLDER / "host_model.h", FOLDER / "host_model.c"] if floats else [])]
    more: list[str | Path] = ["-DTW_FLOATS", f"-I{folder}", "-idirafter", HEADERS[0].parent, ours[-1]] if floats else []
    path = toolchain.cached(
        f"{model}.elf",
        compiler,
        [*flags, *link],
        [*files, *ours],
        lambda path: link_all(compiler, [*flags, *link, f"-Wl,-T,{ours[0]}"], [*objects(compiler, flags, files), *more], path),
    )
    return Firmware(path, model, core, f"{compiler.version}: {' '.join(flags)}", _read_elf(path).sizes)


def objects(compiler: toolchain.Toolchain, flags: Sequence[str], files: Sequence[Path]) -> list[Path]:
    """Compile C files against this package's own standard headers; return object files. Changed headers compile them again."""
    return toolchain.objects(compiler, flags, [*files, *HEADERS], ["-idirafter", str(HEADERS[0].parent)])


def link_all(compiler: toolchain.Toolchain, flags: Sequence[str], compiled: Sequence[str | Path], program: Path) -> None:
    """Link object files to the ELF file `program`, with the compiler's library only if it is needed: zig takes 4 s for it."""
    words: list[str | Path] = [*flags, "-nostdlib", *compiled, "-o", program]
    if compiler.name != "zig":
        toolchain.compile_c(compiler, [*words, "-lgcc"])
        return
    try:
        toolchain.compile_c(compiler, words)
    except CompileError:
        toolchain.compile_c(compiler, [word for word in words if word != "-nostdlib"])


def elf(path: Path) -> Any:
    """Return the parsed ELF file at a path; raise CompileError if pyelftools is not installed."""
    if importlib.util.find_spec("elftools") is None:
        raise CompileError("measuring compiled C needs pyelftools, which is not installed", install("verify"))
    from elftools.elf.elffile import ELFFile

    return ELFFile(BytesIO(path.read_bytes()))


def compiled_bytes(folder: Path, core: str) -> dict[str, int]:
    """Compile a folder's C files for a core, and return the bytes of `flash` and `ram` of the objects, without linking."""
    compiler, found = COMPILERS[CORES[core].isa](), {"flash": 0, "ram": 0}
    for path in objects(compiler, flags_for(core, compiler), sorted(folder.glob("*.[ch]"))):
        for section in elf(path).iter_sections():
            if section["sh_flags"] & IN_MEMORY and not section.name.startswith(UNWINDING):
                found["flash"] += section["sh_size"] * (section["sh_type"] != "SHT_NOBITS")
                found["ram"] += section["sh_size"] * bool(section["sh_flags"] & WRITTEN)
    return found


@dataclass(frozen=True, eq=False)
class _Elf:
    flash: tuple[int, bytes]
    ram: tuple[int, bytes]
    code: tuple[int, int]
    symbols: Mapping[str, int]
    places: Mapping[str, tuple[int, int]]  # function or constant -> its begin and end
    functions: tuple[tuple[int, str], ...]  # by address
    sizes: Mapping[str, int]


@lru_cache(maxsize=64)
def _read_elf(path: Path) -> _Elf:
    file = elf(path)
    sections = [s for s in file.iter_sections() if s["sh_flags"] & IN_MEMORY and s["sh_size"]]
    entries = [s for s in file.get_section_by_name(".symtab").iter_symbols() if s.name and s.name[0] != "$"]
    parts = {s.name: (s["sh_addr"], bytes(s["sh_size"]) if s["sh_type"] == "SHT_NOBITS" else s.data()) for s in sections}
    unknown = set(parts) - {".text", ".rodata", ".data", ".bss"}
    if unknown:
        raise CompileError(
            f"{path.name} has the unexpected sections {', '.join(sorted(unknown))}",
            "emit the C again; it does not use these sections",
        )
    symbols = {s.name: s["st_value"] & ~1 if s["st_info"]["type"] == "STT_FUNC" else s["st_value"] for s in entries}
    constants = {s["st_value"]: s for s in entries if s["st_info"]["type"] == "STT_OBJECT"}
    weights = sum(s["st_size"] for s in constants.values() if s.name.partition(".")[0].endswith("_weights"))
    length = {name: len(parts.get(name, (0, b""))[1]) for name in (".text", ".rodata", ".data", ".bss")}
    return _Elf(
        places={s.name: (symbols[s.name], symbols[s.name] + s["st_size"]) for s in entries if s["st_size"]},
        flash=_join([parts[name] for name in (".text", ".rodata") if name in parts]),
        ram=_join([parts[name] for name in (".data", ".bss") if name in parts]),
        code=(parts[".text"][0], parts[".text"][0] + length[".text"]),
        symbols=symbols,
        functions=tuple(sorted({symbols[s.name]: s.name for s in entries if s["st_info"]["type"] == "STT_FUNC"}.items())),
        sizes={
            "weights": weights,
            "tables": length[".rodata"] - weights + length[".data"],
            "code": length[".text"] - sum(s["st_size"] for s in entries if s.name == "tw_trace"),
            "static": length[".data"] + length[".bss"],
        },
    )


def _join(parts: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    """Join neighbouring sections, each (address, contents), to one image (address, contents) that starts at a page boundary."""
    if not parts:
        return 0, b""
    start = min(address for address, _ in parts) // PAGE * PAGE
    image = bytearray(max(address + len(data) for address, data in parts) - start)
    for address, data in parts:
        image[address - start : address - start + len(data)] = data
    return start, bytes(image)


def invoke(
    firmware: Firmware,
    memories: Mapping[str, int],
    inputs: Sequence[bytes],
    output_bytes: Sequence[int],
    *,
    fill: int = 0,
    earlier: Sequence[Round] = (),
    dump: Sequence[Dump] = (),
    exchange: Exchange = WHOLE,
    caches: Mapping[str, tuple[int, int, int]] | None = None,
    layers: Mapping[str, int] | None = None,
    copied: Collection[str] = (),
    weights: WeightsFile = NO_FILE,
    limit_instructions: int = LIMIT_INSTRUCTIONS,
    limit_s: float = LIMIT_S,
) -> Inference:
    """Run init, write the inputs, run invoke and read the outputs, in memories that are filled with noise before.

    Raises Fault for an access outside the model's memory, a write to guard bytes or below the stack pointer, an error code,
    streamed rows out of order, and an exceeded limit.

    Args:
        memories: Memory -> bytes of its arena, in the model's order.
        fill: Number of the noise pattern; 2n + 1 is the complement of 2n, as run.py explains.
        earlier: Inferences (their inputs) and resets (None) to run first. Their outputs are in Inference.earlier.
        dump: Arena bytes to read after a step of a traced build: (step, memory, offset, bytes).
        caches: `code`, `data` or `unified` -> (bytes, bytes of a line, ways) of a cache that is empty before each call.
        layers: Layers to count separately: C name of the layer's parameters -> step that contains the layer.
        copied: Arrays that init copies to RAM. All their bytes in Flash change after init: only the copies stay right.
        limit_instructions: Maximum instructions of one call.
    """
    if reason := missing(firmware.core):
        raise CompileError(reason[0], reason[1])
    linked, core = _read_elf(firmware.path), CORES[firmware.core]
    regions, images = filled(memories, PAGE, fill)
    memory_start, memory_step, stack_start = ADDRESSES[core.emulator]
    if any(region.size > memory_step // 2 for region in regions):
        raise CompileError(f"a memory is larger than the {memory_step // 2} bytes that are emulated", "plan for a real board")
    stack = noise(STACK_BYTES, fill, len(regions))
    in_flash = b"" if weights.by_read else weights.content
    flash = linked.flash[1] + bytes(-len(linked.flash[1]) % ALIGN if in_flash else 0)

    def address_of(memory: str, offset: int, count: int) -> int:
        index, at, _ = arena_part(regions, memory, offset, count)
        return memory_start + index * memory_step + regions[index].base + at

    request = {
        "isa": core.isa,
        "cpu": core.cpu,
        # the complementary run makes the same accesses and is ten times as fast without the check
        "aligned": core.aligned and fill % 2 == 0,
        "hook": str(toolchain.library_file(toolchain.host(), FOLDER / "hook.c")),
        "flash": (linked.flash[0], flash + in_flash),
        "weights": [(linked.flash[0] + len(flash), len(in_flash))] * bool(in_flash),
        "file": weights.content if weights.by_read else None,
        "spoiled": {at: [(address_of(*part), part[2]) for part in parts] for at, parts in weights.spoiled.items()},
        "ram": linked.ram,
        "code": linked.code,
        "stack": (stack_start, stack),
        "memories": [
            (memory_start + i * memory_step, region.base, region.bytes, image)
            for i, (region, image) in enumerate(zip(regions, images, strict=True))
        ],
        "functions": {
            name: linked.symbols[f"{firmware.model}_{name}"]
            for name in (*FUNCTIONS, *(OF_FLOATS if exchange.float_inputs or exchange.float_outputs else ()))
        },
        "trace": linked.symbols.get("tw_trace"),
        "rounds": [None if arrays is None else list(arrays) for arrays in (*earlier, inputs)],
        "outputs": list(output_bytes),
        **vars(exchange),
        "caches": dict(caches or {}),
        "layers": {name: (step, *linked.places[name]) for name, step in (layers or {}).items() if name in linked.places},
        "invoke": linked.places.get(f"{firmware.model}_invoke", (0, 0)),
        "copied": [
            (begin, _spoiled(linked, begin, end))
            for begin, end in (linked.places[each] for each in copied if each in linked.places)
        ],
        "dump": [(wanted[0], *arena_part(regions, *wanted[1:])) for wanted in dump],
        "limit_instructions": limit_instructions,
    }
    answer = _unicorn(request, limit_s) if core.emulator == "unicorn" else qemu.run(request, limit_s)
    if "stopped" in answer:
        raise Fault(_stopped(firmware, linked, regions, answer))
    status = (answer["status"] + (1 << 31)) % (1 << 32) - (1 << 31)  # of a register, an int32
    check_end(firmware.model, status, regions, images, answer["images"])
    below = STACK_BYTES - answer["stack"]
    if answer["stack_image"][:below] != stack[:below]:
        raise Fault(f"{firmware.model} wrote below its stack pointer, where an interrupt may overwrite it")
    functions: dict[str, int] = {}
    blocks: dict[StepPart, list[BasicBlock]] = {}
    for part, ran in answer["blocks"].items():
        for address, count, instructions, executions, taken in ran.tolist():
            name, at = _function(linked, address)[0], address - linked.flash[0]
            functions[name] = functions.get(name, 0) + instructions * executions
            blocks.setdefault(part, []).append(BasicBlock(linked.flash[1][at : at + count], instructions, executions, taken))
    steps = answer.get("steps") or {step: 0 for step, _ in blocks}
    for (step, _), ran in blocks.items():
        steps[step] += sum(block.instructions * block.executions for block in ran)
    return Inference(
        outputs=answer["outputs"][-1],
        fill=fill,
        regions=regions,
        images=answer["images"],
        dumps=in_order(dump, answer["dumps"]),
        earlier=answer["outputs"][:-1],
        reads=[tuple(read) for read in answer["reads"]],
        instructions=answer["instructions"],
        init_instructions=answer["init_instructions"],
        per_step=[steps.get(step, 0) for step in range(max(steps, default=-1) + 1)],
        functions=functions,
        blocks=blocks,
        misses=answer["misses"],
        stack=answer["stack"],
        seconds=answer["seconds"],
    )


def _spoiled(linked: _Elf, begin: int, end: int) -> bytes:
    """Return wrong values for all bytes at addresses [begin, end) of Flash; small numbers become large ones."""
    start, image = linked.flash
    return bytes(byte ^ 0x5A for byte in image[begin - start : end - start])


def _unicorn(request: Mapping[str, Any], limit_s: float) -> Any:
    with worker(isolated(FOLDER / "unicorn_process.py")).session(limit_s) as child:
        child.send(encode(request))
        try:
            return decode(child.receive)
        except ValueError as error:
            raise Fault(f"the emulator's answer cannot be read: {error}") from error


def missing(core: str) -> tuple[str, str] | None:
    """Return (reason, remedy) if a program is missing to emulate the core on this machine, or None if nothing is missing."""
    for package in ("unicorn", "capstone") if CORES[core].emulator == "unicorn" else ():
        if importlib.util.find_spec(package) is None:
            return f"the emulated core needs {package}, which is not installed", install("verify")
    if CORES[core].emulator == "qemu" and toolchain.which(qemu.PROGRAM) is None:
        return f"an emulated {core} needs {qemu.PROGRAM}, which is not installed", "install QEMU (version 7 or later)"
    return None


def nearest(*cores: str) -> str:
    """Return the first known core that can be emulated here, or the last known; cores of Unicorn count even without it."""
    known = [core for core in cores if core in CORES]
    return next((core for core in known if CORES[core].emulator == "unicorn" or missing(core) is None), known[-1])


def cycles(core: str, run: Inference, waits: FlashWaits | None = None) -> dict[StepPart, Cycles]:
    """Return (step, layer) -> estimated cycles; {} without timings, disassembler or counted blocks (QEMU without plugins).

    The layer "" is the code of a step outside the layers that were counted separately. `waits` are the cycles for each cache
    line that is fetched from Flash; None means zero wait states.
    """
    if core not in TIMINGS or missing(DISASSEMBLES):
        return {}
    by_part, timed = {}, _timed(core, {block.code for ran in run.blocks.values() for block in ran})
    for part, ran in run.blocks.items():
        total = Cycles(0, 0, 0)
        for block in ran:
            total = total.plus(*block_cycles(timed[block.code], block.executions, block.taken))
        by_part[part] = total if waits is None else waits.added(total, run.misses[part])
    return by_part


def by_step(parts: Mapping[StepPart, Cycles]) -> list[Cycles]:
    """Add up the cycles of a traced run by plan step, the list's index; parts outside any step (-1) are left out."""
    steps = [Cycles(0, 0, 0)] * (max((step for step, _ in parts), default=-1) + 1)
    for (step, _), part in parts.items():
        if step >= 0:
            steps[step] = steps[step].plus(*part)
    return steps


_timings: dict[tuple[str, bytes], BlockCosts] = {}  # by core and code


def _timed(core: str, blocks: Collection[bytes]) -> dict[bytes, BlockCosts]:
    """Return machine code of each of `blocks` -> its `block_costs`, cached; only Unicorn's process imports capstone."""
    if new := [code for code in blocks if (core, code) not in _timings]:
        for code, lines in zip(new, _unicorn({"disassemble": new, "isa": CORES[core].isa}, LIMIT_S), strict=True):
            fields = [line.split("\t") for line in lines.split("\n")]
            named = [
                Instruction(name, operands, frozenset(read.split()), frozenset(written.split()), int(size))
                for name, operands, read, written, size in fields
            ]
            _timings[core, code] = block_costs(core, named)
    return {code: _timings[core, code] for code in blocks}


def _function(linked: _Elf, address: int) -> tuple[str, int]:
    index = bisect.bisect_right(linked.functions, (address, "\uffff")) - 1
    start, name = linked.functions[index] if index >= 0 else (0, "?")
    return name, address - start


def _stopped(firmware: Firmware, linked: _Elf, regions: list[Region], answer: Mapping[str, Any]) -> str:
    """Return one line that says what a stopped program did, at which address, and in which function."""
    stop = answer["stopped"]
    after = f" after step {answer['step']}" if answer["step"] >= 0 else ""
    text = f"{firmware.model}_{stop['function']}{after}: {stop['what']}"
    if stop["address"] is not None:
        text += f" {_where(linked, regions, ADDRESSES[CORES[firmware.core].emulator], stop['address'])}"
    if stop["pc"] is not None:
        name, offset = _function(linked, stop["pc"])
        text += f", in {name} + {offset}" if linked.code[0] <= stop["pc"] < linked.code[1] else ""
        text += f" (pc 0x{stop['pc']:08x})"
    return text


def _where(linked: _Elf, regions: list[Region], addresses: tuple[int, int, int], address: int) -> str:
    """Return an address with the memory, stack or Flash that it is in or near; `addresses` is an entry of ADDRESSES."""
    memory_start, memory_step, stack_start = addresses
    index, offset = divmod(address - memory_start + memory_step // 2, memory_step)
    if 0 <= index < len(regions):
        return f"0x{address:08x}, {place(regions[index], offset - memory_step // 2)}"
    if 0 < stack_start - address <= STACK_BYTES:
        return f"0x{address:08x}, {stack_start - address} bytes beyond the end of the stack ({STACK_BYTES} bytes)"
    if linked.flash[0] <= address < linked.flash[0] + len(linked.flash[1]):
        return f"0x{address:08x}, in Flash"
    return f"0x{address:08x}"
