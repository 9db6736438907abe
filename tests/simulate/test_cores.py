"""Whole networks on every emulated core with every compiler give correct outputs and use exactly the arena of the plan."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from cases.strict import INCLUDE
from cases.tiny import NETWORKS, activation, constant, graph, ramp
from codegen.emitted import emitted
from fuzz.generate import random_network
from simulate.tiny_c import ARENA, INPUTS, body

from tinyweave import ops
from tinyweave.ir import CompileError, Graph, Op, Tensor
from tinyweave.kernels.table import DSP, MVE, VARIANTS, Variant, sources
from tinyweave.planning import Request, plan
from tinyweave.simulate import compare, emulated
from tinyweave.simulate.cores import CORES
from tinyweave.simulate.emulated import COMPILERS, flags_for
from tinyweave.simulate.run import FOLDER, Fault, Inference, touched
from tinyweave.support import toolchain

pytestmark = pytest.mark.emulator
pytest.importorskip("unicorn", reason="needs the emulator (pip install '.[verify]')")

GRAPHS = {name: make() for name, make in NETWORKS.items()} | {f"network_{seed}": random_network(seed, 12) for seed in (3, 8)}


def run_twice(graph: Graph, folder: Path, core: str) -> tuple[Inference, Inference]:
    """Run a graph on a core twice with different initial memory, and compare it with the numpy reference."""
    made = plan(graph)
    emitted(made, folder, graph.name)
    x = compare.samples(graph, 4, 1, [])[3]
    expected = ops.run(graph, dict(zip(graph.inputs, x, strict=True)))
    firmware = emulated.build(folder, graph.name, core)
    sizes = compare.output_bytes(graph)
    a, b = (emulated.invoke(firmware, made.arena, compare.pack(x), sizes, fill=fill) for fill in (0, 1))
    for name, array in zip(graph.outputs, compare.unpack_all(graph, a)[-1], strict=True):
        assert compare.difference(expected[name], array) is None, name
    assert touched(a, b) == made.arena
    return a, b


def is_usual(core: str, name: str, compiler: str) -> bool:
    """Return whether a case runs in the usual tests; most cases with zig, which is slow to build, run in sweeps only."""
    return not compiler or (name == "network_8" and core in (*DSP, "rv32imc"))


RUNS = list(product(CORES, GRAPHS, ("", "zig")))


@pytest.mark.parametrize(
    ("core", "name", "compiler"), [pytest.param(*each, marks=[pytest.mark.sweep] * (not is_usual(*each))) for each in RUNS]
)
def test_networks_on_a_core_equal_the_reference(
    core: str, name: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    for variable in ("TINYWEAVE_ARM_CC", "TINYWEAVE_RISCV_CC"):
        monkeypatch.setenv(variable, compiler)
    a, b = run_twice(GRAPHS[name], tmp_path, core)
    assert a.instructions == b.instructions
    assert a.instructions is not None and a.instructions > 100
    assert a.stack == b.stack
    assert a.stack is not None and 0 < a.stack < 2048


@pytest.fixture
def qemu() -> None:
    if reason := emulated.missing("cortex-m55"):
        pytest.skip(reason[0])


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m33"])
def test_both_emulators_count_the_same_instructions(core: str, tmp_path: Path, qemu: None) -> None:
    """QEMU runs the code of the smaller cores on a Cortex-M55."""
    graph = GRAPHS["network_3"]
    made = plan(graph)
    emitted(made, tmp_path, graph.name)
    firmware = emulated.build(tmp_path, graph.name, core, trace=True)
    x, sizes = compare.pack(compare.samples(graph, 1, 0, [])[0]), compare.output_bytes(graph)
    on_unicorn, on_qemu = (emulated.invoke(replace(firmware, core=name), made.arena, x, sizes) for name in (core, "cortex-m55"))
    assert on_unicorn.instructions == on_qemu.instructions
    assert on_unicorn.init_instructions == on_qemu.init_instructions
    assert on_unicorn.per_step == on_qemu.per_step
    assert on_unicorn.outputs == on_qemu.outputs
    assert on_unicorn.memory("sram") == on_qemu.memory("sram")
    assert on_unicorn.stack is not None and on_qemu.stack is not None
    assert on_unicorn.stack - 32 <= on_qemu.stack <= on_unicorn.stack + 4  # the lowest bytes of a frame may stay unwritten


@pytest.mark.parametrize("lacks", ["", "plugins", "compiler"])
def test_qemu_gives_dumps_and_instructions_per_step(
    write_model: Callable[..., Path], qemu: None, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    plugins = not lacks
    if plugins and not emulated.qemu.has_plugins(emulated.qemu.program()):
        pytest.skip("this QEMU has no plugins")
    firmware = emulated.build(write_model(), "tiny", "cortex-m55", trace=True)
    if lacks == "plugins":
        monkeypatch.setattr(emulated.qemu, "has_plugins", lambda path: False)
    elif lacks == "compiler":
        monkeypatch.setattr(emulated.qemu, "COUNTER", write_model() / "tiny_broken.c")
        emulated.qemu.COUNTER.write_text("not C")
    got = emulated.invoke(firmware, ARENA, INPUTS, [32], dump=[(1, "sram", 96, 32), (0, "sram", 0, 32)])
    assert got.dumps == [got.outputs[0], INPUTS[0]]
    assert len(got.per_step) == 2 and sum(got.per_step) == got.instructions
    assert [got.per_part.get((step, "")) for step in (0, 1)] == (got.per_step if plugins else [None, None])
    assert sum(got.functions.values()) == (got.instructions if plugins else 0)
    cycles = emulated.by_step(emulated.cycles("cortex-m55", got))
    assert [0 < one.fewest <= one.likely <= one.most for one in cycles] == ([True, True] if plugins else [])


def test_blocks_that_qemu_splits_are_joined() -> None:
    """Columns: address, bytes, instructions, executions, jumps at the end."""
    blocks = [
        [0x100, 4, 1, 7, 0],  # a page with a breakpoint: each instruction is a block
        [0x104, 2, 1, 7, 0],
        [0x106, 2, 1, 7, 6],
        [0x108, 4, 2, 1, 0],  # another count: a loop has ended
        [0x10C, 4, 1, 1, 0],  # one of two blocks at this address
        [0x10C, 6, 2, 3, 3],
        [0x200, 8, 4, 2, 1],
        [0x208, 4, 1, 2, 0],  # the block before jumps past it once
        [0x3F0, 16, 5, 1, 0],  # a loop's first pass begins before the loop
        [0x3F8, 8, 2, 9, 0],  # its other passes
        [0x400, 6, 3, 10, 8],  # the second part of both
        [0x500, 2, 1, 1, 0],
        [0x502, 2, 1, 3, 0],  # is also reached from elsewhere
    ]
    joined = emulated.qemu.joined
    loop = [[0x3F0, 22, 8, 1, 0], [0x3F8, 14, 5, 9, 8]]
    assert joined(np.array(blocks[::-1], np.int64)).tolist() == [[0x100, 8, 3, 7, 6], *blocks[3:8], *loop, *blocks[11:]]
    assert joined(np.zeros((0, 5), np.int64)).shape == (0, 5)


def test_a_loop_across_the_end_of_a_page_is_one_block(write_model: Callable[..., Path], qemu: None) -> None:
    """QEMU's pages have 1,024 bytes; the loop's first four bytes are before a page's end, which is inside its ADD.W."""
    if not emulated.qemu.has_plugins(emulated.qemu.program()):
        pytest.skip("this QEMU has no plugins")
    code = ".balign 1024", ".rept 508", "nop", ".endr", "movs r0, #7", "1:", "nop", "add.w r1, r1, #1", "subs r0, #1", "bne 1b"
    assembly = "".join(f'"{line}\\n"' for line in code)
    got = emulated.invoke(
        emulated.build(write_model(body(f'__asm__ volatile({assembly} : : : "r0", "r1", "cc");')), "tiny", "cortex-m55"),
        ARENA, INPUTS, [32],
    )  # fmt: skip
    ran = [
        block for part in got.blocks.values() for block in part if block.code.endswith(bytes.fromhex("00bf01f101010138fad1"))
    ]
    assert [(len(block.code), block.executions) for block in ran if len(block.code) == 10] == [(10, 6)]
    assert sum(block.executions for block in ran) == 7 and sum(block.taken for block in ran) == 6


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ("*(volatile int8_t *)(arena - 1) ^= 1;", "write to 0x78000f7f|1 bytes before sram"),
        ("*(volatile int8_t *)(arena + 128) ^= 1;", "write to 0x78001000, 0 bytes past the end of sram"),
        ("*(volatile int8_t *)(intptr_t)0x0f000000 = 1;", "access to 0x0f000000, in tiny_invoke"),
        ("((void (*)(void))(intptr_t)0x70000000)();", "stopped .fault status 0x0002"),
        ("return 5;", "tiny returned the error 5"),
        ("for (volatile int i = 0;; i = i + 1) { }", "did not finish within 2 s"),
    ],
)
def test_faults_that_qemu_detects(write_model: Callable[..., Path], statements: str, said: str, qemu: None) -> None:
    with pytest.raises(Fault, match=said):
        emulated.invoke(emulated.build(write_model(body(statements)), "tiny", "cortex-m55"), ARENA, INPUTS, [32], limit_s=2)


def test_without_qemu_a_core_that_unicorn_has_is_used(
    write_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    firmware = emulated.build(write_model(), "tiny", "cortex-m55")
    monkeypatch.setattr(emulated.toolchain, "which", lambda program: None)
    assert emulated.nearest("cortex-m55", "cortex-m33", "cortex-m4") == "cortex-m33"
    assert emulated.nearest("cortex-m85", "", "cortex-m4") == "cortex-m4"
    with pytest.raises(CompileError, match="needs qemu-system-arm, which is not installed; install QEMU"):
        emulated.invoke(firmware, ARENA, INPUTS, [32])


# macros that tell which instructions a compiler may use
FEATURES = re.compile(
    r"__(ARM_FEATURE_(DSP|SIMD32|MVE|CLZ|IDIV|LDREX|QBIT|SAT|UNALIGNED)|ARM_ARCH|riscv_(atomic|compressed|mul|flen))"
)


@pytest.mark.parametrize("core", CORES)
def test_each_compiler_enables_the_extensions_of_a_core(core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = []
    for name in dict.fromkeys([COMPILERS[CORES[core].isa]().name, "zig"]):
        for variable in ("TINYWEAVE_ARM_CC", "TINYWEAVE_RISCV_CC"):
            monkeypatch.setenv(variable, "" if name == "gcc" else name)
        compiler = COMPILERS[CORES[core].isa]()
        (tmp_path / "empty.c").write_text("")
        toolchain.compile_c(
            compiler, [*flags_for(core, compiler), "-dM", "-E", tmp_path / "empty.c", "-o", tmp_path / "macros"]
        )
        macros = dict(re.findall(r"#define (\w+) (.+)", (tmp_path / "macros").read_text()))
        features.append({key: int(value, 0) for key, value in macros.items() if FEATURES.fullmatch(key)})
        features[-1]["float"] = bool(int(macros.get("__ARM_FP", "0"), 0) & 4)
        features[-1]["double"] = bool(int(macros.get("__ARM_FP", "0"), 0) & 8)
        features[-1]["__ARM_FEATURE_MVE"] = features[-1].get("__ARM_FEATURE_MVE", 0) & 1  # kernels use no floats there
        assert bool(features[-1].get("__ARM_FEATURE_DSP")) == (core in DSP)
        assert bool(features[-1]["__ARM_FEATURE_MVE"]) == (core in MVE)
    assert features[0] == features[-1]


@pytest.mark.parametrize("core", [core for core in (*DSP, "rv32imc") if core in CORES])
def test_fast_kernels_take_fewer_instructions_with_every_compiler(
    core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    graph, counts = NETWORKS["chain"](), {}
    for compiler in dict.fromkeys([COMPILERS[CORES[core].isa]().name, "zig"]):
        for variable in ("TINYWEAVE_ARM_CC", "TINYWEAVE_RISCV_CC"):
            monkeypatch.setenv(variable, "" if compiler == "gcc" else compiler)
        for kernels in ("portable", core):
            made = plan(graph, Request(core=kernels))
            emitted(made, tmp_path, graph.name)
            firmware = emulated.build(tmp_path, graph.name, core)
            x = compare.pack(compare.samples(graph, 1, 0, [])[0])
            run = emulated.invoke(firmware, made.arena, x, compare.output_bytes(graph))
            assert run.instructions is not None
            counts[compiler, kernels] = run.instructions
        assert counts[compiler, core] < counts[compiler, "portable"]
    fast = [count for (_, kernels), count in counts.items() if kernels == core]
    assert max(fast) < 1.5 * min(fast), counts


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3", "cortex-m4", "rv32imc"])
def test_dense_layers_of_any_size_equal_the_reference_on_a_core(core: str, tmp_path: Path) -> None:
    """Portable kernels: products of one to four filters at a time, of an odd or even number of inputs; scales up to 1.3."""
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    tensors, layers = [activation("x1", (1, 9), 0.05, 3)], list[Op]()
    attrs = {"activation": "none", "keep_num_dims": False}
    for index, (depth, units) in enumerate(pairwise((9, 7, 3, 2, 5, 1, 6, 17, 4)), 2):
        scales, axis = (tuple(0.004 * 3.3**unit % 1.3 for unit in range(units)), 0) if index % 2 else ((0.02,), None)
        tensors.append(constant(f"w{index}", ramp((units, depth), 29 + 2 * index), scales, axis))
        bias = constant(f"c{index}", 99 * ramp((units,)).astype(np.int32), tuple(0.05 * scale for scale in scales), axis)
        tensors += [bias, activation(f"x{index}", (1, units), 0.05, index)]
        layers.append(Op(f"dense_{index}", "fully_connected", (f"x{index - 1}", f"w{index}", bias.name), (f"x{index}",), attrs))
    run_twice(graph("dense", tensors, layers, ("x1",), tuple(op.outputs[0] for op in layers)), tmp_path, core)


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3", "cortex-m4", "rv32imc"])
def test_matrix_products_equal_the_reference_on_a_core(core: str, tmp_path: Path) -> None:
    """Portable kernels: up to four columns at a time, of contiguous columns or not, for odd and even depths."""
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    tensors, products, turns = list[Tensor](), list[Op](), [(False, True), (True, True), (False, False), (True, False)]
    for index, (depth, cols, (adj_x, adj_y)) in enumerate(zip((9, 4, 6, 7), (7, 6, 9, 5), turns, strict=True)):
        a, b = f"a{index}", f"b{index}"
        tensors.append(activation(a, (2, depth, 3) if adj_x else (2, 3, depth), 0.05, 3))
        tensors.append(activation(b, (2, cols, depth) if adj_y else (2, depth, cols), 0.02, -7))
        tensors.append(activation(f"y{index}", (2, 3, cols), 0.05, index))
        products.append(Op(f"op{index}", "batch_matmul", (a, b), (f"y{index}",), {"adj_x": adj_x, "adj_y": adj_y}))
    inputs, outputs = (tuple(name for op in products for name in getattr(op, each)) for each in ("inputs", "outputs"))
    run_twice(graph("products", tensors, products, inputs, outputs), tmp_path, core)


@pytest.mark.parametrize("row", [row for row in VARIANTS if row.isa in ("dsp", "mve")], ids=lambda row: row.name)
def test_a_kernel_without_its_instructions_does_not_compile(row: Variant, tmp_path: Path) -> None:
    """With -DTW_PLAIN_C it compiles."""
    compiler, core = toolchain.arm(), "cortex-m4" if row.cores == MVE else "cortex-m3"
    files = [path for path in sources([row.name]) if path.suffix == ".c"]
    flags = [*flags_for(core, compiler), *INCLUDE, "-idirafter", FOLDER / "include", "-c", "-o", tmp_path / "kernel.o"]
    refused = 0
    for path in files:
        try:
            toolchain.compile_c(compiler, [*flags, path])
        except CompileError as error:
            assert re.search(r"no Arm (DSP|MVE) instructions: compile for a core with them", str(error)), error
            refused += 1
        toolchain.compile_c(compiler, [*flags, "-DTW_PLAIN_C", path])
    has_instructions = any("tw_dsp.h" in path.read_text() or "arm_mve.h" in path.read_text() for path in sources([row.name]))
    assert bool(refused) == has_instructions, "at least the file that holds its instructions must not compile"
