"""`preflight` of axolotl's configuration against what axolotl itself made: see make_axolotl.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from axolotl_corpora import save_corpora, save_marked_tokenizer
from make_axolotl import configuration
from reports import sizes_of

import batchstat
from conftest import needs

MADE = json.loads((Path(__file__).parent / "axolotl.json").read_text(encoding="utf-8"))["cases"]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Path:
    needs("transformers")
    return save_marked_tokenizer(tmp_path_factory.mktemp("axolotl"))


@pytest.fixture(scope="session")
def corpora(tmp_path_factory) -> dict[str, Path]:
    return save_corpora(tmp_path_factory.mktemp("axolotl-corpora"))


@pytest.mark.parametrize("case", MADE, ids=lambda case: f"{case['example']} {case['ranks']}")
def test_its_batches_are_axolotls(tmp_path, tokenizer, corpora, case):
    values = configuration(case["values"], case["corpus"], corpora[case["corpus"]], tokenizer)
    config = tmp_path / "axolotl.yaml"
    config.write_text(json.dumps(values))
    report = batchstat.preflight(config, framework="axolotl", world_size=case["ranks"])
    assert len(report.samples.profile) == case["samples"]
    assert report.samples.held_out == case["held_out"]
    for epoch, ranks in enumerate(case["epochs"]):
        for rank, expected in enumerate(ranks):
            assert sizes_of(report, rank, epoch) == expected
    assert (report.total_steps, report.warmup_steps) == (case["steps"], case["warmup"])


def wrong(folder: Path, **values: Any) -> Path:
    path = folder / "axolotl.yaml"
    path.write_text(json.dumps({"base_model": "x", "sequence_len": 64, **values}))
    return path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sample_packin": True}, "unknown key 'sample_packin'"),
        ({"rl": "dpo"}, "rl='dpo' is not modelled: only supervised"),
        ({"streaming": True}, "streaming=True is not modelled"),
        ({"context_parallel_size": 2}, "context_parallel_size=2 is not modelled"),
        ({"plugins": ["mine.Plugin"]}, "plugins has 'mine.Plugin'"),
        ({"val_set_size": 1}, "val_set_size=1 leaves no sample"),
        ({"batch_size": 3}, "batch_size=3 is not micro_batch_size"),
        (
            {"flash_attention": True, "attn_implementation": "sdpa"},
            "attn_implementation contradicts flash_attention",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path, values, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(wrong(tmp_path, **values), framework="axolotl")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "a.jsonl", "type": "alpaca"}, "datasets with type 'alpaca', not read here"),
        ({"path": "who/what", "type": "completion"}, "not local files: pass the files as CORPUS"),
        (
            {"path": "a.jsonl", "type": "chat_template", "chat_template": "llama3"},
            "names chat_template 'llama3', a template of axolotl's own: pass its text",
        ),
        ({"path": "a.jsonl", "type": "chat_template", "roles_to_train": ["user"]}, "not read here"),
    ],
)
def test_a_dataset_that_is_not_read_can_be_passed(tmp_path, entry, message):
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(wrong(tmp_path, datasets=[entry]), framework="axolotl")


def test_longer_samples_are_refused_where_axolotl_splits_or_refuses_them(tmp_path, corpora):
    entry = {"path": str(corpora["text"]), "type": "completion"}
    profile = batchstat.profile(corpora["text"])
    for more, message in (
        ({"datasets": [entry]}, "axolotl splits it before it shuffles"),
        ({"excess_length_strategy": "raise"}, "excess_length_strategy=raise refuses"),
    ):
        config = wrong(tmp_path, **more | {"sequence_len": 16})
        with pytest.raises(batchstat.InputError, match=message):
            batchstat.preflight(config, profile, framework="axolotl")
