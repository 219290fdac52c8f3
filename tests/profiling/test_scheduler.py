"""Splits that cannot be counted: named, left out only where that is asked for."""

import errno
import gzip
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest

import batchstat
from batchstat.corpus.chat import NO_INPUTS
from batchstat.corpus.files.sources import Source, find_sources
from batchstat.corpus.files.splits import Split, splits_of
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError, StorageFullError
from batchstat.lengths.labels import Labels
from batchstat.profiling.build import build
from batchstat.profiling.cache import CountCache
from batchstat.profiling.inputs import Corpus
from batchstat.profiling.parquet import read_file
from batchstat.profiling.progress import CountedAmount, Progress, ProgressTracker
from batchstat.profiling.run_options import RunOptions
from batchstat.profiling.scheduler import Scheduler
from batchstat.profiling.tasks import CountingExecutor, CountTask, MemoryBudget, SplitResult
from batchstat.profiling.worker import count_split
from batchstat.tokenization.counting.count_check import MiscountError
from batchstat.tokenization.loading.load import load_tokenizer
from conftest import ROOT, check_schema, environment, needs
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


def counts_in(folder: Path) -> dict[str, bytes]:
    """What is kept there: counted again, a split would have another time of creation."""
    return {path.name: path.read_bytes() for path in folder.glob("*.counts")}


def test_a_shard_that_is_cut_short_is_named_and_the_others_are_counted(
    run: Command, shards, tmp_path
):
    kept = ["--count-cache", "kept"]
    result = run("profile", "shards", "--no-plots", *kept)
    assert result.returncode == 3
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: 1 of 10 splits failed: shards/3.txt.gz is cut short")
    assert "--allow-partial" in line
    before = counts_in(tmp_path / "kept")
    assert len(before) == 9
    assert not (tmp_path / "batchstat-results" / "profile.json").exists()
    # Mended, only what is missing is counted.
    (shards / "3.txt.gz").write_bytes(gzip.compress(b"mended\n"))
    assert run("profile", "shards", "--no-plots", *kept).returncode == 0
    after = counts_in(tmp_path / "kept")
    assert (len(after), before.items() <= after.items()) == (10, True)


def test_every_shard_that_failed_is_listed(run: Command, shards):
    (shards / "7.txt.gz").write_bytes(b"\x1f\x8bno gzip at all")
    result = run("profile", "shards", "--no-plots")
    assert result.returncode == 3
    first, second, error = result.stderr.splitlines()
    assert first.startswith("warning: not counted: shards/3.txt.gz is cut short")
    assert second.startswith("warning: not counted: shards/7.txt.gz is damaged")
    assert error.startswith("error: 2 of 10 splits failed: shards/3.txt.gz")


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--executor spark", "unknown executor 'spark'"),
        ("--executor dask", "needs a scheduler: pass --scheduler"),
        ("--scheduler tcp://x:1", "--scheduler needs --executor dask"),
        ("--executor dask --scheduler tcp://x:1 --workers 2", "does not apply to --executor dask"),
        ("--executor dask --scheduler head", "scheduler=head: must be an address with a"),
        ("--executor dask --scheduler tcp://head", "with a port, such as tcp://head:8786"),
    ],
)
def test_executors_that_cannot_be(run: Command, shards, options, message):
    result = run("profile", shards, *options.split())
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "more"),
    [(["--count-cache", "kept"], ", which counts only what is missing"), (["--no-cache"], "")],
)
def test_a_process_that_is_killed_ends_the_run(run: Command, tmp_path, monkeypatch, kept, more):
    """As the kernel does where memory is full: in one line; what was counted is kept."""
    (tmp_path / "many").mkdir()
    for i in range(40):
        (tmp_path / "many" / f"{i:02}.txt").write_text(f"some words of {i}\n" * 5_000)
    note_done = ProgressTracker.note_done

    def noting(*given: object, **named: object) -> None:
        for process in active_children()[:1]:
            process.kill()
        note_done(*given, **named)

    how = ["--executor", "processes", "--workers", 2, *kept, "--no-plots"]
    with monkeypatch.context() as patch:
        patch.setattr(ProgressTracker, "note_done", noting)
        result = run("profile", "many", *how)
    assert result.returncode == 3
    said = [line for line in result.stderr.splitlines() if not line.startswith("counting: ")]
    assert said == [
        "error: a process that counts has died, possibly as memory was full: run again with fewer "
        f"--workers{more}"
    ]
    assert active_children() == []
    assert not (tmp_path / "batchstat-results" / "profile.json").exists()
    before = counts_in(tmp_path / "kept")
    assert len(before) < 40
    assert bool(before) == bool(more)
    result = run("profile", "many", *how)
    assert result.returncode == 0, result.stderr
    after = counts_in(tmp_path / "kept")
    assert (len(after), before.items() <= after.items()) == (40 if more else 0, True)
    found = read_file(tmp_path / "batchstat-results" / "lengths.parquet")
    assert found.lengths.tolist() == batchstat.profile(tmp_path / "many").lengths.tolist()


class MuteError(Exception):
    def __str__(self):
        raise ValueError("it does not say")


@pytest.mark.parametrize("in_process", [False, True])
def test_an_error_that_says_nothing(tmp_path, in_process):
    """Elsewhere it may be the fault of that machine; here it is a bug."""
    sources = sources_of(tmp_path, 2)

    def submit(_: Split) -> "Future[SplitResult]":
        future: Future[SplitResult] = Future()
        future.set_exception(MuteError())
        return future

    executor = CountingExecutor(lambda _: nullcontext(submit), 1, in_process=in_process)
    cache = CountCache(str(tmp_path / "splits"))
    task = CountTask(CorpusOptions(), load_tokenizer("builtin"), cache, 1)
    counting = Scheduler(splits_of(sources, CorpusOptions()), task, executor, RunOptions())
    if in_process:
        with pytest.raises(MuteError):
            counting.count()
    else:
        counting.count()
        why = [f"{source.shown} could not be counted: MuteError: MuteError" for source in sources]
        assert counting.failed == dict(enumerate(why))


def stored(change):
    """A worker that stores other counts under the right key, at its first two splits."""
    answers: list[SplitResult] = []

    def count(task: CountTask, split: Split) -> SplitResult:
        answers.append(count_split(task, split))
        key, first_key = answers[-1].key, answers[0].key
        if len(answers) < 3:
            counts, first = task.cache.get(key), task.cache.get(first_key)
            task.cache.put(key, replace(counts, profile=change(counts.profile, first.profile)))
        return answers[-1]

    return count


@pytest.mark.parametrize(
    "change",
    [
        lambda found, _: replace(found, lengths=found.lengths + 1),
        lambda found, _: replace(
            found, corpus=replace(found.corpus, options=CorpusOptions(strip=True))
        ),
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
    corpus = Corpus(sources_of(tmp_path, 2), CorpusOptions(), load_tokenizer("builtin"))
    expected = build(corpus, RunOptions())
    monkeypatch.setattr("batchstat.profiling.executors.local.count_split", stored(change))
    monkeypatch.setattr(MemoryBudget, "take", lambda *_: False)  # all are read from the cache
    cache = CountCache(str(tmp_path / "counts"))
    found = build(corpus, RunOptions(workers=1, count_cache=cache))
    assert replace(found.corpus, options=expected.corpus.options) == expected.corpus
    assert found.lengths.tolist() == expected.lengths.tolist()
    assert found.tokenizer == expected.tokenizer
    assert found.labels is None


def fill_disk(monkeypatch: pytest.MonkeyPatch, folder: Path, room: int = 0) -> list[str]:
    """Only so many files fit in a folder any more. Returns the names of all that are tried."""
    kept, tries = CountCache.write, list[str]()

    def write(store: CountCache, name: str, content: bytes) -> None:
        if content and store.address == str(folder):
            tries.append(name)
            if len(set(tries)) > room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        kept(store, name, content)

    monkeypatch.setattr(CountCache, "write", write)
    monkeypatch.setattr("batchstat.profiling.cache._PAUSE_SECONDS", 0)
    return tries


def test_a_disk_that_is_full_ends_the_run(tmp_path, monkeypatch):
    """Nobody counts fifty thousand files to keep none of them; with room, a run goes on."""
    sources_of(tmp_path, 50)
    store = tmp_path / "splits"
    how = {"workers": 2, "count_cache": store, "allow_partial": True}
    with monkeypatch.context() as patch:
        tries = fill_disk(patch, store, room=7)
        with pytest.raises(
            StorageFullError, match=r"counts of .*txt cannot be stored in .*splits: No space"
        ):
            batchstat.profile(tmp_path / "*.txt", **how)
        # While the disk is still full: the other thread may be about to try its last file again.
        kept = counts_in(store)
    assert len(kept) == 7
    assert len(set(tries)) <= 7 + 4
    assert max(Counter(tries).values()) == 3
    assert len(batchstat.profile(tmp_path / "*.txt", **how)) == 50
    assert kept.items() <= counts_in(store).items()


def test_a_cache_that_is_full_is_done_without(run: Command, tmp_path, monkeypatch):
    """Standard input is over by then, and is not counted again."""
    (tmp_path / "a.txt").write_text("some words\n")
    fill_disk(monkeypatch, tmp_path / "cache")
    kept = {"BATCHSTAT_CACHE_DIR": str(tmp_path / "cache")}
    result = run("profile", "a.txt", "--no-plots", **kept)
    assert result.returncode == 0
    (warned,) = (line for line in result.stderr.splitlines() if line.startswith("warning: "))
    assert "cache: No space left on device: recounting without the cache" in warned
    result = run("profile", "-", "--no-plots", stdin=b"some words\n", **kept)
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


def test_how_far_it_has_come():
    """What was kept is no work of this run, and what is begun again is work twice."""
    splits = [Split(Source(f"{i}.txt", 10, "", "txt"), 0, 10) for i in range(3)]
    seen: list[Progress] = []
    meter = ProgressTracker(splits, seen.append)
    meter.note_done(0, 100, 1_000, was_cached=True)
    meter.note(splits[1], CountedAmount(4, 40, 400))
    meter.note(splits[1], CountedAmount(6, 60, 600))
    meter.note(splits[1], CountedAmount(4, 40, 400))  # again, without shortcuts
    meter.note_done(1, 100, 1_000, was_cached=False)
    meter.begin_again()
    meter.note_done(2, 100, 1_000, was_cached=False)
    assert [each.bytes for each in seen] == [10, 14, 16, 14, 20, 10]
    assert [each.work.bytes for each in seen] == [0, 4, 6, 10, 16, 26]
    assert seen[-1] == Progress(10, 30, CountedAmount(26, 260, 2_600))


def test_a_worker_with_other_versions_is_refused(tmp_path):
    (source,) = sources_of(tmp_path, 1)
    store = CountCache(str(tmp_path / "splits"))
    job = CountTask(CorpusOptions(), load_tokenizer("builtin"), store, 1, versions={"pyarrow": "1"})
    with pytest.raises(InputError, match="has other versions; the run began with"):
        count_split(job, *splits_of([source], CorpusOptions()))


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


def test_what_vanishes_before_it_is_counted_is_named(tmp_path):
    corpus = Corpus(sources_of(tmp_path, 3), CorpusOptions(), load_tokenizer("builtin"))
    (tmp_path / "1.txt").unlink()
    with pytest.raises(InputError, match=r"1 of 3 splits failed.*1\.txt no longer exists"):
        build(corpus, RunOptions())
    partial = build(corpus, RunOptions(allow_partial=True))
    assert len(partial) == 2
    assert partial.corpus.failed == (f"{tmp_path.as_posix()}/1.txt no longer exists",)


@pytest.mark.parametrize(
    ("module", "extra", "profiled", "error"),
    [
        ("upath", "remote", {"corpus": "s3://bucket/a.txt"}, InputError),
        ("distributed", "dask", {"executor": "dask", "scheduler": "tcp://head:1"}, OptionError),
    ],
)
def test_what_is_not_installed(tmp_path, monkeypatch, module, extra, profiled, error):
    sources_of(tmp_path, 1)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(error, match=rf"pip install '\.\[{extra}\]' in a clone"):
        batchstat.profile(**{"corpus": tmp_path, **profiled})


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
    expected = batchstat.profile(sorted(tmp_path.glob("*.txt"))).lengths.tolist()
    warned: list[str] = []

    def counted(*names: str) -> list[int]:
        warned.clear()
        sources = find_sources([tmp_path / f"{name}.txt" for name in names])
        cache = CountCache(str(tmp_path / "splits"))
        run = RunOptions(count_cache=cache, on_warning=warned.append)
        return build(Corpus(sources, CorpusOptions(), loaded), run).lengths.tolist()

    for name in order:
        found = counted(name)
        assert name == "b" or found == [99]
    assert counted("a", "b") == expected
    assert "recounting without shortcuts" in str(warned[0])


def test_data_in_a_folder_of_results_is_still_data(run: Command, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "some words"}\n')
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "b.jsonl").write_text('{"text": "some words"}\n')
    for _ in range(2):
        own = ["--count-cache", "splits", "-o", "."]
        result = run("profile", ".", *own, "--no-plots", "--json")
        assert result.returncode == 0, result.stderr
        sources = json.loads(result.stdout)["corpus"]["sources"]
        assert [source["path"] for source in sources] == ["a.jsonl", "splits/b.jsonl"]
    assert len(counts_in(tmp_path / "splits")) == 2


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
    with pytest.raises(OptionError, match="unknown executor 'proceses': did you mean"):
        batchstat.profile([tmp_path / "0.txt"], executor="proceses")
