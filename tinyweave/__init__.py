"""Fit neural networks into microcontrollers: plan the memory, write plain C, prove every byte.

    import tinyweave as tw

    model = tw.load("kws.tflite")
    plan = tw.plan(model, "stm32f412", max_mac_overhead=1.1)
    done = tw.deploy(model, "firmware/kws", "stm32f412")

There is one function for each command of the command line that returns something, `train` left out; pages are
`tinyweave report` and `tinyweave explore` there. Each takes a model or the path of its file, a device or its name
(`tinyweave.devices.all_devices()` are the known ones), and the fields of PlanOptions as keyword arguments.
"""

from typing import TYPE_CHECKING

from .lazy import attributes

if TYPE_CHECKING:
    from . import devices
    from .devices import Device
    from .ir import CompileError
    from .options import PlanOptions
    from .planning import Plan
    from .results import Deployment, Fit, Model, Profile, Pruning, Quantisation, Reordering
    from .simulate.compare import Verification
    from .verbs import (
        compare,
        compile,
        convert_qat,
        deploy,
        export,
        guard,
        load,
        pareto,
        plan,
        prepare_qat,
        profile,
        prune,
        quantize,
        reorder,
        search,
        verify,
    )

__version__ = "0.1.0"
__all__ = [
    "CompileError",
    "Deployment",
    "Device",
    "Fit",
    "Model",
    "Plan",
    "PlanOptions",
    "Profile",
    "Pruning",
    "Quantisation",
    "Reordering",
    "Verification",
    "compare",
    "compile",
    "convert_qat",
    "deploy",
    "devices",
    "export",
    "guard",
    "load",
    "pareto",
    "plan",
    "prepare_qat",
    "profile",
    "prune",
    "quantize",
    "reorder",
    "search",
    "verify",
]
# importing tinyweave imports nothing of it until a name is used
__getattr__ = attributes(
    __name__,
    {
        "verbs": "compare compile convert_qat deploy export guard load pareto plan prepare_qat profile prune quantize reorder "
        "search verify",
        "results": "Deployment Fit Model Profile Pruning Quantisation Reordering",
        "simulate.compare": "Verification",
        "planning": "Plan",
        "options": "PlanOptions",
        "devices": "Device devices",
        "ir": "CompileError",
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
