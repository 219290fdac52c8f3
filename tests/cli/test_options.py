"""Options: which commands have them, values as people type them, and what a shell completes."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from batchstat.cli.main import app
from batchstat.cli.records import Counting
from batchstat.documents.buckets import buckets_document
from batchstat.parameters import parse_whole
from batchstat.planning.settings import Settings
from batchstat.trainers.buckets import find_buckets
from conftest import SAMPLE_DATA

GROUP: Any = typer.main.get_command(app)


def commands(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


def test_only_commands_that_count_have_options_for_counting():
    counting = {each.name for each in fields(Counting)}
    having = {
        name: counting & {parameter.name for parameter in command.params}
        for name, command in commands(GROUP)
    }
    counts = {"profile", "compare", "balance", "buckets", "check", "init"}
    counts.add("preflight")
    assert having == {name: counting if name in counts else set() for name in having}


WITHOUT_EFFECT = {
    "balance": {"sampler": "compares several, which --sampler names"},
    "buckets": {
        "read_ahead": "batches of a bucket are cut in the order of samples",
        "max_samples": "a bucket's batch size follows from the budget alone",
    },
}
"""Settings that a command which simulates does not have, and why."""


@pytest.mark.parametrize("name", ["compare", "balance", "buckets", "check", "init"])
def test_commands_that_simulate_have_the_settings_that_they_use(name):
    having = {parameter.name for parameter in dict(commands(GROUP))[name].params}
    settings = {each.name for each in fields(Settings)}
    assert settings - having == set(WITHOUT_EFFECT.get(name, ()))


@pytest.mark.parametrize("setting", WITHOUT_EFFECT["buckets"])
def test_bucket_edges_do_not_depend_on_settings_of_windows(setting):
    lengths = [n * n % 83 + 1 for n in range(90)]
    found = [
        find_buckets(lengths, buckets=4, tokens_per_batch=300, **{setting: value})
        for value in (2, 60)
    ]
    documents = [buckets_document(report) for report in found]
    for document in documents:
        del document["created"], document["basis"]
    assert documents[0] == documents[1]


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("16384", 16384),
        ("16_384", 16384),
        ("16k", 16000),
        ("1.5K", 1500),
        ("1e6", 10**6),
        ("2M", 2 * 10**6),
    ],
)
def test_numbers_as_people_write_them(written, number):
    assert parse_whole(written) == number


@pytest.mark.parametrize(
    "written", ["", "k", "8.5", "1,000", "1e999999999", "0x10", "1 000", "nan"]
)
def test_what_is_no_number(written):
    with pytest.raises(ValueError, match="must be a whole number"):
        parse_whole(written)


@pytest.mark.parametrize("written", ["16,384", "1,000", "1,234,567"])
def test_a_number_with_commas_is_answered_by_the_same_number(written):
    with pytest.raises(ValueError, match="write ") as raised:
        parse_whole(written)
    remedies = str(raised.value).partition("write ")[2].split(" or ")
    assert {parse_whole(each) for each in remedies} == {int(written.replace(",", ""))}


def test_numbers_and_flags_on_the_command_line(run):
    lengths = [SAMPLE_DATA / "corpus.txt", "--no_plots"]
    shown = run("compare", *lengths, "--tokens_per_batch", "4k", "--max-length", "1e2").stdout
    assert "at most 4,000 tokens per batch · max_length 100" in shown
    wrong = run("compare", *lengths, "--batch-size", "8.5")
    assert wrong.returncode == 2
    assert wrong.stderr == "error: --batch-size='8.5': must be a whole number\n"
    spec = run("compare", *lengths, "--strategy", "token-budget:tokens_per_batch=1_000")
    assert spec.returncode == 0


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("compare --strategy tok", {"token-budget"}),
        ("compare --current hf-", {"hf-trainer", "hf-group-by-length"}),
        ("compare --distribute ba", {"batches", "balanced"}),
        ("check --sampler up", {"upsampling"}),
        ("check --format j", {"json", "junit"}),
        ("profile --input-format pa", {"parquet"}),
        ("profile --executor da", {"dask"}),
        ("recipe acc", {"accelerate"}),
        ("compare --model llama-3.2", {"llama-3.2-1b", "llama-3.2-3b"}),
        ("explain length_homo", {"length_homogeneity"}),
    ],
)
def test_a_shell_completes_names(typed, expected):
    environment = {
        "_BATCHSTAT_COMPLETE": "complete_bash",
        "COMP_WORDS": f"batchstat {typed}",
        "COMP_CWORD": str(len(typed.split())),
    }
    shown = CliRunner().invoke(app, env=environment, prog_name="batchstat").stdout
    assert set(shown.split()) == expected
