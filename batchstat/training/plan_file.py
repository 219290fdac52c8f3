"""Planned batches as a Parquet file, for training without a sampler of ours."""

import json
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from batchstat.batching.spec import parse_strategy
from batchstat.errors import InputError
from batchstat.given import as_given
from batchstat.profiling.record import Profile
from batchstat.settings import Basis
from batchstat.storage import is_remote
from batchstat.training.rank_batches import RankBatches, plan_ranks
from batchstat.training.state import fingerprint

SCHEMA = "batchstat.plan/1"

_METADATA_KEY = b"batchstat"
_COLUMNS = ("record", "start", "stop", "row", "batch", "step", "rank", "width", "repeated")


def export_plan(profile: Profile, strategy: str, basis: Basis, file: BinaryIO) -> None:
    """Writes the batches of a profile's samples, of all ranks, for an epoch.

    Raises:
        InputError: classes that cannot be drawn as asked, or no batch that is left.
    """
    given = as_given(profile, keep=basis.keep_labels)
    batches = plan_ranks(given.samples, parse_strategy(strategy, asdict(basis)), basis)
    about = {"epoch": basis.epoch, "fingerprint": fingerprint(given, strategy, basis)}
    save_plan(batches, about, file)


def save_plan(batches: RankBatches, about: dict[str, Any], file: BinaryIO) -> None:
    """Writes a row an entry: `record`, `start`, `stop`, `row`, `batch`, `step`, `rank`, `width` and
    `repeated`, rows and batches counted through all ranks in the sequence in which they are dealt.

    Args:
        batches: of all ranks.
        about: what else is kept in the metadata: the epoch, and what it was planned from.
        file: where to.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = np.repeat(np.arange(len(batches.row_offsets) - 1), np.diff(batches.row_offsets))
    entries = np.diff(batches.entry_offsets)
    starts = np.zeros_like(batches.records) if batches.starts is None else batches.starts
    table = pa.table(
        {
            "record": pa.array(batches.records, pa.int64()),
            "start": pa.array(starts, pa.int64()),
            "stop": pa.array(starts + batches.lengths, pa.int64()),
            "row": pa.array(rows, pa.int64()),
            "batch": pa.array(np.repeat(np.arange(len(batches)), entries), pa.int64()),
            "step": pa.array(np.repeat(batches.steps, entries), pa.int64()),
            "rank": pa.array(np.repeat(batches.ranks, entries), pa.int32()),
            "width": pa.array(np.repeat(batches.widths, entries), pa.int64()),
            "repeated": pa.array(batches.repeated),
        }
    )
    # A rank's empty steps have no entry to stand in.
    empty = np.flatnonzero(entries == 0)
    meta = {
        "schema": SCHEMA,
        "world_size": batches.world_size,
        "entries": len(batches.records),
        "in_parts": batches.starts is not None,
        "empty": [[int(i), int(batches.steps[i]), int(batches.ranks[i])] for i in empty],
        **about,
    }
    pq.write_table(
        table.replace_schema_metadata({_METADATA_KEY: json.dumps(meta)}), file, compression="zstd"
    )


def load_plan(path: Path) -> tuple[RankBatches, dict[str, Any]]:
    """The batches of all ranks that `save_plan` wrote, and what it kept about them.

    Raises:
        InputError: there is none, it is damaged, or it is of another batchstat's schema.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    shown = path.as_posix()
    try:
        file = BytesIO(path.read_bytes()) if is_remote(path) else path
        table = pq.ParquetFile(file, pre_buffer=False).read(use_threads=False)
        meta = json.loads(table.schema.metadata[_METADATA_KEY])
        if meta["schema"] == SCHEMA:
            columns = {name: table[name].to_numpy() for name in _COLUMNS}
            rises = all((np.diff(columns[name]) >= 0).all() for name in ("row", "batch"))
            if len(table) != meta["entries"] or not rises:
                raise ValueError("rows are missing, or in another sequence")
            return _batches(columns, meta), meta
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{shown} is no plan ({reason}): run batchstat compare --export") from None
    raise InputError(
        f"{shown} has schema {meta['schema']}, and this batchstat reads {SCHEMA}: run batchstat "
        "compare --export again"
    )


def _batches(columns: dict[str, Any], meta: dict[str, Any]) -> RankBatches:
    empty = np.array(meta["empty"], dtype=np.int64).reshape(-1, 3)
    n = max(int(columns["batch"].max(initial=-1)), int(empty[:, 0].max(initial=-1))) + 1
    numbers = {name: np.zeros(n, dtype=np.int64) for name in ("step", "rank", "width")}
    for name, values in numbers.items():
        values[columns["batch"]] = columns[name]
    numbers["step"][empty[:, 0]], numbers["rank"][empty[:, 0]] = empty[:, 1], empty[:, 2]
    first_of_row = np.flatnonzero(np.diff(columns["row"], prepend=-1))
    rows_of_batch = np.bincount(columns["batch"][first_of_row], minlength=n)
    lengths = columns["stop"] - columns["start"]
    steps = int(numbers["step"].max()) + 1
    return RankBatches(
        records=columns["record"],
        starts=columns["start"] if meta["in_parts"] else None,
        lengths=lengths,
        repeated=columns["repeated"],
        row_offsets=np.append(first_of_row, len(lengths)),
        batch_offsets=np.concatenate([[0], np.cumsum(rows_of_batch)]),
        widths=numbers["width"],
        steps=numbers["step"],
        ranks=numbers["rank"],
        step_samples=np.bincount(columns["step"], minlength=steps),
        step_tokens=np.bincount(columns["step"], weights=lengths, minlength=steps).astype(np.int64),
        world_size=int(meta["world_size"]),
    )
