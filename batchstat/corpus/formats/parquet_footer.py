"""The footer of a Parquet file, read without pyarrow, which ends the process where the metadata of
a column does not fit its schema (`RowGroupMetaData.column` lets a C++ exception through). Sources:
parquet.thrift of apache/parquet-format for the fields, and Thrift's compact protocol.
"""

from typing import Any, NamedTuple

_BYTE_ARRAY, _DELTA_BYTE_ARRAY = 6, 7  # a type and an encoding of parquet.thrift
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
"""Kinds of values in Thrift's compact protocol."""
_LONG_LIST = 15  # in the head of a list, says that its size does not fit there, and follows


class ColumnChunk(NamedTuple):
    """One column of one row group."""

    path: str
    is_binary: bool  # whether its values are texts or bytes, without a fixed size
    repeats: bool
    begin: int  # where its pages begin, in bytes from the start of the file; 0 if that is unknown
    bytes: int  # bytes of its pages
    decompressed: int  # bytes of its pages once they are decompressed
    values: int


def column_chunks(footer: bytes) -> list[list[ColumnChunk]]:
    """Return the column chunks of each row group. Raise ValueError for a damaged footer."""
    try:
        # Fields are known by their ids in parquet.thrift. FileMetaData: 3 number of records, 4 row
        # groups. RowGroup: 1 column chunks, 3 number of records. ColumnChunk: 3 metadata.
        file_metadata = Decoder(footer).struct()
        records_of_file, row_groups = file_metadata[3], file_metadata[4]
        groups = [[_column_chunk(column[3]) for column in group[1]] for group in row_groups]
        records_of_groups = [_checked_size(group[3]) for group in row_groups]
        if sum(records_of_groups) != records_of_file:
            raise ValueError(
                f"its footer is damaged (row groups of {sum(records_of_groups):,} records in a "
                f"file of {records_of_file:,})"
            )
        for chunks, records in zip(groups, records_of_groups, strict=True):
            # A record has at least one value in each column: null and an empty list count as one.
            if any(chunk.values < records for chunk in chunks):
                raise ValueError(
                    f"its footer is damaged (a column has fewer than {records:,} values)"
                )
        return groups
    # A field is missing, or has another type.
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"its footer is damaged ({type(error).__name__})") from None


def _column_chunk(metadata: dict[int, Any]) -> ColumnChunk:
    """Return a column chunk from its ColumnMetaData, with the ids of parquet.thrift."""
    data_begin, dictionary_begin = metadata.get(9, 0), metadata.get(11, 0)  # 0: there is none
    for number in (data_begin, dictionary_begin, metadata[5], metadata[6], metadata[7]):
        _checked_size(number)
    return ColumnChunk(
        path=b".".join(metadata[3]).decode(errors="replace"),
        is_binary=metadata[1] == _BYTE_ARRAY,
        repeats=_DELTA_BYTE_ARRAY in metadata[2],
        begin=min(filter(None, (data_begin, dictionary_begin)), default=0),
        bytes=metadata[7],
        decompressed=metadata[6],
        values=metadata[5],
    )


def _checked_size(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"its footer is damaged (a size or a place is {number!r:.40})")
    return number


class Decoder:
    """Reads values of Thrift's compact protocol in turn. A field begins with a byte: how much its
    id is above that of the field before, and in the lower 4 bits the kind of its value.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def next_i32(self) -> int:
        """Return the next field of a struct, an i32 with the next id; else raise ValueError."""
        # A difference of 1 to the last id, and the kind.
        if self._byte() != 1 << 4 | _I32:
            raise ValueError("not the next field, or no i32")
        return self._zigzag()

    def struct(self) -> dict[int, Any]:
        """Return all fields of a struct by their ids."""
        fields: dict[int, Any] = {}
        field_id = 0
        while head := self._byte():  # 0 ends the struct
            difference, kind = head >> 4, head & 15
            # A difference of 0 says that the id itself follows.
            field_id = field_id + difference if difference else self._zigzag()
            # A boolean field has no value beside its kind.
            is_boolean = kind in (_TRUE, _FALSE)
            fields[field_id] = kind == _TRUE if is_boolean else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            # Upper 4 bits: the size, or `_LONG_LIST`. Lower 4 bits: the kind of all elements.
            head = self._byte()
            size = self._varint() if head >> 4 == _LONG_LIST else head >> 4
            return [self._value(head & 15) for _ in range(size)]
        if kind == _STRUCT:
            return self.struct()
        if kind == _DOUBLE:
            return self._take(8)  # its bytes, as no double is used
        if kind == _MAP:
            # The size; unless it is 0, a byte with the kinds of all keys (upper 4 bits) and values.
            size = self._varint()
            kinds = self._byte() if size else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(size)]
        # A boolean inside of a list or map is a byte.
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
        """Return a number of 7 bits per byte, the lowest first; 0x80 says that a byte follows."""
        number = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        # Python's numbers have no limit: a damaged one could take up the whole footer.
        raise ValueError("its footer is damaged (a number has more than 64 bits)")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
