"""Which model, or which front end, needs each row of the kernel table, and what is its gain?

In: a folder of .tflite files (--models). Out: a table of all rows as Markdown; --write writes it to docs/KERNELS.md. A gain is
the number of times more cycles that the whole network takes, unfused, if the next kernel with fitted cycles runs the row's ops:
the largest of all models and cores. Cycles are estimates. Rows that no model chooses are measured on layers of fit_cycles.py,
and on int4 weights. Rows that the planner uses to save RAM or Flash have these bytes instead of a gain.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from fit_cycles import matrices, recurrent, shapes, wide

from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError, Graph, Op, Tensor
from tinyweave.kernels.layer_cycles import cost_model_core, layer_cycles
from tinyweave.kernels.table import ASKED_FOR, BY_NAME, VARIANTS, code_bytes, foreign, misfit, variant_for
from tinyweave.kernels.variant import Variant
from tinyweave.ops import SPECS, spec_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "KERNELS.md"
CORES = ("cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "rv32imc")
WAITING = "stm32l476"  # whose Flash waits: kernels that copy their weights pay
HEADER = """# Kernels

`bench/kernel_users.py --write` generates this page. Each row of `tinyweave/kernels/rows/` has a user: a public model, or a
front end whose networks need it. The gain is how many times more cycles the whole network takes (of front ends: the op) if the
next kernel of the table that has fitted cycles (on a Cortex-M55 often the portable one) runs the row's ops, at most of all
models and cores; for kernels that copy their weights on an STM32L476, whose Flash waits. Rows without a gain are the only
kernel of some ops, or save RAM or Flash.

| kernel | ops | user | gain |
|---|---|---|---:|
"""
Found = tuple[float, str]  # gain, user


def with_int4_weights(graph: Graph) -> Graph:
    """Return the network with int4 weights in steps 16 times as large, and biases with the same scale."""
    tensors = dict(graph.tensors)
    for op in (op for op in graph.ops if spec_of(op).takes_int4_weights):
        weights, bias = graph.input(op, 1), graph.optional_input(op, 2)
        if weights.dtype == "int8":
            tensors[weights.name] = replace(_coarser(weights), dtype="int4")
            tensors |= {bias.name: _coarser(bias)} if bias else {}
    return replace(graph, tensors=tensors)


def _coarser(tensor: Tensor, by: int = 16) -> Tensor:
    assert tensor.quant is not None
    data = None if tensor.data is None else tensor.data // np.array(by, tensor.data.dtype)
    scales, zeros = tuple(scale * by for scale in tensor.quant.scale), tuple(zero // by for zero in tensor.quant.zero_point)
    return replace(tensor, data=data, quant=replace(tensor.quant, scale=scales, zero_point=zeros))


def rivals(graph: Graph, op: Op, core: str) -> Iterator[Variant]:
    """Yield the rows that can run an op on a core, in the order of the table."""
    yield from (row for row in VARIANTS if not foreign([row.name], core) and not misfit(graph, op, row.name))


def gains(graph: Graph, core: str, *, alone: bool) -> Iterator[tuple[str, float]]:
    """Yield (kernel, gain) of a network on a core; 1 for kernels without a rival. alone: the gain of the op, not the network.

    Kernels that the planner must ask for are compared with the usual kernel, where they are faster.
    """
    model, waits = cost_model_core(core), api.limits_of(find(WAITING)).reads
    saved, total = dict[str, float](), {None: 0.0, waits: 0.0}
    for op in (op for op in graph.ops if not SPECS[op.kind].view):
        rows, usual = list(rivals(graph, op, core)), variant_for(graph, op, core)
        total = {reads: sum_ + (layer_cycles(graph, op, usual.name, model, reads=reads) or 0) for reads, sum_ in total.items()}
        for row in rows:
            if row is not usual and not (row.flash_heavy or row.copying):
                continue
            later = (r for r in rows[rows.index(row) + 1 :] if not any(getattr(r, flag) for flag in ASKED_FOR))
            reads = waits if row.copying else None
            cycles = {each.name: layer_cycles(graph, op, each.name, model, reads=reads) or 0.0 for each in rows}
            slower = usual if row is not usual else next((r for r in later if timed(r) != timed(row) and cycles[r.name]), row)
            own, other = cycles[row.name], cycles[slower.name]
            more = other - own if own and other and (row is usual or other > own) else 0.0
            known = saved.get(row.name, 0.0)
            saved[row.name] = max(known, more / own if own else 0.0) if alone else known + more
    for name, more in saved.items():
        whole = total[waits if BY_NAME[name].copying else None]
        yield name, 1 + (more if alone else more / whole if whole else 0.0)


def timed(row: Variant) -> str:
    """Return the kernel whose fitted constants estimate the cycles of a row."""
    return row.timed_as or row.name


def networks(models: Path) -> Iterator[tuple[str, Graph, bool]]:
    """Yield (user, network, whether its ops are measured alone)."""
    for path in sorted(models.glob("*.tflite")):
        try:
            graph = api.load(path, io="int8").graph
            if "float32" not in {tensor.dtype for tensor in graph.tensors.values()}:
                yield path.stem.rpartition("__")[2], graph, False
        except CompileError:
            continue
    keywords = api.load(models / "mlcommons__tiny__kws_ref_model.tflite").graph
    yield "int4 weights (`quantize --flash`)", with_int4_weights(keywords), True
    some = wide()
    yield "int16 activations", replace(some, ops=tuple(op for op in some.ops if some.output(op).dtype == "int16")), True
    yield "recurrent layers of PyTorch and ONNX", recurrent(), True
    yield "attention of PyTorch and ONNX", matrices(), True
    yield "sensor layers of one column", shapes(), True


def found(models: Path) -> dict[str, Found]:
    """Return the largest gain and its user by kernel."""
    best = dict[str, Found]()
    for user, graph, alone in networks(models):
        for core in CORES:
            for name, gain in gains(graph, core, alone=alone):
                known = best.get(name)
                if known is None or (gain > known[0] + 0.005 and not (alone and known[0] > 1.03)):
                    best[name] = gain, user
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--write", action="store_true", help="write docs/KERNELS.md")
    options = parser.parse_args()
    best, lines = found(options.models), list[str]()
    for row in {row.name: row for row in VARIANTS}.values():
        gain, user = best.get(row.name, (1.0, "front ends"))
        text = f"{gain:.2f}" if gain > 1.005 else ""
        if row.lean:
            user, text = "plans with little RAM", "less scratch"
        elif row.compact:
            usual = row.name.removesuffix("_compact")
            user, text = "`--optimize flash`", f"{code_bytes([usual]) - code_bytes([row.name]):,} B of code"
        ops = ", ".join(dict.fromkeys(kind for other in VARIANTS if other.name == row.name for kind in other.kinds))
        ops = ops if len(ops) < 60 else f"{ops[:50].rpartition(', ')[0]}, ..."
        lines.append(f"| `{row.name}` | {ops} | {user} | {text} |")
    print(text := HEADER + "\n".join(lines))
    if options.write:
        PAGE.write_text(text + "\n")


if __name__ == "__main__":
    main()
