"""Plans against recordings: of Trainers, and of recordings that were written from a plan."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import batchstat
from batchstat.recording.recording import RUN_FILE
from conftest import SAMPLE_DATA, Cli
from written import batch, begin, step, write

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

VALUES = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "args.json"
    path.write_text(json.dumps(VALUES))
    return path


@cache
def corpus() -> batchstat.Profile:
    return batchstat.profile(SAMPLE_DATA / "reviews.csv", text_column="review")


def planned(config: Path, ranks: int = 2, **settings: Any) -> Any:
    return batchstat.preflight(config, corpus(), world_size=ranks, max_length=64, **settings)


def recorded(folder: Path, report: Any, ranks: int = 2) -> Path:
    """A recording of what is planned."""
    folder.mkdir()
    files = []
    for rank in range(ranks):
        basis = report.simulation.basis
        kept = ("seed", "world_size", "max_length", "gradient_accumulation_steps", "batch_size")
        sampler = batchstat.BatchSampler(
            report.samples.profile,
            report.setup.batching.strategy,
            rank=rank,
            epoch=basis.epoch,
            **{key: getattr(basis, key) for key in kept},
        )
        lines = [begin(rank, ranks)]
        for each in sampler.batches():
            lengths = [b - a for a, b in zip(each.starts, each.stops, strict=True)]
            lines.append(batch(each.step, *lengths, width=each.width))
            if each.ends_step:
                lines.append(step(each.step))
        files.append(lines)
    return write(folder, *files)


def test_a_plan_is_equal_to_itself(config, tmp_path):
    report = planned(config)
    folder = recorded(tmp_path / "run", report)
    proof = planned(config, recording=folder).proof
    assert proof.is_equal
    assert proof.batches == proof.equal == report.simulation.row.counts.batches


@pytest.mark.parametrize(
    ("ran", "cause"),
    [
        ({"seed": 3}, "seed 3"),
        ({"epoch": 2}, "epoch 2"),
        ({"ranks": 1}, "world_size 1"),
        ({"max_length": 32}, "max_length 32"),
    ],
)
def test_a_cause_is_found_by_trying(config, tmp_path, ran, cause):
    settings = {"max_length": 64, "ranks": 2, **ran}
    ranks, longest = settings.pop("ranks"), settings.pop("max_length")
    made = batchstat.preflight(config, corpus(), world_size=ranks, max_length=longest, **settings)
    proof = planned(config, recording=recorded(tmp_path / "run", made, ranks)).proof
    assert not proof.is_equal
    assert cause in proof.causes
    assert not proof.hint


def test_the_first_batch_that_differs_is_named(config, tmp_path, cli: Cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = recorded(tmp_path / "run", planned(config))
    path = sorted(folder.glob("*.jsonl"))[1]
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    places = [place for place, line in enumerate(lines) if line["k"] == "batch"]
    changed = lines[places[4]]
    changed["parts"][0]["n"] = [n + 1 for n in changed["parts"][0]["n"]]
    changed["parts"][0]["w"] = [changed["parts"][0]["w"][0] + 1]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = planned(config, recording=folder)
    assert report.proof.equal == 4 * 2 + 2  # of two steps, and of the first rank in the third
    assert report.proof.difference.startswith("batch 11 (step 3, rank 1): sample 1 of ")
    assert not report.proof.causes
    given = ("--text-column", "review", "--world-size", "2", "--max-length", "64", "--no-plots")
    code, shown, _ = cli(
        "preflight", config, SAMPLE_DATA / "reviews.csv", *given, "--recording", folder
    )
    assert code == 0
    assert "proof    10 of " in shown
    assert "no seed, epoch, world size, max_length or packing alone explains it" in shown
    document = json.loads((tmp_path / "batchstat-results/preflight.json").read_text())
    assert document["proof"]["equal"] == 10


def test_arguments_and_the_version_of_the_run_explain_it(config, tmp_path):
    others = tmp_path / "others.json"
    others.write_text(json.dumps({**VALUES, "per_device_train_batch_size": 8, "seed": 5}))
    folder = recorded(tmp_path / "run", planned(others))
    [path, *_] = sorted(folder.glob("*.jsonl"))
    begun, *rest = path.read_text().splitlines()
    trainer = {
        "k": "trainer",
        "version": "4.40.0",
        "kind": "Trainer",
        "framework": "transformers",
        "arguments": json.loads(others.read_text()),
        "arguments_class": "TrainingArguments",
        "world_size": 2,
        "own_loss": [],
        "samples_by_arguments": True,
        "multiple": 1,
        "has_decoder": False,
        "takes_count": True,
    }
    path.write_text("\n".join([begun, json.dumps(trainer), *rest]) + "\n")
    proof = planned(config, recording=folder).proof
    assert proof.causes == ("per_device_train_batch_size 8 and seed 5",)
    trainer["arguments"] = VALUES
    path.write_text("\n".join([begun, json.dumps(trainer), *rest]) + "\n")
    proof = planned(config, recording=folder).proof
    assert not proof.causes
    assert proof.hint.startswith("it ran with transformers 4.40.0, these are the rules of 5.")


def test_a_run_that_ended_early_is_compared_as_far_as_it_went(config, tmp_path):
    folder = recorded(tmp_path / "run", planned(config))
    for path in folder.glob("*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        kept = [line for line in lines if line.get("s", 0) < 3]
        path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    proof = planned(config, recording=folder).proof
    assert (proof.is_equal, proof.batches) == (True, 12)
    assert proof.planned == planned(config).simulation.row.counts.batches


def test_what_is_no_recording(config, tmp_path, cli: Cli):
    (tmp_path / RUN_FILE).write_text("{}")
    given = ("--text-column", "review", "--recording", tmp_path)
    code, _, aside = cli("preflight", config, SAMPLE_DATA / "reviews.csv", *given)
    assert (code, aside.count("\n")) == (3, 1)
    assert "name the folder that batchstat run wrote" in aside


def test_groups_that_are_drawn_without_a_seed_are_the_reason(config, tmp_path):
    config.write_text(json.dumps({**VALUES, "train_sampling_strategy": "group_by_length"}))
    folder = recorded(tmp_path / "run", planned(config, seed=777))
    proof = planned(config, recording=folder).proof
    assert not proof.is_equal
    assert proof.hint.startswith("group_by_length draws without a seed")
