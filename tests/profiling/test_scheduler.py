"""Splits that cannot be counted: tried again, named, left out only where that is asked for."""

import errno
import gzip
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import batchstat
from batchstat.corpus.chat import NO_INPUTS
from batchstat.corpus.files.sources import Source, find_sources
from batchstat.corpus.files.splits import Split, splits_of
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, SourceError, StorageFullError
from batchstat.lengths.labels import Labels
from batchstat.profiling.build import build, count_shard
from batchstat.profiling.cache import CountCache
from batchstat.profiling.executors.executor import CountingExecutor, ExecutorLostError
from batchstat.profiling.executors.local import threads, wrap_executor
from batchstat.profiling.inputs import Corpus
from batchstat.profiling.progress import CountedAmount, Progress, ProgressTracker
from batchstat.profiling.run_options import RunOptions
from batchstat.profiling.scheduler import TRIES, Scheduler
from batchstat.profiling.shards import ShardSpec, merge
from batchstat.profiling.tasks import CountTask, RemoteTask
from batchstat.profiling.worker import count_split
from batchstat.tokenization.counting.count_check import MiscountError
from batchstat.tokenization.loading.load import load_tokenizer
from conftest import ROOT, check_schema, environment, needs, resealed
from conftest import Run as Command

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Ten of them, of which the fourth is cut short."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for i in range(10):
        data = gzip.compress(f"some words of {i}\nand more\n".encode() * 100, mtime=0)
        (folder / f"{i}.txt.gz").write_bytes(data[:-20] if i == 3 else data)
    return folder


def test_a_shard_that_is_cut_short_is_named_and_the_others_are_counted(
    run: Command, shards, tmp_path
):
    result = run("profile", "shards", "--no-plots")
    assert result.returncode == 3
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "error: 1 of 10 splits failed after 3 attempts each: shards/3.txt.gz is cut short"
    )
    assert "--allow-partial" in line
    log = (tmp_path / "batchstat-results" / "profile.log").read_text()
    assert log.count("  counted ") == 9
    assert log.count("FAILED  shards/3.txt.gz, try ") == TRIES
    assert "ended by 1 of 10 splits failed" in log
    assert not (tmp_path / "batchstat-results" / "profile.json").exists()
    # Mended, only what is missing is counted.
    (shards / "3.txt.gz").write_bytes(gzip.compress(b"mended\n"))
    assert run("profile", "shards", "--no-plots").returncode == 0
    again = (tmp_path / "batchstat-results" / "profile.log").read_text()[len(log) :]
    assert again.count("  cached ") == 9
    assert again.count("  counted ") == 1


def test_every_shard_that_failed_is_listed(run: Command, shards):
    (shards / "7.txt.gz").write_bytes(b"\x1f\x8bno gzip at all")
    result = run("profile", "shards", "--no-plots")
    assert result.returncode == 3
    first, second, error = result.stderr.splitlines()
    assert first.startswith("warning: not counted: shards/3.txt.gz is cut short")
    assert second.startswith("warning: not counted: shards/7.txt.gz is damaged")
    assert error.startswith("error: 2 of 10 splits failed after 3 attempts each: shards/3.txt.gz")


@pytest.mark.usefixtures("shards")
def test_a_partial_profile_says_so_everywhere(run: Command, tmp_path):
    result = run("profile", "shards", "--no-plots", "--allow-partial")
    assert result.returncode == 0
    assert "warning: the profile is partial" in result.stderr
    assert "PARTIAL  1 split could not be counted" in result.stdout
    profile = json.loads((tmp_path / "batchstat-results" / "profile.json").read_text())
    assert profile["corpus"]["samples"] == 1_800
    (failed,) = profile["corpus"]["failed"]
    assert failed.startswith("shards/3.txt.gz is cut short")
    check_schema(profile, "profile")
    compared = run("compare", "--no-plots", "--json")
    warnings = json.loads(compared.stdout)["warnings"]
    assert "profile/partial" in {warning["id"] for warning in warnings}
    checked = run("check", "--max-padding", "99%")
    assert checked.returncode == 3
    assert "the profile is partial (shards/3.txt.gz is cut short" in checked.stderr
    counted = run("check", "shards", "--max-padding", "99%")
    assert counted.returncode == 3
    # Nothing partial is taken for the whole corpus.
    assert run("compare", "shards", "--no-plots").returncode == 3


def test_an_empty_shard_is_left_out_only_where_that_is_asked_for(run: Command, tmp_path):
    (tmp_path / "a.txt").write_text("some words\n")
    for name in ("b.txt", "c.jsonl", "d.txt.gz", "e.parquet"):
        (tmp_path / name).write_bytes(b"")
    result = run("profile", ".", "--no-plots")
    assert result.returncode == 3
    assert result.stderr == "error: b.txt is empty: a corpus needs at least one sample\n"
    result = run("profile", ".", "--no-plots", "--allow-partial", "-o", "out")
    assert result.returncode == 0
    assert "4 splits could not be counted" in result.stdout
    assert "b.txt is empty" in result.stdout


def test_a_shard_without_its_counts_is_named(run: Command, shards, tmp_path):
    (shards / "3.txt.gz").unlink()
    for i in (1, 2, 3):
        assert run("profile", "shards", "--shard", f"{i}/3", "-o", f"split-{i}").returncode == 0
    kept = sorted((tmp_path / "split-2" / "splits").iterdir())
    kept[0].write_bytes(b"damaged")
    result = run("merge", "split-3", "split-2", "split-1", "-o", "whole")
    assert result.returncode == 3
    assert "are missing or damaged: recount shard 2/3" in result.stderr
    assert run("profile", "shards", "--shard", "2/3", "-o", "split-2").returncode == 0
    assert run("merge", "split-3", "split-2", "split-1", "-o", "whole").returncode == 0
    (shards / "9.txt.gz").unlink()
    assert run("profile", "shards", "--shard", "2/3", "-o", "split-2").returncode == 0
    result = run("merge", "split-1", "split-2", "split-3", "-o", "whole")
    assert result.returncode == 3
    assert "cannot be merged: the corpus was not the same (shards/9.txt.gz)" in result.stderr


@pytest.mark.parametrize("order", [["1", "1-copy", "2"], ["1-copy", "2", "1"]])
def test_a_shard_and_its_damaged_copy(run: Command, shards, tmp_path, order):
    (shards / "3.txt.gz").unlink()
    for i in (1, 2):
        assert run("profile", "shards", "--shard", f"{i}/2", "-o", f"split-{i}").returncode == 0
    shutil.copytree(tmp_path / "split-1", tmp_path / "split-1-copy")
    for path in (tmp_path / "split-1-copy" / "splits").iterdir():
        path.write_bytes(b"damaged")
    result = run("merge", *(f"split-{each}" for each in order), "-o", "whole")
    assert result.returncode == 0, result.stderr
    assert "9 samples" not in result.stdout
    assert "1,800 samples" in result.stdout


def test_a_shard_counted_twice_of_what_is_another(run: Command, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("one word\n")
    for i in (1, 2):
        assert run("profile", ".", "--shard", f"{i}/2", "-o", f"out/{i}").returncode == 0
    (tmp_path / "a.txt").write_text("one work\n")
    assert run("profile", ".", "--shard", "1/2", "-o", "out/again").returncode == 0
    result = run("merge", "out/1", "out/again", "out/2", "-o", "whole")
    assert result.returncode == 3
    assert "a.txt changed between out/again and another shard" in result.stderr


def test_a_shard_of_one_part_has_a_log_too(run: Command, tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"some words\n" * 99)[:-9])
    result = run("profile", "a.txt.gz", "--shard", "1/1", "-o", "split")
    assert result.returncode == 3
    assert "error: 1 split failed after 3 attempts: a.txt.gz is cut short" in result.stderr
    assert "or pass --allow-partial" in result.stderr
    assert (tmp_path / "split" / "profile.log").read_text().count("FAILED  a.txt.gz, try") == 3


@pytest.mark.parametrize("written", ["0/3", "4/3", "3", "a/b", "-1/3", "1/0", "1/3/5"])
def test_a_shard_that_cannot_be(run: Command, shards, written):
    result = run("profile", shards, "--shard", written, "-o", "split")
    assert result.returncode == 2
    assert f"shard={written}: must be I/N with 1 ≤ I ≤ N" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--executor", "spark"], "unknown executor 'spark'"),
        (["--executor", "dask"], "needs a scheduler: pass --scheduler"),
        (["--scheduler", "tcp://x:1"], "--scheduler needs --executor dask"),
        (
            ["--executor", "dask", "--scheduler", "tcp://x:1", "--workers", "2"],
            "does not apply to --executor dask",
        ),
        (
            ["--executor", "dask", "--scheduler", "head"],
            "scheduler=head: must be an address with a",
        ),
        (
            ["--executor", "dask", "--scheduler", "tcp://head"],
            "with a port, such as tcp://head:8786",
        ),
    ],
)
def test_executors_that_cannot_be(run: Command, shards, options, message):
    result = run("profile", shards, *options)
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.slow
def test_the_first_record_that_is_wrong_ends_the_run(run: Command, tmp_path):
    for i in range(30):
        bad = '{"text": \n' if i in (20, 7, 25) else ""
        (tmp_path / f"{i:02}.jsonl").write_text('{"text": "some words"}\n' * 50 + bad)
    for options in ([], ["--workers", 1], ["--executor", "processes", "--workers", 2]):
        result = run("profile", *sorted(tmp_path.glob("*.jsonl")), "--no-plots", *options)
        assert result.returncode == 3
        assert "07.jsonl, line 51: malformed JSON" in result.stderr
    result = run("profile", *sorted(tmp_path.glob("*.jsonl")), "--no-plots", "--allow-partial")
    assert result.returncode == 0
    assert "3 splits could not be counted" in result.stdout


def sources_of(folder: Path, count: int) -> tuple[Source, ...]:
    for i in range(count):
        (folder / f"{i}.txt").write_text(f"some words {i}\n")
    return find_sources(sorted(folder.glob("*.txt")))


def kill_once_and_always(flag: Path, given, split):
    """A worker that ends at once, when it is first to count a certain split, and always for
    another.
    """
    if split.source.path.endswith("1.txt") and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return kill_always(flag, given, split)


def kill_always(_: Path, given, split):
    """A worker that ends at once, whenever it is to count a certain split."""
    if split.source.path.endswith("3.txt"):
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return count_split(given, split)


@contextmanager
def spawned():
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        yield pool


@pytest.mark.slow
def test_processes_that_come_to_a_sudden_end(tmp_path, monkeypatch):
    sources = sources_of(tmp_path, 6)
    monkeypatch.setattr(
        "batchstat.profiling.scheduler.count_split",
        partial(kill_once_and_always, tmp_path / "flag"),
    )
    executor = CountingExecutor("processes", spawned, 2, 1)
    options = CorpusOptions()
    cache = CountCache(str(tmp_path / "splits"))
    job = CountTask(options, load_tokenizer("builtin"), cache, 1)
    run = Scheduler(splits_of(sources, options), job, executor, RunOptions())
    run.count()
    assert (tmp_path / "flag").exists()
    assert sorted(run.failed) == [3]
    assert sorted(run.done) == [0, 1, 2, 4, 5]
    assert all("died unexpectedly" in why for why in run.failed.values())


class Answering(Executor):
    """It counts here, as if elsewhere, and changes what is answered."""

    def __init__(self, change):
        self.change, self.answers = change, []

    def submit(self, work, given, split):
        future: Future[object] = Future()
        try:
            self.answers.append(work(given, split))
            future.set_result(self.change(self.answers))
        except BaseException as error:
            future.set_exception(error)
        return future


class Mute:
    def __repr__(self):
        raise RuntimeError("it does not say")


class MuteError(Exception):
    def __str__(self):
        raise ValueError("it does not say")


def raising(error: BaseException):
    def change(_):
        raise error

    return change


def changed(**fields):
    return lambda answers: replace(answers[-1], **fields)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: None, "answered NoneType, not counts"),
        (lambda answers: asdict(answers[-1]), "answered dict, not counts"),
        (lambda answers: answers[0], "answered with the counts of another split"),
        (changed(key="../../secret"), "answered with the counts of another split"),
        (changed(content=("x",)), "answered with the counts of another split"),
        (changed(content=(1,)), "content that is not text"),
        (changed(key=None), "answered with key=None"),
        (changed(samples=-1), "-1 samples"),
        (changed(samples=True), "samples=True"),
        (changed(samples="3"), "samples='3'"),
        (changed(tokens=-(10**30)), "of -1000000000000000000000000000000 tokens"),
        (changed(tokens=1.5), "tokens=1.5"),
        (changed(samples=10**5000), "a number of thousands of digits samples"),
        (changed(samples=2**62), f"{2**62} samples"),
        (changed(tokens=2**62), f"of {2**62} tokens"),
        (changed(worker=Mute()), "worker=<Mute instance at"),
        (lambda answers: object.__new__(type(answers[0])), "answered with key=None"),
        (changed(difference=None), "difference=None"),
        (raising(SystemExit(0)), "could not be counted: SystemExit: 0"),
        (raising(MuteError()), "could not be counted: MuteError: MuteError"),
    ],
)
def test_answers_that_cannot_be(tmp_path, monkeypatch, change, message):
    """Whoever counts elsewhere may answer anything: it is tried again, and then it has failed."""
    monkeypatch.setattr("batchstat.profiling.scheduler._PAUSE_SECONDS", 0)
    sources = sources_of(tmp_path, 2)
    executor = wrap_executor(Answering(change))
    run = RunOptions(executor=executor, on_warning=lambda _: None)
    with pytest.raises(InputError, match=re.escape(message)):
        build(Corpus(sources, CorpusOptions(), load_tokenizer("builtin")), run)


def stored(change):
    """A worker that stores other counts under the right key, and answers as it should."""

    def answered(answers):
        cache = CountCache(str(Path("counts").absolute()))
        counts = cache.get(answers[-1].key)
        if len(answers) < 3:
            profile = counts.profile
            first = cache.get(answers[0].key).profile
            cache.put(answers[-1].key, replace(counts, profile=change(profile, first)))
        return answers[-1]

    return answered


@pytest.mark.parametrize(
    "change",
    [
        lambda found, _: replace(found, lengths=found.lengths + 1),
        lambda found, _: replace(found, lengths=found.lengths[:0], records=found.records[:0]),
        lambda found, _: replace(found, corpus=replace(found.corpus, options=CorpusOptions("a"))),
        lambda found, _: replace(found, labels=Labels(np.zeros(len(found), np.int64), ("x",))),
        lambda found, first: (
            replace(found, tokenizer=replace(first.tokenizer, name="other"))
            if found.corpus != first.corpus
            else found
        ),
        lambda _, first: first,
    ],
)
def test_counts_of_something_else_in_the_cache_are_counted_again(tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    sources = sources_of(tmp_path, 2)
    executor = wrap_executor(Answering(stored(change)))
    cache = CountCache(str(tmp_path / "counts"))
    run = RunOptions(executor=executor, count_cache=cache, on_warning=lambda _: None)
    corpus = Corpus(sources, CorpusOptions(), load_tokenizer("builtin"))
    found = build(corpus, run)
    expected = build(corpus, RunOptions())
    assert replace(found.corpus, options=expected.corpus.options) == expected.corpus
    assert found.lengths.tolist() == expected.lengths.tolist()
    assert found.tokenizer == expected.tokenizer
    assert found.labels is None


def fail_once_then_kill(flag: Path, given, split):
    """The first split cannot be read at first; the last one always ends its worker."""
    if split.source.path.endswith("0.txt"):
        try:
            flag.touch(exist_ok=False)
        except FileExistsError:
            return count_split(given, split)
        raise SourceError("not now")
    return kill_always(flag, given, split)


@pytest.mark.slow
def test_what_is_to_be_tried_again_is_not_forgotten_with_an_executor(tmp_path, monkeypatch):
    sources = sources_of(tmp_path, 4)
    own = partial(fail_once_then_kill, tmp_path / "flag")
    monkeypatch.setattr("batchstat.profiling.scheduler.count_split", own)
    store = CountCache(str(tmp_path / "splits"))
    job = CountTask(CorpusOptions(), load_tokenizer("builtin"), store, 1)
    run = Scheduler(
        splits_of(sources, CorpusOptions()),
        job,
        CountingExecutor("processes", spawned, 1, 1),
        RunOptions(),
    )
    run.count()
    assert sorted(run.done) == [0, 1, 2]
    assert sorted(run.failed) == [3]


def test_a_disk_that_is_full_ends_the_run(tmp_path, monkeypatch):
    """Nobody counts fifty thousand shards to keep none of them."""
    sources = sources_of(tmp_path, 50)
    tries = []

    def write(store: CountCache, name: str, content: bytes) -> None:
        tries.append(name)
        if len(set(tries)) > 7:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        kept(store, name, content)

    kept = CountCache.write
    monkeypatch.setattr(CountCache, "write", write)
    monkeypatch.setattr("batchstat.profiling.cache._PAUSE_SECONDS", 0)
    options, store = CorpusOptions(), CountCache(str(tmp_path / "splits"))
    run = RunOptions(executor=threads(2), count_cache=store, allow_partial=True)
    with pytest.raises(
        StorageFullError, match=r"counts of .*txt cannot be stored in .*splits: No space"
    ):
        build(Corpus(sources, options, load_tokenizer("builtin")), run)
    assert len(list(store.folder.glob("*.counts"))) == 7
    assert len(set(tries)) <= 7 + 4
    assert max(Counter(tries).values()) == 3


def test_a_cache_that_is_full_is_done_without(tmp_path, monkeypatch):
    sources = sources_of(tmp_path, 5)
    full, kept = CountCache(str(tmp_path / "cache"), is_optional=True), CountCache.write

    def write(store: CountCache, name: str, content: bytes) -> None:
        if store == full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        kept(store, name, content)

    monkeypatch.setattr(CountCache, "write", write)
    monkeypatch.setattr("batchstat.profiling.cache._PAUSE_SECONDS", 0)
    warned: list[str] = []
    run = RunOptions(count_cache=full, on_warning=warned.append)
    found = build(Corpus(sources, CorpusOptions(), load_tokenizer("builtin")), run)
    assert found.lengths.tolist() == [3] * 5
    assert len(warned) == 1
    assert "cache: No space left on device: recounting without the cache" in str(warned[0])


def test_standard_input_is_not_counted_again_when_it_is_over(run: Command, tmp_path, monkeypatch):
    kept, cache = CountCache.write, str(tmp_path / "cache")

    def write(store: CountCache, name: str, content: bytes) -> None:
        if content and store.address == cache:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        kept(store, name, content)

    monkeypatch.setattr(CountCache, "write", write)
    monkeypatch.setattr("batchstat.profiling.cache._PAUSE_SECONDS", 0)
    result = run("profile", "-", "--no-plots", stdin=b"some words\n", BATCHSTAT_CACHE_DIR=cache)
    assert result.returncode == 3
    assert "error: the counts of standard input cannot be stored in" in result.stderr
    assert "no sample" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("guard", ["", 'if __name__ == "__main__":\n    '])
def test_a_script_without_a_main_guard_is_told_so(tmp_path, guard):
    """Its processes would start processes of their own, each with a traceback."""
    sources_of(tmp_path, 2)
    (tmp_path / "script.py").write_text(
        "import batchstat\nhow = {'executor': 'processes', 'workers': 1}\n"
        f"{guard}print(len(batchstat.profile('.', **how)))\n"
    )
    result = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    if guard:
        assert result.returncode == 0, result.stderr
        assert int(result.stdout) > 0
        return
    assert result.returncode == 1
    assert result.stderr.count("Traceback") == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("batchstat.errors.InputError: processes run a script again")
    assert 'if __name__ == "__main__":, or use executor="threads"' in last


class Broken(ThreadPoolExecutor):
    """Its processes have come to an end before they are given the split that ended others."""

    def submit(self, *_):
        raise BrokenExecutor("all gone")


def test_an_executor_that_is_found_broken(tmp_path):
    sources = sources_of(tmp_path, 1)
    begun: list[Executor] = []

    @contextmanager
    def start():
        begun.append(Broken(1) if len(begun) < 2 else ThreadPoolExecutor(1))
        yield begun[-1]

    executor = CountingExecutor("processes", start, 1, 1, in_process=True)
    found = build(
        Corpus(sources, CorpusOptions(), load_tokenizer("builtin")), RunOptions(executor=executor)
    )
    assert (len(begun), found.lengths.tolist()) == (3, [3])


def test_how_far_it_has_come():
    """What was kept is no work of this run, and what is begun again is work twice."""
    splits = [Split(Source(f"{i}.txt", 10, "", "txt"), 0, 10) for i in range(3)]
    seen: list[Progress] = []
    meter = ProgressTracker(splits, seen.append)
    meter.note_done(0, 100, 1_000, was_cached=True)
    meter.note(splits[1], CountedAmount(4, 40, 400))
    meter.note(splits[1], CountedAmount(6, 60, 600))
    meter.note(splits[1], CountedAmount(4, 40, 400))  # at another try
    meter.note_done(1, 100, 1_000, was_cached=False)
    meter.begin_again()
    meter.note_done(2, 100, 1_000, was_cached=False)
    assert [each.bytes for each in seen] == [10, 14, 16, 14, 20, 10]
    assert [each.work.bytes for each in seen] == [0, 4, 6, 10, 16, 26]
    assert seen[-1] == Progress(10, 30, CountedAmount(26, 260, 2_600))


def test_an_executor_that_is_lost_again_and_again(tmp_path):
    sources = sources_of(tmp_path, 3)

    @contextmanager
    def start():
        with ThreadPoolExecutor(1) as pool:
            pool.submit = lambda *_: (_ for _ in ()).throw(ExecutorLostError("gone"))  # type: ignore
            yield pool

    with pytest.raises(InputError, match="cluster was lost 3 times: gone"):
        build(
            Corpus(sources, CorpusOptions(), load_tokenizer("builtin")),
            RunOptions(executor=CountingExecutor("cluster", start, 2, 1, in_process=True)),
        )


def test_a_worker_with_other_versions_is_refused(tmp_path):
    (source,) = sources_of(tmp_path, 1)
    store = CountCache(str(tmp_path / "splits"))
    job = CountTask(CorpusOptions(), load_tokenizer("builtin"), store, 1, versions={"pyarrow": "1"})
    with pytest.raises(InputError, match="has other versions; the run began with"):
        count_split(job, *splits_of([source], CorpusOptions()))


def test_a_job_that_is_another_is_not_loaded(tmp_path):
    (source,) = sources_of(tmp_path, 1)
    store = CountCache(str(tmp_path / "splits"))
    with RemoteTask.sent(CountTask(CorpusOptions(), load_tokenizer("builtin"), store, 1)) as sent:
        content = (store.folder / sent.name).read_bytes()
        (store.folder / sent.name).write_bytes(pickle.dumps("something else"))
        (split,) = splits_of([source], CorpusOptions())
        with pytest.raises(InputError, match="is damaged"):
            count_split(sent, split)
        (store.folder / sent.name).write_bytes(content)
        assert count_split(sent, split).samples == 1
    assert [path.suffix for path in store.folder.iterdir()] == [".counts"]


@pytest.mark.parametrize("name", ["builtin", "two_words", "python", "chat"])
def test_a_tokenizer_travels(name, two_words, monkeypatch):
    from transformers import ByT5Tokenizer

    from batchstat.tokenization.chats.chat import with_chat_template
    from batchstat.tokenization.loading.load import as_tokenizer

    known = {
        "builtin": lambda: load_tokenizer("builtin"),
        "two_words": lambda: load_tokenizer(str(two_words)),
        "python": lambda: as_tokenizer(ByT5Tokenizer()),
        "chat": lambda: with_chat_template(load_tokenizer("builtin"), None),
    }
    monkeypatch.undo()  # loaded again there, as in another process
    here = known[name]()
    there = pickle.loads(pickle.dumps(here))  # noqa: S301
    for field in ("name", "digest", "library", "max_length", "special_tokens_per_sample"):
        assert getattr(there, field) == getattr(here, field)
    if name == "chat":
        chat = [([{"role": "user", "content": "some words"}], NO_INPUTS)]
        assert there.render_chats(chat) == here.render_chats(chat)
    else:
        texts = ["some words", "words"]
        assert list(map(len, there.encoder.encode(texts))) == list(
            map(len, here.encoder.encode(texts))
        )


def test_any_executor_counts(tmp_path):
    sources_of(tmp_path, 5)
    paths = sorted(tmp_path.glob("*.txt"))
    expected = batchstat.profile(paths)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = batchstat.profile(paths, executor=pool, count_cache=tmp_path / "splits")
    assert found.corpus == expected.corpus
    assert found.lengths.tolist() == expected.lengths.tolist()
    assert len(list((tmp_path / "splits").glob("*.counts"))) == 5
    assert not list((tmp_path / "splits").glob("*.job"))
    with ThreadPoolExecutor(2) as pool:
        assert batchstat.profile(paths, executor=pool).lengths.tolist() == found.lengths.tolist()
        assert wrap_executor(pool).in_process


def test_what_vanishes_between_tries_is_named(tmp_path):
    sources = sources_of(tmp_path, 3)
    (tmp_path / "1.txt").unlink()
    corpus = Corpus(sources, CorpusOptions(), load_tokenizer("builtin"))
    with pytest.raises(InputError, match=r"1 of 3 splits failed.*1\.txt no longer exists"):
        build(corpus, RunOptions(executor=threads(2)))
    partial = build(corpus, RunOptions(executor=threads(2), allow_partial=True))
    assert len(partial) == 2
    assert not issubclass(InputError, SourceError)
    assert partial.corpus.failed == (f"{tmp_path.as_posix()}/1.txt no longer exists",)


def test_an_address_that_nothing_is_installed_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(InputError, match=r"pip install '\.\[remote\]' in a clone"):
        find_sources(["s3://bucket/a.txt"])


def test_dask_that_is_not_installed(monkeypatch):
    from batchstat.profiling.executors.dask import dask

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(batchstat.OptionError, match=r"pip install '\.\[dask\]' in a clone"):
        dask("tcp://head:8786")


def test_an_executor_of_the_callers_that_does_nothing_more(tmp_path):
    sources_of(tmp_path, 3)
    paths = sorted(tmp_path.glob("*.txt"))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        with pytest.raises(BrokenExecutor):
            pool.submit(os._exit, 1).result()
        with pytest.raises(InputError, match="is broken"):
            batchstat.profile(paths, executor=pool)
    with pytest.raises(InputError, match="is broken"):
        batchstat.profile(paths, executor=pool)


class Wrong:
    """Counts by pieces: too many for one text, and finds that out by another."""

    def count(self, first, _):
        if "finds out" in first.to_pylist():
            raise MiscountError("a text that differs")
        return np.full(len(first), 99)


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_pieces_that_are_wrong_count_nowhere(tmp_path, order):
    (tmp_path / "a.txt").write_text("some words\n")
    (tmp_path / "b.txt").write_text("finds out\n")
    builtin = load_tokenizer("builtin")
    # Tests share it, and may have loaded the engine, which would count before the pieces do.
    wrong = {"pieces": Wrong(), "engine": None}
    loaded = replace(builtin, load=lambda: replace(builtin.encoder, **wrong))
    options, store = CorpusOptions(), CountCache(str(tmp_path / "splits"))
    expected = batchstat.profile(sorted(tmp_path.glob("*.txt"))).lengths.tolist()
    sources = {name: find_sources([tmp_path / f"{name}.txt"]) for name in "ab"}
    shards = []
    for i, name in enumerate(order, 1):
        run = RunOptions(count_cache=store, on_warning=lambda _: None)
        if name == "a":
            assert build(Corpus(sources["a"], options, loaded), run).lengths.tolist() == [99]
        else:
            build(Corpus(sources["b"], options, loaded), run)
        folder = tmp_path / f"split-{i}"
        own = RunOptions(count_cache=CountCache(str(folder / "splits")), on_warning=lambda _: None)
        both = (*sources["a"], *sources["b"])
        shard = count_shard(Corpus(both, options, loaded), ShardSpec(i, 2), own)
        (folder / "shard.json").write_text(json.dumps(shard.to_json()))
        shards.append(folder)
    warned: list[str] = []
    both = (*sources["a"], *sources["b"])
    found = build(
        Corpus(both, options, loaded), RunOptions(count_cache=store, on_warning=warned.append)
    )
    assert found.lengths.tolist() == expected
    assert "recounting without shortcuts" in str(warned[0])
    with pytest.raises(InputError, match="a shortcut of counting was wrong in one of them"):
        merge(shards)


KEY = "0" * 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counted": {"2": [KEY, 1]}}, "lists splits of other shards"),
        ({"shards": 0}, "1 ≤ I ≤ N"),
        ({"versions": {"python": "2.7"}}, "different versions of"),
        ({"schema": "other"}, "has schema other, but this batchstat reads"),
        ({"counted": None}, "counted is None: must be an object"),
        ({"counted": {"1": [KEY, "1"]}}, "counted.1[1] is '1': must be a whole number"),
        ({"counted": {"1": [KEY, -1]}}, "counted.1[1] is -1: must be between"),
        ({"counted": {"1": ["../ab", 1]}}, "counted.1[0] is ../ab: must be a SHA-256"),
        ({"counted": {"01": [KEY, 1]}}, "whose keys are whole numbers"),
        ({"created": 5}, "created is 5: must be text"),
        ({"created": "yesterday"}, "created is 'yesterday': must be a time with its zone"),
        ({"created": "2025-01-31T12:00:00"}, "must be a time with its zone"),
        ({"versions": []}, "versions is []: must be an object"),
        ({"shortcuts": 1}, "shortcuts is 1: must be true or false"),
        ({"sources": [{"path": "a"}]}, "sources[0].bytes is missing"),
        ({"more": 1}, "more is unknown"),
    ],
)
def test_a_shard_that_says_what_cannot_be(run: Command, shards, tmp_path, change, message):
    (shards / "3.txt.gz").unlink()
    for i in (1, 2):
        assert run("profile", "shards", "--shard", f"{i}/2", "-o", f"split-{i}").returncode == 0
    path = tmp_path / "split-2" / "shard.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"shard": 1}))
    assert "damaged or edited: its digest differs" in run("merge", "split-1", "split-2").stderr
    path.write_text(json.dumps(resealed(record, **change)))
    result = run("merge", "split-1", "split-2", "-o", "whole")
    assert result.returncode in (2, 3)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "whole").exists()


def test_data_in_a_folder_of_results_is_still_data(run: Command, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "some words"}\n')
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "b.jsonl").write_text('{"text": "some words"}\n')
    for _ in range(2):
        assert run("profile", ".", "--shard", "1/1", "-o", ".").returncode == 0
        result = run("profile", ".", "-o", ".", "--no-plots", "--json")
        assert result.returncode == 0, result.stderr
        sources = json.loads(result.stdout)["corpus"]["sources"]
        assert [source["path"] for source in sources] == ["a.jsonl", "splits/b.jsonl"]
    result = run("profile", ".", "--shard", "1/1", "--count-cache", "x", "-o", "y")
    assert result.returncode == 2
    assert "remove --count-cache" in result.stderr


def test_the_log_has_every_try(run: Command, tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"some words\n" * 99)[:-9])
    (tmp_path / "b.txt").write_text("some words\n")
    assert run("profile", "a.txt.gz", "b.txt", "--allow-partial", "--no-plots").returncode == 0
    log = (tmp_path / "batchstat-results" / "profile.log").read_text()
    assert [f"try {i}" in log for i in (1, 2, 3)] == [True] * 3


@pytest.mark.parametrize("arguments", [["-o"], ["a.txt", "--count-cache"], ["a.txt", "-o"], []])
@pytest.mark.parametrize("password", ["open%20sesame", "open/sesame", "op@n:sesame", "12sesame"])
def test_a_password_is_not_kept(run, tmp_path, arguments, password):
    (tmp_path / "a.txt").write_text("a word\n")
    result = run("profile", *arguments, f"sftp://someone:{password}@host/folder")
    assert result.returncode in (2, 3)
    assert "sftp://…@host/folder" in result.stderr
    assert "sesame" not in result.stderr
    assert "someone" not in result.stderr


@pytest.mark.cluster  # where what reads addresses is installed
@pytest.mark.parametrize("option", ["-o", "--count-cache"])
def test_what_is_written_to_is_no_pattern(run, tmp_path, option):
    needs("upath")
    (tmp_path / "a.txt").write_text("a word\n")
    result = run("profile", "a.txt", option, f"file://{tmp_path}/out-[1]")
    assert result.returncode == 3
    assert f"file://{tmp_path}/out-[1] is a pattern: an address to write to cannot" in result.stderr


def test_where_counts_cannot_be_kept_it_says_why(run, tmp_path):
    (tmp_path / "a.txt").write_text("a word\n")
    result = run("profile", "a.txt", "--count-cache", "a.txt/splits")
    assert result.returncode == 3
    assert "a.txt/splits cannot be written: " in result.stderr
    assert result.stderr.endswith(": pass another folder with --count-cache\n")


def test_the_library_counts_as_the_command_does(tmp_path):
    """Executors by name, parts that cannot be read, progress: all that the command has."""
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text("some words\n" * (i + 1))
    (tmp_path / "3.txt.gz").write_bytes(gzip.compress(b"cut short\n" * 99)[:-9])
    seen: list[int] = []
    warned: list[batchstat.Finding] = []
    counted = batchstat.profile(
        sorted(tmp_path.iterdir()),
        executor="processes",
        workers=2,
        allow_partial=True,
        on_progress=lambda progress: seen.append(progress.bytes),
        on_warning=warned.append,
    )
    assert len(counted) == 6
    assert len(counted.corpus.failed) == 1
    assert seen
    assert seen == sorted(seen)
    with pytest.raises(batchstat.OptionError, match="unknown executor 'proceses': did you mean"):
        batchstat.profile([tmp_path / "0.txt"], executor="proceses")
