"""How much longer `batchstat --help` takes than importing typer, and than a bare typer program.

python tests/benchmarks/startup.py
"""

import subprocess
import sys
import tempfile
import time
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


def seconds(arguments: list[str]) -> float:
    """Wall time of one Python process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE)
        programs = {
            "import typer": ["-c", "import typer"],
            "bare typer program --help": [str(bare), "--help"],
            "batchstat --help": ["-m", "batchstat", "--help"],
        }
        # In turn, so that a drift of the machine's speed falls on all alike.
        rounds = [{name: seconds(code) for name, code in programs.items()} for _ in range(ROUNDS)]
    for name in programs:
        ratio = median(times[name] / times["import typer"] for times in rounds)
        print(f"{name:<28} {ratio:5.2f} × import typer")


if __name__ == "__main__":
    main()
