"""Extreme scales: a file that is not refused at import gives LiteRT's bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cases.ops import GENERATORS, NOT_IN_LITERT, Case, cases
from codegen.emitted import write

from tinyweave import ops
from tinyweave.codegen import Origin, emit
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, verify
from tinyweave.ops import conv
from tinyweave.planning import plan
from tinyweave.simulate import compare, host

FACTORS = [10.0**e for e in (-30, -12, -9, -6, -5, -4, -3, -2, 2, 3, 4, 5, 6, 7, 8, 9, 12)]
FACTORS += [2.0**e for e in (-16, -15, -14, 7, 8, 9, 13, 14, 15, 16, 17, 20)]


def rescaled(graph: Graph, names: Sequence[str], factor: float) -> Graph | None:
    """Return the graph with the scales of these tensors multiplied in float32; None if they leave its range."""
    tensors = dict(graph.tensors)
    for name in names:
        quant = tensors[name].quant
        assert quant is not None
        scale = tuple(factor * s for s in quant.scale)
        if not all(2.0**-126 <= s < 2.0**127 for s in scale):
            return None
        tensors[name] = replace(tensors[name], quant=replace(quant, scale=tuple(float(np.float32(s)) for s in scale)))
    return replace(graph, tensors=tensors)


def variations(case: Case, factors: Sequence[float]) -> Iterator[tuple[str, Case]]:
    """Yield the case with another scale of one operand, of the output, or of all; the scale of a bias follows."""
    graph, made = case.graph, {name for op in case.graph.ops for name in op.outputs}
    quantised = [name for name, tensor in graph.tensors.items() if tensor.quant is not None]
    biases = [name for name in quantised if graph.tensors[name].dtype in ("int32", "int64")]
    chosen = {name: [name, *(biases if name not in made else ())] for name in quantised if name not in biases}
    for (about, names), factor in itertools.product((chosen | {"all": quantised}).items(), factors):
        other = rescaled(graph, names, factor)
        # real values beyond 2^31 steps are undefined in LiteRT
        inputs = [[x * np.float32(min(factor, 1)) if x.dtype == np.float32 else x for x in sample] for sample in case.inputs]
        if other is not None:
            yield f"{case.id}, {about} * {factor:g}", Case(case.id, other, inputs)


def accepted(graph: Graph) -> bool:
    try:
        ops.check(verify(graph))
    except CompileError:
        return False
    return True


def results(case: Case, litert: ModuleType) -> tuple[list[list[np.ndarray]], list[list[np.ndarray]]] | None:
    """Return the outputs of LiteRT and of numpy; None if LiteRT refuses the file or the scale has no multiplier."""
    graph, state = case.graph, ops.initial_state(case.graph)
    try:
        runs = litert.run(to_tflite(graph), case.inputs)
        computed = [ops.run(graph, dict(zip(graph.inputs, arrays, strict=True)), state=state) for arrays in case.inputs]
    except CompileError as error:
        assert any(reason in str(error) for reason in ("rejects", "too large for fixed point", "float32 number")), error
        return None
    return [run.outputs for run in runs], [[values[name] for name in graph.outputs] for values in computed]


def count_compared(chosen: Iterator[Case], litert: ModuleType, factors: Sequence[float]) -> int:
    """Compare all accepted variations of these cases and return their number."""
    count, different = 0, []
    for case in chosen:
        for about, varied in variations(case, factors):
            if accepted(varied.graph) and (pair := results(varied, litert)) is not None:
                count += 1
                equal = all(np.array_equal(a, b) for a, b in zip(*map(itertools.chain.from_iterable, pair), strict=True))
                different += [] if equal else [about]
    assert not different, f"{len(different)} of {count} differ, first {different[:3]}"
    return count


@pytest.mark.sweep
@pytest.mark.litert
@pytest.mark.parametrize("kind", sorted(set(GENERATORS) - NOT_IN_LITERT))
def test_extreme_scales_give_the_bytes_of_litert_or_are_refused(kind: str, litert: ModuleType) -> None:
    with np.errstate(all="ignore"):
        assert count_compared(itertools.islice(cases(kind), 0, None, max(1, len(list(cases(kind))) // 6)), litert, FACTORS)


def int16_cases(kind: str, count: int) -> list[Case]:
    """Return cases on int16 whose sums have 64 bits, as they have unless the bias is int32."""
    wide = (case for case in cases(kind) if conv.sums_are_wide(case.graph, case.graph.ops[0]))
    return list(itertools.islice(wide, count))


@pytest.mark.litert
@pytest.mark.parametrize("kind", ["conv_2d", "transpose_conv"])
def test_64_bit_sums_are_rescaled_as_in_litert_or_refused(kind: str, litert: ModuleType) -> None:
    """A scale for which LiteRT would shift by a negative number is refused."""
    assert count_compared(iter(int16_cases(kind, 4)), litert, [2.0**e for e in range(6, 28, 2)] + [1e6])
    for case in int16_cases(kind, 4):
        op = case.graph.ops[0]
        x, weights, out = case.graph.input(op, ops.SPECS[kind].data), case.graph.input(op, 1), case.graph.output(op)
        ratio = x.scale * max(weights.quant.scale) / out.scale
        for wanted, fits in ((2.0**13.9, True), (2.0**14.1, False), (1e6, False)):
            other = rescaled(case.graph, ["x" if "x" in case.graph.tensors else x.name], wanted / ratio)
            assert other is not None and accepted(other) is fits, (case.id, wanted)


@pytest.mark.parametrize("kind", ["conv_2d", "transpose_conv"])
def test_a_bias_whose_sum_may_overflow_64_bits_is_refused(kind: str) -> None:
    case = next(case for case in int16_cases(kind, 50) if "bias" in case.graph.tensors)
    bias = case.graph.tensors["bias"]
    for value, fits in (((1 << 46) - 1, True), (1 << 46, False), (-(1 << 63), False)):
        tensor = replace(bias, data=np.full(bias.shape, value, np.int64))
        assert accepted(replace(case.graph, tensors=case.graph.tensors | {"bias": tensor})) is fits


@pytest.mark.litert
@pytest.mark.parametrize("kind", ["hard_swish", "max_pool_2d", "average_pool_2d", "relu6", "relu_n1_to_1"])
def test_scales_out_of_range_of_16_and_32_bits_give_the_bytes_of_litert(kind: str, litert: ModuleType) -> None:
    with np.errstate(all="ignore"):
        factors = [1e-9, 1e-6, 2.0**-15, 1e-3, 256.0, 400.0, 512.0, 1e4]
        assert count_compared(itertools.islice(cases(kind), 0, 60, 12), litert, factors)


@pytest.mark.parametrize("kind", ["conv_2d", "transpose_conv"])
def test_emitted_c_rescales_64_bit_sums_as_the_reference(kind: str, tmp_path: Path) -> None:
    """The scale is the largest that is accepted; the sanitizer checks for undefined behaviour."""
    case = int16_cases(kind, 1)[0]
    op = case.graph.ops[0]
    x, weights, out = case.graph.input(op, ops.SPECS[kind].data), case.graph.input(op, 1), case.graph.output(op)
    graph = rescaled(case.graph, [x.name], 2.0**13.9 * out.scale / (x.scale * max(weights.quant.scale)))
    assert graph is not None
    made = plan(ops.check(graph))
    write(emit(made, "wide", Origin("wide.tflite", "0" * 64)), tmp_path)
    program = host.build(tmp_path, "wide", sanitize=True)
    for arrays in case.inputs:
        expected = ops.run(graph, dict(zip(graph.inputs, arrays, strict=True)))
        run = host.invoke(program, made.arena, compare.pack(arrays), compare.output_bytes(graph))
        assert run.outputs == [expected[name].tobytes() for name in graph.outputs]
