"""Findings: every warning has a stable id, which is explained, stated everywhere, and ignored."""

import ast
import json
import re
from pathlib import Path

import pytest
import xmlschema

import batchstat
from batchstat.findings import Finding, catalogue
from conftest import ROOT, SAMPLE_DATA, Run
from package_trees import PACKAGE, tree_of

ID = re.compile(r"[a-z]+(-[a-z]+)*/[a-z]+(-[a-z]+)*")


def _sources() -> dict[Path, ast.Module]:
    return {path: tree_of(path) for path in PACKAGE.rglob("*.py")}


def _calls(tree: ast.Module, name: str) -> list[ast.Call]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in found if ast.unparse(call.func) == name]


def _texts_of_module(tree: ast.Module) -> dict[str, str]:
    """The texts that names of a module stand for."""
    return {
        ast.unparse(node.targets[0]): node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
    }


def _id_of(call: ast.Call, names: dict[str, str]) -> str:
    """The id of a finding that is made, which stands in the code."""
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) else names[ast.unparse(first)]


def test_each_id_is_made_somewhere_and_each_that_is_made_is_explained():
    made = {
        _id_of(call, _texts_of_module(tree))
        for tree in _sources().values()
        for call in _calls(tree, "Finding")
    }
    assert made == catalogue().keys()


def test_no_warning_is_without_an_id():
    """All lines that begin with `warning: ` are made of a finding, but for a limit that warns."""
    beginning = {
        path.relative_to(PACKAGE).as_posix()
        for path, tree in _sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith("warning: ")
    }
    assert beginning == {"cli/streams.py", "render/checks/junit.py", "render/printed.py"}
    to_python = {
        ast.unparse(call.args[0])
        for tree in _sources().values()
        for call in _calls(tree, "warnings.warn")
    }
    assert all(text.startswith("str(") for text in to_python), to_python


APPLICABLE = re.compile(
    r"--[a-z]|batchstat [a-z]+|\w+=|\b[a-z]+_[a-z_]+\b|\w\(|(key|keys|flag) that the message names"
)
"""A flag, a command, a key, a name of code or a call."""


def test_every_fix_can_be_applied():
    for name, each in catalogue().items():
        is_nothing = each.fix.startswith("Nothing has to be changed")
        assert is_nothing or APPLICABLE.search(each.fix), (name, each.fix)


def test_the_catalogue_is_prose():
    for name, each in catalogue().items():
        assert ID.fullmatch(name)
        for sentence in (each.what, each.why, each.fix):
            assert sentence[0].isupper() or sentence.startswith(("auto_find", "group_by", "tokens"))
            assert sentence.endswith("."), (name, sentence)
    explained = list(catalogue().values())
    assert len({each.what for each in explained}) == len(explained)


def test_an_id_that_is_in_no_catalogue_is_no_finding():
    with pytest.raises(KeyError):
        Finding("padding/never", "of what")


def test_explain_says_what_why_and_how(run: Run):
    printed = " ".join(run("explain", *catalogue()).stdout.split())
    for name, each in catalogue().items():
        for text in (each.what, each.why, each.fix, f"--ignore {name}", f'ignore = ["{name}"]'):
            assert " ".join(text.split()) in printed
    assert "ranks/unequal-steps" in run("explain").stdout


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Texts of which one is longer than a budget of 4 tokens."""
    path = tmp_path / "corpus.txt"
    path.write_text("one two three four five six\none\ntwo three\nfour\n")
    return path


LONG, OVER, CURRENT = "padding/long-samples", "padding/over-budget", "check/no-current"
CHECK = ("check", "corpus.txt", "--tokens-per-batch", 4, "--max-padding", "90%")


def _ids(lines: str) -> list[str]:
    return re.findall(r"^warning: .* \[(\S+)\]$", lines, re.M)


@pytest.mark.usefixtures("corpus")
def test_ids_are_on_every_output_of_a_check(run: Run, tmp_path: Path):
    files = {name: tmp_path / name for name in ("json", "junit", "markdown", "html", "github")}
    formats = [f"--format={name}={path}" for name, path in files.items()]
    made = run(*CHECK, *formats)
    ids = _ids(made.stderr)
    assert {LONG, OVER, CURRENT} <= set(ids)
    text = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    warnings = json.loads(text["json"])["checks"][0]["warnings"]
    assert [each["id"] for each in warnings] == ids
    assert [f"warning: {each['message']} [{each['id']}]" for each in warnings] == [
        line for line in made.stderr.splitlines() if line.startswith("warning: ")
    ]
    xmlschema.XMLSchema(ROOT / "tests" / "integration" / "junit.xsd").validate(files["junit"])
    assert re.findall(r"^ *(?:<system-out>)?warning: .* \[(\S+)\]$", text["junit"], re.M) == ids
    assert re.findall(r"^- warning: .* \\\[(\S+)\\\]$", text["markdown"], re.M) == ids
    assert re.findall(r"<b>warning</b> .* <code>(\S+)</code>", text["html"]) == ids
    assert re.findall(r"^::warning title=batchstat%3A (\S+)::", text["github"], re.M) == ids


@pytest.mark.usefixtures("corpus")
def test_what_is_ignored_is_nowhere(run: Run, tmp_path: Path):
    path = tmp_path / "out.json"
    made = run(*CHECK, "--format", f"json={path}", "--ignore", LONG, "--ignore", CURRENT)
    assert OVER in _ids(made.stderr)
    assert not {LONG, CURRENT} & set(_ids(made.stderr))
    warnings = json.loads(path.read_text())["checks"][0]["warnings"]
    assert [each["id"] for each in warnings] == _ids(made.stderr)


def test_the_configuration_ignores_for_every_command(run: Run, tmp_path: Path, corpus: Path):
    """Shared, and for one check; also where a command takes nothing else from it."""
    (tmp_path / "batchstat.toml").write_text(
        f'ignore = ["{LONG}", "profile/stale"]\ntokens-per-batch = 4\n'
        f'[checks.all]\ncorpus = "corpus.txt"\nlimits = {{ max-padding = "90%" }}\n'
        f'[checks.less]\ncorpus = "corpus.txt"\nlimits = {{ max-padding = "90%" }}\n'
        f'ignore = ["{CURRENT}", "{OVER}"]\n'
    )
    shared = _ids(run("compare", "corpus.txt", "--no-plots").stderr)
    assert OVER in shared
    assert LONG not in shared
    corpus.write_text("one two\n")
    assert "profile/stale" not in _ids(run("compare", "--no-plots").stderr)
    assert "profile/stale" in _ids(run("compare", "--no-plots", "--no-config").stderr)
    corpus.write_text("one two three four five six\none\n")
    lines = [line for line in run("check").stderr.splitlines() if line.startswith("warning: ")]
    of_all = _ids("\n".join(line for line in lines if line.startswith("warning: all: ")))
    of_less = _ids("\n".join(line for line in lines if line.startswith("warning: less: ")))
    assert LONG not in of_all
    assert LONG in of_less  # a check's own list is in place of the shared one
    assert {CURRENT, OVER} <= set(of_all)
    assert not {CURRENT, OVER} & set(of_less)
    # A flag is in place of both.
    assert _ids(run("check", "--check", "all", "--ignore", OVER).stderr)[0] == CURRENT


@pytest.mark.usefixtures("corpus")
def test_the_report_on_a_trainer_is_silenced_too(run: Run, tmp_path: Path):
    old = '{"per_device_train_batch_size": 2, "group_by_length": true}'
    (tmp_path / "args.json").write_text(old)
    warned = run("preflight", "args.json", "corpus.txt")
    assert {"config/old-key", "order/unseeded-groups", "tokenizer/other"} <= set(
        _ids(warned.stderr)
    )
    (tmp_path / "batchstat.toml").write_text('ignore = "tokenizer/other"\n')
    made = run("preflight", "args.json", "corpus.txt", "--json")
    assert "tokenizer/other" not in _ids(made.stderr)
    assert [each["id"] for each in json.loads(made.stdout)["warnings"]] == _ids(made.stderr)


@pytest.mark.parametrize("place", ["flag", "file"])
def test_an_unknown_id_is_an_error(run: Run, tmp_path: Path, corpus: Path, place: str):
    """Before anything is counted, with the id that was meant."""
    flags = ["--ignore", "ranks/unequal-step"] if place == "flag" else []
    if place == "file":
        (tmp_path / "batchstat.toml").write_text('ignore = ["ranks/unequal-step"]\n')
    corpus.unlink()
    for command in (["compare", "corpus.txt"], ["profile", "corpus.txt"], ["measure"]):
        refused = run(*command, *flags)
        assert refused.returncode == 2
        where = "" if place == "flag" else "batchstat.toml: "
        assert refused.stderr == (
            f"error: {where}unknown finding 'ranks/unequal-step': did you mean "
            "'ranks/unequal-steps'?\n"
        )
    refused = run("run", *flags, "--", "python", "-c", "open('ran', 'w')")
    assert refused.returncode == 2
    assert not (tmp_path / "ran").exists()


def test_the_library_gives_findings(tmp_path: Path):
    """As objects, whose text has the id, and in the words of Python."""
    (tmp_path / "readme.pdf").write_text("not read")
    (tmp_path / "data.txt").write_text("one\n")
    given: list[Finding] = []
    batchstat.profile(tmp_path, on_warning=given.append)
    [finding] = given
    assert isinstance(finding, batchstat.Finding)
    assert finding.id == "corpus/skipped-files"
    assert str(finding) == f"{finding.message} [corpus/skipped-files]"
    with pytest.warns(UserWarning, match=r"readme\.pdf.* \[corpus/skipped-files\]$"):
        batchstat.profile(tmp_path)
    report = batchstat.preflight(SAMPLE_DATA / "sft.yaml")
    assert all(each.id in catalogue() for each in report.warnings)
