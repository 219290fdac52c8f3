"""One value per sample in memory, in a Series, an array or a list, as a table of one column."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError, short
from batchstat.parameters import listed

if TYPE_CHECKING:
    import pandas as pd


def holds_values(corpus: object) -> bool:
    """Return whether there is one value per sample, and neither a table nor paths."""
    if isinstance(corpus, Sequence) and not isinstance(corpus, str | bytes):
        # A list of texts is one of paths: its user has `texts`.
        return len(corpus) > 0 and not isinstance(corpus[0], str | os.PathLike)
    # pandas is not imported to know its Series.
    is_series = hasattr(corpus, "iloc") and not hasattr(corpus, "columns")
    return is_series or isinstance(corpus, np.ndarray)


def table_of(values: Any, options: CorpusOptions) -> "tuple[pd.DataFrame, CorpusOptions]":
    """Return values as a table, and the options that read it: by what the first values are, texts,
    numbers of tokens, token ids or messages, unless a column is named.

    Raises:
        OptionError: values of none of these kinds, or an array of several dimensions.
        InputError: there are none.
    """
    import pandas as pd

    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise OptionError(f"corpus of shape {values.shape}: pass one value per sample")
    # Lists of one length each would else become the columns of a table.
    series = values if hasattr(values, "iloc") else pd.Series(list(values))
    kind = _kind_of(series)
    name = series.name if isinstance(series.name, str) else kind
    if options.content == "text" and not options.text_column:
        column: Any = (name,) if kind == "text" else name
        options = replace(options, **{f"{kind}_column": column})
    return pd.DataFrame({name: series}), options


def table_of_texts(texts: Iterable[Any]) -> "pd.DataFrame":
    """Return texts as a table. Raises OptionError for a single text, or something else."""
    import pandas as pd

    if isinstance(texts, str):
        raise OptionError(f"texts={short(texts)}: must be a list of texts")
    found = listed("texts", texts)
    for place, each in enumerate(found):
        if not (each is None or isinstance(each, str)):
            raise OptionError(f"texts[{place}]={short(each)}: must be text")
    return pd.DataFrame({"text": pd.Series(found, dtype=object)})


def _kind_of(series: "pd.Series[Any]") -> str:
    first = next(iter(islice(series.dropna(), 1)), None)
    if first is None:
        raise InputError("the corpus has no values: pass some")
    if isinstance(first, str):
        return "text"
    if isinstance(first, int | np.integer) and not isinstance(first, bool):
        return "length"
    inner = first[0] if isinstance(first, Sequence | np.ndarray) and len(first) else None
    if isinstance(inner, dict):
        return "messages"
    if isinstance(inner, int | np.integer):
        return "tokens"
    raise OptionError(
        f"corpus of {type(first).__name__}: pass texts, numbers of tokens, token ids or messages, "
        "or the paths of files"
    )
