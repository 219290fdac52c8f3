"""The command `batchstat`, also as `python -m batchstat`."""

import gc
import os
import signal
import sys
from _thread import interrupt_main
from threading import Timer, main_thread
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_RETRY_SECONDS = 0.01
_OBJECTS_PER_SEARCH = 200_000
"""Objects between two searches for cycles: loading modules makes as many, none of them garbage."""


def main() -> None:
    """Run the command line; exit with 130 on a signal to stop, with 3 on a crash. A signal raises
    KeyboardInterrupt in whatever code runs then. That code may raise another error instead, as the
    creation of a class does, or drop it, as the callback of a weak reference does. So `stopped`,
    and not the kind of exception, says whether a signal came.
    """
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        signal.default_int_handler(number, frame)

    def interrupt_again(dropped: "sys.UnraisableHookArgs") -> None:
        if stopped and isinstance(dropped.exc_value, KeyboardInterrupt):
            _interrupt_soon()
        else:
            sys.__unraisablehook__(dropped)

    # NumPy starts a thread per core for products of matrices, which no command computes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_OBJECTS_PER_SEARCH)
    try:
        sys.unraisablehook = interrupt_again
        for number in _SIGNALS:
            signal.signal(number, stop)
        from batchstat.cli.main import run

        try:
            run()
        finally:
            # The result is out: a signal during Python's shutdown must not change the exit code.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            # Python searches all objects for cycles before it ends, whose memory is freed anyway.
            gc.freeze()
    except BaseException as error:
        if stopped:
            _say_interrupted(error)
            # Another signal during this cleanup ends the process at once.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            _end_processes()
            # Threads may still be counting a block; do not wait for them.
            os._exit(130)
        # A SystemExit is no crash: it has the exit code.
        if not isinstance(error, Exception):
            raise
        from batchstat.cli.streams import say_crashed

        say_crashed()
        sys.exit(3)


def _say_interrupted(error: BaseException) -> None:
    from batchstat.cli.streams import KeptOnInterrupt

    if not isinstance(error, KeptOnInterrupt):
        print("interrupted; no partial files were left behind", file=sys.stderr, flush=True)


def _interrupt_soon() -> None:
    """Let a timer interrupt the main thread a little later, when the hook that calls this has
    ended: Python drops an interrupt inside the hook, too.
    """
    seconds = _RETRY_SECONDS
    while True:
        try:
            Timer(seconds, _interrupt).start()
            return
        except KeyboardInterrupt:
            # The interrupt came too early, as on a busy machine, and is used up: try a later one.
            seconds += 0.1


def _interrupt() -> None:
    """Interrupt the main thread, on POSIX systems even while it waits for something."""
    thread = main_thread().ident
    if sys.platform == "win32" or thread is None:
        interrupt_main()
    else:
        signal.pthread_kill(thread, signal.SIGINT)


def _end_processes() -> None:
    """Kill worker processes and release shared resources, so that Python reports no leaks."""
    if "multiprocessing.util" not in sys.modules:
        return
    from multiprocessing import active_children, util

    for process in active_children():
        process.kill()
    # Python calls this at a normal exit, which `os._exit` is not; it has no public name.
    util._exit_function()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
