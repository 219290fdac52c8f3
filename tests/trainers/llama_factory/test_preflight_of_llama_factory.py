"""`preflight` of LLaMA-Factory's arguments: what it makes of them itself, to the integer.

What LLaMA-Factory made is recorded by record_llama_factory.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from llama_factory_cases import CASES, save_data, save_tokenizer, values_of

import batchstat
from conftest import SAMPLE_DATA, needs
from reports import batches_of

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

RECORD = json.loads((Path(__file__).parent / "llama_factory.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    needs("transformers")
    made = tmp_path_factory.mktemp("llama_factory")
    save_tokenizer(made)
    save_data(made, SAMPLE_DATA)
    return made


def test_every_configuration_is_recorded():
    assert len(RECORD["cases"]) == len(CASES) >= 12
    assert RECORD["versions"]["llamafactory"] == "0.9.5"


@pytest.mark.parametrize(
    ("case", "recorded"),
    list(zip(CASES, RECORD["cases"], strict=True)),
    ids=[f"{i}-{example}" for i, (example, _, _) in enumerate(CASES)],
)
def test_its_batches_are_those_of_llama_factory(
    tmp_path, folder, case: tuple[str, dict[str, Any], int], recorded: dict[str, Any]
):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(values_of(case, folder)))
    report = batchstat.preflight(config, framework="llama-factory", world_size=case[2])
    assert report.setup.framework == "llama-factory"
    for rank, theirs in enumerate(recorded["batches"]):
        ours = batches_of(report, rank, with_trained=True)
        assert ours == [tuple(batch) for batch in theirs]
    if not report.setup.config.values()["packing"]:
        assert len(report.samples.profile) == recorded["samples"]
    assert report.total_steps == recorded["steps"]
    assert report.warmup_steps == recorded["warmup"]
