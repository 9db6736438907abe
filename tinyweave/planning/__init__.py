"""Planning: which ops run together and in which order, with which kernels, and where every byte lies."""

from ..progress import Progress
from .assemble import plan_in_order, plan_in_stages
from .check import check
from .kernels.flash_budget import OtherFlash, constant_bytes, likely_code, trades_flash
from .memories import divided
from .plan import Buffer, Place, Plan, Stage, Tile, scratch_name
from .planner import Choices, KnownSpaces, front, plan
from .schedules import RECOMPUTING, SCHEDULES
from .serialize import from_json, to_json
from .trade.choose import Aim

__all__ = [
    "RECOMPUTING",
    "SCHEDULES",
    "Aim",
    "Buffer",
    "Choices",
    "KnownSpaces",
    "OtherFlash",
    "Place",
    "Plan",
    "Progress",
    "Stage",
    "Tile",
    "check",
    "constant_bytes",
    "divided",
    "from_json",
    "front",
    "likely_code",
    "plan",
    "plan_in_order",
    "plan_in_stages",
    "scratch_name",
    "to_json",
    "trades_flash",
]
