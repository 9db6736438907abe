"""Workers are local processes, which end on an interrupt, or a Ray cluster; both give the same networks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from cases.waves import NUMBERS, RUNGS, SPACE, TARGET, waves

pytest.importorskip("torch", reason="needs torch")

import torch

from tinynas import workers
from tinynas.searching import search
from tinynas.settings import SearchOptions
from tinynas.workers import Workers, pool
from tinyweave.ir import CompileError
from tinyweave.support.installing import install


def test_an_interrupt_ends_the_worker_processes() -> None:
    with pytest.raises(KeyboardInterrupt), pool(1) as processes:
        assert processes.count == 1 and processes.each(torch.get_num_threads, [()]) == [1]
        other = processes.submit(os.getpid).result()
        assert other != os.getpid()
        processes.submit(time.sleep, 600)
        begin = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - begin < 60
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)


def test_missing_workers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="--processes 0 is out of range"), pool(0):
        pass
    monkeypatch.setattr(workers, "find_spec", lambda name: name)
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:1")
    with pytest.raises(CompileError, match=r"no Ray cluster answers at ray://127.0.0.1:1: .*refused"), pool(1, ray=True):
        pass
    monkeypatch.setattr(workers, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=re.escape(f"Ray is not installed; {install('ray')}")), pool(1, ray=True):
        pass


SCRIPT = """
import os, sys
from pathlib import Path
if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    from cases.waves import NUMBERS, RUNGS, SPACE, TARGET, waves
    from tinynas.settings import SearchOptions
    from tinynas.searching import search
    options = SearchOptions(supernet_budget=NUMBERS, rungs=RUNGS, processes=1, ray="ray" in sys.argv)
    found = search(waves(400), SPACE, TARGET, Path(sys.argv[2]), options)
    print("rank", os.environ.get("RANK", "0"), found.deployment.verification.ok)
"""
TORCHRUN = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"


@pytest.fixture(scope="module")
def alone(one_worker: Workers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    search(waves(400), SPACE, TARGET, folder, SearchOptions(processes=1, supernet_budget=NUMBERS, rungs=RUNGS))
    return folder


@pytest.mark.sweep
@pytest.mark.emulator
@pytest.mark.parametrize("how", ["torchrun", "ray"])
def test_all_kinds_of_workers_give_the_result_of_one_process(alone: Path, how: str, tmp_path: Path) -> None:
    if how == "ray" and find_spec("ray") is None:
        pytest.skip("needs Ray: pip install '.[ray]'")
    (tmp_path / "found.py").write_text(SCRIPT)
    start = [sys.executable, *(TORCHRUN if how == "torchrun" else ()), str(tmp_path / "found.py")]
    given = [str(Path(__file__).parents[1]), str(tmp_path / "run"), how]
    done = subprocess.run([*start, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "rank 0 True\n", done.stderr
    for file in ("search.json", "network.tflite"):
        assert (tmp_path / "run" / file).read_bytes() == (alone / file).read_bytes()
    for file in ("evolution.jsonl", "results.jsonl"):  # in the order in which they ended
        lines = [sorted((folder / file).read_text().splitlines()) for folder in (tmp_path / "run", alone)]
        assert lines[0] == lines[1]
