"""Counts kept for files that do not change: never wrong, never in the way."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import batchstat
from batchstat.corpus.options import CorpusOptions
from batchstat.profiling.build import build
from batchstat.profiling.cache import CountCache
from batchstat.profiling.inputs import open_corpus
from batchstat.profiling.parquet import save_lengths
from batchstat.profiling.run_options import RunOptions
from batchstat.profiling.tasks import MemoryBudget
from conftest import SAMPLE_DATA, environment, two_words_definition

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()
    for i in range(3):
        split = "".join(f"{line}\n" for line in lines[i::3])
        (folder / f"{i}.txt").write_text(split, encoding="utf-8")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> CountCache:
    return CountCache(str(tmp_path / "cache"))


class Counted:
    """A profile, and how many bytes of its corpus had to be counted for it."""

    def __init__(self, path: Path, cache: CountCache | None, **given) -> None:
        self.bytes = 0
        tokenizer = given.pop("tokenizer", None)
        corpus = open_corpus([path], CorpusOptions(**given), tokenizer, None)
        run = RunOptions(count_cache=cache, on_progress=self._note)
        self.profile = build(corpus, run)

    def _note(self, progress) -> None:
        self.bytes = progress.work.bytes


def assert_same(one: batchstat.Profile, other: batchstat.Profile) -> None:
    assert one.corpus == other.corpus
    assert one.tokenizer == other.tokenizer
    assert np.array_equal(one.lengths, other.lengths)
    assert np.array_equal(one.records, other.records)
    assert (one.labels is None) == (other.labels is None)
    if one.labels is not None:
        assert one.labels.names == other.labels.names
        assert np.array_equal(one.labels.codes, other.labels.codes)
        assert np.array_equal(one.labels.offsets, other.labels.offsets)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_only_what_changed_is_counted(corpus, cache):
    plain = Counted(corpus, None)
    first = Counted(corpus, cache)
    assert plain.bytes == first.bytes == size(corpus)
    again = Counted(corpus, cache)
    assert again.bytes == 0
    (corpus / "1.txt").write_text("one more line\n\nand another\n")
    changed = Counted(corpus, cache)
    assert changed.bytes == (corpus / "1.txt").stat().st_size
    (corpus / "0.txt").touch()
    assert Counted(corpus, cache).bytes == 0
    for found in (first, again):
        assert_same(found.profile, plain.profile)
    assert_same(changed.profile, Counted(corpus, None).profile)


def test_labels_blanks_and_faults_are_kept_too(tmp_path, cache):
    folder = tmp_path / "labelled"
    folder.mkdir()
    records = [{"text": "a b", "y": ["one", "two"]}, {"text": " ", "y": []}, {"text": "c", "y": []}]
    good = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "0.jsonl").write_text(good + '{"text": \n' * 4)
    (folder / "1.jsonl").write_text('{"text": 5}\n' * 4 + '{"text": "x", "y": ["two", "three"]}\n')
    (folder / "2.jsonl").write_text('{"text": "", "y": []}\n')
    (folder / "3.jsonl").write_text('{"text": "x", "y": "one"}\n{"text": "y", "y": null}\n')
    given = {"label_column": "y", "on_error": "skip"}
    plain = Counted(folder, None, **given)
    assert plain.profile.records.tolist() == [0, 2, 11, 13, 14]
    assert len(plain.profile.corpus.faults) == 5
    for _ in range(2):
        assert_same(Counted(folder, cache, **given).profile, plain.profile)
    assert Counted(folder, cache, **given).bytes == 0


def test_whatever_could_change_a_count_changes_the_key(tmp_path, cache):
    (tmp_path / "t.json").write_text(two_words_definition())
    texts = tmp_path / "texts.csv"
    texts.write_text("a,b\nsome words,words\nsome,words words\n")
    ways = [
        {"text_column": ("a",)},
        {"text_column": ("b",)},
        {"text_column": ("a", "b")},
        {"text_column": ("a",), "label_column": "b"},
        {"text_column": ("a",), "strip": True},
        {"text_column": ("a",), "min_chars": 5},
        {"text_column": ("a",), "quote": False},
        {"text_column": ("a",), "tokenizer": str(tmp_path / "t.json")},
    ]
    for way in ways:
        assert Counted(texts, cache, **way).bytes == texts.stat().st_size, way
        assert Counted(texts, cache, **way).bytes == 0
    shutil.copy(texts, tmp_path / "copy.csv")
    assert Counted(tmp_path / "copy.csv", cache, **ways[0]).bytes == texts.stat().st_size
    definition = two_words_definition().replace('"Whitespace"', '"WhitespaceSplit"')
    (tmp_path / "t.json").write_text(definition)
    assert Counted(texts, cache, **ways[-1]).bytes == texts.stat().st_size


def test_what_a_bad_record_does_changes_nothing_where_there_is_none(tmp_path, cache):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text('{"text": "a"}\n')
    bad.write_text('{"text": "a"}\n{"text": \n')
    assert Counted(good, cache).bytes == good.stat().st_size
    assert Counted(good, cache, on_error="skip").bytes == 0
    assert len(Counted(bad, cache, on_error="skip").profile) == 1
    with pytest.raises(batchstat.InputError, match=r"bad.jsonl, line 2: malformed"):
        Counted(bad, cache)
    assert Counted(bad, cache, on_error="skip").bytes == 0


def test_a_damaged_entry_is_no_entry(corpus, cache, tmp_path):
    """Nor is one that is cut short, or that stands under the name of another."""
    plain = Counted(corpus, cache).profile
    entries = sorted((tmp_path / "cache").iterdir())
    one, two, three = (entry.read_bytes() for entry in entries)

    def changed_at(place: int) -> bytes:
        data = bytearray(one)
        data[place] ^= 1
        return bytes(data)

    for place in (0, 30, 70, 200, -1, -100):
        entries[0].write_bytes(changed_at(place))
        found = Counted(corpus, cache)
        assert found.bytes > 0, place
        assert_same(found.profile, plain)
        assert Counted(corpus, cache).bytes == 0  # and the entry is mended
    for entry, data in zip(entries, (two, one, three[:50]), strict=True):
        entry.write_bytes(data)
    found = Counted(corpus, cache)
    assert found.bytes == size(corpus)
    assert_same(found.profile, plain)


def test_the_folder_has_a_limit_and_keeps_what_was_used_last(tmp_path):
    lines = [f"line {i}\n" for i in range(2000)]
    paths = []
    for i in range(6):
        paths.append(tmp_path / f"{i}.txt")
        paths[-1].write_text("".join(lines[i:]))
    folder = tmp_path / "cache"
    cache = CountCache(str(folder))
    Counted(paths[0], cache)
    entry = size(folder)
    (folder / ".left.tmp").write_bytes(b"x" * 50)
    for path in paths[1:]:
        Counted(path, cache)
        assert Counted(paths[0], cache).bytes == 0  # used again and again, so kept
        cache.make_room(3 * entry + 100)
        assert size(folder) <= 3 * entry + 100
    assert not (folder / ".left.tmp").exists()
    assert Counted(paths[1], cache).bytes > 0
    cache.make_room(10)
    assert Counted(paths[0], cache).bytes > 0


def test_a_folder_that_cannot_be_used_is_no_error(corpus, tmp_path, run):
    (tmp_path / "file").touch()
    options = {"BATCHSTAT_CACHE_DIR": str(tmp_path / "file" / "cache")}
    for _ in range(2):
        assert run("profile", corpus, "--no-plots", **options).returncode == 0


@pytest.mark.slow
def test_several_processes_at_once(corpus, tmp_path):
    """Also while entries are removed all the time: whole results, no error."""
    program = (
        "import sys, batchstat\n"
        "from batchstat.profiling.cache import CountCache\n"
        "cache = CountCache(sys.argv[2])\n"
        "for _ in range(15):\n"
        "    found = batchstat.profile(sys.argv[1], count_cache=cache)\n"
        "    cache.make_room(8000)\n"
        "    print(int(found.lengths.sum()), len(found))\n"
    )
    arguments = [sys.executable, "-c", program, str(corpus), str(tmp_path / "cache")]
    running = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment()) for _ in range(3)
    ]
    plain = Counted(corpus, None).profile
    expected = f"{int(plain.lengths.sum())} {len(plain)}"
    for process in running:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        assert set(output.decode().splitlines()) == {expected}


def test_a_file_that_is_another_while_it_is_counted_is_not_kept(tmp_path, cache):
    path = tmp_path / "a.txt"
    path.write_text("some words\n")
    corpus = open_corpus([path], CorpusOptions(), None, None)
    path.write_text("somewords!\n")
    build(corpus, RunOptions(count_cache=cache))
    path.write_text("some words\n")
    assert_same(Counted(path, cache).profile, Counted(path, None).profile)


def test_the_command_line_keeps_counts_unless_told_not_to(corpus, tmp_path, run):
    folder = tmp_path / "kept"
    options = {"BATCHSTAT_CACHE_DIR": str(folder)}
    check = ["check", corpus, "--max-padding", "99%", "--format", "json"]
    assert run(*check, "--no-cache", **options).returncode == 0
    assert not folder.exists()
    first = run(*check, **options)
    assert len(list(folder.iterdir())) == 3
    stamps = {path: path.read_bytes() for path in folder.iterdir()}
    second = run(*check, **options)
    one, two = (json.loads(each.stdout) for each in (first, second))
    assert one.pop("created") != two.pop("created")
    assert one == two
    assert {path: path.read_bytes() for path in folder.iterdir()} == stamps


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux does")
def test_reading_an_entry_leaves_no_thread_behind(tmp_path):
    """One that still holds a Python file when the interpreter ends aborts the process."""
    with (tmp_path / "lengths.parquet").open("wb") as file:
        save_lengths(batchstat.profile(SAMPLE_DATA / "corpus.txt"), file)
    program = (
        "import io, os, pathlib, sys\n"
        "from batchstat.profiling.parquet import read_counts\n"
        "path = pathlib.Path(sys.argv[1]); data = io.BytesIO(path.read_bytes())\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "assert len(read_counts(data, path)[0]) == 900\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "lengths.parquet")]
    result = subprocess.run(arguments, env=environment(), capture_output=True, text=True)
    assert result.stdout == "0\n", result.stderr


def test_standard_input_is_nobody_elses(run, tmp_path):
    """Two that are read into one cache do not get each other's counts."""
    cache = str(tmp_path / "kept")
    command = ("check", "-", "--max-padding=99%", "--format=json")
    for text in (b"a\n", b"some more words\nhere\n"):
        result = run(*command, stdin=text, BATCHSTAT_CACHE_DIR=cache)
        assert result.returncode == 0, result.stderr
    assert len(list((tmp_path / "kept").glob("*.counts"))) == 2


def test_counts_in_memory_are_not_read_again(corpus, cache, monkeypatch):
    """Nor written, where nothing is to be kept: beyond the budget they are."""
    plain = Counted(corpus, cache).profile
    calls: list[str] = []
    for name in ("get", "put"):
        method = getattr(CountCache, name)

        def noted(self, *given, name=name, method=method):
            calls.append(name)
            return method(self, *given)

        monkeypatch.setattr(CountCache, name, noted)
    assert_same(Counted(corpus, None).profile, plain)
    assert calls == ["get"] * 3  # nothing is there
    assert_same(Counted(corpus, cache).profile, plain)
    assert calls == ["get"] * 6
    monkeypatch.setattr(MemoryBudget.__init__, "__defaults__", (10_000,))
    calls.clear()
    assert_same(Counted(corpus, None).profile, plain)
    assert sorted(calls) == ["get"] * 4 + ["put"]
