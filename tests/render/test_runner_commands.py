"""No text of a corpus is a command to the CI runner that shows what batchstat prints."""

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from batchstat.cli.streams import render
from batchstat.documents.base import to_text
from batchstat.errors import InputError
from batchstat.render.screens.layout import Line, Rows, table
from batchstat.words import without_commands

COMMANDS = [
    "::stop-commands::x",
    " ::error::x",
    "\u00a0::warning::y",
    "##vso[task.complete result=Failed]",
    "a ##[error]x",
    "##teamcity[x]",
    "word " * 20 + "::notice::q",
    "x" * 58 + " ::debug::z",
    "::" * 60,
]


def commands(text: str) -> list[str]:
    """The lines that a runner takes for a command.

    GitHub's trims a line and looks for `::` at its start (ActionCommand.TryParseV2); Azure's looks
    for `##vso[` anywhere in it, as older ones of GitHub do for `##[`.
    """
    found = re.split(r"\r\n|\n|\r", text)
    return [line for line in found if line.strip().startswith("::") or re.search(r"##\w*\[", line)]


@given(st.text(st.sampled_from(":# []vso\n\t\u3000x\x1f\u2028")))
def test_no_line_is_a_command(text):
    assert commands(without_commands(text)) == []
    assert without_commands(without_commands(text)) == without_commands(text)
    assert commands(str(InputError(f"a: {text}"))) == []


@given(st.text(st.sampled_from(':# []vso\\n"x')))
def test_json_means_the_same(text):
    written = to_text({"a": text, "b": [{text: text}]})
    assert commands(written) == []
    assert json.loads(written) == {"a": text, "b": [{text: text}]}


@given(st.text(st.sampled_from(":#[vso x"), min_size=1), st.integers(1, 60))
def test_however_a_screen_is_folded(text, width):
    """Wherever a line breaks, and whichever column the text is in."""
    rows = Rows("name", text)
    rows.add(Text(text), text)
    narrow = table(text, "b")
    narrow.add_row(Text(text), "1")
    for screen in (Line("corpus", text), rows, narrow, Text(text)):
        shown = render(screen, Console(width=width, height=100, color_system=None))
        assert commands(without_commands(shown)) == []


@pytest.mark.skipif(os.name == "nt", reason="its file names have no colon")
def test_what_commands_print(run, tmp_path):
    records = [{"text": "a b", "::y": each} for each in COMMANDS for _ in range(2)]
    corpus = tmp_path / "::error::a.jsonl"
    corpus.write_text(
        "".join(f"{json.dumps(record)}\n" for record in records) + '{"##vso[x]": 1}\n'
    )
    reading = ("--label-column", "::y", "--no-plots", "--on-error", "skip")
    keep = json.dumps(COMMANDS[:4])
    for arguments in (
        ("profile", corpus.name, *reading),
        ("profile", corpus.name, *reading, "--json"),
        ("profile", "::missing"),
        ("balance", "--no-plots"),
        ("compare", "--no-plots", "--keep-labels", keep),
        ("check", "--max-padding", "0.001%", "--format", "markdown"),
        ("recipe", "torch", "--keep-labels", keep),
    ):
        result = run(*arguments, COLUMNS="80")
        assert "Traceback" not in result.stderr
        assert commands(result.stdout) + commands(result.stderr) == [], arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ("profile", ""),
        ("profile", " "),
        ("profile", "a.txt", ""),
        ("profile", "a.txt", "-o", ""),
        ("profile", "a.txt", "--tokenizer", ""),
        ("profile", "a.txt", "--config", ""),
        ("profile", "a.txt", "--count-cache", ""),
        ("compare", "--keep-labels", ""),
    ],
)
def test_an_empty_value_is_an_error(run, tmp_path, arguments):
    """As a variable of a script gives it that is not set; a path would be this folder."""
    (tmp_path / "a.txt").write_text("a b\n")
    result = run(*arguments)
    assert result.returncode == 2
    assert "is empty" in result.stderr or "='': must name a file" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
