"""The cores that are emulated, as data: what it takes to build for each, and what the emulator calls it.

In: nothing. Out: CORES, by the name that devices/parts/*.toml use. `isa` chooses the compiler here and the registers, the
disassembler and the calling convention in unicorn_process.py. Cores without floats in hardware compute them in the compiler's
library. Unicorn has no Cortex-M0+, whose instructions are those of a Cortex-M0, only single precision on a Cortex-M7, and no
Cortex-M55, which QEMU plays; nor does it know of itself that a Cortex-M0 cannot access words at odd addresses. SiFive's E31 is
an RV32IMAC with a name of its own for its timings. zig leaves out the extensions that a core may lack (DSP of the Cortex-M33,
floats, MVE) unless its flags name them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Core:
    """isa: arm (Thumb) or riscv. gcc, zig: the compilers' flags. emulator: unicorn or qemu. cpu: its name (or board) there.

    aligned: an access must lie at a multiple of its size, as on cores that cannot do it otherwise or only by a trap.
    """

    isa: str
    gcc: tuple[str, ...]
    zig: tuple[str, ...]
    cpu: str
    emulator: str = "unicorn"
    aligned: bool = False


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
}
