"""Properties of all emitted C: no compiler warnings, reproducible files, readable comments, and equal outputs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.graphs import Net
from cases.states import through_state
from cases.strict import CPP
from cases.tiny import NETWORKS, activation, constant
from cases.tiny import graph as tiny_graph
from codegen.emitted import compile_strictly, inputs_of, source_of, write
from planning.stages import plan_in_stages

from tinyweave import api, ops
from tinyweave.codegen import Origin, c, emit
from tinyweave.codegen.header import survives
from tinyweave.codegen.layer import Constants
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Op, Tensor, verify
from tinyweave.planning import Buffer, Request, check, plan
from tinyweave.planning.explain import why_portable
from tinyweave.planning.place.place import arena_bytes, place
from tinyweave.simulate import compare, emulated, host
from tinyweave.support import toolchain


@pytest.mark.parametrize("name", NETWORKS)
def test_emitted_c_compiles_without_warnings(name: str, tmp_path: Path) -> None:
    write(source_of(NETWORKS[name]()), tmp_path)
    for compiler in {toolchain.host(), toolchain.arm()}:
        for path in sorted(tmp_path.glob("*.c")):
            compile_strictly(compiler, path)


def test_a_network_of_views_compiles_without_warnings(tmp_path: Path) -> None:
    chain = NETWORKS["chain"]()
    x = chain.tensors["image"]
    flat = replace(x, name="flat", shape=(1, 64))
    op = Op("reshape_0", "reshape", ("image",), ("flat",), {"new_shape": (1, 64)})
    graph = Graph("views", {"image": x, "flat": flat}, (op,), ("image",), ("flat",))
    write(source_of(graph), tmp_path)
    compile_strictly(toolchain.host(), tmp_path / "views.c")


@pytest.mark.parametrize("name", NETWORKS)
def test_the_header_compiles_as_cpp(name: str, tmp_path: Path) -> None:
    write(source_of(NETWORKS[name]()), tmp_path)
    (tmp_path / "main.cpp").write_text(
        f'#include "{name}.h"\n#include "{name}.h"\n'
        f"int main() {{ {name}_memory m = {{{{nullptr, 0}}}}; return {name}_init(&m) + 1; }}\n"
    )
    compile_strictly(toolchain.host(), tmp_path / "main.cpp", (*CPP, "-Wold-style-cast"))


def test_comments_say_why_a_layer_has_a_portable_kernel() -> None:
    graph = NETWORKS["chain"]()
    request = Request(core="cortex-m4", objective="size")
    made, origin = plan(graph, request), Origin("chain.tflite", "0" * 64, core="cortex-m4")
    text = " ".join(re.sub(r"\n *\*?", "", emit(made, "chain", origin).files["chain.c"]).split())
    slow = [why_portable(made, index, "cortex-m4") for index in range(len(made.graph.ops))]
    assert any(slow) and all(f"; portable C: {why}" in text for why in slow if why)
    assert text.count("portable C") == sum(map(bool, slow))
    assert "portable C" not in emit(made, "chain", replace(origin, core="")).files["chain.c"]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_plan_gives_the_same_files(name: str) -> None:
    first, second = source_of(NETWORKS[name]()), source_of(NETWORKS[name]())
    assert dict(first.files) == dict(second.files)
    assert list(first.files) == list(second.files)


def test_the_table_of_a_unary_op_has_256_entries() -> None:
    tensors = [activation(name, (1, 4)) for name in "xy"]
    source = source_of(tiny_graph("looked_up", tensors, [Op("tanh_0", "tanh", ("x",), ("y",))], ("x",), ("y",)))
    assert re.findall(r"int8_t \w+\[(\d+)\]", source.files["looked_up_weights.h"]) == ["256"]


@pytest.mark.parametrize("name", NETWORKS)
def test_only_kernels_of_the_plan_are_emitted(name: str) -> None:
    made = plan(NETWORKS[name]())
    emitted = {file for file in source_of(made.graph, made).files if file.endswith("_s8.c")}
    assert emitted == {f"{variant}.c" for variant in made.variants if variant.endswith("_s8")}


@pytest.mark.parametrize("dtype", ["int8", "int32", "float32", "bool"])
def test_a_constant_output_is_copied_from_flash(dtype: str, tmp_path: Path) -> None:
    chain = NETWORKS["chain"]()
    known = Tensor("known", (2, 3), dtype, None, np.array([[0, 1, 7], [3, 4, 100]]).astype(dtype), "constant")
    graph = replace(chain, tensors={**chain.tensors, "known": known}, outputs=(*chain.outputs, "known"))
    made = plan(verify(graph))
    write(source_of(graph, made), tmp_path)
    x = inputs_of(graph)
    for program in (host.build(tmp_path, "chain", sanitize=True), emulated.build(tmp_path, "chain", "cortex-m4")):
        invoke = host.invoke if isinstance(program, host.Program) else emulated.invoke
        run = invoke(program, made.arena, compare.pack(x), compare.output_bytes(graph))
        assert run.outputs[-1] == known.data.tobytes()
    compile_strictly(toolchain.host(), tmp_path / "chain.c")


@pytest.mark.parametrize(("value", "message"), [(np.inf, "not a number"), (1.0, "computes nothing")])
def test_invalid_constant_outputs_are_refused(value: float, message: str) -> None:
    known = Tensor("known", (1,), "float32", None, np.array([value], np.float32), "constant")
    with pytest.raises(CompileError, match=message):
        plan(Graph("known", {"known": known}, (), (), ("known",)))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_plan_in_two_memories_gives_the_outputs_of_one_memory(name: str, tmp_path: Path) -> None:
    """With buffers in two memories, the API takes a pointer for each, and the outputs are the same."""
    graph = NETWORKS[name]()
    made = plan(graph)
    dealt = [replace(buffer, memory=("fast", "slow")[index % 2]) for index, buffer in enumerate(made.buffers)]
    offsets: dict[str, int] = {}
    arena = {}
    for memory in ("fast", "slow"):
        mine = [buffer for buffer in dealt if buffer.memory == memory]
        offsets |= place(mine, tries=0).offsets
        arena[memory] = arena_bytes(mine, offsets)
    split = check(
        replace(made, buffers=tuple(dealt), offsets=offsets, arena=arena, lower_bound=place(dealt, tries=0).lower_bound)
    )
    source = source_of(graph, split)
    assert f"{name.upper()}_FAST_BYTES {arena['fast']}" in source.files[f"{name}.h"]
    write(source, tmp_path)
    x = inputs_of(graph)
    program = host.build(tmp_path, name, sanitize=True)
    run = host.invoke(program, arena, compare.pack(x), compare.output_bytes(graph))
    expected = ops.run(graph, dict(zip(graph.inputs, x, strict=True)))
    assert run.outputs == [expected[output].tobytes() for output in graph.outputs]


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 0.1, 1e-30, 3.4e38, 1 / 3, 123456789.0, 1.1754944e-38])
def test_float_literals_read_back_exactly(value: float) -> None:
    text = c.float_literal(value)
    assert text.endswith("f")
    assert np.float32(text[:-1]) == np.float32(value)
    assert value or text == "0.0f"


def test_the_least_int32_and_int64_are_emitted_as_expressions() -> None:
    assert c.integer(-(2**31)) == "(-2147483647 - 1)"
    assert c.integer(-(2**63)) == "(-9223372036854775807 - 1)"


def test_the_header_says_whether_invoke_overwrites_an_input() -> None:
    """An input that shares no bytes with other buffers may be read again after invoke."""
    graph = NETWORKS["chain"]()
    made = plan(graph)
    top = made.arena["sram"]
    apart = check(replace(made, offsets={**made.offsets, "image": top}, arena={"sram": top + made.buffer("image").bytes}))
    assert "overwritten by invoke" in source_of(graph).files["chain.h"]
    assert "unchanged by invoke" in source_of(graph, apart).files["chain.h"]
    assert isinstance(made.buffer("image"), Buffer)


def test_inputs_next_to_other_buffers_are_unchanged_by_invoke() -> None:
    """A buffer that ends where an input begins, or begins where it ends, does not overwrite it; with one more byte it does."""
    graph = NETWORKS["chain"]()
    made = plan(graph)
    image, others = made.buffer("image"), [buffer for buffer in made.buffers if buffer.name != "image"]
    for size, at, untouched in ((100, 0, True), (101, 0, False), (9, 100 + image.bytes, True), (9, 99 + image.bytes, False)):
        buffers = (image, *(replace(buffer, bytes=size) for buffer in others))
        offsets = {"image": 100} | {buffer.name: at for buffer in others}
        assert survives(replace(made, buffers=buffers, offsets=offsets), "image") == untouched


def test_constants_of_equal_bytes_and_other_types_share_no_array() -> None:
    """Two int32 zeros have the bytes of one int64 zero but must not share an array with it."""
    constants = Constants()
    names = [constants.add("row", np.zeros(1, np.int64), "int32_t"), constants.add("bias", np.zeros(2, np.int32), "int32_t")]
    assert names == ["row", "bias"]
    assert constants.add("again", np.zeros(2, np.int64), "int32_t") == "bias", "the same array in C"
    assert "bias[2]" in constants.texts[1]


@pytest.mark.parametrize("schedule", ["layer", "best"])
def test_an_empty_slice_copies_nothing(schedule: str, tmp_path: Path) -> None:
    begin, size = (constant(name, np.array(values, np.int32)) for name, values in (("b", (0, 0, 0, 0)), ("s", (1, 0, 3, 2))))
    image, part, joined = activation("x", (1, 4, 3, 2)), activation("e", (1, 0, 3, 2)), activation("y", (1, 4, 3, 2))
    ops = [
        Op("slice_0", "slice", ("x", "b", "s"), ("e",)),
        Op("concatenation_1", "concatenation", ("x", "e"), ("y",), {"axis": 1, "activation": "none"}),
    ]
    path = tmp_path / "empty.tflite"
    path.write_bytes(to_tflite(tiny_graph("empty", [image, part, joined, begin, size], ops, ("x",), ("y",))))
    model = api.load(path)
    assert api.verify_plan(model, api.plan(model, schedule=schedule), api.ProofOptions(count=2), core=None).ok


@pytest.mark.parametrize("values", [[5, 5, 5, 5], [5, -3, 5, 5], [-3, 5, 0, 1]])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_state_begins_with_its_initial_value(values: list[int], dtype: str, tmp_path: Path) -> None:
    """Equal bytes are set, others copied. State is read before it is assigned, after init and after a reset."""
    x = replace(activation("x", (1, 4), 0.5), dtype=dtype)
    graph = through_state("read_variable", x, np.array([values], dtype), computed=False)
    write(source_of(graph, name="m"), tmp_path)
    program = host.build(tmp_path, "m", sanitize=True)
    once = [np.full((1, 4), 9, dtype).tobytes()]
    for earlier in ([], [once, None]):  # None: a reset
        run = host.invoke(program, plan(graph).arena, once, compare.output_bytes(graph), earlier=earlier)
        assert compare.unpack_all(graph, run)[-1][0].ravel().tolist() == values


@pytest.mark.parametrize("kept", [0, 1])
def test_comments_leave_out_the_middle_of_a_long_tensor_name(kept: int) -> None:
    """At most 64 characters of a name are kept, the first and the last ones."""
    graph, long = NETWORKS["chain"](), "a" * 30 + "b" * (33 - kept)
    tensors = {long if name == "image" else name: tensor for name, tensor in graph.tensors.items()}
    tensors[long] = replace(tensors[long], name=long)
    ops = (replace(graph.ops[0], inputs=(long, *graph.ops[0].inputs[1:])), *graph.ops[1:])
    text = "\n".join(source_of(Graph("chain", tensors, ops, (long,), graph.outputs)).files.values())
    shown = f"'{long}'" if kept else f"'{'a' * 19}...{'a' * 7}{'b' * 33}'"
    assert len(shown) == 64 and f"/* {shown} */" in text


def test_the_comment_of_a_stage_names_the_maps_that_it_reads_and_writes() -> None:
    """Each map that crosses the border of the stage is named once, maps inside of the stage are not."""
    net = Net(12, 10, 3)
    first = net.conv("image", 8)
    last = net.add(net.conv(net.depthwise(first, 3), 8), first)
    made = plan_in_stages(net.finish("stage", net.conv(last, 5)), [(0,), (1, 2, 3), (4,), (5,), (6,)])
    notes = re.findall(r"/\* \S+ (.*row by row: .*)", source_of(made.graph, made).files["stage.c"])
    assert notes == ["depthwise_conv_2d_1 to add_3, row by row: 12x10x8 -> 12x10x8"]
