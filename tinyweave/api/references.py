"""The samples with which the C of a model is compared, and the reference outputs: those of LiteRT, or of numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..ir import CompileError, Graph
from ..ops.quantization import reference_dequantize
from ..passes import source as tensor_source
from ..passes.edges import as_in_file, as_other_sign
from ..passes.stream_time import silence
from ..planning import Progress
from ..simulate import compare, litert
from .options import SAMPLES, SEED
from .results import Model


@dataclass(frozen=True)
class ProofOptions:
    """The samples with which the C of a model is compared with the reference, as for `verbs.verify`."""

    inputs: Sequence[Sequence[np.ndarray]] = ()
    count: int = SAMPLES
    seed: int = SEED

    def samples(self, model: Model) -> list[list[np.ndarray]]:
        """Return the samples for a model, each with one array per input; see the function `samples`."""
        return samples(model, self.count, self.seed, self.inputs)


USUAL = ProofOptions()


def samples(model: Model, count: int, seed: int, inputs: Sequence[Sequence[np.ndarray]] = ()) -> list[list[np.ndarray]]:
    """Return samples for a comparison, each with one array per network input.

    If the model streams in time, `count` is raised by the number of calls before the first with a full window of frames.

    All `inputs` come first, then as far as `count` allows all minima, all maxima, all zero points, and a random sample. Raise
    CompileError if there would be no sample, the seed is negative, or an array does not fit its input.
    """
    if max(count, len(inputs)) < 1 or seed < 0:
        raise CompileError(
            f"cannot run {count} samples with the seed {seed}", "give at least 1 sample and a seed of at least 0"
        )
    for sample in inputs:
        if len(sample) != (count_of_inputs := len(model.graph.inputs)):
            raise CompileError(f"a sample has {len(sample)} arrays, the model {count_of_inputs} inputs", "give one for each")
    more = model.stream.calls_until_full - 1 if model.stream else 0
    return compare.samples(model.outside, count + more, seed, inputs)


def reference_outputs(
    model: Model, cases: Sequence[Sequence[np.ndarray]], progress: Progress | None = None, *, use_litert: bool = True
) -> compare.Truth:
    """Return the outputs of LiteRT on the imported file, or of the numpy reference if LiteRT cannot run it.

    If LiteRT runs, the result also says how far the numpy reference differs. A model that streams in time is run on the whole
    window of each call; from its outputs, only the rows that the call returns are kept. If `use_litert` is not set, only the
    numpy reference runs.
    """
    litert = _litert(model.whole) if use_litert else None
    whole = model.whole.outside
    windows = model.stream.windows(cases, silence(whole)) if model.stream else cases
    right = compare.truth(whole, windows, litert, progress)
    return replace(right, outputs=[model.stream.new_rows(each) for each in right.outputs]) if model.stream else right


def _litert(model: Model) -> compare.Reference:
    """Return a function that runs the imported file with LiteRT, and takes and returns arrays as the C of `model` does.

    The types and layout of inputs and outputs may differ between file and C, depending on the options `io` and `layout`.
    """

    def run(cases: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        litert.check_kernels(model.original)
        as_filed, outside = model.io != "int8" and model.layout == "model", model.outside
        names = model.graph.inputs
        fed = [[_file_input(model, name, values) for name, values in zip(names, case, strict=True)] for case in cases]
        runs = litert.run(model.file, fed, keep=not as_filed)
        if as_filed:
            return [run.outputs for run in runs]
        homes = [tensor_source(model.tensors, name)[0] for name in model.graph.outputs]
        if hidden := [home for home in homes if home not in runs[0].layers]:
            raise litert.CannotRunError(
                "LiteRT does not return this tensor of the file", "verify with --io model", tensor=hidden[0]
            )
        wanted = [(home, model.graph.tensors[name].dtype) for home, name in zip(homes, model.graph.outputs, strict=True)]
        found = [[as_other_sign(run.layers[home], dtype) for home, dtype in wanted] for run in runs]
        return [[_as_float(outside, name, value) for name, value in zip(outside.outputs, each, strict=True)] for each in found]

    return run


def _as_float(outside: Graph, name: str, values: np.ndarray) -> np.ndarray:
    """Return the values of output `name` of `outside`, dequantised if read_output returns floats of it."""
    if outside.tensors[name].dtype != "float32" or values.dtype == np.float32:
        return values
    (found,) = reference_dequantize(outside, outside.ops[outside.producer[name]], [values])
    return found


def _file_input(model: Model, name: str, values: np.ndarray) -> np.ndarray:
    """Convert values of input `name` to the type and layout of the file's input; raise CannotRunError if none give them."""
    fed = as_in_file(model.original, model.tensors, name, values)
    if fed is None:
        raise litert.CannotRunError(
            "no input of the file corresponds to these int8 values", "verify with --io model", tensor=name
        )
    return fed
