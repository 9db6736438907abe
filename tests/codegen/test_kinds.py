"""Emitted C of every op kind gives the bytes of the numpy reference, on the cases that compare the reference with LiteRT.

The cases of a kind become one network of unconnected ops, so that one build runs them all: on the host under sanitizers and
on the emulated core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from cases.ops import INT16, INT16_KINDS, UINT8, UINT8_KINDS, Case
from cases.rows import cases_of, compilable, core_of, flag_of, union
from codegen.emitted import emitted
from kernels.traces import apart

from tinyweave import ops
from tinyweave.codegen.emitters import EMITTERS
from tinyweave.ir import Graph
from tinyweave.kernels.table import BY_KIND, BY_NAME, VARIANTS, Variant, misfit, variant_for
from tinyweave.planning import Plan, Request, plan
from tinyweave.simulate import compare, emulated, host
from tinyweave.simulate.run import Inference, noise

FOLDED = {"shape"}  # always known at compile time, so no C is emitted for it
AT_A_TIME = 72
USUAL = 48  # number of evenly drawn cases per run; sweeps run the others
OF_KERNEL = 12  # least number of cases per run for each kernel; a kernel that has fewer cases runs them all
CORE = "cortex-m4"
CORES = (CORE, "cortex-m55", "rv32imc")  # cores with their own kernels
SMALL = "cortex-m0plus"  # portable kernels have loops in assembly on this core


def chosen_of(kind: str, core: str, which: str) -> Iterator[tuple[Case, Variant]]:
    """Yield the cases of a kind and the kernels that run them.

    With a core other than SMALL these are the cases of kernels for that core alone; with `which` those of optional kernels.
    """
    for case in compilable(kind):
        operands = case.graph, case.graph.ops[0], core
        row = variant_for(*operands, which)
        if (not core or core == SMALL or row.cores) and not (which and row is variant_for(*operands)):
            yield case, row


def usual(drawn: Sequence[tuple[Case, Variant]]) -> list[tuple[Case, Variant]]:
    """Return some cases, drawn evenly from all cases and from those of each kernel."""
    of_kernel: dict[str, list[int]] = {}
    for number, (_, row) in enumerate(drawn):
        of_kernel.setdefault(row.name, []).append(number)
    groups = [(range(len(drawn)), USUAL), *((numbers, OF_KERNEL) for numbers in of_kernel.values())]
    return [
        drawn[number] for number in sorted({number for group, most in groups for number in group[:: -(-len(group) // most)]})
    ]


def side_by_side(name: str, drawn: Sequence[tuple[Case, Variant]]) -> Plan:
    """Return a plan of all cases that needs no search."""
    if all(len(case.graph.ops) == 1 for case, _ in drawn):
        return apart(name, drawn)
    return plan(union(name, [case for case, _ in drawn]), Request("layer"))


KINDS = [(kind, "", "") for kind in sorted(set(ops.SPECS) - FOLDED)]
KINDS += [
    (kind, core, "") for core in CORES for kind in sorted({k for row in VARIANTS if core in row.cores for k in row.kinds})
]
KINDS += [(kind, SMALL, "") for kind in ("conv_2d", "depthwise_conv_2d", "fully_connected")]
KINDS += [(kind, "cortex-m3", "") for kind in ("conv_2d", "depthwise_conv_2d", "fully_connected", "max_pool_2d")]
KINDS += [(kind, "cortex-m7", "") for kind in sorted({k for row in VARIANTS if row.isa == "m7" for k in row.kinds})]
KINDS += [("conv_2d", CORE, "flash_heavy"), ("conv_2d", CORE, "lean"), ("conv_2d", "cortex-m3", "lean")]
KINDS += [("depthwise_conv_2d", CORE, "lean"), ("conv_2d", "rv32imc", "lean")]
KINDS += [("depthwise_conv_2d", "cortex-m7", "lean"), ("conv_2d", CORE, "copying"), ("conv_2d", "cortex-m7", "copying")]
KINDS += [(kind, "", "compact") for kind in ("conv_2d", "depthwise_conv_2d", "fully_connected", "average_pool_2d")]
KINDS += [(INT16 + kind, "", "") for kind in INT16_KINDS]
KINDS += [(UINT8 + kind, "", "") for kind in UINT8_KINDS]
KINDS += [(UINT8 + kind, CORE, "") for kind in ("conv_2d", "depthwise_conv_2d")]
KINDS += [(UINT8 + "fully_connected", "cortex-m55", "")]
FEW = ("cortex-m7", "lean")  # with these, there are no more cases than USUAL
NOT_RUN = {"tw_move": "no op asks for it, plans put it in where a tensor moves: tests/planning/place/test_relocation.py"}


@pytest.mark.emulator
@pytest.mark.parametrize(("kind", "core", "which"), KINDS)
def test_emitted_c_gives_the_reference_bytes(kind: str, core: str, which: str, tmp_path: Path) -> None:
    drawn = list(chosen_of(kind, core, which))
    assert len(drawn) >= 8, f"only {len(drawn)} cases of {kind} have a kernel"
    same_bytes(kind, core, usual(drawn), tmp_path)


@pytest.mark.sweep
@pytest.mark.emulator
@pytest.mark.parametrize(("core", "which"), sorted({(core, which) for _, core, which in KINDS} - {FEW}))
def test_emitted_c_gives_the_reference_bytes_in_all_cases(core: str, which: str, tmp_path: Path) -> None:
    left = 0
    for kind in (kind for kind, *of in KINDS if of == [core, which]):
        drawn = list(chosen_of(kind, core, which))
        known = {case.id for case, _ in usual(drawn)}
        rest = [(case, row) for case, row in drawn if case.id not in known]
        same_bytes(kind, core, rest, tmp_path)
        left += len(rest)
    assert left


def same_bytes(kind: str, core: str, drawn: Sequence[tuple[Case, Variant]], folder: Path) -> None:
    """Check cases on the host and on the emulated core, many per model."""
    for number in range(0, len(drawn), AT_A_TIME):
        made = side_by_side(f"{kind}_{number}", drawn[number : number + AT_A_TIME])
        graph, chosen = made.graph, [case for case, _ in drawn[number : number + AT_A_TIME]]
        source = emitted(made, folder / graph.name)
        # without optimisation the sanitizers find as much, and the build is fast
        program = host.build(source, graph.name, sanitize=True, optimize="-O0")
        nearest = emulated.nearest(core or CORE, CORE)
        firmware = emulated.build(source, graph.name, nearest, plain=nearest != (core or CORE))
        samples = samples_of(graph, chosen)
        state, expected = ops.initial_state(graph), []
        for x in samples:
            expected.append(ops.run(graph, dict(zip(graph.inputs, x, strict=True)), state=state))
        # all inferences run in one memory; if there is state, they are repeated after a reset
        rounds = [compare.pack(x) for x in samples]
        rounds, expected = ([*rounds, None, *rounds], expected * 2) if state else (rounds, expected)
        for simulate, built in ((host, program), (emulated, firmware)):
            run = simulate.invoke(built, made.arena, rounds[-1], compare.output_bytes(graph), earlier=rounds[:-1])
            assert not written_between_buffers(made, run).size
            for sample, (wanted, outputs) in enumerate(zip(expected, compare.unpack_all(graph, run), strict=True)):
                owners = [case for case in chosen for _ in case.graph.outputs]
                for case, name, array in zip(owners, graph.outputs, outputs, strict=True):
                    difference = compare.difference(wanted[name], array)
                    assert difference is None, f"{case.id}, sample {sample}: {difference}"


def test_a_kernel_whose_conditions_an_op_meets_gives_the_reference_bytes(tmp_path: Path) -> None:
    """The ops usually run another kernel. So a row must state all its conditions, whatever the order of rows."""
    drawn: list[tuple[Case, Variant]] = []
    for kind in sorted({kind for kind, core, _ in KINDS if core or kind.startswith(UINT8)}):
        met: dict[str, list[tuple[Case, Variant]]] = {}
        for case in (case for case in compilable(kind) if len(case.graph.ops) == 1 and not case.graph.init):
            operands = case.graph, case.graph.ops[0]
            rows = [row for row in BY_KIND[operands[1].kind] if not misfit(*operands, row.name)]
            for row in (row for row in rows if row is BY_NAME[row.name]):
                if variant_for(*operands, core_of(row), flag_of(row)) is not row:
                    met.setdefault(row.name, []).append((case, row))
        drawn += [pair for pairs in met.values() for pair in (pairs[0], pairs[-1])]
    assert len({row.name for _, row in drawn}) > 20
    made = apart("unusual", drawn)
    program = host.build(emitted(made, tmp_path / "unusual"), "unusual", sanitize=True, optimize="-O0")
    for style in (0, 1):
        inputs = [x for case, _ in drawn for x in case.inputs[style]]
        wanted = ops.run(made.graph, dict(zip(made.graph.inputs, inputs, strict=True)))
        run = host.invoke(program, made.arena, compare.pack(inputs), compare.output_bytes(made.graph))
        owners = [f"{case.id} with {row.name}" for case, row in drawn for _ in case.graph.outputs]
        for owner, name, array in zip(owners, made.graph.outputs, compare.unpack_all(made.graph, run)[-1], strict=True):
            assert (difference := compare.difference(wanted[name], array)) is None, f"{owner}: {difference}"


def samples_of(graph: Graph, chosen: Sequence[Case]) -> list[list[np.ndarray]]:
    """Return the inputs of a network of these cases; if it has inputs `indices`, also some with indices out of range."""
    samples = [[x for case in chosen for x in case.inputs[i]] for i in range(len(chosen[0].inputs))]
    if any(name.endswith(".indices") for name in graph.inputs):
        outside = [np.where(x == 0, -2, 1000).astype(x.dtype) for x in samples[0]]
        pairs = zip(graph.inputs, samples[0], outside, strict=True)
        samples.append([new if name.endswith(".indices") else x for name, x, new in pairs])
    return samples


def written_between_buffers(made: Plan, run: Inference) -> np.ndarray:
    """Return the offsets of the arena's bytes that a run has changed although no buffer contains them."""
    (region,), (image,) = run.regions, run.images
    before = noise(region.size, run.fill, 0)
    old, new = (np.frombuffer(each, np.uint8)[region.base : region.end] for each in (before, image))
    changed = old != new
    for name, offset in made.offsets.items():
        changed[offset : offset + made.buffer(name).bytes] = False
    return np.flatnonzero(changed)


def test_every_kernel_has_an_emitter() -> None:
    assert set(EMITTERS) == {row.params for row in VARIANTS}
    assert {kind for row in VARIANTS for kind in row.kinds} == set(ops.SPECS) - FOLDED


def test_every_kernel_is_run_by_a_case() -> None:
    for row in (row for row in VARIANTS if row.name not in NOT_RUN):
        case = next(cases_of(row, compilable), None)
        assert case is not None, f"no case is run by {row.name}"
        kind, _, _ = case.id.partition("-")
        assert (kind, core_of(row), flag_of(row)) in KINDS, f"nothing runs {case.id} with {row.name}"
