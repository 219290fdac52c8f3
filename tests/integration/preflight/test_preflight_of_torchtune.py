"""`preflight` of torchtune's configuration against what its recipes made: see make_torchtune.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from reports import sizes_of

import batchstat
from batchstat.documents.preflight import preflight_document
from batchstat.frameworks.files import read_setup
from conftest import write_jsonl

MADE = json.loads((Path(__file__).parent / "torchtune.json").read_text(encoding="utf-8"))


def save_samples(folder: Path, corpus: str) -> Path:
    """Token ids and labels as torchtune's dataset has them, labels where their tokens are."""
    rows = []
    for runs in MADE["corpora"][corpus]:
        labels = [-100 + 101 * (i % 2) for i, run in enumerate(runs) for _ in range(run)]
        rows.append({"input_ids": [1] * len(labels), "labels": labels})
    return write_jsonl(folder / "samples.jsonl", rows)


def saved(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "torchtune.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def counted(corpus: Path) -> batchstat.Profile:
    return batchstat.profile(corpus, tokens_column="input_ids", trained_column="labels")


@pytest.mark.parametrize(
    "case", MADE["cases"], ids=lambda each: f"{each['example']} {each['ranks']}"
)
def test_its_batches_are_torchtunes(tmp_path, case):
    profile = counted(save_samples(tmp_path, case["corpus"]))
    report = batchstat.preflight(saved(tmp_path, case["values"]), profile, world_size=case["ranks"])
    assert report.setup.framework == "torchtune"
    for epoch, ranks in enumerate(case["epochs"]):
        for rank, expected in enumerate(ranks):
            found = sizes_of(report, rank, epoch)
            assert [each[:2] for each in found] == [each[:2] for each in expected]
            if "split_across_pack=true" not in report.setup.strategy:
                assert found == expected
            # What continues in the next row has its first loss in the row before, not counted here.
            rows = case["values"]["batch_size"]
            assert all(0 <= b[2] - a[2] <= rows for a, b in zip(found, expected, strict=True))
    assert (report.total_steps, report.warmup_steps) == (case["steps"], case["warmup"])
    assert report.steps_per_epoch * case["values"]["epochs"] == case["steps"]


@pytest.mark.parametrize("most", [None, 3, 100])
@pytest.mark.parametrize(("ranks", "accumulation"), [(1, 1), (1, 4), (2, 3), (3, 7)])
def test_leftover_batches_make_no_step(tmp_path, ranks, accumulation, most):
    path = write_jsonl(tmp_path / "ids.jsonl", [{"input_ids": [1] * 9}] * 101)
    profile = batchstat.profile(path, tokens_column="input_ids")
    values = {"batch_size": 2, "epochs": 3, "gradient_accumulation_steps": accumulation}
    config = whole(tmp_path, **values, optimizer_in_bwd=False, max_steps_per_epoch=most)
    report = batchstat.preflight(config, profile, world_size=ranks)
    # Ranks have as many samples, the first ones repeated, and drop an incomplete last batch.
    batches, steps = -(-101 // ranks) // 2, 0
    for number in range(1, batches + 1):
        if number % accumulation == 0 and steps != most:
            steps += 1
    assert (report.steps_per_epoch, report.total_steps) == (steps, 3 * steps)
    schedule = preflight_document(report)["schedule"]
    assert (schedule["steps_per_epoch"], schedule["total_steps"]) == (steps, 3 * steps)


def whole(folder: Path, **changes: Any) -> Path:
    """A published configuration, with changes; those that are None are left out."""
    values = {**MADE["cases"][0]["values"], **changes}
    return saved(folder, {key: value for key, value in values.items() if value is not None})


CHAT = {"_component_": "torchtune.datasets.chat_dataset"}
TEXT = {"_component_": "torchtune.datasets.text_completion_dataset"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_siz": 2}, "unknown key 'batch_siz', which may decide batches: did you mean"),
        ({"dataset": CHAT | {"packd": True}}, "unknown key 'dataset.packd'"),
        ({"batch_size": None}, "has no batch_size, which torchtune needs"),
        ({"batch_size": "${oc.env:SIZE}"}, "batch_size='.*' refers to what is not in this file"),
        ({"tensor_parallel_dim": 2}, "tensor_parallel_dim=2 is not modelled"),
        ({"context_parallel_dim": 2}, "context_parallel_dim=2 is not modelled"),
        ({"collate_fn": "mine.collate"}, "collate_fn='mine.collate': must be one of"),
        ({"dataset": {"_component_": "mine.dataset"}}, "_component_=mine.dataset is not modelled"),
        ({"dataset": CHAT | {"packed": True}}, "packed=true needs tokenizer.max_seq_len"),
        ({"dataset": CHAT | {"split_across_pack": True}}, "split_across_pack=true is only for"),
        ({"dataset": [CHAT, TEXT | {"packed": True}]}, "has several, with packed=True"),
        ({"dataset": [CHAT | {"packd": 1}]}, "dataset has 'packd', which may decide batches"),
        (
            {
                "dataset": CHAT | {"packed": True},
                "tokenizer": {"max_seq_len": 64},
                "shuffle": False,
            },
            "packed=true with shuffle=false is not modelled",
        ),
        (
            {"optimizer_in_bwd": True, "gradient_accumulation_steps": 2},
            "optimizer_in_bwd=true contradicts gradient_accumulation_steps=2",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path, changes, message):
    with pytest.raises(batchstat.OptionError, match=message):
        read_setup(whole(tmp_path, **changes))


def test_a_value_may_refer_to_another_key(tmp_path):
    changes = {"size": 3, "batch_size": "${size}", "epochs": "${tokenizer.max_seq_len}"}
    setup = read_setup(whole(tmp_path, **changes, tokenizer={"max_seq_len": 7}))
    assert (setup.values["batch_size"], setup.values["epochs"]) == (3, 7)
    with pytest.raises(
        batchstat.OptionError, match="batch_size='.*' refers to what is not in this file"
    ):
        read_setup(whole(tmp_path, batch_size="${epochs}", epochs="${batch_size}"))
    with pytest.raises(batchstat.OptionError, match="unknown key 'size'"):
        read_setup(whole(tmp_path, size=3))


def test_texts_are_to_be_passed_as_token_ids(tmp_path):
    with pytest.raises(batchstat.InputError, match="torchtune tokenizes with tokenizers of its"):
        batchstat.preflight(whole(tmp_path))
    profile = counted(save_samples(tmp_path, "alpaca 200"))
    config = whole(tmp_path, tokenizer={"max_seq_len": 150})
    with pytest.raises(batchstat.InputError, match="200 tokens is longer than torchtune makes any"):
        batchstat.preflight(config, profile)
    config = whole(tmp_path, tokenizer={"max_seq_len": 200}, dataset=TEXT)
    with pytest.raises(batchstat.InputError, match=r"longer than torchtune makes any \(199\)"):
        batchstat.preflight(config, profile)
    texts = write_jsonl(tmp_path / "texts.jsonl", [{"text": "some words"}] * 9)
    report = batchstat.preflight(whole(tmp_path), batchstat.profile(texts))
    assert any("counts may differ" in warning.message for warning in report.warnings)


def test_packing_is_a_change_that_is_as_simulated(tmp_path):
    ids = [[1] * (1 + 37 * i % 200) for i in range(2000)]
    rows = [{"input_ids": each, "labels": each} for each in ids]
    profile = counted(write_jsonl(tmp_path / "many.jsonl", rows))
    values = {"tokenizer": {"max_seq_len": 1024}, "batch_size": 2}
    report = batchstat.preflight(whole(tmp_path, **values), profile)
    (change,) = report.changes
    assert change.keys == {"dataset.packed": True}
    packed = {**MADE["cases"][0]["values"]["dataset"], "packed": True}
    again = batchstat.preflight(whole(tmp_path, **values, dataset=packed), profile)
    assert again.simulation.row.counts == change.simulation.row.counts
