"""Names of files, memories and tensors cannot inject C code."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from cases import maps
from cases.tiny import NETWORKS
from codegen.emitted import compile_strictly, source_of, write

from tinynas.arch import Arch, Group, blocks
from tinynas.network import to_graph
from tinyweave.codegen import c
from tinyweave.codegen.names import check_memories
from tinyweave.devices import all_devices
from tinyweave.ir import CompileError, Graph
from tinyweave.kernels.table import FILES
from tinyweave.planning import Plan, Request, check, plan
from tinyweave.support import toolchain
from tinyweave.support.c_names import identifier

MEMORY = "zzz"  # no name in the C contains it


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kws", "kws"),
        ("My-Model v2", "my_model_v2"),
        ("2fast", "m_2fast"),
        ("int", "m_int"),
        ("__a__", "a"),
        ("tw", "m_tw"),
        ("TW_Conv_2d_s8", "m_tw_conv_2d_s8"),
        ("twin", "twin"),
        ("stdint", "m_stdint"),
        ("CON", "m_con"),
        ("lpt1", "m_lpt1"),
        ("x" * 300, "x" * 64),
        ("7" * 300, "m_" + "7" * 62),
        ("a\x00b\x1b[31m", "a_b_31m"),
        ("caf\u00e9 \u202e", "caf"),
    ],
)
def test_identifier_makes_a_valid_c_name(text: str, name: str) -> None:
    assert identifier(text) == name == identifier(name)


def test_a_model_never_gets_the_name_of_a_kernel_file() -> None:
    for path in FILES.values():
        assert identifier(path.stem) != path.stem


@pytest.mark.parametrize("text", ["..", "", "\u65e5\u672c"])
def test_a_name_without_a_valid_character_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match="--name"):
        identifier(text)


@pytest.mark.parametrize(
    "text", ["tw", "tw_conv_2d_s8", "stdint", "string", "while", "3d", "at", "conv_2d_0", "memory", "x" * 300]
)
def test_a_model_of_any_name_compiles(text: str, tmp_path: Path) -> None:
    graph = NETWORKS["chain"]()
    write(source_of(graph, plan_of(graph), identifier(text)), tmp_path)
    compile_strictly(toolchain.host(), tmp_path / f"{identifier(text)}.c")


@lru_cache
def plan_of(graph: Graph) -> Plan:
    return plan(graph)


def in_memory(planned: Plan, memory: str) -> Plan:
    """Return the plan with its only memory renamed."""
    buffers = tuple(replace(buffer, memory=memory) for buffer in planned.buffers)
    return check(replace(planned, buffers=buffers, arena={memory: sum(planned.arena.values())}))


def plans() -> list[Plan]:
    """Return plans with layers of many kinds: unfused, fused, in tiles, with state, streamed."""
    found = [plan(make(), Request(schedule)) for make in NETWORKS.values() for schedule in ("best", "layer")]
    found += [
        plan(NETWORKS["chain"](), Request(stream_inputs=True)),
        plan(maps.heads(), Request(stream_inputs=True, stream_outputs=True)),
    ]
    tiled = plan(to_graph("tiled", blocks(Arch((32, 32, 3), 8, (Group(8, 2, (3, 3), (4, 6)),))), classes=10))
    assert any(stage.tiles for stage in tiled.stages)
    return [*found, tiled]


def is_free(memory: str) -> bool:
    try:
        check_memories([memory])
    except CompileError:
        return False
    return True


def words_of(text: str) -> set[str]:
    """Return the identifiers in C, except struct members and those in comments and preprocessor lines."""
    code = re.sub(r'/\*.*?\*/|"[^"]*"|^\s*#\s*(include[^\n]*|\w+)|__\w+', " ", text, flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"(?<![\w.>])[A-Za-z_]\w*", code))


def test_memory_names_with_another_meaning_in_the_c_are_reserved() -> None:
    for planned in plans():
        own = in_memory(planned, MEMORY)
        files = source_of(own.graph, own).files
        name = own.graph.name
        body, text = words_of(files[f"{name}.c"]), words_of("".join(files[file] for file in files if file.startswith(name)))
        # local variables, and suffixes of array names and macros
        taken = {word for word in body if word == word.lower()}
        taken |= {word.removeprefix(f"{name}_") for word in text if word.startswith(f"{name}_")}
        for end in ("_BYTES", "_SECTION"):
            macros = {word for word in text if word.startswith(f"{name.upper()}_") and word.endswith(end)}
            taken |= {macro[len(name) + 1 : -len(end)].lower() for macro in macros}
        free = {word for word in taken - {MEMORY} if not word.startswith(f"{name}_") and is_free(word)}
        assert not free, f"{name}: a memory may be called {sorted(free)}"


@pytest.mark.parametrize(
    "memory", ["memory", "io", "i", "int", "tick", "void", "NULL", "input_0", "conv_2d_0_weights", "tw_row", "uint8_t", "data"]
)
def test_a_memory_with_a_reserved_name_is_refused_in_one_line(memory: str) -> None:
    graph = NETWORKS["chain"]()
    with pytest.raises(CompileError, match=f"the memory name '{memory}' has another meaning in the C; rename the memory"):
        source_of(graph, in_memory(plan_of(graph), memory))


def test_no_memory_of_a_board_has_a_reserved_name() -> None:
    for device in all_devices():
        for memories in device.memory_maps:
            check_memories(memories)


EVIL = [
    'x*/ int evil; /*\n#error "\\',
    "/" * 50 + "*" * 50 + "/",
    "nul\0esc\x1b[2Jbell\a\x7f",
    "\u202eright to left\u2066",
    "trigraph ??/\n??/",
    "\u65e5\u672c/",
]


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_names_stay_inside_comments(evil: str, tmp_path: Path) -> None:
    graph = NETWORKS["chain"]()
    tensors = {(evil if n == "image" else n): (replace(t, name=evil) if n == "image" else t) for n, t in graph.tensors.items()}
    ops = tuple(replace(op, inputs=tuple(evil if n == "image" else n for n in op.inputs)) for op in graph.ops)
    source = source_of(replace(graph, tensors=tensors, ops=ops, inputs=(evil,)))
    for file in ("chain.c", "chain.h"):
        assert re.fullmatch(r"[ -~\n]*", source.files[file]), "printable ASCII and nothing else"
    write(source, tmp_path)
    compile_strictly(toolchain.host(), tmp_path / "chain.c")


@pytest.mark.parametrize("text", [*EVIL, "*/", "/*", "**//", "/*/", "*", "/", "*/*/*", "?" * 9, "\\", "a\\\nb"])
def test_text_cannot_end_a_comment(text: str) -> None:
    for lines in ([text], [text, text], ["a", text]):
        written = c.comment(lines)
        assert written.startswith("/* ") and written.endswith(" */\n")
        assert written.count("*/") == 1 and written.count("/*") == 1 and "??" not in written
        assert re.fullmatch(r"[ -~\n]*", written)
