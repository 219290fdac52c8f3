"""How fast batches that were made elsewhere are measured, against a NumPy loop over them.

python tests/benchmarks/measuring.py [--samples 1000000] [--rounds 5]

Both are given the same lists of 64 sample numbers and the same lengths: with every sample in a
batch, then with the last 16 and with every second one in none. The loop counts rows, real and total
tokens, the peak and how often each sample comes; `batchstat.measure` all that a row of `compare`
has. What both count is checked to be equal. The ratio is the processor time of `measure` / that of
the loop, the median of the rounds, beside its ceiling of 3.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import batchstat

BATCH, CEILING = 64, 3.0


def loop(batches: list[list[int]], lengths: np.ndarray) -> dict[str, int]:
    """What batches compute, one after the other."""
    real = total = peak = rows = 0
    seen = np.zeros(len(lengths), dtype=np.int64)
    for batch in batches:
        numbers = np.array(batch)
        held = lengths[numbers]
        computed = len(held) * int(held.max())
        real, total = real + int(held.sum()), total + computed
        peak, rows = max(peak, computed), rows + len(held)
        np.add.at(seen, numbers, 1)
    return {
        "real_tokens": real,
        "total_tokens": total,
        "max_batch_tokens": peak,
        "rows": rows,
        "duplicated_samples": int(np.maximum(seen - 1, 0).sum()),
    }


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of a call, and what it returns."""
    begin = time.process_time()
    found = call()
    return time.process_time() - begin, found


def ratio_of(batches: list[list[int]], lengths: np.ndarray) -> float:
    """Time of `measure` / that of the loop, which count the same."""
    plain, expected = timed(lambda: loop(batches, lengths))
    own, row = timed(lambda: batchstat.measure(batches, lengths))
    assert {key: getattr(row.counts, key) for key in expected} == expected
    return own / plain


def main() -> None:
    """Print the ratio of every round and their median, by how many samples are in batches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(4.3, 0.9, options.samples), 1, 512).astype(np.int64)
    order = rng.permutation(options.samples).tolist()
    for case, drawn in {"all": order, "all but 16": order[:-16], "half": order[::2]}.items():
        batches = [drawn[first : first + BATCH] for first in range(0, len(drawn), BATCH)]
        batchstat.measure(batches, lengths)  # what is loaded only once is in no round
        ratios = [ratio_of(batches, lengths) for _ in range(options.rounds)]
        rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        median = statistics.median(ratios)
        print(f"{case} in batches: median {median:.2f} of {rounds}, ceiling {CEILING:g}")


if __name__ == "__main__":
    main()
