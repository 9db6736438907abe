"""Write linker scripts: one per memory that arenas can be placed in, and a complete one for boards that QEMU emulates."""

from __future__ import annotations

from ..codegen.memory_header import has_memory_header, placed_section, placed_symbol
from ..devices import AddressRange, Device, find
from ..ir import CompileError
from .package import Files, Package, filled

STACK = 0x4000  # bytes of stack of a firmware for QEMU
# board that QEMU emulates -> the memory that holds its vector table
BOARDS = {"mps2-an386": "ssram1", "mps2-an500": "ssram1", "mps3-an547": "itcm"}
SECURE = 0x1000_0000  # offset of mps3-an547's memories: after a reset the core is in the secure state and sees them here
ALIGN = 32  # bytes: alignment of each placed arena
GUARDED = "Linking fails if anything else of your program lies there."


def is_qemu_board(device: Device | None) -> bool:
    """Return whether QEMU emulates this board; False for a device from a TOML file that has the name of such a board."""
    return device is not None and device.name in BOARDS and device == find(device.name)


def place_file(memory: str) -> str:
    """Return the file name of the linker script that places arenas in a memory."""
    return f"place_{memory}.ld"


def place_macro(memory: str) -> str:
    """Return the name of the macro that moves the emitted arenas of a memory into the section that `place_file` places."""
    return f"TW_PLACE_{memory.upper()}"


def place_files(package: Package) -> Files:
    """Return file name -> linker script, one per memory that can hold arenas; {} for QEMU's boards, with a complete script."""
    if is_qemu_board(package.device):
        return {}
    return {place_file(memory): _place_script(package, memory, region) for memory, region in package.regions.items()}


def _place_script(package: Package, memory: str, region: AddressRange) -> str:
    """Return the linker script that places arenas at the end of a memory, which vendors' scripts leave free."""
    held = [model for model in package.models if has_memory_header(model.plan) and memory in model.plan.arena]
    sizes = [-(-model.plan.arena[memory] // ALIGN) * ALIGN for model in held]
    end = region.address + region.bytes
    first = max(region.address, (end - sum(sizes)) // ALIGN * ALIGN)  # if they do not fit, linking fails
    fence = min(ALIGN, first)
    arenas = [f"        *({placed_section(memory)}.{model.name})" for model in held]
    return filled(
        "place.ld",
        package=package.name,
        target=package.target,
        file=place_file(memory),
        macro=place_macro(memory),
        symbol=placed_symbol(memory),
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
    """Return the linker script of complete firmware; raise CompileError if QEMU does not emulate the package's device."""
    device = package.device
    if device is None or not is_qemu_board(device):
        raise CompileError("a firmware is for a board that QEMU emulates", f"give --device {', '.join(BOARDS)}")
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
