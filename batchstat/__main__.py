"""The command `batchstat`, also as `python -m batchstat`."""

import signal
import sys


def main() -> None:
    """Runs the command line; a signal to stop at any moment, also while loading, ends with 130."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from batchstat.cli.main import run

        run()
    except KeyboardInterrupt:
        print("interrupted: earlier results are as they were", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
