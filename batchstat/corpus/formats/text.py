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
        # `hashing` is None unless this is standard input, which has no name to tell its format by.
        # Plain text is a guess there, and the wrong one for what begins like JSON; a text may begin
        # with `[`, such as [INST].
        is_guess = opened.hashing is not None and options.input_format is None
        if is_guess and lines.first == 1 and lines.texts[0].as_py().startswith(("{", "[{")):
            raise InputError(
                "standard input looks like JSON: pass --input-format jsonl or json, or txt if "
                "every line is a text"
            )
        yield Chunk(
            columns={"": lines.texts},
            position=opened.position,
            read=Columns(("",)),
            lines=lines.numbers,
            bad=lines.bad,
            before=opened.lines_before,
        )
