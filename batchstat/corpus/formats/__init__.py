"""Formats of corpus files. A reader yields the chosen columns of one file as `Chunk`s.

A new format is one file and one line in `READERS`.
"""

from collections.abc import Callable, Iterator

from batchstat.corpus.columns import CorpusOptions
from batchstat.corpus.formats.chunk import Chunk
from batchstat.corpus.formats.delimited import read_csv, read_tsv
from batchstat.corpus.formats.jsonl import read_jsonl
from batchstat.corpus.formats.parquet import read_parquet
from batchstat.corpus.formats.text import read_text
from batchstat.corpus.sources import OpenSource

Reader = Callable[[OpenSource, CorpusOptions], Iterator[Chunk]]

READERS: dict[str, Reader] = {
    "txt": read_text,
    "csv": read_csv,
    "tsv": read_tsv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
}

__all__ = ["READERS", "Chunk", "Reader"]
