"""Scale groups: sets of activations of a float graph that must share a scale and zero point once they are int8.

`OpSpec.scale` is the rule of each op kind. An op of a kind without a rule cannot be quantised and is refused. Source: TFLite's
8-bit quantization specification.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Quant, Tensor, limits
from ..ops import SPECS, spec_of
from ..ops.recurrent import sequence
from ..ops.spec import LEAST_SCALE


@dataclass(frozen=True)
class ScaleGroups:
    """The scale groups of a graph, each named after one of its tensors.

    If an op cannot share the scale or the type of an input, it reads a copy: `requantised` maps (op, input index) to its name.
    """

    parent: dict[str, str] = field(default_factory=dict)  # union-find: tensor -> tensor of the same group, or itself
    fixed: dict[str, Quant] = field(default_factory=dict)  # group -> the scale that its op demands, such as 1/256 of softmax
    # (op, input index) -> a new tensor, which the op reads instead: a copy of the input with another scale or type
    requantised: dict[tuple[str, int], str] = field(default_factory=dict)
    cells: set[str] = field(default_factory=set)  # cell states of LSTMs, which are int16
    narrowed: dict[str, str] = field(default_factory=dict)  # int8 copy of a cell state -> the cell state

    def members(self) -> dict[str, list[str]]:
        """Return a dict from the name of each group to the names of its tensors."""
        members: dict[str, list[str]] = {}
        for name in self.parent:
            members.setdefault(self.group(name), []).append(name)
        return members

    def group(self, name: str) -> str:
        """Return the name of the group that a tensor belongs to."""
        while self.parent[name] != name:
            name = self.parent[name]
        return name

    def dtype(self, name: str) -> str:
        """Return the type of a quantised tensor: int16 for cell states of LSTMs and tensors that share a scale with them."""
        is_cell = name in self.parent and self.group(name) in map(self.group, self.cells)
        return "int16" if is_cell else "int8"


def is_float(tensor: Tensor | None) -> bool:
    """Return whether a tensor is float32; None, an absent input, is not."""
    return tensor is not None and tensor.dtype == "float32"


def check_quantisable(graph: Graph) -> None:
    """Raise one CompileError for all ops without a quantised form, for a state, or if no op computes on float32."""
    computing = [op for op in graph.ops if spec_of(op).family != "conversion"]
    if not any(is_float(t) and t.data is None for op in computing for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t):
        raise CompileError(
            "no layer of the model computes on float32",
            "it is quantised already: use plan, compile or verify; quantize needs the float model it was made from",
        )
    keeping = [op for op in graph.ops if spec_of(op).scale and spec_of(op).family in ("recurrent", "state")]
    refused = [op for op in graph.ops if not spec_of(op).scale or (_has_state(graph, op) and op not in keeping)]
    states = {t.name for op in keeping for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t and t.role == "state"}
    refused += [op for op in graph.init if not states.issuperset(op.outputs)]
    if refused:
        counts = ", ".join(f"{kind} ({count})" for kind, count in Counter(op.kind for op in refused).most_common())
        raise CompileError(
            f"{len(refused)} ops cannot be quantised: {counts}; the first is {refused[0].name}",
            f"kinds that can: {', '.join(sorted(kind for kind, spec in SPECS.items() if spec.scale))}",
        )


def output_quant(graph: Graph, op: Op) -> Quant | None:
    """Return the Quant that the int8 outputs of an op must have, such as a dequantize's input's, or None for any."""
    if op.kind != "dequantize":
        return SPECS[op.kind].output_quant
    x = graph.input(op)
    return Quant((x.scale,), (x.zero_point - 128 * (x.dtype == "uint8"),))


def _has_state(graph: Graph, op: Op) -> bool:
    return any(t is not None and t.role == "state" for t in (*graph.inputs_of(op), *graph.outputs_of(op)))


def scale_groups(graph: Graph) -> ScaleGroups:
    """Return the scale groups of a graph, as small as the ops allow; a max pool's input and output share a scale."""
    read = [op.inputs[0] or "" for op in graph.ops if op.kind == "read_variable"]
    groups = ScaleGroups({name: name for name in (*graph.inputs, *read) if is_float(graph.tensors[name])})
    groups.cells.update(cell_states(graph))
    for op in graph.ops:
        spec, inputs = SPECS[op.kind], _copied_cells(graph, op, groups)
        outputs = [t.name for t in graph.outputs_of(op) if is_float(t)]
        groups.parent.update((name, name) for name in outputs if name not in groups.parent)
        if (quant := output_quant(graph, op)) is not None:
            groups.fixed.update((name, quant) for name in outputs)
        if spec.shares_scale and outputs:
            constants = [t.data for t in graph.inputs_of(op) if is_float(t) and t is not None and t.data is not None]
            _tie(groups, op, list(inputs.items()), outputs, constants)
        if spec.family == "recurrent":
            out, hidden, cell = outputs
            groups.parent[hidden] = groups.group(out)
            groups.cells.add(cell)
        if spec.family == "sequence":
            for index, output in zip((sequence.STATE, sequence.CELL), outputs, strict=False):
                _tie(groups, op, [(index, inputs[index])] if index in inputs else [], [output])
    return groups


def cell_states(graph: Graph) -> set[str]:
    """Return the names of the int16 tensors: cell states of stateless LSTMs, and inputs and moves that hold only these."""
    cells = {op.outputs[1] for op in graph.ops if _has_cell(op)}
    feeding = set[str]()  # tensors that nothing but LSTMs read, as cell states
    for name in reversed([*graph.inputs, *(name for op in graph.ops for name in op.outputs)]):
        readers = [graph.ops[index] for index in graph.consumers.get(name, ()) if index >= 0]
        if readers and name not in graph.outputs and all(_feeds(op, name, feeding) for op in readers):
            feeding.add(name)
    cells.update(feeding.intersection(graph.inputs))
    for op in graph.ops:
        floats = {tensor.name for tensor in graph.inputs_of(op) if tensor is not None and is_float(tensor)}
        if SPECS[op.kind].moves and floats and floats <= cells:
            cells.update(op.outputs)
    return cells


def _feeds(op: Op, name: str, feeding: set[str]) -> bool:
    """Return whether an op reads the tensor `name` as a cell state, or moves it into tensors of the set `feeding`."""
    if _has_cell(op):
        return [index for index, read in enumerate(op.inputs) if read == name] == [sequence.CELL]
    return SPECS[op.kind].moves and feeding.issuperset(op.outputs)


def _has_cell(op: Op) -> bool:
    return SPECS[op.kind].family == "sequence" and sequence.has_cell(op)


def _copied_cells(graph: Graph, op: Op, groups: ScaleGroups) -> dict[int, str]:
    """Return input index -> name of each float activation that an op reads, with int16 (cell state) or int8 copies if needed.

    The copies are added to `groups`.
    """
    inputs = dict(float_inputs(graph, op))
    for index, name in inputs.items():
        is_wide = index == sequence.CELL if _has_cell(op) else op.outputs[0] in groups.cells
        if is_wide == (name in groups.cells):
            continue
        inputs[index] = copy = groups.requantised[op.name, index] = f"{name}.for_{op.name}_{index}"
        groups.parent[copy] = copy
        if is_wide:
            groups.cells.add(copy)
        else:
            groups.narrowed[copy] = name
    return inputs


def _tie(
    groups: ScaleGroups, op: Op, inputs: list[tuple[int, str]], outputs: list[str], constants: Sequence[NDArray[Any]] = ()
) -> None:
    """Put the float inputs, (index, name) each, and the outputs of an op into one scale group.

    If the inputs' fixed scales differ, are given for some only, or cannot represent `constants`, requantised copies join
    instead.
    """
    scales = {groups.fixed.get(groups.group(name)) for _, name in inputs}
    if any(quant is not None and _clips(quant, values) for quant in scales for values in constants):
        scales.add(None)
    tied = list(outputs)
    for index, name in inputs:
        if len(scales) > 1 and groups.group(name) in groups.fixed:
            name = groups.requantised[op.name, index] = f"{name}.for_{op.name}_{index}"  # an op may read a tensor twice
            groups.parent[name] = name
        tied.append(name)
    quant = next(iter(scales)) if len(scales) == 1 else None
    root = groups.group(tied[0])
    for name in tied[1:]:
        groups.parent[groups.group(name)] = root
    for name in [name for name in groups.fixed if groups.group(name) == root]:
        del groups.fixed[name]
    if quant is not None:
        groups.fixed[root] = quant


def _clips(quant: Quant, values: NDArray[Any]) -> bool:
    """Return whether a finite value is more than one step beyond the int8 range of a fixed scale."""
    steps = values[np.isfinite(values)] / quant.scale[0] + quant.zero_point[0]
    least, most = limits("int8")
    return bool(((steps < least - 1) | (steps > most + 1)).any())


def least_scales(graph: Graph, groups: ScaleGroups) -> dict[str, float]:
    """Return group name -> the smallest scale that the kernels of all ops on the group's tensors support."""
    least: dict[str, float] = dict.fromkeys(groups.members(), LEAST_SCALE)
    for op in graph.ops:
        activation = SPECS.get(op.attrs.get("activation", "none"))
        needed = max(SPECS[op.kind].least_scale, activation.least_scale if activation else 0.0)
        for name in (*op.inputs, *op.outputs):
            if name in groups.parent:
                least[groups.group(name)] = max(least[groups.group(name)], needed)
    return least


def float_inputs(graph: Graph, op: Op) -> Iterator[tuple[int, str]]:
    """Yield (input index, tensor name) for each float activation that an op reads."""
    for index, tensor in enumerate(graph.inputs_of(op)):
        if tensor is not None and is_float(tensor) and tensor.data is None:
            yield index, tensor.name
