"""Who may import whom, as the design says it, read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tinyweave

ROOT = Path(tinyweave.__file__).parent
# room -> the rooms that it may import from, besides itself
MAY_IMPORT = {
    "__main__": {"cli"},
    "ir": set(),
    "files": {"ir"},
    "lazy": set(),
    "progress": set(),
    "media": {"files", "ir"},
    "notebook": set(),
    "ops": {"ir"},
    "tflite_schema": {"ir", "ops"},
    "importers": {"ir", "ops", "passes", "quantize", "tflite_schema"},
    "exporters": {"ir", "ops", "tflite_schema"},
    "passes": {"ir", "ops"},
    "quantize": {"files", "ir", "media", "ops", "passes", "progress"},
    "devices": {"files", "ir"},
    "kernels": {"ir", "ops"},
    "toolchain": {"ir"},
    "planning": {"ir", "notebook", "ops", "kernels", "devices", "progress", "toolchain"},
    "papers": {"ir", "ops", "planning"},
    "codegen": {"ir", "ops", "kernels", "planning", "version"},
    "tasks": {"files", "ir", "media", "progress"},
    "camera": {"ir"},
    "nas": {
        "ir",
        "files",
        "ops",
        "exporters",
        "passes",
        "quantize",
        "devices",
        "kernels",
        "planning",
        "progress",
        "papers",
        "results",
        "manifest",
        "api",
        "tasks",
        "toolchain",
    },
    "packages": {"codegen", "devices", "ir", "planning", "simulate", "version"},
    "simulate": {"ir", "ops", "kernels", "planning", "codegen", "toolchain"},
    "report": {
        "files",
        "guarding",
        "ir",
        "ops",
        "kernels",
        "planning",
        "papers",
        "codegen",
        "simulate",
        "devices",
        "api",
        "results",
        "nas",
        "version",
    },
    "results": {"ir", "notebook", "kernels", "devices", "passes", "planning", "quantize", "simulate"},
    "api": {
        "camera",
        "lazy",
        "results",
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
    "options": set(),
    "explorer": {"api", "devices", "files", "ir", "nas", "papers", "report", "results"},
    "guarding": {"api", "devices", "files", "ir", "options", "planning", "progress", "results", "version"},
    "verbs": {
        "api",
        "devices",
        "files",
        "guarding",
        "ir",
        "manifest",
        "nas",
        "options",
        "planning",
        "results",
        "simulate",
        "tasks",
    },
    "manifest": {"files", "ir", "version"},
    "cli": {
        "media",
        "lazy",
        "api",
        "codegen",
        "results",
        "toolchain",
        "report",
        "devices",
        "explorer",
        "files",
        "guarding",
        "ir",
        "manifest",
        "options",
        "planning",
        "nas",
        "version",
    },
}
HEAVY = {"PIL", "torch", "onnx", "starlette", "uvicorn", "ray", "unicorn", "capstone", "elftools", "ai_edge_litert", "ziglang"}


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> set[tuple[str, bool]]:
    """(absolute dotted name, at module level) of everything that a file imports."""
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


def room_of(name: str) -> str:
    part = name.split(".")[1]
    return "version" if part == "__version__" else part


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_design(path: Path) -> None:
    here = room(path)
    assert here in MAY_IMPORT, f"{here} is a new room: say here what it may import"
    used = {room_of(name) for name, _ in imports(path) if name.startswith("tinyweave.")} - {here}
    assert used <= MAY_IMPORT[here], f"{path.name} imports {used - MAY_IMPORT[here]}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_dependencies_are_imported_where_they_are_used(path: Path) -> None:
    heavy = {name.split(".")[0] for name, outermost in imports(path) if outermost} & HEAVY
    is_apart = path.name in WORKERS | ASKED_FOR or path.parent.name == LEARNING
    assert not heavy or is_apart, f"{path.name} imports {heavy} at module level"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_learning_is_imported_where_it_is_used(path: Path) -> None:
    at_once = {name for name, outermost in imports(path) if outermost and f".{LEARNING}." in name}
    assert not at_once or path.parent.name == LEARNING, f"{path.name} imports {at_once} at module level, and so torch"


LEARNING = "learning"  # the folder of what torch is for
# modules that only ever run as processes of their own
WORKERS: set[str] = {"unicorn_process.py", "disassembly.py", "litert_process.py"}
# modules that are imported only where what they are for is asked for
ASKED_FOR: set[str] = {"qat.py"}


# the rooms of the planner, from those that know nothing of others up: each may import from the rooms of the lines above its own
PLANNER = (
    ("plan",),
    ("liveness", "check", "picture"),
    ("place",),
    ("alias",),
    ("kernel_choice", "order"),
    ("fuse",),
    ("assemble", "kernels", "memories", "serialize", "explain"),
    ("trade",),
    ("schedules",),
    ("planner",),
    ("ablation", "__init__"),
)


def room_of_the_planner(name: str) -> str:
    return name.split(".")[2]


@pytest.mark.parametrize("path", sorted((ROOT / "planning").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_room_of_the_planner_imports_upward(path: Path) -> None:
    here = path.relative_to(ROOT / "planning").parts[0].removesuffix(".py")
    level = next(number for number, rooms in enumerate(PLANNER) if here in rooms)
    below = {room for rooms in PLANNER[:level] for room in rooms} | {here}
    used = {room_of_the_planner(name) for name, _ in imports(path) if name.startswith("tinyweave.planning.")}
    assert used <= below, f"{path.name} imports {used - below}"


# what an independent check may know: what a plan is, and what the ops and the kernels do
CHECK_MAY_IMPORT = {"ir", "ops", "ops.resize", "ops.window", "kernels.table", "kernels.access", "planning.plan"}


def test_the_check_of_plans_imports_no_module_of_the_planner() -> None:
    paths = (ROOT / "planning" / "check").glob("*.py")
    used = {name.rpartition(".")[0] for path in paths for name, _ in imports(path) if name.startswith("tinyweave.")}
    own = {name for name in used if name.startswith("tinyweave.planning.check")}
    assert used - own == {f"tinyweave.{name}" for name in CHECK_MAY_IMPORT}


@pytest.mark.parametrize("code", ["import tinyweave", "from tinyweave import cli; cli.main(['--help'])"])
def test_what_starts_quickly_loads_nothing_heavy(code: str) -> None:
    """`import tinyweave` and `tinyweave --help` stay below 20 and 200 ms of CPU because of this."""
    asked = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert {"numpy", "tflite", "rich.progress", "importlib.metadata"}.isdisjoint(done.stderr.split())
