"""The footer of a Parquet file, held against pyarrow's own reading of it."""

import io
import subprocess
import sys

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from batchstat.corpus.formats import parquet_files
from batchstat.corpus.formats.parquet_footer import ColumnChunk, column_chunks
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from conftest import reader_of
from file_bytes import parquet
from tables import in_turn

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")


def footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


TABLE = pa.table(
    {
        "text": ["some words", None, "more"] * 50,
        "n": list(range(150)),
        "chat": [[{"role": "user", "content": "hi"}]] * 150,
        "x": [0.5] * 150,
        "is": [True, False, None] * 50,
    }
)


@in_turn(
    "options",
    [
        {},
        {"row_group_size": 40},
        {"compression": "zstd", "use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
        {"write_statistics": False, "version": "1.0"},
        {"store_schema": False, "write_page_index": True},
    ],
)
def test_column_chunks_are_those_of_pyarrow(options):
    data = parquet(TABLE, **options)
    meta = pq.ParquetFile(io.BytesIO(data)).metadata
    expected = []
    for i in range(meta.num_row_groups):
        group = meta.row_group(i)
        expected.append([])
        for chunk in (group.column(j) for j in range(group.num_columns)):
            begin = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            expected[-1].append(
                ColumnChunk(
                    path=chunk.path_in_schema,
                    is_binary=chunk.physical_type == "BYTE_ARRAY",
                    repeats="DELTA_BYTE_ARRAY" in chunk.encodings,
                    begin=begin,
                    bytes=chunk.total_compressed_size,
                    decompressed=chunk.total_uncompressed_size,
                    values=chunk.num_values,
                )
            )
    assert column_chunks(footer_of(data)) == expected


def test_a_file_without_row_groups():
    sink = io.BytesIO()
    pq.ParquetWriter(sink, TABLE.schema).close()
    assert column_chunks(footer_of(sink.getvalue())) == []


def test_a_number_of_a_million_bytes_is_an_error():
    with pytest.raises(ValueError, match="damaged"):
        column_chunks(b"\x16" + b"\x80" * 1_000_000)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_chunks_or_an_error(data):
    try:
        column_chunks(data)
    except ValueError as error:
        assert "damaged" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("options", "every"),
    [
        ({}, 23),
        ({"use_dictionary": False}, 23),
        # Without Arrow's own schema, which is most of a footer and repeats what it says.
        pytest.param({"store_schema": False}, 1, marks=pytest.mark.slow),
        pytest.param({"store_schema": False, "use_dictionary": False}, 1, marks=pytest.mark.slow),
    ],
)
def test_a_footer_that_claims_other_records_is_an_error(tmp_path, options, every):
    """All records or an error, whatever bit of the footer is flipped: pyarrow reads fewer of a row
    group that claims fewer, and none of a column that claims no bytes.
    """
    data = parquet(pa.table({"text": list("abcd")}), row_group_size=3, **options)
    path, refused = tmp_path / "a.parquet", 0
    for bit in range(8 * (len(data) - 8 - len(footer_of(data))), 8 * (len(data) - 8), every):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            blocks = list(reader_of(path, CorpusOptions(text_column=("text",))).blocks())
        except InputError:
            refused += 1
        else:
            assert sum(len(block.content.first) for block in blocks) == 4, bit
    assert refused > 100 / every


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda group: group[1:], "its columns are not those of its schema"),
        *(
            (lambda group, n=n: [each._replace(bytes=n) for each in group], "would end after its")
            for n in (2**40, 2**63 - 1)
        ),
    ],
)
def test_a_row_group_that_no_file_has_is_an_error(monkeypatch, change, message):
    data = parquet(TABLE)
    changed = [change(group) for group in column_chunks(footer_of(data))]
    monkeypatch.setattr(parquet_files, "column_chunks", lambda _: changed)
    with pytest.raises(pa.ArrowInvalid, match=message):
        parquet_files.open_parquet(io.BytesIO(data), "a.parquet")


EVERY_BYTE_CHANGED = """
import io, sys
import pyarrow as pa
from batchstat.corpus.formats.parquet_files import open_parquet
from batchstat.errors import InputError

data = sys.stdin.buffer.read()
size = int.from_bytes(data[-8:-4], "little")
for at in range(len(data) - 8 - size, len(data) - 8):
    print(at, flush=True)
    for change in range(1, 256):
        damaged = bytearray(data)
        damaged[at] ^= change
        try:
            open_parquet(io.BytesIO(bytes(damaged)), "a.parquet")
        except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError, InputError):
            pass
"""


@pytest.mark.slow
def test_no_damaged_footer_ends_the_process():
    """Each byte of a footer with each other value; Arrow's own schema in it would be most of it."""
    data = parquet(pa.table({"text": ["a b c", "d", "e f"]}), store_schema=False)
    script = [sys.executable, "-c", EVERY_BYTE_CHANGED]
    ended = subprocess.run(script, input=data, capture_output=True, check=False)
    assert ended.returncode == 0, (ended.stdout[-20:], ended.stderr[-2000:])
