"""What only a process shows: permissions, room, streams, files that change, and a crash."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_mistakes import LARGE, earlier_results, error_of, written

from conftest import environment, two_words_definition

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="POSIX permissions, limits and descriptors"),
]


def start(folder: Path, typed: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "batchstat", *shlex.split(typed)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, cwd=folder, env=environment(), text=True, **streams)


def ended(process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    out, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def assert_refused(result: Any, message: str, results: Path, screen: str = "") -> None:
    """`screen`: how the answer begins, where only writing it failed; else there is none."""
    assert result.returncode == 3, result.stderr
    assert result.stdout.startswith(screen)
    assert bool(result.stdout) == bool(screen)
    assert message in error_of(result, results, {"profile.json"})


def without_roots_rights() -> None:
    """A root user reads any file; without these two capabilities it is as everybody else."""
    if sys.platform == "linux" and os.geteuid() == 0:
        import ctypes

        drop_from_bounding_set = 24
        for read_anything in (1, 2):
            ctypes.CDLL(None).prctl(drop_from_bounding_set, read_anything, 0, 0, 0)


@pytest.mark.parametrize(
    ("closed", "typed"),
    [
        ("a.txt", "profile a.txt"),
        ("data/inner", "profile data"),
        ("deep", "profile deep/a.txt"),
        ("folder", "profile a.txt -o folder/deep"),
        ("two.json", "profile a.txt --tokenizer two.json"),
        ("template", "profile a.txt --messages-column m --chat-template template"),
    ],
)
def test_no_permission(tmp_path, closed, typed):
    texts = ("a.txt", "folder/a.txt", "data/inner/a.txt", "deep/a.txt")
    files = {**dict.fromkeys(texts, "some words\n"), "template": "{{ messages }}"}
    written(tmp_path, {**files, "two.json": two_words_definition()})
    results = earlier_results(tmp_path)
    (tmp_path / closed).chmod(0)
    try:
        result = ended(start(tmp_path, typed, preexec_fn=without_roots_rights))
    finally:
        (tmp_path / closed).chmod(0o700)
    assert_refused(result, "Permission denied", results)
    assert closed.partition("/")[0] in result.stderr


@pytest.mark.parametrize(
    ("bytes_left", "message", "screen"),
    [
        (0, "counts cannot be stored during the run: ", ""),
        # Counts stay in memory, so only the profile does not fit.
        (100, "batchstat-results cannot be written: File too large", "corpus   a.jsonl"),
    ],
)
def test_a_full_disk_while_writing(tmp_path, bytes_left, message, screen):
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))

    rows = [json.dumps({"text": "some words", "label": number}) for number in range(200)]
    written(tmp_path, {"a.jsonl": "\n".join(rows)})
    results = earlier_results(tmp_path)
    typed = "profile a.jsonl --label-column label --no-plots"
    assert_refused(ended(start(tmp_path, typed, preexec_fn=limit)), message, results, screen)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "typed",
    ["profile a.txt --no-plots", "profile a.txt --no-plots --json", "--version", "--help"],
)
def test_standard_output_on_a_full_disk(tmp_path, typed):
    written(tmp_path, {"a.txt": "some words\n"})
    with Path("/dev/full").open("w") as full:
        result = ended(start(tmp_path, typed, stdout=full))
    assert result.returncode == 3
    *before, error = result.stderr.splitlines()
    assert error == "error: cannot write to standard output: No space left on device"
    # JSON is printed when all files are written.
    wrote = "wrote profile.json, lengths.parquet to batchstat-results"
    assert before == [wrote] * ("--json" in typed)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_standard_stream_that_is_closed(tmp_path, number):
    written(tmp_path, {"a.txt": "some words\n"})
    result = ended(start(tmp_path, "profile a.txt", preexec_fn=lambda: os.close(number)))
    assert result.returncode == 0, result.stderr
    assert (result.stdout == "") == (number == 1)
    assert (result.stderr == "") == (number == 2)
    profile = json.loads((tmp_path / "batchstat-results" / "profile.json").read_text())
    assert profile["corpus"]["samples"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says how far the reading has come")
@pytest.mark.parametrize("change", ["shrinks", "vanishes", "grows"])
def test_a_file_that_changes_while_it_is_read(tmp_path, change):
    path = tmp_path / "a.txt"
    size = path.write_bytes(LARGE * 4)
    results = earlier_results(tmp_path)
    process = start(tmp_path, "profile a.txt")
    # The digest takes one reading of the file; what comes after it is the corpus being read.
    while int(Path(f"/proc/{process.pid}/io").read_text().split()[1]) < size + (8 << 20):
        assert process.poll() is None
        time.sleep(0.01)
    if change == "vanishes":
        path.unlink()
    else:
        os.truncate(path, size // 2 if change == "shrinks" else size + 10)
    message = "no longer exists" if change == "vanishes" else "changed since it was listed"
    assert_refused(ended(process), f"a.txt {message}", results)


def test_runs_that_write_the_same_folder(tmp_path):
    written(tmp_path, {f"{number}.txt": "some words\n" * number for number in range(1, 5)})
    processes = [start(tmp_path, f"profile {number}.txt") for number in (1, 2, 3, 4, 1, 2)]
    assert [ended(process).returncode for process in processes] == [0] * len(processes)
    results = tmp_path / "batchstat-results"
    record = json.loads((results / "profile.json").read_text())
    assert record["corpus"]["sources"][0]["path"] == f"{record['corpus']['samples']}.txt"
    assert pq.read_table(results / "lengths.parquet").num_rows == record["corpus"]["samples"]
    assert not [path for path in results.rglob("*") if path.name.endswith(".tmp")]


def test_a_crash_is_no_limit_and_says_what_it_is(tmp_path):
    code = (
        "import sys, batchstat.profiling.worker as j; j.key_of = lambda *given: 1 / 0;"
        "sys.argv = ['batchstat', 'profile', 'a.txt'];"
        "from batchstat.__main__ import main; main()"
    )
    written(tmp_path, {"a.txt": "some words\n"})
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert result.returncode == 3
    assert "this is a bug, please report it" in result.stderr.splitlines()[-1]
