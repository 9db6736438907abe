"""Decoder of the instructions that Armv8.1-M adds: vectors (MVE) and low-overhead loops. Capstone 5 does not know them.

In: an instruction of four bytes. Out: the part of the core that executes it, its latency, and its registers, for the timing of
a Cortex-M55. Parts and latencies are those of LLVM's scheduling model, llvm/lib/Target/ARM/ARMScheduleM55.td; bit patterns
those of the Armv8-M Architecture Reference Manual (DDI 0553). disassembly.py loads this file by its path.
"""

from __future__ import annotations

# Bit patterns: (mask, value, part of the core, latency, operands). The first row that matches counts. Letters of the operands:
# d: writes Qd; x, n, m: reads Qd, Qn, Qm; N: writes Qn;
# s, t, u: reads the register in bits 0-3, 12-15, 16-19; S, T, U: writes it;
# i: reads and writes the register in bits 17-19, whose number is even;
# a: writes the sum in bits 13-15 and, if it has 64 bits, 20-22, and reads it if the instruction adds to it (bit 5).
ROWS = (
    (0xFFBF1FFF, 0xFE310F4D, "vcontrol", 1, ""),  # VPST, VPNOT
    (0xFFEF0FFF, 0xEEED0A10, "vcontrol", 1, ""),  # VMSR, VMRS of P0
    (0xFFB00F50, 0xEEA00B10, "valu", 1, "tN"),  # VDUP
    (0xFFF01FE0, 0xEC000F00, "vmultiply", 1, "xSU"),  # VMOV of two lanes to registers
    (0xFFF01FE0, 0xEC100F00, "valu", 1, "xdsu"),  # VMOV of two registers to lanes
    (0xFFB11F51, 0xFE310F01, "valu", 1, "dnm"),  # VPSEL
    (0xEFB10F50, 0xEE310F40, "vmultiply", 1, "ns"),  # VCMP, VPT of floats
    (0xEFB10F50, 0xEE310F00, "vmultiply", 1, "nm"),
    (0xFF810F50, 0xFE010F40, "vmultiply", 1, "ns"),  # VCMP, VPT
    (0xFF810F10, 0xFE010F00, "vmultiply", 1, "nm"),
    (0xFF810F70, 0xEE010F60, "valu", 1, "di"),  # VIDUP, VDDUP, VIWDUP, VDWDUP
    (0xEFB10F70, 0xEE300F60, "vmultiply", 2, "dns"),  # VQDMULL with a scalar
    (0xEFB00F50, 0xEE300F40, "vmultiply", 2, "dns"),  # VADD, VSUB of floats with a scalar
    (0xEF800F50, 0xEE000F40, "valu", 1, "dns"),  # VADD, VSUB, VHADD, VHSUB, VQADD, VQSUB with a scalar
    (0xEFB10F51, 0xEE300F01, "vmultiply", 2, "dnm"),  # VQDMULL
    (0xEFB10F51, 0xEE300F00, "valu", 2, "dnm"),  # VADC, VSBC
    (0xEF810F51, 0xEE000F00, "valu", 1, "dnm"),  # VCADD, VHCADD
    (0xFFB30FD1, 0xEE330E81, "valu", 1, "xdm"),  # VMAXA, VMINA
    (0xEFB10F51, 0xEE310E01, "valu", 3, "xdm"),  # VMOVN, VQMOVN, VQMOVUN
    (0xEF810F50, 0xEE010E00, "vmultiply", 2, "dnm"),  # VMULH, VRMULH, VMULL
    (0xEFB10F50, 0xEE300E00, "vmultiply", 2, "dnm"),  # VCMUL
    (0xEF810F50, 0xEE000E00, "vmultiply", 2, "xdnm"),  # VQDMLADH and the like
    (0xEFB31FF0, 0xEE311E60, "valu", 1, "xds"),  # VSHL by a scalar
    (0xEFB11F70, 0xEE311E60, "valu", 2, "xds"),  # VRSHL, VQSHL, VQRSHL by a scalar
    (0xFF811F70, 0xFE011E60, "valu", 1, "dns"),  # VBRSR
    (0xEF810F70, 0xEE010E60, "vmultiply", 2, "dns"),  # VMUL, VQDMULH, VQRDMULH by a scalar
    (0xEF800F50, 0xEE000E40, "vmultiply", 2, "xdns"),  # VMLA, VMLAS, VFMA, VFMAS, VQDMLAH and the like, by a scalar
    (0xEFC10F51, 0xEE800F01, "valu", 3, "tTnm"),  # VABAV
    (0xEFF10F51, 0xEEE00F00, "valu", 3, "tTm"),  # VMAXV, VMINV, VMAXAV, VMINAV
    (0xEFF31FD1, 0xEEF10F00, "vmultiply", 2, "am"),  # VADDV
    (0xEF8F1FD1, 0xEE890F00, "vmultiply", 2, "am"),  # VADDLV
    (0xEF800E50, 0xEE800E00, "vmultiply", 2, "anm"),  # VMLADAV, VMLALDAV and the like
    (0xEFA00FD1, 0xEEA00F40, "valu", 1, "dm"),  # VMOVL, VSHLL
    (0xEFA00F50, 0xEE800F40, "valu", 3, "xdm"),  # VSHRN, VRSHRN, VQSHRN
    (0xFE000F00, 0xFC000800, "vmultiply", 2, "xdnm"),  # VCMLA, VCADD of floats
    (0xEF800F50, 0xEF000440, "valu", 1, "dnm"),  # VSHL by a vector
    (0xEF800F10, 0xEF000400, "valu", 1, "dnm"),
    (0xEF800E00, 0xEF000400, "valu", 2, "dnm"),  # VRSHL, VQSHL, VQRSHL by a vector
    (0xFF800F10, 0xEF000D00, "vmultiply", 1, "dnm"),  # VADD, VSUB of floats
    (0xFF800F10, 0xEF000C10, "vmultiply", 2, "xdnm"),  # VFMA, VFMS
    (0xEF800C00, 0xEF000C00, "vmultiply", 2, "dnm"),  # other operations on floats
    (0xEF800F10, 0xEF000910, "vmultiply", 2, "dnm"),  # VMUL
    (0xEF800F00, 0xEF000B00, "vmultiply", 2, "dnm"),  # VQDMULH, VQRDMULH
    (0xEF800000, 0xEF000000, "valu", 1, "dnm"),  # other operations on two vectors
    (0xFFB30E10, 0xFFB30600, "vmultiply", 2, "dm"),  # VCVT, VRINT
    (0xEFB80190, 0xEF800110, "valu", 1, "xd"),  # VORR, VBIC with a constant
    (0xEFB800B0, 0xEF800030, "valu", 1, "d"),  # VMVN with a constant
    (0xEFB800B0, 0xEF800010, "vmultiply", 2, "d"),  # VMOV of a constant
    (0xEF800E10, 0xEF800210, "valu", 2, "dm"),  # VRSHR
    (0xEF800E10, 0xEF800610, "valu", 2, "dm"),  # VQSHL by a constant
    (0xEF800C10, 0xEF800C10, "vmultiply", 2, "dm"),  # VCVT of fixed point
    (0xFF800E10, 0xFF800410, "valu", 1, "xdm"),  # VSLI, VSRI
    (0xEF800000, 0xEF800000, "valu", 1, "dm"),  # other operations on a vector, or on a vector and a constant
    (0xEC000000, 0xEC000000, "valu", 2, "xdnm"),  # unknown
)
AMONG_FLOATS = (0xEEED0A10, 0xEEA00B10)  # of ROWS: the only rows among the patterns of scalar floats
TWO_LANES = (0xEC000F00, 0xEC100F00)  # of ROWS: the only rows among the patterns of loads and stores
CORE = (*(f"r{number}" for number in range(13)), "sp", "lr", "pc")  # as capstone names them
LOOPS = (  # mask, value, name
    (0xFFCFF001, 0xF00FC001, "le"),  # LE, LETP; LE without a counter has bit 21
    (0xFF80F001, 0xF000C001, "wls"),  # WLS, WLSTP
    (0xFF80FFFF, 0xF000E001, "dls"),  # DLS, DLSTP, LCTP
    (0xFFC0FFFF, 0xF000E801, "vctp"),
)
SELECTS = (0xFFF0C000, 0xEA508000)  # mask, value of CSEL, CSINC, CSINV, CSNEG


def decode(word: int) -> tuple[str, str, str, str] | None:
    """Return an Armv8.1-M instruction as (name, operands, registers read, registers written), else None.

    `word` has the first halfword in the upper bits. `name` is le, wls, dls, vctp, csel, or for a vector instruction its part of
    the core; `operands` is then its latency in cycles.
    """
    for mask, value, name in LOOPS:
        if word & mask == value:
            register = CORE[word >> 16 & 15]
            counter = "" if register == "pc" else register
            return (name, "", "lr", "lr") if name == "le" else (name, "", counter, "" if name == "vctp" else "lr")
    if word & SELECTS[0] == SELECTS[1]:
        return "csel", "", f"{CORE[word >> 16 & 15]} {CORE[word & 15]}", CORE[word >> 8 & 15]
    if word & 0xEC000000 != 0xEC000000:
        return None
    found = next(row for row in ROWS if word & row[0] == row[1])
    if word & 0x03000000 != 0x03000000 and 0x900 <= word & 0xF00 <= 0xB00 and found[1] not in AMONG_FLOATS:
        return None
    if word & 0x02000E00 == 0x00000E00 and found[1] not in TWO_LANES:
        return _access(word)
    return found[2], str(found[3]), *_registers(word, found[4])


def _access(word: int) -> tuple[str, str, str, str]:
    stores, first, before, back = not word >> 20 & 1, word >> 13 & 7, word >> 24 & 1, word >> 21 & 1
    base = CORE[word >> 16 & (15 if word & 0x1000 else 7)]
    vectors, addresses = [f"q{first}"], base
    several = word & 0xFF001000 == 0xFC001000 and not before  # VLD2, VLD4, VST2, VST4
    if several:
        vectors = [f"q{first + number}" for number in range(4 if word & 1 else 2)]
    elif word & 0xFF001000 == 0xFD001000:  # addresses are the lanes of a vector
        addresses = f"q{word >> 17 & 7}"
    elif not before and not back:  # offsets are the lanes of a vector
        addresses = f"{CORE[word >> 16 & 15]} q{word >> 1 & 7}"
    read = [addresses, *(vectors if stores or several else [])]
    written = [*([] if stores else vectors), *([addresses] if back or not (before or several or " " in addresses) else [])]
    gathers = "q" in addresses
    return "vstore" if stores else "vgather" if gathers else "vload", "2" if gathers else "1", " ".join(read), " ".join(written)


def _registers(word: int, operands: str) -> tuple[str, str]:
    """Return the registers (read, written) of a vector instruction. `operands` is the last field of its row in ROWS."""
    vectors = {letter: f"q{word >> bit & 7}" for letter, bit in (("d", 13), ("n", 17), ("m", 1))}
    core = {letter: CORE[word >> bit & 15] for letter, bit in (("s", 0), ("t", 12), ("u", 16))}
    low, high = CORE[(word >> 13 & 7) * 2], word >> 20 & 7
    named = vectors | core | {letter.upper(): register for letter, register in (vectors | core).items()}
    named |= {"x": named["d"], "i": CORE[(word >> 17 & 7) * 2], "a": low if high == 7 else f"{low} {CORE[high * 2 + 1]}"}
    read = [named[letter] for letter in operands if letter in "xnmstui" or (letter == "a" and word & 0x20)]
    return " ".join(read), " ".join(named[letter] for letter in operands if letter in "dNSTUia")
