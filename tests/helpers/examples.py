"""Commands of the documentation, run in the process of the tests."""

import shlex
from pathlib import Path

import refresh

from conftest import Run

_DRAWING = ("profile", "compare", "balance", "buckets")


def in_process(run: Run, *, draws: bool = False) -> refresh.RunCommand:
    """What runs a line of an example: here if no shell has to interpret it, and without plots
    unless they are looked at, which changes nothing that is printed.
    """

    def run_command(command: str, folder: Path) -> str:
        # A line that goes on after a backslash is one, as for a shell.
        line = command.removeprefix(refresh.STOPS).strip().replace("\\\n", " ")
        program, *arguments = shlex.split(line, comments=True)
        if program != "batchstat" or set("\n|&;<>$*") & set(line):
            return refresh.in_shell(command, folder)
        undrawn = ["--no-plots"] if arguments[0] in _DRAWING and not draws else []
        at = arguments.index("--") if "--" in arguments else len(arguments)
        result = run(*arguments[:at], *undrawn, *arguments[at:], cwd=folder)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run_command
