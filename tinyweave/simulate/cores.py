"""The emulated cores as a table, CORES: each core's compiler flags, its emulator, and its name in the emulator.

Its keys are the core names of devices/parts/*.toml. Without a floating-point unit the compiler's library computes floats.

Limits of the emulators: Unicorn runs a Cortex-M0+ as a Cortex-M0 of the same instructions, whose unaligned words a hook
rejects, and a Cortex-M7 with single precision only. QEMU emulates the Cortex-M55. RISC-V: SiFive's E31 (RV32IMAC), and
`rv32imc-esp`, the core of the ESP32-C3. zig leaves out optional extensions unless the flags name them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Core:
    """An emulated core: the flags to compile for it, and the emulator that runs it."""

    isa: str  # "arm" (Thumb) or "riscv"
    gcc: tuple[str, ...]  # flags of gcc
    zig: tuple[str, ...]  # flags of zig
    cpu: str  # Unicorn's name of the core, or QEMU's name of the board
    emulator: str = "unicorn"  # "unicorn" or "qemu"
    aligned: bool = False  # whether unaligned accesses are faults: the core cannot do them, or only by a trap


def _cortex_m(name: str, zig: str, cpu: str, fpu: str = "", emulator: str = "unicorn") -> Core:
    floats = ("-mfloat-abi=hard", f"-mfpu={fpu}") if fpu else ("-mfloat-abi=soft",)
    target = "thumb-freestanding-eabihf" if fpu else "thumb-freestanding-eabi"
    return Core("arm", (f"-mcpu={name}", "-mthumb", *floats), ("-target", target, f"-mcpu={zig}"), cpu, emulator, "-m0" in name)


def _rv32(isa: str, zig: str) -> Core:
    flags = ("-target", "riscv32-freestanding-none", f"-mcpu={zig}", "-mabi=ilp32")
    return Core("riscv", (f"-march={isa}", "-mabi=ilp32"), flags, "UC_CPU_RISCV32_ANY", aligned=True)


CORES = {
    "cortex-m0": _cortex_m("cortex-m0", "cortex_m0", "UC_CPU_ARM_CORTEX_M0"),
    "cortex-m0plus": _cortex_m("cortex-m0plus", "cortex_m0plus", "UC_CPU_ARM_CORTEX_M0"),
    "cortex-m3": _cortex_m("cortex-m3", "cortex_m3", "UC_CPU_ARM_CORTEX_M3"),
    "cortex-m4": _cortex_m("cortex-m4", "cortex_m4+vfp4d16sp", "UC_CPU_ARM_CORTEX_M4", "fpv4-sp-d16"),
    "cortex-m7": _cortex_m("cortex-m7", "cortex_m7+fp_armv8d16sp", "UC_CPU_ARM_CORTEX_M7", "fpv5-sp-d16"),
    "cortex-m33": _cortex_m("cortex-m33", "cortex_m33+dsp+fp_armv8d16sp", "UC_CPU_ARM_CORTEX_M33", "fpv5-sp-d16"),
    "cortex-m55": _cortex_m("cortex-m55", "cortex_m55+mve+fp_armv8d16", "mps3-an547", "auto", "qemu"),
    "rv32imc": _rv32("rv32imc", "generic_rv32+m+c"),
    "sifive-e31": _rv32("rv32imac", "generic_rv32+m+a+c"),
    "rv32imc-esp": _rv32("rv32imc", "generic_rv32+m+c"),
}
