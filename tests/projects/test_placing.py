"""Placement of arenas by vendors' linker scripts: arenas overlap nothing, or linking fails."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from projects.export import STUBS, VENDORS, cmake, export, model, needs, place_of_arena, project_of_stm32cube, run

import tinyweave as tw
from tinyweave.simulate.cores import CORES

Build = Callable[..., Path]
FASTEST = {"stm32f746": "dtcm", "stm32f407": "ccm", "stm32h743": "dtcm", "imxrt1062": "dtcm"}
COVERED = "from its data to the end of its stack, covers the arenas in the dtcm: take the dtcm out of that RAM"
OVERLAPS = r"section \.tw_\w+ VMA .* overlaps section|overlaps section \.tw_\w+ VMA"
SPLIT = ("RAM (xrw) : ORIGIN = 0x20000000, LENGTH = 320K", "RAM (xrw) : ORIGIN = 0x20010000, LENGTH = 256K")
MEMORY = '[[memory]]\nname = "{}"\nkind = "{}"\naddress = {}\nbytes = {}\n'


def script(device: str, *edits: tuple[str, str]) -> str:
    """Return a vendor's linker script with edits."""
    text = (VENDORS / f"{device}.ld").read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return a function that exports for a device, compiles once per variant, and returns the folder of the objects."""
    made: dict[tuple[str, bool], Path] = {}

    def build(device: str, *, placed: bool) -> Path:
        needs("arm-none-eabi-gcc")
        if (device, placed) not in made:
            folder = export(tmp_path_factory.mktemp("export"), "cmake", device=device)
            chosen = tw.devices.find(device)
            memories = tw.plan(model("chain"), device).arena
            (folder / "main.c").write_text(
                '#include "chain_memory.h"\nint counter = 3;\nint zeros[16];\n'
                "int main(void) { return chain_invoke(&chain_memories, 0) + counter + zeros[0]; }\n"
            )
            flags = [*CORES[chosen.core].gcc, "-O1", "-Isrc", *(f"-DTW_PLACE_{m.upper()}" for m in memories if placed)]
            sources = ["main.c", *(f"src/{path.name}" for path in sorted((folder / "src").glob("*.c")))]
            (folder / "flags").write_text(" ".join(CORES[chosen.core].gcc))
            run("arm-none-eabi-gcc", *flags, "-c", *sources, cwd=folder)
            made[device, placed] = folder
        return made[device, placed]

    return build


def compile_example(folder: Path, name: str) -> None:
    """Compile an export and its example for a Cortex-M7 with arenas for the DTCM."""
    main = f"int {name}_example(void (*print)(const char *));\nstatic void none(const char *text) {{ (void)text; }}\n"
    (folder / "main.c").write_text(f"{main}int main(void) {{ return {name}_example(none); }}\n")
    flags = CORES["cortex-m7"].gcc
    (folder / "flags").write_text(" ".join(flags))
    sources = ["main.c", f"example/{name}_example.c", *sorted((folder / "src").glob("*.c"))]
    run("arm-none-eabi-gcc", *flags, "-O1", "-Isrc", "-Iexample", "-DTW_PLACE_DTCM", "-c", *sources, cwd=folder)


def link(folder: Path, text: str, program: Path, *, user: str = "", memory: str = "", lld: bool = False) -> str:
    """Link with a script and the script that places arenas in a memory; return the linker's output. `user`: C of a user."""
    program.with_suffix(".ld").write_text(text)
    program.with_suffix(".c").write_text(user or "typedef int nothing;\n")
    flags = (folder / "flags").read_text().split()
    own = program.with_suffix(".o")
    run("arm-none-eabi-gcc", *flags, "-O1", "-c", program.with_suffix(".c"), "-o", own)
    scripts = [f"-T{program.with_suffix('.ld')}", *([f"-T{folder / f'place_{memory}.ld'}"] if memory else [])]
    objects = [*sorted(folder.glob("*.o")), own]
    words = ["arm-none-eabi-gcc", *flags, "-nostartfiles", "-Wl,-e,main", *objects, *scripts, "-lc", "-lgcc"]
    if lld:
        pytest.importorskip("ziglang", reason="needs ziglang: pip install '.[verify]'")
        libraries = [run("arm-none-eabi-gcc", *flags, f"-print-file-name={name}").strip() for name in ("libc.a", "libgcc.a")]
        words = [sys.executable, "-m", "ziglang", "ld.lld", "-e", "main", *objects, *scripts, *libraries]
    done = subprocess.run([*words, "-o", program], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == program.exists(), done.stderr
    return done.stdout + done.stderr


def buffer(section: str, size: int) -> str:
    """Return the C of a buffer in a section."""
    name = f'__attribute__((section("{section}"), used))'
    return f"unsigned char user_buffer[{size}] {name};\n"


@pytest.mark.parametrize("device", FASTEST)
def test_unplaced_arenas_are_in_the_bss_of_the_vendors_script(device: str, compiled: Build, tmp_path: Path) -> None:
    """The RAM of an F746 starts with the DTCM, where an arena at a fixed address would overlap the program's variables."""
    said = link(compiled(device, placed=False), script(device), tmp_path / "a.elf")
    assert said == "" and place_of_arena(tmp_path / "a.elf") == ".bss"


@pytest.mark.parametrize("lld", [False, True], ids=["GNU ld", "lld"])
def test_a_placed_arena_is_not_linked_without_its_linker_script(compiled: Build, tmp_path: Path, lld: bool) -> None:
    """Otherwise the arena would be in any RAM, and its zeros in the Flash."""
    folder, text = compiled("stm32f407", placed=True), script("stm32f407")
    memories = re.findall(r"^MEMORY\n{.*?^}", text, re.MULTILINE | re.DOTALL)[0]
    text = memories + text.replace(memories, "")  # lld reads memories before it uses them
    said = link(folder, text, tmp_path / "a.elf", lld=lld)
    assert "tw_pass_place_ccm_ld_to_the_linker" in said and not (tmp_path / "a.elf").exists()
    assert "tw_pass_place" not in link(folder, text, tmp_path / "b.elf", memory="ccm", lld=lld)
    assert (tmp_path / "b.elf").exists()


IN_DTCM = ("RAM_D1)", "DTCMRAM)"), (">RAM_D1", ">DTCMRAM")
STACK_BELOW = ("_estack = ORIGIN(DTCMRAM) + LENGTH(DTCMRAM);", "_estack = 0x10000;")  # in the ITCM
TO_OCRAM = ("m_data (RW) : ORIGIN = 0x20000000, LENGTH = 0x00020000", "m_data (RW) : ORIGIN = 0x20200000, LENGTH = 0x00020000")
TO_OCRAM_TOO = (
    "m_data2 (RW) : ORIGIN = 0x20200000, LENGTH = 0x000C0000",
    "m_data2 (RW) : ORIGIN = 0x20220000, LENGTH = 0x000A0000",
)
STACK_STAYS = (
    ("__StackTop = ORIGIN(m_data) + LENGTH(m_data);", "__StackTop = 0x20020000;"),
    ("ASSERT(__Stack", "ASSERT(1 || __Stack"),
)
IN_CCM = ("_estack = ORIGIN(RAM) + LENGTH(RAM);", "_estack = ORIGIN(CCMRAM) + LENGTH(CCMRAM);")
TCM = (
    ("MEMORY\n{", "MEMORY\n{\n  TCM (rw) : ORIGIN = 0x20000000, LENGTH = 64K"),
    ("  .text", "  .tcm (NOLOAD) : { *(.tcm) } >TCM\n  .text"),
)
HEAP = ("SECTIONS\n{", "_heap_start = 0x20008000;\nSECTIONS\n{")


@pytest.mark.parametrize(
    ("device", "edits", "user", "wanted"),
    [
        ("stm32f746", (), "", COVERED),
        ("stm32f746", (SPLIT,), "", ".tw_dtcm"),
        ("stm32f746", (SPLIT, *TCM), buffer(".tcm", 1000), ".tw_dtcm"),
        ("stm32f746", (SPLIT, *TCM), buffer(".tcm", 65536), OVERLAPS),
        ("stm32f746", (SPLIT, HEAP), "", "the heap of your linker script covers the arenas in the dtcm"),
        ("stm32f746", TCM, buffer(".tcm", 1000), COVERED),
        ("stm32f407", (), "", ".tw_ccm"),
        ("stm32f407", (), buffer(".ccmram", 1000), ".tw_ccm"),
        ("stm32f407", (), buffer(".ccmram", 65536), OVERLAPS),
        ("stm32f407", (IN_CCM,), "", "the stack of your linker script lies in the ccm: move the stack"),
        ("stm32h743", (), "", ".tw_dtcm"),
        ("stm32h743", IN_DTCM, "", COVERED),
        ("stm32h743", (*IN_DTCM, STACK_BELOW), "", COVERED),
        ("imxrt1062", (), "", COVERED),
        ("imxrt1062", (TO_OCRAM, TO_OCRAM_TOO), "", ".tw_dtcm"),
        ("imxrt1062", (TO_OCRAM, TO_OCRAM_TOO, *STACK_STAYS), "", "the stack of your linker script lies in the dtcm"),
    ],
)
def test_placed_arenas_overlap_nothing_or_linking_fails(
    device: str, edits: tuple[tuple[str, str], ...], user: str, wanted: str, *, compiled: Build, tmp_path: Path
) -> None:
    """The script is the vendor's or one edited by a user. Both linkers agree, and print nothing if the program links."""
    text = script(device, *edits)
    memories = text[text.index("MEMORY\n") : text.index("SECTIONS\n")]
    folder, memory = compiled(device, placed=True), FASTEST[device]
    for lld, written in ((False, text), (True, memories + text.replace(memories, ""))):
        program = tmp_path / f"{lld}.elf"
        said = link(folder, written, program, user=user, memory=memory, lld=lld)
        if wanted.startswith("."):
            assert said == "" and place_of_arena(program) == wanted
        else:
            assert re.search("overlap" if lld and wanted == OVERLAPS else wanted, said) and not program.exists(), said


@pytest.mark.parametrize("beside", [32, 64, 4096])
def test_an_arena_that_fills_its_memory_overlaps_no_other_section_there(beside: int, tmp_path: Path, compiled: Build) -> None:
    """GNU ld does not detect an overlap of two sections with the same address, such as an arena and a buffer here."""
    arena = -(-tw.plan(model("chain"), "stm32f407").arena["ccm"] // 32) * 32
    board = tmp_path / "board.toml"
    memories = MEMORY.format("ccm", "dtcm", 0x10000000, arena) + MEMORY.format("sram", "sram", 0x20000000, 131072)
    board.write_text('name = "small"\ncore = "cortex-m4"\nclock_hz = 1000000\n' + memories)
    folder = export(tmp_path / "a", "cmake", device=str(board))
    compiled_for_f407 = compiled("stm32f407", placed=True)
    for path in (*compiled_for_f407.glob("*.o"), compiled_for_f407 / "flags"):
        shutil.copy(path, folder)
    said = link(folder, script("stm32f407"), tmp_path / "free.elf", memory="ccm")
    assert said == "" and place_of_arena(tmp_path / "free.elf") == ".tw_ccm"
    said = link(folder, script("stm32f407"), tmp_path / "a.elf", user=buffer(".ccmram", beside), memory="ccm")
    assert re.search(OVERLAPS, said) and not (tmp_path / "a.elf").exists()


def test_the_place_script_before_the_users_or_without_a_stack_symbol_is_refused(tmp_path: Path, compiled: Build) -> None:
    folder = compiled("stm32h743", placed=True)
    said = link(folder, script("stm32h743").replace("_estack", "_top"), tmp_path / "a.elf", memory="dtcm")
    assert "goes after your own linker script, which must define _sdata, the start of its data, and _estack" in said
    both = (folder / "place_dtcm.ld").read_text() + script("stm32h743")
    assert "goes after your own linker script" in link(folder, both, tmp_path / "b.elf")


def test_arenas_of_several_models_share_a_memory(tmp_path: Path) -> None:
    """They are placed one after the other. If they do not fit, linking fails."""
    needs("arm-none-eabi-gcc")
    networks = ["chain", "residual"]
    sizes = [tw.plan(model(name), "stm32h743").arena["dtcm"] for name in networks]
    for name, spare in (("enough", 0), ("too_few", -32)):
        board = tmp_path / f"{name}.toml"
        dtcm = MEMORY.format("dtcm", "dtcm", 0x20000000, sum(-(-size // 32) * 32 for size in sizes) + spare)
        facts = 'name = "small"\ncore = "cortex-m7"\nclock_hz = 1000000\n'
        board.write_text(facts + dtcm + MEMORY.format("axi", "sram", 0x24000000, 65536))
        folder = tmp_path / name
        tw.export([model(network) for network in networks], str(board), out=folder, format="cmake", package="both")
        if spare:
            for path in (*(tmp_path / "enough").glob("*.o"), tmp_path / "enough" / "flags"):
                shutil.copy(path, folder)
        else:
            compile_example(folder, "both")
        said = link(folder, script("stm32h743"), tmp_path / f"{name}.elf", memory="dtcm")
        if spare:
            assert "TW_DTCM' overflowed by" in said and not (tmp_path / f"{name}.elf").exists()
        else:
            assert said == "" and place_of_arena(tmp_path / "enough.elf") == ".tw_dtcm"


def test_the_steps_of_the_readme_place_an_arena_in_an_stm32cube_project(tmp_path: Path) -> None:
    """The steps are run literally with the script of an H743, without warnings."""
    folder = project_of_stm32cube(tmp_path, "stm32h743")
    readme = (folder / "README.md").read_text()
    (place,) = re.findall(r"`make (TW_PLACE=\w+)`", readme)
    assert run("make", "-s", "-j2", place, cwd=folder) == ""
    assert place_of_arena(folder / "build" / "stub.elf") == ".tw_dtcm"
    define, file = re.findall(r"define `(\w+)`, and add `-T\$\{workspace_loc:/\$\{ProjName\}/(\S+)\}`", readme)[0]
    assert define == "TW_PLACE_DTCM" and (folder / file).is_file()


def test_the_steps_of_the_readme_place_an_arena_in_a_cmake_project(tmp_path: Path) -> None:
    needs("arm-none-eabi-gcc")
    folder = export(tmp_path / "user" / "chain", "cmake", device="stm32f407")
    readme = (folder / "README.md").read_text()
    subdirectory, target = re.findall(r"`(add_subdirectory\(\w+\))`.*link `(\S+)`", readme)[0]
    (option,) = re.findall(r"`(-DTW_PLACE=\w+)`", readme)
    (toolchain,) = re.findall(r"-DCMAKE_TOOLCHAIN_FILE=(\S+)", readme)
    (tmp_path / "user" / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.16)\nproject(user C)\n{subdirectory}\nadd_executable(user.elf main.c)\n"
        f"target_link_libraries(user.elf PRIVATE {target})\n"
        f"target_link_options(user.elf PRIVATE -nostartfiles -T{VENDORS / 'stm32f407.ld'})\n"
    )
    main = '#include "chain_memory.h"\nint main(void) { return chain_init(&chain_memories); }\n'
    (tmp_path / "user" / "main.c").write_text(main)
    words = [tmp_path / "user", tmp_path / "b", f"-DCMAKE_TOOLCHAIN_FILE={folder / toolchain}"]
    assert "warning" not in cmake(*words, option).lower()
    assert place_of_arena(tmp_path / "b" / "user.elf") == ".tw_ccm"
    with pytest.raises(AssertionError, match="no arena is for the memory 'itcm', but for ccm"):
        cmake(*words, "-DTW_PLACE=itcm")


def test_the_documented_lines_place_an_array_in_a_users_section(tmp_path: Path, compiled: Build) -> None:
    """The lines are copied from docs/RAM.md. No warning is printed."""
    page = (STUBS.parents[2] / "docs" / "RAM.md").read_text()
    define = '#define KWS_DTCM_SECTION __attribute__((section(".dtcm")))'
    line = "    .dtcm (NOLOAD) : { *(.dtcm) } > DTCMRAM\n"
    assert page.count(define) == page.count(line) == 1
    folder = tmp_path / "a"
    shutil.copytree(compiled("stm32h743", placed=False), folder)
    main = folder / "main.c"
    main.write_text(f"{define.replace('KWS', 'CHAIN')}\n{main.read_text()}")
    run("arm-none-eabi-gcc", *(folder / "flags").read_text().split(), "-O1", "-Isrc", "-c", "main.c", cwd=folder)
    said = link(folder, script("stm32h743", ("  .ARM.attributes", f"{line}  .ARM.attributes")), tmp_path / "a.elf")
    assert said == "" and place_of_arena(tmp_path / "a.elf") == ".dtcm"


def test_the_documented_split_of_the_ram_of_an_f746() -> None:
    page, first = (STUBS.parents[2] / "docs" / "EXPORT.md").read_text(), script("stm32f746")
    assert [f"MEMORY\n{{\n  {line}\n" in page for line in SPLIT] == [True, True] and SPLIT[0] in first


def test_with_two_memories_each_arena_can_be_placed_by_its_own_script(tmp_path: Path) -> None:
    """Arenas that are not placed are in .bss."""
    needs("arm-none-eabi-gcc")
    board = tmp_path / "board.toml"
    memories = MEMORY.format("dtcm", "dtcm", 0x20000000, 64) + MEMORY.format("axi", "sram", 0x24000000, 64)
    board.write_text(f'name = "small"\ncore = "cortex-m7"\nclock_hz = 1000000\n{memories}')
    assert tw.plan(model("chain"), str(board)).arena == {"dtcm": 64, "axi": 64}
    folder = export(tmp_path / "a", "cmake", device=str(board))
    assert sorted(path.name for path in folder.glob("*.ld")) == ["place_axi.ld", "place_dtcm.ld"]
    assert "`-DTW_PLACE=dtcm` or `-DTW_PLACE=axi`" in (folder / "README.md").read_text()
    compile_example(folder, "chain")
    said = link(folder, script("stm32h743"), tmp_path / "a.elf", memory="dtcm")
    assert said == "" and place_of_arena(tmp_path / "a.elf") == ".bss .tw_dtcm"
