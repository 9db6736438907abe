"""Work that takes long in a process of the explorer's, which must be able to import it."""

from __future__ import annotations

import time


def a_minute(*_: object) -> None:
    time.sleep(60)
