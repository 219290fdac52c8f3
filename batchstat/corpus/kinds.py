"""What a value or a column is."""

import pyarrow as pa


def holds_text(kind: pa.DataType) -> bool:
    """Whether an Arrow column of this type holds text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_text(kind)
        for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def can_label(kind: pa.DataType) -> bool:
    """Whether the values of an Arrow column of this type have a text that names a class."""
    return holds_text(kind) or any(
        is_kind(kind)
        for is_kind in (
            *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null),
            *(pa.types.is_temporal, pa.types.is_decimal),
        )
    )


def kind_of(value: object) -> str:
    """What a JSON value is, in a word."""
    names = {bool: "a boolean", int: "a number", float: "a number", list: "a list", str: "text"}
    return "null" if value is None else names.get(type(value), "an object")
