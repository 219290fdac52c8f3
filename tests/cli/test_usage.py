"""Wrong usage: one line on standard error, with the remedy, and exit code 2."""

import json
import shlex

import pytest

from conftest import check_schema
from tables import in_turn

WRONG = {
    "compare --strateg x": "unknown option '--strateg' of batchstat compare: did you mean "
    "'--strategy'?",
    "compare --strateg=x": "unknown option '--strateg' of batchstat compare: did you mean "
    "'--strategy'?",
    "compare --no-plot": "unknown option '--no-plot' of batchstat compare: did you mean "
    "'--no-plots'?",
    "compare --max_padding 5%": "unknown option '--max-padding' of batchstat compare: it is an "
    "option of check and config",
    "compare --xyzzy": "unknown option '--xyzzy' of batchstat compare: run batchstat compare "
    "--help-all for all options",
    "--xyzzy": "unknown option '--xyzzy' of batchstat: run batchstat --help for all options",
    "check --cheks a": "unknown option '--cheks' of batchstat check: did you mean '--check'?",
    "compare -b 8": "unknown option '-b' of batchstat compare: did you mean '--batch-size'?",
    "compar": "unknown command 'compar': did you mean 'compare'? (known: balance, "
    "buckets, calibrate, check, compare, config, explain, init, measure, merge, preflight, "
    "profile, recipe, run)",
    "compare --tokens-per-batch": "--tokens-per-batch has no value: write --tokens-per-batch N",
    "compare -o": "-o has no value: write -o DIR",
    "compare --json=yes": "--json takes no value: write --json alone",
    "compare --tokens-per-batch 16,384": "--tokens-per-batch='16,384': must be a whole number: "
    "write 16384 or 16_384",
    "compare --seed 1.5": "--seed='1.5': must be a whole number",
    "compare --output ''": "--output='': must name a file or folder",
    "compare --strategy ''": "--strategy is empty: give it a value, or remove it",
    "merge": "batchstat merge needs SHARD: run batchstat merge --help for examples",
    "recipe torch train.py x": "unexpected argument 'train.py x': batchstat recipe takes only "
    "FRAMEWORK: remove it",
    "check --order fil": "unknown order 'fil': did you mean 'file'? (known: blocks, file, "
    "shuffled, torch)",
    "compare --current hf": "unknown strategy 'hf': did you mean 'hf-trainer'?",
    "recipe torhc": "unknown framework 'torhc': did you mean 'torch'?",
    "check --format jsno": "unknown format 'jsno': did you mean 'json'?",
}


@pytest.mark.parametrize("typed", WRONG)
def test_wrong_usage_is_one_line_with_a_remedy(run, typed):
    result = run(*shlex.split(typed), COLUMNS="40")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {WRONG[typed]}")
    assert result.stderr.count("\n") == 1


@in_turn("typed", [typed for typed in WRONG if not typed.endswith((" -o", "per-batch"))])
def test_wrong_usage_as_json(run, typed):
    """What standard error has as a line, on standard output in its parts."""
    result = run(*shlex.split(typed), "--json")
    document = json.loads(result.stdout)
    check_schema(document, "error")
    error = document["error"]
    assert (error["id"], error["exit_code"]) == ("option", result.returncode)
    parts = [error["message"], error["remedy"]]
    assert f"error: {': '.join(part for part in parts if part)}\n" == result.stderr


def test_errors_of_the_input_as_json(run, tmp_path):
    for words in (["profile", "no.txt", "--json"], ["compare", "--json"]):
        result = run(*words)
        [error] = json.loads(result.stdout).values()
        assert (error["id"], error["exit_code"], result.returncode) == ("input/missing", 3, 3)
        assert error["message"].startswith("no ")
    (tmp_path / "batchstat.toml").write_text("batch-size = 0\n")
    for words in (["--format", "json"], ["--format=json"], ["--format", "json=a.json"]):
        result = run("check", *words)
        assert result.returncode == 2
        is_shown = words[-1] != "json=a.json"
        assert bool(result.stdout) == is_shown
        if is_shown:
            error = json.loads(result.stdout)["error"]
            assert error["message"] == "batchstat.toml: batch_size=0"
            assert error["remedy"].startswith("must be between 1 and ")


@in_turn(
    "typed",
    [
        "profile gone --json",
        "profile 'gone-*.txt' --json",
        "profile a.txt --tokenizer ./gone --json",
        "profile a.txt --config gone.toml --json",
        "profile chats.jsonl --chat-template gone.jinja --messages-column chat --json",
        "compare a.txt --calibration gone.json --json",
        "compare a.txt --current gone.yaml --json",
        "compare a.txt --sampler weights=gone.json --json",
        "compare --json",
        "preflight gone.yaml --json",
        "measure gone --json",
        "merge gone --json",
        "check --config gone.toml --format json",
    ],
)
def test_what_is_not_there_has_an_id_of_its_own(run, tmp_path, typed):
    """Whatever names it."""
    (tmp_path / "a.txt").write_text("some words\nmore of them\n")
    chat = [{"role": "user", "content": "some words"}]
    (tmp_path / "chats.jsonl").write_text(json.dumps({"chat": chat}) + "\n")
    result = run(*shlex.split(typed))
    assert result.returncode == 3
    assert json.loads(result.stdout)["error"]["id"] == "input/missing", result.stdout


def test_there_is_one_document_where_a_result_cannot_be_written(run, tmp_path):
    (tmp_path / "a.txt").write_text("some words\nmore of them\n")
    (tmp_path / "cut.txt.gz").write_bytes(b"\x1f\x8b\x08\x00")
    for words in (
        ["profile", "a.txt", "--html", "a.txt/page.html"],
        ["profile", "a.txt", "-o", "a.txt"],
        ["compare", "a.txt", "-o", "a.txt"],
        ["profile", "a.txt", "cut.txt.gz", "--shard", "1/1", "-o", "shard"],
    ):
        result = run(*words, "--no-plots", "--json")
        assert result.returncode == 3
        check_schema(json.loads(result.stdout), "error")


def test_the_json_of_a_command_that_trains_is_its_own(run):
    result = run("run", "no.py", "--json")
    assert (result.returncode, result.stdout) == (3, "")


def test_wrong_usage_of_a_process(run_process):
    result = run_process("compare", "--tokens-per-batch", "16,384")
    expected = "error: --tokens-per-batch='16,384': must be a whole number: write 16384 or 16_384\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)


def test_a_name_with_control_characters_is_escaped(run):
    result = run("compare", "--\x1b[31mred")
    assert result.returncode == 2
    assert "\x1b" not in result.stderr
