"""What the documentation shows is what happens, and its reference covers what there is."""

import ast
import os
import re
import subprocess
from pathlib import Path

import make_device
import pytest
import reference_commands
import reference_pages
import refresh
import typer
import yaml

from batchstat.calibration.calibration import save_calibration
from batchstat.cli.main import app
from batchstat.documents.schema import FILES, schema
from batchstat.gate.named_limits import NAMED_LIMITS
from batchstat.planning.algorithms.bucket_edges import RULES
from batchstat.planning.rules import LOSSES
from batchstat.planning.samplers import SAMPLERS
from batchstat.planning.strategies.registry import STRATEGIES
from conftest import ROOT, Run, needs
from examples import in_process, python_in_process
from tables import in_turn

DOCS = [path for path in refresh.PAGES if ROOT / "docs" in path.parents]
posix = pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def by_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def shows_plots(page: str) -> bool:
    """Whether an example needs plots: drawing takes most of the time of a command."""
    return any("plot" in example.text for example in refresh.examples(page))


WITH_TORCH = [
    path
    for path in refresh.PAGES
    if any(example.needs_torch for example in refresh.examples(text_of(path)))
]
WITHOUT_TORCH = [
    path for path in DOCS if path not in WITH_TORCH and refresh.examples(text_of(path))
]


@posix
@pytest.mark.slow
@pytest.mark.parametrize("path", WITHOUT_TORCH, ids=by_name)
def test_the_examples_of_a_page_run(path, tmp_path, run: Run):
    page = text_of(path)
    here = {
        "run_command": in_process(run, draws=shows_plots(page)),
        "run_python": python_in_process,
    }
    assert refresh.refreshed(page, tmp_path, torch=False, **here) == page


@pytest.mark.torch
@posix
@pytest.mark.parametrize("path", WITH_TORCH, ids=by_name)
def test_the_examples_of_a_page_run_with_torch(path, tmp_path, run: Run):
    needs("torch")
    page = text_of(path)
    here = {
        "run_command": in_process(run, draws=shows_plots(page)),
        "run_python": python_in_process,
    }
    assert refresh.refreshed(page, tmp_path, torch=True, **here) == page


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("old\n", "one\ntwo\n", "one\ntwo\n"),
        ("old\n…\n", "one\ntwo\n", "one\n…\n"),
        ("1\n2\n…\n", "one\ntwo\n", "one\ntwo\n"),
    ],
)
def test_a_console_shows_what_is_printed(shown, printed, expected, tmp_path):
    page = f"before\n\n```console\n$ command\n{shown}$ other \\\n  more\n{shown}```\n\nafter\n"
    made = refresh.refreshed(page, tmp_path, torch=False, run_command=lambda *_: printed)
    assert made == page.replace(shown, expected)


def test_a_session_shows_what_is_printed(tmp_path):
    page = "```pycon\n>>> for i in range(2):\n...     print(i)\nold\n>>> 'x' * 3\nold\n```\nafter\n"
    made = refresh.refreshed(page, tmp_path, torch=False)
    shown = ">>> for i in range(2):\n...     print(i)\n0\n1\n>>> 'x' * 3\n'xxx'\n"
    assert made == f"```pycon\n{shown}```\nafter\n"


def test_the_commands_of_a_console_are_told_from_its_output():
    [example] = refresh.examples("```console\n$ one \\\n  more\nprinted\n$ two\n```\n")
    assert list(example.commands()) == [("one \\\n  more", ["printed"]), ("two", [])]


def printed_lines(page: str) -> int:
    """Lines that docs/refresh.py writes: a new column or option must not make a page too long."""
    shown = 0
    for example in refresh.examples(page):
        if example.kind == "console":
            shown += sum(len(printed) for _, printed in example.commands())
        elif example.kind == "pycon":
            lines = example.text.splitlines()
            shown += sum(not line.startswith((">>>", "...")) for line in lines)
    return shown


def test_what_examples_print_does_not_make_a_page_long():
    text = "# a\n\n```console\n$ one\n1\n2\n```\n\n```pycon\n>>> f(\n...   )\n3\n```\n"
    assert printed_lines(text) == 3


@in_turn("path", DOCS)
def test_a_page_is_short_and_its_blocks_are_run_or_say_why_not(path):
    lines = text_of(path).splitlines()
    written = len(lines) - printed_lines(text_of(path))
    assert written < 120, (
        f"{by_name(path)} has {written} lines beside what its examples print: move a section to a "
        "page of its own, named in docs/index.md"
    )
    fences = [i for i, line in enumerate(lines) if line.startswith("```")]
    for first in fences[::2]:
        language = lines[first].removeprefix("```")
        assert language in (
            "console",
            "sh",
            "python",
            "pycon",
            "yaml",
            "toml",
            "bash",
            "text",
            "{toctree}",
        )
        if language in ("bash", "text"):
            assert re.fullmatch(rf"<!-- {language}: \w.* -->", lines[first - 1]), lines[first]


@in_turn("path", refresh.PAGES)
def test_links_lead_somewhere(path):
    generated = reference_pages.pages()
    shown = re.sub("<!--.*?-->|```.*?```", "", text_of(path), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", shown):
        page = (path.parent / target).resolve()
        assert page.exists() or (page.parent.name, page.stem in generated) == ("reference", True)


def test_the_device_of_the_examples_is_made_by_its_script():
    made = save_calibration(make_device.calibration())
    assert text_of(ROOT / "docs/device.json") == made


def test_every_page_is_in_the_contents():
    contents = re.findall(r"^([\w-]+/[\w-]+)$", text_of(ROOT / "docs/index.md"), re.MULTILINE)
    pages = {by_name(path).removeprefix("docs/").removesuffix(".md") for path in DOCS} - {"index"}
    assert sorted(contents) == sorted(pages | {"reference/index"})


def test_every_loss_is_on_the_page_of_weights_with_its_version():
    page = text_of(ROOT / "docs/explanation/token-weights.md").split("| `--loss` |")[1]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*)", page.split("\n## ")[0], re.MULTILINE))
    assert set(rows) == set(LOSSES)
    for name, meaning in LOSSES.items():
        for version in re.findall(r"checked against ([\d.]*\d)", meaning):
            assert version in rows[name]


def test_the_site_is_published_as_the_gate_builds_it():
    workflow = yaml.safe_load(text_of(ROOT / ".github/workflows/docs.yml"))
    steps = workflow["jobs"]["build"]["steps"]
    *_, install, build, upload = (step.get("run", step.get("with")) for step in steps)
    folder = build.split()[-1]
    [gate] = re.findall(r"sphinx-build .*(?= docs )", text_of(ROOT / ".ci/run"))
    assert build.startswith(gate.replace(" -q", ""))
    assert "-W" in gate.split()
    assert folder == upload["path"]
    assert install == 'python -m pip install ".[docs]"'
    assert workflow["permissions"] == {"contents": "read"}


def test_no_generated_page_is_committed():
    listed = ["git", "ls-files", "docs/reference"]
    result = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == ""


COMMANDS = [
    name.removeprefix("batchstat ")
    for name, _ in reference_commands.named(typer.main.get_command(app))
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reference_has_every_flag_of_the_help(command, run: Run):
    page = reference_pages.pages()["commands"]
    section = page.split(f"\n## batchstat {command}\n")[1].split("\n## ")[0]
    shown = run(*command.split(), "--help-all").stdout
    listed = re.findall(r"^  (?:-\w, )?(--[a-z][\w-]*|--\[no-\][\w-]+)", shown, re.MULTILINE)
    flags = {flag.replace("[no-]", "") for flag in listed} - {"--help", "--help-all"}
    assert flags or command == "explain"  # which takes words only
    assert flags <= set(re.findall(r"--[a-z][\w-]*", section))


def test_the_reference_has_all_names():
    pages = reference_pages.pages()
    for name in STRATEGIES:
        assert f"\n### {name}\n" in pages["strategies"]
    for name in SAMPLERS:
        assert f"\n## {name}\n" in pages["samplers"]
    for name in RULES:
        assert f"\n| `{name}` | " in pages["strategies"]
    for name in NAMED_LIMITS:
        assert f"`--{name}" in pages["limits"]
    for name in FILES:
        for key in schema(name)["properties"]:
            assert f"\n| `{key}` | " in pages["json"].split(f"## {name}.json")[1]


def test_the_reference_is_complete_tables():
    for name, page in reference_pages.pages().items():
        tables = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
        for table in tables:
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            assert len(widths) == 1, (name, table)


def test_the_reference_has_the_environment_variables_that_are_read():
    read = set()
    texts = map(text_of, (ROOT / "batchstat").rglob("*.py"))
    for text in (text for text in texts if "os.environ." in text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("os.environ."):
                read.add(ast.literal_eval(node.args[0]))
    assert read
    assert read <= set(reference_pages.ENVIRONMENT)


def test_the_schemas_are_written_beside_the_pages(tmp_path):
    reference_pages.write_pages(tmp_path)
    assert {path.stem for path in (tmp_path / "schemas").iterdir()} == set(FILES)
    assert {path.stem for path in tmp_path.glob("*.md")} == set(reference_pages.pages())
