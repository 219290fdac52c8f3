"""Where samples come from: files, formats and columns, as blocks of Arrow text."""

from batchstat.corpus.content import Chats, Content, Counted, Texts
from batchstat.corpus.extents import content_digests
from batchstat.corpus.opening import Rereadable
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import (
    Part,
    digest_of,
    joined_digest,
    parts_of,
)
from batchstat.corpus.reading import Block, CorpusReader, Reading, take
from batchstat.corpus.sources import STANDARD_INPUT, Source, find_sources

__all__ = [
    "STANDARD_INPUT",
    "Block",
    "Chats",
    "Content",
    "CorpusOptions",
    "CorpusReader",
    "Counted",
    "Part",
    "Reading",
    "Rereadable",
    "Source",
    "Texts",
    "content_digests",
    "digest_of",
    "find_sources",
    "joined_digest",
    "parts_of",
    "take",
]
