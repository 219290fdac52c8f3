"""Messages name options as their reader writes them: flags on a command line, else arguments."""

import ast
import inspect
import re

import pytest

import batchstat
from batchstat.words import flags_named, worded
from conftest import ROOT, Run, write_jsonl
from package_trees import tree_of
from tables import in_turn

MESSAGES = {
    "pass --on-error skip to skip such records": 'pass on_error="skip" to skip such records',
    "fix it or pass --no-header": "fix it or pass header=False",
    "lower --max-length, or pass --dtype bfloat16": 'lower max_length, or pass dtype="bfloat16"',
    "--tokens-per-batch 4096 fits": "tokens_per_batch=4096 fits",
    "pass --tokenizer FOLDER": "pass tokenizer=FOLDER",
    "--model and --calibration are mutually exclusive": (
        "model and calibration are mutually exclusive"
    ),
    "pass --scheduler tcp://HOST:8786, as printed": (
        'pass scheduler="tcp://HOST:8786", as printed'
    ),
    "run hf download x --local-dir F and pass --model F": (
        "run hf download x --local-dir F and pass model=F"
    ),
    "models--org--name is damaged": "models--org--name is damaged",
}


@in_turn("text", MESSAGES)
def test_a_message_for_each_reader(text):
    assert worded(text) == worded(worded(text)) == MESSAGES[text]
    with flags_named():
        assert worded(text) == text


def test_no_flag_of_any_message_is_left_or_takes_a_word_for_its_value():
    """Of all texts in the rooms whose functions are called from Python."""
    command = re.compile(r"\b(?:batchstat|hf|pip|python) [a-z](?:(?! and )[^,;:()])*")
    values = set()
    for path in (ROOT / "batchstat").rglob("*.py"):
        if path.relative_to(ROOT).parts[1] in ("cli", "render", "recording", "documents"):
            continue
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.JoinedStr):
                continue
            parts = (each.value if isinstance(each, ast.Constant) else "X" for each in node.values)
            made = command.sub("", worded("".join(map(str, parts))))
            assert not re.search(r"(?<![\w/'\"-])--[a-z]", made), made
            values |= set(re.findall(r'\w="([a-z]+)"', made))
    assert values <= {
        "skip",
        "json",
        "jsonl",
        "csv",
        "tsv",
        "bfloat16",
        "sgd",
        "dask",
        "batches",
        "truncate",
    } | {*("repeat", "samples", "shuffled", "messages", "prompt", "completion", "balanced")}, (
        "a word after a flag that is no value: add it to _NO_VALUES in words.py"
    )


def test_an_error_of_a_command_and_of_its_function(tmp_path, run: Run):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "fine"}, {"text": None}])
    with pytest.raises(batchstat.InputError, match='pass on_error="skip" to skip'):
        batchstat.profile(path)
    assert "pass --on-error skip to skip" in run("profile", path).stderr


def test_a_warning_in_python():
    lengths, settings = [100] * 40, {"tokens_per_batch": 150, "strategies": "static"}
    [warning] = [
        each.message
        for each in batchstat.compare(lengths, **settings).warnings
        if each.id == "padding/batch-of-one"
    ]
    assert "for two, set tokens_per_batch=200" in warning


def test_every_public_function_words_its_errors():
    functions = [getattr(batchstat, name) for name in batchstat.__all__]
    plain = {
        each.__name__
        for each in functions
        if inspect.isfunction(each) and not hasattr(each, "__wrapped__")
    }
    assert plain == {"show"}, "decorate it by arguments_named(); show takes no option"
