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
from batchstat.errors import InputError
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
    columns: dict[str, pa.Array] = {
        "record": pa.array(profile.records, pa.int64()),
        "length": pa.array(profile.lengths, pa.int64()),
    }
    if profile.labels is not None:
        columns["label"] = _label_column(profile.labels)
    meta = {
        "schema": SCHEMA,
        "tool": __version__,
        "created": profile.created,
        "corpus": asdict(profile.corpus),
        "tokenizer": None if profile.tokenizer is None else asdict(profile.tokenizer),
        **({} if more is None else {"more": more}),
    }
    table = pa.table(columns).replace_schema_metadata({_METADATA_KEY: json.dumps(meta)})
    pq.write_table(table, file, compression="zstd", row_group_size=ROW_GROUP)


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
        table = pq.ParquetFile(file, pre_buffer=False).read(use_threads=False)
        meta = json.loads(table.schema.metadata[_METADATA_KEY])
        if meta["schema"] == SCHEMA:
            return _profile(table, meta), meta.get("more", {})
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise _useless(path, f"is not a profile ({str(error).splitlines()[0]})") from None
    raise _useless(path, f"has schema {meta['schema']}, and this batchstat reads {SCHEMA}")


def _profile(table: pa.Table, meta: dict[str, Any]) -> Profile:
    corpus = meta["corpus"]
    labels = None
    if "label" in table.column_names:
        labels = as_labels([_plain(part) for part in table["label"].chunks])
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
        records=table["record"].to_numpy(),
        lengths=table["length"].to_numpy(),
        labels=labels,
    )


def _plain(labels: pa.Array) -> pa.Array:
    is_dictionary = pa.types.is_dictionary(labels.type)
    return labels.cast(pa.large_string()) if is_dictionary else labels


def _useless(path: Path, what: str) -> InputError:
    return InputError(f"{path.as_posix()} {what}: run batchstat profile again")
