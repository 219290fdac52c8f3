"""`CorpusOptions`: how a corpus is read."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

from batchstat.corpus.chat import CHAT_FORMATS
from batchstat.corpus.records_path import steps_of
from batchstat.errors import OptionError
from batchstat.parameters import check_fields, documented, listed, option
from batchstat.words import short

Content = Literal["text", "completion", "messages", "words", "tokens", "length"]


def _formats() -> Iterable[str]:
    from batchstat.corpus.files.sources import FORMATS

    return FORMATS


def _option(default: Any, help: str, metavar: str | None = None, **more: Any) -> Any:
    return option(default, help, "Corpus", metavar, **more)


class ReadingOptions(TypedDict, total=False):
    """The fields of `CorpusOptions` as keywords, without the columns that may be several."""

    input_format: str | None
    prompt_column: str | None
    completion_column: str | None
    messages_column: str | None
    words_column: str | None
    tokens_column: str | None
    length_column: str | None
    trained_column: str | None
    assistant_only_loss: bool
    chat_format: str | None
    records: str | None
    encoding: str | None
    header: bool
    separator: str | None
    quote: bool | None
    backslash: bool
    strip: bool
    min_chars: int
    append: str
    on_error: str


@documented
@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """How a corpus is read.

    Example:
        >>> batchstat.CorpusOptions(text_column=("question", "answer")).content
        'text'

    Raises:
        OptionError: options that are invalid by themselves or mutually exclusive.
    """

    input_format: str | None = _option(
        None,
        "Format of every file, whatever its name.",
        "FORMAT",
        shown="by file name",
        names=_formats,
    )
    text_column: tuple[str, ...] = _option(
        (),
        "Column with the text; twice for pairs.",
        "NAME",
        shown="the only text column, or text, content, sentence, review, prompt",
        is_common=True,
    )
    prompt_column: str | None = _option(
        None, "Column with prompts, texts or chat messages, which carry no loss.", "NAME"
    )
    completion_column: str | None = _option(
        None, "Column with what follows `prompt_column`, and carries loss.", "NAME"
    )
    messages_column: str | None = _option(
        None, "Column with chat messages, instead of text.", "NAME", is_common=True
    )
    words_column: str | None = _option(
        None,
        "Column with lists of words, each tokenized by itself (is_split_into_words of "
        "transformers).",
        "NAME",
    )
    tokens_column: str | None = _option(
        None, "Column with lists of token ids, instead of text.", "NAME"
    )
    length_column: str | None = _option(None, "Column with token counts, instead of text.", "NAME")
    label_column: tuple[str, ...] = _option(
        (), "Column with labels, or several columns of 0 and 1.", "NAME", is_common=True
    )
    trained_column: str | None = _option(
        None,
        "Column with the tokens that carry loss: a mask, labels with -100, or their number.",
        "NAME",
    )
    assistant_only_loss: bool = _option(
        False, "Whether only the assistants' turns of chats carry loss."
    )
    chat_format: str | None = _option(
        None,
        "Format of chats that the template gets as they are written, with their own roles and what "
        "chat_template_kwargs has, as TRL does; else either, with roles made alike.",
        "FORMAT",
        shown="either",
        names=lambda: CHAT_FORMATS,
    )
    records: str | None = _option(
        None,
        "Where the samples are in .json and .jsonl files, if not at the top: data, or "
        "data[].paragraphs[].qas[].",
        "PATH",
    )
    encoding: str | None = _option(
        None, "Encoding of text files, such as latin-1 or utf-16.", "NAME", shown="UTF-8"
    )
    header: bool = _option(
        True,
        "Whether .csv and .tsv files begin with column names; if not, columns are numbered from 0.",
        shown="header",
    )
    separator: str | None = _option(
        None,
        "Character that separates the fields of .csv and .tsv files.",
        "CHAR",
        shown="a comma in .csv, a tab in .tsv",
    )
    quote: bool | None = _option(
        None,
        "Whether fields of .csv and .tsv may be quoted (RFC 4180).",
        shown="quoted in .csv, not in .tsv",
    )
    backslash: bool = _option(
        False, r'Whether a backslash escapes a quote in a quoted field, as in "a \"word\"".'
    )
    strip: bool = _option(False, "Strip whitespace from both ends of each text.")
    min_chars: int = _option(
        0,
        "Skip samples with fewer characters, after `strip`; blank ones are always skipped.",
        "N",
        least=0,
    )
    append: str = _option(
        "",
        "Append this to each text that does not end with it, as trainers do with the token that "
        "ends a sequence.",
        "TEXT",
        told="What was appended to each text that did not end with it.",
    )
    on_error: str = _option(
        "fail",
        "What to do with a bad record: fail, or skip and count it.",
        "RULE",
        values={
            "fail": "A record that cannot be read ends the run.",
            "skip": "Records that cannot be read are skipped and counted.",
        },
    )

    def __post_init__(self) -> None:
        # Without a header, columns are numbered, and callers may pass the number itself.
        if isinstance(number := self.trained_column, int):
            object.__setattr__(self, "trained_column", str(number))
        check_fields(self)
        # One name, or several in any sequence, become a tuple.
        for name in ("text_column", "label_column"):
            given: Any = getattr(self, name)
            given = () if given is None and name == "label_column" else given
            several = (
                (given,) if isinstance(given, str | int | bytes | dict) else listed(name, given)
            )
            names = tuple(str(each) if isinstance(each, int) else each for each in several)
            object.__setattr__(self, name, names)
        for column in self.named_columns:
            if not isinstance(column, str):
                raise OptionError(f"column {short(column)}", "must be a name")
        if "" in self.named_columns:
            raise OptionError(
                "a column name is empty",
                "name one, or read the file without a header, where columns are numbered from 0",
            )
        _check_contents(self)
        _check_text_options(self)
        if not self.header:
            for column in self.named_columns:
                if not column.isdecimal():
                    raise OptionError(
                        f"column {column!r}: without a header, name columns by number, from 0"
                    )

    @property
    def content(self) -> Content:
        """Kind of content in the counted columns."""
        # Text, the first kind, is the content if no option names a column of another.
        text, *others = get_args(Content)
        return next((kind for kind in others if getattr(self, f"{kind}_column")), text)

    @property
    def may_hold_chats(self) -> bool:
        """Whether the counted columns have chats, or may have them."""
        return self.content in ("messages", "completion")

    @property
    def chats_as_written(self) -> bool:
        """Whether the template gets chats as they are written."""
        return self.may_hold_chats and self.chat_format is not None

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column that the user named."""
        single = (getattr(self, name) for name in SINGLE_COLUMNS)
        named = (*self.text_column, *single, *self.label_column)
        return tuple(column for column in named if column is not None)


def _check_contents(options: CorpusOptions) -> None:
    """Raise OptionError for columns and options that contradict each other."""
    if (options.prompt_column is None) != (options.completion_column is None):
        raise OptionError("prompt_column and completion_column belong together", "pass both")
    of_chats = {
        "assistant_only_loss": options.messages_column,
        "chat_format": options.may_hold_chats,
    }
    for name, has_chats in of_chats.items():
        if getattr(options, name) and not has_chats:
            raise OptionError(f"{name} is for chats", "pass messages_column")
    content_columns = [f"{kind}_column" for kind in get_args(Content)]
    named_contents = [name for name in content_columns if getattr(options, name)]
    loss_options = ("completion_column", "assistant_only_loss")
    named_losses = [name for name in loss_options if getattr(options, name)]
    # Only one option may name the content, and beside trained_column no other may name the loss.
    rivals = named_contents
    if options.trained_column and named_losses:
        rivals = [*named_losses, "trained_column"]
    if len(rivals) > 1:
        raise OptionError(f"{rivals[0]} and {rivals[1]} are mutually exclusive", "pass only one")
    if len(options.text_column) > 2:
        raise OptionError(
            f"text_column is given {len(options.text_column)} times", "pass one, or two for pairs"
        )
    # Into half a surrogate pair, Python turns bytes of a command line that it cannot decode.
    try:
        options.append.encode()
    except UnicodeEncodeError:
        raise OptionError(
            f"append={short(options.append)} contains half a surrogate pair, which is not a "
            "character"
        ) from None
    # Where the content is not text, it is because one option names it.
    if options.content not in ("text", "completion") and options.append:
        raise OptionError(f"append is for texts, not with {named_contents[0]}")
    if options.content != "text" and (options.strip or options.min_chars):
        raise OptionError(f"strip and min_chars are for texts, not with {named_contents[0]}")


def _check_text_options(options: CorpusOptions) -> None:
    r"""Check the options of text files; a separator may be written as `\t`."""
    if options.encoding is not None:
        # Raises for hex or rot13, too, which are codecs of something else.
        try:
            "".encode(options.encoding)
        except (LookupError, UnicodeError):
            raise OptionError(
                f"encoding={short(options.encoding)}: no encoding of Python's, such as latin-1, "
                "cp1252, utf-16 or gb18030"
            ) from None
    if options.records is not None:
        steps_of(options.records)
    if options.separator is not None:
        separator = {"\\t": "\t", "tab": "\t"}.get(options.separator, options.separator)
        if len(separator) != 1 or separator in '"\r\n\\':
            raise OptionError(
                f"separator={short(options.separator)}", "must be one character, or tab"
            )
        object.__setattr__(options, "separator", separator)


SINGLE_COLUMNS = tuple(name for name in ReadingOptions.__annotations__ if name.endswith("_column"))
"""Options that name one column."""
