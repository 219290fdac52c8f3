"""How much longer commands take than importing what they need: ratios of processor time.

python tests/benchmarks/startup.py

`batchstat --help` and a bare typer program stand against importing typer; `batchstat check` on a
cached profile of `sample_data/` against importing typer, NumPy, pydantic, rich and pyarrow; so do
`profile` and `compare`, which also draw plots. Every module is compiled beforehand, as an installed
one is. Each ratio is the median of the rounds; at most is what it is held to.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

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


NEEDED = "import typer, numpy, pydantic, rich.table, pyarrow.parquet"
CORPUS = Path(__file__).parents[2] / "sample_data" / "corpus.txt"
CHECK = ["-m", "batchstat", "check", str(CORPUS), "--max-padding", "90%"]
PROGRAMS = {
    "import typer": ["-c", "import typer"],
    "bare typer program --help": ["bare.py", "--help"],
    "batchstat --help": ["-m", "batchstat", "--help"],
    "import what check needs": ["-c", NEEDED],
    "batchstat check, cached": CHECK,
    "batchstat profile, cached": ["-m", "batchstat", "profile", str(CORPUS)],
    "batchstat compare, cached": ["-m", "batchstat", "compare", str(CORPUS)],
}
RATIOS = {
    "bare typer program --help": ("import typer", None),
    "batchstat --help": ("import typer", 2.0),
    "batchstat check, cached": ("import what check needs", 1.5),
    "batchstat profile, cached": ("import what check needs", None),
    "batchstat compare, cached": ("import what check needs", None),
}
"""What each program is divided by, and the most that the ratio may be."""


def seconds(arguments: list[str], folder: str) -> float:
    """Processor time of one Python process."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, *arguments]
    before = os.times()
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    after = os.times()
    children = after.children_user - before.children_user
    return children + after.children_system - before.children_system


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bare.py").write_text(BARE)
        for code in PROGRAMS.values():
            seconds(code, folder)
        # In turn, so that a drift of the machine's speed falls on all alike.
        rounds = [
            {name: seconds(code, folder) for name, code in PROGRAMS.items()} for _ in range(ROUNDS)
        ]
    for name, (basis, most) in RATIOS.items():
        ratio = median(times[name] / times[basis] for times in rounds)
        held = "" if most is None else f"  (at most {most})"
        print(f"{name:<28} {ratio:5.2f} × {basis}{held}")


if __name__ == "__main__":
    main()
