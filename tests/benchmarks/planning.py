"""How fast an epoch is planned and measured, against plain loops, in one run on the same lengths.

python tests/benchmarks/planning.py [--samples 1160000] [--growth] [--rounds 5] [--output FOLDER]

`bucketed` and `token-budget` stand against infinibatch's algorithm as a plain Python loop, best fit
packing against a best fit for each sample with a segment tree over the room of rows. Both sides say
which samples share a batch, shuffle the batches and count the tokens computed; what they count is
checked to be equal. Each ratio is the loop's processor time divided by that of planning and
measuring; the median of the rounds, beside its floor. `compare` is the processor time of the
default table of 10^6 lengths, sweep included, as a multiple of `token-budget`'s loop over the same
lengths, beside its ceiling; `regrouped` the same of planning 10^6 lengths in steps of 64 and of 512
samples. `--growth` shows the time from 10^5 to 10^8 samples, as a multiple of
that for 10^5. It writes planning.md and planning.json.
"""

import argparse
import json
import random
import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from batchstat.planning.batch_table import BatchTable
from batchstat.planning.epoch import make_epoch
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import plan_ranks
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.planning.windows import TOGETHER, plan_windows
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.meters.epoch_meter import EpochMeter
from batchstat.trainers.compare import compare

SETTINGS = {"tokens_per_batch": 16_384, "max_length": 512, "batch_size": 32, "read_ahead": 10_000}


def lengths_of(n: int) -> np.ndarray:
    """(n,) lengths like those of paragraphs: log-normal, at most 512."""
    drawn = np.random.default_rng(0).lognormal(4.3, 0.9, n)
    return np.clip(drawn, 1, 512).astype(np.int64)


def batchstat(spec: str, lengths: np.ndarray) -> PlanCounts:
    """Planned and measured."""
    strategy = StrategySpec.parse(spec).strategy(SETTINGS)
    visits = make_epoch(np.arange(len(lengths)), lengths, 512, "truncate")
    batches = BatchTable.of(plan_windows(strategy, visits, seed=0, epoch=0, together=TOGETHER))
    turns = np.arange(batches.n_units)[:, None]
    basis = Settings(**SETTINGS).resolve(512, None)
    meter = EpochMeter(RowRequest(StrategySpec.parse(spec), strategy, basis))
    meter.add(batches, turns)
    return meter.measurement(visits).counts


def windows_loop(lengths: list[int], size_of: Callable[[int], int]) -> int:
    """Total tokens of infinibatch's algorithm: windows sorted longest first, cut by the first."""
    total = 0
    shuffle = random.Random(0)
    for first in range(0, len(lengths), SETTINGS["read_ahead"]):
        window = list(range(first, min(first + SETTINGS["read_ahead"], len(lengths))))
        window.sort(key=lengths.__getitem__, reverse=True)
        batches: list[list[int]] = []
        size = 0
        for sample in window:
            if size == 0:
                size = max(1, size_of(lengths[sample]))
                batches.append([])
            batches[-1].append(sample)
            size -= 1
        shuffle.shuffle(batches)
        total += sum(len(batch) * lengths[batch[0]] for batch in batches)
    return total


def best_fit_loop(lengths: list[int], capacity: int) -> int:
    """Rows of best fit decreasing, a sample at a time; a segment tree finds the least room."""
    size = 1 << capacity.bit_length()
    tree = [0] * (2 * size)  # rows with each room, summed upwards
    having: list[deque[int]] = [deque() for _ in range(size)]
    rows: list[list[int]] = []
    for sample in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        length = lengths[sample]
        room = _least_room(tree, size, length)
        if room is None:
            row = len(rows)
            rows.append([])
            room = capacity
        else:
            row = having[room].popleft()
            _add(tree, size + room, -1)
        rows[row].append(sample)
        having[room - length].append(row)
        _add(tree, size + room - length, 1)
    return len(rows)


def _least_room(tree: list[int], size: int, length: int) -> int | None:
    """The least room of at least `length` that a row has."""
    node = size + length
    while not tree[node]:
        while node & 1:
            node >>= 1
            if node == 0:
                return None
        node += 1
        if node & (node - 1) == 0:
            return None
    while node < size:
        node = 2 * node if tree[2 * node] else 2 * node + 1
    return node - size


def _add(tree: list[int], node: int, change: int) -> None:
    while node:
        tree[node] += change
        node >>= 1


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Processor time that it took, which other programs hardly change, and what it gave."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def ratios(n: int, rounds: int) -> dict[str, float]:
    """The loop's time over ours, by strategy."""
    lengths = lengths_of(n)
    plain = lengths.tolist()
    budget = SETTINGS["tokens_per_batch"]
    contests: dict[str, tuple[Callable[[], int], str]] = {
        "bucketed": (lambda: windows_loop(plain, lambda _: 32), "total_tokens"),
        "token-budget": (
            lambda: windows_loop(plain, lambda length: budget // length),
            "total_tokens",
        ),
        "packed": (lambda: best_fit_loop(plain, 512), "rows"),
    }
    found = {}
    for spec, (loop, what) in contests.items():
        times = []
        for _ in range(rounds):
            slow, expected = seconds(loop)
            fast, counts = seconds(lambda spec=spec: batchstat(spec, lengths))
            assert getattr(counts, what) == expected, (spec, counts, expected)
            times.append(slow / fast)
        found[spec] = statistics.median(times)
    return found


def compare_ratio(rounds: int) -> float:
    """Time of `compare`'s default table over that of `token-budget`'s loop."""
    lengths = lengths_of(10**6)
    plain = lengths.tolist()
    budget = SETTINGS["tokens_per_batch"]
    times = []
    for _ in range(rounds):
        loop, _ = seconds(lambda: windows_loop(plain, lambda length: budget // length))
        table, _ = seconds(lambda: compare(lengths))
        times.append(table / loop)
    return statistics.median(times)


def regrouped_ratios(rounds: int) -> dict[str, float]:
    """Time to plan steps and to regroup them over that of `token-budget`'s loop."""
    lengths = lengths_of(10**6)
    plain = lengths.tolist()
    budget = SETTINGS["tokens_per_batch"]
    inputs = resolve_inputs(lengths)
    found = {}
    for ranks, accumulated, size in STEPS:
        basis = inputs.resolve(
            Settings(batch_size=size, world_size=ranks, gradient_accumulation_steps=accumulated)
        )
        request = StrategySpec.parse("regrouped").request(basis)
        shares = make_shares(inputs.samples, basis)
        times = []
        for _ in range(rounds):
            loop, _ = seconds(lambda: windows_loop(plain, lambda length: budget // length))
            planned, _ = seconds(lambda shares=shares, of=request: plan_ranks(shares, of))
            times.append(planned / loop)
        name = f"{ranks * accumulated * size}: {ranks} ranks x {accumulated} batches of {size}"
        found[name] = statistics.median(times)
    return found


def growth() -> dict[str, dict[str, float]]:
    """Time for more samples, as a multiple of that for 10^5, by strategy; the least of a few."""
    taken: dict[str, dict[int, float]] = {spec: {} for spec in GROWING}
    for n in POWERS:
        lengths = lengths_of(n)
        for spec, times in taken.items():
            rounds = max(1, 10**7 // n)
            times[n] = min(
                seconds(lambda spec=spec, lengths=lengths: batchstat(spec, lengths))[0]
                for _ in range(min(rounds, 10))
            )
    return {
        spec: {f"10^{len(str(n)) - 1}": times[n] / times[POWERS[0]] for n in POWERS}
        for spec, times in taken.items()
    }


FLOORS = {"bucketed": 10, "token-budget": 10, "packed": 50}
"""Times a plain loop's speed that planning is held to."""
CEILING = 3.9
"""Times `token-budget`'s loop that `compare` may take: a third of 11.7, its time while it planned
each window by itself.
"""
STEPS = ((1, 8, 8), (2, 4, 8), (8, 1, 8), (8, 8, 8), (64, 4, 2))
"""Ranks, batches per rank and samples per batch of the steps that are regrouped."""
REGROUPED_CEILING = 10
"""Times `token-budget`'s loop that planning regrouped steps may take."""
GROWING = ("static", "bucketed", "token-budget", "packed")
POWERS = (10**5, 10**6, 10**7, 10**8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1_160_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--output", type=Path, default=Path())
    given = parser.parse_args()
    record = {"samples": given.samples, "ratios": ratios(given.samples, given.rounds)}
    lines = ["| strategy | times a plain loop's speed | at least |", "|---|---:|---:|"]
    lines += [
        f"| {spec} | {ratio:.1f} | {FLOORS[spec]} |" for spec, ratio in record["ratios"].items()
    ]
    record["compare"] = compare_ratio(given.rounds)
    lines += ["", "| | times token-budget's loop | at most |", "|---|---:|---:|"]
    lines += [f"| compare, default table | {record['compare']:.1f} | {CEILING} |"]
    record["regrouped"] = regrouped_ratios(given.rounds)
    lines += ["", "| samples per step | times token-budget's loop | at most |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {ratio:.1f} | {REGROUPED_CEILING} |"
        for name, ratio in record["regrouped"].items()
    ]
    if given.growth:
        record["growth"] = growth()
        lines += ["", "| strategy | 10^5 | 10^6 | 10^7 | 10^8 |", "|---|---:|---:|---:|---:|"]
        for spec, by_size in record["growth"].items():
            lines.append(f"| {spec} | {' | '.join(f'{x:,.0f}' for x in by_size.values())} |")
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "planning.md").write_text("\n".join(lines) + "\n")
    (given.output / "planning.json").write_text(json.dumps(record, indent=2) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
