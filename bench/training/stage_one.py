"""Stage one of TinyNAS on the 108 settings of its space: the best image and width, and how long it takes.

In: RAM and Flash in KiB (--ram, --flash), how networks run (--schedule, --stream). Out: the ten best settings, their mean and
80th percentile of multiply-accumulates, shares of networks that fit, seconds. --map: the best setting for several limits.
--figure: either as a picture, too.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from stage_one_figure import best_map, cdf, name_of

from tinyweave.nas.space import MOBILE
from tinyweave.nas.stage_one import Setting, StageLimits, chosen, stage_one
from tinyweave.report.figure import check_figure, encoded

KIB = 1024
RAMS, FLASHES = (192, 256, 320, 384, 512), (512, 1024, 1536, 2048)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ram", type=int, default=320)
    parser.add_argument("--flash", type=int, default=1024)
    parser.add_argument("--schedule", choices=("layer", "patch", "best"), default="best")
    parser.add_argument("--stream", action="store_true", help="the image comes by rows")
    parser.add_argument("--count", type=int, default=1000, help="networks of each setting")
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--map", action="store_true", help="the best setting for 192 to 512 KiB and 512 KiB to 2 MiB")
    parser.add_argument("--figure", type=Path, help="also draw it, as a .svg or .png file")
    args = parser.parse_args()
    if args.figure:
        check_figure(args.figure.name)
    way = f"{args.schedule}{', streamed' if args.stream else ''}, {args.count} networks of each setting"

    def settings(ram: int, flash: int) -> list[Setting]:
        limits = StageLimits(ram * KIB, flash * KIB, args.schedule, args.stream)
        return stage_one(MOBILE, limits, args.classes, args.count, processes=args.processes)

    begin = time.perf_counter()
    if args.map:
        print(f"{'Flash KiB':>10}" + "".join(f"{ram:>14}" for ram in RAMS) + "  KiB of RAM")
        names = dict[tuple[int, int], str]()
        for flash in FLASHES:
            names |= {(ram, flash): name_of(chosen(settings(ram, flash), "mean")) for ram in RAMS}
            print(f"{flash:>10}" + "".join(f"{names[ram, flash]:>14}" for ram in RAMS), flush=True)
        drawn = best_map(names, f"The best width and resolution by mean of multiply-accumulates ({way})")
    else:
        found = settings(args.ram, args.flash)
        print(f"{'setting':<12}{'fit, %':>8}{'mean, M':>10}{'p80, M':>10}")
        best = sorted(found, key=lambda each: -each.p80)[:10]
        for setting in best:
            print(f"{name_of(setting):<12}{100 * setting.share:>8.1f}{setting.mean / 1e6:>10.1f}{setting.p80 / 1e6:>10.1f}")
        print(f"best by the mean {name_of(chosen(found, 'mean'))}, by the 80th percentile {name_of(chosen(found))}")
        drawn = cdf(best, f"Networks within {args.ram} KiB of RAM and {args.flash} KiB of Flash ({way})")
    if args.figure:
        args.figure.write_bytes(encoded(drawn, args.figure.name))
    print(f"{time.perf_counter() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
