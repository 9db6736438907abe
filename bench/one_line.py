"""End the script that imports this with one line and exit code 2 on bad input or a missing package, as the command line does.

Import it before any optional package.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

from tinyweave.ir import CompileError

BAD_INPUT = 2


def complain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a CompileError or a missing package in one line and exit; show any other error with its traceback."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        why = f"it needs the package {package}, which is not installed; install it, for example with make setup"
    elif isinstance(error, CompileError):
        why = " ".join(str(error).split())
    else:
        sys.__excepthook__(kind, error, trace)
        return
    print(f"{Path(sys.argv[0]).name}: {why}", file=sys.stderr)
    raise SystemExit(BAD_INPUT)


sys.excepthook = complain
