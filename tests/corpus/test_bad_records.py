"""What becomes of records that cannot be read, that are huge, or that are very many."""

import json
import re

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from test_sources import PACKED, TEXTS, WRITTEN, as_csv, read

from batchstat import InputError, profile
from batchstat.corpus.files.sources import FORMATS
from batchstat.corpus.formats import READERS
from batchstat.corpus.options import CorpusOptions
from conftest import reader_of

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

SKIPPED = {
    "a.txt": (b"one\nt\xffo\nthree\n", [0, 2], {"not_utf8": 1}),
    "a.tsv": (
        b"text\ty\none\t1\nt\xffo\t1\nthree\nfour\t1\n",
        [0, 3],
        {"not_utf8": 1, "wrong_fields": 1},
    ),
    "a.csv": (
        b'text,y\none,1\nt\xffo,1\n"three" x,1\nfour\nfive,1\n',
        [0, 4],
        {"not_utf8": 1, "malformed": 1, "wrong_fields": 1},
    ),
    "a.jsonl": (
        b'{"text": "one"}\n{"text": "\xff"}\n{"text": 2}\n{"text": \n[]\n{"txt": "x"}\n'
        b'{"text": "\\ud800"}\n\n{"text": "ok"}\n',
        [0, 7],
        {"not_utf8": 2, "wrong_type": 1, "malformed": 1, "missing_column": 2},
    ),
    "a.json": (
        b'[{"text": "one"}, {"text": null}, 5, {}, {"text": "ok"}]',
        [0, 4],
        {"wrong_type": 2, "missing_column": 1},
    ),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_records_that_cannot_be_read_are_skipped_and_counted(tmp_path, name):
    content, records, faults = SKIPPED[name]
    (tmp_path / name).write_bytes(content)
    options = {"text_column": ("text",), "label_column": "y"} if b"y\n" in content else {}
    reader = reader_of(tmp_path / name, CorpusOptions(on_error="skip", **options))
    assert [r for block in reader.blocks() for r in block.records.tolist()] == records
    assert reader.readings[0].bad_records.counts == faults
    assert all(name in message for message in reader.readings[0].bad_records.examples)
    with pytest.raises(InputError):
        read(tmp_path / name, **options)


HALF_BAD = b'{"text": "one"}\n{"text": "two"}\n{"text": 2}\n{"text": "four"}\n{"text": \n'


def test_a_bad_record_ends_the_blocks_after_the_samples_before_it(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(HALF_BAD)
    reader = reader_of(tmp_path / "a.jsonl", CorpusOptions())
    blocks = reader.blocks()
    assert next(blocks).content.first.to_pylist() == ["one", "two"]
    with pytest.raises(InputError, match=r"a\.jsonl, line 3: 'text' is a number"):
        next(blocks)


def test_what_is_reported_later_is_counted_in_file_order(tmp_path):
    """As by a tokenizer, which may count a block after the next one was read."""
    (tmp_path / "a.jsonl").write_bytes(HALF_BAD)
    reader = reader_of(tmp_path / "a.jsonl", CorpusOptions(on_error="skip"))
    (block,) = reader.blocks()
    assert block.content.first.to_pylist() == ["one", "two", "four"]
    (reading,) = reader.readings
    assert reading.bad_records.counts == {"wrong_type": 1, "malformed": 1}
    for i in (2, 0):
        block.report_bad(i, "not_counted", "no")
    assert list(reading.bad_records.counts) == ["not_counted", "wrong_type", "malformed"]
    lines = [re.search(r"line (\d)", each)[1] for each in reading.bad_records.examples]
    assert lines == ["1", "3", "4", "5"]
    reader = reader_of(tmp_path / "a.jsonl", CorpusOptions())
    with pytest.raises(InputError, match=r"line 2: no: pass --on-error skip"):
        next(reader.blocks()).report_bad(1, "not_counted", "no")


def lines_of(data: bytes, kind: str) -> int:
    """The lines that are records: blank ones are in text alone."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    return sum(kind == "txt" or bool(line.strip(b" \t\r\f\v")) for line in lines)


def count_both(path, kind) -> None:
    """Reads whatever is there: an answer in which every record is found again, or an error."""
    data = path.read_bytes()
    ways = [{}, {"text_column": ("text",)}, {"messages_column": "m"}, {"label_column": "y"}]
    for options in ways + [{"header": False}] * (kind in ("csv", "tsv")):
        for on_error in ("fail", "skip"):
            read_as = CorpusOptions(on_error=on_error, **options)
            try:
                reader = reader_of(path, read_as, kind)
                samples = sum(len(block.records) for block in reader.blocks())
            except InputError as error:
                assert path.name in str(error)  # noqa: PT017
                assert "\n" not in str(error)  # noqa: PT017
                continue
            assert samples + sum(reader.readings[0].skipped.values()) == reader.readings[0].records
            if kind in ("txt", "jsonl") or (kind == "tsv" and "header" in options):
                assert reader.readings[0].records == lines_of(data, kind)


def test_every_format_that_a_file_can_have_is_read():
    assert set(READERS) == set(FORMATS)


PIECES = st.lists(
    st.sampled_from(
        [
            *(bytes([byte]) for byte in b'",[]{}\t \n\\\x00\xff'),
            *(b"\r\n", b"text", b"null", "é".encode(), b'"text":', b'{"text": "a"}'),
            b'"m": [{"role": "user", "content": "x"}]',
        ]
    ),
    max_size=25,
)
BYTES = st.binary(max_size=200) | st.text(max_size=200).map(str.encode) | PIECES.map(b"".join)


@pytest.mark.slow
@settings(max_examples=60)
@given(data=BYTES)
@pytest.mark.parametrize("kind", READERS)
def test_any_bytes_end_in_an_answer_or_an_error(folder, kind, data):
    """Also those that are nearly right, of which no record is lost."""
    path = folder / f"fuzz.{kind}"
    path.write_bytes(data)
    count_both(path, kind)


@pytest.mark.slow
@settings(max_examples=40)
@given(texts=TEXTS, changes=st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 255))))
@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.arrow"])
def test_damaged_files_end_in_an_answer_or_an_error(folder, name, ending, texts, changes):
    data = bytearray(PACKED[ending](WRITTEN[name](texts)))
    for at, change in changes:
        data[at % len(data)] ^= change
    path = folder / f"damaged.{name}{ending}"
    path.write_bytes(data)
    count_both(path, {"feather": "arrow"}.get(name[2:], name[2:]))


GOOD_OR_NOT = {
    "a.jsonl": [
        b'{"text": "some words"}',
        b'{"text": "some words"}',
        b'{"text": "\xff"}',
        b'{"text": 5}',
        b'{"text": ',
        b'{"tex": "some"}',
        b'{"text": "others"}',
    ],
    "a.csv": [b"some,1", b"words,1", b"\xff,1", b"some", b'"some"x,1', b"others,2"],
    "a.tsv": [b"some\t1", b"words\t1", b"\xff\t1", b"some", b"others\t2"],
}


@pytest.mark.slow
@settings(max_examples=25)
@given(picks=st.lists(st.integers(0, 6), min_size=1, max_size=8))
@pytest.mark.parametrize("name", GOOD_OR_NOT)
def test_the_first_faulty_record_is_the_one_named(folder, two_words, name, picks):
    """Whichever of parsing, checking and counting finds it."""
    kinds = GOOD_OR_NOT[name]
    lines = [kinds[pick % len(kinds)] for pick in picks]
    header = [] if name == "a.jsonl" else [b"text,y" if name == "a.csv" else b"text\ty"]
    path = folder / name
    path.write_bytes(b"\n".join([*header, *lines]) + b"\n")
    bad = [i + 1 + len(header) for i, line in enumerate(lines) if line not in kinds[:2]]
    options = {"text_column": "text", "tokenizer": str(two_words)}
    if bad:
        # A column that the very first object lacks is taken for a mistake in the option.
        absent = bad[0] == 1 and lines[0] == b'{"tex": "some"}'
        named = f"column 'text' not in .*{name}" if absent else f"{name}, line {bad[0]}: "
        with pytest.raises(InputError, match=named):
            profile(path, **options)
    else:
        assert len(profile(path, **options)) == len(lines)
    if len(bad) < len(lines):
        skipped = profile(path, **options, on_error="skip")
        assert skipped.corpus.unreadable == len(bad)
        named = [int(re.search(r"line (\d+): ", each)[1]) for each in skipped.corpus.faults]
        assert named == bad[: len(named)]
        assert len(named) == min(len(bad), 5)


@pytest.mark.slow
def test_records_of_many_megabytes(tmp_path):
    big = "word " * 1_700_000  # more than a block
    (tmp_path / "a.csv").write_bytes(as_csv(["small", big, "small"]))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in ("s", big)))
    (tmp_path / "a.json").write_text(json.dumps([{"text": "s"}, {"text": big}, {"text": "t"}]))
    pq.write_table(pa.table({"text": ["s", big]}), tmp_path / "a.parquet")
    assert [len(text) for text in read(tmp_path / "a.csv")[1]] == [5, len(big), 5]
    assert [len(text) for text in read(tmp_path / "a.json")[1]] == [1, len(big), 1]
    for name in ("a.jsonl", "a.parquet"):
        assert [len(text) for text in read(tmp_path / name)[1]] == [1, len(big)]


@pytest.mark.slow
def test_nine_million_empty_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\n" * 9_000_000 + b"one\n")  # more than a block of them
    assert read(tmp_path / "a.txt") == ([9_000_000], ["one"])
