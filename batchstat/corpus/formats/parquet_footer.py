"""The footer of a Parquet file, read without pyarrow: where each column chunk is, and how large.

pyarrow ends the process where the metadata of a column does not fit its schema
(`RowGroupMetaData.column` lets a C++ exception through), so a damaged file must not get that far.

Sources: parquet.thrift of apache/parquet-format for the fields, and Thrift's compact protocol.
"""

from typing import Any, NamedTuple

_BYTE_ARRAY, _DELTA_BYTE_ARRAY = 6, 7
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DOUBLE_BYTES = 8
_INTEGER_BITS = 64
_LONG_LIST = 15


class ColumnChunk(NamedTuple):
    """One column of one row group.

    Attributes:
        path: its name, with those of what it is nested in, separated by dots.
        is_binary: whether its values have no fixed size.
        repeats: whether a value may repeat the one before it (DELTA_BYTE_ARRAY).
        begin: where its pages begin, in bytes from the start of the file; 0 if that is unknown.
        bytes: bytes of its pages.
        decompressed: the same, decompressed.
        values: number of its values, those inside lists counted one by one.
    """

    path: str
    is_binary: bool
    repeats: bool
    begin: int
    bytes: int
    decompressed: int
    values: int


def column_chunks(footer: bytes) -> list[list[ColumnChunk]]:
    """Return the column chunks of each row group.

    Raises:
        ValueError: the footer is damaged, or its numbers of records contradict each other: pyarrow
            then reads fewer records than there are, without an error.
    """
    try:
        meta = Decoder(footer).struct()
        groups = [[_column_chunk(column[3]) for column in group[1]] for group in meta[4]]
        records = [_size(group[3]) for group in meta[4]]
        if sum(records) != meta[3]:
            raise ValueError(
                f"its footer is damaged (row groups of {sum(records):,} records in a file of "
                f"{meta[3]:,})"
            )
        for chunks, most in zip(groups, records, strict=True):
            if most > min((chunk.values for chunk in chunks), default=most):
                raise ValueError(f"its footer is damaged (a column has fewer than {most:,} values)")
        return groups
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"its footer is damaged ({type(error).__name__})") from None


def _column_chunk(meta: dict[int, Any]) -> ColumnChunk:
    offsets = [meta.get(field, 0) for field in (9, 11)]  # of the data, of the dictionary
    for number in (*offsets, meta[5], meta[6], meta[7]):
        _size(number)
    return ColumnChunk(
        path=b".".join(meta[3]).decode(errors="replace"),
        is_binary=meta[1] == _BYTE_ARRAY,
        repeats=_DELTA_BYTE_ARRAY in meta[2],
        begin=min(filter(None, offsets), default=0),
        bytes=meta[7],
        decompressed=meta[6],
        values=meta[5],
    )


def _size(number: Any) -> int:
    """Return a number that must be a size or a place. Raise ValueError if it cannot be one."""
    if type(number) is not int or number < 0:
        raise ValueError(f"its footer is damaged (a size or a place is {number!r:.40})")
    return number


class Decoder:
    """Values of Thrift's compact protocol; a struct is a dict by the ids of its fields."""

    def __init__(self, data: bytes) -> None:
        """Take a struct, or as much of it as is to be read."""
        self._data, self._at = data, 0

    def next_i32(self) -> int:
        """Return the next field of a struct. Raise ValueError if it is not the next i32."""
        if self._byte() != 1 << 4 | _I32:
            raise ValueError("not the next field, or no i32")
        return self._zigzag()

    def struct(self) -> dict[int, Any]:
        """Return all fields of a struct by their ids."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            size = self._varint() if head >> 4 == _LONG_LIST else head >> 4
            return [self._value(head & 15) for _ in range(size)]
        if kind == _STRUCT:
            return self.struct()
        if kind == _DOUBLE:
            return self._take(_DOUBLE_BYTES)
        if kind == _MAP:
            kinds = self._byte() if (size := self._varint()) else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(size)]
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        raise ValueError(f"its footer is damaged (a value of type {kind})")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise ValueError("its footer is damaged (it is cut short)")
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        number = 0
        for shift in range(0, _INTEGER_BITS, 7):
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        # Python's numbers have no limit: a damaged one could take up the whole footer.
        raise ValueError("its footer is damaged (a number has more than 64 bits)")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
