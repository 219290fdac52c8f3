"""Which column holds the text, which the label."""

from collections.abc import Sequence
from dataclasses import dataclass

from batchstat.errors import InputError, OptionError
from batchstat.options import whole_number

TEXT_NAMES = ("text", "content", "sentence", "review", "prompt")


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """How a corpus is read.

    Attributes:
        text_column: the column that holds the text; by number from 0 where `header` is false.
        label_column: the column that holds the class.
        header: whether the first record of .csv and .tsv files names the columns.
        quote: whether fields may be quoted (RFC 4180); None for .csv only.
        strip: white space is taken off both ends of a text.
        min_chars: shorter samples are skipped, in characters, after `strip`.
    """

    text_column: str | None = None
    label_column: str | None = None
    header: bool = True
    quote: bool | None = None
    strip: bool = False
    min_chars: int = 0

    def __post_init__(self) -> None:
        whole_number("min_chars", self.min_chars, least=0)
        if not self.header:
            for name in ("text_column", "label_column"):
                column = getattr(self, name)
                if column is not None and not column.isdecimal():
                    raise OptionError(
                        f"{name}={column!r}: without a header, columns go by number from 0"
                    )


@dataclass(frozen=True)
class Columns:
    """The columns of one file that are read: of the text, and of the label where one is wanted."""

    text: str
    label: str | None


def choose_columns(
    path: str, names: Sequence[str], texts: Sequence[str], options: CorpusOptions
) -> Columns:
    """The text and label columns among the columns `names` of a file, of which `texts` hold text.

    Without `text_column`, it is the only column that holds text, or the one with a usual name.

    Raises:
        InputError: a column that is not there, is there twice, or cannot be told from the others.
    """
    label = options.label_column
    if label is not None:
        _require(path, label, names, "--label-column")
    if options.text_column is not None:
        _require(path, options.text_column, names, "--text-column")
        return Columns(options.text_column, label)
    candidates = [name for name in texts if name != label]
    usual = [name for name in candidates if name.lower() in TEXT_NAMES]
    found = candidates if len(candidates) == 1 else usual
    if len(found) != 1:
        raise InputError(
            f"{path}: which column holds the text? (has: {_listed(names)}): pass --text-column"
        )
    _require(path, found[0], names, "--text-column")
    return Columns(found[0], label)


def _require(path: str, column: str, names: Sequence[str], flag: str) -> None:
    count = list(names).count(column)
    if count > 1:
        raise InputError(f"{path}: column {column!r} is there {count} times: rename one")
    if count == 0:
        example = names[0] if names else "NAME"
        raise InputError(
            f"column {column!r} not in {path} (has: {_listed(names)}): pass {flag} {example}"
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20]) if names else "no column"
    return f"{shown}, … {len(names) - 20} more" if len(names) > 20 else shown
