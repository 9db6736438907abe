"""The command line: one function per command, which calls `api` and prints the results. Other packages add commands, too.

Exit codes: 0 success; 1 the model does not fit, or a byte differs; 2 bad input, explained in one line; 70 a bug of tinyweave;
130 interrupted. The process starts in `__main__`. `commands` has most commands, `options` their shared options.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from . import docs, export, guard, listing, quantize, report  # noqa: F401 (each adds its commands to app)
from .commands import app
from .modules import columns, ir
from .options import BAD_INPUT, INTERRUPTED, OUR_MISTAKE

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)  # a disk or quota is full, or the disk is damaged
# the base of typer's errors for wrong options, in click or in typer's copy of it
USAGE_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

received_signals: list[int] = []  # signals that end the process; `__main__` sets it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `arguments` are the words after `tinyweave`, None to take sys.argv."""
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        app.find(next((word for word in words if not word.startswith("-")), None))
        code = app(words, prog_name="tinyweave", standalone_mode=False) or 0
        sys.stdout.flush()
        if code == INTERRUPTED:  # so typer returns a KeyboardInterrupt
            raise KeyboardInterrupt
        return code
    except ir.CompileError as error:
        return _bad_input(str(error))
    except USAGE_ERROR as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "tinyweave"
        about = f" ({error.param.help.rstrip('.')})" if type(error).__name__ == "MissingParameter" and error.param else ""
        return _bad_input(f"{error.format_message().rstrip('.')}{about}; see {command} --help")
    except SystemExit:  # a process of torchrun that has nothing more to do
        return 0
    except OSError as error:
        return _bad_input(f"{_file_of(error)}: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort) as error:
        if isinstance(error.__cause__, EOFError):  # of a command; typer takes it for Ctrl-D
            return _our_mistake()
        if not received_signals:  # else the caller says which signal it was
            print("tinyweave: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception:
        return _our_mistake()


class _Pipe(io.FileIO):
    """Standard output or error, which drops what a reader that has ended, such as `head`, does not read any more."""

    def write(self, data: Any) -> int:
        """Write bytes; after the reader has closed the pipe, write them to the null device."""
        try:
            return super().write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return super().write(data)


def _lasting(stream: Any) -> Any:
    """Return standard output or error as a stream that survives a closed pipe, and names that the terminal's encoding lacks."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = getattr(stream.buffer, "raw", stream.buffer)  # with PYTHONUNBUFFERED, the buffer is raw itself
    if type(raw) is not io.FileIO or raw.fileno() > 2:
        stream.reconfigure(errors="replace")
        return stream
    stream.flush()
    pipe = _Pipe(raw.fileno(), "w", closefd=False)
    buffer: Any = pipe if raw is stream.buffer else io.BufferedWriter(pipe)
    lines, through = stream.line_buffering, stream.write_through
    return io.TextIOWrapper(buffer, stream.encoding, "replace", line_buffering=lines, write_through=through)


def _heed_signal() -> None:
    """Raise KeyboardInterrupt if a signal was received, which may have caused an error, such as a half loaded module."""
    if received_signals:
        raise KeyboardInterrupt


def _file_of(error: OSError) -> str:
    """Return the file that an OSError is about, as text; a full disk without a file name means standard output."""
    if error.filename is not None:
        return os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(error.filename)
    if error.errno not in FULL:
        return "input or output"
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes its buffer again at exit
    return "standard output"


def _our_mistake() -> int:
    """Print the traceback of the error that is being handled, as a bug of tinyweave, and return the exit code OUR_MISTAKE."""
    _heed_signal()
    traceback.print_exc()
    print("tinyweave: this is a bug of tinyweave; please report it with the lines above", file=sys.stderr)
    return OUR_MISTAKE


def _bad_input(message: str) -> int:
    """Print an error message in one line on standard error and return the exit code BAD_INPUT."""
    _heed_signal()
    try:
        print(f"tinyweave: {columns.clean(' '.join(message.split()), 2000)}", file=sys.stderr, flush=True)
    except OSError:  # standard error is closed or full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # Python flushes its buffer again at exit
    return BAD_INPUT
