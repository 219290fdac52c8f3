"""Where samples come from: files, formats and columns, as blocks of Arrow text."""

from batchstat.corpus.columns import CorpusOptions
from batchstat.corpus.reading import Block, Skipped, read_corpus
from batchstat.corpus.sources import Source, digest_of, find_sources, format_name

__all__ = [
    "Block",
    "CorpusOptions",
    "Skipped",
    "Source",
    "digest_of",
    "find_sources",
    "format_name",
    "read_corpus",
]
