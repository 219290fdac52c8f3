"""Where samples come from: files, formats and columns, as blocks of Arrow text."""

from batchstat.corpus.content import Chats, Content, Counted, Texts
from batchstat.corpus.opening import Rereadable
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.reading import Block, CorpusReader, Reading, take
from batchstat.corpus.sources import STANDARD_INPUT, Source, digest_of, find_sources

__all__ = [
    "STANDARD_INPUT",
    "Block",
    "Chats",
    "Content",
    "CorpusOptions",
    "CorpusReader",
    "Counted",
    "Reading",
    "Rereadable",
    "Source",
    "Texts",
    "digest_of",
    "find_sources",
    "take",
]
