"""Each package imports only the packages that docs/ARCHITECTURE.md allows it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tinyweave

ROOT = Path(tinyweave.__file__).parent
DIGITS = ROOT.parent / "examples" / "keywords" / "digits.tflite"
PACKAGES = ("tinyweave", "tinynas", "tinylesson")
# package -> the other packages that it imports; those of tinyweave without its name
MAY_IMPORT = {
    here: set(others.split())
    for here, others in {
        "ir": "",
        "lazy": "",
        "camera": "ir",
        "support": "ir version",
        "ops": "ir",
        "devices": "ir support",
        "kernels": "ir ops",
        "passes": "ir ops",
        "tflite_schema": "ir ops",
        "tinynas.tasks": "ir support",
        "planning": "ir kernels ops support",
        "quantize": "ir lazy ops passes support",
        "exporters": "ir ops tflite_schema",
        "codegen": "ir kernels ops planning support version",
        "simulate": "ir kernels ops planning support",
        "importers": "ir ops passes quantize support tflite_schema",
        "projects": "codegen devices ir kernels planning simulate support version",
        "api": "camera codegen devices exporters importers ir kernels lazy "
        "ops passes planning projects quantize simulate support version",
        "report": "api codegen devices ir kernels lazy ops planning quantize simulate support version",
        "cli": "api devices ir lazy planning report support version",
        "tinynas": "api cli devices exporters ir kernels lazy "
        "ops passes planning quantize report support tinynas.tasks version",
        "__main__": "cli",
        "tinylesson.papers": "ir ops planning tinynas",
        "tinylesson": "api cli devices exporters ir lazy ops planning report support tinylesson.papers tinynas",
    }.items()
}
HEAVY = set(
    """
    PIL torch onnx starlette uvicorn ray unicorn capstone elftools ai_edge_litert ziglang sklearn threadpoolctl pyarrow
    """.split()
)


def modules() -> list[Path]:
    return sorted(path for name in PACKAGES for path in (ROOT.parent / name).rglob("*.py") if path != ROOT / "__init__.py")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT.parent).as_posix()


def package_of(name: str) -> str:
    """Return the row of MAY_IMPORT of a module, by its dotted name."""
    top, *parts = name.split(".")
    if top != "tinyweave":
        return ".".join((top, *parts[:1])) if parts[:1] in (["tasks"], ["papers"]) else top
    return "version" if parts[0] == "__version__" else parts[0]


@cache
def imports(path: Path) -> set[tuple[str, bool]]:
    """Return (absolute dotted name, whether at module level) of all imports of a file, also of those inside functions."""
    package = path.relative_to(ROOT.parent).parent.parts
    tree = ast.parse(path.read_text())
    found: set[tuple[str, bool]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, node in tree.body) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            outermost = node in tree.body
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join((*base, *(node.module.split(".") if node.module else ())))
            found |= {(f"{prefix}.{alias.name}", outermost) for alias in node.names}
    return found


def test_imports_follow_the_design() -> None:
    """An import that is allowed and no longer needed also fails the test."""
    used: dict[str, set[str]] = {}
    for path in modules():
        here = package_of(name_of(path).removesuffix(".py").replace("/", "."))
        found = {name for name, _ in imports(path) if name.startswith(tuple(f"{top}." for top in PACKAGES))}
        used.setdefault(here, set()).update({package_of(name) for name in found} - {here})
    for here in sorted({*used, *MAY_IMPORT}):
        assert used.get(here) == MAY_IMPORT.get(here), f"{here} imports other packages than MAY_IMPORT says"


def test_no_two_packages_import_each_other() -> None:
    order = tuple(TopologicalSorter(MAY_IMPORT).static_order())  # raises CycleError
    assert order.index("api") < order.index("tinynas") < order.index("tinylesson")


def test_commands_call_verbs() -> None:
    """Beside them, `request_of` checks the words of options before a model is read."""
    paths = [path for name in ("tinyweave/cli", "tinynas", "tinylesson") for path in (ROOT.parent / name).glob("*.py")]
    paths = [path for path in paths if path.parent.name == "cli" or path.name == "commands.py"]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "api"}
    assert used - set(tinyweave.__all__) == {"request_of"}


def test_no_modules_import_each_other() -> None:
    """Neither directly nor through others, at module level or inside functions; packages that only list names are left out."""
    names = {name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in modules()}
    graph = {}
    for name, path in names.items():
        found = {each if each in names else each.rpartition(".")[0] for each, _ in imports(path)}
        graph[name] = {each for each in found & set(names) - {name} if "attributes(" not in names[each].read_text()}
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError


def test_the_compiler_does_not_know_what_is_built_on_it() -> None:
    """No string of tinyweave names a module of the other packages, so nothing imports them by name, except its lazy names."""
    for path in sorted(ROOT.rglob("*.py")):
        if not re.search("tinynas|tinylesson", path.read_text()):
            continue
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        named = {text for text in texts if isinstance(text, str) and re.match(r"(tinynas|tinylesson)\b", text)}
        assert not named or path == ROOT / "__init__.py", f"{path.name} names {named}"


def test_heavy_dependencies_are_not_imported_at_module_level() -> None:
    for path in modules():
        at_once = {name for name, outermost in imports(path) if outermost}
        heavy = {name.split(".")[0] for name in at_once} & HEAVY
        is_learning = path.parent.name == LEARNING
        assert not heavy or path.name in WORKERS | ASKED_FOR or is_learning, f"{path.name} imports {heavy} at module level"
        torch = {name for name in at_once if f".{LEARNING}." in name}
        assert not torch or is_learning, f"{path.name} imports {torch} at module level, and so torch"


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
    ("constants_in_ram",),
    ("search",),
    ("request",),
    ("strategies",),
    ("layouts",),
    ("planner",),
    ("ablation", "__init__"),
)


def test_packages_of_the_planner_import_only_earlier_ones() -> None:
    for path in (ROOT / "planning").rglob("*.py"):
        here = path.relative_to(ROOT / "planning").parts[0].removesuffix(".py")
        level = next(number for number, names in enumerate(PLANNER) if here in names)
        below = {name for names in PLANNER[:level] for name in names} | {here}
        used = {name.split(".")[2] for name, _ in imports(path) if name.startswith("tinyweave.planning.")}
        assert used <= below, f"{path.name} imports {used - below}"


# packages that the independent check may import: the plan, the ops and the kernels
CHECK_MAY_IMPORT = {"ir", "ops", "ops.resize", "ops.window", "kernels.table", "kernels.access", "planning.plan"}


def test_the_check_of_plans_is_independent_of_the_planner() -> None:
    paths = (ROOT / "planning" / "check").glob("*.py")
    used = {name.rpartition(".")[0] for path in paths for name, _ in imports(path) if name.startswith("tinyweave.")}
    own = {name for name in used if name.startswith("tinyweave.planning.check")}
    assert used - own == {f"tinyweave.{name}" for name in CHECK_MAY_IMPORT}


@pytest.mark.parametrize("words", ["", "plan --help", "--help"])
def test_import_and_help_load_no_heavy_modules(words: str) -> None:
    """Therefore `import tinyweave` and `tinyweave --help` take less than 20 and 250 ms of CPU time.

    Only the list of all commands needs `importlib.metadata`, which finds the commands of other projects.
    """
    code = f"import tinyweave.cli; tinyweave.cli.main({words.split()})" if words else "import tinyweave"
    asked = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    found = set(done.stderr.split())
    assert {"numpy", "tflite", "rich.progress"}.isdisjoint(found)
    assert ("importlib.metadata" in found) == ("tinynas.commands" in found) == (words == "--help")


def test_load_imports_no_compiler() -> None:
    """Loading a file needs its reader, the ops and the passes."""
    code = f"import sys, tinyweave\ntinyweave.load({str(DIGITS)!r})\nprint(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    loaded = {package_of(name) for name in found if name.startswith("tinyweave.")}
    assert loaded == {"api", "importers", "ir", "lazy", "ops", "passes", "support", "tflite_schema"}


def c_files(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT.parent / folder).rglob("*") if path.suffix in (".c", ".h"))
    return sorted(found)


def c_includes(path: Path) -> list[Path]:
    """Return the files that a C file includes by a path relative to it."""
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE)
    return [(path.parent / name).resolve() for name in names]


# folder -> the folders whose C headers its C may include
PLANNING, SEARCH = "tinyweave/planning", "tinynas/ram"
MAY_INCLUDE = {PLANNING: (PLANNING,), SEARCH: (PLANNING, SEARCH)}


def test_c_includes_headers_of_allowed_packages_alone() -> None:
    for path in c_files(*MAY_INCLUDE):
        (allowed,) = (others for folder, others in MAY_INCLUDE.items() if name_of(path).startswith(f"{folder}/"))
        for included in c_includes(path):
            assert included.is_file(), f"{path.name} includes {included}, which is missing"
            assert included.suffix == ".h", f"{path.name} includes {included.name}: move what it shares to a header"
            assert name_of(included).startswith(tuple(f"{folder}/" for folder in allowed)), f"{path.name} includes {included}"


def test_c_of_kernels_includes_nothing_of_the_planner_or_the_search() -> None:
    headers = {path.name for path in c_files(*MAY_INCLUDE) if path.suffix == ".h"}
    for path in c_files("tinyweave/kernels"):
        assert headers.isdisjoint(re.findall(r'#\s*include\s*[<"](?:.*/)?([^">/]+)', path.read_text())), path.name


def test_no_c_header_includes_itself_through_others() -> None:
    def walk(path: Path, above: tuple[Path, ...]) -> None:
        assert path not in above, " -> ".join(each.name for each in (*above, path))
        for included in c_includes(path):
            walk(included, (*above, path))

    for path in c_files(*MAY_INCLUDE):
        walk(path.resolve(), ())
