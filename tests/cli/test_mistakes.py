"""Mistakes in data, tokenizers and folders: the real command says where and why, in one line."""

import gzip
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import environment, two_words_definition

Files = dict[str, "bytes | str"]


def parquet(**columns: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def npy(*lengths: int) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(lengths))
    return file.getvalue()


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def chat(*messages: object) -> str:
    good = [{"role": "user", "content": "a"}]
    return "".join(json.dumps({"messages": each}) + "\n" for each in (good, list(messages)))


LINE = (b"some words here " * 64)[:-1] + b"\n"
LINES_OF_A_BLOCK = 9_000
"""More than the 8 MiB that are read at a time."""
CALL = {"type": "function", "function": {"name": "look_up", "arguments": "{}"}}
OWN_CODE = {"model_type": "own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
NOISE = bytes(np.random.default_rng(0).integers(32, 127, 200_000, dtype=np.uint8))
MESSAGES = ["--messages-column", "messages"]
TEXT = ["--text-column", "text"]

# Files to write, the arguments, and what the line must say.
MISTAKES: dict[str, tuple[Files, list[str], str]] = {
    "not UTF-8 in the middle of a large file": (
        {"a.txt": LINE * LINES_OF_A_BLOCK + b"caf\xe9\n" + LINE * 99},
        ["a.txt"],
        "a.txt, line 9001: byte 9216003 is not UTF-8 (0xe9)",
    ),
    "not UTF-8 in the middle of a large CSV file": (
        {"a.csv": b"text\n" + LINE * LINES_OF_A_BLOCK + b"caf\xe9\n" + LINE * 99},
        ["a.csv"],
        "a.csv, line 9002: byte 9216008 is not UTF-8 (0xe9)",
    ),
    "UTF-16": (
        {"a.txt": "some words\n".encode("utf-16")},
        ["a.txt"],
        "a.txt is UTF-16: pass --encoding",
    ),
    "UTF-16, faults skipped": (
        {"a.csv": "text\nwords\n".encode("utf-16")},
        ["a.csv", "--on-error", "skip"],
        "a.csv is UTF-16: pass --encoding utf-16",
    ),
    "a quote never closed": (
        {"a.csv": 'text,y\na,1\n"open,2\nb,3\n'},
        ["a.csv", *TEXT],
        "a.csv, line 3: not RFC 4180 (unexpected end of data)",
    ),
    "too few columns": ({"a.csv": "text,y\na,1\nb\n"}, ["a.csv", *TEXT], "fields is 1, not 2"),
    "too many columns": (
        {"a.tsv": "text\ty\na\t1\nb\t2\t3\n"},
        ["a.tsv", *TEXT],
        "a.tsv, line 3: the number of fields is 3, not 2",
    ),
    "a header only": ({"a.csv": "text,y\n"}, ["a.csv", *TEXT], "no samples in a.csv: it has no"),
    "a header that cannot be read": (
        {"a.tsv": b"te\xfft\ty\na\t1\n"},
        ["a.tsv", "--on-error", "skip"],
        "a.tsv, line 1: cannot parse the header",
    ),
    "a duplicated column name": (
        {"a.csv": "text,text\na,b\n"},
        ["a.csv"],
        "column 'text' appears 2 times: rename one",
    ),
    "a column of another type half-way": (
        {"a.jsonl": '{"text": "a"}\n' * 9000 + '{"text": 5}\n'},
        ["a.jsonl"],
        "a.jsonl, line 9001: 'text' is a number where text is expected",
    ),
    "a number for text": (
        {"a.parquet": parquet(text=[1, 2])},
        ["a.parquet", *TEXT],
        "column 'text' is int64 where text is expected",
    ),
    "null for text": (
        {"a.parquet": parquet(text=["a", None])},
        ["a.parquet"],
        "a.parquet, record 1: 'text' is null where text is expected",
    ),
    "a list for text": (
        {"a.jsonl": '{"text": "a"}\n{"text": ["b"]}\n'},
        ["a.jsonl"],
        "a.jsonl, line 2: 'text' is a list",
    ),
    "an object for text": (
        {"a.json": '[{"text": "a"}, {"text": {"b": 1}}]'},
        ["a.json"],
        "a.json, record 1: 'text' is an object",
    ),
    "JSON lines cut off": (
        {"a.jsonl": '{"text": "a"}\n{"text": "b'},
        ["a.jsonl"],
        "a.jsonl, line 2: malformed JSON: Unterminated string starting at column 10",
    ),
    "a JSON array cut off": (
        {"a.json": '[{"text": "a"}, {"text": "b'},
        ["a.json"],
        "a.json, record 1: malformed JSON: Unterminated string starting at character 25",
    ),
    "JSON nested 10,000 deep": (
        {"a.jsonl": '{"text": "a"}\n{"text": "b", "x": ' + "[" * 10_000 + "]" * 10_000 + "}\n"},
        ["a.jsonl"],
        "a.jsonl, line 2: malformed JSON: nested too deep",
    ),
    "a JSON array nested 10,000 deep": (
        {"a.json": "[" * 10_000},
        ["a.json"],
        "record 0: malformed",
    ),
    "a number as a record": ({"a.jsonl": "5\n"}, ["a.jsonl"], "a.jsonl, line 1: a number where"),
    "a chat with no content": (
        {"a.jsonl": chat({"role": "user"})},
        ["a.jsonl", *MESSAGES],
        "a.jsonl, line 2: 'messages': message 0 has no content",
    ),
    "an unknown role": (
        {"a.jsonl": chat({"role": "narrator", "content": "x"})},
        ["a.jsonl", *MESSAGES],
        "line 2: 'messages': message 0 has the unknown role 'narrator' (known: system",
    ),
    "a tool call without content, which the template joins": (
        {"a.jsonl": chat({"role": "assistant", "content": None, "tool_calls": [CALL]})},
        ["a.jsonl", *MESSAGES],
        "a.jsonl, line 2: tokenizer 'builtin' cannot count it: the chat template raises on message"
        " 0, which has no content",
    ),
    "gzip cut short": (
        {"a.txt.gz": gzip.compress(NOISE)[:-5000]},
        ["a.txt.gz"],
        "a.txt.gz is cut short: the compressed data ends early",
    ),
    "zstd cut short": ({"a.zst": zstd(NOISE)[:-5000]}, ["a.zst"], "a.zst is cut short"),
    "Parquet cut short": (
        {"a.parquet": parquet(text=["a"] * 1000)[:-100]},
        ["a.parquet"],
        "a.parquet is not a readable Parquet file",
    ),
    "a compressed file that is none": (
        {"a.txt.gz": "plain\n"},
        ["a.txt.gz"],
        "a.txt.gz has a compressed extension but is not",
    ),
    "a folder named as a file": (
        {"a.csv/notes.md": "x"},
        ["a.csv"],
        "no data files in a.csv",
    ),
    "a tokenizer folder without files": (
        {"a.txt": "a\n", "empty/notes.md": "x"},
        ["a.txt", "--tokenizer", "empty"],
        "tokenizer 'empty' cannot be loaded: the folder has no tokenizer",
    ),
    "a broken tokenizer.json": (
        {"a.txt": "a\n", "broken/tokenizer.json": '{"version": "1.0", "mod'},
        ["a.txt", "--tokenizer", "broken"],
        "tokenizer 'broken' cannot be loaded: tokenizer.json is malformed",
    ),
    "a tokenizer that wants remote code": (
        {
            "a.txt": "a\n",
            "own/config.json": json.dumps(OWN_CODE),
            "own/tokenizer_config.json": json.dumps(OWN_CODE),
            "own/own.py": "raise SystemExit('was run')",
        },
        ["a.txt", "--tokenizer", "own"],
        "tokenizer 'own' cannot be loaded: it requires trust_remote_code, which batchstat never",
    ),
    "a tokenizer that raises on a text": (
        {"a.txt": "some words\nunknown words\n", "two.json": two_words_definition()},
        ["a.txt", "--tokenizer", "two.json"],
        "a.txt, line 2: tokenizer 'two.json' cannot count it: WordLevel error",
    ),
    "a length of two billion": (
        {"a.npy": npy(3, 2_000_000_000)},
        ["a.npy"],
        "a.npy, record 1: 'length' is 2000000000: must be between 0 and 1,000,000,000",
    ),
    "a length that is text": (
        {"a.csv": "n\n3\nfour\n"},
        ["a.csv", "--length-column", "n"],
        "a.csv, line 3: 'n' is text where a whole number is expected",
    ),
}


def earlier_results(folder: Path) -> Path:
    results = folder / "batchstat-results"
    results.mkdir()
    (results / "profile.json").write_text("earlier")
    return results


def assert_refused(
    result: "subprocess.CompletedProcess[str]", message: str, results: Path, screen: str = ""
) -> None:
    """One line beside progress, which a slow machine shows; exit code 3, and the earlier results as
    they were. `screen`: how the answer begins, where only writing it failed; else there is none.
    """
    assert result.returncode == 3, result.stderr
    assert result.stdout.startswith(screen)
    assert bool(result.stdout) == bool(screen)
    lines = result.stderr.splitlines()
    (line,) = (line for line in lines if not line.startswith("counting: "))
    assert line.startswith("error: ")
    assert message in line
    assert [path.name for path in results.iterdir()] == ["profile.json"]
    assert (results / "profile.json").read_text() == "earlier"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake(run, tmp_path, mistake):
    files, arguments, message = MISTAKES[mistake]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    assert_refused(run("profile", *arguments), message, earlier_results(tmp_path))


def run_limited(folder: Path, limit: Callable[[], None], *arguments: str):
    """The command in a process with less: of permissions, room or open streams."""
    return subprocess.run(
        [sys.executable, "-m", "batchstat", "profile", "a.txt", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )


def without_roots_rights() -> None:
    """A root user reads any file; without these two capabilities it is as everybody else."""
    if sys.platform == "linux" and os.geteuid() == 0:
        import ctypes

        drop_from_bounding_set = 24
        for read_anything in (1, 2):
            ctypes.CDLL(None).prctl(drop_from_bounding_set, read_anything, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
@pytest.mark.parametrize("name", ["a.txt", "folder", "data", "tokenizer.json", "deep", "template"])
def test_no_permission(tmp_path, name):
    (tmp_path / "a.txt").write_text("some words\n")
    (tmp_path / "tokenizer.json").write_text(two_words_definition())
    for folder in ("folder", "data/inner", "deep"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.txt").write_text("some words\n")
    (tmp_path / "template").write_text("{{ messages }}")
    results = earlier_results(tmp_path)
    closed = tmp_path / ("data/inner" if name == "data" else name)
    closed.chmod(0)
    arguments = {
        "folder": ["-o", "folder/deep"],
        "data": ["data"],
        "deep": ["deep/a.txt"],
        "tokenizer.json": ["--tokenizer", name],
        "template": ["--messages-column", "m", "--chat-template", name],
    }
    try:
        result = run_limited(tmp_path, without_roots_rights, *arguments.get(name, []))
    finally:
        closed.chmod(0o700)
    assert_refused(result, "Permission denied", results)
    assert name in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX limits")
@pytest.mark.parametrize("bytes_left", [0, 100])
def test_a_full_disk_while_writing(tmp_path, bytes_left):
    """Counts stay in memory, so only the profile does not fit."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))

    records = [json.dumps({"text": "some words", "label": number}) for number in range(200)]
    (tmp_path / "a.txt").write_text("\n".join(records))
    results = earlier_results(tmp_path)
    arguments = ["--input-format", "jsonl", "--label-column", "label", "--no-plots"]
    result = run_limited(tmp_path, limit, *arguments)
    messages = {
        0: "counts cannot be stored during the run: ",
        100: "batchstat-results cannot be written: File too large",
    }
    screen = "corpus   a.txt" if bytes_left else ""
    assert_refused(result, messages[bytes_left], results, screen)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "args",
    [
        ["profile", "a.txt", "--no-plots"],
        ["profile", "a.txt", "--no-plots", "--json"],
        ["--version"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_standard_output_on_a_full_disk(tmp_path, args):
    (tmp_path / "a.txt").write_text("some words\n")
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "batchstat", *args],
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert result.returncode == 3
    *before, error = result.stderr.splitlines()
    assert error == "error: cannot write to standard output: No space left on device"
    # JSON is printed when all files are written.
    written = "wrote profile.json, lengths.parquet to batchstat-results"
    assert before == [written] * ("--json" in args)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX file descriptors")
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_standard_stream_that_is_closed(tmp_path, number):
    (tmp_path / "a.txt").write_text("some words\n")
    result = run_limited(tmp_path, lambda: os.close(number))
    assert result.returncode == 0, result.stderr
    assert (result.stdout == "") == (number == 1)
    assert (result.stderr == "") == (number == 2)
    profile = json.loads((tmp_path / "batchstat-results" / "profile.json").read_text())
    assert profile["corpus"]["samples"] == 1


@pytest.mark.skipif(os.name == "nt", reason="named pipes")
def test_a_named_pipe(run, tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    results = earlier_results(tmp_path)
    assert_refused(run("profile", "a.txt"), "a.txt is not a regular file: redirect it", results)


@pytest.mark.skipif(os.name == "nt", reason="named pipes")
@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "l.npy", "--calibration", "pipe"],
        ["compare", "l.npy", "--config", "pipe"],
        ["balance", "a.csv", "--label-column", "y", "--sampler", "weights=pipe.json"],
        ["check", "l.npy", "--base", "pipe"],
        ["recipe", "-o", "r"],
    ],
)
def test_a_named_pipe_where_a_file_is_read(run, tmp_path, arguments):
    """It would be waited for, and a device such as /dev/zero has no end."""
    np.save(tmp_path / "l.npy", np.arange(1, 50))
    (tmp_path / "a.csv").write_text("text,y\none,a\ntwo,b\n")
    options = ("--text-column", "text", "--no-plots", "-o", "r")
    assert run("compare", "a.csv", *options).returncode == 0
    (tmp_path / "r" / "compare.json").unlink()
    for name in ("pipe", "pipe.json"):
        os.mkfifo(tmp_path / name)
    os.mkfifo(tmp_path / "r" / "compare.json")
    result = run(*arguments)
    assert result.returncode in (2, 3)
    assert "it is not a regular file" in result.stderr


@pytest.mark.parametrize("flag", ["--html", "--current", "--strategy", "--calibration", "-o"])
@pytest.mark.parametrize("name", ["a" * 300, "a" * 5_000, "a/" * 3_000])
def test_a_name_that_is_too_long(run, tmp_path, flag, name):
    np.save(tmp_path / "l.npy", np.arange(1, 50))
    result = run("compare", "l.npy", "--no-plots", flag, name)
    assert result.returncode in (2, 3)
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert len(result.stderr) < 2_000
    for started in (run("run", "-o", name, "--", "true"), run("preflight", name)):
        assert started.returncode == 3
        assert len(started.stderr) < 2_000


@pytest.mark.parametrize("content", ["[]", "[" * 100_000, "3", "{", '{"id": 3}'])
def test_a_folder_whose_recording_is_not_one(run, tmp_path, content):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.json").write_text(content)
    started = run("run", "-o", "r", "--", "true")
    assert started.returncode == 3
    assert "holds the recording of another run" in started.stderr
    assert "no recording" in run("measure", "r").stderr
    assert "is an address" in run("run", "-o", "memory://a/b", "--", "true").stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc says how far the reading has come")
@pytest.mark.parametrize("change", ["shrinks", "vanishes", "grows"])
def test_a_file_that_changes_while_it_is_read(tmp_path, change):
    path = tmp_path / "a.txt"
    size = path.write_bytes(LINE * LINES_OF_A_BLOCK * 4)
    results = earlier_results(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "batchstat", "profile", "a.txt"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The digest takes one reading of the file; what comes after it is the corpus being read.
    while int(Path(f"/proc/{process.pid}/io").read_text().split()[1]) < size + (8 << 20):
        assert process.poll() is None
        time.sleep(0.01)
    if change == "vanishes":
        path.unlink()
    else:
        os.truncate(path, size // 2 if change == "shrinks" else size + 10)
    out, errors = process.communicate()
    result = subprocess.CompletedProcess([], process.returncode, out, errors)
    message = "no longer exists" if change == "vanishes" else "changed since it was listed"
    assert_refused(result, f"a.txt {message}", results)


@pytest.mark.slow
def test_runs_that_write_the_same_folder(tmp_path):
    for number in range(1, 5):
        (tmp_path / f"{number}.txt").write_text("some words\n" * number)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "batchstat", "profile", f"{number}.txt"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in (1, 2, 3, 4, 1, 2)
    ]
    assert [process.wait() for process in processes] == [0] * len(processes)
    results = tmp_path / "batchstat-results"
    record = json.loads((results / "profile.json").read_text())
    assert record["corpus"]["sources"][0]["path"] == f"{record['corpus']['samples']}.txt"
    assert pq.read_table(results / "lengths.parquet").num_rows == record["corpus"]["samples"]
    assert not [path for path in results.rglob("*") if path.name.endswith(".tmp")]


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("a.tsv", [], "; its first row looks like data: if it is, pass --no-header"),
        ("a.tsv", ["--label-column", "x"], "if it is, pass --no-header"),
        (None, ["owner/some_dataset"], "run hf download --repo-type dataset owner/some_dataset"),
    ],
)
def test_what_people_forget(run, tmp_path, name, arguments, hint):
    row = "ham\tGo until jurong point, crazy.. Available only in bugis\n"
    (tmp_path / "a.tsv").write_text(row * 3)
    ended = run("profile", *([name] if name else []), *arguments)
    assert ended.returncode == 3
    assert hint in ended.stderr


def test_a_missing_column_is_told_before_a_tokenizer_loads(run_process, tmp_path):
    """A tokenizer may take seconds to load, and this one does not exist."""
    (tmp_path / "a.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    ended = run_process("profile", "a.jsonl", "--tokenizer", "no/such")
    assert ended.returncode == 3
    assert "cannot tell the text column" in ended.stderr
