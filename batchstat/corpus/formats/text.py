"""Plain text: one sample per line."""

from collections.abc import Iterator

from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.lines import read_lines
from batchstat.corpus.opening import OpenSource
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError


def read_text(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield every line as a sample. Its only column has an empty name.

    Raises:
        InputError: columns are requested, but there are none; standard input is not plain text.
    """
    if options.named_columns:
        raise InputError(
            f"{opened.path} is plain text and has no column {options.named_columns[0]!r}: "
            "pass its real --input-format, or do not name a column"
        )
    for lines in read_lines(opened):
        # Standard input has no name to tell its format by: plain text is a guess, and the wrong one
        # for what begins like JSON. `[` alone does not, as a text may begin with [INST].
        is_guess = opened.split.source.is_standard_input and options.input_format is None
        is_start = lines.first == 1
        if is_guess and is_start and lines.texts[0].as_py().startswith(("{", "[{")):
            raise InputError(
                "standard input looks like JSON: pass --input-format jsonl or json, or txt if "
                "every line is a text"
            )
        yield Chunk(
            values={"": lines.texts},
            columns=Columns(("",)),
            position=opened.position,
            lines=lines.numbers,
            bad=lines.bad,
            count_before=opened.lines_before,
        )
