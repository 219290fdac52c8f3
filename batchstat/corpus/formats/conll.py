"""CoNLL: a word and its tags on each line, and a blank line after each sentence, which is a sample;
its columns are numbered from 0. Of CoNLL-U (ten columns between tabs, of which the first numbers
the words) the form of each word is read, but no comments, nor words with ids such as 3-4 and 5.1
(https://universaldependencies.org/format.html). Lines of -DOCSTART- belong to no sentence.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.chunk import Chunk
from batchstat.corpus.columns import choose_columns
from batchstat.corpus.files.opening import OpenSource
from batchstat.corpus.lines import MOST_LINES, read_lines
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError

WORDS = "words"  # the column that holds the words
DOCUMENT = "-DOCSTART-"
_Sentence = tuple[int, list[list[str]], BadRecord | None]
"""The line on which a sentence starts, the cells of its lines, and what is wrong with one."""


def read_conll(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the sentences of a file, with the columns that are read. Raises InputError."""
    if options.content not in ("text", "words") or options.text_column:
        raise InputError(
            f"{opened.path} is CoNLL, which has words", "name no column but those of labels"
        )
    sentences: list[_Sentence] = []
    lines = 0
    for sentence in _sentences(opened):
        sentences.append(sentence)
        lines += len(sentence[1])
        if lines >= MOST_LINES:
            yield _chunk(opened, options, sentences)
            sentences, lines = [], 0
    if sentences:
        yield _chunk(opened, options, sentences)


def _sentences(opened: OpenSource) -> Iterator[_Sentence]:
    """Yield the sentences of a file, without comments."""
    first, rows, bad = 0, list[list[str]](), None
    has_tabs: bool | None = None  # until a line tells
    for lines in read_lines(opened):
        texts = lines.texts.to_pylist()
        if has_tabs is None:
            has_tabs = any("\t" in text for text in texts if not text.startswith("#"))
        for i, text in enumerate(texts):
            if i in lines.bad:
                first, bad = first or lines.numbers[i], bad or lines.bad[i]
            elif not text.strip() or text.startswith(DOCUMENT):
                if rows or bad:
                    yield first, rows, bad
                first, rows, bad = 0, [], None
            # Between tabs, # begins a comment; between blanks, it is a word.
            elif not (has_tabs and text.startswith("#") and "\t" not in text):
                first = first or lines.numbers[i]
                rows.append(text.split("\t") if "\t" in text else text.split())
    if rows or bad:
        yield first, rows, bad


def _chunk(opened: OpenSource, options: CorpusOptions, sentences: list[_Sentence]) -> Chunk:
    bad = {i: each for i, (_, _, each) in enumerate(sentences) if each is not None}
    # Without CoNLL-U's ranges and empty words.
    tables = [
        [row for row in rows if row[0].isdecimal()] if _form_column(rows) else rows
        for _, rows, _ in sentences
    ]
    width = min((len(row) for rows in tables for row in rows), default=1)
    names = [WORDS, *map(str, range(width))]
    # The words are the content, whether or not an option names them.
    asked = replace(options, words_column=options.words_column or WORDS)
    columns = choose_columns(opened.path, names, [], asked)
    columns = replace(columns, is_guessed=options.words_column is None)

    def values_of(name: str, rows: list[list[str]]) -> list[str]:
        at = _form_column(rows) if name == WORDS else int(name)
        return [row[at] for row in rows]

    values: dict[str, list[Any]] = {
        name: [values_of(name, rows) for rows in tables] for name in columns.all
    }
    first_lines = [first for first, _, _ in sentences]
    return Chunk.read_from(opened, values, columns, first_lines, bad, holds="words")


def _form_column(rows: list[list[str]]) -> int:
    # CoNLL-U and its relatives have at least 8 columns.
    has_numbers = all(len(row) >= 8 and row[0][:1].isdecimal() for row in rows)
    return 1 if rows and has_numbers and "1" in {row[0] for row in rows} else 0
