"""Import modules and names on first use, so that a command loads only what it needs."""

import sys

TYPE_CHECKING = False  # as in typing; other imports take 20 ms, during which `__main__` does not handle signals yet
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def lazy(name: str) -> "ModuleType":
    """Return the module `name`, such as "tinyweave.planning.check", without running it yet.

    Its code runs when an attribute of the module is first used.
    """
    from importlib.util import LazyLoader, find_spec, module_from_spec

    if name in sys.modules:
        return sys.modules[name]
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module {name}")
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)  # an import statement does this, too
    return module


def make_callable(package: str, home: str) -> None:
    """Make tinyweave's package `package` callable: a call runs the function of the same name in tinyweave's module `home`.

    This is needed because importing a package, such as `tinyweave.quantize`, hides the function of the same name.
    """
    from importlib import import_module
    from types import ModuleType

    class CallablePackage(ModuleType):
        def __call__(self, *args: "Any", **options: "Any") -> "Any":
            """Call the function that has the package's name, with the same arguments."""
            named: Any = import_module(__package__)
            return named.with_python_words(getattr(import_module(f"{__package__}.{home}"), package))(*args, **options)

    sys.modules[f"{__package__}.{package}"].__class__ = CallablePackage


def attributes(package: str, wrapped: "Callable[[Any], Any]" = lambda value: value) -> "Callable[[str], Any]":
    """Return a `__getattr__` for a package, which imports a name when it is first used.

    The names are those that the package's source imports in its block `if TYPE_CHECKING:`, so type checkers see the same names.

    Args:
        wrapped: converts each value that is imported, except modules.
    """
    home = dict[str, tuple[str, str]]()  # name -> (module as in an import statement, name there)

    def imported(name: str) -> "Any":
        from importlib import import_module

        home.update(home or checked_imports(package))
        if name not in home:
            raise AttributeError(f"{package} has no '{name}'; it has {', '.join(sorted(home))}")
        module, own = home[name]
        there = import_module(f".{own}" if module == "." else module, package)
        # a callable package, such as tinyweave.report, stands for its function
        value = sys.modules.get(f"{package}.{name}") or wrapped(getattr(there, own))
        setattr(sys.modules[package], name, value)
        return value

    return imported


def checked_imports(module: str) -> "dict[str, tuple[str, str]]":
    """Return the imports in the block `if TYPE_CHECKING:` of a module's source: name -> (module, name there)."""
    import ast

    with open(str(sys.modules[module].__file__), encoding="utf-8") as source:
        tree = ast.parse(source.read())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    found = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    named = [("." * each.level + (each.module or ""), alias) for each in found for alias in each.names]
    return {alias.asname or alias.name: (where, alias.name) for where, alias in named}
