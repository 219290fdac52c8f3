"""The batches of prepared rows, and what of them was padded before they are batched."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from batchstat.lengths.arrays import offsets_from_sizes, round_up
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import plan_ranks
from batchstat.planning.rank_plans import side_by_side
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.recording.collators import Collating
from batchstat.recording.given_batches import GivenBatches
from batchstat.recording.prepared_rows import PreparedRows


def batches_of_rows(
    rows: PreparedRows, collating: Collating, strategy: StrategySpec, settings: Settings
) -> GivenBatches:
    """Return the batches that a strategy makes of rows as they are stored.

    Args:
        rows: those of a data set.
        collating: what its collator does to them.
        strategy: the strategy.
        settings: its settings.
    """
    inputs = resolve_inputs(np.maximum(rows.widths, 1))
    settings = replace(settings, max_length=int(rows.widths.max()))
    request = inputs.request(strategy, settings)
    planned = plan_ranks(make_shares(inputs.samples, request.settings), request)
    per_row = np.diff(rows.row_offsets)
    held = planned.records  # one row each, in the sequence of the batches
    places = np.concatenate(
        [np.arange(rows.row_offsets[row], rows.row_offsets[row + 1]) for row in held.tolist()]
    )
    ends = offsets_from_sizes(per_row[held])
    multiple = request.strategy.pad_to_multiple_of
    row_offsets, batch_offsets, widths = ends, planned.batch_offsets, planned.widths
    if collating.end_to_end:
        row_offsets = ends[planned.batch_offsets]
        totals = offsets_from_sizes(rows.widths[held])[planned.batch_offsets]
        widths = round_up(np.diff(totals), multiple)
        batch_offsets = np.arange(len(widths) + 1)
    elif collating.width is not None:
        widths = np.maximum(widths, round_up(collating.width, multiple))
    of_ranks = [np.flatnonzero(planned.ranks == rank) for rank in range(planned.world_size)]
    turns = side_by_side(list(map(len, of_ranks)))
    return GivenBatches(
        places=places,
        row_offsets=row_offsets,
        batch_offsets=batch_offsets,
        widths=widths,
        turns=np.where(turns < 0, -1, np.concatenate(of_ranks)[turns]),
        attends_within_samples=collating.end_to_end,
        origin=None if rows.is_packed or collating.end_to_end else request,
    )


def padding_before_batching(rows: PreparedRows, collating: Collating) -> tuple[str, str]:
    """Return what is padded before rows are batched, and what takes that out, both in words."""
    if (width := rows.constant_width) is not None:
        return (
            f"every row is padded to {width:,} before batching",
            'remove padding="max_length" where you tokenize',
        )
    if rows.padded_tokens:
        # What `map(batched=True)` gives a tokenizer at a time is a thousand rows.
        return (
            f"rows are padded before batching, with {rows.padded_tokens:,} tokens",
            "remove padding=True where you tokenize, which pads to the longest of a map's batch",
        )
    if rows.ends_in_padding:
        return "", "pad in the collator, not where you tokenize"
    if collating.width is not None:
        return (
            f"every row is padded to {collating.width:,} by the collator",
            'remove padding="max_length" from the collator',
        )
    return "", ""


def faults_of_padding(rows: PreparedRows, collating: Collating) -> Sequence[str]:
    """Return what is wrong with the padding in a data set, or by its collator."""
    found = []
    if collating.is_left and rows.is_shifted and rows.trained is not None:
        # A causal model predicts it from the padding before it; which rows are padded, and so have
        # one more, is decided batch by batch.
        found.append(
            "the tokenizer pads on the left: the first token of a row that a collator pads carries "
            "loss too, and is not counted as trained here; set padding_side='right' for training"
        )
    if rows.trained_padding:
        found.append(
            f"{rows.trained_padding:,} tokens of padding carry loss: set their labels to -100"
        )
    if rows.ends_in_padding:
        found.append(
            f"{rows.ends_in_padding:,} of {len(rows.widths):,} rows end in several padding tokens "
            "that the attention mask calls real: they are computed, and counted as text here"
        )
    return found
