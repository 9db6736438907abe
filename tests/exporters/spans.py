"""Measure the bytes of LiteRT's activations, from the addresses of its tensors."""

from __future__ import annotations

from tinyweave.api.other_engines import ALIGNS, greedy_arena
from tinyweave.ir import Graph


def is_as_foreseen(file: bytes, graph: Graph) -> bool:
    """Return whether LiteRT's activations span the foreseen bytes; the last of them is not padded."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    reader = Interpreter(model_content=file, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    reader.allocate_tensors()
    names = {tensor.name for tensor in graph.tensors.values() if tensor.role == "activation"}
    views = [reader.tensor(each["index"])() for each in reader.get_tensor_details() if each["name"] in names]
    spans = [(view.__array_interface__["data"][0], view.nbytes) for view in views]
    needed = max(at + count for at, count in spans) - min(at for at, _ in spans)
    return 0 <= greedy_arena(graph, "litert") - needed < ALIGNS["litert"]
