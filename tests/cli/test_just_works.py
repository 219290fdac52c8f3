"""What is unusual and no mistake: profile and compare answer, and draw what can be drawn."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import environment

IDS = ["--tokens-column", "ids"]
UNUSUAL: dict[str, tuple[str, "bytes | str", list[str], int]] = {
    "a single sample": ("a.txt", "one sample\n", [], 1),
    "one sample of 10 MB": ("a.txt", "some words " * 950_000, [], 1),
    "NUL bytes": ("a.txt", "a\x00b\n\x00\n", [], 2),
    "NUL bytes in CSV": ("a.csv", "text\na\x00b\n\x00\n", [], 2),
    "no newline at the end": ("a.jsonl", '{"text": "a"}\n{"text": "b"}', [], 2),
    "a corpus of one class": ("a.csv", "text,y\na,x\nb,x\n", ["--label-column", "y"], 2),
    "nothing but missing labels": (
        "a.jsonl",
        '{"text": "a", "y": null}\n' * 3,
        ["--label-column", "y"],
        3,
    ),
    "some samples of zero tokens": ("a.jsonl", '{"ids": []}\n{"ids": [7, 7]}\n', IDS, 2),
    "a byte-order mark": ("a.csv", "\ufefftext,y\na,1\n", ["--text-column", "text"], 1),
    "blank lines everywhere": ("a.csv", "\n\ntext\n\na\n\n\nb\n\n", [], 2),
    "quotes around a semicolon in a text": (
        "a.csv",
        'say ";" please,1\nfine,0\n',
        ["--no-header", "--text-column", "0"],
        2,
    ),
    "only carriage returns": ("a.txt", "one\rtwo\rthree", [], 1),
    "white space of other scripts": ("a.txt", "\u3000\n\u2028\na\u2028b\n", [], 1),
    "nearly a pointer of Git LFS": ("a.txt", "version https://example.org of the text\n", [], 1),
    "nearly a zip archive": ("a.txt", "PK is a name\n", [], 1),
    "nearly a tar archive": ("a.txt", "x" * 257 + "ustar\n", [], 1),
    "NUL bytes on every line": ("a.txt", "a NUL \0 in a text\n" * 3, [], 3),
    "an escape sequence": ("a.txt", "\x1b[31mred\x1b[0m\n", [], 1),
    "no ASCII": ("a.txt", "日本語のテキスト\n", [], 1),
}
DRAWN = {
    "a single sample",
    "one sample of 10 MB",
    "nothing but missing labels",
    "some samples of zero tokens",
}
"""What is unusual in a plot, too."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DRAWN)) for name in UNUSUAL]
)
def test_unusual_corpora_are_profiled_and_compared(run, tmp_path, name):
    file, content, arguments, samples = UNUSUAL[name]
    (tmp_path / file).write_bytes(content.encode() if isinstance(content, str) else content)
    plots = [] if name in DRAWN else ["--no-plots"]
    profile = run("profile", file, *arguments, *plots, "--json")
    assert profile.returncode == 0, profile.stderr
    assert json.loads(profile.stdout)["corpus"]["samples"] == samples
    comparison = run("compare", *plots, "--json")
    assert comparison.returncode == 0, comparison.stderr
    for row in json.loads(comparison.stdout)["strategies"]:
        assert row["samples"] == samples
    if name in DRAWN:
        assert len(list((tmp_path / "batchstat-results" / "plots").iterdir())) >= 4


def test_labels_of_null_and_of_odd_characters_are_in_the_json(run, tmp_path):
    rows = '{"text": "a", "y": null}\n{"text": "b b", "y": "\\u0000\\u2028"}\n'
    (tmp_path / "a.jsonl").write_text(rows)
    result = run("profile", "a.jsonl", "--label-column", "y", "--json", "--no-plots")
    labels = {each["label"] for each in json.loads(result.stdout)["classes"]}
    assert labels == {None, "\x00\u2028"}


def test_samples_of_zero_tokens_only(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"ids": []}\n{"ids": []}\n')
    assert run("profile", "a.jsonl", *IDS).returncode == 0
    result = run("compare")
    assert result.returncode == 3
    assert result.stderr == "error: no tokens in 2 samples: nothing to batch\n"


@pytest.mark.slow
def test_20_000_classes_are_all_in_the_json(run, tmp_path):
    names = np.char.add("class ", np.arange(20_000).astype(str))
    sizes = np.concatenate([np.arange(20_000), np.zeros(5, np.int64)])
    table = pa.table({"n": np.ones(len(sizes), np.int64), "y": names[sizes]})
    pq.write_table(table, tmp_path / "a.parquet")
    result = run("profile", "a.parquet", "--length-column", "n", "--label-column", "y")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert sum(line.startswith("class ") and "█" in line for line in lines) == 25
    assert any(line.startswith("(19,975 classes between)") for line in lines)
    record = json.loads((tmp_path / "batchstat-results" / "profile.json").read_text())
    assert len(record["classes"]) == 20_000


NAMES = [
    "with spaces.csv",
    "two\nlines.csv",
    "emoji 🦉.csv",
    "[bold]markup[bold] [red].csv",
    "escape \x1b[31m\x07.csv",
    "$math$ 100%.csv",
    "-dash.csv",
    "'quotes\".csv",
]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="names that Windows has not")
@pytest.mark.parametrize("name", NAMES)
def test_any_file_name_and_label_is_shown_as_it_is(run, tmp_path, name):
    label = name.removesuffix(".csv").replace('"', '""')
    (tmp_path / name).write_text(f'text,y\nsome words,"{label}"\nmore,b\n')
    for command in ("profile", "compare"):
        plots = ["--no-plots"] if command == "compare" else []
        result = run(command, "--label-column", "y", *plots, "--", name)
        assert result.returncode == 0, result.stderr
        shown = name.encode("unicode_escape").decode() if not name.isprintable() else name
        assert shown in result.stdout
        assert "\x1b" not in result.stdout + result.stderr
        assert "\x07" not in result.stdout + result.stderr
    profile = json.loads((tmp_path / "batchstat-results" / "profile.json").read_text("utf-8"))
    assert profile["corpus"]["sources"][0]["path"] == name
    assert name.removesuffix(".csv") in {each["label"] for each in profile["classes"]}
    (tmp_path / name).write_bytes(b"text,y\n\xff,b\n")
    refused = run("profile", "--", name)
    assert refused.returncode == 3
    assert len(refused.stderr.splitlines()) == 1
    assert "\x1b" not in refused.stderr


def on_terminal(folder: Path, *arguments: str, width: int = 120, **extra: str) -> tuple[int, str]:
    """Exit code and output of the command on a terminal that wide."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "batchstat", *arguments],
        cwd=folder,
        env=environment(**extra),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = b""
    while True:
        try:
            read = os.read(ours, 65_536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not read:
            break
        output += read
    os.close(ours)
    return process.wait(), output.decode()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals")
@pytest.mark.parametrize(
    ("width", "extra", "colored"),
    [
        (120, {"TERM": "xterm-256color"}, True),
        (40, {"TERM": "xterm-256color"}, True),
        (40, {"TERM": "dumb"}, False),
        (120, {"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        (120, {}, True),
    ],
)
def test_terminals(tmp_path, width, extra, colored):
    (tmp_path / "a.csv").write_text("text,y\n" + "some words,a\nmore words than that,b\n" * 600)
    for arguments in (["profile", "a.csv", "--label-column", "y"], ["compare", "a.csv"]):
        code, output = on_terminal(tmp_path, *arguments, "--no-plots", width=width, **extra)
        assert code == 0, output
        assert bool(re.search(r"\x1b\[[39]\d", output)) == colored
        if extra.get("TERM") == "dumb":
            assert "\x1b" not in output
        for number in ("1,200", "batchstat-results"):
            assert number in output


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
@pytest.mark.parametrize("arguments", ["--help", "compare --help-all", "explain"])
def test_a_reader_that_goes_away_is_no_error(tmp_path, arguments):
    command = f"'{sys.executable}' -m batchstat {arguments} | true"
    result = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_head_ends_a_run_quietly(tmp_path):
    (tmp_path / "a.csv").write_text("text\n" + "some words\n" * 600)
    command = f"'{sys.executable}' -m batchstat profile a.csv --json 2>aside.txt | head -1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert result.stdout == "{\n"
    [aside] = (tmp_path / "aside.txt").read_text().splitlines()
    assert aside.startswith("wrote profile.json, ")
    assert result.stderr == ""
