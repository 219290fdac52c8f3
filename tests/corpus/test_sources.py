"""Which files a corpus is, how they are packed, and what becomes of records that cannot be read."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
from itertools import cycle
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from hypothesis import example, given, settings

import batchstat
from batchstat import InputError, OptionError
from batchstat.corpus.files.digests import digest_of
from batchstat.corpus.files.sources import find_sources
from batchstat.corpus.options import CorpusOptions
from conftest import needs, reader_of
from file_bytes import arrow, parquet, zstd
from tables import in_turn

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

TEXTS = st.lists(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=20).filter(
        lambda text: not set(text) & {"\n", "\r", "\t"} and not text.startswith("\ufeff")
    ),
    min_size=1,
    max_size=12,
)


PACKED = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


def as_csv(texts: list[str]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text",), *((text,) for text in texts)])
    return file.getvalue().encode()


def as_table(texts: list[str]) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.string())})


def as_feather(table: pa.Table) -> bytes:
    feather.write_feather(table, sink := io.BytesIO())
    return sink.getvalue()


WRITTEN = {
    "a.txt": lambda texts: "".join(f"{text}\n" for text in texts).encode(),
    "a.csv": as_csv,
    "a.tsv": lambda texts: "".join(f"{text}\n" for text in ["text", *texts]).encode(),
    "a.jsonl": lambda texts: "".join(json.dumps({"text": t}) + "\n" for t in texts).encode(),
    "a.json": lambda texts: json.dumps([{"text": t} for t in texts], indent=1).encode(),
    "a.parquet": lambda texts: parquet(as_table(texts)),
    "a.feather": lambda texts: as_feather(as_table(texts)),
    "a.arrow": lambda texts: arrow(as_table(texts)),
}


def read(path, **options) -> tuple[list[int], list[str]]:
    reader = reader_of(path, CorpusOptions(**options), options.get("input_format"))
    records: list[int] = []
    texts: list[str] = []
    for block in reader.blocks():
        before = sum(each.records for each in reader.readings[:-1])
        records += (before + block.records).tolist()
        texts += block.content.first.to_pylist()
    skipped = sum(sum(each.skipped.values()) for each in reader.readings)
    assert len(records) + skipped == sum(each.records for each in reader.readings)
    return records, texts


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=7)
@given(texts=TEXTS)
@example(texts=["x" * 300_000, "é" * 100_000, "y"])
def test_every_format_in_every_compression_is_read_back(folder, name, ending, texts):
    (folder / "packed").mkdir(exist_ok=True)
    path = folder / "packed" / f"{name}{ending}"
    path.write_bytes(PACKED[ending](WRITTEN[name](texts)))
    # The blank lines of delimited text are no records.
    written = [text for text in texts if text.strip(" ") or name != "a.tsv"]
    expected = [(i, text) for i, text in enumerate(written) if text.strip()]
    assert list(zip(*read(path), strict=True)) == expected
    renamed = path.rename(folder / "unknown.dat")
    kind = {"feather": "arrow"}.get(name[2:], name[2:])
    assert list(zip(*read(renamed, input_format=kind), strict=True)) == expected


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
def test_a_compressed_file_cut_short(tmp_path, name, ending):
    packed = PACKED[ending](WRITTEN[name]([f"text {i * 7919 % 1000}" for i in range(5000)]))
    path = tmp_path / f"{name}{ending}"
    for length in (len(packed) - 3, len(packed) // 2):
        path.write_bytes(packed[:length])
        with pytest.raises(InputError, match="cut short"):
            read(path)


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("after", [b"garbage", b"\x00\x01 garbage", "damaged", "half a header"])
def test_what_follows_a_compressed_stream_is_not_lost(tmp_path, ending, after):
    one = PACKED[ending](b"".join(b"text %d\n" % i for i in range(1000)))
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(one + one)
    assert len(read(path)[0]) == 2000
    damaged = {"damaged": one[:1] + bytes([one[1] ^ 0xFF]) + one[2:], "half a header": one[:3]}
    path.write_bytes(one + damaged.get(after, after))
    with pytest.raises(InputError, match=r"damaged|cut short|cannot be read"):
        read(path)


def test_folders_and_patterns(tmp_path):
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "b.txt").write_text("b\n")
    (tmp_path / "data" / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n'))
    (tmp_path / "data" / "deep" / "c.txt").write_text("c\n")
    (tmp_path / "data" / "notes.md").write_text("no data\n")
    (tmp_path / "data" / ".hidden.txt").write_text("no data\n")
    with pytest.warns(UserWarning, match=r"skipped files in .*: notes.md \(name a file"):
        assert read(tmp_path / "data")[1] == ["a", "b", "c"]
    assert read(tmp_path / "data" / "*.txt")[1] == ["b"]
    assert read(tmp_path / "data" / "**" / "*.txt")[1] == ["b", "c"]
    (tmp_path / "data" / "[1].txt").write_text("brackets\n")
    assert read(tmp_path / "data" / "[1].txt")[1] == ["brackets"]
    with pytest.raises(InputError, match=r"no files match .*\*.csv"):
        read(tmp_path / "data" / "*.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no data files in"):
        read(tmp_path / "empty")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_links_that_lead_back_count_no_file_twice(tmp_path):
    for name in ("one", "two"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "a.txt").write_text(f"{name}\n")
    (tmp_path / "data" / "two" / "b.txt").symlink_to("a.txt")
    (tmp_path / "data" / "one" / "other").symlink_to("../two")
    (tmp_path / "data" / "two" / "other").symlink_to("../one")
    for corpus in ("data", "data/**/*.txt", "data/**"):
        assert read(tmp_path / corpus)[1] == ["one", "two", "two"], corpus
    assert read(tmp_path / "data" / "one" / "other" / "*.txt")[1] == ["two", "two"]


@pytest.mark.cluster  # where what reads addresses is installed
def test_an_address_is_listed_as_a_path_is(tmp_path):
    needs("upath")
    import datasets

    dataset = datasets.Dataset.from_dict({"text": ["a", "b"]})
    dataset.save_to_disk(tmp_path / "saved")
    datasets.DatasetDict({"train": dataset}).save_to_disk(tmp_path / "splits")
    for name in ("a.txt", "deep/b.jsonl", "notes.md", ".hidden.txt", ".deep/c.txt"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text("x\n")
    (tmp_path / "none").mkdir()

    def found(corpus: str) -> list[object]:
        said: list[object] = []
        try:
            listed = find_sources([corpus], on_warning=said.append)
        except InputError as error:
            return [str(error)]
        return [*((each.path, each.bytes, each.format) for each in listed), *said]

    corpora = ("saved", "splits", "splits/train", "data", "data/*.txt", "data/a.txt")
    for corpus in (*corpora, "data/**/*.jsonl", "data/*.csv", "data/notes.*", "none", "gone.txt"):
        at_path = str(found(f"{tmp_path}/{corpus}"))
        at_address = str(found(f"file://{tmp_path}/{corpus}")).replace("file://", "")
        assert at_address == at_path, corpus


def test_a_folder_is_profiled_into_itself(run, tmp_path):
    (tmp_path / "a.txt").write_text("some words\n")
    for command in ("profile", "compare"):
        result = run(command, ".", "--no-plots")
        assert result.returncode == 0, result.stderr
    result = run("profile", "**/*", "--json", "--no-plots")
    assert [each["path"] for each in json.loads(result.stdout)["corpus"]["sources"]] == ["a.txt"]


def test_a_mark_and_nothing_else(run, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf")
    assert read(tmp_path / "a.txt") == ([], [])
    result = run("profile", "-", stdin=(tmp_path / "a.txt").read_bytes())
    assert result.returncode == 3
    message = "error: no samples in standard input: it has no records"
    assert result.stderr.splitlines()[-1] == message


@pytest.mark.parametrize(("name", "ending"), [*zip(WRITTEN, cycle(PACKED), strict=False)])
def test_standard_input(run, tmp_path, name, ending):
    data = PACKED[ending](WRITTEN[name](["some words", "more"]))
    kind = {"feather": "arrow"}.get(name[2:], name[2:])
    command = ["profile", "-", "--input-format", kind, "--json", "--no-plots"]
    result = run(*command, stdin=data)
    assert result.returncode == 0, result.stderr
    (source,) = json.loads(result.stdout)["corpus"]["sources"]
    (tmp_path / "same").write_bytes(data)
    (same,) = find_sources([tmp_path / "same"])
    assert (source["path"], source["bytes"]) == ("-", same.bytes)
    assert source["digest"] == digest_of(same)


def test_standard_input_is_read_once():
    with pytest.raises(OptionError, match="can be read only once"):
        find_sources(["-", "-"])


@in_turn(
    ("happens", "said"),
    [
        (lambda path: os.truncate(path, 9_000_000), "changed while it was being read"),
        (Path.unlink, "no longer exists"),
    ],
)
def test_a_file_that_changes_while_it_is_read(tmp_path, happens, said):
    path = tmp_path / "a.txt"
    path.write_bytes(b"some words\n" * 2_000_000)
    blocks = reader_of(path, CorpusOptions()).blocks()
    next(blocks)
    happens(path)
    with pytest.raises(InputError, match=said):
        list(blocks)


def test_a_data_set_is_read_as_its_transform_makes_it():
    """One record at a time, as it may pad those that it gets together."""
    data = needs("datasets")

    def padded(batch: dict[str, list[str]]) -> dict[str, object]:
        widest = max(len(text.split()) for text in batch["text"])
        return {"input_ids": [np.ones(widest, dtype=int) for _ in batch["text"]]}

    stored = data.Dataset.from_dict({"text": ["a", "a b c", "a b"]})
    for made in (stored.with_transform(padded), stored.with_transform(padded).select([0, 1, 2])):
        found = batchstat.profile(made, tokens_column="input_ids")
        assert found.lengths.tolist() == [len(made[i]["input_ids"]) for i in range(3)] == [1, 3, 2]
    unread = stored.with_transform(lambda _: {"text": [object()]})
    with pytest.raises(InputError, match="what the transform of the Dataset makes is not read"):
        batchstat.profile(unread, text_column="text")


@pytest.mark.parametrize("more", ["", "?sig=a/b.c", "#generation=1.2", "?x=1&versionId=3"])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl"])
def test_the_format_of_an_address_whose_storage_keeps_the_query_in_the_name(ending, more):
    """Read as lines of text, the header and the quotes would be counted."""
    fsspec = needs("fsspec")
    needs("upath")
    address = f"memory://formats/a{ending}{more}"
    data = {".csv": b"text,y\na b,c\n", ".jsonl": b'{"text": "a b"}\n'}
    data[".csv.gz"] = gzip.compress(data[".csv"])
    with fsspec.open(address, "wb") as file:
        file.write(data[ending])
    (source,) = find_sources([address])
    assert source.format == ending.removesuffix(".gz")[1:]
    assert batchstat.profile(address).lengths.tolist() == [2]
