"""Devices as data: one TOML file per chip family in `parts`, no code per board. In: a name, or the path of a TOML file.

Out: a Device. Every file names its sources. Unknown values are None, never 0.
"""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ..ir import CompileError
from ..support.files import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "parts"
FORM = "'tinyweave docs devices' has every key, and a complete file"
KEYS = ("name", "core", "clock_hz", "memory", "sources", "aliases", "note", "cache", "run_ma", "volts", "isa", "nearest")
BUS_KEYS = ("bus_bits", "bus_hz", "overhead", "latency")
FLASH_KEYS = ("wait_states", "bus_cycles", "external", *BUS_KEYS, "overhead_next", "prefetch")
MEMORY_KEYS = ("name", "kind", "bytes", "address", *FLASH_KEYS)
CACHE_KEYS = ("kind", "bytes", "line", "ways")
# generous limits, so that no absurd value is computed with, printed or written into C
MAX_FILE = 1 << 16  # bytes
MAX_TABLES = 100  # memories, caches, aliases, sources
MAX_TEXT = 1000  # characters of a note or source
MAX_SHOWN = 60  # characters of a wrong value in a message
MOST_MEANT = 6  # families that a message suggests
MAX_NUMBER = {
    "bytes": 1 << 32,
    "address": 1 << 32,
    "wait_states": 1000,
    "bus_cycles": 16,
    "bus_bits": 16,
    "bus_hz": 10**9,
    "overhead": 1000,
    "overhead_next": 1000,
    "latency": 1000,
    "line": 1 << 16,
    "ways": 1 << 10,
    "clock_hz": 10**11,
    "run_ma": 10**6,
    "volts": 1000,
}
KINDS = ("sram", "dtcm", "itcm", "flash", "psram")
CACHES = ("code", "data", "unified")
CORE_ALONE = "a core without a board: no limits but those of --ram and --flash, and no clock, so cycles but no milliseconds"
DATA = ("dtcm", "sram")  # kinds of internal RAM for data, the faster first
# core -> its instruction set, and the emulated core that stands for it if it cannot be emulated
CORES = {
    "cortex-m0": ("armv6-m", ""),
    "cortex-m0plus": ("armv6-m", ""),
    "cortex-m3": ("armv7-m", ""),
    "cortex-m4": ("armv7e-m", ""),
    "cortex-m7": ("armv7e-m", ""),
    "cortex-m33": ("armv8-m.main", ""),
    "cortex-m55": ("armv8.1-m.main+mve", "cortex-m33"),
    "cortex-m85": ("armv8.1-m.main+mve", "cortex-m55"),
    "rv32imc": ("rv32imc", ""),
    "rv32imac": ("rv32imac", "rv32imc"),
    "sifive-e31": ("rv32imac", ""),
    "rv32imc-esp": ("rv32imc", ""),
    "rv32ec": ("rv32ec", "rv32imc"),
    "xtensa-lx6": ("xtensa", "cortex-m4"),
    "xtensa-lx7": ("xtensa", "cortex-m4"),
}


Spread = tuple[float, float, float]  # values for the fewest, the likely and the most cycles


class Bus(NamedTuple):
    """The bus to a Flash that is a separate chip."""

    bits: Spread  # data lines
    hz: Spread
    overhead: Spread  # clocks of the bus before the first byte of a read: command, address, mode and dummy bits
    overhead_next: Spread  # the same if the read directly follows the read before
    latency: Spread  # core cycles of a read besides the clocks of the bus
    prefetch: bool  # whether the Flash is read ahead while the core computes

    def cycles(self, line: int, clock_hz: float, *, follows: bool) -> tuple[int, int, int]:
        """Return the fewest, likely and most core cycles to read `line` bytes, which directly follow the last ones or not."""
        overheads = self.overhead_next if follows else self.overhead
        parts = zip(self.bits, self.hz, overheads, self.latency, strict=True)
        fewest, likely, most = (
            round((clocks + 8 * line / bits) * clock_hz / hz + latency) for bits, hz, clocks, latency in parts
        )
        return fewest, likely, most


@dataclass(frozen=True)
class Memory:
    """One bank of memory of a chip: its kind (one of KINDS), size, address and wait states."""

    name: str
    # `sram` or `dtcm` (data; dtcm is tightly coupled to the core), `itcm` (instructions only), `flash` (code and constants), or
    # `psram` (external RAM)
    kind: str
    bytes: int
    address: int
    wait_states: int | None = None  # core cycles that a read waits at `clock_hz`; None if unknown
    external: bool = False  # this Flash is a separate chip, of the size that is usual on the boards
    bus: Bus | None = None  # of an external Flash; None if unknown
    bus_cycles: int = 1  # core cycles per clock of the bus of a Flash on the chip


class AddressRange(NamedTuple):
    """Address and size in bytes of a memory as plans use it: one bank, or several adjacent banks."""

    address: int
    bytes: int


@dataclass(frozen=True)
class Cache:
    """A cache of the Flash, by kind: for `code`, for `data` (constants), or `unified`. `line` is the bytes per line."""

    kind: str
    bytes: int
    line: int
    ways: int


@dataclass(frozen=True)
class Device:
    """A chip family with its core, memories and clock; or a core alone, without memories and clock."""

    name: str
    core: str
    isa: str
    clock_hz: int | None
    memories: tuple[Memory, ...]
    sources: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    nearest: str = ""  # emulated core that stands for a core that cannot be emulated
    note: str = ""
    caches: tuple[Cache, ...] = ()
    run_ma: float | None = None  # current while the chip computes at `clock_hz`, in mA
    volts: float | None = None  # supply voltage of `run_ma`

    def energy_mj(self, latency_ms: float | None) -> float | None:
        """Return the energy in mJ that the chip consumes in `latency_ms`; None if its current or the time is unknown."""
        if latency_ms is None or self.run_ma is None or self.volts is None:
            return None
        return latency_ms * self.run_ma * self.volts / 1e3

    @property
    def flash_waits(self) -> int | None:
        """Return the wait states of a Flash read, the most of all Flash banks; None if unknown."""
        return max((m.wait_states for m in self.memories if m.kind == "flash" and m.wait_states is not None), default=None)

    @property
    def bus(self) -> Bus | None:
        """Return the bus to a Flash beside the chip; None if the chip has its own, or if bus or caches are unknown."""
        is_timed = self.cache("code") and self.cache("data") and all(m.external for m in self.memories if m.kind == "flash")
        return next((m.bus for m in self.memories if m.bus), None) if is_timed else None

    def cache(self, what: str) -> Cache | None:
        """Return the cache for `code` or for `data`, which may be one for both; None if it is unknown."""
        by_kind = {cache.kind: cache for cache in self.caches}
        return by_kind.get(what, by_kind.get("unified"))

    @property
    def ram(self) -> int | None:
        """Return the bytes of the largest run of adjacent RAM banks, for arena, data and stack; None for a core alone."""
        return max((sum(m.bytes for m in run) for run in _runs(self.memories, DATA)), default=None)

    @property
    def memory_maps(self) -> tuple[dict[str, int], ...]:
        """Return alternative memory maps (name -> bytes, fastest memory first), in the order in which the planner tries them.

        The first joins adjacent banks of the same kind, the second also tightly coupled with other RAM, the third adds external
        RAM (psram) to the first. Empty or equal maps are left out.
        """
        return tuple({name: region.bytes for name, region in regions.items()} for regions in self.region_maps)

    @property
    def region_maps(self) -> tuple[dict[str, AddressRange], ...]:
        """Return the same maps as `memory_maps`, with the address range of each memory instead of its bytes."""
        apart = [run for kind in DATA for run in _runs(self.memories, (kind,))]
        joined, outside = _runs(self.memories, DATA), _runs(self.memories, ("psram",))
        maps = [_named(apart), _named(joined), *([_named(apart + outside)] if outside else [])]
        sizes = [{name: region.bytes for name, region in regions.items()} for regions in maps]
        return tuple(m for i, m in enumerate(maps) if m and sizes[i] not in sizes[:i])

    @property
    def flash(self) -> int | None:
        """Return the bytes of Flash for code and constants, internal and external together; None if unknown."""
        return sum(m.bytes for m in self.memories if m.kind == "flash") or None

    @property
    def has_external_flash(self) -> bool:
        """Return whether the usual board of this chip has its Flash as a separate chip."""
        return any(memory.external for memory in self.memories)


def _runs(memories: Sequence[Memory], kinds: Sequence[str]) -> list[list[Memory]]:
    """Return the banks of these kinds, sorted by address and grouped into runs of adjacent banks."""
    runs: list[list[Memory]] = []
    for memory in sorted((m for m in memories if m.kind in kinds), key=lambda m: m.address):
        if runs and runs[-1][-1].address + runs[-1][-1].bytes == memory.address:
            runs[-1].append(memory)
        else:
            runs.append([memory])
    return runs


def _named(runs: Sequence[Sequence[Memory]]) -> dict[str, AddressRange]:
    """Return name -> address range of each run of adjacent banks, in lower case: `sram` for a single run.

    Others have the bank's name, or the name that several banks share without the number, else the first one's.
    """
    regions: dict[str, AddressRange] = {}
    for run in runs:
        stems = {memory.name.rstrip("0123456789") for memory in run}
        name = stems.pop() if len(run) > 1 and len(stems) == 1 else run[0].name
        name = "sram" if len(runs) == 1 else name.lower()
        while name in regions:
            name += "_2"
        regions[name] = AddressRange(run[0].address, sum(memory.bytes for memory in run))
    return regions


@cache
def all_devices() -> tuple[Device, ...]:
    """Return all devices of the package, sorted by name."""
    return tuple(sorted(map(read, FOLDER.glob("*.toml")), key=lambda device: device.name))


def find(name_or_path: str) -> Device:
    """Return the device of a family, part, board or core in any case, or of a TOML file (a path has a slash or ends ".toml").

    Raise CompileError, with similar names, if there is no such device.
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path or "\\" in name_or_path:
        return read(Path(name_or_path))
    query = re.sub(r"[\s_]+", "-", name_or_path.strip().lower())
    by_name = {name: device for device in all_devices() for name in (device.name, *device.aliases)}
    if query in by_name:
        return by_name[query]
    if query in CORES:
        isa, nearest = CORES[query]
        return Device(query, query, isa, None, (), (), nearest=nearest, note=CORE_ALONE)
    families = [device.name for device in all_devices()]
    close = [name for name in families if query and name.startswith(query)][:MOST_MEANT]
    close = close or difflib.get_close_matches(query, [*by_name, *CORES], n=3)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    hint = (
        "'tinyweave devices' lists the known ones; the name of a core, such as cortex-m4, or a TOML file of your own works too"
    )
    raise CompileError(f"unknown device '{name_or_path}'", f"{meant}{hint}")


def parse_size(text: str | int) -> int:
    """Return the bytes of a size such as `65536`, `64k` (KiB) or `1m` (MiB); raise CompileError for other text and for 0."""
    text = str(text)
    match = re.fullmatch(r"(\d{1,12})\s*([kKmM]?)(?:[iI]?[bB])?", text.strip(), re.ASCII)
    if not match or int(match[1]) == 0:
        raise CompileError(f"'{text[:MAX_SHOWN]}' is not a size", "write bytes (65536), KiB (64k) or MiB (1m)")
    return int(match[1]) * {"": 1, "k": 1024, "m": 1024 * 1024}[match[2].lower()]


def read(path: Path) -> Device:
    """Read a device from a TOML file; at the first fault, raise CompileError with the names of the file and of the key."""
    raw = read_file(path, MAX_FILE, "give a family name or a readable TOML file")
    try:
        record = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise CompileError(f"{path}: not TOML: {error}", FORM) from error
    _reject_unknown(path, record, KEYS, "")
    memories = tuple(_memory(path, bank, f"memory[{index}].") for index, bank in enumerate(_tables(path, record, "memory")))
    caches = tuple(_cache(path, cache, f"cache[{index}].") for index, cache in enumerate(_tables(path, record, "cache")))
    _check_together(path, memories, caches)
    if ("run_ma" in record) != ("volts" in record):
        raise _mistake(path, "run_ma", "must be given together with volts")
    core = _name(path, record, "core")
    isa, nearest = _of_core(path, record, core)
    device = Device(
        name=_name(path, record, "name"),
        core=core,
        isa=isa,
        clock_hz=_number(path, record, "clock_hz", "", int),
        memories=memories,
        sources=_strings(path, record, "sources"),
        aliases=tuple(_checked_name(path, "aliases", alias) for alias in _strings(path, record, "aliases")),
        nearest=nearest,
        note=_text(path, "note", _get(path, record, "note", str, "")) if "note" in record else "",
        caches=caches,
        run_ma=_number(path, record, "run_ma", "") if "run_ma" in record else None,
        volts=_number(path, record, "volts", "") if "volts" in record else None,
    )
    if not device.ram:
        raise _mistake(path, "memory", "no bank of kind 'sram' or 'dtcm'")
    return device


def _memory(path: Path, bank: Any, where: str) -> Memory:
    kind, size = _kind_and_bytes(path, bank, where, KINDS, MEMORY_KEYS)
    name = _get(path, bank, "name", str, where)
    if not re.fullmatch(r"[A-Za-z]\w{0,30}", name, re.ASCII):
        said = "is not a valid name: give a letter, then up to 30 letters, digits or _ (it becomes a C identifier)"
        raise _mistake(path, f"{where}name", said)
    address = _number(path, bank, "address", where, int, lower_bound=0)
    if address + size > MAX_NUMBER["address"]:
        raise _mistake(path, where.rstrip("."), "ends beyond 4 GiB")
    external = bank.get("external", False)
    if not isinstance(external, bool) or (external and kind != "flash"):
        raise _mistake(path, f"{where}external", "must be true or false, and may be true for kind 'flash' only")
    waits = _number(path, bank, "wait_states", where, int, lower_bound=0) if "wait_states" in bank else None
    per_clock = _number(path, bank, "bus_cycles", where, int) if "bus_cycles" in bank else 1
    bus = _bus(path, bank, where) if any(key in bank for key in (*BUS_KEYS, "overhead_next", "prefetch")) else None
    if bus and (not external or waits is not None):
        raise _mistake(path, f"{where}bus_bits", "needs external = true, and no wait_states")
    return Memory(name, kind, size, address, waits, external, bus, per_clock)


def _bus(path: Path, bank: dict[str, Any], where: str) -> Bus:
    bits, hz = (_spread(path, bank, key, where, rising=False) for key in ("bus_bits", "bus_hz"))
    overhead, latency = (_spread(path, bank, key, where) for key in ("overhead", "latency"))
    following = _spread(path, bank, "overhead_next", where) if "overhead_next" in bank else overhead
    prefetch = bank.get("prefetch", False)
    if not isinstance(prefetch, bool):
        raise _mistake(path, f"{where}prefetch", "must be true or false")
    return Bus(bits, hz, overhead, following, latency, prefetch)


def _spread(path: Path, bank: dict[str, Any], key: str, where: str, *, rising: bool = True) -> Spread:
    """Return a number three times, or a list of three, from the fastest to the slowest: ascending if `rising`."""
    values = bank.get(key)
    values = values if isinstance(values, list) else [values] * 3 if key in bank else [_get(path, bank, key, int, where)]
    if len(values) != len(("fewest", "likely", "most")):
        raise _mistake(path, f"{where}{key}", "must be a number, or a list of three: fastest, likely, slowest")
    low, mid, high = (_number(path, {key: value}, key, where, lower_bound=0 if rising else 1) for value in values)
    if not (low <= mid <= high if rising else low >= mid >= high):
        raise _mistake(path, f"{where}{key}", f"must go from the fastest to the slowest, {'up' if rising else 'down'}wards")
    return low, mid, high


def _cache(path: Path, cache: Any, where: str) -> Cache:
    kind, size = _kind_and_bytes(path, cache, where, CACHES, CACHE_KEYS)
    line, ways = (_number(path, cache, key, where, int) for key in ("line", "ways"))
    if line & (line - 1) or size % (line * ways):
        raise _mistake(path, where.rstrip("."), "lines must be a power of two, and bytes a multiple of line times ways")
    return Cache(kind, size, line, ways)


def _kind_and_bytes(path: Path, table: Any, where: str, kinds: Sequence[str], keys: Sequence[str]) -> tuple[str, int]:
    """Return the kind and the size in bytes of a memory or a cache; raise CompileError for keys that are not in `keys`.

    `where` is the table's place in the file, such as "memory[0].".
    """
    if not isinstance(table, dict):
        raise _mistake(path, where.rstrip("."), f"must be a table, [[{where.partition('[')[0]}]]")
    _reject_unknown(path, table, keys, where)
    kind = _get(path, table, "kind", str, where)
    if kind not in kinds:
        raise _mistake(path, f"{where}kind", f"is {_shown(kind)}, not one of {', '.join(kinds)}")
    value = _get(path, table, "bytes", (int, str), where)
    if isinstance(value, int):
        value = _bounded(path, f"{where}bytes", value)
    try:
        size = parse_size(value)
    except CompileError as error:
        raise _mistake(path, f"{where}bytes", error.why) from error
    return kind, _bounded(path, f"{where}bytes", size)


def _check_together(path: Path, memories: Sequence[Memory], caches: Sequence[Cache]) -> None:
    """Raise CompileError if memories share a name or overlap, or if two caches are not of kind "code" and "data"."""
    names = Counter(memory.name.lower() for memory in memories)
    for name, count in names.items():
        if count > 1:
            raise _mistake(path, "memory", f"{count} of them have the name '{name}' (case does not matter)")
    for low, high in pairwise(sorted(memories, key=lambda memory: memory.address)):
        if low.address + low.bytes > high.address:
            raise _mistake(path, "memory", f"'{low.name}' and '{high.name}' overlap")
    kinds = sorted(cache.kind for cache in caches)
    if len(set(kinds)) < len(kinds) or ("unified" in kinds and len(kinds) > 1):
        raise _mistake(path, "cache", "give one of kind 'code' and one of kind 'data', or one of kind 'unified'")


def _of_core(path: Path, record: dict[str, Any], core: str) -> tuple[str, str]:
    """Return (instruction set, core emulated in its place, or "") of a core in a device file.

    Raise CompileError if needed keys `isa` and `nearest` are missing, contradict CORES, or `nearest` is not in CORES.
    """
    given = {key: _name(path, record, key) for key in ("isa", "nearest") if key in record}
    known = dict(zip(("isa", "nearest"), CORES[core], strict=True)) if core in CORES else given
    if len(known) < 2:
        said = f"'{core}' needs the keys isa, and nearest (the core that is emulated for it), unlike {', '.join(CORES)}"
        raise _mistake(path, "core", said)
    if "nearest" in given and given["nearest"] not in CORES:
        raise _mistake(path, "nearest", f"is '{given['nearest']}', not one of {', '.join(CORES)}")
    for key, value in given.items():
        if value != known[key]:
            raise _mistake(path, key, f"is '{value}', but a {core} has '{known[key]}': leave the key out")
    return known["isa"], known["nearest"]


def _get(path: Path, record: dict[str, Any], key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return the value of a key; raise CompileError if it is missing, of another type than `kind`, or blank."""
    if key not in record:
        raise _mistake(path, f"{where}{key}", "is missing")
    value = record[key]
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, str) and not value.strip()):
        names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise _mistake(path, f"{where}{key}", f"is {_shown(value)}, not {names}")
    return value


def _tables(path: Path, record: dict[str, Any], key: str) -> list[Any]:
    tables = _get(path, record, key, list, "") if key in record or key == "memory" else []
    if len(tables) > MAX_TABLES:
        raise _mistake(path, key, f"has {len(tables)} tables; at most {MAX_TABLES} are supported")
    return list(tables)


def _number(
    path: Path,
    record: dict[str, Any],
    key: str,
    where: str,
    kind: type | tuple[type, ...] = (int, float),
    *,
    lower_bound: int = 1,
) -> Any:
    """Return the number at a key; raise CompileError if it is below `lower_bound` (1: above 0) or above MAX_NUMBER."""
    value = _get(path, record, key, kind, where)
    if value < 0 or (lower_bound == 1 and not 0 < value < math.inf):
        raise _mistake(path, f"{where}{key}", f"is {_shown(value)}, not {'positive' if lower_bound else 'at least 0'}")
    return _bounded(path, f"{where}{key}", value)


def _bounded(path: Path, where: str, value: Any) -> Any:
    """Return `value`; raise CompileError if it is negative or exceeds MAX_NUMBER of its key, the last word of `where`."""
    limit = MAX_NUMBER[where.rpartition(".")[2]]
    if not 0 <= value <= limit:
        raise _mistake(path, where, f"is {_shown(value)}; at most {limit:,} is supported")
    return value


def _name(path: Path, record: dict[str, Any], key: str) -> str:
    return _checked_name(path, key, _get(path, record, key, str, ""))


def _checked_name(path: Path, key: str, name: str) -> str:
    """Return a name in lower case, safe as an option's value, in print and in C comments; raise CompileError if it is not."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", name):
        raise _mistake(path, key, f"is {_shown(name)}, not a name of at most 64 letters, digits and . _ + -")
    return name.lower()


def _text(path: Path, key: str, text: str) -> str:
    if len(text) > MAX_TEXT or not text.isprintable():
        raise _mistake(path, key, f"must be one line of at most {MAX_TEXT} printable characters")
    return text


def _strings(path: Path, record: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return the list of strings at a key as a tuple, empty if the key is missing."""
    values = _get(path, record, key, list, "") if key in record else []
    if len(values) > MAX_TABLES or not all(isinstance(value, str) for value in values):
        raise _mistake(path, key, f"must be a list of strings, at most {MAX_TABLES}")
    return tuple(_text(path, key, value) for value in values)


def _reject_unknown(path: Path, record: dict[str, Any], known: Sequence[str], where: str) -> None:
    """Raise CompileError if the table has a key that is not in `known`."""
    for key in record:
        if key not in known:
            close = difflib.get_close_matches(key[:MAX_SHOWN], known, n=1)
            hint = f", did you mean '{close[0]}'?" if close else ""
            raise _mistake(path, f"{where}{key[:MAX_SHOWN]}", f"is not a key{hint}")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a number of more than 64 bits"
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[: MAX_SHOWN - 3]}..."


def _mistake(path: Path, key: str, what: str) -> CompileError:
    return CompileError(f"{path}: {key}: {what}", FORM)
