"""Write linker scripts: one per memory for arenas, and a complete one per board that QEMU emulates."""

from __future__ import annotations

from ..codegen.header import has_memory_header, placed_section
from ..devices import AddressRange, Device, find
from ..ir import CompileError
from .package import Files, Package, filled

STACK = 0x4000  # bytes, of a firmware for QEMU
# boards that QEMU plays -> the memory that its vectors lie in
BOARDS = {"mps2-an386": "ssram1", "mps2-an500": "ssram1", "mps3-an547": "itcm"}
SECURE = 0x1000_0000  # of mps3-an547: after a reset the core is in the secure state, and sees the memories here
ALIGN = 32  # bytes, of each placed arena
GUARDED = "Linking fails if anything else of your program lies there."


def is_qemu_board(device: Device | None) -> bool:
    """Return whether QEMU emulates a board: a listed one, not a TOML file of the same name."""
    return device is not None and device.name in BOARDS and device == find(device.name)


def place_file(memory: str) -> str:
    """Return the name of the linker script that places arenas in a memory."""
    return f"place_{memory}.ld"


def place_macro(memory: str) -> str:
    """Return the macro with which the C puts arenas into the section that this script places."""
    return f"TW_PLACE_{memory.upper()}"


def place_files(package: Package) -> Files:
    """Return a linker script for each memory that arenas can be placed in; none for boards that have a whole script."""
    if is_qemu_board(package.device):
        return {}
    return {place_file(memory): _place_script(package, memory, region) for memory, region in package.regions.items()}


def _place_script(package: Package, memory: str, region: AddressRange) -> str:
    """Return the script that places all arenas of one memory at its end, where linker scripts of vendors put nothing."""
    held = [model for model in package.models if has_memory_header(model.plan) and memory in model.plan.arena]
    sizes = [-(-model.plan.arena[memory] // ALIGN) * ALIGN for model in held]
    end = region.address + region.bytes
    first = max(region.address, (end - sum(sizes)) // ALIGN * ALIGN)  # if they do not fit, the linker says so
    fence = min(ALIGN, first)
    arenas = [f"        *({placed_section(memory)}.{model.name})" for model in held]
    return filled(
        "place.ld",
        package=package.name,
        target=package.target,
        file=place_file(memory),
        macro=place_macro(memory),
        memory=memory,
        MEMORY=memory.upper(),
        first=f"0x{first:08x}",
        start=f"0x{region.address:08x}",
        end=f"0x{end:08x}",
        fence=fence,
        bytes=end - first,
        arenas="\n".join(arenas),
    )


def firmware_script(package: Package) -> str:
    """Return the linker script of a complete firmware for a board that QEMU emulates."""
    device = package.device
    if device is None or not is_qemu_board(device):
        raise CompileError("a firmware is for a board that QEMU plays", f"give --device {', '.join(BOARDS)}")
    base = SECURE if device.core == "cortex-m55" else 0
    rows = [f"    {m.name} : ORIGIN = 0x{base + m.address:08x}, LENGTH = {m.bytes}" for m in device.memories]
    flash = next(memory.name for memory in device.memories if memory.kind == "flash")
    ram = max((memory for memory in device.memories if memory.kind == "sram"), key=lambda memory: memory.bytes).name
    homes = {memory.name for memory in device.memories if memory.kind != "flash"}
    arenas = [
        f"    {placed_section(name)} (NOLOAD) : ALIGN(8) {{ *({placed_section(name)}.*) }} > {name if name in homes else ram}\n"
        for name in package.placed
    ]
    return filled(
        "firmware/link.ld",
        board=device.name,
        regions="\n".join(rows),
        vectors=BOARDS[device.name],
        flash=flash,
        ram=ram,
        arenas="".join(arenas),
        stack=STACK,
    )
