"""Corpora written in every format and read back to the same samples."""

import csv
import gzip
import io
import json
import re
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import batchstat
from batchstat import InputError, OptionError
from batchstat.corpus import lines as lines_module
from batchstat.corpus.options import CorpusOptions
from conftest import reader_of
from tables import in_turn

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


def test_blank_lines_before_the_first_record(tmp_path):
    (tmp_path / "a.csv").write_text("\n\ntext,y\nx,1\n")
    assert read(tmp_path / "a.csv")[:2] == ([0], ["x"])
    assert read(tmp_path / "a.csv", header=False, text_column="0")[:2] == ([2, 3], ["text", "x"])


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


@in_turn(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "id,body\n1,x\n",
            {},
            r"cannot tell the text column \(has: id, body\): pass --text-column",
        ),
        ("a.csv", "text,review\n1,x\n", {}, "cannot tell the text column"),
        (
            "a.csv",
            "id,text\n1,x\n",
            {"text_column": "txt"},
            r"column 'txt' not in .*a.csv \(has: id, text\): pass --text-column",
        ),
        (
            "a.csv",
            "id,text\n1,x\n",
            {"label_column": "y"},
            "column 'y' not in .* pass --label-column",
        ),
        ("a.csv", "text,text\n1,x\n", {"text_column": "text"}, "column 'text' appears 2 times"),
        ("a.csv", "id,text\n1,x\n1,x,y\n", {}, "line 3: the number of fields is 3, not 2"),
        ("a.csv", 'id,text\n1,"x\n', {}, "line 2: not RFC 4180"),
        ("a.csv", 'id,text\n1,"x" y\n', {}, "line 2: not RFC 4180"),
        ("a.csv", "id,text\n1,x\ry\n", {}, "line 2: not RFC 4180 .a carriage return alone"),
        ("a.tsv", "id\ttext\n1\n", {}, "line 2: the number of fields is 1, not 2"),
        (
            "a.txt",
            "x\n",
            {"text_column": "text"},
            "a.txt is plain text and has no column 'text': pass its real --input-format",
        ),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": \n',
            {},
            "line 2: malformed JSON: Expecting value at column 10",
        ),
        ("a.jsonl", '{"text": "a"}\n5\n', {}, "line 2: a number where an object is expected"),
        ("a.jsonl", "[" * 100_000 + "\n", {}, "line 1: malformed JSON"),
        (
            "a.jsonl",
            '{"text": "a"}\n{"txt": "b"}\n',
            {},
            r"line 2: column 'text' is missing \(has: txt\)",
        ),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": null}\n',
            {},
            "line 2: 'text' is null where text is expected",
        ),
        (
            "a.jsonl",
            '{"text": "a", "y": {"z": 1}}\n',
            {"label_column": "y"},
            "line 1: label 'y' is an object",
        ),
        (
            "a.jsonl",
            '{"question": "a", "answer": "b"}\n',
            {},
            r"cannot tell the text column .*\(has: question, answer\)",
        ),
        (
            "a.jsonl",
            '{"input_ids": [1, 2], "labels": [-100, 2]}\n',
            {},
            r"cannot tell the text column .*\(has: input_ids, labels\): pass --tokens-column",
        ),
        ("a.jsonl", '{"text": "a"}\n{"text": "\\ud800"}\n', {}, "line 2: half a surrogate pair"),
        ("a.parquet", "not parquet at all", {}, "is not a readable Parquet file"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tmp_path, name, content, options, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / name, **options)


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


def test_a_gzip_file_cut_short_is_an_error(tmp_path):
    packed = gzip.compress(b"some text\n" * 1000)
    (tmp_path / "a.txt.gz").write_bytes(packed[:-20])
    with pytest.raises(InputError, match="cut short"):
        read(tmp_path / "a.txt.gz")
    (tmp_path / "b.txt.gz").write_bytes(packed[:20] + b"\x00" * 20 + packed[40:])
    with pytest.raises(InputError, match=r"b.txt.gz"):
        read(tmp_path / "b.txt.gz")


def test_a_column_of_numbers_is_no_text(tmp_path):
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 'text' is int64 where text is expected"):
        read(tmp_path / "a.parquet", text_column="text")
    pq.write_table(pa.table({"text": ["a", None]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="record 1: 'text' is null"):
        read(tmp_path / "b.parquet")


@pytest.mark.parametrize("options", [{"header": False}, {"quote": True}, {"quote": False}])
def test_options_of_formats_that_the_corpus_has_not(tmp_path, options):
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(OptionError, match=r"is for \.csv and \.tsv files"):
        batchstat.profile(tmp_path / "a.txt", **options)


def test_columns_without_a_header_go_by_number():
    with pytest.raises(OptionError, match="name columns by number, from 0"):
        CorpusOptions(header=False, text_column=("text",))
    with pytest.raises(OptionError, match="min_chars=-1"):
        CorpusOptions(min_chars=-1)
