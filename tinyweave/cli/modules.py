"""The modules that commands use. Each is imported when its first attribute is read, so that `--help` imports none of them."""

# ruff: noqa: F401 (they are this module's names)
from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import checked_imports, lazy

if TYPE_CHECKING:
    from tinyweave import api, devices, ir, planning
    from tinyweave.api import guarding, results, sample_files
    from tinyweave.report import (
        columns,
        deployment,
        doctor,
        front,
        kernel_shares,
        measured,
        page,
        proposals,
        quantisation,
        schema,
        tables,
        text,
    )
    from tinyweave.report import guard as guard_report
    from tinyweave.report import record as records
    from tinyweave.support import files, manifest, toolchain
else:
    globals().update({name: lazy(f"{where}.{own}") for name, (where, own) in checked_imports(__name__).items()})
