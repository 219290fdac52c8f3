"""`preflight` of the configuration of verl's SFT trainer against what verl made: make_verl.py."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from make_verl import configuration
from verl_corpora import save_answering_tokenizer, save_chats

import batchstat
from batchstat.frameworks import CONFIGURATIONS
from conftest import needs

MADE = json.loads((Path(__file__).parent / "verl.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Path:
    needs("transformers")
    return save_answering_tokenizer(tmp_path_factory.mktemp("verl-tokenizer"))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    needs("pyarrow")
    return save_chats(tmp_path_factory.mktemp("verl-corpus"))


def steps_of(report: batchstat.Preflight, rank: int, epoch: int) -> list[list[Any]]:
    """Width, tokens of each sample and trained tokens of each batch, step by step."""
    basis = report.simulation.basis
    settings = {name: getattr(basis, name) for name in batchstat.Settings.__dataclass_fields__}
    sampler = batchstat.BatchSampler(
        report.samples.profile, report.setup.strategy, rank=rank, **settings | {"epoch": epoch}
    )
    made = []
    for batch in sampler.batches():
        held = [stop - start for start, stop in zip(batch.starts, batch.stops, strict=True)]
        made.append([batch.width, held, batch.trained_tokens])
    return made


def written(folder: Path, values: dict[str, Any]) -> Path:
    """A file with keys by their full names in tables."""
    content: dict[str, Any] = {}
    for name, value in values.items():
        *tables, key = name.split(".")
        inside = content
        for table in tables:
            inside = inside.setdefault(table, {})
        inside[key] = value
    path = folder / "config.yaml"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("case", MADE["cases"], ids=lambda case: f"{case['example']}")
def test_its_batches_are_verls(tmp_path, tokenizer, corpus, case):
    config = written(tmp_path, configuration(case["values"], corpus, tokenizer))
    report = batchstat.preflight(config, world_size=case["ranks"])
    assert report.setup.framework == "verl"
    assert len(report.samples.profile) == case["samples"]
    for epoch, ranks in enumerate(case["epochs"]):
        for rank, expected in enumerate(ranks):
            flat = [batch for step in expected for batch in step]
            assert steps_of(report, rank, epoch) == flat
    assert report.steps_per_epoch == case["per_epoch"]
    assert report.warmup_steps == case["warmup"]
    epochs = CONFIGURATIONS["verl"].keys["trainer.total_epochs"].default
    epochs = case["values"].get("trainer.total_epochs", epochs)
    assert report.total_steps == min(case["planned"], epochs * case["per_epoch"])
