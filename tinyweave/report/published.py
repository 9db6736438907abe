"""Find RAM and time figures that others published for the same network.

In: an imported graph. Out: the entries of published.json whose network has the same layers: kinds, types and shapes in the same
order, regardless of names and weights.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from ..ir import Graph

FIGURES = Path(__file__).with_name("published.json")


def published(graph: Graph) -> list[dict[str, Any]]:
    """Return the published figures for a network with these layers.

    Each has the tool, RAM in bytes, instructions and cycles by core, a note and the source. The list is empty if there are
    none.
    """
    return list(_figures().get(fingerprint(graph), {"figures": []})["figures"])


def fingerprint(graph: Graph) -> str:
    """Return a digest of the kinds, types and shapes of a graph's layers, in order; equal digests mean equal architectures."""
    layers = [
        (op.kind, [(graph.tensors[name].dtype, graph.tensors[name].shape) for name in (*op.inputs, *op.outputs) if name])
        for op in graph.ops
    ]
    return hashlib.sha256(repr(layers).encode()).hexdigest()[:16]


@cache
def _figures() -> dict[str, Any]:
    """Return published.json: fingerprint of a network -> its figures."""
    return dict(json.loads(FIGURES.read_text()))
