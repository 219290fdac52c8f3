"""What the screen and the file of `preflight` say of samples, order and warm-up."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import batchstat
from batchstat.documents.preflight import preflight_document
from batchstat.render.screens.preflight import preflight_screen
from batchstat.trainers.preflight.report import Preflight
from conftest import write_jsonl

LENGTHS = np.random.default_rng(5).integers(3, 60, 300).tolist()
TRL = {"max_length": 40, "per_device_train_batch_size": 2}


def reported(folder: Path, values: dict[str, Any], **given: Any) -> Preflight:
    path = write_jsonl(folder / "a.jsonl", [{"ids": [1] * n} for n in LENGTHS])
    profile = batchstat.profile(path, tokens_column="ids")
    (folder / "config.yaml").write_text(json.dumps(values))
    return batchstat.preflight(folder / "config.yaml", profile, **given)


def lines_of(report: Preflight) -> dict[str, str]:
    """The lines of the screen by the word before them."""
    console = Console(width=1000, file=(text := StringIO()))
    console.print(preflight_screen(report, lambda change: change.line, "batchstat compare"))
    found = (line.partition(" ") for line in text.getvalue().splitlines())
    return {word: rest.strip() for word, _, rest in found}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (TRL, "order torch, seed 42"),
        ({**TRL, "train_sampling_strategy": "sequential"}, ""),
        ({**TRL, "packing": True}, "packed rows shuffled, seed 42"),
    ],
)
def test_the_basis_does_not_call_shuffled_samples_those_of_the_file(tmp_path, values, said):
    basis = lines_of(reported(tmp_path, values))["basis"]
    assert re.findall(r"order \w+(?:, seed \d+)?|[\w ]*shuffled, seed \d+", basis) == (
        [f" {said}" if "shuffled" in said else said] if said else ["order file"]
    )


@pytest.mark.parametrize("longest", [40, 60])
def test_truncation_is_named_where_there_is_one(tmp_path, longest):
    lines = lines_of(reported(tmp_path, {**TRL, "max_length": longest}))
    assert ("(truncate)" in lines["basis"]) == ("losses" in lines) == (longest == 40)
    assert "truncate" not in lines_of(reported(tmp_path, {**TRL, "max_length": None}))["basis"]


@pytest.mark.parametrize("mode", ["keep_start", "keep_end"])
def test_all_truncated_samples_are_one_number(tmp_path, mode):
    report = reported(tmp_path, {**TRL, "truncation_mode": mode})
    excess = [n - 40 for n in LENGTHS if n > 40]
    samples = preflight_document(report)["samples"]
    assert (samples["truncated"], samples["truncated_tokens"]) == (len(excess), sum(excess))
    share = f"{100 * sum(excess) / sum(LENGTHS):.2f}%"
    said = f"{len(excess)} samples truncated, {share} of the tokens"
    assert lines_of(report)["losses"] == said


def test_dropped_samples_have_a_reason(tmp_path):
    report = reported(tmp_path, {**TRL, "dataloader_drop_last": True}, world_size=4)
    first, *others = lines_of(report)["data"].split(" · ")
    kept = int(re.search(r"([\d,]+) per epoch", first)[1].replace(",", ""))
    dropped = dict(re.fullmatch(r"(\d+) dropped (.+)", each).group(2, 1) for each in others[:1])
    assert dropped == {"with the last batches": str(len(LENGTHS) - kept)}


def test_samples_that_are_too_long_are_dropped_for_that_reason(tmp_path):
    config = {**TRL, "dataloader_drop_last": True}
    report = reported(tmp_path, config, overflow="drop", world_size=4)
    too_long = sum(n > 40 for n in LENGTHS)
    left = (len(LENGTHS) - too_long) % 8
    said = [f"{too_long} dropped longer than max_length", f"{left} dropped with the last batches"]
    assert lines_of(report)["data"].split(" · ")[1:-1] == said
    assert "(drop)" in lines_of(report)["basis"]


@pytest.mark.parametrize(("warmup", "is_too_long"), [(149, False), (150, False), (151, True)])
def test_a_warmup_beyond_the_training_is_a_warning(tmp_path, warmup, is_too_long):
    report = reported(tmp_path, {**TRL, "num_train_epochs": 1, "warmup_steps": warmup})
    assert report.total_steps == 150
    found = [each.message for each in report.warnings if each.id == "schedule/long-warmup"]
    assert len(found) == is_too_long
    assert all("151 steps" in each and "150 steps" in each for each in found)
    nothing = reported(tmp_path, {**TRL, "num_train_epochs": 0, "warmup_steps": 9})
    assert "schedule/long-warmup" not in [each.id for each in nothing.warnings]
    assert "schedule/no-step" in [each.id for each in nothing.warnings]
    assert "schedule/no-step" not in [each.id for each in report.warnings]
