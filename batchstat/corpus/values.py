"""One value per sample in memory, in a Series, an array or a list, as a table of one column."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError
from batchstat.parameters import listed
from batchstat.words import short

if TYPE_CHECKING:
    import pandas as pd


def holds_values(corpus: object) -> bool:
    """Return whether a corpus has one value per sample, unlike a table or paths."""
    if isinstance(corpus, Sequence) and not isinstance(corpus, str | bytes):
        # Strings in a list are paths: users who mean texts pass them as the argument `texts`.
        return len(corpus) > 0 and not isinstance(corpus[0], str | os.PathLike)
    # A Series is recognized by its attributes: importing pandas takes long. A table has columns.
    is_series = hasattr(corpus, "iloc") and not hasattr(corpus, "columns")
    return is_series or isinstance(corpus, np.ndarray)


def table_of(values: Any, options: CorpusOptions) -> "tuple[pd.DataFrame, CorpusOptions]":
    """Return one value per sample as a table, and options that name its column; if none does, the
    first value's type decides. Raises OptionError: other values; InputError: none.
    """
    import pandas as pd

    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise OptionError(f"corpus of shape {values.shape}", "pass one value per sample")
    # A Series first: pandas would make a column of each position in lists of the same length.
    series = values if hasattr(values, "iloc") else pd.Series(list(values))
    kind = _kind_of(series)
    # A Series may have a name of its own, by which options such as text_column refer to it.
    name = series.name if isinstance(series.name, str) else kind
    # "text" is also the default, so this is the case in which no option names a column.
    if options.content == "text" and not options.text_column:
        # `kind` begins the option's name: text_column (a tuple), length_column, and so on.
        column: Any = (name,) if kind == "text" else name
        options = replace(options, **{f"{kind}_column": column})
    return pd.DataFrame({name: series}), options


def table_of_texts(texts: Iterable[Any]) -> "pd.DataFrame":
    """Return texts, or None for missing ones, in a table's column `text`. Raises OptionError."""
    import pandas as pd

    # A string is iterable too: each of its characters would be a sample.
    if isinstance(texts, str):
        raise OptionError(f"texts={short(texts)}", "must be a list of texts")
    text_list = listed("texts", texts)
    for i, text in enumerate(text_list):
        if not (text is None or isinstance(text, str)):
            raise OptionError(f"texts[{i}]={short(text)}", "must be text")
    return pd.DataFrame({"text": pd.Series(text_list, dtype=object)})


def _kind_of(series: "pd.Series[Any]") -> str:
    """Return what the first value shows all to be: `text`, `length`, `messages` or `tokens`."""
    first = next(iter(series.dropna()), None)
    if first is None:
        raise InputError("the corpus has no values", "pass some")
    if isinstance(first, str):
        return "text"
    # A number is a token count. True and False are integers to Python, but not token counts.
    if isinstance(first, int | np.integer) and not isinstance(first, bool):
        return "length"
    # A chat is a list of dictionaries, a tokenized sample a list of token ids.
    element = first[0] if isinstance(first, Sequence | np.ndarray) and len(first) else None
    if isinstance(element, dict):
        return "messages"
    if isinstance(element, int | np.integer):
        return "tokens"
    raise OptionError(
        f"corpus of {type(first).__name__}",
        "pass texts, numbers of tokens, token ids or messages, or the paths of files",
    )
