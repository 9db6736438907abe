"""What a search finds beside networks made by hand, within the same limits and trained as long with the same recipe.

In: samples (--task, --data), limits, a folder (-o). Out: a line per network: accuracy in int8, its 95 % interval, RAM, Flash
and ms as said before training and as measured. Images: MobileNetV2 and ProxylessNAS, scaled; keywords: DS-CNN. What is in the
folder is not done again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from baselines import TABLES, best_ds_cnn, best_scaled

from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.nas.arch import Arch
from tinyweave.nas.costs import Target
from tinyweave.nas.halving import Rung
from tinyweave.nas.prepare import Preparation, task_of
from tinyweave.nas.search_options import STRATEGIES, SearchOptions
from tinyweave.nas.searching import SearchResult, search, with_measured_overhead

SIDES = (16, 24, 32, 48, 64, 80, 96, 128, 160)  # of images that baselines may have, up to the search's own
FEW = 4  # networks of a family that are trained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=("images", "keywords"), default="images")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--device", default="stm32f412")
    parser.add_argument("--ram", default="12k")
    parser.add_argument("--flash", default="160k")
    parser.add_argument("--latency-ms", type=float)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--strategy", choices=STRATEGIES, default="halving")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    board = find(args.device)
    limits = api.limits_of(board, ram=args.ram, flash=args.flash, latency_ms=args.latency_ms)
    target = Target(board, limits, stream_inputs=True)

    def prepared(side: int) -> Preparation:
        return Preparation(size=(side, side))

    data, space = task_of(args.task, args.data, prepared(args.side))
    options = {"strategy": args.strategy, "minutes": args.minutes, "processes": args.processes}
    found = search(data, space, target, args.out / "search", SearchOptions(**options))
    show("search", found)
    lengths = epochs_of(found)
    classes, target = len(data.classes), with_measured_overhead(target, space, len(data.classes))
    if args.task == "keywords":
        families = {"ds_cnn": best_ds_cnn(space.sizes[0], classes, target)}
    else:
        sizes = [(side, side) for side in SIDES if side <= args.side]
        families = {name: best_scaled(name, sizes, 3, classes, target) for name in TABLES}
    for name, front in families.items():
        if not front:
            print(f"{name}: none fits, however narrow or small")
        for side in sorted({arch.image[0] for arch in front[:FEW]}, reverse=True):
            same: list[Arch] = [arch for arch in front[:FEW] if arch.image[0] == side]
            samples = data if args.task == "keywords" or side == args.side else task_of(args.task, args.data, prepared(side))[0]
            rungs = [Rung(len(same), sum(lengths))]
            try:
                result = search(
                    samples,
                    space,
                    target,
                    args.out / f"{name}-{side}",
                    SearchOptions(archs=same, rungs=rungs, processes=args.processes),
                )
            except CompileError as error:
                print(f"{name} at {side}: {error}")
                continue
            show(f"{name} at {side}", result)
    return 0


def epochs_of(found: SearchResult) -> list[int]:
    """Return for how many epochs the network that was found was trained, training by training, a supernet's left out."""
    number = next(index for index, (arch, _) in enumerate(found.candidates) if arch == found.arch)
    return [each["epochs"] for each in found.trained if each["candidate"] == number and "epochs" in each]


def show(name: str, found: SearchResult) -> None:
    said, profile, done = found.costs, found.deployment.profile, found.deployment
    right, low, high = (100 * share for share in (found.accuracy["test_int8"], *found.interval))
    print(f"{name}: {right:.1f} % ({low:.1f} to {high:.1f}), {said.macs / 1e6:.2f} M MACs, bytes equal: {done.verification.ok}")
    print(f"    said {said.ram:,} B of RAM, {said.flash:,} B of Flash, {said.ms:.1f} ms")
    print(f"    took {profile.ram:,} B, {profile.flash:,} B, {profile.latency_ms(done.device):.1f} ms", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
