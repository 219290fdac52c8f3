"""A profile as `lengths.parquet`: all of it, so that loading needs no other file. Never text."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from batchstat import __version__
from batchstat.corpus import CorpusOptions, Source
from batchstat.errors import InputError
from batchstat.profiling.build import as_labels
from batchstat.profiling.record import CorpusFacts, Profile, TokenizerFacts

SCHEMA = "batchstat.profile/1"
LENGTHS_FILE = "lengths.parquet"

_METADATA_KEY = b"batchstat"


def save_lengths(profile: Profile, file: BinaryIO) -> None:
    """Writes `record`, `length`, `label` where there is one, and in the metadata all the rest."""
    columns: dict[str, pa.Array] = {
        "record": pa.array(profile.records, pa.int64()),
        "length": pa.array(profile.lengths, pa.int64()),
    }
    if profile.labels is not None:
        codes = profile.labels.codes
        columns["label"] = pa.DictionaryArray.from_arrays(
            pa.array(codes, pa.int32(), mask=codes < 0),
            pa.array(profile.labels.names, pa.large_string()),
        )
    meta = {
        "schema": SCHEMA,
        "tool": __version__,
        "created": profile.created,
        "corpus": asdict(profile.corpus),
        "tokenizer": asdict(profile.tokenizer),
    }
    table = pa.table(columns).replace_schema_metadata({_METADATA_KEY: json.dumps(meta)})
    pq.write_table(table, file, compression="zstd")


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
    try:
        table = pq.read_table(path)
        meta = json.loads(table.schema.metadata[_METADATA_KEY])
        if meta["schema"] == SCHEMA:
            return _profile(table, meta)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise _useless(path, f"is not a profile ({str(error).splitlines()[0]})") from None
    raise _useless(path, f"has schema {meta['schema']}, and this batchstat reads {SCHEMA}")


def _profile(table: pa.Table, meta: dict[str, Any]) -> Profile:
    corpus = meta["corpus"]
    labels = as_labels(table["label"]) if "label" in table.column_names else None
    return Profile(
        created=meta["created"],
        corpus=CorpusFacts(
            tuple(Source(**source) for source in corpus["sources"]),
            CorpusOptions(**corpus["options"]),
            corpus["skipped"],
        ),
        tokenizer=TokenizerFacts(**meta["tokenizer"]),
        records=table["record"].to_numpy(),
        lengths=table["length"].to_numpy(),
        labels=labels,
    )


def _useless(path: Path, what: str) -> InputError:
    return InputError(f"{path.as_posix()} {what}: run batchstat profile again")
