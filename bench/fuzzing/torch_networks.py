"""Random PyTorch or ONNX networks the whole way: to int8, to C, onto an emulated core, where every byte must be LiteRT's.

In: how many. Out: the seed of each network that fails or is refused, with the reason, at once; at the end how many ops of
each kind, and exit code 1 where any failed. `--first SEED --count 1` runs one again.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
import warnings
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
sys.path.pop(0)  # this folder, whose cases.py would hide tests/cases
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fuzz.whole_way import whole_way

from tinyweave import api


def failure(networks: ModuleType, seed: int, core: str, kinds: Counter[str]) -> str | None:
    """Return the fault of the network of a seed, which the module `networks` makes, or None if there is none."""
    try:
        return whole_way(*networks.loaded(seed), core, kinds, networks.LEAST_SQNR_DB)
    except Exception:
        return traceback.format_exc(limit=-4)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--core", default=api.DEFAULT_CORE, help="the emulated core")
    parser.add_argument("--onnx", action="store_true", help="ONNX networks instead of PyTorch networks")
    options = parser.parse_args()
    networks = import_module("fuzz.onnx_networks" if options.onnx else "fuzz.torch_networks")
    warnings.filterwarnings("ignore")  # of torch's exporter
    logging.disable(logging.WARNING)  # advice of ONNX Runtime's quantiser
    kinds: Counter[str] = Counter()
    failed, begun, seeds = 0, time.monotonic(), range(options.first, options.first + options.count)
    for seed in seeds:
        if reason := failure(networks, seed, options.core, kinds):
            failed += 1
            print(f"seed {seed}: {reason}", flush=True)
    print(f"{len(seeds)} networks in {time.monotonic() - begun:.0f} s, seeds {seeds[0]} to {seeds[-1]}: {failed} failed")
    print(f"{kinds.total()} ops of {len(kinds)} kinds: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
