"""One corpus, counted by whoever there is, whatever happens to them: the same profile.

With real schedulers, workers and servers, as processes of this machine. Left out unless asked for:
pytest -m cluster -n 0.
"""

import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import batchstat
from batchstat.corpus.files import splits
from batchstat.profiling.parquet import read_file, save_lengths
from batchstat.profiling.staleness import changes
from batchstat.profiling.worker import count_split
from cluster import bare_server, dask_cluster, end, s3_server, web_server
from conftest import SAMPLE_DATA, check_schema, environment, needs

pytestmark = pytest.mark.cluster

READ = ["--text-column", "text", "--label-column", "y"]
CREATED = "2026-01-01T00:00:00.000000+00:00"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large file, which is cut, one of Parquet with row groups, and small ones."""
    folder = tmp_path_factory.mktemp("corpus") / "corpus"
    folder.mkdir()
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()
    rng = random.Random(0)
    rows = [{"text": rng.choice(lines), "y": rng.choice("abc")} for _ in range(20_000)]
    # What is not read makes a file large at little cost: it is counted some thirty times.
    filled = [row | {"unread": "x" * rng.randrange(3_000)} for row in rows[:4_000]]
    block = "".join(json.dumps(row) + "\n" for row in filled)
    with (folder / "x-large.jsonl").open("w", encoding="utf-8") as file:
        for i in range(int(2.3 * splits.SPLIT_BYTES) // len(block)):
            file.write(block)
            file.write(json.dumps({"text": f"number {i}", "y": None}) + "\n\n")
    table = pa.table({"text": [row["text"] for row in rows], "y": [row["y"] for row in rows]})
    pq.write_table(table, folder / "rows.parquet", row_group_size=3_000)
    for i in range(30):
        some = rows[i::97]
        (folder / f"small-{i:02}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in some))
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def started(corpus: Path, cache: Path, *arguments: object) -> "subprocess.Popen[str]":
    """A command in the folder above the corpus, with a cache of its own."""
    plots = [] if arguments[0] == "check" else ["--no-plots"]
    return subprocess.Popen(
        [sys.executable, "-m", "batchstat", *map(str, arguments), *plots],
        cwd=corpus.parent,
        env=environment(BATCHSTAT_CACHE_DIR=str(cache)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def done(corpus: Path, cache: Path, *arguments: object, status: int = 0) -> tuple[str, str]:
    """The same, run to its end: standard output and error."""
    process = started(corpus, cache, *arguments)
    found = process.communicate(timeout=300)
    assert process.returncode == status, found[1]
    return found


def results(folder: Path) -> tuple[object, ...]:
    """profile.json and lengths.parquet, as if they were made at the same time."""
    text = (folder / "profile.json").read_text(encoding="utf-8")
    created = json.loads(text)["created"]
    path, sink = folder / "lengths.parquet", io.BytesIO()
    profile = read_file(path)
    assert profile.created == created
    save_lengths(replace(profile, created=CREATED), sink)
    rows = pq.ParquetFile(path).metadata
    groups = [rows.row_group(i).num_rows for i in range(rows.num_row_groups)]
    return text.replace(created, CREATED), path.stat().st_size, groups, sink.getvalue()


def counts_in(folder: Path) -> dict[str, bytes]:
    """What is kept there: counted again, a split would have another time of creation."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.counts")}


def wait_for_counts(folder: Path, running: "subprocess.Popen[str]") -> None:
    """Until a split is kept there, or the command has ended."""
    while running.poll() is None and not any(folder.rglob("*.counts")):
        time.sleep(0.01)


@pytest.fixture(scope="module")
def expected(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """What one thread of one process finds."""
    folder = tmp_path_factory.mktemp("expected")
    one = ["--executor", "threads", "--workers", 1, "-o", folder / "out"]
    done(corpus, folder / "cache", "profile", "corpus", *READ, *one)
    assert len(counts_in(folder / "cache")) == 3 + 1 + 30  # the large file has three splits
    found = results(folder / "out")
    profile = read_file(folder / "out" / "lengths.parquet")
    # Blank texts are skipped records; blank lines of .jsonl are none.
    assert profile.records[-1] == len(profile) + profile.corpus.skipped["blank"] - 1
    return found


@pytest.mark.parametrize(
    "options", [[], ["--executor", "processes", "--workers", 2], ["--workers", 3]]
)
def test_by_this_machine(corpus, expected, tmp_path, out, options):
    done(corpus, tmp_path / "cache", "profile", "corpus", *READ, *options, "-o", out)
    assert results(out) == expected


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    needs("distributed")
    with dask_cluster(tmp_path_factory.mktemp("dask"), workers=3) as found:
        yield found


def dask(cluster, out: Path) -> list[object]:
    return ["--executor", "dask", "--scheduler", cluster.address, "-o", out]


def test_by_dask_while_a_worker_is_killed(corpus, expected, tmp_path, out, cluster):
    running = started(corpus, tmp_path, "profile", "corpus", *READ, *dask(cluster, out))
    wait_for_counts(out, running)
    killed = cluster.workers.pop()
    killed.send_signal(signal.SIGKILL)
    _, error = running.communicate(timeout=300)
    assert running.returncode == 0, error
    assert killed.wait(timeout=60) == -signal.SIGKILL
    assert results(out) == expected
    # And again, from what is kept, without any of it counted anew.
    shutil.rmtree(out / "lengths.parquet", ignore_errors=True)
    before = counts_in(out)
    done(corpus, tmp_path, "profile", "corpus", *READ, *dask(cluster, out))
    assert counts_in(out) == before
    assert results(out) == expected


def test_a_split_that_fails_once_is_tried_again_by_dask(tmp_path, monkeypatch, cluster):
    """And paths are those of who asks, not of the workers, who are at another place."""
    (tmp_path / "a.txt").write_text("some words\n")
    monkeypatch.chdir(tmp_path)
    flag = tmp_path / "flag"

    def fail_once(task, split):
        if not flag.exists():
            flag.touch()
            raise OSError("connection reset")
        return count_split(task, split)

    monkeypatch.setattr("batchstat.profiling.executors.dask.count_split", fail_once)
    how = {"executor": "dask", "scheduler": cluster.address, "count_cache": "parts"}
    assert batchstat.profile(["a.txt"], **how).lengths.tolist() == [2]
    assert flag.exists()
    assert len(counts_in(tmp_path / "parts")) == 1


def test_a_split_that_lets_every_worker_die(tmp_path, monkeypatch):
    """Dask gives it up after four, and whatever waited behind it on each of them; all are named,
    and the others are counted.
    """
    needs("distributed")
    told: list[str] = []
    monkeypatch.setattr("warnings.warn", lambda message, **_: told.append(message))
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text("some words\n")

    def kill(task, split):
        if split.source.path.endswith("1.txt"):
            os.kill(os.getpid(), signal.SIGKILL)
        return count_split(task, split)

    monkeypatch.setattr("batchstat.profiling.executors.dask.count_split", kill)
    with dask_cluster(tmp_path / "dask", workers=5) as cluster:
        how = {"executor": "dask", "scheduler": cluster.address, "count_cache": tmp_path / "parts"}
        with pytest.raises(batchstat.InputError, match=r"[123] of 3 splits failed: ") as raised:
            batchstat.profile(sorted(tmp_path.glob("*.txt")), **how)
        error = str(raised.value)
        assert "1.txt could not be counted: KilledWorker: " in "\n".join([error, *told])
        assert "all those workers died" in error
        assert len(error.splitlines()) == 1
        failed = max(1, len(told))  # a single failure is named by the error itself
        assert error.startswith(f"{failed} of 3 splits failed")
        assert len(counts_in(tmp_path / "parts")) == 3 - failed


def test_an_interrupt_does_not_wait_for_what_workers_were_given(tmp_path, out, cluster):
    folder = tmp_path / "corpus"
    folder.mkdir()
    rng = random.Random(1)
    words = [rng.randbytes(8).hex() for _ in range(400_000)]
    for i in range(40):
        rng.shuffle(words)
        (folder / f"{i:02}.txt").write_text("\n".join(words))
    running = started(folder, tmp_path, "profile", "corpus", *dask(cluster, out))
    wait_for_counts(out, running)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=300)
    assert running.returncode == 130
    assert error.splitlines()[-1] == "interrupted; no partial files were left behind"
    assert len(list((out / "splits").glob("*.counts"))) < 30


def test_a_scheduler_that_is_lost(corpus, expected, tmp_path, out):
    needs("distributed")
    with dask_cluster(tmp_path / "dask", workers=1) as cluster:
        running = started(corpus, tmp_path, "profile", "corpus", *READ, *dask(cluster, out))
        wait_for_counts(out, running)
        end(cluster.scheduler)
        _, error = running.communicate(timeout=300)
        assert running.returncode == 3, error
        why = f"error: the Dask scheduler at {cluster.address} was lost: run again, which counts "
        said = [line for line in error.splitlines() if not line.startswith("counting: ")]
    assert said == [f"{why}only what is missing"]
    assert not (out / "lengths.parquet").exists()
    before = counts_in(out)
    assert before
    rest = ["--count-cache", out / "splits", "-o", out]
    done(corpus, tmp_path, "profile", "corpus", *READ, *rest)
    assert before.items() <= counts_in(out).items()
    assert results(out) == expected


def test_interrupted_at_any_time(corpus, expected, tmp_path, out):
    psutil, rng = needs("psutil"), random.Random(2)
    for is_last in [False] * 10 + [True]:
        executor = rng.choice(["processes", "processes", "threads"])
        arguments = ["profile", "corpus", *READ, "--executor", executor, "-o", out]
        running = started(corpus, tmp_path / "cache", *arguments)
        time.sleep(rng.uniform(0.5, 3.5))
        if is_last:  # on a slow machine none of the others has counted a split
            wait_for_counts(tmp_path / "cache", running)
        if running.poll() is None:
            below = psutil.Process(running.pid).children(recursive=True)
            running.send_signal(rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
            assert not psutil.wait_procs(below, timeout=30)[1]
        _, error = running.communicate(timeout=300)
        assert running.returncode in (0, 130, -signal.SIGKILL), error
        if running.returncode == 130:
            assert error.splitlines()[-1] == "interrupted; no partial files were left behind"
            assert "resource_tracker" not in error
    before = counts_in(tmp_path / "cache")
    done(corpus, tmp_path / "cache", "profile", "corpus", *READ, "-o", out)
    assert results(out) == expected
    assert before.items() <= counts_in(tmp_path / "cache").items()


def test_a_thousand_small_files(tmp_path, out):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for i in range(1_000):
        (folder / f"{i:04}.txt").write_text("some words of it\n\nand more\n")
    done(folder, tmp_path / "cache", "profile", "corpus", "-o", out)
    found = read_file(out / "lengths.parquet")
    assert len(found.corpus.sources) == len(counts_in(tmp_path / "cache")) == 1_000
    assert found.lengths.tolist() == [4, 2] * 1_000
    assert found.records.tolist() == [i for i in range(3_000) if i % 3 != 1]


@pytest.fixture(scope="module")
def s3():
    """An S3-compatible server with a bucket, as the environment that reaches it."""
    needs("s3fs")
    with s3_server() as address:
        found = {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in found.items():
                patch.setenv(name, value)
            storage = needs("s3fs").S3FileSystem(skip_instance_cache=True)
            storage.mkdir("bucket")
            yield storage


def without_place(folder: Path) -> tuple[object, ...]:
    """A profile's numbers, wherever its corpus lay."""
    found = json.loads((folder / "profile.json").read_text(encoding="utf-8"))
    sizes = [source["bytes"] for source in found.pop("corpus")["sources"]]
    found.pop("created")
    profile = read_file(folder / "lengths.parquet")
    labels = None if profile.labels is None else profile.labels.codes.tolist()
    return found, sizes, profile.records.tolist(), profile.lengths.tolist(), labels


def test_a_corpus_in_a_bucket(corpus, tmp_path, out, s3):
    s3.put(str(corpus), "bucket/crawl", recursive=True)
    done(corpus, tmp_path, "profile", "corpus", *READ, "-o", tmp_path / "here")
    address = "s3://bucket/crawl"
    with dask_cluster(tmp_path / "dask", workers=2) as cluster:
        done(corpus, tmp_path, "profile", address, *READ, *dask(cluster, out))
    assert without_place(out) == without_place(tmp_path / "here")
    sources = json.loads((out / "profile.json").read_text())["corpus"]["sources"]
    etags = {
        f"s3://{name}": f"etag:{s3.info(name)['ETag'].strip(chr(34))}"
        for name in s3.ls("bucket/crawl")
    }
    assert {source["path"]: source["digest"] for source in sources} == etags
    check_schema(json.loads((out / "profile.json").read_text()), "profile")
    # All of it in the bucket: what is kept, what is found, and what others make of it.
    there = ["-o", "s3://bucket/results", "--count-cache", "s3://bucket/parts"]
    files = "s3://bucket/crawl/*small*.jsonl"
    done(corpus, tmp_path, "profile", files, *READ, *there)
    kept = {name: s3.cat(name) for name in s3.ls("bucket/parts", refresh=True)}
    assert len(kept) == 30
    done(corpus, tmp_path, "profile", files, *READ, *there)
    assert {name: s3.cat(name) for name in s3.ls("bucket/parts", refresh=True)} == kept
    shown, error = done(corpus, tmp_path, "compare", "-o", "s3://bucket/results")
    assert "token-budget" in shown
    assert "wrote compare.json to s3://bucket/results" in error
    assert json.loads(s3.cat("bucket/results/compare.json"))["strategies"]
    # A file that is another now.
    s3.pipe("bucket/crawl/small-00.jsonl", b'{"text": "another", "y": "a"}\n')
    _, error = done(corpus, tmp_path, "compare", "-o", "s3://bucket/results")
    assert "s3://bucket/crawl/small-00.jsonl has changed since it was profiled" in error
    _, error = done(
        corpus, tmp_path, "check", "-o", "s3://bucket/results", "--max-padding", "99%", status=3
    )
    assert "has changed" in error


def test_a_bucket_is_listed_as_a_folder_is(tmp_path, out, s3):
    """Patterns, names that look like them, what is hidden, and batchstat's own files in it."""
    for name in ("p-1.txt", "p-2.txt", "p-10.txt", "b[1].txt", ".hidden/p-3.txt", "parts/p-4.txt"):
        s3.pipe(f"bucket/own/{name}", b"a word\n")
    s3.touch("bucket/own/folder/")

    def read(address: str, *more: str) -> list[str]:
        done(tmp_path / "x", tmp_path, "profile", address, "-o", out, *more)
        sources = json.loads((out / "profile.json").read_text())["corpus"]["sources"]
        return [source["path"].removeprefix("s3://bucket/own/") for source in sources]

    assert read("s3://bucket/own/p-?.txt") == ["p-1.txt", "p-2.txt"]
    assert read("s3://bucket/own/b[1].txt") == ["b[1].txt"]
    assert read("s3://bucket/own/*[1].txt") == ["p-1.txt"]
    everything = ["b[1].txt", "p-1.txt", "p-10.txt", "p-2.txt", "parts/p-4.txt"]
    assert read("s3://bucket/own") == everything
    own = ["-o", "s3://bucket/own", "--count-cache", "s3://bucket/own/splits"]
    done(tmp_path / "x", tmp_path, "profile", "s3://bucket/own", *own)
    assert read("s3://bucket/own") == everything
    s3.touch("bucket/own/part-00001")
    _, error = done(tmp_path / "x", tmp_path, "profile", "s3://bucket/own/part-*", status=3)
    assert "s3://bucket/own/part-00001 is empty" in error
    _, error = done(tmp_path / "x", tmp_path, "profile", "s3://bucket/own/**/*.json", status=3)
    assert "no files match s3://bucket/own/**/*.json" in error


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://bucket/nothing.txt", "no such file: s3://bucket/nothing.txt"),
        ("s3://bucket/nothing/*.txt", "no files match s3://bucket/nothing/*.txt"),
        ("s3://no-bucket/a.txt", "s3://no-bucket/a.txt"),
        ("nonsense://x/y.txt", "nonsense://x/y.txt cannot be reached"),
    ],
)
@pytest.mark.usefixtures("s3")
def test_what_is_not_there(corpus, tmp_path, address, message):
    _, error = done(corpus, tmp_path, "profile", address, status=3)
    assert len(error.splitlines()) == 1
    assert message in error


@pytest.mark.parametrize("server", [web_server, bare_server])
def test_a_server_that_says_nothing_of_changes(tmp_path, out, server):
    """Where a size is all that is said of a file, its bytes are read to know it again."""
    needs("aiohttp")
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "a.txt").write_text("some words\n")
    with server(folder) as address:
        arguments = ["profile", f"{address}/a.txt", "-o", out]
        done(tmp_path / "x", tmp_path / "cache", *arguments)
        assert read_file(out / "lengths.parquet").lengths.tolist() == [2]
        done(tmp_path / "x", tmp_path / "cache", *arguments)
        _, error = done(tmp_path / "x", tmp_path / "cache", "compare", "-o", out)
        assert "has changed" not in error
        (folder / "a.txt").write_text("wordsxqzjx\n")
        _, error = done(tmp_path / "x", tmp_path / "cache", "compare", "-o", out)
        assert f"{address}/a.txt has changed since it was profiled" in error
        done(tmp_path / "x", tmp_path / "cache", *arguments)
        assert read_file(out / "lengths.parquet").lengths[0] > 2
        digest = hashlib.sha256((folder / "a.txt").read_bytes()).hexdigest()
        (source,) = json.loads((out / "profile.json").read_text())["corpus"]["sources"]
        assert source["digest"] == f"sha256:{digest}"
    _, error = done(tmp_path / "x", tmp_path / "cache", *arguments, status=3)
    assert len(error.splitlines()) == 1
    assert f"{address}/a.txt cannot be read" in error


def test_what_is_new_in_a_bucket_is_seen_by_the_same_process(s3):
    s3.pipe("bucket/new/a.txt", b"some words\n")
    assert len(batchstat.profile("s3://bucket/new/*.txt")) == 1
    other = type(s3)(skip_instance_cache=True)
    other.pipe("bucket/new/b.txt", b"more\nwords\n")
    found = batchstat.profile("s3://bucket/new/*.txt")
    assert len(found) == 3
    other.pipe("bucket/new/b.txt", b"other\nwords\n")
    assert [change.split()[0] for change in changes(found)] == ["s3://bucket/new/b.txt"]
    assert len(batchstat.profile("s3://bucket/new/*.txt")) == 3
