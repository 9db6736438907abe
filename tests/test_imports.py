"""Each package imports only the packages that docs/ARCHITECTURE.md allows it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tinyweave

ROOT = Path(tinyweave.__file__).parent
# package -> the other packages that it may import
MAY_IMPORT = {
    "__main__": {"cli"},
    "ir": set(),
    "files": {"ir"},
    "lazy": set(),
    "installing": set(),
    "parent": set(),
    "progress": set(),
    "media": {"files", "installing", "ir"},
    "notebook": set(),
    "ops": {"ir"},
    "tflite_schema": {"ir", "ops"},
    "importers": {"installing", "ir", "ops", "parent", "passes", "quantize", "tflite_schema", "toolchain"},
    "exporters": {"ir", "ops", "tflite_schema"},
    "passes": {"ir", "ops"},
    "quantize": {"files", "ir", "lazy", "media", "ops", "passes", "progress"},
    "devices": {"files", "ir"},
    "kernels": {"ir", "ops"},
    "toolchain": {"installing", "ir"},
    "planning": {"ir", "notebook", "ops", "kernels", "devices", "progress", "toolchain"},
    "papers": {"ir", "ops", "planning"},
    "codegen": {"ir", "ops", "kernels", "planning", "version"},
    "tasks": {"files", "installing", "ir", "media", "progress"},
    "camera": {"ir"},
    "nas": {
        "installing",
        "ir",
        "files",
        "ops",
        "exporters",
        "passes",
        "quantize",
        "devices",
        "kernels",
        "parent",
        "planning",
        "progress",
        "papers",
        "manifest",
        "notebook",
        "api",
        "tasks",
        "toolchain",
    },
    "packages": {"codegen", "command_words", "devices", "ir", "kernels", "planning", "simulate", "version"},
    "simulate": {"installing", "ir", "ops", "kernels", "media", "parent", "planning", "codegen", "toolchain"},
    "report": {
        "command_words",
        "importers",
        "lazy",
        "installing",
        "files",
        "ir",
        "ops",
        "kernels",
        "planning",
        "quantize",
        "papers",
        "codegen",
        "simulate",
        "tasks",
        "tflite_schema",
        "devices",
        "api",
        "nas",
        "version",
    },
    "api": {
        "installing",
        "camera",
        "command_words",
        "lazy",
        "manifest",
        "nas",
        "notebook",
        "tasks",
        "files",
        "ir",
        "ops",
        "importers",
        "exporters",
        "passes",
        "quantize",
        "devices",
        "kernels",
        "planning",
        "progress",
        "papers",
        "packages",
        "codegen",
        "simulate",
        "version",
    },
    "command_words": set(),
    "explorer": {
        "api",
        "devices",
        "exporters",
        "files",
        "installing",
        "ir",
        "nas",
        "ops",
        "papers",
        "parent",
        "planning",
        "report",
    },
    "manifest": {"files", "ir", "version"},
    "cli": {
        "media",
        "lazy",
        "api",
        "codegen",
        "command_words",
        "toolchain",
        "report",
        "devices",
        "explorer",
        "files",
        "ir",
        "manifest",
        "planning",
        "nas",
        "version",
    },
}
HEAVY = set(
    """
    PIL torch onnx starlette uvicorn ray unicorn capstone elftools ai_edge_litert ziglang sklearn threadpoolctl pyarrow
    """.split()
)


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> set[tuple[str, bool]]:
    """Yield (absolute dotted name, whether at module level) of all imports of a file."""
    package = ("tinyweave", *path.relative_to(ROOT).parent.parts)
    tree = ast.parse(path.read_text())
    found: set[tuple[str, bool]] = set()
    for node in ast.walk(tree):
        outermost = node in tree.body
        if isinstance(node, ast.Import):
            found |= {(alias.name, outermost) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join((*base, *(node.module.split(".") if node.module else ())))
            found |= {(f"{prefix}.{alias.name}", outermost) for alias in node.names}
    return found


def imported_package(name: str) -> str:
    part = name.split(".")[1]
    return "version" if part == "__version__" else part


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_design(path: Path) -> None:
    here = package_of(path)
    assert here in MAY_IMPORT, f"{here} is a new package: add what it may import to MAY_IMPORT"
    used = {imported_package(name) for name, _ in imports(path) if name.startswith("tinyweave.")} - {here}
    assert used <= MAY_IMPORT[here], f"{path.name} imports {used - MAY_IMPORT[here]}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_dependencies_are_not_imported_at_module_level(path: Path) -> None:
    heavy = {name.split(".")[0] for name, outermost in imports(path) if outermost} & HEAVY
    is_apart = path.name in WORKERS | ASKED_FOR or path.parent.name == LEARNING
    assert not heavy or is_apart, f"{path.name} imports {heavy} at module level"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_learning_is_not_imported_at_module_level(path: Path) -> None:
    at_once = {name for name, outermost in imports(path) if outermost and f".{LEARNING}." in name}
    assert not at_once or path.parent.name == LEARNING, f"{path.name} imports {at_once} at module level, and so torch"


LEARNING = "learning"  # the folder of modules that use torch
# modules that only run as separate processes
WORKERS: set[str] = {"unicorn_process.py", "disassembly.py", "litert_process.py"}
# modules that are imported only when their feature is used
ASKED_FOR: set[str] = {"qat.py"}


# the packages and modules of the planner: each may import from the lines above its own
PLANNER = (
    ("plan",),
    ("liveness", "check", "picture"),
    ("place",),
    ("alias",),
    ("kernel_choice", "order"),
    ("fuse",),
    ("assemble", "kernels", "memories", "serialize", "explain"),
    ("search",),
    ("request",),
    ("strategies",),
    ("layouts",),
    ("planner",),
    ("ablation", "__init__"),
)


def planner_package(name: str) -> str:
    return name.split(".")[2]


@pytest.mark.parametrize("path", sorted((ROOT / "planning").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_of_the_planner_import_only_earlier_ones(path: Path) -> None:
    here = path.relative_to(ROOT / "planning").parts[0].removesuffix(".py")
    level = next(number for number, names in enumerate(PLANNER) if here in names)
    below = {name for names in PLANNER[:level] for name in names} | {here}
    used = {planner_package(name) for name, _ in imports(path) if name.startswith("tinyweave.planning.")}
    assert used <= below, f"{path.name} imports {used - below}"


# packages that the independent check may import: the plan, the ops and the kernels
CHECK_MAY_IMPORT = {"ir", "ops", "ops.resize", "ops.window", "kernels.table", "kernels.access", "planning.plan"}


def test_the_check_of_plans_is_independent_of_the_planner() -> None:
    paths = (ROOT / "planning" / "check").glob("*.py")
    used = {name.rpartition(".")[0] for path in paths for name, _ in imports(path) if name.startswith("tinyweave.")}
    own = {name for name in used if name.startswith("tinyweave.planning.check")}
    assert used - own == {f"tinyweave.{name}" for name in CHECK_MAY_IMPORT}


@pytest.mark.parametrize("code", ["import tinyweave", "from tinyweave import cli; cli.main(['--help'])"])
def test_import_and_help_load_no_heavy_modules(code: str) -> None:
    """Therefore `import tinyweave` and `tinyweave --help` take less than 20 and 200 ms of CPU time."""
    asked = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert {"numpy", "tflite", "rich.progress", "importlib.metadata"}.isdisjoint(done.stderr.split())


def c_files(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / package).rglob("*") if path.suffix in (".c", ".h"))


def c_includes(path: Path) -> list[Path]:
    """Return the files that a C file includes by a path relative to it."""
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE)
    return [(path.parent / name).resolve() for name in names]


# package -> the packages whose C headers its C may include
MAY_INCLUDE = {"planning": {"planning"}, "nas": {"planning", "nas"}}


@pytest.mark.parametrize("path", [*c_files("planning"), *c_files("nas")], ids=lambda p: str(p.relative_to(ROOT)))
def test_c_includes_headers_of_allowed_packages_alone(path: Path) -> None:
    allowed = MAY_INCLUDE[package_of(path)]
    for included in c_includes(path):
        assert included.is_file(), f"{path.name} includes {included}, which is missing"
        assert included.suffix == ".h", f"{path.name} includes {included.name}: move what it shares to a header"
        assert package_of(included) in allowed, f"{path.name} includes a header of {package_of(included)}"


def test_c_of_kernels_includes_nothing_of_the_planner_or_the_search() -> None:
    headers = {path.name for package in MAY_INCLUDE for path in c_files(package) if path.suffix == ".h"}
    for path in c_files("kernels"):
        assert headers.isdisjoint(re.findall(r'#\s*include\s*[<"](?:.*/)?([^">/]+)', path.read_text())), path.name


def test_no_c_header_includes_itself_through_others() -> None:
    def walk(path: Path, above: tuple[Path, ...]) -> None:
        assert path not in above, " -> ".join(each.name for each in (*above, path))
        for included in c_includes(path):
            walk(included, (*above, path))

    for path in (*c_files("planning"), *c_files("nas")):
        walk(path.resolve(), ())
