"""The arena of TFLite Micro as it is on PyPI. In: a .tflite file, a Python that has `tflite-micro`. Out: bytes.

Its kernels are those for all cores, and its structures have pointers of 64 bits; activations lie as on a microcontroller.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

RECORDS = """
import sys
from tflite_micro import runtime
runtime.Interpreter.from_bytes(open(sys.argv[1], "rb").read(), arena_size=1 << 27).print_allocations()
"""


def arena_bytes(path: Path, python: str) -> int:
    """Return the bytes of the arena, as TFLite Micro's own record of allocations says."""
    done = subprocess.run([python, "-c", RECORDS, str(path)], capture_output=True, text=True, check=False)
    found = re.search(r"Arena allocation total (\d+) bytes", done.stdout + done.stderr)
    if not found:
        sys.exit(f"{python}: TFLite Micro says nothing of {path.name}: {(done.stderr or done.stdout).strip()[-300:]}")
    return int(found[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--python", required=True, help="one that has tflite-micro")
    given = parser.parse_args()
    for path in given.models:
        print(f"{path.name} {arena_bytes(path, given.python):,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
