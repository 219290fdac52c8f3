"""Help pages: short ones of the common options, and pages of all that a command declares."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from batchstat.cli.main import app
from tables import in_turn

GROUP: Any = typer.main.get_command(app)


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, *path, name)


COMMANDS = {path: each for path, each in commands(GROUP) if not hasattr(each, "commands")}
GROUPS = {path: each for path, each in commands(GROUP) if hasattr(each, "commands")}


def plain(text: str) -> str:
    """Text without white space, so that lines may be broken anywhere."""
    return re.sub(r"\s+", "", text)


def flags_on(page: str) -> set[str]:
    """The options that a page lists, without those in examples and sentences."""
    found = re.findall(r"^  (?:-\w, )?--(?:\[no-\])?([\w-]+)", page, re.MULTILINE)
    return set(found)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_page_fits_a_screen(run, path):
    page = run(*path, "--help", COLUMNS="80").stdout
    assert len(page.splitlines()) <= 60
    assert max(map(len, page.splitlines())) <= 80
    assert page == run(*path, "-h", COLUMNS="80").stdout


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_last_line_counts_the_options_that_are_not_listed(run, path):
    few, every = (run(*path, flag).stdout for flag in ("--help", "--help-all"))
    hidden = flags_on(every) - flags_on(few) - {"help", "help-all"}
    name = " ".join(("batchstat", *path))
    if hidden:
        plural = "" if len(hidden) == 1 else "s"
        last = f"{len(hidden)} more option{plural}: {name} --help-all"
        assert few.splitlines()[-1] == last
    assert flags_on(few) < flags_on(every)
    assert _introduction(few) == _introduction(every)


def _introduction(page):
    """What stands before the first arguments or options."""
    return re.split(r"^\w+:\n(?=  [-A-Z])", page, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
@in_turn("width", ["20", "80", "200"])
def test_every_declaration_is_shown_as_it_stands(run, path, width):
    command = COMMANDS[path]
    said = [part for part in command.help.split("\n") if part.strip() != "Examples:"]
    for parameter in command.params:
        said += [parameter.help, parameter.metavar]
        said += [
            flag for flag in parameter.opts if flag[:1] == "-" and not parameter.secondary_opts
        ]
        said += [flag.removeprefix("--no-") for flag in parameter.secondary_opts]
        if isinstance(parameter.show_default, str):
            said.append(f"[default: {parameter.show_default}]")
    result = run(*path, "--help-all", COLUMNS=width)
    assert (result.returncode, result.stderr) == (0, "")
    shown = plain(result.stdout)
    for text in filter(None, said):
        assert plain(text) in shown


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: " ".join(path) or "root")
def test_a_group_lists_its_commands(run, path):
    page = run(*path, "--help", COLUMNS="80")
    assert page.returncode == 0
    for name, command in GROUPS[path].commands.items():
        assert re.search(rf"^  {name} +\w", page.stdout, re.MULTILINE)
        assert plain(command.help.partition("\n\n")[0]) in plain(page.stdout)
    alone = run(*path, COLUMNS="80")
    assert (alone.returncode, alone.stdout) == (2, page.stdout)
    assert "COMMAND --help" in page.stdout.splitlines()[-1]


def test_completion_says_that_it_edits_a_file(run):
    assert "edits its start-up file" in " ".join(run("--help").stdout.split())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_examples_are_commented(path):
    examples = COMMANDS[path].help.partition("Examples:\n")[2]
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    assert lines
    for comment, line in zip(lines[::2], lines[1::2], strict=True):
        assert comment.startswith("# ")
        assert line.startswith(f"batchstat {' '.join(path)}")


def test_brackets_are_no_markup(run):
    assert "[tool.batchstat]" in run("init", "--help").stdout


def test_styles_are_for_terminals(run):
    styled = run("compare", "--help", FORCE_COLOR="1", COLUMNS="80").stdout
    assert "\x1b[1mUsage:\x1b[0m" in styled
    page = run("compare", "--help", COLUMNS="80").stdout
    assert re.sub(r"\x1b\[\d*m", "", styled) == page
    for off in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert run("compare", "--help", FORCE_COLOR="1", COLUMNS="80", **off).stdout == page
