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
from batchstat.planning.algorithms.packing import (
    Packing,
    best_fit,
    first_fit,
    next_fit,
    whole_rows,
)
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.packs_documents import PacksDocuments

_IN_TURN = {"first-fit": first_fit, "next-fit": next_fit}
METHODS: Mapping[str, str] = {
    "bfd": "Best fit decreasing: longest first, each into the fullest row that has room.",
    "ffd": "First fit decreasing: longest first, each into the first row that has room.",
    "first-fit": "In the order's sequence, each into the first row that has room.",
    "next-fit": "In the order's sequence, each into the last row or a new one.",
    "wrapped": "Laid end to end and cut every max_length: a sample may lie in two rows.",
}


class PackedSamples(NamedTuple):
    """Samples, or parts of them, in rows.

    Attributes:
        samples: (n_entries,) sample of each entry.
        lengths: (n_entries,) tokens of each.
        starts: (n_entries,) first token of each; None unless samples are split.
        packing: the rows of the entries.
    """

    samples: Ints
    lengths: Ints
    starts: Ints | None
    packing: Packing


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
        """Pack samples into rows, sort the rows widest first, cut them by the budget, and shuffle
        the batches.

        Raises:
            InputError: a sample is longer than `max_length`.
        """
        # Truncating here would lose tokens that no count shows: overflow is decided before
        # planning.
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
        # Rows widest first, so that the first row of a batch is its width.
        order = longest_first(row_tokens)
        padded = round_up(row_tokens[order], self.pad_to_multiple_of)
        offsets = cut_by_budget(padded, self.tokens_per_batch, max_samples=None)
        widths = padded[offsets[:-1]]
        # The batches in the sequence in which they come, without one that is dropped.
        sequence: Ints = np.arange(len(widths))
        if self.shuffle_batches:
            sequence = window.rng.permutation(len(widths))
        is_short = holds_more(padded, offsets, self.tokens_per_batch, max_samples=None)
        if is_short and not self.keeps_short(window):
            sequence = sequence[:-1] if self.shuffle_batches else one_left_out(sequence, window.rng)
        # Positions in `order` of the rows of all batches, in the sequence of the batches.
        offsets, rows = gather_groups(offsets, sequence)
        row_sequence = order.take(rows)
        # Rows that are dropped come last: their entries need a place, too, until they are cut off.
        if len(rows) < len(order):
            row_sequence = np.concatenate([row_sequence, np.delete(order, rows)])
        row_offsets = offsets_from_sizes(row_sizes[row_sequence])
        # By the number of a packed row: where its first entry goes.
        first_entry = np.empty_like(row_sequence)
        first_entry[row_sequence] = row_offsets[:-1]
        row_offsets = row_offsets[: len(rows) + 1]
        columns = (samples, lengths) if starts is None else (samples, lengths, starts)
        # Copy entries from the sequence in which they were packed to that of the batches.
        reordered = [np.empty(len(samples), dtype=np.int64) for _ in columns]
        for run, places in packing.places(first_entry):
            for new, old in zip(reordered, columns, strict=True):
                # Two steps, to int64 and to the places, are faster than both in one.
                new[places] = old[run].astype(np.int64, copy=False)
        # `rest` has the starts, if samples are split.
        samples, lengths, *rest = (new[: row_offsets[-1]] for new in reordered)
        return BatchPlan(
            samples=samples,
            lengths=lengths,
            row_offsets=row_offsets,
            batch_offsets=offsets,
            unit_offsets=np.arange(len(offsets)),
            widths=widths[sequence],
            starts=rest[0] if rest else None,
            document_multiple=self.document_multiple,
        )

    def summary(self, stats: LengthStats, rng: np.random.Generator) -> BatchTable | None:
        """Pack all lengths by best fit on their histogram, and return the batches; None where rows
        depend on more than the histogram.

        Raises:
            InputError: a sample is longer than `max_length`.
        """
        is_one_group = stats.count <= (self.read_ahead or stats.count)
        # From the histogram, no padding of single samples is counted.
        if self.method != "bfd" or not is_one_group or self.document_multiple > 1:
            return None
        check_longest("packed", stats.max, self.max_length)
        runs = RowRuns.packed(stats, self.max_length, self.max_samples_per_row or MAX_INT)
        offsets, is_short = runs.cut_within(self.tokens_per_batch, self.pad_to_multiple_of, None)
        left_out = rng if self.drop_last and is_short else None
        shuffle = rng if self.shuffle_batches else None
        return runs.batches(offsets, self.pad_to_multiple_of, shuffle, left_out)


def check_longest(name: str, longest: int, max_length: int) -> None:
    """Raise InputError if a sample does not fit into a row."""
    if longest > max_length:
        raise InputError(
            f"{name}: a sample of {longest} tokens is longer than max_length={max_length}: "
            "truncate samples with --max-length, for all strategies"
        )


def pack(
    lengths: Ints, max_length: int, method: str, most: int, firsts: Sequence[int], multiple: int = 1
) -> PackedSamples:
    """Pack samples into rows by one of `METHODS`, each group of consecutive samples by itself. With
    a `multiple`, rows count the padding of their samples.

    Args:
        lengths: (n,) tokens of the samples.
        max_length: tokens that a row may hold.
        method: one of `METHODS`.
        most: samples that a row may hold.
        firsts: the first sample of each group.
        multiple: each sample is padded to a multiple of this many tokens, as is what a row may
            hold; above 1, none is split.
    """
    # Padded samples are packed as longer ones, so that no row grows beyond what it may hold.
    if multiple > 1:
        padded = round_up(lengths, multiple)
        packed = pack(padded, round_up(max_length, multiple), method, most, firsts)
        # The entries have their own lengths again, without padding.
        return packed._replace(lengths=lengths[packed.samples])
    return pack_groups(lengths, firsts, lambda group: _pack_one(group, max_length, method, most))


def group_starts(begins: Ints, size: int, processes: int) -> list[int]:
    """Return the first of each group of samples that are packed together, as in datasets' batched
    `map` with num_proc: each process has a consecutive part of the samples, in groups of `size`. 10
    samples, groups of 3 and 2 processes give 0, 3, 5, 8.

    Args:
        begins: (n,) where each sample begins, among samples or parts of them.
        size: samples per group.
        processes: number of processes.
    """
    # No more processes than samples: none has an empty part.
    begins_of_processes = np.array_split(begins, min(processes, max(len(begins), 1)))
    firsts: list[int] = np.concatenate([part[::size] for part in begins_of_processes]).tolist()
    return firsts


def pack_groups(
    lengths: Ints, firsts: Sequence[int], pack_group: Callable[[Ints], PackedSamples]
) -> PackedSamples:
    """Pack each group of consecutive samples by itself; the rows of a group follow those of the one
    before.

    Args:
        lengths: (n,) tokens of the samples.
        firsts: the first sample of each group.
        pack_group: packs the samples of a group.
    """
    groups = []
    n_rows = 0
    # Without samples there may be no first one: they are one empty group.
    for first, end in pairwise([*(firsts or [0]), len(lengths)]):
        packed = pack_group(lengths[first:end])
        # One group, as by default: nothing is copied.
        if first == 0 and end == len(lengths):
            return packed
        samples, tokens, starts, packing = packed
        # Samples and rows are counted on from those of the groups before.
        groups.append((samples + first, tokens, starts, packing._replace(row=packing.row + n_rows)))
        n_rows += packing.n_rows
    # By column, each with an array for each group; they have starts in all groups or in none.
    all_samples, all_tokens, all_starts, packings = zip(*groups, strict=True)
    return PackedSamples(
        np.concatenate(all_samples),
        np.concatenate(all_tokens),
        None if all_starts[0] is None else np.concatenate(all_starts),
        Packing(*map(np.concatenate, zip(*packings, strict=True))),
    )


def _pack_one(lengths: Ints, max_length: int, method: str, most: int) -> PackedSamples:
    """Pack the samples of one group by `method`."""
    if method == "wrapped":
        return _wrap(lengths, max_length)
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


def _wrap(lengths: Ints, capacity: int) -> PackedSamples:
    """Lay samples end to end and cut them every `capacity` tokens. Lengths 3, 4 and 2 in rows of 5:
    the row 3 + 2 tokens (samples 0 and 1), and the row 2 + 2 (the rest of sample 1, which starts at
    its token 2, and sample 2).
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    begins = ends - lengths
    # The last row with a token. Samples without tokens at the very end would begin another one.
    last_row = max(int(ends[-1]) - 1, 0) // capacity if len(ends) else 0
    first_row = begins // capacity
    # A part for each row from that of its first token to that of its last; an empty sample is one.
    n_parts = np.maximum((ends - 1) // capacity - first_row, 0) + 1
    samples = np.repeat(np.arange(len(lengths)), n_parts)
    rows = expand_ranges(first_row, n_parts)[1]
    # Of each part, where it starts and stops in all tokens: cut at the edges of its row.
    starts = np.maximum(begins[samples], rows * capacity)
    stops = np.minimum(ends[samples], (rows + 1) * capacity)
    lengths_of_parts = stops - starts
    packing = whole_rows(lengths_of_parts, np.bincount(np.minimum(rows, last_row)))
    return PackedSamples(samples, lengths_of_parts, starts - begins[samples], packing)
