"""A profile as `lengths.parquet`, complete, so that loading needs no other file. Never text."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from batchstat._version import __version__
from batchstat.corpus.content import LONGEST
from batchstat.corpus.sources import FORMATS, Source
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.labels import Labels
from batchstat.lengths.token_ranges import KINDS, TokenRanges
from batchstat.profiling.memmap import new_array
from batchstat.profiling.profile import CorpusFacts, Profile, TokenizerFacts
from batchstat.storage.addresses import as_os_errors, as_path, check_regular, read_bytes
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
    check_rising,
    numbers_in,
    opened,
)
from batchstat.storage.shown import is_remote, one_line

SCHEMA = "batchstat.lengths/2"
ROW_GROUP = 1 << 20
"""Samples."""

FAR = 2**40
"""Larger than any record number in a corpus."""

_DICTIONARY = "dictionary<values={}, indices=int32, ordered=0>"
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
        *(_DICTIONARY.format(each) for each in ("string", "large_string")),
        "large_list<element: large_string>",
        "large_list<item: large_string>",
    ],
}
_OPTIONAL = (*KINDS, *(f"{kind}_ranges" for kind in KINDS), "label")


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Metadata stored beside the columns.

    Attributes:
        schema: schema of the file.
        tool: version of batchstat that wrote it.
        created: when reading began.
        corpus: which corpus was read, and how.
        tokenizer: tokenizer that counted it.
        rows: number of samples.
        columns: digests of the columns' numbers.
        more: anything else to store.
    """

    schema: str
    tool: str
    created: Time
    corpus: CorpusFacts
    tokenizer: TokenizerFacts | None
    rows: int
    columns: Mapping[str, str]
    more: Mapping[str, Any] = field(default_factory=dict)


def save_lengths(
    profile: Profile, file: BinaryIO, more: Mapping[str, object] | None = None
) -> None:
    """Write `record` and `length`; for each known kind of tokens, their number, such as `trained`,
    and their ranges, such as `trained_ranges`; `label`, where known; and the rest as metadata,
    `more` too.
    """
    facts = _Facts(
        schema=SCHEMA,
        tool=__version__,
        created=profile.created,
        corpus=profile.corpus,
        tokenizer=profile.tokenizer,
        rows=len(profile),
        columns=_digests(profile),
        more=more or {},
    )
    optional: dict[str, pa.Array] = {}
    for kind, known in profile.kinds.items():
        optional[kind] = as_arrow(known.counts())
        optional[f"{kind}_ranges"] = pa.LargeListArray.from_arrays(
            as_arrow(known.offsets), as_arrow(known.edges)
        )
    if profile.labels is not None:
        optional["label"] = _label_column(profile.labels)
    fields = [("record", pa.int64()), ("length", pa.int64())]
    fields += [(name, column.type) for name, column in optional.items()]
    metadata = {METADATA_KEY: json.dumps(seal(asdict(facts)))}
    schema = pa.schema(fields).with_metadata(metadata)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for first in range(0, len(profile), ROW_GROUP):
            rows = slice(first, first + ROW_GROUP)
            columns = [as_arrow(n[rows]) for n in (profile.records, profile.lengths)]
            columns += [column.slice(first, ROW_GROUP) for column in optional.values()]
            writer.write_table(pa.table(columns, schema=schema))


def _digests(profile: Profile) -> dict[str, str]:
    """Return digests of everything in the columns."""
    found = {
        "record": digest_of_numbers(profile.records),
        "length": digest_of_numbers(profile.lengths, "<i4"),
    }
    labels = profile.labels
    for kind, known in profile.kinds.items():
        ranges = (known.edges, known.offsets)
        found[kind] = digest_of_numbers(known.counts())
        found[f"{kind}_ranges"] = digest_of([digest_of_numbers(each) for each in ranges])
    if labels is not None:
        found["label"] = digest_of(
            [
                digest_of_numbers(labels.codes),
                None if labels.offsets is None else digest_of_numbers(labels.offsets),
                labels.names,
            ]
        )
    return found


def _label_column(labels: Labels) -> pa.Array:
    # -1 is a sample without a label.
    codes = pa.array(labels.codes, pa.int32(), mask=labels.codes < 0)
    names = pa.DictionaryArray.from_arrays(codes, pa.array(labels.names, pa.large_string()))
    if labels.offsets is None:
        return names
    offsets = pa.array(labels.offsets, pa.int64())
    return pa.LargeListArray.from_arrays(offsets, names.cast(pa.large_string()))


def load_profile(
    folder: Path, remedy: str = "name a corpus, or run batchstat profile first"
) -> Profile:
    """Return the profile in a results folder; `remedy` is what to do if there is none.

    Raises:
        InputError: the file is missing, damaged, or written with another schema.
    """
    path = folder / LENGTHS_FILE
    try:
        with as_os_errors(path):
            found = path.exists()
    except OSError as error:
        raise InputError(f"{folder.as_posix()} cannot be read: {one_line(error)}") from None
    if not found:
        raise InputError(f"no profile in {folder.as_posix()}: {remedy}")
    return read_file(path)


def read_file(address: str | Path) -> Profile:
    """Return the profile in a `lengths.parquet`, by its path or address.

    Raises:
        InputError: as in `load_profile`.
    """
    path = as_path(address)
    try:
        check_regular(path)
        profile, _ = read_counts(BytesIO(read_bytes(path)) if is_remote(path) else path, path)
    except OSError as error:
        raise InputError(f"{path.as_posix()} cannot be read: {one_line(error)}") from None
    if len(profile) == 0:
        raise _useless(path, ValueError("it has no rows"))
    return profile


def read_counts(file: Path | BinaryIO, path: Path) -> tuple[Profile, Mapping[str, Any]]:
    """Return the profile in a file, which may have no samples, and what else is stored there.

    `path` names the file in messages.

    Raises:
        InputError: as in `load_profile`.
    """
    try:
        with opened(file, SCHEMA, _TYPES, optional=_OPTIONAL) as table:
            facts: _Facts = decoded(_Facts, table.record)
            return _profile(table, facts), facts.more
    except UNREADABLE as error:
        raise _useless(path, error) from None


def check_formats(sources: Iterable[Source]) -> None:
    """Raise ValueError for a source in a format that batchstat does not read."""
    for source in sources:
        if source.format not in FORMATS:
            raise ValueError(f"{shown(source.format)} is not a corpus format")


def _profile(table: SealedTable, facts: _Facts) -> Profile:
    check_formats(facts.corpus.sources)
    lengths, records = new_array(table.rows, LONGEST), new_array(table.rows, FAR)
    labels: list[Labels] = []
    has_labels = "label" in table.names
    kinds: dict[str, list[TokenRanges]] = {kind: [] for kind in KINDS if kind in table.names}
    # Records that were skipped have numbers too.
    most = table.rows + sum(facts.corpus.skipped.values()) - 1
    at, last = 0, -1
    for block in table.blocks():
        rows = slice(at, at + len(block))
        block_lengths, block_records = numbers_in(block, "length"), numbers_in(block, "record")
        check_range("length", block_lengths, LONGEST, at)
        check_range("record", block_records, most, at)
        check_rising("record", block_records, last, at)
        lengths[rows], records[rows] = block_lengths, block_records
        for kind, parts in kinds.items():
            parts.append(_ranges(block, kind, block_lengths, at))
        if has_labels:
            # With pyarrow.compute, which takes longer to load than a profile without labels.
            from batchstat.profiling.labels import as_labels

            labels += map(as_labels, block["label"].chunks)
        at += len(block)
        last = int(block_records[-1]) if len(block) else last
    profile = Profile(
        created=facts.created,
        corpus=facts.corpus,
        tokenizer=facts.tokenizer,
        records=records,
        lengths=lengths,
        labels=Labels.joined(labels) if has_labels else None,
        kinds={kind: TokenRanges.concatenate(parts) for kind, parts in kinds.items()},
    )
    if (found := _digests(profile)) != facts.columns:
        odd = next(name for name in _TYPES if found.get(name) != facts.columns.get(name))
        raise ValueError(f"column {odd} was damaged or edited: its digest differs")
    return profile


def _ranges(block: pa.Table, kind: str, lengths: Ints, before: int) -> TokenRanges:
    """Return the tokens of a kind in a row group. Raise ValueError if its columns contradict each
    other.
    """
    ranges = block[f"{kind}_ranges"].combine_chunks()
    if ranges.null_count or ranges.values.null_count:
        raise ValueError(f"column {kind}_ranges contains null values")
    offsets, edges = as_numpy(ranges.offsets), as_numpy(ranges.values)
    found = TokenRanges(edges[offsets[0] : offsets[-1]], offsets - offsets[0])
    if not found.fits(lengths) or (found.counts() != numbers_in(block, kind)).any():
        raise ValueError(f"{kind}_ranges do not fit length and {kind} after row {before:,}")
    return found


def _useless(path: Path, error: BaseException) -> InputError:
    what = fault_of(error, "a profile")
    return InputError(f"{path.as_posix()} {what}: run batchstat profile again")
