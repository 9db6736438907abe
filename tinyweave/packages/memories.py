"""What a linker must do for a package: a fragment for memories of their own, a whole script for a board that QEMU plays."""

from __future__ import annotations

from ..devices import Device, find
from ..ir import CompileError
from .package import Files, Package, filled

STACK = 0x4000  # bytes, of a firmware for QEMU
# boards that QEMU plays -> the memory that its vectors lie in
BOARDS = {"mps2-an386": "ssram1", "mps2-an500": "ssram1", "mps3-an547": "itcm"}
SECURE = 0x1000_0000  # of mps3-an547: after a reset the core is in the secure state, and sees the memories here
FRAGMENT = "memories.ld"


def is_qemu_board(device: Device | None) -> bool:
    """Return whether QEMU plays a board: ours of that name, not one that somebody describes."""
    return device is not None and device.name in BOARDS and device == find(device.name)


def fragment_files(package: Package) -> Files:
    """Return the linker fragment that places the arenas; none where they are ordinary arrays."""
    if not package.placed:
        return {}
    origins = [
        f"    TW_{name.upper()} (rw) : ORIGIN = 0x{region.address:08x}, LENGTH = {region.bytes}"
        for name, region in package.regions.items()
    ]
    sections = [f"    .{name} (NOLOAD) : ALIGN(8) {{ *(.{name}) }} > TW_{name.upper()}" for name in package.placed]
    parts = {"regions": "\n".join(origins), "sections": "\n".join(sections)}
    return {FRAGMENT: filled("memories.ld", package=package.name, target=package.target, **parts)}


def firmware_script(package: Package) -> str:
    """Return the whole linker script of a board that QEMU plays."""
    device = package.device
    if device is None or not is_qemu_board(device):
        raise CompileError("a firmware is for a board that QEMU plays", f"give --device {', '.join(BOARDS)}")
    base = SECURE if device.core == "cortex-m55" else 0
    rows = [f"    {m.name} : ORIGIN = 0x{base + m.address:08x}, LENGTH = {m.bytes}" for m in device.memories]
    flash = next(memory.name for memory in device.memories if memory.kind == "flash")
    ram = max((memory for memory in device.memories if memory.kind == "sram"), key=lambda memory: memory.bytes).name
    homes = {memory.name for memory in device.memories if memory.kind != "flash"}
    arenas = [
        f"    .{name} (NOLOAD) : ALIGN(8) {{ *(.{name}) }} > {name if name in homes else ram}\n" for name in package.placed
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
