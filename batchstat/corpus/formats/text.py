"""Plain text: one sample per line."""

import re
from collections.abc import Iterator
from itertools import pairwise

from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.files.sources import Source
from batchstat.corpus.formats.conll import DOCUMENT
from batchstat.corpus.formats.fasttext import PREFIX
from batchstat.corpus.lines import read_lines
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError


def read_text(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield every line as a sample, in a column without a name. Raises InputError."""
    if options.named_columns:
        raise InputError(
            f"{opened.path} is plain text and has no column {options.named_columns[0]!r}",
            "pass its real --input-format, or do not name a column",
        )
    for lines in read_lines(opened):
        if lines.first == 1 and opened.split.first == 0 and options.input_format is None:
            head = lines.texts.slice(0, 500).to_pylist()
            if look := _looks_like(head, opened.split.source):
                raise InputError(f"{opened.path} {look}, or txt if every line is a text")
        columns = Columns(("",))
        yield Chunk.read_from(opened, {"": lines.texts}, columns, lines.numbers, lines.bad)


_LEAST_GROUPS = 3
"""Sentences of a word on each line that tell CoNLL from a table, or from lines that look alike."""
_IS_TAG = re.compile(r"O|[BIESLUM]-\S+").fullmatch
_MOSTLY, _NEARLY_ALL = 0.8, 0.95
_LEAST_ROWS = 5  # lines with equally many tabs that make a table


def _looks_like(lines: list[str], source: Source) -> str:
    """Return what else than text the start of a file looks like, and the option that reads it."""
    # Its name may say text, but lines of a word and its tags, or of labels, are no samples.
    filled = [line for line in lines if line.strip()]
    if not filled:
        return ""
    # Only standard input, which has no name. `[` alone may be the [INST] of a text.
    if source.is_standard_input and filled[0].startswith(("{", "[{")):
        return "looks like JSON: pass --input-format jsonl or json"
    if sum(line.startswith(PREFIX) for line in filled) > _MOSTLY * len(filled):
        return "looks like fastText: pass --input-format fasttext"
    if filled[0].startswith(DOCUMENT) or _are_words_with_tags(lines):
        return "looks like CoNLL, with a word on each line: pass --input-format conll"
    tabs = [line.count("\t") for line in filled]
    if len(filled) >= _LEAST_ROWS and tabs[0] and tabs.count(tabs[0]) > _NEARLY_ALL * len(filled):
        return f"has {tabs[0] + 1} fields between tabs on each line: pass --input-format tsv"
    return ""


def _are_words_with_tags(lines: list[str]) -> bool:
    """Return whether lines are groups of equally many cells, with tabs or a tag at the end."""
    rows = [
        line.split("\t") if "\t" in line else line.split()
        for line in lines
        if line.strip() and not line.startswith("#")
    ]
    groups = sum(not line.strip() and bool(later.strip()) for line, later in pairwise(lines))
    widths = {len(row) for row in rows}
    if groups < _LEAST_GROUPS or len(widths) != 1 or widths == {1}:
        return False
    has_tags = sum(bool(_IS_TAG(row[-1])) for row in rows) > _MOSTLY * len(rows)
    return has_tags or all("\t" in line for line in lines if line.strip() and line[0] != "#")
