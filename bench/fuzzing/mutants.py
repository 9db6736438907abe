"""Break the code in many places and see that a test fails each time.

In: a seed. 60 changes are drawn over ROOMS, or those of `--rooms`, each of one place by one operator: an integer one more or
less, `<` for `<=`, a term dropped, two operands swapped, another argument of the call. Each change is made in a copy of the
tree, and tests run there until one fails. If a Python file was changed, the tests named after the file run first, then those
that import it, then the other tests of its room. If a C file was changed, the test cases of its op kinds run first, then the
tests of all kernels. Out: a line for each change, the survivors, and a table by room. A change that cannot be told from the
original is listed with its reason in mutants_equivalent.json, and no tests run for it. Results are appended to --record and not
computed again. The exit code is 1 if tests fail for less than 90 % of the other changes.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tinyweave.kernels.table import VARIANTS, sources

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.json")
ENOUGH = 0.9
TIMEOUT = "timeout: "  # before the name of a test that took too long
KINDS = "tests/codegen/test_kinds.py"  # its tests are named after op kinds
VIEWS = (  # run every kernel with views, by rows and with memory; functions of numbers on all numbers
    ["tests/kernels/test_fixed_point.py"],
    ["tests/kernels/test_kernels.py", "-k", "rings_equal_whole_maps"],
    ["tests/codegen/test_sums_by_rows.py", "tests/codegen/test_svdf.py"],
)
MOST_KERNELS = 6  # of those that use a C file, whose tests come before the room's
MOST_KILLERS = 3
PLANS = ("tests/fuzz/test_random_plans.py", "tests/fuzz/test_networks.py")  # stages and tiles, whose loops share C of their own
TRACES = ("tests/kernels/test_access.py", "tests/kernels/test_overlap_distance.py")  # run every kernel
# room -> its files, and the folders whose tests guard it
ROOMS = {
    "C kernels": ("tinyweave/kernels/**/*.[ch]", ("tests/kernels", "tests/codegen")),
    "kernels": ("tinyweave/kernels/**/*.py", ("tests/kernels", "tests/planning", "tests/codegen")),
    "planning": ("tinyweave/planning/**/*.py", ("tests/planning", "tests/tinynas", "tests/fuzz")),
    "codegen": ("tinyweave/codegen/**/*.py", ("tests/codegen", "tests/planning", "tests/fuzz")),
    "check": ("tinyweave/planning/check/*.py", ("tests/planning",)),
    "quantize": ("tinyweave/quantize/**/*.py", ("tests/quantize",)),
    "importers": ("tinyweave/importers/**/*.py", ("tests/importers",)),
    "nas": ("tinynas/**/*.py", ("tests/tinynas",)),
    "tasks": ("tinynas/tasks/**/*.py", ("tests/tinynas/tasks",)),
}


@dataclass(frozen=True)
class Mutant:
    """One change: bytes [begin, end) of a file become `after`."""

    room: str
    file: str
    line: int
    begin: int
    end: int
    operator: str
    before: str
    after: str

    def key(self, text: str) -> list[str]:
        """Name the change by what the line says, so that it stays the same when other lines move."""
        line = text[: self.begin].rfind("\n") + 1
        stop = text.find("\n", self.end)
        end = len(text) if stop < 0 else stop
        return [self.file, text[line:end].strip(), (text[line : self.begin] + self.after + text[self.end : end]).strip()]


Edit = tuple[int, int, str, str]  # begin, end, operator, what stands there then


def python_edits(text: str) -> Iterator[Edit]:
    """Find the places of a Python module that can be changed; docstrings, annotations and messages are none."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    as_bytes = text.encode()

    def place(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        offsets = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        begin, end = (len(as_bytes[:offset].decode()) for offset in offsets)
        return begin, end

    def source(node: ast.expr) -> str:
        begin, end = place(node)
        return text[begin:end]

    orders = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
    others = {ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
    for node in _code(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            begin, end = place(node)
            yield begin, end, "plus one", str(node.value + 1)
            yield begin, end, "minus one", str(node.value - 1) if node.value else "(-1)"
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = place(node.left)[1], place(node.comparators[0])[0]
            if (changed := orders.get(type(node.ops[0])) or others.get(type(node.ops[0]))) and "(" not in text[left:right]:
                yield left, right, "comparison", f" {changed} "
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            yield *place(node), "dropped term", source(node.left)
            left, right = place(node.left)[1], place(node.right)[0]
            if "(" not in text[left:right] and ")" not in text[left:right]:
                yield left, right, "plus or minus", " - " if isinstance(node.op, ast.Add) else " + "
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod, ast.Div)):
            sign = {ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/"}[type(node.op)]
            yield *place(node), "swapped operands", f"({source(node.right)}) {sign} ({source(node.left)})"
        elif isinstance(node, ast.BoolOp):
            for index in range(len(node.values)):
                rest = [f"({source(value)})" for at, value in enumerate(node.values) if at != index]
                yield *place(node), "dropped term", (" and " if isinstance(node.op, ast.And) else " or ").join(rest)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield *place(node), "dropped not", f"bool({source(node.operand)})"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            yield *place(node.func), "min or max", "max" if node.func.id == "min" else "min"
        elif isinstance(node, ast.Call) and len(node.args) > 1 and all(isinstance(each, ast.Name) for each in node.args[:2]):
            yield *place(node.args[0]), "other argument", source(node.args[1])
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, (ast.Slice, ast.Compare))
            and isinstance(node.ctx, ast.Load)
        ):
            yield *place(node), "whole for a part", source(node.value)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a module without docstrings, annotations, strings, imports and the messages of errors."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            skipped = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Raise)
            if isinstance(child, ast.AST) and not isinstance(child, skipped):
                yield child
                yield from _code(child)


C_TERM = r"(?:\w+(?:(?:->|\.)\w+|\[\w+\])*)"


def c_edits(text: str) -> Iterator[Edit]:
    """Find the places of a C file that can be changed; comments, strings, preprocessor lines and declarations are none."""
    blank = re.sub(
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*',
        lambda match: re.sub(r"[^\n]", " ", match[0]),
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
    inside = _bodies(blank)
    for match in re.finditer(r"(?<![\w.])\d+(?![\w.])", blank):
        if inside[match.start()]:
            yield *match.span(), "plus one", str(int(match[0]) + 1)
            yield *match.span(), "minus one", str(int(match[0]) - 1) if int(match[0]) else "(-1)"
    for match in re.finditer(r"(?<=[\w\])]) (<=|>=|==|!=|<|>) (?=[\w(*-])", blank):
        if inside[match.start()]:
            other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}[match[1]]
            yield *match.span(), "comparison", f" {other} "
    for match in re.finditer(r"(?<=[\w\])]) ([+-]) (?=[\w(])", blank):
        if inside[match.start()]:
            yield *match.span(), "plus or minus", " - " if match[1] == "+" else " + "
    for match in re.finditer(rf"(?<=[\w\])]) [+-] {C_TERM}(?!\w|\(|\[| \*| /| %|->|\.)", blank):
        if inside[match.start()]:
            yield *match.span(), "dropped term", ""
    for match in re.finditer(rf"(?<![\w.>*/%-] )(?<![\w.>)\]])({C_TERM}) (-|/|%|<<|>>) ({C_TERM})(?!\w|\(|\[|->|\.)", blank):
        if inside[match.start()]:
            yield *match.span(), "swapped operands", f"{match[3]} {match[2]} {match[1]}"
    for match in re.finditer(r" (&&|\|\|) ", blank):
        if inside[match.start()]:
            yield *match.span(), "and or or", " || " if match[1] == "&&" else " && "


def _bodies(text: str) -> list[bool]:
    """Return for each character whether it lies in the body of a function: braces that follow a parenthesis."""
    inside, depth, stack = [], 0, list[bool]()
    for index, character in enumerate(text):
        if character == "{":
            stack.append(bool(stack and stack[-1]) or text[:index].rstrip().endswith(")"))
            depth += stack[-1]
        elif character == "}" and stack:
            depth -= stack.pop()
        inside.append(depth > 0)
    return inside


def draw(seed: int, count: int, rooms: Sequence[str] = tuple(ROOMS)) -> list[Mutant]:
    """Draw the changes: rooms in turn, in each a file by its number of places, no place twice."""
    rng = random.Random(seed)
    pools = {}
    for room in rooms:
        pattern, _ = ROOMS[room]
        mutants = []
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text()
            edits: Callable[[str], Iterator[Edit]] = python_edits if path.suffix == ".py" else c_edits
            for begin, end, operator, after in edits(text):
                line = text.count("\n", 0, begin) + 1
                name = str(path.relative_to(ROOT))
                mutants.append(Mutant(room, name, line, begin, end, operator, text[begin:end], after))
        rng.shuffle(mutants)
        pools[room] = mutants
    drawn: list[Mutant] = []
    taken: set[tuple[str, int]] = set()
    while len(drawn) < count and any(pools.values()):
        for pool in pools.values():
            while pool:
                mutant = pool.pop()
                if (mutant.file, mutant.line) not in taken:
                    taken.add((mutant.file, mutant.line))
                    drawn.append(mutant)
                    break
    return drawn[:count]


def own_tests(mutant: Mutant, killers: Sequence[str]) -> list[list[str]]:
    """Return what pytest is to run, one call after the other. killers: tests that noticed other changes of the file."""
    path, guards = Path(mutant.file), ROOMS[mutant.room][1]
    steps = [list(killers)] if killers else []
    if path.suffix == ".py":
        return [*steps, *python_tests(path, guards)]
    rows = [row for row in VARIANTS if path.name in {file.name for file in sources([row.name])}]
    few = len(rows) <= MOST_KERNELS
    steps += [["tests/kernels/test_kernels.py", "-k", row.name] for row in rows[:MOST_KERNELS] if row.cores]
    kinds = sorted({kind for row in rows for kind in row.kinds})
    traces, plans = [[trace] for trace in TRACES], [[plans] for plans in PLANS]
    if few and kinds:  # no other op runs what is in the file
        return [*steps, [KINDS, "-k", " or ".join(kinds)], *VIEWS, *traces]
    return [*steps, *VIEWS, *plans, [KINDS], *traces]


def python_tests(path: Path, guards: Sequence[str]) -> list[list[str]]:
    """Return the test files of a module: named after it, importing it, of its package, then the files in `guards`."""
    module = path.parent if path.stem == "__init__" else path.with_suffix("")
    dotted, parent, name = ".".join(module.parts), ".".join(module.parent.parts), re.escape(module.name)
    use = rf"^ *(?:from {dotted} import|import {dotted}\b|from {parent} import (?:\([^)]*|.*)\b{name}\b)"
    texts = {str(test.relative_to(ROOT)): test.read_text() for test in sorted((ROOT / "tests").rglob("test_*.py"))}
    guarding = [test for test in texts if test.startswith(tuple(f"{guard}/" for guard in guards))]
    of_package = "tests/" + (module.parts[1] if module.parts[0] == "tinyweave" else module.parts[0])
    groups = [
        [test for test in guarding if f"_{module.name.strip('_')}" in test],
        [test for test in texts if re.search(use, texts[test], re.MULTILINE)],
        [test for test in guarding if len(module.parts) > 3 and f"_{module.parent.name}" in test],
        [test for test in guarding if test.startswith(of_package)],
        guarding,
    ]
    order = {test: number for number, group in reversed([*enumerate(groups)]) for test in group}
    return [[test for test in order if order[test] == number] for number in sorted(set(order.values()))]


def run(mutant: Mutant, tree: Path, steps: Sequence[Sequence[str]], limit_s: int, budget_s: int) -> dict[str, object]:
    """Run a mutant's tests in a tree of its own, which is put right again."""
    path, start = tree / mutant.file, time.monotonic()
    original = path.read_text()
    assert original[mutant.begin : mutant.end] == mutant.before
    path.write_text(original[: mutant.begin] + mutant.after + original[mutant.end :])
    by = ""
    try:
        for tests in steps:
            left = budget_s - (time.monotonic() - start)
            if left < 1 or (by := failure(tree, tests, limit_s, left)):
                break
    finally:
        path.write_text(original)
    if by.startswith(TIMEOUT) and failure(tree, [by.removeprefix(TIMEOUT)], limit_s // 4, limit_s):
        by = ""  # the machine is busy: the unchanged code takes long, too
    key = mutant.key(original)
    return asdict(mutant) | {
        "key": key,
        "verdict": "died" if by else "survived",
        "by": by,
        "seconds": round(time.monotonic() - start, 1),
    }


def killers_of(file: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the tests that noticed changes of a file, those that noticed most first."""
    noticed = Counter(row["by"] for row in rows if row["file"] == file and row["by"].startswith("tests/"))
    return [test for test, _ in noticed.most_common(MOST_KILLERS)]


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which tests import what lies in `tree`, and have no real models."""
    return os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "TINYWEAVE_SHARED": str(tree / "none")}


def is_collected(tests: Sequence[str]) -> bool:
    """Whether pytest knows these tests where nothing is changed."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment(ROOT), capture_output=True, check=False).returncode == 0


def failure(tree: Path, tests: Sequence[str], limit_s: int, budget_s: float) -> str:
    """Return the first test that fails, "" when all pass that begin within `budget_s` seconds.

    The real models are left out: the rooms' own tests must notice.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--timeout={limit_s}"]
    command.append(f"--session-timeout={budget_s:.0f}")
    pipe, merged = subprocess.PIPE, subprocess.STDOUT
    process = subprocess.Popen([*command, *tests], cwd=tree, env=environment(tree), stdout=pipe, stderr=merged, text=True)
    with suppress(OSError):  # where a change asks for all memory, Linux ends this process and no other
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    said, _ = process.communicate()
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
    if process.returncode in (0, 5) or ("session-timeout" in said and not failed):  # 5: no test was collected
        return ""
    if process.returncode == 4 and "[" in tests[0]:  # the change gave a test's parameters other names
        return ""
    if process.returncode == 4 and is_collected(tests):  # the change keeps a file of tests from being imported
        return tests[0]
    if process.returncode == 4:
        raise SystemExit(f"pytest refuses {tests}: {said[-300:]}")
    if failed and "Failed: Timeout" in said:  # a change that never ends, or a machine that was busy
        return TIMEOUT + failed[1]
    return failed[1] if failed else " ".join(said[-200:].split()) or f"exit code {process.returncode}"


def copy_of_the_tree(folder: Path) -> Path:
    """Copy what git does not ignore, as it stands in the working tree."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), metavar="ROOM", help=f"of {', '.join(ROOMS)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--limit-s",
        type=int,
        default=120,
        help="seconds for a test: a change that takes longer has died, if the unchanged code takes a quarter at most",
    )
    parser.add_argument(
        "--budget-s", type=int, default=300, help="seconds for a change: one that no test has noticed by then lives"
    )
    parser.add_argument("--record", type=Path, help="results, as lines of JSON; out/mutants_SEED.jsonl if left out")
    parser.add_argument("--again", action="store_true", help="run survivors of the record again")
    parser.add_argument("--list", action="store_true", help="print the changes and run none")
    options = parser.parse_args()
    mutants = draw(options.seed, options.count, options.rooms)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.file}:{mutant.line} {mutant.operator}: {mutant.before!r} -> {mutant.after!r}")
        return 0
    record = options.record or ROOT / "out" / f"mutants_{options.seed}.jsonl"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.touch()
    texts = {mutant.file: (ROOT / mutant.file).read_text() for mutant in mutants}
    known = {json.dumps(row["key"]): row for row in map(json.loads, record.read_text().splitlines())}
    equivalent = {json.dumps(entry["key"]) for entry in json.loads(EQUIVALENT.read_text())}
    results, waiting, shown = {}, [], 0
    for mutant in mutants:
        key = json.dumps(mutant.key(texts[mutant.file]))
        row = known.get(key)
        if key in equivalent:
            shown += 1
        elif row is None or (options.again and row["verdict"] == "survived"):
            waiting.append(mutant)
        else:
            results[key] = row
    print(f"seed {options.seed}: {len(mutants)} changes, {len(waiting)} to run", flush=True)
    lock = threading.Lock()
    trees: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for job in range(options.jobs):
            trees.put(copy_of_the_tree(Path(folder) / str(job)))

        def one(mutant: Mutant) -> None:
            tree = trees.get()
            with lock:
                killers = killers_of(mutant.file, results.values())
            try:
                row = run(mutant, tree, own_tests(mutant, killers), options.limit_s, options.budget_s)
            finally:
                trees.put(tree)
            with lock:
                results[json.dumps(row["key"])] = row
                with record.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{row['verdict']:9}{row['seconds']:7.1f} s  {row['file']}:{row['line']}  {row['by']}", flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(one, waiting))
    survivors = [row for row in results.values() if row["verdict"] == "survived"]
    print()
    for row in survivors:
        print(f"{row['file']}:{row['line']} {row['operator']}\n    {row['key'][1]}\n    {row['key'][2]}")
    print("\n| room | died | of |\n|---|---|---|")
    for room in options.rooms:
        verdicts = [row["verdict"] for row in results.values() if row["room"] == room]
        print(f"| {room} | {verdicts.count('died')} | {len(verdicts)} |")
    died, counted = len(results) - len(survivors), len(results)
    print(f"\n{died} of {counted} died, {died / counted:.1%}; {shown} more cannot be told from the original")
    return 0 if died >= ENOUGH * counted else 1


if __name__ == "__main__":
    sys.exit(main())
