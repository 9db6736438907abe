"""The functions that Python (`import tinyweave as tw`) and the command line call.

`verbs` has the public functions, which take paths, names and options. They call the functions of the other modules, which take
a Model and a planner Request. Each name is imported on first use, so `load` does not load the planner, and `plan` no emulator.
"""

# ruff: noqa: F401 (they are this package's names)
from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attributes

if TYPE_CHECKING:
    from ..planning import Limits, Plan, Request
    from ..planning.ablation import ablation
    from ..projects import check_format, export_files
    from ..quantize.ptq import CALIBRATION, QuantiseOptions
    from .advice import advise
    from .code import CodeOptions, NewWeights, compiled_bytes, emit_c, emulated_core, merge_files, new_weights, write
    from .exports import PackageOptions, package
    from .guarding import guard_models
    from .models import (
        for_file,
        inspect_file,
        load_file,
        load_float_module,
        load_module,
        origins,
        read,
        streamed,
        with_io,
        without_kernel,
    )
    from .options import PlanOptions
    from .other_engines import rewrite_for, tflm_gain
    from .plans import (
        COST_MODEL_CORES,
        DEFAULT_CORE,
        OPTIMIZE,
        baseline_plans,
        check_plan,
        choices,
        device_limits,
        estimate_cycles,
        estimate_flash,
        estimate_latency_ms,
        estimate_layer_cycles,
        estimate_reading,
        explain,
        file_reads,
        flash_front,
        flash_reads,
        front,
        has_weights_file,
        latency_excess,
        limits_of,
        make_plan,
        read_plan,
        reorder_model,
        request_of,
    )
    from .preparation import preparation_of, task_of
    from .python_words import with_python_words
    from .quantisation import (
        SampleOptions,
        accuracies,
        convert_qat,
        int8_form,
        is_float_model,
        precision_limits,
        prepare_qat,
        quantize_model,
    )
    from .references import ProofOptions, samples
    from .results import Deployment, Fit, FlashEstimate, Inspection, Model, Profile, Quantisation, Reordering
    from .row_sources import row_source_bytes
    from .running import Outputs, run_model
    from .runs import EarlierPlan, boards_that_fit, compare_boards, deploy_model, profile_plan, run_plan, verify_plan
    from .sample_files import arrays_of
    from .verbs import (
        compare,
        compile,
        export,
        guard,
        inspect,
        load,
        pareto,
        plan,
        profile,
        quantize,
        reorder,
        run,
        verify,
        weights,
    )

__getattr__ = attributes(__name__)
