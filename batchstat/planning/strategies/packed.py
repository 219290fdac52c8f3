"""`packed`: several samples per row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import (
    Ints,
    expand_ranges,
    gather_groups,
    offsets_from_sizes,
    round_up,
)
from batchstat.lengths.stats import LengthStats, distinct
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.algorithms.cutting import (
    cut_by_budget,
    holds_more,
    longest_first,
    narrow,
    one_left_out,
)
from batchstat.planning.algorithms.histogram import RowRuns
from batchstat.planning.algorithms.packing import Packing, best_fit, first_fit, next_fit, whole_rows
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import PacksDocuments

_IN_TURN = {"first-fit": first_fit, "next-fit": next_fit}
METHODS: Mapping[str, str] = {
    "bfd": "Best fit decreasing: longest first, each into the fullest row that has room.",
    "ffd": "First fit decreasing: longest first, each into the first row that has room.",
    "first-fit": "In the order's sequence, each into the first row that has room.",
    "next-fit": "In the order's sequence, each into the last row or a new one.",
    "wrapped": "Laid end to end and cut every max_length: a sample may lie in two rows.",
}


class PackedSamples(NamedTuple):
    """Samples, or parts of them, in rows."""

    samples: Ints  # (n_entries,) sample of each entry
    lengths: Ints  # (n_entries,) tokens of each
    starts: Ints | None  # (n_entries,) first token of each; None unless samples are split
    packing: Packing  # the rows of the entries


@described(
    """Several samples are packed into each row of at most `max_length` tokens; rows are sorted
    widest first and cut into batches within `tokens_per_batch`, which are then shuffled.

    Methods: `bfd` and `ffd`, best and first fit of the window's samples, longest first (TRL, NeMo);
    `first-fit` (axolotl) and `next-fit` (axolotl's sequential), in order; `wrapped`, concatenated
    and cut every `max_length`, so that a sample may lie in two rows (TRL, GPT-style pre-training).
    `read_ahead` samples are packed together, by default the whole epoch; set it to match packing in
    chunks (TRL's 1,000). Batches are made of all rows. Attention stays within the samples of a row,
    as with block masks and variable-length kernels, unless `within_samples` is false.
    """
)
@dataclass(frozen=True, kw_only=True)
class Packed(PacksDocuments):
    in_short: ClassVar[str] = "several per row"
    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)
    samples_per_second: ClassVar[int] = 10_000_000
    # `read_ahead` limits what is packed together, not what is batched.
    window_size = None

    tokens_per_batch: int
    max_length: int
    method: str = parameter("How samples are packed into rows.", "bfd", values=METHODS)
    max_samples_per_row: int | None = parameter("The most samples in a row.", None)
    read_ahead: int | None = None
    within_samples: bool = parameter("Whether attention stays within the samples of a row.", True)
    shuffle_batches: bool = True

    @property
    def row_length(self) -> int:
        """What a row may hold: `max_length`, in multiples of `document_multiple`."""
        return round_up(self.max_length, self.document_multiple)

    @property
    def cuts_samples(self) -> bool:
        """Whether rows are cut from concatenated samples."""
        return self.method == "wrapped"

    def plan(self, window: Window) -> BatchPlan:
        """Pack samples into rows, sort these widest first, cut them by the budget, shuffle batches.
        Raises InputError: a sample is longer than `max_length`.
        """
        # Truncating here would lose tokens that no count shows: overflow is decided before.
        check_longest("packed", int(window.lengths.max(initial=0)), self.max_length)
        samples, lengths, starts, packing = pack(
            window.lengths,
            self.max_length,
            method=self.method,
            most=self.max_samples_per_row or MAX_INT,
            firsts=range(0, len(window.lengths), self.read_ahead or MAX_INT),
            multiple=self.document_multiple,
        )
        # (n_rows,) tokens and entries of each row, in the sequence in which rows were packed.
        row_tokens, row_sizes = packing.totals
        # Rows widest first, so that the first row of a batch has its width.
        rows = longest_first(row_tokens)
        padded = round_up(row_tokens[rows], self.pad_to_multiple_of)
        offsets = cut_by_budget(padded, self.tokens_per_batch, max_samples=None)
        widths = padded[offsets[:-1]]
        # The batches in the sequence in which they come, without one that is dropped.
        sequence: Ints = np.arange(len(widths))
        if self.shuffle_batches:
            sequence = window.rng.permutation(len(widths))
        has_room = holds_more(padded, offsets, self.tokens_per_batch, max_samples=None)
        if has_room and not self.keeps_short(window):
            sequence = sequence[:-1] if self.shuffle_batches else one_left_out(sequence, window.rng)
        batch_offsets, positions = gather_groups(offsets, sequence)
        row_sequence = rows.take(positions)
        # Rows that are dropped come last: their entries need a place, too, until they are cut off.
        if len(positions) < len(rows):
            row_sequence = np.concatenate([row_sequence, np.delete(rows, positions)])
        row_offsets = offsets_from_sizes(row_sizes[row_sequence])
        # (n_rows,) where the first entry of each packed row goes.
        row_begins = np.empty_like(row_sequence)
        row_begins[row_sequence] = row_offsets[:-1]
        row_offsets = row_offsets[: len(positions) + 1]
        # Copy entries from the sequence in which they were packed to that of the batches.
        packed_columns = (samples, lengths) if starts is None else (samples, lengths, starts)
        columns = [np.empty(len(samples), dtype=np.int64) for _ in packed_columns]
        for piece, places in packing.places(row_begins):
            for column, packed_column in zip(columns, packed_columns, strict=True):
                # Two steps, to int64 and to the places, are faster than both in one.
                column[places] = packed_column[piece].astype(np.int64, copy=False)
        kept_columns = [column[: row_offsets[-1]] for column in columns]
        return BatchPlan(
            samples=kept_columns[0],
            lengths=kept_columns[1],
            row_offsets=row_offsets,
            batch_offsets=batch_offsets,
            unit_offsets=np.arange(len(batch_offsets)),
            widths=widths[sequence],
            starts=None if starts is None else kept_columns[2],
            document_multiple=self.document_multiple,
        )

    def summary(self, stats: LengthStats, rng: np.random.Generator) -> BatchTable | None:
        """Return the batches by best fit on a histogram; None where rows depend on more than that.
        Raises InputError: a sample is longer than `max_length`.
        """
        is_one_group = stats.count <= (self.read_ahead or stats.count)
        # From the histogram, no padding of single samples is counted.
        if self.method != "bfd" or not is_one_group or self.document_multiple > 1:
            return None
        check_longest("packed", stats.max, self.max_length)
        max_per_row, multiple = self.max_samples_per_row or MAX_INT, self.pad_to_multiple_of
        runs = RowRuns.of_packed_samples(stats, self.max_length, max_per_row)
        offsets, has_room = runs.cut_within(self.tokens_per_batch, multiple, max_samples=None)
        leave_out = rng if self.drop_last and has_room else None
        shuffle = rng if self.shuffle_batches else None
        return runs.batches(offsets, multiple, shuffle=shuffle, leave_out=leave_out)


def check_longest(name: str, longest: int, max_length: int) -> None:
    """Raise InputError if a sample does not fit into a row."""
    if longest > max_length:
        raise InputError(
            f"{name}: a sample of {longest} tokens is longer than max_length={max_length}: "
            "truncate samples with --max-length, for all strategies"
        )


def pack(
    lengths: Ints, capacity: int, method: str, *, most: int, firsts: Sequence[int], multiple: int
) -> PackedSamples:
    """Pack (n,) `lengths` into rows of at most `most` by one of `METHODS`, each group from one of
    `firsts` by itself. Samples and rows are padded to a `multiple`; above 1, none is split.
    """
    # Padded samples are packed as longer ones, so that no row grows beyond what it may hold.
    padded, capacity = round_up(lengths, multiple), round_up(capacity, multiple)
    packed = pack_groups(padded, firsts, lambda group: _pack_group(group, capacity, method, most))
    # The entries have their own lengths again, without padding.
    return packed if multiple == 1 else packed._replace(lengths=lengths[packed.samples])


def group_starts(begins: Ints, size: int, processes: int) -> list[int]:
    """Return the first of each group of samples that are packed together, as in datasets' batched
    `map` with num_proc: each process has a consecutive part of the samples, in groups of `size`.
    Samples that begin at 0 … 9, groups of 3 and 2 processes give 0, 3, 5, 8.
    """
    # No more processes than samples: none has an empty part.
    begins_of_processes = np.array_split(begins, min(processes, max(len(begins), 1)))
    firsts: list[int] = np.concatenate([part[::size] for part in begins_of_processes]).tolist()
    return firsts


def pack_groups(
    lengths: Ints, firsts: Sequence[int], pack_group: Callable[[Ints], PackedSamples]
) -> PackedSamples:
    """Pack groups of (n,) `lengths`, from one of `firsts` to the next, into rows that follow."""
    if len(firsts) <= 1:  # one group, as by default: nothing is copied
        return pack_group(lengths)
    groups = []
    n_rows = 0
    for first, end in pairwise([*firsts, len(lengths)]):
        samples, tokens, starts, packing = pack_group(lengths[first:end])
        # Samples and rows are counted on from those of the groups before.
        groups.append((samples + first, tokens, starts, packing._replace(row=packing.row + n_rows)))
        n_rows += packing.n_rows
    # For each of the four, a tuple with that of each group; starts are in all groups or in none.
    all_samples, all_tokens, all_starts, packings = zip(*groups, strict=True)
    return PackedSamples(
        samples=np.concatenate(all_samples),
        lengths=np.concatenate(all_tokens),
        starts=None if all_starts[0] is None else np.concatenate(all_starts),
        # Column by column: the first rows of all runs, the numbers of their rows, and so on.
        packing=Packing(*map(np.concatenate, zip(*packings, strict=True))),
    )


def _pack_group(lengths: Ints, max_length: int, method: str, most: int) -> PackedSamples:
    """Pack the samples of one group by `method`."""
    if method == "wrapped":
        return wrap(lengths, max_length)
    if method in _IN_TURN:
        packing = _IN_TURN[method](lengths, max_length, most)
        return PackedSamples(np.arange(len(lengths)), lengths, starts=None, packing=packing)
    # `bfd` and `ffd` take the longest first.
    lengths = narrow(lengths)
    values, counts = distinct(lengths)
    # The same lengths as lengths[longest_first(lengths)], made from their histogram.
    falling = np.repeat(values[::-1].astype(lengths.dtype), counts[::-1])
    fit = best_fit if method == "bfd" else first_fit
    return PackedSamples(longest_first(lengths), falling, None, fit(falling, max_length, most))


def wrap(lengths: Ints, capacity: int) -> PackedSamples:
    """Lay samples end to end and cut them every `capacity` tokens. Lengths 3, 4 and 2 in rows of 5:
    the rows 3 + 2 (samples 0 and 1) and 2 + 2 (sample 1 from token 2 on, and 2).
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    begins = ends - lengths
    first_rows = begins // capacity
    # A part for each row from that of its first token to that of its last; an empty sample is one.
    n_parts = np.maximum((ends - 1) // capacity - first_rows, 0) + 1
    samples = np.repeat(np.arange(len(lengths)), n_parts)
    _, rows = expand_ranges(first_rows, n_parts)
    # Of each part, where it starts and stops in all tokens: cut at the edges of its row.
    starts = np.maximum(begins[samples], rows * capacity)
    stops = np.minimum(ends[samples], (rows + 1) * capacity)
    part_lengths = stops - starts
    # Samples without tokens at the very end may begin after a full row: they belong to that row.
    last_row = max(int(lengths.sum()) - 1, 0) // capacity
    packing = whole_rows(part_lengths, np.bincount(np.minimum(rows, last_row)))
    return PackedSamples(samples, part_lengths, starts - begins[samples], packing)
