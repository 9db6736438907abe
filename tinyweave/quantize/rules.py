"""How each op kind becomes int8: `RULES`, one row per kind, and the tensors that must share a scale because of them.

In: a float graph. Out: its scale groups. A kind without a row cannot be quantised; nothing stays float in silence.
Source: TFLite's 8-bit quantization specification.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ir import CompileError, Graph, Op, Quant, Tensor


@dataclass(frozen=True)
class QuantRule:
    """One op kind. Float inputs and outputs become int8, each with a scale and zero point of its own unless said otherwise.

    tied: they all share one scale and zero point. fixed: what every output has. weights: the axis of input 1 that the output
    channels lie along; it is symmetric with a scale per channel, and its bias, input `bias`, is int32 with the scale of the
    data times that. recurrent: an LSTM: its hidden state has the scale of its output, its cell state is int16 with a power of
    two, each gate's weights have one scale.
    """

    tied: bool = False
    fixed: Quant | None = None
    weights: int | None = None
    bias: int = 2
    recurrent: bool = False


PROBABILITY = Quant((1 / 256,), (-128,))
TIED = """average_pool_2d batch_to_space_nd broadcast_to concatenation depth_to_space expand_dims gather gather_nd
max_pool_2d maximum minimum mirror_pad pack pad padv2 reduce_max reduce_min reshape resize_bilinear
resize_nearest_neighbor slice space_to_batch_nd space_to_depth split split_v squeeze strided_slice tile transpose
unpack""".split()
FREE = """add arg_max batch_matmul elu gelu hard_swish leaky_relu mean mul prelu relu relu6 relu_n1_to_1 rsqrt shape
squared_difference sub""".split()
RULES: dict[str, QuantRule] = {
    **dict.fromkeys(FREE, QuantRule()),
    **dict.fromkeys(TIED, QuantRule(tied=True)),
    "conv_2d": QuantRule(weights=0),
    "depthwise_conv_2d": QuantRule(weights=3),
    "fully_connected": QuantRule(weights=0),
    "log_softmax": QuantRule(fixed=Quant((16 / 256,), (127,))),
    "logistic": QuantRule(fixed=PROBABILITY),
    "softmax": QuantRule(fixed=PROBABILITY),
    "tanh": QuantRule(fixed=Quant((1 / 128,), (0,))),
    "transpose_conv": QuantRule(weights=0, bias=3),
    "unidirectional_sequence_lstm": QuantRule(recurrent=True),
}
# scales that the arithmetic of a kind, or of a fused activation, can bear, by the constraints in `ops`, with some room
LEAST_SCALE = 2.0**-39
LEAST_SCALES = {"hard_swish": 2.0**-21, "relu6": 2.0**-26, "relu_n1_to_1": 2.0**-29}
LEAST_SCALES |= dict.fromkeys(("softmax", "log_softmax"), 2.0**-24)


@dataclass(frozen=True)
class Groups:
    """Which tensors share a scale and zero point.

    of: tensor -> its group, which has the name of one of its tensors. fixed: groups whose scale is given. requantised:
    (op, input) -> the name of a tensor of another group that holds this input for the op: two given scales cannot be tied.
    cells: the int16 tensors, cell states of LSTMs.
    """

    of: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, Quant] = field(default_factory=dict)
    requantised: dict[tuple[str, int], str] = field(default_factory=dict)
    cells: set[str] = field(default_factory=set)

    def members(self) -> dict[str, list[str]]:
        """Group -> its tensors."""
        members: dict[str, list[str]] = {}
        for name in self.of:
            members.setdefault(self.group(name), []).append(name)
        return members

    def group(self, name: str) -> str:
        while self.of[name] != name:
            name = self.of[name]
        return name


def is_number(tensor: Tensor | None) -> bool:
    """Return whether a tensor holds real numbers, which are to be quantised."""
    return tensor is not None and tensor.dtype == "float32"


def check_rules(graph: Graph) -> None:
    """Raise one CompileError that names all ops without a rule, and all tensors that are state."""
    lacking = [op for op in graph.ops if op.kind not in RULES or (_has_state(graph, op) and not RULES[op.kind].recurrent)]
    kept = {name for op in graph.ops if op.kind in RULES and RULES[op.kind].recurrent for name in op.outputs[1:]}
    lacking += [op for op in graph.init if not kept.issuperset(op.outputs)]
    if lacking:
        told = ", ".join(f"{kind} ({count})" for kind, count in Counter(op.kind for op in lacking).most_common())
        raise CompileError(
            f"{len(lacking)} ops cannot be quantised: {told}; the first is {lacking[0].name}",
            f"kinds that can: {', '.join(sorted(RULES))}",
        )
    if not any(is_number(tensor) for tensor in graph.tensors.values() if tensor.data is None):
        raise CompileError("the model has no float32 tensors", "it is quantised already: plan, compile and verify take it")


def _has_state(graph: Graph, op: Op) -> bool:
    return any(t is not None and t.role == "state" for t in (*graph.inputs_of(op), *graph.outputs_of(op)))


def groups(graph: Graph) -> Groups:
    """Return which activations must share a scale, by the rules of the ops in their order."""
    found = Groups({name: name for name in graph.inputs if is_number(graph.tensors[name])})
    for op in graph.ops:
        rule = RULES[op.kind]
        outputs = [t.name for t in graph.outputs_of(op) if is_number(t)]
        found.of.update((name, name) for name in outputs)
        if rule.fixed is not None:
            found.fixed.update((name, rule.fixed) for name in outputs)
        if rule.tied and outputs:
            _tie(found, op, list(data_inputs(graph, op)), outputs)
        if rule.recurrent:
            out, hidden, cell = outputs
            found.of[hidden] = found.group(out)
            found.cells.add(cell)
    return found


def _tie(found: Groups, op: Op, inputs: list[tuple[int, str]], outputs: list[str]) -> None:
    """Join the outputs of a tied op with its inputs; inputs of given scales are requantised, unless all have the same."""
    given = {found.fixed.get(found.group(name)) for _, name in inputs}
    tied = list(outputs)
    for index, name in inputs:
        if len(given) > 1 and found.group(name) in found.fixed:
            name = found.requantised[op.name, index] = f"{name}.for_{op.name}_{index}"  # one may be read twice
            found.of[name] = name
        tied.append(name)
    quant = next(iter(given)) if len(given) == 1 else None
    root = found.group(tied[0])
    for name in tied[1:]:
        found.of[found.group(name)] = root
    for name in [name for name in found.fixed if found.group(name) == root]:
        del found.fixed[name]
    if quant is not None:
        found.fixed[root] = quant


def least_scales(graph: Graph, found: Groups) -> dict[str, float]:
    """Group -> the least scale that the ops on its tensors can bear."""
    least: dict[str, float] = dict.fromkeys(found.members(), LEAST_SCALE)
    for op in graph.ops:
        wanted = max(LEAST_SCALES.get(kind, LEAST_SCALE) for kind in (op.kind, op.attrs.get("activation", "none")))
        for name in (*op.inputs, *op.outputs):
            if name in found.of:
                least[found.group(name)] = max(least[found.group(name)], wanted)
    return least


def data_inputs(graph: Graph, op: Op) -> Iterator[tuple[int, str]]:
    """Yield (position, name) of the inputs of an op that are activations to be quantised."""
    for index, tensor in enumerate(graph.inputs_of(op)):
        if tensor is not None and is_number(tensor) and tensor.data is None:
            yield index, tensor.name
