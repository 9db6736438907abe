"""Every kernel for some cores beside the portable one of its kind: the same bytes, on random shapes, offsets and multipliers.

In: --count of each, --first seed, --only kernels with these names. Out: a line, or the first trial that differs (exit code 1).
The kernels are built for this machine with sanitizers, so it is their plain C that runs; then for emulated cores, a Cortex-M4
for the DSP extension, a Cortex-M7 for its own order and a Cortex-M55 for vectors, so it is their assembly; on RV32IMC those for
cores without any of these. On a Cortex-M0+ the portable ones run whose loops are in assembly there, and on the Cortex-M55 the
portable ones that copy with vectors there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from kernels import copy_trials, on_core
from kernels.variant_pairs import COPYING, DRAWN

from tinyweave.kernels.table import BY_NAME, FILES
from tinyweave.simulate import emulated

TESTS = Path(__file__).resolve().parents[1] / "tests"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="trials of each kernel")
    parser.add_argument("--first", type=int, default=1, help="seed")
    own = [name for name in (*DRAWN, *COPYING, *copy_trials.DRAWN) if BY_NAME[name].cores or name in copy_trials.DRAWN]
    parser.add_argument("--only", nargs="+", metavar="KERNEL", choices=own, default=own, help="names of kernels")
    options = parser.parse_args()
    numbers = options.first, options.count
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernels.so"
        sources = [path for path in FILES.values() if path.suffix == ".c"]
        include = [f"-I{folder}" for folder in {path.parent for path in FILES.values()}]
        common = ["gcc", "-std=c99", "-DTW_PLAIN_C", *include, "-shared", "-fPIC"]
        flags = ["-O1", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
        subprocess.run([*common, *flags, "-o", library, *sources], check=True)
        asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        environment = os.environ | {"LD_PRELOAD": asan.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
        twins = [name for name in options.only if name not in copy_trials.DRAWN]
        command = [sys.executable, "-m", "kernels.variant_pairs", library, *numbers, *twins]
        if twins and subprocess.run(list(map(str, command)), cwd=TESTS, env=environment, check=False).returncode:
            return 1
        print(f"{len(twins)} kernels, {options.count:,} trials each: the same bytes", flush=True)
        plain = Path(folder) / "plain.so"
        subprocess.run([*common, "-O2", "-o", plain, *sources], check=True)
        for core in (*dict.fromkeys(on_core.CORES.values()), on_core.SMALL):
            count = len({*on_core.kernels_of(core)} & {*options.only})
            if not count:
                continue
            if reason := emulated.missing(core):
                print(reason[0])
                continue
            command = [sys.executable, "-m", "kernels.on_core", plain, core, *numbers, *options.only]
            if subprocess.run(list(map(str, command)), cwd=TESTS, check=False).returncode:
                return 1
            print(f"{count} kernels on an emulated {core}, {options.count:,} trials each: the same bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
