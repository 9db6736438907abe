"""Modules that are imported when they are first used, so that a command loads no more than it needs."""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType


def lazy(name: str) -> ModuleType:
    """Return a module of tinyweave by its dotted name in the package; its code runs when something of it is first asked for."""
    full = f"{__package__}.{name}"
    if full in sys.modules:
        return sys.modules[full]
    spec = find_spec(full)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module {full}")
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[full] = module
    spec.loader.exec_module(module)
    return module
