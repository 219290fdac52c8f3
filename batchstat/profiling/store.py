"""A profile as `lengths.parquet`: all of it, so that loading needs no other file. Never text."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from batchstat import __version__
from batchstat.corpus import CorpusOptions, Source
from batchstat.corpus.content import LONGEST
from batchstat.errors import InputError
from batchstat.profiling.arrays import new_array
from batchstat.profiling.labels import as_labels
from batchstat.profiling.record import CorpusFacts, Labels, Profile, TokenizerFacts
from batchstat.storage import as_path, is_remote, one_line

SCHEMA = "batchstat.profile/1"
LENGTHS_FILE = "lengths.parquet"
ROW_GROUP = 1 << 20
"""Samples."""

_METADATA_KEY = b"batchstat"


def save_lengths(
    profile: Profile, file: BinaryIO, more: Mapping[str, object] | None = None
) -> None:
    """Writes `record`, `length`, `label` where there is one, and in the metadata all the rest, with
    what else is to be kept beside it.
    """
    meta = {
        "schema": SCHEMA,
        "tool": __version__,
        "created": profile.created,
        "corpus": asdict(profile.corpus),
        "tokenizer": None if profile.tokenizer is None else asdict(profile.tokenizer),
        **({} if more is None else {"more": more}),
    }
    labels = None if profile.labels is None else _label_column(profile.labels)
    schema = _schema(labels).with_metadata({_METADATA_KEY: json.dumps(meta)})
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for first in range(0, len(profile), ROW_GROUP):
            place = slice(first, first + ROW_GROUP)
            columns = [pa.array(n[place], pa.int64()) for n in (profile.records, profile.lengths)]
            if labels is not None:
                columns.append(labels.slice(first, ROW_GROUP))
            writer.write_table(pa.table(columns, schema=schema))


def _schema(labels: pa.Array | None) -> pa.Schema:
    fields = [("record", pa.int64()), ("length", pa.int64())]
    return pa.schema([*fields, *([] if labels is None else [("label", labels.type)])])


def _label_column(labels: Labels) -> pa.Array:
    codes = pa.array(labels.codes, pa.int32(), mask=labels.codes < 0)
    names = pa.DictionaryArray.from_arrays(codes, pa.array(labels.names, pa.large_string()))
    if labels.offsets is None:
        return names
    offsets = pa.array(labels.offsets, pa.int64())
    return pa.LargeListArray.from_arrays(offsets, names.cast(pa.large_string()))


def load_profile(folder: Path) -> Profile:
    """The profile in a results folder.

    Raises:
        InputError: there is none, it is damaged, or it is of another batchstat's schema.
    """
    path = folder / LENGTHS_FILE
    if not path.exists():
        raise InputError(
            f"no profile in {folder.as_posix()}: name a corpus, or run batchstat profile first"
        )
    return read_file(path)


def read_file(address: str | Path) -> Profile:
    """The profile in a `lengths.parquet`, by its path or address.

    Raises:
        InputError: as `load_profile`.
    """
    path = as_path(address)
    try:
        return read_profile(BytesIO(path.read_bytes()) if is_remote(path) else path, path)
    except OSError as error:
        raise InputError(f"{path.as_posix()} cannot be read: {one_line(error)}") from None


def read_profile(file: Path | BinaryIO, path: Path) -> Profile:
    """The profile that `save_lengths` wrote to a file, which messages name as `path`.

    Raises:
        InputError: as `load_profile`.
    """
    return read_counts(file, path)[0]


def read_counts(file: Path | BinaryIO, path: Path) -> tuple[Profile, dict[str, Any]]:
    """The same, and what else `save_lengths` was given to keep.

    Raises:
        InputError: as `load_profile`.
    """
    try:
        # Not by pq.read_table: its threads may outlive the work, and then let go of a Python file
        # while the interpreter ends, which aborts the process.
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            meta = json.loads(parquet.schema_arrow.metadata[_METADATA_KEY])
            if meta["schema"] == SCHEMA:
                return _profile(parquet, meta), meta.get("more", {})
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise _useless(path, f"is not a profile ({str(error).splitlines()[0]})") from None
    raise _useless(path, f"has schema {meta['schema']}, and this batchstat reads {SCHEMA}")


def _profile(file: pq.ParquetFile, meta: dict[str, Any]) -> Profile:
    corpus, rows = meta["corpus"], file.metadata.num_rows
    lengths, records = new_array(rows, LONGEST), new_array(rows, 2**40)
    labels: list[pa.Array] = []
    at = 0
    for i in range(file.num_row_groups):
        group = file.read_row_group(i, use_threads=False)
        place = slice(at, at + len(group))
        lengths[place] = group["length"].to_numpy()
        records[place] = group["record"].to_numpy()
        if "label" in group.column_names:
            labels += [_plain(part) for part in group["label"].chunks]
        at += len(group)
    return Profile(
        created=meta["created"],
        corpus=CorpusFacts(
            tuple(Source(**source) for source in corpus["sources"]),
            CorpusOptions(
                **corpus["options"] | {"text_column": tuple(corpus["options"]["text_column"])}
            ),
            corpus["skipped"],
            tuple(corpus["faults"]),
            tuple(corpus["failed"]),
        ),
        tokenizer=TokenizerFacts(**meta["tokenizer"]) if meta["tokenizer"] else None,
        records=records,
        lengths=lengths,
        labels=as_labels(labels) if "label" in file.schema_arrow.names else None,
    )


def _plain(labels: pa.Array) -> pa.Array:
    is_dictionary = pa.types.is_dictionary(labels.type)
    return labels.cast(pa.large_string()) if is_dictionary else labels


def _useless(path: Path, what: str) -> InputError:
    return InputError(f"{path.as_posix()} {what}: run batchstat profile again")
