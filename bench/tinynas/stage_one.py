"""Stage one of TinyNAS on the 108 settings of its space: the best image and width, and how long it takes.

In: RAM and Flash in KiB (--ram, --flash), how networks run (--schedule, --stream), the share of networks that must fit
(--share). Out: the ten best feasible settings, their mean and 80th percentile of multiply-accumulates, shares of networks that
fit, seconds; if no setting is feasible, the RAM and Flash that make one feasible, and exit code 1. --map: the best setting for
several limits. --figure: either as a picture, too.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from stage_one_figure import best_map, cdf, name_of

from tinynas.space import MOBILE
from tinynas.stage_one import (
    FEASIBLE,
    StageLimits,
    best_setting,
    check_share,
    limits_for_setting,
    most_feasible,
    stage_one,
    stage_one_per_limit,
)
from tinyweave.report.figure import check_figure, encoded

KIB = 1024
RAMS, FLASHES = (192, 256, 320, 384, 512), (512, 1024, 1536, 2048)
NONE = "none"  # of the settings is feasible


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ram", type=int, default=320)
    parser.add_argument("--flash", type=int, default=1024)
    parser.add_argument("--schedule", choices=("layer", "patch", "best"), default="best")
    parser.add_argument("--stream", action="store_true", help="the image comes by rows")
    parser.add_argument("--share", type=float, default=FEASIBLE, help="of a setting's networks must fit")
    parser.add_argument("--count", type=int, default=1000, help="networks of each setting")
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--map", action="store_true", help="the best setting for 192 to 512 KiB and 512 KiB to 2 MiB")
    parser.add_argument("--figure", type=Path, help="also draw it, as a .svg or .png file")
    args = parser.parse_args()
    check_share(args.share)
    if args.figure:
        check_figure(args.figure.name)
    way = f"{args.schedule}{', streamed' if args.stream else ''}, {args.count} networks of each setting"

    def limits(ram: int, flash: int) -> StageLimits:
        return StageLimits(ram * KIB, flash * KIB, args.schedule, args.stream)

    begin, drawn = time.perf_counter(), ""
    if args.map:
        pairs = [(ram, flash) for flash in FLASHES for ram in RAMS]
        every = stage_one_per_limit(
            MOBILE, [limits(*pair) for pair in pairs], args.classes, args.count, processes=args.processes
        )
        best = [best_setting(settings, "mean", args.share) for settings in every]
        names = {pair: name_of(each) if each else NONE for pair, each in zip(pairs, best, strict=True)}
        print(f"{'Flash KiB':>10}" + "".join(f"{ram:>14}" for ram in RAMS) + "  KiB of RAM")
        for flash in FLASHES:
            print(f"{flash:>10}" + "".join(f"{names[ram, flash]:>14}" for ram in RAMS))
        drawn = best_map(names, f"The best width and resolution by mean of multiply-accumulates ({way})")
    else:
        within = limits(args.ram, args.flash)
        found = stage_one(MOBILE, within, args.classes, args.count, processes=args.processes)
        feasible = sorted((each for each in found if each.share >= args.share), key=lambda each: -each.p80)
        ways = [best_setting(found, by, args.share) for by in ("mean", "p80")]
        if ways[0] and ways[1]:
            print(f"{'setting':<12}{'fit, %':>8}{'mean, M':>10}{'p80, M':>10}")
            for each in feasible[:10]:
                print(f"{name_of(each):<12}{100 * each.share:>8.1f}{each.mean / 1e6:>10.1f}{each.p80 / 1e6:>10.1f}")
            print(f"best by the mean {name_of(ways[0])}, by the 80th percentile {name_of(ways[1])}")
            drawn = cdf(feasible[:10], f"Networks within {args.ram} KiB of RAM and {args.flash} KiB of Flash ({way})")
        else:
            near = most_feasible(found)
            need = limits_for_setting(near, MOBILE, within, args.classes, share=args.share)
            ram, flash = (math.ceil(need[name] / KIB) for name in ("ram", "flash"))
            print(f"no setting is feasible: at most {100 * near.share:.1f} % of the networks fit, in {name_of(near)}")
            print(f"there {100 * args.share:g} % fit within {ram:,} KiB of RAM and {flash:,} KiB of Flash")
    if args.figure and drawn:
        args.figure.write_bytes(encoded(drawn, args.figure.name))
    print(f"{time.perf_counter() - begin:.1f} s")
    return 0 if drawn else 1


if __name__ == "__main__":
    raise SystemExit(main())
