"""Multi-stage fusion (msf-CNN, arXiv 2505.11483): its tables, its own count of them, and what tinyweave's plans need.

In: the paper's three chains (--chains: msf_models.json). Out: per chain two tables, in kB = 1000 bytes as the paper has them.
The first: table 1 as printed and as counted here, F of the same cuts counted exactly, and what the paper measured on a board
(tables 3 and 5), which is not computed. The second: plans of tinyweave at the same limits, with exact F: by the paper's count
(no network input or output: the image lies in RAM, whole until the end, and no map takes its bytes); everything counted, the
input by rows or in RAM; the whole network with skips, mean and classifier; and a prototype that was not run. Weights are
random; each plan runs on this machine and on an emulated core, beside LiteRT's reference kernels. Then tables 3 to 5, what was
measured there beside our arena and milliseconds, estimated here, of the whole network, input by rows: the least RAM, that of
the six boards, and the fastest plans on each within the RAM that the paper measured on a Nucleo-F767ZI, and layer by layer.
Cycles are foreseen from shapes; of a SiFive E31 they are those of a run, which also says what the board needs with its stack.
Exit code 1 when a figure of table 1 is not the paper's, or a byte differs.
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

from tinylesson.papers.fusion import FusionCut, exact_macs, least_macs, least_ram, plan_ram, unfused  # noqa: E402
from tinynas.arch import Block  # noqa: E402
from tinynas.published.patches import macs  # noqa: E402
from tinyweave import api  # noqa: E402
from tinyweave.api import results  # noqa: E402
from tinyweave.devices import Device, find  # noqa: E402
from tinyweave.ops import macs as macs_of_graph  # noqa: E402
from tinyweave.ops.window import ChainLayer  # noqa: E402
from tinyweave.planning import Plan  # noqa: E402
from tinyweave.planning.fuse.row_schedule import plan_macs  # noqa: E402
from tinyweave.simulate.instruction_timing import TIMINGS  # noqa: E402

LIMITS = ("F 1.1", "F 1.2", "F 1.3", "F 1.4", "F 1.5", "F inf", "16 kB", "32 kB", "64 kB", "128 kB", "256 kB")
VANILLA, NO_CUT = "unfused", "none"
LAYERS, NO_CYCLES = "unfused, ours layer by layer", "no cycle model"
SMALL_BOARD = 32_000  # bytes of RAM, of which a stack takes a part that counts
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
# tables 3 and 5 of the paper: the least RAM in kB of StreamNet-2D and MCUNetV2, and the milliseconds beside them
OTHERS = {"MBV2-w0.35": (66, 63), "MN2-vww5": (44, 45), "MN2-320K": (208, 215)}
OTHERS_MS = {"MBV2-w0.35": (417, 1513), "MN2-vww5": (225, 810), "MN2-320K": (1444, 2777)}
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
                    verdicts[point.plan] = api.verify_plan(model, point.plan, api.ProofOptions(count=SAMPLES), core=core).ok
                equal.append(verdicts[point.plan])
        theirs = [NO_CUT, ""] if cut is None else [kb(cut.ram), f"{exact_macs(layers, cut) / macs(layers):.3f}"]
        prototype = kb(PROTOTYPE[name][limit]) if limit in PROTOTYPE[name] else ""
        verdict = "" if not equal else "yes" if all(equal) else "NO"
        print(f"| {limit} | " + " | ".join([*theirs, *cells, prototype, verdict]) + " |", flush=True)
    missed = unmatched(layers, columns["paper's count"][1])
    print(f"\nlimits at which no plan needs as little RAM and as few MACs as the paper's cut: {', '.join(missed) or 'none'}")
    print(f"{sum(verdicts.values())} of {len(verdicts)} plans give the bytes of the reference")
    return len(verdicts) - sum(verdicts.values())


class OnBoards:
    """Our plans of a network on the paper's boards, each made once for boards on which it would be the same."""

    def __init__(self, model: results.Model) -> None:
        self.model, self.boards = model, tuple(map(find, BOARDS))
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._profiles: dict[Plan, results.Profile] = {}

    def plan(self, board: Device, ram: int | None, overhead: float, schedule: str = "best") -> Plan:
        """Return the plan with the fewest cycles within so much RAM; with the least RAM where that is None."""
        reads = api.flash_reads(board)
        key = (board.core, reads, ram, overhead, schedule)
        if key not in self._plans:
            limits, aim = results.Limits(ram, None, reads=reads), "speed" if ram else "size"
            self._plans[key] = api.make_plan(
                self.model,
                api.Request(
                    schedule,
                    objective=aim,
                    limits=limits,
                    stream_inputs=schedule == "best",
                    max_mac_overhead=overhead,
                    core=board.core,
                ),
            )
        return self._plans[key]

    def least(self, board: Device) -> Plan:
        """Return the fastest plan with the least arena."""
        return self.plan(board, arena_of(self.plan(board, None, ANY_WORK)), ANY_WORK)

    def profile(self, plan: Plan, board: Device) -> results.Profile:
        """Return what a plan needs and takes on the board's emulated core."""
        if plan not in self._profiles:
            self._profiles[plan] = api.profile_plan(self.model, plan, board.core, device=board)
        return self._profiles[plan]

    def holds(self, plan: Plan, board: Device, most: int) -> bool:
        """Return whether the arena is no more than that, and a small board has room for the stack beside it."""
        return arena_of(plan) <= most and (not is_small(board) or self.profile(plan, board).ram <= (board.ram or 0))

    def milliseconds(self, plan: Plan, board: Device) -> str:
        """Return the estimated time of a plan on a board, or that its core has no cycle model."""
        ms = api.estimate_latency_ms(plan, board)
        if ms is None and board.core in TIMINGS:
            ms = self.profile(plan, board).latency_ms(board)
        return NO_CYCLES if ms is None else f"{ms:,.1f}"

    def room(self, board: Device) -> int:
        """Return what a board has for an arena: its RAM, where that is little without the stack of the plan with the least."""
        assert board.ram is not None
        if not is_small(board):
            return board.ram
        least = self.least(board)
        return board.ram - self.profile(least, board).ram + arena_of(least)


def is_small(board: Device) -> bool:
    return board.ram is not None and board.ram <= SMALL_BOARD


def arena_of(plan: Plan) -> int:
    return sum(plan.arena.values())


def on_boards(name: str, layers: Sequence[ChainLayer]) -> None:
    """Print tables 3 to 5, what the paper measured there beside our RAM and milliseconds, estimated here."""
    here = OnBoards(model_of("network", bottlenecks(layers), CLASSES))
    table_3(name, here)
    table_5(name, here)
    table_4(name, here)


def table_3(name: str, here: OnBoards) -> None:
    """Print the least RAM of each method."""
    vanilla, *_ = rows(TABLE_5[name])
    least = rows(TABLE_5[name])[LIMITS.index("F inf") + 1]
    streamnet, mcunet = OTHERS[name]
    board, work = here.boards[0], macs_of_graph(here.model.graph)
    layers, fused = here.plan(board, None, 1.0, "layer"), here.plan(board, None, ANY_WORK)
    print(f"\n{name}, the least RAM in kB: measured there (table 3); our arena, estimated here\n")
    print("| method | RAM | F |\n|---|---:|---:|")
    for method, ram in (("unfused", vanilla), ("MCUNetV2", mcunet), ("StreamNet-2D", streamnet), ("msf-CNN", least)):
        print(f"| {method}, there | {ram} | |")
    for method, plan in (("layer by layer", layers), ("fused", fused)):
        print(f"| {method}, here | {kb(arena_of(plan))} | {sum(plan_macs(plan)) / work:.3f} |")


def table_5(name: str, here: OnBoards) -> None:
    """Print per limit what was measured there on a Nucleo-F767ZI, and our plans in so much RAM on all its boards."""
    first, *_ = here.boards
    print(f"\n{name}: RAM in kB and ms measured there on {first.name} (table 5); per board our arena and ms, estimated here\n")
    heads = " | ".join(f"{board.name} | ms here" for board in here.boards)
    print(f"| limit | RAM there | ms there | {heads} |\n|---|" + "---:|" * (2 + 2 * len(here.boards)))
    theirs = list(zip((VANILLA, *LIMITS), rows(TABLE_5[name]), rows(TABLE_5_MS[name]), strict=True))
    others = zip(("StreamNet-2D", "MCUNetV2"), map(str, OTHERS[name]), map(str, OTHERS_MS[name]), strict=True)
    for limit, ram, ms in ((LAYERS, *theirs[0][1:]), theirs[0], *others, *theirs[1:]):
        kind, _, figure = limit.partition(" ")
        overhead = float(figure) if kind == "F" and figure != "inf" else 1.0 if limit in (VANILLA, LAYERS) else ANY_WORK
        within = int(kind) * 1000 if ram == NO_CUT else round(1000 * float(ram))
        cells = list[str]()
        for board in here.boards:
            most = here.room(board) if limit == LAYERS else min(within, here.room(board))
            plan = here.plan(board, most, overhead, "layer" if limit == LAYERS else "best")
            cells += [kb(arena_of(plan)), here.milliseconds(plan, board)] if here.holds(plan, board, most) else [NO_CUT, ""]
        print(f"| {limit} | {ram} | {ms} | {' | '.join(cells)} |", flush=True)


def table_4(name: str, here: OnBoards) -> None:
    """Print per board what was measured there with the least RAM, and our plan with the least."""
    print(f"\n{name} with the least RAM, in kB: ms measured there (table 4), estimated here\n")
    print("| board | RAM of it | RAM there | ms there | our arena | fits | ms here |\n|---|" + "---:|" * 6)
    least = rows(TABLE_5[name])[LIMITS.index("F inf") + 1]
    for board, ms in zip(here.boards, rows(TABLE_4[name]), strict=True):
        plan = here.least(board)
        fits = here.holds(plan, board, here.room(board))
        own = f"{kb(arena_of(plan))} | {f'yes | {here.milliseconds(plan, board)}' if fits else 'no | '}"
        print(f"| {board.name} | {board.ram / 1000:.0f} | {least} | {ms} | {own} |", flush=True)
    for board in here.boards:
        if is_small(board):
            print(f"\n{whole(name, here, board)}")


def whole(name: str, here: OnBoards, board: Device) -> str:
    """Say whether a small board holds a network whole, and what its estimated milliseconds leave out."""
    assert board.ram is not None
    needed = here.profile(here.least(board), board)
    holds = needed.ram <= board.ram and needed.flash <= (board.flash or 0)
    parts = f"arena {kb(arena_of(here.least(board)))}, static data {kb(needed.static)}, stack {kb(needed.stack)}"
    said = f"{name} on {board.name}, whole: {'fits' if holds else 'does not fit'}, {kb(needed.ram)} of {kb(board.ram)} kB RAM"
    said += f" ({parts}), {needed.flash / 1000:,.0f} of {(board.flash or 0) / 1000:,.0f} kB Flash"
    return said if board.bus or board.flash_waits is not None else f"{said}; its ms are those of Flash that answers at once"


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
