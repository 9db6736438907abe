"""Post-training quantisation, quantisation-aware training and channel pruning of float graphs.

`simplify_float` folds normalisation, `calibrate` chooses scales, `convert` makes the int8 graph, `fidelity` measures its error,
and `ptq` runs all of them. `scale_groups` knows which tensors must share a scale.

The package has the name of a verb and can be called: `tinyweave.quantize(model, samples)`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call `tinyweave.api.verbs.quantize` with the same arguments."""
        return import_module("tinyweave.api.verbs").quantize(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
