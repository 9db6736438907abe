"""Stage one of TinyNAS on the 108 settings of its space: the best image and width, and how long it takes.

In: RAM and Flash in KiB (--ram, --flash), how networks run (--schedule, --stream). Out: the ten best settings, their mean and
80th percentile of multiply-accumulates, shares of networks that fit, seconds. --map: the best setting for several limits.
"""

from __future__ import annotations

import argparse
import time

from tinyweave.nas.space import MOBILE
from tinyweave.nas.stage_one import Setting, StageLimits, chosen, stage_one

KIB = 1024
RAMS, FLASHES = (192, 256, 320, 384, 512), (512, 1024, 1536, 2048)


def named(setting: Setting) -> str:
    return f"w{setting.width:g}-r{setting.size[0]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ram", type=int, default=320)
    parser.add_argument("--flash", type=int, default=1024)
    parser.add_argument("--schedule", choices=("layer", "best"), default="best")
    parser.add_argument("--stream", action="store_true", help="the image comes by rows")
    parser.add_argument("--count", type=int, default=1000, help="networks of each setting")
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--map", action="store_true", help="the best setting for 192 to 512 KiB and 512 KiB to 2 MiB")
    args = parser.parse_args()

    def settings(ram: int, flash: int) -> list[Setting]:
        limits = StageLimits(ram * KIB, flash * KIB, args.schedule, args.stream)
        return stage_one(MOBILE, limits, args.classes, args.count, processes=args.processes)

    begin = time.perf_counter()
    if args.map:
        print(f"{'Flash KiB':>10}" + "".join(f"{ram:>14}" for ram in RAMS) + "  KiB of RAM")
        for flash in FLASHES:
            print(f"{flash:>10}" + "".join(f"{named(chosen(settings(ram, flash), 'mean')):>14}" for ram in RAMS), flush=True)
    else:
        found = settings(args.ram, args.flash)
        print(f"{'setting':<12}{'fit, %':>8}{'mean, M':>10}{'p80, M':>10}")
        for setting in sorted(found, key=lambda each: -each.p80)[:10]:
            print(f"{named(setting):<12}{100 * setting.share:>8.1f}{setting.mean / 1e6:>10.1f}{setting.p80 / 1e6:>10.1f}")
        print(f"best by the mean {named(chosen(found, 'mean'))}, by the 80th percentile {named(chosen(found))}")
    print(f"{time.perf_counter() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
