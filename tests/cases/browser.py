"""Open pages in Chromium, which runs their scripts with a virtual clock, and read their content afterwards."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update".split()
)


def needs_chromium() -> None:
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: apt install chromium)")


def browse(address: str, folder: Path, milliseconds: int, width: int = 1200) -> str:
    """Return the page after `milliseconds`; its scripts must raise no error.

    folder: for the browser's profile.
    """
    needs_chromium()
    options = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", f"--virtual-time-budget={milliseconds}"]
    command = [str(CHROMIUM), *QUIET, *options, "--enable-logging=stderr", "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Uncaught" not in done.stderr, done.stderr
    return done.stdout


def seen(page: str) -> dict[str, Any]:
    """Return the JSON that a script of a test has written into <output id="seen">."""
    (text,) = re.findall(r'<output id="seen">(.*?)</output>', page, re.DOTALL)
    return dict(json.loads(unescape(text)))
