"""How much longer commands take than importing what they need: ratios of processor time.

python tests/benchmarks/startup.py [--tokenizer FOLDER]

`batchstat --help` and a bare typer program stand against importing typer; commands whose counts are
cached against importing all that they import of others. `profile` of 2 MB with a tokenizer in a
folder, by default one made of the built-in one, stands against a script that imports NumPy, pyarrow
and tokenizers and reads the folder's tokenizer.json: where that tokenizer was loaded before, and
where neither it nor the counts are remembered. `compare` also stands there with its plots, which
are drawn after its screen. Last, the second call of `token_lengths` with ten texts, against the
tokenizer's own call. Every module is compiled beforehand, as an installed one is. Each ratio is the
median of the rounds; at most is what it is held to.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tokenizers import Tokenizer

import batchstat
from batchstat.tokenization.builtin import definition

ROUNDS = 15
BARE = """
import typer

app = typer.Typer()


@app.command()
def one(size: int = 3) -> None: ...


@app.command()
def two(size: int = 3) -> None: ...


app()
"""
READ = "import numpy, pyarrow, tokenizers; tokenizers.Tokenizer.from_file({!r})"
IMPORT = """
import importlib

for name in {!r}:
    try:
        importlib.import_module(name)
    except ImportError:  # tried, as one of another system
        pass
"""
SAMPLE = Path(__file__).parents[2] / "sample_data" / "corpus.txt"
BATCHSTAT = ["-m", "batchstat"]
NO_FILES = {"__main__", "runpy", "site", "sitecustomize", "usercustomize"}
"""Modules that Python imports by itself, before any program."""


class Processes:
    """Runs programs in one folder, with a cache of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._environment = os.environ | {
            "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled"),
            "BATCHSTAT_CACHE_DIR": str(Path(folder) / "kept"),
        }
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, arguments: list[str]) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *arguments]
        kwargs = {"capture_output": True, "text": True, "check": True}
        return subprocess.run(command, cwd=self._folder, env=self._environment, **kwargs)

    def seconds(self, arguments: list[str]) -> float:
        """Processor time of one Python process."""
        before = os.times()
        self.run(arguments)
        after = os.times()
        children = after.children_user - before.children_user
        return children + after.children_system - before.children_system

    def others(self, arguments: list[str]) -> list[str]:
        """What a run imports that is not batchstat's, in the order in which it does."""
        lines = self.run(["-X", "importtime", *arguments]).stderr.splitlines()
        found = [re.match(r"import time: +\d+ \| +\d+ \| +(\S+)", line) for line in lines]
        names = [match[1] for match in found if match]
        return [name for name in names if name.split(".")[0] not in {"batchstat", *NO_FILES}]


def token_lengths_ratio() -> float:
    """How much longer ten texts take with `token_lengths` than with the tokenizer itself."""
    backend = Tokenizer.from_str(definition())
    texts = [line for line in SAMPLE.read_text(encoding="utf-8").splitlines() if line][:10]
    batchstat.token_lengths(texts, backend)

    def seconds(call) -> float:
        began = time.perf_counter()
        for _ in range(20):
            call()
        return time.perf_counter() - began

    return median(
        seconds(lambda: batchstat.token_lengths(texts, backend))
        / seconds(lambda: backend.encode_batch_fast(texts))
        for _ in range(ROUNDS)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes, tokenizer = Processes(folder), given.tokenizer or Path(folder) / "tokenizer"
        if given.tokenizer is None:
            tokenizer.mkdir()
            (tokenizer / "tokenizer.json").write_text(definition(), encoding="utf-8")
            settings = '{"tokenizer_class": "PreTrainedTokenizerFast"}'
            (tokenizer / "tokenizer_config.json").write_text(settings)
        (Path(folder) / "bare.py").write_text(BARE)
        text = SAMPLE.read_bytes()
        (Path(folder) / "two.txt").write_bytes(text * (2_000_000 // len(text)))
        profile = [*BATCHSTAT, "profile", "two.txt", "--tokenizer", str(tokenizer), "--no-plots"]
        check = [*BATCHSTAT, "check", str(SAMPLE), "--max-padding", "90%"]
        compare = [*BATCHSTAT, "compare", str(SAMPLE)]
        for arguments in (check, compare, profile):  # counted, and compiled
            processes.run(arguments)
        programs = {
            "import typer": ["-c", "import typer"],
            "bare typer program --help": ["bare.py", "--help"],
            "batchstat --help": [*BATCHSTAT, "--help"],
            "what check imports": ["-c", IMPORT.format(processes.others(check))],
            "batchstat check, cached": check,
            "what compare imports": [
                "-c",
                IMPORT.format(processes.others([*compare, "--no-plots"])),
            ],
            "batchstat compare, cached, without plots": [*compare, "--no-plots"],
            "batchstat compare, cached": compare,
            "read tokenizer.json": ["-c", READ.format(str(tokenizer / "tokenizer.json"))],
            "batchstat profile of 2 MB, second run": profile,
            "batchstat profile of 2 MB, --no-cache": [*profile, "--no-cache"],
        }
        for arguments in programs.values():
            processes.seconds(arguments)
        # In turn, so that a drift of the machine's speed falls on all alike.
        rounds = [
            {name: processes.seconds(arguments) for name, arguments in programs.items()}
            for _ in range(ROUNDS)
        ]
    for name, (basis, most) in RATIOS.items():
        ratio = median(times[name] / times[basis] for times in rounds)
        seconds = median(times[name] for times in rounds)
        held = "" if most is None else f"  (at most {most})"
        print(f"{name:<40} {seconds:5.2f} s {ratio:5.2f} × {basis}{held}")
    ratio = token_lengths_ratio()
    print(
        f"{'token_lengths of ten texts, again':<40} {ratio:13.2f} × the tokenizer's own (at most 2)"
    )


RATIOS = {
    "bare typer program --help": ("import typer", None),
    "batchstat --help": ("import typer", 2.0),
    "batchstat check, cached": ("what check imports", 1.5),
    "batchstat compare, cached, without plots": ("what compare imports", 1.5),
    "batchstat compare, cached": ("what compare imports", None),
    "batchstat profile of 2 MB, second run": ("read tokenizer.json", 1.5),
    "batchstat profile of 2 MB, --no-cache": ("read tokenizer.json", None),
}
"""What each program is divided by, and the most that the ratio may be."""


if __name__ == "__main__":
    main()
