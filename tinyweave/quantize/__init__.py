"""Post-training quantisation: a float graph and samples in, an int8 graph out, and what it lost.

`prepare` simplifies the graph, `calibrate` chooses scales, `convert` writes integers, `ptq` joins them and compares; `rules`
says what each op kind demands. The package has the name of a verb and can be called: `tinyweave.quantize(model, samples)`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """The package as the function of its name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call `tinyweave.verbs.quantize`."""
        return import_module("tinyweave.verbs").quantize(*args, **options)


sys.modules[__name__].__class__ = _Verb
