"""Plain text: one sample a line."""

from collections.abc import Iterator

from batchstat.corpus.columns import CorpusOptions
from batchstat.corpus.formats.chunk import Chunk
from batchstat.corpus.lines import read_lines
from batchstat.corpus.sources import OpenSource
from batchstat.errors import InputError


def read_text(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Every line a sample.

    Raises:
        InputError: bytes that are not UTF-8; columns are asked for, and there are none.
    """
    for flag in ("text_column", "label_column"):
        if getattr(options, flag) is not None:
            raise InputError(
                f"{opened.path} is plain text and has no columns: leave --{flag.replace('_', '-')} "
                "out, or name the file .csv, .tsv, .jsonl or .parquet for what it is"
            )
    for lines in read_lines(opened):
        yield Chunk(lines.texts, None, opened.raw.tell())
