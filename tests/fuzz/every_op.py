"""Growers that add a random case of an op kind, with its odd sizes, scales and attributes, to a network under construction.

tests/cases has the cases of every kind of a Graph, and lowered.py the cases of ops that the importer rewrites. `EVERY_OP` has
the growers of ops that LiteRT runs, and `BEYOND_LITERT` also the growers of all other ops.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from cases.draw import single_op
from cases.ops import GENERATORS, NOT_IN_LITERT

from tinyweave.ir import Graph, Op, Tensor
from tinyweave.ops.extrema import COMPARISONS

from . import lowered
from .formats import FILED, converted, of_bools
from .generate import random_network
from .growers import Growers, anything, integers, reshape_to
from .growth import Growth

SEEDS = 16  # number of different draws of the cases of a kind
MAX_ELEMENTS = 3000
FED = ("int8", "uint8", "int16", "float32", "bool")  # types of inputs that the network can compute


@cache
def graphs(draw: Callable[[np.random.Generator], Iterator[Any]], kind: str, seed: int) -> list[Graph]:
    """Return the graphs of the cases that `draw` yields for a seed, without large maps.

    `kind` is the kind of op if `draw` yields operands instead of a graph.
    """
    found = []
    for _, *drawn in draw(np.random.default_rng(seed)):
        graph = drawn[0] if len(drawn) == 1 else single_op(kind, *drawn)
        maps = [tensor for tensor in graph.tensors.values() if tensor.data is None]
        if all(tensor.elements <= MAX_ELEMENTS for tensor in maps):
            found.append(graph)
    return found


def of_case(draw: Callable[[np.random.Generator], Iterator[Any]], kind: str) -> Callable[[Growth], None]:
    """Return a grower that adds the graph of a random case of `draw`, a generator of cases of the op `kind`.

    The network computes most inputs of the case from its tensors; the others become inputs of the network.
    """

    def grow(g: Growth) -> None:
        graph, before = g.rng.choice(graphs(draw, kind, g.rng.randrange(SEEDS))), list(g.live)
        prefix, fed = f"case_{len(g.ops)}_", dict[str, str]()
        for name in graph.inputs:
            tensor = replace(graph.tensors[name], name=f"{prefix}{name}")
            computed = tensor.dtype in FED and tensor.elements > 0 and tensor.shape and g.rng.random() < 0.8
            fed[name] = shaped(g, tensor) if computed else g.network_input(tensor)
            g.live = list(before)
        names = {name: fed.get(name, f"{prefix}{name}") for name in graph.tensors}
        for name, tensor in graph.tensors.items():
            if name not in fed:
                g.add_tensor(replace(tensor, name=names[name]))

        def renamed(op: Op, number: int | str) -> Op:
            inputs = tuple(None if name is None else names[name] for name in op.inputs)
            return Op(f"{op.kind}_{number}", op.kind, inputs, tuple(names[name] for name in op.outputs), op.attrs)

        g.init += [renamed(op, f"init_{prefix}{at}") for at, op in enumerate(graph.init)]
        for op in graph.ops:
            g.ops.append(renamed(op, len(g.ops)))
        g.live = before + [names[name] for name in graph.outputs if is_int8(graph.tensors[name])]

    return grow


def is_int8(tensor: Tensor) -> bool:
    """Return whether a tensor is int8 with one scale, so that ops of all growers can read it."""
    return tensor.dtype == "int8" and tensor.quant is not None and not tensor.quant.per_channel


def shaped(g: Growth, wanted: Tensor) -> str:
    """Add ops that give a random tensor the shape, type and quantisation of `wanted`, and return the name of the result."""
    x = anything(g)
    is_plain = wanted.dtype in ("uint8", "int16") and wanted.quant is None
    if is_plain or (wanted.dtype == "bool" and x.scale >= 1):  # LiteRT cannot compare tensors of such scales
        return g.network_input(wanted)
    if x.elements != wanted.elements:
        reshape_to(g, x, (x.elements,))
        repeated = g.emit("tile", [g.live[-1], integers(g, [-(-wanted.elements // x.elements)])], {}, x.quant)
        x = g.tensors[g.emit("slice", [repeated, integers(g, [0]), integers(g, [wanted.elements])], {}, x.quant)]
    if x.shape != wanted.shape:
        reshape_to(g, x, wanted.shape)
        x = g.tensors[g.live[-1]]
    if wanted.dtype == "bool":
        middle = g.constant("middle", np.zeros((1,) * len(x.shape), np.int8), x.quant)
        return of_bools(g, g.rng.choice(list(COMPARISONS)), [x.name, middle])
    if wanted.dtype == "int8" and wanted.quant in (None, x.quant):
        return x.name
    if wanted.dtype == "float32":
        return converted(g, x.name, "float32")
    return g.emit("quantize", [x.name], {}, wanted.quant, dtype=wanted.dtype)


def _cases(lacking: bool) -> Growers:
    """Return the growers of all cases whose ops LiteRT runs or, with `lacking`, of all others."""
    found = {f"case of {kind}": draw for kind, draw in GENERATORS.items() if (kind in NOT_IN_LITERT) == lacking}
    found |= {f"rewritten {kind}": draw for kind, draw in (lowered.NUMPY if lacking else lowered.LITERT).items()}
    return {name: (6 if lacking else 0.4, of_case(draw, name.rpartition(" ")[2])) for name, draw in found.items()}


EVERY_OP: Growers = FILED | _cases(lacking=False)
BEYOND_LITERT: Growers = EVERY_OP | _cases(lacking=True)


def network_of_every_op(seed: int, damaged: bool = False) -> Graph:
    """Return the network of a seed. `damaged` is that of `random_network`."""
    growers = BEYOND_LITERT if may_lack_litert(seed) else EVERY_OP
    return random_network(seed, random.Random(seed).randint(6, 30), damaged, growers)


def may_lack_litert(seed: int) -> bool:
    """Return whether the network of a seed may have ops that LiteRT's reference kernels lack: one in four may."""
    return random.Random(seed).random() < 0.25
