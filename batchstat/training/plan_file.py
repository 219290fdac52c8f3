"""Planned batches as a Parquet file, for training without a batchstat sampler."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import RankBatches, plan_ranks
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import RowRequest
from batchstat.profiling.profile import Profile
from batchstat.storage.addresses import check_regular, read_bytes
from batchstat.storage.sealed_records import decoded, digest_of_numbers, fault_of, seal
from batchstat.storage.shown import is_remote
from batchstat.training.state import fingerprint

SCHEMA = "batchstat.plan/5"

_FAR = 2**40  # larger than any record number and any width

_TYPES = {
    **{name: ["int64"] for name in ("record", "start", "stop", "row", "batch", "step")},
    "rank": ["int32"],
    "width": ["int64"],
    "repeated": ["bool"],
    "trained": ["int64"],
}
"""For each column, the types that it may have: one."""


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Metadata stored beside the columns."""

    schema: str  # schema of the file
    world_size: int  # number of ranks
    rows: int  # number of entries in all batches
    in_parts: bool  # whether samples are split
    empty: tuple[tuple[int, int, int], ...]  # batch, step and rank of each batch without entries
    epoch: int  # epoch of the plan
    fingerprint: Mapping[str, Any]  # everything the plan was made from
    columns: Mapping[str, str]  # digests of the columns
    joins_samples: bool = False


def export_plan(profile: Profile, request: RowRequest, file: BinaryIO) -> None:
    """Write a profile's batches of one epoch, for all ranks: a table row per entry of a batch.

    Columns are `record`, `start`, `stop`, `row`, `batch`, `step`, `rank`, `width`, `repeated` and,
    where these are known, `trained`: how many of its tokens carry loss. Rows and batches are
    numbered across all ranks, in the sequence in which they are distributed.

    Raises:
        InputError: classes cannot be drawn as requested, no batches are left, or records index
            nothing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from batchstat.storage.sealed_tables import METADATA_KEY

    samples = resolve_inputs(profile, keep=request.settings.keep_labels).samples
    samples.check_indexed()
    batches = plan_ranks(make_shares(samples, request.settings), request)
    # The number of each row, as many times as it has entries.
    row_of_entry = np.repeat(np.arange(len(batches.row_offsets) - 1), np.diff(batches.row_offsets))
    entries_per_batch = np.diff(batches.entry_offsets)
    starts = np.zeros_like(batches.records) if batches.starts is None else batches.starts
    columns = {
        "record": batches.records,
        "start": starts,
        "stop": starts + batches.lengths,
        "row": row_of_entry,
        "batch": np.repeat(np.arange(len(batches)), entries_per_batch),
        "step": np.repeat(batches.steps, entries_per_batch),
        "rank": np.repeat(batches.ranks, entries_per_batch),
        "width": np.repeat(batches.widths, entries_per_batch),
        "repeated": batches.repeated,
    }
    if batches.trained is not None:
        columns["trained"] = batches.trained
    # A rank's empty batches have no entry that could represent them, and go into the metadata.
    empty = np.flatnonzero(entries_per_batch == 0)
    facts = _Facts(
        schema=SCHEMA,
        world_size=batches.world_size,
        rows=len(batches.records),
        in_parts=batches.starts is not None,
        empty=tuple((int(i), int(batches.steps[i]), int(batches.ranks[i])) for i in empty),
        epoch=request.settings.epoch,
        fingerprint=fingerprint(samples, request),
        columns=_digests(columns),
        joins_samples=batches.joins_samples,
    )
    types = {"int64": pa.int64(), "int32": pa.int32(), "bool": pa.bool_()}
    schema = pa.schema(
        [(name, types[kind]) for name, [kind] in _TYPES.items() if name in columns],
        metadata={METADATA_KEY: json.dumps(seal(asdict(facts)))},
    )
    pq.write_table(pa.table(columns, schema=schema), file, compression="zstd")


def _digests(columns: Mapping[str, Any]) -> dict[str, str]:
    return {name: digest_of_numbers(numbers) for name, numbers in columns.items()}


def load_plan(path: Path) -> tuple[RankBatches, int, dict[str, Any]]:
    """Return the batches of all ranks that `export_plan` wrote, their epoch, and their fingerprint.

    Raises:
        InputError: the file is missing, damaged or edited, or written with another schema.
    """
    from batchstat.storage.sealed_tables import UNREADABLE, numbers_in, opened_table

    try:
        check_regular(path)
        file = BytesIO(read_bytes(path)) if is_remote(path) else path
        with opened_table(file, SCHEMA, _TYPES, optional=("trained",)) as table:
            facts: _Facts = decoded(_Facts, table.record)
            # Nothing to train on, and the checks need an entry.
            if not facts.rows:
                raise ValueError("it has no rows")
            blocks = list(table.blocks())
            columns = {
                name: np.concatenate([numbers_in(block, name) for block in blocks])
                for name in table.names
            }
            _check(columns, facts)
            return _batches(columns, facts), facts.epoch, dict(facts.fingerprint)
    except UNREADABLE as error:
        what = fault_of(error, "a plan")
        raise InputError(
            f"{path.as_posix()} {what}", "run batchstat compare --export again"
        ) from None


def _check(columns: Mapping[str, Any], facts: _Facts) -> None:
    """Raise ValueError if columns were changed since writing, or training could not use them."""
    from batchstat.storage.sealed_tables import check_range

    for name, digest in _digests(columns).items():
        if digest != facts.columns.get(name):
            raise ValueError(f"column {name} was damaged, edited or sorted: its digest differs")
    for name in ("record", "start", "stop", "width"):
        check_range(name, columns[name], _FAR)
    lengths = columns["stop"] - columns["start"]
    check_range("stop - start", lengths, _FAR)
    # Without the column there is nothing to check: the lengths pass.
    trained = columns.get("trained", lengths)
    if ((trained < 0) | (trained > lengths)).any():
        raise ValueError("a sample has more trained tokens than tokens")
    empty_batch, empty_step, empty_rank = _empty_batches(facts).T
    batches = np.concatenate([columns["batch"], empty_batch])
    check_range("batch", batches, len(batches) - 1)
    # Each step has a batch, so that there are no more steps than batches.
    check_range("step", np.concatenate([columns["step"], empty_step]), int(batches.max()))
    check_range("rank", np.concatenate([columns["rank"], empty_rank]), facts.world_size - 1)
    _check_sequence(columns, empty_batch)
    if not facts.in_parts and columns["start"].any():
        raise ValueError("start is above 0, but samples are whole")


def _empty_batches(facts: _Facts) -> Ints:
    return np.array(facts.empty, dtype=np.int64).reshape(-1, 3)


def _check_sequence(columns: Mapping[str, Any], empty: Ints) -> None:
    """Raise ValueError if rows, batches or steps cannot come in this sequence from any plan."""
    row, batch = columns["row"], columns["batch"]
    # From each entry to the next, by how much the number of the row, and of the batch, rises.
    row_rises, batch_rises = np.diff(row), np.diff(batch)
    rows_follow = row[0] == 0 and ((row_rises == 0) | (row_rises == 1)).all()
    row_is_in_one_batch = (batch_rises[row_rises == 0] == 0).all()
    # Entries with which a batch begins: the number differs from that before, the first from −1.
    first_of_batch = np.flatnonzero(np.diff(batch, prepend=-1))
    # Each batch number occurs once, with entries or among the empty ones.
    numbers = np.sort(np.concatenate([batch[first_of_batch], empty]))
    batches_are_all = np.array_equal(numbers, np.arange(len(numbers)))
    if not (rows_follow and row_is_in_one_batch and batches_are_all and (batch_rises >= 0).all()):
        raise ValueError("rows are missing or reordered")
    # What the first entry of a batch has, all its entries must have.
    entries_per_batch = np.diff(first_of_batch, append=len(batch))
    for name in ("step", "rank", "width"):
        if (np.repeat(columns[name][first_of_batch], entries_per_batch) != columns[name]).any():
            raise ValueError(f"a batch has more than one {name}")
    first_of_row = np.flatnonzero(np.diff(row, prepend=-1))
    row_tokens = np.add.reduceat(columns["stop"] - columns["start"], first_of_row)
    if (row_tokens > columns["width"][first_of_row]).any():
        raise ValueError("a row has more tokens than its width")
    # Entries rank by rank: between two of the same rank, the step must not fall.
    by_rank = np.argsort(columns["rank"], kind="stable")
    is_same_rank = np.diff(columns["rank"][by_rank]) == 0
    if (np.diff(columns["step"][by_rank])[is_same_rank] < 0).any():
        raise ValueError("the steps of a rank are not in ascending order")


def _batches(columns: dict[str, Any], facts: _Facts) -> RankBatches:
    """Return the batches of all ranks from the columns of a file that was checked."""
    empty_batch, empty_step, empty_rank = _empty_batches(facts).T
    # Batches are counted from 0; the last one may have entries or none.
    n_batches = max(int(columns["batch"].max(initial=-1)), int(empty_batch.max(initial=-1))) + 1
    # Step, rank and width of each batch, from its entries, which all have the same. Batches without
    # entries get step and rank from the metadata; their width stays 0.
    steps, ranks, widths = np.zeros((3, n_batches), dtype=np.int64)
    for name, of_batches in (("step", steps), ("rank", ranks), ("width", widths)):
        of_batches[columns["batch"]] = columns[name]
    steps[empty_batch], ranks[empty_batch] = empty_step, empty_rank
    # Entries at which the row differs from that before: the first entry of each row.
    first_of_row = np.flatnonzero(np.diff(columns["row"], prepend=-1))
    rows_of_batch = np.bincount(columns["batch"][first_of_row], minlength=n_batches)
    lengths = columns["stop"] - columns["start"]
    return RankBatches(
        records=columns["record"],
        starts=columns["start"] if facts.in_parts else None,
        lengths=lengths,
        trained=columns.get("trained"),
        repeated=columns["repeated"],
        row_offsets=np.append(first_of_row, len(lengths)),
        batch_offsets=offsets_from_sizes(rows_of_batch),
        widths=widths,
        steps=steps,
        ranks=ranks,
        world_size=facts.world_size,
        joins_samples=facts.joins_samples,
    )
