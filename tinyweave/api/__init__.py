"""The verbs, joined from the rooms. In: paths, devices, options. Out: results, which Python and the command line show.

A name is looked up in its module when it is first used, so that `inspect` loads no compiler and `plan` no emulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attributes

if TYPE_CHECKING:
    from .advice import advise as advise
    from .exports import check_format as check_format
    from .exports import export_files as export_files
    from .exports import package as package
    from .models import load as load
    from .models import load_module as load_module
    from .models import look_at as look_at
    from .models import read as read
    from .models import streamed as streamed
    from .models import with_edges as with_edges
    from .plans import DEFAULT_CORE as DEFAULT_CORE
    from .plans import FORESEEN as FORESEEN
    from .plans import OPTIMIZE as OPTIMIZE
    from .plans import ablation as ablation
    from .plans import by_flash as by_flash
    from .plans import counted as counted
    from .plans import counted_chain as counted_chain
    from .plans import cycles_needed as cycles_needed
    from .plans import device_limits as device_limits
    from .plans import explain as explain
    from .plans import flash_need as flash_need
    from .plans import flash_reads as flash_reads
    from .plans import front as front
    from .plans import latency_excess as latency_excess
    from .plans import latency_ms as latency_ms
    from .plans import layer_cycles_needed as layer_cycles_needed
    from .plans import limits_of as limits_of
    from .plans import plan as plan
    from .plans import read_plan as read_plan
    from .plans import reorder as reorder
    from .plans import standing as standing
    from .programs import cascade as cascade
    from .programs import listening as listening
    from .programs import looking as looking
    from .programs import play as play
    from .pruning import prune as prune
    from .quantisation import accuracies as accuracies
    from .quantisation import convert_qat as convert_qat
    from .quantisation import prepare_qat as prepare_qat
    from .quantisation import quantize as quantize
    from .row_sources import row_source_bytes as row_source_bytes
    from .runs import boards_that_fit as boards_that_fit
    from .runs import compare_boards as compare_boards
    from .runs import compiled_bytes as compiled_bytes
    from .runs import deploy as deploy
    from .runs import emulated_core as emulated_core
    from .runs import profile as profile
    from .runs import run as run
    from .runs import samples as samples
    from .runs import source as source
    from .runs import together as together
    from .runs import verify as verify
    from .runs import write as write
    from .second_emulator import board_for as board_for

__getattr__ = attributes(
    __name__,
    {
        "advice": "advise",
        "exports": "check_format export_files package",
        "models": "load load_module look_at read streamed with_edges",
        "plans": "DEFAULT_CORE FORESEEN OPTIMIZE ablation by_flash counted counted_chain cycles_needed device_limits explain "
        "flash_need flash_reads front latency_excess latency_ms layer_cycles_needed limits_of plan read_plan reorder standing",
        "programs": "cascade listening looking play",
        "pruning": "prune",
        "quantisation": "accuracies convert_qat prepare_qat quantize",
        "row_sources": "row_source_bytes",
        "runs": "boards_that_fit compare_boards compiled_bytes deploy emulated_core profile run samples source together "
        "verify write",
        "second_emulator": "board_for",
    },
)
