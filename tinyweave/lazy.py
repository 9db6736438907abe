"""Modules and names that are imported when they are first used, so that a command loads no more than it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType
from typing import Any


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
    parent, _, child = full.rpartition(".")
    setattr(sys.modules[parent], child, module)  # as an import does
    return module


def attributes(package: str, rooms: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which imports a name when it is first used.

    rooms: module of the package -> the names that it has, with spaces between them; its own name is the module itself.
    """
    home = {name: room for room, names in rooms.items() for name in names.split()}

    def imported(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"{package} has no '{name}'; it has {', '.join(sorted(home))}")
        module = import_module(f"{package}.{home[name]}")
        value = module if name == home[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return imported
