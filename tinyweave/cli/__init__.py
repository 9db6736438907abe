"""The command line: one function per verb, each calls the public API and shows what it returned.

Exit codes: 0 done; 1 it does not fit, or it differs; 2 bad input, told in one line; 70 our own mistake; 130 interrupted.
The process starts in `__main__`. `commands` has the verbs, `options` what they share.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence

import typer

from . import explore, export, guard, listing, prune, quantize, report, search  # noqa: F401 (their verbs join the others)
from .commands import app
from .modules import columns, ir
from .options import BAD_INPUT, INTERRUPTED, OUR_MISTAKE

# typer's errors for wrong options share this base, which has lived in two packages
USAGE_ERROR = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name that the terminal's encoding lacks is no reason to stop
    try:
        code = app(list(arguments) if arguments is not None else None, prog_name="tinyweave", standalone_mode=False) or 0
        sys.stdout.flush()
        return code
    except ir.CompileError as error:
        return _complain(str(error))
    except USAGE_ERROR as error:
        context = getattr(error, "ctx", None)
        return _complain(f"{error.format_message().rstrip('.')}; see {context.command_path if context else 'tinyweave'} --help")
    except (BrokenPipeError, SystemExit):
        # the reader of our output left early, as `head` does; typer turns that into SystemExit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        print("tinyweave: this is a mistake of tinyweave, not yours; please report it with the lines above", file=sys.stderr)
        return OUR_MISTAKE


def _complain(message: str) -> int:
    print(f"tinyweave: {columns.clean(' '.join(message.split()), 2000)}", file=sys.stderr)
    return BAD_INPUT
