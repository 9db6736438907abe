"""Post-training quantisation, quantisation-aware training and channel pruning of float graphs.

`simplify_float` folds normalisation, `calibrate` chooses scales, `convert` makes the int8 graph, `fidelity` measures its error,
and `ptq` runs all of them. `scale_groups` knows which tensors must share a scale.

The package has the name of a verb and can be called: `tinyweave.quantize(model, samples)`.
"""

from ..lazy import make_callable

make_callable("quantize", "api.verbs")
