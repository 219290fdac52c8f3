"""Wrong usage: one line on standard error, with the remedy, and exit code 2."""

import shlex

import pytest

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


def test_wrong_usage_of_a_process(run_process):
    result = run_process("compare", "--tokens-per-batch", "16,384")
    expected = "error: --tokens-per-batch='16,384': must be a whole number: write 16384 or 16_384\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)


def test_a_name_with_control_characters_is_escaped(run):
    result = run("compare", "--\x1b[31mred")
    assert result.returncode == 2
    assert "\x1b" not in result.stderr
