"""Commands of the documentation, run in the process of the tests."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import refresh

from conftest import Run, environment

_DRAWING = ("profile", "compare", "balance", "buckets")
_NEEDS_A_SHELL = set("\n|&;<>$*")
# What a line leaves to the next but files: a folder, a variable, the rest of a loop or a document.
_KEEPS_A_STATE = re.compile(r"<<|^(?:cd|export|for|while|if)\b|^\w+=", re.MULTILINE)


def in_process(run: Run, *, draws: bool = False) -> refresh.RunCommand:
    """What runs a line of an example, or several: batchstat here, where each start of a process
    takes a second, and the rest in a shell. Without plots unless they are looked at, which changes
    nothing that is printed.
    """

    def run_command(script: str, folder: Path) -> str:
        text = script.removeprefix(refresh.STOPS).replace("\\\n", " ")
        if _KEEPS_A_STATE.search(text):
            return refresh.in_shell(script, folder)
        return "".join(run_line(line, folder) for line in lines_of(text))

    def run_line(line: str, folder: Path) -> str:
        # All before a pipe, or a file, that takes what is printed; warnings are not.
        command, mark, rest = (each.strip() for each in re.split(r"([|>]|$)", line, maxsplit=1))
        is_plain = command.startswith("batchstat ") and not set(command) & _NEEDS_A_SHELL
        if not is_plain or "2>" in line:
            return refresh.in_shell(line, folder)
        printed = run_batchstat(shlex.split(command)[1:], folder)
        if not mark:
            return printed
        (folder / ".printed").write_text(printed, encoding="utf-8")
        return refresh.in_shell(f"cat .printed {mark} {rest}", folder)

    def run_batchstat(arguments: list[str], folder: Path) -> str:
        undrawn = ["--no-plots"] if arguments[0] in _DRAWING and not draws else []
        at = arguments.index("--") if "--" in arguments else len(arguments)
        result = run(*arguments[:at], *undrawn, *arguments[at:], cwd=folder)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run_command


def python_in_process(program: list[str], folder: Path) -> str:
    """Return what a program prints that runs here, where batchstat is imported already."""
    text, *arguments = program
    printed, names = StringIO(), {"__name__": "__main__"}
    argv = patch.object(sys, "argv", ["-c", *arguments])
    with chdir(folder), redirect_stdout(printed), argv, patch.dict(os.environ, environment()):
        exec(compile(text, "page", "exec"), names)  # noqa: S102
    return printed.getvalue()


def lines_of(script: str) -> Iterator[str]:
    """Yield the lines of a script without their comments."""
    for line in script.splitlines():
        command = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if command:
            yield command
