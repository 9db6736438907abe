"""Graphs of the reordering paper (arXiv 1910.05110), of which only the tensor sizes are known; for ordering only."""

from __future__ import annotations

import json
from pathlib import Path

from tinyweave.ir import Graph, Op, Tensor, verify


def figure_1() -> Graph:
    """Return the paper's example of seven ops."""
    sizes = {"in": 1568, "op1": 3136, "op2": 1568, "op3": 512, "op4": 512, "op5": 256, "op6": 256, "op7": 512}
    reads = {
        "op1": ["in"],
        "op2": ["op1"],
        "op3": ["op2"],
        "op4": ["op1"],
        "op5": ["op3"],
        "op6": ["op4"],
        "op7": ["op5", "op6"],
    }
    tensors = {name: Tensor(name, (size,), "int8") for name, size in sizes.items()}
    ops = tuple(Op(name, "unknown", tuple(inputs), (name,)) for name, inputs in reads.items())
    return verify(Graph("figure_1", tensors, ops, ("in",), ("op7",)))


def from_json(path: Path) -> Graph:
    """Return the graph of a list of ops and tensors, such as the SwiftNet Cell."""
    record = json.loads(path.read_text())
    tensors = {t["name"]: Tensor(t["name"], (t["size"],), "int8") for t in record["tensors"].values() if not t["const"]}
    name = {int(index): t["name"] for index, t in record["tensors"].items()}
    ops = tuple(
        Op(f"op{op['id']}", op["op"].lower(), tuple(name[i] for i in op["inputs"]), (name[op["output"]],))
        for op in record["ops"]
    )
    return verify(Graph(path.stem, tensors, ops, *(tuple(name[i] for i in record[key]) for key in ("inputs", "outputs"))))
