"""The skill for agents: it is found, it is short, its examples run, and it is enough: a script of
nothing but its calls answers the questions of the README.
"""

import ast
import csv
import doctest
import json
import os
import re
import runpy
import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import refresh
import tokenizers
import yaml

from batchstat.tokenization.builtin import definition
from conftest import ROOT, SAMPLE_DATA, Run, needs
from examples import in_process, python_in_process
from tables import in_turn

TEXT = refresh.SKILL.read_text(encoding="utf-8")
_, FRONT, BODY = TEXT.split("---\n", 2)
posix = pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")


def test_its_front_matter_says_when_to_use_it():
    """As https://agentskills.io/specification has it, and where library-skills looks for it."""
    front = yaml.safe_load(FRONT)
    assert set(front) == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
    assert front["name"] == refresh.SKILL.parent.name
    assert refresh.SKILL.relative_to(ROOT).parts[:3] == ("batchstat", ".agents", "skills")
    assert front["description"].startswith("Use when ")
    assert len(front["description"]) <= 1024


def test_it_is_short_and_stands_alone():
    lines = TEXT.splitlines()
    assert len(lines) <= 120
    assert [line for line in BODY.splitlines() if len(line) > 120] == []
    assert "](" not in TEXT  # the pages that a link would lead to are not installed


@posix
def test_its_examples_run(tmp_path: Path, run: Run):
    here = {"run_command": in_process(run), "run_python": python_in_process}
    assert refresh.refreshed(TEXT, tmp_path, torch=False, **here) == TEXT


# The try-out: what an agent writes that has read the skill and nothing else.

TRAINING, LENGTHS, BATCHING, SAMPLER, CI = (
    "How much of my command's training is padding, and what do I change?",
    "How long are my texts, and which max_length?",
    "Which batching is faster at my budget, and by how much?",
    "How do I train with it?",
    "How do I keep it in CI?",
)
INIT = "batchstat init --current batchstat-results/run"
CORPUS, SCRIPT = "sample_data/corpus.txt", "train.py"
CORPORA = (CORPUS, "sample_data/reviews.csv")
SPANS = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", BODY, flags=re.DOTALL))
NAMES = {
    name
    for text in (*SPANS, *(example.text for example in refresh.examples(BODY)))
    for name in re.findall(r"[A-Za-z_]\w*", text)
}
"""What is code in the skill."""


def written(questions: Sequence[str], path: str, reads: Mapping[str, str]) -> str:
    """The script that answers questions about one corpus or training script: what the sessions
    below their headings assign, each once, with this path instead of the skill's; and last what is
    read from these results, as JSON.
    """
    lines = ["import json", "import batchstat"]
    for question in questions:
        section = BODY.split(f"\n## {question}\n")[1].split("\n## ")[0]
        [session] = [each.text for each in refresh.examples(section) if each.kind == "pycon"]
        for example in doctest.DocTestParser().get_examples(session):
            line = re.sub(f'"({CORPUS}|{SCRIPT})"', repr(path), example.source.strip())
            if isinstance(ast.parse(line).body[0], ast.Assign) and line not in lines:
                lines.append(line)
    answers = ", ".join(f"{name!r}: {expression}" for name, expression in reads.items())
    return "\n".join([*lines, f"print(json.dumps({{{answers}}}))"])


def calls(script: str) -> list[str]:
    """The calls of batchstat in a script, of methods of its results, too."""
    nodes = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
    found = [ast.unparse(node.func) for node in nodes if isinstance(node.func, ast.Attribute)]
    return [name for name in found if name != "json.dumps"]


ON_CORPUS = {
    "lengths": "[int(length) for length in profile.lengths]",
    "records": "[int(record) for record in profile.records]",
    "mean": "profile.stats.mean",
    "longest": "profile.stats.max",
    "truncation": "[[each.max_length, each.samples, each.tokens] for each in profile.truncation]",
    "suggested": "profile.suggested_max_length",
    "padding now": "comparison.current.counts.padding_ratio",
    "padding of bucketed": "comparison['bucketed'].counts.padding_ratio",
    "padding of token-budget": "comparison['token-budget'].counts.padding_ratio",
    "steps of token-budget": "comparison['token-budget'].counts.steps",
    "change": "star.row.label",
    "line": "star.line",
    "padding then": "star.row.counts.padding_ratio",
    "speed-up": "star.speed_up",
    "batches": "list(sampler)",
    "status": "checked.status",
    "limited": "checked.failures[0].value",
    "remedy": "checked.failures[0].remedy.change",
}
ON_SCRIPT = {
    "padding now": "report.simulation.row.counts.padding_ratio",
    "steps": "report.simulation.row.counts.steps",
    "largest batch": "report.simulation.row.counts.max_batch_tokens",
    "line": "star.line",
    "padding then": "star.row.counts.padding_ratio",
    "steps then": "star.row.counts.steps",
    "speed-up": "star.speed_up",
}


def on_corpus(path: str) -> str:
    return written((LENGTHS, BATCHING, SAMPLER, CI), path, ON_CORPUS)


def on_script() -> str:
    return written((TRAINING,), SCRIPT, ON_SCRIPT)


def test_ten_calls_of_the_skill_answer_all_questions():
    """Of two corpora and a training script; what is called and read stands in the skill."""
    scripts = [*map(on_corpus, CORPORA), on_script()]
    called = [name for script in scripts for name in calls(script)]
    assert len([*called, INIT]) <= 10
    assert INIT in SPANS
    own = {"json", "dumps", "print", "int", "list", "each", "length", "record"}
    for tree in map(ast.parse, scripts):
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert names - own <= NAMES
    questions = re.findall(r"^## (.*\?)$", BODY, re.MULTILINE)
    assert questions == [TRAINING, LENGTHS, BATCHING, SAMPLER, CI]


def texts_of(path: str) -> dict[int, str]:
    """The texts of a corpus of the sample data, by their records."""
    if path.endswith(".csv"):
        with (ROOT / path).open(encoding="utf-8", newline="") as file:
            texts = [row["review"] for row in csv.DictReader(file)]
    else:
        texts = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return {record: text for record, text in enumerate(texts) if text.strip()}


@cache
def counted(path: str) -> dict[int, int]:
    """The tokens of each text of a corpus, by the tokenizers library, one by one."""
    tokenizer = tokenizers.Tokenizer.from_str(definition())
    return {record: len(tokenizer.encode(text).ids) for record, text in texts_of(path).items()}


def cut(lengths: Sequence[int], size: int) -> list[list[int]]:
    return [list(lengths[i : i + size]) for i in range(0, len(lengths), size)]


def padding(batches: Iterable[Sequence[int]]) -> float:
    """The padding ratio of batches of lengths, each padded to its longest."""
    real = total = 0
    for batch in batches:
        width = max(batch)
        for length in batch:
            real += length
            total += width
    return 1 - real / total


def within_budget(lengths: Iterable[int], budget: int) -> list[list[int]]:
    """Longest first, as many in a batch as the budget holds at the width of the first."""
    batches: list[list[int]] = [[]]
    for length in sorted(lengths, reverse=True):
        batch = batches[-1]
        if batch and (len(batch) + 1) * batch[0] > budget:
            batches.append([])
        batches[-1].append(length)
    return batches


@in_turn("path", CORPORA)
def test_a_script_of_the_skill_answers_for_a_corpus(path, tmp_path_factory):
    """Held against plain loops over the lengths."""
    folder = tmp_path_factory.mktemp("corpus")
    shutil.copytree(SAMPLE_DATA, folder / "sample_data")
    answers = json.loads(python_in_process([on_corpus(path)], folder))
    tokens = counted(path)
    lengths = list(tokens.values())

    # How long are the texts, and which max_length?
    assert answers["lengths"] == lengths
    assert answers["records"] == list(tokens)
    assert answers["mean"] == pytest.approx(sum(lengths) / len(lengths))
    assert answers["longest"] == max(lengths)
    enough = []
    for max_length, samples, lost in answers["truncation"]:
        over = [length - max_length for length in lengths if length > max_length]
        assert (samples, lost) == (len(over), sum(over))
        if samples <= 0.01 * len(lengths) and lost <= 0.005 * sum(lengths):
            enough.append(max_length)
    assert answers["suggested"] == min(enough)

    # Which batching is faster at the budget, and by how much? Texts are truncated at 512 tokens.
    trained = [min(length, 512) for length in lengths]
    now, then = answers["padding now"], answers["padding then"]
    # The same tokens in both: what is computed for them is proportional to 1 / (1 - padding).
    assert answers["speed-up"] == pytest.approx((1 - then) / (1 - now))
    assert answers["change"] == "hf-group-by-length"
    assert "train_sampling_strategy" in answers["line"]
    bucketed = cut(sorted(trained, reverse=True), 8)
    assert answers["padding of bucketed"] == pytest.approx(padding(bucketed))
    budgeted = within_budget(trained, 4096)
    assert answers["padding of token-budget"] == pytest.approx(padding(budgeted))
    assert answers["steps of token-budget"] == len(budgeted)

    # How do I train with it?
    batches = answers["batches"]
    assert sorted(record for batch in batches for record in batch) == list(tokens)
    computed = [[min(tokens[record], 512) for record in batch] for batch in batches]
    assert sorted(map(sorted, computed)) == sorted(map(sorted, budgeted))

    # How do I keep it in CI?
    assert now > 0.15
    assert answers["status"] == "fail"
    assert answers["limited"] == now
    assert answers["remedy"] in answers["line"]


def _least_tokens(step: Sequence[Sequence[int]]) -> int:
    """Tokens of the best batches of a step's samples, as many as it has: of all that are cut out of
    these in the sequence of their lengths.
    """
    lengths = sorted((length for batch in step for length in batch), reverse=True)
    cuts = combinations(range(1, len(lengths)), len(step) - 1)
    ends = ([0, *cut, len(lengths)] for cut in cuts)
    return min(sum((b - a) * lengths[a] for a, b in pairwise(edges)) for edges in ends)


@pytest.mark.torch
@posix
def test_a_script_of_the_skill_answers_for_a_training_script(tmp_path, monkeypatch, run: Run):
    """Held against the loader of that script, gone through without batchstat."""
    needs("torch")
    shutil.copytree(SAMPLE_DATA, tmp_path / "sample_data")
    shutil.copy(ROOT / "docs/train.py", tmp_path / SCRIPT)
    answers = json.loads(python_in_process([on_script()], tmp_path))
    started = run(*INIT.split()[1:], cwd=tmp_path)

    rows = _batches_of_the_loader(tmp_path, monkeypatch)
    real = [[sum(row) for row in batch] for batch in rows]
    total = sum(len(row) for batch in rows for row in batch)
    now = answers["padding now"]
    assert now == pytest.approx(1 - sum(map(sum, real)) / total)
    steps = answers["steps"]
    assert steps == -(-len(rows) // 4) == answers["steps then"]
    widest = max(sum(map(len, batch)) for batch in rows)
    assert answers["largest batch"] == widest
    assert answers["line"] == "batchstat run --apply train.py"
    then = sum(_least_tokens(real[first : first + 4]) for first in range(0, len(real), 4))
    assert answers["padding then"] == pytest.approx(1 - sum(map(sum, real)) / then)
    assert answers["speed-up"] == pytest.approx(total / then)

    # How do I keep it in CI?
    assert started.returncode == 0, started.stderr
    limit = tomllib.loads((tmp_path / "batchstat.toml").read_text())["limits"]["max-padding"]
    assert now < float(limit.removesuffix("%")) / 100 < now + 0.01
    steps_in_ci = yaml.safe_load(started.stdout)["jobs"]["padding"]["steps"]
    commands = [step["run"] for step in steps_in_ci if "batchstat " in step.get("run", "")]
    assert [" ".join(command.split()[:2]) for command in commands] == [
        "batchstat run",
        "batchstat check",
    ]


def _batches_of_the_loader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """For each batch of the first epoch, the mask of each row."""
    from transformers import Trainer

    found: list[Any] = []

    def train(trainer: Trainer) -> None:
        found.extend(batch["attention_mask"].tolist() for batch in trainer.get_train_dataloader())

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "train", train)
        patched.chdir(folder)
        runpy.run_path(SCRIPT, run_name="__main__")
    return found
