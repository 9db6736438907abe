"""Post-training quantisation and quantisation-aware training; the package is also the verb `tinyweave.quantize`."""

from ..lazy import make_callable

make_callable("quantize", "api.verbs")
