"""`packed`: several samples in a row."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.batching.cutting import cut_by_budget, longest_first, round_up, shuffled
from batchstat.batching.packing import best_fit, first_fit, next_fit
from batchstat.batching.plan import BatchPlan, Ints, Window
from batchstat.batching.strategy import Strategy
from batchstat.errors import InputError
from batchstat.options import MOST, one_of

METHODS = ("bfd", "ffd", "next-fit", "wrapped")


@dataclass(frozen=True, kw_only=True)
class Packed(Strategy):
    """Rows of at most `max_length` tokens, several samples in each; batches of the widest rows
    first, as many as `tokens_per_batch` holds, then shuffled.

    Methods: `bfd` and `ffd`, best and first fit of the window's samples, longest first (TRL, NeMo);
    `next-fit` in the order's sequence (torchtune, axolotl's sequential); `wrapped`, laid end to end
    and cut every `max_length`, a sample in two rows where the cut falls (TRL, GPT-style
    pre-training). The window is the whole epoch unless `read_ahead` says otherwise, as for those
    who pack in chunks (TRL's 1,000).
    """

    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)

    tokens_per_batch: int
    max_length: int
    method: str = "bfd"
    max_samples_per_row: int | None = None
    read_ahead: int | None = None
    shuffle_batches: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("method", self.method, METHODS)

    def plan(self, window: Window) -> BatchPlan:
        """Packed, cut by the budget, shuffled.

        Raises:
            InputError: a sample is longer than `max_length`.
        """
        longest = window.lengths.max(initial=0)
        if longest > self.max_length:
            raise InputError(
                f"packed: max_length={self.max_length} is below a sample of {longest} tokens: cut "
                "samples with the --max-length of all strategies"
            )
        samples, lengths, rows, starts = self._entries(window.lengths)
        widths = np.bincount(rows, weights=lengths).astype(np.int64)
        order = longest_first(widths)
        padded = round_up(widths[order], self.pad_to_multiple_of)
        offsets = cut_by_budget(
            padded,
            self.tokens_per_batch,
            None,
            keep_short=not (self.drop_last and window.last),
        )
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        entries = np.argsort(place[rows], kind="stable")
        row_offsets = np.concatenate([[0], np.cumsum(np.bincount(rows)[order])])
        row_offsets = row_offsets[: offsets[-1] + 1]
        entries = entries[: row_offsets[-1]]
        plan = BatchPlan(
            samples=samples[entries],
            lengths=lengths[entries],
            row_offsets=row_offsets,
            batch_offsets=offsets,
            step_offsets=np.arange(len(offsets)),
            widths=padded[offsets[:-1]],
            starts=None if starts is None else starts[entries],
        )
        return shuffled(plan, window) if self.shuffle_batches else plan

    def _entries(self, lengths: Ints) -> tuple[Ints, Ints, Ints, Ints | None]:
        """(n_entries,) sample, length and row of each entry, and where it starts if any is cut."""
        most = self.max_samples_per_row or MOST
        if self.method == "wrapped":
            return _wrapped(lengths, self.max_length)
        if self.method == "next-fit":
            rows = next_fit(lengths, self.max_length, most)
            return np.arange(len(lengths)), lengths, rows, None
        order = longest_first(lengths)
        fit = best_fit if self.method == "bfd" else first_fit
        return order, lengths[order], fit(lengths[order], self.max_length, most), None


def _wrapped(lengths: Ints, capacity: int) -> tuple[Ints, Ints, Ints, Ints]:
    ends = np.cumsum(lengths, dtype=np.int64)
    begins = ends - lengths
    first = begins // capacity
    parts = np.maximum((ends - 1) // capacity - first, 0) + 1
    samples = np.repeat(np.arange(len(lengths)), parts)
    nth = np.arange(len(samples)) - np.repeat(np.cumsum(parts) - parts, parts)
    rows = first[samples] + nth
    starts = np.maximum(begins[samples], rows * capacity)
    stops = np.minimum(ends[samples], (rows + 1) * capacity)
    last = max(int(ends[-1]) - 1, 0) // capacity if len(ends) else 0
    return samples, stops - starts, np.minimum(rows, last), starts - begins[samples]
