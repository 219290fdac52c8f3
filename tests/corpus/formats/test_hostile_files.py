"""Files that hide something, claim too much, or hold what no format promises."""

import base64
import bz2
import csv
import gzip
import io
import json
import lzma
import struct
from contextlib import suppress
from itertools import chain, product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchstat
from batchstat.corpus import chunk_content, lines
from batchstat.corpus.arrow_values import decoded, decoded_bytes
from batchstat.corpus.formats import delimited_records, ipc, json_text, parquet_files
from batchstat.corpus.formats import json as json_format
from batchstat.corpus.in_memory import TableReader
from batchstat.corpus.options import CorpusOptions
from batchstat.planning.classes import Classes
from conftest import reader_of, write_jsonl
from file_bytes import arrow, npy, parquet, zstd
from tables import in_turn

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

TABLE = pa.table({"text": ["a b", "c d e"]})
STREAM, FILE = arrow(TABLE), arrow(TABLE, pa.ipc.new_file)


def texts_of(path: Path, options: CorpusOptions | None = None) -> list[str]:
    reader = reader_of(path, options or CorpusOptions())
    return [text for block in reader.blocks() for text in block.content.first.to_pylist()]


def labels_of(path: Path) -> list[object]:
    reader = reader_of(path, CorpusOptions(text_column=("text",), label_column="y"))
    return [label for block in reader.blocks() for label in block.labels.to_pylist()]


# Arrow, Parquet and NumPy files that hold more, or less, than their first part says


@in_turn(
    "data",
    [
        *(STREAM, STREAM * 3, FILE, arrow(TABLE, compression="zstd")),
        *(arrow(TABLE.slice(0, 0)) + STREAM, STREAM + arrow(TABLE.slice(2))),
        arrow(TABLE.slice(0, 0)),
    ],
)
def test_all_streams_of_an_arrow_file_are_read(tmp_path, data):
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    expected = []
    source = io.BytesIO(data)
    if data.startswith(b"ARROW1"):
        expected = pa.ipc.open_file(source).read_all()["text"].to_pylist()
    while source.tell() < len(data) and not data.startswith(b"ARROW1"):
        expected += pa.ipc.open_stream(source).read_all()["text"].to_pylist()
    assert texts_of(path) == expected


@in_turn(
    ("name", "data", "every"),
    [
        ("a.arrow", STREAM, 29),
        ("a.arrow", FILE, 29),
        ("a.npy", npy(3, 4), 1),
    ],
)
def test_a_bit_is_flipped(tmp_path, name, data, every):
    """All records or an error: never fewer, never another exception."""
    for bit in range(0, 8 * len(data), every):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / name).write_bytes(damaged)
        with suppress(batchstat.InputError):
            blocks = list(reader_of(tmp_path / name, CorpusOptions()).blocks())
            assert sum(len(block.records) for block in blocks) == 2


def test_a_batch_that_unpacks_to_more_than_any_data_does(tmp_path, monkeypatch):
    table = pa.table({"text": ["a" * 1_000_000] * 3})
    path = tmp_path / "a.arrow"
    path.write_bytes(arrow(table, compression="zstd"))
    assert len(texts_of(path)) == 3
    monkeypatch.setattr(ipc, "_MOST_UNPACKED", 1 << 20)
    with pytest.raises(batchstat.InputError, match=r"claims to decompress to 3,000,0\d\d"):
        texts_of(path)


@pytest.mark.parametrize("names", [["\ud800", "b"], ["a", 3], "ab", {"a": 0, "b": 1}, None])
def test_class_names_that_no_text_can_hold(tmp_path, names):
    """The numbers are the labels, as in a file without names."""
    features = {"y": {"_type": "ClassLabel", "names": names}}
    kept = {b"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"text": ["a", "b"], "y": [0, 1]}).replace_schema_metadata(kept)
    (tmp_path / "a.arrow").write_bytes(arrow(table))
    assert labels_of(tmp_path / "a.arrow") == ["0", "1"]


# Encrypted Parquet


@pytest.mark.parametrize(("plaintext_footer", "column"), [(True, "y"), (False, "text")])
def test_encrypted_columns(run, tmp_path, plaintext_footer, column):
    """pyarrow ends the process on them: so it is another one here."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Client(encryption.KmsClient):
        def __init__(self, _):
            super().__init__()

        def wrap_key(self, key, _):
            return base64.b64encode(key)

        def unwrap_key(self, key, _):
            return base64.b64decode(key)

    configuration = encryption.EncryptionConfiguration(
        footer_key="one", column_keys={"two": [column]}, plaintext_footer=plaintext_footer
    )
    properties = encryption.CryptoFactory(Client).file_encryption_properties(
        encryption.KmsConnectionConfig(), configuration
    )
    table = TABLE.append_column("y", pa.array(["p", "q"]))
    with pq.ParquetWriter(
        tmp_path / "a.parquet", table.schema, encryption_properties=properties
    ) as writer:
        writer.write_table(table)
    result = run("profile", "a.parquet", "--text-column", "text")
    assert result.returncode == 3
    assert result.stderr.splitlines()[-1].startswith("error: a.parquet is encrypted")


# Compressed files of several streams, and what may stand between them

ZSTD = [zstd(text) for text in (b"one x\n", b"two\n", b"")]


def skippable(kind: int, data: bytes = b"abcd") -> bytes:
    return struct.pack("<II", 0x184D2A50 + kind, len(data)) + data


@in_turn(
    ("name", "data"),
    [(f"{kind}.zst", skippable(kind) + ZSTD[0] + ZSTD[1]) for kind in range(16)]
    + [
        ("between.zst", ZSTD[0] + skippable(3, b"") + ZSTD[1] + skippable(9, b"x" * 300_000)),
        ("empty.zst", ZSTD[2] + ZSTD[0] + ZSTD[2] + ZSTD[1] + ZSTD[2]),
        ("two.gz", gzip.compress(b"one x\n") + gzip.compress(b"") + gzip.compress(b"two\n")),
        ("padded.gz", gzip.compress(b"one x\ntwo\n") + b"\0" * 512),
        ("two.bz2", bz2.compress(b"one x\n") + bz2.compress(b"two\n")),
        ("empty.bz2", bz2.compress(b"") + bz2.compress(b"one x\ntwo\n")),
        ("two.xz", lzma.compress(b"one x\n") + bytes(8) + lzma.compress(b"two\n") + bytes(4)),
    ],
)
def test_all_of_a_compressed_file_is_read(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert texts_of(tmp_path / name) == ["one x", "two"]


# Token ids


KINDS_OF_LISTS = (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)


def test_a_null_among_token_ids_is_a_bad_record(tmp_path):
    ids = [[1, 2], None, [3, None], [None, None], [4, 5]]
    corpora: list[object] = [pd.DataFrame({"ids": ids}), tmp_path / "a.json"]
    (tmp_path / "a.json").write_text(json.dumps([{"ids": each} for each in ids]))
    for make in (*KINDS_OF_LISTS, lambda kind: pa.list_(kind, 2)):
        table = pa.table({"ids": pa.array(ids, make(pa.int32()))})
        corpora.append(tmp_path / f"{len(corpora)}.arrow")
        corpora[-1].write_bytes(arrow(table))
        if "view" not in str(table.schema):  # which Parquet has not
            corpora.append(tmp_path / f"{len(corpora)}.parquet")
            pq.write_table(table, corpora[-1])
    for corpus in corpora:
        found = batchstat.profile(corpus, tokens_column="ids", on_error="skip")
        assert found.records.tolist() == [0, 4]
        assert found.lengths.tolist() == [2, 2]
        assert found.corpus.skipped["wrong_type"] == 3


@in_turn(
    ("lengths", "message"),
    [
        (np.ma.array([3, 4], mask=[False, True]), r"lengths\[1\] is masked"),
        (np.array([3, 4], dtype="timedelta64[s]"), "timedelta64"),
        (np.array([3, 4], dtype="datetime64[s]"), "datetime64"),
        (np.array([(3, 4)], dtype="i4,i4"), "shape"),
        (np.array([True, False]), "bool"),
        ([3, None], "object"),
    ],
)
def test_lengths_that_are_no_whole_numbers(lengths, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.compare(lengths)


def test_an_array_of_which_nothing_is_masked_is_lengths():
    assert batchstat.compare(np.ma.array([3, 4])).samples == 2


# Labels

LABELS = {
    "floats": ([1.0, -0.0, 2.5, -3.0, 1e15, 1e300, float("inf")], "1 0 2.5 -3 10**15 1e+300 inf"),
    "missing": ([1.0, None, float("nan")], "1 None None"),
    "whole": ([1, -2, 2**60], f"1 -2 {2**60}"),
    "booleans": ([True, False], "true false"),
    "texts": (["1.0", "1", "nan"], "1.0 1 nan"),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_label_has_the_same_text_from_every_source(tmp_path, name):
    values, words = LABELS[name]
    expected = [{"None": None, "10**15": str(10**15)}.get(word, word) for word in words.split(" ")]
    table = pa.table({"text": ["a"] * len(values), "y": pa.array(values)})
    write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "y": value} for value in values])
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.arrow").write_bytes(arrow(table))
    for written in tmp_path.iterdir():
        assert labels_of(written) == expected
    lists = pa.array([[value] for value in values])
    (tmp_path / "a.arrow").write_bytes(arrow(table.set_column(1, "y", lists)))
    in_lists = [None if label is None else [label] for label in expected]
    assert labels_of(tmp_path / "a.arrow") == in_lists
    found = [Classes.encode([*values, "x"])]
    for frame in (table.to_pandas(), table.to_pandas().astype({"y": object})):
        found.append(batchstat.profile(frame, text_column="text", label_column="y").labels)
    for classes in found:
        names = (*classes.names, None)
        assert [names[code] for code in classes.codes][: len(values)] == expected


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_float_of_fewer_bits_has_the_fewest_digits(tmp_path, kind):
    column = pa.array(np.array([0.1, 2.0, 2048.0], dtype=kind))
    (tmp_path / "a.arrow").write_bytes(arrow(pa.table({"text": list("abc"), "y": column})))
    assert labels_of(tmp_path / "a.arrow") == ["0.1", "2", "2048"]


def test_masked_labels_are_missing():
    assert Classes.encode(np.ma.array([1.0, 2.0], mask=[0, 1])).codes.tolist() == [0, -1]


# Columns of every Arrow type, as text, label, tokens and lengths

TEXTS = ["a b", None, "", "d e f"]
KINDS = {
    str(kind): pa.array(TEXTS, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())
} | {
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1, 2], pa.int8()), pa.array(["a b", "", "d e f"], pa.string_view())
    ),
    "null in a dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 3, 1, 2], pa.int8()), pa.array(["a b", "", "d e f", None])
    ),
    "runs": pc.run_end_encode(pa.array(TEXTS)),
    "extension": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(TEXTS)),
}


@in_turn("kind", KINDS)
def test_texts_of_any_layout(tmp_path, kind):
    table = pa.table({"text": KINDS[kind], "y": KINDS[kind]})
    (tmp_path / "a.arrow").write_bytes(arrow(table))
    options = CorpusOptions(text_column=("text",), label_column="y", on_error="skip")
    (first,) = reader_of(tmp_path / "a.arrow", options).blocks()
    assert first.content.first.to_pylist() == ["a b", "d e f"]
    assert first.labels.to_pylist() == ["a b", "d e f"]
    assert first.reading.skipped["wrong_type"] == 1
    assert decoded(KINDS[kind].slice(1, 2)).to_pylist() == [None, ""]
    assert decoded_bytes(KINDS[kind].slice(2)).tolist() == [0, 5]


OTHERS = {
    "binary": pa.array([b"\xff", b"a"]),
    "interval": pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval()),
    "duration": pa.array([1, 2], pa.duration("s")),
    "decimal": pa.array([1, 2], pa.decimal128(5, 2)),
    "half": pa.array(np.array([1, 2], np.float16)),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
    "null": pa.nulls(2),
    "union": pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array(["a"]), pa.array([1])]
    ),
    "nested": pa.array([[[1]], [[2]]]),
    "list of intervals": pa.array([[(1, 2, 3)], []], pa.list_(pa.month_day_nano_interval())),
    "list of binary": pa.array([[b"\xff"], []]),
    "list of nulls": pa.array([[None], []], pa.list_(pa.null())),
    "coded ids": pa.ListArray.from_arrays(
        pa.array([0, 1, 3]), pa.array([7, 8, None]).dictionary_encode()
    ),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 2, pa.binary(16))),
    "coded numbers": pa.array([5, 6]).dictionary_encode(),
    "runs of numbers": pc.run_end_encode(pa.array([5, 6])),
    "unsigned": pa.array([5, 2**64 - 1], pa.uint64()),
}


@pytest.mark.parametrize("kind", OTHERS)
@in_turn(
    "role, on_error",
    product(["text", "label", "tokens", "length", "messages"], ["fail", "skip"]),
)
def test_columns_of_any_type_are_read_or_refused(tmp_path, kind, role, on_error):
    (tmp_path / "a.arrow").write_bytes(arrow(pa.table({"c": OTHERS[kind], "text": ["a", "b"]})))
    given = {
        "label": {"text_column": ("text",), "label_column": "c"},
        "text": {"text_column": ("c",)},
    }
    options = CorpusOptions(on_error=on_error, **given.get(role, {f"{role}_column": "c"}))
    reader = reader_of(tmp_path / "a.arrow", options)
    try:
        blocks = list(reader.blocks())
    except batchstat.InputError:
        return
    skipped = reader.readings[0].skipped
    records = [record for block in blocks for record in block.records.tolist()]
    assert len(records) + sum(skipped.values()) == 2
    values = OTHERS[kind].to_pylist()
    if role in ("tokens", "length"):
        lengths = [length for block in blocks for length in block.content.lengths.tolist()]
        expected = [values[i] for i in records]
        assert lengths == (list(map(len, expected)) if role == "tokens" else expected)


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"a\xc3"])
@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary", "string_view"])
def test_bytes_that_are_not_utf8_are_one_record(tmp_path, kind, bad):
    data = pa.array([b"a b", bad, b"c"])
    if kind == "string_view":
        column = pa.array([b"a b", bad, b"c"], pa.binary_view()).view(pa.string_view())
    elif kind == "large_string":
        column = data.cast(pa.large_binary()).view(pa.large_string())
    else:
        column = data.view(pa.string())
    if kind == "dictionary":
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), column)
    (tmp_path / "a.arrow").write_bytes(arrow(pa.table({"text": column})))
    found = batchstat.profile(tmp_path / "a.arrow", on_error="skip")
    assert found.records.tolist() == [0, 2]
    assert found.corpus.skipped["not_utf8"] == 1


# A few bytes that stand for many


def repeated(kind: str, text: str, times: int) -> pa.Array:
    indices = pa.array(np.zeros(times, dtype=np.int32))
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(indices, pa.array([text]))
    if kind == "runs":
        return pa.RunEndEncodedArray.from_arrays(pa.array([times], pa.int32()), pa.array([text]))
    view = struct.pack("<i4sii", len(text), text[:4].encode(), 0, 0)
    buffers = [None, pa.py_buffer(view * times), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string_view(), times, buffers)


@pytest.mark.parametrize("kind", ["dictionary", "runs", "view", "parquet", "stored dictionary"])
def test_a_text_that_is_repeated_is_not_decoded_all_at_once(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(parquet_files, "_DECODED_BYTES", 4 << 20)
    path = tmp_path / ("a.arrow" if kind in ("dictionary", "runs", "view") else "a.parquet")
    text, times = "x" * 100_000, 500
    if path.suffix == ".arrow":
        path.write_bytes(arrow(pa.table({"text": repeated(kind, text, times)})))
    else:
        table = pa.table({"text": repeated("dictionary", text, times)})
        pq.write_table(table, path, store_schema=kind != "parquet")
    assert path.stat().st_size < 50_000_000 / 4
    found = 0
    for block in reader_of(path, CorpusOptions()).blocks():
        assert block.content.first.nbytes < 10 << 20
        found += len(block.records)
        assert block.content.first.to_pylist() == [text] * len(block.records)
    assert found == times


# Records that are too long

ALPHABET = 'aé"\\,{}[] x'


@pytest.fixture
def limits(monkeypatch):
    """A text of at most 30 bytes, a record of at most 60; files read 16 bytes at a time."""
    monkeypatch.setattr(chunk_content, "MOST_TEXT_BYTES", 30)
    for module in (lines, delimited_records, json_format, json_text):
        monkeypatch.setattr(module, "MOST_RECORD_BYTES", 60)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    monkeypatch.setattr(json_text, "_PIECE_BYTES", 16)


SIZED = st.lists(
    st.text(st.sampled_from(ALPHABET), max_size=100).map(lambda t: f"t{t}"), max_size=8
)


def row_bytes(kind: str, row: dict[str, str]) -> bytes:
    """A row as it is written in a file of rows."""
    sink = io.StringIO(newline="")
    if kind == ".csv":
        csv.writer(sink).writerow(row.values())
    elif kind == ".jsonl":
        sink.write(json.dumps(row, ensure_ascii=False) + "\n")
    else:
        sink.write(f"{row['text']}\t{row['y']}\n" if kind == ".tsv" else f"{row['text']}\n")
    return sink.getvalue().encode()


def write_rows(path: Path, rows: list[dict[str, str]]) -> list[int]:
    """The bytes that each takes as it is written; 0 in columnar files."""
    kind = path.suffix
    if kind in (".parquet", ".arrow"):
        table = pa.Table.from_pylist(rows)
        path.write_bytes(parquet(table) if kind == ".parquet" else arrow(table))
        return [0] * len(rows)
    if kind == ".json":
        path.write_bytes(json.dumps(rows, ensure_ascii=False).encode())
        return [len(json.dumps(row, ensure_ascii=False)) for row in rows]
    written = [row_bytes(kind, row) for row in rows]
    header = {".csv": b"text,y\n", ".tsv": b"text\ty\n"}.get(kind, b"")
    path.write_bytes(header + b"".join(written))
    return list(map(len, written))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("name", ["txt", "jsonl", "json", "csv", "tsv", "parquet", "arrow"])
def test_a_record_too_long_is_one_bad_record(tmp_path_factory, name):
    """Whatever it holds, and whatever stands beside it: an independent reader says which are."""

    folder = tmp_path_factory.mktemp("long")

    @given(texts=SIZED)
    @settings(max_examples=15)
    def check(texts: list[str]) -> None:
        rows = [{"text": text, "y": "q"} for text in ["first", *texts]]
        path, sizes = folder / f"a.{name}", write_rows(folder / f"a.{name}", rows)
        short = [
            i for i, row in enumerate(rows) if sizes[i] <= 60 and len(row["text"].encode()) <= 30
        ]
        options = CorpusOptions(on_error="skip", text_column=() if name == "txt" else ("text",))
        reader = reader_of(path, options)
        blocks = list(reader.blocks())
        assert [record for block in blocks for record in block.records.tolist()] == short
        found = [text for block in blocks for text in block.content.first.to_pylist()]
        assert found == [rows[i]["text"] for i in short]
        skipped = reader.readings[0].skipped
        assert skipped.get("too_long", 0) == len(rows) - len(short)

    check()


@pytest.mark.usefixtures("limits")
def test_a_long_quoted_field_of_many_lines(tmp_path):
    path = tmp_path / "a.csv"
    long = 'a "b"\n' * 30
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["text", "y"], ["one", 1], [long, 2], ["three", 3]])
    options = CorpusOptions(text_column=("text",), on_error="skip")
    reader = reader_of(path, options)
    texts = [block.content.first.to_pylist() for block in reader.blocks()]
    assert list(chain.from_iterable(texts)) == ["one", "three"]
    [skipped] = reader.readings[0].bad_records.examples
    assert skipped.startswith(f"{path.as_posix()}, line 3: record of")
    path.write_text(f'text,y\none,1\n"{"x" * 100}\n{"y" * 100}\n')
    with pytest.raises(batchstat.InputError, match=r"line 3: not RFC 4180 \(unexpected end of"):
        list(reader_of(path, options).blocks())


@pytest.mark.usefixtures("limits")
def test_chats_and_frames_have_the_same_limit():
    chats = [[{"role": "user", "content": text}] for text in ("a", "b" * 40)]
    frame = pd.DataFrame({"messages": chats, "text": ["a", "b" * 40]})
    for column in ("messages_column", "text_column"):
        name = column.removesuffix("_column")
        found = batchstat.profile(frame, **{column: name}, on_error="skip")
        assert found.records.tolist() == [0]
        assert found.corpus.skipped["too_long"] == 1
        message = r"record 1: text of 4\d bytes is too long: split it"
        with pytest.raises(batchstat.InputError, match=message):
            batchstat.profile(frame, **{column: name})


@in_turn(
    "arguments",
    [
        {"corpus": ""},
        {"corpus": []},
        {"corpus": ["a.txt", " "]},
        {"corpus": "a.txt", "tokenizer": ""},
        {"corpus": "a.txt", "text_column": ""},
        {"corpus": "a.txt", "label_column": ""},
        {"corpus": "a.txt", "messages_column": ""},
        {"corpus": "a.txt", "count_cache": ""},
        {"corpus": "a.txt", "messages_column": "m", "chat_template": ""},
        {"corpus": "a.txt", "input_format": ""},
    ],
)
def test_empty_names_are_errors(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a b\n")
    with pytest.raises(batchstat.BatchstatError):
        batchstat.profile(**arguments)


def test_a_frame_of_columns_in_several_chunks():
    kinds = {
        "text": pa.chunked_array([["a b"], ["c"]]),
        "y": pa.chunked_array([[1.0], [2.0]]),
        "ids": pa.chunked_array([[[1]], [[2, 3]]]),
    }
    frame = pd.DataFrame(
        {name: pd.Series(each, dtype=pd.ArrowDtype(each.type)) for name, each in kinds.items()}
    )
    found = batchstat.profile(frame, text_column="text", label_column="y")
    assert found.lengths.tolist() == [2, 1]
    assert found.labels.names == ("1", "2")
    assert batchstat.profile(frame, tokens_column="ids").lengths.tolist() == [1, 2]


def test_a_frame_whose_categories_are_long_texts():
    text = "x " * 100_000
    frame = pd.DataFrame({"text": pd.Categorical.from_codes(np.zeros(200, int), [text])})
    reader = TableReader(frame, CorpusOptions(text_column=("text",)), "frame")
    blocks = list(reader.blocks())
    assert sum(len(block.records) for block in blocks) == 200
    assert max(block.content.first.nbytes for block in blocks) < 10 << 20


def test_numbers_of_a_frame_that_no_column_can_hold():
    frame = pd.DataFrame({"n": [1, 10**30]})
    found = batchstat.profile(frame, length_column="n", on_error="skip")
    assert found.lengths.tolist() == [1]
