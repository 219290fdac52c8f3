"""Records that are parsed many at a time, against the same records parsed one by one."""

import csv
import io
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from batchstat import InputError
from batchstat.corpus import lines
from batchstat.corpus.formats import delimited_records
from batchstat.corpus.options import CorpusOptions
from conftest import reader_of

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

STRINGS = st.text(st.sampled_from('a"\\{}[],:é😀\n/'), max_size=6)
KEYS = st.sampled_from(["k", "l", 'q"', "\\", "text"])
SCALARS = st.one_of(STRINGS, st.integers(-9, 9), st.floats(), st.booleans(), st.none())


class Pairs(list):
    """An object as its keys and values, in which a key may appear twice."""


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(st.tuples(KEYS, inner), max_size=3).map(Pairs)
    ),
    max_leaves=8,
)


def written(value: object, *, ascii_only: bool) -> str:
    """A value as JSON."""
    if isinstance(value, Pairs):
        parts = (
            f"{json.dumps(key)}: {written(each, ascii_only=ascii_only)}" for key, each in value
        )
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{','.join(written(each, ascii_only=ascii_only) for each in value)}]"
    return json.dumps(value, ensure_ascii=ascii_only)


def repeats_a_key(value: object) -> bool:
    """Whether a key appears twice in an object of the value."""
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(repeats_a_key(each) for _, each in value)
    return isinstance(value, list) and any(map(repeats_a_key, value))


@given(st.lists(st.tuples(STRINGS, VALUES), min_size=1, max_size=5), st.booleans())
def test_a_key_that_appears_twice_is_found(tmp_path_factory, rows, ascii_only):
    path = tmp_path_factory.mktemp("a") / "a.jsonl"
    records = [Pairs([("text", f"t{text}"), ("other", value)]) for text, value in rows]
    found = "".join(f"{written(record, ascii_only=ascii_only)}\n" for record in records)
    path.write_text('{"text": "first"}\n' + found, encoding="utf-8", newline="\n")
    reader = reader_of(path, CorpusOptions(text_column=("text",), on_error="skip"))
    texts = [text for block in reader.blocks() for text in block.content.first.to_pylist()]
    good = [f"t{text}" for text, value in rows if not repeats_a_key(value)]
    assert texts == ["first", *good]
    assert reader.readings[0].skipped.get("malformed", 0) == len(rows) - len(good)


TOKENS = [
    "a",
    "b,c",
    ",",
    '"',
    '""',
    '"x"',
    '"a\nb"',
    '"a ""q"", b"',
    "\n",
    "\r\n",
    "\r",
    "é",
    "\t",
]


def outcome(path, on_error):
    """Samples, bad records and the error of a file with columns `text` and `y`."""
    reader = reader_of(path, CorpusOptions(text_column=("text",), on_error=on_error))
    samples, error = [], ""
    try:
        for block in reader.blocks():
            texts = block.content.first.to_pylist()
            samples += zip(block.records.tolist(), texts, strict=True)
    except InputError as raised:
        error = str(raised)
    reading = reader.readings[0]
    return samples, error, reading.bad_records.counts, reading.bad_records.examples


@given(
    st.lists(st.sampled_from(TOKENS), max_size=40).map("".join),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["fail", "skip"]),
)
def test_csv_is_the_same_however_many_lines_are_parsed_together(
    tmp_path_factory, text, most, on_error
):
    path = tmp_path_factory.mktemp("a") / "a.csv"
    path.write_text("text,y\n" + text, encoding="utf-8", newline="")
    whole = outcome(path, on_error)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "MOST_LINES", most)
        patch.setattr(delimited_records, "MOST_LINES", most)
        assert outcome(path, on_error) == whole
        patch.setattr(delimited_records._RecordLines, "left_if_short", lambda _: [])
        assert outcome(path, on_error) == whole


@given(st.lists(st.tuples(STRINGS, STRINGS), min_size=1), st.sampled_from([1, 2, 7, 1 << 20]))
def test_csv_is_what_was_written(tmp_path_factory, rows, block):
    sink = io.StringIO(newline="")
    csv.writer(sink).writerows([("text", "y"), *((f"t{text}", y) for text, y in rows)])
    path = tmp_path_factory.mktemp("a") / "a.csv"
    path.write_bytes(sink.getvalue().encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        samples, error, bad, _ = outcome(path, "fail")
    assert samples == [(i, f"t{text}") for i, (text, _) in enumerate(rows)]
    assert (error, bad) == ("", {})
