"""The shipped boards, their names and aliases, and one-line errors for a user's TOML."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tinyweave.api import device_limits, emulated_core
from tinyweave.devices import KINDS, all_devices, find, parse_size, read
from tinyweave.devices.device import CACHE_KEYS, FOLDER, KEYS, MEMORY_KEYS, Cache
from tinyweave.devices.device import CORES as CORES_ALONE
from tinyweave.ir import CompileError
from tinyweave.planning import Limits
from tinyweave.simulate.cores import CORES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KIB = 1024

# name: (core, MHz, RAM KiB, Flash KiB), copied by hand from the data sheets that the TOML files name
EXPECTED = {
    "stm32f412": ("cortex-m4", 100, 256, 1024),
    "stm32f746": ("cortex-m7", 216, 320, 1024),
    "stm32h743": ("cortex-m7", 480, 512, 2048),
    "stm32l4r5": ("cortex-m4", 120, 640, 2048),
    "nrf52840": ("cortex-m4", 64, 256, 1024),
    "rp2040": ("cortex-m0plus", 133, 264, 2048),
    "mps2-an386": ("cortex-m4", 25, 4096, 4096),
    "mps2-an500": ("cortex-m7", 25, 4096, 4096),
    "mps3-an547": ("cortex-m55", 32, 4096, 2048),
    "stm32f446": ("cortex-m4", 180, 128, 512),
    "stm32f767": ("cortex-m7", 216, 512, 2048),
    "stm32h7a3": ("cortex-m7", 280, 1024, 2048),
    "stm32u575": ("cortex-m33", 160, 768, 2048),
    "stm32n657": ("cortex-m55", 800, 3840, 65_536),
    "stm32g0b1": ("cortex-m0plus", 64, 144, 512),
    "nrf5340": ("cortex-m33", 128, 512, 1024),
    "rp2350": ("cortex-m33", 150, 520, 4096),
    "esp32": ("xtensa-lx6", 240, 320, 4096),
    "esp32-s3": ("xtensa-lx7", 240, 448, 8192),
    "esp32-c3": ("rv32imc-esp", 160, 384, 4096),
    "samd51j19": ("cortex-m4", 120, 192, 512),
    "imxrt1062": ("cortex-m7", 600, 768, 8192),
    "apollo3": ("cortex-m4", 96, 384, 1024),
    "fe310-g002": ("sifive-e31", 320, 16, 4096),
    "max78000": ("cortex-m4", 100, 128, 512),
    "m55m1": ("cortex-m55", 220, 1344, 2048),
    "ra8d1": ("cortex-m85", 480, 896, 2048),
    "ch32v003": ("rv32ec", 48, 2, 16),
    "stm32f103": ("cortex-m3", 72, 20, 64),
    "stm32f407": ("cortex-m4", 168, 128, 1024),
    "stm32l476": ("cortex-m4", 80, 96, 1024),
    "stm32wb55": ("cortex-m4", 64, 256, 1024),
    "stm32f765": ("cortex-m7", 216, 512, 1024),
    "nrf52832": ("cortex-m4", 64, 64, 512),
    "samd21g18": ("cortex-m0plus", 48, 32, 256),
    "esp32-c6": ("rv32imac", 160, 512, 4096),
    "lpc55s69": ("cortex-m33", 150, 272, 630),
}


def test_shipped_boards_have_the_cores_clocks_and_memories_of_the_data_sheets():
    found = {d.name: (d.core, d.clock_hz // 1_000_000, d.ram // KIB, d.flash // KIB) for d in all_devices()}
    assert found == EXPECTED
    beside = {"rp2040", "rp2350", "esp32", "esp32-s3", "esp32-c3", "esp32-c6", "fe310-g002", "imxrt1062", "stm32n657"}
    assert {d.name for d in all_devices() if d.has_external_flash} == beside, "chips without Flash of their own"


def test_isa_and_nearest_core_of_boards_equal_those_of_the_core_table():
    for device in all_devices():
        assert (device.isa, device.nearest) == CORES_ALONE[device.core], device.name


@pytest.mark.parametrize("core", sorted(CORES_ALONE))
def test_a_core_is_a_device_without_limits_and_clock(core: str):
    device = find(core.upper())
    assert (device.name, device.core, device.ram, device.flash, device.clock_hz) == (core, core, None, None, None)
    assert device_limits(device) == Limits(None, None)
    assert emulated_core(device) in CORES
    assert device not in all_devices()


def test_every_board_names_its_sources_and_names_are_unique():
    names = [name for device in all_devices() for name in (device.name, *device.aliases)]
    assert len(names) == len(set(names))
    for device in all_devices():
        assert device.sources, device.name
        assert all(memory.kind in KINDS for memory in device.memories)


def test_a_core_without_an_emulator_has_a_nearest_emulated_core():
    for device in all_devices():
        assert device.core in CORES or device.nearest in CORES, device.name
    assert {d.name for d in all_devices() if d.core not in CORES} >= {"esp32", "esp32-s3", "ch32v003", "ra8d1"}
    assert emulated_core(find("esp32")) == "cortex-m4"
    assert emulated_core(find("rp2040")) == "cortex-m0plus"
    assert emulated_core(find("esp32-c6")) == "rv32imc"
    assert emulated_core(find("esp32-c3")) == "rv32imc-esp", "whose timings other RV32IMC cores do not have"
    assert emulated_core(find("fe310-g002")) == "sifive-e31", "whose timings other RV32IMAC cores do not have"


# names of boards in papers -> the family
KNOWN_AS = {
    "nano-33-ble-sense": "nrf52840",
    "esp32s3-devkit": "esp32-s3",
    "esp32c3-devkit": "esp32-c3",
    "hifive1b": "fe310-g002",
    "nucleo-f767zi": "stm32f767",
    "stm32f746g-disco": "stm32f746",
    "nucleo-f412zg": "stm32f412",
    "STM32F765ZG": "stm32f765",
    "stm32f765zi": "stm32f767",
    "STM32F103C8": "stm32f103",
    "STM32F407VG": "stm32f407",
    "STM32L476RG": "stm32l476",
    "STM32WB55RG": "stm32wb55",
    "SAMD21G18": "samd21g18",
}


@pytest.mark.parametrize(("name", "family"), KNOWN_AS.items())
def test_names_used_in_papers_and_part_numbers_are_found(name: str, family: str):
    assert find(name).name == family


def test_boards_of_papers_have_their_energy():
    for name in ("stm32f412", "stm32f746", "stm32f765", "stm32f767", "stm32h743", "esp32-s3", "esp32-c3"):
        device = find(name)
        assert device.run_ma and device.volts and any("mA" in s or "uA" in s or "mJ" in s for s in device.sources), name
    board = find("nucleo-f767zi")
    # arXiv 1910.05110, table 1: MobileNet takes 728 mJ in 1,316 ms there
    assert round(board.energy_mj(1316)) == 728 and replace(board, run_ma=10.0, volts=3.0).energy_mj(1000.0) == 30.0
    unknown = board.energy_mj(None), replace(board, volts=None).energy_mj(1.0), replace(board, run_ma=None).energy_mj(1.0)
    assert unknown == (None, None, None)


@pytest.mark.parametrize("name", ["STM32F746", "stm32f746ng", "Nucleo_F746ZG", " stm32f746g-disco "])
def test_families_parts_and_boards_are_found_in_any_case(name: str):
    assert find(name).name == "stm32f746"


def test_the_error_for_an_unknown_name_suggests_similar_ones():
    with pytest.raises(CompileError, match="did you mean stm32f746"):
        find("stm32f74")
    with pytest.raises(CompileError, match="did you mean stm32f407 or stm32f412 or stm32f446"):
        find("stm32f4")
    with pytest.raises(CompileError, match=r"unknown device 'toaster'; 'tinyweave devices' lists the known ones; .*cortex-m4"):
        find("toaster")


@pytest.mark.parametrize(
    ("text", "size"), [("64k", 65_536), ("1m", 1_048_576), ("1M", 1_048_576), ("65536", 65_536), ("64KiB", 65_536), (12, 12)]
)
def test_sizes_with_units_are_parsed(text: str | int, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5k", "64g", "k", "64 k k", "٣k", "9" * 40])
def test_faulty_sizes_are_refused(text: str):
    with pytest.raises(CompileError, match="is not a size"):
        parse_size(text)


GOOD = """
name = "Mine"
core = "cortex-m4"
clock_hz = 48_000_000
sources = ["the schematic"]
[[memory]]
name = "a"
kind = "sram"
address = 0x2000_0000
bytes = "20k"
[[memory]]
name = "c"
kind = "sram"
address = 0x1000_0000
bytes = "24k"
[[memory]]
name = "b"
kind = "sram"
address = 0x2000_5000
bytes = 8192
[[memory]]
name = "d"
kind = "sram"
address = 0x2000_8000
bytes = "26k"
"""


CACHE = '[[cache]]\nkind = "unified"\nbytes = "1k"\nline = 16\n'


def test_wait_states_current_and_caches_are_read(tmp_path):
    path = tmp_path / "mine.toml"
    flash = '[[memory]]\nname = "f"\nkind = "flash"\naddress = 0\nbytes = "1m"\nwait_states = 4\nbus_cycles = 2\n'
    path.write_text(GOOD.replace("sources", "run_ma = 3\nvolts = 1.8\nsources") + flash + CACHE + "ways = 4\n")
    device = find(str(path))
    assert (device.flash_waits, device.run_ma, device.volts) == (4, 3, 1.8)
    assert [memory.bus_cycles for memory in device.memories] == [1] * (len(device.memories) - 1) + [2]
    assert device.caches == (Cache("unified", 1024, 16, 4),)


BESIDE = """[[memory]]
name = "f"
kind = "flash"
address = 0
bytes = "1m"
external = true
bus_bits = 4
bus_hz = [24_000_000, 12_000_000, 6_000_000]
overhead = [4, 20, 20]
latency = 3
"""


def test_a_line_from_flash_beside_the_chip_takes_the_clocks_of_its_bus(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + BESIDE + CACHE + "ways = 4\n")
    bus = find(str(path)).bus
    assert bus is not None and bus.overhead_next == bus.overhead == (4, 20, 20) and not bus.prefetch
    clocks, divisors = (4 + 32, 20 + 32, 20 + 32), (2, 4, 8)  # 16 bytes by four lines; a core of 48 MHz
    for follows in (False, True):
        assert bus.cycles(16, 48e6, follows=follows) == tuple(c * d + 3 for c, d in zip(clocks, divisors, strict=True))
    path.write_text(GOOD + BESIDE + "overhead_next = [0, 8, 20]\nprefetch = true\n" + CACHE + "ways = 4\n")
    bus = find(str(path)).bus
    assert bus is not None and bus.prefetch and bus.cycles(16, 48e6, follows=False)[1] == 52 * 4 + 3
    assert bus.cycles(16, 48e6, follows=True) == (32 * 2 + 3, 40 * 4 + 3, 52 * 8 + 3)


def test_flash_beside_the_chip_is_timed_if_the_caches_are_known_and_the_chip_has_no_flash(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + BESIDE)
    assert find(str(path)).bus is None, "no caches"
    path.write_text(GOOD + BESIDE + CACHE.replace("unified", "data") + "ways = 4\n")
    assert find(str(path)).bus is None, "no cache for code"
    own = '[[memory]]\nname = "g"\nkind = "flash"\naddress = 0x0100_0000\nbytes = "1m"\nwait_states = 4\n'
    path.write_text(GOOD + BESIDE + own + CACHE + "ways = 4\n")
    device = find(str(path))
    assert device.bus is None and device.flash_waits == 4
    timed = {device.name for device in all_devices() if device.bus}
    assert timed == {"rp2040", "rp2350", "esp32", "esp32-s3", "esp32-c3", "fe310-g002", "imxrt1062"}


def test_reads_of_shipped_boards_go_from_the_fastest_to_the_slowest_and_have_sources():
    for device in all_devices():
        if bus := device.bus:
            for line in (4, 8, 32):
                alone, following = (bus.cycles(line, device.clock_hz, follows=follows) for follows in (False, True))
                assert list(alone) == sorted(alone) and list(following) == sorted(following)
                assert all(a >= b for a, b in zip(alone, following, strict=True))
            assert len(device.sources) > 2, device.name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bus_bits = 4\n", "", r"memory\[4\].bus_bits: is missing"),
        ("latency = 3\n", "", r"memory\[4\].latency: is missing"),
        ("external = true\n", "", r"memory\[4\].bus_bits: needs external = true"),
        ("external = true\n", "external = true\nwait_states = 2\n", r"memory\[4\].bus_bits: needs .* and no wait_states"),
        ("bus_bits = 4", "bus_bits = 0", r"memory\[4\].bus_bits: is 0, not positive"),
        ("bus_bits = 4", "bus_bits = 64", r"memory\[4\].bus_bits: is 64; at most 16"),
        ("[4, 20, 20]", "[4, 20]", r"memory\[4\].overhead: must be a number, or a list of three"),
        ("[4, 20, 20]", "[4, 20, -1]", r"memory\[4\].overhead: is -1, not at least 0"),
        ("[4, 20, 20]", "[4, 20, 12]", r"memory\[4\].overhead: must go from the fastest to the slowest, upwards"),
        ("[24_000_000, 12", "[6_000_000, 12", r"memory\[4\].bus_hz: must go from the fastest .*, downwards"),
        ("latency = 3", 'latency = "3"', r"memory\[4\].latency: is '3', not int"),
        ("latency = 3", "latency = 3\nprefetch = 1", r"memory\[4\].prefetch: must be true or false"),
        ("latency = 3", "latency = 3\noverhead_next = [[]]", r"memory\[4\].overhead_next: must be a number"),
    ],
)
def test_errors_of_a_bus_name_the_key(old: str, new: str, message: str, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(GOOD + BESIDE.replace(old, new))
    with pytest.raises(CompileError, match=message):
        read(path)


def test_ram_is_the_largest_run_of_adjoining_banks(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    device = find(str(path))
    assert device.name == "mine"
    assert device.ram == 28 * KIB  # a and b adjoin; d, of 26 KiB, starts 4 KiB after b
    assert device.flash is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('core = "cortex-m4"', "", "core: is missing"),
        ("48_000_000", '"fast"', "clock_hz: is 'fast', not int"),
        ("48_000_000", "0", "clock_hz: is 0, not positive"),
        ("48_000_000", "true", "clock_hz: is True, not int"),
        ('kind = "sram"\naddress = 0x1000_0000', 'kind = "ram"\naddress = 0x1000_0000', r"memory\[1\].kind: is 'ram'"),
        ('"24k"', '"24q"', r"memory\[1\].bytes: '24q' is not a size"),
        ("bytes = 8192", "byts = 8192", r"memory\[2\].byts: is not a key, did you mean 'bytes'"),
        ("0x2000_5000", "0x2000_4000", "memory: 'a' and 'b' overlap"),
        ("0x1000_0000", "-4", r"memory\[1\].address: is -4, not at least 0"),
        # numbers that take gigabytes or that Python refuses to print
        ("48_000_000", "9" * 5000, "not TOML: .*digit"),
        ("48_000_000", "0x" + "F" * 60_000, "clock_hz: is a number of more than 64 bits; at most"),
        ("48_000_000", "-0x" + "F" * 60_000, "not TOML"),
        ("48_000_000", "1" + "0" * 15, "clock_hz: is 1000000000000000; at most"),
        ("8192", "0x" + "F" * 60_000, r"memory\[2\].bytes: is a number of more than 64 bits"),
        ("8192", "0", r"memory\[2\].bytes: '0' is not a size"),
        ("8192", "-5", r"memory\[2\].bytes: is -5"),
        ('"24k"', '"999999999999m"', r"memory\[1\].bytes: is 1048575999998951424; at most 4,294,967,296"),
        ("0x1000_0000", "0xFFFF_FFFF", r"memory\[1\]: ends beyond 4 GiB"),
        ("0x1000_0000", "0b" + "1" * 60_000, r"memory\[1\].address: is a number of more than 64 bits"),
        # names that are written to C, to the terminal and to files
        ('name = "a"', 'name = "\u00e4"', r"memory\[0\].name: is not a valid name"),
        ('name = "a"', 'name = "a b"', r"memory\[0\].name: is not a valid name"),
        ('name = "a"', 'name = "2a"', r"memory\[0\].name: is not a valid name"),
        ('name = "a"', f'name = "{"a" * 32}"', r"memory\[0\].name: is not a valid name"),
        ('name = "a"', 'name = "a\\u0000"', r"memory\[0\].name: is not a valid name"),
        ('name = "a"', 'name = "D"', "memory: 2 of them have the name 'd'"),
        ('"Mine"', r'"\u001b[31mred"', r"name: is '\\x1b\[31mred', not a name"),
        ('"Mine"', f'"{"x" * 65}"', "name: is 'xxx.*xxx\\.\\.\\., not a name"),
        ('"Mine"', r'"\u202emine"', r"name: is '\\u202emine', not a name"),
        ('["the schematic"]', r'["a\u0007b"]', "sources: must be one line of at most 1000 printable"),
        ('["the schematic"]', '["x"]\naliases = ["a/b"]', "aliases: is 'a/b', not a name"),
        ('["the schematic"]', '["x"]\nnote = "two\\nlines"', "note: must be one line"),
        ('["the schematic"]', str(["x"] * 101).replace("'", '"'), "sources: must be a list of strings, at most 100"),
        # deep or long values are not shown
        ("48_000_000", "{" + "a." * 2000 + "b = 1}", "clock_hz: is a table, not int"),
        ("48_000_000", "[" * 300 + "]" * 300, "clock_hz: is a list, not int"),
        ("clock_hz", "a" * 5000 + " = 1\nclock_hz", "a{60}: is not a key"),
        ('name = "a"', 'name = "a"\nname = "b"', "not TOML: .*overwrite"),
        # keys that default to values of the core
        ("clock_hz", 'isa = "armv6-m"\nclock_hz', "isa: is 'armv6-m', but a cortex-m4 has 'armv7e-m': leave the key out"),
        ("clock_hz", 'nearest = "cortex-m7"\nclock_hz', "nearest: is 'cortex-m7', but a cortex-m4 has ''"),
        ("cortex-m4", "cortex-m4f", "core: 'cortex-m4f' needs the keys isa, and nearest"),
        ('"cortex-m4"', '"cortex-m23"\nisa = "armv8-m.base"\nnearest = "z80"', "nearest: is 'z80', not one of cortex-m0"),
        ('["the schematic"]', "[1]", "sources: must be a list of strings"),
        ('name = "d"', 'external = 1\nname = "d"', r"memory\[3\].external: must be true or false"),
        ('name = "d"', 'external = true\nname = "d"', r"memory\[3\].external: .* for kind 'flash' only"),
        ("name =", "name", "not TOML"),
        ("sources", "run_ma = 3\nsources", "run_ma: must be given together with volts"),
        ("sources", "run_ma = -3\nvolts = 3\nsources", "run_ma: is -3, not positive"),
        ("sources", "volts = inf\nrun_ma = 3\nsources", "volts: is inf, not positive"),
        ("[[memory]]", '[[cache]]\nkind = "l2"\n[[memory]]', r"cache\[0\].kind: is 'l2', not one of code, data, unified"),
        ("[[memory]]", f"{CACHE}ways = 3\n[[memory]]", r"cache\[0\]: lines must be a power of two, and bytes a multiple"),
        ("[[memory]]", f"{CACHE}ways = 0\n[[memory]]", r"cache\[0\].ways: is 0, not positive"),
        (
            "[[memory]]",
            f"{CACHE}ways = 4\n{CACHE}ways = 4\n[[memory]]",
            "cache: give one of kind 'code' and one of kind 'data'",
        ),
    ],
)
def test_a_faulty_device_file_is_refused_with_file_and_key(tmp_path, old: str, new: str, message: str):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(CompileError, match=message) as caught:
        read(path)
    assert "mine.toml" in str(caught.value) and "\n" not in str(caught.value)


def test_the_instruction_set_defaults_to_that_of_the_core(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert find(str(path)).isa == "armv7e-m"
    path.write_text(GOOD.replace("clock_hz", 'isa = "ARMv7E-M"\nclock_hz'))
    assert find(str(path)).isa == "armv7e-m"
    path.write_text(GOOD.replace('"cortex-m4"', '"cortex-m23"\nisa = "armv8-m.base"\nnearest = "cortex-m0plus"'))
    device = find(str(path))
    assert (device.isa, emulated_core(device)) == ("armv8-m.base", "cortex-m0plus")
    assert not any("isa" in tomllib.loads(file.read_text()) for file in FOLDER.glob("*.toml"))


def test_the_page_on_devices_documents_every_key(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "DEVICES.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mychip.toml").write_text(example)
    device = read(tmp_path / "mychip.toml")
    assert device.ram == 320 * KIB and device.flash == 9 * KIB * KIB and len(device.caches) == 2
    record = tomllib.loads(example)
    follow = {"isa", "nearest"}
    assert set(KEYS) - follow == set(record), "the example has every key that does not follow from another"
    assert set(MEMORY_KEYS) == set().union(*record["memory"]) and set(CACHE_KEYS) == set().union(*record["cache"])
    tables = page.split("| key | type | meaning |")[1:]
    for keys, table in zip((KEYS, MEMORY_KEYS, CACHE_KEYS), tables, strict=True):
        first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
        assert sorted(re.findall(r"`(\w+)`", " ".join(first))) == sorted(keys)
    assert all(core in page for core in CORES_ALONE)


def test_unreadable_device_files_are_refused(tmp_path):
    with pytest.raises(CompileError, match="No such file"):
        find(str(tmp_path / "absent.toml"))
    with pytest.raises(CompileError, match="Is a directory"):
        find(str(tmp_path))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(CompileError, match="not TOML"):
        find(str(binary))
    deep = tmp_path / "deep.toml"
    deep.write_text("a = " + "[" * 60_000)
    with pytest.raises(CompileError, match="not TOML"):
        find(str(deep))
    flash_only = tmp_path / "flash.toml"
    flash_only.write_text(GOOD.replace('"sram"', '"flash"'))
    with pytest.raises(CompileError, match="no bank of kind 'sram'"):
        find(str(flash_only))
