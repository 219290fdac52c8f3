"""What `--help` shows is what its declarations say, to the letter."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from batchstat.cli.main import app
from batchstat.parameters import parse_whole
from conftest import SAMPLE_DATA

GROUP: Any = typer.main.get_command(app)


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, *path, name)


COMMANDS = dict(commands(GROUP))


def plain(text: str) -> str:
    """Text without white space and the frames of tables, so that lines may be broken anywhere."""
    return re.sub(r"[\s│╭╮╰╯─]+", "", text)


@pytest.mark.parametrize("width", ["80", "200"])
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_declaration_is_shown_as_it_stands(path, width):
    command = COMMANDS[path]
    said = [command.help]
    said += [part.get_short_help_str(1000) for part in getattr(command, "commands", {}).values()]
    for parameter in command.params:
        flags = (*parameter.opts, *parameter.secondary_opts)
        said += [parameter.help, parameter.metavar, *(flag for flag in flags if flag[0] == "-")]
        if isinstance(parameter.show_default, str):
            said.append(parameter.show_default)
    environment = {"COLUMNS": width, "TERMINAL_WIDTH": width}
    ended = CliRunner().invoke(app, [*path, "--help"], env=environment)
    assert ended.exit_code == 0
    shown = plain(ended.stdout)
    if width == "80":  # where a cell is broken, its other columns stand between
        said = [command.help]
    for text in filter(None, said):
        for paragraph in text.split("\n\n"):
            assert plain(paragraph).replace("\\[", "[") in shown, paragraph


def test_brackets_are_no_markup():
    shown = CliRunner().invoke(app, ["init", "--help"]).stdout
    assert "[tool.batchstat]" in shown
    assert "\\[" not in shown


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
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_whole(written)


def test_numbers_and_flags_on_the_command_line(run):
    lengths = [SAMPLE_DATA / "corpus.txt", "--no_plots"]
    shown = run("compare", *lengths, "--tokens_per_batch", "4k", "--max-length", "1e2").stdout
    assert "at most 4,000 tokens per batch · max_length 100" in shown
    wrong = run("compare", *lengths, "--batch-size", "8.5")
    assert wrong.returncode == 2
    assert "'8.5' is not a whole number" in wrong.stderr
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
