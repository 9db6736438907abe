"""Multi-stage fusion (msf-CNN, arXiv 2505.11483): its tables, its own count of them, and what tinyweave's plans need.

In: the paper's three chains (--chains: msf_models.json). Out: per chain two tables, in kB = 1000 bytes as the paper has them.
The first: table 1 as printed and as counted here, F of the same cuts counted exactly, and what the paper measured on a board
(tables 3 and 5), which is not computed. The second: plans of tinyweave at the same limits, with exact F: by the paper's count
(no network input or output: the image lies in RAM, whole until the end, and no map takes its bytes); everything counted, the
input by rows or in RAM; the whole network with skips, mean and classifier; and a prototype that was not run. Weights are
random; each plan runs on this machine and on an emulated core, beside LiteRT's reference kernels. Then tables 5 and 4: the
fastest plans of the whole network, input by rows, within the RAM that the paper measured on a Nucleo-F767ZI, and those of the
least RAM on its six boards, with the milliseconds measured there and those estimated here. Exit code 1 when a figure of table 1
is not the paper's, or a byte differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from plans import model_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cases.mobile import bottlenecks, fusion_chains  # noqa: E402

from tinyweave import api, results  # noqa: E402
from tinyweave.devices import Device, find  # noqa: E402
from tinyweave.nas.arch import Block  # noqa: E402
from tinyweave.ops import macs as macs_of_graph  # noqa: E402
from tinyweave.papers.chain import ChainLayer, macs  # noqa: E402
from tinyweave.papers.fusion import FusionCut, exact_macs, least_macs, least_ram, plan_ram, unfused  # noqa: E402
from tinyweave.planning import Plan  # noqa: E402
from tinyweave.planning.fuse.schedule import plan_macs  # noqa: E402

LIMITS = ("F 1.1", "F 1.2", "F 1.3", "F 1.4", "F 1.5", "F inf", "16 kB", "32 kB", "64 kB", "128 kB", "256 kB")
VANILLA, NO_CUT = "unfused", "none"
# tables 1 and 5 of the paper, per chain without fusion, then per limit: RAM in kB, F; RAM in kB measured on a Nucleo-F767ZI
TABLE_1 = {
    "MBV2-w0.35": "194.44 1, 67.905 1.1, same, 21.288 1.3, 15.34 1.38, same, 7.887 1.68,"
    " 15.34 1.38, 25.674 1.25, 63.741 1.23, 83.065 1.02, 181.44 1",
    "MN2-vww5": "96 1, 32.792 1.04, 26.128 1.11, 17.76 1.3, 13.376 1.35, same, 12 1.96,"
    " 13.376 1.35, 26.128 1.11, 38.576 1.02, 89.6 1, same",
    "MN2-320K": "309.76 1, 190.096 1.04, 186.736 1.19, 186.032 1.25, 156.672 1.37, 94.184 1.45, 42.643 2.69,"
    " none, none, 62.88 2.02, 94.184 1.45, 247.808 1",
}
MISPRINTS = {"194.44 1": "194.4 1"}  # 72 * 72 * 30 + 36 * 36 * 30 = 194,400
TABLE_5 = {
    "MBV2-w0.35": "194.44, 67.996, same, 21.389, 15.199, same, 8.56, 15.199, 25.803, 63.603, 83.133, 181.44",
    "MN2-vww5": "96, 45.283, 26.24, 20.568, 17.904, same, 15.368, 17.904, 26.24, 45.283, 89.6, same",
    "MN2-320K": "309.76, 199.6, 196.072, 195.333, 156.864, 94.224, 51.164, none, none, 63.456, 94.224, 247.808",
}
# the milliseconds beside them, and those of table 4 with the least RAM on each board; OOM: out of memory
TABLE_5_MS = {
    "MBV2-w0.35": "807.6, 961.9, same, 1313.8, 1412.3, same, 1996.8, 1412.3, 1266.3, 1121.7, 947.0, 879.2",
    "MN2-vww5": "509.7, 696.0, 769.2, 922.7, 931.3, same, 1723.0, 931.3, 769.2, 684.6, 683.4, same",
    "MN2-320K": "4394.3, 4171.0, 4525.1, 4680.7, 5128.9, 5370.3, 19329.9, none, none, 9458.6, 5370.3, 3923.2",
}
TABLE_4 = {
    "MBV2-w0.35": "1996.8, 1379.6, 5270.1, 6748.2, 6792.7, 10000.0",
    "MN2-vww5": "1723.0, 1727.5, 4943.4, 5974.1, 6248.9, OOM",
    "MN2-320K": "19329.9, 16261.9, 56979.0, 76763.6, 73713.8, OOM",
}
BOARDS = ("stm32f767", "stm32f746", "stm32f412", "esp32-s3", "esp32-c3", "fe310-g002")
ANY_WORK = 2.0  # times the network's, where the paper has no limit
# table 3 of the paper: the least RAM in kB of StreamNet-2D and MCUNetV2
OTHERS = {"MBV2-w0.35": (66, 63), "MN2-vww5": (44, 45), "MN2-320K": (208, 215)}
# the project's notes on fusion: exact F, the paper's discounts, rings of pixels, no buffer for a block's first layer; not run
PROTOTYPE = {
    "MBV2-w0.35": {"F 1.0": 16_960, "F 1.1": 12_508, "F 1.3": 8_580, "F 1.5": 8_272, "F inf": 7_788},
    "MN2-vww5": {"F 1.0": 14_944, "F 1.1": 13_472, "F 1.3": 13_272, "F 1.5": 12_376, "F inf": 11_200},
    "MN2-320K": {"F 1.0": 75_880, "F 1.1": 66_304, "F 1.3": 54_256, "F 1.5": 49_768, "F inf": 41_896},
}
OVERHEADS = (1.0, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)  # the chains gain nothing beyond
CLASSES, SAMPLES = 1000, 2


class Point(NamedTuple):
    """A plan, and what it needs by the count of its column."""

    ram: int
    overhead: float
    plan: Plan


def reproduced(layers: Sequence[ChainLayer], limit: str) -> FusionCut | None:
    """The paper's own answer to one of its limits."""
    if limit == VANILLA:
        return unfused(layers)
    kind, _, figure = limit.partition(" ")
    if kind == "F":
        return least_ram(layers, None if figure == "inf" else float(figure))
    return least_macs(layers, int(kind) * 1000)


def best(points: Sequence[Point], limit: str) -> Point | None:
    """Of plans the one that answers a limit."""
    kind, _, figure = limit.partition(" ")
    if kind == "F":
        within = [point for point in points if figure == "inf" or point.overhead <= float(figure)]
        return min(within, key=lambda p: (p.ram, p.overhead), default=None)
    return min((p for p in points if p.ram <= int(kind) * 1000), key=lambda p: (p.overhead, p.ram), default=None)


def kb(ram: int) -> str:
    """As table 1 prints it: no zeros at the end."""
    return f"{ram / 1000:.3f}".rstrip("0").rstrip(".")


def rows(table: str) -> list[str]:
    """The rows of a printed table, "same as above" filled in."""
    found = list[str]()
    for row in table.split(","):
        found.append(found[-1] if row.strip() == "same" else row.strip())
    return found


def table_1(name: str, layers: Sequence[ChainLayer]) -> int:
    """Print the paper's rows beside those counted here; how many differ."""
    streamnet, mcunet = OTHERS[name]
    print(
        f"\n{name}: {macs(layers):,} MACs unfused. By the paper's table 3 MCUNetV2 {mcunet} kB, StreamNet-2D {streamnet} kB\n"
    )
    print("| limit | paper: RAM, F | counted here | exact F | paper: measured RAM |\n|---|" + "---:|" * 4)
    wrong = 0
    for limit, printed, measured in zip((VANILLA, *LIMITS), rows(TABLE_1[name]), rows(TABLE_5[name]), strict=True):
        cut, counted, exact = reproduced(layers, limit), NO_CUT, ""
        if cut is not None:
            factor = f"{cut.macs / macs(layers):.2f}".rstrip("0").rstrip(".")
            counted, exact = f"{kb(cut.ram)} {factor}", f"{exact_macs(layers, cut) / macs(layers):.3f}"
        is_same = counted == MISPRINTS.get(printed, printed)
        wrong += not is_same
        note = " DIFFERS" if not is_same else "" if counted == printed else " (a misprint)"
        print(f"| {limit} | {printed} | {counted}{note} | {exact} | {measured} |")
    return wrong


def points(model: results.Model, *, streamed_inputs: bool, as_paper: bool = False) -> list[Point]:
    """The smallest plans for some amounts of work, with the kernels for all cores, which need no working memory."""
    found = [
        api.plan(model, optimize="size", stream_inputs=streamed_inputs, max_mac_overhead=overhead) for overhead in OVERHEADS
    ]
    work = macs_of_graph(model.graph)
    return [Point(plan_ram(p) if as_paper else sum(p.arena.values()), sum(plan_macs(p)) / work, p) for p in found]


def unmatched(layers: Sequence[ChainLayer], points: Sequence[Point]) -> list[str]:
    """The limits at which no plan has both the paper's RAM, by its count, and its MACs, exact."""
    missed = list[str]()
    for limit in LIMITS:
        if (cut := reproduced(layers, limit)) is not None:
            factor = exact_macs(layers, cut) / macs(layers)
            if not any(point.ram <= cut.ram and point.overhead <= factor for point in points):
                missed.append(limit)
    return missed


def ours(name: str, layers: Sequence[ChainLayer], core: str | None) -> int:
    """Print what plans need at the paper's limits; how many gave wrong bytes."""
    alone = [Block((layer,)) for layer in layers]
    chain, counted = model_of("chain", alone), model_of("counted", alone, 0, keep_image=True)
    network = model_of("network", bottlenecks(layers), CLASSES)
    columns = {
        "paper's count": (counted, points(counted, streamed_inputs=False, as_paper=True)),
        "all, by rows": (chain, points(chain, streamed_inputs=True)),
        "all, input in RAM": (chain, points(chain, streamed_inputs=False)),
        "network, by rows": (network, points(network, streamed_inputs=True)),
        "network, in RAM": (network, points(network, streamed_inputs=False)),
    }
    verdicts: dict[Plan, bool] = {}
    heads = "".join(f" {column} | F |" for column in columns)
    print(f"\n| limit | paper RAM | exact F |{heads} prototype | equal bytes |\n|---|" + "---:|" * (2 * len(columns) + 4))
    for limit in ("F 1.0", *LIMITS):
        cut, cells, equal = reproduced(layers, limit), list[str](), list[bool]()
        for model, found in columns.values():
            point = best(found, limit)
            cells += [NO_CUT, ""] if point is None else [kb(point.ram), f"{point.overhead:.3f}"]
            if point is not None:
                if point.plan not in verdicts:
                    verdicts[point.plan] = api.verify(model, point.plan, count=SAMPLES, core=core).ok
                equal.append(verdicts[point.plan])
        theirs = [NO_CUT, ""] if cut is None else [kb(cut.ram), f"{exact_macs(layers, cut) / macs(layers):.3f}"]
        prototype = kb(PROTOTYPE[name][limit]) if limit in PROTOTYPE[name] else ""
        verdict = "" if not equal else "yes" if all(equal) else "NO"
        print(f"| {limit} | " + " | ".join([*theirs, *cells, prototype, verdict]) + " |", flush=True)
    missed = unmatched(layers, columns["paper's count"][1])
    print(f"\nlimits at which no plan needs as little RAM and as few MACs as the paper's cut: {', '.join(missed) or 'none'}")
    print(f"{sum(verdicts.values())} of {len(verdicts)} plans give the bytes of the reference")
    return len(verdicts) - sum(verdicts.values())


def fastest(model: results.Model, board: Device, ram: int | None, overhead: float) -> Plan:
    """The plan with the fewest cycles on a board within so much RAM; of the least RAM where that is None."""
    limits = results.Limits(ram, None, reads=api.flash_reads(board))
    aim = "speed" if ram else "size"
    return api.plan(model, limits=limits, optimize=aim, stream_inputs=True, max_mac_overhead=overhead, core=board.core)


def on_boards(name: str, layers: Sequence[ChainLayer]) -> None:
    """Print what the paper measured on boards beside our RAM and estimated milliseconds."""
    model, board = model_of("network", bottlenecks(layers), CLASSES), find(BOARDS[0])
    print(f"\n{name} on {board.name}, RAM in kB: measured by the paper (table 5); our arena, estimated\n")
    print("| limit | paper: RAM | ms | our arena | F | ms |\n|---|" + "---:|" * 5)
    for limit, ram, ms in zip((VANILLA, *LIMITS), rows(TABLE_5[name]), rows(TABLE_5_MS[name]), strict=True):
        kind, _, figure = limit.partition(" ")
        overhead = float(figure) if kind == "F" and figure != "inf" else 1.0 if limit == VANILLA else ANY_WORK
        within = int(kind) * 1000 if ram == NO_CUT else round(1000 * float(ram))
        plan = fastest(model, board, within, overhead)
        arena, work = sum(plan.arena.values()), sum(plan_macs(plan)) / macs_of_graph(model.graph)
        ours = f"{kb(arena)} | {work:.3f} | {milliseconds(plan, board)}" if arena <= within else f"{NO_CUT} | | "
        print(f"| {limit} | {ram} | {ms} | {ours} |")
    print(f"\n{name} with the least RAM: milliseconds measured by the paper (table 4), ours estimated\n")
    print("| board | RAM, kB | paper: RAM | ms | our arena | fits | ms |\n|---|" + "---:|" * 6)
    least = rows(TABLE_5[name])[LIMITS.index("F inf") + 1]
    for board, ms in zip(map(find, BOARDS), rows(TABLE_4[name]), strict=True):
        smallest = fastest(model, board, None, ANY_WORK)
        plan = fastest(model, board, sum(smallest.arena.values()), ANY_WORK)
        arena = sum(plan.arena.values())
        fits = "yes" if arena <= board.ram else "no"
        print(
            f"| {board.name} | {board.ram / 1000:.0f} | {least} | {ms} | {kb(arena)} | {fits} | {milliseconds(plan, board)} |",
            flush=True,
        )


def milliseconds(plan: Plan, board: Device) -> str:
    """The time of a plan on a board, or that nothing is known of it."""
    ms = api.latency_ms(plan, board)
    return "no timings" if ms is None else f"{ms:,.1f}"


def iterative() -> None:
    """Print what the paper's layers that take their input element by element need: it forgets that sums are int32."""
    print("\n| RAM of it in whole, % | paper | with int32 sums |\n|---|---:|---:|")
    for what, inputs, outputs, printed in (("dense layer, 1024 to 256", 1024, 256, 20), ("pool of 7 x 7, 1 channel", 49, 1, 2)):
        print(f"| {what} | {printed} | {100 * (1 + 4 * outputs) / (inputs + outputs):.0f} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only chains whose name contains one of these")
    parser.add_argument("--chains", type=Path, default=ROOT.parent / "shared" / "nets" / "msf_models.json")
    parser.add_argument("--core", default=api.DEFAULT_CORE, help="the emulated core that runs the plans, '' for none")
    options = parser.parse_args()
    if not options.chains.is_file():
        print(f"no chains in {options.chains}; name their file with --chains", file=sys.stderr)
        return 2
    wrong = differing = 0
    for name, layers in fusion_chains(options.chains).items():
        if not options.names or any(part in name for part in options.names):
            wrong += table_1(name, layers)
            differing += ours(name, layers, options.core or None)
            on_boards(name, layers)
    iterative()
    print(f"\n{wrong} rows of table 1 differ, {differing} plans give other bytes")
    return 1 if wrong or differing else 0


if __name__ == "__main__":
    sys.exit(main())
