"""Post-training quantisation, quantisation-aware training and channel pruning of float graphs.

The package has the name of a verb and can be called: `tinyweave.quantize(model, samples)`. `ptq` runs all steps.
"""

from ..lazy import make_callable

make_callable("quantize", "api.verbs")
