"""Run the examples of the README, the skill and the documentation, and rewrite what they show.

    python docs/refresh.py [PAGE ...]

The examples of a page run in their sequence, in one temporary folder that holds copies of
`sample_data`, `docs/device.json` and `docs/train.py`: ```console blocks are commands after `$` with
their standard output, ```sh blocks are scripts, ```python blocks are programs, and ```pycon blocks
are sessions: statements after `>>>` with what they print. The output of a command that ends with …
is shown up to that line. Examples that need torch run where it is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
SKILL = ROOT / "batchstat/.agents/skills/batchstat/SKILL.md"
PAGES = [
    ROOT / "README.md",
    SKILL,
    *sorted(
        path
        for path in ROOT.glob("docs/**/*.md")
        if path.parent.name not in ("reference", "_build")
    ),
]

CUT = "…"
_BLOCK = re.compile(r"^```(console|sh|python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS_TORCH = re.compile(
    r"^(?:>>> )?(?:(?:from|import) (?:torch|torchdata|accelerate)\b"
    r"|with batchstat\.record\(|(?:\w+ = )?batchstat\.run\(|from transformers import .*\bTrainer\b"
    r"|\$ batchstat run |\$ batchstat .* --current batchstat-results/run\b)",
    re.MULTILINE,
)

_SESSION = """
import doctest, sys
names = {}
for example in doctest.DocTestParser().get_examples(sys.argv[1]):
    print(">>>", "\\n... ".join(example.source.splitlines()))
    exec(compile(example.source, "page", "single"), names)
"""
"""A program that runs the statements of a session, and prints them with their output."""

RunCommand = Callable[[str, Path], str]
"""Runs a command line in a folder and returns its standard output."""
RunPython = Callable[[list[str], Path], str]
"""The same of a program: its text, and its arguments."""


@dataclass(frozen=True)
class Example:
    """A block of a page.

    Attributes:
        kind: console, sh, python or pycon.
        text: its lines.
        start: position of the text in the page.
    """

    kind: str
    text: str
    start: int

    @property
    def needs_torch(self) -> bool:
        """Whether it imports what only training needs."""
        return _NEEDS_TORCH.search(self.text) is not None

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the commands of a console, each with the lines shown below it."""
        command, shown = "", list[str]()
        for line in self.text.splitlines():
            if command.endswith("\\"):
                command += f"\n{line}"
            elif line.startswith("$ "):
                if command:
                    yield command, shown
                command, shown = line.removeprefix("$ "), []
            else:
                shown.append(line)
        yield command, shown


def examples(page: str) -> list[Example]:
    """Return the examples in the text of a page."""
    return [Example(match[1], match[2], match.start(2)) for match in _BLOCK.finditer(page)]


def environment() -> dict[str, str]:
    """Return the environment of a user without a network or a cache, for this clone's batchstat."""
    unwanted = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM", "GITHUB_ACTIONS")
    kept = {key: value for key, value in os.environ.items() if key not in unwanted}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "BATCHSTAT_CACHE_DIR": os.devnull,
        "HF_HUB_OFFLINE": "1",
    }


def run(arguments: list[str], folder: Path) -> str:
    """Return what a program prints. Raises RuntimeError if it fails."""
    result = subprocess.run(
        arguments, cwd=folder, env=environment(), capture_output=True, encoding="utf-8"
    )
    if result.returncode != 0:
        raise RuntimeError(f"{arguments[-1]}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


STOPS = "set -eu\n"
"""Begins a script: it ends at the first command that fails."""


def in_shell(command: str, folder: Path) -> str:
    """Return what a command line, or several, print."""
    return run(["sh", "-c", command], folder)


def in_python(program: list[str], folder: Path) -> str:
    """Return what a program of Python prints."""
    return run([sys.executable, "-c", *program], folder)


def console(example: Example, folder: Path, run_command: RunCommand = in_shell) -> str:
    """Run the commands of a console, and return its text as it has to be."""
    lines = []
    for command, shown in example.commands():
        printed = run_command(command, folder).rstrip("\n").splitlines()
        if shown[-1:] == [CUT] and len(printed) > len(shown) - 1:
            printed = [*printed[: len(shown) - 1], CUT]
        lines += [f"$ {command}", *printed]
    return "".join(f"{line}\n" for line in lines)


def refreshed(
    page: str,
    folder: Path,
    *,
    torch: bool,
    run_command: RunCommand = in_shell,
    run_python: RunPython = in_python,
) -> str:
    """Run all examples of a page, and return its text with what its consoles and sessions show now.

    Args:
        page: the text.
        folder: an empty folder.
        torch: whether to run examples that need torch.
        run_command: what runs the commands of consoles, and scripts.
        run_python: what runs programs and sessions.
    """
    shutil.copytree(ROOT / "sample_data", folder / "sample_data")
    for name in ("device.json", "train.py"):
        shutil.copy(ROOT / "docs" / name, folder)
    parts, end = [], 0
    for example in examples(page):
        if example.needs_torch and not torch:
            continue
        if example.kind == "console":
            parts += [page[end : example.start], console(example, folder, run_command)]
            end = example.start + len(example.text)
        elif example.kind == "pycon":
            session = run_python([_SESSION, example.text], folder)
            parts += [page[end : example.start], session]
            end = example.start + len(example.text)
        elif example.kind == "sh":
            run_command(f"{STOPS}{example.text}", folder)
        else:
            run_python([example.text], folder)
    return "".join([*parts, page[end:]])


def main(names: list[str]) -> int:
    """Refresh the pages with these paths, or all; return 1 if an example fails."""
    failed = 0
    for path in map(Path, names) if names else PAGES:
        page = path.read_text(encoding="utf-8")
        try:
            with TemporaryDirectory() as folder:
                made = refreshed(page, Path(folder), torch=find_spec("torch") is not None)
        except RuntimeError as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = 1
            continue
        if made != page:
            path.write_text(made, encoding="utf-8")
            print(f"rewrote {path}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
