"""The command `batchstat`, also as `python -m batchstat`."""

import os
import signal
import sys
import traceback
from _thread import interrupt_main
from threading import Timer
from types import FrameType

_CRASHED = 3
_INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_RETRY_SECONDS = 0.01


def main() -> None:
    """Runs the command line: exits with 130 for a signal to stop, with 3 for a crash.

    Whatever runs when the signal comes may turn the interrupt into an error of its own, as a class
    being made does; so it is remembered that it came.
    """
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        signal.default_int_handler(number, frame)

    def retry(lost: "sys.UnraisableHookArgs") -> None:
        """Interrupt again where Python drops exceptions, as in the callback of a weak reference."""
        if stopped and isinstance(lost.exc_value, KeyboardInterrupt):
            Timer(_RETRY_SECONDS, interrupt_main).start()
        else:
            sys.__unraisablehook__(lost)

    try:
        sys.unraisablehook = retry
        for number in _SIGNALS:
            signal.signal(number, stop)
        from batchstat.cli.main import run

        try:
            run()
        finally:
            # Its outcome is told: a signal while Python ends should not change it.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
    except BaseException as error:
        if stopped:
            print("interrupted: no file is half written", file=sys.stderr, flush=True)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            _end_processes()
            # Threads may be counting a block, which nobody waits for any more.
            os._exit(_INTERRUPTED)
        if not isinstance(error, Exception):
            raise
        traceback.print_exc()
        print("error: batchstat crashed, which is a bug: please report it", file=sys.stderr)
        sys.exit(_CRASHED)


def _end_processes() -> None:
    """Ends those that count, and gives back what they share, or Python would speak of leaks."""
    if "multiprocessing.util" not in sys.modules:
        return
    from multiprocessing import active_children, util

    for process in active_children():
        process.kill()
    # What runs at a usual end, and there is no public name for.
    util._exit_function()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
