"""Plans of configurations and of objects against what their trainers were recorded with."""

import json
from pathlib import Path
from typing import Any

import pytest

import batchstat
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.preflight.corpus import profile_keywords
from conftest import needs

needs("trl")
cases = needs("cases")

pytestmark = pytest.mark.torch

VALUES = {"max_length": 64, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}


@pytest.fixture(autouse=True)
def _made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a configuration, its data and its tokenizer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OWN_LOG", str(tmp_path / "log"))
    cases.tokenizer_of().save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "sft.json").write_text(json.dumps(VALUES))
    lines = [json.dumps({"text": text}) for text in cases.TEXTS]
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")


def trainer(**keys: Any) -> Any:
    return cases.sft(**VALUES | keys)


def recorded(**keys: Any) -> str:
    with batchstat.record("run", dry_run=True):
        trainer(**keys).train()
    return "run"


def planned(**settings: Any) -> Any:
    setup = read_setup(Path("sft.json"))
    corpus = profile_keywords(setup, corpus=["train.jsonl"], tokenizer="tokenizer")
    return batchstat.preflight("sft.json", batchstat.profile(**corpus), **settings)


def test_a_configuration_is_proved():
    report = planned(recording=recorded())
    assert report.proof.is_equal
    assert report.proof.batches == report.simulation.row.counts.batches


@pytest.mark.parametrize(
    ("keys", "settings", "causes"),
    [
        ({"seed": 7}, {}, ["seed 7"]),
        ({}, {"epoch": 1}, ["epoch 0"]),
        ({}, {"world_size": 2}, ["world_size 1"]),
        ({"max_length": 48}, {}, ["max_length 48"]),
        ({"packing": True}, {}, ["packing true"]),
        ({"seed": 7, "max_length": 48}, {}, ["seed 7", "max_length 48"]),
    ],
)
def test_why_a_configuration_differs(keys, settings, causes):
    proof = planned(recording=recorded(**keys), **settings).proof
    assert not proof.is_equal
    assert proof.causes
    for cause in causes:
        assert cause in " ".join(proof.causes)


@pytest.mark.parametrize("keys", [{}, {"packing": True}, {"seed": 7}])
def test_an_object_is_proved(keys):
    assert batchstat.preflight(trainer(**keys), recording=recorded(**keys)).proof.is_equal


def test_why_an_object_differs():
    own = trainer()
    own.data_collator = own.data_collator.inner  # of TRL itself: its rules can be tried
    folder = recorded(seed=7)
    assert "seed 7" in batchstat.preflight(own, recording=folder).proof.causes
    # The batches of another collator are read, and cannot be made again with another seed.
    proof = batchstat.preflight(trainer(), recording=folder).proof
    assert (proof.is_equal, proof.causes) == (False, ())
    assert proof.hint == "it ran with seed 7"


def test_an_object_of_transformers_is_proved():
    with batchstat.record("run", dry_run=True):
        cases.trainer(seed=7).train()
    assert batchstat.preflight(cases.trainer(seed=7), recording="run").proof.is_equal
    assert batchstat.preflight(cases.trainer(), recording="run").proof.hint == "it ran with seed 7"
