"""The verbs, joined from the rooms. In: paths, devices, options. Out: results, which Python and the command line show.

A name is looked up in its module when it is first used, so that `inspect` loads no compiler and `plan` no emulator.
"""

# ruff: noqa: F401 (they are this package's names)
from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attributes

if TYPE_CHECKING:
    from .advice import advise
    from .exports import check_format, export_files, package
    from .models import load, load_module, look_at, read, streamed, with_edges
    from .plans import (
        DEFAULT_CORE,
        FORESEEN,
        OPTIMIZE,
        ablation,
        by_flash,
        check_plan,
        counted,
        counted_chain,
        cycles_needed,
        device_limits,
        explain,
        flash_need,
        flash_reads,
        front,
        latency_excess,
        latency_ms,
        layer_cycles_needed,
        limits_of,
        plan,
        read_plan,
        reorder,
        standing,
    )
    from .programs import cascade, listening, looking, play
    from .pruning import prune
    from .quantisation import accuracies, convert_qat, prepare_qat, quantize
    from .row_sources import row_source_bytes
    from .runs import (
        boards_that_fit,
        compare_boards,
        compiled_bytes,
        deploy,
        emulated_core,
        profile,
        run,
        samples,
        source,
        together,
        verify,
        write,
    )
    from .second_emulator import board_for

__getattr__ = attributes(
    __name__,
    {
        "advice": "advise",
        "exports": "check_format export_files package",
        "models": "load load_module look_at read streamed with_edges",
        "plans": "DEFAULT_CORE FORESEEN OPTIMIZE ablation by_flash check_plan counted counted_chain cycles_needed "
        "device_limits explain flash_need flash_reads front latency_excess latency_ms layer_cycles_needed limits_of plan "
        "read_plan reorder standing",
        "programs": "cascade listening looking play",
        "pruning": "prune",
        "quantisation": "accuracies convert_qat prepare_qat quantize",
        "row_sources": "row_source_bytes",
        "runs": "boards_that_fit compare_boards compiled_bytes deploy emulated_core profile run samples source together "
        "verify write",
        "second_emulator": "board_for",
    },
)
