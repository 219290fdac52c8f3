"""What a value or a column is."""

import pyarrow as pa

from batchstat.corpus.arrow_values import decoded_type


def holds_text(kind: pa.DataType) -> bool:
    """Whether an Arrow column of this type holds text."""
    kind = decoded_type(kind)
    return any(is_text(kind) for is_text in (pa.types.is_string, pa.types.is_large_string))


def can_label(kind: pa.DataType) -> bool:
    """Whether the values of an Arrow column of this type have a text that names a class."""
    kind = decoded_type(kind)
    # Intervals are temporal as well, and nothing writes them as text.
    return holds_text(kind) or any(
        is_kind(kind)
        for is_kind in (
            *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null),
            *(pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration),
            pa.types.is_decimal,
        )
    )


def kind_of(value: object) -> str:
    """What a JSON value is, in a word."""
    names = {bool: "a boolean", int: "a number", float: "a number", list: "a list", str: "text"}
    return "null" if value is None else names.get(type(value), "an object")
