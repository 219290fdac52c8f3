"""`llm-foundry`: LLM Foundry's finetuning with a packing_ratio."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import Ints, offsets_from_sizes, round_up
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.algorithms.cutting import cut_every
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.packed import check_longest

_MOST_WAITING = 10_000  # rows left over, which each sample looks through: more would take hours

_Row = tuple[int, list[int]]  # the tokens of a row, and its samples


@described(
    """LLM Foundry's finetuning with packing_ratio (BinPackCollator): of `batch_size` ×
    `packing_ratio` samples, longest first, each joins the first row with room, which then becomes
    the last one, or begins a new row. The `batch_size` fullest rows are the batch, padded to
    `max_length` (max_seq_len); the others wait for the next one, at most
    `max_leftover_bins_to_keep` of them. Without `packing_ratio`, the highest of 20 ratios up to
    `max_length` / 100 is taken that leaves no row of the first samples over (auto); with 1,
    nothing is packed. `batch_size` is the device's batch, which microbatches divide.

    Ranks: DistributedSampler distributes samples in turn and repeats the first ones, and each rank
    packs its own; auto takes the lowest ratio of all ranks there, but each rank's own here. Last
    batch: kept; what waits at the end is dropped. Longer samples: truncated. Budget: none;
    `batch_size` rows of `max_length`. Checked against LLM Foundry at commit 8c8dd48, for data sets
    that are not streamed.
    """
)
@dataclass(frozen=True, kw_only=True)
class LlmFoundry(Strategy):
    in_short: ClassVar[str] = "several per row"
    order: ClassVar[str | None] = "torch"
    distribute: ClassVar[str | None] = "samples"
    remainder: ClassVar[str | None] = "repeat"
    loss: ClassVar[str] = "num-items-per-rank"
    packs_rows: ClassVar[bool] = True
    needs_epoch: ClassVar[bool] = True
    samples_per_second: ClassVar[int] = 100_000

    batch_size: int
    max_length: int
    packing_ratio: float | None = parameter(
        "How many samples are packed at a time, relative to the rows of a batch.", None
    )
    max_leftover_bins_to_keep: int | None = parameter(
        "The most rows that wait for the next batch; others are dropped.", None, least=0
    )
    num_workers: int = parameter(
        "How many of the DataLoader's processes pack, each the batches that it gets in turn.", 1
    )
    within_samples: bool = False  # MPT's attn_uses_sequence_id

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.packing_ratio is not None and not 1 <= self.packing_ratio <= MAX_INT:
            raise OptionError(f"packing_ratio={self.packing_ratio}", "must be 1 or more")

    @property
    def row_length(self) -> int:
        """`max_length`: what a row has, its padding counted."""
        return self.max_length

    def plan(self, window: Window) -> BatchPlan:
        """Pack as LLM Foundry's collator does: some samples at a time into the rows of a batch.
        Rows that are left over wait for the next batch of the same DataLoader worker. Raises
        InputError: a sample is longer than `max_length`, or too many rows wait.
        """
        lengths = window.lengths
        check_longest("llm-foundry", int(lengths.max(initial=0)), self.max_length)
        at_once = None  # samples that are packed at a time
        # Up to 100 tokens, no ratio that auto tries is above 1.
        if self.packing_ratio is None and self.max_length > 100:
            at_once = self._auto_samples_at_once(lengths)
        elif self.packing_ratio is not None and self.packing_ratio != 1:
            at_once = int(self.batch_size * self.packing_ratio)
        if at_once is None:  # nothing is packed: each row is one sample
            offsets = cut_every(len(lengths), self.batch_size, keep_short=self.keeps_short(window))
            widths = np.full(len(offsets) - 1, self.max_length)
            return self.batch_rows(window, np.arange(len(lengths)), offsets, widths)
        if not self.keeps_short(window):
            # `drop_last` leaves out samples that do not fill a batch before packing.
            lengths = lengths[: len(lengths) - len(lengths) % at_once]
        most_waiting = self.max_leftover_bins_to_keep
        batches = list(self._batches(lengths.tolist(), at_once, most_waiting, self.num_workers))
        rows = [samples for batch in batches for _tokens, samples in batch]
        samples = np.array([i for row in rows for i in row], dtype=np.int64)
        row_offsets = offsets_from_sizes(np.array([*map(len, rows)], dtype=np.int64))
        batch_offsets = offsets_from_sizes(np.array([*map(len, batches)], dtype=np.int64))
        return BatchPlan(
            samples=samples,
            lengths=lengths[samples].astype(np.int64, copy=False),
            row_offsets=row_offsets,
            batch_offsets=batch_offsets,
            unit_offsets=np.arange(len(batch_offsets)),
            widths=round_up(np.full(len(batches), self.max_length), self.pad_to_multiple_of),
        )

    def _auto_samples_at_once(self, lengths: Ints) -> int | None:
        """Return how many samples packing_ratio: auto packs at a time: the last of rising numbers
        with which no row of the first samples waits at the end; None where nothing is packed.
        """
        # Source: auto_packing_ratio and profile_packing of llmfoundry/data/packing.py: 20 ratios up
        # to max_length / 100, with one decimal, on the samples of 100 of the largest batches.
        ratios = np.round(10 * np.linspace(1, self.max_length / 100, 20)) / 10
        numbers = list(dict.fromkeys(int(ratio * self.batch_size) for ratio in ratios))
        first_lengths = lengths[: 100 * numbers[-1]].tolist()
        best = self.batch_size
        for at_once in numbers:
            # The last samples are not packed where they are too few to fill the rows of a batch.
            n_left = len(first_lengths) % at_once
            n_packed = len(first_lengths) - (n_left if n_left < self.batch_size else 0)
            packed = first_lengths[:n_packed]
            try:
                batches = self._batches(packed, at_once, max_waiting=None, workers=1)
                tokens_in_batches = sum(tokens for batch in batches for tokens, _ in batch)
            except InputError:  # rows wait in such numbers that nobody could train on them
                break
            # Tokens that are in no batch are in rows that still wait: the ratio is too high.
            if not packed or tokens_in_batches < sum(packed):
                break
            best = at_once
        return None if best == self.batch_size else best

    def _batches(
        self, lengths: list[int], at_once: int, max_waiting: int | None, workers: int
    ) -> Iterator[list[_Row]]:
        """Yield each batch's rows, fullest first; others wait for the worker's next batch."""
        waiting: list[list[_Row]] = [[] for _ in range(min(workers, len(lengths)))]
        for number, first in enumerate(range(0, len(lengths), at_once)):
            samples = [(lengths[i], [i]) for i in range(first, min(first + at_once, len(lengths)))]
            worker = number % workers
            rows = _fill_rows(waiting[worker], samples, self.batch_size, self.max_length)
            yield rows[: self.batch_size]
            waiting[worker] = rows[self.batch_size :][:max_waiting]
            if len(waiting[worker]) > max(_MOST_WAITING, at_once):
                raise InputError(
                    f"llm-foundry: of {at_once} samples at a time, more than {_MOST_WAITING:,} "
                    "rows are left over",
                    "lower packing_ratio, or set max_leftover_bins_to_keep",
                )


def _fill_rows(rows: list[_Row], samples: Sequence[_Row], wanted: int, capacity: int) -> list[_Row]:
    """Return `rows` with samples added, fullest first; equal ones as they changed."""
    # Longest first, each into the first row that has room. Once only as many are left as the batch
    # lacks rows, each gets its own. Source: BinPackCollator of llmfoundry/data/packing.py.
    rows = list(rows)
    n_left = len(samples)
    for tokens, sample in sorted(samples, key=lambda each: each[0], reverse=True):
        with_room = (i for i, (held, _) in enumerate(rows) if held + tokens <= capacity)
        is_needed = n_left <= wanted - len(rows)
        first_with_room = None if is_needed else next(with_room, None)
        held, members = (0, []) if first_with_room is None else rows.pop(first_with_room)
        rows.append((held + tokens, members + sample))
        n_left -= 1
    return sorted(rows, key=lambda row: row[0], reverse=True)
