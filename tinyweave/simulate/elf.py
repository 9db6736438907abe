"""Reads an ELF file that a compiler for a core made (32-bit, little-endian): its sections and symbols, and nothing more.

In: the file's bytes. Out: sections with their contents, and symbols with their section's addresses.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct("<32xI10x3H")  # where the sections' table is; bytes of an entry, how many, which one holds the names
SECTION, SYMBOL = struct.Struct("<10I"), struct.Struct("<3I2BH")
SYMBOLS, NO_BITS = 2, 8  # kinds of sections
ALLOCATED = 2  # a flag of sections
OBJECT, FUNCTION = 1, 2  # kinds of symbols


class Section(NamedTuple):
    """data: as it is loaded, zeros where the file holds none."""

    name: str
    kind: int
    flags: int
    address: int
    data: bytes
    link: int


class Symbol(NamedTuple):
    """kind: OBJECT, FUNCTION or another."""

    name: str
    kind: int
    value: int
    size: int


def read(file: bytes) -> tuple[list[Section], list[Symbol]]:
    """Return the sections and the symbols of a file."""
    table, step, count, names = HEADER.unpack_from(file)
    heads = [SECTION.unpack_from(file, table + index * step) for index in range(count)]
    sections = []
    for name, kind, flags, address, offset, size, link, *_ in heads:
        data = bytes(size) if kind == NO_BITS else file[offset : offset + size]
        sections.append(Section(_text(file, heads[names][4] + name), kind, flags, address, data, link))
    symbols = []
    for table in sections:
        for name, value, size, info, _, _ in SYMBOL.iter_unpack(table.data) if table.kind == SYMBOLS else ():
            symbols.append(Symbol(_text(sections[table.link].data, name), info & 15, value, size))
    return sections, symbols


def _text(data: bytes, start: int) -> str:
    """The string that starts there and ends at a zero."""
    return data[start : data.index(b"\0", start)].decode()
