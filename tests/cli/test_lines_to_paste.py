"""Every line to paste is taken back and simulated: its numbers are those of the row beside it."""

import ast
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batchstat import BatchSampler
from conftest import Cli, write_jsonl
from small_tokenizers import half_slow

NUMBERS = ("total_tokens", "real_tokens", "batches", "steps", "max_batch_tokens")
CORPUS = ("ids.jsonl", "--tokens-column", "ids", "--trained-column", "ids", "--no-plots")
FRAMEWORKS = {"TrainingArguments": "transformers", "SFTConfig": "trl"}
GROUPED = {
    "axolotl": ("group_by_length: true", 64),
    "llama-factory": ("train_sampling_strategy: group_by_length", 8),
}
"""Of trainers whose files are not read, the line that is advised, and to what both pad."""
NEEDED: dict[str, dict[str, Any]] = {"transformers": {}, "trl": {"max_length": 2048}}
SETUPS = [
    (),
    ("--batch-size", 8),
    ("--tokens-per-batch", 700, "--read-ahead", 50, "--seed", 3),
    ("--batch-size", 4, "--model", "hidden=64,layers=2"),
    ("--world-size", 4, "--batch-size", 2),
    ("--world-size", 3, "--remainder", "drop", "--batch-size", 2, "--distribute", "balanced"),
    ("--batch-size", 4, "--pad-to-multiple-of", 64),
    ("--batch-size", 4, "--drop-last", "--order", "file"),
    ("--current", "hf-trainer"),
    ("--current", "hf-trainer:batch_size=2", "--gradient-accumulation-steps", 4),
    ("--current", "hf-trainer", "--world-size", 2, "--max-length", 100),
    ("--current", "fixed:batch_size=8"),
    ("--current", "bucketed:batch_size=8,read_ahead=20"),
    ("--current", "token-budget:tokens_per_batch=900,read_ahead=20"),
    ("--current", "packed:read_ahead=20"),
    ("--current", "trl", "--max-length", 150),
    ("--current", "axolotl:batch_size=4"),
    ("--current", "llama-factory", "--batch-size", 4),
    # An argument that makes the default group was once printed beside this row.
    ("--current", "hf-trainer", "--strategy", "hf-group-by-length:group=128"),
    ("--current", "hf-trainer", "--strategy", "hf-group-by-length:batch_size=2"),
    ("--current", "hf-trainer", "--strategy", "bucketed:read_ahead=60"),
]
FILES = {
    "transformers.json": {"per_device_train_batch_size": 4, "seed": 3},
    "old.yaml": {"per_device_train_batch_size": 4, "evaluation_strategy": "no"},
    "trl.yaml": {"per_device_train_batch_size": 2, "max_length": 150, "num_processes": 2},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lengths = np.random.default_rng(0).lognormal(3.5, 0.9, 300).astype(int).clip(2, 250)
    write_jsonl(tmp_path / "ids.jsonl", [{"ids": [7] * n} for n in lengths.tolist()])
    return tmp_path


def compared(cli: Cli, *arguments: object) -> dict[str, Any]:
    code, out, err = cli("compare", *CORPUS, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def advised(
    cli: Cli, folder: Path, *arguments: object
) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Each change that is advised: its row, the line to paste, and the comparison."""
    code, shown, err = cli("compare", *CORPUS, *arguments)
    assert code == 0, err
    report = json.loads((folder / "batchstat-results/compare.json").read_text())
    choice, rows = report["choice"], {row["label"]: row for row in report["strategies"]}
    found = re.findall(r"^(?:change|or) +(\S+): .*\n {9}(\S.*)$", shown, re.MULTILINE)
    named = [choice["best"]] * (choice["best"] != choice["current"])
    named += [choice["fastest"]] if choice["fastest"] is not None else []
    assert [name for name, _ in found] == named
    for (_, line), label in zip(found, named, strict=True):
        yield rows[label], line, report


def of_recipe(cli: Cli, folder: Path, line: str, world_size: int) -> dict[str, int]:
    """What the sampler does that a recipe prints, on all ranks."""
    code, text, err = cli(*shlex.split(line)[1:])
    assert code == 0, err
    call = text[text.index("sampler = ") : text.index("loader = ")]
    total = batches = 0
    steps = set()
    here = Path.cwd()
    os.chdir(folder)
    try:
        for rank in range(world_size):
            names = {"BatchSampler": BatchSampler, "rank": rank, "world_size": world_size}
            exec(call, names)  # noqa: S102
            for batch in names["sampler"].batches():
                total += len(batch.rows) * batch.width
                batches += 1
                steps.add(batch.step)
    finally:
        os.chdir(here)
    return {"total_tokens": total, "batches": batches, "steps": len(steps)}


def keys_of(line: str) -> tuple[str, dict[str, Any]]:
    """The class or the file that a line is for, and the keys that it sets."""
    if found := re.fullmatch(r"(\w+)\((.*)\)(?:  #.*)?", line):
        call = ast.parse(f"f({found[2]})", mode="eval").body
        assert isinstance(call, ast.Call)
        return found[1], {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    lines, _, file = line.partition(" in ")
    pairs = [pair.split(": ", 1) for pair in re.split(r", (?=[\w\"]+: )", lines)]
    words = {"true": True, "false": False}
    return file, {key.strip('"'): words.get(value, value.strip('"')) for key, value in pairs}


@pytest.mark.parametrize(
    "setup", half_slow(SETUPS), ids=lambda setup: " ".join(map(str, setup)) or "default"
)
def test_a_line_gives_the_numbers_beside_it(cli: Cli, folder: Path, setup: tuple[object, ...]):
    changes = list(advised(cli, folder, *setup))
    for row, line, report in changes:
        basis, now = report["basis"], report["choice"]["current"]
        if line.startswith("batchstat recipe"):
            made = of_recipe(cli, folder, line, basis["world_size"])
            assert made == {key: row[key] for key in made}, line
            again = compared(cli, *shlex.split(line)[2:])["strategies"][-1]
        elif line.startswith("batchstat compare"):
            again = compared(cli, *shlex.split(line)[2:])["strategies"][-1]
        elif grouped := GROUPED.get(now.partition(":")[0]):
            assert line == grouped[0]
            size = next(each for each in report["strategies"] if each["label"] == now)["params"]
            spec = f"hf-group-by-length:batch_size={size['batch_size']}"
            flags = ("--seed", basis["seed"], "--max-length", basis["max_length"])
            padded = ("--current", spec, "--pad-to-multiple-of", grouped[1])
            again = compared(cli, *padded, *flags)["strategies"][0]
        else:
            name, keys = keys_of(line)
            framework = FRAMEWORKS[name]
            current = next(each for each in report["strategies"] if each["label"] == now)
            size = {"per_device_train_batch_size": current["params"]["batch_size"]}
            values = {**NEEDED[framework], **size, **keys}
            (folder / "own.json").write_text(json.dumps(values))
            flags = [word for word in setup if word != "--current"]
            flags = [word for word in flags if word != now]
            flags = flags[: flags.index("--strategy")] if "--strategy" in flags else flags
            flags += ["--seed", basis["seed"], "--max-length", basis["max_length"]]
            again = compared(cli, *flags, "--current", "own.json", "--framework", framework)[
                "strategies"
            ][0]
        assert {key: again[key] for key in NUMBERS} == {key: row[key] for key in NUMBERS}, line
    if "group=128" in str(setup):
        assert all("TrainingArguments" not in line for _, line, _ in changes)


def test_what_is_an_argument_is_printed_as_one(cli: Cli, folder: Path):
    for current, line in (
        ("hf-trainer", 'TrainingArguments(train_sampling_strategy="group_by_length")'),
        ("trl", 'SFTConfig(train_sampling_strategy="group_by_length")'),
        ("axolotl:batch_size=8", "group_by_length: true"),
        ("llama-factory", "train_sampling_strategy: group_by_length"),
    ):
        [(_, pasted, report), *_] = advised(cli, folder, "--current", current)
        assert pasted.startswith(line)
        assert report["choice"]["argument"] == pasted


@pytest.mark.parametrize("name", FILES)
def test_a_line_for_a_file_gives_the_numbers_beside_it(cli: Cli, folder: Path, name: str):
    """What `compare` and `preflight` advise is the same, and the changed file has its numbers."""
    (folder / name).write_text(json.dumps(FILES[name]))
    changes = list(advised(cli, folder, "--current", name))
    code, shown, err = cli("preflight", name, *CORPUS)
    assert code == 0, err
    assert all(f"         {line}\n" in shown for _, line, _ in changes)
    found = json.loads((folder / "batchstat-results/preflight.json").read_text())["changes"]
    rows = [each["strategy"] for each in found if each["role"] != "packed"]
    assert [{key: row[key] for key in NUMBERS} for row in rows] == [
        {key: row[key] for key in NUMBERS} for row, _, _ in changes
    ]
    by_file = [(row, line) for row, line, _ in changes if line.endswith(f" in {name}")]
    assert by_file, changes
    for row, line in by_file:
        _, keys = keys_of(line)
        (folder / name).write_text(json.dumps(FILES[name] | keys))
        again = compared(cli, "--current", name)["strategies"][0]
        assert {key: again[key] for key in NUMBERS} == {key: row[key] for key in NUMBERS}, line
