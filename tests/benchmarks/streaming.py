"""How comparing grows with the number of lengths: seconds, memory, and times one pass of a sort.

    python tests/benchmarks/streaming.py FOLDER --most 8

makes 10^6 … 10^MOST lengths in a folder, profiles them, and compares batching in file order and in
blocks, each as a process of its own. Memory is what the process itself holds at its peak, without
the pages of the file that its lengths are read from.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

_CHUNK = 10**7
COMPARE = ["compare", "--no-plots", "--no-config", "--tokens-per-batch", "16384"]
COMPARE += ["--max-length", "512"]


def make(path: Path, n: int) -> float:
    """Log-normal lengths in a file, and how long a sort of all of them takes, in seconds."""
    rng = np.random.default_rng(0)
    lengths = np.lib.format.open_memmap(path, "w+", np.int32, (n,))
    for first in range(0, n, _CHUNK):
        size = min(_CHUNK, n - first)
        drawn = np.clip(rng.lognormal(5, 1, size), 1, 4_000)
        lengths[first : first + size] = drawn.astype(np.int32)
    lengths.flush()
    began = time.perf_counter()
    for first in range(0, n, _CHUNK):
        np.argsort(lengths[first : first + _CHUNK].astype(np.uint16), kind="stable")
    return time.perf_counter() - began


def run(folder: Path, *arguments: str) -> tuple[float, float]:
    """Seconds of a command, and gigabytes that it held itself at most."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "batchstat", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    status = Path(f"/proc/{process.pid}/status")
    most = 0
    while process.poll() is None:
        try:
            lines = status.read_text(encoding="ascii").splitlines()
            most = max(most, *(int(x.split()[1]) for x in lines if x.startswith("RssAnon")), 0)
        except (OSError, ValueError):
            break
        time.sleep(0.02)
    assert process.wait() == 0
    return time.perf_counter() - began, most / 1e6


def main() -> None:
    """Prints a row for each size and order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=7, help="10 to the power of this")
    arguments = parser.parse_args()
    print(f"{'lengths':>13}  {'command':<16}  {'seconds':>8}  {'x sort':>7}  {'GB':>5}")
    for power in range(6, arguments.most + 1):
        folder = arguments.folder / str(power)
        folder.mkdir(parents=True, exist_ok=True)
        sort = make(folder / "lengths.npy", 10**power)
        share = "10%" if power == 6 else "1%"
        profile = ["profile", "lengths.npy", "--no-plots", "--no-config", "--no-cache"]
        for name, command in (
            ("profile", profile),
            ("compare file", [*COMPARE, "--order", "file"]),
            ("compare blocks", [*COMPARE, "--order", "blocks"]),
            (
                "compare sample",
                [*COMPARE, "--order", "blocks", "--subsample", share],
            ),
        ):
            seconds, memory = run(folder, *command)
            print(
                f"{10**power:>13,}  {name:<16}  {seconds:>8.1f}  {seconds / sort:>7.1f}  "
                f"{memory:>5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
