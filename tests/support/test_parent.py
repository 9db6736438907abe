"""Processes that the package starts end with their parent, even if the parent is killed while they work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import qemu_firmware as firmware
from simulate import tiny_c

from tinyweave.simulate import emulated
from tinyweave.support.toolchain import which

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc, to find the children of a process")

ENDLESS = tiny_c.body("for (volatile int i = 0;; i = i + 1) { }")
POOL = """
from tinynas.workers import pool
with pool(2) as workers:
    jobs = [workers.submit(time.sleep, 600) for _ in range(3)]
    ready()
    jobs[0].result()
"""
STAGE_ONE = """
from tinynas.space import MOBILE
from tinynas.stage_one import StageLimits, stage_one
ready()
stage_one(MOBILE, StageLimits(320 << 10, 1 << 20, "layer"), 100, 10**6, processes=2)
"""
EXPLORER = """
import asyncio
from tinylesson.server import Planner
planner = Planner()
async def both():
    asking = asyncio.ensure_future(planner.ask("", time.sleep, 600))
    await asyncio.sleep(0.1)
    ready()
    await asking
asyncio.run(both())
"""
ISOLATED = """
from pathlib import Path
from tinyweave.simulate.worker import isolated, worker
Path("sleep.py").write_text("import time; time.sleep(600)")
with worker(isolated(Path("sleep.py").resolve())).session(600) as child:
    ready()
    child.receive(1)
"""
LITERT = """
from cases.ops import cases
from tinyweave.exporters.tflite import to_tflite
from tinyweave.simulate import litert
case = next(cases("relu"))
model = to_tflite(case.graph)
litert.run(model, case.inputs)
ready()
while True:
    litert.run(model, case.inputs)
"""
HOST = """
from simulate.tiny_c import ARENA, INPUTS
from tinyweave.simulate import host
program = host.build(pathlib.Path("model"), "tiny")
ready()
host.invoke(program, ARENA, INPUTS, [32])
"""
EMULATED = """
from simulate.tiny_c import ARENA, INPUTS
from tinyweave.simulate import emulated
program = emulated.build(pathlib.Path("model"), "tiny", "CORE")
ready()
emulated.invoke(program, ARENA, INPUTS, [32], limit_instructions=10**18)
"""
FIRMWARE = """
import qemu_firmware as firmware
program, _ = firmware.build({"main.c": MAIN, "main.ld": SCRIPT}, pathlib.Path("model").resolve(), "cortex-m4", plain=False)
ready()
firmware.run(program, "mps2-an386", 600)
"""
MAIN = """
void reset(void);
void reset(void) { for (;;) { } }
__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {(void (*)(void))0x20001000, reset};
"""
SCRIPT = """
SECTIONS
{
    . = 0;
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) }
    . = 0x20000000;
    .data : { *(.data*) *(.bss*) }
}
"""
BEGIN = """
import pathlib, sys, time
sys.path[:0] = FOLDERS
MAIN, SCRIPT = PROGRAM
def ready():
    print("ready", flush=True)
"""
ARM, LITERT_IS_THERE = which("arm-none-eabi-gcc"), find_spec("ai_edge_litert")
KINDS = {
    "pool": (POOL, 2, find_spec("torch"), "torch"),
    "stage one": (STAGE_ONE, 2, True, ""),
    "explorer": (EXPLORER, 2, find_spec("starlette"), "starlette"),
    "isolated": (ISOLATED, 1, True, ""),
    "litert": (LITERT, 1, LITERT_IS_THERE, "ai-edge-litert"),
    "host": (HOST, 1, True, ""),
    "unicorn": (
        EMULATED.replace("CORE", "cortex-m4"),
        1,
        ARM and not emulated.missing("cortex-m4"),
        "Arm GCC and the emulator",
    ),
    "qemu": (EMULATED.replace("CORE", "cortex-m55"), 2, ARM and not emulated.missing("cortex-m55"), "Arm GCC and QEMU"),
    "firmware": (FIRMWARE, 2, ARM and firmware.is_qemu_there(), "Arm GCC and QEMU"),
}


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def below(process: int) -> set[int]:
    """Return the processes that a process and its children have started."""
    found = set[int]()
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            found |= {child, *below(child)}
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_processes_end_when_their_parent_is_killed(kind: str, tmp_path: Path) -> None:
    script, count, is_there, needed = KINDS[kind]
    if not is_there:
        pytest.skip(f"needs {needed}")
    (tmp_path / "model").mkdir()
    tiny_c.write(tmp_path / "model", ENDLESS, tiny_c.REST)
    folders = [str(Path(__file__).parents[1]), str(Path(firmware.__file__).parent)]
    begin = BEGIN.replace("FOLDERS", repr(folders)).replace("PROGRAM", repr((MAIN, SCRIPT)))
    command = [sys.executable, "-c", begin + script]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None and parent.stdout.readline() == "ready\n", parent.communicate()[1]
            time.sleep(2)  # until they work
            started = below(parent.pid)
            assert len(started) >= count, "nothing was started"
        finally:
            parent.kill()
            parent.stderr.close()  # type: ignore[union-attr]
    deadline = time.monotonic() + 30
    while left := {each for each in started if is_alive(each)}:
        if time.monotonic() > deadline:
            for each in left:
                os.kill(each, signal.SIGKILL)
            pytest.fail(f"{len(left)} of {len(started)} go on")
        time.sleep(0.1)


LIMIT = 3 << 30  # bytes, below all limits of the package
LIMITED = {
    "explorer": ("from tinylesson.questions import confine; confine(6 << 30)", True, ""),
    "litert": (LITERT.partition("ready()")[0], LITERT_IS_THERE, "ai-edge-litert"),
}


@pytest.mark.parametrize("kind", LIMITED)
def test_a_lower_limit_of_memory_stays(kind: str) -> None:
    """As after `ulimit -v`: a process that set a higher limit got an error."""
    program, is_there, needed = LIMITED[kind]
    if not is_there:
        pytest.skip(f"needs {needed}")
    limited = "import resource, sys; "
    limited += (
        f"sys.path.insert(0, {str(Path(__file__).parents[1])!r}); resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))"
    )
    asked = "from tinyweave.support.parent import memory_advice; print(resource.getrlimit(resource.RLIMIT_AS), memory_advice())"
    words = [sys.executable, "-c", f"{limited}\n{program}\n{asked}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"({LIMIT}, {LIMIT}) if it lacked memory, raise the limit of 3,072 MiB (ulimit -v)\n"


def test_a_process_limits_its_memory_and_core_dumps() -> None:
    program = (
        "import resource as r; from tinyweave.support.parent import limit_process, memory_advice; "
        "assert memory_advice() == ''; "
        f"limit_process({LIMIT}); print(*map(r.getrlimit, (r.RLIMIT_AS, r.RLIMIT_CORE)))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == f"({LIMIT}, {LIMIT}) (0, 0)\n"
