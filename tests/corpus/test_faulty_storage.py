"""Files at an address whose storage answers with less than it says, or with an error: never a wrong
count, always one line.
"""

import gzip
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import batchstat
from batchstat.corpus.files import digests, splits
from batchstat.profiling import cache
from conftest import needs
from tables import in_pairs

pytestmark = [
    pytest.mark.cluster,  # where what reads addresses is installed
    pytest.mark.usefixtures("tokenizers_loaded_once"),
]

TEXTS = [f"{'word ' * (i % 11 + 1)}é" for i in range(300)]
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), sink, row_group_size=100)
    return sink.getvalue()


FILES = {
    "a.txt": "\n".join(TEXTS).encode(),
    "a.jsonl": LINES,
    "a.parquet": parquet(),
    "a.jsonl.gz": gzip.compress(LINES),
}


def refused(*_: object) -> bytes:
    raise RuntimeError("nobody knows\nwhat this is")


def reset(*_: object) -> bytes:
    raise OSError("connection reset")


def gone(*_: object) -> bytes:
    raise FileNotFoundError("http://u:S3CRET@h/f")


READS = {
    "short": lambda content, _: content[:-7],
    "empty": lambda *_: b"",
    "nothing": lambda *_: None,
    "text": lambda content, _: content.decode("latin-1"),
    "short once": lambda content, number: content[:-7] if number == 2 else content,
    "empty later": lambda content, number: content if number < 3 else b"",
    "error": refused,
    "reset": reset,
    "gone": gone,
    "reset once": lambda content, number: reset() if number == 2 else content,
}
DESCRIPTIONS = {
    "larger": {"size": 1 << 20},
    "endless": {"size": 1 << 62},
    "negative": {"size": -1},
    "not a number": {"size": "many"},
    "another etag each time": {"ETag": None},
}


@pytest.fixture
def storage(monkeypatch) -> Any:
    """A file system with one fault; without a pause between tries."""
    needs("upath")
    import fsspec
    from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

    class File(AbstractBufferedFile):
        def _fetch_range(self, start: int, end: int) -> Any:
            Storage.reads += 1
            content = FILES[self.path.rpartition("/")[2]][start:end]
            return content if Storage.read is None else Storage.read(content, Storage.reads)

    class Storage(AbstractFileSystem):
        protocol, cachable = "faulty", False
        read, reads, described, asked, has_etag = None, 0, {}, 0, True

        def info(self, path: str, **_: object) -> dict[str, Any]:
            path = self._strip_protocol(path)
            name = path.rpartition("/")[2]
            if name not in FILES:
                raise FileNotFoundError(path)
            Storage.asked += 1
            etag = {"ETag": f"etag of {name}"} if Storage.has_etag else {}
            facts = {"name": path, "type": "file", "size": len(FILES[name]), **etag}
            again = {"ETag": str(Storage.asked)} if "ETag" in Storage.described else {}
            return facts | Storage.described | again

        def ls(self, path: str, detail: bool = True, **_: object) -> Any:
            return [self.info(path)] if detail else [path]

        def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
            return File(self, self._strip_protocol(path), mode, **more | {"block_size": 1000})

    fsspec.register_implementation("faulty", Storage, clobber=True)
    monkeypatch.setattr(cache, "_PAUSE_SECONDS", 0)
    return Storage


def outcome(name: str) -> list[int] | str:
    columns = {} if ".txt" in name else {"text_column": "text"}
    try:
        return batchstat.profile(
            f"faulty://d/{name}", on_warning=lambda _: None, **columns
        ).lengths.tolist()
    except batchstat.BatchstatError as error:
        return str(error)


@in_pairs(
    name=[*FILES],
    fault=[*READS, *DESCRIPTIONS],
    split_bytes=[1 << 26, 5000],
    has_etag=[True, False],
)
def test_the_counts_or_one_line(storage, monkeypatch, name, fault, split_bytes, has_etag):
    for module in (splits, digests):
        monkeypatch.setattr(module, "SPLIT_BYTES", split_bytes)
    storage.has_etag = has_etag
    right = outcome(name)
    assert len(right) == 300
    storage.reads = 0
    storage.read, storage.described = READS.get(fault), DESCRIPTIONS.get(fault, {})
    found = outcome(name)
    if isinstance(found, str):
        assert "\n" not in found
        assert "S3CRET" not in found
        assert f"faulty://d/{name}" in found
        assert "argument" not in found
    else:
        assert found == right
    if fault in ("empty", "error", "reset", "gone", "endless", "negative", "not a number"):
        assert isinstance(found, str)


def test_a_size_that_is_no_size_is_named(storage):
    storage.described = {"size": 1 << 62}
    assert "says that its size is 4611686018427387904 bytes" in outcome("a.txt")


def test_a_file_that_ends_early_is_named(storage):
    storage.read = READS["short"]
    size = len(FILES["a.jsonl"])
    assert f"it ends before the {size:,} bytes that its storage says" in outcome("a.jsonl")
