"""Random networks for so many minutes: LiteRT's reference kernels and the emitted C give the same bytes.

In: minutes. Out: the seed of each network that fails, with the reason, at once; at the end how many networks there were, how
many ops of each kind and how many failures, with exit code 1 when any. The seed says whether the network is damaged, the
schedule, whether it has every op or is made of ops that run row by row, then in random stages, and whether the emulated core
runs it (one in eight): `--first SEED --minutes 0` runs that one again. One in four of the networks with every op may have ops
that LiteRT lacks; then the C is compared with the numpy reference.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.pop(0)  # this folder, whose cases.py would hide tests/cases
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fuzz.every_op import may_lack_litert, network_of_every_op
from fuzz.faster_kernels import with_kernels_of
from fuzz.generate import BY_SOME_ROWS, HEADED, random_network, random_stages

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError
from tinyweave.planning import plan_in_stages

SCHEDULES = ("layer", "best")
UNJUDGED = "no failure, but the C equals only the"  # LiteRT aborts, for one on a softmax of 512 equal values


def failure(seed: int, core: str, kinds: Counter[str]) -> str | None:
    """What is wrong with the network of this seed, None when every byte is right; its ops go into `kinds`."""
    schedule = SCHEDULES[seed // 2 % 2]
    by_row = seed // 16 % 3 == 1
    on_core = seed % 8 == seed // 8 % 8  # each pair of damage and schedule gets its turn
    try:
        if by_row:
            graph = random_network(seed, damaged=seed % 2 == 1, growers=BY_SOME_ROWS | HEADED, live=2)
        else:
            graph = network_of_every_op(seed, damaged=seed % 2 == 1)
        kinds.update(op.kind for op in graph.ops)
        with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
            path = Path(folder) / f"network_{seed}.tflite"
            path.write_bytes(to_tflite(graph))
            model = api.load(path)
        plan = api.plan(model, schedule=schedule)
        if by_row and schedule == "best":  # in stages that no planner would take
            stages, options = random_stages(model.graph, random.Random(seed))
            plan = plan_in_stages(model.graph, stages, **options)
            plan = with_kernels_of(plan, core) if seed // 48 % 2 else plan
        result = api.verify_plan(model, plan, api.ProofOptions(count=5, seed=seed), core=core if on_core else None)
    except CompileError as error:
        return f"{schedule}: {error}"
    except Exception:
        return f"{schedule}:\n{traceback.format_exc(limit=-6)}"
    if not result.ok:
        return f"{schedule}: {result.first_difference or dict(result.touched)}"
    judged = result.reference.startswith("LiteRT's reference kernels") or (may_lack_litert(seed) and not by_row)
    return None if judged else f"{UNJUDGED} {result.reference}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--core", default=api.DEFAULT_CORE, help="the emulated core that runs every eighth network")
    options = parser.parse_args()
    if importlib.util.find_spec("ai_edge_litert") is None:
        print("needs LiteRT: pip install ai-edge-litert", file=sys.stderr)
        return 2
    kinds: Counter[str] = Counter()
    failed, unjudged, seed, begun = 0, 0, options.first, time.monotonic()
    try:
        while seed == options.first or time.monotonic() - begun < 60 * options.minutes:
            if reason := failure(seed, options.core, kinds):
                failed += not reason.startswith(UNJUDGED)
                unjudged += reason.startswith(UNJUDGED)
                print(f"seed {seed}: {reason}", flush=True)
            seed += 1
    except KeyboardInterrupt:
        print("stopped")
    print(f"{seed - options.first} networks in {time.monotonic() - begun:.0f} s, seeds {options.first} to {seed - 1}")
    print(f"{kinds.total()} ops of {len(kinds)} kinds: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    print(f"{failed} failures; LiteRT could not run {unjudged}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
