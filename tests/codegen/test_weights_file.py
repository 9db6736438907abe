"""`<m>.weights`: constants and quantisation outside of the C, and what `init` refuses."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.maps import block
from cases.rows import cases_of, core_of
from cases.strict import INCLUDE
from cases.tiny import NETWORKS
from codegen.emitted import compile_strictly, emitted, prove, source_of
from codegen.retrained import plan_again, retrained, same_code
from codegen.test_constants_in_ram import PLANS
from codegen.test_cpp import CORES, FLAGS
from kernels.traces import apart
from planning.stages import plan_in_stages

from tinyweave import ops
from tinyweave.codegen import Source, constants_of
from tinyweave.codegen.weights_file import without_comments
from tinyweave.ir import CompileError, Tensor
from tinyweave.kernels.table import VARIANTS
from tinyweave.planning import Plan, Request, check, copy_name, fetches, plan, with_fetches
from tinyweave.simulate import compare, emulated, host, target
from tinyweave.simulate.model_calls import READ_ERROR
from tinyweave.simulate.run import Fault
from tinyweave.support import toolchain

Place = Callable[[Plan], Plan]


def in_file(made: Plan) -> Plan:
    return check(replace(made, weights_file=True))


def fetched(made: Plan) -> Plan:
    """Return the plan with constants that a callback reads from the file."""
    return check(_fetched(replace(made, weights_file=True)))


def early(made: Plan) -> Plan:
    """Return the plan with constants that a callback begins to read while the layer before computes."""
    return check(_fetched(replace(made, weights_file=True), early=True))


def _fetched(made: Plan, *, early: bool = False) -> Plan:
    return with_fetches(made, constants_of(made), max(made.arena, key=lambda name: made.arena[name]), early=early)


@pytest.fixture(scope="module")
def small() -> Plan:
    return in_file(plan(NETWORKS["chain"](), Request("unfused", core="cortex-m4")))


@pytest.fixture(scope="module")
def source(small: Plan) -> Source:
    return source_of(small.graph, small)


@pytest.mark.parametrize("how", ["in place", "read", "read early"])
@pytest.mark.parametrize("core", CORES)
def test_the_calls_of_all_kernels_compile_without_a_warning(core: str, how: str, tmp_path: Path) -> None:
    """No constant is left in the C, which also compiles as C++."""
    rows = [row for row in VARIANTS if core_of(row) == core and row.files]
    chosen = [(next(case for case in cases_of(row) if len(case.graph.ops) == 1), row) for row in rows]
    made = replace(apart("cases", chosen), weights_file=True)
    made = made if how == "in place" else _fetched(made, early=how == "read early")
    emitted(made, tmp_path, "cases")
    text = (tmp_path / "cases.c").read_text()
    assert not re.search(r"\[\] = |every output is", text) and ("(weights + AT_" in text) == (how == "in place")
    assert not (tmp_path / "cases_weights.h").exists()
    compile_strictly(toolchain.host(), tmp_path / "cases.c")
    compile_strictly(toolchain.host(), tmp_path / "tw_weights.c")
    if shutil.which("g++"):
        command = ["g++", *FLAGS, *INCLUDE, "cases.c"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.emulator
@pytest.mark.parametrize("made_for", [in_file, fetched, early])
@pytest.mark.parametrize("name", PLANS)
def test_the_bytes_are_right(name: str, made_for: Place, tmp_path: Path, emulator: None) -> None:
    prove(made_for(PLANS[name]()), tmp_path, ["cortex-m4"])


@pytest.mark.emulator
@pytest.mark.parametrize("made_for", [in_file, fetched, early])
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3", "cortex-m55", "rv32imc"])
def test_the_bytes_are_right_on_other_cores(core: str, made_for: Place, tmp_path: Path, emulator: None) -> None:
    made = made_for(plan(block(), Request("best", objective="speed", core=core)))
    prove(made, tmp_path, [core])
    ran = target.invoke(built_of(made, tmp_path, core), sample_of(made))
    assert ran.reads == [(each.offset, each.bytes) for reads in fetches(made).values() for each in reads][1:]


@pytest.mark.parametrize("made_for", [in_file, fetched, early])
@pytest.mark.parametrize("name", PLANS)
def test_a_network_trained_again_needs_only_another_file(name: str, made_for: Place, tmp_path: Path) -> None:
    old = made_for(PLANS[name]())
    emitted(old, tmp_path)
    here = source_of(old.graph, old)
    graph = retrained(block() if name in ("rows", "tiles") else NETWORKS[old.graph.name](), 1)
    new = plan_again(old, graph)
    assert new is not None
    there = source_of(graph, new)
    assert same_code(here.files, there.files) and here.data != there.data
    (tmp_path / f"{graph.name}.weights").write_bytes(there.data[f"{graph.name}.weights"])
    samples = compare.samples(graph, 6, 2)
    assert compare.verify(new, tmp_path, graph.name, samples, cores=[]).ok
    assert not compare.verify(old, tmp_path, graph.name, samples, cores=[]).ok, "the file of the new network was read"


def test_the_initial_state_is_in_the_file(tmp_path: Path) -> None:
    """Its zero point may change; one byte that fills the state is in the file, too."""
    old, graph = in_file(PLANS["state"]()), NETWORKS["stream"]()
    tensors = {name: _moved(tensor) for name, tensor in graph.tensors.items()}
    new = plan_again(old, replace(graph, tensors=tensors))
    assert new is not None
    here, there = source_of(old.graph, old), source_of(new.graph, new)
    assert same_code(here.files, there.files) and here.data != there.data
    emitted(old, tmp_path)
    (tmp_path / "stream.weights").write_bytes(there.data["stream.weights"])
    assert compare.verify(new, tmp_path, "stream", compare.samples(new.graph, 5, 0), cores=[]).ok


def _moved(tensor: Tensor) -> Tensor:
    """Return a tensor whose zero point -128 is -100."""
    if tensor.quant is None or tensor.quant.zero_point != (-128,):
        return tensor
    data = None if tensor.data is None else (tensor.data + 28).astype(np.int8)
    return replace(tensor, quant=replace(tensor.quant, zero_point=(-100,)), data=data)


@pytest.mark.emulator
@pytest.mark.parametrize("core", [target.HOST, "cortex-m4"])
def test_c_that_writes_into_its_file_is_a_fault(core: str, small: Plan, tmp_path: Path, emulator: None) -> None:
    emitted(small, tmp_path)
    text = (tmp_path / "chain.c").read_text()
    defined = "weights = (const uint8_t *)memory->weights.data;\n    uint8_t *const sram"
    assert text.count(defined) == text.count("TW_NOT_INLINE void chain_step_") > 0
    begin, _, end = text.partition(defined)
    written = defined.replace("uint8_t *const sram", "((uint8_t *)(uintptr_t)weights)[80] ^= 1;\n    uint8_t *const sram")
    (tmp_path / "chain.c").write_text(begin + written + end)
    with pytest.raises(Fault, match="wrote into its file of weights" if core == target.HOST else "write to 0x"):
        target.invoke(target.build(small, tmp_path, "chain", core), sample_of(small))


def test_the_hash_is_of_header_and_body(source: Source) -> None:
    head, body = (without_comments(source.files[name]) for name in ("chain.h", "chain.c"))
    words = struct.unpack("<4I", source.data["chain.weights"][16:32])
    body = body.replace(", ".join(f"0x{word:08x}" for word in words), "PLAN_WORDS")
    assert source.data["chain.weights"][16:32] == hashlib.sha256((head + body).encode()).digest()[:16]


def test_the_header_of_the_file(source: Source) -> None:
    file = source.data["chain.weights"]
    magic, version, length, crc = struct.unpack("<4s3I", file[:16])
    assert (magic, version, length, crc) == (b"TWWF", 1, len(file), zlib.crc32(file[16:]))
    assert file[32:64] == hashlib.sha256(file[64:]).digest()
    plan = ", ".join(f"0x{word:08x}" for word in struct.unpack("<4I", file[16:32]))
    assert f"plan[4] = {{{plan}}}" in source.files["chain.c"] and f"WEIGHTS_BYTES {length}\n" in source.files["chain.h"]


def damaged(file: bytes) -> dict[str, tuple[bytes, int]]:
    """Return name of a damage -> the file with it, and the error that `init` returns."""

    def with_words(at: int, *words: int) -> bytes:
        """Return the file with other words at a byte of its header, and a CRC-32 that is right."""
        changed = bytearray(file)
        struct.pack_into(f"<{len(words)}I", changed, at, *words)
        struct.pack_into("<I", changed, 12, zlib.crc32(changed[16:]))
        return bytes(changed)

    def flipped(at: int, bits: int = 1) -> bytes:
        return file[:at] + bytes([file[at] ^ bits]) + file[at + 1 :]

    word, at = struct.unpack_from("<8I", file), next(at for at in range(64, len(file)) if file[at] != file[at + 1])
    return {
        "magic": (with_words(0, word[0] ^ 1), -3),
        "the magic of a core with the other byte order": (file[3::-1] + file[4:], -3),
        "a later format": (with_words(4, 2), -3),
        "a shorter length": (with_words(8, len(file) - 4), -4),
        "a greater length": (with_words(8, len(file) + 4), -4),
        **{f"word {index} of the hash of the C": (with_words(16 + 4 * index, word[4 + index] + 1), -4) for index in range(4)},
        "the CRC-32": (flipped(12), -5),
        "the SHA-256": (flipped(40), -5),
        "the first byte of the arrays": (flipped(64), -5),
        "the last byte": (flipped(len(file) - 1, 128), -5),
        "erased Flash": (b"\xff" * len(file), -3),
        "an interrupted download": (file[: len(file) // 2] + b"\xff" * (len(file) - len(file) // 2), -5),
        "two bytes exchanged": (file[:at] + file[at + 1 : at + 2] + file[at : at + 1] + file[at + 2 :], -5),
        "truncated": (file[:-1], -2),
    }


@pytest.mark.parametrize("made_for", [in_file, fetched])
def test_each_section_of_a_damaged_file_is_refused(made_for: Place, small: Plan, tmp_path: Path) -> None:
    """On this machine; a byte of each array is changed, too."""
    small = made_for(replace(small, weights_file=False))
    source = source_of(small.graph, small)
    built, sample, file = built_of(small, tmp_path, target.HOST), sample_of(small), source.data["chain.weights"]
    assert isinstance(built.program, host.Program)
    target.invoke(built, sample)
    at = [line.split("=")[1].split(",")[0] for line in source.files["chain.c"].splitlines() if "in the file" in line]
    wrong = damaged(file) | {
        f"the array at {offset}": (file[: int(offset)] + bytes([file[int(offset)] ^ 16]) + file[int(offset) + 1 :], -5)
        for offset in at
    }
    assert len(at) > 10
    wrong |= {"truncated": (file[:-1], READ_ERROR)} if small.fetches else {}
    for name, (content, error) in wrong.items():
        with pytest.raises(Fault, match=f"returned the error {error}$"):
            target.invoke(replace(built, weights=content), sample)
            pytest.fail(name)


@pytest.mark.emulator
@pytest.mark.parametrize("made_for", [in_file, fetched])
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus", "cortex-m55", "rv32imc"])
def test_a_damaged_file_is_refused_on_a_core(core: str, made_for: Place, small: Plan, tmp_path: Path, emulator: None) -> None:
    small = made_for(replace(small, weights_file=False))
    source = source_of(small.graph, small)
    built, sample, file = built_of(small, tmp_path, core), sample_of(small), source.data["chain.weights"]
    for name, (content, error) in (damaged(file) | ({"truncated": (file[:-1], READ_ERROR)} if small.fetches else {})).items():
        with pytest.raises(Fault, match=f"returned the error {error}$"):
            target.invoke(replace(built, weights=content), sample)
            pytest.fail(name)


def built_of(made: Plan, folder: Path, where: str) -> target.Build:
    return target.build(made, emitted(made, folder), made.graph.name, where)


def sample_of(made: Plan) -> list[bytes]:
    return compare.pack(compare.samples(made.graph, 4, 0)[3])


PROGRAM = """\
#include <stdio.h>
#include <string.h>

#include "chain.h"
#include "residual.h"

enum { MORE = 64 };
static union { uint8_t bytes[CHAIN_SRAM_BYTES + RESIDUAL_SRAM_BYTES]; uint64_t aligned; } arena;
static union { uint8_t bytes[CHAIN_WEIGHTS_BYTES + MORE]; uint64_t aligned; } chain_file;
static union { uint8_t bytes[RESIDUAL_WEIGHTS_BYTES + MORE]; uint64_t aligned; } residual_file;

static uint8_t *read(const char *path, uint8_t *to, size_t bytes)
{
    FILE *const file = fopen(path, "rb");
    to += (16 - (uintptr_t)to % 16) % 16;
    (void)!fread(to, 1, bytes, file);
    fclose(file);
    return to;
}

int main(int count, char **words)
{
    uint8_t *const one = read(words[count - 2], chain_file.bytes, CHAIN_WEIGHTS_BYTES);
    uint8_t *const two = read(words[count - 1], residual_file.bytes, RESIDUAL_WEIGHTS_BYTES);
    const chain_memory chain = {.sram = {&arena, sizeof arena}, .weights = {one, CHAIN_WEIGHTS_BYTES + 9}};
    const residual_memory residual = {.sram = {&arena, sizeof arena}, .weights = {two, RESIDUAL_WEIGHTS_BYTES}};
    const chain_memory none = {.sram = {&arena, sizeof arena}, .weights = {NULL, CHAIN_WEIGHTS_BYTES}};
    const chain_memory small = {.sram = {&arena, sizeof arena}, .weights = {one, CHAIN_WEIGHTS_BYTES - 1}};
    const residual_memory other = {.sram = {&arena, sizeof arena}, .weights = {one, CHAIN_WEIGHTS_BYTES}};
    printf("%d %d %d %d %d", chain_init(&chain), residual_init(&residual), chain_init(&none), chain_init(&small),
           residual_init(&other));
    for (int turn = 0; turn < 2; ++turn) {
        memset(chain_input(&chain, 0), 3, CHAIN_INPUT_0_BYTES);
        (void)!(chain_init(&chain) + chain_invoke(&chain, NULL));
        printf(" %d", *(const int8_t *)chain_output(&chain, 0));
        memset(residual_input(&residual, 0), 3, RESIDUAL_INPUT_0_BYTES);
        (void)!(residual_init(&residual) + residual_invoke(&residual, NULL));
        printf(" %d", *(const int8_t *)residual_output(&residual, 0));
    }
    for (size_t by = 1; by <= 16; ++by) {
        memmove(one + by, one + by - 1, CHAIN_WEIGHTS_BYTES);
        const chain_memory moved = {.sram = {&arena, sizeof arena}, .weights = {one + by, CHAIN_WEIGHTS_BYTES}};
        printf(" %d", chain_init(&moved));
    }
    return 0;
}
"""


def test_models_of_one_program_have_a_file_each(small: Plan, tmp_path: Path) -> None:
    """init refuses a null pointer, a memory that is smaller than the file, another model's file, and unaligned addresses."""
    plans = [small, in_file(plan(NETWORKS["residual"]()))]
    for each in plans:
        emitted(each, tmp_path)
    (tmp_path / "main.c").write_text(PROGRAM)
    words = ["-std=c99", "-O1", "-DTW_PLAIN_C", "-I", tmp_path, *sorted(tmp_path.glob("*.c")), "-o", tmp_path / "program"]
    toolchain.compile_c(toolchain.host(), words)
    files = [tmp_path / f"{name}.weights" for name in ("chain", "residual")]
    done = subprocess.run([tmp_path / "program", *files], capture_output=True, text=True, check=True)
    outputs = []
    for each in plans:
        graph = each.graph
        values = ops.run(graph, {name: np.full(graph.tensors[name].shape, 3, np.int8) for name in graph.inputs})
        outputs.append(str(values[graph.outputs[0]].ravel()[0]))
    assert done.stdout.split() == ["0", "0", "-1", "-2", "-4", *outputs, *outputs, *["-1"] * 15, "0"]


def test_a_plan_that_reads_other_constants_is_refused(small: Plan) -> None:
    made = fetched(replace(small, weights_file=False))
    names = [*made.copies]
    swapped = {name: made.copies[name] for name in [names[1], names[0], *names[2:]]}
    last = copy_name(names[-1])
    without = {name: made.copies[name] for name in names[:-1]}
    offsets = {name: at for name, at in made.offsets.items() if name != last}
    damages = {
        "constants that a callback reads differ": [
            replace(made, copies=swapped),
            replace(made, copies=without, offsets=offsets, buffers=tuple(b for b in made.buffers if b.name != last)),
        ],
        "it copies constants 'ends'": [
            replace(made, buffers=tuple(replace(b, align=8) if b.name == "ends.copy" else b for b in made.buffers))
        ],
    }
    for said, plans in damages.items():
        for each in plans:
            with pytest.raises(CompileError, match=said):
                source_of(made.graph, check(each))


@pytest.mark.emulator
@pytest.mark.parametrize("name", ["unfused", "tiles", "rows", "streams", "pair"])
def test_the_file_costs_no_arena_and_few_instructions(name: str, tmp_path: Path, emulator: None) -> None:
    """Parameters are defined once per inference, but in a long stage at each call, since all of them would need more stack."""
    streams = Request(stream_inputs=True, stream_outputs=True, core="cortex-m4")
    more = {"streams": lambda: plan(block(), streams), "pair": lambda: plan_in_stages(block(), [(0,), (1, 2), (3,)])}
    runs, made = {}, (PLANS | more)[name]()
    small = in_file(made)
    for each in (made, small):
        built = built_of(each, tmp_path / str(each.weights_file), "cortex-m4")
        compile_strictly(toolchain.host(), built.folder / f"{built.name}.c")
        assert isinstance(built.program, emulated.Firmware)
        runs[each.weights_file] = target.invoke(built, sample_of(each)), built.sizes
    (before, sizes), (after, with_file) = runs[False], runs[True]
    assert after.outputs == before.outputs and with_file["static"] == sizes["static"] == 0
    assert with_file["weights"] > sizes["weights"] and with_file["tables"] < sizes["tables"] + 100
    file = (tmp_path / f"True/{made.graph.name}.weights").read_bytes()
    assert after.init_instructions and after.init_instructions < 20 * len(file)
    assert after.instructions and before.instructions and after.stack and before.stack
    longest = max(len(stage.ops) for stage in small.stages)
    assert (after.instructions < before.instructions + 60 * len(small.variants)) == (longest <= 3)
    # with GCC, the parameters of the `pair` are not on the stack while the kernel before it runs, which needs most
    is_apart = name == "pair" and shutil.which("arm-none-eabi-gcc")
    assert after.stack < before.stack + (80 if is_apart else 140 + 90 * (longest - 1 if longest <= 3 else 0))


def test_equal_arrays_of_two_layers_are_stored_twice() -> None:
    """They may differ in the next network."""
    made = plan(block(), Request("unfused"))
    once, twice = (source_of(made.graph, replace(made, weights_file=value)) for value in (False, True))
    assert once.files["block_weights.h"].count("_multiplier[") == 2 and twice.files["block.c"].count("_MULTIPLIER ") == 3


def test_a_memory_called_weights_is_refused(small: Plan) -> None:
    renamed = replace(
        small, arena={"weights": small.arena["sram"]}, buffers=tuple(replace(b, memory="weights") for b in small.buffers)
    )
    with pytest.raises(CompileError, match="'weights' has another meaning"):
        source_of(small.graph, renamed)
