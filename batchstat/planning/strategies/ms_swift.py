"""`ms-swift`: ms-swift's training with packing."""

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.parameters import parameter
from batchstat.planning.plan import Window
from batchstat.planning.samplers.torch_random import torch_permutation
from batchstat.planning.strategies.packed import PackedSamples
from batchstat.planning.strategies.packed_rows import ShuffledRows
from batchstat.planning.strategies.packing import whole_rows

STRATEGIES: Mapping[str, str] = {
    "binpack": "Longest first, each into the emptiest row if it has room there: binpacking 2.",
    "binpack-1": "Longest first, each into the fullest row that has room: binpacking 1.",
    "sequential": "In the sequence of the corpus, each into the last row or a new one.",
    "none": "One per row: padding_free without packing.",
}


@dataclass(frozen=True, kw_only=True)
class MsSwift(ShuffledRows):
    """ms-swift with packing: `read_ahead` samples at a time (1,000), in the sequence of the corpus,
    are packed into rows of `max_length` (packing_length) by the library binpacking; the row that
    was opened last is packed again with the next samples. The rows are shuffled by the `seed`
    (data_seed), and the `batch_size` rows of a batch are laid end to end.

    Ranks: rows in turn, without the last ones if they do not divide evenly; each rank batches its
    own. Last batch: kept. Longer samples: left out, with truncation_strategy=delete
    (--overflow drop), or truncated. Budget: none; `batch_size` rows (1 unless one is given) of at
    most `max_length`. Checked against ms-swift at commit 3602360, without streaming, and binpacking
    2.0.1 and 1.5.2: ms-swift takes either, so `packing_strategy` says which.
    """

    name: ClassVar[str] = "ms-swift"
    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)
    usual_batch_size: ClassVar[int | None] = 1
    loss: ClassVar[str] = "num-items-in-batch"

    read_ahead: int = 1000
    packing_strategy: str = parameter(
        "How ms-swift packs samples into rows.", "binpack", values=STRATEGIES
    )
    packing_num_proc: int = parameter(
        "How many processes pack, each its own consecutive part of the corpus.", 1
    )

    @property
    def repeats_samples(self) -> bool:
        """Whether rows are repeated for the ranks: they are left out instead."""
        return False

    @property
    def attends_within_samples(self) -> bool:
        """Whether attention stays within samples, which packing implies."""
        return True

    @property
    def lays_rows_end_to_end(self) -> bool:
        """Whether the rows of a batch become one."""
        return True

    def packed(self, lengths: Ints, begins: Ints) -> PackedSamples:
        """Return the rows of each process in turn."""
        if self.packing_strategy == "none":
            each = np.ones(len(lengths), dtype=np.int64)
            return PackedSamples(np.arange(len(each)), lengths, None, whole_rows(lengths, each))
        processes = min(self.packing_num_proc, -(-len(begins) // self.read_ahead))
        shares = np.linspace(0, len(begins), max(processes, 1) + 1, dtype=np.int64)
        edges = np.append(begins, len(lengths))[shares].tolist()
        rows = [row for first, end in pairwise(edges) for row in self._rows(lengths, first, end)]
        order = np.array([i for row in rows for i in row], dtype=np.int64)
        held = lengths[order]
        sizes = np.array([*map(len, rows)], dtype=np.int64)
        return PackedSamples(order, held, None, whole_rows(held, sizes))

    def divided(self, n_rows: int, window: Window) -> tuple[Ints, Ints]:
        """Return the rows of all batches, and (n_batches + 1,) which of them each batch has.

        Source: BatchSamplerShard of swift/dataloader/shard.py.
        """
        each = n_rows // self.world_size
        drawn = torch_permutation(each * self.world_size, window.torch_seed)
        if not self.keeps_short(window):
            each -= each % self.batch_size
        return self.in_turn(drawn, each)

    def _rows(self, lengths: Ints, first: int, end: int) -> Iterator[list[int]]:
        """Yield the samples of each row of a process.

        Source: PackingDataset.create_packed_idx of swift/dataset/packing.py.
        """
        waiting: list[int] = []
        for begin in range(first, end, self.read_ahead):
            stop = min(begin + self.read_ahead, end)
            some = [*waiting, *range(begin, stop)]
            sizes = lengths[some].tolist()
            pack = _in_sequence if self.packing_strategy == "sequential" else self._binpacked
            rows = [[some[i] for i in row] for row in pack(sizes, self.max_length)]
            waiting = rows.pop() if stop < end else []
            yield from filter(None, rows)

    def _binpacked(self, sizes: list[int], capacity: int) -> list[list[int]]:
        """Return the places of sizes in rows; of equally full rows, the first one is taken.

        Source: binpacking's to_constant_volume.
        """
        fullest = self.packing_strategy == "binpack-1"
        rows: list[list[int]] = []
        taken: list[tuple[int, int]] = []  # tokens of each row, and its number from the last
        for place in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
            room = capacity - sizes[place]
            most = room if fullest or not taken else min(room, taken[0][0])
            found = bisect_right(taken, (most, 1)) - 1
            held, number = taken.pop(found) if found >= 0 else (0, -len(rows))
            if -number == len(rows):
                rows.append([])
            rows[-number].append(place)
            insort(taken, (held + sizes[place], number))
        return rows


def _in_sequence(sizes: list[int], capacity: int) -> list[list[int]]:
    """Return the places of sizes in rows, the last of which may be empty."""
    rows: list[list[int]] = [[]]
    held = 0
    for place, size in enumerate(sizes):
        if rows[-1] and held + size > capacity:
            rows.append([])
            held = 0
        rows[-1].append(place)
        held += size
        if held >= capacity:
            rows.append([])
            held = 0
    return rows
