"""Start the command line: the command `tinyweave`, or `python -m tinyweave`.

Signal handlers are installed before any other import, so that the exit code is always 128 + the signal's number. Nothing is
imported from the current folder, which `python -m` searches first: not even __future__, here and in `lazy`.
"""

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]

import gc
import os
import signal

TYPE_CHECKING = False  # as in typing, which takes 5 ms to import
if TYPE_CHECKING:
    from types import FrameType

SIGNALS = tuple(number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)
COLLECT_EVERY = 100_000  # new objects between two searches for garbage; the default of 700 costs 3 % of the time of a deploy
RETRY_S = 0.01  # seconds between attempts to raise Ended
PATIENCE = 1000  # attempts for which an import may delay Ended: on a busy machine it takes more than a few seconds

_RECEIVED: list[int] = []  # signals that end the process, in the order in which they came


class Ended(BaseException):
    """Raised by a signal that ends the process; cleanup code on the way out removes unfinished files."""


def main() -> int:
    """Run the command in sys.argv and return its exit code, or 128 + the signal's number if a signal ended it."""
    # signals that the parent process ignores, as under nohup, stay ignored
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    report = sys.unraisablehook
    sys.unraisablehook = lambda about: None if isinstance(about.exc_value, Ended) else report(about)
    try:
        for number in handled:
            signal.signal(number, _end)
        gc.set_threshold(COLLECT_EVERY)
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy uses threads for floats alone; starting them takes 0.1 s
        from . import cli

        cli.received_signals = _RECEIVED
        code = cli.main()
        _ignore(handled)  # the work is done: a late signal must not change the exit code
        if not _RECEIVED:  # else an import has delayed a signal until the work was done
            return code
    except BaseException as error:
        _ignore(handled)
        if isinstance(error, KeyboardInterrupt):
            _RECEIVED.append(signal.SIGINT)
        if not _RECEIVED:  # else it may be any error, of a module that a signal left half loaded
            raise
    number = _RECEIVED[0]
    said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    print(f"tinyweave: {said}", file=sys.stderr)
    return 128 + int(number)


def _end(number: int, frame: "FrameType | None", attempts: int = 0) -> None:
    """Handle a signal: raise Ended in the code that runs, and again every RETRY_S seconds until it reaches `main`.

    One exception is not enough, because destructors and C callbacks swallow exceptions. Nothing is raised in `main`, nor while
    cleanup code runs, nor in the first PATIENCE attempts while an import runs, because an interrupted import leaves a module
    half loaded.
    `number` is the signal's, `attempts` the number of earlier attempts.
    """
    if number not in _RECEIVED:
        _RECEIVED.append(number)
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda _, frame: _end(number, frame, attempts + 1))
        signal.setitimer(signal.ITIMER_REAL, RETRY_S)
        in_main = frame is not None and frame.f_code in (main.__code__, _ignore.__code__)
        if in_main or _is_ending() or (_is_importing(frame) and attempts < PATIENCE):
            return
    raise Ended(number)


def _is_importing(frame: "FrameType | None") -> bool:
    while frame is not None:
        if "importlib" in frame.f_code.co_filename:  # importlib/util.py of a lazy module, too
            return True
        frame = frame.f_back
    return False


def _is_ending() -> bool:
    """Return whether cleanup code, a `finally` or `except` block, runs because a signal has raised Ended."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, Ended):
            return True
        error = error.__context__
    return False


def _ignore(handled: list[int]) -> None:
    """Ignore the signals `handled` and the timer that raises Ended again.

    The timer's signal is ignored last, because a signal of `handled` starts the timer, and stays ignored, because it may be
    pending.
    """
    for number in (*handled, *([signal.SIGALRM] if hasattr(signal, "SIGALRM") else [])):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
