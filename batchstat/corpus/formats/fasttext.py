"""fastText: a line has its labels, each after `__label__`, and a text."""

import re
from collections.abc import Iterator

from batchstat.corpus.chunk import Chunk
from batchstat.corpus.columns import choose_columns
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.lines import read_lines
from batchstat.corpus.options import CorpusOptions

PREFIX = "__label__"
TEXT, LABEL = "text", "label"  # the columns of a file
_LABEL = re.compile(rf"(?:^|(?<=\s)){PREFIX}(\S+)\s*")


def read_fasttext(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield lines as `text` and `label`, a list; raise InputError if another column is named."""
    columns = choose_columns(opened.path, [TEXT, LABEL], [TEXT], options)
    for lines in read_lines(opened):
        texts = lines.texts.to_pylist()
        both = {
            TEXT: [_LABEL.sub("", text) for text in texts],
            LABEL: [_LABEL.findall(text) or None for text in texts],
        }
        values = {name: both[name] for name in columns.all}
        yield Chunk.read_from(opened, values, columns, lines.numbers, lines.bad)
