"""Formats of corpus files: a new one is a file here, a line in `READERS`, and its endings."""

from collections.abc import Callable, Iterator

from batchstat.corpus.chunk import Chunk
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.formats.alpaca import read_alpaca
from batchstat.corpus.formats.columnar import read_arrow, read_parquet
from batchstat.corpus.formats.conll import read_conll
from batchstat.corpus.formats.delimited import read_delimited
from batchstat.corpus.formats.fasttext import read_fasttext
from batchstat.corpus.formats.json import read_json
from batchstat.corpus.formats.jsonl import read_jsonl
from batchstat.corpus.formats.npy import read_npy
from batchstat.corpus.formats.text import read_text
from batchstat.corpus.options import CorpusOptions

READERS: dict[str, Callable[[OpenSource, CorpusOptions], Iterator[Chunk]]] = {
    "txt": read_text,
    "csv": read_delimited,
    "tsv": read_delimited,
    "jsonl": read_jsonl,
    "json": read_json,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "npy": read_npy,
    "conll": read_conll,
    "fasttext": read_fasttext,
    "alpaca": read_alpaca,
}
