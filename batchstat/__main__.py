"""The command `batchstat`, also as `python -m batchstat`."""

import sys


def main() -> None:
    """Runs the command line; an interrupt at any moment, also while loading, ends with 130."""
    try:
        from batchstat.cli.main import run

        run()
    except KeyboardInterrupt:
        print("interrupted: earlier results are as they were", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
