"""Fit neural networks into microcontrollers: plan the memory, write plain C, prove every byte.

    import tinyweave as tw

    model = tw.load("kws.tflite")
    plan = tw.plan(model, "stm32f412", max_mac_overhead=1.1)
    done = tw.deploy(model, "stm32f412", folder="firmware/kws")

Each command has a function of the same name, except `train`, `inspect`, `report`, `explore`, `cache` and `docs`. Functions take
a model or the path of its file, a device or its name (see `tinyweave.devices.all_devices()`), and the fields of PlanOptions as
keyword arguments.
"""

from .lazy import attributes

TYPE_CHECKING = False  # importing typing takes 5 ms, during which signals are not handled yet
if TYPE_CHECKING:
    from . import devices
    from .api import (
        Deployment,
        Fit,
        Model,
        PlanOptions,
        Profile,
        Pruning,
        Quantisation,
        Reordering,
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
    from .devices import Device
    from .ir import CompileError
    from .planning import Plan
    from .simulate.compare import Verification

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
# importing tinyweave imports none of its modules until a name is used
__getattr__ = attributes(
    __name__,
    {
        "api": "Deployment Fit Model PlanOptions Profile Pruning Quantisation Reordering compare compile convert_qat deploy "
        "export guard load pareto plan prepare_qat profile prune quantize reorder search verify",
        "simulate.compare": "Verification",
        "planning": "Plan",
        "devices": "Device devices",
        "ir": "CompileError",
    },
)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*__all__, "__version__"])
