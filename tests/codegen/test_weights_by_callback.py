"""Constants that a callback reads before their layer, or while the layer before computes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cases.tiny import NETWORKS
from codegen.emitted import emitted, prove, source_of
from codegen.retrained import plan_again, retrained, same_code
from codegen.test_weights_file import Place, built_of, early, fetched, in_file, sample_of

from tinyweave import ops
from tinyweave.ir import CompileError
from tinyweave.planning import Plan, Request, check, copy_name, fetches, from_json, plan, to_json, with_pieces
from tinyweave.planning.check import UnsoundPlanError
from tinyweave.planning.constants_in_ram import FILE_HEAD
from tinyweave.planning.fuse.rematerialise import reads_by_channel
from tinyweave.simulate import compare, target
from tinyweave.simulate.run import Fault
from tinyweave.support import toolchain


@pytest.fixture(scope="module")
def small() -> Plan:
    return in_file(plan(NETWORKS["chain"](), Request("unfused", core="cortex-m4")))


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus", "cortex-m55", "rv32imc"])
def test_constants_that_a_callback_reads_have_no_address(core: str, small: Plan, tmp_path: Path, emulator: None) -> None:
    """A read from the callback's address plus the offset of an array in the file stops with a fault."""
    made = fetched(replace(small, weights_file=False))
    emitted(made, tmp_path)
    text, begin = (tmp_path / "chain.c").read_text(), "    (void)io; /* nothing is streamed */\n"
    assert text.count(begin) == 1
    for offset in (FILE_HEAD, 5000):
        stray = f"    (void)*((const volatile uint8_t *)(uintptr_t)memory->weights.read + {offset});\n"
        (tmp_path / "chain.c").write_text(text.replace(begin, begin + stray))
        with pytest.raises(Fault, match=r"chain_invoke: (read of|access to) 0x"):
            target.invoke(target.build(made, tmp_path, "chain", core), sample_of(made))


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_constants_are_overwritten_when_their_step_has_ended(core: str, small: Plan, tmp_path: Path, emulator: None) -> None:
    """If a step reads its constants in the first inference only, the second gives wrong bytes, though no buffer lies there."""
    made = fetched(replace(small, weights_file=False))
    offsets, end = dict(made.offsets), made.arena["sram"] // 8 * 8 + 8
    for name in map(copy_name, made.copies):
        offsets[name], end = end, end + made.buffer(name).bytes // 8 * 8 + 8
    end = offsets[name] + made.buffer(name).bytes
    made = check(replace(made, offsets=offsets, arena={"sram": end}))
    emitted(made, tmp_path)
    text, sample = (tmp_path / "chain.c").read_text(), sample_of(made)
    right = target.invoke(target.build(made, tmp_path, "chain", core), sample, earlier=[sample])
    begin = text.index("int chain_invoke")
    reads = [found.start() + begin for found in re.finditer(r"\{\n +const int error = ", text[begin:])]
    assert len(reads) == len(right.reads) > 5
    for at in reads:
        once = f"static int read_{at};\n    if (read_{at}++ == 0) "
        (tmp_path / "chain.c").write_text(text[:at] + once + text[at:])
        ran = target.invoke(target.build(made, tmp_path, "chain", core), sample, earlier=[sample])
        assert ran.earlier == right.earlier and ran.outputs != right.outputs, once


WAIT = "memory->weights.start != NULL ? memory->weights.wait(memory->weights.context) : 0;"


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_a_layer_that_does_not_wait_for_its_constants_is_wrong(core: str, small: Plan, tmp_path: Path, emulator: None) -> None:
    made = early(small)
    emitted(made, tmp_path)
    text, sample = (tmp_path / "chain.c").read_text(), sample_of(made)
    right = target.invoke(target.build(made, tmp_path, "chain", core), sample)
    waits = [found.start() for found in re.finditer(re.escape(WAIT), text)]
    assert len(waits) == sum(any(read.start < step for read in reads) for step, reads in fetches(made).items()) > 3
    for at in waits:
        (tmp_path / "chain.c").write_text(f"{text[:at]}0;{text[at + len(WAIT) :]}")
        program = target.build(made, tmp_path, "chain", core)
        if at == waits[-1]:
            with pytest.raises(Fault, match="ended before a read of constants"):
                target.invoke(program, sample)
        else:
            assert target.invoke(program, sample).outputs != right.outputs


@pytest.mark.emulator
def test_a_read_that_begins_while_its_place_is_in_use_is_wrong(small: Plan, tmp_path: Path, emulator: None) -> None:
    """A read that begins too early, of one array or all, gives wrong bytes, or a layer writes to its place: a fault."""
    made, outcomes = fetched(small), list[str]()
    right = target.invoke(built_of(made, tmp_path, "cortex-m4"), sample_of(made)).outputs
    for step, (read, *_) in fetches(made).items():
        for start, count in product(range(step), (1, len(read.arrays))):
            names = set(map(copy_name, read.arrays[:count]))
            there = replace(made, buffers=tuple(replace(b, start=start) if b.name in names else b for b in made.buffers))
            assert [each.start for each in fetches(there)[step]] == [start, *[step] * (count < len(read.arrays))]
            try:
                check(there)
            except UnsoundPlanError as error:
                assert "shares bytes with" in str(error)
                outcome = "wrong bytes"
            else:
                outcome = "right"
            program = built_of(there, tmp_path / f"{step}_{start}_{count}", "cortex-m4")
            try:
                assert (target.invoke(program, sample_of(made)).outputs == right) == (outcome == "right")
            except Fault as error:
                assert outcome != "right" and "wrote to constants before their read had ended" in str(error)
                outcome = "a fault"
            outcomes.append(outcome)
    assert {"right", "wrong bytes", "a fault"} == {*outcomes}


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus", "cortex-m55", "rv32imc"])
def test_a_layer_in_pieces_gives_the_same_bytes(core: str, tmp_path: Path, emulator: None) -> None:
    """The plan of a network in pieces is read from its file again, and suits this network trained again."""
    graph = NETWORKS["residual"]() if core == "cortex-m55" else NETWORKS["chain"]()
    pieces = {op.outputs[0]: 2 for op in graph.ops if reads_by_channel(graph, op) and graph.output(op).shape[-1] > 2}
    assert pieces
    cut = with_pieces(graph, pieces)
    inputs = dict(zip(graph.inputs, compare.samples(graph, 4, 0)[3], strict=True))
    whole, parts = (ops.run(each, inputs) for each in (graph, cut))
    assert all((parts[name] == whole[name]).all() for name in graph.outputs)
    made = replace(fetched(plan(cut, Request("unfused", core=core))), pieces=pieces)
    prove(made, tmp_path, [core])
    back = from_json(to_json(made), graph)
    assert back.pieces == pieces and source_of(cut, back).files == source_of(cut, made).files
    new = plan_again(made, retrained(graph, 1))
    assert new is not None and same_code(source_of(cut, made).files, source_of(new.graph, new).files)
    for wrong in ({name: graph.tensors[name].shape[-1] for name in pieces}, {graph.outputs[0]: 1}):
        text = to_json(replace(made, pieces=wrong))
        with pytest.raises(CompileError, match=r"cannot be computed \d channels at a time"):
            from_json(text, graph)


FAILING = """\
#include <stdio.h>
#include <string.h>

#include "chain.h"

static union { uint8_t bytes[CHAIN_SRAM_BYTES]; uint64_t aligned; } arena;
static uint8_t file[CHAIN_WEIGHTS_BYTES];
static int32_t left;

static int read(void *context, uint32_t offset, void *destination, uint32_t bytes)
{
    memcpy(destination, (uint8_t *)context + offset, bytes);
    return left-- == 0 ? 77 : 0;
}

static int start(void *context, uint32_t offset, void *destination, uint32_t bytes)
{
    return 11 * read(context, offset, destination, bytes) / 7;
}

static int wait(void *context)
{
    return context == file && left-- == 0 ? 99 : 0;
}

int main(int count, char **words)
{
    FILE *const source = fopen(words[count - 1], "rb");
    const chain_memory memory = {.sram = {&arena, sizeof arena}, .weights = {read, file, LATER}};
    const chain_memory none = {.sram = {&arena, sizeof arena}, .weights = {NULL, file, LATER}};
    const chain_memory half = {.sram = {&arena, sizeof arena}, .weights = {read, file, start, NULL}};
    (void)!fread(file, 1, sizeof file, source);
    fclose(source);
    printf("%d %d", chain_init(&none), chain_init(&half));
    for (int32_t calls = 0; calls < 20; ++calls) {
        left = calls;
        const int error = chain_init(&memory);
        printf(" %d", error != 0 ? error : chain_invoke(&memory, NULL) + 1000);
    }
    printf(" %d %d", (int)CHAIN_INPUT_0_ZERO_POINT(&memory), (int)CHAIN_OUTPUT_0_ZERO_POINT(&memory));
    printf(" %.9g %.9g", (double)CHAIN_INPUT_0_SCALE(&memory), (double)CHAIN_OUTPUT_0_SCALE(&memory));
    return 0;
}
"""


@pytest.mark.parametrize("later", ["NULL, NULL", "start, wait"])
@pytest.mark.parametrize("made_for", [fetched, early])
def test_an_error_of_a_callback_is_returned(made_for: Place, later: str, small: Plan, tmp_path: Path) -> None:
    """The check reads the file in 1 + 2 calls, 1 follows for scales of inputs and outputs. Without start, read is called."""
    made = made_for(small)
    emitted(made, tmp_path)
    (tmp_path / "main.c").write_text(FAILING)
    flags = ["-std=c99", "-O1", "-DTW_PLAIN_C", f"-DLATER={later}", "-I", tmp_path]
    toolchain.compile_c(toolchain.host(), [*flags, *sorted(tmp_path.glob("*.c")), "-o", tmp_path / "program"])
    done = subprocess.run([tmp_path / "program", tmp_path / "chain.weights"], capture_output=True, text=True, check=True)
    words, ends = done.stdout.split(), [made.graph.tensors[name] for name in (*made.graph.inputs, *made.graph.outputs)]
    calls = list[str]()
    start, wait = ("1121", ["1099"]) if later == "start, wait" else ("1077", [])
    for now in range(len(made.stages)):
        begin = [(step, read.start < step) for step, reads in fetches(made).items() for read in reads if read.start == now]
        calls += wait * any(read.start < now for read in fetches(made).get(now, []))
        calls += [start if is_early else "1077" for step, is_early in begin if step >= 0]
    assert words[:-4] == ["-1", "-1", *["77"] * 4, *calls, *["1000"] * (16 - len(calls))]
    assert [int(word) for word in words[-4:-2]] == [tensor.zero_point for tensor in ends]
    assert [np.float32(word) for word in words[-2:]] == [np.float32(tensor.scale) for tensor in ends]
