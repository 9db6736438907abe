"""Start the command line: the command `tinyweave`, or `python -m tinyweave`.

Nothing is imported before the signals are taken care of: 128 + the signal's number is the exit code at any moment. Nothing at
all is imported from the current folder, where `python -m` looks first.
"""

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]

import os
import signal
from types import FrameType

END = tuple(number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)


class Terminated(BaseException):
    """A signal asks the process to end; on its way out everything half-written is removed."""


def main() -> int:
    """Run one command; return its exit code."""
    # a signal that the parent had us ignore, as nohup does, stays ignored
    heeded = [number for number in (signal.SIGINT, *END) if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, _leave)  # imports have nothing to clean up, and some swallow exceptions
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy uses threads for floats alone; starting them takes 0.1 s
    from . import cli

    try:
        for number in heeded:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _terminate)
        return cli.main()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Terminated as error:
        return 128 + int(error.args[0])


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise Terminated(number)


if __name__ == "__main__":
    sys.exit(main())
