"""`CorpusOptions`: how a corpus is read."""

from dataclasses import dataclass
from typing import Literal

from batchstat.errors import OptionError
from batchstat.parameters import one_of, whole_number

ON_ERROR = ("fail", "skip")

Content = Literal["text", "messages", "tokens", "length"]


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """How a corpus is read.

    Attributes:
        input_format: format of every file, regardless of its name; None to detect it by name.
        text_column: columns that hold the text: one, or two for pairs; empty to detect it. By
            number from 0 if `header` is false.
        messages_column: column that holds a chat, instead of text.
        tokens_column: column that holds lists of token ids, instead of text.
        length_column: column that holds numbers of tokens, instead of text.
        label_column: column that holds the class, or a list of classes.
        header: whether the first record of .csv and .tsv files names the columns.
        quote: whether fields may be quoted (RFC 4180); None for .csv only.
        strip: whether to strip whitespace from both ends of a text.
        min_chars: minimum number of characters, after `strip`; shorter samples are skipped.
        on_error: whether a bad record ends the reading (`fail`) or is counted and skipped (`skip`).

    Raises:
        OptionError: options that are invalid by themselves or mutually exclusive.
    """

    input_format: str | None = None
    text_column: tuple[str, ...] = ()
    messages_column: str | None = None
    tokens_column: str | None = None
    length_column: str | None = None
    label_column: str | None = None
    header: bool = True
    quote: bool | None = None
    strip: bool = False
    min_chars: int = 0
    on_error: str = "fail"

    def __post_init__(self) -> None:
        whole_number("min_chars", self.min_chars, least=0)
        one_of("on_error", self.on_error, ON_ERROR)
        if "" in self.named_columns:
            raise OptionError(
                "a column name is empty: name one, or read the file without a header, where "
                "columns are numbered from 0"
            )
        given = [name for name in _CONTENT_COLUMNS if getattr(self, name)]
        if len(given) > 1:
            raise OptionError(f"{given[0]} and {given[1]} are mutually exclusive: pass only one")
        if len(self.text_column) > 2:
            raise OptionError(
                f"text_column is given {len(self.text_column)} times: pass one, or two for pairs"
            )
        if self.content != "text" and (self.strip or self.min_chars):
            raise OptionError(f"strip and min_chars are for texts, but {given[0]} has none")
        if not self.header:
            for column in self.named_columns:
                if not column.isdecimal():
                    raise OptionError(
                        f"column {column!r}: without a header, name columns by number, from 0"
                    )

    @property
    def content(self) -> Content:
        """Kind of content in the counted columns."""
        if self.messages_column:
            return "messages"
        if self.tokens_column:
            return "tokens"
        return "length" if self.length_column else "text"

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column that the user named."""
        single = (self.messages_column, self.tokens_column, self.length_column, self.label_column)
        return (*self.text_column, *(column for column in single if column is not None))


_CONTENT_COLUMNS = ("text_column", "messages_column", "tokens_column", "length_column")
