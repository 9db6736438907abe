"""Slow work for a process of the explorer, which must be able to import it."""

from __future__ import annotations

import time


def a_minute(*_: object) -> None:
    time.sleep(60)
