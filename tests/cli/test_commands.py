"""The commands as a user starts them: files, streams, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from batchstat.planning.strategies.registry import OWN_STRATEGIES
from conftest import SAMPLE_DATA, check_schema, environment

REVIEWS = [SAMPLE_DATA / "reviews.csv", "--text-column", "review", "--label-column", "label"]
PROFILE_PLOTS = {"plots/lengths.png"}
PROFILE_FILES = {"profile.json", "lengths.parquet"} | PROFILE_PLOTS
CLASS_PLOTS = {"plots/lengths_by_class.png"}
COMPARE_FILES = {
    "compare.json",
    "plots/padding.png",
    "plots/batches.png",
    "plots/tradeoff.png",
    "plots/read_ahead.png",
}


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_profile_prints_a_result_and_writes_its_files(run, tmp_path):
    result = run("profile", *REVIEWS)
    assert result.returncode == 0, result.stderr
    for word in ("reviews.csv · builtin", "p99.9", "max_length", "positive", "batchstat compare"):
        assert word in result.stdout
    assert result.stderr.splitlines()[-1] == (
        "wrote profile.json, lengths.parquet, 2 plots to batchstat-results"
    )
    results = tmp_path / "batchstat-results"
    assert files(results) == PROFILE_FILES | CLASS_PLOTS
    record = json.loads((results / "profile.json").read_text(encoding="utf-8"))
    check_schema(record, "profile")
    lengths = pq.read_table(results / "lengths.parquet")["length"].to_pylist()
    assert record["lengths"]["count"] == len(lengths) == record["corpus"]["samples"]
    assert record["lengths"]["sum"] == sum(lengths)
    assert sum(each["count"] for each in record["classes"]) == len(lengths)


def test_compare_takes_the_profile_and_says_whose_it_is(run, tmp_path):
    run("profile", SAMPLE_DATA / "corpus.txt", "--no-plots")
    result = run("compare", "--tokens-per-batch", "16384")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("profile  corpus.txt · builtin · ")
    assert lines[0].endswith("just now")
    assert lines[1].startswith("basis    at most 16,384 tokens per batch · max_length 512")
    for name in ("fixed", "static", "bucketed", "token-budget", "packed"):
        assert any(line[2:].startswith(name) for line in lines)
    assert any(
        line.startswith("result   An epoch with bucketed is an estimated ") for line in lines
    )
    assert files(tmp_path / "batchstat-results") == PROFILE_FILES - PROFILE_PLOTS | COMPARE_FILES


def test_json_is_the_file_and_nothing_else(run, tmp_path):
    results = tmp_path / "batchstat-results"
    result = run("profile", *REVIEWS, "--json", "--no-plots")
    assert result.stdout == (results / "profile.json").read_text(encoding="utf-8")
    result = run("compare", "--json", "--no-plots")
    assert result.stdout == (results / "compare.json").read_text(encoding="utf-8")
    check_schema(json.loads(result.stdout), "compare")
    assert "profile  reviews.csv" in result.stderr


@pytest.mark.slow
def test_equal_runs_give_equal_bytes_but_for_created(run, tmp_path):
    outputs = []
    for _ in range(2):
        arguments = (*REVIEWS, "--json", "--no-plots", "-o", tmp_path / "x")
        record = json.loads(run("compare", *arguments).stdout)
        del record["created"]
        outputs.append(json.dumps(record))
        (tmp_path / "x" / "lengths.parquet").unlink()
    assert outputs[0] == outputs[1]


def test_compare_reuses_a_profile_only_where_nothing_differs(run, tmp_path):
    corpus = tmp_path / "a.csv"
    corpus.write_text("text,title\nsome words,x\nmore words here,y\n")

    def created(*options) -> str:
        assert run("compare", "a.csv", "--no-plots", *options).returncode == 0
        path = tmp_path / "batchstat-results" / "profile.json"
        return json.loads(path.read_text(encoding="utf-8"))["created"]

    first = created()
    assert created() == first
    assert created("--tokens-per-batch", "64") == first
    second = created("--text-column", "title")
    assert second != first
    assert created() != second
    third = created()
    corpus.write_text("text,title\nsome words,x\nmore words herE,y\n")
    assert created() != third


def test_a_changed_corpus_is_warned_of(run, tmp_path):
    corpus = tmp_path / "a.txt"
    corpus.write_text("one two\nthree\n")
    run("profile", "a.txt", "--no-plots")
    assert "warning" not in run("compare", "--no-plots").stderr
    corpus.write_text("one two\nTHREE\n")
    result = run("compare", "--no-plots")
    assert result.returncode == 0
    assert "warning: a.txt has changed since it was profiled" in result.stderr
    record = json.loads((tmp_path / "batchstat-results" / "compare.json").read_text())
    assert record["warnings"][0]["id"] == "profile/stale"


@pytest.mark.slow
def test_plots_of_an_earlier_run_do_not_stay(run, tmp_path):
    results = tmp_path / "batchstat-results"
    run("profile", *REVIEWS)
    run("profile", SAMPLE_DATA / "corpus.txt")
    assert files(results) == PROFILE_FILES
    run("compare")
    run("compare", "--no-plots")
    assert files(results) == PROFILE_FILES | {"compare.json"}


@pytest.mark.slow
def test_plots_of_another_format_do_not_stay(run, tmp_path):
    results = tmp_path / "batchstat-results"
    assert run("compare", *REVIEWS).returncode == 0
    assert run("profile", *REVIEWS, "--plot-format", "svg").returncode == 0
    assert run("compare", "--plot-format", "pdf").returncode == 0
    plots = {name for name in files(results) if name.startswith("plots/")}
    profile = {name.replace(".png", ".svg") for name in PROFILE_PLOTS | CLASS_PLOTS}
    compared = {name.replace(".png", ".pdf") for name in COMPARE_FILES - {"compare.json"}}
    assert plots == profile | compared


@pytest.mark.slow
def test_plots_of_a_profile_that_is_kept_stay(run, tmp_path):
    for _ in range(2):
        assert run("compare", *REVIEWS).returncode == 0
        found = files(tmp_path / "batchstat-results")
        assert found == PROFILE_FILES | CLASS_PLOTS | COMPARE_FILES


def test_samples_above_the_tokenizers_maximum_are_one_line(run):
    result = run("profile", SAMPLE_DATA / "corpus.txt", "--no-plots")
    warnings = [line for line in result.stderr.splitlines() if "512" in line]
    assert len(warnings) == 1
    assert "exceed the tokenizer's maximum of 512 tokens" in warnings[0]
    assert "3 of 900 samples" in warnings[0]
    assert "longer than" not in run("profile", *REVIEWS, "--no-plots", "--strip").stdout


OPTIONS = """
--sampler upsampling --keep-labels positive,negative --loss sequence-mean --drop-last
--tokens-per-batch 4096 --max-length 256 --overflow split --pad-to-multiple-of 8
--batch-size 8 --read-ahead 500 --max-samples 64 --order blocks --seed 3 --epoch 2
--world-size 2 --distribute balanced --remainder drop
--gradient-accumulation-steps 4 --wait micro-batch
--strategy token-budget:read_ahead=7 --strategy static
"""


def test_options_of_compare_reach_the_basis(run):
    record = json.loads(
        run(
            *("compare", *REVIEWS, "--json", "--no-plots", *OPTIONS.split()),
        ).stdout
    )
    assert record["basis"] == {
        "tokens_per_batch": 4096,
        "given_batch_size": 8,
        "max_length": 256,
        "overflow": "split",
        "batch_size": 8,
        "read_ahead": 500,
        "max_samples": 64,
        "order": "blocks",
        "seed": 3,
        "epoch": 2,
        "world_size": 2,
        "distribute": "balanced",
        "balance_by": "length",
        "remainder": "drop",
        "gradient_accumulation_steps": 4,
        "wait": "micro-batch",
        "loss": "sequence-mean",
        "pad_to_multiple_of": 8,
        "drop_last": True,
        "sampler": "upsampling",
        "keep_labels": ["positive", "negative"],
    }
    rows = record["strategies"]
    assert [row["name"] for row in rows] == ["token-budget", "static"]
    assert rows[0]["params"]["read_ahead"] == 7
    assert rows[0]["params"]["max_samples"] == 64
    assert rows[1]["steps"] == -(-rows[1]["batches"] // 2 // 4)


def test_all_strategies_frameworks_seeds_and_a_model(run):
    corpus = ["compare", SAMPLE_DATA / "corpus.txt", "--json", "--no-plots"]
    record = json.loads(
        run(
            *(*corpus, "--all", "--strategy", "static:batch_size=3"),
            *("--strategy", "fairseq", "--strategy", "trl", "--seeds", 3),
            *("--model", "hidden=768,layers=12"),
        ).stdout
    )
    check_schema(record, "compare")
    rows = record["strategies"]
    names = [row["name"] for row in rows]
    # On one rank without accumulation, there is nothing to regroup.
    own = set(OWN_STRATEGIES) - {"regrouped"}
    assert sorted(names) == sorted([*own, "fairseq", "trl"])
    assert names[:3] == ["static", "fairseq", "trl"]
    assert rows[0]["params"]["batch_size"] == 3
    assert record["not_shown"] == []
    assert record["seeds"] == 3
    assert record["model"]["hidden"] == 768
    for row in rows:
        spread = row["seeds"]["padding_ratio"]
        assert spread["min"] <= spread["mean"] <= spread["max"]
        assert row["relative_cost"]["model"] >= 1
    plain = json.loads(run(*corpus).stdout)
    assert plain["strategies"][0]["seeds"] is None
    assert plain["strategies"][0]["relative_cost"]["model"] is None
    assert set(plain["not_shown"]) == own - {row["name"] for row in plain["strategies"]}


def test_what_the_table_shows_beside_its_rows(run):
    corpus = ["compare", SAMPLE_DATA / "corpus.txt", "--no-plots"]
    lines = run(
        *corpus, "--strategy", "fairseq", "--seeds", 2, "--world-size", 2, "--details"
    ).stdout.splitlines()
    assert any("over 2 seeds" in line for line in lines)
    assert "but      fairseq has remainder dummy" in lines
    for word in ("sorted   ", "least    ", "more    ", "cost    ", "result   ", "use      "):
        assert any(line.startswith(word) for line in lines), word


def test_what_the_verdict_denies_is_not_recommended(run, tmp_path):
    (tmp_path / "a.csv").write_text("n\n" + "50\n" * 1000)
    equal = ["compare", "a.csv", "--length-column", "n", "--tokens-per-batch", 1000, "--no-plots"]
    told = " ".join(run(*equal).stdout.split())
    assert told.endswith(
        "result Keep static: no other way of batching that fits, and loses and repeats no more, "
        "saves 5% of its compute. By total tokens; calibrate for time. More: --details, --all, "
        "--model"
    )
    above = run(*equal, "--strategy", "bucketed:batch_size=100").stdout
    assert "--tokens-per-batch 5000, which bucketed:batch_size=100 needs" in above
    assert "\nuse " not in above
    raised = [*equal[:-3], "--tokens-per-batch", 5000, "--strategy", "bucketed:batch_size=100"]
    assert "\nuse " in run(*raised).stdout


_PASTED = "         batchstat recipe "
"""What a line to paste begins with, which is never folded."""


@pytest.mark.parametrize("extra", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"COLUMNS": "40"}, {}])
def test_no_escape_sequences_off_a_terminal(run, extra):
    result = run("compare", *REVIEWS, "--no-plots", **extra)
    assert result.returncode == 0
    assert "\x1b" not in result.stdout + result.stderr
    width = max(80, int(extra.get("COLUMNS", 100)))
    folded = [line for line in result.stdout.splitlines() if not line.startswith(_PASTED)]
    assert len(folded) < len(result.stdout.splitlines())
    assert max(map(len, folded)) <= width
    for name in ("fixed", "static", "bucketed", "token-budget"):
        assert any(line[2:].startswith(f"{name} ") for line in result.stdout.splitlines())


def test_an_encoding_without_blocks_gets_plain_bars(run_process):
    result = run_process("profile", *REVIEWS, "--no-plots", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "####" in result.stdout
    assert result.stdout.isascii()


def test_names_and_labels_are_shown_harmlessly(run, tmp_path):
    name = "a [red]b \x1b[31m $x$ 世界.csv"
    (tmp_path / name).write_text("text,label\nsome words,\x1b[31m[bold]x[/]\nmore,$y$\n")
    result = run("compare", name, "--label-column", "label", "--no-plots")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    assert "a [red]b \\x1b[31m $x$ 世界.csv" in result.stdout
    profile = run("profile", name, "--label-column", "label")
    assert "\\x1b[31m[bold]x[/]" in profile.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_a_file_name_that_is_not_utf8(run, tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("some words\n")
    result = run("profile", os.fsdecode(b"caf\xe9.txt"), "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["corpus"]["sources"][0]["path"] == "caf\udce9.txt"
    assert "caf\\udce9.txt" in run("compare", "--no-plots").stdout


@pytest.mark.slow
@pytest.mark.parametrize("retry_seconds", [0.01, 0.0])
def test_an_interrupt_is_not_lost_where_python_drops_exceptions(tmp_path, retry_seconds):
    """As in the callback of a weak reference, which importing a module has; also where it comes
    again before that callback has ended, as on a busy machine.
    """
    code = f"""
import signal, time, weakref
import batchstat.__main__ as command
import batchstat.cli.main

command._RETRY_SECONDS = {retry_seconds}

class Thing:
    pass

def run():
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    time.sleep(60)

batchstat.cli.main.run = run
command.main()
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    expected = (130, "interrupted; no partial files were left behind\n")
    assert (result.returncode, result.stderr) == expected


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals and pipes")
@pytest.mark.parametrize(
    ("delay", "sent"),
    [
        (0.03, signal.SIGINT),
        (0.1, signal.SIGTERM),
        (0.3, signal.SIGINT),
        (1.0, signal.SIGTERM),
        (2.0, signal.SIGINT),
    ],
)
def test_an_interrupt_leaves_earlier_results_as_they_were(run, tmp_path, delay, sent):
    run("profile", *REVIEWS, "--no-plots")
    results = tmp_path / "batchstat-results"
    before = {name: (results / name).read_bytes() for name in files(results)}
    # Letters at random, which no counting by pieces makes quick.
    letters = np.random.default_rng(0).integers(ord("a"), ord("z"), 40_000_000, dtype=np.uint8)
    letters[::9], letters[::900] = ord(" "), ord("\n")
    (tmp_path / "large.txt").write_bytes(letters.tobytes())
    code = "from batchstat.__main__ import main; print('ready', flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "profile", "large.txt"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(delay)
    process.send_signal(sent)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == b"interrupted; no partial files were left behind"
    assert b"Traceback" not in errors
    assert out == b""
    assert {name: (results / name).read_bytes() for name in files(results)} == before


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_python_ends_changes_no_outcome(tmp_path, sent):
    code = (
        "import atexit, time\n"
        "from batchstat.__main__ import main\n"
        "atexit.register(time.sleep, 2)\n"
        "atexit.register(print, 'ending', flush=True)\n"
        "main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "check", "nothing.txt", "--max-padding", "1%"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
    process.send_signal(sent)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors
    assert errors == "error: no such file: nothing.txt\n"


def test_version(run):
    assert run("--version").stdout.startswith("batchstat 0.")
    assert run().returncode == 2
