"""The CPU time of `tinyweave deploy` at two checkouts, run in turns: of the process and all that it starts, compilers too.

deploy.py OLD [--new FOLDER] [--model FILE] [--device NAME] [--rounds N]

With a cold cache everything is compiled; with a warm one nothing is. Python's bytecode is always there, as in an installed
package: the first run of each checkout, which is not timed, writes it into a folder of its own. Prints the least of each, since
what else runs here only adds to it, their ratio, the median of the paired ratios, and which files differ. Exit code 1 when any
does, or when the ratio with a warm cache is above `--most`.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent.parent
DIGITS = HERE / "examples" / "keywords" / "digits.tflite"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("old", type=Path, help="the checkout of before")
    options.add_argument("--new", type=Path, default=HERE, help="the checkout of after (this one)")
    options.add_argument("--model", type=Path, default=DIGITS)
    options.add_argument("--device", default="nrf52840")
    options.add_argument("--rounds", type=int, default=7, help="pairs with a warm cache; a third as many with a cold one")
    options.add_argument("--most", type=float, default=0.6, help="the ratio with a warm cache that is asked for")
    chosen = options.parse_args()
    checkouts = {"old": chosen.old.resolve(), "new": chosen.new.resolve()}
    for checkout in checkouts.values():  # else the installed package would be measured
        if not (checkout / "tinyweave").is_dir():
            options.error(f"{checkout} has no package tinyweave")
    ratios = {}
    with tempfile.TemporaryDirectory(prefix="tinyweave-bench-") as name:
        folder = Path(name)
        deploy = [str(chosen.model.resolve()), "--device", chosen.device]
        for which, checkout in checkouts.items():
            cpu_seconds(checkout, folder / f"{which}-0", [*deploy, "-o", f"{which}-out"], folder)
        for cache, rounds in (("cold", max(1, chosen.rounds // 3)), ("warm", chosen.rounds)):
            spent: dict[str, list[float]] = {which: [] for which in checkouts}
            for number in range(rounds):
                for which in sorted(checkouts, reverse=number % 2 == 0):
                    kept = folder / (f"{which}-{number + 1}" if cache == "cold" else f"{which}-0")
                    spent[which].append(cpu_seconds(checkouts[which], kept, [*deploy, "-o", f"{which}-out"], folder))
            pairs = [new / old for old, new in zip(spent["old"], spent["new"], strict=True)]
            ratios[cache] = min(spent["new"]) / min(spent["old"])
            least = ", ".join(f"{which} {min(times):.2f} s" for which, times in spent.items())
            print(f"{cache} cache: {least}, {ratios[cache]:.2f} of it (median of {rounds} pairs {median(pairs):.2f})")
        if differ := different_files(folder / "old-out", folder / "new-out"):
            print(f"not the same: {', '.join(differ)}")
    return 1 if differ or ratios["warm"] > chosen.most else 0


def cpu_seconds(checkout: Path, cache: Path, arguments: list[str], folder: Path) -> float:
    """Return the CPU seconds of one `deploy`, started in `folder`, with the package of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(cache)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    command = [sys.executable, "-m", "tinyweave", "deploy", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr or done.stdout}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def different_files(old: Path, new: Path) -> list[str]:
    """Return the names of files that only one folder has or that differ, but for the record of the command."""
    names = {path.name for folder in (old, new) for path in folder.iterdir()} - {"tinyweave.json"}
    equal, *_ = filecmp.cmpfiles(old, new, names, shallow=False)
    return sorted(names - set(equal))


if __name__ == "__main__":
    sys.exit(main())
