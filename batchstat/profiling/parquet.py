"""A profile as `lengths.parquet`, complete, so that loading needs no other file. Never text."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batchstat._version import __version__
from batchstat.corpus.content import LONGEST
from batchstat.corpus.files.sources import FORMATS
from batchstat.errors import InputError, MissingError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.labels import Labels
from batchstat.lengths.sample_rows import SampleRows
from batchstat.lengths.stats import distinct
from batchstat.lengths.token_ranges import KINDS, TokenRanges
from batchstat.profiling.memmap import new_array
from batchstat.profiling.profile import CorpusFacts, Profile, TokenizerFacts
from batchstat.storage.addresses import as_os_errors, as_path, check_regular, read_bytes, unreadable
from batchstat.storage.arrow_numbers import as_arrow, as_numpy
from batchstat.storage.result_files import LENGTHS_FILE
from batchstat.storage.sealed_records import (
    Time,
    decoded,
    digest_of,
    digest_of_numbers,
    fault_of,
    seal,
    shown,
)
from batchstat.storage.sealed_tables import (
    METADATA_KEY,
    UNREADABLE,
    SealedTable,
    check_range,
    numbers_in,
    opened_table,
)
from batchstat.storage.shown import is_remote

SCHEMA = "batchstat.lengths/5"
ROW_GROUP = 1 << 20  # samples that are in memory at a time while a file is read or written

FAR = 2**40  # larger than any record number in a corpus

_DICTIONARY = "dictionary<values={}, indices=int32, ordered=0>"
# By column, the types of Arrow that it may have, as pyarrow writes them.
_TYPES = {
    "record": ["int64"],
    "length": ["int64"],
    **{kind: ["int64"] for kind in KINDS},
    **{
        # pyarrow names what lists hold element; without use_compliant_nested_type, item.
        f"{kind}_ranges": ["large_list<element: int64>", "large_list<item: int64>"]
        for kind in KINDS
    },
    "label": [
        *(_DICTIONARY.format(text_type) for text_type in ("string", "large_string")),
        "large_list<element: large_string>",
        "large_list<item: large_string>",
    ],
}
_OPTIONAL = (*KINDS, *(f"{kind}_ranges" for kind in KINDS), "label")


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Metadata of a file, stored beside the columns."""

    schema: str
    tool: str
    created: Time
    corpus: CorpusFacts
    tokenizer: TokenizerFacts | None
    rows: int
    columns: Mapping[str, str]  # a digest of the numbers of each column, by its name
    sample_rows: Mapping[str, Any] = field(default_factory=dict)  # fields of `SampleRows`
    more: Mapping[str, Any] = field(default_factory=dict)  # anything else that the caller stores


def save_lengths(
    profile: Profile, file: BinaryIO, more: Mapping[str, object] | None = None
) -> None:
    """Write a profile as Parquet: `record`, `length`, of each kind of tokens their number and
    ranges, as `trained` and `trained_ranges`, and `label`. All else is metadata, also `more`.
    """
    more_rows: dict[str, Any] = {}
    if (together := profile.rows) is not None:
        more_rows = {**vars(together), "lengths": together.lengths.tolist()}
    facts = _Facts(
        schema=SCHEMA,
        tool=__version__,
        created=profile.created,
        corpus=profile.corpus,
        tokenizer=profile.tokenizer,
        rows=len(profile),
        columns=_digests(profile),
        sample_rows=more_rows,
        more=more or {},
    )
    optional: dict[str, pa.Array] = {}
    for kind, token_ranges in profile.kinds.items():
        optional[kind] = as_arrow(token_ranges.counts())
        optional[f"{kind}_ranges"] = pa.LargeListArray.from_arrays(
            as_arrow(token_ranges.offsets), as_arrow(token_ranges.edges)
        )
    if profile.labels is not None:
        optional["label"] = _label_column(profile.labels)
    fields = [("record", pa.int64()), ("length", pa.int64())]
    fields += [(name, column.type) for name, column in optional.items()]
    metadata = {METADATA_KEY: json.dumps(seal(asdict(facts)))}
    schema = pa.schema(fields).with_metadata(metadata)
    # The columns are converted a row group at a time, since a large corpus has them in a file.
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for first in range(0, len(profile), ROW_GROUP):
            rows = slice(first, first + ROW_GROUP)
            columns = [as_arrow(numbers[rows]) for numbers in (profile.records, profile.lengths)]
            columns += [column.slice(first, ROW_GROUP) for column in optional.values()]
            writer.write_table(pa.table(columns, schema=schema))


def _digests(profile: Profile) -> dict[str, str]:
    """Return a digest of each column, by its name, from which a changed file is recognised."""
    digests = {
        "record": digest_of_numbers(profile.records),
        # As 32 bits, into which lengths fit: half the bytes to digest.
        "length": digest_of_numbers(profile.lengths, "<i4"),
    }
    labels = profile.labels
    for kind, token_ranges in profile.kinds.items():
        arrays = (token_ranges.edges, token_ranges.offsets)
        digests[kind] = digest_of_numbers(token_ranges.counts())
        digests[f"{kind}_ranges"] = digest_of([digest_of_numbers(array) for array in arrays])
    if labels is not None:
        digests["label"] = digest_of(
            [
                digest_of_numbers(labels.codes),
                None if labels.offsets is None else digest_of_numbers(labels.offsets),
                labels.names,
            ]
        )
    return digests


def _label_column(labels: Labels) -> pa.Array:
    """Return the column `label`: a text per sample, or lists where there may be several."""
    # Code −1 is a sample without a label: null.
    codes = pa.array(labels.codes, pa.int32(), mask=labels.codes < 0)
    names = pa.DictionaryArray.from_arrays(codes, pa.array(labels.names, pa.large_string()))
    if labels.offsets is None:
        return names
    # Lists hold plain texts, as `_TYPES` says.
    offsets = pa.array(labels.offsets, pa.int64())
    return pa.LargeListArray.from_arrays(offsets, names.cast(pa.large_string()))


def load_profile(
    folder: Path, remedy: str = "name a corpus, or run batchstat profile first"
) -> Profile:
    """Return the profile in a results folder; `remedy`: if there is none. Raises InputError."""
    path = folder / LENGTHS_FILE
    try:
        with as_os_errors(path):
            exists = path.exists()
    except OSError as error:
        raise unreadable(folder.as_posix(), error) from None
    if not exists:
        raise MissingError(f"no profile in {folder.as_posix()}", remedy)
    return read_file(path)


def read_file(address: str | Path) -> Profile:
    """Return the profile in a `lengths.parquet`, by its path or address. Raises InputError."""
    path = as_path(address)
    try:
        check_regular(path)
        profile, _ = read_counts(BytesIO(read_bytes(path)) if is_remote(path) else path, path)
    except OSError as error:
        raise unreadable(path.as_posix(), error) from None
    if len(profile) == 0:
        raise _unusable(path, ValueError("it has no rows"))
    return profile


def read_counts(file: Path | BinaryIO, path: Path) -> tuple[Profile, Mapping[str, Any]]:
    """Return the profile in a file, perhaps without samples, and its `more`. Raises InputError."""
    try:
        with opened_table(file, SCHEMA, _TYPES, optional=_OPTIONAL) as table:
            facts: _Facts = decoded(_Facts, table.record)
            return _profile(table, facts), facts.more
    except UNREADABLE as error:
        raise _unusable(path, error) from None


def _profile(table: SealedTable, facts: _Facts) -> Profile:
    """Read the columns of a file block by block, and check them."""
    for source in facts.corpus.sources:
        if source.format not in FORMATS:
            raise ValueError(f"{shown(source.format)} is not a corpus format")
    lengths, records = new_array(table.rows, LONGEST), new_array(table.rows, FAR)
    labels: list[Labels] = []
    has_labels = "label" in table.names
    kinds: dict[str, list[TokenRanges]] = {kind: [] for kind in KINDS if kind in table.names}
    # Skipped records have numbers too. Those of a recorded data set may be any, in any sequence.
    is_corpus = facts.corpus.indexed != "data set"
    last_possible = table.rows + sum(facts.corpus.skipped.values()) - 1 if is_corpus else FAR
    rows_read, last_record = 0, -1
    for block in table.blocks():
        rows = slice(rows_read, rows_read + len(block))
        block_lengths, block_records = numbers_in(block, "length"), numbers_in(block, "record")
        check_range("length", block_lengths, LONGEST, rows_read)
        check_range("record", block_records, last_possible, rows_read)
        rises = np.diff(block_records, prepend=last_record)
        for row in np.flatnonzero(rises <= 0) if is_corpus else ():
            raise ValueError(
                f"record is {block_records[row]} in row {rows_read + row}, which does not ascend"
            )
        lengths[rows], records[rows] = block_lengths, block_records
        for kind, parts in kinds.items():
            parts.append(_ranges(block, kind, block_lengths, rows_read))
        if has_labels:
            # Imports pyarrow.compute, which takes longer than loading a profile without labels.
            from batchstat.corpus.label_columns import as_labels

            labels += map(as_labels, block["label"].chunks)
        rows_read += len(block)
        last_record = int(block_records[-1]) if len(block) else last_record
    if not is_corpus and len(distinct(records)[0]) < table.rows:
        raise ValueError("a record comes more than once")
    profile = Profile(
        created=facts.created,
        corpus=facts.corpus,
        tokenizer=facts.tokenizer,
        records=records,
        lengths=lengths,
        labels=Labels.joined(labels) if has_labels else None,
        kinds={kind: TokenRanges.concatenate(parts) for kind, parts in kinds.items()},
        rows=SampleRows.of(facts.sample_rows) if facts.sample_rows else None,
    )
    made = profile.rows
    if made is not None and not np.array_equal(made.lengths.max(axis=1), profile.lengths):
        raise ValueError("the rows of its samples were edited: their lengths differ")
    if (digests := _digests(profile)) != facts.columns:
        # `_TYPES` has all columns that there may be.
        changed = next(name for name in _TYPES if digests.get(name) != facts.columns.get(name))
        raise ValueError(f"column {changed} was damaged or edited: its digest differs")
    return profile


def _ranges(block: pa.Table, kind: str, lengths: Ints, rows_before: int) -> TokenRanges:
    """Return the ranges of tokens of a kind in one block of rows."""
    ranges = block[f"{kind}_ranges"].combine_chunks()
    if ranges.null_count or ranges.values.null_count:
        raise ValueError(f"column {kind}_ranges contains null values")
    offsets, edges = as_numpy(ranges.offsets), as_numpy(ranges.values)
    # A slice of a list column has the values of the whole column: those outside are cut off.
    token_ranges = TokenRanges(edges[offsets[0] : offsets[-1]], offsets - offsets[0])
    if not token_ranges.fits(lengths) or (token_ranges.counts() != numbers_in(block, kind)).any():
        raise ValueError(f"{kind}_ranges do not fit length and {kind} after row {rows_before:,}")
    return token_ranges


def _unusable(path: Path, error: BaseException) -> InputError:
    fault = fault_of(error, "a profile")
    return InputError(f"{path.as_posix()} {fault}", "run batchstat profile again")
