"""Fit neural networks into microcontrollers: plan the memory, write plain C, prove every byte.

    import tinyweave as tw

    model = tw.load("kws.tflite")
    plan = tw.plan(model, "stm32f412", max_mac_overhead=1.1)
    done = tw.deploy(model, "stm32f412", out="firmware/kws")

Each command has a function of the same name, except `docs`. Functions take a model or the path of its file, a device or its
name (see `tinyweave.devices.all_devices()`), and the fields of PlanOptions as keyword arguments.
"""

from .lazy import attributes

TYPE_CHECKING = False  # importing typing takes 5 ms, during which signals are not handled yet
if TYPE_CHECKING:
    from tinylesson.server import explore
    from tinynas.verbs import search, train

    from . import devices
    from .api import (
        Deployment,
        Fit,
        Inspection,
        Model,
        Outputs,
        PlanOptions,
        Profile,
        Quantisation,
        Reordering,
        compare,
        compile,
        convert_qat,
        export,
        guard,
        inspect,
        load,
        pareto,
        plan,
        prepare_qat,
        profile,
        quantize,
        reorder,
        run,
        verify,
        weights,
    )
    from .devices import Device
    from .ir import CompileError
    from .planning import Plan
    from .report.deployment import deploy
    from .report.page.merging import report
    from .simulate.compare import Verification
    from .support.toolchain import cache

__version__ = "1.0.0"
__all__ = [
    "CompileError",
    "Deployment",
    "Device",
    "Fit",
    "Inspection",
    "Model",
    "Outputs",
    "Plan",
    "PlanOptions",
    "Profile",
    "Quantisation",
    "Reordering",
    "Verification",
    "cache",
    "compare",
    "compile",
    "convert_qat",
    "deploy",
    "devices",
    "explore",
    "export",
    "guard",
    "inspect",
    "load",
    "pareto",
    "plan",
    "prepare_qat",
    "profile",
    "quantize",
    "reorder",
    "report",
    "run",
    "search",
    "train",
    "verify",
    "weights",
]


def with_python_words(value: object) -> object:
    """Return a public function whose errors name arguments of Python rather than options of the command line."""
    if isinstance(value, type):
        return value
    from .api import python_words

    return python_words.with_python_words(value)


# importing tinyweave imports none of its modules until a name is used
__getattr__ = attributes(__name__, with_python_words)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*__all__, "__version__"])
