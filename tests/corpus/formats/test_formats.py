"""Corpora written in every format and read back to the same samples."""

import csv
import gzip
import io
import json
import re
from pathlib import Path

import hypothesis.strategies as st
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from batchstat import InputError
from batchstat.corpus import lines as lines_module
from batchstat.corpus.options import CorpusOptions
from conftest import reader_of

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
LINE = TEXT.filter(lambda text: "\n" not in text and not text.endswith("\r"))
TRICKY = ["NA", "null", "1e5", "2020-01-01", "a\u0085b", "a\u2028b", "\ufeff", " x ", '"', "a\x00b"]


def read(path: Path, **options):
    """(records, texts, labels, skipped) of a corpus."""
    if isinstance(options.get("text_column"), str):
        options["text_column"] = (options["text_column"],)
    reader = reader_of(path, CorpusOptions(**options))
    records, texts, labels = [], [], []
    for block in reader.blocks():
        assert len(block.records) == len(block.content.first)
        records += block.records.tolist()
        texts += block.content.first.to_pylist()
        labels += [] if block.labels is None else block.labels.to_pylist()
    assert len(records) + sum(reader.readings[0].skipped.values()) == reader.readings[0].records
    return records, texts, labels, reader.readings[0].skipped


def kept(texts: list[str]) -> list[tuple[int, str]]:
    return [(record, text) for record, text in enumerate(texts) if text.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("corpus")


@given(
    lines=st.lists(LINE | st.sampled_from(TRICKY), max_size=20), end=st.sampled_from(["\n", "\r\n"])
)
def test_text_is_one_sample_a_line(folder, lines, end):
    path = folder / "corpus.txt"
    path.write_bytes("".join(line + end for line in ["first", *lines]).encode())
    records, texts, _, skipped = read(path)
    assert list(zip(records, texts, strict=True)) == kept(["first", *lines])
    assert len(texts) + skipped["blank"] == len(lines) + 1


@given(cut=st.integers(1, 12), lines=st.lists(LINE, max_size=20), ended=st.booleans())
def test_blocks_cut_no_line_and_no_character(folder, cut, lines, ended):
    path = folder / "blocks"
    path.write_bytes(("\n".join(["é", *lines, "ü"]) + "\n" * ended).encode())
    original = lines_module.BLOCK_BYTES
    lines_module.BLOCK_BYTES = cut
    try:
        records, texts, _, _ = read(path)
    finally:
        lines_module.BLOCK_BYTES = original
    assert list(zip(records, texts, strict=True)) == kept(["é", *lines, "ü"])


ROWS = st.lists(st.tuples(TEXT | st.sampled_from(TRICKY), TEXT), min_size=1, max_size=12)


@given(rows=ROWS, end=st.sampled_from(["\n", "\r\n"]))
def test_csv_is_read_as_it_was_written(folder, rows, end):
    path = folder / "corpus.csv"
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator=end)
    writer.writerows([("review", "label"), *rows])
    path.write_bytes(file.getvalue().encode())
    records, texts, labels, skipped = read(path, label_column="label")
    expected = kept([text for text, _ in rows])
    assert list(zip(records, texts, strict=True)) == expected
    assert labels == [label_in_a_cell(rows[record][1]) for record, _ in expected]
    assert len(texts) + skipped["blank"] == len(rows)


def label_in_a_cell(text: str) -> str | None:
    """Of whole numbers and booleans as pandas writes them, and of an empty cell."""
    whole = re.fullmatch(r"(-?[0-9]+)\.0+", text)
    text = str(int(whole[1])) if whole else {"True": "true", "False": "false"}.get(text, text)
    return text or None


FIELD = LINE.filter(lambda text: "\t" not in text and "\r" not in text)


@given(rows=st.lists(st.tuples(FIELD.filter(bool), FIELD | st.just('say "hi"')), min_size=1))
def test_a_quote_in_tsv_is_text(folder, rows):
    path = folder / "corpus.tsv"
    path.write_bytes("".join(f"{label}\t{text}\r\n" for label, text in rows).encode())
    rows = [
        (label.removeprefix("\ufeff") if not i else label, text)
        for i, (label, text) in enumerate(rows)
    ]
    records, texts, labels, _ = read(path, header=False, text_column="1", label_column="0")
    expected = kept([text for _, text in rows])
    assert list(zip(records, texts, strict=True)) == expected
    assert labels == [label_in_a_cell(rows[record][0]) for record, _ in expected]


def test_quoting_can_be_asked_for_and_refused(tmp_path):
    (tmp_path / "a.tsv").write_text('text\n"a ""b"" c"\n')
    assert read(tmp_path / "a.tsv", quote=True)[1] == ['a "b" c']
    assert read(tmp_path / "a.tsv", quote=False)[1] == ['"a ""b"" c"']
    (tmp_path / "a.csv").write_text('text\n"open\n')
    assert read(tmp_path / "a.csv", quote=False)[1] == ['"open']


@given(rows=st.lists(st.tuples(TEXT, st.none() | TEXT | st.integers() | st.booleans()), min_size=1))
def test_jsonl_is_read_as_it_was_written(folder, rows):
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({"content": t, "class": c}) + "\n" for t, c in rows))
    records, texts, labels, _ = read(path, label_column="class", text_column="content")
    expected = kept([text for text, _ in rows])
    assert list(zip(records, texts, strict=True)) == expected
    written = [rows[record][1] for record, _ in expected]
    assert labels == [
        (c or None) if c is None or isinstance(c, str) else json.dumps(c) for c in written
    ]


@given(rows=st.lists(st.tuples(TEXT, st.none() | TEXT), min_size=1), groups=st.integers(1, 5))
def test_parquet_is_read_as_it_was_written(folder, rows, groups):
    path = folder / "corpus.parquet"
    texts, labels = zip(*rows, strict=True)
    table = pa.table({"text": pa.array(texts), "label": pa.array(labels, pa.string())})
    pq.write_table(table, path, row_group_size=groups)
    records, read_texts, read_labels, _ = read(path, label_column="label")
    assert list(zip(records, read_texts, strict=True)) == kept(list(texts))
    assert read_labels == [rows[record][1] or None for record in records]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
)
def test_parquet_text_of_any_arrow_kind(tmp_path, kind):
    pq.write_table(
        pa.table({"body": pa.array(["a", "b", "a"]).cast(kind), "n": [1, 2, 3]}),
        tmp_path / "a.parquet",
    )
    assert read(tmp_path / "a.parquet")[1] == ["a", "b", "a"]
    assert read(tmp_path / "a.parquet", label_column="n")[2] == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("renamed", [False, True])
def test_gzip_is_told_by_content(tmp_path, name, renamed):
    plain = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(pa.table({"text": ["one", "two"]}), plain)
    else:
        lines = {"a.txt": "one\ntwo\n", "a.jsonl": '{"text": "one"}\n{"text": "two"}\n'}
        plain.write_text(lines.get(name, "text\none\ntwo\n"))
    packed = tmp_path / "packed" / (name if renamed else f"{name}.gz")
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read(packed) == read(plain)
    assert read(packed)[1] == ["one", "two"]


HEADER_AND_ROW = {
    "a.jsonl": ("", '{{"text": "{}"}}'),
    "a.csv": ("text", "{}"),
    "b.csv": ("x,text", '1,"{}"'),
    "a.tsv": ("text", "{}"),
    "b.tsv": ("x\ttext", "1\t{}"),
}


@pytest.mark.parametrize("name", HEADER_AND_ROW)
@given(
    words=st.lists(st.sampled_from(["", " ", "a", "b c"]), min_size=1, max_size=9),
    blanks=st.lists(st.sampled_from(["", " ", "  ", None]), min_size=10, max_size=10),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_a_blank_line_takes_no_record_number_as_in_pandas(folder, name, words, blanks, end):
    header, row = HEADER_AND_ROW[name]
    rows = [header, *map(row.format, words)]
    lines = [line for pair in zip(blanks, rows, strict=False) for line in pair if line is not None]
    (folder / name).write_text("".join(line + end for line in lines), newline="")
    separator = "\t" if name.endswith("tsv") else ","
    if header:
        frame = pd.read_csv(folder / name, sep=separator, keep_default_na=False, dtype=str)
    else:
        frame = pd.read_json(folder / name, lines=True)
    records, texts, _, _ = read(folder / name, text_column="text")
    assert list(zip(records, texts, strict=True)) == kept(frame["text"].tolist())


def test_an_error_names_the_line_whatever_lines_are_blank(tmp_path):
    (tmp_path / "a.jsonl").write_text('\n{"text": "a"}\n \n\n{"text": 2}\n')
    with pytest.raises(InputError, match=r"a\.jsonl, line 5: 'text' is a number"):
        read(tmp_path / "a.jsonl")
    (tmp_path / "a.csv").write_text('\n\ntext,y\n\nx,1\n\n"o\n\nn",2\n\nz\n')
    with pytest.raises(InputError, match=r"a\.csv, line 11: the number of fields is 1, not 2"):
        read(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("\n\ntext,y\n\nx,1\n")
    assert read(tmp_path / "a.csv")[:2] == ([0], ["x"])
    assert read(tmp_path / "a.csv", header=False, text_column="0")[:2] == ([0, 1], ["text", "x"])


def test_strip_and_min_chars(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("  ab \n \nabc\n\u2003é\u2003\nabcd\n")
    assert read(path, min_chars=3) == (
        [0, 2, 3, 4],
        ["  ab ", "abc", "\u2003é\u2003", "abcd"],
        [],
        {"blank": 1, "short": 0},
    )
    assert read(path, strip=True, min_chars=3) == (
        [2, 4],
        ["abc", "abcd"],
        [],
        {"blank": 1, "short": 2},
    )
    assert read(path, strip=True)[1] == ["ab", "abc", "é", "abcd"]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_bytes_that_are_not_utf8_are_named_by_line_and_offset(tmp_path, monkeypatch, name, block):
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", block)
    good = b'{"text": "a"}\n{"text": "\xc3\xa9"}\n' if name == "a.jsonl" else b"text\n\xc3\xa9\n"
    (tmp_path / name).write_bytes(good + b'"\xe9"\n')
    with pytest.raises(InputError, match=rf"line 3: byte {len(good) + 1} is not UTF-8 \(0xe9\)"):
        read(tmp_path / name)


def test_a_byte_order_mark_is_not_text(tmp_path):
    (tmp_path / "a.csv").write_bytes("\ufefftext\nx\n".encode())
    (tmp_path / "a.txt").write_bytes("\ufeffx\n\ufeffy\n".encode())
    assert read(tmp_path / "a.csv")[1] == ["x"]
    assert read(tmp_path / "a.txt")[1] == ["x", "\ufeffy"]
