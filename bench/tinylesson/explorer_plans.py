"""Write what the explorer's page shows of networks that take long to plan: tinylesson/planned.json and tinylesson/map.json.

In: of the map, how many networks of each image and width (--count), a seed. Out: planned.json, see tinylesson/planned.py; and
map.json: networks of TinyNAS' mobile space, per image and width the figures of each: bytes of its largest layer by itself, of
its best plan with the image in RAM, of that with the image by rows, of its weights; its multiply-accumulates. These plans are
those of tinynas/ram/ram_model.py, which is held against the planner by tests.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import tinylesson as explorer
from tinylesson.planned import figures
from tinynas.arch import macs, weights
from tinynas.ram.arena import arena
from tinynas.space import MOBILE, arch_of, sample
from tinynas.stage_one import layer_bytes

CLASSES = 1000
Row = tuple[int, int, int, int, int]


def rows(side: int, width: float, count: int, seed: int) -> list[Row]:
    """Return the figures of each network of an image and a width."""
    rng = random.Random(f"{seed} {side} {width}")
    archs = [arch_of(MOBILE, sample(MOBILE, rng, (side, side), width), CLASSES) for _ in range(count)]
    return [(layer_bytes(a), arena(a), arena(a, stream_inputs=True), weights(a), macs(a)) for a in archs]


def drawn(count: int, seed: int) -> dict[str, Any]:
    """Return the table of map.json."""
    settings = [(size[0], width) for size, width in product(MOBILE.sizes, MOBILE.widths)]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(rows, *zip(*((*each, count, seed) for each in settings), strict=True)))
    return {
        "count": count,
        "seed": seed,
        "sizes": [size[0] for size in MOBILE.sizes],
        "widths": list(MOBILE.widths),
        "networks": {f"{side} {width:g}": each for (side, width), each in zip(settings, found, strict=True)},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    for name, table in (("planned.json", figures()), ("map.json", drawn(chosen.count, chosen.seed))):
        path = Path(explorer.__file__).with_name(name)
        path.write_text(json.dumps(table, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{path}: {path.stat().st_size:,} B")
    return 0


if __name__ == "__main__":
    sys.exit(main())
