"""Splits of files: whatever is cut, the whole comes out, and so do the places of what is wrong."""

import gzip
import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchstat
from batchstat.corpus.files import digests as digests_module
from batchstat.corpus.files import opening, splits
from batchstat.corpus.files.digests import content_digests, digest_of, joined_digest
from batchstat.corpus.files.sources import Source, find_sources
from batchstat.corpus.files.splits import splits_of
from batchstat.corpus.options import CorpusOptions
from batchstat.profiling.build import build
from batchstat.profiling.inputs import open_corpus
from batchstat.profiling.run_options import RunOptions
from tables import in_turn

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

LINES = st.lists(
    st.sampled_from(
        [b"", b" ", b"a b", b"word" * 9, "żółw \u2028".encode(), b"\r", b"c\r", b"x\xffy"]
    ),
    max_size=30,
)
ENDS = st.sampled_from([b"\n", b"\r\n"])


def cut_every(size: int, patch: pytest.MonkeyPatch) -> None:
    """Files are divided into splits of this many bytes."""
    for module in (splits, digests_module):
        patch.setattr(module, "SPLIT_BYTES", size)


def whole_and_cut(path: Path, size: int, **options: Any) -> list[Any]:
    """What a profile says, or why there is none, of a file whole and of its splits."""
    found: list[Any] = []
    for part_bytes in (1 << 30, size):
        with pytest.MonkeyPatch.context() as patch:
            cut_every(part_bytes, patch)
            try:
                profile = batchstat.profile(path, workers=2, **options)
            except batchstat.InputError as error:
                found.append(str(error))
                continue
        labels = profile.labels
        found.append(
            (
                profile.records.tolist(),
                profile.lengths.tolist(),
                dict(profile.corpus.skipped),
                profile.corpus.faults,
                None if labels is None else (labels.names, labels.codes.tolist()),
            )
        )
    return found


@pytest.mark.slow
@settings(max_examples=12)  # each counts files four times
@given(lines=LINES, end=ENDS, last=st.booleans(), size=st.integers(5, 60), bom=st.booleans())
def test_lines_of_text(tmp_path_factory, lines, end, last, size, bom):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    data = end.join(lines) + (end if last else b"")
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + data + b"z")
    for on_error in ("fail", "skip"):
        one, other = whole_and_cut(path, size, on_error=on_error)
        assert one == other


RECORDS = st.lists(
    st.sampled_from(
        [
            '{"text": "a b", "y": "one"}',
            '{"other": "x", "text": "long words here", "y": null}',
            '{"text": "c"}',
            '{"text": 5}',
            '{"text": ',
            "",
            "[1]",
        ]
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.slow
@settings(max_examples=12)  # each counts files four times
@given(records=RECORDS, size=st.integers(10, 100), label=st.booleans(), named=st.booleans())
def test_lines_of_json(tmp_path_factory, records, size, label, named):
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    path.write_text("\n".join(records) + "\n")
    options: dict[str, Any] = {"label_column": "y"} if label else {}
    options |= {"text_column": "text"} if named else {}
    for on_error in ("fail", "skip"):
        one, other = whole_and_cut(path, size, on_error=on_error, **options)
        assert one == other


@pytest.mark.slow
@settings(max_examples=12)  # each counts files four times
@given(
    rows=st.lists(st.sampled_from(["a,b", "word word,x", "", "a", "é,y", '"q,z']), max_size=25),
    size=st.integers(8, 60),
    header=st.booleans(),
    ending=st.sampled_from(["csv", "tsv"]),
)
def test_unquoted_records(tmp_path_factory, rows, size, header, ending):
    path = tmp_path_factory.mktemp("rows") / f"a.{ending}"
    text = "\n".join(["", "text,label", *rows, "last one,b", ""])
    path.write_text(text if ending == "csv" else text.replace(",", "\t"))
    columns = {"text_column": "text", "label_column": "label"}
    if not header:
        columns = {"text_column": 0, "label_column": "1"}
    options = {"header": header, "quote": False if ending == "csv" else None, **columns}
    for on_error in ("fail", "skip"):
        one, other = whole_and_cut(path, size, on_error=on_error, **options)
        assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("size", [300, 1000, 4000])
@pytest.mark.parametrize("group", [1, 7, 100])
def test_row_groups(tmp_path, size, group):
    texts = [f"{'word ' * (i % 9)}{i}" if i % 5 else None if i == 45 else " " for i in range(60)]
    table = pa.table({"id": range(60), "text": pa.array(texts, pa.string())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=group)
    for on_error in ("fail", "skip"):
        one, other = whole_and_cut(tmp_path / "a.parquet", size, on_error=on_error)
        assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100, 131, 1000])
@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("<i4", False), (">u2", False), ("u1", False), ("<i8", False), ("<i8", True)],
)
def test_numbers(tmp_path, size, kind, wrong):
    numbers = np.arange(50).astype(kind)
    if wrong:
        numbers[40] = -5
    np.save(tmp_path / "a.npy", numbers)
    for on_error in ("fail", "skip"):
        one, other = whole_and_cut(tmp_path / "a.npy", size, on_error=on_error)
        assert one == other
    assert one[1][:40] == list(range(40))


def test_threads_parse_headers_of_numbers_in_turn(tmp_path, monkeypatch):
    read, parser = np.lib.format.read_array_header_1_0, threading.Lock()

    def parse(file):
        assert parser.acquire(blocking=False)
        time.sleep(0.001)
        parser.release()
        return read(file)

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", parse)
    np.save(tmp_path / "a.npy", np.arange(50))
    one, other = whole_and_cut(tmp_path / "a.npy", 1)
    assert one == other


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_what_is_compressed_and_not_named_so_is_one_part(tmp_path, ending):
    lines = "".join(json.dumps({"text": f"line {i}"}) + "\n" for i in range(100))
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))
    one, other = whole_and_cut(path, 40)
    assert one == other
    assert len(one[0]) == 100


def test_a_quoted_field_is_never_cut(tmp_path):
    (tmp_path / "a.csv").write_text('text\n"one\ntwo"\n"three\n\n"\n')
    one, other = whole_and_cut(tmp_path / "a.csv", 5)
    assert one == other == ([0, 1], one[1], {"blank": 0, "short": 0}, (), None)


@in_turn(
    ("name", "options", "cut"),
    [
        ("a.txt", {}, True),
        ("a.jsonl", {}, True),
        ("a.parquet", {}, True),
        ("a.tsv", {}, True),
        ("a.tsv", {"quote": True}, False),
        ("a.csv", {}, False),
        ("a.csv", {"quote": False}, True),
        ("a.json", {}, False),
        ("a.arrow", {}, False),
        ("a.npy", {}, True),
        ("a.txt.gz", {}, False),
        ("a.jsonl.ZST", {}, False),
    ],
)
def test_what_is_cut_is_known_by_name_and_size(name, options, cut):
    size = 3 * splits.SPLIT_BYTES + 1
    kind = name.lower().removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
    found = splits_of([Source(name, size, "", kind)], CorpusOptions(**options))
    assert sum(split.bytes for split in found) == size
    assert len(found) == (4 if cut else 1)
    assert found[0].first == 0
    assert found[-1].stop is None
    assert all(a.stop == b.first for a, b in pairwise(found))


@given(data=st.binary(min_size=1, max_size=300), size=st.integers(1, 40))
def test_the_digest_of_a_file_is_that_of_its_parts(tmp_path_factory, data, size):
    path = tmp_path_factory.mktemp("digest") / "a.txt"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        cut_every(size, patch)
        (source,) = find_sources([path])
        known = [
            d for split in splits_of([source], CorpusOptions()) for d in content_digests(split)[0]
        ]
        assert joined_digest(known) == digest_of(source)


def test_a_change_before_a_part_that_makes_a_line_of_it(tmp_path, monkeypatch):
    cut_every(1, monkeypatch)
    monkeypatch.setattr(opening, "HEAD_BYTES", 1)
    found = []
    for text in ("a\na\na\na\na\nend of it\n", "\n\na\na\na\na\nend of it\n"):
        (tmp_path / "a.txt").write_text(text)
        split = splits_of(find_sources([tmp_path / "a.txt"]), CorpusOptions())[1]
        found.append((content_digests(split), counted(split)))
    (digests, one), (others, other) = found
    assert one != other
    assert digests != others


@pytest.mark.slow
@given(data=st.data())
def test_no_byte_changes_without_its_part_or_what_stands_beside_it(tmp_path_factory, data):
    """Of two files that differ in a byte, splits with the same digests have the same counts."""
    lines = data.draw(st.lists(st.sampled_from(["a", "bb cc", "", "dddd e f"]), min_size=5))
    text = bytearray("\n".join(lines).encode() + b"\nend of it\n")
    folder = tmp_path_factory.mktemp("change")
    at = data.draw(st.integers(0, len(text) - 1))
    size = data.draw(st.integers(1, 20))
    found = []
    for new in (text[at], data.draw(st.sampled_from(b"\n x"))):
        text[at] = new
        (folder / "a.txt").write_bytes(text)
        with pytest.MonkeyPatch.context() as patch:
            cut_every(size, patch)
            patch.setattr(opening, "HEAD_BYTES", 1)
            (source,) = find_sources([folder / "a.txt"])
            cut = splits_of([source], CorpusOptions())
            found.append([(content_digests(split), counted(split)) for split in cut])
    for (digests, one), (others, other) in zip(*found, strict=True):
        if digests == others:
            assert one == other


def counted(split: splits.Split) -> list[list[int]]:
    from batchstat.corpus.reader import CorpusReader

    blocks = CorpusReader([split], CorpusOptions()).blocks()
    return [block.records.tolist() + block.content.first.to_pylist() for block in blocks]


def test_positions_of_a_part_end_at_its_size(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"some words here\n" * 100_000)
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        cut_every(500_000, patch)
        build(open_corpus([path], CorpusOptions(), None, None), RunOptions(on_progress=seen.append))
    assert np.all(np.diff([each.bytes for each in seen]) >= 0)
    assert (seen[-1].bytes, seen[-1].total_bytes) == (1_600_000,) * 2
    assert (seen[-1].work.bytes, seen[-1].work.samples) == (1_600_000, 100_000)
