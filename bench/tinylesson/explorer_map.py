"""Write the table behind the explorer's map: networks of TinyNAS' mobile space, drawn for each image and width, and planned.

In: how many networks of each (--count), a seed. Out: tinylesson/map.json: per image and width the figures of each
network: bytes of its largest layer by itself, of its best plan with the image in RAM, of that with the image by rows, of its
weights; its multiply-accumulates. The plans are those of tinynas/ram/ram_model.py, which is held against the planner by tests.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import tinylesson as explorer
from tinynas.arch import macs, weights
from tinynas.ram.arena import arena
from tinynas.space import MOBILE, arch_of, sample
from tinynas.stage_one import layer_bytes

CLASSES = 1000
Row = tuple[int, int, int, int, int]


def rows(side: int, width: float, count: int, seed: int) -> list[Row]:
    """Return the figures of each network."""
    rng = random.Random(f"{seed} {side} {width}")
    archs = [arch_of(MOBILE, sample(MOBILE, rng, (side, side), width), CLASSES) for _ in range(count)]
    return [(layer_bytes(a), arena(a), arena(a, stream_inputs=True), weights(a), macs(a)) for a in archs]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    settings = [(size[0], width) for size, width in product(MOBILE.sizes, MOBILE.widths)]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(rows, *zip(*((*each, chosen.count, chosen.seed) for each in settings), strict=True)))
    table = {
        "count": chosen.count,
        "seed": chosen.seed,
        "sizes": [size[0] for size in MOBILE.sizes],
        "widths": list(MOBILE.widths),
        "networks": {f"{side} {width:g}": each for (side, width), each in zip(settings, found, strict=True)},
    }
    path = Path(explorer.__file__).with_name("map.json")
    path.write_text(json.dumps(table, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{path}: {len(settings)} settings x {chosen.count} networks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
