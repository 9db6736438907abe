"""Constants that `init` copies to RAM: every kernel reads them there, and never again from Flash."""

from __future__ import annotations

import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cases.maps import block
from cases.rows import cases_of, core_of
from cases.strict import INCLUDE
from cases.tiny import NETWORKS
from codegen.emitted import compile_strictly, emitted, prove, source_of
from codegen.test_cpp import CORES, FLAGS
from kernels.traces import apart
from planning.stages import plan_in_stages

from tinyweave.codegen import constants_of
from tinyweave.ir import CompileError
from tinyweave.kernels.table import VARIANTS
from tinyweave.planning import Plan, Request, Tile, check, copy_name, plan, with_copies, without_copies
from tinyweave.planning.memories import distribute
from tinyweave.simulate import compare, emulated
from tinyweave.support import toolchain


def in_ram(made: Plan, memory: str = "sram") -> Plan:
    return with_copies(made, constants_of(made), memory)


@pytest.fixture
def small() -> Plan:
    return check(in_ram(plan(NETWORKS["chain"](), Request("unfused"))))


@pytest.mark.parametrize("core", CORES)
def test_the_calls_of_all_kernels_compile_without_a_warning(core: str, tmp_path: Path) -> None:
    """Their parameters point to RAM, so they are variables of a function for each step; also as C++."""
    rows = [row for row in VARIANTS if core_of(row) == core and row.files]
    chosen = [(next(case for case in cases_of(row) if len(case.graph.ops) == 1), row) for row in rows]
    made = in_ram(apart("cases", chosen))
    assert len(made.copies) > len(rows) / 3
    emitted(made, tmp_path, "cases")
    text = (tmp_path / "cases.c").read_text()
    assert all(f"memcpy(sram + AT_{name.upper()}_COPY, {name}, sizeof {name});" in text for name in made.copies)
    compile_strictly(toolchain.host(), tmp_path / "cases.c")
    if shutil.which("g++"):
        command = ["g++", *FLAGS, *INCLUDE, "cases.c"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


PLANS = {
    "unfused": lambda: plan(NETWORKS["chain"](), Request("unfused", core="cortex-m4")),
    "rows": lambda: plan_in_stages(block(), [(0, 1, 2, 3)]),
    "tiles": lambda: plan_in_stages(block(), [(0, 1, 2), (3,)], tiles=(Tile((0, 1, 2), 5, 2),)),
    "state": lambda: plan(NETWORKS["stream"](), Request("unfused")),
    "two memories": lambda: check(distribute(plan(NETWORKS["residual"]()), {"fast": 250, "sram": 1000}, overlap=True)),
}


@pytest.mark.emulator
@pytest.mark.parametrize("name", PLANS)
def test_the_bytes_are_right_although_flash_changes_after_init(name: str, tmp_path: Path, emulator: None) -> None:
    prove(check(in_ram(PLANS[name]())), tmp_path, ["cortex-m4"])


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3", "cortex-m55", "rv32imc"])
def test_the_bytes_are_right_on_other_cores(core: str, tmp_path: Path, emulator: None) -> None:
    made = plan(block(), Request("best", objective="speed", core=core))
    prove(check(in_ram(made)), tmp_path, [core])


@pytest.mark.emulator
def test_a_kernel_that_reads_the_array_in_flash_gives_other_bytes(small: Plan, tmp_path: Path, emulator: None) -> None:
    emitted(small, tmp_path)
    file = tmp_path / f"{small.graph.name}.c"
    text = file.read_text()
    samples = compare.samples(small.graph, 4, 0)
    for name in small.copies:
        pointer = f"(sram + AT_{name.upper()}_COPY)"
        assert text.count(pointer) == 1
        file.write_text(text.replace(pointer, f"({name})"))
        done = compare.verify(small, tmp_path, small.graph.name, samples, cores=["cortex-m4"])
        assert done.first_difference is not None and "cortex-m4" in done.first_difference, name


@pytest.mark.emulator
def test_each_emulator_restores_flash_before_the_next_run(small: Plan, tmp_path: Path, emulator: None) -> None:
    emitted(small, tmp_path)
    built = emulated.build(tmp_path, small.graph.name, "cortex-m4")
    sample = compare.pack(compare.samples(small.graph, 4, 0)[3])
    sizes = [small.graph.tensors[name].bytes for name in small.graph.outputs]
    runs = [emulated.invoke(built, small.arena, sample, sizes, copied=small.copies) for _ in range(2)]
    assert runs[0].outputs == runs[1].outputs == emulated.invoke(built, small.arena, sample, sizes).outputs


def test_random_subsets_give_the_reference(tmp_path: Path) -> None:
    rng, made = random.Random(0), plan(block(), Request(core="cortex-m4"))
    for number in range(4):
        arrays = constants_of(made)
        chosen = check(with_copies(made, rng.sample(arrays, rng.randint(1, len(arrays))), "sram"))
        prove(chosen, tmp_path / str(number))


def test_the_c_of_a_plan_without_copies_is_the_same(small: Plan) -> None:
    bare = plan(NETWORKS["chain"](), Request("unfused"))
    back = replace(without_copies(small), lower_bound=bare.lower_bound)
    before, there, here = (source_of(made.graph, made).files for made in (bare, small, back))
    weights, copied = f"{bare.graph.name}_weights.h", sum(small.buffer(copy_name(name)).bytes for name in small.copies)
    assert here == before and there[weights] == here[weights]
    assert f"COPIED_BYTES {copied}\n" in there[f"{bare.graph.name}.h"]


def test_arrays_that_other_functions_read_stay_in_flash() -> None:
    chain = NETWORKS["chain"]()
    weights = chain.ops[0].inputs[1]
    given = replace(chain, outputs=(*chain.outputs, weights))
    before, after = ({each.name for each in constants_of(plan(each, Request("unfused")))} for each in (chain, given))
    assert before - after == {"conv_2d_0_weights"}, "the function output returns the address in Flash"


def test_copies_that_are_not_the_arrays_of_the_kernels_are_refused(small: Plan) -> None:
    name, readers = next(iter(small.copies.items()))
    home = copy_name(name)
    smaller = tuple(replace(b, bytes=b.bytes - 4) if b.name == home else b for b in small.buffers)
    others = {
        "another op": replace(small, copies={**small.copies, name: (*readers, "softmax_4")}),
        "another size": replace(small, buffers=smaller),
        "another name": with_copies(without_copies(small), [constants_of(small)[0]._replace(name="nothing")], "sram"),
    }
    for made in others.values():
        with pytest.raises(CompileError, match="copies constants"):
            source_of(made.graph, made)
